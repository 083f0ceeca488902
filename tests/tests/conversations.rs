//! Conversations and classes as a server sees them: one turn after the other, pauses kept, exactly as
//! many as were asked for.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use command::{exits_with, summary, tokclock};
use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::measure::summarize;
use tokclock_engine::record::{Outcome, Phase, Row};
use tokclock_engine::workload::{
    Arrival, Connections, History, Law as Lengths, Load, Overflow, Stop, Turns, Warmup, Workload,
};
use tokclock_sim::Settings;
use tokclock_tests::replay::{Manners, Replay, Script};
use tokclock_tests::{
    MS, Ran, Sim, Truth, at_rate, carry_out, closed, on_reactors, requests, rows, settings,
    short_answer, workload,
};

/// The pause before every turn but the first.
const PAUSE_NS: u64 = 40 * MS;

/// Conversations of three turns with pauses.
fn talk(workload: &mut Workload) {
    let content = &mut workload.mix[0].content;
    let count = Lengths::of_lengths("3").unwrap();
    content.conversation.turns = Some(Turns { count, input: None });
    content.think = Some(Lengths::of_times("40ms").unwrap());
}

fn sessions(number: u64) -> Stop {
    Stop { requests: None, sessions: Some(number), ..requests(1) }
}

fn arriving() -> Load {
    at_rate(100.0, Arrival::Constant, None, Overflow::Wait)
}

/// A load of conversations against a simulated server, as both sides have seen it.
fn talked(
    settings: Settings,
    load: Load,
    stop: Stop,
    change: impl FnOnce(&mut Workload),
) -> (Workload, Ran, Vec<Truth>) {
    let sim = Sim::start(settings);
    let mut asked = workload(sim.address(), load, stop);
    talk(&mut asked);
    change(&mut asked);
    let ran = carry_out(&asked);
    let (report, truth) = sim.stop();
    assert_eq!(report.requests as usize, ran.rows.len(), "every request has its row");
    (asked, ran, truth)
}

/// The rows of each conversation, by turn.
fn by_session(rows: &[Row]) -> BTreeMap<u64, Vec<&Row>> {
    let mut all: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| all.entry(row.session.unwrap()).or_default().push(row));
    for own in all.values_mut() {
        own.sort_by_key(|row| row.turn);
        assert!(own.iter().map(|row| row.turn.unwrap()).eq(0..own.len() as u32));
    }
    all
}

/// In every conversation each turn came to the server no sooner than the pause after the end of the
/// answer before.
fn is_in_order(ran: &Ran, truth: &[Truth]) {
    let at_server = |row: &Row| {
        let is_it = |one: &&Truth| one.request_id.as_ref() == Some(&row.request_id);
        truth.iter().find(is_it).unwrap()
    };
    for own in by_session(&ran.rows).values() {
        for pair in own.windows(2) {
            // The client can have the end as soon as its send begins.
            let end = at_server(pair[0]).tail.unwrap()[0];
            let next = at_server(pair[1]).read_ns;
            assert!(next >= end + PAUSE_NS, "{} ns after the answer", next.saturating_sub(end));
            assert_eq!(pair[1].index, pair[0].index + 1);
        }
    }
}

#[test]
fn a_crowd_talks_turn_by_turn_with_its_pauses() {
    let (asked, ran, truth) = talked(settings(), closed(4), sessions(12), |_| {});
    assert_eq!((by_session(&ran.rows).len(), ran.rows.len()), (12, 36));
    is_in_order(&ran, &truth);
    assert!(truth.iter().all(|one| one.in_flight <= 4), "never more than there are users");
    let indices: BTreeSet<u64> = ran.rows.iter().map(|row| row.index).collect();
    assert!(indices.into_iter().eq(0..36), "every number once");
    let summary = summarize(&asked, &ran.facts, ran.rows);
    let sessions = summary.sessions.unwrap();
    assert_eq!((sessions.begun, sessions.done, sessions.turns_unsent), (12, 12, 0));
    assert_eq!(sessions.turns.len(), 3);
    for (turn, report) in (0..).zip(&sessions.turns) {
        assert_eq!((report.turn, report.requests, report.failed), (turn, 12, 0));
        assert_eq!(report.output_tokens, Some(8.0));
        assert!(report.ttft.min.unwrap() >= 20 * MS, "a pause is no part of it");
        assert_eq!((report.ttft.count, report.e2e.count), (12, 12));
    }
}

