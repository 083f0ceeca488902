//! Faults rehearsed: the simulated server fails on purpose, each request comes to the class that its
//! own truth record calls for, and no server's end keeps a run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod command;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use command::{exits_with, summary, tokclock};
use tempfile::TempDir;
use tokclock_engine::measure::{Summary, summarize};
use tokclock_engine::record::ErrorClass::{self, *};
use tokclock_engine::record::{Outcome, Row, TokenSource};
use tokclock_engine::workload::{Limits, Stop, Warmup, Workload};
use tokclock_sim::{Fault, Law, Report, Settings};
use tokclock_tests::replay::EARLY_NS;
use tokclock_tests::{
    MS, Ran, Sim, Truth, carry_out, closed, on_reactors, requests, rows, settings, workload,
};

/// What a send may take on its way; other work shares this machine.
const LATE_NS: u64 = 150 * MS;

/// Long beside every law, short beside a test.
const LIMITS: Limits = Limits {
    request_ns: Some(20_000 * MS),
    connect_ns: None,
    tls_ns: None,
    first_byte_ns: Some(700 * MS),
    first_token_ns: None,
    idle_ns: Some(1000 * MS),
};

/// A run and both sides' account of it.
struct Rehearsed {
    ran: Ran,
    summary: Summary,
    report: Report,
    truth: Vec<Truth>,
}

fn rehearse(faults: &str, settings: Settings, change: impl FnOnce(&mut Workload)) -> Rehearsed {
    let sim = Sim::start(Settings { faults: faults.parse().unwrap(), ..settings });
    let mut load = workload(sim.address(), closed(3), requests(6));
    load.limits = LIMITS;
    change(&mut load);
    let ran = carry_out(&load);
    let (report, truth) = sim.stop();
    let summary = summarize(&load, &ran.facts, ran.rows.clone());
    Rehearsed { ran, summary, report, truth }
}

/// The classes that requests with this fault fail by; none where they are ok. `stream`: of a
/// streamed answer.
fn classes(fault: Option<Fault>, stream: bool) -> &'static [ErrorClass] {
    let Some(fault) = fault else { return &[] };
    match fault {
        // Whether it is met while connecting, writing or reading is a matter of microseconds.
        Fault::Refuse => &[ConnectRefused, ConnReset],
        Fault::CloseBefore => &[ConnClosedEarly],
        Fault::Status { code: 429, .. } => &[RateLimited],
        Fault::Status { .. } => &[HttpStatus],
        Fault::StallHead => &[TimeoutFirstByte],
        Fault::Stall { .. } => &[TimeoutIdle],
        Fault::Reset { .. } => &[ConnReset],
        Fault::Truncate { .. } => &[BodyTruncated],
        Fault::Cut { .. } => &[StreamTruncated],
        Fault::ErrorEvent { .. } => &[ServerErrorEvent],
        Fault::Malformed { .. } if !stream => &[MalformedEvent],
        Fault::Empty => &[EmptyStream],
        Fault::Malformed { .. }
        | Fault::NoDone
        | Fault::WrongUsage
        | Fault::CloseAfter
        | Fault::Pings
        | Fault::Drip { .. } => &[],
    }
}

