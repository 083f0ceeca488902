//! What must hold of every page: it needs nothing from anywhere, nothing on it acts that should not, its
//! figures stand in plain markup, what is absent is no 0.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::measure::{Circumstances, summarize};
use tokclock_engine::record::{ErrorClass, Row};

use super::super::curve::planted;
use super::super::search::tests::found;
use super::super::tests::{closed, facts, failed, open, row, workload};
use super::page;
use crate::results::{Kept, ResultDir};

const HOSTILE: &str = "</script><script>alert(1)</script><img/src=x onerror=alert(2)>\u{202e}";

/// The page of what lies in `dir`, which holds what every page must.
fn page_of(dirs: &[&Path]) -> String {
    let kept: Vec<Kept> = dirs.iter().map(|dir| Kept::open(dir).unwrap()).collect();
    let page = page(&kept).unwrap();
    let (before, rest) = page.split_once("<script id=\"plotly\"").unwrap();
    let (_, after) = rest.split_once("</script>").unwrap();
    let plain = format!("{before}{after}");
    needs_nothing(&plain);
    charts_are_whole(&plain);
    headings_are_in_order(&plain);
    plain
}

fn needs_nothing(page: &str) {
    assert!(page.contains("Content-Security-Policy") && page.contains("default-src 'none'"));
    // The charts, the script that draws; what unpacks plotly is a part of that.
    assert_eq!(page.matches("<script").count(), 2, "a script too many");
    let low = page.to_lowercase();
    for act in
        [" src=", "url(", "@import", "import(", "fetch(", "xmlhttprequest", "<iframe", "<link"]
    {
        assert!(!low.contains(act), "{act} in the page");
    }
    for (at, _) in low.match_indices("href=") {
        assert!(low[at..].starts_with("href=\"#"), "{}", &low[at..at + 40]);
    }
    assert!(!page.contains("NaN") && !page.contains("Infinity<"), "a figure that is none");
    assert!(!page.contains('\u{202e}'), "a letter that turns others round");
}

