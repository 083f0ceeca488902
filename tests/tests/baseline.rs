//! `tokclock baseline` as a person uses it: what it leaves behind, and what a run makes of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_tests::{Sim, settings};

/// The command with its results and its state in `dir`.
fn tokclock(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokclock-under-test"));
    command.current_dir(dir).env("XDG_STATE_HOME", dir.join("state")).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `baseline` of few streams with results in `dir/out`. Its path is absolute, so that it stands in
/// the command line of the simulator.
fn baseline(dir: &Path, duration: &str) -> Command {
    let mut command = tokclock(dir, &["baseline", "--quick", "--streams", "1,4"]);
    command.args(["--duration", duration, "--json", "--out"]).arg(dir.join("out"));
    // Errors are the business of a quiet machine.
    command.args(["--ttft-bound", "100s", "--gap-bound", "100s"]);
    command
}

fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Baselines in the state directory.
fn kept(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir.join("state/tokclock/baseline")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Whether a process lives whose command line names a path in `dir`.
fn anyone_at(dir: &Path) -> bool {
    let name = dir.to_str().unwrap();
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let number = path.file_name()?.to_str()?.parse::<u32>().ok()?;
        (number != std::process::id()).then(|| fs::read(path.join("cmdline")).ok())?
    });
    // A process that has ended and waits for its parent has no command line any more.
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(name))
}

/// Nobody is left, soon.
fn nobody_is_left(dir: &Path) {
    for _ in 0..1_000 {
        if !anyone_at(dir) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!anyone_at(dir), "a process was left behind");
}

fn run(dir: &Path, url: &str, options: &[&str]) -> (Output, Value) {
    let _ = fs::remove_dir_all(dir.join("run"));
    let output = tokclock(dir, &["run", url, "--requests", "30", "--osl", "4", "--out", "run"])
        .args(options)
        .output()
        .unwrap();
    let summary = json(dir.join("run/summary.json"));
    (output, summary)
}

#[test]
fn a_baseline_holds_together_and_runs_find_it() {
    let dir = TempDir::new().unwrap();
    let output = baseline(dir.path(), "60ms").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    nobody_is_left(dir.path());
    let found = json(dir.path().join("out/baseline.json"));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), found);
    let mut files: Vec<_> = fs::read_dir(dir.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort_unstable();
    assert_eq!(files, ["baseline.json", "baseline.md"], "the files of the loads are gone");
    holds_together(&found);
    let page = fs::read_to_string(dir.path().join("out/baseline.md")).unwrap();
    for words in ["ceiling", "reads/s", "placement", "| stamps |"] {
        assert!(page.contains(words), "no {words} in {page}");
    }
    assert!(said.contains("ceiling") && said.contains("placement"), "{said}");
    let [kept] = &kept(dir.path())[..] else { unreachable!("one baseline is kept") };
    assert_eq!(json(kept), found);
    assert!(kept.to_str().unwrap().contains(found["host"]["key"].as_str().unwrap()));
    runs_find_it(dir.path(), kept, &found);
}

/// Every rung is whole, and its counts agree with each other.
fn holds_together(found: &Value) {
    assert_eq!(found["schema"], "tokclock.baseline/1");
    assert_eq!(found["complete"], true);
    let ladder = found["ladder"].as_array().unwrap();
    let of = |kind: &str| ladder.iter().filter(|rung| rung["kind"] == kind).collect::<Vec<_>>();
    let streams: Vec<_> =
        of("streams").iter().map(|rung| (rung["streams"].as_u64(), &rung["stamps"])).collect();
    let (kernel, observed) = (&Value::from("kernel"), &Value::from("observed"));
    assert_eq!(
        streams,
        [(Some(1), kernel), (Some(1), observed), (Some(4), kernel), (Some(4), observed)]
    );
    assert!(!of("rate").is_empty() && !of("chunks").is_empty() && !of("requests").is_empty());
    for rung in ladder {
        let count = |name: &str| rung[name]["count"].as_u64().unwrap();
        let (requests, ok) = (rung["requests"].as_u64().unwrap(), rung["ok"].as_u64().unwrap());
        let tokens = rung["output_tokens"].as_u64().unwrap();
        assert!(requests > 0, "{rung}");
        assert_eq!(requests + rung["unmatched"].as_u64().unwrap(), ok, "{rung}");
        assert_eq!(rung["failed"], 0, "{rung}");
        assert_eq!(count("gap_error"), requests * tokens.saturating_sub(2), "{rung}");
        assert_eq!(count("last_gap_error"), requests * u64::from(tokens > 1), "{rung}");
        assert!(count("ttft_error") <= requests && count("send_error") <= requests, "{rung}");
        assert!(count("lag") == 0 || rung["stamps"] == "kernel", "{rung}");
        for share in ["busy_share", "coalesced_share", "unstamped_share"] {
            assert!((0.0..=1.0).contains(&rung[share].as_f64().unwrap()), "{share} of {rung}");
        }
        for rate in ["chunk_rate", "reads_per_s", "requests_per_s", "cpu_ns_per_chunk"] {
            assert!(rung[rate].as_f64().unwrap() > 0.0, "{rate} of {rung}");
        }
        let is_flood = rung["kind"] == "chunks" || rung["kind"] == "requests";
        assert_eq!(rung["asked_chunk_rate"].is_null(), is_flood, "{rung}");
        assert_eq!(rung["kept_up"].is_null(), is_flood, "{rung}");
    }
    let ceiling = &found["ceiling"];
    for (figure, limit) in
        [("reads_per_s", "reads"), ("chunks_per_s", "chunks"), ("requests_per_s", "requests")]
    {
        assert!(ceiling["limited_by"][limit].is_string(), "{ceiling}");
        assert!(ceiling[figure].is_null() || ceiling[figure].as_f64() > Some(0.0), "{ceiling}");
    }
    assert_eq!(ceiling["chunks_runs"].as_array().unwrap().len(), 1);
    assert_eq!(ceiling["chunks_runs"][0], ceiling["chunks_per_s"]);
    let placement = &found["placement"];
    let is_shared =
        placement["simulator_cpus"].as_array().unwrap().contains(&placement["reactor_cpu"]);
    assert_eq!(placement["is_shared"], is_shared);
    assert!(found["memory_bytes_per_stream"].is_null(), "four streams do not show");
}

