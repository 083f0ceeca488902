//! Latencies over time: every request as a point, or, of many, how many fell where.

/// Requests that are shown one by one, at most.
const POINTS_MAX: usize = 1500;
/// Bins of time, at most.
const TIME_MAX: u64 = 120;
/// Bins of latency, at most.
const LATENCY_MAX: usize = 50;
/// Each bin of latency reaches at least so many times its lower end.
const STEP_MIN: f64 = 1.04;

/// Latencies over the time of the requests' origin.
#[derive(Debug, Clone, PartialEq)]
pub enum Cloud {
    /// `(origin, latency)` of each, ns, by origin.
    Points(Vec<(u64, u64)>),
    /// Of many.
    Heat(Heat),
}

/// How many requests fell into each bin.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// Width of a bin of time, ns; the first begins with the run.
    pub bin_ns: u64,
    /// Ends of the bins of latency, rising, one more than there are bins, ns.
    pub edges: Vec<f64>,
    /// By bin of latency, then by bin of time.
    pub counts: Vec<Vec<u64>>,
}

impl Cloud {
    /// That of what `all` gives each time it is asked, of a run that lasted `end_ns`; `None` of nothing.
    pub(super) fn of<I: Iterator<Item = (u64, u64)>>(
        all: impl Fn() -> I,
        end_ns: u64,
    ) -> Option<Self> {
        if all().nth(POINTS_MAX).is_none() {
            let mut points: Vec<(u64, u64)> = all().collect();
            points.sort_unstable();
            return (!points.is_empty()).then_some(Self::Points(points));
        }
        let fold = |(low, high, end): (u64, u64, u64), (at, value): (u64, u64)| {
            (low.min(value), high.max(value), end.max(at))
        };
        let (low, high, end) = all().fold((u64::MAX, 0, end_ns), fold);
        let (low, high) = (low.max(1), high.max(1));
        let bin_ns = end.div_ceil(TIME_MAX).max(1);
        let columns = usize::try_from(end / bin_ns).unwrap_or(0) + 1;
        let span = (high as f64 / low as f64).ln();
        let rows = ((span / STEP_MIN.ln()) as usize + 1).min(LATENCY_MAX);
        let step = span / rows as f64;
        let place = |value: u64| match step {
            step if step > 0.0 => {
                (((value.max(low) as f64 / low as f64).ln() / step) as usize).min(rows - 1)
            }
            _ => 0,
        };
        let mut counts = vec![vec![0_u64; columns]; rows];
        for (at, value) in all() {
            let column = usize::try_from(at / bin_ns).unwrap_or(usize::MAX).min(columns - 1);
            counts[place(value)][column] += 1;
        }
        let edge = |at: usize| low as f64 * (step * at as f64).exp();
        let edges = if step > 0.0 {
            (0..=rows).map(edge).collect()
        } else {
            vec![low as f64, low as f64 * STEP_MIN]
        };
        Some(Self::Heat(Heat { bin_ns, edges, counts }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_requests_are_points_by_origin() {
        let some = [(20, 7), (10, 9)];
        let cloud = Cloud::of(|| some.iter().copied(), 100);
        assert_eq!(cloud, Some(Cloud::Points(vec![(10, 9), (20, 7)])));
        assert_eq!(Cloud::of(std::iter::empty, 100), None);
    }

    #[test]
    fn equal_latencies_are_one_bin() {
        let cloud = Cloud::of(|| (0..2000).map(|at| (at, 5)), 2000);
        let Some(Cloud::Heat(heat)) = cloud else { panic!("{cloud:?}") };
        assert_eq!(heat.counts.len(), 1);
        assert_eq!(heat.edges.len(), 2);
        assert_eq!(heat.counts[0].iter().sum::<u64>(), 2000);
    }

    proptest! {
        #[test]
        fn every_request_is_in_one_bin_of_few(
            values in prop::collection::vec((0_u64..1 << 36, 0_u64..1 << 40), 1501..2500),
            end in 0_u64..1 << 36,
        ) {
            let cloud = Cloud::of(|| values.iter().copied(), end);
            let Some(Cloud::Heat(heat)) = cloud else { panic!("{cloud:?}") };
            prop_assert!(heat.counts.len() <= LATENCY_MAX);
            prop_assert!(heat.counts.iter().all(|row| row.len() <= TIME_MAX as usize + 1));
            prop_assert_eq!(heat.edges.len(), heat.counts.len() + 1);
            prop_assert!(heat.edges.is_sorted() && heat.edges.iter().all(|edge| edge.is_finite()));
            let sum: u64 = heat.counts.iter().flatten().sum();
            prop_assert_eq!(sum, values.len() as u64);
        }
    }
}
