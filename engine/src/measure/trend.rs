//! Whether a series rises: Mann-Kendall, corrected for neighbours that depend on each other.

use serde::{Deserialize, Serialize};

/// Bins that a test needs, at least: with fewer neither the normal law nor the autocorrelation of
/// the series can be relied on.
pub const TREND_BINS_MIN: usize = 60;
/// Bins that are compared, at most; of more, neighbours are averaged.
const BINS_MAX: usize = 3_000;
/// Bins between which slopes are taken pair by pair, at most; of more, neighbours are averaged. A
/// slope over the whole series is as well known from their means.
const SLOPE_BINS_MAX: usize = 300;
/// An autocorrelation counts beyond so many standard errors, `1/√n` each: 95 %.
const SIGNIFICANT: f64 = 1.96;
/// The first autocorrelation of a process that still has a level to come back to, at most.
const PERSISTENCE_MAX: f64 = 0.99;

/// The trend of a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The corrected statistic, standard normal without a trend; above 0 for a rise.
    pub z: f64,
    /// Probability of such a `z` or a greater one without a trend (one-sided).
    pub p: f64,
    /// `p` is below the level asked for.
    pub rises: bool,
    /// Sen's slope: the median slope over all pairs, in the series' unit per bin.
    pub slope_per_bin: f64,
}

/// Whether `series`, one value per bin, rises, at this level of significance (0.01: one series in a
/// hundred without a trend is said to rise). `None` with fewer than [`TREND_BINS_MIN`] bins, or if a
/// value is no finite number.
///
/// Mann (1945) and Kendall (1975): `S = Σ sgn(x_j − x_i)` over all pairs `i < j`, with the variance
/// `(n(n−1)(2n+5) − Σ t(t−1)(2t+5)) / 18` for ties of t values, and `z = (S ∓ 1) / √variance`. The
/// variance is multiplied, after Hamed and Rao (Journal of Hydrology 204, 1998, 182–196), by
/// `1 + 2 / (n(n−1)(n−2)) · Σ (n−k)(n−k−1)(n−k−2) ρ_k`, where `ρ_k` is the autocorrelation at lag k of
/// the ranks of the series less its slope. Theirs sums every significant lag; here it goes to the first
/// that is not, since far ones are significant by chance; the sum is at least that of a first-order
/// process whose first autocorrelation is the one seen, freed of its bias; and the factor is never
/// below 1. Slope: Sen (1968), of a series of more than 300 bins that of the means of equal groups. A
/// series of more than 3000 bins is thinned so before anything else.
///
/// Noise without a trend, 4000 series each, is said to rise at level 0.01 in 0.6 to 0.8 % of cases if
/// independent, and in 1.6 % (100 bins) or 1.3 % (300) if each value keeps 0.8 of the one before; in
/// 2.9 % with 60 bins.
#[must_use]
pub fn rises(series: &[f64], level: f64) -> Option<Trend> {
    if series.len() < TREND_BINS_MIN || !series.iter().all(|value| value.is_finite()) {
        return None;
    }
    let group = series.len().div_ceil(BINS_MAX);
    let means: Vec<f64> = series.chunks_exact(group).map(mean).collect();
    let (s, slope) = (kendall(&means), slope(&means));
    let level_out: Vec<f64> =
        means.iter().enumerate().map(|(at, value)| value - slope * at as f64).collect();
    let (ranks, _) = ranks(&level_out);
    let variance = variance(&means) * inflation(&ranks);
    let z =
        if variance > 0.0 { (s - s.signum() * s.abs().min(1.0)) / variance.sqrt() } else { 0.0 };
    let p = upper_tail(z);
    let slope_per_bin = slope / group as f64;
    let all = [z, p, slope_per_bin].iter().all(|figure| figure.is_finite());
    all.then_some(Trend { z, p, rises: p < level, slope_per_bin })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Kendall's S: all pairs, less the tied ones, less twice those that fall (Knight, Journal of the
/// American Statistical Association 61, 1966, 436–439).
fn kendall(values: &[f64]) -> f64 {
    let pairs_of = |n: usize| (n * n.saturating_sub(1) / 2) as f64;
    let (_, ties) = ranks(values);
    let tied: f64 = ties.iter().map(|&ties| pairs_of(ties)).sum();
    pairs_of(values.len()) - tied - 2.0 * falls(&mut values.to_vec()) as f64
}

/// Pairs of which the later value is the lower; sorts the values by merging.
fn falls(values: &mut [f64]) -> u64 {
    let half = values.len() / 2;
    if half == 0 {
        return 0;
    }
    let (early, late) = values.split_at_mut(half);
    let mut fallen = falls(early) + falls(late);
    let mut merged = Vec::with_capacity(early.len() + late.len());
    let (mut left, mut right) = (early.iter().peekable(), late.iter().peekable());
    while let Some(&&value) = left.peek() {
        if let Some(lower) = right.next_if(|&&lower| lower < value) {
            // It is below all that is left of the earlier half.
            fallen += left.len() as u64;
            merged.push(*lower);
        } else {
            merged.push(value);
            left.next();
        }
    }
    merged.extend(right);
    values.copy_from_slice(&merged);
    fallen
}

/// Sen's slope, per value.
fn slope(values: &[f64]) -> f64 {
    let group = values.len().div_ceil(SLOPE_BINS_MAX).max(1);
    let means: Vec<f64> = values.chunks_exact(group).map(mean).collect();
    let mut slopes = Vec::with_capacity(means.len() * means.len().saturating_sub(1) / 2);
    for (at, early) in means.iter().enumerate() {
        let later = (1u32..).zip(means.iter().skip(at + 1));
        slopes.extend(later.map(|(apart, late)| (late - early) / f64::from(apart)));
    }
    median(&mut slopes) / group as f64
}

/// The median; 0 of nothing. Of an even number the upper one in the middle: with so many pairs the
/// two do not differ in what follows.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The variance of S for independent values.
fn variance(values: &[f64]) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let (_, ties) = ranks(values);
    let tied: f64 = ties.iter().map(|&ties| term(ties as f64)).sum();
    (term(values.len() as f64) - tied) / 18.0
}

