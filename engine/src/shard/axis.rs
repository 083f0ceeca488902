//! One time axis for hosts whose clocks disagree: how far a host's wall clock was ahead when its run
//! began, and the times that it was set.

use super::{ClockMoment, HostClock};
use crate::clock::STEP_NS;

const PER_BILLION: f64 = 1e9;

/// A step of a wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// CLOCK_MONOTONIC at the first moment after it, ns.
    pub monotonic_ns: u64,
    /// By how much the clock went ahead, ns.
    pub by_ns: i64,
}

/// How a host's wall clock stood when its run began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Standing {
    /// It was compared with another clock; if not, it is taken to be right.
    pub measured: bool,
    /// How far it was ahead, ns.
    pub offset_ns: i64,
    /// The offset is known to no better, ns; 0 where it was not measured.
    pub error_ns: u64,
    /// How fast the offset grew, parts per billion.
    pub drift_ppb: Option<f64>,
}

/// The steps between `moments`, which come in their order.
#[must_use]
pub(super) fn steps(moments: &[ClockMoment]) -> Vec<Step> {
    moments.windows(2).filter_map(step).collect()
}

fn step(pair: &[ClockMoment]) -> Option<Step> {
    let &[before, after] = pair else { return None };
    let by = ahead(after) - ahead(before);
    let by_ns = i64::try_from(by).ok()?;
    (by_ns.unsigned_abs() > STEP_NS).then_some(Step { monotonic_ns: after.monotonic_ns, by_ns })
}

/// REALTIME − MONOTONIC.
fn ahead(moment: ClockMoment) -> i128 {
    i128::from(moment.realtime_ns) - i128::from(moment.monotonic_ns)
}

/// How the clock stood at `start`: what an exchange found, less what the clock did between the two.
/// `moments` are those that the host noted down.
#[must_use]
pub fn standing(
    clock: Option<&HostClock>,
    start: ClockMoment,
    moments: &[ClockMoment],
) -> Standing {
    let Some(clock) = clock else { return Standing::default() };
    let mut all = moments.to_vec();
    all.push(start);
    all.sort_by_key(|moment| moment.monotonic_ns);
    let exchange_ns = monotonic_at(&all, clock.at_realtime_ns);
    let start_ns = i128::from(start.monotonic_ns);
    let set: i128 = steps(&all)
        .iter()
        .map(|step| {
            let at = i128::from(step.monotonic_ns);
            match (at <= start_ns, at <= exchange_ns) {
                // Set after the start and before the exchange: the offset was that much smaller.
                (false, true) => -i128::from(step.by_ns),
                (true, false) => i128::from(step.by_ns),
                _ => 0,
            }
        })
        .sum();
    let drift_ppb = clock.drift_ppb.filter(|drift| drift.is_finite());
    let drifted = drift_ppb.unwrap_or(0.0) * (start_ns - exchange_ns) as f64 / PER_BILLION;
    let offset = i128::from(clock.offset_ns) + set + drifted.round() as i128;
    Standing {
        measured: true,
        offset_ns: i64::try_from(offset).unwrap_or(clock.offset_ns),
        error_ns: clock.error_ns,
        drift_ppb,
    }
}

/// CLOCK_MONOTONIC when the wall clock showed `realtime_ns`. Of a clock that showed it twice the first
/// time is taken; before the first moment and after the last nothing is known of steps.
fn monotonic_at(moments: &[ClockMoment], realtime_ns: u64) -> i128 {
    let at = |moment: ClockMoment| i128::from(realtime_ns) - ahead(moment);
    let within = |pair: &[ClockMoment]| {
        let &[before, after] = pair else { return None };
        let span = i128::from(before.monotonic_ns)..=i128::from(after.monotonic_ns);
        [at(before), at(after)].into_iter().find(|at| span.contains(at))
    };
    let (Some(&first), Some(&last)) = (moments.first(), moments.last()) else { return 0 };
    let early = Some(at(first)).filter(|&at| at < i128::from(first.monotonic_ns));
    let inside = || moments.windows(2).find_map(within);
    early.or_else(inside).unwrap_or_else(|| at(last))
}

