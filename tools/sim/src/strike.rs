//! What a fault does to an answer under way.

use crate::active::Active;
use crate::connection::{Exit, Output, Unit};
use crate::course::Course;
use crate::document::{self, Extra};
use crate::fault::Fault;
use crate::model::Event;
use crate::wire::{self, Answer, Wire};

impl Fault {
    /// Whether it means something for this answer; else the answer is as if there were no fault.
    pub(crate) fn fits(self, answer: &Answer, stream: bool) -> bool {
        match self {
            Self::Cut { .. } | Self::NoDone | Self::Pings => stream,
            Self::WrongUsage => answer.usage,
            Self::CloseAfter => !answer.close,
            _ => true,
        }
    }

    /// The index of the output event in whose place it strikes, of an answer of `events`; the
    /// one after the last is the tail.
    pub(crate) fn strikes_at(self, events: u32) -> Option<u32> {
        let after = |after: Option<u32>| after.unwrap_or(events / 2);
        match self {
            Self::Malformed { after: wanted } => Some(after(wanted).min(events.saturating_sub(1))),
            _ => Some(after(self.strikes_after()?).min(events)),
        }
    }

    /// When the comment before the event `next` is due, what was before being at `before_ns`.
    pub(crate) fn ping_ns(self, before_ns: u64, next: Option<Event>) -> Option<u64> {
        let due_ns = next.filter(|_| self == Self::Pings)?.due_ns;
        Some(before_ns + due_ns.saturating_sub(before_ns) / 2)
    }
}

impl Answer {
    /// Makes it say what `fault` makes it say throughout.
    pub(crate) fn bend(&mut self, fault: Fault) {
        match fault {
            Fault::Empty => self.role = false,
            Fault::NoDone => self.done = false,
            Fault::WrongUsage => self.usage_factor = 2,
            _ => {}
        }
    }
}

impl Active {
    /// Whether it is answered at once, without being served.
    pub(crate) fn is_turned_away(&self) -> bool {
        self.refusal.is_some() || self.fault.is_some_and(Fault::turns_away)
    }

    /// Answers a request that is turned away; false if it is not.
    pub(crate) fn turn_away(&mut self, out: &mut Output) -> bool {
        if let Some(refusal) = self.refusal {
            let request_id = self.request_id.as_deref();
            let extra = Extra { request_id, close: self.answer.close, ..Extra::default() };
            document::refusal(&mut out.bytes, refusal, extra);
            out.mark(Unit::Broken(Exit::Keep));
            self.tail_done = true;
            return true;
        }
        match self.fault {
            Some(Fault::CloseBefore) => out.mark(Unit::Broken(Exit::Close)),
            Some(Fault::Status { code, retry_after_s }) => {
                let request_id = self.request_id.as_deref();
                let extra = Extra { request_id, retry_after_s, close: self.answer.close };
                document::fault(&mut out.bytes, code, extra);
                out.mark(Unit::Broken(Exit::Keep));
            }
            _ => return false,
        }
        self.tail_done = true;
        true
    }

    /// Breaks off a stream if it is time for that; false if it is not.
    pub(crate) fn strike(&mut self, wire: &Wire, out: &mut Output) -> bool {
        let next = self.course.as_ref().and_then(Course::peek);
        let (Some(fault), Some(at)) = (self.fault, self.strikes_at) else { return false };
        if next.is_some_and(|event| event.index < at) {
            return false;
        }
        let exit = match fault {
            Fault::Stall { .. } => None,
            Fault::Reset { .. } => Some(Exit::Reset),
            Fault::Truncate { .. } => {
                let before = out.bytes.len();
                wire.output(&mut out.bytes, &self.answer, 1, 0);
                out.bytes.truncate(before + (out.bytes.len() - before) / 2);
                Some(Exit::Close)
            }
            Fault::Cut { .. } | Fault::Empty => {
                out.bytes.extend_from_slice(wire::LAST_CHUNK);
                Some(Exit::Keep)
            }
            Fault::ErrorEvent { .. } => {
                wire::error_event(&mut out.bytes);
                Some(Exit::Keep)
            }
            _ => return false,
        };
        if let Some(exit) = exit {
            out.mark(Unit::Broken(exit));
        }
        self.tail_done = true;
        true
    }

    /// Sends the comment that is due; false if none is.
    pub(crate) fn ping(&mut self, out: &mut Output) -> bool {
        let due = self.ping_ns.take().is_some();
        if due {
            wire::ping(&mut out.bytes);
            out.mark(Unit::Other);
        }
        due
    }

    /// Renders an answer in one piece, or what is left of it.
    pub(crate) fn gather_whole(&mut self, wire: &Wire, out: &mut Output) {
        let object = self.leg.as_ref().and_then(|leg| leg.object.as_deref());
        let mut body = wire.body(&self.answer, object);
        let mut unit = Unit::Tail;
        match self.fault {
            Some(Fault::Malformed { .. }) => body.truncate(body.len() / 2),
            Some(Fault::Empty) => {
                body.clear();
                unit = Unit::Broken(Exit::Keep);
            }
            Some(Fault::ErrorEvent { .. }) => {
                body = document::error_object();
                unit = Unit::Broken(Exit::Keep);
            }
            _ => {}
        }
        let request_id = self.request_id.as_deref();
        let extra = Extra { request_id, close: self.answer.close, ..Extra::default() };
        document::json(&mut out.bytes, 200, &body, extra);
        let broken = match self.fault {
            // The body goes on never.
            Some(Fault::Stall { .. }) => Some(Unit::Head),
            Some(Fault::Reset { .. }) => Some(Unit::Broken(Exit::Reset)),
            Some(Fault::Truncate { .. }) => Some(Unit::Broken(Exit::Close)),
            _ => None,
        };
        if broken.is_some() {
            out.bytes.truncate(out.bytes.len() - body.len().div_ceil(2));
        }
        out.mark(broken.unwrap_or(unit));
        self.tail_done = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_in_the_middle_or_where_it_is_told() {
        let at = |fault: &str, events| fault.parse::<Fault>().unwrap().strikes_at(events);
        assert_eq!([at("stall", 10), at("stall", 5), at("stall", 1)], [Some(5), Some(2), Some(0)]);
        assert_eq!([at("reset:3", 10), at("reset:3", 2)], [Some(3), Some(2)]);
        assert_eq!(at("empty", 10), Some(0));
        assert_eq!(at("malformed:9", 4), Some(3), "one event is always malformed");
        assert_eq!([at("pings", 9), at("stall-head", 9), at("drip", 9)], [None; 3]);
    }

    #[test]
    fn a_comment_is_due_half_way_to_the_next_event() {
        let next = Some(Event { index: 1, due_ns: 300, tokens: 1 });
        assert_eq!(Fault::Pings.ping_ns(100, next), Some(200));
        assert_eq!(Fault::Pings.ping_ns(300, next), Some(300));
        assert_eq!(Fault::Pings.ping_ns(100, None), None);
        assert_eq!(Fault::Empty.ping_ns(100, next), None);
    }
}
