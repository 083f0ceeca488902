//! A stream like most streams needs no heap once the buffers have grown. Alone in its file: the
//! counter is the whole process's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
use tokclock_parser::dialect::Dialect;
use tokclock_parser::event::Event;

static CALLS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
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
fn natives() -> [(Dialect, Vec<u8>); 5] {
    let sse = "text/event-stream";
    let so_far = |at: usize| TEXTS.iter().cycle().take(at + 1).copied().collect::<String>();
    [
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
}
