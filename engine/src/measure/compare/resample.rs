//! Drawing a run's requests again, in blocks of neighbours: how far its figures may lie from what
//! another run of the same thing would have shown.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::dependence::{BATCHES, long_run};

/// How often requests are drawn again: a standard error is then known to about 4 %.
const ROUNDS: usize = 400;
/// The same of many requests, of which each round takes longer.
const ROUNDS_MIN: usize = 200;
/// Values that all rounds of one metric go through, about.
const STEPS: usize = 40_000_000;
/// Blocks that a series is cut into, at least, however long its dependence lasts.
const BLOCKS_MIN: usize = 16;
/// The share of the variance that blocks are taken to miss, at most.
const MISSED_MAX: f64 = 0.75;
/// Requests with fewer values give no interval.
pub(super) const REQUESTS_MIN: usize = 16;
/// Degrees of freedom, at least, that an interval needs.
const DF_MIN: f64 = 3.0;
/// Values of pooled gaps that are resampled, about; of more, only every second, third, ... request is
/// taken, and the width scaled back.
const VALUES_MAX: usize = 100_000;

/// A sample of one request: a value, how often it counts, and the request's place.
#[derive(Debug, Clone, Copy)]
struct Value {
    value: u64,
    times: u32,
    request: u32,
}

/// A figure of a sample, and how far its logarithm may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Resampled {
    /// Standard error of the logarithm.
    pub(super) error: f64,
    /// Degrees of freedom with which that is known.
    pub(super) df: f64,
}

/// Values of requests in order of origin. A request may have several, or none.
#[derive(Debug)]
pub(super) struct Sample {
    /// By value.
    sorted: Vec<Value>,
    requests: usize,
    blocks: Blocks,
    /// Of so many requests one was taken.
    stride: usize,
}

impl Sample {
    /// One value of each request.
    pub(super) fn of_requests(values: &[u64]) -> Self {
        let each =
            values.iter().zip(0..).map(|(&value, request)| Value { value, times: 1, request });
        let logs: Vec<f64> = values.iter().map(|&value| (value.max(1) as f64).ln()).collect();
        Self::new(each.collect(), values.len(), 1, blocks(&logs))
    }

    /// Several values of each request, with how often each counts.
    pub(super) fn of_gaps<'a>(requests: impl Iterator<Item = &'a [(u64, u32)]> + Clone) -> Self {
        let all: usize = requests.clone().map(<[_]>::len).sum();
        let stride = all.div_ceil(VALUES_MAX).max(1);
        let (mut values, mut means) = (Vec::new(), Vec::new());
        for gaps in requests.step_by(stride).filter(|gaps| !gaps.is_empty()) {
            let request = u32::try_from(means.len()).unwrap_or(u32::MAX);
            values.extend(gaps.iter().map(|&(value, times)| Value { value, times, request }));
            let (sum, of) = gaps.iter().fold((0.0, 0.0), |(sum, of), &(value, times)| {
                (sum + value as f64 * f64::from(times), of + f64::from(times))
            });
            means.push((sum / f64::max(of, 1.0)).max(1.0).ln());
        }
        Self::new(values, means.len(), stride, blocks(&means))
    }

    fn new(mut sorted: Vec<Value>, requests: usize, stride: usize, blocks: Blocks) -> Self {
        sorted.sort_unstable_by_key(|one| (one.value, one.request));
        Self { sorted, requests, blocks, stride }
    }

    /// The percentiles by nearest rank, and then the mean; `None` without a value. `quantiles` rise.
    pub(super) fn values(&self, quantiles: &[f64]) -> Option<Vec<f64>> {
        let values = self.figures(&vec![1; self.requests], quantiles);
        (!self.sorted.is_empty()).then_some(values)
    }

    /// How far the percentiles `quantiles` (rising, each between 0 and 1) may be off, and the mean last;
    /// `None` where the sample is too small to tell.
    pub(super) fn errors(&self, quantiles: &[f64], seed: u64) -> Vec<Option<Resampled>> {
        if self.requests < REQUESTS_MIN {
            return vec![None; quantiles.len() + 1];
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut weights = vec![0_u32; self.requests];
        let rounds = (STEPS / self.sorted.len().max(1)).clamp(ROUNDS_MIN, ROUNDS);
        let mut seen = vec![Vec::with_capacity(rounds); quantiles.len() + 1];
        for _ in 0..rounds {
            redraw(&mut weights, self.blocks.length, &mut random);
            for (seen, value) in seen.iter_mut().zip(self.figures(&weights, quantiles)) {
                seen.push(value.max(1.0).ln());
            }
        }
        let blocks = self.requests as f64 / self.blocks.length as f64;
        let values = self.values(quantiles).unwrap_or_default();
        // A mean of n values varies by (n − 1)/n too little when they are drawn again.
        let scale = (blocks / (blocks - 1.0) / self.stride as f64).sqrt() * self.blocks.missed;
        let of = |(place, logs): (usize, &Vec<f64>)| {
            let known = quantiles.get(place).zip(values.get(place));
            let known = known.map(|(&q, &value)| self.known(q, value));
            let df = (blocks - 1.0).min(known.unwrap_or(f64::INFINITY));
            let error = deviation(logs)? * scale;
            (df >= DF_MIN).then_some(Resampled { error, df })
        };
        seen.iter().enumerate().map(of).collect()
    }

    /// Degrees of freedom with which drawing again knows the error of the `q`-quantile, `value`. It looks
    /// at the few values that lie around it: the variance that it finds varies by `2 / √(π · q(1 − q) · n)`
    /// of itself, about (after Hall and Martin 1988). `(1 − q) · n` are the requests that have a value
    /// there or beyond.
    fn known(&self, q: f64, value: f64) -> f64 {
        let mut seen = vec![false; self.requests];
        let is_beyond = |one: &&Value| {
            if q < 0.5 { one.value as f64 <= value } else { one.value as f64 >= value }
        };
        for one in self.sorted.iter().filter(is_beyond) {
            seen[one.request as usize] = true;
        }
        let beyond = seen.into_iter().filter(|&seen| seen).count() as f64;
        (std::f64::consts::PI * q.max(1.0 - q) * beyond).sqrt()
    }

    /// The percentiles and then the mean, with each request as often as drawn.
    fn figures(&self, weights: &[u32], quantiles: &[f64]) -> Vec<f64> {
        let (mut total, mut sum) = (0_u64, 0.0);
        for one in &self.sorted {
            let times = u64::from(one.times) * u64::from(weights[one.request as usize]);
            total += times;
            sum += one.value as f64 * times as f64;
        }
        let mut walk = self.sorted.iter();
        let (mut below, mut value) = (0_u64, 0_u64);
        let mut figures: Vec<f64> = Vec::with_capacity(quantiles.len() + 1);
        for q in quantiles {
            let wanted = (q * total as f64 * (1.0 - 1e-12)).ceil() as u64;
            while below < wanted {
                let Some(next) = walk.next() else { break };
                below += u64::from(next.times) * u64::from(weights[next.request as usize]);
                value = next.value;
            }
            figures.push(value as f64);
        }
        figures.push(sum / total.max(1) as f64);
        figures
    }
}

