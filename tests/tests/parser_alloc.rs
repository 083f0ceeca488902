//! A stream like most streams needs no heap once the buffers have grown. Counted is the thread of
//! the test alone: the one that started it still has things of its own to write down.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
use tokclock_parser::dialect::{Dialect, Places, Template};
use tokclock_parser::event::Event;

static CALLS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(usize::from(IS_COUNTED.get()), Relaxed);
        // SAFETY: the caller's promise for `alloc` is the one that the system's asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from the system's allocator with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A whole response; every event is a chunk, and every seventh is cut by the end of a read.
fn wire(number: usize) -> Vec<u8> {
    let event = |delta: &str| {
        let event =
            format!("data: {{\"id\":\"c{number}\",\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
        format!("{:x}\r\n{event}\r\n", event.len())
    };
    let mut wire = String::from(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    wire.push_str(&event("{\"role\":\"assistant\",\"content\":\"\"}"));
    for text in TEXTS.iter().cycle().take(100) {
        wire.push_str(&event(&format!("{{\"content\":\"{text}\"}}")));
    }
    wire.push_str("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    wire.into_bytes()
}

const TEXTS: [&str; 6] = [" a", "beta", "é", "\\n", "\\\"", "gamma"];

/// A hundred tokens of another format, a chunk each.
fn chunks(content: &str, event: impl Fn(usize, &str) -> String) -> Vec<u8> {
    let mut wire =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {content}\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (at, text) in TEXTS.iter().cycle().take(100).enumerate() {
        let event = event(at, text);
        wire.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
    }
    wire.push_str("0\r\n\r\n");
    wire.into_bytes()
}

/// The servers' own formats.
fn natives() -> [(Dialect, Vec<u8>); 7] {
    let sse = "text/event-stream";
    let so_far = |at: usize| TEXTS.iter().cycle().take(at + 1).copied().collect::<String>();
    [
        // Where every event tells how long the server took.
        (
            Dialect::OpenaiChat,
            chunks(sse, |at, text| {
                format!(
                    "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}],\"timings\":\
                     {{\"prompt_n\":4,\"prompt_ms\":1.{at},\"predicted_ms\":{at}.5}},\"nvext\":\
                     {{\"timing\":{{\"ttft_ms\":1.{at}}}}}}}\n\n"
                )
            }),
        ),
        (
            Dialect::SglangGenerate,
            chunks(sse, |at, _| {
                format!(
                    "data: {{\"text\":\"{}\",\"meta_info\":{{\"id\":\"q\",\"queue_time\":0.{at},\
                     \"completion_tokens\":{},\"request_received_ts\":17.{at}}}}}\n\n",
                    so_far(at),
                    at + 1
                )
            }),
        ),
        (
            Dialect::SglangGenerate,
            chunks(sse, |at, _| {
                format!(
                    "data: {{\"text\":\"{}\",\"output_ids\":[1,2],\"meta_info\":{{\"id\":\"q\",\
                     \"finish_reason\":null,\"completion_tokens\":{}}}}}\n\n",
                    so_far(at),
                    at + 1
                )
            }),
        ),
        (
            Dialect::TritonGenerate,
            chunks(sse, |at, _| format!("data: {{\"text_output\":\"{}\"}}\n\n", so_far(at))),
        ),
        (
            Dialect::TgiGenerate,
            chunks(sse, |at, text| {
                format!(
                    "data:{{\"index\":{at},\"token\":{{\"id\":{},\"text\":\"{text}\",\
                     \"logprob\":-0.{at},\"special\":false}},\"generated_text\":null}}\n\n",
                    at * 7
                )
            }),
        ),
        (
            Dialect::LlamacppCompletion,
            chunks(sse, |at, text| {
                format!(
                    "data: {{\"index\":0,\"content\":\"{text}\",\"tokens\":[{at}],\
                     \"stop\":false,\"tokens_predicted\":{}}}\n\n",
                    at + 1
                )
            }),
        ),
        (
            Dialect::OllamaChat,
            chunks("application/x-ndjson", |at, text| {
                format!(
                    "{{\"created_at\":\"T{at}Z\",\"message\":{{\"role\":\"assistant\",\
                     \"content\":\"{text}\"}},\"done\":false}}\n"
                )
            }),
        ),
    ]
}

/// The events of the response with this number.
type Events = fn(usize) -> Vec<String>;

fn messages(number: usize) -> Vec<String> {
    let event = |kind: &str, fields: &str| {
        format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"index\":0{fields}}}\n\n")
    };
    let start = format!(",\"message\":{{\"id\":\"m{number}\",\"usage\":{{\"input_tokens\":9}}}}");
    let mut events = vec![event("message_start", &start)];
    events.extend(texts().map(|text| {
        let delta = format!(",\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}");
        event("content_block_delta", &delta)
    }));
    let usage = ",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":100}";
    events.push(event("message_delta", usage));
    events.push(event("message_stop", ""));
    events
}

fn responses(number: usize) -> Vec<String> {
    let event = |at: usize, kind: &str, fields: &str| {
        format!(
            "event: response.{kind}\ndata: {{\"type\":\"response.{kind}\",\
             \"sequence_number\":{at},{fields}}}\n\n"
        )
    };
    let started = format!("\"response\":{{\"id\":\"r{number}\",\"status\":\"in_progress\"}}");
    let mut events = vec![event(0, "created", &started)];
    events.extend(texts().enumerate().map(|(at, text)| {
        event(at, "output_text.delta", &format!("\"item_id\":\"i{number}\",\"delta\":\"{text}\""))
    }));
    let output = "\"output\":[{\"type\":\"message\",\"status\":\"completed\"}]";
    events.push(event(
        101,
        "completed",
        &format!("\"response\":{{{output},\"usage\":{{\"output_tokens\":100}}}}"),
    ));
    events
}

/// In a dialect that is described, where every event has counts.
fn described(number: usize) -> Vec<String> {
    let event = |(at, text): (usize, &str)| {
        format!("data: {{\"id\":{number},\"out\":[\"{text}\"],\"count\":{at}}}\n\n")
    };
    let mut events: Vec<String> = texts().enumerate().map(event).collect();
    events.push("data: {\"end\":true}\n\n".to_owned());
    events
}

fn texts() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().copied().cycle().take(100)
}

