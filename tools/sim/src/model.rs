//! Which request is served when, and when its tokens are due: no clock, no socket.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::law::Law;
use crate::settings::Settings;

/// Who is served and who waits: at most `limit` at once, first come first served.
///
/// `T` is whatever the caller needs to find a request again.
#[derive(Debug)]
pub struct Queue<T> {
    limit: Option<u32>,
    arrived: u64,
    serving: u32,
    waiting: VecDeque<(u64, T)>,
    serving_peak: u32,
    waiting_peak: u32,
}

/// The answer to a request that has just been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Counts requests from 0 in the order they were read.
    pub number: u64,
    /// Requests served or waiting, this one included unless it is turned away.
    pub in_flight: u32,
    /// Whether it starts now; else it waits until [`Queue::leave`] names it.
    pub starts: bool,
}

impl<T> Queue<T> {
    /// An empty queue in front of `limit` places (`None`: as many as needed).
    #[must_use]
    pub fn new(limit: Option<u32>) -> Self {
        Self {
            limit,
            arrived: 0,
            serving: 0,
            waiting: VecDeque::new(),
            serving_peak: 0,
            waiting_peak: 0,
        }
    }

    /// A request was read.
    pub fn arrive(&mut self, place: T) -> Admission {
        let number = self.arrived;
        self.arrived += 1;
        let starts = self.limit.is_none_or(|limit| self.serving < limit);
        if starts {
            self.serving += 1;
        } else {
            self.waiting.push_back((number, place));
        }
        self.serving_peak = self.serving_peak.max(self.serving);
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        self.waiting_peak = self.waiting_peak.max(waiting);
        Admission { number, in_flight: self.serving.saturating_add(waiting), starts }
    }

    /// A request was read that is turned away: it has a number, but is neither served nor waits.
    pub fn turn_away(&mut self) -> Admission {
        let number = self.arrived;
        self.arrived += 1;
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        Admission { number, in_flight: self.serving.saturating_add(waiting), starts: false }
    }

    /// A request that was being served is over; returns the one that starts in its place.
    pub fn leave(&mut self) -> Option<(u64, T)> {
        match self.waiting.pop_front() {
            Some(next) => Some(next),
            None => {
                self.serving = self.serving.saturating_sub(1);
                None
            }
        }
    }

    /// Request `number` went away while it waited; false if it does not wait (any more).
    pub fn abandon(&mut self, number: u64) -> bool {
        // Numbers only grow along the queue, so the place can be searched for.
        match self.waiting.binary_search_by_key(&number, |entry| entry.0) {
            Ok(at) => self.waiting.remove(at).is_some(),
            Err(_) => false,
        }
    }

    /// Requests read so far.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Requests served, and waiting, now.
    #[must_use]
    pub fn lengths(&self) -> (u64, u64) {
        (u64::from(self.serving), self.waiting.len() as u64)
    }

    /// The most requests that were served, and that waited, at once.
    #[must_use]
    pub fn peaks(&self) -> (u32, u32) {
        (self.serving_peak, self.waiting_peak)
    }
}

/// The laws of one server's delays.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    ttft: Law,
    ttst: Option<Law>,
    itl: Law,
    tokens_per_event: u32,
    seed: u64,
}

impl Timing {
    /// The laws that the settings name.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            ttft: settings.ttft,
            ttst: settings.ttst,
            itl: settings.itl,
            tokens_per_event: settings.tokens_per_event.max(1),
            seed: settings.seed,
        }
    }

    /// Tokens in each output event.
    pub(crate) fn tokens_per_event(&self) -> u32 {
        self.tokens_per_event
    }

    /// How many output events `tokens` make.
    #[must_use]
    pub fn events(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.tokens_per_event)
    }

    /// When the tokens of request `number` are due if it starts at `start_ns`.
    #[must_use]
    pub fn schedule(&self, number: u64, tokens: u32, start_ns: u64) -> Schedule {
        let rng = generator(self.seed, number);
        let mut schedule = Schedule { timing: *self, rng, drawn: 0, left: tokens, next: None };
        schedule.next = schedule.draw(start_ns);
        schedule
    }
}

/// The output events of one request still to come, each at an absolute time.
///
/// Event 0 is due at `start + ttft`, event 1 at `+ ttst` (if there is such a law), every other
/// one at `+ itl × its tokens` after the one before: what is late does not move what follows.
#[derive(Clone, Debug)]
pub struct Schedule {
    timing: Timing,
    rng: Xoshiro256PlusPlus,
    drawn: u32,
    left: u32,
    next: Option<Event>,
}

/// One output event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Counts the request's output events from 0.
    pub index: u32,
    /// When it is to be sent, in ns of the caller's clock.
    pub due_ns: u64,
    /// The tokens it carries.
    pub tokens: u32,
}

impl Schedule {
    /// The next event, if any is left.
    #[must_use]
    pub fn peek(&self) -> Option<Event> {
        self.next
    }

    /// The same with its first event at another time, and the others as long after it as before.
    pub(crate) fn first_at(mut self, due_ns: u64) -> Self {
        if let Some(next) = &mut self.next {
            next.due_ns = due_ns;
        }
        self
    }

    fn draw(&mut self, before_ns: u64) -> Option<Event> {
        let tokens = self.left.min(self.timing.tokens_per_event);
        if tokens == 0 {
            return None;
        }
        let gap_ns = match (self.drawn, self.timing.ttst) {
            (0, _) => self.timing.ttft.draw(&mut self.rng),
            (1, Some(ttst)) => ttst.draw(&mut self.rng),
            _ => self.timing.itl.draw(&mut self.rng).saturating_mul(u64::from(tokens)),
        };
        let index = self.drawn;
        self.drawn += 1;
        self.left -= tokens;
        Some(Event { index, due_ns: before_ns.saturating_add(gap_ns), tokens })
    }
}

