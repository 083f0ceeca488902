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
    for text in [" a", "beta", "é", "\\n", "\\\"", "gamma"].iter().cycle().take(100) {
        wire.push_str(&event(&format!("{{\"content\":\"{text}\"}}")));
    }
    wire.push_str("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    wire.into_bytes()
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
}
