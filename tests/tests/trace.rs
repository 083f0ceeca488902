//! `tokclock trace` as a person uses it: a page of single requests, a result directory, a file for a trace
//! viewer, and a trace of its own for each request.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_tests::command::{Tool, exits_with, json, names, one_clear_line, stderr};
use tokclock_tests::replay::{Log, Manners, Replay, Script};
use tokclock_tests::{Sim, rows, settings, short_answer};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_trace_shows_its_requests_and_writes_a_result_and_a_file_for_a_viewer() {
    let (dir, sim) = (TempDir::new().unwrap(), Sim::start(settings()));
    let url = format!("http://{}", sim.address());
    let options = ["--osl", "8", "--slowest", "2", "--outliers", "3", "--perfetto", "trace.json"];
    let output = TOOL.run(dir.path(), "trace --out out", &[&[url.as_str()][..], &options].concat());
    exits_with(&output, 0);
    let page = stdout(&output);
    for words in [
        "8 ok of 8 offered",
        "2 of 8 requests",
        "trace ",
        "of all E2E",
        "first token",
        "second token",
        "decode",
        "1 -> 2 (TTST)",
        "from 2 on",
        "before event",
        "client lag",
    ] {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    assert!(!page.contains('\x1b'), "{page}");
    assert!(stderr(&output).contains("trace.json"), "{}", stderr(&output));

    let out = dir.path().join("out");
    for name in ["requests.jsonl", "report.html", "run.toml", "summary.json", "windows.csv"] {
        assert!(names(&out).iter().any(|there| there == name), "no {name}");
    }
    let rows = rows(&out);
    assert!(rows.iter().all(|row| row.chunks.as_ref().is_some_and(|all| all.len() == 8)));
    let traces: BTreeSet<&str> = rows.iter().filter_map(|row| row.trace_id.as_deref()).collect();
    assert_eq!(traces.len(), 8, "a trace for each request");
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(traces.iter().any(|trace| report.contains(trace)), "the page names traces");
    let drawn = viewed(&dir.path().join("trace.json"));
    assert_eq!(drawn, (8, 64), "requests and output events");

    let again = TOOL.run(dir.path(), "report out --format perfetto --out -", &[]);
    exits_with(&again, 0);
    let whole = std::fs::read_to_string(dir.path().join("trace.json")).unwrap();
    assert_eq!(stdout(&again).trim_end(), whole.trim_end());
}

/// Requests and output events of a file for a trace viewer, whose slices are checked.
fn viewed(path: &Path) -> (usize, usize) {
    let whole: Value = json(path);
    let events = whole["traceEvents"].as_array().unwrap();
    for event in events {
        assert!(["name", "ph"].iter().all(|field| event[field].is_string()), "{event}");
        assert!(["pid", "tid", "ts"].iter().all(|field| event[field].is_number()), "{event}");
    }
    let end = |event: &Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
    let requests: Vec<&Value> = events.iter().filter(|event| event["cat"] == "request").collect();
    for phase in events.iter().filter(|event| event["cat"] == "phase") {
        let holds = |request: &&&Value| {
            request["tid"] == phase["tid"]
                && request["ts"].as_f64() <= phase["ts"].as_f64()
                && end(phase) <= end(request) + 0.001
        };
        assert_eq!(requests.iter().filter(holds).count(), 1, "one request holds {phase}");
    }
    (requests.len(), events.iter().filter(|event| event["ph"] == "i").count())
}

/// What a server saw of a command with these options.
fn heard(dir: &Path, command: &str, options: &[&str]) -> Log {
    let server = Replay::start(vec![Script::at_once(short_answer(), 1)], Manners::default());
    let url = format!("http://{}", server.address());
    let line = format!("{command} {url} -n 2 -c 1 --quiet --no-report");
    exits_with(&TOOL.run(dir, &line, options), 0);
    server.stop()
}

/// The `traceparent` headers of the requests that have a result.
fn sent(dir: &Path, command: &str, name: &str, options: &[&str]) -> Vec<Option<String>> {
    let log = heard(dir, command, &[options, &["--out", name]].concat());
    let rows = rows(&dir.join(name));
    let header = |id: &str| log.post(id).header("traceparent").map(str::to_owned);
    for row in &rows {
        if let (Some(trace), Some(header)) = (&row.trace_id, header(&row.request_id)) {
            assert_eq!(header.split('-').nth(1), Some(trace.as_str()));
        }
    }
    rows.iter().map(|row| header(&row.request_id)).collect()
}

#[test]
fn each_request_is_sent_as_a_trace_of_its_own_where_that_is_wanted() {
    let dir = TempDir::new().unwrap();
    let by_default = sent(dir.path(), "trace", "a", &[]);
    let asked_for = sent(dir.path(), "run", "b", &["--traceparent"]);
    let all: BTreeSet<&String> = by_default.iter().chain(&asked_for).flatten().collect();
    assert_eq!(all.len(), 4, "{all:?}");
    for header in all {
        let lengths: Vec<usize> = header.split('-').map(str::len).collect();
        assert_eq!(lengths, [2, 32, 16, 2], "{header}");
        assert!(header.starts_with("00-") && header.ends_with("-01"), "{header}");
    }
    assert_eq!(sent(dir.path(), "run", "c", &[]), [None, None]);
    assert_eq!(sent(dir.path(), "trace", "d", &["--no-traceparent"]), [None, None]);
    let own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let theirs = sent(dir.path(), "trace", "e", &["--header", &format!("traceparent: {own}")]);
    assert_eq!(theirs, [Some(own.to_owned()), Some(own.to_owned())]);
    assert!(rows(&dir.path().join("e")).iter().all(|row| row.trace_id.is_none()));
}

#[test]
fn a_trace_ends_as_a_run_does() {
    let dir = TempDir::new().unwrap();
    let line = "trace --osl 4 --isl 16 -n 2 --json --perfetto";
    let output = TOOL.run(dir.path(), line, &["missing/trace.json"]);
    one_clear_line(&output, 2, &["--perfetto", "missing"]);
    assert!(names(dir.path()).is_empty(), "nothing was begun");
    let strict = ["trace.json", "--slo", "p95(e2e)<1ns", "--no-stream"];
    let output = TOOL.run(dir.path(), line, &strict);
    exits_with(&output, 3);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["schema"], "tokclock.summary/1");
    assert!(stderr(&output).contains("there is no gap"), "{}", stderr(&output));
    assert_eq!(viewed(&dir.path().join("trace.json")).0, 2);
}