impl Iterator for Schedule {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let event = self.next?;
        self.next = self.draw(event.due_ns);
        Some(event)
    }
}

/// One generator for each request, so that the order of draws between requests cannot matter.
pub(crate) fn generator(seed: u64, number: u64) -> Xoshiro256PlusPlus {
    // An odd factor keeps (seed, number) pairs apart; seed_from_u64 scatters what remains.
    Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn timing(ttft: &str, ttst: Option<&str>, itl: &str, tokens_per_event: u32) -> Timing {
        Timing::new(&Settings {
            ttft: ttft.parse().unwrap(),
            ttst: ttst.map(|law| law.parse().unwrap()),
            itl: itl.parse().unwrap(),
            tokens_per_event,
            seed: 3,
            ..Settings::default()
        })
    }

    fn events(schedule: Schedule) -> Vec<(u64, u32)> {
        schedule.map(|event| (event.due_ns / MS, event.tokens)).collect()
    }

    #[test]
    fn tokens_are_due_at_start_plus_ttft_plus_gaps() {
        let plain = timing("50ms", None, "10ms", 1).schedule(0, 4, 100 * MS);
        assert_eq!(events(plain), [(150, 1), (160, 1), (170, 1), (180, 1)]);
        let pause = timing("50ms", Some("30ms"), "10ms", 1).schedule(0, 3, 100 * MS);
        assert_eq!(events(pause), [(150, 1), (180, 1), (190, 1)]);
    }

    #[test]
    fn a_gap_grows_with_the_tokens_of_the_later_event() {
        let schedule = timing("50ms", None, "10ms", 4).schedule(0, 10, 0);
        assert_eq!(events(schedule), [(50, 4), (90, 4), (110, 2)]);
        assert_eq!(timing("50ms", None, "10ms", 4).events(10), 3);
    }

    #[test]
    fn no_tokens_make_no_events() {
        assert_eq!(timing("50ms", None, "10ms", 1).schedule(0, 0, 5).peek(), None);
    }

    #[test]
    fn draws_depend_on_seed_and_number_alone() {
        let timing = timing("lognormal:50ms,80ms", None, "exp:10ms", 1);
        let gaps = |number| -> Vec<u64> {
            timing.schedule(number, 20, 0).map(|event| event.due_ns).collect()
        };
        assert_eq!(gaps(5), gaps(5));
        assert_ne!(gaps(5), gaps(6));
        let later = timing.schedule(5, 20, 1_000).map(|event| event.due_ns - 1_000);
        assert_eq!(gaps(5), later.collect::<Vec<_>>());
    }

    #[test]
    fn a_full_server_lets_requests_wait_first_come_first_served() {
        let mut queue = Queue::new(Some(2));
        let starts: Vec<bool> = ["a", "b", "c", "d"].map(|p| queue.arrive(p).starts).to_vec();
        assert_eq!(starts, [true, true, false, false]);
        assert_eq!(queue.leave(), Some((2, "c")));
        assert_eq!(queue.leave(), Some((3, "d")));
        assert_eq!(queue.leave(), None);
        assert_eq!(queue.peaks(), (2, 2));
        let last = queue.arrive("e");
        assert_eq!(last, Admission { number: 4, in_flight: 2, starts: true });
    }

    #[test]
    fn a_request_that_is_turned_away_has_a_number_and_no_place() {
        let mut queue = Queue::new(Some(1));
        assert_eq!(queue.turn_away(), Admission { number: 0, in_flight: 0, starts: false });
        assert!(queue.arrive("a").starts);
        assert_eq!(queue.turn_away(), Admission { number: 2, in_flight: 1, starts: false });
        assert_eq!(queue.leave(), None);
        assert_eq!((queue.arrived(), queue.peaks()), (3, (1, 0)));
    }

    #[test]
    fn a_request_that_goes_away_leaves_the_queue() {
        let mut queue = Queue::new(Some(1));
        for place in ["a", "b", "c"] {
            queue.arrive(place);
        }
        assert!(queue.abandon(1));
        assert!(!queue.abandon(1));
        assert!(!queue.abandon(0), "a request that is served does not wait");
        assert_eq!(queue.leave(), Some((2, "c")));
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_are_served_and_none_is_lost(
            limit in 1u32..5,
            steps in proptest::collection::vec(any::<bool>(), 0..200),
        ) {
            let mut queue = Queue::new(Some(limit));
            let (mut serving, mut started) = (0u32, 0u64);
            for arrives in steps {
                if arrives {
                    if queue.arrive(()).starts {
                        serving += 1;
                        started += 1;
                    }
                } else if serving > 0 {
                    match queue.leave() {
                        Some((number, ())) => {
                            prop_assert_eq!(number, started);
                            started += 1;
                        }
                        None => serving -= 1,
                    }
                }
                prop_assert!(serving <= limit);
            }
            while started < queue.arrived() {
                prop_assert!(queue.leave().is_some());
                started += 1;
            }
            prop_assert!(queue.peaks().0 <= limit);
        }

        #[test]
        fn an_answer_carries_its_tokens_and_time_never_runs_back(
            tokens in 0u32..300, per_event in 1u32..9, number: u64,
        ) {
            let schedule = timing("exp:5ms", Some("normal:1ms,9ms"), "normal:1ms,9ms", per_event)
                .schedule(number, tokens, 77);
            let events: Vec<Event> = schedule.collect();
            prop_assert_eq!(events.iter().map(|event| event.tokens).sum::<u32>(), tokens);
            prop_assert!(events.is_sorted_by_key(|event| event.due_ns));
        }
    }
}
