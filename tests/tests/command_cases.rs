//! Recorded cases that need the command itself: URLs, keys, proxies, signals, limits of the host.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::record::Outcome;
use tokclock_sim::{Law, Settings};
use tokclock_tests::cases::{Case, paced};
use tokclock_tests::replay::{End, Log, Manners, Replay, Script};
use tokclock_tests::{STREAM_HEAD, Sim, rows, settings, short_answer, token};

/// Variables that a tool could take for its own.
const VARIABLES: [&str; 7] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "OPENAI_API_KEY",
];

/// `tokclock run URL` with results in `dir/out`.
fn tokclock(dir: &Path, url: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokclock-under-test"));
    command.current_dir(dir).env("XDG_STATE_HOME", dir).stdin(Stdio::null());
    for name in VARIABLES {
        command.env_remove(name);
    }
    // Nothing keeps a test for good.
    command.args(["run", url, "--out", "out", "--timeout", "30s"]).args(options);
    command
}

#[track_caller]
fn exits_with(output: &Output, code: i64) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code().map(i64::from), Some(code), "{said}");
}

fn summary(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("out/summary.json")).unwrap()).unwrap()
}

fn serve(script: Script) -> Replay {
    Replay::start(vec![script], Manners::default())
}

/// A case's URL or header with the port in its place.
fn at_port(text: &Value, address: SocketAddr) -> String {
    text.as_str().unwrap().replace("{P}", &address.port().to_string())
}

/// One request to `url` of the server that replays W033: what the server saw.
fn one_request(
    url: impl Fn(SocketAddr) -> String,
    options: &[&str],
    change: impl FnOnce(&mut Command),
) -> (Log, SocketAddr) {
    let server = Case::named("W033").serve();
    let address = server.address();
    let dir = TempDir::new().unwrap();
    let mut command = tokclock(dir.path(), &url(address), options);
    command.args(["--requests", "1", "-q"]);
    change(&mut command);
    exits_with(&command.output().unwrap(), 0);
    let log = server.stop();
    assert_eq!(log.posts().count(), 1);
    assert_eq!(rows(&dir.path().join("out"))[0].outcome, Outcome::Ok);
    (log, address)
}

#[test]
fn w067_a_base_url_in_any_form_leads_to_the_same_path() {
    let expected = Case::named("W067").expected;
    let cases = expected["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || {
                let (log, _) = one_request(|address| at_port(&case[0], address), &[], |_| {});
                for asked in &log.requests {
                    assert!(!asked.target.contains("//"), "{}", asked.target);
                    assert!(!asked.target.contains("/v1/v1"), "{}", asked.target);
                }
                assert_eq!(log.posts().next().unwrap().target, case[1], "{}", case[0]);
            });
        }
    });
}

#[test]
fn w069_an_ipv6_literal_keeps_its_brackets_in_the_host_header() {
    let expected = Case::named("W069").expected;
    let url = |address: SocketAddr| format!("http://[::ffff:127.0.0.1]:{}/v1", address.port());
    let (log, address) = one_request(url, &[], |_| {});
    let host = at_port(&expected["host_header"], address);
    for asked in &log.requests {
        assert_eq!(asked.header("host"), Some(host.as_str()), "{}", asked.target);
    }
}

#[test]
fn w071_without_a_key_there_is_no_authorization_and_with_one_there_is() {
    let expected = Case::named("W071").expected;
    let url = |address: SocketAddr| format!("http://{address}");
    let (log, _) = one_request(url, &[], |_| {});
    for absent in expected["request_headers_absent"].as_array().unwrap() {
        for asked in &log.requests {
            assert_eq!(asked.header(absent.as_str().unwrap()), None, "{}", asked.target);
        }
    }
    let key = expected["with_key"]["key"].as_str().unwrap();
    let (log, _) = one_request(url, &["--api-key-env", "THE_KEY"], |command| {
        command.env("THE_KEY", key);
    });
    for asked in &log.requests {
        let header = asked.header("authorization");
        assert_eq!(header, expected["with_key"]["authorization"].as_str(), "{}", asked.target);
    }
}

#[test]
fn w079_proxy_variables_do_not_lead_astray() {
    let url = |address: SocketAddr| format!("http://{address}");
    let (log, _) = one_request(url, &[], |command| {
        for name in VARIABLES.iter().filter(|name| name.to_lowercase().ends_with("_proxy")) {
            // Nobody listens there.
            command.env(name, "http://127.0.0.1:9");
        }
    });
    assert_eq!(log.posts().next().unwrap().target, "/v1/chat/completions");
}