#[test]
fn conversations_that_arrive_talk_turn_by_turn_with_their_pauses() {
    let (asked, ran, truth) = talked(settings(), arriving(), sessions(12), |_| {});
    assert_eq!((by_session(&ran.rows).len(), ran.rows.len()), (12, 36));
    is_in_order(&ran, &truth);
    // First turns come at their rate, whatever becomes of the others.
    let first = ran.rows.iter().filter(|row| row.turn == Some(0));
    let mut instants: Vec<u64> = first.map(|row| row.intended - ran.facts.load_start).collect();
    instants.sort_unstable();
    assert!(instants.into_iter().eq((0..12).map(|item| item * 10 * MS)));
    // A later turn is meant for the end of its pause.
    for own in by_session(&ran.rows).values() {
        for pair in own.windows(2) {
            assert!(pair[1].intended >= pair[0].done.unwrap() + PAUSE_NS);
        }
    }
    let summary = summarize(&asked, &ran.facts, ran.rows);
    assert_eq!(summary.requests.offered, 36, "later turns are arrivals too");
    assert_eq!(summary.sessions.unwrap().done, 12);
}

#[test]
fn later_turns_hold_the_words_of_the_server() {
    for history in [History::Live, History::Recorded, History::Nothing] {
        let change = |asked: &mut Workload| asked.mix[0].content.conversation.history = history;
        let (_, ran, _) = talked(settings(), closed(2), sessions(4), change);
        for row in &ran.rows {
            let turn = u64::from(row.turn.unwrap());
            // The server counts words: 16 of each question, 8 of each answer.
            let expected = match history {
                History::Nothing => 16,
                _ => 16 + turn * (16 + 8),
            };
            assert_eq!(row.input_tokens, Some(expected), "{history:?}, turn {turn}");
            assert_eq!(row.client_input_tokens, Some(expected), "{history:?}, turn {turn}");
        }
    }
}

#[test]
fn the_answer_itself_stands_in_the_next_turn() {
    let word = " say \"hi\"\n\u{e9}\\";
    let server = Replay::start(vec![Script::at_once(answer(word), 0)], Manners::default());
    let mut asked = workload(server.address(), closed(1), sessions(1));
    talk(&mut asked);
    let ran = carry_out(&asked);
    let log = server.stop();
    let last: Value = serde_json::from_slice(&log.post(&ran.rows[2].request_id).body).unwrap();
    for place in [1, 3] {
        assert_eq!(last["messages"][place]["role"], "assistant");
        assert_eq!(last["messages"][place]["content"], word);
    }
}

/// A streamed answer of one event.
fn answer(text: &str) -> String {
    let delta = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let events = [delta.to_string().as_str(), finish, "[DONE]"].map(tokclock_tests::event).concat();
    tokclock_tests::STREAM_HEAD.to_owned() + &events + "0\r\n\r\n"
}

/// Conversations against a server that keeps what it is sent.
fn heard(load: Load, change: impl FnOnce(&mut Workload)) -> (Ran, tokclock_tests::replay::Log) {
    let script = Script::at_once(short_answer(), 5);
    let server = Replay::start(vec![script], Manners::default());
    let mut asked = workload(server.address(), load, sessions(10));
    talk(&mut asked);
    change(&mut asked);
    let ran = carry_out(&asked);
    assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Ok), "{:?}", ran.rows);
    (ran, server.stop())
}

#[test]
fn a_session_header_tells_conversations_apart() {
    for load in [closed(3), arriving()] {
        let (ran, log) = heard(load, |asked| {
            asked.target.session_header = Some("X-Session-Id".to_owned());
        });
        let mut of_sessions = BTreeSet::new();
        for own in by_session(&ran.rows).values() {
            let values: BTreeSet<&str> = own
                .iter()
                .map(|row| log.post(&row.request_id).header("x-session-id").unwrap())
                .collect();
            assert_eq!((own.len(), values.len()), (3, 1), "{values:?}");
            of_sessions.extend(values);
        }
        assert_eq!(of_sessions.len(), 10);
    }
}

