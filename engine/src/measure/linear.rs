//! Percentiles by linear interpolation, as most other tools have them: for files in their form alone.

/// Values whose percentiles lie between two of them in proportion.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    sorted: Vec<f64>,
}

impl Linear {
    /// Of `values`; those that are no numbers are left out.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Self { sorted }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.sorted.first().copied()
    }

    /// The largest.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.sorted.last().copied()
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sorted.iter().sum()
    }

    /// Their arithmetic mean.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        super::distribution::ratio(self.sum(), self.sorted.len() as f64)
    }

    /// Their standard deviation (divisor: how many).
    #[must_use]
    pub fn stdev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.sorted.iter().map(|value| (value - mean).powi(2)).sum();
        super::distribution::ratio(squares, self.sorted.len() as f64).map(f64::sqrt)
    }

    /// The value at `percent` (0 to 100) of the way from the first to the last: the place
    /// `(n − 1) · percent / 100`, between two values in proportion.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let last = self.sorted.len().checked_sub(1)?;
        let place = last as f64 * percent.clamp(0.0, 100.0) / 100.0;
        let below = (place.floor() as usize).min(last);
        let (low, high) = (self.sorted[below], self.sorted[(below + 1).min(last)]);
        Some((high - low).mul_add(place - below as f64, low))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_between_two_values_are_taken_in_proportion() {
        let values = Linear::of([40.0, 10.0, 30.0, 20.0]);
        assert_eq!(values.percentile(50.0), Some(25.0));
        assert_eq!(values.percentile(25.0), Some(17.5));
        assert_eq!((values.percentile(0.0), values.percentile(100.0)), (Some(10.0), Some(40.0)));
        assert!((values.percentile(99.0).unwrap() - 39.7).abs() < 1e-9);
        assert_eq!((values.mean(), values.sum(), values.count()), (Some(25.0), 100.0, 4));
        assert!((values.stdev().unwrap() - 125f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn without_a_value_there_is_no_figure() {
        let none = Linear::of([f64::NAN]);
        assert_eq!((none.percentile(50.0), none.mean(), none.stdev()), (None, None, None));
        assert_eq!((none.min(), none.max(), none.count()), (None, None, 0));
        assert_eq!(Linear::of([7.0]).percentile(99.0), Some(7.0));
    }

    proptest! {
        #[test]
        fn percentiles_rise_and_stay_within_the_values(
            values in prop::collection::vec(-1e9f64..1e9, 1..40), p in 0f64..100.0, q in 0f64..100.0,
        ) {
            let all = Linear::of(values);
            let (low, high) = (p.min(q), p.max(q));
            let (one, two) = (all.percentile(low).unwrap(), all.percentile(high).unwrap());
            prop_assert!(one <= two + 1e-6);
            prop_assert!(all.min().unwrap() <= one + 1e-6 && two <= all.max().unwrap() + 1e-6);
        }
    }
}
