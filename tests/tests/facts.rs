//! What pins a result: labels, the workload's hash, the build, the host, what the server tells of itself.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_tests::command::{Tool, alone, exits_with, json, one_clear_line};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
const LOAD: &str = "-c 2 -n 4 --osl 2 --max-error-rate 100% -q";

/// The summary of a short run with these options, in `dir/NAME`.
fn run(dir: &Path, name: &str, options: &[&str]) -> Value {
    let output = TOOL.run(dir, &format!("run {LOAD} --out {name}"), options);
    exits_with(&output, 0);
    json(&dir.join(name).join("summary.json"))
}

#[test]
fn a_result_says_by_what_it_was_made() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0 --ttft 1ms --itl 1ms --model m");
    let labels = ["--label", "gpu=h200", "--label", "hf_token=s3cret"];
    let first = run(dir.path(), "a", &[&labels[..], &[sim.url()]].concat());

    assert_eq!(first["labels"]["gpu"], "h200");
    assert_eq!(first["labels"]["hf_token"], "<redacted>");
    let saved = std::fs::read_to_string(dir.path().join("a/run.toml")).unwrap();
    assert!(saved.contains("gpu = \"h200\"") && !saved.contains("s3cret"), "{saved}");

    let profile = first["run"]["build"]["profile"].as_str().unwrap();
    assert_eq!(profile, if cfg!(debug_assertions) { "debug" } else { "release" });
    let notes = first["notes"].as_array().unwrap();
    let is_told = notes.iter().any(|note| note["kind"] == "debug_build");
    assert_eq!(is_told, profile == "debug");

    let host = &first["host"];
    assert!(host["cpus_online"].as_u64().unwrap() >= 1, "{host}");
    assert!(host["memory_bytes"].as_u64().unwrap() > 1 << 20, "{host}");
    assert_eq!(host["interface"]["loopback"], true, "{host}");
    assert!(host.get("name").is_none(), "no name of this host: {host}");

    let server = &first["target"]["server"];
    assert_eq!(server["kind"], "tokclock-sim");
    assert_eq!(server["version"], first["run"]["version"]);
    assert_eq!((&server["model"]["id"], &server["config"]["model"]), (&"m".into(), &"m".into()));
    assert_eq!(server["headers"]["server"], "tokclock-sim");
    assert!(server["config"].get("truth").is_none(), "{server}");
}

#[test]
fn a_saved_run_is_the_same_workload_and_another_load_is_not() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let hash = |summary: &Value| summary["workload"]["hash"].as_str().unwrap().to_owned();
    let first = run(dir.path(), "a", &["--label", "x=1"]);
    let other = TOOL.sim(dir.path(), "--port 0 --model sim");
    let again = ["--config", "a/run.toml", "--seed", "6", "--name", "b", "--no-server-facts"];
    let second = run(dir.path(), "b", &[&again[..], &[other.url()]].concat());
    assert_eq!(hash(&first), hash(&second));
    assert_eq!(second["labels"]["x"], "1");
    assert_eq!(second["target"]["server"], Value::Null, "nobody was asked");
    std::fs::write(dir.path().join("data.jsonl"), "{\"prompt\":\"one\"}\n").unwrap();
    let third = run(dir.path(), "c", &["--data", "data.jsonl"]);
    std::fs::write(dir.path().join("data.jsonl"), "{\"prompt\":\"two\"}\n").unwrap();
    let fourth = run(dir.path(), "d", &["--data", "data.jsonl"]);
    assert!(hash(&third) != hash(&fourth) && hash(&third) != hash(&first));
}

#[test]
fn a_sweep_asks_once_and_says_it_once() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let line = "sweep -c 1,2 -n 3 --isl 8 --osl 2 --warmup 0 --seed 5 -q --label a=b --out s";
    exits_with(&TOOL.run(dir.path(), line, &[]), 0);
    let about = json::<Value>(&dir.path().join("s/curve.json"))["about"].clone();
    assert_eq!((&about["labels"]["a"], &about["build"]["commit"]), (&"b".into(), &Value::Null));
    assert_eq!(about["target"]["server"]["kind"], "tokclock-sim");
    let hash = |level: &str| {
        let summary: Value = json(&dir.path().join("s/levels").join(level).join("summary.json"));
        summary["workload"]["hash"].as_str().unwrap().to_owned()
    };
    assert_ne!(hash("01"), hash("02"), "another load");
    assert_eq!(about["workload"]["hash"], hash("01"));
}

#[test]
fn bad_labels_are_one_clear_line() {
    let dir = TempDir::new().unwrap();
    for (label, word) in [("gpu", "has no `=`"), ("=5", "a name has"), ("a b=5", "a name has")] {
        let output = TOOL.run(dir.path(), "run -q --label", &[label]);
        one_clear_line(&output, 2, &["--label", word]);
    }
    let twice = TOOL.run(dir.path(), "run -q --label a=1 --label a=2", &[]);
    one_clear_line(&twice, 2, &["`a` is given twice"]);
}
