//! The loads that are compared with the simulator's log, from one stream up to where errors grow.

use super::bench::Bench;
use super::point::{Point, ratio};
use super::result::{Kind, Limit, Rung};
use crate::exit::Failure;

/// Time between the tokens of a stream.
const ITL_NS: u64 = 10_000_000;
/// Chunks per second that the ladder of streams does not exceed: above, streams say less than rates,
/// and their gaps are longer instead.
const STREAMS_RATE_MAX: u64 = 100_000;
/// Streams of the rising rates, at most.
const RATE_STREAMS_MAX: u64 = 256;
/// Where rates begin to rise, chunks per second.
const RATE_FIRST: f64 = 20_000.0;
/// Rates beyond these are not tried.
const RATES: std::ops::RangeInclusive<f64> = 500.0..=1_000_000.0;
/// Two rates so near to each other are not told apart.
const RATE_STEP_MIN: f64 = 1.15;
/// Share of its CPU from which one end counts as full.
const FULL_SHARE: f64 = 0.9;

/// How thorough a ladder is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Streams, from few to many.
    pub(super) streams: Vec<u64>,
    /// About how long each load lasts, ns.
    pub(super) duration_ns: u64,
    /// From one rate to the next.
    pub(super) factor: f64,
    /// Rates tried between the highest that was kept and the lowest that was not.
    pub(super) refinements: u32,
    /// Runs of which a figure is the median.
    pub(super) runs: usize,
}

/// More and more streams, with kernel stamps and with observed ones. False if it was interrupted.
///
/// # Errors
/// If a load cannot be carried out.
pub(super) fn streams(
    bench: &mut Bench<'_>,
    plan: &Plan,
    ladder: &mut Vec<Rung>,
) -> Result<bool, Failure> {
    for &streams in &plan.streams {
        let itl_ns = ITL_NS.max(streams.saturating_mul(1_000_000_000) / STREAMS_RATE_MAX);
        for is_stamped in [true, false] {
            let point = Point::paced(Kind::Streams, streams, itl_ns, plan.duration_ns);
            let point = Point { is_stamped, ..point };
            match bench.rung(&point, false) {
                Ok(Some(rung)) => ladder.push(rung),
                Ok(None) => return Ok(false),
                // Fewer streams were possible, so the host is what does not allow more.
                Err(failure) if !ladder.is_empty() => {
                    let note = format!("{streams} streams were left out: {failure}");
                    bench.screen.note(&note);
                    bench.notes.push(note);
                    return Ok(true);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(true)
}

/// More and more chunks per second, until they are not kept. Gives the reads per second of the highest
/// rate that was, and what stood in the way; `None` if it was interrupted before the end.
///
/// # Errors
/// If a load cannot be carried out.
pub(super) fn rates(
    bench: &mut Bench<'_>,
    plan: &Plan,
    ladder: &mut Vec<Rung>,
) -> Result<Option<(Option<f64>, Limit)>, Failure> {
    let streams = plan.streams.iter().copied().max().unwrap_or(1).min(RATE_STREAMS_MAX);
    let mut search = Search::new(plan);
    let (mut reads, mut limit) = (None, Limit::NotReached);
    while let Some(rate) = search.next() {
        let itl_ns = (streams as f64 * 1e9 / rate) as u64;
        let point = Point::paced(Kind::Rate, streams, itl_ns.max(1), plan.duration_ns);
        let Some(rung) = bench.rung(&point, true)? else { return Ok(None) };
        search.saw(rate, rung.is_sustained());
        if rung.is_sustained() {
            reads = rung.reads_per_s;
        } else {
            limit = blame(&rung, bench.placement.is_shared);
        }
        ladder.push(rung);
    }
    Ok(Some((reads, limit)))
}

/// What was full when this load was not kept.
pub(super) fn blame(rung: &Rung, is_shared: bool) -> Limit {
    let client = rung.busy_share.is_some_and(|share| share >= FULL_SHARE);
    let server = rung.simulator.busy_share >= FULL_SHARE;
    match (client, server) {
        _ if is_shared => Limit::Shared,
        (true, true) => Limit::Both,
        (true, false) => Limit::Client,
        (false, true) => Limit::Server,
        (false, false) => Limit::Neither,
    }
}

/// Looks for the highest rate that is kept.
#[derive(Debug)]
struct Search {
    factor: f64,
    refinements: u32,
    kept: Option<f64>,
    lost: Option<f64>,
}

impl Search {
    fn new(plan: &Plan) -> Self {
        Self { factor: plan.factor, refinements: plan.refinements, kept: None, lost: None }
    }

    /// The next rate to try; `None` at the end.
    fn next(&mut self) -> Option<f64> {
        let rate = match (self.kept, self.lost) {
            (None, None) => RATE_FIRST,
            (Some(kept), None) => kept * self.factor,
            (None, Some(lost)) => lost / self.factor.max(2.0),
            (Some(kept), Some(lost)) => {
                if ratio(lost, kept)? < RATE_STEP_MIN || self.refinements == 0 {
                    return None;
                }
                self.refinements -= 1;
                (kept * lost).sqrt()
            }
        };
        RATES.contains(&rate).then_some(rate)
    }

    fn saw(&mut self, rate: f64, is_kept: bool) {
        if is_kept {
            self.kept = Some(rate);
        } else {
            self.lost = Some(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plan(factor: f64, refinements: u32) -> Plan {
        Plan { streams: vec![1], duration_ns: 1, factor, refinements, runs: 1 }
    }

    /// The rates that are tried on a host that keeps up to `ceiling`.
    fn tried(plan: &Plan, ceiling: f64) -> (Vec<f64>, Option<f64>) {
        let mut search = Search::new(plan);
        let mut tried = Vec::new();
        while let Some(rate) = search.next() {
            tried.push(rate);
            search.saw(rate, rate <= ceiling);
            assert!(tried.len() < 50);
        }
        (tried, search.kept)
    }

    #[test]
    fn rates_rise_until_one_is_lost_and_one_more_lies_between() {
        let (rates, kept) = tried(&plan(2.0, 1), 100_000.0);
        let between = (80_000.0_f64 * 160_000.0).sqrt();
        assert_eq!(rates, [20_000.0, 40_000.0, 80_000.0, 160_000.0, between]);
        assert_eq!(kept, Some(80_000.0));
    }

    #[test]
    fn a_slow_host_is_asked_for_less_and_a_hopeless_one_not_for_ever() {
        let (rates, kept) = tried(&plan(1.5, 0), 6_000.0);
        assert_eq!(rates, [20_000.0, 10_000.0, 5_000.0]);
        assert_eq!(kept, Some(5_000.0));
        assert_eq!(tried(&plan(2.0, 1), 1.0).1, None);
    }

    proptest! {
        #[test]
        fn what_is_found_was_kept_and_lies_near_the_ceiling(ceiling in 1_000.0..900_000.0_f64) {
            let (_, kept) = tried(&plan(1.5, 1), ceiling);
            let kept = kept.unwrap();
            prop_assert!(kept <= ceiling && kept * 2.0 >= ceiling, "{kept} of {ceiling}");
        }
    }
}
