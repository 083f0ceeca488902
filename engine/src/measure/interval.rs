//! 95 % intervals of percentiles: order statistics for requests, resampling for pooled gaps.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::distribution::{ByPercentile, nearest};
use crate::record::Tally;

/// `[low, high]`; an end that the sample cannot support is `None`.
pub type Interval = [Option<u64>; 2];

/// Probability that is left out at each end.
const TAIL: f64 = 0.025;
/// The normal quantile that leaves `TAIL` above it.
const Z: f64 = 1.959_964;
/// Batches that the run is cut into, to see how neighbours depend on each other.
const BATCHES: usize = 20;
/// Requests in a batch, at least; with fewer the dependence cannot be seen and is taken as none.
const BATCH_MIN: usize = 8;
/// Up to this effective sample size the binomial law is summed exactly; beyond it the normal law
/// is as good.
const EXACT_MAX: u64 = 4_000;
/// How often whole requests are drawn again.
const ROUNDS: usize = 200;
/// Requests that must have a gap at or beyond the percentile for that end to be supported: with
/// four the highest order statistic would just do, one is the percentile itself.
const SUPPORT_MIN: usize = 5;
/// Gaps that are resampled, about; of more, only every second, third, ... request is taken.
const GAPS_MAX: usize = 100_000;
/// Seed of resampling, fixed so that the same records give the same intervals.
const SEED: u64 = 0x746f_6b63_6c6f_636b;

/// Distribution-free intervals of the percentiles of `sorted`, by order statistics (David and
/// Nagaraja, Order Statistics, 7.1) on the effective sample size.
///
/// `in_order` holds the same values in order of origin. The sample size is divided by the factor
/// by which the variance of batch means of "not above the percentile" exceeds that of independent
/// values.
#[must_use]
pub(super) fn order_statistics(in_order: &[u64], sorted: &[u64]) -> ByPercentile<Interval> {
    ByPercentile::from_fn(|p| {
        order_statistic(in_order, sorted, p as f64 / 1000.0).map_or([None, None], |(_, ends)| ends)
    })
}

/// How far the farther end of the 95 % interval of the `q`-quantile of `in_order` lies from it, as a
/// share of it; `None` where the sample supports no such end.
#[must_use]
pub fn half_width(in_order: &[u64], q: f64) -> Option<f64> {
    let mut sorted = in_order.to_vec();
    sorted.sort_unstable();
    let (value, [low, high]) = order_statistic(in_order, &sorted, q)?;
    let away = value.saturating_sub(low?).max(high?.saturating_sub(value));
    let share = away as f64 / value as f64;
    share.is_finite().then_some(share)
}

/// The `q`-quantile by nearest rank and its interval; `None` without values.
fn order_statistic(in_order: &[u64], sorted: &[u64], q: f64) -> Option<(u64, Interval)> {
    let count = sorted.len() as u64;
    let at = ((q * count as f64 * (1.0 - 1e-12)).ceil() as u64).clamp(1, count.max(1));
    let value = nearest(sorted, at)?;
    let effective = (count as f64 / inflation(in_order, value)).floor().max(1.0) as u64;
    let (low, high) = binomial_ranks(effective, q);
    let scale = count as f64 / effective as f64;
    let low = low.map(|rank| ((rank as f64 * scale).floor() as u64).clamp(1, at));
    let high = high.map(|rank| ((rank as f64 * scale).ceil() as u64).clamp(at, count));
    Some((value, [low, high].map(|rank| rank.and_then(|rank| nearest(sorted, rank)))))
}

/// How much more the batch means of `value <= pivot` vary than independent ones would; at least 1.
#[must_use]
pub(super) fn inflation(in_order: &[u64], pivot: u64) -> f64 {
    let size = in_order.len() / BATCHES;
    if size < BATCH_MIN {
        return 1.0;
    }
    let means: Vec<f64> = in_order
        .chunks_exact(size)
        .map(|batch| batch.iter().filter(|&&v| v <= pivot).count() as f64 / size as f64)
        .collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let between = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
    let independent = mean * (1.0 - mean) / size as f64;
    if independent > 0.0 { (between / independent).max(1.0) } else { 1.0 }
}

