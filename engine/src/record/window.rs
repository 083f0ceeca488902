//! The measurement window, as all reactors of a run see it while it takes shape.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Phase;
use crate::workload::{Stop, Warmup};

/// Where the measured part begins and ends, ns since the run's start.
///
/// Both are known in advance when they are given as times. A warm-up by requests ends with the first
/// measured request, so whichever reactor issues it says when that was.
#[derive(Debug)]
pub struct Window {
    start: AtomicU64,
    end: AtomicU64,
    /// Requests of the warm-up, when it is given so.
    warmup_requests: u64,
    duration_ns: Option<u64>,
    /// Requests of the measured part, where an index does not tell how many have begun.
    claims_max: Option<u64>,
    claims: AtomicU64,
    /// Requests are numbered as they begin, since their indices do not tell how many have: where they
    /// belong to conversations. So many may begin in all.
    numbered: Option<u64>,
    /// Items from this one on do not begin.
    items: u64,
    begun: AtomicU64,
}

impl Window {
    /// The window of a run that begins to issue at `begin`.
    #[must_use]
    pub fn new(stop: &Stop, begin: u64, has_sessions: bool) -> Self {
        let (start, warmup_requests) = match stop.warmup {
            Warmup::None => (begin, 0),
            Warmup::Time(ns) => (begin.saturating_add(ns), 0),
            Warmup::Requests(0) => (begin, 0),
            Warmup::Requests(requests) => (u64::MAX, requests),
            Warmup::Auto(_) => (u64::MAX, 0),
        };
        let end = match stop.duration_ns {
            Some(duration) if start != u64::MAX => start.saturating_add(duration),
            _ => u64::MAX,
        };
        Self {
            start: AtomicU64::new(start),
            end: AtomicU64::new(end),
            warmup_requests,
            duration_ns: stop.duration_ns,
            claims_max: stop
                .requests
                .filter(|_| matches!(stop.warmup, Warmup::Time(_) | Warmup::Auto(_))),
            claims: AtomicU64::new(0),
            numbered: has_sessions.then(|| {
                let measured = stop.requests.unwrap_or(u64::MAX);
                let by_time = matches!(stop.warmup, Warmup::Time(_) | Warmup::Auto(_));
                if by_time { u64::MAX } else { measured.saturating_add(warmup_requests) }
            }),
            items: u64::MAX,
            begun: AtomicU64::new(0),
        }
    }

    /// The same where it is known beforehand which items begin, so that none need be counted.
    #[must_use]
    pub fn of_items_below(self, items: u64) -> Self {
        Self { items, claims_max: None, ..self }
    }

    /// Request `index` is to begin at `origin`: in which part of the run is that? None if no more
    /// requests begin.
    #[must_use]
    pub fn begin(&self, index: u64, origin: u64) -> Option<Phase> {
        let number = match self.numbered {
            None if index >= self.items => return None,
            None => index,
            Some(most) => {
                let number = self.begun.fetch_add(1, Relaxed);
                if number >= most {
                    return None;
                }
                number
            }
        };
        let phase = self.phase(number, origin);
        self.claim(phase).then_some(phase)
    }