/// How far the logarithm of `Σ parts / Σ wholes` may be off, over requests in order of origin.
pub(super) fn ratio_error(pairs: &[(f64, f64)], seed: u64) -> Option<Resampled> {
    if pairs.len() < REQUESTS_MIN {
        return None;
    }
    let logs: Vec<f64> =
        pairs.iter().map(|&(part, whole)| (part / whole.max(1.0)).max(1.0).ln()).collect();
    let Blocks { length, missed } = blocks(&logs);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut weights = vec![0_u32; pairs.len()];
    let round = |_| {
        redraw(&mut weights, length, &mut random);
        let sum = pairs.iter().zip(&weights).fold((0.0, 0.0), |sum, (&(part, whole), &weight)| {
            (sum.0 + part * f64::from(weight), sum.1 + whole * f64::from(weight))
        });
        (sum.0 / f64::max(sum.1, 1.0)).max(1.0).ln()
    };
    let rounds: Vec<f64> = (0..ROUNDS).map(round).collect();
    let blocks = pairs.len() as f64 / length as f64;
    let scale = (blocks / (blocks - 1.0)).sqrt() * missed;
    Some(Resampled { error: deviation(&rounds)? * scale, df: blocks - 1.0 })
}

/// Draws blocks of `block` neighbours until there are as many as requests; the last is followed by the
/// first (the circular block bootstrap: Politis and Romano 1992).
fn redraw(weights: &mut [u32], block: usize, random: &mut Xoshiro256PlusPlus) {
    let count = weights.len();
    weights.fill(0);
    for _ in 0..count.div_ceil(block) {
        // The high half of a 64 × 64 bit product is uniform below `count`.
        let start = ((u128::from(random.next_u64()) * count as u128) >> 64) as usize;
        let end = start + block;
        weights[start..end.min(count)].iter_mut().for_each(|weight| *weight += 1);
        weights[..end.saturating_sub(count)].iter_mut().for_each(|weight| *weight += 1);
    }
}

/// How a series is cut.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    /// Neighbours in one.
    length: usize,
    /// What blocks so short miss of the error, as a factor.
    missed: f64,
}

/// How many neighbours make a block: `n^(1/3) · (3/2 · (2φ / (1 − φ²))²)^(1/3)`, the length that is best
/// for the variance of a mean (Politis and White 2004 with Patton's correction of 2009, for a
/// first-order process).
///
/// φ is what such a process has whose means of batches vary by as much more as those of `values` do,
/// or what neighbours show, whichever is more.
///
/// Blocks of `b` see the variance of a mean too small by the share `2φ / (1 − φ²) / b`, to first order
/// (Künsch 1989), which is given back; it is much where the dependence lasts as long as a block may.
fn blocks(values: &[f64]) -> Blocks {
    let count = values.len() as f64;
    let carry = carry(values);
    let lasting = 2.0 * carry / (1.0 - carry * carry);
    let most = (values.len() / BLOCKS_MIN).max(1);
    let length = ((1.5 * lasting * lasting * count).cbrt().ceil() as usize).clamp(1, most);
    let seen = 1.0 - (lasting / length as f64).min(MISSED_MAX);
    Blocks { length, missed: seen.sqrt().recip() }
}

/// See [`blocks`]; from 0 to 0.98.
fn carry(values: &[f64]) -> f64 {
    let size = values.len() / BATCHES;
    if size < 2 {
        return 0.0;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let away: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let squares: f64 = away.iter().map(|away| away * away).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let products: f64 = away.windows(2).map(|pair| pair.iter().product::<f64>()).sum();
    let means: Vec<f64> =
        away.chunks_exact(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect();
    let inflation = (long_run(&means) * size as f64 / (squares / count)).max(1.0);
    f64::max(products / squares, (inflation - 1.0) / (inflation + 1.0)).clamp(0.0, 0.98)
}

/// The standard deviation of values; `None` of fewer than two, or if it is no number.
fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    deviation.is_finite().then_some(deviation)
}
