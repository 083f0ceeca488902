//! For the tests of the dialects: a whole response in, cut in every way, and one line per signal out.

use std::fmt::Write;

use crate::answer::{Answer, Limits, Settings, Signal};
use crate::dialect::{Decoder, Dialect};
use crate::event::{Event, Fault, Output, OutputKind, Tail, Usage};

pub(super) const SSE: &str = "text/event-stream";
pub(super) const NDJSON: &str = "application/x-ndjson";
pub(super) const JSON: &str = "application/json";

/// The signals of a stream with this body, between head and end. Every cut in two, and every way to
/// frame it, must give the same, in an answer that read the response before as well.
pub(super) fn stream(dialect: &Dialect, content: &str, body: &str) -> Vec<String> {
    let wire = with_length(content, body);
    let mut answer = answer(dialect, true);
    let whole = read(&mut answer, [&wire, ""]);
    for at in 0..=wire.len() {
        let (first, second) = wire.as_bytes().split_at(at);
        assert_eq!(read(&mut answer, [first, second]), whole, "cut at {at} of {wire}");
    }
    assert_eq!(read(&mut answer, wire.as_bytes().chunks(1)), whole);
    let chunked = in_chunks(content, body);
    assert_eq!(read(&mut answer, [&chunked, ""]), whole);
    assert_eq!(read(&mut answer, chunked.as_bytes().chunks(29)), whole);
    let mut all = whole.into_iter();
    assert_eq!(all.next().as_deref(), Some("head"));
    assert_eq!(all.next_back().as_deref(), Some("end"));
    all.collect()
}

/// Likewise of a stream whose connection breaks after this body, which is cut off.
pub(super) fn broken(dialect: &Dialect, content: &str, body: &str) -> Vec<String> {
    let chunked = in_chunks(content, body);
    let wire = chunked.strip_suffix("0\r\n\r\n").unwrap();
    let mut answer = answer(dialect, true);
    let whole = read(&mut answer, [wire, ""]);
    for at in 0..=wire.len() {
        let (first, second) = wire.as_bytes().split_at(at);
        assert_eq!(read(&mut answer, [first, second]), whole, "cut at {at} of {wire}");
    }
    assert_eq!(whole.last().unwrap(), "BodyTruncated");
    whole[1..whole.len() - 1].to_vec()
}

/// What the document of this body holds.
pub(super) fn document(dialect: &Dialect, body: &str) -> Vec<String> {
    let wire = with_length(JSON, body);
    let mut answer = answer(dialect, false);
    let whole = read(&mut answer, [&wire, ""]);
    assert_eq!(read(&mut answer, wire.as_bytes().chunks(1)), whole);
    whole[1..whole.len() - 1].to_vec()
}

/// What the event means without this field, which must be the same if it is null or of another type.
pub(super) fn without(dialect: &Dialect, event: &str, field: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(event).unwrap();
    let path: Vec<_> = field.split('.').collect();
    let (last, before) = path.split_last().unwrap();
    let changed = |new: Option<&str>| {
        let mut value = value.clone();
        let object = before.iter().fold(&mut value, |value, name| &mut value[*name]);
        let object = object.as_object_mut().unwrap();
        let old = object.remove(*last).unwrap();
        let new = new.map(|new| serde_json::from_str::<serde_json::Value>(new).unwrap());
        // Another type than it has, and none that means something.
        let other = |new: &serde_json::Value| {
            new.is_number() || std::mem::discriminant(new) != std::mem::discriminant(&old)
        };
        if let Some(new) = new.filter(other) {
            object.insert((*last).to_owned(), new);
        }
        let mut decoder = Decoder::new(dialect.clone());
        let data = value.to_string();
        brief(&decoder.event(crate::sse::Message { name: b"", data: data.as_bytes() }))
    };
    let absent = changed(None);
    for other in ["null", "[]", "{}", "-1", "1.5", "\"\"", "[[],null]", "{\"x\":[0]}"] {
        assert_eq!(changed(Some(other)), absent, "{field} is {other}");
    }
    absent
}

