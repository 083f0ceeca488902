//! The recorder of one core: counters and histograms that nobody else touches, rotated each second.

use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::{Consumer, Producer};

use super::gaps::{Gaps, pool};
use super::{Chunk, ClassTally, NONE, Outcome, Phase, Pooled, Second, Settled, Tally, Window};

/// One second's histograms on their way to the writer.
#[derive(Debug)]
pub struct SecondPooled {
    /// Seconds of wall-clock time since the second in which the run began.
    pub second: u64,
    /// The samples.
    pub pooled: Box<Pooled>,
}

/// The reactor's ends of the rings to and from the writer.
#[derive(Debug)]
pub struct RecorderRings {
    /// Finished requests out.
    pub settled: Producer<Settled>,
    /// Their buffers back.
    pub buffers: Consumer<Vec<Chunk>>,
    /// Seconds out.
    pub seconds: Producer<SecondPooled>,
    /// Their memory back.
    pub blanks: Consumer<Box<Pooled>>,
}

/// The writer's ends of the same rings.
#[derive(Debug)]
pub struct WriterRings {
    /// Finished requests in.
    pub settled: Consumer<Settled>,
    /// Their buffers out.
    pub buffers: Producer<Vec<Chunk>>,
    /// Seconds in.
    pub seconds: Consumer<SecondPooled>,
    /// Their memory out.
    pub blanks: Producer<Box<Pooled>>,
}

/// Rings between one reactor and the writer, with room for `capacity` finished requests.
#[must_use]
pub fn rings(capacity: usize) -> (RecorderRings, WriterRings) {
    let (settled, settled_in) = rtrb::RingBuffer::new(capacity);
    let (buffers_out, buffers) = rtrb::RingBuffer::new(capacity);
    let (seconds, seconds_in) = rtrb::RingBuffer::new(64);
    let (mut blanks_out, blanks) = rtrb::RingBuffer::new(64);
    // Two: one is filled while the other is written.
    for _ in 0..2 {
        let _ = blanks_out.push(Box::default());
    }
    let reactor = RecorderRings { settled, buffers, seconds, blanks };
    let writer = WriterRings {
        settled: settled_in,
        buffers: buffers_out,
        seconds: seconds_in,
        blanks: blanks_out,
    };
    (reactor, writer)
}

/// What a recorder needs to know of the run.
#[derive(Debug, Clone)]
pub struct RecorderSetup {
    /// Number of the reactor.
    pub reactor: u32,
    /// The CPU that it runs on.
    pub cpu: usize,
    /// CLOCK_REALTIME at the run's start, ns.
    pub start_realtime_ns: u64,
    /// The measurement window.
    pub window: Arc<Window>,
    /// Finished requests keep their output events.
    pub keep_chunks: bool,
    /// Seed of the draw for resampling.
    pub seed: u64,
    /// Until then all users start; client lag is not judged.
    pub ramp_end: u64,
    /// Classes of requests.
    pub classes: usize,
}

/// Counters and histograms of one core.
pub struct Recorder {
    setup: RecorderSetup,
    tally: Tally,
    pooled: Box<Pooled>,
    second: u64,
    rings: RecorderRings,
    /// Finished requests that the ring had no room for.
    waiting: VecDeque<Settled>,
    gaps: Gaps,
    in_flight: u64,
    sharing: Sharing,
    /// Requests that are over.
    settled: u64,
}

/// Output events that shared a read with another one.
#[derive(Debug, Clone, Copy, Default)]
struct Sharing {
    all: u64,
    /// Those of reads that were looked at.
    judged: u64,
    /// Of these, those that shared a read because we were slow.
    slow: u64,
}

