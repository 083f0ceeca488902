//! The bytes of recorded answers through the parser: cut anywhere, with any line ends, in any
//! framing, they mean what is expected.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod heard;

use heard::heard;
use serde_json::{Value, json};
use tokclock_engine::workload::Dialect as Spoken;
use tokclock_parser::dialect::Dialect;
use tokclock_tests::cases::Case;

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
        let heard = heard(&dialect, &wire, []);
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
        let whole = heard(&dialect, &wire, []);
        // Every place of a small answer, some of a large one.
        let step = 1 + wire.len() * wire.len() / 10_000_000;
        for cut in (1..wire.len()).step_by(step) {
            assert_eq!(heard(&dialect, &wire, [cut]), whole, "{name}, cut at {cut}");
        }
        assert_eq!(heard(&dialect, &wire, 1..wire.len()), whole, "{name}, byte by byte");
    }
}

#[test]
fn line_ends_and_framings_change_nothing() {
    for Recorded { name, dialect, wire, .. } in recorded() {
        let before = heard(&dialect, &wire, []);
        let Some(payload) = payload(&wire) else { continue };
        let lines = lines(&payload);
        for ends in [&["\n"][..], &["\r\n"], &["\r"], &["\r", "\n", "\r\n"], &["\r\n", "\r"]] {
            let events = rejoined(&lines, ends);
            for framing in [Framing::Length, Framing::Close, Framing::Chunks(7), Framing::Lines] {
                let wire = framing.wire(&events);
                let after = heard(&dialect, &wire, []);
                assert_eq!(after, before, "{name}, {ends:?}, {framing:?}");
                for size in [1, 2, 3] {
                    let after = heard(&dialect, &wire, (size..wire.len()).step_by(size));
                    assert_eq!(after, before, "{name}, {ends:?}, {framing:?}, {size} bytes each");
                }
            }
            // Each cut beside a line end.
            let wire = Framing::Lines.wire(&events);
            for cut in 1..wire.len() {
                if wire[cut - 1..=cut].iter().any(|byte| b"\r\n".contains(byte)) {
                    let after = heard(&dialect, &wire, [cut]);
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
