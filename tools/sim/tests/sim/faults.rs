//! Faults on purpose: the bytes of every kind, whom they meet, what the server says of them.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use crate::client::{Client, End, chat, request};
use tokclock_sim::{Fault, Faults, Record, Report, Server, Settings, Timing};

const CHAT: &str = "/v1/chat/completions";
const DOCUMENT: &str = r#"{"max_tokens":4,"messages":[{"role":"user","content":"one two"}]}"#;

/// A server with its truth log.
struct Faulty {
    server: Server,
    directory: tempfile::TempDir,
}

impl Faulty {
    fn start(faults: &str) -> (Self, Client) {
        Self::with(Settings { faults: faults.parse().unwrap(), ..Settings::default() })
    }

    fn with(settings: Settings) -> (Self, Client) {
        let directory = tempfile::tempdir().unwrap();
        let truth = Some(directory.path().join("truth.jsonl"));
        let server = Server::start(&Settings { truth, ..settings }).unwrap();
        let client = Client::new(server.address());
        (Self { server, directory }, client)
    }

    /// Its report, and its log by number.
    fn stop(self) -> (Report, Vec<Record>) {
        let report = self.server.stop();
        let text = std::fs::read_to_string(self.directory.path().join("truth.jsonl")).unwrap();
        let mut records: Vec<Record> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        records.sort_by_key(|record| record.number);
        assert_eq!((report.internal_errors, report.truth_dropped), (0, 0));
        (report, records)
    }

    /// The same of a server that served one request; the fault it met is checked.
    fn stop_after_one(self, fault: &str) -> (Report, Record) {
        let (report, mut records) = self.stop();
        let fault: Fault = fault.parse().unwrap();
        assert_eq!((report.requests, records.len()), (1, 1));
        assert_eq!(records[0].fault, Some(fault));
        assert_eq!(report.faults[&fault], 1);
        (report, records.remove(0))
    }
}

/// A whole chat stream of so many tokens, chunk by chunk, as a server without faults sends it; the
/// time in it is made equal.
fn whole_stream(tokens: u32) -> Vec<String> {
    let (_server, mut client) = Faulty::start("");
    timeless(&client.post(CHAT, &chat(tokens)).chunks)
}

/// Chunks without the second in which they were made.
fn timeless(chunks: &[String]) -> Vec<String> {
    let strip = |chunk: &String| match chunk.split_once("\"created\":") {
        Some((before, after)) => {
            before.to_owned() + after.trim_start_matches(|c: char| c.is_ascii_digit())
        }
        None => chunk.clone(),
    };
    chunks.iter().map(strip).collect()
}

/// Sends a stream of 6 tokens that `fault` meets.
fn ask(fault: &str) -> (Faulty, Client) {
    let (server, mut client) = Faulty::start(&format!("{fault}=100%"));
    client.send(request(CHAT, &chat(6)).as_bytes());
    (server, client)
}

/// Reads a head, the role event and so many tokens; they are as in a whole stream.
fn read_tokens(client: &mut Client, tokens: usize) {
    assert!(client.head()[0].contains("200"));
    let chunks: Vec<String> = (0..=tokens).map(|_| client.chunk().unwrap()).collect();
    assert_eq!(timeless(&chunks), whole_stream(6)[..=tokens]);
}

#[test]
fn a_refused_connection_is_reset_when_it_is_accepted() {
    let faults = "refuse=100%".parse().unwrap();
    let server = Server::start(&Settings { faults, ..Settings::default() }).unwrap();
    // The reset may come so soon that even connecting fails.
    let read = TcpStream::connect(server.address()).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.read(&mut [0])
    });
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let report = server.stop();
    assert_eq!((report.requests, report.broken), (0, 0));
    assert_eq!(report.faults[&Fault::Refuse], 1);
}

#[test]
fn a_connection_can_close_before_any_byte() {
    let (server, mut client) = ask("close-before");
    assert_eq!(client.rest(), (String::new(), End::Closed));
    let (report, record) = server.stop_after_one("close-before");
    assert_eq!((report.completed, report.aborted, report.broken), (0, 0, 1));
    assert_eq!((record.complete, record.head, record.started_ns), (false, None, None));
    assert!(record.tail.is_some());
}

