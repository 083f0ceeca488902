//! `tokclock merge` on shards that lie there: figures as from one host, what is missing is said, what
//! does not belong together is refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokclock_engine::measure::{Facts, Health, HostState, MergedFrom, Summary, summarize};
use tokclock_engine::record::{Pooled, Row, Tally};
use tokclock_engine::shard::{
    ClockMoment, Clocks, Ended, Header, HostClock, KernelClock, SECONDS_FILE, SHARD_FILE, ShardFile,
};
use tokclock_engine::workload::Shard;
use tokclock_tests::MS;
use tokclock_tests::command::{Tool, exits_with, json as read, one_clear_line};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
const S: u64 = 1_000_000_000;
const HOSTS: u32 = 3;
const BEGUN_NS: u64 = 1_700_000_000 * S;

/// Request `index` of the load, by the clock of a host whose run began so much later, ms.
fn row(index: u64, later_ms: u64) -> Row {
    let at = |ms: u64| Some((ms - later_ms) * MS);
    let (sent, first) = (500 + index * 10, 540 + index * 10 + (index * 7) % 23);
    let last = first + 20 + index % 5;
    let is_bad = index == 17;
    let mut value = json!({
        "index": index, "request_id": format!("r{index}"), "phase": "measure", "class": null,
        "session": null, "turn": null, "reactor": 0, "connection": index, "reused": true,
        "attempts": 1, "wait_cause": null, "outcome": if is_bad { "error" } else { "ok" },
        "error": is_bad.then_some("conn_reset"), "error_text": null, "malformed_events": 0,
        "status": 200, "finish": "stop", "intended": at(sent), "dispatched": at(sent),
    });
    let answer = json!({
        "connected": null, "tls_done": null, "write_start": at(sent), "write_done": at(sent),
        "first_byte": at(first), "head_done": at(first), "first_token": at(first),
        "first_output": at(first), "second_token": at(last), "last_token": at(last),
        "done": at(last), "input_tokens": 8, "client_input_tokens": null,
        "output_tokens": if is_bad { None } else { Some(2) },
        "output_source": if is_bad { None } else { Some("usage") },
        "client_output_tokens": null, "reasoning_tokens": null, "first_tokens": 1, "events": 2,
        "bytes": 100, "reads": 2, "coalesced": 0, "lag_max": 0,
    });
    value.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn facts(later_ms: u64, realtime_ns: u64, own: &[Row]) -> Facts {
    let mut pooled = Pooled::default();
    for row in own.iter().filter(|row| row.error.is_none()) {
        let gap = row.last_token.unwrap() - row.first_token.unwrap();
        pooled.icl.record(gap).unwrap();
        pooled.itl.record(gap).unwrap();
        pooled.lag_output.record(20_000).unwrap();
    }
    let tally = Tally {
        offered: own.len() as u64,
        window_output_tokens: 2 * own.len() as u64,
        ..Tally::default()
    };
    Facts {
        start_monotonic_ns: 7 * S,
        start_realtime_ns: realtime_ns,
        load_start: (500 - later_ms) * MS,
        start_late_ns: 0,
        window_start: (500 - later_ms) * MS,
        window_end: (1500 - later_ms) * MS,
        window_by_requests: false,
        end: (1600 - later_ms) * MS,
        interrupted: false,
        driver: "io_uring".to_owned(),
        ring: String::new(),
        kernel_stamps: true,
        tallies: vec![tally],
        pooled,
        host: tokclock_engine::telemetry::host::Watched::default(),
        resolve_ns: 0,
        ramp_ns: 0,
        steered: Default::default(),
        ceiling: None,
    }
}

/// How a shard is to be.
struct Made {
    index: u32,
    /// When its run began, ms after the first's.
    later_ms: u64,
    /// How far its clock is ahead, ns.
    ahead_ns: i64,
    has_ended: bool,
    /// Something keeps its clock in step.
    is_kept: bool,
    plan: &'static str,
}

fn made(index: u32) -> Made {
    let later_ms = 40 * u64::from(index);
    Made { index, later_ms, ahead_ns: 0, has_ended: true, is_kept: true, plan: "sha256:a" }
}

/// Writes a shard as a run leaves it.
fn shard(root: &Path, name: &str, made: &Made) -> PathBuf {
    let dir = root.join(name);
    fs::create_dir_all(&dir).unwrap();
    let realtime_ns = (BEGUN_NS + made.later_ms * MS).saturating_add_signed(made.ahead_ns);
    let start = ClockMoment { monotonic_ns: 7 * S, realtime_ns };
    let header = Header {
        shard: Shard::new(made.index, HOSTS).unwrap(),
        plan: made.plan.to_owned(),
        seed: 7,
        run_id: "r".to_owned(),
        start_at_ns: Some(BEGUN_NS + 500 * MS),
        version: "0.1.0".to_owned(),
        host: json!({ "name": format!("node-{}", made.index) }),
    };
    let rows: Vec<Row> = (0..100)
        .filter(|index| index % u64::from(HOSTS) == u64::from(made.index))
        .map(|index| row(index, made.later_ms))
        .collect();
    let facts = facts(made.later_ms, realtime_ns, &rows);
    let kernel_clock = KernelClock {
        synchronized: made.is_kept,
        max_error_ns: 2_000_000,
        estimated_error_ns: 100_000,
        frequency_ppm: 0.0,
    };
    let mut file = ShardFile::begun(header, start, Some(kernel_clock));
    file.ended = made.has_ended.then_some(Ended { facts, kernel_clock: None });
    let lines: String =
        rows.iter().map(|row| format!("{}\n", serde_json::to_string(row).unwrap())).collect();
    fs::write(dir.join("requests.jsonl"), lines).unwrap();
    fs::write(dir.join(SHARD_FILE), serde_json::to_vec(&file).unwrap()).unwrap();
    let options = "url = \"http://127.0.0.1:1\"\nmodel = \"m\"\nrate = 100.0\nduration = \"1s\"\n\
                   seed = 7\nosl = \"2\"\nslo = [\"p95(ttft)<80ms\"]\n";
    fs::write(dir.join("run.toml"), options).unwrap();
    dir
}

/// Three shards in a directory.
fn three(change: impl Fn(&mut Made)) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for index in 0..HOSTS {
        let mut one = made(index);
        change(&mut one);
        shard(root.path(), &format!("shards/{index}"), &one);
    }
    root
}

