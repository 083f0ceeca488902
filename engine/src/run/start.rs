//! When a load begins: as soon as all stands ready, or at an instant that several hosts agreed on.

use crate::clock::{self, RunClock};
use crate::reactor::{Control, pause};

/// So long before the instant reactors are set up, ns: enough for a slow server to answer the request
/// that warms each, and not so long that what is warm gets cold.
const SETTING_UP_NS: u64 = 3_000_000_000;
/// So long before the instant they are told of it, ns: the wall clock may be slewed until then.
const TELLING_NS: u64 = 200_000_000;
/// So long after they are told a load begins at the soonest, ns.
const SOONEST_NS: u64 = 1_000_000;
/// How long a wait does not look whether it is to end, ns.
const NAP_NS: u64 = 50_000_000;

/// When a load is to begin, CLOCK_REALTIME in ns, and who may end it before.
#[derive(Clone, Copy)]
pub(super) struct Appointment<'a> {
    pub(super) at: Option<u64>,
    pub(super) control: &'a Control,
}

/// When a load begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    /// Ns since the run's start.
    pub(super) at: u64,
    /// How long after the instant that was agreed on, ns.
    pub(super) late_ns: u64,
}

impl Appointment<'_> {
    /// Waits until it is time to set reactors up.
    pub(super) fn wait_to_set_up(self) {
        self.wait(SETTING_UP_NS);
    }

    /// Waits until it is time to tell the reactors, which stand ready; says what to tell. An instant
    /// that is past is now.
    pub(super) fn wait_to_tell(self, clock: &mut RunClock) -> Begin {
        self.wait(TELLING_NS);
        clock.anchor();
        let soonest = clock::realtime_ns() + SOONEST_NS;
        // Where the load was ended before it began, nobody is late.
        let at = self.at.filter(|_| !self.control.is_stopped()).unwrap_or(soonest);
        if at > soonest {
            return Begin { at: clock.at_real(at), late_ns: 0 };
        }
        Begin { at: clock.now() + SOONEST_NS, late_ns: soonest - at }
    }

    fn wait(self, ahead_ns: u64) {
        let Some(at) = self.at else { return };
        while !self.control.is_stopped() {
            // The wall clock is read anew each time: it may be set meanwhile.
            let left = at.saturating_sub(ahead_ns).saturating_sub(clock::realtime_ns());
            if left == 0 {
                return;
            }
            pause(left.min(NAP_NS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn told(at: Option<u64>, control: &Control) -> (Begin, RunClock) {
        let mut clock = RunClock::start();
        let appointment = Appointment { at, control };
        appointment.wait_to_set_up();
        (appointment.wait_to_tell(&mut clock), clock)
    }

    #[test]
    fn a_load_begins_at_its_instant_by_the_wall_clock() {
        let at = clock::realtime_ns() + 260 * MS;
        let (begin, clock) = told(Some(at), &Control::new());
        let wall = clock.origin_realtime_ns() + begin.at;
        assert!(wall.abs_diff(at) < MS / 10, "{} ns off", wall.abs_diff(at));
        assert_eq!(begin.late_ns, 0);
        assert!(clock.now() < begin.at, "told before it begins");
    }

    #[test]
    fn an_instant_that_is_past_is_now_and_how_late_that_is_is_known() {
        let (begin, clock) = told(Some(clock::realtime_ns() - 500 * MS), &Control::new());
        assert!(begin.late_ns >= 500 * MS, "{}", begin.late_ns);
        assert!(begin.at <= clock.now() + SOONEST_NS);
        let (begin, _) = told(None, &Control::new());
        assert_eq!(begin.late_ns, 0, "nobody waited for it");
    }

    #[test]
    fn whoever_waits_can_be_told_to_end() {
        let control = Control::new();
        control.stop();
        let (begin, clock) = told(Some(clock::realtime_ns() + 3_600_000 * MS), &control);
        assert_eq!(begin.late_ns, 0);
        assert!(begin.at <= clock.now() + SOONEST_NS);
    }
}
