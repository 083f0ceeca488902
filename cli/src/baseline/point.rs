//! One load: what it asks of both ends, and what came of it.

use tokclock_engine::measure::{Distribution, Facts, Summary};
use tokclock_engine::record::{Outcome, Row};
use tokclock_sim::Report;

use super::result::{Bounds, Kind, Rung, Simulator};
use crate::config::{ContentOptions, Options};
use crate::values::{CpuList, Span};

/// Input tokens of each prompt: short, so that the feeder is not what is measured.
const INPUT_TOKENS: u32 = 16;
/// How long a request of a paced load takes, about: several fit into a run.
const REQUEST_NS: u64 = 320_000_000;
/// Time to first token of a paced load.
const TTFT_NS: u64 = 20_000_000;
/// What is still in flight at the end of a load may go on for this long.
const DRAIN_NS: u64 = 5_000_000_000;
const NS_PER_S: f64 = 1e9;

/// A closed loop against a simulator of constant times.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) kind: Kind,
    /// Users, each with one stream at a time.
    pub(super) streams: u64,
    /// Whether arrivals are stamped by the kernel.
    pub(super) is_stamped: bool,
    pub(super) ttft_ns: u64,
    /// 0: the simulator sends as fast as it can.
    pub(super) itl_ns: u64,
    pub(super) output_tokens: u32,
    pub(super) events_per_write: u32,
    /// About how long the load lasts.
    pub(super) duration_ns: u64,
    /// Whether each output event is kept, and logged at the other end, so that both can be
    /// compared.
    pub(super) is_witnessed: bool,
}

impl Point {
    /// So many streams with a token every `itl_ns` each.
    pub(super) fn paced(kind: Kind, streams: u64, itl_ns: u64, duration_ns: u64) -> Self {
        let point = Self {
            kind,
            streams,
            is_stamped: true,
            ttft_ns: TTFT_NS,
            itl_ns,
            output_tokens: 0,
            events_per_write: 1,
            duration_ns,
            is_witnessed: true,
        };
        let length = if point.is_small() { REQUEST_NS / 4 } else { REQUEST_NS };
        let tokens = (length / itl_ns.max(1)).clamp(4, 2048);
        Self { output_tokens: u32::try_from(tokens).unwrap_or(u32::MAX), ..point }
    }

    /// Few streams make few requests, so theirs are shorter, and they start sooner.
    fn is_small(&self) -> bool {
        self.streams < 16
    }

    /// 64 streams as fast as the simulator sends, many events in a write, or one in all.
    pub(super) fn flood(kind: Kind, duration_ns: u64) -> Self {
        let (output_tokens, events_per_write) = match kind {
            Kind::Chunks => (512, 64),
            _ => (1, 1),
        };
        Self {
            ttft_ns: 0,
            itl_ns: 0,
            output_tokens,
            events_per_write,
            ..Self::paced(kind, 64, 1, duration_ns)
        }
    }

    /// How long one request takes by the schedule, ns.
    fn request_ns(&self) -> u64 {
        let gaps = u64::from(self.output_tokens.saturating_sub(1));
        self.ttft_ns.saturating_add(self.itl_ns.saturating_mul(gaps))
    }

    /// Output events per second that the schedule asks for, if it has any.
    pub(super) fn asked_chunk_rate(&self) -> Option<f64> {
        if self.itl_ns == 0 {
            return None;
        }
        let chunks = self.streams as f64 * f64::from(self.output_tokens);
        Some(chunks * NS_PER_S / self.request_ns() as f64)
    }

    /// Over how long the users start, ns.
    ///
    /// A few gaps, so that not all requests are written in one of them; stretched by the space between
    /// two users, and a number of gaps that shares no divisor with those spaces, so that each user
    /// has a phase of its own. Users in step make bursts, which only show how long the last one of a
    /// burst waits.
    fn ramp_ns(&self) -> u64 {
        let spaces = self.streams.saturating_sub(1);
        if self.itl_ns == 0 || spaces == 0 {
            return 0;
        }
        // One of three primes divides no number of spaces below their product.
        let primes = if self.is_small() { [3, 5, 7] } else { [19, 17, 13] };
        let gaps = primes.into_iter().find(|gaps| !spaces.is_multiple_of(*gaps)).unwrap_or(1);
        let ramp = u128::from(self.itl_ns * gaps) * u128::from(self.streams) / u128::from(spaces);
        u64::try_from(ramp).unwrap_or(u64::MAX)
    }

