//! The house rules that no compiler holds: which room may name what.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Rust files below `folder`, with what they hold before their tests.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]").next().unwrap().to_owned();
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, product));
            }
        }
    }
    assert!(!found.is_empty(), "nothing in {folder}");
    found
}

fn is_test(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// No file of `folder` names one of `words`, except those in `rooms`.
fn only_in(folder: &str, rooms: &[&str], words: &[&str]) {
    for (name, text) in sources(folder) {
        if is_test(&name) || rooms.iter().any(|room| name.starts_with(room)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap();
            for word in words {
                assert!(!code.contains(word), "{name}:{} names {word}", number + 1);
            }
        }
    }
}

#[test]
fn only_reactor_clock_and_telemetry_name_sockets_threads_or_time() {
    let words = [
        "monoio",
        "TcpStream",
        "socket2",
        "std::thread",
        "Instant::now",
        "SystemTime::now",
        "quanta",
    ];
    let rooms = ["engine/src/reactor/", "engine/src/clock/", "engine/src/telemetry/"];
    only_in("engine/src", &rooms, &words);
}

#[test]
fn the_parser_does_no_io_and_reads_no_clock() {
    let words = ["std::net", "std::fs", "std::io", "std::thread", "std::time", "unsafe {"];
    only_in("parser/src", &[], &words);
}

#[test]
fn the_command_line_names_no_socket_and_no_histogram() {
    only_in("cli/src", &[], &["TcpStream", "monoio", "socket2", "hdrhistogram", "Histogram<"]);
}

#[test]
fn the_engine_prints_nothing() {
    only_in("engine/src", &[], &["println!", "eprintln!", "print!("]);
}

#[test]
fn the_judge_shares_no_code_with_the_judged() {
    let manifest = fs::read_to_string(root().join("tools/sim/Cargo.toml")).unwrap();
    assert!(!manifest.contains("tokclock-engine") && !manifest.contains("tokclock-parser"));
}

#[test]
fn every_file_says_what_it_is_for_and_no_room_is_a_lumber_room() {
    for folder in ["parser/src", "engine/src", "cli/src", "tools/sim/src", "benches", "tests/tests"]
    {
        for (name, text) in sources(folder) {
            assert!(text.trim_start().starts_with("//!"), "{name} has no first line");
            let stem = Path::new(&name).file_stem().unwrap().to_str().unwrap();
            assert!(!["util", "utils", "common", "helpers", "misc"].contains(&stem), "{name}");
        }
    }
}
