//! Where a run's steady state begins: MSER-5.

use serde::{Deserialize, Serialize};

/// Bins whose mean is one batch.
const BATCH: usize = 5;
/// Batches that a series needs, at least: 10 s of bins of 100 ms.
const BATCHES_MIN: usize = 20;
/// Bins with a value that a series with gaps needs, at least.
const SEEN_MIN: usize = 50;
/// What is left after a cut is at least so many batches, and this part of all: the rule trusts the
/// variance of what is left, and that of a few neighbours is small by chance.
const LEFT_MIN: usize = 8;
/// See `LEFT_MIN`.
const LEFT_SHARE_MIN: f64 = 0.25;
/// A series that varies by less than this part of its largest value is constant.
const CONSTANT: f64 = 1e-9;

/// Where a series has to be cut so that what is left is in a steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Bins to leave out at its beginning.
    pub cut_bins: usize,
    /// The cut lies in the first half. If not, the series is too short for what goes on in it, or
    /// never gets steady.
    pub in_first_half: bool,
    /// The best of the cuts that lie in the first half; `cut_bins` where that does.
    pub first_half_cut_bins: usize,
}

/// The truncation of `bins` by MSER-5 (White, Cobb and Spratt, "A comparison of five steady-state
/// truncation heuristics for simulation", Winter Simulation Conference 2000): of the means z of five
/// neighbours each, m in all, the first d are cut that minimise
/// `Σ_{i>d} (z_i − mean of z_{d+1..m})² / (m − d)²`, the squared standard error of what is left.
///
/// At least a quarter of the batches (and eight of them) is always left; bins that fill no batch, at
/// the end, do not count. A constant series needs no cut. `None` with fewer than 100 bins, or if a
/// value is no finite number.
#[must_use]
pub fn truncation(bins: &[f64]) -> Option<Truncation> {
    let batches: Vec<f64> =
        bins.chunks_exact(BATCH).map(|five| five.iter().sum::<f64>() / BATCH as f64).collect();
    let count = batches.len();
    if count < BATCHES_MIN || !bins.iter().all(|value| value.is_finite()) {
        return None;
    }
    let (low, high) =
        (batches.iter().copied().reduce(f64::min)?, batches.iter().copied().reduce(f64::max)?);
    if high - low <= CONSTANT * high.abs().max(low.abs()) {
        return Some(Truncation { cut_bins: 0, in_first_half: true, first_half_cut_bins: 0 });
    }
    let left_min = LEFT_MIN.max((count as f64 * LEFT_SHARE_MIN).ceil() as usize);
    // From the end, by Welford's update: mean and sum of squares of all batches from `at` on.
    let (mut mean, mut squares) = (0.0, 0.0);
    let (mut best, mut early) = ((f64::INFINITY, 0), (f64::INFINITY, 0));
    for (left, (at, value)) in (1..).zip(batches.iter().enumerate().rev()) {
        let away = value - mean;
        mean += away / f64::from(left);
        squares += away * (value - mean);
        let error = squares / f64::from(left).powi(2);
        // Of equal ones the earlier.
        if count - at >= left_min && error <= best.0 {
            best = (error, at);
        }
        if at * 2 < count && error <= early.0 {
            early = (error, at);
        }
    }
    Some(Truncation {
        cut_bins: best.1 * BATCH,
        in_first_half: best.1 * 2 < count,
        first_half_cut_bins: early.1 * BATCH,
    })
}

/// The same of a series with bins in which nothing was seen: such a bin has the value of the last
/// one before it that has one, the bins before the first value have that. `None` if fewer than 50
/// bins have a value, or fewer than 100 are there at all.
#[must_use]
pub fn truncation_of_seen(bins: &[Option<f64>]) -> Option<Truncation> {
    if bins.iter().flatten().count() < SEEN_MIN {
        return None;
    }
    let mut last = bins.iter().flatten().next().copied()?;
    let carried: Vec<f64> = bins
        .iter()
        .map(|value| {
            last = value.unwrap_or(last);
            last
        })
        .collect();
    truncation(&carried)
}

/// Whether a run is steady, and from when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steady {
    /// Bins to leave out at the beginning; 0 where `is_steady` is null.
    pub cut_bins: usize,
    /// Each series that could tell needs its cut in its first half; null if none could.
    pub is_steady: Option<bool>,
    /// The later of the cuts when each has to lie in the first half.
    pub first_half_cut_bins: usize,
}