    /// The load as options of `run` at `url`, on one reactor on `cpu`.
    pub(super) fn options(&self, url: &str, cpu: usize) -> Options {
        let rounds = (self.duration_ns / self.request_ns().max(1)).max(1);
        let is_paced = self.itl_ns > 0;
        // By requests all users end together; where nobody knows how long one takes, by time.
        let limit = if is_paced { self.duration_ns * 3 } else { self.duration_ns };
        Options {
            url: vec![url.to_owned()],
            model: Some("sim".to_owned()),
            concurrency: Some((self.streams as f64).into()),
            requests: is_paced.then_some(rounds.saturating_mul(self.streams)),
            duration: Some(Span::from_ns(limit.max(1))),
            drain: Some(Span::from_ns(DRAIN_NS)),
            ramp: Some(Span::from_ns(self.ramp_ns())),
            content: ContentOptions {
                isl: Some(INPUT_TOKENS.into()),
                osl: Some(self.output_tokens.into()),
                ..ContentOptions::default()
            },
            stamps: Some(self.stamps().to_owned()),
            chunks: Some(self.is_witnessed),
            seed: Some(1),
            cpus: Some(CpuList(vec![cpu])),
            ..Options::default()
        }
    }

    fn stamps(&self) -> &'static str {
        if self.is_stamped { "kernel" } else { "observed" }
    }

    /// In words, for whoever waits.
    pub(super) fn title(&self) -> String {
        let what = match self.kind {
            Kind::Streams | Kind::Rate => {
                format!("{:.0} chunks/s", self.asked_chunk_rate().unwrap_or(0.0))
            }
            Kind::Chunks => "64 events a write, as fast as they come".to_owned(),
            Kind::Requests => "answers of one token, as fast as they come".to_owned(),
        };
        let streams = if self.streams == 1 { "stream" } else { "streams" };
        format!("{} {streams}, {what}, {} stamps", self.streams, self.stamps())
    }
}

/// What both ends say of a load that was carried out.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) facts: Facts,
    pub(super) rows: Vec<Row>,
    pub(super) simulator: Report,
    pub(super) accuracy: tokclock_engine::measure::AccuracyReport,
}

/// Output events and requests per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Rates {
    pub(super) chunks: Option<f64>,
    pub(super) requests: Option<f64>,
}

/// The rates of the requests that ended well. Output events are counted while all streams were open:
/// `ramp_ns` after the first request and before the last event, where a run is so long and its
/// events were kept.
pub(super) fn rates(rows: &[Row], ramp_ns: u64) -> Rates {
    let ok = || rows.iter().filter(|row| row.outcome == Outcome::Ok);
    let first = ok().filter_map(|row| row.write_start).min();
    let last = ok().filter_map(|row| row.last_token).max();
    let (Some(first), Some(last)) = (first, last) else { return Rates::default() };
    let per_second = |count: u64, ns: u64| ratio(count as f64 * NS_PER_S, ns as f64);
    let requests = per_second(ok().count() as u64, last.saturating_sub(first));
    let (from, to) = (first.saturating_add(ramp_ns), last.saturating_sub(ramp_ns));
    let inside = |at: u64| (from..to).contains(&at);
    let chunks = rows.iter().filter_map(|row| row.chunks.as_ref()).flatten();
    let counted = chunks.filter(|(at, _)| inside(*at)).count() as u64;
    let chunks = if counted > 0 && ramp_ns > 0 {
        per_second(counted, to - from)
    } else {
        let all = ok().map(|row| u64::from(row.events)).sum();
        per_second(all, last.saturating_sub(first))
    };
    Rates { chunks, requests }
}

/// `part / whole`, where that is a number.
pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    let share = part / whole;
    (whole > 0.0 && share.is_finite()).then_some(share)
}

