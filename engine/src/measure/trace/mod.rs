//! Requests looked at closely: where the time of each went, and which gaps stand out.
//!
//! ```text
//! Row ─► Tracer ─┬─► Phases: what each phase took, of all
//!                ├─► Gaps: the second token, the gaps after it, the largest of all
//!                └─► Traced: the slowest, one by one
//! ```
//! Times are ns from the run's start, those of a [`Step`] from its request's origin.

mod gaps;
mod path;
#[cfg(test)]
mod tests;

pub use gaps::{Gaps, Outlier};
pub use path::{Path, Phase, Step};

use super::distribution::Distribution;
use super::metric::{Request, Since};
use super::views::Scene;
use crate::record::Row;
use gaps::GapsSoFar;

/// What is asked of a [`Tracer`] beside the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Requests that are kept whole: the slowest, and for up to half of the places such as failed.
    pub slowest: usize,
    /// Gaps that are named, the largest first.
    pub outliers: usize,
}

/// A request that is kept whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// All that is known of it.
    pub row: Row,
    /// Where its latencies start.
    pub origin_ns: u64,
    /// TTFT, ns.
    pub ttft_ns: Option<u64>,
    /// E2E, ns.
    pub e2e_ns: Option<u64>,
    /// Where its time went.
    pub path: Path,
}

/// What a phase took, of the successful requests that have it: some of them no time at all.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseFigures {
    /// The phase.
    pub phase: Phase,
    /// Its length.
    pub spent: Distribution,
    /// Its part of the sum of all E2E; none of what lies after the last token or beside other phases.
    pub share: Option<f64>,
}

/// What became of the rows that were taken. What has no sample is empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Traces {
    /// The slowest of those that ended well, the slowest first.
    pub slowest: Vec<Traced>,
    /// Such as did not: when they ended is often not known, so they are no slow ones. The first of the
    /// load come first.
    pub failed: Vec<Traced>,
    /// Each phase in which at least one successful request spent time, in their order.
    pub phases: Vec<PhaseFigures>,
    /// E2E of the successful.
    pub e2e: Distribution,
    /// Their gaps, and the largest of all requests.
    pub gaps: Gaps,
}

/// Takes rows in any order; keeps a few tens of bytes of each, and the slowest whole. Rows outside the
/// measured part are left out.
#[derive(Debug)]
pub struct Tracer {
    scene: Scene,
    wanted: Wanted,
    slowest: Vec<(u64, Traced)>,
    failed: Vec<(u64, Traced)>,
    spent: Vec<(Phase, Vec<u64>)>,
    beside: bool,
    e2e: Vec<u64>,
    gaps: GapsSoFar,
}

impl Tracer {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(scene: Scene, wanted: Wanted) -> Self {
        Self {
            scene,
            wanted,
            slowest: Vec::new(),
            failed: Vec::new(),
            spent: Phase::ALL.iter().map(|phase| (*phase, Vec::new())).collect(),
            beside: false,
            e2e: Vec::new(),
            gaps: GapsSoFar::new(wanted.outliers),
        }
    }

    /// Takes a row.
    pub fn add(&mut self, row: Row) {
        let request = Request::of(&row, !self.scene.is_open, self.scene.stream);
        if !request.is_measured() {
            return;
        }
        self.gaps.add(&row, &request);
        let path = Path::of(&row, &request);
        if request.is_ok() {
            self.e2e.extend(request.e2e(Since::Origin));
            self.beside |= path.beside.is_some();
            for step in path.steps.iter().chain(&path.beside) {
                let own = self.spent.iter_mut().filter(|(phase, _)| *phase == step.phase);
                own.for_each(|(_, spent)| spent.push(step.length()));
            }
        }
        self.keep(row, &request, path);
    }

    /// Keeps a request whole if it is among the slowest or the first that failed; of equally slow ones the
    /// first of the load.
    fn keep(&mut self, row: Row, request: &Request, path: Path) {
        let (kept, key) = if request.is_ok() {
            let length = path.steps.last().map_or(0, |step| step.to_ns);
            (&mut self.slowest, u64::MAX - length)
        } else {
            (&mut self.failed, 0)
        };
        let is_before =
            |(other, traced): &(u64, Traced)| (*other, traced.row.index) < (key, row.index);
        let at = kept.partition_point(is_before);
        if at >= self.wanted.slowest {
            return;
        }
        let traced = Traced {
            origin_ns: request.origin,
            ttft_ns: request.ttft(Since::Origin),
            e2e_ns: request.e2e(Since::Origin).filter(|_| request.is_ok()),
            row,
            path,
        };
        kept.insert(at, (key, traced));
        kept.truncate(self.wanted.slowest);
    }

    /// What became of all rows that were taken.
    #[must_use]
    pub fn finish(self) -> Traces {
        let sum = |values: &[u64]| values.iter().map(|ns| u128::from(*ns)).sum::<u128>() as f64;
        let whole = sum(&self.e2e);
        let is_part = |phase: Phase| match phase {
            Phase::Tail | Phase::Lost => false,
            Phase::PrefillLeg => !self.beside,
            _ => whole > 0.0,
        };
        let figures = |(phase, spent): (Phase, Vec<u64>)| PhaseFigures {
            phase,
            share: is_part(phase).then(|| sum(&spent) / whole).filter(|share| share.is_finite()),
            spent: Distribution::from_values(&spent),
        };
        let took_time = |(_, spent): &(Phase, Vec<u64>)| spent.iter().any(|ns| *ns > 0);
        let phases = self.spent.into_iter().filter(took_time);
        let places = self.wanted.slowest;
        let failed = self.failed.len().min((places / 2).max(places - self.slowest.len()));
        let whole = |kept: Vec<(u64, Traced)>, most: usize| {
            kept.into_iter().take(most).map(|(_, traced)| traced).collect()
        };
        Traces {
            slowest: whole(self.slowest, places - failed),
            failed: whole(self.failed, failed),
            phases: phases.map(figures).collect(),
            e2e: Distribution::from_values(&self.e2e),
            gaps: self.gaps.finish(),
        }
    }
}
