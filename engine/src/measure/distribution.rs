//! What is told of many values: count, extremes, mean, exact nearest-rank percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::interval::{self, Interval};

/// One thing for each of the reported percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ByPercentile<T> {
    /// The median.
    pub p50: T,
    /// The third quartile.
    pub p75: T,
    /// The 90th percentile.
    pub p90: T,
    /// The 95th percentile.
    pub p95: T,
    /// The 99th percentile.
    pub p99: T,
    /// The 99.9th percentile.
    pub p99_9: T,
}

impl<T> ByPercentile<T> {
    /// Asks `make` for each percentile, which it is given in thousandths: 500 to 999.
    pub fn from_fn(mut make: impl FnMut(u64) -> T) -> Self {
        Self {
            p50: make(500),
            p75: make(750),
            p90: make(900),
            p95: make(950),
            p99: make(990),
            p99_9: make(999),
        }
    }

    /// What belongs to the percentile of so many thousandths, if it is a reported one.
    #[must_use]
    pub fn at(&self, thousandths: u64) -> Option<&T> {
        match thousandths {
            500 => Some(&self.p50),
            750 => Some(&self.p75),
            900 => Some(&self.p90),
            950 => Some(&self.p95),
            990 => Some(&self.p99),
            999 => Some(&self.p99_9),
            _ => None,
        }
    }
}

/// A distribution of latencies. What has no sample is `None` (null), never 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Unit of every value here: `ns`.
    pub unit: String,
    /// Number of samples.
    pub count: u64,
    /// Smallest value.
    pub min: Option<u64>,
    /// Largest value.
    pub max: Option<u64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Standard deviation of these values (divisor `count`).
    pub stdev: Option<f64>,
    /// Percentiles by nearest rank.
    #[serde(flatten)]
    pub percentiles: ByPercentile<Option<u64>>,
    /// 95 % intervals of the percentiles, `[low, high]`; an end that the sample cannot support is
    /// null.
    pub ci95: ByPercentile<Interval>,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            unit: "ns".into(),
            count: 0,
            min: None,
            max: None,
            mean: None,
            stdev: None,
            percentiles: ByPercentile::default(),
            ci95: ByPercentile::default(),
        }
    }
}

