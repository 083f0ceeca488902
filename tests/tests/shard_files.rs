//! What one host leaves of its share of a load: whole at the end, and readable when it is killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use tokclock_engine::measure::{self, Facts};
use tokclock_engine::plan::Materials;
use tokclock_engine::record::{read_interval_log, write_interval_log};
use tokclock_engine::run::{Control, Progress, Setup, run};
use tokclock_engine::shard::{Header, Left, SECONDS_FILE, Sums, add_seconds, read_seconds};
use tokclock_engine::workload::{Shard, Workload};
use tokclock_tests::command::{alone, finished, names, wait_until};
use tokclock_tests::{MS, Sim, closed, on_reactors, requests, rows, settings, workload};

/// Says to a test that it is the process to be killed: where the server listens, and where it is to
/// leave its files.
const SERVER: &str = "TOKCLOCK_TEST_SERVER";
const OUT: &str = "TOKCLOCK_TEST_OUT";

fn header() -> Header {
    Header {
        shard: Shard::WHOLE,
        plan: "plan".into(),
        seed: 7,
        run_id: "test".into(),
        start_at_ns: None,
        version: "test".into(),
        host: serde_json::json!({}),
    }
}

fn carry_out(workload: &Workload, out_dir: &Path, shard: Option<Header>) -> Facts {
    let setup = Setup {
        out_dir: out_dir.to_owned(),
        run_id: "test".to_owned(),
        resolve_ns: 0,
        materials: Materials::default(),
        gpus: None,
        scrape: Default::default(),
        start_at_ns: None,
        shard,
    };
    run(workload, &setup, &Arc::new(Control::new()), &Progress::new()).unwrap()
}

/// Facts as JSON, without those of the host: the last digit of a share may be lost.
fn told(facts: &Facts) -> serde_json::Value {
    serde_json::to_value(Facts { host: Default::default(), ..facts.clone() }).unwrap()
}

#[test]
fn a_shard_leaves_its_facts_and_its_seconds() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = Sim::start(settings());
    let workload = on_reactors(workload(sim.address(), closed(4), requests(250)), 2);
    let facts = carry_out(&workload, dir.path(), Some(header()));
    assert_eq!(names(dir.path()), ["requests.jsonl", SECONDS_FILE, "shard.json"]);

    let left = Left::read(dir.path()).unwrap();
    assert_eq!(left.file.header, header());
    assert_eq!(left.file.start().realtime_ns, facts.start_realtime_ns);
    assert_eq!(left.file.start().monotonic_ns, facts.start_monotonic_ns);
    let clock = &left.file.clock;
    // At the start, as the load begins, at the end, and each second between.
    assert!(clock.len() as u64 >= 3 + (facts.end - facts.load_start) / 1_000 / MS, "{clock:?}");
    assert!(clock.is_sorted_by(|one, next| one.monotonic_ns < next.monotonic_ns), "{clock:?}");
    assert_eq!(left.file.steps(), []);
    let ended = left.file.ended.as_ref().unwrap();
    assert_eq!(ended.kernel_clock.is_some(), left.file.kernel_clock.is_some());
    assert!(told(&ended.facts) == told(&facts), "few gaps are all kept, and all else is");

    // The seconds add up to the whole, and to what the records tell.
    let path = dir.path().join(SECONDS_FILE);
    let mut sums = Sums::default();
    add_seconds(&path, &mut sums).unwrap();
    let pooled = sums.pooled();
    assert!(pooled.icl == facts.pooled.icl && pooled.itl == facts.pooled.itl);
    assert!(pooled.lag == facts.pooled.lag && pooled.lag_output == facts.pooled.lag_output);
    assert!(!pooled.icl.is_empty() && !pooled.lag_output.is_empty());
    let summary = measure::summarize(&workload, &facts, rows(dir.path()));
    let (latency, service) = (&summary.latency, &summary.latency.service);
    for (tag, told) in [
        ("ttfb", &latency.ttfb),
        ("ttft", &latency.ttft),
        ("ttfo", &latency.ttfo),
        ("ttst", &latency.ttst),
        ("tpot", &latency.tpot),
        ("ntpot", &latency.ntpot),
        ("e2e", &latency.e2e),
        ("stream_tail", &latency.stream_tail),
        ("service.ttfb", &service.ttfb),
        ("service.ttft", &service.ttft),
        ("service.ttfo", &service.ttfo),
        ("service.ntpot", &service.ntpot),
        ("service.e2e", &service.e2e),
    ] {
        let sum = sums.get(tag).unwrap();
        assert_eq!((sum.len(), told.count), (250, 250), "{tag}");
        let most = told.max.unwrap();
        assert!(sum.max().abs_diff(most) <= most / 500, "{tag}: {} and {most}", sum.max());
    }
    // Each second holds what ended in it.
    let mut by_second = vec![0; facts.seconds().len()];
    let mut each = |tag: &str, start: std::time::Duration, values: u64| {
        if tag == "e2e" {
            by_second[start.as_secs() as usize] += values;
        }
    };
    read_seconds(&path, &mut |tag, start, values| each(tag, start, values.len())).unwrap();
    let ok: Vec<u64> = facts.seconds().iter().map(|second| second.ok).collect();
    assert_eq!(by_second, ok);

    // The log is one that the usual tools read, and so does the reader of the other logs.
    let log = read_interval_log(&std::fs::read(&path).unwrap()).unwrap();
    let mut whole = Vec::new();
    write_interval_log(&mut whole, &facts).unwrap();
    for (tag, values) in read_interval_log(&whole).unwrap() {
        let sum = &log.iter().find(|(name, _)| *name == tag).unwrap().1;
        assert!(*sum == values, "{tag}");
    }
}

