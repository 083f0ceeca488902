//! What a reactor of this host is known to sustain, and how much of it a run used.

use serde::{Deserialize, Serialize};

use super::distribution::ratio;
use crate::record::Tally;

/// What one reactor of this host sustained when it was calibrated, with its errors inside stated
/// bounds. What was not found out is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Ceiling {
    /// Reads of one output event each, per second.
    pub reads_per_s: Option<f64>,
    /// Output events per second where one read brings many.
    pub chunks_per_s: Option<f64>,
    /// Requests per second of one output event each.
    pub requests_per_s: Option<f64>,
    /// When that was, CLOCK_REALTIME, ns.
    pub taken_realtime_ns: u64,
}

/// Reads per second of a reactor in its busiest whole second of output events; over all the time that
/// it ran where no second tells. `None` if it did not run.
///
/// Reads are not counted by the second, so their number per output event is taken to be that of
/// the whole run.
#[must_use]
pub fn peak_reads_per_s(tally: &Tally) -> Option<f64> {
    let mean = ratio(tally.reads as f64 * 1e9, tally.wall_ns as f64)?;
    let peak = tally.seconds.iter().map(|second| second.events).max().unwrap_or(0);
    let per_event = ratio(tally.reads as f64, tally.output_events as f64);
    Some(per_event.map_or(mean, |per_event| mean.max(peak as f64 * per_event)))
}

impl Ceiling {
    /// The share of this ceiling that `reads_per_s` is.
    #[must_use]
    pub fn share(&self, reads_per_s: f64) -> Option<f64> {
        ratio(reads_per_s, self.reads_per_s?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{closed, facts_of, row};
    use crate::measure::{Health, ReasonKind, summarize};
    use crate::record::Second;

    #[test]
    fn the_busiest_second_counts_and_not_the_mean() {
        let second = |events| Second { events, ..Second::default() };
        let tally = Tally {
            reads: 600,
            output_events: 300,
            wall_ns: 3_000_000_000,
            seconds: vec![second(10), second(250), second(40)],
            ..Tally::default()
        };
        assert_eq!(peak_reads_per_s(&tally), Some(500.0), "two reads an event");
        let whole = Tally { output_events: 0, seconds: Vec::new(), ..tally };
        assert_eq!(peak_reads_per_s(&whole), Some(200.0));
        assert_eq!(peak_reads_per_s(&Tally::default()), None);
    }

    #[test]
    fn a_reactor_beyond_the_ceiling_makes_the_run_suspect() {
        let verdict = |reads_per_s| {
            let mut facts = facts_of(2000, &[&[100, 200, 300, 400]]);
            facts.ceiling = Some(Ceiling { reads_per_s, ..Ceiling::default() });
            let client = summarize(&closed(1), &facts, [row(0, &[100, 200, 300, 400])]).client;
            let reactor = &client.reactors[0];
            (client.verdict, client.reasons.first().map(|r| r.kind), reactor.ceiling_share)
        };
        let beyond = Some(ReasonKind::BeyondCeiling);
        // Four reads in 2 s.
        assert_eq!(verdict(Some(1.0)), (Health::Suspect, beyond, Some(2.0)));
        assert_eq!(verdict(Some(2.0)), (Health::Valid, None, Some(1.0)), "at it is not beyond it");
        assert_eq!(verdict(None), (Health::Valid, None, None));
    }

    #[test]
    fn a_ceiling_that_nobody_knows_has_no_share() {
        assert_eq!(Ceiling::default().share(5.0), None);
        let ceiling = Ceiling { reads_per_s: Some(200.0), ..Ceiling::default() };
        assert_eq!(ceiling.share(50.0), Some(0.25));
    }
}
