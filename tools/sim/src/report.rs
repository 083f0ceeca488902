//! What a server says about itself when it stops.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::faults::Faults;

/// What a simulated server did, and how well it kept its own schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Requests to generate that were read and accepted.
    pub requests: u64,
    /// Answers sent whole, streams and others; also those with a fault that leaves them whole.
    pub completed: u64,
    /// Requests whose client went away before the answer was whole.
    pub aborted: u64,
    /// Requests whose answer a fault broke off or replaced.
    pub broken: u64,
    /// Requests that the serving model refused.
    #[serde(default)]
    pub refused: u64,
    /// How often the serving model preempted a request.
    #[serde(default)]
    pub preemptions: u64,
    /// How many requests each fault met that the server was told to have (`refuse`: how many
    /// connections).
    pub faults: BTreeMap<Fault, u64>,
    /// Output tokens sent.
    pub tokens: u64,
    /// The most requests served at once.
    pub peak_in_flight: u32,
    /// The most requests that waited at once.
    pub peak_waiting: u32,
    /// Completed answers per second between the first request read and the last answer sent; 0
    /// if none was completed.
    pub requests_per_second: f64,
    /// How late sends of output events began against the schedule.
    pub lateness: Lateness,
    /// CPU time of its threads at work, waiting for the next event that is due apart, as a share
    /// of the time between the first request read and the last answer sent; 0 if none was sent.
    #[serde(default)]
    pub busy_share: f64,
    /// Sends that found the socket full and had to wait for the client.
    pub blocked_sends: u64,
    /// Connections closed at once because no descriptor was left.
    pub refused_connections: u64,
    /// Requests missing in the truth log because it could not keep up.
    pub truth_dropped: u64,
    /// Why the truth log ended early, if it did.
    pub truth_error: Option<String>,
    /// Faults of the server itself that were contained.
    pub internal_errors: u64,
    /// How the threads wait: an io_uring with its flags, or epoll.
    pub driver: String,
}

/// A distribution of lateness in ns, over sends that did not wait for the client. Events that
/// no time separates (zero `itl`) count with the first of their request only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Sends counted.
    pub count: u64,
    /// Half began no later than this.
    pub p50_ns: u64,
    /// 99 % began no later than this.
    pub p99_ns: u64,
    /// The latest.
    pub max_ns: u64,
}

/// One thread's part of the report.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) completed: u64,
    pub(crate) aborted: u64,
    pub(crate) broken: u64,
    pub(crate) faults: BTreeMap<Fault, u64>,
    pub(crate) tokens: u64,
    pub(crate) blocked_sends: u64,
    pub(crate) refused_connections: u64,
    pub(crate) internal_errors: u64,
    pub(crate) first_read_ns: u64,
    pub(crate) last_done_ns: u64,
    /// Reads of request bytes.
    pub(crate) reads: u64,
    /// Serving threads.
    pub(crate) threads: u64,
    /// CPU time of theirs.
    pub(crate) cpu_ns: u64,
    spin_ns: u64,
    lateness: Option<Histogram<u64>>,
}

impl Tally {
    /// All zero.
    pub(crate) fn new() -> Self {
        Self {
            completed: 0,
            aborted: 0,
            broken: 0,
            faults: BTreeMap::new(),
            tokens: 0,
            blocked_sends: 0,
            refused_connections: 0,
            internal_errors: 0,
            first_read_ns: u64::MAX,
            last_done_ns: 0,
            reads: 0,
            threads: 0,
            cpu_ns: 0,
            spin_ns: 0,
            // 1 ns to 1 h at 0.1 %; these bounds are valid, so there always is one.
            lateness: Histogram::new_with_bounds(1, 3_600_000_000_000, 3).ok(),
        }
    }

    /// A send began `late_ns` after it was due.
    pub(crate) fn late(&mut self, late_ns: u64) {
        if let Some(lateness) = &mut self.lateness {
            lateness.saturating_record(late_ns);
        }
    }

