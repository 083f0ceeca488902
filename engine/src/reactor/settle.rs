//! The end of a request: its outcome, its record, and who goes on after it.

use super::conn::{Request, State};
use super::core::Core;
use super::feed::Prepared;
use super::outcome::Ending;
use super::socket;
use super::turns::turns_left;
use crate::record::{ErrorClass, NONE, Outcome, Settled};

/// What a request that has ended leaves behind.
pub(super) enum Settling {
    /// It is tried again.
    PutOff,
    /// Its user, or its place, is free.
    Over,
    /// The next turn of its conversation.
    GoesOn(Box<Request>),
    /// The next leg of the same request.
    LegFollows(Box<Request>),
}

impl Core {
    /// The request of connection `id` failed with `ending`, or the connection was stale: then it is
    /// replaced once, if no byte of an answer came.
    pub(crate) fn settle_or_replace(&mut self, id: usize, ending: &Ending, now: u64) {
        let conn = &self.conns[id];
        let settled = &conn.exchange.settled;
        let stale = settled.reused
            && !conn.replaced
            && settled.reads == 0
            && conn.ours.is_none()
            && !self.start.control.is_cut();
        if stale && let Some(request) = self.take_back(id) {
            if request.leg.is_none() {
                self.recorder.left();
            }
            self.recorder.tally().stale_replaced += 1;
            self.open_or_want(request);
            return;
        }
        self.settle(id, ending, now);
        self.close(id);
    }

    /// The request of connection `id` is over; whoever waited for that goes on.
    pub(crate) fn settle(&mut self, id: usize, ending: &Ending, now: u64) {
        let user = self.conns[id].user;
        let settling = self.settle_quietly(id, ending);
        self.conclude(settling, user, now);
    }

    /// Goes on as the end of a request of `user` says.
    pub(super) fn conclude(&mut self, settling: Settling, user: u32, now: u64) {
        match settling {
            Settling::PutOff => {}
            Settling::LegFollows(request) => self.issue(*request),
            Settling::Over => self.next_after(now, user),
            Settling::GoesOn(turn) => {
                self.go_on(*turn, now);
                if !self.setup.is_closed {
                    self.pump();
                }
            }
        }
    }

    /// A place in flight has become free at `now`; in a closed loop this user.
    pub(crate) fn next_after(&mut self, now: u64, user: u32) {
        if self.setup.is_closed {
            self.user_free(now, user, true);
        } else {
            self.pump();
        }
    }

    /// The request of connection `id` is over, or put off to be tried again.
    pub(super) fn settle_quietly(&mut self, id: usize, ending: &Ending) -> Settling {
        let conn = &mut self.conns[id];
        let count = self.setup.count.as_deref();
        conn.exchange.settle(&conn.answer, ending, count);
        if let Some(text) = &mut conn.exchange.settled.error_text {
            self.setup.secrets.hide(text);
        }
        if let Some(told) = &mut conn.exchange.settled.server {
            told.endpoint = conn.server as u16;
            told.named.iter_mut().for_each(|(name, _)| self.setup.secrets.hide(name));
        }
        if let Some(leg) = conn.leg.take() {
            return self.leg_over(id, leg);
        }
        if conn.exchange.settled.marks.write_start != NONE {
            self.recorder.left();
        }
        if self.defer(id) {
            return Settling::PutOff;
        }
        let conn = &mut self.conns[id];
        let last_coalesced = conn.exchange.last_coalesced();
        let (script, user, server) = (conn.script.take(), conn.user, conn.server);
        let mut settled = std::mem::replace(&mut conn.exchange.settled, Settled::new(0, 0));
        let prepared = conn.prepared.take();
        let turn = self.next_turn(&settled, script, user, server);
        self.finish(&mut settled, prepared, last_coalesced);
        self.conns[id].exchange.settled = settled;
        turn.map_or(Settling::Over, |turn| Settling::GoesOn(Box::new(turn)))
    }

    /// A request in flight ends for good.
    pub(super) fn finish(
        &mut self,
        settled: &mut Settled,
        prepared: Option<Prepared>,
        last_coalesced: bool,
    ) {
        if let Some(prepared) = prepared {
            self.feed.give_back(prepared.bytes);
        }
        match settled.outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Error => self.failed += 1,
            Outcome::Cancelled => self.cancelled += 1,
        }
        let now = self.clock.now();
        self.recorder.settle(settled, now, last_coalesced);
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.recorder.is_filling() {
            self.writer.raise();
        }
    }

    /// A request that was never written is over.
    pub(super) fn settle_unsent(&mut self, request: Request, class: ErrorClass) {
        if let Some(leg) = request.leg {
            self.leg_unsent(leg, class);
            return;
        }
        let mut settled = Settled::new(request.prepared.index, request.intended);
        settled.reactor = self.setup.reactor;
        settled.wait_cause = request.cause;
        settled.class = request.prepared.class;
        settled.session = request.prepared.turn.is_some().then_some(request.prepared.item);
        settled.turn = request.prepared.turn;
        settled.planned_input = request.prepared.input_tokens;
        settled.marks.dispatched = request.dispatched;
        settled.phase = request.phase;
        settled.error = Some(class);
        if request.dispatched != NONE {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        self.cancelled += 1;
        let now = self.clock.now();
        self.recorder.settle(&mut settled, now, false);
        let unsent = turns_left(request.prepared.script.as_deref());
        self.give_up(request, unsent);
    }

    /// Connection `id` waits for its next request; false if it has carried its last.
    pub(crate) fn rest(&mut self, id: usize) -> bool {
        let conn = &mut self.conns[id];
        if !self.idle.keeps() || conn.served >= self.setup.requests_per_connection {
            return false;
        }
        conn.state = State::Idle;
        self.idle.put(conn.user, conn.server, id);
        true
    }

    /// Connection `id` is over: its task ends at its next wake-up.
    pub(crate) fn close(&mut self, id: usize) {
        if self.conns[id].state != State::Closed {
            self.look_back(id);
        }
        let conn = &mut self.conns[id];
        if conn.state == State::Idle {
            self.idle.remove(conn.user, conn.server, id);
        }
        conn.state = State::Closed;
        if conn.fd >= 0 {
            socket::shutdown(conn.fd);
        }
    }

    /// The task of connection `id` has ended; its place may be used again.
    pub(crate) fn release(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        conn.state = State::Free;
        conn.stream = None;
        conn.tls = None;
        conn.fd = -1;
        self.free.push(id);
    }
}
