//! Medians, and the fastest of many passes.

use std::fmt;

use tokclock_engine::clock::monotonic_ns;

/// The median of a few figures, and how far they lie apart. Shown as `0.94 (0.91 to 0.97)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The lowest.
    pub lowest: f64,
    /// The middle one; of an even number the lower of the two.
    pub median: f64,
    /// The highest.
    pub highest: f64,
}

impl Spread {
    /// Of these figures; zeros if there is none.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
        let last = sorted.len().saturating_sub(1);
        Self { lowest: at(0), median: at(last / 2), highest: at(last) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2} ({:.2} to {:.2})", self.median, self.lowest, self.highest);
        f.pad(&text)
    }
}

/// What one of `operations` takes, ns, if `work` does so many: the fastest of `passes`, which is
/// the one that nothing else disturbed.
pub fn best_ns(operations: u64, passes: usize, mut work: impl FnMut()) -> f64 {
    let mut best = u64::MAX;
    for _ in 0..passes {
        let start = monotonic_ns();
        work();
        best = best.min(monotonic_ns() - start);
    }
    best as f64 / operations as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_in_order_whatever_the_order_of_its_figures() {
        let spread = Spread::of([0.5, 0.1, 0.9, 0.7, 0.3]);
        assert_eq!(spread, Spread { lowest: 0.1, median: 0.5, highest: 0.9 });
        assert_eq!(spread.to_string(), "0.50 (0.10 to 0.90)");
        assert_eq!(Spread::of([2.0, 1.0]).median, 1.0);
        assert_eq!(Spread::of([]).highest, 0.0);
    }

    #[test]
    fn the_fastest_pass_is_divided_by_its_operations() {
        let mut passes = 0;
        let each = best_ns(10, 3, || {
            passes += 1;
            let end = monotonic_ns() + 20_000;
            while monotonic_ns() < end {}
        });
        assert_eq!(passes, 3);
        assert!(each >= 2_000.0, "{each}");
    }
}
