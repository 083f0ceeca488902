//! What a baseline holds, as it is saved.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokclock_engine::measure::{AccuracyReport, Distribution};

/// Names the form of `baseline.json`.
pub(crate) const SCHEMA: &str = "tokclock.baseline/1";

/// What the client costs on one host, and how far its figures can be trusted there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// [`SCHEMA`].
    pub(crate) schema: String,
    /// Whether all of it was measured; false if it was interrupted.
    pub(crate) complete: bool,
    /// The host; its `key` tells it from others.
    pub(crate) host: Value,
    /// Which tokclock.
    pub(crate) tokclock: Build,
    /// When it began, CLOCK_REALTIME, ns.
    pub(crate) taken_realtime_ns: u64,
    /// `io_uring` or `epoll`; empty if nothing was measured.
    pub(crate) driver: String,
    /// The ring's flags; empty on epoll.
    pub(crate) ring: String,
    /// Who ran where.
    pub(crate) placement: Placement,
    /// What "inside" means.
    pub(crate) bounds: Bounds,
    /// Every load that was compared with the simulator's log.
    pub(crate) ladder: Vec<Rung>,
    /// What one reactor sustains.
    pub(crate) ceiling: CeilingReport,
    /// Growth of this process's anonymous memory per open stream, bytes; null if it was not
    /// measured or too small to tell.
    pub(crate) memory_bytes_per_stream: Option<u64>,
    /// What that was computed from.
    pub(crate) memory: Option<Memory>,
    /// What a reader should know.
    pub(crate) notes: Vec<String>,
}

/// Which tokclock it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Build {
    /// Its version.
    pub(crate) version: String,
    /// `release` or `debug`.
    pub(crate) profile: String,
}

impl Build {
    /// This one.
    #[must_use]
    pub(crate) fn this() -> Self {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        Self { version: env!("CARGO_PKG_VERSION").into(), profile: profile.into() }
    }
}

/// Who ran on which CPUs, by the numbers of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    /// The reactor's.
    pub(crate) reactor_cpu: usize,
    /// The simulator's.
    pub(crate) simulator_cpus: Vec<usize>,
    /// Whether both had to share one CPU.
    pub(crate) is_shared: bool,
}

/// Bounds that a load must keep to count as sustained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// p99 of the error of service TTFT, ns.
    pub(crate) ttft_p99_ns: u64,
    /// p99 of the error of gaps, the last of each stream apart, ns.
    pub(crate) gap_p99_ns: u64,
    /// Chunks per second, as a share of those asked for.
    pub(crate) achieved_share: f64,
    /// Share of the CPU time that the hypervisor took, above which a load is repeated once.
    pub(crate) steal_share: f64,
}

/// What a load of the ladder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// More and more streams.
    Streams,
    /// More and more chunks per second on as many streams.
    Rate,
    /// Many chunks in one read, as fast as they come.
    Chunks,
    /// Answers of one token, as fast as they come.
    Requests,
}

/// One load and what was seen of it from both ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rung {
    /// What it is for.
    pub(crate) kind: Kind,
    /// Users of a closed loop, each with one stream at a time.
    pub(crate) streams: u64,
    /// Output tokens of each answer, one to an event.
    pub(crate) output_tokens: u32,
    /// Output events that the simulator puts into one write.
    pub(crate) events_per_write: u32,
    /// `kernel` or `observed`.
    pub(crate) stamps: String,
    /// Output events per second that the schedule of the simulator asks for; null where it sends as
    /// fast as it can.
    pub(crate) asked_chunk_rate: Option<f64>,
    /// Output events per second while all streams were open.
    pub(crate) chunk_rate: Option<f64>,
    /// Reads per second meanwhile.
    pub(crate) reads_per_s: Option<f64>,
    /// Requests per second that ended well.
    pub(crate) requests_per_s: Option<f64>,
    /// Requests that ended well.
    pub(crate) ok: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// How far our marks are from the simulator's.
    #[serde(flatten)]
    pub(crate) accuracy: AccuracyReport,
    /// Client lag over reads with output; without samples where stamps are observed.
    pub(crate) lag: Distribution,
    /// CPU time of the reactor without spinning, per output event, ns.
    pub(crate) cpu_ns_per_chunk: Option<f64>,
    /// The same per read, ns.
    pub(crate) cpu_ns_per_read: Option<f64>,
    /// Time at work, neither waiting nor spinning / time that the reactor ran.
    pub(crate) busy_share: Option<f64>,
    /// Output events that shared a read, the last of their stream apart / all of them.
    pub(crate) coalesced_share: Option<f64>,
    /// The same where this client was slow (an estimate).
    pub(crate) client_coalesced_share: Option<f64>,
    /// Reads without a kernel stamp / all reads.
    pub(crate) unstamped_share: Option<f64>,
    /// Share of the CPU time of this host that the hypervisor took.
    pub(crate) steal_share: Option<f64>,
    /// What the simulator says of itself.
    pub(crate) simulator: Simulator,
    /// It was measured twice: too much steal, or outside the bounds. This is the better one.
    pub(crate) is_repeated: bool,
    /// The steal was above its bound in both.
    pub(crate) has_steal: bool,
    /// Nothing failed, and the errors of TTFT and gaps were inside the bounds.
    pub(crate) is_inside: bool,
    /// As many chunks came as were asked for; null where no rate was asked for.
    pub(crate) kept_up: Option<bool>,
}