#[test]
fn a_conversation_can_have_a_connection_of_its_own() {
    for load in [closed(3), arriving()] {
        let (ran, log) = heard(load, |asked| asked.client.connections = Connections::PerSession);
        let mut of_sessions = BTreeSet::new();
        for own in by_session(&ran.rows).values() {
            let at_server: BTreeSet<u64> =
                own.iter().map(|row| log.post(&row.request_id).connection).collect();
            assert_eq!((own.len(), at_server.len()), (3, 1), "{at_server:?}");
            of_sessions.extend(at_server);
        }
        assert_eq!(of_sessions.len(), 10, "none serves two conversations");
    }
}

#[test]
fn a_turn_that_fails_ends_its_conversation() {
    for load in [closed(4), arriving()] {
        let faulty = || Settings { faults: "status:500=30%".parse().unwrap(), ..settings() };
        let (asked, ran, _) = talked(faulty(), load, sessions(30), |_| {});
        let all = by_session(&ran.rows);
        assert_eq!(all.len(), 30, "the others go on");
        let mut unsent = 0;
        let mut done = 0;
        for own in all.values() {
            let (last, before) = own.split_last().unwrap();
            assert!(before.iter().all(|row| row.outcome == Outcome::Ok));
            if last.outcome == Outcome::Ok {
                assert_eq!(own.len(), 3);
                done += 1;
            } else {
                unsent += 3 - own.len() as u64;
            }
        }
        assert!(unsent > 0 && done > 0, "{unsent}, {done}");
        let summary = summarize(&asked, &ran.facts, ran.rows);
        let sessions = summary.sessions.unwrap();
        assert_eq!((sessions.done, sessions.turns_unsent), (done, unsent));
        assert_eq!(sessions.turns.iter().map(|turn| turn.failed).sum::<u64>(), 30 - done);
        assert_eq!(summary.requests.failed, 30 - done);
    }
}

#[test]
fn requests_and_conversations_are_as_many_as_were_asked_for() {
    for reactors in [1, 2] {
        for load in [closed(5), arriving()] {
            let sim = Sim::start(settings());
            let mut asked = workload(sim.address(), load, requests(20));
            talk(&mut asked);
            let ran = carry_out(&on_reactors(asked.clone(), reactors));
            assert_eq!((ran.rows.len(), sim.stop().0.requests), (20, 20), "{:?}", asked.load);
            let begun = by_session(&ran.rows).len() as u64;
            let unsent: u64 = ran.facts.tallies.iter().map(|tally| tally.turns_unsent).sum();
            assert_eq!(unsent, begun * 3 - 20, "{:?}", asked.load);
            let sim = Sim::start(settings());
            let mut asked = workload(sim.address(), asked.load, sessions(7));
            talk(&mut asked);
            let ran = carry_out(&on_reactors(asked, reactors));
            assert_eq!((ran.rows.len(), sim.stop().0.requests), (21, 21));
        }
    }
}

#[test]
fn what_is_dropped_takes_its_conversation_with_it() {
    let load = at_rate(100.0, Arrival::Constant, Some(1), Overflow::Drop);
    let (asked, ran, _) = talked(settings(), load, sessions(12), |_| {});
    let summary = summarize(&asked, &ran.facts, ran.rows.clone());
    let unsent: u64 = ran.facts.tallies.iter().map(|tally| tally.turns_unsent).sum();
    let dropped = summary.requests.dropped;
    assert!(dropped > 0, "answers take longer than arrivals are apart");
    assert_eq!(ran.rows.len() as u64 + dropped + unsent, 36, "each turn is accounted for");
    assert_eq!(summary.requests.offered, ran.rows.len() as u64 + dropped);
}

#[test]
fn a_warm_up_is_extra_among_conversations_too() {
    for load in [closed(2), arriving()] {
        let stop = Stop { warmup: Warmup::Requests(5), ..requests(10) };
        let (asked, ran, _) = talked(settings(), load, stop, |_| {});
        let warm = ran.rows.iter().filter(|row| row.phase == Phase::Warmup).count();
        assert_eq!((ran.rows.len(), warm), (15, 5));
        let summary = summarize(&asked, &ran.facts, ran.rows);
        assert_eq!((summary.requests.offered, summary.run.warmup_requests), (10, 5));
    }
}

#[test]
fn the_end_of_the_time_ends_conversations() {
    for load in [closed(3), arriving()] {
        let duration_ns = Some(300 * MS);
        let stop = Stop { requests: None, duration_ns, ..requests(1) };
        let (_, ran, _) = talked(settings(), load, stop, |_| {});
        let end = ran.facts.window_end;
        assert!(ran.rows.iter().all(|row| row.intended < end && row.outcome == Outcome::Ok));
        let begun = by_session(&ran.rows).len() as u64;
        let unsent: u64 = ran.facts.tallies.iter().map(|tally| tally.turns_unsent).sum();
        assert_eq!(unsent, begun * 3 - ran.rows.len() as u64);
    }
}