impl Distribution {
    /// Exact figures of `values` in ns, which come in order of their requests' origin: intervals
    /// look at how neighbours depend on each other.
    #[must_use]
    pub fn from_values(values: &[u64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let count = sorted.len() as u64;
        let mean = sorted.iter().map(|&v| u128::from(v)).sum::<u128>() as f64 / count as f64;
        let squares: f64 = sorted.iter().map(|&v| (v as f64 - mean).powi(2)).sum();
        Self {
            count,
            min: Some(min),
            max: Some(max),
            mean: Some(mean),
            stdev: finite((squares / count as f64).sqrt()),
            percentiles: ByPercentile::from_fn(|p| nearest(&sorted, rank(count, p))),
            ci95: interval::order_statistics(values, &sorted),
            ..Self::default()
        }
    }

    /// Figures of a histogram of ns: the middle of each percentile's bucket, clamped to the
    /// extremes. It has no intervals; see `interval::resampled`.
    #[must_use]
    pub fn from_histogram(histogram: &Histogram<u64>) -> Self {
        let count = histogram.len();
        if count == 0 {
            return Self::default();
        }
        Self {
            count,
            min: Some(histogram.min()),
            max: Some(histogram.max()),
            mean: finite(histogram.mean()),
            stdev: finite(histogram.stdev()),
            percentiles: ByPercentile::from_fn(|p| bucket(histogram, rank(count, p))),
            ..Self::default()
        }
    }
}

/// The rank, from 1, of the percentile of so many thousandths among `count` values: ⌈p·n⌉.
#[must_use]
pub(super) fn rank(count: u64, thousandths: u64) -> u64 {
    let product = u128::from(count) * u128::from(thousandths);
    u64::try_from(product.div_ceil(1000)).unwrap_or(count).max(1)
}

/// The value at a rank, from 1, of a sorted sample.
#[must_use]
pub(super) fn nearest(sorted: &[u64], rank: u64) -> Option<u64> {
    let at = usize::try_from(rank.checked_sub(1)?).ok()?;
    sorted.get(at).copied()
}

/// The middle of the bucket that holds the value at a rank, from 1, clamped to the extremes.
#[must_use]
pub(super) fn bucket(histogram: &Histogram<u64>, rank: u64) -> Option<u64> {
    let mut below = 0;
    for step in histogram.iter_recorded() {
        below += step.count_since_last_iteration();
        if below >= rank {
            let middle = histogram.median_equivalent(step.value_iterated_to());
            return Some(middle.max(histogram.min()).min(histogram.max()));
        }
    }
    None
}

/// `value` if it is a number that JSON can hold.
#[must_use]
pub(super) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// `part / whole` as a share or rate; `None` where there is no whole.
#[must_use]
pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    if whole > 0.0 { finite(part / whole) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::histogram;

    #[test]
    fn percentiles_are_nearest_rank_on_twenty_values() {
        let values: Vec<u64> = (1..=20).map(|v| v * 100).collect();
        let d = Distribution::from_values(&values);
        assert_eq!(d.percentiles.p50, Some(1000));
        assert_eq!(d.percentiles.p75, Some(1500));
        assert_eq!(d.percentiles.p90, Some(1800));
        assert_eq!(d.percentiles.p95, Some(1900));
        assert_eq!(d.percentiles.p99, Some(2000));
        assert_eq!(d.mean, Some(1050.0));
        assert_eq!((d.min, d.max, d.count), (Some(100), Some(2000), 20));
    }

    #[test]
    fn no_sample_is_null_everywhere_and_a_single_one_is_itself() {
        let none = Distribution::from_values(&[]);
        let json = serde_json::to_value(&none).unwrap();
        assert_eq!(json["count"], 0);
        for key in ["min", "max", "mean", "stdev", "p50", "p99_9"] {
            assert!(json[key].is_null(), "{key}");
        }
        assert_eq!(none, Distribution::from_histogram(&histogram()));
        let one = Distribution::from_values(&[7]);
        assert_eq!((one.mean, one.stdev, one.percentiles.p99_9), (Some(7.0), Some(0.0), Some(7)));
    }

    #[test]
    fn a_histogram_gives_the_middle_of_the_bucket_within_the_extremes() {
        let mut h = histogram();
        h.record(1_000_000).unwrap();
        let d = Distribution::from_histogram(&h);
        assert_eq!(d.percentiles.p50, Some(h.median_equivalent(1_000_000)));
        h.record_n(3_000_000, 99).unwrap();
        let d = Distribution::from_histogram(&h);
        assert_eq!(d.percentiles.p50, Some(h.median_equivalent(3_000_000)));
        assert!(d.percentiles.p50 <= d.max && d.percentiles.p50 >= d.min);
    }

    #[test]
    fn a_distribution_survives_being_written_and_read() {
        let d = Distribution::from_values(&(1..500).collect::<Vec<u64>>());
        let text = serde_json::to_string(&d).unwrap();
        assert_eq!(serde_json::from_str::<Distribution>(&text).unwrap(), d);
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_counting(values in prop::collection::vec(0u64..1000, 1..300)) {
            let d = Distribution::from_values(&values);
            for p in [500, 750, 900, 950, 990, 999] {
                let value = d.percentiles.at(p).copied().flatten().unwrap();
                let n = values.len() as u64;
                // Nearest rank: the smallest value that at least p of the sample do not exceed.
                let within = |limit: u64| values.iter().filter(|&&v| v <= limit).count() as u64;
                prop_assert!(within(value) * 1000 >= n * p);
                prop_assert!(value == 0 || within(value - 1) * 1000 < n * p);
                let [low, high] = *d.ci95.at(p).unwrap();
                prop_assert!(low.is_none_or(|low| low <= value));
                prop_assert!(high.is_none_or(|high| high >= value));
            }
        }

        #[test]
        fn a_histogram_is_within_a_thousandth(
            values in prop::collection::vec(0u64..1 << 40, 1..200),
        ) {
            let mut h = histogram();
            values.iter().for_each(|&v| h.record(v).unwrap());
            let exact = Distribution::from_values(&values);
            let binned = Distribution::from_histogram(&h);
            for p in [500, 750, 900, 950, 990, 999] {
                let a = exact.percentiles.at(p).copied().flatten().unwrap() as f64;
                let b = binned.percentiles.at(p).copied().flatten().unwrap() as f64;
                prop_assert!((a - b).abs() <= a / 1000.0 + 1.0, "{a} {b}");
            }
        }
    }
}
