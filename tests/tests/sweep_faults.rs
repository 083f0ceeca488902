//! Sweeps that do not come to their end in order: killed, interrupted, a server that stalls or dies.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokclock_engine::clock::monotonic_ns;
use tokclock_engine::measure::curve::Curve;
use tokclock_engine::measure::{Held, Summary};
use tokclock_tests::command::{
    Started, Tool, alone, exits_with, finished, json, names, one_clear_line, stderr, wait_until,
};
use tokclock_tests::{MS, Sim, batching, rows};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// Four steps of the server.
const SMALL: &str = "--isl 16 --osl 4 --warmup 0";
/// As [`batching`] has it with 5 ms and 8 at once.
const SERVER: &str = "--serving queue --step-base 5ms --step-per-request 20us \
    --prefill-rate 200000 --max-batch 8";

fn curve(out: &Path) -> Curve {
    json(&out.join("curve.json"))
}

fn values(curve: &Curve) -> Vec<f64> {
    curve.levels.iter().map(|level| level.value).collect()
}

fn level(out: &Path, name: &str) -> PathBuf {
    out.join("levels").join(name)
}

/// Waits until a level of `sweep` has so many results.
#[track_caller]
fn wait_for(sweep: &mut Started, level: &Path, requests: usize) {
    wait_until("requests of the level", || finished(level) >= requests);
    assert!(!sweep.has_ended());
}

/// The summaries of some levels, as they lie there.
fn summaries(out: &Path, names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| std::fs::read(level(out, name).join("summary.json")).unwrap()).collect()
}

fn ids(dir: &Path) -> BTreeSet<String> {
    rows(dir).into_iter().map(|row| row.request_id).collect()
}

#[test]
fn a_killed_sweep_keeps_all_but_a_second_and_goes_on() {
    let sim = Sim::start(batching(5, 8));
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    let line = format!("sweep http://{} --out out {SMALL} -c 1,2,3,4 -d 2s", sim.address());
    let mut sweep = TOOL.start(dir.path(), &line, &[]);
    let cut = level(&out, "03");
    wait_for(&mut sweep, &cut, 1);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!cut.join("summary.json").exists(), "it is still in that level");
    let killed_ns = monotonic_ns();
    sweep.signal(libc::SIGKILL);
    let _ = sweep.end();
    let before = ["01", "02"];
    let whole = summaries(&out, &before);
    let had: BTreeSet<String> = before.iter().flat_map(|name| ids(&level(&out, name))).collect();
    let kept = ids(&cut);
    let records = std::fs::read(cut.join("requests.jsonl")).unwrap();
    assert_eq!(values(&curve(&out)), [1.0, 2.0]);

    let output = TOOL.run(dir.path(), "sweep --resume out", &[]);
    exits_with(&output, 0);
    assert!(stderr(&output).contains("2 runs were there already"), "{}", stderr(&output));
    assert_eq!(names(&out.join("levels")), ["01", "02", "03", "03.cut-1", "04"]);
    assert_eq!(summaries(&out, &before), whole);
    let aside = std::fs::read(level(&out, "03.cut-1").join("requests.jsonl")).unwrap();
    assert_eq!(aside, records, "what was measured stays as it is");
    assert_eq!(values(&curve(&out)), [1.0, 2.0, 3.0, 4.0]);

    // What the server had answered a second before the kill is on disk.
    let truth = sim.stop().1;
    let answered = truth
        .iter()
        .filter(|one| one.tail.is_some_and(|tail| tail[1] + 1000 * MS < killed_ns) && one.complete);
    let all: Vec<&String> = answered.map(|one| one.request_id.as_ref().unwrap()).collect();
    let of_cut = all.iter().filter(|id| !had.contains(**id));
    assert!(of_cut.clone().count() > 0, "some of the third level are that old");
    assert!(of_cut.clone().all(|id| kept.contains(*id)), "{} kept", kept.len());
    // The seed of the level is the same once more: so are the bodies, in the order of their numbers.
    let body = |id: &str| {
        let is_it = |one: &&tokclock_tests::Truth| one.request_id.as_deref() == Some(id);
        truth.iter().find(is_it).unwrap().body_hash.clone()
    };
    let first = |name: &str| {
        let mut all = rows(&level(&out, name));
        all.sort_by_key(|row| row.index);
        body(&all[0].request_id)
    };
    assert_eq!(first("03"), first("03.cut-1"));
}

#[test]
fn an_interrupted_sweep_has_its_whole_levels_and_goes_on() {
    let sim = Sim::start(batching(5, 8));
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    let line = format!("sweep http://{} --out out {SMALL} -c 1,2,3 -d 1s", sim.address());
    let mut sweep = TOOL.start(dir.path(), &line, &["--json"]);
    wait_for(&mut sweep, &level(&out, "02"), 4);
    sweep.signal(libc::SIGINT);
    let output = sweep.end();
    exits_with(&output, 130);
    assert!(stderr(&output).contains("tokclock sweep --resume out"), "{}", stderr(&output));
    let interrupted = curve(&out);
    assert_eq!(values(&interrupted), [1.0]);
    assert_eq!(serde_json::from_slice::<Curve>(&output.stdout).unwrap(), interrupted);
    let cut: Summary = json(&level(&out, "02").join("summary.json"));
    assert!(cut.run.interrupted && cut.requests.ok >= 4);
    let whole = summaries(&out, &["01"]);

    let resume = "sweep --resume out -q";
    exits_with(&TOOL.run(dir.path(), resume, &[]), 0);
    let levels = ["01", "02", "02.cut-1", "03"];
    assert_eq!(names(&out.join("levels")), levels);
    assert_eq!((values(&curve(&out)), summaries(&out, &["01"])), (vec![1.0, 2.0, 3.0], whole));
    // Once more there is nothing left to do.
    let whole = summaries(&out, &levels);
    exits_with(&TOOL.run(dir.path(), resume, &[]), 0);
    assert_eq!(names(&out.join("levels")), levels);
    // A level more takes the name of none.
    exits_with(&TOOL.run(dir.path(), resume, &["-c", "1,2,4"]), 0);
    let _ = sim.stop();
    assert_eq!(names(&out.join("levels")), ["01", "02", "02.cut-1", "03", "04"]);
    assert_eq!(values(&curve(&out)), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(summaries(&out, &levels), whole);
}

#[test]
fn an_interrupt_before_a_whole_level_leaves_an_empty_curve() {
    let sim = Sim::start(batching(5, 8));
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    let line = format!("sweep http://{} --out out {SMALL} -c 1,2 -d 30s", sim.address());
    let mut sweep = TOOL.start(dir.path(), &line, &[]);
    wait_for(&mut sweep, &level(&out, "01"), 2);
    sweep.signal(libc::SIGTERM);
    let output = sweep.end();
    exits_with(&output, 130);
    let _ = sim.stop();
    assert!(curve(&out).levels.is_empty());
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("no level was run"), "{page}");
}

