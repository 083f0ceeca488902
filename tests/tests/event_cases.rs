//! The bytes of recorded answers through the parser: cut anywhere, with any line ends, in any
//! framing, they mean what is expected; and no field of a chunk can do harm by its type.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tokclock_engine::workload::Dialect as Spoken;
use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
use tokclock_parser::dialect::Dialect;
use tokclock_parser::event::{Event, OutputKind, unescape};
use tokclock_tests::cases::Case;
use tokclock_tests::replay::{End, Script};
use tokclock_tests::{MS, carry_out, closed, event, requests, workload};

/// All that an answer says.
#[derive(Debug, Clone, PartialEq, Default)]
struct Heard {
    status: u16,
    outputs: usize,
    text: String,
    reasoning: String,
    /// Names and arguments of tools.
    calls: String,
    finish: Option<&'static str>,
    /// Output tokens, by the last usage.
    tokens: Option<u64>,
    malformed: u64,
    faults: Vec<String>,
    done: bool,
    /// How the body ended: `end`, or the kind of error.
    end: String,
    not_streaming: bool,
    encoded: bool,
}

impl Heard {
    fn take(&mut self, signal: &Signal<'_>) {
        let event = match signal {
            Signal::Head(head) => return self.status = head.status,
            Signal::End => return self.end = "end".to_owned(),
            Signal::Event(event) => event,
            Signal::Interim => return,
        };
        let (finish, usage) = match event {
            Event::Output(output) => {
                self.outputs += 1;
                let text = unescape(output.text.as_str());
                let is_call = output.kind == OutputKind::ToolCall;
                if is_call { &mut self.calls } else { &mut self.text }.push_str(&text);
                self.reasoning.push_str(&unescape(output.reasoning.as_str()));
                (output.finish, output.usage)
            }
            Event::Tail(tail) => (tail.finish, tail.usage),
            Event::Fault(fault) => {
                let code = fault.code.as_deref().unwrap_or("no code");
                return self.faults.push(format!("{} {code}", fault.message));
            }
            Event::Malformed(_) => return self.malformed += 1,
            Event::Done => return self.done = true,
            Event::Note(_) => return,
        };
        self.finish = self.finish.or(finish.map(|finish| finish.as_str()));
        self.tokens = usage.and_then(|usage| usage.output_tokens).or(self.tokens);
    }
}

/// What `wire` says when it is read in pieces that end after so many bytes, and the peer closes.
fn heard(dialect: Dialect, wire: &[u8], ends: impl IntoIterator<Item = usize>) -> Heard {
    let mut answer = Answer::new(Settings { dialect, stream: true, limits: Limits::default() });
    let mut heard = Heard::default();
    let mut from = 0;
    for end in ends.into_iter().chain([wire.len()]) {
        let mut piece = &wire[from..end];
        from = end;
        loop {
            match answer.next(piece) {
                Ok(step) => {
                    let Some(signal) = step.item else { break };
                    heard.take(&signal);
                    piece = &piece[step.used..];
                }
                Err(error) => {
                    heard.end = format!("{:?}", error.kind);
                    return heard;
                }
            }
        }
    }
    while heard.end.is_empty() {
        match answer.eof() {
            Ok(Some(signal)) => heard.take(&signal),
            Ok(None) => break,
            Err(error) => heard.end = format!("{:?}", error.kind),
        }
    }
    heard.not_streaming = answer.not_streaming();
    heard.encoded = answer.unsupported_encoding();
    heard
}

/// An answer of a case, and what is expected of it.
struct Recorded {
    name: String,
    dialect: Dialect,
    wire: Vec<u8>,
    expected: Value,
}

/// Every answer of every case that is looked at in events.
fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for case in Case::all() {
        for (turn, script) in case.scripts.iter().enumerate() {
            let name = format!("{} ({}), answer {turn}", case.id, case.title);
            let dialect = match case.dialect() {
                Spoken::OpenaiCompletions => Dialect::OpenaiCompletions,
                _ => Dialect::OpenaiChat,
            };
            // The second answer of a redirect is one that we do not ask for.
            let each = case.expected["requests"].get(turn);
            let only = Some(&case.expected).filter(|_| turn == 0);
            let Some(expected) = each.or(only).cloned() else { continue };
            all.push(Recorded { name, dialect, wire: script.bytes.clone(), expected });
        }
    }
    assert!(all.len() > 45, "{} answers", all.len());
    all
}