fn charts_are_whole(page: &str) {
    let (_, json) = page.split_once("<script id=\"charts\" type=\"application/json\">").unwrap();
    let (json, _) = json.split_once("</script>").unwrap();
    assert!(!json.contains('<'), "markup in the charts");
    let charts: Value = serde_json::from_str(json).unwrap();
    let charts = charts.as_object().unwrap();
    let drawn: Vec<&str> =
        page.split("data-chart=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
    let unique: BTreeSet<&str> = drawn.iter().copied().collect();
    assert_eq!(unique.len(), drawn.len(), "one name for two charts");
    assert_eq!(unique, charts.keys().map(String::as_str).collect());
    for (name, chart) in charts {
        assert!(chart["data"].as_array().is_some_and(|data| !data.is_empty()), "{name}");
    }
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
}

fn headings_are_in_order(page: &str) {
    let (body, _) = page.split_once("<script id=\"charts\"").unwrap();
    let levels: Vec<u32> =
        body.split("<h").skip(1).filter_map(|rest| rest.chars().next()?.to_digit(10)).collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{levels:?}");
    assert_eq!(levels.first(), Some(&1));
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
}

/// A result with these requests; `is_open` of an open loop.
fn result(rows: &[Row], is_open: bool) -> TempDir {
    let dir = TempDir::new().unwrap();
    let result = ResultDir::create(Some(dir.path()), "x").unwrap();
    let workload = workload(if is_open { open() } else { closed() });
    let facts = facts();
    let summary = summarize(&workload, &facts, rows.iter().cloned());
    let host = serde_json::json!({ "cpu": HOSTILE, "memory_bytes": 1 << 30 });
    result.write_run("# <script>alert(3)</script>\nseed = 7\n").unwrap();
    result.write_windows(&facts).unwrap();
    result.write_histograms(&facts).unwrap();
    let lines: String = rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect();
    result.write_bytes("requests.jsonl", lines.as_bytes()).unwrap();
    let labels = [(HOSTILE.to_owned(), HOSTILE.to_owned())].into();
    let circumstances =
        Circumstances { name: HOSTILE.into(), labels, host, server: None, workload: None };
    result.write_summary(&summary.with_circumstances(circumstances)).unwrap();
    dir
}

fn json_result(name: &str, value: &impl serde::Serialize) -> TempDir {
    let dir = TempDir::new().unwrap();
    let result = ResultDir::create(Some(dir.path()), "x").unwrap();
    result.write_json(name, value).unwrap();
    dir
}

fn says(page: &str, wanted: &[&str]) {
    for words in wanted {
        assert!(page.contains(words), "no {words:?} in {}", &page[..page.len().min(20_000)]);
    }
}

#[test]
fn a_run_says_its_verdicts_and_its_figures_without_any_script() {
    let dir = result(&(0..100).map(|at| row(at, 0)).collect::<Vec<_>>(), false);
    let page = page_of(&[dir.path()]);
    says(
        &page,
        &[
            "<p class=\"what\">Objectives</p><p class=\"value\">pass</p>",
            "<p class=\"what\">Failed requests</p><p class=\"value\">0 of 100</p>",
            "<p class=\"what\">Client</p><p class=\"value\">valid</p>",
            "<p class=\"what\">TTFT p50</p><p class=\"value\">100.0 ms</p>",
            "closed loop of 8 users, 512 tokens in and 3 out",
            "tokclock run --config run.toml",
        ],
    );
    for chart in ["latency-cdf", "gap-cdf", "ttft-time", "e2e-time", "requests-time", "waterfall"] {
        assert!(page.contains(&format!("data-chart=\"{chart}\"")), "no {chart}");
    }
    assert!(!page.contains("data-chart=\"slip-cdf\""), "a closed loop has no schedule");
}

#[test]
fn hostile_texts_are_shown_and_do_nothing() {
    let mut rows: Vec<Row> = (0..20).map(|at| row(at, 5)).collect();
    rows.push(failed(20, ErrorClass::HttpStatus, HOSTILE));
    rows.push(failed(21, ErrorClass::ConnReset, "reset"));
    let dir = result(&rows, true);
    let page = page_of(&[dir.path()]);
    says(
        &page,
        &[
            "&lt;/script&gt;&lt;script&gt;alert(1)",
            "# &lt;script&gt;alert(3)",
            "<p class=\"value\">2 of 22 (9.091 %)</p>",
            "1 conn_reset, 1 http_status",
            "data-chart=\"failures-time\"",
            "data-chart=\"slip-cdf\"",
            "#20 http_status",
        ],
    );
    assert!(!page.contains("<img"), "markup of another");
}

#[test]
fn what_is_absent_is_a_dash_and_no_zero() {
    let dir = result(&[failed(0, ErrorClass::ConnectRefused, "refused")], false);
    let page = page_of(&[dir.path()]);
    says(
        &page,
        &[
            "Nothing completed, so there is no latency to show.",
            "<p class=\"what\">TTFT p50</p><p class=\"value\">–</p>",
            "<p class=\"value\">1 of 1 (100.0 %)</p>",
        ],
    );
    assert!(!page.contains("data-chart=\"ttft-time\""), "nothing to draw");
}

#[test]
fn a_run_without_a_request_has_a_page() {
    let page = page_of(&[result(&[], true).path()]);
    says(&page, &["<p class=\"value\">0 of 0</p>"]);
}

#[test]
fn files_that_cannot_be_read_are_named_and_the_rest_is_shown() {
    let dir = result(&(0..10).map(|at| row(at, 0)).collect::<Vec<_>>(), false);
    std::fs::write(dir.path().join("requests.jsonl"), "no row\nno row\n").unwrap();
    std::fs::write(dir.path().join("histograms.hlog"), b"\xff\xfe").unwrap();
    std::fs::remove_file(dir.path().join("windows.csv")).unwrap();
    let page = page_of(&[dir.path()]);
    says(
        &page,
        &[
            "Not read: requests.jsonl: line 1: ",
            "Not read: histograms.hlog: entry 1: ",
            "Not read: windows.csv: ",
            "<p class=\"what\">TTFT p50</p><p class=\"value\">100.0 ms</p>",
        ],
    );
    assert!(!page.contains("data-chart="), "nothing to draw");
}

#[test]
fn a_sweep_shows_its_frontier_its_knee_and_where_objectives_hold() {
    let closed = json_result("curve.json", &planted::closed());
    let page = page_of(&[closed.path()]);
    says(
        &page,
        &[
            "<p class=\"what\">Operate at</p><p class=\"value\">",
            "p95(ttft)&lt;500ms",
            "data-chart=\"frontier-ttft\"",
            "data-chart=\"frontier-user\"",
            "data-chart=\"ttft-load\"",
            "\"operating point\"",
            "the objectives held again 3.200 s after the end of an overload",
            "level 9 was left out",
            "There is no run.toml beside this result.",
        ],
    );
    let open = json_result("curve.json", &planted::open());
    says(&page_of(&[open.path()]), &["<p class=\"value\">at 2 of 6 levels</p>", "sheds:"]);
}

#[test]
fn a_search_shows_its_boundary_and_every_load() {
    let dir = json_result("search.json", &found());
    let page = page_of(&[dir.path()]);
    says(
        &page,
        &[
            "<p class=\"what\">Boundary</p><p class=\"value\">41.20 requests/s</p>",
            "held; broke at 43 requests/s",
            "data-chart=\"probes-chart\"",
            "leans to pass",
        ],
    );
}

#[test]
fn several_results_have_an_overview_and_one_frontier() {
    let run = result(&(0..10).map(|at| row(at, 0)).collect::<Vec<_>>(), false);
    let first = json_result("curve.json", &planted::closed());
    let second = json_result("curve.json", &planted::open());
    let search = json_result("search.json", &found());
    let all = [run.path(), first.path(), second.path(), search.path()];
    let page = page_of(&all);
    says(
        &page,
        &[
            "<h1>4 results</h1>",
            "data-chart=\"all-frontier\"",
            "data-chart=\"r1-waterfall\"",
            "data-chart=\"r2-frontier-ttft\"",
            "data-chart=\"r3-frontier-ttft\"",
            "href=\"#r4\"",
        ],
    );
}
