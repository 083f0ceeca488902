//! The serving model under the real clock: what leaves when, who is refused, what is told of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use crate::client::{Client, chat, request};
use crate::timing::{CHAT, MS, allowed_cpu, load, records};
use tokclock_sim::serving::{Serving, ServingSettings, WhenFull};
use tokclock_sim::{Record, Report, Server, Settings, SimError};

/// Prompt tokens of [`chat`].
const INPUT: u32 = 3;

/// A server with this model, and its truth log at `truth`.
fn settings(serving: ServingSettings, truth: Option<&Path>) -> Settings {
    let truth = truth.map(Path::to_owned);
    Settings { serving: Some(serving), truth, ..Settings::default() }
}

/// Short steps, so that tests are.
fn quick() -> ServingSettings {
    ServingSettings {
        step_base_ns: 3 * MS,
        step_per_request_ns: MS / 10,
        prefill_rate: 1_000,
        ..ServingSettings::default()
    }
}

/// When the model has each token of these requests due, of which none left early.
fn replayed(serving: &ServingSettings, records: &[Record], output: u32) -> BTreeMap<u64, Vec<u64>> {
    let mut serving = Serving::new(serving);
    let mut due: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut take =
        |token: tokclock_sim::serving::Emitted| due.entry(token.id).or_default().push(token.at_ns);
    for record in records {
        serving.advance(record.read_ns, &mut take);
        serving.arrive(record.read_ns, record.number, INPUT, output);
    }
    while let Some(end_ns) = serving.next_ns() {
        serving.advance(end_ns, &mut take);
    }
    due
}

#[test]
fn tokens_leave_when_the_model_has_them_due() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    // Two at once, so that some wait, and prompts in two chunks, so that some share steps.
    let model = ServingSettings { max_batch: 2, prefill_chunk: 2, ..quick() };
    let server = Server::start(&settings(model.clone(), Some(&path))).unwrap();
    load(&server, 4, 3, 8);
    let report = server.stop();
    assert_eq!((report.completed, report.truth_dropped, report.internal_errors), (12, 0, 0));
    assert_eq!((report.peak_in_flight, report.lateness.count), (2, 12 * 8));
    let records = records(&path);
    let due = replayed(&model, &records, 8);
    let mut prompt = 0;
    for record in &records {
        let due = &due[&record.number];
        assert!(record.complete && record.started_ns >= Some(record.read_ns));
        assert_eq!(record.events.len(), due.len());
        for (at, (event, due)) in record.events.iter().zip(due).enumerate() {
            assert!(event[0] >= *due, "{} ns early: {at} of {record:?}", due - event[0]);
            prompt += usize::from(event[0] < due + 3 * MS);
        }
    }
    // Some are late on a busy host; if all were, they would leave a step after they are due.
    assert!(prompt > 12 * 8 / 2, "{prompt} of {} before the next step ends", 12 * 8);
}

#[test]
fn one_request_alone_has_the_times_of_the_formula() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    let server = Server::start(&settings(quick(), Some(&path))).unwrap();
    assert_eq!(Client::new(server.address()).post(CHAT, &chat(5)).texts().len(), 5);
    server.stop();
    let record = &records(&path)[0];
    assert_eq!(record.started_ns, Some(record.read_ns), "the engine was idle");
    // 3 ms and 3 tokens at 1000/s; then 3.1 ms each.
    let due = (0..5).map(|at| record.read_ns + 6 * MS + at * 31 * MS / 10);
    assert!(due.zip(&record.events).all(|(due, event)| event[0] >= due), "{record:?}");
    assert_eq!(replayed(&quick(), std::slice::from_ref(record), 5)[&0][0], record.read_ns + 6 * MS);
}