#[test]
fn every_recorded_answer_says_what_is_expected() {
    for Recorded { name, dialect, wire, expected } in recorded() {
        let heard = heard(dialect, &wire, []);
        let fails = expected["error_class"].as_str();
        let checks: [(&str, Value); 12] = [
            ("http_status", json!(heard.status)),
            ("text", json!(heard.text)),
            ("reasoning_text", json!(heard.reasoning)),
            ("token_events", json!(heard.outputs)),
            ("finish_reason", json!(heard.finish)),
            ("malformed_events", json!(heard.malformed)),
            ("saw_done", json!(heard.done)),
            ("tool_calls", json!([{ "joined": heard.calls }])),
            ("body_truncated", json!(heard.end == "BodyTruncated" && !heard.done)),
            ("server_error_event", json!(!heard.faults.is_empty())),
            ("not_streaming", json!(heard.not_streaming)),
            ("unsupported_encoding", json!(heard.encoded)),
        ];
        for (what, seen) in checks {
            let expected = match (what, &expected[what]) {
                // Classes of failures, which an answer has or has not.
                ("body_truncated" | "not_streaming" | "unsupported_encoding", _) => {
                    json!(fails == Some(what))
                }
                // The message of a refused request is an error object as well.
                ("server_error_event", _) if heard.status == 200 => json!(fails == Some(what)),
                ("tool_calls", Value::Array(calls)) => json!([{ "joined": joined(calls) }]),
                (_, Value::Null) => continue,
                (_, expected) => expected.clone(),
            };
            assert_eq!(seen, expected, "{what} of {name}");
        }
        if let Some(tokens) = expected["tokens_out"].as_u64() {
            let counted = heard.tokens.unwrap_or(heard.outputs as u64);
            assert_eq!(counted, tokens, "tokens of {name}");
        }
        let is_usage = expected["tokens_out_source"] == "usage";
        assert!(!is_usage || heard.tokens.is_some(), "{name} has usage");
    }
}

fn joined(calls: &[Value]) -> String {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    calls.iter().map(|call| word(&call["name"]) + &word(&call["arguments"])).collect()
}

#[test]
fn wherever_a_recorded_answer_is_cut_it_says_the_same() {
    for Recorded { name, dialect, wire, .. } in recorded() {
        let whole = heard(dialect, &wire, []);
        // Every place of a small answer, some of a large one.
        let step = 1 + wire.len() * wire.len() / 10_000_000;
        for cut in (1..wire.len()).step_by(step) {
            assert_eq!(heard(dialect, &wire, [cut]), whole, "{name}, cut at {cut}");
        }
        assert_eq!(heard(dialect, &wire, 1..wire.len()), whole, "{name}, byte by byte");
    }
}

#[test]
fn line_ends_and_framings_change_nothing() {
    for Recorded { name, dialect, wire, .. } in recorded() {
        let before = heard(dialect, &wire, []);
        let Some(payload) = payload(&wire) else { continue };
        let lines = lines(&payload);
        for ends in [&["\n"][..], &["\r\n"], &["\r"], &["\r", "\n", "\r\n"], &["\r\n", "\r"]] {
            let events = rejoined(&lines, ends);
            for framing in [Framing::Length, Framing::Close, Framing::Chunks(7), Framing::Lines] {
                let wire = framing.wire(&events);
                let after = heard(dialect, &wire, []);
                assert_eq!(after, before, "{name}, {ends:?}, {framing:?}");
                for size in [1, 2, 3] {
                    let after = heard(dialect, &wire, (size..wire.len()).step_by(size));
                    assert_eq!(after, before, "{name}, {ends:?}, {framing:?}, {size} bytes each");
                }
            }
            // Each cut beside a line end.
            let wire = Framing::Lines.wire(&events);
            for cut in 1..wire.len() {
                if wire[cut - 1..=cut].iter().any(|byte| b"\r\n".contains(byte)) {
                    let after = heard(dialect, &wire, [cut]);
                    assert_eq!(after, before, "{name}, {ends:?}, cut at {cut}");
                }
            }
        }
    }
}

/// The event stream in `wire`; `None` if it is none, is not whole, or is too large for this.
fn payload(wire: &[u8]) -> Option<Vec<u8>> {
    let mut rest = wire;
    let head = loop {
        let end = rest.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&rest[..end]).to_lowercase();
        rest = &rest[end..];
        if !head.starts_with("http/1.1 1") {
            break head;
        }
    };
    let is_plain = head.contains("text/event-stream") && !head.contains("content-encoding");
    if !is_plain || wire.len() > 20_000 {
        return None;
    }
    if head.contains("transfer-encoding: chunked") {
        return dechunked(rest);
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let is_whole = length.is_none_or(|length| length.trim().parse() == Ok(rest.len()));
    is_whole.then(|| rest.to_vec())
}

fn dechunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(payload);
        }
        payload.extend_from_slice(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 4 + size..)?;
    }
}

