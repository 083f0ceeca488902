//! `tokclock compare`: runs and sweeps against the simulator, and files of other tools.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokclock_tests::command::{Tool, alone, exits_with, json as read, names, one_clear_line};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// Sixty small requests.
const SMALL: &str = "-c 8 -n 60 --isl 16 --osl 6 --warmup 0 --seed 5 -q";

fn compare(dir: &Path, line: &str, more: &[&str]) -> Output {
    TOOL.run(dir, &format!("compare {line}"), more)
}

/// The JSON that a comparison prints.
fn printed(dir: &Path, line: &str, more: &[&str]) -> Value {
    let output = compare(dir, &format!("{line} --json"), more);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One figure of the only pair.
fn figure<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let figures =
        comparison.pointer("/pairs/0/groups/0/figures").and_then(Value::as_array).unwrap();
    figures.iter().find(|one| one["figure"] == name).unwrap_or(&Value::Null)
}

/// Runs a load into `out` against a server with this TTFT.
fn load(dir: &Path, ttft: &str, out: &str, command: &str) {
    let sim = TOOL.sim(dir, &format!("--port 0 --ttft {ttft} --itl 1ms"));
    let output = TOOL.run(dir, &format!("{command} {} --out {out}", sim.url()), &[]);
    exits_with(&output, 0);
    let _ = sim.stop();
}

#[test]
fn runs_are_compared_and_a_slower_server_trips_a_gate() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    for (ttft, out) in [("20ms", "a"), ("20ms", "same"), ("60ms", "slow")] {
        load(dir, ttft, out, &format!("run {SMALL}"));
    }
    let output = compare(dir, "a same", &["--fail-on", "p50(ttft)>+60%"]);
    exits_with(&output, 0);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.starts_with("verdict") && page.contains("p95(ttft)"), "{page}");
    assert!(page.contains("the same was asked for"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");

    let gates = ["--fail-on", "p50(ttft)>+60%", "--fail-on", "error_rate>+50%", "--out", "out"];
    let output = compare(dir, "a slow", &gates);
    exits_with(&output, 3);
    assert_eq!(names(&dir.join("out")), ["compare.json", "compare.md", "compare.xml"]);
    let whole: Value = read(&dir.join("out/compare.json"));
    assert_eq!(whole["schema"], "tokclock.compare/1");
    assert_eq!(whole["tripped"], true);
    let tripped: Vec<&Value> =
        whole["gates"].as_array().unwrap().iter().map(|gate| &gate["tripped"]).collect();
    assert_eq!(tripped, ["yes", "no"]);
    let ttft = figure(&whole, "p50(ttft)");
    assert_eq!(ttft["verdict"], "worse", "{ttft}");
    let change = ttft["change"].as_f64().unwrap();
    assert!((0.6..3.5).contains(&change), "{ttft}");
    let [low, high] = [0, 1].map(|end| ttft["interval"][end].as_f64().unwrap());
    assert!(low <= change && change <= high, "{ttft}");
    let markdown = std::fs::read_to_string(dir.join("out/compare.md")).unwrap();
    assert!(markdown.contains("| p50(ttft) |"), "{markdown}");
    let xml = std::fs::read_to_string(dir.join("out/compare.xml")).unwrap();
    assert!(xml.contains("tests=\"2\"") && xml.contains("failures=\"1\""), "{xml}");

    assert_eq!(printed(dir, "a slow", &[]), printed(dir, "a slow", &[]), "the same each time");
    let several = printed(dir, "a,same slow,slow", &[]);
    assert_eq!(several["pairs"][0]["unit"], "runs");
    let mixed = printed(dir, "a a,same", &[]);
    assert_eq!(mixed["pairs"][0]["unit"], "requests");
    assert_eq!(figure(&several, "rps")["basis"], "runs");
}

#[test]
fn sweeps_are_compared_level_by_level() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    for (users, out) in [("1,2", "a"), ("2,4", "b")] {
        let line = format!("sweep -c {users} -n 24 --isl 16 --osl 4 --warmup 0 --seed 5 -q");
        load(dir, "5ms", out, &line);
    }
    let whole = printed(dir, "a b", &["--metric", "ttft"]);
    let pair = &whole["pairs"][0];
    let groups = pair["groups"].as_array().unwrap();
    assert_eq!((groups.len(), &groups[0]["value"]), (1, &json!(2.0)));
    assert_eq!(pair["curves"]["unmatched"], json!([[1.0], [4.0]]));
    let output = compare(dir, "a a/levels/01", &[]);
    one_clear_line(&output, 2, &["A is a sweep and B is a run"]);
}