/// The rank of each value, from 0, equal ones sharing the mean of theirs; and how many values share
/// each rank.
fn ranks(values: &[f64]) -> (Vec<f64>, Vec<usize>) {
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut ranks, mut ties, mut below) = (vec![0.0; values.len()], Vec::new(), 0);
    for equal in order.chunk_by(|a, b| a.0 == b.0) {
        let shared = below as f64 + (equal.len() - 1) as f64 / 2.0;
        for &(_, at) in equal {
            if let Some(rank) = ranks.get_mut(at) {
                *rank = shared;
            }
        }
        ties.push(equal.len());
        below += equal.len();
    }
    (ranks, ties)
}

/// By how much dependence between neighbours multiplies the variance of S; at least 1.
fn inflation(ranks: &[f64]) -> f64 {
    let n = ranks.len() as f64;
    let middle = mean(ranks);
    let away: Vec<f64> = ranks.iter().map(|rank| rank - middle).collect();
    let total: f64 = away.iter().map(|away| away * away).sum();
    if total <= 0.0 {
        return 1.0;
    }
    let correlation = |lag: usize| {
        let products = away.iter().zip(away.iter().skip(lag)).map(|(a, b)| a * b);
        products.sum::<f64>() / total
    };
    let weight = |lag: usize| {
        let left = n - lag as f64;
        left * (left - 1.0) * (left - 2.0)
    };
    let limit = SIGNIFICANT / n.sqrt();
    let significant = (1..ranks.len())
        .map(|lag| (lag, correlation(lag)))
        .take_while(|&(_, correlation)| correlation >= limit);
    let seen: f64 = significant.map(|(lag, correlation)| weight(lag) * correlation).sum();
    let first = correlation(1);
    // Taking out level and slope takes away about (2 + 4ρ)/n of the first autocorrelation ρ.
    let whole = ((n * first + 2.0) / (n - 4.0)).clamp(0.0, PERSISTENCE_MAX);
    let process = (1..ranks.len()).scan(1.0, |power, lag| {
        *power *= whole;
        Some(weight(lag) * *power)
    });
    let sum = seen.max(process.sum());
    (1.0 + 2.0 * sum / (n * (n - 1.0) * (n - 2.0))).max(1.0)
}