/// Ranks, from 1, between which the `q`-quantile of `n` independent values lies with 95 %.
fn binomial_ranks(n: u64, q: f64) -> (Option<u64>, Option<u64>) {
    if n > EXACT_MAX {
        let (middle, half) = (n as f64 * q, Z * (n as f64 * q * (1.0 - q)).sqrt());
        let (low, high) = ((middle - half).floor(), (middle + half).ceil() + 1.0);
        return ((low >= 1.0).then_some(low as u64), (high <= n as f64).then_some(high as u64));
    }
    // Low: the largest l with P(B < l) <= TAIL. High: the smallest u with P(B < u) >= 1 - TAIL.
    let odds = (q / (1.0 - q)).ln();
    let mut log_mass = n as f64 * (1.0 - q).ln();
    let (mut below, mut low) = (0.0, None);
    for k in 0..n {
        below += log_mass.exp();
        log_mass += ((n - k) as f64 / (k + 1) as f64).ln() + odds;
        if below <= TAIL {
            low = Some(k + 1);
        }
        if below >= 1.0 - TAIL {
            return (low, Some(k + 1));
        }
    }
    (low, None)
}

/// Which samples a gap gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pool {
    /// One per gap.
    Chunks,
    /// One per token of the later event: the gap divided by its tokens.
    Tokens,
}

/// Intervals of the percentiles of pooled gaps, by drawing whole requests again, since the gaps of
/// one request depend on each other.
///
/// `estimate` is what the whole population gave. The samples of each reactor stand for all its
/// `gap_requests`; where they are fewer, the width about the estimate is scaled by √(m/n).
#[must_use]
pub(super) fn resampled(
    tallies: &[Tally],
    pool: Pool,
    estimate: &ByPercentile<Option<u64>>,
) -> ByPercentile<Interval> {
    let drawn = Drawn::new(tallies, pool);
    if drawn.requests < SUPPORT_MIN {
        return ByPercentile::default();
    }
    let centre = drawn.percentiles(&drawn.weights);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let rounds: Vec<ByPercentile<u64>> =
        (0..ROUNDS).map(|_| drawn.percentiles(&drawn.redraw(&mut random))).collect();
    let population: u64 = tallies.iter().map(|tally| tally.gap_requests).sum();
    let shrink = (drawn.requests as f64 / population.max(drawn.requests as u64) as f64).sqrt();
    ByPercentile::from_fn(|p| {
        let (Some(&centre), Some(&Some(estimate))) = (centre.at(p), estimate.at(p)) else {
            return [None, None];
        };
        let mut values: Vec<u64> = rounds.iter().filter_map(|round| round.at(p).copied()).collect();
        values.sort_unstable();
        let end = |share: f64| {
            let at = ((share * ROUNDS as f64).ceil() as u64).max(1);
            let away = nearest(&values, at)? as f64 - centre as f64;
            Some((estimate as f64 + away * shrink).round().max(0.0) as u64)
        };
        let (below, above) = drawn.support(centre);
        let low = end(TAIL).filter(|_| below >= SUPPORT_MIN).map(|low| low.min(estimate));
        let high = end(1.0 - TAIL).filter(|_| above >= SUPPORT_MIN).map(|high| high.max(estimate));
        [low, high]
    })
}

/// The drawn requests of all reactors, their gaps sorted once.
struct Drawn {
    requests: usize,
    /// First request and number of requests of each reactor that has some.
    strata: Vec<(usize, usize)>,
    /// How many requests of the population each drawn one stands for.
    weights: Vec<f64>,
    /// `(value, samples, request)` by value.
    samples: Vec<(u64, u32, usize)>,
}

