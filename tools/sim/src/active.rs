//! One answer under way: what of it is due when, and how it goes into sends.

use crate::connection::{Cut, Drip, Output, Unit};
use crate::fault::Fault;
use crate::model::{Schedule, Timing};
use crate::truth::Record;
use crate::wire::{Answer, Wire};

/// An answer under way.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) answer: Answer,
    pub(crate) stream: bool,
    pub(crate) request_id: Option<String>,
    pub(crate) record: Option<Record>,
    /// What goes wrong with it.
    pub(crate) fault: Option<Fault>,
    /// Output events before the fault strikes, if it strikes at one.
    pub(crate) strikes_at: Option<u32>,
    /// Output events to come; `None` while it waits in the queue.
    pub(crate) schedule: Option<Schedule>,
    /// When an answer in one piece is due.
    whole_due_ns: u64,
    head_done: bool,
    /// Whether nothing more is sent.
    pub(crate) tail_done: bool,
    tokens_done: u32,
    /// When the next comment between events is due, if there are any.
    pub(crate) ping_ns: Option<u64>,
    /// An output event as it is sent over and over, and the tokens in it.
    repeated: Vec<u8>,
    repeated_tokens: u32,
}

impl Active {
    /// An answer that has not started.
    pub(crate) fn new(
        mut answer: Answer,
        stream: bool,
        request_id: Option<String>,
        fault: Option<Fault>,
        record: Option<Record>,
    ) -> Self {
        if let Some(fault) = fault {
            answer.bend(fault);
        }
        Self {
            answer,
            stream,
            request_id,
            record,
            fault,
            strikes_at: None,
            schedule: None,
            whole_due_ns: 0,
            head_done: false,
            tail_done: fault == Some(Fault::StallHead),
            tokens_done: 0,
            ping_ns: None,
            repeated: Vec::new(),
            repeated_tokens: 0,
        }
    }

    /// It left the queue at `now_ns`.
    pub(crate) fn start(&mut self, timing: &Timing, now_ns: u64) {
        let tokens = self.answer.output_tokens;
        let schedule = timing.schedule(self.answer.number, tokens, now_ns);
        if !self.stream {
            self.whole_due_ns = schedule.clone().last().map_or(now_ns, |event| event.due_ns);
        }
        self.strikes_at = self.fault.and_then(|fault| fault.strikes_at(timing.events(tokens)));
        self.ping_ns = self.fault.and_then(|fault| fault.ping_ns(now_ns, schedule.peek()));
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

    /// In which pieces it is sent, if not at once.
    pub(crate) fn drip(&self) -> Option<Drip> {
        match self.fault? {
            Fault::Drip { bytes, gap_ns } => Some(Drip { bytes: bytes as usize, gap_ns }),
            _ => None,
        }
    }

    /// When something of it is due: 0 is at once, `None` is not for now.
    pub(crate) fn next_due_ns(&self, cut: Cut) -> Option<u64> {
        if self.tail_done {
            return None;
        }
        let early = self.stream && cut.head_early && !self.head_done;
        if early || self.fault.is_some_and(Fault::turns_away) {
            return Some(0);
        }
        let schedule = self.schedule.as_ref()?;
        if !self.stream {
            return Some(self.whole_due_ns);
        }
        self.ping_ns.or(Some(schedule.peek().map_or(0, |event| event.due_ns)))
    }

    /// Renders what is due at `now_ns` and belongs into one send.
    pub(crate) fn gather(&mut self, wire: &Wire, cut: Cut, now_ns: u64, out: &mut Output) {
        let due = self.next_due_ns(cut).is_some_and(|due_ns| due_ns <= now_ns);
        if !due || self.turn_away(out) {
            return;
        }
        if !self.stream {
            self.gather_whole(wire, out);
            return;
        }
        if !self.head_done {
            wire.head(&mut out.bytes, &self.answer, self.request_id.as_deref());
            out.mark(Unit::Head);
            self.head_done = true;
            if cut.head_early && (cut.batch == 1 || self.fault.is_some()) {
                return;
            }
        }
        // What strikes, or goes between events, strikes or goes between sends.
        let batch = if self.fault.is_some() { 1 } else { cut.batch };
        if self.strike(wire, out) || self.ping(out) {
            return;
        }
        let events = self.gather_events(wire, batch, now_ns, out);
        if self.wants_tail() && (events == 0 || events < batch) {
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
            let (index, due_ns) = (event.index, event.due_ns);
            self.tokens_done += event.tokens;
            let mut tokens = event.tokens;
            if self.strikes_at == Some(index) {
                wire.malformed(&mut out.bytes, &self.answer);
                tokens = 0;
            } else if self.answer.continuous {
                wire.output(&mut out.bytes, &self.answer, event.tokens, self.tokens_done);
            } else {
                if self.repeated_tokens != event.tokens {
                    self.repeated.clear();
                    wire.output(&mut self.repeated, &self.answer, event.tokens, 0);
                    self.repeated_tokens = event.tokens;
                }
                out.bytes.extend_from_slice(&self.repeated);
            }
            out.mark(Unit::Output { index, tokens, due_ns });
            events += 1;
            self.ping_ns = self.fault.and_then(|fault| fault.ping_ns(due_ns, schedule.peek()));
        }
        events
    }
}
