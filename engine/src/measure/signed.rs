//! Figures of values that may be negative.

use serde::{Deserialize, Serialize};

use super::distribution::{ByPercentile, Distribution};

/// A distribution of differences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignedDistribution {
    /// Unit of every value here: `ns`.
    pub unit: String,
    /// Number of samples.
    pub count: u64,
    /// Of those, samples below 0.
    pub negative: u64,
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Standard deviation of these values (divisor `count`).
    pub stdev: Option<f64>,
    /// Percentiles by nearest rank.
    #[serde(flatten)]
    pub percentiles: ByPercentile<Option<i64>>,
    /// 95 % intervals of the percentiles, `[low, high]`; an end that the sample cannot support is
    /// null.
    pub ci95: ByPercentile<[Option<i64>; 2]>,
}

impl SignedDistribution {
    /// Exact figures of `values`, which come in order of their requests' origin; `None` of none.
    ///
    /// A percentile moves with its sample, and so does its interval: they are those of the values'
    /// distances from the smallest of them.
    pub(super) fn from_values(values: &[i64]) -> Option<Self> {
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        let moved: Vec<u64> = values.iter().map(|value| value.abs_diff(min)).collect();
        let moved = Distribution::from_values(&moved);
        let back = |value: u64| min.checked_add_unsigned(value).unwrap_or(max);
        let at = |p: u64| moved.percentiles.at(p).copied().flatten().map(back);
        let ends = |p: u64| moved.ci95.at(p).copied().unwrap_or_default().map(|end| end.map(back));
        Some(Self {
            unit: moved.unit,
            count: moved.count,
            negative: values.iter().filter(|value| **value < 0).count() as u64,
            min,
            max,
            mean: moved.mean.map(|mean| mean + min as f64),
            stdev: moved.stdev,
            percentiles: ByPercentile::from_fn(at),
            ci95: ByPercentile::from_fn(ends),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn differences_below_zero_stay_below_zero() {
        let signed = SignedDistribution::from_values(&[-5, 3, -1, 10, 0]).unwrap();
        assert_eq!((signed.min, signed.max, signed.negative), (-5, 10, 2));
        assert_eq!(signed.percentiles.p50, Some(0));
        assert!((signed.mean.unwrap() - 1.4).abs() < 1e-9);
        assert_eq!(SignedDistribution::from_values(&[]), None);
    }

    proptest! {
        #[test]
        fn order_is_kept(values in prop::collection::vec(any::<i64>(), 1..200)) {
            let signed = SignedDistribution::from_values(&values).unwrap();
            let mut sorted = values;
            sorted.sort_unstable();
            prop_assert_eq!(Some(signed.min), sorted.first().copied());
            prop_assert_eq!(signed.percentiles.p50, Some(sorted[(sorted.len() - 1) / 2]));
        }
    }
}