fn merged(root: &Path) -> Summary {
    read(&root.join("all/summary.json"))
}

#[test]
fn figures_are_those_of_one_host() {
    // The second host's clock is 3 s ahead.
    let root = three(|made| made.ahead_ns = if made.index == 1 { 3_000_000_000 } else { 0 });
    let clock = |shard: u32, offset_ns: i64| HostClock {
        shard,
        offset_ns,
        error_ns: 30_000,
        drift_ppb: Some(12.0),
        drift_error_ppb: Some(3.0),
        exchanges: 20,
        at_realtime_ns: (BEGUN_NS + 40 * u64::from(shard) * MS).saturating_add_signed(offset_ns),
    };
    let clocks = Clocks::new(vec![clock(0, 0), clock(1, 3_000_000_000), clock(2, 0)]);
    fs::write(root.path().join("clocks.json"), serde_json::to_vec(&clocks).unwrap()).unwrap();
    let output = TOOL.run(root.path(), "merge shards --out all", &[]);
    exits_with(&output, 0);
    let summary = merged(root.path());
    let rows: Vec<Row> = (0..100).map(|index| row(index, 0)).collect();
    let workload = tokclock_tests::workload(
        "127.0.0.1:1".parse().unwrap(),
        tokclock_tests::poisson(100.0, None, tokclock_engine::workload::Overflow::Wait),
        tokclock_tests::requests(100),
    );
    let one = summarize(&workload, &facts(0, BEGUN_NS, &rows), rows.clone());
    assert_eq!(summary.latency.ttft, one.latency.ttft);
    assert_eq!(summary.latency.e2e, one.latency.e2e);
    assert_eq!(summary.latency.icl.percentiles, one.latency.icl.percentiles);
    assert_eq!((&summary.judged, &summary.requests), (&one.judged, &one.requests));
    assert_eq!((&summary.tokens, &summary.rate), (&one.tokens, &one.rate));
    let merge = summary.merge.as_ref().unwrap();
    assert!(!merge.partial && merge.records == MergedFrom::Pooled, "{merge:?}");
    assert_eq!((merge.present, merge.clock_error_ns, merge.start_skew_ns), (3, Some(30_000), 0));
    let host = &summary.hosts[1];
    assert_eq!((host.name.as_deref(), host.clock.offset_ns), (Some("node-1"), 3_000_000_000));
    assert_eq!((host.ok, host.failed, host.state), (33, 0, HostState::Whole));
    // Records lie on one axis, in order of completion.
    let text = fs::read_to_string(root.path().join("all/requests.jsonl")).unwrap();
    let lines: Vec<Row> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() == 100 && lines.is_sorted_by_key(|row| row.done));
    let twelve = lines.iter().find(|row| row.index == 13).unwrap();
    assert_eq!((twelve.shard, twelve.reactor), (Some(1), 1));
    assert_eq!(twelve.intended, 630 * MS);
    for (line, says) in [
        ("report all --format md --out -", "3 of 3 hosts"),
        ("report all --format json,csv,hlog,junit,perfetto", ""),
        ("compare all all", "ttft"),
    ] {
        let output = TOOL.run(root.path(), line, &[]);
        exits_with(&output, 0);
        let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
        assert!(said.contains(says), "{line}: {said}");
    }
    assert!(fs::read_to_string(root.path().join("all/report.html")).unwrap().contains("node-2"));
}

