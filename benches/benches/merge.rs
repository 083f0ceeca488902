//! How long `tokclock merge` takes for the shards of many hosts, and how much memory.
//!
//! One shard of 1000 hosts is really run, for a minute, and copied for the others. Two numbers change
//! that: `cargo bench -p tokclock-benches --bench merge -- HOSTS SECONDS`.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use serde_json::Value;
use tokclock_benches::shards::Template;
use tokclock_benches::simulator::{Simulator, serve_if_asked};
use tokclock_engine::clock::monotonic_ns;
use tokclock_engine::run::cpus;
use tokclock_sim::Settings;

/// Makes this program `tokclock`: what is measured is a process of its own.
const TOOL: &str = "TOKCLOCK_BENCH_TOOL";
/// Requests per second and host.
const RATE: f64 = 3.4;
/// What a merge of histograms may take.
const LIMIT_S: f64 = 60.0;
/// And its memory.
const LIMIT_GB: f64 = 2.0;

fn main() -> ExitCode {
    if std::env::var_os(TOOL).is_some() {
        return tokclock::main();
    }
    if serve_if_asked().unwrap() {
        return ExitCode::SUCCESS;
    }
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let hosts = numbers.first().copied().unwrap_or(1000);
    let seconds = numbers.get(1).copied().unwrap_or(60);

    let dir = tempfile::tempdir().unwrap();
    let template = run_one(dir.path(), hosts, seconds);
    let each = folder_mb(&dir.path().join("one"));
    println!(
        "{hosts} shards of {seconds} s, {} requests and {each:.2} MB each, {} CPUs\n",
        template.requests(),
        cpus().len()
    );
    println!("{:<24} {:>8} {:>8} {:>8} {:>14}", "merge of", "s", "of 60 s", "GB", "requests / s");
    for (name, with_requests) in [("histograms", false), ("records", true)] {
        let shards = dir.path().join(name);
        template.write_all(&shards, with_requests).unwrap();
        merge(name, &shards, &dir.path().join("merged").join(name), &template);
        // Both at once would need twice the disk.
        fs::remove_dir_all(&shards).unwrap();
    }
    ExitCode::SUCCESS
}

/// Really runs shard 0 of the load.
fn run_one(dir: &Path, hosts: u32, seconds: u32) -> Template {
    let server = Settings { cpus: vec![cpus()[0]], ..Settings::default() };
    let server = Simulator::start(&server).unwrap();
    let out = dir.join("one");
    let (url, rate) = (format!("http://{}", server.address()), RATE * f64::from(hosts));
    let line = format!(
        "run {url} --shard 0/{hosts} --seed 7 --rate {rate} --duration {seconds}s --isl 64 --osl 64 \
         --no-report --quiet --out"
    );
    let (status, _) = tool(line.split(' ').map(OsStr::new).chain([out.as_os_str()])).unwrap();
    assert!(matches!(status.code(), Some(0 | 4)), "the shard ended with {status}");
    Template::read(&out).unwrap()
}

fn merge(name: &str, shards: &Path, out: &Path, template: &Template) {
    let words = ["merge", "--no-report", "--quiet", "--out"].map(OsStr::new);
    let words = words.into_iter().chain([out.as_os_str(), shards.as_os_str()]);
    let mode = (name == "histograms").then_some(OsStr::new("--histograms"));
    let start = monotonic_ns();
    let (status, gb) = tool(words.chain(mode)).unwrap();
    let s = (monotonic_ns() - start) as f64 / 1e9;
    assert!(matches!(status.code(), Some(0 | 4)), "the merge of {name} ended with {status}");
    let text = fs::read(out.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&text).unwrap();
    let all = template.requests() as u64 * u64::from(template.hosts());
    let offered = summary["requests"]["offered"].as_u64();
    assert!(offered == Some(all), "{offered:?} requests of {all} are in the merge of {name}");
    println!("{name:<24} {s:>8.2} {:>8.2} {gb:>8.2} {:>14.0}", s / LIMIT_S, all as f64 / s);
    if name == "histograms" && (s > LIMIT_S || gb > LIMIT_GB) {
        println!("{:<24} over the limits of {LIMIT_S} s and {LIMIT_GB} GB", "");
    }
}

/// Runs `tokclock` to its end: how it ended, and the most memory that it held, GB.
fn tool<'a>(words: impl Iterator<Item = &'a OsStr>) -> io::Result<(ExitStatus, f64)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).env(TOOL, "1").stdin(Stdio::null());
    let child = command.spawn()?;
    let mut status = 0;
    // SAFETY: all-zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the process is our child and not waited for yet; both places are valid.
    let ended = unsafe { libc::wait4(child.id() as _, &raw mut status, 0, &raw mut usage) };
    if ended < 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel counts in KiB.
    Ok((ExitStatus::from_raw(status), usage.ru_maxrss as f64 * 1024.0 / 1e9))
}

fn folder_mb(dir: &Path) -> f64 {
    let files = fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len() as f64).sum::<f64>() / 1e6
}