#[test]
fn a_stall_is_waited_for_by_all_who_came_and_fails_its_level_alone() {
    let _one = alone();
    let dir = TempDir::new().unwrap();
    let sim = TOOL.sim(dir.path(), &format!("--port 0 {SERVER}"));
    let out = dir.path().join("out");
    let url = sim.url();
    let line = format!("sweep {url} --out out {SMALL} --rate 40,50 -d 4s --arrival constant");
    let mut sweep = TOOL.start(dir.path(), &line, &["--slo", "p95(ttft)<500ms"]);
    wait_for(&mut sweep, &level(&out, "01"), 10);
    sim.freeze();
    let frozen_ns = monotonic_ns();
    std::thread::sleep(Duration::from_secs(2));
    sim.wake();
    let stall_ns = monotonic_ns() - frozen_ns;
    let output = sweep.end();
    exits_with(&output, 0);
    let _ = sim.stop();
    let curve = curve(&out);
    assert_eq!(values(&curve), [40.0, 50.0]);
    assert_eq!(curve.levels[0].slo, Some(Held::Fail), "{:?}", curve.levels[0].figures);
    assert_eq!(curve.levels[1].slo, Some(Held::Pass), "{:?}", curve.levels[1].figures);
    assert_eq!(curve.levels[0].figures.error_rate, Some(0.0));
    let ttft: Vec<u64> = rows(&level(&out, "01"))
        .iter()
        .map(|row| row.first_token.unwrap().saturating_sub(row.intended))
        .collect();
    // Those who came in all of the stall but its last half second waited for longer than that; a
    // busy machine takes a moment to make up for it.
    let waited = ttft.iter().filter(|ttft| **ttft > 500 * MS).count() as f64;
    let (least, most) = (40.0 * (stall_ns - 500 * MS) as f64 / 1e9, 40.0 * stall_ns as f64 / 1e9);
    assert!(waited > least - 8.0 && waited < most + 8.0, "{waited} waited, not {least} to {most}");
    let most = ttft.iter().max().unwrap();
    assert!(*most + 100 * MS > stall_ns && *most < stall_ns + 1000 * MS, "{most} of {stall_ns} ns");
}

#[test]
fn a_server_that_dies_ends_the_sweep_which_goes_on_once_it_is_back() {
    for (options, in_words) in [("-c 1,2,3 -d 1s", "users"), ("--rate 20,30,40 -d 1s", "rate")] {
        let dir = TempDir::new().unwrap();
        let sim = TOOL.sim(dir.path(), &format!("--port 0 {SERVER}"));
        let port = sim.port().to_owned();
        let out = dir.path().join("out");
        let line = format!("sweep {} --out out {SMALL} {options}", sim.url());
        let mut sweep = TOOL.start(dir.path(), &line, &[]);
        wait_for(&mut sweep, &level(&out, "02"), 5);
        sim.kill();
        let output = sweep.end();
        one_clear_line(&output, 1, &["does not answer", "tokclock sweep --resume out"]);
        assert_eq!(values(&curve(&out)).len(), 1, "{in_words}");
        assert!(finished(&level(&out, "02.cut-1")) >= 5, "what was measured is kept");

        let sim = TOOL.sim(dir.path(), &format!("--port {port} {SERVER}"));
        exits_with(&TOOL.run(dir.path(), "sweep --resume out -q", &[]), 0);
        let _ = sim.stop();
        let curve = curve(&out);
        assert_eq!(curve.levels.len(), 3);
        assert!(curve.levels.iter().all(|level| level.figures.error_rate == Some(0.0)));
        assert_eq!(names(&out.join("levels")), ["01", "02", "02.cut-1", "03"], "{in_words}");
    }
}

#[test]
fn a_server_that_is_not_there_to_go_on_with_changes_nothing() {
    let sim = Sim::start(batching(5, 8));
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    let line = format!("sweep http://{} --out out {SMALL} -c 1,2 --requests 8 -q", sim.address());
    exits_with(&TOOL.run(dir.path(), &line, &[]), 0);
    let _ = sim.stop();
    let before = std::fs::read(out.join("curve.json")).unwrap();
    let output = TOOL.run(dir.path(), "sweep --resume out", &[]);
    one_clear_line(&output, 1, &["cannot reach"]);
    assert_eq!(std::fs::read(out.join("curve.json")).unwrap(), before);
    // A run is no sweep.
    let run = "sweep --resume out/levels/01";
    one_clear_line(&TOOL.run(dir.path(), run, &[]), 2, &["--resume", "not that of a sweep"]);
}
