//! What the server keeps to itself and logs: schedules, limits, aborts, the truth log.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::client::{Client, chat, request};
use tokclock_sim::{Record, Server, Settings};

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn records(path: &Path) -> Vec<Record> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut records: Vec<Record> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.sort_by_key(|record| record.number);
    records
}

/// Chunks of a chat stream: role, tokens, finish, `[DONE]`.
fn chunks(tokens: u32) -> usize {
    tokens as usize + 3
}

/// Runs `clients` connections with `requests` chat streams each, one after the other.
pub(crate) fn load(server: &Server, clients: u32, requests: u32, tokens: u32) {
    let address = server.address();
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(move || {
                let mut client = Client::new(address);
                for _ in 0..requests {
                    assert_eq!(client.post(CHAT, &chat(tokens)).chunks.len(), chunks(tokens));
                }
            });
        }
    });
}

#[test]
fn the_truth_log_is_consistent_and_nothing_leaves_early() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    let settings = Settings {
        ttft: "20ms".parse().unwrap(),
        ttst: Some("7ms".parse().unwrap()),
        itl: "3ms".parse().unwrap(),
        truth: Some(path.clone()),
        ..Settings::default()
    };
    let server = Server::start(&settings).unwrap();
    load(&server, 4, 3, 6);
    let report = server.stop();
    assert_eq!((report.completed, report.truth_dropped, report.truth_error), (12, 0, None));
    assert_eq!(report.lateness.count, 12 * 6);
    let records = records(&path);
    assert_eq!(records.len(), 12);
    // Streams run side by side; a driver that is waited for wrongly would serialise them.
    assert!(records.iter().any(|record| record.in_flight > 1));
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.number, number as u64);
        assert!(record.complete && record.stream);
        assert!((1..=4).contains(&record.in_flight));
        assert_eq!(record.body_hash, records[0].body_hash);
        assert!(record.arrived_ns.is_none_or(|arrived| arrived <= record.read_ns));
        assert_eq!(record.started_ns, Some(record.read_ns));
        let (head, tail) = (record.head.unwrap(), record.tail.unwrap());
        assert!(record.read_ns <= head[0]);
        let mut sends = vec![head];
        sends.extend(record.events.iter().map(|event| [event[0], event[1]]));
        sends.push(tail);
        assert!(sends.iter().all(|send| send[0] <= send[1]));
        assert!(sends.windows(2).all(|pair| pair[0][1] <= pair[1][0]), "in order: {sends:?}");
        let due = [20, 27, 30, 33, 36, 39].map(|ms| record.read_ns + ms * MS);
        assert_eq!(record.events.len(), due.len());
        for (event, due) in record.events.iter().zip(due) {
            assert!(event[0] >= due, "{} ns early", due - event[0]);
            assert_eq!(event[2], 1);
        }
    }
}

#[test]
fn a_full_server_serves_no_more_than_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    let settings = Settings {
        ttft: "5ms".parse().unwrap(),
        itl: "1ms".parse().unwrap(),
        max_concurrent: Some(3),
        truth: Some(path.clone()),
        ..Settings::default()
    };
    let server = Server::start(&settings).unwrap();
    load(&server, 10, 4, 5);
    let report = server.stop();
    assert_eq!(report.completed, 40);
    assert_eq!(report.peak_in_flight, 3);
    assert!(report.peak_waiting >= 1 && report.peak_waiting <= 7);
    let mut records = records(&path);
    let starts: Vec<u64> = records.iter().map(|record| record.started_ns.unwrap()).collect();
    assert!(starts.is_sorted(), "first come first served");
    assert!(records.iter().any(|record| record.started_ns > Some(record.read_ns)));
    // At each start at most the limit is between start and tail.
    records.sort_by_key(|record| record.started_ns);
    for record in &records {
        let now = record.started_ns.unwrap();
        let served = records
            .iter()
            .filter(|other| other.started_ns.unwrap() <= now && other.tail.unwrap()[0] > now);
        assert!(served.count() <= 3);
    }
}

#[test]
fn a_limit_holds_across_threads() {
    let settings = Settings {
        cpus: vec![allowed_cpu(); 3],
        itl: "1ms".parse().unwrap(),
        max_concurrent: Some(2),
        ..Settings::default()
    };
    let server = Server::start(&settings).unwrap();
    load(&server, 9, 5, 3);
    let report = server.stop();
    assert_eq!((report.completed, report.peak_in_flight), (45, 2));
    assert_eq!(report.internal_errors, 0);
}

/// A CPU this process may run on.
pub(crate) fn allowed_cpu() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().parse().unwrap()
}

