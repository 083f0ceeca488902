//! Somebody sets the wall clock of one host by two seconds while it sends: no latency changes, and the
//! step is told. The clock is set for one process alone, by a library between it and the kernel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::clock::realtime_ns;
use tokclock_engine::record::Row;
use tokclock_engine::shard::Left;
use tokclock_tests::command::{Tool, alone, finished, json, stderr, wait_until};
use tokclock_tests::{MS, rows};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// Names the file whose being there sets the clock.
const FLAG: &str = "TOKCLOCK_TEST_STEP";
/// What stands between a process and the kernel's clock.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    const char *flag = getenv("TOKCLOCK_TEST_STEP");
    int result = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME && flag != NULL && access(flag, F_OK) == 0)
        time->tv_sec += 2;
    return result;
}
"#;
const STEP_NS: i64 = 2_000_000_000;

/// Builds the library; `None` where there is no C compiler.
fn library(dir: &Path) -> Option<PathBuf> {
    let (source, library) = (dir.join("step.c"), dir.join("step.so"));
    std::fs::write(&source, LIBRARY).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .stdin(Stdio::null())
        .output();
    let Ok(built) = built else {
        #[expect(clippy::print_stderr, reason = "why nothing was tested")]
        {
            eprintln!("not tested: there is no cc to build a library with");
        }
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(library)
}

/// No request took longer than a simulator of 40 ms a request explains, and none less than its tokens
/// take: a step of two seconds is in no latency.
fn no_latency_changed(rows: &[Row]) {
    assert!(!rows.is_empty());
    for row in rows {
        let (sent, done) = (row.write_start.unwrap(), row.done.unwrap());
        assert!((30 * MS..1_000 * MS).contains(&(done - sent)), "{row:?}");
        let marks = [row.first_byte, row.first_token, row.second_token, row.last_token];
        assert!(marks.is_sorted() && row.first_byte > Some(sent) && row.last_token <= row.done);
        let chunks = row.chunks.as_ref().unwrap();
        assert!(chunks.windows(2).all(|pair| pair[1].0 - pair[0].0 < 1_000 * MS), "{chunks:?}");
        assert!(row.lag_max < 1_000 * MS, "{row:?}");
    }
}

#[test]
fn a_step_of_the_wall_clock_changes_no_latency_and_is_told() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let sim = TOOL.sim(dir.path(), "--port 0 --ttft 20ms --itl 2ms --model sim");
    let flag = dir.path().join("set");
    let mut command = TOOL.command(dir.path());
    let line = "run -c 4 -d 3s --osl 8 --chunks --max-error-rate 100% -q --out a";
    command.args(line.split(' ')).arg(sim.url());
    command.env("LD_PRELOAD", &library).env(FLAG, &flag);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let out = dir.path().join("a");
    wait_until("requests before the step", || finished(&out) >= 100);
    std::fs::write(&flag, "").unwrap();
    let before = finished(&out);
    wait_until("requests after the step", || {
        finished(&out) >= before + 50 || child.try_wait().unwrap().is_some()
    });
    let output = child.wait_with_output().unwrap();
    // The kernel stamps by its own clock, which was not set: stamps that do not fit are not used, and
    // with too many of those the client is not to be believed.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));

    let summary: Value = json(&out.join("summary.json"));
    assert_eq!(summary["client"]["clock_steps"], 1, "{}", summary["client"]);
    assert_eq!(summary["requests"]["failed"], 0);
    let rows = rows(&out);
    assert!(rows.len() >= before + 50, "{} of {before}", rows.len());
    no_latency_changed(&rows);
    // Nor do they differ from what the server knows of them.
    let longest = rows.iter().map(|row| row.done.unwrap() - row.dispatched.unwrap()).max();
    assert!(sim.stop().len() >= rows.len() && longest < Some(1_000 * MS));
}

#[test]
fn a_result_of_two_hosts_tells_which_clock_was_set() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let sim = TOOL.sim(dir.path(), "--port 0 --ttft 20ms --itl 2ms --model sim");
    let flag = dir.path().join("set");
    let at = realtime_ns() / 1_000_000_000 + 3;
    let line = "run -c 8 -d 3s --osl 8 --chunks --max-error-rate 100% --seed 7 -q";
    let mut hosts: Vec<Child> = (0..2)
        .map(|index| {
            let mut command = TOOL.command(dir.path());
            command.args(line.split(' ')).arg(sim.url());
            command.args(["--shard", &format!("{index}/2"), "--start-at", &at.to_string()]);
            command.args(["--out", &index.to_string()]);
            if index == 1 {
                command.env("LD_PRELOAD", &library).env(FLAG, &flag);
            }
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    wait_until("requests before the step", || finished(&dir.path().join("1")) >= 50);
    std::fs::write(&flag, "").unwrap();
    for host in hosts.drain(..) {
        let output = host.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
    }
    let merged = TOOL.run(dir.path(), "merge 0 1 --out whole -q", &[]);
    assert!(matches!(merged.status.code(), Some(0 | 4)), "{}", stderr(&merged));

    let left = Left::read(&dir.path().join("1")).unwrap();
    let steps = left.file.steps();
    assert_eq!(steps.len(), 1, "{:?}", left.file.clock);
    assert!((steps[0].by_ns - STEP_NS).abs() < 1_000_000, "{steps:?}");
    let whole = dir.path().join("whole");
    let summary: Value = json(&whole.join("summary.json"));
    let told = |host: usize| summary["hosts"][host]["clock"]["steps"].as_array().unwrap().clone();
    assert_eq!((told(0).len(), told(1).len()), (0, 1), "{}", summary["hosts"]);
    assert_eq!(told(1)[0]["by_ns"], steps[0].by_ns);
    let notes = summary["merge"]["notes"].to_string();
    assert!(notes.contains("host 1") && notes.contains("set"), "{notes}");
    // The hosts began together: what happened to a clock later moves nothing.
    assert!(summary["merge"]["start_skew_ns"].as_u64().unwrap() <= MS, "{}", summary["merge"]);
    let pooled = rows(&whole);
    let own = [rows(&dir.path().join("0")), rows(&dir.path().join("1"))];
    assert_eq!(pooled.len(), own[0].len() + own[1].len());
    no_latency_changed(&pooled);
}
