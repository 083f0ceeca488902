//! One answer under way: what of it is due when, and how it goes into sends.

use crate::connection::{Cut, Drip, Output, Unit};
use crate::course::{Course, Hand};
use crate::fault::Fault;
use crate::legs::leg::Leg;
use crate::legs::register::Ready;
use crate::legs::stage::{Parts, Stage};
use crate::model::{Schedule, Timing};
use crate::serving::{Emitted, Refusal};
use crate::shared::Place;
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
    /// Its part of a request that goes to several servers.
    pub(crate) leg: Option<Box<Leg>>,
    /// When it was read, and what came then.
    pub(crate) marks: Marks,
    /// Why the serving model does not serve it.
    pub(crate) refusal: Option<Refusal>,
    /// Output events before the fault strikes, if it strikes at one.
    pub(crate) strikes_at: Option<u32>,
    /// Output events to come; `None` while it waits in the queue. With a serving model it is
    /// there from the beginning, whether or not it waits.
    pub(crate) course: Option<Course>,
    /// When an answer in one piece is due, once that is known.
    whole_due_ns: Option<u64>,
    /// When the last event was due, or the answer started.
    before_ns: u64,
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

/// Times of one request (CLOCK_MONOTONIC, ns), for `GET /metrics`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) read_ns: u64,
    /// When it was worked on, out of the queue and with its prompt handed over.
    pub(crate) scheduled_ns: u64,
    /// The first and the last token; of an answer in one piece when they were due.
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
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
            leg: None,
            marks: Marks::default(),
            refusal: None,
            strikes_at: None,
            course: None,
            whole_due_ns: None,
            before_ns: 0,
            head_done: false,
            tail_done: fault == Some(Fault::StallHead),
            tokens_done: 0,
            ping_ns: None,
            repeated: Vec::new(),
            repeated_tokens: 0,
        }
    }

    /// It left the queue at `now_ns`.
    pub(crate) fn start(&mut self, timing: &Timing, stage: Option<(&Stage, Place)>, now_ns: u64) {
        self.started(now_ns);
        let schedule = match (stage, self.parts()) {
            (Some((stage, place)), Some(mut parts)) => {
                parts.leg.begun_ns = now_ns;
                let schedule = stage.begin(&mut parts, place, now_ns);
                parts.leg.waits = schedule.is_none();
                schedule
            }
            _ => Some(timing.schedule(self.answer.number, self.answer.output_tokens, now_ns)),
        };
        if let Some(schedule) = schedule {
            self.follow(timing, schedule, now_ns);
        }
    }

    /// It waited for another server and need not any more; false if it did not wait.
    pub(crate) fn meet(
        &mut self,
        timing: &Timing,
        stage: &Stage,
        ready: Option<Ready>,
        now_ns: u64,
    ) -> bool {
        let Some(mut parts) = self.parts().filter(|parts| parts.leg.waits) else { return false };
        parts.leg.waits = false;
        let schedule = stage.meet(&mut parts, ready, now_ns);
        self.follow(timing, schedule, now_ns);
        true
    }

    fn parts(&mut self) -> Option<Parts<'_>> {
        let leg = self.leg.as_deref_mut()?;
        Some(Parts { leg, answer: &mut self.answer, record: self.record.as_mut() })
    }

    /// Its events are those of `schedule` from now on.
    fn follow(&mut self, timing: &Timing, schedule: Schedule, now_ns: u64) {
        let tokens = self.answer.output_tokens;
        let ready_ns = self.leg.as_ref().map_or(0, |leg| leg.outcome.ready_ns);
        self.marks.scheduled_ns = now_ns.max(ready_ns);
        if !self.stream {
            let last = schedule.clone().last();
            let whole_ns = last.map_or(now_ns, |event| event.due_ns);
            self.whole_due_ns = Some(whole_ns);
            self.marks.first_ns = schedule.peek().map_or(now_ns, |event| event.due_ns);
            self.marks.last_ns = whole_ns;
        }
        self.strikes_at = self.fault.and_then(|fault| fault.strikes_at(timing.events(tokens)));
        self.ping_ns = self.fault.and_then(|fault| fault.ping_ns(now_ns, schedule.peek()));
        self.course = Some(Course::Drawn(schedule));
    }

    /// Its tokens will be dealt by the serving model.
    pub(crate) fn await_tokens(&mut self, timing: &Timing) {
        let events = timing.events(self.answer.output_tokens);
        self.strikes_at = self.fault.and_then(|fault| fault.strikes_at(events));
        self.course = Some(Course::Dealt(Hand::new(timing.tokens_per_event())));
    }

    /// The serving model tells of its next token.
    pub(crate) fn deal(&mut self, token: Emitted) {
        if token.index == 0 {
            self.before_ns = token.started_ns;
            self.started(token.started_ns);
            self.marks.scheduled_ns = token.started_ns;
            self.marks.first_ns = token.at_ns;
        }
        if !self.stream {
            self.whole_due_ns = token.is_last.then_some(token.at_ns);
            self.marks.last_ns = token.at_ns;
            return;
        }
        let Some(Course::Dealt(hand)) = &mut self.course else { return };
        hand.deal(token.at_ns, token.is_last);
        // With one at hand already, the comment before it is set up or sent.
        if self.ping_ns.is_none() && hand.len() == 1 {
            let next = self.course.as_ref().and_then(Course::peek);
            self.ping_ns = self.fault.and_then(|fault| fault.ping_ns(self.before_ns, next));
        }
    }

    fn started(&mut self, at_ns: u64) {
        if let Some(record) = &mut self.record {
            record.started_ns = Some(at_ns);
        }
    }

    /// Whether it left the queue.
    pub(crate) fn is_started(&self) -> bool {
        self.course.is_some() || self.leg.as_ref().is_some_and(|leg| leg.waits)
    }

    /// Whether only the tail is left to send.
    pub(crate) fn wants_tail(&self) -> bool {
        let drained = self.course.as_ref().is_some_and(Course::is_over);
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
        if early || self.is_turned_away() {
            return Some(0);
        }
        let course = self.course.as_ref()?;
        if !self.stream {
            return self.whole_due_ns;
        }
        let next_ns = course.peek().map(|event| event.due_ns);
        self.ping_ns.or(next_ns).or(course.is_over().then_some(0))
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
        let Some(course) = &mut self.course else { return 0 };
        while events < batch && course.peek().is_some_and(|event| event.due_ns <= now_ns) {
            let Some(event) = course.next() else { break };
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
            self.before_ns = due_ns;
            self.ping_ns = self.fault.and_then(|fault| fault.ping_ns(due_ns, course.peek()));
        }
        events
    }
}
