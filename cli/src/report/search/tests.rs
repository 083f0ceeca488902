//! Pages of planted searches: what a reader must find on them.

use tokclock_engine::measure::curve::{Figures, Variable};
use tokclock_engine::measure::{Decision, Health};
use tokclock_engine::run::search::{
    Boundary, ProbeReport, SEARCH_SCHEMA, SearchReport, TierReport,
};

use super::super::curve::planted::served;
use super::super::text::columns;
use super::search_page;
use Decision::{Fail, Pass, Unsure};

const TTFT: &str = "p95(ttft)<500ms";

fn probe(value: f64, decision: Decision, leans_to_pass: bool) -> ProbeReport {
    let mut figures = served(value / 2.0);
    figures.offered_rps = Some(value);
    ProbeReport {
        value,
        decision,
        leans_to_pass,
        looks: if decision == Unsure { 3 } else { 1 },
        seconds: 30.0,
        tiers: vec![decision],
        broke: if leans_to_pass { Vec::new() } else { vec![TTFT.into()] },
        client: Health::Valid,
        figures,
        dirs: Vec::new(),
    }
}

fn boundary(low: Option<f64>, high: Option<f64>, estimate: Option<f64>) -> Boundary {
    let is_precise = low.zip(high).is_some_and(|(low, high)| high / low < 1.05);
    Boundary { low, high, estimate, is_precise, is_contradicted: false }
}

fn report(boundary: Boundary, probes: Vec<ProbeReport>) -> SearchReport {
    let tier = TierReport {
        name: None,
        objectives: vec![TTFT.into()],
        breached: boundary.high.map(|_| TTFT.to_owned()).into_iter().collect(),
        boundary,
    };
    SearchReport {
        about: None,
        schema: SEARCH_SCHEMA.into(),
        variable: Variable::Rate,
        objectives: tier.objectives.clone(),
        breached: tier.breached.clone(),
        operating_point: tier.boundary.low.map(|low| served(low / 2.0)),
        boundary: tier.boundary.clone(),
        probes,
        tiers: vec![tier],
        precision: 0.05,
        limited_by_client: None,
        is_complete: true,
        notes: Vec::new(),
    }
}

/// One that found what it was asked for.
pub(in super::super) fn found() -> SearchReport {
    let probes = vec![
        probe(10.0, Pass, true),
        probe(20.0, Pass, true),
        probe(40.0, Pass, true),
        probe(80.0, Fail, false),
        probe(56.57, Fail, false),
        probe(41.2, Pass, true),
        probe(42.0, Unsure, true),
        probe(43.0, Fail, false),
    ];
    report(boundary(Some(41.2), Some(43.0), Some(42.09)), probes)
}

