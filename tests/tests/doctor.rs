//! `tokclock doctor` as a person uses it: a page, or JSON for scripts, and never a failure for what it
//! finds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn doctor(options: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokclock-under-test"));
    command.stdin(Stdio::null()).arg("doctor").args(options);
    command.envs(variables.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The findings as JSON, once it is known to be whole.
#[track_caller]
fn found(options: &[&str], variables: &[(&str, &str)]) -> Value {
    let output = doctor(&[options, &["--json"]].concat(), variables);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "tokclock.doctor/1");
    json
}

fn finding<'a>(json: &'a Value, id: &str) -> &'a Value {
    json["findings"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap()
}

#[test]
fn the_page_names_every_topic_and_ends_with_what_is_worth_a_look() {
    let output = doctor(&[], &[("NO_COLOR", "1")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    for label in ["doctor", "driver", "stamps", "wake-ups", "CPUs", "ports", "interface", "softnet"]
    {
        assert!(page.lines().any(|line| line.starts_with(label)), "no {label} in {page}");
    }
    let last: Vec<&str> = page.lines().rev().take(4).collect();
    assert!(last.iter().any(|line| line.starts_with("warnings")), "{page}");
    assert!(!page.contains('\x1b') && !page.contains("NaN") && !page.contains("Some("), "{page}");
}

#[test]
fn the_json_is_whole_and_tells_of_what_was_tried() {
    let json = found(&[], &[]);
    assert_eq!((&json["interface"], &json["target"]), (&Value::from("lo"), &Value::Null));
    assert!(!json["reactor_cpus"].as_array().unwrap().is_empty());
    assert!(json["host"]["cpus"].is_array());
    for one in json["findings"].as_array().unwrap() {
        assert!(["ok", "note", "warn"].contains(&one["state"].as_str().unwrap()), "{one}");
        for member in ["id", "title", "value", "meaning"] {
            assert!(!one[member].as_str().unwrap().is_empty(), "{one}");
        }
        assert!(one["state"] != "warn" || one["advice"].is_string(), "{one}");
        assert!(one["command"].is_null() || one["advice"].is_string(), "{one}");
    }
    // Tried, and not read anywhere: each message was read, alone or with others.
    let stamps = finding(&json, "stamps")["value"].as_str().unwrap();
    assert!(stamps.contains("reads stamped") && !stamps.starts_with("0 of 0"), "{stamps}");
    assert!(finding(&json, "wake_ups")["value"].as_str().unwrap().contains("by timer p50"));
}

#[test]
fn on_epoll_it_says_who_asked_for_it() {
    let json = found(&[], &[("MONOIO_FORCE_LEGACY_DRIVER", "1")]);
    let driver = finding(&json, "driver");
    assert_eq!((&driver["value"], &driver["state"]), (&"epoll".into(), &"note".into()));
    assert_eq!(driver["command"], "unset MONOIO_FORCE_LEGACY_DRIVER");
    assert!(!finding(&json, "stamps")["value"].as_str().unwrap().starts_with("0 of"), "{json}");
}

#[test]
fn a_url_leads_to_its_interface_whether_or_not_a_server_is_there() {
    let json = found(&["http://127.0.0.1:9/v1"], &[]);
    assert_eq!((&json["target"], &json["interface"]), (&"127.0.0.1".into(), &"lo".into()));
}

#[test]
fn the_reactors_asked_for_are_those_looked_at() {
    let all = found(&[], &[])["host"]["cpus"].clone();
    let first = all[0].as_u64().unwrap();
    let json = found(&["--cpus", &first.to_string()], &[]);
    assert_eq!(json["reactor_cpus"], Value::from(vec![first]));
}

#[test]
fn what_cannot_be_used_is_said_in_one_line() {
    for (options, code, word) in [
        (&["http://no-such-host.invalid:8000"][..], 1, "no-such-host.invalid"),
        (&["ftp://127.0.0.1"], 1, "ftp"),
        (&["http://127.0.0.1:1", "http://127.0.0.1:2"], 2, "one argument too many"),
        (&["--reactors", "70000"], 2, "--reactors 70000"),
        (&["--cpus", "65000"], 2, "CPU 65000"),
    ] {
        let output = doctor(options, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(output.stdout.is_empty() && said.lines().count() == 1, "{said}");
        assert!(said.starts_with("error: ") && said.contains(word), "{said}");
    }
}