/// A load as a rung of the ladder.
pub(super) fn rung(point: &Point, seen: &Seen, summary: &Summary, bounds: &Bounds) -> Rung {
    let client = &summary.client;
    let reactor = client.reactors.first();
    let tallies = &seen.facts.tallies;
    let events: u64 = tallies.iter().map(|tally| tally.output_events).sum();
    let reads: u64 = tallies.iter().map(|tally| tally.reads).sum();
    let work_ns: u64 = tallies.iter().map(|tally| tally.cpu_ns.saturating_sub(tally.spin_ns)).sum();
    let rates = rates(&seen.rows, point.ramp_ns().saturating_add(point.ttft_ns));
    let asked = point.asked_chunk_rate();
    let per_event = ratio(reads as f64, events as f64);
    let kept_up = asked.map(|asked| {
        rates.chunks.is_some_and(|achieved| achieved >= bounds.achieved_share * asked)
    });
    let lateness = &seen.simulator.lateness;
    let ended =
        |outcome: Outcome| seen.rows.iter().filter(|row| row.outcome == outcome).count() as u64;
    let failed = ended(Outcome::Error);
    Rung {
        kind: point.kind,
        streams: point.streams,
        output_tokens: point.output_tokens,
        events_per_write: point.events_per_write,
        stamps: point.stamps().to_owned(),
        asked_chunk_rate: asked,
        chunk_rate: rates.chunks,
        reads_per_s: rates.chunks.and_then(|chunks| Some(chunks * per_event?)),
        requests_per_s: rates.requests,
        ok: ended(Outcome::Ok),
        failed,
        lag: client.lag_output.clone(),
        cpu_ns_per_chunk: ratio(work_ns as f64, events as f64),
        cpu_ns_per_read: ratio(work_ns as f64, reads as f64),
        busy_share: reactor.and_then(|reactor| reactor.busy_share),
        coalesced_share: client.coalesced_share,
        client_coalesced_share: client.client_coalesced_share,
        unstamped_share: client.unstamped_share,
        steal_share: client.steal_share,
        simulator: Simulator {
            busy_share: seen.simulator.busy_share,
            lateness_count: lateness.count,
            lateness_p50_ns: lateness.p50_ns,
            lateness_p99_ns: lateness.p99_ns,
            lateness_max_ns: lateness.max_ns,
            blocked_sends: seen.simulator.blocked_sends,
            truth_dropped: seen.simulator.truth_dropped,
        },
        is_repeated: false,
        has_steal: client.steal_share.is_some_and(|share| share > bounds.steal_share),
        is_inside: failed == 0
            && within(&seen.accuracy.ttft_error, bounds.ttft_p99_ns)
            && (point.output_tokens < 3 || within(&seen.accuracy.gap_error, bounds.gap_p99_ns)),
        kept_up,
        accuracy: seen.accuracy.clone(),
    }
}

/// Whether there are errors, and their p99 is not above `bound`.
fn within(errors: &Distribution, bound_ns: u64) -> bool {
    errors.percentiles.p99.is_some_and(|p99| p99 <= bound_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_paced_load_asks_for_the_rate_that_its_schedule_has() {
        let point = Point::paced(Kind::Streams, 64, 10 * MS, 2_000 * MS);
        assert_eq!(point.output_tokens, 32);
        // 32 chunks in 20 + 31 × 10 ms, 64 times.
        let asked = point.asked_chunk_rate().unwrap();
        assert!((asked - 64.0 * 32.0 / 0.33).abs() < 1e-6, "{asked}");
        assert_eq!(Point::flood(Kind::Chunks, MS).asked_chunk_rate(), None);
    }

    #[test]
    fn no_two_users_have_the_same_phase() {
        for streams in [2, 4, 8, 64, 256, 1000, 4000] {
            let point = Point::paced(Kind::Streams, streams, 10 * MS, MS);
            let mut phases: Vec<u64> =
                (0..streams).map(|user| user * point.ramp_ns() / streams % point.itl_ns).collect();
            phases.sort_unstable();
            let apart = phases.windows(2).filter(|pair| pair[1] - pair[0] > 1).count() as u64;
            assert!(apart + 2 >= streams, "{streams}: {apart} apart");
        }
    }

    #[test]
    fn a_paced_load_ends_by_its_requests_and_a_flood_by_time() {
        let paced = Point::paced(Kind::Streams, 8, 10 * MS, 1_000 * MS);
        let options = paced.options("http://127.0.0.1:1", 3);
        assert_eq!(options.requests, Some(8 * (1_000 / 90)));
        assert_eq!(options.cpus, Some(CpuList(vec![3])));
        assert_eq!(options.chunks, Some(true));
        let flood = Point { is_witnessed: false, ..Point::flood(Kind::Requests, 500 * MS) };
        let options = flood.options("http://127.0.0.1:1", 0);
        assert_eq!((options.requests, options.chunks), (None, Some(false)));
        assert_eq!(options.duration, Some(Span::from_ns(500 * MS)));
    }

    #[test]
    fn no_request_means_no_rate() {
        assert_eq!(rates(&[], 5), Rates::default());
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(f64::NAN, 1.0), None);
    }
}
