//! Who has come to which meeting at a prefill server: no clock, no socket.

use std::collections::{HashMap, VecDeque};

/// Meetings that are remembered; the oldest is forgotten first.
const MEETINGS_MAX: usize = 65_536;

/// What a decode server learns of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// When the prompt is computed, which may be still to come.
    pub(crate) at_ns: u64,
    /// How long its hand-off takes, if the prefill server says so.
    pub(crate) handoff_ns: u64,
}

/// Meetings by their key: a room, or a request's id. `H` finds the request here, `A` answers the
/// decode server.
#[derive(Debug)]
pub(crate) struct Register<H, A> {
    meetings: HashMap<String, Meeting<H, A>>,
    order: VecDeque<String>,
}

#[derive(Debug)]
struct Meeting<H, A> {
    host: Option<H>,
    asker: Option<A>,
    asked: bool,
    ready: Option<Ready>,
}

/// What an asking decode server leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked<H, A> {
    /// Nothing yet.
    Noted,
    /// This request has waited for it.
    Wakes(H),
    /// It can be answered at once.
    Answer(Ready, A),
}

impl<H: Copy, A> Register<H, A> {
    /// One without meetings.
    pub(crate) fn new() -> Self {
        Self { meetings: HashMap::new(), order: VecDeque::new() }
    }

    /// A request that meets under `key` has left the queue; true if the other side is there already.
    pub(crate) fn come(&mut self, key: &str, host: H) -> bool {
        let meeting = self.meeting(key);
        if !meeting.asked {
            meeting.host = Some(host);
        }
        meeting.asked
    }

    /// A decode server asks for `key`.
    pub(crate) fn ask(&mut self, key: &str, asker: A) -> Asked<H, A> {
        let meeting = self.meeting(key);
        meeting.asked = true;
        if let Some(ready) = meeting.ready {
            return Asked::Answer(ready, asker);
        }
        meeting.asker = Some(asker);
        meeting.host.take().map_or(Asked::Noted, Asked::Wakes)
    }

    /// It is known when the prompt of `key` is computed; whoever has asked is to be told.
    pub(crate) fn ready(&mut self, key: &str, ready: Ready) -> Option<A> {
        let meeting = self.meeting(key);
        meeting.ready = Some(ready);
        meeting.asker.take()
    }

    fn meeting(&mut self, key: &str) -> &mut Meeting<H, A> {
        if !self.meetings.contains_key(key) {
            if self.order.len() == MEETINGS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.meetings.remove(&oldest);
            }
            self.order.push_back(key.to_owned());
        }
        let nobody = || Meeting { host: None, asker: None, asked: false, ready: None };
        self.meetings.entry(key.to_owned()).or_insert_with(nobody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Ready = Ready { at_ns: 7, handoff_ns: 3 };

    #[test]
    fn whoever_comes_first_waits_for_the_other() {
        let mut register = Register::new();
        assert!(!register.come("a", 1));
        assert_eq!(register.ask("a", "x"), Asked::Wakes(1));
        assert_eq!(register.ready("a", READY), Some("x"));
        assert_eq!(register.ask("b", "y"), Asked::Noted);
        assert!(register.come("b", 2));
        assert_eq!(register.ready("b", READY), Some("y"));
        assert_eq!(register.ready("c", READY), None);
        assert_eq!(register.ask("c", "z"), Asked::Answer(READY, "z"));
    }

    #[test]
    fn old_meetings_are_forgotten() {
        let mut register: Register<u32, ()> = Register::new();
        register.ready("first", READY);
        for key in 0..MEETINGS_MAX {
            register.come(&key.to_string(), 0);
        }
        assert_eq!(register.ask("first", ()), Asked::Noted);
        assert_eq!(register.meetings.len(), MEETINGS_MAX);
    }
}
