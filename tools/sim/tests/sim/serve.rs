//! What a client sees: the API, its framing, its rules, over real sockets.

use std::time::Duration;

use crate::client::{Client, chat, request};
use tokclock_sim::{Server, Settings, SimError, UsageMode};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

fn start(settings: Settings) -> (Server, Client) {
    let server = Server::start(&settings).unwrap();
    let client = Client::new(server.address());
    (server, client)
}

#[test]
fn a_chat_stream_carries_exactly_its_tokens() {
    let (server, mut client) = start(Settings::default());
    let answer = client.post(CHAT, &chat(5));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type").unwrap(), "text/event-stream; charset=utf-8");
    assert_eq!(answer.texts(), [" hello"; 5]);
    let events = answer.events();
    assert_eq!(events.len(), 7, "role, five tokens, finish");
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(events[6]["choices"][0]["finish_reason"], "length");
    assert_eq!(events[3]["id"], "chatcmpl-0000000000");
    assert_eq!(events[3]["object"], "chat.completion.chunk");
    assert_eq!(events[3]["model"], "sim");
    let report = server.stop();
    assert_eq!((report.requests, report.completed, report.tokens), (1, 1, 5));
    assert_eq!(report.aborted + report.internal_errors + report.truth_dropped, 0);
    assert_eq!(report.lateness.count, 1);
}

#[test]
fn completions_stream_text_and_no_role() {
    let (_server, mut client) = start(Settings { tokens_per_event: 4, ..Settings::default() });
    let body = r#"{"prompt":"a b","stream":true,"max_tokens":10}"#;
    let answer = client.post(COMPLETIONS, body);
    assert_eq!(answer.texts(), [" hello".repeat(4), " hello".repeat(4), " hello".repeat(2)]);
    assert_eq!(answer.events().len(), 4);
    assert_eq!(answer.events()[0]["object"], "text_completion");
}

#[test]
fn an_answer_in_one_piece_has_text_and_usage() {
    let (server, mut client) =
        start(Settings { word: " \"quoted\"".into(), ..Settings::default() });
    let body = r#"{"max_completion_tokens":3,"messages":[{"role":"user","content":"one two"}]}"#;
    let chat = client.post(CHAT, body).json();
    let quoted = " \"quoted\"".repeat(3);
    assert_eq!(chat["choices"][0]["message"]["content"], quoted);
    assert_eq!(chat["usage"]["prompt_tokens"], 2);
    assert_eq!(chat["usage"]["completion_tokens"], 3);
    assert_eq!(chat["usage"]["total_tokens"], 5);
    let text = client.post(COMPLETIONS, r#"{"prompt":["a b","c"]}"#).json();
    assert_eq!(text["usage"]["completion_tokens"], 64, "the default");
    assert_eq!(text["choices"][0]["finish_reason"], "stop");
    assert_eq!(server.stop().tokens, 67);
}

#[test]
fn usage_comes_when_asked_for_or_as_set() {
    let asked =
        r#"{"prompt":"a","stream":true,"max_tokens":2,"stream_options":{"include_usage":true}}"#;
    let plain = r#"{"prompt":"a","stream":true,"max_tokens":2}"#;
    for (usage, on_asked, on_plain) in [
        (UsageMode::Requested, true, false),
        (UsageMode::Always, true, true),
        (UsageMode::Never, false, false),
    ] {
        let (_server, mut client) = start(Settings { usage, ..Settings::default() });
        for (body, expected) in [(asked, on_asked), (plain, on_plain)] {
            let events = client.post(COMPLETIONS, body).events();
            let last = events.last().unwrap();
            assert_eq!(last["usage"]["completion_tokens"] == 2, expected, "{usage:?} {body}");
            assert_eq!(last["choices"].as_array().unwrap().is_empty(), expected);
        }
        let whole = client.post(COMPLETIONS, r#"{"prompt":"a"}"#).json();
        assert_eq!(whole.get("usage").is_some(), usage != UsageMode::Never);
    }
}

#[test]
fn continuous_usage_counts_up() {
    let (_server, mut client) = start(Settings::default());
    let body = r#"{"prompt":"a b c","stream":true,"max_tokens":3,
        "stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;
    let events = client.post(COMPLETIONS, body).events();
    let counts: Vec<_> =
        events.iter().map(|event| event["usage"]["completion_tokens"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 2, 3, 3, 3]);
}

#[test]
fn the_role_event_and_the_early_head_can_be_left_out() {
    let settings = Settings { role_event: false, head_early: false, ..Settings::default() };
    let (_server, mut client) = start(settings);
    let events = client.post(CHAT, &chat(2)).events();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0]["choices"][0]["delta"]["content"], " hello");
}