#[test]
fn a_run_that_is_no_shard_leaves_nothing_new() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = Sim::start(settings());
    carry_out(&workload(sim.address(), closed(2), requests(10)), dir.path(), None);
    assert_eq!(names(dir.path()), ["requests.jsonl"]);
}

/// Not a test of its own: the process that [`a_killed_shard_can_be_read`] kills. A load without end.
#[test]
fn victim() {
    let (Ok(server), Ok(out)) = (std::env::var(SERVER), std::env::var(OUT)) else { return };
    let workload = workload(server.parse().unwrap(), closed(4), requests(1_000_000));
    carry_out(&workload, &PathBuf::from(out), Some(header()));
}

/// The process of this test, which does nothing but [`victim`].
fn start_victim(sim: &Sim, out: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--test-threads", "1"])
        .env(SERVER, sim.address().to_string())
        .env(OUT, out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_shard_can_be_read() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = Sim::start(settings());
    let mut victim = start_victim(&sim, dir.path());
    let path = dir.path().join(SECONDS_FILE);
    let seconds = || {
        let mut seconds = std::collections::BTreeSet::new();
        let each = &mut |tag: &str, start: std::time::Duration, _: &_| {
            if tag == "icl" {
                seconds.insert(start.as_secs());
            }
        };
        // At any moment of its growth it can be read.
        path.exists().then(|| read_seconds(&path, each).unwrap());
        seconds.len()
    };
    wait_until("two whole seconds", || seconds() >= 2);
    wait_until("some requests", || finished(dir.path()) >= 100);
    victim.kill().unwrap();
    victim.wait().unwrap();

    let left = Left::read(dir.path()).unwrap();
    assert!(left.file.ended.is_none());
    assert_eq!(left.file.clock.len(), 1);
    let mut asked = workload(sim.address(), closed(4), requests(1_000_000));
    let facts = left.remains(&asked).unwrap();
    let kept = rows(dir.path()).len();
    assert!(facts.interrupted && kept >= 100);
    assert_eq!(facts.start_realtime_ns, left.file.start().realtime_ns);
    let ok: u64 = facts.seconds().iter().map(|second| second.ok).sum();
    assert_eq!(ok, kept as u64);
    assert!(!facts.pooled.lag.is_empty() && !facts.pooled.lag_output.is_empty());
    // With their output events in the records the gaps are those of every finished request.
    assert_eq!(facts.pooled.icl.len(), 7 * ok);
    // Without, they are those of the seconds, of which the last is missing.
    let requests = dir.path().join("requests.jsonl");
    let text = std::fs::read_to_string(&requests).unwrap();
    let without = |line: &str| {
        let mut row: serde_json::Value = serde_json::from_str(line).ok()?;
        row.as_object_mut()?.remove("chunks");
        Some(row.to_string() + "\n")
    };
    std::fs::write(&requests, text.lines().filter_map(without).collect::<String>()).unwrap();
    asked.client.keep_chunks = false;
    let facts = left.remains(&asked).unwrap();
    assert!((1..=7 * ok).contains(&facts.pooled.icl.len()), "{}", facts.pooled.icl.len());
}
