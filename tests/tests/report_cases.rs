//! Recorded cases of output: finished requests of a run without a summary, through `tokclock report`,
//! and every format read back.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::measure::{Health, ReasonKind, Summary};
use tokclock_engine::record::{ErrorClass, Outcome, Phase, Row, TokenSource};
use tokclock_tests::MS;
use tokclock_tests::cases::Case;
use tokclock_tests::command::{
    Tool, exits_with, finished, json, names, one_clear_line, stderr, wait_until,
};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));

/// A record of a case as a run would have written it.
fn row(index: u64, record: &Value) -> Row {
    let ms = |value: &Value| value.as_u64().unwrap() * MS;
    let times: Vec<u64> = record["token_times_ms"].as_array().unwrap().iter().map(ms).collect();
    let sent = Some(ms(&record["sent_ms"]));
    let error = match record["error_class"].as_str() {
        Some("timeout") => Some(ErrorClass::TimeoutRequest),
        _ => serde_json::from_value(record["error_class"].clone()).unwrap(),
    };
    let (first, second, last) = (times.first(), times.get(1), times.last());
    Row {
        index,
        request_id: record["id"].as_str().unwrap().to_owned(),
        trace_id: None,
        phase: Phase::Measure,
        class: None,
        session: None,
        turn: None,
        shard: None,
        reactor: 0,
        connection: 0,
        reused: true,
        attempts: 1,
        retries: 0,
        retry_ns: 0,
        wait_cause: None,
        outcome: if error.is_some() { Outcome::Error } else { Outcome::Ok },
        error,
        error_text: record["error_text"].as_str().map(str::to_owned),
        malformed_events: 0,
        status: Some(200),
        finish: Some("stop".to_owned()),
        intended: ms(&record["scheduled_ms"]),
        dispatched: sent,
        connected: None,
        tls_done: None,
        write_start: sent,
        write_done: sent,
        first_byte: first.copied(),
        head_done: first.copied(),
        first_token: first.copied(),
        first_output: first.copied(),
        second_token: second.copied(),
        last_token: last.copied(),
        done: Some(ms(&record["end_ms"])),
        input_tokens: Some(8),
        client_input_tokens: None,
        cached_tokens: None,
        ideal_cached_tokens: None,
        output_tokens: record["tokens_out"].as_u64(),
        output_source: Some(TokenSource::Usage),
        client_output_tokens: None,
        reasoning_tokens: None,
        first_tokens: first.map(|_| 1),
        events: times.len() as u32,
        bytes: 0,
        reads: 0,
        coalesced: 0,
        lag_max: 0,
        chunks: Some(times.into_iter().map(|at| (at, 1)).collect()),
        text: None,
        reasoning_text: None,
        retry_after: None,
        legs: None,
        kv_fallback: None,
        server: None,
    }
}

/// A directory with the finished requests of a case, rendered in every format for tools.
struct Rendered {
    dir: TempDir,
    expected: Value,
    said: String,
}

impl Rendered {
    fn of(id: &str) -> Self {
        let case = Case::named(id);
        let dir = tempfile::tempdir().unwrap();
        let mut lines = String::new();
        for (index, record) in (0..).zip(case.records()) {
            writeln!(lines, "{}", serde_json::to_string(&row(index, &record)).unwrap()).unwrap();
        }
        fs::create_dir(dir.path().join("run")).unwrap();
        fs::write(dir.path().join("run/requests.jsonl"), lines).unwrap();
        let output = TOOL.run(dir.path(), "report run --format csv,md,json,junit,hlog", &[]);
        exits_with(&output, 0);
        Self { dir, expected: case.expected, said: stderr(&output) }
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join("run").join(name)).unwrap()
    }

    fn summary(&self) -> Summary {
        let report: Value = serde_json::from_str(&self.text("report.json")).unwrap();
        serde_json::from_value(report["results"][0]["summary"].clone()).unwrap()
    }

    /// The lines of a table by the names of its columns.
    fn table(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        let text = self.text(name);
        csv::Reader::from_reader(text.as_bytes()).deserialize().map(Result::unwrap).collect()
    }
}