#[test]
fn a_status_comes_at_once_and_the_connection_goes_on() {
    let settings = Settings {
        ttft: "3600s".parse().unwrap(),
        faults: "status:429,2s=100%".parse().unwrap(),
        ..Settings::default()
    };
    let (server, mut client) = Faulty::with(settings);
    let answer = client.post(CHAT, &chat(6));
    assert_eq!(answer.status, 429);
    assert_eq!(answer.head[0], "http/1.1 429 too many requests");
    assert_eq!(answer.header("retry-after").unwrap(), "2");
    assert_eq!(answer.header("content-type").unwrap(), "application/json");
    let error = &answer.json()["error"];
    assert_eq!(error["code"], "rate_limit_exceeded");
    assert!(error["message"].is_string() && error["type"].is_string());
    assert_eq!(client.get("/health").status, 200);
    let (report, record) = server.stop_after_one("status:429,2s");
    assert_eq!((report.broken, report.peak_in_flight), (1, 0));
    assert!(record.head.is_some() && record.tail.is_some() && !record.complete);

    let (server, mut client) = Faulty::start("status:503=100%");
    let text = request(CHAT, DOCUMENT).replace("host: test", "connection: close");
    client.send(text.as_bytes());
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("retry-after")), (503, None));
    assert_eq!(answer.json()["error"]["code"], "server_error");
    assert!(client.is_closed());
    server.stop_after_one("status:503");
}

#[test]
fn a_stall_sends_nothing_more_until_the_client_leaves() {
    let (server, mut client) = ask("stall-head");
    assert!(client.is_silent());
    drop(client);
    let (_, record) = server.stop_after_one("stall-head");
    assert_eq!((record.head, record.complete), (None, false));

    for (fault, tokens) in [("stall", 3), ("stall:2", 2), ("stall:0", 0), ("stall:99", 6)] {
        let (server, mut client) = ask(fault);
        read_tokens(&mut client, tokens);
        assert!(client.is_silent());
        let (_, record) = server.stop_after_one(fault);
        assert_eq!((record.events.len(), record.complete, record.tail), (tokens, false, None));
    }
}

#[test]
fn a_stalled_request_holds_its_place_and_one_turned_away_has_none() {
    let faults: Faults = "stall=30% status:503=30%".parse().unwrap();
    let of = |seed, number| faults.of_request(seed, number).map(|fault| fault.to_string());
    let wanted = [Some("status:503"), Some("stall"), None].map(|fault| fault.map(str::to_owned));
    let seed = (0..).find(|seed| (0..3).all(|number| of(*seed, number) == wanted[number as usize]));
    let settings =
        Settings { faults, max_concurrent: Some(1), seed: seed.unwrap(), ..Settings::default() };
    let (server, mut first) = Faulty::with(settings);
    assert_eq!(first.post(CHAT, &chat(2)).status, 503);
    let mut stalled = Client::new(server.server.address());
    stalled.send(request(CHAT, &chat(2)).as_bytes());
    stalled.head();
    assert!(stalled.chunk().is_some() && stalled.chunk().is_some());
    let mut waiter = Client::new(server.server.address());
    waiter.send(request(CHAT, &chat(2)).as_bytes());
    waiter.head();
    assert!(waiter.chunk().is_some(), "the role event does not wait");
    assert!(waiter.is_silent());
    drop(stalled);
    assert!((0..300).any(|_| !waiter.is_silent()), "its token comes within 30 s");
    drop(waiter);
    let (report, records) = server.stop();
    assert_eq!((report.broken, report.peak_in_flight, report.peak_waiting), (1, 1, 1));
    assert!(records[1].fault.is_some() && !records[1].complete);
    assert!(!records[2].events.is_empty());
}

#[test]
fn a_reset_comes_in_mid_stream() {
    let (server, mut client) = ask("reset:2");
    read_tokens(&mut client, 2);
    assert_eq!(client.rest(), (String::new(), End::Reset));
    let (report, record) = server.stop_after_one("reset:2");
    assert_eq!((report.broken, report.aborted), (1, 0));
    assert_eq!((record.events.len(), record.complete), (2, false));
    assert!(record.tail.is_some());
}

#[test]
fn a_truncated_stream_ends_within_a_chunk() {
    let (server, mut client) = ask("truncate:2");
    read_tokens(&mut client, 2);
    let (text, end) = client.rest();
    assert_eq!(end, End::Closed);
    let (size, rest) = text.split_once("\r\n").unwrap();
    let promised = usize::from_str_radix(size, 16).unwrap();
    assert!(rest.starts_with("data: {") && rest.len() < promised);
    server.stop_after_one("truncate:2");
}

#[test]
fn a_cut_stream_ends_whole_but_for_its_meaning() {
    let (server, mut client) = ask("cut:2");
    let answer = client.answer();
    assert_eq!(timeless(&answer.chunks), whole_stream(6)[..3]);
    assert_eq!(client.get("/health").status, 200, "the connection goes on");
    let (report, _) = server.stop_after_one("cut:2");
    assert_eq!((report.completed, report.broken, report.tokens), (0, 1, 2));
}