#[test]
fn l009_a_server_that_never_finishes_costs_no_more_than_the_drain() {
    let Case { expected, .. } = Case::named("L009");
    let mut hang = Script::at_once(STREAM_HEAD.to_owned() + &token("a"), 50);
    hang.end = End::Hang;
    let server = serve(hang);
    let dir = TempDir::new().unwrap();
    let options = ["--concurrency", "4", "--duration", "1s", "--drain", "1s", "-q"];
    let url = format!("http://{}", server.address());
    let output = tokclock(dir.path(), &url, &options).output().unwrap();
    let _ = server.stop();
    exits_with(&output, expected["exit"].as_i64().unwrap());
    let summary = summary(dir.path());
    let wall = summary["run"]["end_ns"].as_f64().unwrap() / 1e9;
    // Two seconds for a busy machine: a server that hangs takes for ever.
    assert!(wall <= expected["wall_s_max"].as_f64().unwrap() + 2.0, "{wall} s");
    assert_eq!(summary["requests"]["ok"], expected["completed"]);
    assert_eq!(summary["requests"]["failed"], expected["failed"]);
    assert_eq!(summary["requests"]["cancelled"], expected["cancelled"]);
    let rows = rows(&dir.path().join("out"));
    assert!(rows.iter().all(|row| row.first_token.is_some()), "what was measured is kept");
}

/// Waits until the run in `dir` has finished `requests`.
fn wait_for_requests(dir: &Path, requests: usize) {
    for _ in 0..600 {
        let text = std::fs::read_to_string(dir.join("out/requests.jsonl")).unwrap_or_default();
        if text.lines().count() >= requests {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the run did not get anywhere");
}

#[test]
fn l013_an_interrupt_keeps_every_result() {
    let Case { expected, .. } = Case::named("L013");
    let server = serve(paced(10, 20, 20));
    let dir = TempDir::new().unwrap();
    let options = ["--concurrency", "4", "--duration", "60s"];
    let child = tokclock(dir.path(), &format!("http://{}", server.address()), &options)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_requests(dir.path(), expected["completed"][0].as_u64().unwrap() as usize);
    // SAFETY: a plain system call on a child of ours.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    exits_with(&child.wait_with_output().unwrap(), expected["exit"].as_i64().unwrap());
    let log = server.stop();
    let out = dir.path().join("out");
    for file in ["run.toml", "summary.json", "requests.jsonl", "windows.csv", "histograms.hlog"] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let summary = summary(dir.path());
    assert_eq!(summary["run"]["interrupted"], true);
    let ok = rows(&out).iter().filter(|row| row.outcome == Outcome::Ok).count();
    assert_eq!(summary["requests"]["ok"].as_u64(), Some(ok as u64));
    // Whoever had its whole answer has its line.
    let pieces = paced(10, 20, 20).pieces.len();
    assert_eq!(log.posts().filter(|asked| asked.sent.len() == pieces).count(), ok);
}

/// A run of 128 users against answers of 500 ms, with these limits on open files.
fn with_descriptors(soft: u64, hard: Option<u64>) -> (Output, TempDir, Log) {
    let Case { client, .. } = Case::named("L015");
    let server = serve(Script::at_once(short_answer(), 500));
    let dir = TempDir::new().unwrap();
    let [users, requests] = ["concurrency", "requests"].map(|name| client[name].to_string());
    let options = ["--concurrency", &users, "--requests", &requests, "--ramp", "0s", "-q"];
    let mut command = tokclock(dir.path(), &format!("http://{}", server.address()), &options);
    let limit = move || {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is a valid place; between fork and exec these calls alone are made.
        let set = unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            limit.rlim_cur = soft;
            limit.rlim_max = hard.unwrap_or(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
        };
        if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(limit) };
    let output = command.output().unwrap();
    (output, dir, server.stop())
}

#[test]
fn l015_a_soft_limit_on_open_files_is_raised() {
    let Case { client, expected, .. } = Case::named("L015");
    let (output, dir, log) = with_descriptors(64, None);
    exits_with(&output, 0);
    assert_eq!(summary(dir.path())["requests"]["ok"], expected["soft_only"]["completed"]);
    assert_eq!(Some(log.peak_in_flight), client["concurrency"].as_u64());
}

#[test]
fn l015_a_hard_limit_on_open_files_is_named_before_the_run() {
    let Case { expected, .. } = Case::named("L015");
    let (output, _, log) = with_descriptors(64, Some(64));
    exits_with(&output, expected["hard"]["exit"].as_i64().unwrap());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(expected["hard"]["message"].as_str().unwrap()), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(log.posts().count(), 0);
}

/// Counts how often the file of host names is opened, by whomever.
struct Lookups(i32);

impl Lookups {
    fn watch() -> Self {
        // SAFETY: a plain system call.
        let queue = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        let path = c"/etc/hosts".as_ptr();
        // SAFETY: the path ends with a zero.
        let watched = unsafe { libc::inotify_add_watch(queue, path, libc::IN_OPEN) };
        assert!(queue >= 0 && watched >= 0, "/etc/hosts cannot be watched");
        Self(queue)
    }

    fn seen(&self) -> usize {
        let mut events = vec![0_u8; 64 << 10];
        // SAFETY: `events` is as long as it is said to be.
        let got = unsafe { libc::read(self.0, events.as_mut_ptr().cast(), events.len()) };
        // A watch of one file has no names: every event has the same length.
        usize::try_from(got).unwrap_or(0) / size_of::<libc::inotify_event>()
    }
}

impl Drop for Lookups {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(self.0) };
    }
}

