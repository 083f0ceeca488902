//! The serving model under the real clock: one for all threads, each of which moves it on when a
//! step is over and learns which tokens of its own requests the next step brings.
//!
//! A step's tokens are known when it begins, so each connection learns of its own a step ahead and
//! sends it at its deadline, as it does with drawn times. Who moves the model on, and how late,
//! changes no due time.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use crate::clock;
use crate::metrics::Figures;
use crate::model::Admission;
use crate::reactor::{Id, Reactor, State};
use crate::report::Report;
use crate::serving::{Arrival, Emitted, Left, Refusal, Serving, ServingSettings};
use crate::shared::{Message, Place};

/// The serving model, and who waits for its tokens where.
#[derive(Debug)]
pub(crate) struct Hall {
    serving: Serving,
    arrived: u64,
    places: HashMap<u64, Place>,
    /// The tokens of all steps that end by then are dealt.
    dealt_ns: u64,
    /// For each thread the tokens that it has not fetched, in the order of their times.
    mail: Vec<Vec<Dealt>>,
}

/// A token that a connection is to send when it is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dealt {
    id: Id,
    token: Emitted,
}

/// The answer to a request that has just been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) admission: Admission,
    pub(crate) refusal: Option<Refusal>,
}

impl Hall {
    /// An empty one for so many threads.
    pub(crate) fn new(settings: &ServingSettings, threads: usize) -> Self {
        Self {
            serving: Serving::new(settings),
            arrived: 0,
            places: HashMap::new(),
            dealt_ns: 0,
            mail: vec![Vec::new(); threads],
        }
    }

    /// Requests read so far.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// A request was read that is turned away whatever the model says.
    pub(crate) fn turn_away(&mut self) -> Admission {
        let number = self.arrived;
        self.arrived += 1;
        Admission { number, in_flight: self.in_flight(), starts: false }
    }

    /// A request with so many `[input, output]` tokens was read.
    pub(crate) fn arrive(&mut self, now_ns: u64, place: Place, tokens: [u32; 2]) -> Entry {
        self.advance(now_ns);
        let number = self.arrived;
        self.arrived += 1;
        let refusal = match self.serving.arrive(now_ns, number, tokens[0], tokens[1]) {
            Arrival::Queued => {
                self.places.insert(number, place);
                self.deal_ahead();
                None
            }
            Arrival::Refused(refusal) => Some(refusal),
        };
        let admission = Admission { number, in_flight: self.in_flight(), starts: false };
        Entry { admission, refusal }
    }

    /// A request is over, or its client is gone; `None` if all its tokens are dealt, or it never
    /// was let in.
    pub(crate) fn leave(&mut self, now_ns: u64, number: u64) -> Option<Left> {
        self.advance(now_ns);
        // Without a place it ends by itself with the step under way, if it has not yet.
        self.places.remove(&number)?;
        self.serving.leave(now_ns, number)
    }

    /// Ends the steps that are due and deals the tokens of the next.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let Self { serving, places, mail, dealt_ns, .. } = self;
        serving.advance(now_ns, &mut |token| {
            // Those of the step that was under way are dealt; more only if nobody came in time.
            if token.at_ns > *dealt_ns {
                deal(places, mail, token);
            }
        });
        self.deal_ahead();
    }

    fn deal_ahead(&mut self) {
        let Some(end_ns) = self.serving.next_ns().filter(|&end_ns| end_ns > self.dealt_ns) else {
            return;
        };
        for token in self.serving.upcoming() {
            deal(&mut self.places, &mut self.mail, token);
        }
        self.dealt_ns = end_ns;
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.serving.running() + self.serving.waiting()).unwrap_or(u32::MAX)
    }

    /// What `/metrics` tells of it.
    pub(crate) fn figures(&self) -> Figures {
        let counters = self.serving.counters();
        let kv_tokens = self.serving.settings().kv_tokens.max(1);
        Figures {
            running: self.serving.running() as u64,
            waiting: self.serving.waiting() as u64,
            kv_usage: Some(self.serving.kv_used() as f64 / kv_tokens as f64),
            preemptions: counters.preemptions,
            refused: counters.refused,
            ..Figures::default()
        }
    }

    /// Adds what it knows to the report.
    pub(crate) fn report(&self, report: &mut Report) {
        let counters = self.serving.counters();
        report.requests = self.arrived;
        (report.peak_in_flight, report.peak_waiting) =
            (counters.running_peak, counters.waiting_peak);
        (report.refused, report.preemptions) = (counters.refused, counters.preemptions);
    }
}

fn deal(places: &mut HashMap<u64, Place>, mail: &mut [Vec<Dealt>], token: Emitted) {
    let place =
        if token.is_last { places.remove(&token.id) } else { places.get(&token.id).copied() };
    // Without a place its client is gone.
    if let Some(Place { thread, id }) = place {
        mail[thread].push(Dealt { id, token });
    }
}

