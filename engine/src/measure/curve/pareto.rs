//! Throughput of the server against what one user sees: which points no other one beats.

use serde::{Deserialize, Serialize};

use super::level::Level;
use crate::measure::distribution::ratio;

/// One point of one result, before it is held against others.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The name of the result it belongs to.
    pub source: String,
    /// Its load.
    pub value: f64,
    /// Output tokens per second.
    pub output_tps: Option<f64>,
    /// GPUs that served it, where that is known.
    pub gpus: Option<u32>,
    /// TTFT p50, judged, ns.
    pub ttft_p50: Option<u64>,
    /// Output tokens per second that the user in the middle saw.
    pub per_user_tps: Option<f64>,
}

impl Point {
    /// The point of a level.
    #[must_use]
    pub fn of(source: &str, level: &Level, gpus: Option<u32>) -> Self {
        Self {
            source: source.to_owned(),
            value: level.value,
            output_tps: level.figures.output_tps,
            gpus,
            ttft_p50: level.figures.ttft_p50,
            per_user_tps: level.figures.per_user_tps,
        }
    }

    fn tps_per_gpu(&self) -> Option<f64> {
        ratio(self.output_tps?, f64::from(self.gpus?))
    }
}

/// One point and whether others beat it, on each of two frontiers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParetoPoint {
    /// The name of the result it belongs to.
    pub source: String,
    /// Its load.
    pub value: f64,
    /// Output tokens per second.
    pub output_tps: Option<f64>,
    /// The same for each GPU; null where their number is not known.
    pub output_tps_per_gpu: Option<f64>,
    /// TTFT p50, judged, ns.
    pub ttft_p50: Option<u64>,
    /// Output tokens per second that the user in the middle saw.
    pub per_user_tps: Option<f64>,
    /// Another point has at least this throughput at most at this TTFT, and one of them is better.
    /// Also true where the point lacks one of the two: it is on no frontier.
    pub dominated_by_ttft: bool,
    /// Likewise with throughput and per-user rate, more being better in both.
    pub dominated_by_user: bool,
}

/// The points of one or several results, held against each other, in their order. Throughput counts
/// per GPU if the number of GPUs is known of every point, else as it is: the two are never compared.
/// Dominance is Pareto's: no worse in both figures, better in one; equal points do not beat each
/// other.
#[must_use]
pub fn pareto(points: &[Point]) -> Vec<ParetoPoint> {
    let per_gpu = points.iter().all(|point| point.gpus.is_some_and(|gpus| gpus > 0));
    let throughput = |point: &Point| if per_gpu { point.tps_per_gpu() } else { point.output_tps };
    let pairs = |second: fn(&Point) -> Option<f64>| -> Vec<Option<[f64; 2]>> {
        points.iter().map(|point| Some([throughput(point)?, second(point)?])).collect()
    };
    // A latency is the better the smaller it is.
    let by_ttft = pairs(|point| point.ttft_p50.map(|ns| -(ns as f64)));
    let by_user = pairs(|point| point.per_user_tps);
    let judged = points.iter().zip(by_ttft.iter().zip(&by_user));
    judged
        .map(|(point, (ttft, user))| ParetoPoint {
            source: point.source.clone(),
            value: point.value,
            output_tps: point.output_tps,
            output_tps_per_gpu: point.tps_per_gpu(),
            ttft_p50: point.ttft_p50,
            per_user_tps: point.per_user_tps,
            dominated_by_ttft: is_beaten(*ttft, &by_ttft),
            dominated_by_user: is_beaten(*user, &by_user),
        })
        .collect()
}

fn is_beaten(point: Option<[f64; 2]>, all: &[Option<[f64; 2]>]) -> bool {
    let Some([x, y]) = point else { return true };
    all.iter().flatten().any(|&[a, b]| a >= x && b >= y && (a > x || b > y))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(tps: f64, ttft: u64, user: f64, gpus: Option<u32>) -> Point {
        Point {
            source: "a".into(),
            value: 1.0,
            output_tps: Some(tps),
            gpus,
            ttft_p50: Some(ttft),
            per_user_tps: Some(user),
        }
    }

    fn marks(points: &[Point]) -> Vec<(bool, bool)> {
        pareto(points).iter().map(|p| (p.dominated_by_ttft, p.dominated_by_user)).collect()
    }

    #[test]
    fn a_point_is_beaten_by_one_no_worse_in_both_and_better_in_one() {
        let points = [
            point(100.0, 50, 60.0, None),
            point(200.0, 80, 40.0, None),
            point(200.0, 90, 50.0, None),
            point(150.0, 80, 30.0, None),
        ];
        assert_eq!(marks(&points), [(false, false), (false, true), (true, false), (true, true)]);
    }

    #[test]
    fn equal_points_are_both_on_the_frontier() {
        let twice = [point(100.0, 50, 60.0, None), point(100.0, 50, 60.0, None)];
        assert_eq!(marks(&twice), [(false, false), (false, false)]);
    }

    #[test]
    fn throughput_counts_per_gpu_only_if_all_say_how_many() {
        let mut points = [point(400.0, 50, 60.0, Some(8)), point(100.0, 50, 60.0, Some(1))];
        assert_eq!(marks(&points), [(true, true), (false, false)]);
        assert_eq!(pareto(&points)[0].output_tps_per_gpu, Some(50.0));
        points[1].gpus = None;
        assert_eq!(marks(&points), [(false, false), (true, true)]);
        assert_eq!(pareto(&points)[1].output_tps_per_gpu, None);
    }

    #[test]
    fn a_point_without_its_figure_is_on_no_frontier() {
        let mut lacking = point(900.0, 50, 60.0, Some(0));
        lacking.ttft_p50 = None;
        let points = [lacking, point(100.0, 50, 60.0, Some(1))];
        assert_eq!(marks(&points), [(true, false), (false, true)]);
        assert_eq!(pareto(&points)[0].output_tps_per_gpu, None, "no GPU, no figure");
    }

    proptest! {
        #[test]
        fn whatever_is_beaten_is_beaten_by_the_frontier(
            figures in prop::collection::vec((0u32..20, 1u64..20, 0u32..20), 1..30),
        ) {
            let points: Vec<Point> = figures
                .iter()
                .map(|&(tps, ttft, user)| point(tps.into(), ttft, user.into(), None))
                .collect();
            let got = pareto(&points);
            let frontier: Vec<_> = got.iter().filter(|p| !p.dominated_by_ttft).collect();
            prop_assert!(!frontier.is_empty());
            for one in &got {
                let beaten = frontier.iter().any(|p| {
                    p.output_tps >= one.output_tps && p.ttft_p50 <= one.ttft_p50
                        && (p.output_tps > one.output_tps || p.ttft_p50 < one.ttft_p50)
                });
                prop_assert_eq!(beaten, one.dominated_by_ttft);
            }
        }
    }
}
