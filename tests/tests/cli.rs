//! The command as a person uses it: options in, files, text and exit codes out.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_sim::{Law, Settings};
use tokclock_tests::{MS, Sim, odd_server, read_request, rows, settings, short_answer};

fn tokclock(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokclock-under-test"));
    command.current_dir(dir).env("XDG_STATE_HOME", dir).stdin(Stdio::null());
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"] {
        command.env_remove(name);
    }
    command
}

/// Runs `tokclock run URL` with results in `dir/out`.
fn run(dir: &Path, url: &str, options: &[&str]) -> Output {
    tokclock(dir).args(["run", url, "--out", "out"]).args(options).output().unwrap()
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn summary(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("out/summary.json")).unwrap()).unwrap()
}

/// What went wrong is said in one line, on stderr, without a word of Rust.
fn one_clear_line(output: &Output, expected: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(code(output), expected, "{text}");
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("error")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    for word in words {
        assert!(errors[0].contains(word), "no {word:?} in {text}");
    }
    assert!(!text.contains("panicked") && !text.contains("Os {"), "{text}");
}

/// A port where nobody listens.
fn dead_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_run_leaves_all_its_files_and_the_summary_agrees_with_the_records() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    let output = run(
        dir.path(),
        &url(sim.address()),
        &["--concurrency", "4", "--requests", "40", "--osl", "8", "--json"],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let (report, _) = sim.stop();
    assert_eq!(report.requests, 40);
    let out = dir.path().join("out");
    for file in ["run.toml", "summary.json", "requests.jsonl", "windows.csv", "histograms.hlog"] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let summary = summary(dir.path());
    assert_eq!(printed, summary);
    assert_eq!(summary["schema"], "tokclock.summary/1");
    assert_eq!(summary["requests"]["ok"], 40);
    assert_eq!(summary["tokens"]["output"], 320);
    let mut ttft: Vec<u64> =
        rows(&out).iter().map(|row| row.first_token.unwrap() - row.dispatched.unwrap()).collect();
    ttft.sort_unstable();
    // Nearest rank: the 20th of 40.
    assert_eq!(summary["latency"]["ttft"]["p50"], ttft[19]);
    assert_eq!(summary["latency"]["ttft"]["unit"], "ns");
    let windows = std::fs::read_to_string(out.join("windows.csv")).unwrap();
    let ended: u64 = windows
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(4).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(ended, 40, "{windows}");
}

#[test]
fn a_saved_run_can_be_run_again_and_sends_the_same() {
    let dir = TempDir::new().unwrap();
    let mut bodies = Vec::new();
    let sim = Sim::start(settings());
    let first = run(
        dir.path(),
        &url(sim.address()),
        &["--rate", "200", "--requests", "30", "--osl", "4", "--client-limit", "late=none"],
    );
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    let again = tokclock(dir.path())
        .args(["run", "--config", "out/run.toml", "--out", "again", "-q"])
        .output()
        .unwrap();
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert!(again.stdout.is_empty() && again.stderr.is_empty(), "-q is silent");
    let (_, truth) = sim.stop();
    assert_eq!(truth.len(), 60);
    for half in truth.chunks(30) {
        let mut hashes: Vec<&str> = half.iter().map(|one| one.body_hash.as_str()).collect();
        hashes.sort_unstable();
        bodies.push(hashes);
    }
    assert_eq!(bodies[0], bodies[1]);
}

#[test]
fn two_runs_without_a_seed_send_different_prompts() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    for out in ["a", "b"] {
        let address = url(sim.address());
        let args = ["run", &address, "--requests", "5", "--osl", "2", "--out", out, "-q"];
        assert_eq!(code(&tokclock(dir.path()).args(args).output().unwrap()), 0);
    }
    let (_, truth) = sim.stop();
    let mut hashes: Vec<&str> = truth.iter().map(|one| one.body_hash.as_str()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 10, "a prefix cache must not help by accident");
}

