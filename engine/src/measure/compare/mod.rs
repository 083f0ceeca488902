//! What changed between two sides, beyond noise. A side is one run, or several of the same thing.
//!
//! ```text
//! run ─► Observed ─► estimates with errors ─► Difference with interval ─► Holm ─► verdicts
//! ```
//! **One run on a side.** The requests are the unit. Those of a run depend on each other, so blocks of
//! neighbours are drawn again (`resample`), which gives the standard error of the logarithm of each
//! percentile and mean; throughput by the parts of the window; shares by Wilson and Newcombe. What a
//! run says of itself is not what differs from run to run: for that, several runs are needed.
//!
//! **Several runs on both sides.** The runs are the unit: Welch's interval on the logarithms of each
//! run's figures.
//!
//! Percentiles are by nearest rank, as everywhere.

mod difference;
mod estimate;
mod gate;
mod holm;
mod observed;
mod quantity;
mod resample;
mod student;

pub use difference::{ChangeIs, Difference};
pub use gate::{Gate, GateError, Tripped};
pub use holm::{Overall, overall, settle};
pub use observed::{Decode, Given, Observed, Served, Share, Throughput};
pub use quantity::{METRICS, Quantity};

use serde::Serialize;

use estimate::{Estimate, Found, estimates};

/// From what the interval of a difference comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Requests, drawn again in blocks.
    Requests,
    /// Gaps of requests that were drawn again in blocks.
    Gaps,
    /// Intervals that the results give themselves; none where they give none.
    Summary,
    /// Parts of the window.
    Parts,
    /// Shares of requests.
    Shares,
    /// Repeated runs, each of which is one value.
    Runs,
}

impl Basis {
    /// What says less of the two.
    fn weaker(self, other: Self) -> Self {
        if other == Self::Summary { other } else { self }
    }
}

/// What is decided on one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The other side is better.
    Better,
    /// It is worse.
    Worse,
    /// Its interval alone leaves out 0, but of so many figures one may by chance.
    Unsure,
    /// Its interval holds 0.
    NoDifference,
    /// Nothing says how much is chance.
    NoInterval,
}

/// How two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Of every interval, and of all verdicts together: 0.99 leaves 1 % to chance.
    pub level: f64,
    /// Seed of drawing again: the same results and seed give the same figures.
    pub seed: u64,
}

/// Every figure of `asked` that both sides have. Verdicts follow with [`settle`].
#[must_use]
pub fn differences(
    base: &[Observed],
    other: &[Observed],
    asked: &[Quantity],
    plan: &Plan,
) -> Vec<Difference> {
    if base.len() > 1 && other.len() > 1 {
        return of_runs(base, other, asked, plan.level);
    }
    let (base, other) = (side(base, asked, plan.seed), side(other, asked, plan.seed ^ 1));
    let of = |&quantity: &Quantity| {
        let found =
            |side: &[Found]| side.iter().find(|one| one.0 == quantity).and_then(|one| one.1);
        Difference::of(quantity, found(&base)?, found(&other)?, plan.level)
    };
    asked.iter().filter_map(of).collect()
}

fn side(runs: &[Observed], asked: &[Quantity], seed: u64) -> Vec<Found> {
    estimates(&runs.iter().collect::<Vec<_>>(), asked, Some(seed))
}

/// Those of `asked` that every run of a side has.
#[must_use]
pub fn known(runs: &[Observed], asked: &[Quantity]) -> Vec<Quantity> {
    let found: Vec<Vec<Found>> = runs.iter().map(|run| estimates(&[run], asked, None)).collect();
    let is_known = |quantity: &Quantity| {
        found.iter().all(|run| run.iter().any(|one| one.0 == *quantity && one.1.is_some()))
    };
    asked.iter().copied().filter(is_known).collect()
}

/// Each run as one value. A share of which no run differs is counted over all requests: runs alike to
/// the last request do not say that the next one will be.
fn of_runs(
    base: &[Observed],
    other: &[Observed],
    asked: &[Quantity],
    level: f64,
) -> Vec<Difference> {
    let each = |runs: &[Observed]| -> Vec<Vec<Found>> {
        runs.iter().map(|run| estimates(&[run], asked, None)).collect()
    };
    let (near, far) = (each(base), each(other));
    let of = |&quantity: &Quantity| {
        let values = |runs: &[Vec<Found>]| {
            runs.iter().map(|run| value(run, quantity)).collect::<Option<Vec<f64>>>()
        };
        let (a, b) = (values(&near)?, values(&far)?);
        let is_flat = |values: &[f64]| values.windows(2).all(|pair| pair[0] == pair[1]);
        if quantity.is_share() && is_flat(&a) && is_flat(&b) {
            let whole = |runs| side(runs, &[quantity], 0).first().and_then(|found| found.1);
            return Difference::of(quantity, whole(base)?, whole(other)?, level);
        }
        Some(Difference::of_runs(quantity, &a, &b, level))
    };
    asked.iter().filter_map(of).collect()
}

fn value(found: &[Found], quantity: Quantity) -> Option<f64> {
    match found.iter().find(|one| one.0 == quantity)?.1? {
        Estimate::Ratio { value, .. } => Some(value).filter(|value| *value > 0.0),
        Estimate::Share(share) => Some(share.hits as f64 / share.of.max(1) as f64),
    }
}

#[cfg(test)]
mod tests;
