//! GPUs beside a load, as a person asks for them: an exporter that tells, and those that do not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::clock::monotonic_ns;
use tokclock_tests::command::{Tool, exits_with, json, stderr};
use tokclock_tests::{Sim, odd_server, read_request, settings};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// Power of each GPU of the exporter, W.
const WATTS: u64 = 400;
/// More connections than any test makes.
const MANY: usize = 10_000;

/// A page of an exporter with two GPUs, one of which tells less.
fn page() -> String {
    let millijoules = monotonic_ns() / 1_000_000 * WATTS;
    let figures = [
        ("DEV_GPU_UTIL", "87", "12"),
        ("DEV_POWER_USAGE", "400", "400"),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", &millijoules.to_string(), "9223372036854775794"),
        ("DEV_FB_USED", "40960", "1024"),
        ("DEV_FB_FREE", "40960", "80896"),
        ("PROF_PIPE_TENSOR_ACTIVE", "0.31", "9223372036854775794"),
        ("DEV_CLOCKS_EVENT_REASONS", "4", "1"),
    ];
    let mut page = String::new();
    for (name, first, second) in figures {
        writeln!(page, "# TYPE DCGM_FI_{name} gauge").unwrap();
        for (number, value) in [first, second].into_iter().enumerate() {
            let labels = format!(
                "gpu=\"{number}\",UUID=\"GPU-{number}\",modelName=\"NVIDIA <H100>\",Hostname=\"node\""
            );
            writeln!(page, "DCGM_FI_{name}{{{labels}}} {value}").unwrap();
        }
    }
    page
}

fn answer(stream: &mut TcpStream, body: &str) {
    let _ = read_request(stream);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all((head + body).as_bytes());
}

/// An exporter that tells at the first look, and then does this.
fn exporter(later: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let looks = AtomicU64::new(0);
    let serve = move |mut stream: TcpStream| {
        if looks.fetch_add(1, Relaxed) == 0 {
            answer(&mut stream, &page());
        } else {
            later(&mut stream);
        }
    };
    odd_server(MANY, serve).0
}

/// A short load, and what else is asked for.
fn run(sim: &Sim, dir: &Path, more: &[&str]) -> Output {
    let line = format!(
        "run http://{} --requests 60 --concurrency 2 --isl 8 --osl 4 --seed 3 --gpu-interval 20ms --out result",
        sim.address()
    );
    TOOL.run(dir, &line, more)
}

/// Lines of stderr about GPUs.
fn lines(output: &Output) -> Vec<String> {
    let about = |line: &&str| ["dcgm", "gpu"].iter().any(|word| line.to_lowercase().contains(word));
    stderr(output).lines().filter(about).map(str::to_owned).collect()
}