impl Reactor {
    /// Does something with the serving model; `None` without one. This thread's tokens are fetched,
    /// to be handed out when no connection is in hand, and other threads are told of theirs.
    pub(crate) fn with_hall<R>(
        &self,
        state: &mut State,
        act: impl FnOnce(&mut Hall) -> R,
    ) -> Option<R> {
        let mut hall = self.shared.hall()?;
        let result = act(&mut hall);
        state.dealt.append(&mut hall.mail[self.thread]);
        let next_ns = hall.serving.next_ns().unwrap_or(u64::MAX);
        // Read without the lock by the schedulers, which then take it: it is a hint.
        self.shared.step_ends_ns.store(next_ns, Ordering::Release);
        for (thread, mail) in hall.mail.iter().enumerate() {
            if !mail.is_empty() {
                self.shared.mailboxes[thread].post(Message::Dealt);
            }
        }
        // The scheduler looks anew at when it is needed.
        state.nudge();
        Some(result)
    }

    /// Gives the tokens fetched to their connections.
    pub(crate) fn hand_out(&self, state: &mut State) {
        let mut dealt = std::mem::take(&mut state.dealt);
        for Dealt { id, token } in dealt.drain(..) {
            let Some(connection) = state.get(id) else { continue };
            let Some(active) = &mut connection.active else { continue };
            // A connection may be at its next request when the last one's client gave up early.
            if active.answer.number == token.id {
                active.deal(token);
                self.place(state, id);
            }
        }
        // Handing out fetches nothing, so this only gives the memory back.
        state.dealt = dealt;
    }

    /// Another thread dealt tokens to this one.
    pub(crate) fn fetch(&self) {
        let state = &mut *self.borrow();
        self.with_hall(state, |_| ());
        self.hand_out(state);
    }

    /// When the step under way ends; `None` without one.
    pub(crate) fn step_ends_ns(&self) -> Option<u64> {
        Some(self.shared.step_ends_ns.load(Ordering::Acquire)).filter(|&end_ns| end_ns != u64::MAX)
    }

    /// Takes a request out of the serving model, and says when it had left the queue if it did.
    pub(crate) fn leave_hall(&self, state: &mut State, number: u64) -> Option<u64> {
        let now_ns = clock::monotonic_ns();
        self.with_hall(state, |hall| hall.leave(now_ns, number))??.started_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn mail(hall: &mut Hall, thread: usize) -> Vec<(u64, u64, u32)> {
        let mail = hall.mail[thread].drain(..);
        mail.map(|dealt| (dealt.token.id, dealt.token.at_ns / MS, dealt.token.index)).collect()
    }

    fn hall() -> Hall {
        let settings = ServingSettings {
            prefill_rate: 1_000,
            step_base_ns: 10 * MS,
            step_per_request_ns: MS,
            ..ServingSettings::default()
        };
        Hall::new(&settings, 2)
    }

    #[test]
    fn tokens_are_dealt_a_step_ahead_and_once() {
        let mut hall = hall();
        let place = |thread| Place { thread, id: Id::of(thread, 1) };
        hall.arrive(0, place(0), [5, 3]);
        assert_eq!(mail(&mut hall, 0), [(0, 15, 0)]);
        hall.arrive(2 * MS, place(1), [5, 1]);
        hall.advance(14 * MS);
        assert_eq!((mail(&mut hall, 0), mail(&mut hall, 1)), (vec![], vec![]));
        hall.advance(15 * MS);
        assert_eq!(mail(&mut hall, 0), [(0, 15 + 16, 1)]);
        assert_eq!(mail(&mut hall, 1), [(1, 15 + 16, 0)]);
        // Nobody looked for long: what was not dealt ahead is dealt late, at its own time.
        hall.arrive(20 * MS, place(1), [5, 2]);
        hall.advance(500 * MS);
        assert_eq!(mail(&mut hall, 0), [(0, 31 + 16, 2)]);
        assert_eq!(mail(&mut hall, 1), [(2, 31 + 16, 0), (2, 47 + 11, 1)]);
        assert!(hall.places.is_empty());
        assert_eq!(hall.figures().kv_usage, Some(0.0));
    }

    #[test]
    fn who_left_is_dealt_nothing_more() {
        let mut hall = hall();
        let place = Place { thread: 0, id: Id::of(0, 1) };
        assert_eq!(hall.turn_away().number, 0);
        let entry = hall.arrive(0, place, [5, 3]);
        assert_eq!((entry.admission.number, entry.admission.in_flight), (1, 1));
        assert_eq!(hall.leave(MS, 1).and_then(|left| left.started_ns), Some(0));
        hall.mail[0].clear();
        hall.advance(500 * MS);
        assert_eq!(mail(&mut hall, 0), []);
        assert_eq!(hall.leave(MS, 1), None);
        assert_eq!(hall.arrived(), 2);
        // One whose last token is dealt is done, though not yet for the model.
        hall.arrive(600 * MS, place, [5, 1]);
        assert_eq!((hall.leave(601 * MS, 2), hall.figures().running), (None, 1));
        hall.advance(615 * MS);
        assert_eq!(hall.figures().running, 0);
    }
}