/// 40 requests of 5 tokens each, the first after `ttft` ms and then one every 10 ms.
fn vllm(ttft: f64, is_detailed: bool) -> Value {
    let noise = |at: usize| (at * 7 % 11) as f64 * 1e-4;
    let ttfts: Vec<f64> = (0..40).map(|at| ttft / 1e3 + noise(at)).collect();
    let mut whole = json!({
        "backend": "openai-chat", "model_id": "m|<b>", "num_prompts": 41, "request_rate": "inf",
        "max_concurrency": 4, "duration": 10.0, "completed": 40, "failed": 1,
        "request_throughput": 4.0, "output_throughput": 20.0,
        "mean_ttft_ms": ttft, "median_ttft_ms": ttft + 0.5, "p99_ttft_ms": ttft + 1.0,
        "mean_tpot_ms": 10.0, "median_client_queue_time_ms": 1.0, "median_itl_ms": 10.0, "p99_e2el_ms": ttft + 41.0
    });
    if is_detailed {
        let detail = json!({
            "ttfts": ttfts, "itls": vec![vec![0.01; 4]; 40], "output_lens": vec![5; 40],
            "errors": vec![""; 40],
            "start_times": (0..40).map(|at| 100.0 + f64::from(at) * 0.25).collect::<Vec<f64>>()
        });
        whole.as_object_mut().unwrap().extend(detail.as_object().unwrap().clone());
    }
    whole
}

fn write(path: &Path, value: &Value) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, value.to_string()).unwrap();
}

/// The value of a figure for both sides, ns.
fn values(whole: &Value, name: &str) -> [f64; 2] {
    ["base", "other"].map(|side| figure(whole, name)[side].as_f64().unwrap())
}

#[test]
fn files_of_vllm_are_read_with_and_without_detail() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write(&dir.join("a.json"), &vllm(50.0, true));
    write(&dir.join("b.json"), &vllm(80.0, true));
    write(&dir.join("short.json"), &vllm(50.0, false));
    let whole = printed(dir, "a.json b.json", &[]);
    assert_eq!(values(&whole, "p50(ttft)"), [50_500_000.0, 80_500_000.0]);
    assert_eq!(values(&whole, "p50(tpot)"), [10_000_000.0; 2]);
    assert_eq!(values(&whole, "p99(icl)"), [10_000_000.0; 2]);
    assert_eq!(values(&whole, "p50(e2e)"), [90_500_000.0, 120_500_000.0]);
    assert_eq!(figure(&whole, "p50(ttft)")["verdict"], "worse");
    assert_eq!(figure(&whole, "p50(itl)"), &Value::Null, "vLLM's itl is our icl");
    let missing = whole["pairs"][0]["not_compared"].to_string();
    assert!(missing.contains("itl: neither") && missing.contains("ttst: neither"), "{missing}");
    assert!((values(&whole, "error_rate")[0] - 1.0 / 41.0).abs() < 1e-12);
    assert_eq!(whole["sides"][0]["left_out"], json!(["client_queue_time"]));
    let whole = printed(dir, "a.json short.json", &[]);
    assert_eq!(values(&whole, "p50(ttft)"), [50_500_000.0; 2]);
    assert_eq!(figure(&whole, "p50(ttft)")["verdict"], "no_interval");
    let output = compare(dir, "a.json short.json --md", &["--fail-on", "mean(ttft)<+50%"]);
    exits_with(&output, 3);
    let markdown = String::from_utf8(output.stdout).unwrap();
    assert!(markdown.contains("the estimate decides"), "{markdown}");
}

