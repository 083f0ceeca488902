//! The levels of a sweep: which comes next, from what was seen so far. No clock, no server.

/// Levels that are tried before the load is given up as endless.
const CLIMBS_MAX: usize = 24;
/// Saturated levels in a row after which nothing new is to be seen further up.
const SATURATED_IN_A_ROW: usize = 2;
/// How far past the knee a service is looked at.
const OVERLOADS: [f64; 2] = [1.5, 2.0];
/// A level this close to a wanted one stands for it.
const SAME: f64 = 0.1;

/// Which loads a sweep goes through.
#[derive(Debug, Clone, PartialEq)]
pub enum Levels {
    /// These, in rising order.
    Listed(Vec<f64>),
    /// From `start` on each twice the one before, until the service is saturated; then some between,
    /// to see where that began.
    Auto {
        /// The first.
        start: f64,
        /// The last that may be.
        most: f64,
    },
}

/// What was seen of a level, over its repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// The load.
    pub value: f64,
    /// The service took no more there.
    pub is_saturated: bool,
    /// Going further up is of no use.
    pub is_hopeless: bool,
}

/// The plan of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    /// The levels.
    pub levels: Levels,
    /// Only whole loads are: users.
    pub whole: bool,
    /// Levels past the knee are added.
    pub overload: bool,
    /// Hopeless levels stop nothing.
    pub keep_going: bool,
}

impl Ladder {
    /// The next level after those that were `seen`, in any order; `knee` is the knee of their curve.
    #[must_use]
    pub fn next(&self, seen: &[Seen], knee: Option<f64>) -> Option<f64> {
        let mut sorted = seen.to_vec();
        sorted.sort_by(|one, other| one.value.total_cmp(&other.value));
        let base = match &self.levels {
            Levels::Listed(values) => self.listed(values, &sorted),
            Levels::Auto { start, most } => self.climb(*start, *most, &sorted),
        };
        base.or_else(|| self.past(&sorted, knee?))
    }

    fn listed(&self, values: &[f64], seen: &[Seen]) -> Option<f64> {
        let next = values.iter().find(|value| !seen.iter().any(|one| one.value == **value))?;
        (!self.is_hopeless(*next, seen)).then_some(*next)
    }

    /// Whether a level would only show again that a lower one is too much.
    #[must_use]
    pub fn is_hopeless(&self, value: f64, seen: &[Seen]) -> bool {
        !self.keep_going && seen.iter().any(|one| one.is_hopeless && one.value <= value)
    }

    fn climb(&self, start: f64, most: f64, seen: &[Seen]) -> Option<f64> {
        let Some(top) = seen.last() else {
            return Some(self.shaped(start.min(most)));
        };
        let saturated = seen.iter().rev().take_while(|one| one.is_saturated).count();
        let is_over = saturated >= SATURATED_IN_A_ROW
            || self.is_hopeless(top.value, seen)
            || top.value >= most
            || seen.len() >= CLIMBS_MAX;
        if !is_over {
            return Some(self.shaped((top.value * 2.0).min(most)));
        }
        let first = seen.iter().position(|one| one.is_saturated || one.is_hopeless)?;
        let (below, above) = (seen[first.checked_sub(1)?].value, seen[first].value);
        // One level between is enough: the step is a factor of 1.4 then.
        let between = self.shaped((below * above).sqrt());
        let is_new = between > below && between < above && above / below > 1.5;
        is_new.then_some(between)
    }

    fn past(&self, seen: &[Seen], knee: f64) -> Option<f64> {
        if !self.overload {
            return None;
        }
        let mut wanted = OVERLOADS.into_iter().map(|factor| self.shaped(knee * factor));
        let is_there = |value: f64| seen.iter().any(|one| (one.value / value - 1.0).abs() <= SAME);
        wanted.find(|value| !is_there(*value))
    }

    fn shaped(&self, value: f64) -> f64 {
        if self.whole {
            value.round().max(1.0)
        } else {
            format!("{value:.2e}").parse().unwrap_or(value)
        }
    }
}

/// Levels from `from` to `to`, each `factor` times the one before and `to` the last; whole ones where
/// only those are, each once.
#[must_use]
pub fn geometric(from: f64, to: f64, factor: f64, whole: bool) -> Vec<f64> {
    let mut levels = Vec::new();
    let mut value = from;
    while value < to * (1.0 - 1e-9) && levels.len() < 1000 {
        levels.push(if whole { value.round() } else { value });
        value *= factor;
    }
    levels.push(to);
    levels.dedup();
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(whole: bool, overload: bool) -> Ladder {
        let levels = Levels::Auto { start: 1.0, most: 1000.0 };
        Ladder { levels, whole, overload, keep_going: false }
    }

    /// Goes up a service that is saturated from `limit` on; the levels, in the order of going.
    fn climbed(ladder: &Ladder, limit: f64, knee: Option<f64>) -> Vec<f64> {
        let mut seen: Vec<Seen> = Vec::new();
        while let Some(value) = ladder.next(&seen, knee) {
            assert!(!seen.iter().any(|one| one.value == value), "{value} twice");
            seen.push(Seen {
                value,
                is_saturated: value >= limit,
                is_hopeless: value >= 8.0 * limit,
            });
        }
        seen.iter().map(|one| one.value).collect()
    }

    #[test]
    fn it_doubles_past_saturation_and_looks_between() {
        assert_eq!(climbed(&auto(true, false), 10.0, None), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 11.0]);
        assert_eq!(climbed(&auto(false, false), 3.0, None), [1.0, 2.0, 4.0, 8.0, 2.83]);
    }

    #[test]
    fn past_the_knee_there_are_levels_at_one_and_a_half_and_twice_of_it() {
        let levels = climbed(&auto(true, true), 10.0, Some(10.0));
        assert_eq!(levels, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 11.0, 20.0], "16 stands for 15");
        let listed = Ladder { levels: Levels::Listed(vec![2.0, 4.0]), ..auto(false, true) };
        assert_eq!(climbed(&listed, 99.0, Some(4.0)), [2.0, 4.0, 6.0, 8.0]);
    }

    #[test]
    fn it_stops_where_going_on_is_hopeless() {
        let listed = Ladder { levels: Levels::Listed(vec![1.0, 40.0, 80.0]), ..auto(false, false) };
        assert_eq!(climbed(&listed, 5.0, None), [1.0, 40.0]);
        let stubborn = Ladder { keep_going: true, ..listed };
        assert_eq!(climbed(&stubborn, 5.0, None), [1.0, 40.0, 80.0]);
    }

    #[test]
    fn it_ends_where_nothing_saturates() {
        let levels = climbed(&auto(false, false), f64::INFINITY, None);
        assert_eq!(levels.last(), Some(&1000.0));
        assert_eq!(levels.len(), 11);
    }

    #[test]
    fn geometric_levels_end_where_they_are_told() {
        assert_eq!(geometric(1.0, 16.0, 2.0, true), [1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!(geometric(1.0, 10.0, 2.0, true), [1.0, 2.0, 4.0, 8.0, 10.0]);
        assert_eq!(geometric(1.0, 3.0, 1.2, true), [1.0, 2.0, 3.0]);
        assert_eq!(geometric(0.5, 2.0, 2.0, false), [0.5, 1.0, 2.0]);
    }
}
