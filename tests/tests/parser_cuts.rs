//! Any cut of the bytes gives the same signals, and they are those of a slow plain decoder that has
//! the whole response before it.

#[expect(dead_code, reason = "what takes other inputs is tried elsewhere")]
#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a crate of its own when it is fuzzed")]
mod fuzz;
mod plain;

use plain::{Meaning, meaning};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
use tokclock_parser::dialect::Dialect;

const SETTINGS: Settings = Settings {
    dialect: Dialect::OpenaiChat,
    stream: true,
    limits: Limits { head_bytes: 4096, event_bytes: 65536, body_bytes: 65536 },
};

/// Signals in a form that both decoders can give.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Interim,
    Head(u16),
    Event(Meaning),
    End,
    Failed(String),
}

fn read(wire: &[u8], pieces: &[usize]) -> Vec<Seen> {
    read_next(&mut Answer::new(SETTINGS), wire, pieces)
}

fn read_next(answer: &mut Answer, wire: &[u8], pieces: &[usize]) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut take = |signal: &Signal<'_>| {
        seen.push(match signal {
            Signal::Interim => Seen::Interim,
            Signal::Head(head) => Seen::Head(head.status),
            Signal::Event(event) => Seen::Event(event.into()),
            Signal::End => Seen::End,
        });
    };
    let mut rest = wire;
    for length in pieces {
        let (mut piece, after) = rest.split_at((*length).min(rest.len()));
        rest = after;
        loop {
            match answer.next(piece) {
                Ok(step) => {
                    piece = &piece[step.used..];
                    let Some(signal) = step.item else { break };
                    take(&signal);
                }
                Err(error) => {
                    seen.push(Seen::Failed(format!("{:?}", error.kind)));
                    return seen;
                }
            }
        }
    }
    loop {
        match answer.eof() {
            Ok(Some(signal)) => take(&signal),
            Ok(None) => return seen,
            Err(error) => {
                seen.push(Seen::Failed(format!("{:?}", error.kind)));
                return seen;
            }
        }
    }
}

/// The same from the whole payload at once.
fn read_plainly(interims: usize, payload: &[u8]) -> Vec<Seen> {
    let mut seen = vec![Seen::Interim; interims];
    seen.push(Seen::Head(200));
    let mut done = false;
    for Message { name, data, whole } in messages(payload) {
        let meaning = match meaning(&SETTINGS.dialect, &data) {
            _ if done => Meaning::Empty,
            _ if name == "ping" => Meaning::Ping,
            Meaning::Malformed if !whole => Meaning::Empty,
            meaning => meaning,
        };
        done |= meaning == Meaning::Done;
        seen.push(Seen::Event(meaning));
    }
    seen.push(Seen::End);
    seen
}

struct Message {
    name: String,
    data: Vec<u8>,
    /// Its blank line came.
    whole: bool,
}

fn messages(payload: &[u8]) -> Vec<Message> {
    let text = payload.strip_prefix(b"\xef\xbb\xbf").unwrap_or(payload);
    // Bytes as characters, so that strings can be cut anywhere.
    let text: String = text.iter().map(|byte| char::from(*byte)).collect();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let message = |name: &str, lines: &[String], whole| Message {
        name: name.to_owned(),
        data: lines.join("\n").chars().map(|character| character as u8).collect(),
        whole,
    };
    let (mut found, mut name, mut data) = (Vec::new(), String::new(), Vec::<String>::new());
    let mut lines: Vec<&str> = text.split('\n').collect();
    // After the last line end there is no line, unless there is text.
    let _ = lines.pop_if(|last| last.is_empty());
    for line in lines {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" if line.is_empty() => {
                if !data.is_empty() {
                    found.push(message(&name, &data, true));
                }
                data.clear();
                name.clear();
            }
            "data" => data.push(value.to_owned()),
            "event" => name = value.to_owned(),
            _ => {}
        }
    }
    if !data.is_empty() {
        found.push(message(&name, &data, false));
    }
    found
}

fn line_end() -> impl Strategy<Value = &'static str> {
    select(&["\n", "\n", "\n", "\r\n", "\r"])
}