/// Every event is a chunk.
fn in_chunks(events: &[String]) -> Vec<u8> {
    let mut wire = String::from(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    for event in events {
        wire.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
    }
    wire.push_str("0\r\n\r\n");
    wire.into_bytes()
}

/// The formats whose events have types, and one that is described.
fn typed() -> [(Dialect, Events); 3] {
    let places = Places {
        text: vec!["/out/0".to_owned()],
        output_tokens: vec!["/count".to_owned()],
        done: vec!["/end".to_owned()],
        ..Places::default()
    };
    let Ok(template) = Template::new(places) else { unreachable!("it is sound") };
    [
        (Dialect::AnthropicMessages, messages),
        (Dialect::OpenaiResponses, responses),
        (Dialect::Template(Arc::new(template)), described),
    ]
}

fn outputs(answer: &mut Answer, wire: &[u8]) -> usize {
    let mut outputs = 0;
    answer.reset();
    for mut bytes in wire.chunks(701) {
        while let Ok(step) = answer.next(bytes) {
            bytes = &bytes[step.used..];
            let Some(signal) = step.item else { break };
            outputs += usize::from(matches!(signal, Signal::Event(Event::Output(_))));
        }
    }
    outputs
}

#[test]
fn a_response_on_a_used_connection_allocates_nothing() {
    IS_COUNTED.set(true);
    let before = CALLS.load(Relaxed);
    drop(std::hint::black_box(vec![0_u8]));
    assert_eq!(CALLS.load(Relaxed) - before, 1, "the counter counts");
    let limits = Limits::default();
    let mut answer = Answer::new(Settings { dialect: Dialect::OpenaiChat, stream: true, limits });
    let responses: Vec<Vec<u8>> = (10..30).map(wire).collect();
    assert_eq!(outputs(&mut answer, &responses[0]), 100);
    let before = CALLS.load(Relaxed);
    let found: usize = responses.iter().map(|wire| outputs(&mut answer, wire)).sum();
    let calls = CALLS.load(Relaxed) - before;
    assert_eq!((found, calls), (2000, 0));

    for (dialect, wire) in natives() {
        let mut answer = Answer::new(Settings { dialect: dialect.clone(), stream: true, limits });
        assert_eq!(outputs(&mut answer, &wire), 100, "{dialect:?}");
        let before = CALLS.load(Relaxed);
        let found: usize = (0..20).map(|_| outputs(&mut answer, &wire)).sum();
        let calls = CALLS.load(Relaxed) - before;
        assert_eq!((found, calls), (2000, 0), "{dialect:?}");
    }

    for (dialect, events) in typed() {
        let mut answer = Answer::new(Settings { dialect: dialect.clone(), stream: true, limits });
        let responses: Vec<Vec<u8>> = (10..30).map(|number| in_chunks(&events(number))).collect();
        assert_eq!(outputs(&mut answer, &responses[0]), 100, "{dialect:?}");
        let before = CALLS.load(Relaxed);
        let found: usize = responses.iter().map(|wire| outputs(&mut answer, wire)).sum();
        let calls = CALLS.load(Relaxed) - before;
        assert_eq!((found, calls), (2000, 0), "{dialect:?}");
    }
}
