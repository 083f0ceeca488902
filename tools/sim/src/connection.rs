//! One connection: the bytes it gave, the answer under way, the bytes it still gets.

use std::collections::VecDeque;
use std::rc::Rc;

use monoio::net::TcpStream;

use crate::http::Head;
use crate::model::{Schedule, Timing};
use crate::truth::Record;
use crate::wire::{Answer, Wire};

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
    /// Whether the kernel took them only in part at first.
    pub(crate) retried: bool,
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
    /// An answer that is no generation.
    Other,
}

/// What decides how an answer is cut into sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Output events that may share a send.
    pub(crate) batch: usize,
    /// Whether the head goes first.
    pub(crate) head_early: bool,
}

/// An answer under way.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) answer: Answer,
    pub(crate) stream: bool,
    pub(crate) request_id: Option<String>,
    pub(crate) record: Option<Record>,
    /// Output events to come; `None` while it waits in the queue.
    schedule: Option<Schedule>,
    /// When an answer in one piece is due.
    whole_due_ns: u64,
    head_done: bool,
    tail_done: bool,
    tokens_done: u32,
    /// An output event as it is sent over and over, and the tokens in it.
    repeated: Vec<u8>,
    repeated_tokens: u32,
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
        if !self.output.bytes.is_empty() {
            return Some(0);
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
        self.active.is_some() || !self.output.bytes.is_empty() || self.closing || self.dead
    }
}

impl Output {
    /// What lies in `bytes` since the last mark is one `unit`.
    pub(crate) fn mark(&mut self, unit: Unit) {
        self.marks.push_back(Mark { unit, end: self.bytes.len() });
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
    }
}

impl Active {
    /// An answer that has not started.
    pub(crate) fn new(
        answer: Answer,
        stream: bool,
        request_id: Option<String>,
        record: Option<Record>,
    ) -> Self {
        Self {
            answer,
            stream,
            request_id,
            record,
            schedule: None,
            whole_due_ns: 0,
            head_done: false,
            tail_done: false,
            tokens_done: 0,
            repeated: Vec::new(),
            repeated_tokens: 0,
        }
    }

    /// It left the queue at `now_ns`.
    pub(crate) fn start(&mut self, timing: &Timing, now_ns: u64) {
        let schedule = timing.schedule(self.answer.number, self.answer.output_tokens, now_ns);
        if !self.stream {
            self.whole_due_ns = schedule.clone().last().map_or(now_ns, |event| event.due_ns);
        }
        self.schedule = Some(schedule);
        if let Some(record) = &mut self.record {
            record.started_ns = Some(now_ns);
        }
    }

    /// Whether it left the queue.
    pub(crate) fn is_started(&self) -> bool {
        self.schedule.is_some()
    }

    /// Whether only the tail is left to send.
    pub(crate) fn wants_tail(&self) -> bool {
        let drained = self.schedule.as_ref().is_some_and(|schedule| schedule.peek().is_none());
        self.stream && self.head_done && drained && !self.tail_done
    }

    fn next_due_ns(&self, cut: Cut) -> Option<u64> {
        if self.stream && cut.head_early && !self.head_done {
            return Some(0);
        }
        let schedule = self.schedule.as_ref()?;
        if self.tail_done {
            return None;
        }
        if !self.stream {
            return Some(self.whole_due_ns);
        }
        Some(schedule.peek().map_or(0, |event| event.due_ns))
    }

    /// Renders what is due at `now_ns` and belongs into one send.
    pub(crate) fn gather(&mut self, wire: &Wire, cut: Cut, now_ns: u64, out: &mut Output) {
        let due = self.next_due_ns(cut).is_some_and(|due_ns| due_ns <= now_ns);
        if !due {
            return;
        }
        if !self.stream {
            wire.whole(&mut out.bytes, &self.answer, self.request_id.as_deref());
            out.mark(Unit::Tail);
            self.tail_done = true;
            return;
        }
        if !self.head_done {
            wire.head(&mut out.bytes, &self.answer, self.request_id.as_deref());
            out.mark(Unit::Head);
            self.head_done = true;
            if cut.head_early && cut.batch == 1 {
                return;
            }
        }
        let events = self.gather_events(wire, cut.batch, now_ns, out);
        if self.wants_tail() && (events == 0 || events < cut.batch) {
            wire.tail(&mut out.bytes, &self.answer);
            out.mark(Unit::Tail);
            self.tail_done = true;
        }
    }

    fn gather_events(&mut self, wire: &Wire, batch: usize, now_ns: u64, out: &mut Output) -> usize {
        let mut events = 0;
        let Some(schedule) = &mut self.schedule else { return 0 };
        while events < batch && schedule.peek().is_some_and(|event| event.due_ns <= now_ns) {
            let Some(event) = schedule.next() else { break };
            self.tokens_done += event.tokens;
            if self.answer.continuous {
                wire.output(&mut out.bytes, &self.answer, event.tokens, self.tokens_done);
            } else {
                if self.repeated_tokens != event.tokens {
                    self.repeated.clear();
                    wire.output(&mut self.repeated, &self.answer, event.tokens, 0);
                    self.repeated_tokens = event.tokens;
                }
                out.bytes.extend_from_slice(&self.repeated);
            }
            let (index, tokens, due_ns) = (event.index, event.tokens, event.due_ns);
            out.mark(Unit::Output { index, tokens, due_ns });
            events += 1;
        }
        events
    }
}