#[test]
fn a_whole_answer_and_larger_events_come_with_their_last_token() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    let larger = Settings { tokens_per_event: 4, ..settings(quick(), Some(&path)) };
    let server = Server::start(&larger).unwrap();
    let mut client = Client::new(server.address());
    assert_eq!(client.post(CHAT, &chat(6)).texts(), [" hello".repeat(4), " hello".repeat(2)]);
    let whole = client.post("/v1/completions", r#"{"prompt":"a b c","max_tokens":6}"#).json();
    assert_eq!(whole["usage"]["completion_tokens"], 6);
    assert_eq!(server.stop().tokens, 12);
    let records = records(&path);
    let due = replayed(&quick(), &records, 6);
    assert_eq!(records[0].events.iter().map(|event| event[2]).collect::<Vec<_>>(), [4, 2]);
    assert!(records[0].events[0][0] >= due[&0][3] && records[0].events[1][0] >= due[&0][5]);
    assert!(records[1].tail.unwrap()[0] >= due[&1][5]);
}

#[test]
fn threads_share_one_model() {
    let model = ServingSettings { max_batch: 2, ..quick() };
    let cpus = vec![allowed_cpu(); 3];
    let server = Server::start(&Settings { cpus, ..settings(model, None) }).unwrap();
    load(&server, 9, 4, 5);
    let report = server.stop();
    assert_eq!((report.completed, report.tokens, report.peak_in_flight), (36, 180, 2));
    assert!(report.peak_waiting >= 3, "{report:?}");
    assert_eq!(report.internal_errors + report.refused + report.aborted, 0);
}

/// A stream that goes on for long, with its first token read.
fn long_stream(server: &Server) -> Client {
    let mut client = Client::new(server.address());
    client.send(request(CHAT, &chat(100_000)).as_bytes());
    client.head();
    for _ in 0..2 {
        client.chunk().unwrap();
    }
    client
}

#[test]
fn what_finds_no_room_is_refused_with_503() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.jsonl");
    let model = ServingSettings { max_batch: 1, when_full: WhenFull::Refuse, ..quick() };
    let server = Server::start(&settings(model, Some(&path))).unwrap();
    let long = long_stream(&server);
    let mut client = Client::new(server.address());
    for stream in [chat(5), r#"{"messages":[],"max_tokens":5}"#.to_owned()] {
        let refused = client.post(CHAT, &stream);
        assert_eq!((refused.status, refused.header("retry-after").as_deref()), (503, Some("1")));
        assert_eq!(refused.json()["error"]["type"], "server_error");
        assert!(refused.json()["error"]["message"].as_str().unwrap().contains("full"));
    }
    drop(long);
    let never = client.post(CHAT, &chat(1_000_000));
    assert_eq!((never.status, never.header("retry-after")), (400, None));
    let report = server.stop();
    assert_eq!((report.requests, report.refused), (4, 3));
    assert_eq!((report.completed, report.broken), (0, 0));
    let records = records(&path);
    for refused in &records[1..] {
        assert!(!refused.complete && refused.tail.is_some() && refused.fault.is_none());
        assert_eq!((refused.started_ns, refused.events.len()), (None, 0));
    }
}

/// The value of a series of `/metrics`.
fn metric(client: &mut Client, name: &str) -> f64 {
    let answer = client.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let value = answer.body.lines().find_map(|line| line.strip_prefix(name)?.split_once("} "));
    value.unwrap_or_else(|| panic!("no {name} in\n{}", answer.body)).1.parse().unwrap()
}

#[test]
fn a_client_that_goes_away_frees_its_place_and_its_cache() {
    let model = ServingSettings { max_batch: 1, kv_tokens: 200_000, ..quick() };
    let server = Server::start(&settings(model, None)).unwrap();
    let long = long_stream(&server);
    let mut stayer = Client::new(server.address());
    stayer.send(request(CHAT, &chat(2)).as_bytes());
    stayer.head();
    let mut scraper = Client::new(server.address());
    assert_eq!(metric(&mut scraper, "vllm:num_requests_running"), 1.0);
    assert_eq!(metric(&mut scraper, "vllm:num_requests_waiting"), 1.0);
    assert_eq!(metric(&mut scraper, "vllm:kv_cache_usage_perc"), 100_003.0 / 200_000.0);
    drop(long);
    while stayer.chunk().is_some() {}
    // Its end is read, but the server may still be about to book it.
    while metric(&mut scraper, "vllm:num_requests_running") != 0.0 {
        thread::yield_now();
    }
    assert_eq!(metric(&mut scraper, "vllm:kv_cache_usage_perc"), 0.0);
    assert_eq!(metric(&mut scraper, "vllm:prompt_tokens_total"), 6.0);
    assert!(metric(&mut scraper, "vllm:generation_tokens_total") >= 3.0);
    assert_eq!(metric(&mut scraper, "tokclock_sim_refused_total"), 0.0);
    let report = server.stop();
    assert_eq!((report.requests, report.completed, report.aborted), (2, 1, 1));
}