/// What is wrong with a row, if the server did to it what `truth` says; nothing if all is well.
fn judged(row: &Row, truth: &Truth, start: u64) -> Option<String> {
    let stream = truth.stream;
    let classes = classes(truth.fault, stream);
    let is_right = match row.error {
        Some(class) => row.outcome == Outcome::Error && classes.contains(&class),
        None => row.outcome == Outcome::Ok && classes.is_empty(),
    };
    if !is_right {
        return Some("its outcome".to_owned());
    }
    let malformed = matches!(truth.fault, Some(Fault::Malformed { .. }));
    let sent = truth.events.len() as u64 - u64::from(stream && malformed);
    let is_reset = matches!(truth.fault, Some(Fault::Reset { .. }));
    // A reset takes with it what was not read yet.
    let events = u64::from(row.events);
    if stream && events != sent && !(is_reset && events < sent) {
        return Some(format!("{events} events of {sent}"));
    }
    if row.malformed_events != u32::from(malformed) {
        return Some("its malformed events".to_owned());
    }
    if let Some(Fault::Status { code, retry_after_s }) = truth.fault {
        let seen = (row.status, row.retry_after);
        if seen != (Some(code), retry_after_s.map(u64::from)) {
            return Some(format!("{seen:?}"));
        }
    }
    if row.outcome == Outcome::Ok {
        let sent: u64 = truth.events.iter().map(|event| event[2]).sum();
        let factor = if truth.fault == Some(Fault::WrongUsage) { 2 } else { 1 };
        // The broken event of eight had a token that was counted all the same.
        let told = if stream && !malformed { factor * sent } else { factor * 8 };
        if (row.output_tokens, row.output_source) != (Some(told), Some(TokenSource::Usage)) {
            return Some(format!("its tokens: {told} were told"));
        }
    }
    let early = row.first_token.zip(truth.events.first()).and_then(|(mark, event)| {
        let mark = mark + start;
        let is_near = mark + EARLY_NS >= event[0] && mark <= event[1] + LATE_NS;
        (!is_near).then(|| format!("first token at {mark}, sent {event:?}"))
    });
    early.filter(|_| stream && !malformed)
}

/// Every request that the server met has come to what its truth record calls for. A request that was
/// sent again, because its connection had died idle, has as many records: the last one counts.
fn agree(rehearsed: &Rehearsed) {
    let Rehearsed { ran, summary, report, truth } = rehearsed;
    let mut met = BTreeMap::<&str, Vec<&Truth>>::new();
    for one in truth {
        met.entry(one.request_id.as_deref().unwrap()).or_default().push(one);
    }
    let mut unmet = 0;
    for row in &ran.rows {
        let Some(records) = met.get(row.request_id.as_str()) else {
            unmet += 1;
            let refused =
                row.error.is_some_and(|class| classes(Some(Fault::Refuse), true).contains(&class));
            assert!(refused && row.outcome == Outcome::Error, "never met: {row:?}");
            continue;
        };
        let (last, before) = records.split_last().unwrap();
        let is_replaced = before.iter().all(|one| one.fault == Some(Fault::CloseBefore));
        assert!(is_replaced, "sent again unasked: {row:?}, {records:?}");
        assert!(before.len() < row.attempts as usize && row.attempts <= 2, "{row:?}");
        // What replaced it may have been refused.
        let refused = row.attempts as usize > records.len()
            && row.error.is_some_and(|class| classes(Some(Fault::Refuse), true).contains(&class));
        let wrong = judged(row, last, ran.facts.start_monotonic_ns).filter(|_| !refused);
        assert_eq!(wrong, None, "{row:?}\n{last:?}");
    }
    // Both accounts have the same sums.
    let mut faults = BTreeMap::<Fault, u64>::new();
    for fault in truth.iter().filter_map(|one| one.fault) {
        *faults.entry(fault).or_default() += 1;
    }
    for (fault, &count) in report.faults.iter().filter(|(fault, _)| **fault != Fault::Refuse) {
        assert_eq!(faults.get(fault).copied().unwrap_or(0), count, "{fault}");
    }
    assert!(unmet <= report.faults.get(&Fault::Refuse).copied().unwrap_or(0));
    assert_eq!((report.requests, report.truth_dropped), (truth.len() as u64, 0));
    let whole = truth.iter().filter(|one| one.complete).count() as u64;
    assert_eq!((report.completed, report.internal_errors), (whole, 0));
    assert_eq!(report.completed + report.broken + report.aborted, report.requests);
    let counts = &summary.requests;
    assert_eq!(counts.ok + counts.failed, ran.rows.len() as u64);
    assert_eq!((counts.cancelled, counts.dropped), (0, 0));
    assert_eq!(counts.errors.values().sum::<u64>(), counts.failed);
    let attempts: u64 = ran.rows.iter().map(|row| u64::from(row.attempts) - 1).sum();
    let replaced: u64 = ran.facts.tallies.iter().map(|tally| tally.stale_replaced).sum();
    assert_eq!(attempts, replaced);
}

