//! How far our marks are from those of a witness at the other end.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::distribution::Distribution;
use crate::record::histogram;

/// One request as one side saw it, ns on a clock that both sides share.
///
/// Ours: when its first byte was written, and when its output events arrived. The witness's: when it
/// arrived there, and when each output event began to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// When the request was written, or arrived; `None` where that side does not know.
    pub request: Option<u64>,
    /// When each output event arrived, or was sent.
    pub events: Vec<u64>,
}

/// Gathers errors, one request after another.
#[derive(Debug)]
pub struct Accuracy {
    requests: u64,
    unmatched: u64,
    ttft: Vec<u64>,
    send: Vec<u64>,
    gaps: Histogram<u64>,
    last_gaps: Histogram<u64>,
}

/// Errors, all of them absolute: `|ours − the witness's|`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AccuracyReport {
    /// Requests that both sides saw with the same number of output events.
    pub requests: u64,
    /// Requests that they did not.
    pub unmatched: u64,
    /// Of the service TTFT: ours from `write_start` to the first arrival, the witness's from the
    /// arrival of the request to the start of the first send.
    pub ttft_error: Distribution,
    /// Of the gaps between output events, the last of each request apart.
    pub gap_error: Distribution,
    /// Of the last gap of each request: its last event may share a read with what ends the answer.
    pub last_gap_error: Distribution,
    /// Of the time at which the request was sent: from our `write_start` to its arrival there.
    pub send_error: Distribution,
}

impl Default for Accuracy {
    fn default() -> Self {
        Self::new()
    }
}

impl Accuracy {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            requests: 0,
            unmatched: 0,
            ttft: Vec::new(),
            send: Vec::new(),
            gaps: histogram(),
            last_gaps: histogram(),
        }
    }

    /// One request as we saw it, and as the witness did.
    pub fn add(&mut self, ours: &Seen, witness: &Seen) {
        if ours.events.len() != witness.events.len() {
            self.unmatched += 1;
            return;
        }
        self.requests += 1;
        if let (Some(written), Some(arrived)) = (ours.request, witness.request) {
            self.send.push(written.abs_diff(arrived));
            if let (Some(&ours), Some(&theirs)) = (ours.events.first(), witness.events.first()) {
                let error = difference(span(written, ours), span(arrived, theirs));
                self.ttft.push(error);
            }
        }
        let pairs = ours.events.windows(2).zip(witness.events.windows(2));
        let gaps = ours.events.len().saturating_sub(1);
        for (number, (ours, theirs)) in pairs.enumerate() {
            let error = difference(span(ours[0], ours[1]), span(theirs[0], theirs[1]));
            let is_last = number + 1 == gaps;
            let to = if is_last { &mut self.last_gaps } else { &mut self.gaps };
            to.saturating_record(error);
        }
    }

    /// One request that the witness saw otherwise, or not at all.
    pub fn add_unmatched(&mut self) {
        self.unmatched += 1;
    }

    /// The errors of all of them.
    #[must_use]
    pub fn report(&self) -> AccuracyReport {
        AccuracyReport {
            requests: self.requests,
            unmatched: self.unmatched,
            ttft_error: Distribution::from_values(&self.ttft),
            gap_error: Distribution::from_histogram(&self.gaps),
            last_gap_error: Distribution::from_histogram(&self.last_gaps),
            send_error: Distribution::from_values(&self.send),
        }
    }
}

/// From one time to another; negative if they are the other way round.
fn span(from: u64, to: u64) -> i128 {
    i128::from(to) - i128::from(from)
}

fn difference(one: i128, other: i128) -> u64 {
    u64::try_from(one.abs_diff(other)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(request: u64, events: &[u64]) -> Seen {
        Seen { request: Some(request), events: events.to_vec() }
    }

    fn of(pairs: &[(Seen, Seen)]) -> AccuracyReport {
        let mut accuracy = Accuracy::new();
        pairs.iter().for_each(|(ours, witness)| accuracy.add(ours, witness));
        accuracy.report()
    }

    #[test]
    fn errors_of_a_made_up_request_are_exact() {
        let witness = seen(1_000, &[51_000, 61_000, 71_000, 81_000]);
        // Written 4 before it arrived; events arrive 3, 2, 7 and 60 after they were sent.
        let ours = seen(996, &[51_003, 61_002, 71_007, 81_060]);
        let got = of(&[(ours, witness)]);
        assert_eq!((got.requests, got.unmatched), (1, 0));
        assert_eq!(got.send_error.max, Some(4));
        assert_eq!(got.ttft_error.max, Some(7), "4 on the way there and 3 on the way back");
        assert_eq!((got.gap_error.min, got.gap_error.max), (Some(1), Some(5)));
        assert_eq!(got.gap_error.count, 2);
        assert_eq!(got.last_gap_error.max, Some(53), "the last gap is not among the others");
    }

    #[test]
    fn a_request_that_the_two_saw_differently_gives_no_error() {
        let mut accuracy = Accuracy::new();
        accuracy.add(&seen(0, &[5, 6]), &seen(0, &[4]));
        accuracy.add_unmatched();
        let got = accuracy.report();
        assert_eq!(got, AccuracyReport { unmatched: 2, ..AccuracyReport::default() });
    }

    #[test]
    fn without_the_arrival_of_the_request_gaps_are_still_known() {
        let witness = Seen { request: None, events: vec![10, 20, 30] };
        let got = of(&[(seen(0, &[11, 21, 32]), witness)]);
        assert_eq!((got.ttft_error.count, got.send_error.count), (0, 0));
        assert_eq!((got.gap_error.max, got.last_gap_error.max), (Some(0), Some(1)));
    }

    #[test]
    fn an_arrival_before_its_sending_is_an_error_and_no_overflow() {
        let got = of(&[(seen(10, &[5]), seen(0, &[20]))]);
        assert_eq!(got.ttft_error.max, Some(25));
        assert_eq!(got.send_error.max, Some(10));
    }

    proptest! {
        #[test]
        fn the_clock_that_both_share_does_not_matter_and_nobody_is_preferred(
            request in 0u64..1 << 40,
            steps in prop::collection::vec((1u64..1 << 30, 0u64..1 << 20), 1..20),
            shift in 0u64..1 << 40,
        ) {
            let mut sent = request;
            let (mut ours, mut theirs) = (seen(request, &[]), seen(request + 17, &[]));
            for (gap, late) in steps {
                sent += gap;
                theirs.events.push(sent);
                ours.events.push(sent + late);
            }
            let moved = |seen: &Seen| Seen {
                request: seen.request.map(|at| at + shift),
                events: seen.events.iter().map(|at| at + shift).collect(),
            };
            let plain = of(&[(ours.clone(), theirs.clone())]);
            prop_assert_eq!(&plain, &of(&[(moved(&ours), moved(&theirs))]));
            prop_assert_eq!(&plain, &of(&[(theirs, ours)]));
        }

        #[test]
        fn a_delay_that_is_always_the_same_leaves_every_gap_alone(
            gaps in prop::collection::vec(0u64..1 << 30, 1..20),
            delay in 0u64..1 << 30,
        ) {
            let mut at = 0;
            let sent: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
            let came: Vec<u64> = sent.iter().map(|at| at + delay).collect();
            let got = of(&[(seen(0, &came), seen(0, &sent))]);
            prop_assert_eq!(got.ttft_error.max, Some(delay));
            for gap in [got.gap_error.max, got.last_gap_error.max] {
                prop_assert!(gap.unwrap_or(0) == 0);
            }
        }
    }
}
