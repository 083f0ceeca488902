//! What reactors count: histograms of one second, counters of one second, totals of one run.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::NetworkTally;

/// Smallest value that latency histograms tell apart, ns.
pub(super) const LOWEST_NS: u64 = 1;
/// Largest value that latency histograms hold, ns: one hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of latency histograms: a resolution of 0.1 %.
pub(super) const DIGITS: u8 = 3;

/// A latency histogram: 1 ns to 1 h, 3 significant digits.
///
/// # Panics
/// Never: the bounds are constants that the histogram accepts.
#[must_use]
#[expect(clippy::expect_used, reason = "constant bounds, covered by a test")]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS).expect("valid bounds")
}

/// Pooled samples of one reactor in one second, or of any sum of those.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pooled {
    /// Gaps between output events of successful requests of the measured part, ns.
    #[serde(with = "super::encoded")]
    pub icl: Histogram<u64>,
    /// The same divided by the tokens of the later event, one sample per token, ns.
    #[serde(with = "super::encoded")]
    pub itl: Histogram<u64>,
    /// Client lag of every stamped read, ns; until [`whole`](Self::whole) without those of
    /// `lag_output`.
    #[serde(with = "super::encoded")]
    pub lag: Histogram<u64>,
    /// Client lag of reads with output events outside the ramp, ns: the one that is judged.
    #[serde(with = "super::encoded")]
    pub lag_output: Histogram<u64>,
}

impl Default for Pooled {
    fn default() -> Self {
        Self { icl: histogram(), itl: histogram(), lag: histogram(), lag_output: histogram() }
    }
}

impl Pooled {
    /// Adds the samples of `other`.
    pub fn add(&mut self, other: &Self) {
        // All four have the same bounds, so adding cannot fail.
        let _ = self.icl.add(&other.icl);
        let _ = self.itl.add(&other.itl);
        let _ = self.lag.add(&other.lag);
        let _ = self.lag_output.add(&other.lag_output);
    }

    /// The same once nothing more is recorded: `lag` holds every read.
    #[must_use]
    pub fn whole(mut self) -> Self {
        let _ = self.lag.add(&self.lag_output);
        self
    }

    /// Forgets all samples, keeps the memory.
    pub fn clear(&mut self) {
        self.icl.reset();
        self.itl.reset();
        self.lag.reset();
        self.lag_output.reset();
    }
}

/// Counters of one second of wall-clock time, over all reactors or one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Second {
    /// Arrivals that the schedule placed in this second (open loop), or requests taken up.
    pub offered: u64,
    /// Requests whose first byte was written in this second.
    pub started: u64,
    /// Requests that ended well in this second.
    pub ok: u64,
    /// Requests that failed in this second.
    pub failed: u64,
    /// Requests that we ended in this second.
    pub cancelled: u64,
    /// Arrivals dropped in this second.
    pub dropped: u64,
    /// Output events that arrived in this second.
    pub events: u64,
    /// Output tokens that arrived in this second, known when their request has ended.
    pub output_tokens: u64,
    /// Input tokens whose request was completely written in this second.
    pub input_tokens: u64,
    /// Requests in flight at the end of this second (its last known value).
    pub in_flight: u64,
    /// Sum of TTFT of the requests that ended well in this second, ns.
    pub ttft_sum_ns: u64,
    /// Number of requests in that sum.
    pub ttft_count: u64,
}

impl Second {
    /// Adds the counters of another reactor's same second.
    pub fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.started += other.started;
        self.ok += other.ok;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.dropped += other.dropped;
        self.events += other.events;
        self.output_tokens += other.output_tokens;
        self.input_tokens += other.input_tokens;
        self.in_flight += other.in_flight;
        self.ttft_sum_ns += other.ttft_sum_ns;
        self.ttft_count += other.ttft_count;
    }
}

/// The gaps of one request that was drawn for resampling: `(gap in ns, tokens of the later event)`.
pub type GapSample = Vec<(u64, u32)>;