pub(super) fn answer(dialect: &Dialect, stream: bool) -> Answer {
    Answer::new(Settings { dialect: dialect.clone(), stream, limits: Limits::default() })
}

pub(super) fn with_length(content: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A chunk per line.
pub(super) fn in_chunks(content: &str, body: &str) -> String {
    let mut wire =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {content}\r\nTransfer-Encoding: chunked\r\n\r\n");
    for line in body.split_inclusive('\n') {
        write!(wire, "{:x}\r\n{line}\r\n", line.len()).unwrap();
    }
    wire + "0\r\n\r\n"
}

pub(super) fn read<B: AsRef<[u8]>>(
    answer: &mut Answer,
    pieces: impl IntoIterator<Item = B>,
) -> Vec<String> {
    answer.reset();
    let mut seen = Vec::new();
    for piece in pieces {
        let mut rest = piece.as_ref();
        loop {
            match answer.next(rest) {
                Ok(step) => {
                    rest = &rest[step.used..];
                    let Some(signal) = step.item else { break };
                    seen.push(name(&signal));
                }
                Err(error) => {
                    seen.push(format!("{:?}", error.kind));
                    return seen;
                }
            }
        }
    }
    loop {
        match answer.eof() {
            Ok(Some(signal)) => seen.push(name(&signal)),
            Ok(None) => return seen,
            Err(error) => {
                seen.push(format!("{:?}", error.kind));
                return seen;
            }
        }
    }
}

fn name(signal: &Signal<'_>) -> String {
    match signal {
        Signal::Interim => "interim".into(),
        Signal::Head(_) => "head".into(),
        Signal::Event(event) => brief(event),
        Signal::End => "end".into(),
    }
}

/// An event in few words: `content "a" #1 stop 3>1 done`.
pub(super) fn brief(event: &Event<'_>) -> String {
    match event {
        Event::Output(output) => brief_output(output),
        Event::Tail(Tail { finish, usage, done }) => {
            format!("tail{}", ending(*finish, *usage, *done))
        }
        Event::Fault(Fault { message, code }) => {
            format!("fault {message:?}{}", code.as_ref().map_or(String::new(), |c| format!(" {c}")))
        }
        Event::Note(note) => format!("{note:?}").to_lowercase(),
        Event::Done => "done".into(),
        Event::Malformed(_) => "malformed".into(),
    }
}

fn brief_output(output: &Output<'_>) -> String {
    let kind = match output.kind {
        OutputKind::ToolCall => "tool",
        OutputKind::TokenIds => "ids",
        OutputKind::Content => "content",
        OutputKind::Reasoning => "reasoning",
        _ => "other",
    };
    let mut brief = kind.to_owned();
    if !output.text.is_empty() {
        write!(brief, " {:?}", output.text.as_str()).unwrap();
    }
    if !output.reasoning.is_empty() {
        write!(brief, " ({})", output.reasoning.as_str()).unwrap();
    }
    if let Some(tokens) = output.tokens {
        write!(brief, " #{tokens}").unwrap();
    }
    brief + &ending(output.finish, output.usage, output.done)
}

fn ending(finish: Option<crate::event::Finish>, usage: Option<&Usage>, done: bool) -> String {
    let mut brief = String::new();
    if let Some(finish) = finish {
        write!(brief, " {}", finish.as_str()).unwrap();
    }
    if let Some(usage) = usage {
        let count = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
        write!(brief, " {}>{}", count(usage.input_tokens), count(usage.output_tokens)).unwrap();
        if let Some(cached) = usage.cached_tokens {
            write!(brief, " cached {cached}").unwrap();
        }
        if let Some(reasoning) = usage.reasoning_tokens {
            write!(brief, " reasoning {reasoning}").unwrap();
        }
    }
    brief + if done { " done" } else { "" }
}
