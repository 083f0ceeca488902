//! The knee: where more load stops paying.

use serde::{Deserialize, Serialize};

use super::level::Level;

/// Goodput is as good as throughput from this share on.
const GOOD_SHARE: f64 = 0.95;
/// Levels that a curvature needs.
const CURVE_LEVELS_MIN: usize = 3;
/// A throughput or latency that varies by less than this much of its minimum is flat.
const FLAT: f64 = 0.1;
/// The curve must leave its chord by so much of the square it is drawn in; less is a straight line.
const BEND_MIN: f64 = 0.05;

/// Where more load stops paying, as loads, by two rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The last level before the first at which goodput is below 0.95 of throughput; null without
    /// limits, or when the first level is below already.
    pub by_goodput: Option<f64>,
    /// No level was below: the knee lies at `by_goodput` or beyond what was measured. Null where
    /// `by_goodput` is.
    pub goodput_still_holds: Option<bool>,
    /// The level farthest from the chord of throughput against latency; null with fewer than three
    /// levels, or where the curve is flat or straight.
    pub by_curvature: Option<f64>,
}

impl Knee {
    /// The one to go by: `by_goodput` where a later level fell below it, else `by_curvature`.
    #[must_use]
    pub fn best(&self) -> Option<f64> {
        let broken = self.by_goodput.filter(|_| self.goodput_still_holds == Some(false));
        broken.or(self.by_curvature)
    }
}

/// The knee over `levels`, which come in order of load, with the medians of their repetitions.
///
/// By goodput: levels hold while `goodput_rps ≥ 0.95 · rps` and something was served; the knee is
/// the last one before the first that does not (a later one that does again is no part of it).
///
/// By curvature: x is the median E2E of the successful (TTFT where fewer than three levels have an
/// E2E), y is `rps`, both scaled to 0..1 between their smallest and largest. The knee is the level
/// with the largest perpendicular distance above the chord from the first level to the last
/// (Satopää et al. 2011, "Finding a Kneedle in a Haystack", with the true distance and without
/// smoothing). Throughput counts successful requests, so the latency beside it is theirs.
#[must_use]
pub fn knee(levels: &[&Level]) -> Knee {
    let (by_goodput, goodput_still_holds) = by_goodput(levels).unzip();
    Knee { by_goodput, goodput_still_holds, by_curvature: by_curvature(levels) }
}

/// The load, and whether it is the last there is. Levels without goodput have no say.
fn by_goodput(levels: &[&Level]) -> Option<(f64, bool)> {
    let limited: Vec<(f64, bool)> = levels
        .iter()
        .filter_map(|level| {
            let (good, all) = (level.figures.goodput_rps?, level.figures.rps?);
            Some((level.value, all > 0.0 && good >= GOOD_SHARE * all))
        })
        .collect();
    let holding = limited.iter().take_while(|(_, holds)| *holds).count();
    let (load, _) = limited.get(holding.checked_sub(1)?)?;
    Some((*load, holding == limited.len()))
}

fn by_curvature(levels: &[&Level]) -> Option<f64> {
    let points = |latency: fn(&Level) -> Option<u64>| -> Vec<[f64; 3]> {
        let point =
            |level: &&Level| Some([level.value, latency(level)? as f64, level.figures.rps?]);
        levels.iter().filter_map(point).collect()
    };
    let mut curve = points(|level| level.figures.served_e2e_p50);
    if curve.len() < CURVE_LEVELS_MIN {
        curve = points(|level| level.figures.served_ttft_p50);
    }
    if curve.len() < CURVE_LEVELS_MIN {
        return None;
    }
    let x = scaled(curve.iter().map(|point| point[1]))?;
    let y = scaled(curve.iter().map(|point| point[2]))?;
    let (dx, dy) = (x.last()? - x.first()?, y.last()? - y.first()?);
    let length = dx.hypot(dy);
    if length == 0.0 {
        return None;
    }
    let (x0, y0) = (*x.first()?, *y.first()?);
    let mut best = None;
    for ((x, y), [load, ..]) in x.iter().zip(&y).zip(&curve) {
        let above = (dx * (y - y0) - dy * (x - x0)) / length;
        if above >= BEND_MIN && best.is_none_or(|(_, most)| above > most) {
            best = Some((*load, above));
        }
    }
    best.map(|(load, _)| load)
}

