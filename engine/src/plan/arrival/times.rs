//! Arrivals of a trace: instants that are written down, faster or slower, once or in rounds.

use std::sync::Arc;

use super::ArrivalError;

/// Least speed of a trace: a thousand times slower.
pub const SPEED_MIN: f64 = 0.001;
/// Highest speed of a trace.
pub const SPEED_MAX: f64 = 1_000_000.0;
/// Latest time of a trace, once slowed down: 100 years.
const TIME_NS_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// The instants of a trace.
///
/// Times are divided by the speed and rounded to ns once; all else is whole numbers. The first
/// time of a round follows the last of the round before by the mean gap of the trace, rounded to
/// ns; where the first time is not 0, only the first round waits for it.
#[derive(Debug, Clone)]
pub struct Instants {
    /// At least one, never going back.
    times_ns: Arc<[u64]>,
    /// From the begin of a round to that of the next.
    period_ns: u64,
    offset_ns: u64,
    loops: u64,
}

impl Instants {
    /// `times_ns` at `speed` (10 is ten times faster), all moved by `offset_ns`, played `loops`
    /// times; `u64::MAX` is without end.
    ///
    /// # Errors
    ///
    /// No times or no loops, times that go back, a speed outside of [`SPEED_MIN`] to
    /// [`SPEED_MAX`], times beyond 100 years; loops of a trace that lasts no time.
    pub fn new(
        times_ns: Arc<[u64]>,
        speed: f64,
        offset_ns: u64,
        loops: u64,
    ) -> Result<Self, ArrivalError> {
        if !(SPEED_MIN..=SPEED_MAX).contains(&speed) {
            return Err(ArrivalError::Speed { speed });
        }
        if let Some(before) = times_ns.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(ArrivalError::Order { number: before + 2 });
        }
        let times_ns = match speed {
            1.0 => times_ns,
            // Right to 2^-53 of itself, so to 1 ns for 104 days. Casts saturate.
            _ => times_ns.iter().map(|time| (*time as f64 / speed).round() as u64).collect(),
        };
        if let Some(far) = times_ns.iter().position(|time| *time > TIME_NS_MAX) {
            return Err(ArrivalError::Far { number: far + 1 });
        }
        let (Some(first), Some(last)) = (times_ns.first(), times_ns.last()) else {
            return Err(ArrivalError::NoTimes);
        };
        let (span_ns, gaps) = (last - first, times_ns.len() as u64 - 1);
        let mean_gap_ns = (span_ns + gaps / 2).checked_div(gaps).unwrap_or(0);
        match loops {
            0 => return Err(ArrivalError::NoTimes),
            2.. if span_ns == 0 => return Err(ArrivalError::NoSpan),
            _ => {}
        }
        Ok(Self { times_ns, period_ns: span_ns + mean_gap_ns, offset_ns, loops })
    }

    /// How many arrivals there are; `None` without end.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        (self.times_ns.len() as u64).checked_mul(self.loops).filter(|_| self.loops < u64::MAX)
    }

    /// The instant of arrival `index`; `None` after the last, or past 64 bits.
    #[must_use]
    pub fn at(&self, index: u64) -> Option<u64> {
        let count = self.times_ns.len() as u64;
        let (round, position) = (index / count, index % count);
        if round >= self.loops {
            return None;
        }
        let begin_ns = self.period_ns.checked_mul(round)?.checked_add(self.offset_ns)?;
        begin_ns.checked_add(self.times_ns[position as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arrivals;
    use super::*;

    fn played(times: &[u64], speed: f64, offset_ns: u64, loops: u64) -> Vec<u64> {
        let instants = Instants::new(times.into(), speed, offset_ns, loops).unwrap();
        let count = instants.count();
        let all: Vec<(u64, u64)> = Arrivals::of_times(instants, 0, 1).take(1_000).collect();
        assert!(all.iter().enumerate().all(|(index, (found, _))| index as u64 == *found));
        assert_eq!(count.unwrap_or(1_000), all.len() as u64);
        all.into_iter().map(|(_, instant_ns)| instant_ns).collect()
    }

    #[test]
    fn a_trace_is_played_as_it_is_written_faster_and_later() {
        assert_eq!(played(&[5, 5, 17, 100], 1.0, 0, 1), [5, 5, 17, 100]);
        assert_eq!(played(&[50, 50, 174, 1_000], 10.0, 7, 1), [12, 12, 24, 107]);
        assert_eq!(played(&[1, 3], 0.5, 0, 1), [2, 6]);
    }

    #[test]
    fn the_next_round_follows_by_the_mean_gap() {
        assert_eq!(played(&[0, 10, 40], 1.0, 0, 3), [0, 10, 40, 60, 70, 100, 120, 130, 160]);
        // The first time is waited for once.
        assert_eq!(played(&[100, 110, 140], 1.0, 1, 2), [101, 111, 141, 161, 171, 201]);
        let endless = played(&[0, 3], 1.0, 0, u64::MAX);
        assert_eq!(endless[999], 499 * 6 + 3);
        let far = Instants::new([0, 3].into(), 1.0, 0, u64::MAX).unwrap();
        assert_eq!(far.at(1 << 61), Some((1 << 60) * 6), "exact where a float would not be");
        assert_eq!(far.at(u64::MAX), None);
    }

    #[test]
    fn reactors_deal_a_trace_between_them() {
        let instants = Instants::new([0, 1, 1, 2, 9].into(), 1.0, 0, 2).unwrap();
        let alone: Vec<_> = Arrivals::of_times(instants.clone(), 0, 1).collect();
        for reactors in 1..=3 {
            let share = |reactor| Arrivals::of_times(instants.clone(), reactor, reactors);
            let mut union: Vec<_> = (0..reactors).flat_map(share).collect();
            union.sort_unstable();
            assert_eq!(union, alone);
        }
    }

    #[test]
    fn traces_that_make_no_sense_are_refused() {
        let refusal = |times: &[u64], speed, loops| {
            Instants::new(times.into(), speed, 0, loops).unwrap_err().to_string()
        };
        assert!(refusal(&[], 1.0, 1).contains("no arrivals"));
        assert!(refusal(&[1], 1.0, 0).contains("0 times"));
        assert!(refusal(&[1, 5, 4], 1.0, 1).starts_with("arrival 3 of the trace comes before"));
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
            assert!(refusal(&[1], speed, 1).starts_with("trace speed"));
        }
        assert!(refusal(&[1, u64::MAX], 0.5, 1).starts_with("arrival 2 of the trace is over"));
        assert!(refusal(&[4, 4], 1.0, 2).contains("more than once"));
        assert!(refusal(&[4], 1.0, 2).contains("more than once"));
    }
}