/// What no JSON may hold, and no reader of the others should meet.
fn is_strict(rendered: &Rendered) {
    for name in ["report.json", "summary.json", "report.csv", "report.md", "report.xml"] {
        let text = rendered.text(name);
        for word in ["NaN", "Infinity", "inf,", "-nan"] {
            assert!(!text.contains(word), "{word} in {name}");
        }
    }
}

#[test]
fn o001_what_is_missing_is_null_and_empty_everywhere() {
    let got = Rendered::of("O001");
    is_strict(&got);
    let report: Value = serde_json::from_str(&got.text("report.json")).unwrap();
    assert_eq!(
        (&report["schema"], &report["results"][0]["kind"]),
        (&"tokclock.report/1".into(), &"run".into())
    );
    let latency = &report["results"][0]["summary"]["latency"];
    for metric in ["tpot", "itl"] {
        assert_eq!(latency[metric]["count"], 0);
        assert_eq!(latency[metric]["p50"], got.expected[metric]);
    }
    let line = &got.table("report.csv")[0];
    assert_eq!((line["tpot_count"].as_str(), line["tpot_p50_ns"].as_str()), ("0", ""));
    assert_eq!((line["itl_mean_ns"].as_str(), line["ttft_p50_ns"].as_str()), ("", "101000000"));
    assert!(got.text("report.md").contains("| TPOT | 0 | - | - |"), "{}", got.text("report.md"));
}

#[test]
fn o003_error_texts_come_back_from_a_table_as_they_were() {
    let got = Rendered::of("O003");
    let texts: Vec<Value> =
        got.table("requests.csv").iter().map(|line| line["error_text"].clone().into()).collect();
    assert_eq!(Value::Array(texts), got.expected["error_texts"]);
    // A break of the line breaks neither a table nor a case.
    let page = got.text("report.md");
    assert!(
        page.contains("| `conn_reset` | 4 | `connect failed, retrying: \"timeout\"` |"),
        "{page}"
    );
    assert!(got.text("report.xml").contains("retrying: &quot;timeout&quot;"));
}

#[test]
fn o009_failures_are_on_the_front_of_every_format() {
    let got = Rendered::of("O009");
    let expected = &got.expected["console_and_files_show"];
    let requests = got.summary().requests;
    assert_eq!(requests.ok, expected["completed"].as_u64().unwrap());
    assert_eq!(requests.failed, expected["failed"].as_u64().unwrap());
    let by_class: BTreeMap<String, u64> =
        serde_json::from_value(expected["by_class"].clone()).unwrap();
    assert_eq!(requests.errors, by_class);
    let (page, line) = (got.text("report.md"), &got.table("report.csv")[0]);
    assert!(
        page.lines().nth(2).unwrap().contains("**3 of 8 requests failed** (37.50 %)"),
        "{page}"
    );
    for (class, count) in by_class {
        assert!(page.contains(&format!("| `{class}` | {count} |")), "{page}");
        assert_eq!(line[&format!("{class}_errors")], count.to_string());
    }
    assert_eq!((line["ok_requests"].as_str(), line["failed_requests"].as_str()), ("5", "3"));
    let cases = got.text("report.xml");
    assert!(cases.contains("at most 5 % of the requests fail"), "{cases}");
    assert!(cases.contains("<failure message=\"3 of 8 failed (37.50 %)\""), "{cases}");
}