/// The lines of an event stream; the last one is what stands after the last line end.
fn lines(payload: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = vec![Vec::new()];
    let mut bytes = payload.iter().peekable();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\r' | b'\n' => {
                let _ = byte == b'\r' && bytes.next_if_eq(&&b'\n').is_some();
                lines.push(Vec::new());
            }
            _ => lines.last_mut().unwrap().push(byte),
        }
    }
    lines
}

/// The lines with these ends in turn.
fn rejoined(lines: &[Vec<u8>], ends: &[&str]) -> Vec<Vec<u8>> {
    let mut turn = ends.iter().cycle();
    let mut all: Vec<Vec<u8>> = Vec::new();
    let last = lines.len() - 1;
    for (number, line) in lines.iter().enumerate() {
        let mut line = line.clone();
        if number < last {
            // A CR before the LF of an empty line would be one line end: there LF cannot stand.
            let follows_cr =
                line.is_empty() && all.last().is_some_and(|line| line.ends_with(b"\r"));
            let end = turn.by_ref().find(|end| !(follows_cr && **end == "\n")).unwrap();
            line.extend_from_slice(end.as_bytes());
        }
        all.push(line);
    }
    all
}

#[derive(Debug, Clone, Copy)]
enum Framing {
    Length,
    Close,
    /// Chunks of so many bytes.
    Chunks(usize),
    /// A chunk for each line.
    Lines,
}

impl Framing {
    fn wire(self, lines: &[Vec<u8>]) -> Vec<u8> {
        let mut wire = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n".to_vec();
        let all = lines.concat();
        let chunks: Vec<&[u8]> = match self {
            Self::Length => {
                wire.extend_from_slice(format!("Content-Length: {}\r\n\r\n", all.len()).as_bytes());
                wire.extend_from_slice(&all);
                return wire;
            }
            Self::Close => {
                wire.extend_from_slice(b"Connection: close\r\n\r\n");
                wire.extend_from_slice(&all);
                return wire;
            }
            Self::Chunks(size) => all.chunks(size).collect(),
            Self::Lines => lines.iter().map(Vec::as_slice).collect(),
        };
        wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in chunks.into_iter().filter(|chunk| !chunk.is_empty()) {
            wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b"0\r\n\r\n");
        wire
    }
}

/// The fields of a chunk, each with a value of its type, and one that carries output where it can.
/// Only output of the field itself is in its chunk, so that what it does can be seen.
fn fields() -> Vec<(&'static str, Value)> {
    vec![
        ("/id", json!("chatcmpl-1")),
        ("/object", json!("chat.completion.chunk")),
        ("/created", json!(1)),
        ("/model", json!("m")),
        ("/system_fingerprint", json!("f")),
        ("/service_tier", json!("default")),
        ("/choices", json!([])),
        ("/choices/0", json!({})),
        ("/choices/0/index", json!(0)),
        ("/choices/0/logprobs", json!({ "content": [] })),
        ("/choices/0/finish_reason", json!("stop")),
        ("/choices/0/stop_reason", json!("stop")),
        ("/choices/0/token_ids", json!([5])),
        ("/choices/0/delta", json!({})),
        ("/choices/0/delta/role", json!("assistant")),
        ("/choices/0/delta/content", json!("x")),
        ("/choices/0/delta/reasoning", json!("x")),
        ("/choices/0/delta/reasoning_content", json!("x")),
        ("/choices/0/delta/refusal", json!("x")),
        ("/choices/0/delta/tool_calls", json!([])),
        ("/choices/0/delta/tool_calls/0", json!({})),
        ("/choices/0/delta/tool_calls/0/index", json!(0)),
        ("/choices/0/delta/tool_calls/0/id", json!("t")),
        ("/choices/0/delta/tool_calls/0/type", json!("function")),
        ("/choices/0/delta/tool_calls/0/function", json!({})),
        ("/choices/0/delta/tool_calls/0/function/name", json!("x")),
        ("/choices/0/delta/tool_calls/0/function/arguments", json!("x")),
        ("/choices/0/delta/function_call", json!({})),
        ("/choices/0/delta/function_call/name", json!("x")),
        ("/choices/0/delta/function_call/arguments", json!("x")),
        ("/choices/0/delta/audio", json!({})),
        ("/choices/0/delta/audio/data", json!("x")),
        ("/choices/0/delta/audio/transcript", json!("x")),
        ("/choices/0/delta/images", json!([])),
        ("/usage", json!({})),
        ("/usage/prompt_tokens", json!(7)),
        ("/usage/completion_tokens", json!(9)),
        ("/usage/total_tokens", json!(16)),
        ("/usage/prompt_tokens_details", json!({})),
        ("/usage/prompt_tokens_details/cached_tokens", json!(1)),
        ("/usage/completion_tokens_details", json!({})),
        ("/usage/completion_tokens_details/reasoning_tokens", json!(1)),
        ("/error", json!(null)),
    ]
}