#[test]
fn a_user_pauses_between_single_requests_too() {
    let sim = Sim::start(settings());
    let mut asked = workload(sim.address(), closed(1), requests(5));
    asked.mix[0].content.think = Some(Lengths::of_times("40ms").unwrap());
    let ran = carry_out(&asked);
    let (_, mut truth) = sim.stop();
    truth.sort_by_key(|one| one.read_ns);
    for pair in truth.windows(2) {
        assert!(pair[1].read_ns >= pair[0].tail.unwrap()[0] + PAUSE_NS);
    }
    assert!(ran.rows[0].intended - ran.facts.load_start < PAUSE_NS, "but not before the first");
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
fn an_interrupt_in_the_middle_of_conversations_keeps_what_was_said() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    let url = format!("http://{}", sim.address());
    let talk = ["--turns", "50", "--think-time", "20ms", "--concurrency", "3", "--osl", "4"];
    let child =
        tokclock(dir.path(), &url, &[&talk[..], &["--sessions", "90", "--isl", "8"]].concat())
            .spawn()
            .unwrap();
    wait_for_requests(dir.path(), 12);
    // SAFETY: a plain system call on a child of ours.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    exits_with(&child.wait_with_output().unwrap(), 130);
    let _ = sim.stop();
    let out = dir.path().join("out");
    for file in ["run.toml", "summary.json", "requests.jsonl", "windows.csv", "histograms.hlog"] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let summary = summary(dir.path());
    assert_eq!(summary["run"]["interrupted"], true);
    let rows = rows(&out);
    assert!(by_session(&rows).len() <= 3 && rows.len() >= 12);
    let (sent, begun) = (rows.len() as u64, by_session(&rows).len() as u64);
    assert_eq!(summary["sessions"]["turns_unsent"].as_u64(), Some(begun * 50 - sent));
    assert_eq!(summary["sessions"]["done"], 0);
}

/// Two classes, one of which has an objective of its own: the code that the command exits with.
fn with_classes(objective: &str) -> (i32, Value) {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    let url = format!("http://{}", sim.address());
    let chat = format!("name=chat weight=3 isl=16 osl=4 turns=2 slo={objective}");
    let classes = ["--class", &chat, "--class", "name=single weight=1 isl=30 osl=2"];
    let options = [&classes[..], &["--concurrency", "2", "--sessions", "40", "--seed", "3"]];
    let output = tokclock(dir.path(), &url, &options.concat()).output().unwrap();
    let _ = sim.stop();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or_else(|| panic!("{said}")), summary(dir.path()))
}

#[test]
fn an_objective_of_one_class_decides_over_the_run() {
    let (missed, summary) = with_classes("p50(ttft)<1ms");
    assert_eq!(missed, 3, "{}", summary["classes"]);
    let classes = summary["classes"].as_array().unwrap();
    let names: Vec<&str> = classes.iter().map(|class| class["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["chat", "single"]);
    let of = |class: usize, name: &str| classes[class]["requests"][name].as_u64().unwrap();
    let all = |name: &str| summary["requests"][name].as_u64().unwrap();
    for name in ["ok", "failed", "offered"] {
        assert_eq!(of(0, name) + of(1, name), all(name), "{name}");
    }
    assert!(of(0, "ok") > of(1, "ok"));
    let count = |class: usize, name: &str| &classes[class]["latency"][name]["count"];
    for class in [0, 1] {
        assert_eq!(count(class, "ttft"), of(class, "ok"));
    }
    // Gaps: three in each answer of the first class, one in each of the other's.
    assert_eq!(*count(0, "icl"), 3 * of(0, "ok"));
    assert_eq!(*count(1, "icl"), of(1, "ok"));
    assert_eq!(classes[0]["tokens"]["output"], 4 * of(0, "ok"));
    assert_eq!(
        (&classes[0]["slo"]["verdict"], &classes[1]["slo"]),
        (&Value::from("fail"), &Value::Null)
    );
    assert_eq!(summary["sessions"]["begun"], 40);
    let (held, _) = with_classes("p50(ttft)<30s");
    assert_eq!(held, 0);
}
