//! One connection: the bytes it gave, the answer under way, the bytes it still gets.

use std::collections::VecDeque;
use std::rc::Rc;

use monoio::net::TcpStream;

use crate::active::Active;
use crate::http::Head;

/// An open connection.
pub(crate) struct Connection {
    /// Its socket, shared with the task that reads.
    pub(crate) stream: Rc<TcpStream>,
    /// Bytes received and not yet used.
    pub(crate) input: Vec<u8>,
    /// The head of a request whose body is not complete.
    pub(crate) head: Option<Head>,
    /// Whether `100 Continue` was sent for it.
    pub(crate) continued: bool,
    /// When the kernel received the last bytes (CLOCK_MONOTONIC, ns).
    pub(crate) arrived_ns: Option<u64>,
    /// The time just before a receive that emptied the socket: later bytes arrived later.
    pub(crate) empty_ns: u64,
    /// The answer under way.
    pub(crate) active: Option<Box<Active>>,
    /// Bytes on their way out.
    pub(crate) output: Output,
    /// Whether the scheduler knows of it: it is ready, or due at some time.
    pub(crate) placed: bool,
    /// Whether it waits for room in the socket.
    pub(crate) blocked: bool,
    /// Lateness of what was due before this is the client's, who did not read.
    pub(crate) excused_ns: u64,
    /// Whether nothing more is answered after the output.
    pub(crate) closing: bool,
    /// Whether the socket failed.
    pub(crate) dead: bool,
}

/// Bytes handed over or being handed over to the kernel, and what they are.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sent: usize,
    pub(crate) marks: VecDeque<Mark>,
    /// When they were first offered to the kernel.
    pub(crate) started_ns: Option<u64>,
    /// Whether the kernel took, or was offered, only a part of them at first.
    pub(crate) retried: bool,
    /// In which pieces they are offered, if not at once.
    pub(crate) drip: Option<Drip>,
    /// When the next piece may go.
    pub(crate) not_before_ns: u64,
}

/// Sending in small pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drip {
    /// Bytes in one piece.
    pub(crate) bytes: usize,
    /// From one piece to the next, in ns.
    pub(crate) gap_ns: u64,
}

/// The end of a unit in [`Output::bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) unit: Unit,
    pub(crate) end: usize,
}

/// What is sent as one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The response head of a stream, and the role event.
    Head,
    /// An output event.
    Output { index: u32, tokens: u32, due_ns: u64 },
    /// What ends an answer, or all of one that is no stream.
    Tail,
    /// What a fault makes of an answer's end; it may be no byte at all.
    Broken(Exit),
    /// An answer that is no generation, or a comment in one.
    Other,
}

/// What becomes of the connection after an answer that a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It goes on.
    Keep,
    /// It is closed.
    Close,
    /// It is reset.
    Reset,
}

/// What decides how an answer is cut into sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Output events that may share a send.
    pub(crate) batch: usize,
    /// Whether the head goes first.
    pub(crate) head_early: bool,
}

impl Connection {
    /// A connection that has said nothing yet.
    pub(crate) fn new(stream: Rc<TcpStream>) -> Self {
        Self {
            stream,
            input: Vec::new(),
            head: None,
            continued: false,
            arrived_ns: None,
            empty_ns: 0,
            active: None,
            output: Output::default(),
            placed: false,
            blocked: false,
            excused_ns: 0,
            closing: false,
            dead: false,
        }
    }

    /// When it next has something to send: 0 is at once, `None` is not for now.
    pub(crate) fn next_due_ns(&self, cut: Cut) -> Option<u64> {
        if self.blocked || self.dead {
            return None;
        }
        if !self.output.is_empty() {
            return Some(self.output.not_before_ns);
        }
        self.active.as_ref()?.next_due_ns(cut)
    }

    /// Puts an answer that is no generation into the output.
    pub(crate) fn answer(&mut self, render: impl FnOnce(&mut Vec<u8>)) {
        render(&mut self.output.bytes);
        self.output.mark(Unit::Other);
    }

    /// Whether the next request must wait for what is being sent.
    pub(crate) fn is_busy(&self) -> bool {
        self.active.is_some() || !self.output.is_empty() || self.closing || self.dead
    }
}

impl Output {
    /// What lies in `bytes` since the last mark is one `unit`.
    pub(crate) fn mark(&mut self, unit: Unit) {
        self.marks.push_back(Mark { unit, end: self.bytes.len() });
    }

    /// Whether there is nothing to send or to do: even without bytes a fault may be due.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.marks.is_empty()
    }

    /// The bytes to offer now.
    pub(crate) fn offer(&self) -> &[u8] {
        let left = &self.bytes[self.sent..];
        match self.drip {
            Some(drip) => &left[..left.len().min(drip.bytes)],
            None => left,
        }
    }

    /// Forgets what was sent; a small buffer is kept for the next send.
    pub(crate) fn clear(&mut self) {
        const KEPT_BYTES_MAX: usize = 64 * 1024;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.marks.clear();
        self.sent = 0;
        self.started_ns = None;
        self.retried = false;
        self.not_before_ns = 0;
    }
}
