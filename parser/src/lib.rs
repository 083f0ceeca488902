//! Bytes of an LLM server's answer in, events out: no I/O, no clock, no threads.
//!
//! Every reader takes bytes in any pieces and says how many it used and what it found. They stack:
//!
//! ```text
//!           head            body              sse               shape / dialect
//!  bytes ─► status, ──────► framing ────────► event stream ───► what the event means ─► Signal
//!           framing         content-length,   lines, blank      same as one before
//!           content type    chunked, close    lines, comments   but for its text, or JSON
//!             │                 │
//!             │                 ├─► ndjson (where a dialect has it: a line is an event) ─► dialect
//!             │ not a stream    └─► collected (an error's text, a whole document)
//!             └──────────────────────► error_body, not_streaming, unsupported_encoding
//! ```
//!
//! [`answer::Answer`] is all of them as one machine for one response:
//!
//! ```text
//!  [head] ─1xx─► Interim, [head]
//!    └─ Head ─► [body] ─► Event* ─► End        (bytes after the end are left unused)
//!                 └ peer closed: eof() ─► Event? ─► End, or an Error
//! ```
//!
//! ```
//! use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
//! use tokclock_parser::{dialect::Dialect, event::Event};
//!
//! let wire = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 60\r\n\r\n\
//!     data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]";
//! let settings =
//!     Settings { dialect: Dialect::OpenaiChat, stream: true, limits: Limits::default() };
//! let mut answer = Answer::new(settings);
//! let (mut text, mut done, mut ended) = (String::new(), false, false);
//! // Any cut of the bytes gives the same signals: here a read ends every 7 bytes.
//! for mut read in wire.chunks(7) {
//!     loop {
//!         let step = answer.next(read)?;
//!         read = &read[step.used..];
//!         match step.item {
//!             None => break, // the rest is kept inside: wait for the next read
//!             Some(Signal::Event(Event::Output(output))) => text.push_str(output.text.as_str()),
//!             Some(Signal::Event(Event::Done)) => done = true,
//!             Some(Signal::End) => ended = true,
//!             Some(_) => {}
//!         }
//!     }
//! }
//! assert_eq!((text.as_str(), done, ended), ("Hi", true, true));
//! # Ok::<(), tokclock_parser::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod answer;
pub mod body;
pub mod dialect;
mod error;
pub mod event;
pub mod head;
mod memory;
pub mod ndjson;
mod scan;
mod shape;
pub mod sse;
pub mod times;

pub use error::{Error, ErrorKind};

/// What one call of a reader used, and what it found.
///
/// `used == 0` with no item means that the reader needs more bytes than it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<T> {
    /// Bytes of the input that may be dropped, counted from its start.
    pub used: usize,
    /// What was found, if anything.
    pub item: Option<T>,
}