#[test]
fn alone_it_runs_against_the_embedded_simulator() {
    let dir = TempDir::new().unwrap();
    let output =
        tokclock(dir.path()).args(["run", "--requests", "16", "--osl", "4"]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("16 ok") && text.contains("TTFT"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let results: Vec<_> = std::fs::read_dir(dir.path().join("tokclock-results")).unwrap().collect();
    assert_eq!(results.len(), 1);
}

#[test]
fn bad_usage_is_exit_2_and_leaves_nothing_behind() {
    let dir = TempDir::new().unwrap();
    for (options, word) in [
        (&["--rate", "0"][..], "rate"),
        (&["--rate", "1e30"], "rate"),
        (&["--rate", "nan"], "rate"),
        (&["--rate", "-5"], "rate"),
        (&["--concurrency", "0"], "concurrency"),
        (&["--rate", "5", "--concurrency", "5"], "concurrency"),
        (&["--isl", "0"], "isl"),
        (&["--slo", "p95(ttft)"], "slo"),
        (&["--goodput", "speed:5"], "goodput"),
        (&["--reactors", "100000"], "reactors"),
        (&["--sweep", "1,2"], "sweep"),
        (&["--header", "no colon"], "header"),
        (&["--extra-body", "[1]"], "extra-body"),
        (&["--tokenizer", "gpt2"], "tokenizer"),
        (&["--overflow", "drop"], "overflow"),
    ] {
        let output = tokclock(dir.path()).arg("run").args(options).output().unwrap();
        assert_eq!(code(&output), 2, "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{options:?}: {}", stderr(&output));
    }
    assert!(!dir.path().join("tokclock-results").exists());
}

#[test]
fn a_target_that_cannot_be_used_is_exit_1_before_any_load() {
    let dir = TempDir::new().unwrap();
    let output = run(dir.path(), &url(dead_port()), &[]);
    one_clear_line(&output, 1, &["cannot reach", "onnection refused"]);

    let (address, server) = odd_server(1, |mut stream| {
        use std::io::Write;
        let _ = read_request(&mut stream);
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n");
    });
    one_clear_line(&run(dir.path(), &url(address), &[]), 1, &["HTTP"]);
    server.join().unwrap();

    let sim = Sim::start(settings());
    one_clear_line(
        &run(dir.path(), &url(sim.address()), &["--model", "gpt-9"]),
        1,
        &["gpt-9", "sim"],
    );
    one_clear_line(
        &run(dir.path(), "http://no-such-host.invalid", &[]),
        1,
        &["no-such-host.invalid"],
    );
    let _ = sim.stop();
    assert!(!dir.path().join("out").exists(), "nothing is left of a run that never began");
}

#[test]
fn an_output_that_cannot_be_written_is_said_before_any_load() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("out"), "a file").unwrap();
    let output = run(dir.path(), &url(sim.address()), &[]);
    assert_ne!(code(&output), 0);
    assert!(stderr(&output).contains("out"), "{}", stderr(&output));
    std::fs::remove_file(dir.path().join("out")).unwrap();
    std::fs::create_dir(dir.path().join("out")).unwrap();
    std::fs::write(dir.path().join("out/precious"), "x").unwrap();
    one_clear_line(&run(dir.path(), &url(sim.address()), &[]), 2, &["not empty"]);
    assert_eq!(sim.stop().0.requests, 0);
}