#[test]
fn metrics_are_told_without_a_model_too() {
    let one = Settings {
        itl: "1ms".parse().unwrap(),
        max_concurrent: Some(1),
        model: "sim".into(),
        ..Settings::default()
    };
    let server = Server::start(&one).unwrap();
    let _long = long_stream(&server);
    let mut waiter = Client::new(server.address());
    waiter.send(request(CHAT, &chat(2)).as_bytes());
    waiter.head();
    let mut scraper = Client::new(server.address());
    assert_eq!(metric(&mut scraper, r#"vllm:num_requests_running{model_name="sim""#), 1.0);
    assert_eq!(metric(&mut scraper, "vllm:num_requests_waiting"), 1.0);
    assert_eq!(metric(&mut scraper, "vllm:prompt_tokens_total"), 3.0);
    assert!(metric(&mut scraper, "vllm:generation_tokens_total") >= 1.0);
    assert!(!scraper.get("/metrics").body.contains("kv_cache_usage_perc"), "there is no cache");
    assert_eq!(scraper.post("/metrics", "{}").status, 405);
}

/// What a server reports after `requests` streams of 6 tokens with this fault, each on its own
/// connection; `read` takes what comes.
fn faulty(fault: &str, requests: u32, read: impl Fn(&mut Client)) -> Report {
    let model = ServingSettings { max_batch: 1, ..quick() };
    let faults = format!("{fault}=100%").parse().unwrap();
    let server = Server::start(&Settings { faults, ..settings(model, None) }).unwrap();
    for _ in 0..requests {
        let mut client = Client::new(server.address());
        client.send(request(CHAT, &chat(6)).as_bytes());
        read(&mut client);
    }
    server.stop()
}

#[test]
fn faults_strike_at_the_models_times_and_free_the_place() {
    let report = faulty("reset:2", 3, |client| {
        let (text, _) = client.rest();
        // What a reset takes along may be any of it.
        assert!(text.matches("hello").count() <= 2);
    });
    assert_eq!((report.broken, report.completed), (3, 0));
    let report = faulty("cut:2", 3, |client| {
        assert_eq!(client.answer().chunks.len(), 1 + 2, "role and two tokens");
    });
    assert_eq!((report.broken, report.tokens), (3, 6));
    let report = faulty("pings", 2, |client| {
        let chunks = client.answer().chunks;
        assert_eq!(chunks.iter().filter(|chunk| *chunk == ": ping\n\n").count(), 6);
        assert_eq!(chunks.len(), 1 + 6 + 6 + 2);
    });
    assert_eq!((report.completed, report.tokens), (2, 12));
    let report = faulty("status:429", 3, |client| assert_eq!(client.answer().status, 429));
    assert_eq!((report.broken, report.peak_in_flight), (3, 0), "they were not admitted");
    let report = faulty("empty", 2, |client| assert_eq!(client.answer().chunks.len(), 0));
    assert_eq!((report.broken, report.tokens), (2, 0));
}

#[test]
fn a_model_and_laws_exclude_each_other() {
    let both = Settings { ttft: "1ms".parse().unwrap(), ..settings(quick(), None) };
    match Server::start(&both) {
        Err(SimError::Setting(said)) => assert!(said.contains("ttft") && said.contains("serving")),
        other => panic!("{other:?}"),
    }
}