/// How well the simulator kept its own schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Simulator {
    /// CPU time at work / time, of its threads.
    pub(crate) busy_share: f64,
    /// Sends that had a due time.
    pub(crate) lateness_count: u64,
    /// Half of them began no later than this after it, ns.
    pub(crate) lateness_p50_ns: u64,
    /// 99 % of them, ns.
    pub(crate) lateness_p99_ns: u64,
    /// The latest, ns.
    pub(crate) lateness_max_ns: u64,
    /// Sends that waited for this client to read.
    pub(crate) blocked_sends: u64,
    /// Requests missing in its log.
    pub(crate) truth_dropped: u64,
}

/// What one reactor sustains with its errors inside the bounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct CeilingReport {
    /// Reads of one output event each, per second: the highest rate of the ladder that was kept.
    pub(crate) reads_per_s: Option<f64>,
    /// Output events per second, many in a read.
    pub(crate) chunks_per_s: Option<f64>,
    /// Requests per second, one output event each.
    pub(crate) requests_per_s: Option<f64>,
    /// What stood in the way of more.
    pub(crate) limited_by: LimitedBy,
    /// The runs of which `chunks_per_s` is the median.
    pub(crate) chunks_runs: Vec<f64>,
    /// The runs of which `requests_per_s` is the median.
    pub(crate) requests_runs: Vec<f64>,
}

/// What stood in the way, per figure; null for one that was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LimitedBy {
    /// Of reads.
    pub(crate) reads: Option<Limit>,
    /// Of chunks.
    pub(crate) chunks: Option<Limit>,
    /// Of requests.
    pub(crate) requests: Option<Limit>,
}

/// What stood in the way of more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// The reactor's CPU was full.
    Client,
    /// The simulator's were: a reactor may do more.
    Server,
    /// Both were.
    Both,
    /// Neither was: a wait in between, or this host itself.
    Neither,
    /// Both ran on one CPU, which they shared.
    Shared,
    /// Nothing up to the highest rate that was tried.
    NotReached,
}

/// Anonymous memory of this process with few and with many open streams, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Open streams of the small run.
    pub(crate) few_streams: u64,
    /// Memory at its peak.
    pub(crate) few_bytes: u64,
    /// Open streams of the large run.
    pub(crate) many_streams: u64,
    /// Memory at its peak.
    pub(crate) many_bytes: u64,
}

impl Memory {
    /// Bytes that each further stream takes; `None` if the memory did not grow.
    #[must_use]
    pub(crate) fn per_stream(&self) -> Option<u64> {
        let streams = self.many_streams.checked_sub(self.few_streams)?;
        let bytes = self.many_bytes.checked_sub(self.few_bytes).filter(|&bytes| bytes > 0)?;
        bytes.checked_div(streams)
    }
}

impl Rung {
    /// Whether this load may be called sustained.
    #[must_use]
    pub(crate) fn is_sustained(&self) -> bool {
        self.is_inside && self.kept_up != Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_further_streams_take() {
        let memory =
            Memory { few_streams: 100, few_bytes: 5_000, many_streams: 300, many_bytes: 25_000 };
        assert_eq!(memory.per_stream(), Some(100));
        assert_eq!(Memory { many_bytes: 5_000, ..memory }.per_stream(), None, "it did not grow");
        assert_eq!(Memory { many_bytes: 4_000, ..memory }.per_stream(), None, "it shrank");
        assert_eq!(Memory { many_streams: 100, ..memory }.per_stream(), None);
    }
}