/// What one reactor counted of one class of requests, where there are several.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClassTally {
    /// Arrivals that the schedule placed in the measured part, issued or not.
    pub offered: u64,
    /// Of those, arrivals that were dropped because of `--max-in-flight`.
    pub dropped: u64,
    /// Output tokens that arrived inside the measurement window, whatever became of their request.
    pub window_output_tokens: u64,
    /// Gaps between output events of its successful requests of the measured part, ns.
    #[serde(with = "super::encoded")]
    pub icl: Histogram<u64>,
    /// The same divided by the tokens of the later event, one sample per token, ns.
    #[serde(with = "super::encoded")]
    pub itl: Histogram<u64>,
}

impl Default for ClassTally {
    fn default() -> Self {
        Self { offered: 0, dropped: 0, window_output_tokens: 0, icl: histogram(), itl: histogram() }
    }
}

impl ClassTally {
    /// Adds what another reactor counted of the same class.
    pub fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.dropped += other.dropped;
        self.window_output_tokens += other.window_output_tokens;
        // The same bounds, so adding cannot fail.
        let _ = self.icl.add(&other.icl);
        let _ = self.itl.add(&other.itl);
    }
}

impl Tally {
    /// The schedule placed an arrival of `class` in the measured part.
    pub fn offer(&mut self, class: u16) {
        self.offered += 1;
        if let Some(class) = self.classes.get_mut(usize::from(class)) {
            class.offered += 1;
        }
    }

    /// An arrival of `class` in the measured part was dropped.
    pub fn drop_one(&mut self, class: u16) {
        self.dropped += 1;
        if let Some(class) = self.classes.get_mut(usize::from(class)) {
            class.dropped += 1;
        }
    }
}

/// What one reactor counted over a whole run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Number of the reactor, from 0.
    pub reactor: u32,
    /// The CPU that it was pinned to, as the kernel numbers them.
    pub cpu: usize,
    /// Seconds of wall-clock time since the second in which the run began.
    pub seconds: Vec<Second>,
    /// Arrivals that the schedule placed in the measured part, issued or not.
    pub offered: u64,
    /// Arrivals of the measured part that were dropped because of `--max-in-flight`.
    pub dropped: u64,
    /// Each class, where there are several.
    pub classes: Vec<ClassTally>,
    /// Conversations that were carried out to their end.
    pub sessions_done: u64,
    /// Turns that were not sent, because a turn before them failed or the load ended.
    pub turns_unsent: u64,
    /// Output tokens that arrived inside the measurement window, whatever became of their request.
    pub window_output_tokens: u64,
    /// Requests in flight at once, at most.
    pub in_flight_max: u64,
    /// Reads of response bytes.
    pub reads: u64,
    /// Reads with at least one output event.
    pub output_reads: u64,
    /// Reads without an acceptable kernel stamp (all of them with observed stamps).
    pub unstamped_reads: u64,
    /// Output events that shared a read with another output event or with what followed them.
    pub coalesced_events: u64,
    /// Of those, last events of their stream.
    pub coalesced_last_events: u64,
    /// All output events.
    pub output_events: u64,
    /// Output events that shared a read because this client was slow (estimated by TCP_INFO).
    pub client_coalesced_events: u64,
    /// Connections opened.
    pub connections: u64,
    /// Stale connections that were replaced once, without a failed request.
    pub stale_replaced: u64,
    /// What the kernel said of them.
    pub network: NetworkTally,
    /// TLS handshakes carried out.
    pub handshakes: u64,
    /// Of those, handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Times that a request was due and its body was not there.
    pub feed_starved: u64,
    /// Times that issuing stopped because the writer of records was behind.
    pub recorder_stalls: u64,
    /// Late wake-ups of the pacer, p99, ns; the margin follows it.
    pub wake_late_p99_ns: u64,
    /// CPU time of the thread, ns.
    pub cpu_ns: u64,
    /// CPU time of it that was spent waiting in a spin, ns.
    pub spin_ns: u64,
    /// How long the reactor ran, ns.
    pub wall_ns: u64,
    /// When its last request ended, ns from the run's start.
    pub last_end: u64,
    /// Steps of the wall clock seen during the run.
    pub clock_steps: u64,
    /// Requests drawn at random, with their gaps.
    pub gap_samples: Vec<GapSample>,
    /// Successful requests of the measured part with at least one gap: the samples come from these.
    pub gap_requests: u64,
}
