//! A run whose requests are split over hosts gives, merged again, the figures of the whole run.

use proptest::prelude::*;

use super::{ClockMoment, HostClock, Piece, Whole, standing};
use crate::measure::rows::{MS, cut, facts, failed, open, row_at};
use crate::measure::{Facts, Summary, summarize};
use crate::record::{ErrorClass, Pooled, Row, Tally};
use crate::workload::{Goodput, Limit, Metric, Workload};

const S: u64 = 1_000_000_000;
/// The last moment at which a host begins, and the first at which a request does, ms.
const BEGUN_MS: u64 = 900;
/// When the whole run began, on the clock that all are compared with.
const BASE_NS: u64 = 1_700_000_000 * S + 300 * MS;

/// A host: when it begins, ms after the run, how far its clock is ahead, ns.
type Host = (u64, i64);

/// A request: of what kind, when, and the gaps of its answer, ms.
type Sent = (u8, u64, Vec<u64>);

fn row(index: u64, (kind, at, gaps): &Sent) -> Row {
    let at = BEGUN_MS + at;
    let mut now = at;
    let times: Vec<u64> = gaps
        .iter()
        .map(|gap| {
            now += gap;
            now
        })
        .collect();
    match kind {
        0 => failed(index, ErrorClass::HttpStatus, at, now + 1),
        1 => cut(index, at, &times, now + 5),
        _ => row_at(index, at, at + index % 2, &times),
    }
}

/// What a reactor would have counted of these rows.
fn counted(rows: &[&Row]) -> (Tally, Pooled) {
    let (mut tally, mut pooled) = (Tally::default(), Pooled::default());
    tally.offered = rows.len() as u64;
    for row in rows.iter().filter(|row| row.error.is_none()) {
        let gap = row.last_token.zip(row.first_token).map_or(0, |(last, first)| last - first);
        pooled.icl.record(gap).unwrap();
        pooled.itl.record_n(gap / 2, 2).unwrap();
        tally.gap_samples.push(vec![(gap, 2)]);
        tally.gap_requests += 1;
        tally.window_output_tokens += row.output_tokens.unwrap_or(0);
    }
    (tally, pooled)
}

fn run(start_realtime_ns: u64, later_ms: u64, tallies: Vec<Tally>, pooled: Pooled) -> Facts {
    let end = (BEGUN_MS + 3000 - later_ms) * MS;
    Facts {
        start_realtime_ns,
        window_start: (BEGUN_MS - later_ms) * MS,
        window_end: end,
        end: end + 400 * MS,
        tallies,
        pooled,
        ..facts(1000)
    }
}

/// The same request by the clock of a host that began so much later.
fn by_host(row: &Row, later_ns: u64) -> Row {
    let mut value = serde_json::to_value(row).unwrap();
    let marks = [
        "intended",
        "dispatched",
        "write_start",
        "write_done",
        "first_byte",
        "head_done",
        "first_token",
        "first_output",
        "second_token",
        "last_token",
        "done",
    ];
    for mark in marks {
        if let Some(at) = value[mark].as_u64() {
            value[mark] = (at - later_ns).into();
        }
    }
    serde_json::from_value(value).unwrap()
}

/// The figures of the run as one host would have come to them, and as merged ones.
fn both(workload: &Workload, hosts: &[Host], sent: &[Sent]) -> (Summary, Summary) {
    let rows: Vec<Row> = (0..).zip(sent).map(|(index, sent)| row(index, sent)).collect();
    let of = |host: usize| -> Vec<&Row> { rows.iter().skip(host).step_by(hosts.len()).collect() };
    let (mut tallies, mut all, mut whole) = (Vec::new(), Pooled::default(), Whole::default());
    let mut shards = Vec::new();
    for (number, &(later_ms, ahead_ns)) in hosts.iter().enumerate() {
        let own = of(number);
        let (tally, pooled) = counted(&own);
        all.add(&pooled);
        tallies.push(Tally { reactor: number as u32, ..tally.clone() });
        let later_ns = later_ms * MS;
        let realtime_ns = (BASE_NS + later_ns).saturating_add_signed(ahead_ns);
        let start = ClockMoment { monotonic_ns: 5, realtime_ns };
        let clock = HostClock {
            drift_error_ppb: None,
            shard: number as u32,
            offset_ns: ahead_ns,
            error_ns: 10,
            drift_ppb: None,
            exchanges: 1,
            at_realtime_ns: realtime_ns,
        };
        let offset_ns = standing(Some(&clock), start, &[start]).offset_ns;
        let facts = run(realtime_ns, later_ms, vec![tally], pooled);
        let shard = number as u32;
        let place = whole.add(Piece { shard, facts, offset_ns, cut_off: false });
        shards.push((place, later_ns, own));
    }
    let (facts, _) = whole.finish().unwrap();
    let moved = shards.iter().flat_map(|(place, later_ns, own)| {
        let by = place.start_ns - facts.start_realtime_ns;
        own.iter().map(move |row| by_host(row, *later_ns).shifted(by))
    });
    let merged = summarize(workload, &facts, moved);
    (summarize(workload, &run(BASE_NS, 0, tallies, all), rows.iter().cloned()), merged)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_run_that_is_split_and_merged_is_the_same_run(
        hosts in prop::collection::vec((0..=BEGUN_MS, -5_000_000_000_i64..5_000_000_000), 1..6),
        sent in prop::collection::vec(
            (0_u8..20, 0_u64..2900, prop::collection::vec(1_u64..200, 1..4)), 1..150),
    ) {
        let mut workload = open(50.0);
        let limits = vec![Limit { metric: Metric::Ttft, limit_ns: 90 * MS }];
        workload.objectives.goodput = Some(Goodput { limits });
        workload.objectives.slo =
            vec!["p90(ttft)<150ms".parse().unwrap(), "p95(itl)<100ms".parse().unwrap()];
        let (one, merged) = both(&workload, &hosts, &sent);
        prop_assert_eq!(&merged.latency, &one.latency);
        prop_assert_eq!(&merged.judged, &one.judged);
        prop_assert_eq!(&merged.requests, &one.requests);
        prop_assert_eq!(&merged.tokens, &one.tokens);
        prop_assert_eq!(&merged.goodput, &one.goodput);
        prop_assert_eq!(&merged.slo, &one.slo);
        prop_assert_eq!(&merged.rate, &one.rate);
    }
}