/// One block of an event stream, as the lines that it consists of.
fn block() -> impl Strategy<Value = Vec<String>> {
    let text =
        select(&["a", " beta", "é", "\\n", "\\\"", "\\u00e9", "", "a longer text than most"]);
    let id = select(&["c", "c", "c", "d", "", "e7f7", "é", "\\n", "x\",\"y\":\"z"]);
    let created = select(&["1", "1", "2", "17", "01", "1.5", "null", "\"\""]);
    let delta = prop_oneof![
        6 => text.prop_map(|text| format!("\"content\":\"{text}\"")),
        1 => Just("\"role\":\"assistant\",\"content\":\"\"".to_owned()),
        1 => Just(String::new()),
    ];
    let finish = select(&["null", "null", "null", "\"stop\""]);
    let count = select(&["1", "1", "20", "00", "2.0", "null", "999999999999999999"]);
    let usage = prop_oneof![
        3 => Just(String::new()),
        1 => count.prop_map(|count| format!(",\"usage\":{{\"completion_tokens\":{count}}}")),
    ];
    let output = (id, created, delta, finish, usage).prop_map(
        |(id, created, delta, finish, usage)| {
            format!(
                "data: {{\"id\":\"{id}\",\"created\":{created},\"choices\":[{{\"delta\":{{{delta}}},\
                 \"finish_reason\":{finish}}}]{usage}}}"
            )
        },
    );
    let other = select(&[
        r#"data:{"choices":[{"delta":{"role":"assistant"}}]}"#,
        r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]} "#,
        r#"data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#,
        r#"data: {"error":{"message":"worker lost","code":500}}"#,
        "data: [DONE]",
        "data: {not json",
        "data",
        "data:",
        ": keep-alive",
        ":",
        "id: 7",
        "retry: 3",
        "event",
        "event: message",
        "event: ping",
        "unknown: x",
    ]);
    let halves = Just(vec![
        "data: {\"choices\":[{\"delta\":".to_owned(),
        ": between".to_owned(),
        "data: {\"content\":\"two\"}}]}".to_owned(),
    ]);
    prop_oneof![
        6 => output.prop_map(|line| vec![line]),
        3 => other.prop_map(|line| vec![line.to_owned()]),
        1 => halves,
    ]
}

/// A payload; its first event is one, so that it is a stream.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let blocks = vec((block(), line_end(), line_end(), 0..8_u8), 0..20);
    (any::<bool>(), blocks, any::<bool>()).prop_map(|(mark, blocks, whole)| {
        let mut payload = String::from(if mark { "\u{feff}" } else { "" });
        payload.push_str("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n");
        for (lines, end, blank, glue) in blocks {
            lines.iter().for_each(|line| payload.extend([line, end]));
            // Now and then blocks run into each other.
            payload.push_str(if glue == 0 { "" } else { blank });
        }
        if !whole {
            payload.truncate(payload.trim_ascii_end().len());
        }
        payload.into_bytes()
    })
}

/// The payload in a response, with a framing and noise around it.
#[derive(Debug, Clone)]
enum Framed {
    Length,
    Close,
    /// Sizes of the chunks, an extension, a trailer, upper-case digits.
    Chunked(Vec<usize>, &'static str, &'static str, bool),
}

fn framed() -> impl Strategy<Value = Framed> {
    let extension = select(&["", "", ";a", ";a=b", ";a=\"x;\\\"y\"", " "]);
    let trailer = select(&["", "", "X-Trailer: a\r\n", "A: b\r\nC: d\r\n"]);
    let chunked = (vec(1..300_usize, 1..12), extension, trailer, any::<bool>());
    prop_oneof![
        1 => Just(Framed::Length),
        1 => Just(Framed::Close),
        4 => chunked.prop_map(|(sizes, extension, trailer, upper)| {
            Framed::Chunked(sizes, extension, trailer, upper)
        }),
    ]
}

