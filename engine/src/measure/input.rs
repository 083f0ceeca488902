//! What `summarize` is given beside the rows: the facts of a run that no single request knows.

use serde::{Deserialize, Serialize};

use super::ceiling::Ceiling;
use crate::record::{Pooled, Second, Tally};
use crate::telemetry::host::Watched;

/// What was decided about a run while it went on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Steered {
    /// Whether TTFT and throughput were steady when a warm-up that waited for that ended; null if it
    /// did not wait, or the run was over before.
    pub steady_after_warmup: Option<bool>,
    /// What the measured part waited for, if for anything but its time and its requests.
    pub until: Option<String>,
    /// Whether that came about.
    pub until_reached: Option<bool>,
}

/// The facts of one finished run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Facts {
    /// CLOCK_MONOTONIC at the run's start, ns. All other times here are ns from it.
    pub start_monotonic_ns: u64,
    /// CLOCK_REALTIME at the run's start, ns.
    pub start_realtime_ns: u64,
    /// When the load began, warm-up included.
    pub load_start: u64,
    /// How much later that was than the instant that all hosts were to begin at, ns; 0 without one.
    pub start_late_ns: u64,
    /// When the measured part began.
    pub window_start: u64,
    /// When it ended: the planned instant, the last completion (window by requests), or the interrupt.
    pub window_end: u64,
    /// The measured part ended with its last request and not with a duration.
    pub window_by_requests: bool,
    /// When the last request was settled.
    pub end: u64,
    /// The user interrupted the run.
    pub interrupted: bool,
    /// Which driver monoio runs on: `io_uring` or `epoll`.
    pub driver: String,
    /// The ring's flags, empty on epoll.
    pub ring: String,
    /// Kernel stamps were asked for.
    pub kernel_stamps: bool,
    /// One per reactor.
    pub tallies: Vec<Tally>,
    /// Pooled samples of all reactors and seconds.
    pub pooled: Pooled,
    /// What happened to this host during the run.
    pub host: Watched,
    /// How long name resolution took before the run, ns.
    pub resolve_ns: u64,
    /// The ramp of a closed loop, ns.
    pub ramp_ns: u64,
    /// What was decided while it went on.
    pub steered: Steered,
    /// What one reactor of this host is known to sustain, where that was calibrated.
    pub ceiling: Option<Ceiling>,
}

impl Facts {
    /// The seconds of all reactors, added up.
    #[must_use]
    pub fn seconds(&self) -> Vec<Second> {
        let len = self.tallies.iter().map(|tally| tally.seconds.len()).max().unwrap_or(0);
        let mut sum = vec![Second::default(); len];
        for tally in &self.tallies {
            for (total, second) in sum.iter_mut().zip(&tally.seconds) {
                total.add(second);
            }
        }
        sum
    }
}
