//! What finished requests alone tell of a run that was cut off: its facts, as far as they go.

use super::gaps::Gaps;
use super::{Chunk, ClassTally, Outcome, Phase, Pooled, Row, Second, Tally};
use crate::measure::{Facts, Request};
use crate::workload::{Warmup, Workload};

const NS_PER_S: u64 = 1_000_000_000;
/// Longer than any run: what a damaged line says beyond that asks for no memory.
const SECONDS_MAX: u64 = 31 * 24 * 3600;

/// The facts of a run, gathered from its rows. What no row tells is left at nothing: the clocks at
/// its start, the reads, the reactors, the host.
#[derive(Debug)]
pub struct Remains {
    tally: Tally,
    pooled: Pooled,
    gaps: Gaps,
    class_gaps: Vec<Gaps>,
    has_chunks: bool,
    /// CLOCK_MONOTONIC and CLOCK_REALTIME at the run's start, ns; 0 where unknown.
    start: (u64, u64),
    /// When the load was to begin, where that is known.
    begin: Option<u64>,
    load_start: Option<u64>,
    measured: Option<(u64, u64)>,
    end: u64,
    /// From when to when each request went on.
    spans: Vec<(u64, u64)>,
}

impl Remains {
    /// None yet, of a run of `workload`.
    #[must_use]
    pub fn new(workload: &Workload) -> Self {
        let classes = if workload.mix.len() > 1 { workload.mix.len() } else { 0 };
        let tally = Tally { classes: vec![ClassTally::default(); classes], ..Tally::default() };
        Self {
            tally,
            pooled: Pooled::default(),
            gaps: Gaps::new(workload.seed),
            class_gaps: (0..classes).map(|_| Gaps::new(workload.seed)).collect(),
            has_chunks: false,
            start: (0, 0),
            begin: None,
            load_start: None,
            measured: None,
            end: 0,
            spans: Vec::new(),
        }
    }

    /// The same, of a run that began when CLOCK_MONOTONIC and CLOCK_REALTIME stood so, ns, and whose load
    /// was to begin at an instant of CLOCK_REALTIME, where anybody said.
    #[must_use]
    pub fn started(self, (monotonic, realtime): (u64, u64), begin_at: Option<u64>) -> Self {
        let begin = begin_at.map(|at| at.saturating_sub(realtime));
        Self { start: (monotonic, realtime), begin, ..self }
    }

    /// Adds a finished request of `workload`.
    pub fn add(&mut self, row: &Row, workload: &Workload) {
        let request = Request::new(row, workload);
        let ended = request.completed().unwrap_or(request.origin);
        self.end = self.end.max(ended);
        self.spans.push((request.origin, ended));
        self.load_start = Some(self.load_start.map_or(request.origin, |at| at.min(request.origin)));
        if row.phase == Phase::Measure {
            let (start, end) = self.measured.unwrap_or((request.origin, ended));
            self.measured = Some((start.min(request.origin), end.max(ended)));
            self.tally.offer(request.class);
        }
        self.tally.connections += u64::from(row.connected.is_some());
        self.count(row, &request, ended);
        self.pool(row, &request);
    }

    /// Whether rows hold their output events.
    #[must_use]
    pub fn has_chunks(&self) -> bool {
        self.has_chunks
    }

    /// Finished requests that went on at once, at most.
    #[must_use]
    pub fn in_flight_max(&self) -> u64 {
        let mut starts: Vec<u64> = self.spans.iter().map(|span| span.0).collect();
        let mut ends: Vec<u64> = self.spans.iter().map(|span| span.1).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        // By its own start: those that began until then, less those that had ended before.
        let at = |(before, start): (usize, &u64)| {
            (before + 1).saturating_sub(ends.partition_point(|end| end <= start)) as u64
        };
        starts.iter().enumerate().map(at).max().unwrap_or(0)
    }