impl Drawn {
    fn new(tallies: &[Tally], pool: Pool) -> Self {
        let mut sorted: Vec<&Tally> = tallies.iter().collect();
        sorted.sort_by_key(|tally| (tally.reactor, tally.cpu));
        let gaps: usize = sorted.iter().flat_map(|tally| &tally.gap_samples).map(Vec::len).sum();
        let stride = gaps.div_ceil(GAPS_MAX).max(1);
        let mut drawn =
            Self { requests: 0, strata: Vec::new(), weights: Vec::new(), samples: Vec::new() };
        for tally in sorted.into_iter().filter(|tally| !tally.gap_samples.is_empty()) {
            let len = tally.gap_samples.len().div_ceil(stride);
            drawn.strata.push((drawn.requests, len));
            let weight = tally.gap_requests.max(len as u64) as f64 / len as f64;
            drawn.weights.extend(std::iter::repeat_n(weight, len));
            for gaps in tally.gap_samples.iter().step_by(stride) {
                let request = drawn.requests;
                drawn.samples.extend(gaps.iter().map(|&(gap, tokens)| match pool {
                    Pool::Chunks => (gap, 1, request),
                    Pool::Tokens => (gap / u64::from(tokens.max(1)), tokens.max(1), request),
                }));
                drawn.requests += 1;
            }
        }
        drawn.samples.sort_unstable();
        drawn
    }

    /// Weights after drawing, within each reactor, as many requests as there are, with repetition.
    fn redraw(&self, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let mut weights = vec![0.0; self.requests];
        for &(first, len) in &self.strata {
            for _ in 0..len {
                // The high half of a 64 × 64 bit product is uniform below `len`.
                let at = ((u128::from(random.next_u64()) * len as u128) >> 64) as usize;
                weights[first + at] += self.weights[first];
            }
        }
        weights
    }

    fn percentiles(&self, weights: &[f64]) -> ByPercentile<u64> {
        let total: f64 = self.samples.iter().map(|&(_, n, r)| f64::from(n) * weights[r]).sum();
        let mut walk = self.samples.iter();
        let (mut below, mut value) = (0.0, 0);
        // Percentiles are asked for in rising order, so one walk answers all.
        ByPercentile::from_fn(|p| {
            let wanted = total * p as f64 / 1000.0 * (1.0 - 1e-12);
            while below < wanted {
                let Some(&(next, n, r)) = walk.next() else { break };
                below += f64::from(n) * weights[r];
                value = next;
            }
            value
        })
    }