    /// The thread waited `ns` awake for an event to become due. If `reads` have grown since it
    /// began, it did something meanwhile, and all of it counts as work.
    ///
    /// One such step takes about a microsecond. What is far longer was another process's turn, which
    /// is no CPU time of this thread.
    pub(crate) fn waited(&mut self, ns: u64, reads: u64) {
        const STEP_NS_MAX: u64 = 20_000;
        if reads == self.reads {
            self.spin_ns += ns.min(STEP_NS_MAX);
        }
    }

    /// A fault met a request or a connection.
    pub(crate) fn met(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Names those faults too that met nobody.
    pub(crate) fn expect(&mut self, faults: &Faults) {
        for rate in faults.rates() {
            self.faults.entry(rate.fault).or_default();
        }
    }

    /// Adds another thread's part.
    pub(crate) fn add(&mut self, other: &Self) {
        self.completed += other.completed;
        self.aborted += other.aborted;
        self.broken += other.broken;
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        self.tokens += other.tokens;
        self.blocked_sends += other.blocked_sends;
        self.refused_connections += other.refused_connections;
        self.internal_errors += other.internal_errors;
        self.first_read_ns = self.first_read_ns.min(other.first_read_ns);
        self.last_done_ns = self.last_done_ns.max(other.last_done_ns);
        self.reads += other.reads;
        self.threads += other.threads;
        self.cpu_ns += other.cpu_ns;
        self.spin_ns += other.spin_ns;
        if let (Some(mine), Some(theirs)) = (&mut self.lateness, &other.lateness) {
            // Same bounds, so it cannot fail.
            let _ = mine.add(theirs);
        }
    }

    /// The part of the report that comes from the threads.
    pub(crate) fn report(&self) -> Report {
        let span_ns = self.last_done_ns.saturating_sub(self.first_read_ns);
        let requests_per_second =
            if span_ns == 0 { 0.0 } else { self.completed as f64 * 1e9 / span_ns as f64 };
        let offered_ns = span_ns.saturating_mul(self.threads);
        let worked_ns = self.cpu_ns.saturating_sub(self.spin_ns);
        let busy_share =
            if offered_ns == 0 { 0.0 } else { (worked_ns as f64 / offered_ns as f64).min(1.0) };
        Report {
            completed: self.completed,
            busy_share,
            aborted: self.aborted,
            broken: self.broken,
            faults: self.faults.clone(),
            tokens: self.tokens,
            requests_per_second,
            lateness: self.lateness.as_ref().map(summary).unwrap_or_default(),
            blocked_sends: self.blocked_sends,
            refused_connections: self.refused_connections,
            internal_errors: self.internal_errors,
            ..Report::default()
        }
    }
}

fn summary(lateness: &Histogram<u64>) -> Lateness {
    if lateness.is_empty() {
        return Lateness::default();
    }
    Lateness {
        count: lateness.len(),
        p50_ns: lateness.value_at_quantile(0.5),
        p99_ns: lateness.value_at_quantile(0.99),
        max_ns: lateness.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_done_is_zero_and_not_nan() {
        assert_eq!(Tally::new().report(), Report::default());
    }

    #[test]
    fn threads_add_up() {
        let mut one =
            Tally { completed: 3, first_read_ns: 1_000, last_done_ns: 5_000, ..Tally::new() };
        let mut two =
            Tally { completed: 1, first_read_ns: 3_000, last_done_ns: 9_000, ..Tally::new() };
        one.met(Fault::Pings);
        two.met(Fault::Pings);
        one.expect(&"pings=1% empty=1%".parse().unwrap());
        one.late(1_000);
        two.late(9_000);
        one.add(&two);
        // 3.2 of the 16 µs that two threads had between 1 and 9 µs.
        one.threads = 2;
        one.cpu_ns = 4_000;
        one.waited(800, 0);
        one.reads += 1;
        one.waited(1_000, 0);
        let report = one.report();
        assert_eq!(report.completed, 4);
        assert_eq!(report.faults, BTreeMap::from([(Fault::Pings, 2), (Fault::Empty, 0)]));
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains(r#""pings":2"#));
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        assert_eq!(report.requests_per_second, 500_000.0);
        assert_eq!(report.busy_share, 0.2);
        assert_eq!(report.lateness.count, 2);
        assert!(report.lateness.max_ns.abs_diff(9_000) < 9);
    }
}