fn runs_find_it(dir: &Path, kept: &Path, found: &Value) {
    let sim = Sim::start(settings());
    let url = format!("http://{}", sim.address());
    let (output, summary) = run(dir, &url, &[]);
    let ceiling = &summary["client"]["ceiling"];
    assert_eq!(ceiling["taken_realtime_ns"], found["taken_realtime_ns"], "{summary}");
    assert_eq!(ceiling["reads_per_s"], found["ceiling"]["reads_per_s"]);
    assert!(text(&output.stdout).contains("baseline "), "{}", text(&output.stdout));

    let mut low = found.clone();
    low["ceiling"]["reads_per_s"] = 1.0.into();
    fs::write(dir.join("low.json"), low.to_string()).unwrap();
    let (output, summary) = run(dir, &url, &["--baseline", "low.json"]);
    assert_eq!(output.status.code(), Some(0));
    let client = &summary["client"];
    assert_eq!(client["verdict"], "suspect");
    let reasons = client["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|reason| reason["kind"] == "beyond_ceiling"), "{client}");
    let reactor = &client["reactors"][0];
    assert_eq!(reactor["ceiling_share"], reactor["reads_per_s"]);

    let (_, summary) = run(dir, &url, &["--baseline", "none"]);
    assert!(summary["client"]["ceiling"].is_null());
    let output = tokclock(dir, &["run", &url, "--baseline", "no.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--baseline no.json"));

    fs::write(kept, "{").unwrap();
    let (output, summary) = run(dir, &url, &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(summary["client"]["ceiling"].is_null());
    let said = text(&output.stderr);
    assert_eq!(said.matches("counts as none").count(), 1, "{said}");
    let _ = sim.stop();
}

/// Starts a baseline and waits until it is at its third load.
fn at_the_third_load(dir: &Path) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = baseline(dir, "500ms").spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("4 streams") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
    }
    (child, said)
}

fn signal(child: &Child, signal: i32) {
    let number = i32::try_from(child.id()).unwrap();
    // SAFETY: a plain system call on a child that was not waited for yet.
    unsafe { libc::kill(number, signal) };
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_nobody_uses_it() {
    let dir = TempDir::new().unwrap();
    let (child, mut said) = at_the_third_load(dir.path());
    signal(&child, libc::SIGINT);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest}");
    nobody_is_left(dir.path());
    let found = json(dir.path().join("out/baseline.json"));
    assert_eq!(found["complete"], false);
    let ladder = found["ladder"].as_array().unwrap();
    assert_eq!(ladder.len(), 2, "the load that was interrupted is none");
    assert!(found["ceiling"]["reads_per_s"].is_null());
    assert!(rest.contains("incomplete"), "{rest}");
    assert_eq!(kept(dir.path()), Vec::<PathBuf>::new());
    let loads = fs::read_dir(dir.path().join("out")).unwrap().count();
    assert_eq!(loads, 2, "baseline.json and baseline.md");
}

#[test]
fn the_simulator_goes_with_whoever_started_it() {
    let dir = TempDir::new().unwrap();
    let (mut child, _said) = at_the_third_load(dir.path());
    assert!(anyone_at(dir.path()));
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    nobody_is_left(dir.path());
}

#[test]
fn what_makes_no_sense_is_said_and_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    for options in [&["--streams", "0"][..], &["--duration", "0s"], &["--gap-bound", "0s"]] {
        let output =
            tokclock(dir.path(), &["baseline", "--out", "out"]).args(options).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(options[0]), "{said}");
    }
    assert!(!dir.path().join("out").exists());
}
