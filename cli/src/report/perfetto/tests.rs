//! The file as a viewer reads it: every event whole, no two slices of a thread across each other.

use std::collections::{BTreeMap, BTreeSet};

use tempfile::TempDir;
use tokclock_engine::measure::summarize;
use tokclock_engine::record::{Arm, ErrorClass, Legs};

use super::super::tests::{closed, facts, failed, row, workload};
use super::*;
use crate::results::ResultDir;

const MS: u64 = 1_000_000;

/// A result with these requests.
fn result(rows: &[Row]) -> TempDir {
    let dir = TempDir::new().unwrap();
    let result = ResultDir::create(Some(dir.path()), "x").unwrap();
    result.write_summary(&summarize(&workload(closed()), &facts(), rows.iter().cloned())).unwrap();
    let lines: String = rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect();
    result.write_bytes("requests.jsonl", lines.as_bytes()).unwrap();
    dir
}

/// The events of results, checked.
fn events_of(dirs: &[&TempDir]) -> Vec<Value> {
    let kept: Vec<Kept> = dirs.iter().map(|dir| Kept::open(dir.path()).unwrap()).collect();
    let mut out = Vec::new();
    perfetto(&kept, &mut out).unwrap();
    let whole: Value = serde_json::from_slice(&out).unwrap();
    let events = whole["traceEvents"].as_array().unwrap().clone();
    for event in &events {
        assert!(event["name"].is_string() && event["ph"].is_string(), "{event}");
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["ts"].is_f64(), "{event}");
        match event["ph"].as_str().unwrap() {
            "X" => assert!(event["dur"].is_f64(), "{event}"),
            "i" => assert_eq!(event["s"], "t"),
            "C" => {
                assert!(event["args"].as_object().unwrap().values().all(Value::is_f64), "{event}");
            }
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            other => panic!("{other} is no kind that is written"),
        }
    }
    nested(&events);
    events
}

fn ns(event: &Value, field: &str) -> u64 {
    (event[field].as_f64().unwrap() * 1e3).round() as u64
}

/// On each thread a slice lies inside another or beside it.
fn nested(events: &[Value]) {
    let mut threads: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for slice in events.iter().filter(|event| event["ph"] == "X") {
        let span = (ns(slice, "ts"), ns(slice, "ts") + ns(slice, "dur"));
        threads.entry(slice["tid"].as_u64().unwrap()).or_default().push(span);
    }
    for mut spans in threads.into_values() {
        spans.sort_by_key(|(from, to)| (*from, u64::MAX - to));
        let mut open: Vec<u64> = Vec::new();
        for (from, to) in spans {
            open.retain(|end| *end > from);
            assert!(open.iter().all(|end| to <= *end), "{from} to {to} across one to {open:?}");
            open.push(to);
        }
    }
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["name"] == name).collect()
}

/// Request `index` on reactor `index % 2`, with its output events.
fn streamed(index: u64) -> Row {
    let plain = row(index, 0);
    let all = [plain.first_token, plain.second_token, plain.last_token];
    let chunks = all.into_iter().flatten().map(|at| (at, 2)).collect();
    Row { reactor: (index % 2) as u32, chunks: Some(chunks), ..plain }
}

#[test]
fn requests_that_overlap_have_threads_of_their_own_and_as_few_as_that_takes() {
    // Each takes 141 ms and begins 100 ms after the one before, on two reactors in turn.
    let dir = result(&(0..20).map(streamed).collect::<Vec<_>>());
    let events = events_of(&[&dir]);
    let processes = named(&events, "process_name");
    let names: Vec<&str> =
        processes.iter().map(|one| one["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load", "reactor 0", "reactor 1"]);
    assert_eq!(named(&events, "thread_name").len(), 2, "none overlaps on its own reactor");
    let one = named(&events, "request 3")[0];
    assert_eq!((ns(one, "ts"), ns(one, "dur")), (300 * MS, 141 * MS + 3000));
    assert_eq!(one["args"]["request_id"], "r3");
    assert!(one["args"].get("error").is_none(), "what is not known is left out");
    assert_eq!(named(&events, "output").len(), 60);
    assert_eq!(named(&events, "second token").len(), 20);
    let flying = named(&events, "requests in flight");
    let most = flying.iter().map(|one| one["args"]["requests in flight"].as_f64().unwrap());
    assert_eq!(most.fold(0.0, f64::max), 2.0);
    assert_eq!(flying.last().unwrap()["args"]["requests in flight"], 0.0);
    // Bins of 20 ms: each lasts a fiftieth of a second.
    let rates = named(&events, "output tokens/s");
    let sum: f64 = rates.iter().map(|one| one["args"]["output tokens/s"].as_f64().unwrap()).sum();
    assert_eq!((sum / 50.0).round(), 120.0);
}

#[test]
fn load_points_come_one_after_another_with_threads_of_their_own() {
    let dirs = [result(&[streamed(0)]), result(&[streamed(0), failed(1, ErrorClass::Dns, "x")])];
    let events = events_of(&[&dirs[0], &dirs[1]]);
    let processes: BTreeSet<u64> =
        named(&events, "process_name").iter().map(|one| one["pid"].as_u64().unwrap()).collect();
    assert_eq!(processes.len(), 4, "a load and a reactor each");
    assert_eq!(named(&events, "request 0").len(), 2);
    assert_eq!(named(&events, "request 1")[0]["args"]["error"], "dns");
    assert_eq!(named(&events, "lost").len(), 1);
    assert!(events_of(&[&result(&[])]).iter().all(|event| event["ph"] == "M"));
}

#[test]
fn legs_lie_at_their_servers() {
    let leg = |port: u64, from: u64, to: u64| Leg {
        url: format!("http://127.0.0.1:{port}"),
        write_start: Some(from * MS),
        done: Some(to * MS),
        ..Leg::default()
    };
    let (prefill, decode) = (Some(leg(1, 1, 60)), Some(leg(2, 2, 140)));
    let baseline = Some(leg(2, 150, 160));
    let legs = Legs { arm: Arm::Direct, handoff_bytes: Some(7), prefill, decode, baseline };
    let row = Row { legs: Some(Box::new(legs)), trace_id: Some("0a".into()), ..streamed(0) };
    let events = events_of(&[&result(&[row])]);
    let pid = |name: &str| named(&events, name)[0]["pid"].as_u64().unwrap();
    assert!(pid("request 0") < pid("prefill") && pid("prefill") < pid("baseline"));
    let decode = events.iter().find(|one| one["name"] == "decode" && one["cat"] == "leg").unwrap();
    assert_eq!((ns(decode, "ts"), ns(decode, "dur")), (2 * MS, 138 * MS));
    assert_eq!(
        (&decode["args"]["trace_id"], &decode["args"]["request"]),
        (&json!("0a"), &json!(0))
    );
    assert_eq!(named(&events, "decode first").len(), 1);
}