/// All words with one space between them, as if the page had no end.
fn said(report: &SearchReport) -> String {
    let page = search_page(report, 80, false);
    assert!(page.lines().all(|line| columns(line) <= 80), "{page}");
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_boundary_that_was_found_is_said_with_its_interval_and_what_broke() {
    let said = said(&found());
    for words in [
        "search for the highest rate of an open loop that keeps p95(ttft)<500ms, to within 5 %",
        "found: p95(ttft)<500ms held up to 41.20 requests/s, and at 43 p95(ttft)<500ms broke: the \
         boundary lies between, at about 42.09 by estimate",
        "operate at 41.20 requests/s: 40.21 requests/s served, 5146 output tokens/s",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    assert!(!said.contains("INVALID") && !said.contains("INCOMPLETE"), "{said}");
}

#[test]
fn every_load_that_was_tried_has_a_row_in_that_order() {
    let page = search_page(&found(), 80, false);
    let rows: Vec<Vec<&str>> = page
        .lines()
        .skip_while(|line| !line.contains("what broke"))
        .skip(2)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let loads: Vec<&str> = rows.iter().map(|row| row[1]).collect();
    assert_eq!(loads, ["10", "20", "40", "80", "56.57", "41.20", "42", "43"], "{page}");
    assert_eq!(rows[3][2], "FAIL", "{page}");
    assert_eq!(rows[3].last(), Some(&"p95(ttft)<500ms"), "{page}");
    assert!(rows[5].ends_with(&["<-", "operating", "point"]), "{page}");
    assert_eq!(rows[6][2], "unsure", "{page}");
    assert!(rows[6].ends_with(&["3", "30", "leans", "to", "pass"]), "looks, seconds: {page}");
}

#[test]
fn one_side_alone_is_said_as_such() {
    let held = report(boundary(Some(20.0), None, None), vec![probe(20.0, Pass, true)]);
    let held = said(&held);
    assert!(
        held.contains("p95(ttft)<500ms held at every load that was tried, up to 20 requests/s;"),
        "{held}"
    );
    let broke = report(boundary(None, Some(2.0), None), vec![probe(2.0, Fail, false)]);
    let broke = said(&broke);
    assert!(
        broke.contains(
            "none: no load that was tried kept the objectives: p95(ttft)<500ms broke at 2 requests/s"
        ),
        "{broke}"
    );
    assert!(!broke.contains("operate at"), "{broke}");
}

#[test]
fn what_samples_only_lean_to_is_not_sure_and_says_what_helps() {
    let probes = vec![probe(20.0, Pass, true), probe(40.0, Unsure, false)];
    let low = said(&report(boundary(Some(20.0), None, Some(28.28)), probes));
    let words = "not sure: p95(ttft)<500ms held up to 20 requests/s; as far as the samples tell the \
                 boundary is at about 28.28 requests/s: give a longer --max-duration";
    assert!(low.contains(words), "{low}");
    assert!(low.contains("leans to FAIL by p95(ttft)<500ms"), "{low}");
    let high = said(&report(boundary(None, Some(40.0), Some(28.28)), Vec::new()));
    assert!(high.contains("not sure: p95(ttft)<500ms broke at 40 requests/s; as far as"), "{high}");
    let lean = said(&report(boundary(None, None, Some(28.28)), vec![probe(20.0, Unsure, true)]));
    assert!(lean.contains("at about 28.28 requests/s, but they are too small to decide"), "{lean}");
    let few = said(&report(boundary(None, None, None), vec![probe(20.0, Unsure, true)]));
    assert!(few.contains("the samples are too small to decide on any load: give"), "{few}");
    let wide = said(&report(boundary(Some(20.0), Some(40.0), Some(28.28)), Vec::new()));
    assert!(wide.contains("not as close as asked:"), "{wide}");
    assert!(wide.contains("100 % apart, 5 % was asked for: give a longer --max-dur"), "{wide}");
    assert!(said(&report(boundary(None, None, None), Vec::new())).contains("no load was tried"));
}

#[test]
fn a_limit_of_the_client_is_loud_and_no_boundary_of_the_server() {
    let invalid = ProbeReport { client: Health::Invalid, ..probe(40.0, Unsure, false) };
    // The search takes a load that the client could not carry for one that leans to fail.
    let mut limited = report(
        boundary(Some(20.0), None, Some(28.28)),
        vec![probe(20.0, Pass, true), invalid.clone()],
    );
    limited.limited_by_client = Some(40.0);
    let page = said(&limited);
    assert!(
        page.contains("client INVALID at 40 requests/s and above: this client could"),
        "{page}"
    );
    assert!(page.contains("above that the client, not the server, was the limit"), "{page}");
    assert!(page.contains("INVALID client") && !page.contains("28.28"), "{page}");
    assert!(search_page(&limited, 80, true).contains("\x1b[1;31mINVALID\x1b[0m"));
    let mut only = report(boundary(None, None, None), vec![invalid]);
    only.limited_by_client = Some(40.0);
    assert!(said(&only).contains("the client could not carry any load that was tried"));
}

#[test]
fn a_search_that_did_not_end_or_contradicts_itself_says_so() {
    let mut report = found();
    report.is_complete = false;
    report.boundary.is_contradicted = true;
    report.probes.push(probe(60.0, Pass, true));
    report.notes.push("the server\x1b[2J was restarted".into());
    let said = said(&report);
    for words in [
        "INCOMPLETE: it was interrupted or the server went away",
        "doubtful: p95(ttft)<500ms held up to 41.20",
        "contradiction: 60 requests/s, above the boundary, passed: the server did not behave the \
         same each time",
        "note the server\\u{1b}[2J was restarted",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}

/// The one that was found, with a second tier.
fn tiered(name: Option<&str>) -> SearchReport {
    let mut report = found();
    report.tiers.push(TierReport {
        name: name.map(Into::into),
        objectives: vec!["p99(itl)<20ms".into(), "error_rate<1%".into()],
        boundary: boundary(Some(20.0), Some(20.9), Some(20.44)),
        breached: vec!["p99(itl)<20ms".into()],
    });
    for probe in &mut report.probes {
        probe.tiers.push(if probe.value > 20.0 { Fail } else { Pass });
    }
    report
}

#[test]
fn each_further_tier_has_its_boundary_and_its_column() {
    let report = tiered(Some("gold\x1b"));
    let said = said(&report);
    for words in [
        "tier gold\\u{1b}: p99(itl)<20ms, error_rate<1% found: the objectives held up to 20 \
         requests/s, and at 20.90 p99(itl)<20ms broke",
        "3 40 pass FAIL",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    let page = search_page(&tiered(None), 80, false);
    assert!(page.contains("tier        2: p99(itl)<20ms"), "{page}");
}

#[test]
fn no_line_is_too_long_and_no_figure_is_absurd() {
    let long = "p99.9(a_metric_with_a_very_long_name_indeed_and_without_any_space)<1234567.891ms";
    let mut report = tiered(Some(long));
    report.objectives = vec![long.into(); 3];
    report.breached = report.objectives.clone();
    report.precision = f64::NAN;
    report.notes = vec![long.repeat(3)];
    report.boundary = boundary(Some(1e-300), Some(1e300), Some(f64::INFINITY));
    for (at, probe) in report.probes.iter_mut().enumerate() {
        probe.value = 10_f64.powi(at as i32 * 40 - 150);
        probe.broke = vec![long.into(); 2];
        probe.seconds = f64::NAN;
        probe.figures.rps = Some(f64::INFINITY);
        probe.figures.ttft_p95 = Some(u64::MAX);
        probe.figures.error_rate = Some(0.123_456);
    }
    report.probes.extend(report.probes.clone());
    report.operating_point =
        Some(Figures { rps: Some(f64::NAN), ..report.probes[0].figures.clone() });
    for width in [1, 40, 60, 80, 100, 300] {
        let page = search_page(&report, width, false);
        let most = width.clamp(40, 100);
        assert!(page.lines().all(|line| columns(line) <= most), "{width}: {page}");
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        assert!(page.contains("FAIL") && page.contains("unsure"), "{page}");
    }
}
