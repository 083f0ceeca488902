//! Whether a level is saturated: more load no longer brings more.

use super::Variable;
use super::level::Level;
use crate::measure::distribution::ratio;

/// A closed loop is saturated below this much of the added load in added throughput.
const GAIN_MIN: f64 = 0.1;
/// An open loop is saturated below this share of the offered rate.
const ACHIEVED_MIN: f64 = 0.95;

/// Whether `level` is saturated (METRICS.md, "Knee, saturation, envelope").
///
/// Open loop: less than 0.95 of the offered rate was served, by more than chance makes of so few
/// requests (what is under way at the two ends of a window differs by about the root of their number:
/// the share short must exceed `1 / √n`), or in-flight or TTFT rose through the
/// window; whichever of the two is not known does not count, `None` when neither is. Closed loop:
/// `(x2 − x1) / x1 < 0.1 · (n2 − n1) / n1` with the throughput x (`rps`) and users n of `level` (2)
/// and of `previous` (1), the next lower load; `None` without one.
#[must_use]
pub fn saturated(level: &Level, previous: Option<&Level>, variable: Variable) -> Option<bool> {
    if variable.is_open() {
        let chance = |n: u64| 1.0 - 1.0 / (n.max(1) as f64).sqrt();
        let least = level.figures.requests.map_or(ACHIEVED_MIN, |n| ACHIEVED_MIN.min(chance(n)));
        let short = level.figures.achieved_share.map(|share| share < least);
        return match (short, level.rising) {
            (None, None) => None,
            (short, rising) => Some(short == Some(true) || rising == Some(true)),
        };
    }
    let previous = previous?;
    let added = ratio(level.value - previous.value, previous.value).filter(|&added| added > 0.0)?;
    let before = previous.figures.rps?;
    let gained = ratio(level.figures.rps? - before, before)?;
    Some(gained < GAIN_MIN * added)
}

/// Fills in `saturated` of every level, each against the next lower load. Of levels
/// with one load the first serves those above as their lower one.
pub(super) fn mark(levels: &mut [Level], variable: Variable) {
    let marks: Vec<Option<bool>> =
        levels.iter().map(|level| saturated(level, lower(levels, level.value), variable)).collect();
    for (level, mark) in levels.iter_mut().zip(marks) {
        level.saturated = mark;
    }
}

fn lower(levels: &[Level], value: f64) -> Option<&Level> {
    let below = levels.iter().filter(|level| level.value < value);
    below.reduce(|best, level| if level.value > best.value { level } else { best })
}

#[cfg(test)]
mod tests {
    use super::super::planted::{figures, level};
    use super::*;

    #[test]
    fn a_closed_loop_is_saturated_when_added_users_bring_almost_nothing() {
        let at = |users: f64, rps: f64| level(users, figures(rps, 100, 1000));
        let (ten, twenty) = (at(10.0, 50.0), at(20.0, 54.9));
        let judge = |a: &Level, b: &Level| saturated(b, Some(a), Variable::Concurrency);
        assert_eq!(judge(&ten, &twenty), Some(true), "9.8 % for twice the users");
        assert_eq!(judge(&ten, &at(20.0, 55.1)), Some(false), "10.2 %");
        assert_eq!(judge(&ten, &at(12.0, 51.1)), Some(false), "2.2 % for 20 % more users");
        assert_eq!(judge(&ten, &at(20.0, 40.0)), Some(true), "less than before");
        assert_eq!(saturated(&ten, None, Variable::Concurrency), None);
        assert_eq!(judge(&at(10.0, 0.0), &ten), None, "nothing to compare with");
    }

    #[test]
    fn an_open_loop_is_saturated_by_its_shortfall_or_by_a_rise() {
        let judge = |achieved, rising| {
            let mut one = level(10.0, figures(9.0, 100, 1000));
            (one.figures.achieved_share, one.rising) = (achieved, rising);
            saturated(&one, None, Variable::Rate)
        };
        assert_eq!(judge(Some(0.949), None), Some(true));
        assert_eq!(judge(Some(0.95), None), Some(false));
        assert_eq!(judge(Some(0.99), Some(true)), Some(true));
        assert_eq!(judge(Some(0.99), Some(false)), Some(false));
        assert_eq!(judge(None, Some(true)), Some(true));
        assert_eq!(judge(None, None), None);
    }

    #[test]
    fn a_few_requests_more_or_less_are_chance() {
        let judge = |achieved, requests| {
            let mut one = level(10.0, figures(9.0, 100, 1000));
            one.figures.achieved_share = Some(achieved);
            one.figures.requests = Some(requests);
            saturated(&one, None, Variable::Rate)
        };
        assert_eq!(judge(0.8, 14), Some(false), "eleven of fourteen");
        assert_eq!(judge(0.8, 100), Some(true));
        assert_eq!(judge(0.949, 1000), Some(true));
    }

    #[test]
    fn each_level_is_held_against_the_next_lower_load() {
        let at = |users: f64, rps: f64| level(users, figures(rps, 100, 1000));
        let mut levels = vec![at(40.0, 100.0), at(10.0, 50.0), at(20.0, 98.0)];
        mark(&mut levels, Variable::Concurrency);
        let marks: Vec<_> = levels.iter().map(|level| level.saturated).collect();
        assert_eq!(marks, [Some(true), None, Some(false)]);
    }
}