impl Framed {
    fn wire(&self, interims: usize, payload: &[u8]) -> Vec<u8> {
        let mut wire = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(interims);
        wire.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n");
        match self {
            Self::Length => {
                let length = format!("Content-Length: {}\r\n\r\n", payload.len());
                wire.extend_from_slice(length.as_bytes());
                wire.extend_from_slice(payload);
            }
            Self::Close => {
                wire.extend_from_slice(b"Connection: close\r\n\r\n");
                wire.extend_from_slice(payload);
            }
            Self::Chunked(sizes, extension, trailer, upper) => {
                wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                let mut rest = payload;
                for size in sizes.iter().cycle() {
                    let (chunk, after) = rest.split_at((*size).min(rest.len()));
                    let size = if *upper {
                        format!("0{:X}", chunk.len())
                    } else {
                        format!("{:x}", chunk.len())
                    };
                    wire.extend_from_slice(format!("{size}{extension}\r\n").as_bytes());
                    if chunk.is_empty() {
                        break;
                    }
                    wire.extend_from_slice(chunk);
                    wire.extend_from_slice(b"\r\n");
                    rest = after;
                }
                wire.extend_from_slice(format!("{trailer}\r\n").as_bytes());
            }
        }
        wire
    }
}

/// Cuts at line ends only, some of them: where fast paths begin and give up.
fn line_pieces(wire: &[u8], seed: u64) -> Vec<usize> {
    let lines = wire.split_inclusive(|byte| matches!(byte, b'\n' | b'\r'));
    let mut pieces = vec![0];
    for (number, line) in lines.enumerate() {
        let together = pieces.len() - 1;
        pieces[together] += line.len();
        if seed >> (number % 64) & 1 == 1 {
            pieces.push(0);
        }
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_cut_reads_as_the_plain_decoder_reads_the_whole(
        payload in payload(),
        framed in framed(),
        interims in 0..2_usize,
        pieces in vec(1..400_usize, 0..40),
        seed in any::<u64>(),
    ) {
        let wire = framed.wire(interims, &payload);
        let mut pieces = pieces;
        pieces.push(wire.len());
        let expected = read_plainly(interims, &payload);
        prop_assert_eq!(&read(&wire, &[wire.len()]), &expected);
        prop_assert_eq!(&read(&wire, &pieces), &expected);
        prop_assert_eq!(&read(&wire, &line_pieces(&wire, seed)), &expected);
        prop_assert_eq!(read(&wire, &vec![1; wire.len()]), expected);
    }

    #[test]
    fn what_a_connection_has_read_changes_nothing_that_follows(
        responses in vec((payload(), framed(), any::<u64>()), 2..6),
    ) {
        let mut answer = Answer::new(SETTINGS);
        for (payload, framed, seed) in responses {
            let wire = framed.wire(0, &payload);
            answer.reset();
            let seen = read_next(&mut answer, &wire, &line_pieces(&wire, seed));
            prop_assert_eq!(seen, read_plainly(0, &payload));
        }
    }

    #[test]
    fn any_cut_of_a_damaged_response_reads_the_same(
        payload in payload(),
        framed in framed(),
        damage in vec((any::<prop::sample::Index>(), select(b"\r\n\0;\"{ 0fx:".as_slice())), 1..4),
        end in any::<prop::sample::Index>(),
        seed in any::<u8>(),
    ) {
        let mut wire = framed.wire(0, &payload);
        for (at, byte) in damage {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        wire.truncate(end.index(wire.len()) + 1);
        let one = fuzz::answer_in_pieces(&mut Answer::new(SETTINGS), &wire, &[wire.len()]);
        let pieces = fuzz::split(wire.len(), seed);
        prop_assert_eq!(fuzz::answer_in_pieces(&mut Answer::new(SETTINGS), &wire, &pieces), one);
        // The single readers, with the same bytes and any settings.
        let mut input = vec![seed, seed];
        input.extend_from_slice(&wire);
        fuzz::head(&wire);
        fuzz::body(&input);
        fuzz::sse(&input);
        fuzz::ndjson(&input);
        fuzz::answer(&input);
        let body = wire.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |end| end + 4);
        let input = [&[seed, seed], &wire[body.min(wire.len())..]].concat();
        fuzz::dialect(&Dialect::OpenaiChat, &input);
        fuzz::template(&input);
    }
}
