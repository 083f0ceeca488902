//! How far a host's clock is from ours, from questions and answers that both sides stamp.
//!
//! ```text
//! our clock    sent ──────────────────────────── back
//!                  ╲                            ╱
//! their clock       received ───────── answered
//! ```
//! The answer's time on the way is unknown, the sum of both ways is not: whatever the delays were, the
//! offset is within half the round trip of the middle. So the exchange that was quickest knows it best,
//! and a mean over all would be worse. Drift is a line through the quickest exchange of each window of
//! time, with the error that follows from theirs.

use super::clocks::HostClock;

/// A window in which the quickest exchange is looked for, ns.
const WINDOW_NS: u64 = 4_000_000_000;
/// Fewer windows make no line.
const WINDOWS_MIN: usize = 3;
/// The kernel slews a clock by 500 ppm at most: beyond twice that it was stepped, which no line tells.
const DRIFT_MAX_PPB: f64 = 1e6;

/// One question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When the question was sent, our clock, ns.
    pub sent_ns: u64,
    /// When it was received, their clock, ns.
    pub received_ns: u64,
    /// When the answer was sent, their clock, ns.
    pub answered_ns: u64,
    /// When that was received, our clock, ns.
    pub back_ns: u64,
}

impl Exchange {
    /// Their clock less ours, ns, if both ways took equally long.
    #[must_use]
    pub fn offset_ns(&self) -> i64 {
        let there = i128::from(self.received_ns) - i128::from(self.sent_ns);
        let back = i128::from(self.answered_ns) - i128::from(self.back_ns);
        let middle = (there + back) / 2;
        i64::try_from(middle).unwrap_or(if middle < 0 { i64::MIN } else { i64::MAX })
    }

    /// How long question and answer were on their way, ns.
    #[must_use]
    pub fn round_trip_ns(&self) -> u64 {
        let away = self.back_ns.saturating_sub(self.sent_ns);
        away.saturating_sub(self.answered_ns.saturating_sub(self.received_ns))
    }

    /// The offset is no further than this from [`Self::offset_ns`], ns.
    #[must_use]
    pub fn error_ns(&self) -> u64 {
        self.round_trip_ns().div_ceil(2)
    }
}

/// What the exchanges with the host of `shard` say of its clock; `None` without any.
#[must_use]
pub fn host_clock(shard: u32, exchanges: &[Exchange]) -> Option<HostClock> {
    let best = exchanges.iter().min_by_key(|one| one.round_trip_ns())?;
    let drift = drift(exchanges);
    Some(HostClock {
        shard,
        offset_ns: best.offset_ns(),
        error_ns: best.error_ns(),
        drift_ppb: drift.map(|drift| drift.ppb),
        drift_error_ppb: drift.map(|drift| drift.error_ppb),
        exchanges: u32::try_from(exchanges.len()).unwrap_or(u32::MAX),
        at_realtime_ns: best.received_ns,
    })
}

/// The longest way to a host and back among the quickest of each, ns.
#[must_use]
pub fn round_trip_ns(exchanges: &[Exchange]) -> Option<u64> {
    exchanges.iter().map(Exchange::round_trip_ns).min()
}

/// How fast an offset grows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Drift {
    ppb: f64,
    error_ppb: f64,
}

/// A line through the quickest exchange of each window. `None` where there are too few, where no drift
/// at all is as possible, or where it is no drift but a step.
fn drift(exchanges: &[Exchange]) -> Option<Drift> {
    let quickest = quickest(exchanges);
    if quickest.len() < WINDOWS_MIN {
        return None;
    }
    let origin = quickest.first()?;
    // Both are differences of a few seconds and of small offsets, which a float holds.
    let at = |one: &Exchange| (one.sent_ns.saturating_sub(origin.sent_ns)) as f64;
    let offset = |one: &Exchange| one.offset_ns().saturating_sub(origin.offset_ns()) as f64;
    // An exchange that took twice as long says a quarter as much.
    let weight = |one: &Exchange| 1.0 / (one.error_ns().max(1) as f64).powi(2);
    let all: f64 = quickest.iter().map(weight).sum();
    let middle = quickest.iter().map(|one| weight(one) * at(one)).sum::<f64>() / all;
    let spread: f64 = quickest.iter().map(|one| weight(one) * (at(one) - middle).powi(2)).sum();
    if !(spread.is_finite() && spread > 0.0) {
        return None;
    }
    let lever = |one: &Exchange| weight(one) * (at(one) - middle) / spread;
    let slope: f64 = quickest.iter().map(|one| lever(one) * offset(one)).sum();
    let error: f64 = quickest.iter().map(|one| lever(one).abs() * one.error_ns() as f64).sum();
    let drift = Drift { ppb: slope * 1e9, error_ppb: error * 1e9 };
    let is_told = drift.ppb.is_finite() && drift.ppb.abs() > drift.error_ppb;
    (is_told && drift.ppb.abs() <= DRIFT_MAX_PPB).then_some(drift)
}