/// All requests have this fault.
fn all_have(fault: &str) -> Rehearsed {
    let slow = Settings { ttft: Law::Constant(40 * MS), itl: Law::Constant(5 * MS), ..settings() };
    let rehearsed = rehearse(&format!("{fault}=100%"), slow, |_| {});
    agree(&rehearsed);
    assert_eq!(rehearsed.ran.rows.len(), 6);
    let fault: Fault = fault.parse().unwrap();
    let met = rehearsed.report.faults[&fault];
    assert!(met >= 6, "{fault} met {met} requests");
    let is_ok = classes(Some(fault), true).is_empty();
    assert_eq!(rehearsed.summary.requests.ok, if is_ok { 6 } else { 0 });
    rehearsed
}

/// One test for each fault, so that the one that fails is named.
macro_rules! each {
    ($($name:ident => $($fault:literal)+;)+) => {
        $(#[test] fn $name() {
            for fault in [$($fault),+] {
                let _ = all_have(fault);
            }
        })+
    };
}

each! {
    refuse => "refuse";
    close_before => "close-before";
    status => "status:429,2s" "status:503" "status:400";
    stall_head => "stall-head";
    stall => "stall";
    reset => "reset" "reset:8";
    truncate => "truncate" "truncate:0";
    cut => "cut" "cut:8";
    error_event => "error-event" "error-event:0";
    malformed => "malformed" "malformed:7";
    empty => "empty";
    no_done => "no-done";
    drip => "drip" "drip:5,1ms";
}

#[test]
fn pings_move_no_token() {
    let Rehearsed { ran, truth, .. } = all_have("pings");
    for row in &ran.rows {
        let one = truth.iter().find(|one| one.request_id.as_deref() == Some(&row.request_id));
        // The first ping goes half-way between the head and the first token.
        let sent = one.unwrap().events[0][0];
        assert!(row.first_token.unwrap() + ran.facts.start_monotonic_ns + EARLY_NS >= sent);
        assert!(row.first_byte < row.first_token);
        assert_eq!(row.chunks.as_ref().unwrap().len(), 8);
    }
}

#[test]
fn a_connection_that_closes_after_its_answer_costs_no_request() {
    let Rehearsed { ran, summary, .. } = all_have("close-after");
    assert_eq!((summary.requests.failed, summary.client.connections), (0, 6));
    assert!(ran.rows.iter().all(|row| !row.reused || row.attempts == 2), "{:?}", ran.rows);
}

#[test]
fn a_wrong_usage_is_told_apart_by_a_count_of_our_own() {
    let _ = all_have("wrong-usage");
    let Rehearsed { ran, summary, .. } =
        rehearse("wrong-usage=100%", settings(), |load| load.text.tokenizer_chosen = true);
    for row in &ran.rows {
        assert_eq!((row.output_tokens, row.client_output_tokens), (Some(16), Some(8)));
    }
    let tokens = summary.tokens;
    assert_eq!((tokens.server_count, tokens.client_count), (Some(96), Some(48)));
}

#[test]
fn documents_fail_by_the_same_names() {
    for fault in [
        "close-before",
        "status:503",
        "stall",
        "reset",
        "truncate",
        "error-event",
        "malformed",
        "empty",
        "wrong-usage",
        "close-after",
        "drip",
    ] {
        let rehearsed = rehearse(&format!("{fault}=100%"), settings(), |load| {
            load.target.stream = false;
        });
        agree(&rehearsed);
        let is_ok = classes(Some(fault.parse().unwrap()), false).is_empty();
        assert_eq!(rehearsed.summary.requests.ok, if is_ok { 6 } else { 0 }, "{fault}");
    }
}

#[test]
fn each_request_of_many_comes_to_what_its_own_fault_calls_for() {
    let faults = "refuse=4% close-before=5% status:429,2s=4% status:503=4% stall-head=1% stall=1% \
                  reset=4% truncate=4% cut=4% error-event=4% malformed=4% empty=4% no-done=4% \
                  wrong-usage=4% close-after=5% pings=4% drip=4%";
    let quick = Settings { ttft: Law::Constant(5 * MS), itl: Law::Constant(MS), ..settings() };
    let rehearsed = rehearse(faults, quick, |load| {
        load.load = closed(16);
        load.stop = requests(600);
        *load = on_reactors(load.clone(), 2);
    });
    agree(&rehearsed);
    let Rehearsed { ran, summary, report, .. } = rehearsed;
    assert_eq!(ran.rows.len(), 600);
    assert!(report.faults.values().all(|&count| count > 0), "{:?}", report.faults);
    let ok = summary.requests.ok;
    assert!((300..500).contains(&ok), "{ok} are ok");
    // Their times are those of the good ones alone.
    assert_eq!(summary.latency.ttft.count, ok);
}