#[test]
fn a_missing_host_and_one_that_was_cut_off_make_a_partial_result() {
    let root = three(|made| made.has_ended = made.index != 1);
    fs::remove_dir_all(root.path().join("shards/2")).unwrap();
    let output = TOOL.run(root.path(), "merge shards --out all", &[]);
    exits_with(&output, 1);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("PARTIAL") && said.contains("missing 2; cut off 1"), "{said}");
    let summary = merged(root.path());
    let merge = summary.merge.as_ref().unwrap();
    assert_eq!((&merge.missing, &merge.cut_off, merge.partial), (&vec![2], &vec![1], true));
    // What it had measured until then is in.
    assert_eq!(summary.requests.ok + summary.requests.failed, 67);
    assert_eq!(summary.hosts[1].state, HostState::CutOff);
    assert_eq!((summary.client.verdict, summary.run.interrupted), (Health::Suspect, false));
    let reasons: Vec<&str> =
        summary.client.reasons.iter().map(|reason| reason.message.as_str()).collect();
    assert!(reasons.iter().any(|text| text.starts_with("host 1 (node-1): the run was cut off")));
}

#[test]
fn what_kernels_say_of_clocks_that_nobody_compared_is_told() {
    for (kept, words) in [
        ([true; 3], "taken to agree, each right to 2.000 ms at worst by its kernel"),
        ([true, false, false], "nothing keeps that of host 1 (node-1) and 1 more in step"),
    ] {
        let root = three(|made| made.is_kept = kept[made.index as usize]);
        exits_with(&TOOL.run(root.path(), "merge shards --out all -q", &[]), 0);
        let merge = merged(root.path()).merge.unwrap();
        assert!(merge.notes[0].contains(words), "{:?}", merge.notes);
        assert_eq!(merge.clock_error_ns, None);
    }
}

#[test]
fn what_does_not_belong_together_is_refused_and_leaves_nothing() {
    let root = three(|_| {});
    let path = root.path();
    shard(path, "foreign", &Made { plan: "sha256:b", ..made(2) });
    shard(path, "again", &made(0));
    fs::create_dir(path.join("empty")).unwrap();
    let other = "{\"schema\":\"tokclock.clocks/9\",\"hosts\":[]}";
    fs::write(path.join("other.json"), other).unwrap();
    for (line, words) in [
        ("merge shards/0 foreign --out all", &["foreign", "plan", "sha256:b", "sha256:a"][..]),
        ("merge shards again --out all", &["shard 0/3", "again"]),
        ("merge empty --out all", &["empty is no shard", "--shard"]),
        ("merge nowhere --out all", &["nowhere is no directory"]),
        ("merge shards --clocks none.json --out all", &["none.json"]),
        ("merge shards --clocks other.json --out all", &["other.json", "tokclock.clocks/9"]),
        ("merge shards --histograms --out all", &["seconds.hlog is missing"]),
    ] {
        let output = TOOL.run(path, line, &[]);
        one_clear_line(&output, 2, words);
        assert!(!path.join("all").exists(), "{line}");
    }
    let far = Made { later_ms: 0, ahead_ns: 60_000_000_000, ..made(1) };
    shard(path, "far", &far);
    let output = TOOL.run(path, "merge shards/0 far --out all", &[]);
    one_clear_line(&output, 2, &["far began", "after the others had ended", "--clocks"]);
    // Another host that has sent the same requests.
    fs::copy(path.join("shards/0/requests.jsonl"), path.join("shards/1/requests.jsonl")).unwrap();
    let output = TOOL.run(path, "merge shards --out all", &[]);
    one_clear_line(&output, 2, &["shards 0 and 1 both hold request 0"]);
    fs::write(path.join("shards/1/shard.json"), "{}").unwrap();
    let output = TOOL.run(path, "merge shards --out all", &[]);
    one_clear_line(&output, 2, &["shards/1/shard.json"]);
}

#[test]
fn histograms_alone_give_the_same_within_their_resolution() {
    let root = three(|_| {});
    exits_with(&TOOL.run(root.path(), "merge shards --out exact", &[]), 0);
    let exact: Summary = read(&root.path().join("exact/summary.json"));
    for index in 0..HOSTS {
        // What a run writes each second, here of all of it at once; and its figures.
        let dir = root.path().join(format!("shards/{index}"));
        let run = format!("report {} --format hlog", dir.display());
        exits_with(&TOOL.run(root.path(), &run, &[]), 0);
        fs::rename(dir.join("report.hlog"), dir.join(SECONDS_FILE)).unwrap();
        fs::remove_file(dir.join("requests.jsonl")).unwrap();
    }
    let output = TOOL.run(root.path(), "merge shards --out all --json", &[]);
    exits_with(&output, 0);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["merge"]["records"], "histograms");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("resolution of 0.1 %"), "{said}");
    let summary = merged(root.path());
    assert_eq!(summary.requests.ok, exact.requests.ok);
    let (got, exact) = (&summary.latency.ttft, &exact.latency.ttft);
    assert_eq!(got.count, exact.count);
    let near = |one: u64, other: u64| one.abs_diff(other) * 1000 <= other + 1000;
    assert!(near(got.percentiles.p95.unwrap(), exact.percentiles.p95.unwrap()));
    assert!(!root.path().join("all/requests.jsonl").exists());
    exits_with(&TOOL.run(root.path(), "report all --format md,json,html", &[]), 0);
}
