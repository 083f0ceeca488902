//! What a summary says of the hosts that sent one load together, and of how their results became one.

use serde::{Deserialize, Serialize};

use super::{Health, Summary};

/// One host of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Which part of the load it sent, from 0.
    pub shard: u32,
    /// Its name; null if it has none.
    pub name: Option<String>,
    /// Whether it came to its end.
    pub state: HostState,
    /// Number of its first reactor among those of `client.reactors`.
    pub first_reactor: u32,
    /// How many it had; 0 where that is not known.
    pub reactors: u32,
    /// `io_uring` or `epoll`; `unknown` of a host that was cut off.
    pub driver: String,
    /// Requests of its measured part that ended well.
    pub ok: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that we ended.
    pub cancelled: u64,
    /// Requests per second over its own window.
    pub rps: Option<f64>,
    /// Output tokens per second over its own window.
    pub output_tps: Option<f64>,
    /// Client lag of its reads with output events, ns.
    pub lag_p50: Option<u64>,
    /// Its 99th percentile, ns.
    pub lag_p99: Option<u64>,
    /// Its own verdict on its client.
    pub verdict: Health,
    /// When its load began, ns from the run's start.
    pub start_ns: u64,
    /// How much later that was than it was told to, ns.
    pub start_late_ns: u64,
    /// Its wall clock.
    pub clock: HostClockReport,
}

/// Whether a host came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// It did.
    Whole,
    /// It was cut off: what it had measured until then is there.
    CutOff,
}

/// The wall clock of a host. It places the host on the common time axis and is in no latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostClockReport {
    /// Whether it was compared with another clock; if not, it was taken to be right.
    pub measured: bool,
    /// How far it was ahead when the run began, ns.
    pub offset_ns: i64,
    /// That is known to no better, ns; null where it was not measured.
    pub error_ns: Option<u64>,
    /// How fast the offset grew, parts per billion; null where that is not known.
    pub drift_ppb: Option<f64>,
    /// Whether something keeps it in step with a reference, by its kernel; null if that does not tell.
    pub synchronized: Option<bool>,
    /// Times that it was set.
    pub steps: Vec<StepReport>,
}

/// A step of a wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// When it was noticed, ns from the run's start.
    pub at_ns: u64,
    /// By how much the clock went ahead, ns.
    pub by_ns: i64,
}

/// How results of several hosts became one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergeReport {
    /// Hosts that share the load.
    pub shards: u32,
    /// Those whose results are in.
    pub present: u32,
    /// Those whose results are not.
    pub missing: Vec<u32>,
    /// Those that began late.
    pub late: Vec<LateHost>,
    /// Those that did not come to their end.
    pub cut_off: Vec<u32>,
    /// The figures are those of a part of the load.
    pub partial: bool,
    /// What the latencies are computed from.
    pub records: MergedFrom,
    /// From the first host's start to the last one's, ns.
    pub start_skew_ns: u64,
    /// How well the clocks are known against each other, the worst of them, ns; null where any was not
    /// measured.
    pub clock_error_ns: Option<u64>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// What merged latencies are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergedFrom {
    /// The records of all requests: exact.
    Pooled,
    /// Histograms of each second, added up: within 0.1 %.
    Histograms,
}

/// A host that began late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateHost {
    /// Its shard.
    pub shard: u32,
    /// By how much, ns.
    pub by_ns: u64,
}

impl Summary {
    /// Whether it holds the figures of a part of a load alone, since hosts of it are missing.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.merge.as_ref().is_some_and(|merge| merge.partial)
    }
}