    /// Whether it is known that no more requests begin, because as many have as may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.numbered.is_some_and(|most| self.begun.load(Relaxed) >= most)
    }

    /// Whether a request of `phase` may still begin. After a warm-up by time it is not known in
    /// advance which request is the last, so each measured one takes its place here.
    fn claim(&self, phase: Phase) -> bool {
        match self.claims_max {
            Some(most) if phase == Phase::Measure => self.claims.fetch_add(1, Relaxed) < most,
            _ => true,
        }
    }

    /// The first measured instant; `u64::MAX` while unknown.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start.load(Relaxed)
    }

    /// The first instant after the measured part; `u64::MAX` while unknown.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// Begins the measured part at `at`, where nothing else says when that is. `at` lies ahead of every
    /// request that has begun.
    pub fn open(&self, at: u64) {
        if let Some(duration) = self.duration_ns {
            // First the end: between the two nothing is measured.
            self.end.store(at.saturating_add(duration), Relaxed);
        }
        self.start.fetch_min(at, Relaxed);
    }

    /// Ends the measured part now, if it has not ended: an interrupt, or enough is known.
    pub fn cut(&self, now: u64) {
        self.end.fetch_min(now, Relaxed);
    }

    /// Request `index` begins at `origin`: in which part of the run is that?
    fn phase(&self, index: u64, origin: u64) -> Phase {
        if self.warmup_requests > 0 {
            if index < self.warmup_requests {
                return Phase::Warmup;
            }
            let before = self.start.fetch_min(origin, Relaxed);
            if let (Some(duration), true) = (self.duration_ns, origin < before) {
                self.end.store(origin.saturating_add(duration), Relaxed);
            }
        }
        if origin < self.start() {
            Phase::Warmup
        } else if origin >= self.end() {
            Phase::Drain
        } else {
            Phase::Measure
        }
    }

    /// Whether something that arrived at `at` counts in rates.
    #[must_use]
    pub fn holds(&self, at: u64) -> bool {
        at >= self.start() && at < self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(warmup: Warmup, duration_ns: Option<u64>) -> Stop {
        Stop { duration_ns, warmup, ..Stop::after(10) }
    }

    #[test]
    fn times_are_known_in_advance() {
        let window = Window::new(&stop(Warmup::Time(100), Some(50)), 7, false);
        assert_eq!(window.phase(0, 106), Phase::Warmup);
        assert_eq!(window.phase(1, 107), Phase::Measure);
        assert_eq!(window.phase(2, 156), Phase::Measure);
        assert_eq!(window.phase(3, 157), Phase::Drain);
    }

    #[test]
    fn a_warm_up_by_requests_ends_with_the_first_measured_one() {
        let window = Window::new(&stop(Warmup::Requests(2), Some(50)), 0, false);
        assert_eq!(window.phase(1, 20), Phase::Warmup);
        assert!(!window.holds(20), "nothing counts before the first measured request");
        assert_eq!(window.phase(2, 30), Phase::Measure);
        assert_eq!((window.start(), window.end()), (30, 80));
        assert_eq!(window.phase(3, 80), Phase::Drain);
    }

    #[test]
    fn after_a_warm_up_by_time_exactly_as_many_begin_as_were_asked_for() {
        let window = Window::new(&stop(Warmup::Time(100), None), 0, false);
        let begun = (0..50).filter(|_| window.claim(Phase::Warmup)).count();
        assert_eq!(begun, 50, "the warm-up is extra");
        assert_eq!((0..50).filter(|_| window.claim(Phase::Measure)).count(), 10);
    }

    #[test]
    fn where_items_are_known_beforehand_they_begin_in_any_order_and_no_other_does() {
        let window = Window::new(&stop(Warmup::Time(100), None), 0, false).of_items_below(30);
        assert_eq!(window.begin(19, 99), Some(Phase::Warmup));
        let begun = (20..60).rev().filter(|item| window.begin(*item, 100 + item).is_some());
        assert_eq!(begun.collect::<Vec<_>>(), (20..30).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_warm_up_by_requests_may_end_at_an_instant_that_is_known_beforehand() {
        let window = Window::new(&stop(Warmup::Requests(3), Some(50)), 7, false);
        window.open(40);
        assert_eq!((window.start(), window.end()), (40, 90));
        assert_eq!(window.phase(2, 40), Phase::Warmup, "its number counts, not its instant");
        assert_eq!((window.phase(3, 40), window.phase(9, 90)), (Phase::Measure, Phase::Drain));
        assert_eq!((window.start(), window.end()), (40, 90));
    }

    #[test]
    fn a_warm_up_of_unknown_length_ends_when_it_is_told() {
        let window = Window::new(&stop(Warmup::Auto(1000), Some(50)), 7, false);
        assert_eq!(window.start(), u64::MAX);
        assert_eq!(window.phase(0, 20), Phase::Warmup);
        window.open(30);
        window.open(40);
        assert_eq!(window.phase(1, 29), Phase::Warmup);
        assert_eq!(window.phase(2, 30), Phase::Measure);
        assert_eq!((0..50).filter(|_| window.claim(Phase::Measure)).count(), 10);
    }

    #[test]
    fn an_interrupt_ends_the_window_and_never_lengthens_it() {
        let window = Window::new(&stop(Warmup::None, Some(50)), 0, false);
        window.cut(40);
        window.cut(45);
        assert_eq!(window.end(), 40);
    }
}