#[test]
fn other_paths_answer_as_they_should() {
    let (_server, mut client) = start(Settings { model: "m".into(), ..Settings::default() });
    assert_eq!(client.get("/v1/models").json()["data"][0]["id"], "m");
    assert_eq!(client.get("/health").json()["status"], "ok");
    for (answer, status, code) in [
        (client.get("/nowhere"), 404, "not_found"),
        (client.get(CHAT), 405, "method_not_allowed"),
        (client.post("/v1/models", "{}"), 405, "method_not_allowed"),
        (client.post(CHAT, "{nonsense"), 400, "invalid_request"),
        (client.post(CHAT, "{}"), 400, "invalid_request"),
        (client.post(CHAT, &chat(1)), 404, "not_found"),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!(error["code"], code);
        assert!(error["message"].is_string() && error["type"].is_string());
    }
}

#[test]
fn a_request_may_come_in_pieces() {
    let (_server, mut client) = start(Settings::default());
    let bytes = request(CHAT, &chat(3));
    for piece in bytes.as_bytes().chunks(7) {
        client.send(piece);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.answer().texts().len(), 3);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (server, mut client) =
        start(Settings { itl: "1ms".parse().unwrap(), ..Settings::default() });
    let both = request(CHAT, &chat(3)) + &request(COMPLETIONS, r#"{"prompt":"a","max_tokens":2}"#);
    client.send((both + "GET /health HTTP/1.1\r\n\r\n").as_bytes());
    assert_eq!(client.answer().texts().len(), 3);
    assert_eq!(client.answer().json()["usage"]["completion_tokens"], 2);
    assert_eq!(client.answer().json()["status"], "ok");
    assert_eq!(server.stop().completed, 2);
}

#[test]
fn a_large_body_is_announced_sent_and_read() {
    let (_server, mut client) = start(Settings::default());
    let prompt = "word ".repeat(4_000_000);
    let body = format!(r#"{{"max_tokens":1,"prompt":"{prompt}"}}"#);
    let head = format!(
        "POST {COMPLETIONS} HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes());
    assert_eq!(client.head(), ["http/1.1 100 continue"]);
    client.send(body.as_bytes());
    assert_eq!(client.answer().json()["usage"]["prompt_tokens"], 4_000_000);
    assert_eq!(client.get("/health").status, 200, "and the connection goes on");
}

#[test]
fn a_body_may_come_in_chunks() {
    let (server, mut client) = start(Settings::default());
    let body = chat(3);
    let head = format!("POST {CHAT} HTTP/1.1\r\nexpect: 100-continue\r\n");
    client.send((head + "transfer-encoding: chunked\r\n\r\n").as_bytes());
    assert_eq!(client.head(), ["http/1.1 100 continue"]);
    for piece in body.as_bytes().chunks(40) {
        client.send(format!("{:x}\r\n", piece.len()).as_bytes());
        client.send(&[piece, b"\r\n"].concat());
    }
    // The next request stands right behind the last chunk.
    client.send((String::from("0\r\n\r\n") + &request(CHAT, &chat(2))).as_bytes());
    assert_eq!(client.answer().texts().len(), 3);
    assert_eq!(client.answer().texts().len(), 2);
    client.send(format!("POST {CHAT} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx").as_bytes());
    assert_eq!(client.answer().status, 400);
    assert!(client.is_closed());
    assert_eq!(server.stop().completed, 2);
}

#[test]
fn connection_close_is_honoured_and_answered() {
    let (_server, mut client) = start(Settings::default());
    let body = chat(2);
    let text = request(CHAT, &body);
    client.send(text.replace("host: test", "connection: close\r\nx-request-id: r-9").as_bytes());
    let answer = client.answer();
    assert_eq!(answer.header("connection").unwrap(), "close");
    assert_eq!(answer.header("x-request-id").unwrap(), "r-9");
    assert_eq!(answer.texts().len(), 2);
    assert!(client.is_closed());
}

#[test]
fn what_is_not_http_is_refused_and_cut() {
    let (_server, mut client) = start(Settings::default());
    client.send(b"\x16\x03\x01 hello\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status, 400);
    assert!(client.is_closed());
}

#[test]
fn a_start_that_cannot_be_says_why() {
    let server = Server::start(&Settings::default()).unwrap();
    let port = server.address().port();
    let taken = Server::start(&Settings { port, ..Settings::default() }).unwrap_err();
    assert!(
        matches!(taken, SimError::Listen { .. }) && taken.to_string().contains("choose another")
    );
    let cpu = Server::start(&Settings { cpus: vec![0, 100_000], ..Settings::default() });
    assert!(matches!(cpu.unwrap_err(), SimError::Cpu { cpu: 100_000, .. }));
    let word = Server::start(&Settings { word: String::new(), ..Settings::default() });
    assert!(matches!(word.unwrap_err(), SimError::Setting(_)));
    let truth = Some("/nowhere/at/all".into());
    let truth = Server::start(&Settings { truth, ..Settings::default() });
    assert!(matches!(truth.unwrap_err(), SimError::Truth { .. }));
}

#[test]
fn a_stopped_server_gives_its_port_back() {
    let server = Server::start(&Settings::default()).unwrap();
    let port = server.address().port();
    let mut idle = Client::new(server.address());
    assert_eq!(idle.get("/health").status, 200);
    server.stop();
    assert!(idle.is_closed());
    let again = Server::start(&Settings { port, ..Settings::default() }).unwrap();
    assert_eq!(Client::new(again.address()).get("/health").status, 200);
}

#[test]
fn a_unix_socket_serves_as_a_port_does_and_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sim.sock");
    let settings = Settings {
        unix: Some(path.clone()),
        truth: Some(directory.path().join("truth.jsonl")),
        ..Settings::default()
    };
    let server = Server::start(&settings).unwrap();
    assert_eq!((server.unix(), server.address().port()), (Some(path.as_path()), 0));
    let taken = Server::start(&Settings { truth: None, ..settings.clone() }).unwrap_err();
    assert!(matches!(taken, SimError::Unix { .. }) && taken.to_string().contains("remove it"));
    assert!(path.exists(), "what another holds is not removed");
    let mut client = Client::unix(&path);
    assert_eq!(client.post(CHAT, &chat(5)).texts(), [" hello"; 5]);
    assert_eq!(client.post(CHAT, &chat(3)).texts().len(), 3);
    let report = server.stop();
    assert_eq!((report.completed, report.internal_errors), (2, 0));
    assert!(client.is_closed() && !path.exists());
    // What would be a reset is a close.
    let faults = "reset:1=100%".parse().unwrap();
    let server = Server::start(&Settings { faults, ..settings }).unwrap();
    let mut client = Client::unix(&path);
    client.send(request(CHAT, &chat(5)).as_bytes());
    client.head();
    assert!(client.chunk().is_some() && client.chunk().is_some());
    assert!(client.is_closed());
    assert_eq!(server.stop().broken, 1);
}