/// The quickest exchange of each window, in the order of time.
fn quickest(exchanges: &[Exchange]) -> Vec<Exchange> {
    let Some(first) = exchanges.iter().map(|one| one.sent_ns).min() else { return Vec::new() };
    let window = |one: &Exchange| (one.sent_ns - first) / WINDOW_NS;
    let mut sorted = exchanges.to_vec();
    sorted.sort_by_key(|one| (window(one), one.round_trip_ns()));
    sorted.dedup_by_key(|one| window(one));
    sorted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// An exchange with a host whose clock is off by `offset` ns at our second 1000 and grows by `ppb`.
    fn exchange(at_ns: u64, there: u64, back: u64, offset: i64, ppb: f64) -> Exchange {
        let theirs = |ours: u64| {
            let grown = (ours as f64 - 1000.0 * S as f64) * ppb / 1e9;
            ours.saturating_add_signed(offset + grown.round() as i64)
        };
        let (received, answered) = (at_ns + there, at_ns + there + 20_000);
        Exchange {
            sent_ns: at_ns,
            received_ns: theirs(received),
            answered_ns: theirs(answered),
            back_ns: answered + back,
        }
    }

    #[test]
    fn equal_ways_tell_the_offset_exactly() {
        let one = exchange(1000 * S, 300_000, 300_000, -7_000_000_000, 0.0);
        assert_eq!((one.offset_ns(), one.round_trip_ns()), (-7_000_000_000, 600_000));
        assert_eq!(one.error_ns(), 300_000);
    }

    #[test]
    fn the_quickest_exchange_counts() {
        let slow = exchange(1000 * S, 9_000_000, 100_000, 5_000, 0.0);
        let quick = exchange(1001 * S, 60_000, 40_000, 5_000, 0.0);
        let clock = host_clock(2, &[slow, quick, slow]).unwrap();
        assert_eq!((clock.shard, clock.exchanges), (2, 3));
        assert_eq!((clock.offset_ns, clock.error_ns), (15_000, 50_000));
        assert_eq!(clock.at_realtime_ns, quick.received_ns);
        assert_eq!(clock.drift_ppb, None, "one window is no line");
        assert_eq!(round_trip_ns(&[slow, quick]), Some(100_000));
    }

    #[test]
    fn nothing_is_said_without_an_exchange() {
        assert_eq!(host_clock(0, &[]), None);
        assert_eq!(round_trip_ns(&[]), None);
    }

    #[test]
    fn a_step_is_no_drift() {
        let at = |second: u64, offset| exchange((1000 + second) * S, 50_000, 50_000, offset, 0.0);
        let stepped: Vec<Exchange> =
            (0..30).map(|second| at(second, if second < 15 { 0 } else { 2_000_000_000 })).collect();
        assert_eq!(host_clock(0, &stepped).unwrap().drift_ppb, None);
    }

    #[test]
    fn strange_stamps_are_no_panic() {
        let times = [0, 1, S, i64::MAX as u64, u64::MAX];
        let of = |number: usize, place: u32| times[number / times.len().pow(place) % times.len()];
        let all: Vec<Exchange> = (0..times.len().pow(4))
            .map(|number| Exchange {
                sent_ns: of(number, 0),
                received_ns: of(number, 1),
                answered_ns: of(number, 2),
                back_ns: of(number, 3),
            })
            .collect();
        for one in &all {
            let _ = host_clock(0, std::slice::from_ref(one)).unwrap();
        }
        let drift = host_clock(0, &all).unwrap().drift_ppb;
        assert!(drift.is_none_or(f64::is_finite));
    }

    proptest! {
        #[test]
        fn offset_and_drift_are_within_their_errors(
            offset in -10_000_000_000_i64..10_000_000_000,
            ppb in -200_000.0..200_000.0_f64,
            delays in prop::collection::vec((1_000_u64..20_000_000, 1_000_u64..20_000_000), 1..60),
        ) {
            let all: Vec<Exchange> = (0..)
                .zip(&delays)
                .map(|(second, (there, back))| {
                    exchange((1000 + second) * S, *there, *back, offset, ppb)
                })
                .collect();
            let clock = host_clock(1, &all).unwrap();
            let best = all.iter().min_by_key(|one| one.round_trip_ns()).unwrap();
            let truth = offset as f64 + (best.sent_ns as f64 - 1000.0 * S as f64) * ppb / 1e9;
            // While an exchange is on its way the offset itself grows.
            let grown = 50_000_000.0 * ppb.abs() / 1e9 + 2.0;
            let off = (clock.offset_ns as f64 - truth).abs();
            prop_assert!(off <= clock.error_ns as f64 + grown, "{off} {clock:?}");
            if let (Some(drift), Some(error)) = (clock.drift_ppb, clock.drift_error_ppb) {
                // The rounding of offsets, over the first windows.
                prop_assert!((drift - ppb).abs() <= error * 1.01 + ppb.abs() * 0.01 + 10.0, "{ppb} {clock:?}");
            }
        }
    }
}
