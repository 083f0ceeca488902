//! Tests of figures from histograms alone.

use super::*;
use crate::measure::rows::{MS, closed, facts, failed, open, row_at};
use crate::measure::{Held, Request, Since};
use crate::record::{ErrorClass, Row};
use crate::workload::Goodput;

/// Ten hosts' rows: sixty requests each, of which a few fail.
fn rows(host: u64) -> Vec<Row> {
    let one = |i: u64| {
        let (index, at) = (host * 60 + i, i * 15 + host);
        if i % 20 == 7 {
            return failed(index, ErrorClass::ConnReset, at, at + 3);
        }
        let first = at + 50 + (i * 7 + host * 3) % 41;
        row_at(index, at, at, &[first, first + 10 + i % 5, first + 30 + i % 9])
    };
    (0..60).map(one).collect()
}

fn added(workload: &Workload, hosts: u64) -> (Summary, Summary) {
    let all: Vec<Row> = (0..hosts).flat_map(rows).collect();
    let mut facts = facts(1000);
    facts.tallies[0].offered = all.len() as u64;
    let whole = summarize(workload, &facts, all.clone());
    let mut latencies: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    for row in &all {
        let request = Request::new(row, workload);
        if !request.is_ok() {
            continue;
        }
        for (name, value) in [
            ("ttft", request.ttft(Since::Origin)),
            ("ttst", request.ttst()),
            ("tpot", request.tpot()),
            ("e2e", request.e2e(Since::Origin)),
            ("service.e2e", request.e2e(Since::Write)),
        ] {
            let values = latencies.entry(name.into()).or_insert_with(histogram);
            value.into_iter().for_each(|value| values.record(value).unwrap());
        }
    }
    let summaries: Vec<Summary> =
        (0..hosts).map(|host| summarize(workload, &facts_of(60), rows(host))).collect();
    let refs: Vec<&Summary> = summaries.iter().collect();
    (whole, summarize_added(workload, &facts, &latencies, &refs))
}

fn facts_of(offered: u64) -> Facts {
    let mut facts = facts(1000);
    facts.tallies[0].offered = offered;
    facts
}

fn near(one: Option<u64>, other: Option<u64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) <= other / 1000 + 1,
        (one, other) => one == other,
    }
}

#[test]
fn counts_are_those_of_the_records_and_latencies_within_the_resolution() {
    let mut workload = open(600.0);
    let limits = vec![crate::workload::Limit { metric: Metric::Ttft, limit_ns: 80 * MS }];
    workload.objectives.goodput = Some(Goodput { limits });
    let (whole, got) = added(&workload, 10);
    assert_eq!(got.requests.errors, whole.requests.errors);
    assert_eq!(
        (got.requests.ok, got.requests.failed, got.requests.offered, got.requests.error_rate),
        (
            whole.requests.ok,
            whole.requests.failed,
            whole.requests.offered,
            whole.requests.error_rate
        )
    );
    assert_eq!((got.tokens.input, got.tokens.output), (whole.tokens.input, whole.tokens.output));
    assert_eq!(got.tokens.source, whole.tokens.source);
    for (got, whole) in [
        (&got.latency.ttft, &whole.latency.ttft),
        (&got.latency.tpot, &whole.latency.tpot),
        (&got.latency.e2e, &whole.latency.e2e),
        (&got.latency.service.e2e, &whole.latency.service.e2e),
    ] {
        assert_eq!(got.count, whole.count);
        for p in [500, 950, 990, 999] {
            let of = |one: &Distribution| one.percentiles.at(p).copied().flatten();
            assert!(near(of(got), of(whole)), "p{p}: {:?} {:?}", of(got), of(whole));
        }
        assert_eq!(got.ci95.p50, [None, None], "a histogram has no intervals");
    }
    let (judged, exact) = (&got.judged.ttft, &whole.judged.ttft);
    assert_eq!((judged.count, judged.unbounded), (exact.count, exact.unbounded));
    assert!(near(judged.percentiles.p90, exact.percentiles.p90));
    assert_eq!((judged.percentiles.p99, exact.percentiles.p99), (None, None), "5 % failed");
    let (good, all) = (got.goodput.unwrap(), whole.goodput.unwrap());
    assert_eq!((good.good, good.of, good.objectives), (all.good, all.of, all.objectives));
    assert!((good.rps.unwrap() - all.rps.unwrap()).abs() < 1e-6);
    assert!((got.rate.rps.unwrap() - whole.rate.rps.unwrap()).abs() < 1e-6);
}

#[test]
fn objectives_are_held_against_histograms_where_those_tell() {
    let mut workload = closed(8);
    let slo = ["p50(ttft)<80ms", "p99(e2e)<1s", "p95(ttfb)<1s", "error_rate<10%"];
    workload.objectives.slo = slo.iter().map(|text| text.parse().unwrap()).collect();
    let (_, got) = added(&workload, 4);
    let held: Vec<Held> =
        got.slo.unwrap().objectives.iter().map(|objective| objective.verdict).collect();
    // 5 % failed; nobody wrote a histogram of TTFB.
    assert_eq!(held, [Held::Pass, Held::Fail, Held::Unknown, Held::Pass]);
}

#[test]
fn a_host_without_figures_has_what_its_histograms_hold() {
    let mut e2e = histogram();
    e2e.record_n(MS, 5).unwrap();
    let latencies = BTreeMap::from([("e2e".to_owned(), e2e)]);
    let got = summarize_added(&closed(1), &facts(1000), &latencies, &[]);
    assert_eq!((got.requests.ok, got.requests.offered, got.rate.rps), (5, 5, Some(5.0)));
    assert!(got.goodput.is_none() && got.slo.is_none());
    let text = serde_json::to_string(&got).unwrap();
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}
