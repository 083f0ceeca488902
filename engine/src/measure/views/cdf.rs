//! A distribution as a line: which share of the samples is at most so long.

use hdrhistogram::Histogram;

/// Points of a line, at most.
pub const CDF_POINTS_MAX: usize = 400;
/// Of those, points that are spread evenly; the others are for the upper end, where percentiles lie.
const EVEN: usize = 280;

/// An empirical distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Cdf {
    /// Samples.
    pub count: u64,
    /// `(share, value in ns)`, both rising; the value is that of nearest rank, the last share is 1.
    pub points: Vec<(f64, u64)>,
}

impl Cdf {
    /// That of `values`, exact at each of its points; `None` of none.
    #[must_use]
    pub fn from_values(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let count = values.len() as u64;
        let value = |rank: u64| {
            usize::try_from(rank.checked_sub(1)?).ok().and_then(|at| values.get(at).copied())
        };
        let points = ranks(count).into_iter().filter_map(|rank| {
            let value = value(rank)?;
            Some((rank as f64 / count as f64, value))
        });
        (count > 0).then(|| Self { count, points: points.collect() })
    }

    /// That of a histogram, the middle of each bucket clamped to the extremes; `None` of an empty one.
    #[must_use]
    pub fn from_histogram(histogram: &Histogram<u64>) -> Option<Self> {
        let count = histogram.len();
        let ranks = ranks(count);
        let mut wanted = ranks.iter().copied().peekable();
        let (mut below, mut points) = (0_u64, Vec::new());
        for step in histogram.iter_recorded() {
            below = below.saturating_add(step.count_since_last_iteration());
            let middle = histogram.median_equivalent(step.value_iterated_to());
            let value = middle.clamp(histogram.min(), histogram.max().max(histogram.min()));
            while let Some(rank) = wanted.next_if(|rank| *rank <= below) {
                points.push((rank as f64 / count as f64, value));
            }
        }
        (count > 0).then_some(Self { count, points })
    }

    /// The value that a share of the samples, 0 to 1, does not exceed, as far as its points tell.
    #[must_use]
    pub fn at(&self, share: f64) -> Option<u64> {
        let found = self.points.iter().find(|(reached, _)| *reached >= share);
        found.or(self.points.last()).map(|(_, value)| *value)
    }
}

/// The ranks, from 1 and rising, at which a line over `count` samples has its points.
fn ranks(count: u64) -> Vec<u64> {
    if count <= CDF_POINTS_MAX as u64 {
        return (1..=count).collect();
    }
    let even = (0..EVEN).map(|at| at as f64 / EVEN as f64);
    // From the 90th percentile up so that each step leaves the same part of what is above.
    let tail = (0..CDF_POINTS_MAX - EVEN).map(|at| {
        let place = at as f64 / (CDF_POINTS_MAX - EVEN - 1) as f64;
        1.0 - 0.1 * (10.0 / count as f64).powf(place)
    });
    let rank = |share: f64| ((share * count as f64).ceil() as u64).clamp(1, count);
    let mut all: Vec<u64> = even.chain(tail).map(rank).collect();
    all.push(count);
    all.sort_unstable();
    all.dedup();
    // The extremes stay.
    if all.len() > CDF_POINTS_MAX {
        all.remove(1);
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::histogram;

    #[test]
    fn few_values_are_all_there() {
        let cdf = Cdf::from_values(vec![30, 10, 20, 10]).unwrap();
        assert_eq!(cdf.count, 4);
        assert_eq!(cdf.points, [(0.25, 10), (0.5, 10), (0.75, 20), (1.0, 30)]);
        assert_eq!((cdf.at(0.5), cdf.at(0.51), cdf.at(1.0)), (Some(10), Some(20), Some(30)));
    }

    #[test]
    fn nothing_has_no_line() {
        assert_eq!(Cdf::from_values(Vec::new()), None);
        assert_eq!(Cdf::from_histogram(&histogram()), None);
    }

    #[test]
    fn a_histogram_has_the_line_of_its_values() {
        let mut some = histogram();
        for value in [5, 7, 9] {
            some.record(value).unwrap();
        }
        let cdf = Cdf::from_histogram(&some).unwrap();
        assert_eq!(Some(cdf), Cdf::from_values(vec![5, 7, 9]));
    }

    proptest! {
        #[test]
        fn a_line_is_short_rises_and_is_exact(
            values in prop::collection::vec(0_u64..1 << 40, 1..3000),
        ) {
            let cdf = Cdf::from_values(values.clone()).unwrap();
            prop_assert!(cdf.points.len() <= CDF_POINTS_MAX);
            prop_assert!(cdf.points.is_sorted());
            let last = *cdf.points.last().unwrap();
            prop_assert_eq!(last, (1.0, *values.iter().max().unwrap()));
            prop_assert_eq!(cdf.points[0].1, *values.iter().min().unwrap());
            for (share, value) in cdf.points {
                let within = values.iter().filter(|one| **one <= value).count() as f64;
                let below = values.iter().filter(|one| **one < value).count() as f64;
                let rank = share * values.len() as f64;
                prop_assert!(within >= rank - 1e-6 && below < rank + 1e-6);
            }
        }
    }
}
