//! `tokclock data` as a person uses it: files in, text, JSON and exit codes out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokclock_tests::{Sim, settings};

const CHAT: &str = r#"{"messages":[{"role":"system","content":"Answer in one sentence."},{"role":"user","content":"Why is the sky blue?"}],"max_tokens":64}
{"messages":[{"role":"system","content":"Answer in one sentence."},{"role":"user","content":"Why do cats purr?"}],"max_tokens":64}
"#;

fn data(dir: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokclock-under-test"));
    command.current_dir(dir).stdin(Stdio::null()).arg("data").args(options).output().unwrap()
}

fn dir() -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("chat.jsonl"), CHAT).unwrap();
    dir
}

fn ok(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_check_names_every_bad_line_and_nothing_else_on_stdout() {
    let dir = dir();
    let text = format!("{CHAT}{{\"messages\":[]}}\n\n{{\"messages\":\u{1b}\n");
    std::fs::write(dir.path().join("bad.jsonl"), text).unwrap();
    let output = data(dir.path(), &["check", "bad.jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert!(lines[0].starts_with("bad.jsonl:3: ") && lines[1].starts_with("bad.jsonl:5: "));
    assert!(!stdout.contains('\u{1b}'), "{stdout}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("2 entries with 2 requests, 2 bad, read as openai-messages"));
    assert_eq!(ok(&data(dir.path(), &["check", "chat.jsonl", "-q"])), "");
}

#[test]
fn a_preview_shows_what_a_run_then_sends() {
    let dir = dir();
    let said = ["chat.jsonl", "--model", "m", "-n", "2"];
    let shown = ok(&data(dir.path(), &[&["preview", "--body=raw"][..], &said].concat()));
    let bodies: Vec<Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[1]["messages"][1]["content"], "Why do cats purr?");
    assert_eq!((&bodies[0]["model"], &bodies[0]["max_tokens"]), (&"m".into(), &64.into()));
    let page = ok(&data(dir.path(), &[&["preview"][..], &said].concat()));
    assert!(page.contains("user: Why is the sky blue?"), "{page}");
    let pretty = ok(&data(dir.path(), &[&["preview", "--body"][..], &said[..1]].concat()));
    assert!(pretty.contains("\n  \"max_tokens\": 64,\n"), "{pretty}");
}

#[test]
fn figures_are_a_page_or_json() {
    let dir = dir();
    let page = ok(&data(dir.path(), &["stats", "chat.jsonl", "--tokenizer", "o200k_base"]));
    assert!(page.contains("would know 6 of 22 input tokens"), "{page}");
    let page = ok(&data(dir.path(), &["stats", "--isl", "uniform:1,99", "-n", "50"]));
    assert!(page.contains('█'), "{page}");
    let json = ok(&data(dir.path(), &["stats", "--json", "--isl", "9", "--rate", "9", "-n", "99"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "tokclock.data/1");
    assert_eq!((&json["requests"], &json["arrivals"]["count"]), (&99.into(), &99.into()));
    assert_eq!(json["input"]["tokens"]["p50"], 9);
}

#[test]
fn a_converted_load_is_run_again() {
    let dir = dir();
    let line = ["convert", "--isl", "9", "--osl", "3", "-n", "7", "--to", "load.jsonl"];
    assert_eq!(ok(&data(dir.path(), &line)), "");
    let sim = Sim::start(settings());
    let url = format!("http://{}", sim.address());
    let mut run = Command::new(env!("CARGO_BIN_EXE_tokclock-under-test"));
    run.current_dir(dir.path()).env("XDG_STATE_HOME", dir.path()).stdin(Stdio::null());
    let run = run.args(["run", &url, "--data", "load.jsonl", "-c", "1", "--json", "-q"]);
    let summary: Value = serde_json::from_str(&ok(&run.output().unwrap())).unwrap();
    let (report, _) = sim.stop();
    assert_eq!(report.requests, 7);
    assert_eq!(summary["tokens"]["output"], 21);
}

#[test]
fn what_a_run_saved_can_be_looked_at() {
    let dir = dir();
    let saved = "isl = 12\nosl = 3\nseed = 5\nrequests = 40\nurl = \"http://127.0.0.1:9\"\n";
    std::fs::write(dir.path().join("run.toml"), saved).unwrap();
    let json = ok(&data(dir.path(), &["stats", "--json", "--config", "run.toml"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["requests"], &json["seed"]), (&40.into(), &5.into()));
    let page = ok(&data(dir.path(), &["preview", "--config", "run.toml"]));
    assert_eq!(page.matches("item ").count(), 5, "{page}");
}