#[test]
fn failures_end_with_5_and_are_named() {
    /// More than the load and the questions before and after it.
    const CONNECTIONS: usize = 20;
    let (address, server) = odd_server(CONNECTIONS, |mut stream| {
        use std::io::Write;
        if let Some(request) = read_request(&mut stream) {
            let answer = if request.starts_with("GET") {
                let body = r#"{"data":[{"id":"m"}]}"#;
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            } else {
                "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops".to_owned()
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let dir = TempDir::new().unwrap();
    let output =
        run(dir.path(), &url(address), &["--requests", "6", "--concurrency", "1", "--json"]);
    for _ in 0..CONNECTIONS {
        let _ = std::net::TcpStream::connect(address);
    }
    server.join().unwrap();
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    let summary = summary(dir.path());
    assert_eq!(summary["requests"]["failed"], 6);
    assert_eq!(summary["requests"]["errors"]["http_status"], 6);
    assert!(summary["latency"]["ttft"]["p50"].is_null(), "no success, no latency, and no zero");
}

#[test]
fn a_missed_objective_is_exit_3_and_a_kept_one_0() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    for (limit, out, expected) in [("1ms", "missed", 3), ("5s", "kept", 0)] {
        let slo = format!("p95(ttft)<{limit}");
        let address = url(sim.address());
        let args = ["run", &address, "--requests", "40", "--osl", "4", "--slo", &slo, "--out", out];
        let output = tokclock(dir.path()).args(args).output().unwrap();
        assert_eq!(code(&output), expected, "{slo}: {}", stderr(&output));
    }
    let _ = sim.stop();
}

#[test]
fn a_secret_is_in_the_request_and_nowhere_else() {
    /// More than the load and the questions before and after it.
    const CONNECTIONS: usize = 20;
    let (address, server) = odd_server(CONNECTIONS, |mut stream| {
        use std::io::Write;
        while let Some(request) = read_request(&mut stream) {
            let known = request.contains("Authorization: Bearer sk-secret-1");
            let answer = if request.starts_with("GET") {
                let body = r#"{"data":[{"id":"m"}]}"#;
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            } else if known {
                short_answer()
            } else {
                "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".to_owned()
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let dir = TempDir::new().unwrap();
    let output = tokclock(dir.path())
        .env("MY_KEY", "sk-secret-1")
        .args(["run", &url(address), "--out", "out", "--api-key-env", "MY_KEY"])
        .args(["--requests", "3", "--concurrency", "1", "--chunks", "--keep-text"])
        .output()
        .unwrap();
    for _ in 0..CONNECTIONS {
        let _ = std::net::TcpStream::connect(address);
    }
    server.join().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for file in std::fs::read_dir(dir.path().join("out")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("sk-secret-1"));
    }
    assert!(!stderr(&output).contains("sk-secret-1"));
    let rows = rows(&dir.path().join("out"));
    assert_eq!(rows[0].text.as_deref(), Some("Alpha beta gamma"));
    assert_eq!(rows[0].chunks.as_ref().unwrap().len(), 3);
}

/// Starts a long run and lets it get some way.
#[expect(clippy::zombie_processes, reason = "the caller waits; a test that fails ends its process")]
fn long_run(dir: &Path, address: SocketAddr) -> Child {
    let child = tokclock(dir)
        .args(["run", &url(address), "--out", "out", "--duration", "60s", "--osl", "4"])
        .args(["--concurrency", "4"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..200 {
        let some = std::fs::read_to_string(dir.join("out/requests.jsonl"));
        if some.is_ok_and(|text| text.lines().count() >= 8) {
            return child;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the run did not get anywhere");
}

fn signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a plain system call on a child of ours.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn an_interrupted_run_ends_with_130_and_whole_results() {
    for which in [libc::SIGINT, libc::SIGTERM] {
        let sim = Sim::start(settings());
        let dir = TempDir::new().unwrap();
        let child = long_run(dir.path(), sim.address());
        signal(&child, which);
        let output = child.wait_with_output().unwrap();
        let _ = sim.stop();
        assert_eq!(code(&output), 130, "{}", stderr(&output));
        let summary = summary(dir.path());
        assert_eq!(summary["run"]["interrupted"], true);
        let ok = summary["requests"]["ok"].as_u64().unwrap();
        assert_eq!(ok, rows(&dir.path().join("out")).len() as u64);
    }
}

#[test]
fn a_second_interrupt_cuts_what_is_in_flight_and_still_writes() {
    /// More than the load and the questions before and after it.
    const CONNECTIONS: usize = 20;
    // The first requests are answered; those after them wait for good.
    let asked = AtomicUsize::new(0);
    let (address, server) = odd_server(CONNECTIONS, move |mut stream| {
        use std::io::Write;
        while let Some(request) = read_request(&mut stream) {
            if request.starts_with("GET") {
                let body = r#"{"data":[{"id":"m"}]}"#;
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + body).as_bytes());
            } else if asked.fetch_add(1, Ordering::SeqCst) < 12 {
                let _ = stream.write_all(short_answer().as_bytes());
            }
        }
    });
    let dir = TempDir::new().unwrap();
    let child = long_run(dir.path(), address);
    signal(&child, libc::SIGINT);
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, libc::SIGTERM);
    let output = child.wait_with_output().unwrap();
    for _ in 0..CONNECTIONS {
        let _ = std::net::TcpStream::connect(address);
    }
    server.join().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    let summary = summary(dir.path());
    assert_eq!(summary["requests"]["ok"], 12);
    assert_eq!(summary["requests"]["cancelled"], 4, "one for each user");
    assert_eq!(summary["requests"]["failed"], 0, "what we end is no failure");
}

#[test]
fn a_killed_run_keeps_what_it_measured() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    let mut child = long_run(dir.path(), sim.address());
    child.kill().unwrap();
    child.wait().unwrap();
    let _ = sim.stop();
    let out = dir.path().join("out");
    assert!(out.join("run.toml").metadata().unwrap().len() > 0, "written at the start");
    assert!(rows(&out).len() >= 8, "every complete line is a row");
}

#[test]
fn a_server_that_never_answers_ends_in_time_with_nothing_completed() {
    let sim = Sim::start(Settings { ttft: Law::Constant(3_600_000 * MS), ..settings() });
    let dir = TempDir::new().unwrap();
    let output = run(
        dir.path(),
        &url(sim.address()),
        &["--concurrency", "3", "--duration", "300ms", "--drain", "100ms", "--json"],
    );
    let _ = sim.stop();
    assert_eq!(code(&output), 5, "nothing completed is never 0");
    let summary = summary(dir.path());
    assert_eq!(summary["requests"]["cancelled"], 3);
    assert_eq!(summary["requests"]["failed"], 0);
}

#[test]
fn too_few_descriptors_are_named_before_the_run() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    let line = format!(
        "ulimit -n 200; exec '{}' run {} --out out --concurrency 500",
        env!("CARGO_BIN_EXE_tokclock-under-test"),
        url(sim.address())
    );
    let output = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
    one_clear_line(&output, 1, &["RLIMIT_NOFILE", "500"]);
    assert_eq!(sim.stop().0.requests, 0);
}

#[test]
fn a_closed_pipe_is_no_crash() {
    let dir = TempDir::new().unwrap();
    let line = format!(
        "'{}' run --help | head -n 1; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_tokclock-under-test")
    );
    let output = Command::new("bash").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}
