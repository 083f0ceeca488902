//! What a server does with more load than it can serve.

use serde::{Deserialize, Serialize};

use super::knee::Knee;
use super::level::Level;

/// A level is beyond the knee from so many times its load on.
const BEYOND: f64 = 1.25;
/// Throughput holds down to this share of the most that was seen.
const HOLDS: f64 = 0.9;
/// Refusals count from this share of requests on.
const REFUSED_MIN: f64 = 0.01;
/// The latency of the accepted holds up to so many times that at the knee.
const ACCEPTED_MAX: f64 = 2.0;
/// A latency has grown from so many times that at the knee on.
const GROWN_MIN: f64 = 1.1;

/// What a server does beyond its knee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PastKnee {
    /// It refuses some; the latency of the accepted holds.
    Sheds,
    /// Throughput holds; latency grows.
    Queues,
    /// Throughput falls.
    Collapses,
}

/// What the server does at the highest load, if that lies beyond the knee (at 1.25 times its load or
/// more). `levels` come in order of load.
///
/// The knee is [`Knee::best`], else the last level before the first saturated one; a knee that goodput
/// does not show counts only if the highest load is not known to be unsaturated, since every convex
/// curve has a point of largest curvature, however little it is loaded. In this order:
/// *collapses* when `rps` is below 0.9 of the largest of all levels; *sheds* when at least 1 % of
/// requests were turned away and the TTFT p95 of the successful is at most twice that at the knee;
/// *queues* when that TTFT, or the median E2E of the successful, is at least 1.1 times that at the
/// knee, or when no request of its window ended at all. `None` when there is no knee, no level beyond, or none of the three.
#[must_use]
pub fn past_knee(levels: &[&Level], knee: &Knee) -> Option<PastKnee> {
    let at = knee.best().or_else(|| before_saturation(levels))?;
    let is_by_goodput = knee.goodput_still_holds == Some(false);
    let knee = levels.iter().rev().find(|level| level.value <= at)?;
    let last = levels.last().filter(|level| level.value >= BEYOND * at)?;
    if last.saturated == Some(false) && !is_by_goodput {
        return None;
    }
    let most = levels.iter().filter_map(|level| level.figures.rps).reduce(f64::max)?;
    if last.figures.rps? < HOLDS * most {
        return Some(PastKnee::Collapses);
    }
    let (before, after) = (&knee.figures, &last.figures);
    let ttft = growth(before.served_ttft_p95, after.served_ttft_p95);
    let e2e = growth(before.served_e2e_p50, after.served_e2e_p50);
    let refuses = after.refused_share.is_some_and(|share| share >= REFUSED_MIN);
    if refuses && ttft.is_some_and(|times| times <= ACCEPTED_MAX) {
        return Some(PastKnee::Sheds);
    }
    let grown = |times: Option<f64>| times.is_some_and(|times| times >= GROWN_MIN);
    // What came in its window had not ended when it was over, and what ended had waited since before.
    let is_endless = before.served_e2e_p50.is_some() && after.served_e2e_p50.is_none();
    (grown(ttft) || grown(e2e) || is_endless).then_some(PastKnee::Queues)
}

fn before_saturation(levels: &[&Level]) -> Option<f64> {
    let first = levels.iter().position(|level| level.saturated == Some(true))?;
    levels.get(first.checked_sub(1)?).map(|level| level.value)
}

/// How many times as long; without a time before anything is longer by any factor.
fn growth(before: Option<u64>, after: Option<u64>) -> Option<f64> {
    let (before, after) = (before?, after?);
    Some(after.max(1) as f64 / before.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::super::Variable;
    use super::super::figures::Figures;
    use super::super::knee::knee;
    use super::super::planted::{figures, level, queueing};
    use super::super::saturation::mark;
    use super::*;

    /// A server of 100 per second whose knee is planted at 100, with this at the end.
    fn after(load: f64, last: Figures) -> Option<PastKnee> {
        let levels = [
            level(50.0, figures(50.0, 90, 900)),
            level(100.0, figures(100.0, 100, 1000)),
            level(load, last),
        ];
        let knee = Knee { by_curvature: Some(100.0), ..Knee::default() };
        past_knee(&levels.iter().collect::<Vec<_>>(), &knee)
    }

    fn refusing(share: f64, figures: Figures) -> Figures {
        Figures { refused_share: Some(share), error_rate: Some(share), ..figures }
    }

    #[test]
    fn a_level_near_the_knee_tells_nothing() {
        assert_eq!(after(124.0, figures(50.0, 100, 1000)), None);
        assert_eq!(after(125.0, figures(50.0, 100, 1000)), Some(PastKnee::Collapses));
    }

    #[test]
    fn throughput_tells_queueing_from_collapse() {
        assert_eq!(after(200.0, figures(90.0, 900, 9000)), Some(PastKnee::Queues));
        assert_eq!(after(200.0, figures(89.9, 900, 9000)), Some(PastKnee::Collapses));
        assert_eq!(after(200.0, figures(100.0, 100, 1100)), Some(PastKnee::Queues), "E2E grew");
        assert_eq!(after(200.0, figures(100.0, 109, 1099)), None, "nothing happened");
    }

    #[test]
    fn refusals_are_shedding_only_while_the_accepted_are_served_as_before() {
        assert_eq!(after(200.0, refusing(0.5, figures(98.0, 200, 2000))), Some(PastKnee::Sheds));
        assert_eq!(after(200.0, refusing(0.5, figures(98.0, 201, 2000))), Some(PastKnee::Queues));
        assert_eq!(after(200.0, refusing(0.009, figures(98.0, 150, 900))), Some(PastKnee::Queues));
        let silent = Figures { served_ttft_p95: None, ..figures(0.0, 1, 1) };
        assert_eq!(after(200.0, refusing(1.0, silent)), Some(PastKnee::Collapses));
    }

    #[test]
    fn a_whole_queueing_curve_queues() {
        let loads = [10.0, 20.0, 40.0, 60.0, 80.0, 90.0, 110.0, 150.0, 200.0];
        let mut levels: Vec<Level> = loads.iter().map(|&rate| queueing(rate, 100.0)).collect();
        mark(&mut levels, Variable::Rate);
        let levels: Vec<&Level> = levels.iter().collect();
        assert_eq!(past_knee(&levels, &knee(&levels)), Some(PastKnee::Queues));
        let low = &levels[..5];
        assert_eq!(knee(low).best(), Some(60.0), "of what there is");
        assert_eq!(past_knee(low, &knee(low)), None, "80 of 100 are still served in time");
        let late = Knee { by_goodput: Some(60.0), goodput_still_holds: Some(false), ..knee(low) };
        assert_eq!(past_knee(low, &late), Some(PastKnee::Queues), "too late for the limits");
    }

    #[test]
    fn a_server_that_sheds_all_excess_has_its_knee_by_saturation() {
        let at = |load: f64, rps: f64, saturated| Level {
            saturated: Some(saturated),
            ..level(load, refusing(1.0 - rps / load, figures(rps, 100, 1000)))
        };
        let levels = [at(50.0, 50.0, false), at(100.0, 100.0, false), at(200.0, 100.0, true)];
        let levels: Vec<&Level> = levels.iter().collect();
        assert_eq!(knee(&levels).best(), None, "latency is flat");
        assert_eq!(past_knee(&levels, &Knee::default()), Some(PastKnee::Sheds));
        assert_eq!(past_knee(&levels[..2], &Knee::default()), None);
    }
}