/// A reading of a host's wall clock that was so far ahead, ns, on the common axis.
#[must_use]
pub fn on_axis(realtime_ns: u64, offset_ns: i64) -> u64 {
    realtime_ns.saturating_add_signed(offset_ns.saturating_neg())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn moment(monotonic_s: u64, ahead_ns: i64) -> ClockMoment {
        let monotonic_ns = monotonic_s * S;
        ClockMoment {
            monotonic_ns,
            realtime_ns: (100 * S + monotonic_ns).saturating_add_signed(ahead_ns),
        }
    }

    fn clock(offset_ns: i64, at: ClockMoment, drift_ppb: Option<f64>) -> HostClock {
        HostClock {
            shard: 0,
            offset_ns,
            error_ns: 40,
            drift_ppb,
            drift_error_ppb: None,
            exchanges: 20,
            at_realtime_ns: at.realtime_ns,
        }
    }

    #[test]
    fn a_slew_is_no_step_and_a_step_is_found() {
        let moments = [moment(0, 0), moment(1, 400_000), moment(2, 2_000_400_000), moment(3, 0)];
        let found = steps(&moments);
        let by: Vec<(u64, i64)> =
            found.iter().map(|step| (step.monotonic_ns, step.by_ns)).collect();
        assert_eq!(by, [(2 * S, 2_000_000_000), (3 * S, -2_000_400_000)]);
        assert!(steps(&moments[..2]).is_empty() && steps(&[]).is_empty());
    }

    #[test]
    fn a_clock_that_nobody_compared_is_taken_to_be_right() {
        let standing = standing(None, moment(0, 0), &[]);
        assert_eq!((standing.measured, standing.offset_ns), (false, 0));
    }

    #[test]
    fn a_step_between_start_and_exchange_is_taken_off() {
        let set = 2_000_000_000;
        let moments = [moment(0, 0), moment(1, 0), moment(2, set), moment(3, set), moment(4, set)];
        // By the exchange the clock is 5 ms ahead, 2 s of which it was set by after the start.
        for (at, expected) in [(moment(1, 0), 5_000_000), (moment(3, set), 5_000_000 - set)] {
            let got = standing(Some(&clock(5_000_000, at, None)), moment(0, 0), &moments);
            assert_eq!((got.offset_ns, got.error_ns, got.measured), (expected, 40, true));
        }
        // An exchange before all moments and one after them.
        let after = moment(9, set);
        let got = standing(Some(&clock(0, after, None)), moment(0, 0), &moments);
        assert_eq!(got.offset_ns, -set);
        let before = ClockMoment { monotonic_ns: 0, realtime_ns: 50 * S };
        let got = standing(Some(&clock(7, before, None)), moment(0, 0), &moments);
        assert_eq!(got.offset_ns, 7);
    }

    #[test]
    fn drift_is_carried_to_the_start() {
        let moments = [moment(0, 0), moment(10, 0)];
        let got = standing(Some(&clock(1000, moment(10, 0), Some(50.0))), moment(0, 0), &moments);
        assert_eq!(got.offset_ns, 1000 - 500, "50 ns a second for 10 s");
        let broken = clock(1000, moment(10, 0), Some(f64::NAN));
        let got = standing(Some(&broken), moment(0, 0), &moments);
        assert_eq!((got.offset_ns, got.drift_ppb), (1000, None));
    }

    #[test]
    fn a_clock_that_is_ahead_is_moved_back() {
        assert_eq!(on_axis(1000, 30), 970);
        assert_eq!(on_axis(1000, -30), 1030);
        assert_eq!(on_axis(10, 30), 0);
    }

    proptest! {
        #[test]
        fn no_numbers_are_a_panic(
            readings in prop::collection::vec((any::<u64>(), any::<u64>()), 0..6),
            offset_ns: i64, at_realtime_ns: u64, start: (u64, u64),
        ) {
            let moment = |(monotonic_ns, realtime_ns)| ClockMoment { monotonic_ns, realtime_ns };
            let moments: Vec<ClockMoment> = readings.into_iter().map(moment).collect();
            let clock = HostClock { at_realtime_ns, ..clock(offset_ns, moment(start), Some(1e3)) };
            let got = standing(Some(&clock), moment(start), &moments);
            let _ = on_axis(start.1, got.offset_ns);
        }
    }
}
