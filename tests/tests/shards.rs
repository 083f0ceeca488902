//! One load by one, two and three processes that begin together: the server sees the same, at the same
//! instants.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::clock::realtime_ns;
use tokclock_engine::record::{Outcome, Row};
use tokclock_tests::command::{
    SimProcess, Started, Tool, exits_with, json, one_clear_line, stderr,
};
use tokclock_tests::{MS, rows};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// Requests of each load.
const REQUESTS: usize = 120;
/// All processes stand ready so long after they were started, ms; where they do not, later is tried.
const AHEAD_MS: [u64; 3] = [6_000, 15_000, 30_000];

/// One load on its way: a server of its own, and a process for each part.
struct Sent {
    sim: SimProcess,
    parts: Vec<(PathBuf, Started)>,
}

/// Starts so many processes that send one load together from `at_ns` on.
fn send(dir: &Path, hosts: usize, load: &str, at_ns: u64) -> Sent {
    let dir = dir.join(hosts.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    let sim = TOOL.sim(&dir, "--port 0 --ttft 5ms --itl 1ms");
    let (url, at) = (sim.url(), format!("{}.{:09}", at_ns / 1_000_000_000, at_ns % 1_000_000_000));
    let part = |index: usize| {
        let out = format!("part-{index}");
        let line = format!(
            "run {url} --shard {index}/{hosts} --start-at {at} --seed 7 {load} --isl normal:24,8,min=4 \
             --osl 3 --no-report --max-error-rate 0% --out {out}"
        );
        (dir.join(out), TOOL.start(&dir, &line, &["--client-limit", "busy=none"]))
    };
    let parts = (0..hosts).map(part).collect();
    Sent { sim, parts }
}

/// What the server and the processes have of a load.
struct Seen {
    /// The hash of each body by the number of its request.
    bodies: BTreeMap<u64, String>,
    /// When each request was meant to start, ns after the load's begin, by its number.
    instants: BTreeMap<u64, u64>,
    /// How far from the named instant the load of each process began, ns.
    off: Vec<u64>,
    /// Some process stood ready too late.
    late: bool,
}

impl Sent {
    fn seen(self, at_ns: u64) -> Seen {
        let (mut instants, mut off, mut late) = (BTreeMap::new(), Vec::new(), false);
        for (out, process) in self.parts {
            let ended = process.end();
            late |= stderr(&ended).contains("after --start-at");
            assert!([Some(0), Some(4)].contains(&ended.status.code()), "{}", stderr(&ended));
            let summary: Value = json(&out.join("summary.json"));
            let number = |pointer: &str| summary.pointer(pointer).and_then(Value::as_u64).unwrap();
            // Nothing goes before the measured part, so it begins with the load.
            let begin = number("/run/window/start_ns");
            off.push((number("/run/start_realtime_ns") + begin).abs_diff(at_ns));
            for row in rows(&out) {
                assert_eq!(row.outcome, Outcome::Ok, "{row:?}");
                let Row { index, intended, .. } = row;
                assert_eq!(instants.insert(index, intended - begin), None, "{index} twice");
            }
        }
        let truth = self.sim.stop();
        let number = |id: &str| id.rsplit_once('-').unwrap().1.parse::<u64>().unwrap();
        let runs = |id: &str| id.rsplit_once('-').unwrap().0.to_owned();
        let ids: Vec<String> = truth.iter().filter_map(|one| one.request_id.clone()).collect();
        let mut names: Vec<String> = ids.iter().map(|id| runs(id)).collect();
        names.dedup();
        assert_eq!(names.len(), 1, "all processes name their requests alike");
        let bodies: BTreeMap<u64, String> = truth
            .into_iter()
            .map(|one| (number(&one.request_id.unwrap()), one.body_hash))
            .collect();
        assert_eq!((ids.len(), bodies.len()), (REQUESTS, REQUESTS), "each once");
        Seen { bodies, instants, off, late }
    }
}

/// What is seen of a load by one, two and three processes, all at once, which began when they should.
fn seen(load: &str) -> Vec<Seen> {
    for ahead_ms in AHEAD_MS {
        let dir = TempDir::new().unwrap();
        let at_ns = realtime_ns() + ahead_ms * MS;
        #[expect(clippy::needless_collect, reason = "all are started before one is waited for")]
        let sent: Vec<Sent> = (1..=3).map(|hosts| send(dir.path(), hosts, load, at_ns)).collect();
        let seen: Vec<Seen> = sent.into_iter().map(|sent| sent.seen(at_ns)).collect();
        if !seen.iter().any(|one| one.late) {
            return seen;
        }
    }
    Vec::new()
}

#[test]
fn arrivals_of_one_plan_are_the_same_at_the_same_instants_by_any_number_of_processes() {
    let seen = seen("--rate 120 --arrival gamma --burstiness 0.5 --requests 120 --reactors 1");
    let [one, others @ ..] = seen.as_slice() else { unreachable!("always late") };
    assert_eq!(one.instants.len(), REQUESTS, "all arrivals are issued");
    for other in others {
        assert_eq!((&other.bodies, &other.instants), (&one.bodies, &one.instants));
    }
    let off: Vec<u64> = seen.iter().flat_map(|one| one.off.clone()).collect();
    assert_eq!(off.len(), 1 + 2 + 3);
    assert!(off.iter().all(|off| *off <= MS), "{off:?} ns from the instant");
}

#[test]
fn requests_of_one_crowd_are_the_same_by_any_number_of_processes() {
    let seen = seen("--concurrency 7 --requests 120 --reactors 2");
    let [one, others @ ..] = seen.as_slice() else { unreachable!("always late") };
    for other in others {
        assert_eq!(other.bodies, one.bodies);
    }
    assert!(seen.iter().flat_map(|one| &one.off).all(|off| *off <= MS));
}

#[test]
fn whoever_waits_for_the_start_can_be_interrupted() {
    let dir = TempDir::new().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0");
    let at = (realtime_ns() + 3_600_000 * MS) / 1_000_000_000;
    let line = format!("run {} --shard 0/2 --start-at {at} --seed 7 --out out", sim.url());
    let process = TOOL.start(dir.path(), &line, &[]);
    tokclock_tests::command::wait_until("run.toml", || dir.path().join("out/run.toml").exists());
    // The file is there a moment before an interrupt leaves results.
    std::thread::sleep(std::time::Duration::from_millis(500));
    process.signal(2);
    let ended = process.end();
    exits_with(&ended, 130);
    assert!(rows(&dir.path().join("out")).is_empty());
    assert!(sim.stop().is_empty(), "nothing was sent");
}

#[test]
fn parts_that_would_not_be_one_load_are_told_in_one_line() {
    let dir = TempDir::new().unwrap();
    for (line, words) in [
        ("run http://127.0.0.1:9 --shard 0/2", "--seed"),
        ("run http://127.0.0.1:9 --shard 0/3 --seed 7 -c 2", "at least 3"),
        ("sweep http://127.0.0.1:9 --shard 0/2 --seed 7", "--worker"),
        ("search http://127.0.0.1:9 --shard 0/2 --seed 7 --slo p95(ttft)<1s", "--worker"),
        ("trace http://127.0.0.1:9 --shard 0/2 --seed 7", "trace from one host"),
    ] {
        one_clear_line(&TOOL.run(dir.path(), line, &[]), 2, &[words]);
    }
}