/// The part of the standard normal law above `z`: half of `erfc(z / √2)`, by the Chebyshev fit of
/// Press et al., Numerical Recipes, 6.2, whose relative error is below 1.2e-7 everywhere.
fn upper_tail(z: f64) -> f64 {
    /// Coefficients, highest power first.
    const FIT: [f64; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let exponent = FIT.iter().fold(0.0, |sum, coefficient| sum * t + coefficient) - x * x;
    let beyond = 0.5 * t * exponent.exp();
    if z >= 0.0 { beyond } else { 1.0 - beyond }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::noise::noisy;

    /// How many of 100 series are said to rise.
    fn risen(count: usize, phi: f64, level: f64, signal: impl Fn(f64) -> f64) -> usize {
        let rose = |&seed: &u64| rises(&noisy(seed, count, phi, &signal), level).unwrap().rises;
        (0..100).filter(rose).count()
    }

    #[test]
    fn the_statistic_is_that_of_all_pairs() {
        // 60 rising values: S = 1770, variance 60·59·125/18; the ranks less the slope are constant.
        let line: Vec<f64> = (0..60).map(f64::from).collect();
        let got = rises(&line, 0.01).unwrap();
        assert!((got.z - 1769.0 / (60.0f64 * 59.0 * 125.0 / 18.0).sqrt()).abs() < 1e-9, "{got:?}");
        assert_eq!((got.rises, got.slope_per_bin), (true, 1.0));
        let falling: Vec<f64> = line.iter().map(|value| -value).collect();
        let fell = rises(&falling, 0.01).unwrap();
        assert_eq!((fell.rises, fell.slope_per_bin, fell.z), (false, -1.0, -got.z));
        assert!(fell.p > 0.999, "one-sided");
    }

    #[test]
    fn ties_take_away_variance() {
        // 1 1 2 2 2: (5·4·15 − 2·1·9 − 3·2·11) / 18 = 12.
        assert_eq!(variance(&[1.0, 1.0, 2.0, 2.0, 2.0]), 12.0);
        assert_eq!(kendall(&[1.0, 1.0, 2.0, 2.0, 2.0]), 6.0);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), (vec![1.5, 0.0, 1.5], vec![1, 2]));
    }

    #[test]
    fn pairs_that_fall_are_counted_as_one_by_one() {
        for seed in 0..20 {
            let mut values = noisy(seed, 101, 0.5, |at| at / 50.0);
            // Ties among them.
            values.iter_mut().for_each(|value| *value = (*value * 4.0).round());
            let mut balance = 0;
            for (at, early) in values.iter().enumerate() {
                let later = || values[at + 1..].iter();
                balance += later().filter(|late| *late > early).count() as i64;
                balance -= later().filter(|late| *late < early).count() as i64;
            }
            assert_eq!(kendall(&values), balance as f64, "{seed}");
        }
    }

    #[test]
    fn noise_is_said_to_rise_about_as_often_as_the_level_allows() {
        for phi in [0.0, 0.8] {
            let rose = risen(150, phi, 0.05, |_| 0.0);
            assert!(rose <= 10, "{phi}: {rose} of 100, 5 are nominal");
        }
    }

    #[test]
    fn a_slow_rise_under_noise_is_found() {
        let rose = risen(200, 0.0, 0.01, |at| at * 1.25 / 200.0);
        assert!(rose >= 95, "a deviation and a quarter through the window: {rose}");
        let rose = risen(200, 0.8, 0.01, |at| at * 5.0 / 200.0);
        assert!(rose >= 95, "five, dependent: {rose}");
        assert_eq!(risen(120, 0.0, 0.01, |at| -at / 60.0), 0, "a fall is no rise");
    }

    #[test]
    fn without_correction_dependent_noise_would_rise_far_too_often() {
        let dependent = noisy(3, 200, 0.8, |_| 0.0);
        let (ranked, _) = ranks(&dependent);
        let factor = inflation(&ranked);
        assert!((4.0..20.0).contains(&factor), "(1 + 0.8) / (1 − 0.8) = 9: {factor}");
        let (free, _) = ranks(&noisy(3, 200, 0.0, |_| 0.0));
        assert!(inflation(&free) < 1.5);
    }

    #[test]
    fn a_long_series_is_thinned_and_keeps_its_slope() {
        let long: Vec<f64> = (0..3100).map(|at| f64::from(at) * 0.5).collect();
        assert_eq!(rises(&long, 0.01).unwrap().slope_per_bin, 0.5);
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        assert_eq!(rises(&[1.0; TREND_BINS_MIN - 1], 0.01), None);
        assert_eq!(rises(&[f64::NAN; 100], 0.01), None);
        let flat = rises(&[7.0; 100], 0.01).unwrap();
        assert_eq!((flat.z, flat.rises, flat.slope_per_bin), (0.0, false, 0.0));
        let huge: Vec<f64> =
            (0..100).map(|at| if at % 2 == 0 { f64::MAX } else { -f64::MAX }).collect();
        assert!(rises(&huge, 0.01).is_none_or(|trend| trend.z.is_finite()));
    }

    #[test]
    fn the_tail_of_the_normal_law_is_that_of_tables() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.158_655_3), (1.959_964, 0.025), (-1.0, 0.841_344_7)] {
            assert!((upper_tail(z) - p).abs() < 1e-6, "{z}");
        }
        assert!((upper_tail(5.0) / 2.866_516e-7 - 1.0).abs() < 1e-5);
    }
}
