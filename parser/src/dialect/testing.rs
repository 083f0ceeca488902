//! For the tests of the dialects: a response in, cut in every way, and a few words per event out.

use std::fmt::Write;

use crate::answer::{Answer, Limits, Settings, Signal};
use crate::dialect::{Decoder, Dialect};
use crate::event::{Event, Fault, Output, OutputKind, Tail, Usage};

pub(super) const SSE: &str = "text/event-stream";
pub(super) const NDJSON: &str = "application/x-ndjson";
pub(super) const JSON: &str = "application/json";

/// What the events of a stream with this body mean, however its end is known.
pub(super) fn stream(dialect: &Dialect, content: &str, body: &str) -> Vec<String> {
    let wires = [with_length(content, body), in_chunks(content, body), until_close(content, body)];
    between(signals(dialect, true, &wires), "end")
}

/// What one event means, to a decoder that knows no other.
pub(super) fn event(dialect: &Dialect, json: &str) -> String {
    let events = stream(dialect, SSE, &format!("data: {json}\n\n"));
    let [event] = &events[..] else { panic!("not one event: {events:?} of {json}") };
    event.clone()
}

/// What the events of a stream mean whose connection breaks after this body, which is cut off.
pub(super) fn broken(dialect: &Dialect, content: &str, body: &str) -> Vec<String> {
    let chunked = in_chunks(content, body);
    let wire = chunked.strip_suffix("0\r\n\r\n").unwrap().to_owned();
    between(signals(dialect, true, &[wire]), "BodyTruncated")
}

/// What the document of this body holds.
pub(super) fn document(dialect: &Dialect, body: &str) -> Vec<String> {
    let wires = [with_length(JSON, body), in_chunks(JSON, body), until_close(JSON, body)];
    between(signals(dialect, false, &wires), "end")
}

/// The signals of an answer. They must be the same for each of these wires, whole, in two pieces cut
/// anywhere, in many pieces and byte by byte, in a new answer and in one that read others before.
fn signals(dialect: &Dialect, stream: bool, wires: &[String]) -> Vec<String> {
    let new = || answer(dialect, stream);
    let mut used = new();
    let whole = read(&mut used, [&wires[0]]);
    for wire in wires {
        for at in 0..=wire.len() {
            let (first, second) = wire.as_bytes().split_at(at);
            assert_eq!(read(&mut used, [first, second]), whole, "used, cut at {at} of {wire}");
            if *wire == wires[0] {
                assert_eq!(read(&mut new(), [first, second]), whole, "new, cut at {at} of {wire}");
            }
        }
        for size in [1, 29] {
            let pieces = || wire.as_bytes().chunks(size);
            assert_eq!(read(&mut used, pieces()), whole, "used, pieces of {size} of {wire}");
            assert_eq!(read(&mut new(), pieces()), whole, "new, pieces of {size} of {wire}");
        }
    }
    whole
}

/// The signals between the head and this end.
fn between(signals: Vec<String>, end: &str) -> Vec<String> {
    let mut all = signals.into_iter();
    assert_eq!(all.next().as_deref(), Some("head"));
    assert_eq!(all.next_back().as_deref(), Some(end));
    all.collect()
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

/// A machine that has read nothing yet.
pub(super) fn answer(dialect: &Dialect, stream: bool) -> Answer {
    Answer::new(Settings { dialect: dialect.clone(), stream, limits: Limits::default() })
}

/// An answer that gives the length of its body.
pub(super) fn with_length(content: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// An answer whose body ends with the connection.
pub(super) fn until_close(content: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content}\r\n\r\n{body}")
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

/// Every signal of an answer in these pieces, in words; last what ended it.
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

/// An event in few words, texts as they came: `content <a> (hm) #1 stop 3>1 cached 2 done` has
/// reasoning, one token, a reason to end, three tokens of the prompt and one generated.
pub(super) fn brief(event: &Event<'_>) -> String {
    match event {
        Event::Output(output) => brief_output(output),
        Event::Tail(Tail { finish, usage, done }) => {
            format!("tail{}", ending(*finish, *usage, *done))
        }
        Event::Fault(Fault { message, code }) => {
            format!("fault <{message}>{}", code.as_ref().map_or(String::new(), |c| format!(" {c}")))
        }
        Event::Note(note) => format!("{note:?}").to_lowercase(),
        Event::Done => "done".into(),
        Event::Malformed(malformed) => format!("malformed at {}", malformed.at),
    }
}

fn brief_output(output: &Output<'_>) -> String {
    let kind = match output.kind {
        OutputKind::Content => "content",
        OutputKind::Refusal => "refusal",
        OutputKind::ToolCall => "tool",
        OutputKind::Media => "media",
        OutputKind::Reasoning => "reasoning",
        OutputKind::TokenIds => "ids",
    };
    let mut brief = kind.to_owned();
    if !output.text.is_empty() {
        write!(brief, " <{}>", output.text.as_str()).unwrap();
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
        if let Some(reasoning) = usage.reasoning_tokens {
            write!(brief, " reasoning {reasoning}").unwrap();
        }
        if let Some(cached) = usage.cached_tokens {
            write!(brief, " cached {cached}").unwrap();
        }
    }
    brief + if done { " done" } else { "" }
}
