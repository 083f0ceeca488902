//! The operating envelope: the range of load where the objectives held.

use serde::{Deserialize, Serialize};

use super::by_load;
use super::figures::Figures;
use super::level::Level;
use crate::measure::Held;

/// The range of load where the objectives held in every repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The upper end of the range, with its figures; null where they held at no level.
    pub operating_point: Option<OperatingPoint>,
    /// The lowest load at which they held.
    pub holds_from: Option<f64>,
    /// The highest load such that they held there and at every level between `holds_from` and it.
    pub holds_to: Option<f64>,
    /// The objectives, as they were written.
    pub objectives: Vec<String>,
    /// The first level above the range, or of all where they held at none; null where the range goes
    /// to the end of the curve, so that it may go farther.
    pub above: Option<Outside>,
    /// The last level below it; null where the range starts with the curve.
    pub below: Option<Outside>,
    /// Loads above `above` at which they held again. No part of the range.
    pub holds_again: Vec<f64>,
}

/// The upper end of an envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatingPoint {
    /// Its load.
    pub value: f64,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A level outside of an envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outside {
    /// Its load.
    pub value: f64,
    /// `fail` or `unknown`.
    pub slo: Held,
    /// The objectives that failed in a repetition, or, where none did, that were not known to hold.
    pub broke: Vec<String>,
}

/// The envelope of a curve, from its levels; `None` where nothing was asked for.
///
/// The range begins at the lowest load at which the objectives held (in every repetition: the level
/// says `pass`, and `unknown` does not hold) and ends before the first level above at which they did
/// not. Levels of one load hold together or not at all.
#[must_use]
pub fn envelope(levels: &[Level]) -> Option<Envelope> {
    let objectives = texts(levels.iter(), |_| true);
    if objectives.is_empty() {
        return None;
    }
    let climb = by_load(levels);
    let held = |load: f64| climb.iter().filter(|l| l.value == load).all(|level| level.held());
    let first_from = |at: usize, wanted: bool| {
        (at..climb.len()).find(|&at| climb.get(at).is_some_and(|l| held(l.value) == wanted))
    };
    let from = first_from(0, true);
    let beyond = first_from(from.unwrap_or(0), false);
    let top = from.and_then(|_| climb.get(beyond.unwrap_or(climb.len()).checked_sub(1)?));
    let holds_from = from.and_then(|from| climb.get(from)).map(|level| level.value);
    let holds_to = top.map(|level| level.value);
    let again = climb.iter().filter(|level| holds_to.is_some_and(|high| level.value > high));
    Some(Envelope {
        operating_point: top
            .map(|level| OperatingPoint { value: level.value, figures: level.figures.clone() }),
        holds_from,
        holds_to,
        objectives,
        above: beyond.and_then(|at| outside(&climb, at)),
        below: from.and_then(|from| outside(&climb, from.checked_sub(1)?)),
        holds_again: again.map(|level| level.value).filter(|&load| held(load)).collect(),
    })
}

/// What happened at the load of the level at `at`.
fn outside(climb: &[&Level], at: usize) -> Option<Outside> {
    let value = climb.get(at)?.value;
    let same = || climb.iter().filter(|level| level.value == value).copied();
    let failed = texts(same(), |held| held == Held::Fail);
    let slo = if failed.is_empty() { Held::Unknown } else { Held::Fail };
    let broke = if failed.is_empty() { texts(same(), |held| held != Held::Pass) } else { failed };
    Some(Outside { value, slo, broke })
}

/// The objectives with such a verdict in any repetition, each once, in their order.
fn texts<'a>(levels: impl Iterator<Item = &'a Level>, wanted: fn(Held) -> bool) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for objective in levels.flat_map(|l| &l.repetitions).flat_map(|one| &one.objectives) {
        if wanted(objective.verdict) && !texts.contains(&objective.text) {
            texts.push(objective.text.clone());
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::super::planted::judged;
    use super::*;
    use Held::{Fail, Pass, Unknown};

    fn at(value: f64, verdicts: &[Held]) -> Level {
        Level::of(value, verdicts.iter().map(|&verdict| judged(verdict)).collect())
    }

    fn up(verdicts: &[(f64, &[Held])]) -> Vec<Level> {
        verdicts.iter().map(|(value, verdicts)| at(*value, verdicts)).collect()
    }

    #[test]
    fn it_ends_before_the_first_level_with_a_miss_in_any_repetition() {
        let levels = up(&[
            (1.0, &[Pass, Pass]),
            (2.0, &[Pass, Pass]),
            (4.0, &[Pass, Fail]),
            (8.0, &[Pass, Pass]),
            (16.0, &[Fail, Fail]),
        ]);
        let got = envelope(&levels).unwrap();
        assert_eq!((got.holds_from, got.holds_to), (Some(1.0), Some(2.0)));
        assert_eq!(got.operating_point.unwrap().value, 2.0);
        assert_eq!(got.objectives, ["p95(ttft)<500ms"]);
        let above = got.above.unwrap();
        assert_eq!((above.value, above.slo), (4.0, Fail));
        assert_eq!(above.broke, ["p95(ttft)<500ms"]);
        assert_eq!((got.below, got.holds_again), (None, vec![8.0]));
    }

    #[test]
    fn unknown_does_not_hold_and_says_so() {
        let got = envelope(&up(&[(1.0, &[Pass]), (2.0, &[Pass, Unknown])])).unwrap();
        assert_eq!(got.holds_to, Some(1.0));
        let above = got.above.unwrap();
        assert_eq!((above.slo, above.broke.len()), (Unknown, 1));
    }

    #[test]
    fn it_may_begin_above_the_first_level_and_go_to_the_last() {
        let got = envelope(&up(&[(1.0, &[Fail]), (2.0, &[Pass]), (3.0, &[Pass])])).unwrap();
        assert_eq!((got.holds_from, got.holds_to), (Some(2.0), Some(3.0)));
        assert_eq!((got.below.unwrap().value, got.above), (1.0, None));
    }

    #[test]
    fn where_they_held_nowhere_there_is_no_operating_point() {
        let got = envelope(&up(&[(1.0, &[Fail]), (2.0, &[Fail])])).unwrap();
        assert_eq!((got.operating_point, got.holds_from, got.holds_to), (None, None, None));
        assert_eq!(got.above.unwrap().value, 1.0);
        assert!(got.holds_again.is_empty());
    }

    #[test]
    fn without_objectives_there_is_none() {
        let free = Level::of(1.0, Vec::new());
        assert_eq!(envelope(&[free]), None);
        assert_eq!(envelope(&[]), None);
    }

    #[test]
    fn levels_of_one_load_hold_together() {
        let levels = up(&[(1.0, &[Pass]), (2.0, &[Pass]), (2.0, &[Fail]), (3.0, &[Pass])]);
        let got = envelope(&levels).unwrap();
        assert_eq!((got.holds_to, got.holds_again), (Some(1.0), vec![3.0]));
        assert_eq!(got.above.unwrap().slo, Fail);
    }
}