#[test]
fn o011_empty_seconds_are_there_and_have_no_latency() {
    let got = Rendered::of("O011");
    is_strict(&got);
    let bins = got.table("windows.csv");
    assert_eq!(bins.len() as u64, got.expected["bins"].as_u64().unwrap());
    let ok: Vec<Value> =
        bins.iter().map(|bin| bin["ok_requests"].parse::<u64>().unwrap().into()).collect();
    assert_eq!(Value::Array(ok), got.expected["completed_per_bin"]);
    for bin in [1, 2] {
        assert_eq!(bins[bin]["ttft_mean_ns"], "");
    }
    assert_eq!((bins[0]["unix_time_s"].as_str(), bins[0]["output_tokens"].as_str()), ("", "2"));
    // The log has no interval where nothing ended.
    let log = got.text("report.hlog");
    let starts = |tag: &str| -> Vec<String> {
        let of_tag = log.lines().filter(|line| line.starts_with(&format!("Tag={tag},")));
        of_tag.map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(starts("ttft"), ["0.000", "3.000"]);
}

#[test]
fn m0xx_figures_of_rebuilt_runs_are_those_of_whole_ones() {
    let near = |seen: Option<f64>, ms: f64| (seen.unwrap() / MS as f64 - ms).abs() <= ms / 1000.0;
    let got = Rendered::of("M017");
    let latency = got.summary().latency;
    assert_eq!((latency.itl.count, latency.ttft.max), (2, Some(100 * MS)));
    assert!(near(latency.itl.max.map(|ns| ns as f64), 20.0));
    let got = Rendered::of("M019");
    let (summary, expected) = (got.summary(), &got.expected);
    assert_eq!(summary.requests.failed, expected["failed"].as_u64().unwrap());
    assert_eq!(summary.tokens.output, expected["output_tokens_total"].as_u64().unwrap());
    assert!(near(summary.latency.e2e.mean, expected["e2e_ms_mean"].as_f64().unwrap()));
    let got = Rendered::of("M033");
    let (summary, expected) = (got.summary(), &got.expected);
    assert!(near(summary.latency.tpot.mean, expected["tpot_mean_ms"].as_f64().unwrap()));
    assert!(near(summary.latency.itl.mean, expected["itl_mean_ms"].as_f64().unwrap()));
}

#[test]
fn a_rebuilt_result_says_what_it_is_and_stays() {
    let got = Rendered::of("O009");
    assert!(got.said.contains("rebuilt from 8 finished requests"), "{}", got.said);
    let dir = got.dir.path().join("run");
    let summary: Summary = json(&dir.join("summary.json"));
    assert!(summary.run.interrupted);
    assert_eq!(summary.client.verdict, Health::Suspect, "nobody looked at its client");
    assert_eq!(summary.client.reasons[0].kind, ReasonKind::CutOff);
    assert_eq!(summary.notes[0].kind, ReasonKind::Rebuilt);
    assert!(summary.notes[0].message.contains("no run.toml"));
    assert_eq!(summary, got.summary());
    // What is there now is a result like any other.
    let again = TOOL.run(got.dir.path(), "report run --format md --out -", &[]);
    exits_with(&again, 0);
    assert!(!stderr(&again).contains("rebuilt"), "{}", stderr(&again));
    let page = String::from_utf8(again.stdout).unwrap();
    assert!(page.contains("**interrupted**") && page.contains("client **suspect**"), "{page}");
    // Its times are not of day, so neither are those of files that must have them.
    let peers = TOOL.run(got.dir.path(), "report run --as aiperf,vllm", &[]);
    exits_with(&peers, 0);
    assert!(!names(&dir.join("aiperf")).contains(&"profile_export.jsonl".to_owned()));
    assert!(stderr(&peers).contains("start_time"), "{}", stderr(&peers));
    let theirs: Value = json(&dir.join("aiperf/profile_export_aiperf.json"));
    assert_eq!(
        (&theirs["request_count"]["avg"], &theirs["was_cancelled"]),
        (&5.0.into(), &true.into())
    );
    assert_eq!(theirs["request_error_rate"]["avg"], 37.5);
    let counts = theirs["error_summary"].as_array().unwrap().iter().map(|one| &one["count"]);
    assert_eq!(counts.collect::<Vec<_>>(), [1, 2]);
    let name = names(&dir.join("vllm")).pop().unwrap();
    let theirs: Value = json(&dir.join("vllm").join(name));
    assert_eq!((&theirs["completed"], &theirs["failed"]), (&5.into(), &3.into()));
    assert_eq!(theirs["errors"].as_array().unwrap().len(), 8);
    assert!(theirs.get("date").is_none(), "no value is made up");
}

#[test]
fn o007_a_killed_run_is_rebuilt_with_one_command() {
    let dir = tempfile::tempdir().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0 --ttft 2ms --itl 1ms");
    let users = Case::named("O007").client["concurrency"].to_string();
    let options = ["--out", "out", "--concurrency", &users, "--slo", "p95(ttft)<10s"];
    let run = TOOL.start(
        dir.path(),
        &format!("run {} --isl 8 --osl 4 --duration 60s --seed 7", sim.url()),
        &options,
    );
    let out = dir.path().join("out");
    wait_until("requests to finish", || finished(&out) >= 8);
    run.signal(9);
    let _ = run.end();
    assert_eq!(names(&out), ["requests.jsonl", "run.toml", "servers.csv"]);
    let output = TOOL.run(dir.path(), "report out --format json --out -", &[]);
    exits_with(&output, 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let summary: Summary = serde_json::from_value(report["results"][0]["summary"].clone()).unwrap();
    let rows = finished(&out) as u64;
    let told = summary.requests.ok + summary.requests.failed;
    assert!(told + 1 >= rows, "{told} of {rows}: at most the last line is cut");
    assert_eq!((summary.run.seed, summary.target.url.as_str()), (7, sim.url()));
    assert!(summary.run.interrupted && summary.slo.is_some());
    assert_eq!((summary.latency.itl.count, summary.latency.ttft.count), (0, summary.requests.ok));
    assert!(out.join("summary.json").is_file() && out.join("windows.csv").is_file());
}

#[test]
fn what_cannot_be_rendered_is_said_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::create_dir(dir.path().join("bad")).unwrap();
    fs::write(dir.path().join("bad/requests.jsonl"), "{\"index\": 1}\n{}\n").unwrap();
    fs::create_dir(dir.path().join("odd")).unwrap();
    fs::write(dir.path().join("odd/requests.jsonl"), "").unwrap();
    fs::write(dir.path().join("odd/run.toml"), "concurrency = \"many\"\n").unwrap();
    for (line, code, words) in [
        ("report empty --format md", 2, "no summary.json"),
        ("report nowhere --format md", 2, "nowhere is no directory"),
        ("report bad --format md", 1, "line 1"),
        ("report odd --format md", 1, "run.toml"),
        ("report empty --format md,csv --out -", 2, "one format"),
        ("report empty --as vllm --out -", 2, "--as"),
    ] {
        one_clear_line(&TOOL.run(dir.path(), line, &[]), code, &[words]);
    }
    assert_eq!(TOOL.run(dir.path(), "report empty --format word", &[]).status.code(), Some(2));
    // Without a request there is little to tell, and that is told.
    fs::remove_file(dir.path().join("odd/run.toml")).unwrap();
    let output = TOOL.run(dir.path(), "report odd --format md --out -", &[]);
    exits_with(&output, 0);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("Nothing completed"), "{page}");
}