impl Sharing {
    /// The events that shared a read because we were slow, by the share among those looked at.
    fn slow_of_all(self) -> u64 {
        let scaled = u128::from(self.slow) * u128::from(self.all) / u128::from(self.judged.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// One read, for the counters.
#[derive(Debug, Clone, Copy)]
pub struct ReadNote {
    /// When the reactor handled it.
    pub observed: u64,
    /// The client lag, ns; `None` without an acceptable stamp.
    pub lag: Option<u64>,
    /// Output events in it.
    pub outputs: u32,
    /// Of those, events that shared the read.
    pub coalesced: u32,
    /// Whether several output events share it because we were slow; `None` where nobody looked.
    pub slow: Option<bool>,
}

impl Recorder {
    /// A recorder that has counted nothing.
    #[must_use]
    pub fn new(setup: RecorderSetup, rings: RecorderRings) -> Self {
        // One class alone is the whole.
        let classes = if setup.classes > 1 { setup.classes } else { 0 };
        let tally = Tally {
            reactor: setup.reactor,
            cpu: setup.cpu,
            classes: (0..classes).map(|_| ClassTally::default()).collect(),
            ..Tally::default()
        };
        let key = setup.seed ^ u64::from(setup.reactor).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            tally,
            pooled: Box::default(),
            second: 0,
            rings,
            waiting: VecDeque::new(),
            gaps: Gaps::new(key),
            in_flight: 0,
            sharing: Sharing::default(),
            settled: 0,
            setup,
        }
    }

    /// The totals, for what is counted elsewhere.
    pub fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Whether finished requests wait for the writer: no new one may be issued.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the writer has left a quarter of its ring full. Looked at for every 64th request,
    /// since it costs a cache line of the writer's.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        let all = self.rings.settled.buffer().capacity();
        self.settled.is_multiple_of(64) && all - self.rings.settled.slots() > all / 4
    }

    /// One read of response bytes. Called for every read: no allocation.
    #[inline]
    pub fn read(&mut self, note: ReadNote) {
        let tally = &mut self.tally;
        tally.reads += 1;
        tally.output_reads += u64::from(note.outputs > 0);
        tally.output_events += u64::from(note.outputs);
        tally.coalesced_events += u64::from(note.coalesced);
        if note.outputs >= 2 {
            let events = u64::from(note.outputs);
            self.sharing.all += events;
            self.sharing.judged += if note.slow.is_some() { events } else { 0 };
            self.sharing.slow += if note.slow == Some(true) { events } else { 0 };
        }
        if let Some(lag) = note.lag {
            // Into one of the two: both are large, and `Pooled::whole` adds them up.
            let is_judged = note.outputs > 0 && note.observed >= self.setup.ramp_end;
            let pooled = &mut *self.pooled;
            let lags = if is_judged { &mut pooled.lag_output } else { &mut pooled.lag };
            lags.saturating_record(lag);
        } else {
            tally.unstamped_reads += 1;
        }
    }

    /// The schedule placed an arrival at `at`.
    pub fn offered(&mut self, at: u64) {
        self.second_at(at).offered += 1;
    }

    /// An arrival that lies at `at` was dropped.
    pub fn dropped(&mut self, at: u64) {
        self.second_at(at).dropped += 1;
    }

    /// A request's first byte was written at `at`.
    pub fn started(&mut self, at: u64) {
        self.in_flight += 1;
        self.tally.in_flight_max = self.tally.in_flight_max.max(self.in_flight);
        self.second_at(at).started += 1;
    }

    /// A request that was [started](Self::started) is not in flight any more.
    pub fn left(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A request is over: counts it, and hands it to the writer with or without its output events.
    pub fn settle(&mut self, settled: &mut Settled, now: u64, last_coalesced: bool) {
        self.settled += 1;
        self.count(settled, now);
        self.tally.coalesced_last_events += u64::from(last_coalesced);
        if settled.outcome == Outcome::Ok && settled.phase == Phase::Measure {
            let pooled = &mut *self.pooled;
            self.gaps.add(&settled.chunks, &mut pooled.icl, &mut pooled.itl);
            if let Some(class) = self.tally.classes.get_mut(usize::from(settled.class)) {
                pool(&settled.chunks, &mut class.icl, &mut class.itl);
            }
        }
        let mut out = Settled::new(0, 0);
        std::mem::swap(&mut out, settled);
        if self.setup.keep_chunks {
            settled.chunks = self.rings.buffers.pop().unwrap_or_default();
        } else {
            std::mem::swap(&mut settled.chunks, &mut out.chunks);
        }
        self.hand_over(out);
    }

    fn hand_over(&mut self, out: Settled) {
        if !self.waiting.is_empty() {
            self.waiting.push_back(out);
        } else if let Err(rtrb::PushError::Full(out)) = self.rings.settled.push(out) {
            self.tally.recorder_stalls += 1;
            self.waiting.push_back(out);
        }
    }

    /// Gives the writer what it had no room for.
    pub fn flush(&mut self) {
        while let Some(out) = self.waiting.pop_front() {
            if let Err(rtrb::PushError::Full(out)) = self.rings.settled.push(out) {
                self.waiting.push_front(out);
                return;
            }
        }
    }

    fn count(&mut self, settled: &Settled, now: u64) {
        let marks = settled.marks;
        let ended = if marks.done == NONE { now } else { marks.done };
        self.tally.last_end = self.tally.last_end.max(ended);
        let second = self.second_at(ended);
        match settled.outcome {
            Outcome::Ok => second.ok += 1,
            Outcome::Error => second.failed += 1,
            Outcome::Cancelled => second.cancelled += 1,
        }
        if settled.outcome == Outcome::Ok && marks.first_token != NONE {
            second.ttft_sum_ns += marks.first_token.saturating_sub(marks.dispatched);
            second.ttft_count += 1;
        }
        if marks.write_done != NONE {
            let input = settled.usage.and_then(|usage| usage.input_tokens);
            let input = input.unwrap_or(settled.planned_input.unwrap_or(0).into());
            self.second_at(marks.write_done).input_tokens += input;
        }
        // Failed requests never add to token throughput as if they had succeeded.
        if settled.outcome != Outcome::Error {
            self.tokens(settled);
        }
    }

    /// Output tokens by the second in which they arrived, and those inside the window.
    fn tokens(&mut self, settled: &Settled) {
        let mut spread = 0;
        // Events of one read share an arrival, so they are counted together.
        for read in settled.chunks.chunk_by(|one, next| one.arrival == next.arrival) {
            let Some(&Chunk { arrival, .. }) = read.first() else { continue };
            let tokens: u64 = read.iter().map(|chunk| u64::from(chunk.tokens)).sum();
            let second = self.second_at(arrival);
            second.events += read.len() as u64;
            second.output_tokens += tokens;
            spread += tokens;
            if self.setup.window.holds(arrival) {
                self.count_window(settled.class, tokens);
            }
        }
        // What the server counted beyond its events (or in a document) arrived with the end.
        let rest = settled.output_tokens.unwrap_or(0).saturating_sub(spread);
        let end = if settled.marks.last_token == NONE {
            settled.marks.done
        } else {
            settled.marks.last_token
        };
        if rest > 0 && end != NONE {
            self.second_at(end).output_tokens += rest;
            if self.setup.window.holds(end) {
                self.count_window(settled.class, rest);
            }
        }
    }

    fn count_window(&mut self, class: u16, tokens: u64) {
        self.tally.window_output_tokens += tokens;
        if let Some(class) = self.tally.classes.get_mut(usize::from(class)) {
            class.window_output_tokens += tokens;
        }
    }

    /// Ends the current second's histograms if the wall clock has moved on.
    pub fn rotate(&mut self, now: u64) {
        let second = self.second_of(now);
        let in_flight = self.in_flight;
        self.second_at(now).in_flight = in_flight;
        if second == self.second {
            return;
        }
        // Without a blank or room the second grows longer: nothing is lost.
        let Ok(blank) = self.rings.blanks.pop() else { return };
        let pooled = std::mem::replace(&mut self.pooled, blank);
        let full = SecondPooled { second: self.second, pooled };
        if let Err(rtrb::PushError::Full(full)) = self.rings.seconds.push(full) {
            self.pooled = full.pooled;
            return;
        }
        self.second = second;
    }

    /// Ends the recorder: hands over the last second and returns the totals. Requests that still
    /// wait for the writer come with them.
    pub fn finish(&mut self) -> (Tally, SecondPooled, VecDeque<Settled>) {
        self.flush();
        self.tally.client_coalesced_events = self.sharing.slow_of_all();
        (self.tally.gap_requests, self.tally.gap_samples) = self.gaps.take();
        let pooled = std::mem::take(&mut self.pooled);
        let waiting = std::mem::take(&mut self.waiting);
        (std::mem::take(&mut self.tally), SecondPooled { second: self.second, pooled }, waiting)
    }

    /// Mean TTFT is shown as it grows; all else waits for the end.
    #[must_use]
    pub fn seconds(&self) -> &[Second] {
        &self.tally.seconds
    }

    fn second_of(&self, at: u64) -> u64 {
        let into = self.setup.start_realtime_ns % 1_000_000_000;
        (into + at) / 1_000_000_000
    }

    fn second_at(&mut self, at: u64) -> &mut Second {
        let index = usize::try_from(self.second_of(at)).unwrap_or(0);
        if index >= self.tally.seconds.len() {
            let in_flight = self.in_flight;
            self.tally.seconds.resize(index + 1, Second { in_flight, ..Second::default() });
        }
        &mut self.tally.seconds[index]
    }
}