/// Values that are of the type of `right`, or mean something in its place.
fn is_meant(path: &str, right: &Value, value: &Value) -> bool {
    let whole = value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0);
    match right {
        Value::String(_) => value.is_string() || (path.ends_with("/content") && value.is_array()),
        Value::Number(_) => whole,
        Value::Array(_) => value.is_array(),
        Value::Object(_) => value.is_object(),
        // Anything else than nothing is an error.
        _ => !(value.is_null() || *value == json!(false) || *value == json!("")),
    }
}

fn wrong_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(false),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("y"),
        json!([]),
        json!([null]),
        json!([[]]),
        json!([{}]),
        json!(["y"]),
        json!({}),
        json!({ "text": null }),
        json!({ "content": { "content": "y" } }),
    ]
}

/// The chunk in which `path` has `value`, and nothing else carries output; without it if `None`.
fn chunk(path: &str, value: Option<&Value>) -> String {
    let (parent, name) = path.rsplit_once('/').unwrap();
    let mut inner = match (name, value) {
        ("0", value) => json!([value]),
        (_, None) => json!({}),
        (name, Some(value)) => json!({ name: value }),
    };
    for name in parent.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
        inner = if name == "0" { json!([inner]) } else { json!({ name: inner }) };
    }
    inner.to_string()
}

/// A whole answer with `chunks` between its first and its last token.
fn around(chunks: &[String]) -> Vec<u8> {
    let token = |text: &str| json!({ "choices": [{ "delta": { "content": text } }] }).to_string();
    let usage = json!({ "choices": [], "usage": { "completion_tokens": 2 } }).to_string();
    let finish = json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] }).to_string();
    let all = [&[token("A")], chunks, &[token("B"), finish, usage, "[DONE]".to_owned()]].concat();
    let events: String = all.iter().map(|data| event(data)).collect();
    (tokclock_tests::STREAM_HEAD.to_owned() + &events + "0\r\n\r\n").into_bytes()
}

fn heard_around(chunks: &[String]) -> Heard {
    heard(Dialect::OpenaiChat, &around(chunks), [])
}

/// Every chunk with a field that is null, or not of its type.
fn odd_chunks() -> Vec<(String, String)> {
    let mut odd = Vec::new();
    for (path, right) in fields() {
        for value in wrong_values() {
            if !is_meant(path, &right, &value) {
                odd.push((format!("{path} is {value}"), chunk(path, Some(&value))));
            }
        }
    }
    assert!(odd.len() > 400, "{}", odd.len());
    odd
}

#[test]
fn a_field_that_is_null_or_not_of_its_type_is_as_good_as_absent() {
    let plain = heard_around(&[]);
    assert_eq!((plain.outputs, plain.text.as_str(), plain.tokens), (2, "AB", Some(2)));
    for (path, right) in fields() {
        let seen = heard_around(&[chunk(path, Some(&right))]);
        assert_eq!((seen.malformed, seen.done), (0, true), "{path}");
        assert_eq!(seen.outputs, if carries_output(path) { 3 } else { 2 }, "{path}");
        assert_eq!(heard_around(&[chunk(path, None)]), plain, "{path} is absent");
    }
    for (what, chunk) in odd_chunks() {
        assert_eq!(heard_around(&[chunk]), plain, "{what}");
    }
}

/// The right value of this field is output.
fn carries_output(path: &str) -> bool {
    let of_text = ["content", "reasoning", "reasoning_content", "refusal", "name", "arguments"];
    let of_media = ["data", "transcript", "token_ids"];
    let name = path.rsplit('/').next().unwrap();
    of_text.contains(&name) || of_media.contains(&name)
}

#[test]
fn a_stream_of_nothing_but_odd_chunks_is_two_tokens_and_no_failure() {
    let chunks: Vec<String> = odd_chunks().into_iter().map(|(_, chunk)| chunk).collect();
    let server = tokclock_tests::replay::Replay::start(
        vec![Script { end: End::Keepalive, ..Script::at_once(around(&chunks), 0) }],
        tokclock_tests::replay::Manners::default(),
    );
    let mut load = workload(server.address(), closed(1), requests(2));
    load.client.keep_text = true;
    load.limits.request_ns = Some(20_000 * MS);
    let ran = carry_out(&load);
    assert_eq!(server.stop().posts().count(), 2);
    for row in &ran.rows {
        assert_eq!((row.error, row.malformed_events), (None, 0), "{:?}", row.error_text);
        assert_eq!((row.events, row.text.as_deref()), (2, Some("AB")));
        assert_eq!((row.output_tokens, row.finish.as_deref()), (Some(2), Some("length")));
    }
}