/// A short run with all that can be kept of its requests.
fn whole(dir: &Path) {
    let sim = TOOL.sim(dir, "--port 0 --ttft 3ms --itl 1ms");
    let line =
        format!("run {} --out out --isl 8 --osl 4 -n 6 -c 2 --chunks --keep-text", sim.url());
    let output = TOOL.run(dir, &line, &["--goodput", "ttft:500 tpot:500", "--warmup", "1"]);
    assert!(output.status.code().is_some_and(|code| [0, 4].contains(&code)), "{}", stderr(&output));
}

/// Fields by their names, with the type that the other tool's reader asks for: `n`umber, `t`ext,
/// `l`ist.
#[track_caller]
fn has(value: &Value, fields: &[(&str, char)]) {
    for (name, kind) in fields {
        let field = &value[*name];
        let fits = match kind {
            'n' => field.is_number(),
            't' => field.is_string(),
            'l' => field.is_array(),
            _ => panic!("no such kind"),
        };
        assert!(fits, "{name} is {field}");
    }
}

#[test]
fn files_of_other_tools_have_the_fields_that_their_readers_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    whole(dir.path());
    exits_with(&TOOL.run(dir.path(), "report out --as aiperf --as vllm", &[]), 0);
    let out = dir.path().join("out");
    assert!(!out.join("report.md").exists(), "only what was asked for");
    let files = [
        "left-out.md",
        "profile_export.jsonl",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
    ];
    assert_eq!(names(&out.join("aiperf")), files);
    aiperf(&out.join("aiperf"));
    let vllm = names(&out.join("vllm"));
    assert_eq!((vllm.len(), vllm[0].as_str()), (2, "left-out.md"));
    assert!(
        vllm[1].starts_with("tokclock-infqps-concurrency2-") && vllm[1].ends_with(".json"),
        "{vllm:?}"
    );
    vllm_file(&json(&out.join("vllm").join(&vllm[1])));
}