/// What a request may come to whose server dies.
const OF_A_DEATH: [ErrorClass; 5] =
    [ConnectRefused, ConnReset, ConnClosedEarly, BodyTruncated, StreamTruncated];

#[test]
fn a_server_that_dies_ends_no_request_without_a_word() {
    for reactors in [1, 2] {
        // On a busy host it may die before anything was sent.
        let some_were_in_flight = (0..20).any(|_| died_in_flight(reactors) > 0);
        assert!(some_were_in_flight);
    }
}

/// Requests whose answers had begun when their server died.
fn died_in_flight(reactors: usize) -> usize {
    let slow = Settings { itl: Law::Constant(20 * MS), ..settings() };
    let sim = Sim::start(slow);
    let stop = Stop {
        requests: None,
        duration_ns: Some(800 * MS),
        sessions: None,
        warmup: Warmup::None,
        drain_ns: 10_000 * MS,
        until: None,
    };
    let load = on_reactors(workload(sim.address(), closed(8), stop), reactors);
    let running = std::thread::spawn(move || (carry_out(&load), load));
    std::thread::sleep(Duration::from_millis(250));
    let (report, truth) = sim.stop();
    let (ran, load) = running.join().unwrap();
    let wall = ran.facts.end - ran.facts.window_start;
    // It takes no drain: nothing is left in flight.
    assert!(wall < 4_000 * MS, "{} ms", wall / MS);
    let ids: BTreeSet<&str> = ran.rows.iter().map(|row| row.request_id.as_str()).collect();
    assert_eq!(ids.len(), ran.rows.len(), "one row each");
    let lost = truth.iter().find(|one| !ids.contains(one.request_id.as_deref().unwrap()));
    assert_eq!(lost, None, "every request that the server read has a row");
    let mut died = 0;
    for row in &ran.rows {
        match row.error {
            None => assert_eq!(row.outcome, Outcome::Ok, "{row:?}"),
            Some(class) => {
                assert!(OF_A_DEATH.contains(&class), "{row:?}");
                died += usize::from(row.first_byte.is_some());
            }
        }
    }
    let counts = summarize(&load, &ran.facts, ran.rows.clone()).requests;
    assert_eq!((counts.offered, counts.censored), (ran.rows.len() as u64, 0));
    assert_eq!(counts.ok, report.completed);
    assert!(counts.errors.contains_key("connect_refused"), "{:?}", counts.errors);
    died
}

/// Waits until there are so many records.
fn leaves(dir: &Path, records: usize) {
    for _ in 0..400 {
        let some = std::fs::read_to_string(dir.join("out/requests.jsonl"));
        if some.is_ok_and(|text| text.lines().count() >= records) {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("the run did not get anywhere");
}

#[test]
fn the_command_says_5_of_a_server_that_died() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    let url = format!("http://{}", sim.address());
    let child =
        tokclock(dir.path(), &url, &["--duration", "2s", "--concurrency", "4", "--osl", "4"])
            .spawn()
            .unwrap();
    leaves(dir.path(), 8);
    let (report, _) = sim.stop();
    let output = child.wait_with_output().unwrap();
    exits_with(&output, 5);
    let rows = rows(&dir.path().join("out"));
    let counts = &summary(dir.path())["requests"];
    assert_eq!(counts["offered"], rows.len());
    assert_eq!(counts["ok"], report.completed);
    assert_eq!(
        counts["ok"].as_u64().unwrap() + counts["failed"].as_u64().unwrap(),
        rows.len() as u64
    );
    assert!(counts["errors"]["connect_refused"].as_u64().unwrap() > 0, "{counts}");
}
