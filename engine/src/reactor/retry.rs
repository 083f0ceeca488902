//! Requests that failed and are tried again: which, when, and what becomes of those whose time is up.

use std::rc::Rc;
use std::time::Duration;

use super::conn::Request;
use super::core::Core;
use super::feed::Prepared;
use super::turns::turns_left;
use crate::record::{ErrorClass, Outcome, Settled};
use crate::workload::Retries;

/// Longest pause before a retry, ns, whatever the back-off or the server says.
const PAUSE_MAX_NS: u64 = 60_000_000_000;

/// A request that pauses before it is tried again.
pub(crate) struct Deferred {
    number: u64,
    request: Request,
    /// How its last attempt ended: its record, if there is no other.
    settled: Settled,
}

impl Core {
    /// Puts the request of connection `id` off, whose attempt has just failed, if it may be tried
    /// again. Its origin stays, and so does its place in flight.
    pub(super) fn defer(&mut self, id: usize) -> bool {
        let conn = &mut self.conns[id];
        let settled = &conn.exchange.settled;
        let may = settled.retries < self.setup.retries.max
            && is_worth_it(settled)
            && !self.start.control.is_stopped();
        if !may {
            return false;
        }
        let Some(prepared) = conn.prepared.take() else { return false };
        let pause = pause_ns(self.setup.retries, settled.retries, settled.retry_after);
        let script = conn.script.take();
        let request = Request {
            intended: settled.marks.intended,
            dispatched: settled.marks.dispatched,
            phase: settled.phase,
            cause: settled.wait_cause,
            attempts: settled.attempts,
            retries: settled.retries + 1,
            server: conn.server,
            user: conn.user,
            replaced: false,
            leg: None,
            by_router: settled.legs.is_some(),
            prepared: Prepared { script, ..prepared },
        };
        let settled = std::mem::replace(&mut conn.exchange.settled, Settled::new(0, 0));
        let number = self.deferrals;
        self.deferrals += 1;
        self.deferred.push(Deferred { number, request, settled });
        if let Some(me) = self.me.upgrade() {
            let core = Rc::clone(&me);
            monoio::spawn(async move {
                monoio::time::sleep(Duration::from_nanos(pause)).await;
                core.borrow_mut().try_again(number);
            });
        }
        true
    }

    /// The pause of a deferred request is over.
    fn try_again(&mut self, number: u64) {
        if let Some(at) = self.deferred.iter().position(|one| one.number == number) {
            let deferred = self.deferred.swap_remove(at);
            self.issue(deferred.request);
        }
    }

    /// Deferred requests whose time is up fail as their last attempt did: those that are too old, or
    /// all of them.
    pub(super) fn give_up_deferred(&mut self, now: u64, all: bool) {
        let mut at = 0;
        while at < self.deferred.len() {
            let marks = self.deferred[at].settled.marks;
            if !all && self.setup.deadlines.whole(marks, now).is_none() {
                at += 1;
                continue;
            }
            let mut one = self.deferred.swap_remove(at);
            let (user, script) = (one.request.user, one.request.prepared.script.take());
            if one.settled.turn.is_some() {
                self.session_over(user, one.request.server, turns_left(script.as_deref()));
            }
            self.finish(&mut one.settled, Some(one.request.prepared), false);
            self.next_after(now, user);
        }
    }
}

/// Whether another attempt may end better: the server refused or was not reached, and has sent no
/// token.
fn is_worth_it(settled: &Settled) -> bool {
    let refused = matches!(settled.status, 408 | 425 | 429 | 500 | 502 | 503 | 504);
    let class = match settled.error {
        Some(ErrorClass::HttpStatus | ErrorClass::RateLimited) => refused,
        Some(class) => matches!(
            class,
            ErrorClass::ConnectRefused
                | ErrorClass::ConnectTimeout
                | ErrorClass::ConnClosedEarly
                | ErrorClass::ConnReset
                | ErrorClass::TimeoutFirstByte
        ),
        None => false,
    };
    settled.outcome == Outcome::Error && settled.events == 0 && class
}

/// The pause before the next attempt, ns: twice that of the one before, or what the server asks for
/// if that is longer.
fn pause_ns(retries: Retries, before: u32, retry_after_s: Option<u64>) -> u64 {
    let doubled = retries.backoff_ns.saturating_mul(1 << before.min(30));
    let asked = retry_after_s.unwrap_or(0).saturating_mul(1_000_000_000);
    doubled.max(asked).min(PAUSE_MAX_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn pauses_double_and_the_server_may_ask_for_more() {
        let retries = Retries { max: 3, backoff_ns: 100 * MS };
        assert_eq!(pause_ns(retries, 0, None), 100 * MS);
        assert_eq!(pause_ns(retries, 2, None), 400 * MS);
        assert_eq!(pause_ns(retries, 0, Some(1)), 1000 * MS);
        assert_eq!(pause_ns(retries, 5, Some(1)), 3200 * MS);
        assert_eq!(pause_ns(retries, 60, Some(u64::MAX)), PAUSE_MAX_NS);
    }

    #[test]
    fn what_the_server_understood_and_denied_is_not_tried_again() {
        let failed = |error, status, events| {
            let mut settled = Settled::new(0, 0);
            settled.outcome = Outcome::Error;
            settled.error = Some(error);
            settled.status = status;
            settled.events = events;
            is_worth_it(&settled)
        };
        assert!(failed(ErrorClass::RateLimited, 429, 0));
        assert!(failed(ErrorClass::HttpStatus, 503, 0));
        assert!(failed(ErrorClass::ConnReset, 0, 0));
        assert!(!failed(ErrorClass::HttpStatus, 400, 0));
        assert!(!failed(ErrorClass::ConnReset, 200, 3), "tokens were received");
        assert!(!failed(ErrorClass::TimeoutRequest, 0, 0));
    }
}