fn aiperf(dir: &Path) {
    let document: Value = json(&dir.join("profile_export_aiperf.json"));
    assert_eq!(document["schema_version"], "1.4");
    for tag in
        ["request_latency", "time_to_first_token", "inter_token_latency", "inter_chunk_latency"]
    {
        has(
            &document[tag],
            &[
                ("unit", 't'),
                ("avg", 'n'),
                ("p1", 'n'),
                ("p99", 'n'),
                ("std", 'n'),
                ("count", 'n'),
                ("sum", 'n'),
            ],
        );
    }
    for tag in ["request_throughput", "request_count", "benchmark_duration", "goodput", "total_osl"]
    {
        has(&document[tag], &[("unit", 't'), ("avg", 'n')]);
        assert!(document[tag].get("p50").is_none(), "one value for the run");
    }
    assert_eq!(document["request_count"]["avg"], 6.0, "the warm-up is in no figure");
    has(&document, &[("start_time", 't'), ("end_time", 't'), ("error_summary", 'l')]);
    assert_eq!(document["input_config"]["phases"][0]["concurrency"], 2);
    assert_eq!(document["inter_chunk_latency"]["count"], 6 * 3);
    let lines = fs::read_to_string(dir.join("profile_export.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 6);
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let metadata = [
            ("session_num", 'n'),
            ("request_start_ns", 'n'),
            ("request_end_ns", 'n'),
            ("worker_id", 't'),
            ("record_processor_id", 't'),
            ("benchmark_phase", 't'),
        ];
        has(&line["metadata"], &metadata);
        has(&line["metrics"]["inter_chunk_latency"], &[("value", 'l'), ("unit", 't')]);
        has(&line["metrics"]["time_to_first_token"], &[("value", 'n'), ("unit", 't')]);
        // Their formula, on the same line.
        let value = |tag: &str| line["metrics"][tag]["value"].as_f64().unwrap();
        let itl = (value("request_latency") - value("time_to_first_token"))
            / (value("output_sequence_length") - 1.0);
        assert!((value("inter_token_latency") - itl).abs() < 1e-9);
    }
    let table = fs::read_to_string(dir.join("profile_export_aiperf.csv")).unwrap();
    assert!(table.starts_with("Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std\r\n"));
    assert!(
        table.contains("\r\n\r\nMetric,Value\r\n") && table.contains("\r\nRequest Count,6.00\r\n")
    );
}

fn vllm_file(document: &Value) {
    let numbers = [
        "num_prompts",
        "max_concurrency",
        "duration",
        "completed",
        "failed",
        "total_input_tokens",
        "total_output_tokens",
        "request_throughput",
        "request_goodput",
        "output_throughput",
        "total_token_throughput",
        "max_output_tokens_per_s",
        "max_concurrent_requests",
        "mean_ttft_ms",
        "median_ttft_ms",
        "std_ttft_ms",
        "p99_ttft_ms",
        "mean_tpot_ms",
        "median_itl_ms",
        "p99_e2el_ms",
    ];
    has(document, &numbers.map(|name| (name, 'n')));
    has(
        document,
        &["date", "backend", "endpoint_type", "model_id", "request_rate"].map(|name| (name, 't')),
    );
    let lists = [
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "generated_texts",
        "errors",
    ];
    for name in lists {
        assert_eq!(document[name].as_array().unwrap().len(), 6, "{name}");
    }
    // In theirs, a latency is its TTFT and all gaps after it.
    for at in 0..6 {
        let gaps = document["itls"][at].as_array().unwrap().iter();
        let sum: f64 = gaps.map(|gap| gap.as_f64().unwrap()).sum();
        let whole = document["ttfts"][at].as_f64().unwrap() + sum;
        assert!((document["latencies"][at].as_f64().unwrap() - whole).abs() < 1e-9);
    }
    assert!(document.get("rtfx").is_none(), "no value is made up");
}
