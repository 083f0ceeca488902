//! Which request has taken too long, and by which limit. No timer per request: a coarse task asks.

use crate::record::{ErrorClass, Marks, NONE};
use crate::workload::{Cancel, CancelAfter, Limits};

/// The limits of a run, ready to be asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    limits: Limits,
    /// How long after it was sent a request is cancelled on purpose.
    cancel_ns: Option<u64>,
    is_closed: bool,
}

impl Deadlines {
    /// `is_closed`: a request's age counts from its dispatch and not from the schedule.
    pub(crate) fn new(limits: Limits, cancel: Option<Cancel>, is_closed: bool) -> Self {
        let cancel_ns = cancel.and_then(|cancel| match cancel.after {
            CancelAfter::Time(ns) => Some(ns),
            CancelAfter::Events(_) => None,
        });
        Self { limits, cancel_ns, is_closed }
    }

    /// How often to ask, ns: a twentieth of the shortest limit, within reason.
    pub(crate) fn tick_ns(&self) -> u64 {
        let limits = &self.limits;
        let all = [
            limits.request_ns,
            limits.connect_ns,
            limits.tls_ns,
            self.cancel_ns,
            limits.first_byte_ns,
            limits.first_token_ns,
            limits.idle_ns,
        ];
        let shortest = all.into_iter().flatten().min().unwrap_or(u64::MAX);
        (shortest / 20).clamp(2_000_000, 50_000_000)
    }

    /// Of a request whose connection is being opened since `opened_at`.
    pub(crate) fn while_opening(
        &self,
        marks: Marks,
        opened_at: u64,
        now: u64,
    ) -> Option<ErrorClass> {
        if marks.connected == NONE && over(self.limits.connect_ns, opened_at, now) {
            return Some(ErrorClass::ConnectTimeout);
        }
        if over(self.limits.tls_ns, marks.connected, now) {
            return Some(ErrorClass::TlsHandshake);
        }
        self.whole(marks, now)
    }

    /// Of a request that is on its connection; `active_at`: when bytes last moved.
    pub(crate) fn while_busy(&self, marks: Marks, active_at: u64, now: u64) -> Option<ErrorClass> {
        if marks.done != NONE {
            return None;
        }
        if marks.write_done != NONE {
            let no_byte = marks.first_byte == NONE;
            let no_token = marks.first_token == NONE;
            if no_byte && over(self.limits.first_byte_ns, marks.write_done, now) {
                return Some(ErrorClass::TimeoutFirstByte);
            }
            if no_token && over(self.limits.first_token_ns, marks.write_done, now) {
                return Some(ErrorClass::TimeoutFirstToken);
            }
            if over(self.limits.idle_ns, active_at.max(marks.write_done), now) {
                return Some(ErrorClass::TimeoutIdle);
            }
        }
        self.whole(marks, now)
    }

    /// Of a request that is to be cancelled on purpose.
    pub(crate) fn to_cancel(
        cancel: Option<CancelAfter>,
        marks: Marks,
        now: u64,
    ) -> Option<ErrorClass> {
        match cancel {
            Some(CancelAfter::Time(ns)) if marks.done == NONE => {
                over(Some(ns), marks.write_done, now).then_some(ErrorClass::CancelRate)
            }
            _ => None,
        }
    }

    /// Of a request of any state, by its age.
    pub(crate) fn whole(&self, marks: Marks, now: u64) -> Option<ErrorClass> {
        let origin = if self.is_closed { marks.dispatched } else { marks.intended };
        over(self.limits.request_ns, origin, now).then_some(ErrorClass::TimeoutRequest)
    }
}

fn over(limit: Option<u64>, since: u64, now: u64) -> bool {
    limit.is_some_and(|limit| since != NONE && now.saturating_sub(since) > limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SimClock;

    const MS: u64 = 1_000_000;

    fn limits() -> Limits {
        Limits {
            request_ns: Some(1_000 * MS),
            connect_ns: Some(50 * MS),
            tls_ns: Some(40 * MS),
            first_byte_ns: Some(100 * MS),
            first_token_ns: Some(200 * MS),
            idle_ns: Some(300 * MS),
        }
    }

    #[test]
    fn each_limit_counts_from_its_own_moment() {
        let clock = SimClock::default();
        let deadlines = Deadlines::new(limits(), None, true);
        let mut marks = Marks::new(0);
        marks.dispatched = clock.advance(10 * MS);
        assert_eq!(deadlines.while_opening(marks, marks.dispatched, clock.advance(50 * MS)), None);
        assert_eq!(
            deadlines.while_opening(marks, marks.dispatched, clock.advance(1)),
            Some(ErrorClass::ConnectTimeout)
        );
        marks.connected = clock.now();
        assert_eq!(deadlines.while_opening(marks, 0, clock.advance(40 * MS)), None);
        assert_eq!(
            deadlines.while_opening(marks, 0, clock.advance(1)),
            Some(ErrorClass::TlsHandshake)
        );
        marks.write_done = clock.now();
        let sent = clock.now();
        assert_eq!(deadlines.while_busy(marks, sent, clock.advance(100 * MS)), None);
        assert_eq!(
            deadlines.while_busy(marks, sent, clock.advance(1)),
            Some(ErrorClass::TimeoutFirstByte)
        );
        marks.first_byte = clock.now();
        assert_eq!(
            deadlines.while_busy(marks, marks.first_byte, clock.advance_to(sent + 200 * MS + 1)),
            Some(ErrorClass::TimeoutFirstToken)
        );
        marks.first_token = clock.now();
        let last = clock.now();
        assert_eq!(deadlines.while_busy(marks, last, clock.advance(300 * MS)), None);
        assert_eq!(
            deadlines.while_busy(marks, last, clock.advance(1)),
            Some(ErrorClass::TimeoutIdle)
        );
        let active = clock.advance_to(1_010 * MS + 1);
        assert_eq!(
            deadlines.while_busy(marks, active, clock.now()),
            Some(ErrorClass::TimeoutRequest)
        );
    }

    #[test]
    fn an_open_loop_request_is_as_old_as_its_schedule() {
        let mut marks = Marks::new(0);
        marks.dispatched = 900 * MS;
        assert_eq!(Deadlines::new(limits(), None, true).while_busy(marks, 0, 1_001 * MS), None);
        assert_eq!(
            Deadlines::new(limits(), None, false).while_busy(marks, 0, 1_001 * MS),
            Some(ErrorClass::TimeoutRequest)
        );
    }

    #[test]
    fn nothing_expires_without_limits_or_after_the_answer() {
        let mut marks = Marks::new(0);
        marks.write_done = 0;
        assert_eq!(
            Deadlines::new(Limits::default(), None, true).while_busy(marks, 0, u64::MAX - 1),
            None
        );
        marks.done = 5;
        assert_eq!(Deadlines::new(limits(), None, true).while_busy(marks, 0, u64::MAX - 1), None);
    }
}
