//! A run as data for pictures: made from its rows as they go by, and small however many there are.
//!
//! ```text
//! Row ─► Viewer ─┬─► compact points ─► Cdf, Cloud
//!                ├─► Timeline
//!                └─► Choice ─► Shown (single requests)
//! ```
//! Times are ns from the run's start, latencies are ns.

mod cdf;
mod cloud;
mod pooled;
mod single;
#[cfg(test)]
mod tests;
mod timeline;

pub use cdf::{CDF_POINTS_MAX, Cdf};
pub use cloud::{Cloud, Heat};
pub use pooled::{Pools, pools};
pub use single::{Shown, Step, Why};
pub use timeline::{TIME_BINS_MAX, Timeline, merged};

use super::metric::{Maybe, Request, Since};
use super::{LoadReport, Summary};
use crate::record::Row;
use single::Choice;

/// What is known of a run before its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scene {
    /// Arrivals did not wait for answers.
    pub is_open: bool,
    /// Answers were streamed.
    pub stream: bool,
    /// When the last request was settled.
    pub end_ns: u64,
    /// Requests of the measured part, about.
    pub requests: u64,
    /// The median E2E of the successful: the requests near it stand for the usual one.
    pub e2e_p50: Option<u64>,
}

impl Scene {
    /// The scene of a run with these figures.
    #[must_use]
    pub fn of(summary: &Summary) -> Self {
        Self {
            is_open: !matches!(summary.workload.load, LoadReport::Closed { .. }),
            stream: summary.target.stream,
            end_ns: summary.run.end_ns,
            requests: summary.requests.offered,
            e2e_p50: summary.latency.e2e.percentiles.p50,
        }
    }
}

/// A successful request, as far as pictures of all of them need it.
#[derive(Debug, Clone, Copy)]
struct Point {
    origin: u64,
    ttft: Maybe,
    e2e: Maybe,
    tpot: Maybe,
    is_measured: bool,
}

/// The legs of one.
#[derive(Debug, Clone, Copy)]
struct LegPoint {
    prefill: Maybe,
    decode_first: Maybe,
    handoff: Maybe,
    once_more: Maybe,
}

/// Takes rows in any order and keeps a few tens of bytes of each.
#[derive(Debug)]
pub struct Viewer {
    scene: Scene,
    points: Vec<Point>,
    legs: Vec<LegPoint>,
    slips: Vec<u64>,
    timeline: Timeline,
    choice: Choice,
}

/// What the pictures of a run show. What has no sample is `None` or empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Views {
    /// TTFT of the successful of the measured part.
    pub ttft: Option<Cdf>,
    /// E2E of them.
    pub e2e: Option<Cdf>,
    /// TPOT of them.
    pub tpot: Option<Cdf>,
    /// Schedule slip of the measured part of an open loop, of every request that was written.
    pub slip: Option<Cdf>,
    /// TTFT of the successful of all phases over the time of their origin.
    pub ttft_cloud: Option<Cloud>,
    /// TPOT likewise: one value a request, where the gaps themselves are not kept.
    pub tpot_cloud: Option<Cloud>,
    /// E2E likewise.
    pub e2e_cloud: Option<Cloud>,
    /// Prefill legs of them, where prefill and decode are apart.
    pub prefill_leg: Option<Cdf>,
    /// Their decode servers' first tokens.
    pub decode_first: Option<Cdf>,
    /// What the hand-off took by its estimate, of those that were sampled; less than nothing is 0.
    pub handoff: Option<Cdf>,
    /// The first tokens of the prompts that were sent once more.
    pub once_more: Option<Cdf>,
    /// What came and went, of all phases.
    pub timeline: Timeline,
    /// Single requests of the measured part that are worth a look.
    pub singles: Vec<Shown>,
}

impl Viewer {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(scene: Scene) -> Self {
        Self {
            scene,
            points: Vec::new(),
            legs: Vec::new(),
            slips: Vec::new(),
            timeline: Timeline::new(scene.end_ns, scene.requests),
            choice: Choice::new(scene.e2e_p50),
        }
    }

    /// Takes a row.
    pub fn add(&mut self, row: &Row) {
        let request = Request::of(row, !self.scene.is_open, self.scene.stream);
        self.timeline.add(&request);
        if request.is_ok() {
            self.points.push(Point {
                origin: request.origin,
                ttft: request.ttft(Since::Origin).into(),
                e2e: request.e2e(Since::Origin).into(),
                tpot: request.tpot().into(),
                is_measured: request.is_measured(),
            });
        }
        if !request.is_measured() {
            return;
        }
        if let Some(legs) = request.legs.as_ref().filter(|_| request.is_ok()) {
            let tells = legs.fallback.is_none() && legs.once_more_is_cached != Some(false);
            let handoff = request.handoff().filter(|_| tells).map(|ns| ns.max(0).unsigned_abs());
            self.legs.push(LegPoint {
                prefill: request.prefill_leg().into(),
                decode_first: request.decode_first().into(),
                handoff: handoff.into(),
                once_more: legs.once_more,
            });
        }
        if self.scene.is_open {
            self.slips.extend(request.slip());
        }
        self.choice.add(row, &request);
    }

    /// The views of all rows that were taken.
    #[must_use]
    pub fn finish(self) -> Views {
        let points = &self.points;
        let cdf = |pick: fn(&Point) -> Maybe| {
            let measured = points.iter().filter(|point| point.is_measured);
            Cdf::from_values(measured.filter_map(|point| pick(point).get()).collect())
        };
        let cloud = |pick: fn(&Point) -> Maybe| {
            let all = || points.iter().filter_map(|p| Some((p.origin, pick(p).get()?)));
            Cloud::of(all, self.scene.end_ns)
        };
        let legs = |pick: fn(&LegPoint) -> Maybe| {
            Cdf::from_values(self.legs.iter().filter_map(|legs| pick(legs).get()).collect())
        };
        Views {
            prefill_leg: legs(|legs| legs.prefill),
            decode_first: legs(|legs| legs.decode_first),
            handoff: legs(|legs| legs.handoff),
            once_more: legs(|legs| legs.once_more),
            ttft: cdf(|point| point.ttft),
            e2e: cdf(|point| point.e2e),
            tpot: cdf(|point| point.tpot),
            ttft_cloud: cloud(|point| point.ttft),
            tpot_cloud: cloud(|point| point.tpot),
            e2e_cloud: cloud(|point| point.e2e),
            slip: Cdf::from_values(self.slips),
            timeline: self.timeline.finish(),
            singles: self.choice.finish(),
        }
    }
}
