//! What one event costs the parser: framing, event stream and meaning, with and without the fast
//! path. The inputs vary in length and escapes, so that the branch predictor is not flattered.

#![expect(clippy::print_stdout, reason = "a benchmark reports to the console")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
use tokclock_parser::body::{Body, Part};
use tokclock_parser::dialect::{Decoder, Dialect};
use tokclock_parser::event::Event;
use tokclock_parser::head::Framing;
use tokclock_parser::sse::Sse;

fn main() {
    for (responses, tokens) in SIZES {
        let streams: Vec<Stream> = (0..responses).map(|seed| Stream::new(seed, tokens)).collect();
        report(&streams, tokens);
    }
}

/// Responses and tokens of each: about as much as stays in a core's cache, since a read has just
/// been copied when it is parsed. In short responses the events that start and end them weigh more.
const SIZES: [(u64, u64); 3] = [(16, 50), (4, 200), (1, 800)];
const PASSES: usize = 400;

fn report(streams: &[Stream], tokens: u64) {
    let events: u64 = streams.iter().map(|stream| stream.expected.events).sum();
    let bytes: usize = streams.iter().map(|stream| stream.wire.len()).sum();
    println!("{events} events of {} bytes, {tokens} tokens a response", bytes as u64 / events);

    let settings =
        Settings { dialect: Dialect::OpenaiChat, stream: true, limits: Limits::default() };
    let mut answer = Answer::new(settings);
    let mut pass = |read_bytes| {
        streams.iter().for_each(|stream| stream.check(fast(&mut answer, stream, read_bytes)));
    };
    let by_event = best_of(|| pass(0));
    let by_buffer = best_of(|| pass(65536));
    let by_json = best_of(|| streams.iter().for_each(|stream| stream.check(json(stream))));

    let ns = |time: Duration| time.as_nanos() as f64 / events as f64;
    println!("  fast path, a read per event   {:7.1} ns/event", ns(by_event));
    println!("  fast path, a read per 64 KiB  {:7.1} ns/event", ns(by_buffer));
    println!("  serde_json on every event     {:7.1} ns/event", ns(by_json));
    println!("  ratio                         {:7.1}", ns(by_json) / ns(by_event));
}

/// What a stream holds, to be found again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counted {
    events: u64,
    outputs: u64,
    text_bytes: u64,
    output_tokens: u64,
}

/// One response as a server would send it.
struct Stream {
    head: usize,
    wire: Vec<u8>,
    /// Where each chunk ends.
    cuts: Vec<usize>,
    expected: Counted,
}

impl Stream {
    fn new(seed: u64, tokens: u64) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        let mut stream = Self {
            head: head.len(),
            wire: head.into(),
            cuts: vec![head.len()],
            expected: Counted { outputs: tokens, output_tokens: tokens, ..Counted::default() },
        };
        let id = mix(seed);
        stream.push(id, r#"{"role":"assistant","content":""}"#, "null", "");
        for token in 0..tokens {
            let text = piece(mix(seed << 32 | token));
            stream.expected.text_bytes += text.len() as u64;
            stream.push(id, &format!(r#"{{"content":"{text}"}}"#), "null", "");
        }
        stream.push(id, "{}", r#""stop""#, "");
        let prompt = id % 500;
        let usage = format!(
            r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{tokens}}}"#,
            prompt + tokens
        );
        stream.push(id, "{}", "null", &usage);
        stream.chunk("data: [DONE]\n\n");
        stream.wire.extend_from_slice(b"0\r\n\r\n");
        stream.cuts.push(stream.wire.len());
        stream
    }

    fn push(&mut self, id: u64, delta: &str, finish: &str, usage: &str) {
        let created = 1_764_000_000 + id % 1000;
        self.chunk(&format!(
            "data: {{\"id\":\"chatcmpl-{id:016x}{id:016x}\",\"object\":\"chat.completion.chunk\",\
             \"created\":{created},\"model\":\"example/model-8b-instruct\",\"choices\":[{{\
             \"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]{usage}}}\n\n"
        ));
        self.expected.events += 1;
    }

    fn chunk(&mut self, event: &str) {
        let mut chunk = String::new();
        // Writing to a string cannot fail.
        let _ = write!(chunk, "{:x}\r\n{event}\r\n", event.len());
        self.wire.extend_from_slice(chunk.as_bytes());
        self.cuts.push(self.wire.len());
    }

    fn check(&self, counted: Counted) {
        assert_eq!(counted, self.expected);
    }
}

/// A token's text: one to twelve letters, now and then an escape or a letter of two bytes.
fn piece(random: u64) -> String {
    let mut text = String::from(if random & 1 == 0 { " " } else { "" });
    for at in 0..1 + random % 11 {
        text.push(char::from(b'a' + (mix(random + at) % 26) as u8));
    }
    match random >> 32 & 31 {
        0 => text.push_str("\\n"),
        1 => text.push_str("\\\""),
        2 => text.push('é'),
        _ => {}
    }
    text
}

/// The finaliser of splitmix64: a number that looks random.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn best_of(mut pass: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..PASSES {
        let start = now();
        pass();
        best = best.min(now() - start);
    }
    best
}

#[expect(clippy::disallowed_methods, reason = "a benchmark has no clock of a run")]
fn now() -> Instant {
    Instant::now()
}

/// The whole machine, in reads of so many bytes, or of one chunk each if 0: the next response on a
/// connection that is in use.
fn fast(answer: &mut Answer, stream: &Stream, read_bytes: usize) -> Counted {
    answer.reset();
    let mut counted = Counted::default();
    let mut feed = |mut bytes: &[u8]| {
        while let Ok(step) = answer.next(bytes) {
            bytes = &bytes[step.used..];
            match step.item {
                Some(Signal::Event(event)) => count(&event, &mut counted),
                Some(_) => {}
                None => break,
            }
        }
    };
    if read_bytes > 0 {
        stream.wire.chunks(read_bytes).for_each(feed);
    } else {
        feed(&stream.wire[..stream.head]);
        stream.cuts.windows(2).for_each(|cut| feed(&stream.wire[cut[0]..cut[1]]));
    }
    counted
}

/// The same without the fast path.
fn json(stream: &Stream) -> Counted {
    let mut body = Body::new(Framing::Chunked);
    let mut sse = Sse::new(1 << 20);
    let mut decoder = Decoder::new(Dialect::OpenaiChat);
    let mut counted = Counted::default();
    let mut bytes = &stream.wire[stream.head..];
    while let Ok(step) = body.step(bytes) {
        bytes = &bytes[step.used..];
        let Some(Part::Data(mut data)) = step.item else { break };
        while let Ok(step) = sse.step(data) {
            data = &data[step.used..];
            let Some(message) = step.item else { break };
            decoder.forget();
            count(&decoder.event(message), &mut counted);
        }
    }
    counted
}

fn count(event: &Event<'_>, counted: &mut Counted) {
    match event {
        Event::Output(output) => {
            counted.outputs += 1;
            counted.text_bytes += output.text.len() as u64;
        }
        Event::Tail(tail) => {
            let tokens = tail.usage.and_then(|usage| usage.output_tokens);
            counted.output_tokens += tokens.unwrap_or(0);
        }
        Event::Done => return,
        _ => {}
    }
    counted.events += 1;
}
