//! What follows a request: the next turn of its conversation, the next request of its user; both
//! after a pause.

use super::conn::Request;
use super::core::Core;
use super::feed::Prepared;
use super::pool::NOBODY;
use super::socket;
use crate::plan::Script;
use crate::record::{Outcome, Phase, Settled};
use crate::workload::Connections;

/// How long a user waits for the writer of records before it is looked at again, ns.
const WRITER_NS: u64 = 1_000_000;

impl Core {
    /// The turn after a request of `user` at `server` that has just ended. None if it was the last, or
    /// if the conversation cannot go on.
    pub(super) fn next_turn(
        &mut self,
        settled: &Settled,
        script: Option<Box<Script>>,
        user: u32,
        server: usize,
    ) -> Option<Request> {
        settled.turn?;
        let is_ok = settled.outcome == Outcome::Ok;
        let script = match script {
            Some(script) if is_ok && self.issuing && script.turns_left() > 0 => script,
            script => {
                let is_done = is_ok && script.as_ref().is_none_or(|one| one.turns_left() == 0);
                self.recorder.tally().sessions_done += u64::from(is_done);
                self.session_over(user, server, turns_left(script.as_deref()));
                return None;
            }
        };
        let pause_ns = script.pause_ns().unwrap_or(0);
        let mut bytes = Vec::new();
        let (text, tokens) = (settled.text.as_slice(), settled.output_tokens);
        let written = self.plan.write_turn(script, text, tokens, &mut bytes)?;
        let prepared = Prepared::new(written, bytes, pause_ns);
        Some(Request { user, ..Request::new(prepared, 0, Phase::Measure, None) })
    }

    /// A conversation ends, with so many turns that it still had to say.
    pub(super) fn session_over(&mut self, user: u32, server: usize, unsent: u64) {
        self.recorder.tally().turns_unsent += unsent;
        if self.setup.connections != Connections::PerSession {
            return;
        }
        while let Some(id) = self.idle.take(user, server) {
            self.look_back(id);
            self.conns[id].state = super::conn::State::Closed;
            socket::shutdown(self.conns[id].fd);
        }
        if !self.setup.is_closed && user != NOBODY {
            self.places_free.push(user);
        }
    }

    /// A place among the connections for a conversation that begins in an open loop.
    pub(super) fn session_place(&mut self) -> u32 {
        let keeps_apart = self.setup.connections == Connections::PerSession;
        // Single requests would never give it back.
        if !keeps_apart || self.setup.is_closed || !self.plan.has_sessions() {
            return NOBODY;
        }
        self.places_free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        })
    }

    /// Puts a request off until `at`, the instant at which it is meant to start.
    pub(super) fn put_off(&mut self, mut request: Request, at: u64) {
        request.intended = at;
        self.look_again(request, at);
    }

    /// A request is taken from the agenda at `at`, whenever it was meant to start.
    fn look_again(&mut self, request: Request, at: u64) {
        if let Some((timer, wake)) = self.agenda.put(at, Box::new(request)) {
            socket::arm(timer, self.clock.monotonic(wake));
        }
    }

    /// The next turn of a conversation goes out after its pause, which begins at `now`.
    pub(super) fn go_on(&mut self, mut request: Request, now: u64) {
        match request.prepared.pause_ns {
            0 => {
                request.intended = now;
                self.take_turn(request);
            }
            pause => self.put_off(request, now.saturating_add(pause)),
        }
    }

    /// Starts all that is due.
    pub(crate) fn start_due(&mut self) {
        let now = self.clock.now();
        while let Some(request) = self.agenda.take(now) {
            self.take_turn(*request);
        }
    }

    /// A request that was put off is due.
    fn take_turn(&mut self, request: Request) {
        if self.setup.is_closed {
            if self.recorder.is_behind() {
                let later = self.clock.now() + WRITER_NS;
                self.look_again(request, later);
            } else {
                self.take_user(request);
            }
            return;
        }
        let due = request.intended;
        let may_begin = self.issuing && due < self.start.window.end();
        let begun =
            may_begin.then(|| self.start.window.begin(request.prepared.index, due)).flatten();
        let Some(phase) = begun else {
            self.abandon(request);
            return;
        };
        self.recorder.offered(due);
        if phase == Phase::Measure {
            self.recorder.tally().offer(request.prepared.class);
        }
        self.admit(Request { phase, ..request });
    }

    /// A request that was never taken up will not be sent, and has no record.
    pub(super) fn abandon(&mut self, request: Request) {
        let unsent = match request.prepared.turn {
            // A conversation that has not begun leaves nothing unsaid.
            None | Some(0) => 0,
            Some(_) => 1 + turns_left(request.prepared.script.as_deref()),
        };
        self.give_up(request, unsent);
    }

    /// A request is over before it was sent, and with it its conversation, which had so many turns
    /// to say besides.
    pub(super) fn give_up(&mut self, request: Request, unsent: u64) {
        let Prepared { turn, bytes, .. } = request.prepared;
        if turn.is_some() {
            self.session_over(request.user, request.server, unsent);
        }
        self.feed.give_back(bytes);
    }
}

/// Turns that wait for others before them.
pub(super) fn turns_left(script: Option<&Script>) -> u64 {
    script.map_or(0, Script::turns_left) as u64
}
