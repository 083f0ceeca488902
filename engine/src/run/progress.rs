//! How far a run is, for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::clock;
use crate::reactor::Gauge;
use crate::workload::{Warmup, Workload};

/// Watches a run from another thread; clones watch the same run.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    run: Arc<OnceLock<Watched>>,
}

#[derive(Debug)]
struct Watched {
    began_ns: u64,
    gauges: Vec<Arc<Gauge>>,
    planned: Option<u64>,
    planned_ns: Option<u64>,
}

/// How far a run is at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Since the load began, ns; 0 before.
    pub elapsed_ns: u64,
    /// Requests taken up.
    pub issued: u64,
    /// Requests that will be, warm-up included, where it is known.
    pub planned: Option<u64>,
    /// How long requests will be issued, warm-up included, where it is known, ns.
    pub planned_ns: Option<u64>,
    /// Requests that ended well.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that we ended.
    pub cancelled: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Mean TTFT so far, ns.
    pub ttft_mean_ns: Option<u64>,
    /// Output tokens of ended requests.
    pub output_tokens: u64,
}

impl Progress {
    /// Watches nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn begin(&self, workload: &Workload, gauges: &[Arc<Gauge>], planned: Option<u64>) {
        let warmup = match workload.stop.warmup {
            Warmup::Time(ns) => ns,
            Warmup::None | Warmup::Requests(_) | Warmup::Auto(_) => 0,
        };
        let _ = self.run.set(Watched {
            began_ns: clock::monotonic_ns(),
            gauges: gauges.to_vec(),
            planned,
            planned_ns: workload.stop.duration_ns.map(|duration| duration.saturating_add(warmup)),
        });
    }

    /// How far the run is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let Some(run) = self.run.get() else { return Snapshot::default() };
        let sum = |of: fn(&Gauge) -> &AtomicU64| -> u64 {
            run.gauges.iter().map(|gauge| of(gauge).load(Relaxed)).sum()
        };
        let ttft_count = sum(|gauge| &gauge.ttft_count);
        Snapshot {
            elapsed_ns: clock::monotonic_ns() - run.began_ns,
            issued: sum(|gauge| &gauge.issued),
            planned: run.planned,
            planned_ns: run.planned_ns,
            ok: sum(|gauge| &gauge.ok),
            failed: sum(|gauge| &gauge.failed),
            cancelled: sum(|gauge| &gauge.cancelled),
            in_flight: sum(|gauge| &gauge.in_flight),
            ttft_mean_ns: sum(|gauge| &gauge.ttft_sum_ns).checked_div(ttft_count),
            output_tokens: sum(|gauge| &gauge.output_tokens),
        }
    }
}