#[test]
fn an_answer_behind_a_broken_one_still_comes() {
    let (server, mut client) = Faulty::start("cut:1=100%");
    client.send(request(CHAT, &chat(6)).repeat(2).as_bytes());
    assert_eq!([client.answer().chunks.len(), client.answer().chunks.len()], [2, 2]);
    assert_eq!(server.stop().0.broken, 2);
}

#[test]
fn one_event_can_be_malformed_and_the_stream_goes_on() {
    let (server, mut client) = ask("malformed:2");
    let chunks = client.answer().chunks;
    let mut whole = whole_stream(6);
    let broken = chunks[3].strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(broken).is_err() && broken.starts_with('{'));
    whole.remove(3);
    let mut others = timeless(&chunks);
    others.remove(3);
    assert_eq!(others, whole);
    let (report, record) = server.stop_after_one("malformed:2");
    assert_eq!((report.completed, report.tokens), (1, 5));
    let tokens: Vec<u64> = record.events.iter().map(|event| event[2]).collect();
    assert_eq!((tokens.as_slice(), record.complete), ([1, 1, 0, 1, 1, 1].as_slice(), true));
}

#[test]
fn a_dripped_answer_is_the_same_in_small_pieces() {
    let (server, mut client) = ask("drip:40,300us");
    let answer = client.answer();
    assert_eq!(timeless(&answer.chunks), whole_stream(6));
    assert_eq!(client.get("/health").status, 200);
    let (report, record) = server.stop_after_one("drip:40,300us");
    assert_eq!((report.completed, report.lateness.count), (1, 0), "its lateness is meant");
    for (event, chunk) in record.events.iter().zip(&answer.chunks[1..]) {
        let pieces = chunk.len() as u64 / 40;
        assert!(event[1] - event[0] >= (pieces - 1) * 300_000, "{event:?}");
    }
    let document = Faulty::start("drip:7,0s=100%").1.post(CHAT, DOCUMENT);
    assert_eq!(document.json()["usage"]["completion_tokens"], 4);
}

#[test]
fn comments_go_between_events_and_before_the_first() {
    let settings = Settings {
        ttft: "2ms".parse().unwrap(),
        itl: "1ms".parse().unwrap(),
        faults: "pings=100%".parse().unwrap(),
        ..Settings::default()
    };
    let (server, mut client) = Faulty::with(settings.clone());
    let chunks = timeless(&client.post(CHAT, &chat(6)).chunks);
    let mut expected = Vec::new();
    for (at, chunk) in whole_stream(6).into_iter().enumerate() {
        if (1..=6).contains(&at) {
            expected.push(": ping\n\n".to_owned());
        }
        expected.push(chunk);
    }
    assert_eq!(chunks, expected);
    let (report, record) = server.stop_after_one("pings");
    assert_eq!(report.completed, 1);
    let due = Timing::new(&settings).schedule(0, 6, record.started_ns.unwrap());
    for (event, due) in record.events.iter().zip(due) {
        assert!(event[0] >= due.due_ns);
    }
}

#[test]
fn an_error_can_come_inside_the_stream() {
    let (server, mut client) = ask("error-event:2");
    let answer = client.answer();
    assert_eq!(answer.status, 200);
    assert_eq!(timeless(&answer.chunks)[..3], whole_stream(6)[..3]);
    let events = answer.events();
    assert_eq!(events.len(), 4);
    assert_eq!(events[3]["error"]["type"], "server_error");
    server.stop_after_one("error-event:2");
}

#[test]
fn usage_can_be_wrong_where_it_is_told() {
    let (server, mut client) = Faulty::start("wrong-usage=100%");
    let asks = r#"{"stream":true,"max_tokens":3,"prompt":"a b",
        "stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;
    let events = client.post("/v1/completions", asks).events();
    let told: Vec<u64> =
        events.iter().map(|event| event["usage"]["completion_tokens"].as_u64().unwrap()).collect();
    assert_eq!(told, [2, 4, 6, 6, 6]);
    assert_eq!(client.post(CHAT, DOCUMENT).json()["usage"]["total_tokens"], 2 + 8);
    assert_eq!(timeless(&client.post(CHAT, &chat(6)).chunks).len(), 9);
    let (report, records) = server.stop();
    assert_eq!((report.completed, report.tokens), (3, 13));
    assert_eq!(report.faults[&Fault::WrongUsage], 2, "the last told no usage");
    assert_eq!(records[2].fault, None);
}

