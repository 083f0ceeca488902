//! How far a run is, for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
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

impl Snapshot {
    /// Those of several hosts as one: sums, the time of the one that is furthest, the mean TTFT by what
    /// each has answered.
    #[must_use]
    pub fn of_all(all: &[Self]) -> Self {
        let sum = |of: fn(&Self) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
        let most = |of: fn(&Self) -> u64| all.iter().map(of).max().unwrap_or(0);
        let answered = |one: &Self| one.ok.max(1);
        let known = all.iter().filter_map(|one| Some((one.ttft_mean_ns?, answered(one))));
        let (weighted, weight) = known.fold((0_u128, 0_u128), |(sum, all), (mean, weight)| {
            (sum + u128::from(mean) * u128::from(weight), all + u128::from(weight))
        });
        Self {
            elapsed_ns: most(|one| one.elapsed_ns),
            issued: sum(|one| one.issued),
            planned: all.iter().map(|one| one.planned).sum(),
            planned_ns: all.iter().filter_map(|one| one.planned_ns).max(),
            ok: sum(|one| one.ok),
            failed: sum(|one| one.failed),
            cancelled: sum(|one| one.cancelled),
            in_flight: sum(|one| one.in_flight),
            ttft_mean_ns: weighted.checked_div(weight).and_then(|mean| u64::try_from(mean).ok()),
            output_tokens: sum(|one| one.output_tokens),
        }
    }
}

impl Progress {
    /// Watches nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches a run whose load begins at `began_ns`, CLOCK_MONOTONIC.
    pub(super) fn begin(
        &self,
        workload: &Workload,
        gauges: &[Arc<Gauge>],
        planned: Option<u64>,
        began_ns: u64,
    ) {
        let warmup = match workload.stop.warmup {
            Warmup::Time(ns) => ns,
            Warmup::None | Warmup::Requests(_) | Warmup::Auto(_) => 0,
        };
        let _ = self.run.set(Watched {
            began_ns,
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
            elapsed_ns: clock::monotonic_ns().saturating_sub(run.began_ns),
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