/// The later of the truncations of both series, which have a bin for each other's. A series that is
/// too short or too thin has no say.
#[must_use]
pub fn steady(ttft: &[Option<f64>], throughput: &[f64]) -> Steady {
    let both = [truncation_of_seen(ttft), truncation(throughput)];
    let known = || both.iter().flatten();
    Steady {
        cut_bins: known().map(|one| one.cut_bins).max().unwrap_or(0),
        is_steady: known().map(|one| one.in_first_half).reduce(|a, b| a && b),
        first_half_cut_bins: known().map(|one| one.first_half_cut_bins).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::noise::{noise, noisy};

    /// Cuts of 100 seeds, ascending, and how many of them lie in the first half.
    fn cuts(count: usize, phi: f64, signal: impl Fn(f64) -> f64) -> (Vec<usize>, usize) {
        let all: Vec<Truncation> =
            (0..100).map(|seed| truncation(&noisy(seed, count, phi, &signal)).unwrap()).collect();
        let mut cuts: Vec<usize> = all.iter().map(|one| one.cut_bins).collect();
        cuts.sort_unstable();
        (cuts, all.iter().filter(|one| one.in_first_half).count())
    }

    #[test]
    fn a_step_is_cut_where_it_ends() {
        // The mean of 20 batches of 1 and 0 has a hand-made minimum: none of the 1s is left.
        let step: Vec<f64> = (0..150).map(|at| if at < 50 { 1.0 } else { 0.0 }).collect();
        let got = truncation(&step).unwrap();
        assert_eq!(got, Truncation { cut_bins: 50, in_first_half: true, first_half_cut_bins: 50 });
        let late: Vec<f64> = (0..150).map(|at| if at < 100 { 1.0 } else { 0.0 }).collect();
        let got = truncation(&late).unwrap();
        assert_eq!((got.cut_bins, got.in_first_half), (100, false));
        assert_eq!(got.first_half_cut_bins, 0, "no cut there makes the rest more alike");
    }

    #[test]
    fn a_transient_is_cut_and_little_more() {
        // 10 deviations at first, 1 after 69 bins, 0.1 after 138.
        let decay = |at: f64| 10.0 * (-at / 30.0).exp();
        for phi in [0.0, 0.8] {
            let (cuts, steady) = cuts(600, phi, decay);
            assert!(cuts[5] >= 40, "{phi}: most is cut: {cuts:?}");
            assert!((60..=110).contains(&cuts[50]), "{phi}: {cuts:?}");
            assert!(cuts[90] <= 150, "{phi}: and little more: {cuts:?}");
            assert!(steady >= 97, "{phi}: {steady}");
        }
    }

    #[test]
    fn what_is_steady_from_the_start_loses_little() {
        for phi in [0.0, 0.8] {
            let (cuts, steady) = cuts(600, phi, |_| 0.0);
            assert_eq!(cuts[50], 0, "{phi}: {cuts:?}");
            assert!(cuts[90] <= 60, "{phi}: {cuts:?}");
            assert!(steady >= 97, "{phi}: {steady}");
        }
    }

    #[test]
    fn a_ramp_never_gets_steady() {
        let (_, steady) = cuts(300, 0.0, |at| at / 30.0);
        assert!(steady <= 2, "{steady}");
        let (_, steady) = cuts(100, 0.0, |at| at / 10.0);
        assert!(steady <= 10, "10 s tell less: {steady}");
    }

    #[test]
    fn a_constant_series_is_not_cut_and_a_short_one_not_judged() {
        let none = Truncation { cut_bins: 0, in_first_half: true, first_half_cut_bins: 0 };
        assert_eq!(truncation(&[0.1; 100]), Some(none));
        assert_eq!(truncation(&[0.0; 104]), Some(none));
        assert_eq!(truncation(&[0.1; 99]), None);
        let mut broken = vec![1.0; 200];
        broken[7] = f64::NAN;
        assert_eq!(truncation(&broken), None);
    }

    #[test]
    fn a_bin_without_a_value_has_the_one_before() {
        let step = |at: usize| if at < 50 { 2.0 } else { 1.0 };
        let gaps: Vec<Option<f64>> = (0..150).map(|at| (at % 2 == 1).then(|| step(at))).collect();
        assert_eq!(truncation_of_seen(&gaps).unwrap().cut_bins, 55, "bin 50 still has the old one");
        let rare: Vec<Option<f64>> = (0..150).map(|at| (at % 4 == 0).then(|| step(at))).collect();
        assert_eq!(truncation_of_seen(&rare), None, "38 values");
        assert_eq!(truncation_of_seen(&[]), None);
    }

    #[test]
    fn a_run_is_as_steady_as_its_worse_series() {
        let step = |until: usize| move |at: usize| if at < until { 1.0 } else { 0.0 };
        let series = |until: usize| (0..200).map(step(until)).collect::<Vec<f64>>();
        let seen = |until: usize| series(until).into_iter().map(Some).collect::<Vec<_>>();
        let got = steady(&seen(20), &series(40));
        assert_eq!(got, Steady { cut_bins: 40, is_steady: Some(true), first_half_cut_bins: 40 });
        let got = steady(&seen(120), &series(40));
        assert_eq!(got, Steady { cut_bins: 120, is_steady: Some(false), first_half_cut_bins: 40 });
        let got = steady(&[None; 200], &series(40));
        assert_eq!(got, Steady { cut_bins: 40, is_steady: Some(true), first_half_cut_bins: 40 });
        assert_eq!(
            steady(&[], &[]),
            Steady { cut_bins: 0, is_steady: None, first_half_cut_bins: 0 }
        );
        let quiet = noise(1, 200, 0.0).iter().map(|v| Some(v + 9.0)).collect::<Vec<_>>();
        assert!(steady(&quiet, &[]).is_steady.is_some());
    }
}