#[test]
fn a_connection_can_close_after_an_answer_that_did_not_say_so() {
    for body in [&chat(6), DOCUMENT] {
        let (server, mut client) = Faulty::start("close-after=100%");
        let answer = client.post(CHAT, body);
        assert_eq!(answer.header("connection"), None);
        assert!(client.is_closed());
        let (report, record) = server.stop_after_one("close-after");
        assert_eq!((report.completed, record.complete), (1, true));
    }
    let (server, mut client) = Faulty::start("close-after=100%");
    let text = request(CHAT, DOCUMENT).replace("host: test", "connection: close");
    client.send(text.as_bytes());
    client.answer();
    assert_eq!(server.stop().0.faults[&Fault::CloseAfter], 0, "the client asked for it");
}

#[test]
fn a_stream_can_lack_its_end_or_everything() {
    let (server, mut client) = ask("no-done");
    let mut whole = whole_stream(6);
    whole.pop();
    assert_eq!(timeless(&client.answer().chunks), whole);
    assert_eq!(server.stop_after_one("no-done").0.completed, 1);

    let (server, mut client) = ask("empty");
    let answer = client.answer();
    assert_eq!((answer.status, answer.chunks.len()), (200, 0));
    assert_eq!(server.stop_after_one("empty").0.broken, 1);
}

#[test]
fn an_answer_in_one_piece_fails_as_a_stream_does() {
    let whole = Faulty::start("").1.post(CHAT, DOCUMENT).body.len();
    for (fault, expected) in [("reset", End::Reset), ("truncate", End::Closed)] {
        let (server, mut client) = Faulty::start(&format!("{fault}=100%"));
        client.send(request(CHAT, DOCUMENT).as_bytes());
        assert!(client.head().contains(&format!("content-length: {whole}")));
        let (text, end) = client.rest();
        assert_eq!((text.len(), end), (whole / 2, expected), "{fault}");
        server.stop_after_one(fault);
    }
    let (server, mut client) = Faulty::start("stall=100%");
    client.send(request(CHAT, DOCUMENT).as_bytes());
    client.head();
    client.exactly(whole / 2);
    assert!(client.is_silent());
    assert!(server.stop_after_one("stall").1.head.is_some());

    for (fault, body) in [("malformed", whole / 2), ("empty", 0)] {
        let (server, mut client) = Faulty::start(&format!("{fault}=100%"));
        let answer = client.post(CHAT, DOCUMENT);
        assert_eq!((answer.status, answer.body.len()), (200, body));
        assert!(serde_json::from_str::<serde_json::Value>(&answer.body).is_err());
        server.stop_after_one(fault);
    }
    let (server, mut client) = Faulty::start("error-event=100%");
    let answer = client.post(CHAT, DOCUMENT);
    assert_eq!(
        (answer.status, answer.json()["error"]["type"].as_str()),
        (200, Some("server_error"))
    );
    server.stop_after_one("error-event");
}

#[test]
fn what_means_nothing_in_one_piece_is_left_out() {
    for fault in ["cut", "no-done", "pings"] {
        let (server, mut client) = Faulty::start(&format!("{fault}=100%"));
        assert_eq!(client.post(CHAT, DOCUMENT).json()["usage"]["completion_tokens"], 4);
        let (report, records) = server.stop();
        assert_eq!((records[0].fault, report.completed), (None, 1));
        assert_eq!(report.faults.values().sum::<u64>(), 0);
    }
}

#[test]
fn rates_hold_and_the_rest_is_untouched() {
    const REQUESTS: u64 = 400;
    let settings = Settings {
        ttft: "uniform:0s,2ms".parse().unwrap(),
        faults: "cut=10% status:503=20% no-done=5% pings=0%".parse().unwrap(),
        seed: 11,
        ..Settings::default()
    };
    let (server, mut client) = Faulty::with(settings.clone());
    let whole = whole_stream(3);
    let answers: Vec<_> = (0..REQUESTS).map(|_| client.post(CHAT, &chat(3))).collect();
    let (report, records) = server.stop();
    let timing = Timing::new(&settings);
    for (record, answer) in records.iter().zip(&answers) {
        assert_eq!(record.fault, settings.faults.of_request(11, record.number));
        assert_eq!(answer.status == 503, matches!(record.fault, Some(Fault::Status { .. })));
        if record.fault.is_none() {
            assert_eq!(answer.chunks.len(), whole.len());
            let due = timing.schedule(record.number, 3, record.started_ns.unwrap());
            assert!(record.events.iter().zip(due).all(|(event, due)| event[0] >= due.due_ns));
        }
    }
    let counts: Vec<(String, u64)> =
        report.faults.iter().map(|(fault, count)| (fault.to_string(), *count)).collect();
    // Which are met is fixed by the seed; the shares are 80, 40 and 20 of 400.
    let expected = [("status:503", 82), ("cut", 28), ("no-done", 21), ("pings", 0)];
    assert_eq!(counts, expected.map(|(fault, count)| (fault.to_owned(), count)));
    assert_eq!(report.completed + report.broken, REQUESTS);
}