#[test]
fn results_of_aiperf_are_read_from_records_and_from_the_summary() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let figures =
        |value: f64| json!({"unit": "ms", "avg": value, "p50": value, "p95": value, "p99": value});
    let summary = json!({
        "schema_version": "1.4", "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": 4.0},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 20.0},
        "request_count": {"unit": "requests", "avg": 39.0},
        "error_request_count": {"unit": "requests", "avg": 1.0},
        "time_to_first_token": figures(60.0), "request_latency": figures(100.0),
        "inter_token_latency": figures(10.0), "inter_chunk_latency": figures(9.0),
        "input_config": {"phases": []}
    });
    write(&dir.join("sum/profile_export_aiperf.json"), &summary);
    write(&dir.join("rec/profile_export_aiperf.json"), &summary);
    let ms = |value: f64| json!({"value": value, "unit": "ms"});
    let line = |at: u64| {
        let phase = if at == 0 { "warmup" } else { "profiling" };
        let mut record = json!({
            "metadata": {"benchmark_phase": phase, "request_start_ns": 1_795_960_495_000_000_000_u64 + at * 250_000_000},
            "metrics": {
                "time_to_first_token": ms(61.0), "request_latency": ms(101.0),
                "inter_token_latency": ms(10.0), "output_sequence_length": {"value": 5, "unit": "tokens"},
                "inter_chunk_latency": {"value": [10.0, 10.0, 10.0, 10.0], "unit": "ms"}
            }
        });
        if at == 7 {
            record["error"] = json!({"code": 500});
        }
        record.to_string() + "\n"
    };
    let lines: String = (0..41).map(line).collect();
    std::fs::write(dir.join("rec/profile_export.jsonl"), lines).unwrap();
    let whole = printed(dir, "sum rec", &[]);
    assert_eq!(values(&whole, "p50(ttft)"), [60_000_000.0, 61_000_000.0]);
    assert_eq!(values(&whole, "p95(tpot)"), [10_000_000.0; 2]);
    assert_eq!(values(&whole, "p50(icl)"), [9_000_000.0, 10_000_000.0]);
    assert_eq!(values(&whole, "error_rate"), [0.025, 0.025]);
    assert_eq!(whole["sides"][1]["tool"], "AIPerf 0.13.0");
    std::fs::write(dir.join("rec/profile_export.jsonl"), "{\"metadata\":{}}\n").unwrap();
    one_clear_line(&compare(dir, "sum rec", &[]), 1, &["line 1", "metrics"]);
}

#[test]
fn reports_of_guidellm_are_read() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let of = |mean: f64| {
        let percentiles = json!({"p50": mean, "p95": mean * 2.0});
        json!({"successful": {"mean": mean, "percentiles": percentiles, "count": 9}, "total": {"mean": 1.0}})
    };
    let benchmark = json!({"metrics": {
        "request_totals": {"successful": 9, "errored": 1, "incomplete": 0, "total": 10},
        "requests_per_second": of(3.0), "output_tokens_per_second": of(30.0),
        "time_to_first_token_ms": of(70.0), "time_per_output_token_ms": of(14.0),
        "inter_token_latency_ms": of(8.0), "request_latency": of(0.5)
    }});
    let report = json!({"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": [benchmark]});
    write(&dir.join("g.json"), &report);
    let whole = printed(dir, "g.json g.json --metric ttft,tpot,ntpot,e2e", &[]);
    assert_eq!(values(&whole, "p95(ttft)")[0], 140_000_000.0);
    assert_eq!(values(&whole, "p50(tpot)")[0], 8_000_000.0, "its inter-token latency");
    assert_eq!(values(&whole, "p50(ntpot)")[0], 14_000_000.0, "its time per output token");
    assert_eq!(values(&whole, "mean(e2e)")[0], 500_000_000.0, "seconds");
    assert_eq!(values(&whole, "error_rate")[0], 0.1);
    let two = json!({"benchmarks": [benchmark, benchmark]});
    write(&dir.join("two.json"), &two);
    one_clear_line(&compare(dir, "g.json two.json", &[]), 1, &["two.json", "2 benchmarks"]);
}

#[test]
fn what_cannot_be_compared_is_said_in_one_line() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write(&dir.join("a.json"), &vllm(50.0, true));
    let mut bad = vllm(50.0, false);
    bad["p99_ttft_ms"] = json!("slow");
    write(&dir.join("bad.json"), &bad);
    write(&dir.join("other.json"), &json!({"a": 1}));
    std::fs::write(dir.join("no.json"), "{\"a\": ").unwrap();
    std::fs::write(dir.join("two.json"), "{}\n{}\n").unwrap();
    std::fs::create_dir(dir.join("empty")).unwrap();
    for (line, code, words) in [
        ("a.json gone.json", 1, ["gone.json", "No such file"]),
        ("a.json other.json", 2, ["other.json", "no result of"]),
        ("a.json bad.json", 1, ["bad.json", "p99_ttft_ms is no number"]),
        ("a.json no.json", 1, ["no.json", "no JSON"]),
        ("a.json two.json", 1, ["two.json", "more than one result"]),
        ("a.json empty", 2, ["empty", "summary.json"]),
        ("a.json a.json --fail-on p95(itl)>5%", 1, ["p95(itl)", "cannot be compared"]),
    ] {
        one_clear_line(&compare(dir, line, &[]), code, &words);
    }
    for line in ["a.json", "a.json a.json --fail-on p95(tftt)>5%", "a.json a.json --level 300%"] {
        exits_with(&compare(dir, line, &[]), 2);
    }
}
