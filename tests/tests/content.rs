//! What the command sends where options say what requests say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use command::{exits_with, summary, tokclock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokclock_engine::plan::tokens;
use tokclock_engine::workload::Embedded;
use tokclock_tests::replay::{Log, Manners, Replay, Script};
use tokclock_tests::{
    STREAM_HEAD, Sim, event, odd_server, read_request, rows, settings, short_answer,
};

/// The bodies that a server is sent, in the order of the requests' numbers.
fn bodies(dir: &Path, options: &[&str]) -> Vec<Value> {
    let script = Script::at_once(short_answer(), 0);
    let server = Replay::start(vec![script], Manners::default());
    let url = format!("http://{}", server.address());
    let output = tokclock(dir, &url, options).output().unwrap();
    let log = server.stop();
    exits_with(&output, 0);
    in_order(&log, dir)
}

fn in_order(log: &Log, dir: &Path) -> Vec<Value> {
    let mut rows = rows(&dir.join("out"));
    rows.sort_by_key(|row| row.index);
    let body = |id: &str| serde_json::from_slice(&log.post(id).body).unwrap();
    rows.iter().map(|row| body(&row.request_id)).collect()
}

fn text(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().unwrap()
}

#[test]
fn an_input_length_may_include_what_the_server_adds() {
    // It counts words, and seven tokens of its own.
    let (address, server) = odd_server(16, |stream| counting(stream, 7));
    let dir = TempDir::new().unwrap();
    let options = ["--isl", "40", "--osl", "1", "--requests", "3", "--concurrency", "1"];
    let options = [&options[..], &["--isl-includes-template"]].concat();
    let output = tokclock(dir.path(), &format!("http://{address}"), &options).output().unwrap();
    for _ in 0..16 {
        let _ = TcpStream::connect(address);
    }
    server.join().unwrap();
    exits_with(&output, 0);
    for row in rows(&dir.path().join("out")) {
        assert_eq!((row.input_tokens, row.client_input_tokens), (Some(40), Some(33)));
    }
}

/// Answers requests with one token, and counts the words of their messages and `more`.
fn counting(mut stream: TcpStream, more: usize) {
    while let Some(request) = read_request(&mut stream) {
        let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let texts = asked["messages"].as_array().into_iter().flatten();
        let words = texts.filter_map(|one| one["content"].as_str()).flat_map(str::split_whitespace);
        let usage = json!({"prompt_tokens": words.count() + more, "completion_tokens": 1});
        let message = json!({"role": "assistant", "content": "a"});
        let choice = |name: &str| json!({"index": 0, name: message, "finish_reason": "length"});
        let answer = if asked["stream"] == true {
            let one = json!({"choices": [choice("delta")]}).to_string();
            let last = json!({"choices": [], "usage": usage}).to_string();
            let events = [one.as_str(), last.as_str(), "[DONE]"].map(event).concat();
            STREAM_HEAD.to_owned() + &events + "0\r\n\r\n"
        } else if body.is_empty() {
            whole(&json!({"data": [{"id": "m"}]}))
        } else {
            whole(&json!({"choices": [choice("message")], "usage": usage}))
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn whole(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn prompts_can_be_token_ids() {
    let sim = Sim::start(settings());
    let dir = TempDir::new().unwrap();
    let ids = ["--prompt-as", "token-ids", "--token-ids", "1000-2000", "--isl", "24"];
    let options = [&ids[..], &["--dialect", "openai-completions", "--requests", "4"]].concat();
    let url = format!("http://{}", sim.address());
    exits_with(&tokclock(dir.path(), &url, &options).output().unwrap(), 0);
    let _ = sim.stop();
    for row in rows(&dir.path().join("out")) {
        assert_eq!((row.input_tokens, row.client_input_tokens), (Some(24), Some(24)));
    }
}

#[test]
fn prompts_can_be_cut_from_a_file() {
    let dir = TempDir::new().unwrap();
    let corpus = dir.path().join("corpus.txt");
    let words = "The quick brown fox, who had read too much, jumped over 12 lazy dogs; once.\n";
    std::fs::write(&corpus, words.repeat(50)).unwrap();
    let options = ["--corpus", corpus.to_str().unwrap(), "--tokenizer", "cl100k_base"];
    let load = ["--isl", "60", "--requests", "6", "--concurrency", "2"];
    for body in bodies(dir.path(), &[&options[..], &load].concat()) {
        let text = text(&body);
        assert_eq!(tokens::count(Embedded::Cl100kBase, text), 60, "{text}");
        assert!(text.contains("fox") || text.contains("lazy"), "{text}");
    }
}

#[test]
fn what_is_shared_is_what_a_perfect_cache_would_know() {
    let dir = TempDir::new().unwrap();
    let shared = ["--system-tokens", "30", "--prefix-groups", "2", "--prefix-tokens", "20"];
    let load = ["--isl", "50", "--requests", "20", "--concurrency", "1", "--seed", "3"];
    let bodies = bodies(dir.path(), &[&shared[..], &load].concat());
    let systems: BTreeSet<&str> = bodies.iter().map(text).collect();
    assert_eq!(systems.len(), 1);
    let prefix = |body: &Value| {
        let text = body["messages"][1]["content"].as_str().unwrap();
        text.split(' ').take(20).collect::<Vec<_>>().join(" ")
    };
    let groups: BTreeSet<String> = bodies.iter().map(prefix).collect();
    assert_eq!(groups.len(), 2);
    // All but the first request know the system prompt; all but the first of a group know its prefix.
    let cache = &summary(dir.path())["cache"];
    assert_eq!(cache["ideal_tokens"], 19 * 30 + 18 * 20);
}

#[test]
fn a_recording_can_come_by_standard_input() {
    let script = Script::at_once(short_answer(), 0);
    let server = Replay::start(vec![script], Manners::default());
    let dir = TempDir::new().unwrap();
    let url = format!("http://{}", server.address());
    let mut child = tokclock(dir.path(), &url, &["--data", "-", "--concurrency", "1"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = b"{\"prompt\":\"one\"}\n{\"prompt\":\"two\"}\n";
    child.stdin.take().unwrap().write_all(lines).unwrap();
    let mut said = String::new();
    let _ = child.stderr.take().unwrap().read_to_string(&mut said);
    let output = child.wait_with_output().unwrap();
    let log = server.stop();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(in_order(&log, dir.path()).iter().map(text).collect::<Vec<_>>(), ["one", "two"]);
}

#[test]
fn run_toml_sends_the_same_again() {
    let chat = "name=chat weight=3 isl=normal:60,15 system-tokens=9 turns=2 history=recorded";
    let one = ["--class", chat, "--class", "name=long isl=200 osl=2 prefix-tokens=30"];
    let two = ["--isl", "uniform:10,90", "--user-tokens", "12", "--user-population", "3"];
    let three = ["--cached-share", "40%", "--isl", "exp:80,min=10", "--cache-bust", "none"];
    for (said, length) in [(&one[..], "--sessions"), (&two, "--requests"), (&three, "--requests")] {
        let dir = TempDir::new().unwrap();
        let load = [length, "12", "--concurrency", "2", "--osl", "3"];
        let first = bodies(dir.path(), &[said, &load].concat());
        let saved = dir.path().join("again.toml");
        std::fs::rename(dir.path().join("out/run.toml"), &saved).unwrap();
        let again = TempDir::new().unwrap();
        let second = bodies(again.path(), &["--config", saved.to_str().unwrap()]);
        assert!(first.len() >= 12);
        assert_eq!(first, second, "{said:?}");
    }
}