#[test]
fn what_an_exporter_tells_is_in_every_form_of_the_result() {
    let (dir, sim) = (TempDir::new().unwrap(), Sim::start(settings()));
    let url = format!("http://{}", exporter(|stream| answer(stream, &page())));
    let output = run(&sim, dir.path(), &["--gpu", "none", "--dcgm", &url]);
    exits_with(&output, 0);
    assert!(lines(&output).is_empty(), "{}", stderr(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("2 (NVIDIA <H100>)") && said.contains("sw_power_cap 100"), "{said}");

    let result = dir.path().join("result");
    let summary: Value = json(&result.join("summary.json"));
    let gpus = &summary["gpus"];
    assert_eq!((&gpus["count"], &gpus["interval_ns"]), (&2.into(), &20_000_000.into()));
    let [first, second] = [&gpus["devices"][0], &gpus["devices"][1]];
    assert_eq!((&first["energy_by"], &second["energy_by"]), (&"counter".into(), &"power".into()));
    assert_eq!(first["memory_total_bytes"], 85_899_345_920.0);
    assert_eq!((&first["throttled_share"], &second["throttled_share"]), (&1.0.into(), &0.0.into()));
    assert_eq!((&second["tensor_active"], &first["host"]), (&Value::Null, &"node".into()));
    assert!(first["samples"].as_u64().unwrap() > 0, "{first}");
    assert!(first["energy_j"].as_f64().unwrap() > 0.0, "{first}");
    assert!((second["mean_power_w"].as_f64().unwrap() - 400.0).abs() < 1e-6, "{second}");
    let watts = gpus["mean_power_w"].as_f64().unwrap();
    let per_joule = gpus["output_tokens_per_joule"].as_f64().unwrap();
    let tps = summary["rate"]["output_tps"].as_f64().unwrap();
    assert!((per_joule - tps / watts).abs() < 1e-9 * per_joule);

    let page = std::fs::read_to_string(result.join("report.html")).unwrap();
    assert!(page.contains("GPU utilisation") && page.contains("gpu-power"));
    assert!(!page.contains("<H100>"), "labels are escaped");
    let report = TOOL.run(dir.path(), "report result --format md --out -", &[]);
    assert!(String::from_utf8_lossy(&report.stdout).contains("- **energy** "));

    // A run that was killed has no summary: its GPUs are known all the same.
    std::fs::remove_file(result.join("summary.json")).unwrap();
    exits_with(&TOOL.run(dir.path(), "report result", &[]), 0);
    let rebuilt: Value = json(&result.join("summary.json"));
    let again = &rebuilt["gpus"]["devices"];
    assert_eq!(again.as_array().unwrap().len(), 2);
    assert_eq!((&again[0]["energy_by"], &again[0]["uuid"]), (&"counter".into(), &"GPU-0".into()));
    let _ = sim.stop();
}

#[test]
fn an_exporter_that_hangs_dies_or_talks_nonsense_costs_one_line_and_nothing_else() {
    let sim = Sim::start(settings());
    let closed = {
        let (address, thread) = odd_server(1, |_| {});
        let _ = TcpStream::connect(address);
        thread.join().unwrap();
        address
    };
    let silent = |_: &mut TcpStream| std::thread::sleep(Duration::from_secs(5));
    let cases = [
        ("hangs later", exporter(silent), "looks brought nothing"),
        ("hangs at once", odd_server(MANY, move |mut stream| silent(&mut stream)).0, "within 2 s"),
        ("dies later", exporter(|_| {}), "looks brought nothing"),
        ("is not there", closed, "refused"),
        ("garbage later", exporter(|stream| answer(stream, "\0{{}} = \"")), "tells of no GPU"),
        (
            "no HTTP",
            odd_server(MANY, |mut stream| drop(stream.write_all(b"\0\x01SSH"))).0,
            "--dcgm",
        ),
    ];
    std::thread::scope(|scope| {
        for (case, address, words) in cases {
            let sim = &sim;
            scope.spawn(move || {
                let dir = TempDir::new().unwrap();
                let url = format!("http://{address}/metrics");
                let more = ["--gpu", "none", "--no-report", "--dcgm", &url];
                let output = run(sim, dir.path(), &more);
                exits_with(&output, 0);
                let lines = lines(&output);
                assert_eq!(lines.len(), 1, "{case}: {lines:?}");
                assert!(lines[0].contains(words), "{case}: {lines:?}");
            });
        }
    });
    let _ = sim.stop();
}

#[test]
fn gpus_that_are_not_there_cost_a_line_where_they_were_named() {
    let (dir, sim) = (TempDir::new().unwrap(), Sim::start(settings()));
    let output = run(&sim, dir.path(), &["--no-report", "--gpu", "4000"]);
    exits_with(&output, 0);
    assert_eq!(lines(&output).len(), 1, "{}", stderr(&output));
    assert!(json::<Value>(&dir.path().join("result/summary.json"))["gpus"].is_null());
    assert!(!dir.path().join("result/gpus.csv").exists());
    let output = TOOL.run(dir.path(), "run --gpu all --out other", &[]);
    exits_with(&output, 2);
    let _ = sim.stop();
}