    /// The facts. The measured part ends with the last completion that was seen, or with the time
    /// that `workload` had for it.
    #[must_use]
    pub fn facts(mut self, workload: &Workload) -> Facts {
        (self.tally.gap_requests, self.tally.gap_samples) = self.gaps.take();
        let (first, last) = self.measured.unwrap_or((self.end, self.end));
        let load_start = match (self.begin, self.load_start) {
            (Some(begin), Some(first)) => begin.min(first),
            (begin, first) => begin.or(first).unwrap_or(0),
        };
        // Where the beginning of the load is known, that of the measured part may be.
        let warmup = match workload.stop.warmup {
            Warmup::None => self.begin.map(|_| 0),
            Warmup::Time(length) => self.begin.map(|_| length),
            Warmup::Requests(_) | Warmup::Auto(_) => None,
        };
        let window_start =
            warmup.map_or(first, |length| load_start.saturating_add(length).min(first));
        let planned = workload.stop.duration_ns.map(|length| window_start.saturating_add(length));
        let planned = planned.filter(|&end| end < last);
        self.tally.last_end = self.end;
        Facts {
            start_monotonic_ns: self.start.0,
            start_realtime_ns: self.start.1,
            load_start,
            start_late_ns: 0,
            window_start,
            window_end: planned.unwrap_or(last),
            window_by_requests: planned.is_none(),
            end: self.end,
            interrupted: true,
            driver: "unknown".into(),
            ring: String::new(),
            kernel_stamps: workload.client.stamps == crate::workload::Stamps::Kernel,
            tallies: vec![self.tally],
            pooled: self.pooled,
            host: crate::telemetry::host::Watched::default(),
            resolve_ns: 0,
            ramp_ns: workload.load.ramp_ns(),
            steered: Default::default(),
            ceiling: None,
        }
    }

    /// What happened in which second since the run's start.
    fn count(&mut self, row: &Row, request: &Request, ended: u64) {
        self.second(request.origin).offered += 1;
        if let Some(at) = row.write_start {
            self.second(at).started += 1;
        }
        if let Some(at) = row.write_done {
            self.second(at).input_tokens += request.input_tokens.get().unwrap_or(0);
        }
        let ttft = row.first_token.zip(row.dispatched).map(|(at, from)| at.saturating_sub(from));
        let second = self.second(ended);
        match row.outcome {
            Outcome::Ok => {
                second.ok += 1;
                second.ttft_sum_ns += ttft.unwrap_or(0);
                second.ttft_count += u64::from(ttft.is_some());
            }
            Outcome::Error => second.failed += 1,
            Outcome::Cancelled => second.cancelled += 1,
        }
    }

    /// Gaps and tokens.
    fn pool(&mut self, row: &Row, request: &Request) {
        let class = usize::from(request.class);
        if row.outcome != Outcome::Error && row.phase == Phase::Measure {
            // All of them arrived before the request ended, and so inside the window.
            let tokens = row.output_tokens.unwrap_or(0);
            self.tally.window_output_tokens += tokens;
            if let Some(class) = self.tally.classes.get_mut(class) {
                class.window_output_tokens += tokens;
            }
        }
        let Some(chunks) = &row.chunks else { return };
        self.has_chunks = true;
        if row.outcome != Outcome::Error {
            for &(arrival, tokens) in chunks {
                let second = self.second(arrival);
                second.events += 1;
                second.output_tokens += u64::from(tokens);
            }
        }
        if row.outcome != Outcome::Ok || row.phase != Phase::Measure {
            return;
        }
        let chunk = |&(arrival, tokens): &(u64, u32)| Chunk { arrival, tokens, text_bytes: 0 };
        let chunks: Vec<Chunk> = chunks.iter().map(chunk).collect();
        self.gaps.add(&chunks, &mut self.pooled.icl, &mut self.pooled.itl);
        let of_class = self.tally.classes.get_mut(class).zip(self.class_gaps.get_mut(class));
        if let Some((tally, gaps)) = of_class {
            gaps.add(&chunks, &mut tally.icl, &mut tally.itl);
        }
    }

    fn second(&mut self, at: u64) -> &mut Second {
        let into = self.start.1 % NS_PER_S;
        let index =
            usize::try_from((into.saturating_add(at) / NS_PER_S).min(SECONDS_MAX)).unwrap_or(0);
        if index >= self.tally.seconds.len() {
            self.tally.seconds.resize(index + 1, Second::default());
        }
        &mut self.tally.seconds[index]
    }
}