    /// How many requests have a gap at or below, and at or above, `value`.
    fn support(&self, value: u64) -> (usize, usize) {
        let mut seen = vec![(false, false); self.requests];
        for &(sample, _, request) in &self.samples {
            seen[request].0 |= sample <= value;
            seen[request].1 |= sample >= value;
        }
        (seen.iter().filter(|s| s.0).count(), seen.iter().filter(|s| s.1).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::distribution::Distribution;
    use crate::record::histogram;

    /// Exponential values with mean 1 ms.
    fn exponential(random: &mut Xoshiro256PlusPlus) -> u64 {
        let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (-(1.0 - unit).ln() * 1e6) as u64
    }

    /// The true percentile of that law.
    fn truth(thousandths: u64) -> u64 {
        (-(1.0 - thousandths as f64 / 1000.0).ln() * 1e6) as u64
    }

    fn contains([low, high]: Interval, value: u64) -> bool {
        low.is_none_or(|low| low <= value) && high.is_none_or(|high| high >= value)
    }

    #[test]
    fn order_statistics_hold_the_true_percentile_in_95_of_100_runs() {
        let mut hits = [0; 3];
        for seed in 0..100 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let values: Vec<u64> = (0..1000).map(|_| exponential(&mut random)).collect();
            let ci = Distribution::from_values(&values).ci95;
            for (hit, p) in hits.iter_mut().zip([500, 950, 990]) {
                let interval = *ci.at(p).unwrap();
                assert!(interval.iter().all(Option::is_some), "p{p} is supported by 1000");
                *hit += u32::from(contains(interval, truth(p)));
            }
        }
        assert!(hits.iter().all(|&hit| hit >= 90), "{hits:?}");
    }

    #[test]
    fn resampling_holds_the_true_percentile_in_90_of_100_runs() {
        let mut hits = [0; 2];
        for seed in 0..100 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed + 1000);
            let samples: Vec<Vec<(u64, u32)>> =
                (0..80).map(|_| (0..12).map(|_| (exponential(&mut random), 1)).collect()).collect();
            let mut pooled = histogram();
            samples.iter().flatten().for_each(|&(gap, _)| pooled.record(gap).unwrap());
            let tally = Tally { gap_samples: samples, gap_requests: 80, ..Tally::default() };
            let estimate = Distribution::from_histogram(&pooled).percentiles;
            let ci = resampled(&[tally], Pool::Chunks, &estimate);
            for (hit, p) in hits.iter_mut().zip([500, 950]) {
                let interval = *ci.at(p).unwrap();
                assert!(interval.iter().all(Option::is_some));
                *hit += u32::from(contains(interval, truth(p)));
            }
        }
        assert!(hits.iter().all(|&hit| hit >= 90), "{hits:?}");
    }

    #[test]
    fn requests_that_depend_on_each_other_give_wider_intervals() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let alone: Vec<u64> = (0..2000).map(|_| exponential(&mut random)).collect();
        // The same values, but each comes in a run of forty alike.
        let in_runs: Vec<u64> = (0..2000).map(|i| alone[i / 40]).collect();
        let width = |values: &[u64]| {
            let [low, high] = Distribution::from_values(values).ci95.p50;
            (high.unwrap() - low.unwrap()) as f64
        };
        assert!(width(&in_runs) > 2.0 * width(&alone));
    }

    #[test]
    fn an_end_beyond_the_sample_is_null() {
        let five = Distribution::from_values(&[1, 2, 3, 4, 5]);
        assert_eq!(five.ci95.p50, [None, None], "2 * 0.5^5 is above 5 %");
        let six = Distribution::from_values(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(six.ci95.p50, [Some(1), Some(6)]);
        let hundred = Distribution::from_values(&(1..=100).collect::<Vec<u64>>());
        assert_eq!(hundred.ci95.p99[1], None);
        assert!(hundred.ci95.p99[0].is_some());
    }

    #[test]
    fn known_ranks_of_the_median_are_found() {
        // Tables of distribution-free intervals: n = 20 gives 6 and 15, n = 100 gives 40 and 61.
        assert_eq!(binomial_ranks(20, 0.5), (Some(6), Some(15)));
        assert_eq!(binomial_ranks(100, 0.5), (Some(40), Some(61)));
    }

    #[test]
    fn a_small_part_of_the_requests_gives_a_narrower_interval_than_it_would_alone() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let samples: Vec<Vec<(u64, u32)>> =
            (0..50).map(|_| (0..10).map(|_| (exponential(&mut random), 1)).collect()).collect();
        let width = |gap_requests| {
            let tally = Tally { gap_samples: samples.clone(), gap_requests, ..Tally::default() };
            let estimate = ByPercentile::from_fn(|p| Some(truth(p)));
            let [low, high] = resampled(&[tally], Pool::Chunks, &estimate).p50;
            (high.unwrap() - low.unwrap()) as f64
        };
        let share = width(5000) / width(50);
        assert!((share - 0.1).abs() < 0.005, "a hundred times the requests: a tenth, not {share}");
    }

    #[test]
    fn of_very_many_gaps_a_part_of_the_requests_is_taken() {
        let many = Tally { gap_samples: vec![vec![(5, 1); 1000]; 301], ..Tally::default() };
        let drawn = Drawn::new(&[many], Pool::Chunks);
        assert_eq!((drawn.requests, drawn.samples.len()), (76, 76_000));
        assert_eq!(drawn.weights, vec![1.0; 76]);
    }

    #[test]
    fn a_tail_that_one_request_made_has_no_upper_end() {
        let mut samples = vec![vec![(10, 1); 20]; 50];
        samples[7] = vec![(1000, 1); 20];
        let tally = Tally { gap_samples: samples, gap_requests: 50, ..Tally::default() };
        let estimate = ByPercentile { p99: Some(1000), p50: Some(10), ..ByPercentile::default() };
        let ci = resampled(&[tally], Pool::Chunks, &estimate);
        assert_eq!(ci.p50, [Some(10), Some(10)]);
        assert_eq!(ci.p99[1], None);
    }
}