/// `(v − min) / (max − min)`; `None` where they hardly differ.
fn scaled(values: impl Iterator<Item = f64> + Clone) -> Option<Vec<f64>> {
    let (low, high) = (values.clone().reduce(f64::min)?, values.clone().reduce(f64::max)?);
    (high - low > FLAT * low).then(|| values.map(|value| (value - low) / (high - low)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::planted::{figures, level, queueing};
    use super::*;

    fn of(levels: &[Level]) -> Knee {
        knee(&levels.iter().collect::<Vec<_>>())
    }

    fn with_goodput(load: f64, rps: f64, goodput: f64) -> Level {
        let mut one = figures(rps, 100, 1000);
        one.goodput_rps = Some(goodput);
        level(load, one)
    }

    #[test]
    fn by_goodput_is_the_last_level_before_goodput_first_falls_behind() {
        let mut levels = vec![
            with_goodput(1.0, 1.0, 1.0),
            with_goodput(2.0, 2.0, 1.9),
            with_goodput(4.0, 4.0, 3.7),
            with_goodput(8.0, 8.0, 8.0),
        ];
        let got = of(&levels);
        assert_eq!((got.by_goodput, got.goodput_still_holds), (Some(2.0), Some(false)));
        assert_eq!(got.best(), Some(2.0));
        levels.truncate(2);
        let got = of(&levels);
        assert_eq!((got.by_goodput, got.goodput_still_holds), (Some(2.0), Some(true)));
        assert_eq!(got.best(), None, "it may lie beyond");
    }

    #[test]
    fn without_limits_or_with_a_bad_first_level_there_is_none_by_goodput() {
        let free = [level(1.0, figures(1.0, 100, 1000))];
        assert_eq!(of(&free), Knee::default());
        let bad = [with_goodput(1.0, 1.0, 0.5), with_goodput(2.0, 2.0, 2.0)];
        assert_eq!(of(&bad).by_goodput, None);
        assert_eq!(of(&[with_goodput(1.0, 0.0, 0.0)]).by_goodput, None, "nothing was served");
    }

    #[test]
    fn by_curvature_is_the_corner_of_a_planted_one() {
        // Scaled: (0, 0), (0.05, 0.5), (0.1, 1), (0.5, 1), (1, 1); the corner is 0.9 / √2 away.
        let at = |load: f64, rps: f64, e2e| level(load, figures(rps, 100, e2e));
        let levels = [
            at(1.0, 10.0, 100),
            at(2.0, 20.0, 150),
            at(3.0, 30.0, 200),
            at(4.0, 30.0, 600),
            at(5.0, 30.0, 1100),
        ];
        assert_eq!(of(&levels).by_curvature, Some(3.0));
        assert_eq!(of(&levels[..2]).by_curvature, None, "two levels are a chord alone");
    }

    #[test]
    fn by_curvature_finds_where_a_queue_begins() {
        let loads = [10.0, 20.0, 30.0, 40.0, 60.0, 80.0, 90.0, 110.0, 150.0, 200.0];
        let levels: Vec<Level> = loads.iter().map(|&rate| queueing(rate, 100.0)).collect();
        assert_eq!(of(&levels).by_curvature, Some(90.0));
    }

    #[test]
    fn a_throughput_that_falls_back_bends_the_curve_too() {
        let at = |load: f64, rps: f64, e2e| level(load, figures(rps, 100, e2e));
        let levels =
            [at(1.0, 10.0, 100), at(2.0, 20.0, 120), at(4.0, 15.0, 500), at(8.0, 5.0, 900)];
        assert_eq!(of(&levels).by_curvature, Some(2.0));
    }

    #[test]
    fn a_flat_or_straight_curve_has_no_knee() {
        let at = |load: f64, rps: f64, e2e| level(load, figures(rps, 100, e2e));
        let flat: Vec<Level> = (1..6).map(|i| at(i.into(), 10.0 * f64::from(i), 1000)).collect();
        assert_eq!(of(&flat).by_curvature, None, "latency does not move");
        let straight: Vec<Level> =
            (1..6).map(|i| at(i.into(), 10.0 * f64::from(i), 100 * i as u64)).collect();
        assert_eq!(of(&straight).by_curvature, None);
        let below = [at(1.0, 10.0, 100), at(2.0, 11.0, 500), at(3.0, 30.0, 600)];
        assert_eq!(of(&below).by_curvature, None, "below its chord it gets steeper");
    }

    #[test]
    fn ttft_stands_in_where_there_is_no_e2e() {
        let at = |load: f64, rps: f64, ttft| {
            let mut one = figures(rps, ttft, 0);
            one.served_e2e_p50 = None;
            level(load, one)
        };
        let levels = [at(1.0, 10.0, 100), at(2.0, 30.0, 120), at(3.0, 31.0, 900)];
        assert_eq!(of(&levels).by_curvature, Some(2.0));
    }
}