#[test]
fn l017_a_name_is_looked_up_before_the_load_and_not_in_it() {
    let Case { client, expected, .. } = Case::named("L017");
    let lookups = Lookups::watch();
    let _ = std::fs::read("/etc/hosts").unwrap();
    assert!(lookups.seen() >= 1, "the watch sees");
    let server = serve(Script::at_once(short_answer(), 0));
    let dir = TempDir::new().unwrap();
    let [users, requests] = ["concurrency", "requests"].map(|name| client[name].to_string());
    let options = ["--concurrency", &users, "--requests", &requests, "-q"];
    let url = format!("http://localhost:{}", server.address().port());
    exits_with(&tokclock(dir.path(), &url, &options).output().unwrap(), 0);
    let posts = server.stop().posts().count();
    assert_eq!(Some(posts as u64), client["requests"].as_u64());
    // Others may look names up too: what counts is that it is not once a request.
    let most = posts as f64 * expected["lookups_per_request_max"].as_f64().unwrap();
    let seen = lookups.seen();
    assert!(seen as f64 <= most, "{seen} lookups for {posts} requests");
    assert!(summary(dir.path())["client"]["resolve_ns"].as_u64() > Some(0), "shown apart");
}

/// Memory of a process, bytes.
fn resident(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// Lines of a file that grows; `from` is where the last look ended.
fn lines_since(path: &Path, from: &mut u64) -> usize {
    use std::io::{Read, Seek, SeekFrom};
    let Ok(mut file) = std::fs::File::open(path) else { return 0 };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(*from)).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    *from += bytes.len() as u64;
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

#[test]
fn l025_memory_does_not_grow_with_the_number_of_requests() {
    let Case { client, expected, .. } = Case::named("L025");
    let all = 10_000;
    let sim = Sim::start(Settings { ttft: Law::Constant(0), itl: Law::Constant(0), ..settings() });
    let dir = TempDir::new().unwrap();
    let options = ["--requests", "10000", "--osl", "10", "--isl", "8", "--chunks", "-q"];
    let mut child = tokclock(dir.path(), &format!("http://{}", sim.address()), &options)
        .args(["--concurrency", &client["concurrency"].to_string()])
        .spawn()
        .unwrap();
    let path = dir.path().join("out/requests.jsonl");
    let (mut from, mut lines, mut looks) = (0, 0, Vec::new());
    for _ in 0..6_000 {
        if lines >= all || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        let resident = resident(&child);
        lines += lines_since(&path, &mut from);
        looks.extend(resident.map(|bytes| (lines, bytes)));
    }
    if lines < all {
        let _ = child.kill();
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(sim.stop().0.requests as usize, all);
    // From a tenth on, while requests go on.
    let during: Vec<u64> = looks
        .iter()
        .filter(|(lines, _)| (all / 10..all).contains(lines))
        .map(|&(_, bytes)| bytes)
        .collect();
    assert!(during.len() > 3, "{looks:?}");
    let growth = during.iter().max().unwrap() - during[0];
    // The share of so many requests, and room for what an allocator does.
    let of_all = expected["growth_mb_max"].as_f64().unwrap() / client["requests"].as_f64().unwrap();
    let most = (of_all * all as f64 + 2.0) * f64::from(1 << 20);
    assert!((growth as f64) < most, "grew by {growth} bytes");
}
