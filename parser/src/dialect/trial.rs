//! Reads answers for the tests of the dialects: cut anywhere, by a new machine and by a used one.

use super::{Decoder, Dialect};
use crate::answer::{Answer, Limits, Settings, Signal};
use crate::event::{Event, Finish, Note, Usage, unescape};

/// What a document means.
pub(super) fn document(dialect: &Dialect, json: &str) -> String {
    said(&Decoder::new(dialect.clone()).document(json.as_bytes()))
}

/// What one event means, to a decoder that knows no other.
pub(super) fn event(dialect: &Dialect, json: &str) -> String {
    let [event] = &stream(dialect, &format!("data: {json}\n\n"))[..] else {
        panic!("one event: {json}");
    };
    event.clone()
}

/// What the events of a stream mean, after checking that no cut and no response before changes it.
pub(super) fn stream(dialect: &Dialect, body: &str) -> Vec<String> {
    stream_of("text/event-stream", dialect, body)
}

/// The same of any content type.
pub(super) fn stream_of(content: &str, dialect: &Dialect, body: &str) -> Vec<String> {
    let wire = format!("HTTP/1.1 200 OK\r\nContent-Type: {content}\r\n\r\n{body}");
    let wire = wire.as_bytes();
    let settings = Settings { dialect: dialect.clone(), stream: true, limits: Limits::default() };
    let mut used = Answer::new(settings.clone());
    let whole = read(&mut used, &[wire]);
    for cut in 0..=wire.len() {
        let (first, rest) = wire.split_at(cut);
        used.reset();
        assert_eq!(read(&mut used, &[first, rest]), whole, "used, cut at {cut}");
        let mut new = Answer::new(settings.clone());
        assert_eq!(read(&mut new, &[first, rest]), whole, "new, cut at {cut}");
    }
    let bytes: Vec<&[u8]> = wire.chunks(1).collect();
    assert_eq!(read(&mut Answer::new(settings), &bytes), whole, "byte by byte");
    whole
}

/// What a used machine, which was reset, makes of a stream.
pub(super) fn read_body(answer: &mut Answer, body: &str) -> Vec<String> {
    let wire = format!("{HEAD}{body}");
    read(answer, &[wire.as_bytes()])
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

fn read(answer: &mut Answer, pieces: &[&[u8]]) -> Vec<String> {
    let mut all = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let step = answer.next(rest).unwrap();
            rest = &rest[step.used..];
            match step.item {
                Some(Signal::Event(event)) => all.push(said(&event)),
                Some(_) => {}
                None => break,
            }
        }
    }
    while let Some(signal) = answer.eof().unwrap() {
        if let Signal::Event(event) = signal {
            all.push(said(&event));
        }
    }
    all
}

fn said(event: &Event<'_>) -> String {
    match event {
        Event::Output(output) => {
            let mut said = format!("{:?}", output.kind).to_lowercase();
            for text in [output.text, output.reasoning] {
                if !text.is_empty() {
                    said.push_str(&format!(" <{}>", unescape(text.as_str())));
                }
            }
            if let Some(tokens) = output.tokens {
                said.push_str(&format!(" tokens={tokens}"));
            }
            said + &ending(output.finish, output.usage, output.done)
        }
        Event::Tail(tail) => format!("tail{}", ending(tail.finish, tail.usage, tail.done)),
        Event::Fault(fault) => {
            format!("fault {} {}", fault.code.as_deref().unwrap_or("-"), fault.message)
        }
        Event::Note(Note::Role) => "role".into(),
        Event::Note(Note::Empty) => "note".into(),
        Event::Note(Note::Ping) => "ping".into(),
        Event::Done => "done".into(),
        Event::Malformed(malformed) => format!("malformed at {}", malformed.at),
    }
}

fn ending(finish: Option<Finish>, usage: Option<&Usage>, done: bool) -> String {
    let usage = usage.copied().unwrap_or_default();
    let counts = [
        ("in", usage.input_tokens),
        ("out", usage.output_tokens),
        ("reasoning", usage.reasoning_tokens),
        ("cached", usage.cached_tokens),
    ];
    let mut said = finish.map_or(String::new(), |finish| format!(" {}", finish.as_str()));
    for (name, count) in counts {
        said.push_str(&count.map_or(String::new(), |count| format!(" {name}={count}")));
    }
    said + if done { " done" } else { "" }
}