#[test]
fn a_client_that_goes_away_frees_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    let settings = Settings {
        ttft: "1ms".parse().unwrap(),
        itl: "2ms".parse().unwrap(),
        max_concurrent: Some(1),
        truth: Some(path.clone()),
        ..Settings::default()
    };
    let server = Server::start(&settings).unwrap();
    let mut leaver = Client::new(server.address());
    leaver.send(request(CHAT, &chat(1_000_000)).as_bytes());
    leaver.head();
    for _ in 0..4 {
        leaver.chunk().unwrap();
    }
    // One that gives up in the queue, and one that stays.
    let mut waiter = Client::new(server.address());
    waiter.send(request(CHAT, &chat(5)).as_bytes());
    waiter.head();
    let mut stayer = Client::new(server.address());
    stayer.send(request(CHAT, &chat(2)).as_bytes());
    let head = stayer.head();
    assert!(head[0].contains("200"), "the head comes while it waits");
    drop(waiter);
    // Long enough for the server to see it, usually; the assertions hold either way.
    thread::sleep(Duration::from_millis(20));
    drop(leaver);
    while stayer.chunk().is_some() {}
    let report = server.stop();
    assert_eq!((report.requests, report.completed, report.aborted), (3, 1, 2));
    let records = records(&path);
    assert!(!records[0].complete && records[0].events.len() >= 3);
    assert!(!records[1].complete && records[1].events.is_empty());
    assert!(records[2].complete);
}

#[test]
fn a_seed_reproduces_every_draw() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    let settings = Settings {
        ttft: "uniform:1ms,20ms".parse().unwrap(),
        itl: "uniform:1ms,20ms".parse().unwrap(),
        seed: 42,
        truth: Some(path.clone()),
        ..Settings::default()
    };
    let server = Server::start(&settings).unwrap();
    load(&server, 1, 2, 5);
    server.stop();
    let timing = tokclock_sim::Timing::new(&settings);
    for record in records(&path) {
        let due: Vec<u64> = timing
            .schedule(record.number, 5, record.started_ns.unwrap())
            .map(|event| event.due_ns)
            .collect();
        assert_eq!(record.events.len(), due.len());
        for (event, due) in record.events.iter().zip(due) {
            assert!(event[0] >= due);
        }
    }
    let other = tokclock_sim::Timing::new(&Settings { seed: 43, ..settings });
    let first = |timing: &tokclock_sim::Timing| timing.schedule(0, 1, 0).peek().unwrap().due_ns;
    assert_ne!(first(&timing), first(&other));
}

#[test]
fn a_long_stream_without_delay_arrives_whole() {
    for events_per_write in [1, 64] {
        let settings = Settings { events_per_write, ..Settings::default() };
        let server = Server::start(&settings).unwrap();
        load(&server, 2, 1, 100_000);
        let report = server.stop();
        assert_eq!((report.completed, report.tokens), (2, 200_000));
        assert_eq!(report.lateness.count, 2, "only first tokens have a time to be late for");
    }
}

#[test]
fn a_client_that_reads_late_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    let settings =
        Settings { events_per_write: 64, truth: Some(path.clone()), ..Settings::default() };
    let server = Server::start(&settings).unwrap();
    let mut sleeper = Client::new(server.address());
    sleeper.send(request(CHAT, &chat(100_000)).as_bytes());
    sleeper.head();
    // Others are served while its socket is full.
    load(&server, 2, 3, 50);
    let mut seen = 0;
    while sleeper.chunk().is_some() {
        seen += 1;
    }
    assert_eq!(seen, chunks(100_000));
    let report = server.stop();
    assert!(report.blocked_sends > 0);
    assert_eq!(report.completed, 7);
    let records = records(&path);
    assert_eq!(records[0].events.len(), 100_000);
    assert!(records[0].events.is_sorted_by_key(|event| event[0]));
}

#[test]
fn streams_share_the_server_instead_of_queuing_for_it() {
    // One stream that is always due must not hold up one with a schedule: without fairness the
    // second would end only after the first.
    let settings = Settings { events_per_write: 1, ..Settings::default() };
    let server = Server::start(&settings).unwrap();
    let mut long = Client::new(server.address());
    long.send(request(CHAT, &chat(5_000_000)).as_bytes());
    let reader = thread::spawn(move || {
        long.head();
        let mut seen = 0u32;
        while seen < 5_000 && long.chunk().is_some() {
            seen += 1;
        }
        (long, seen)
    });
    load(&server, 1, 3, 10);
    let (long, seen) = reader.join().unwrap();
    assert_eq!(seen, 5_000);
    drop(long);
    let report = server.stop();
    assert_eq!((report.completed, report.requests), (3, 4));
}
