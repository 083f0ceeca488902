//! The output events of one answer: drawn from laws, or as the serving model deals its tokens.

use std::collections::VecDeque;

use crate::model::{Event, Schedule};

/// Output events of one answer still to come.
#[derive(Debug)]
pub(crate) enum Course {
    /// All are known.
    Drawn(Schedule),
    /// Each is known a step ahead.
    Dealt(Hand),
}

/// Tokens that were dealt, gathered into events.
#[derive(Debug)]
pub(crate) struct Hand {
    tokens_per_event: u32,
    /// Tokens for the next event.
    gathered: u32,
    next_index: u32,
    complete: bool,
    events: VecDeque<Event>,
}

impl Course {
    /// The next event, if it is known.
    pub(crate) fn peek(&self) -> Option<Event> {
        match self {
            Self::Drawn(schedule) => schedule.peek(),
            Self::Dealt(hand) => hand.events.front().copied(),
        }
    }

    /// Takes the next event, if it is known.
    pub(crate) fn next(&mut self) -> Option<Event> {
        match self {
            Self::Drawn(schedule) => schedule.next(),
            Self::Dealt(hand) => hand.events.pop_front(),
        }
    }

    /// Whether no event is to come.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Drawn(schedule) => schedule.peek().is_none(),
            Self::Dealt(hand) => hand.complete && hand.events.is_empty(),
        }
    }
}

impl Hand {
    /// An empty one; at least one token goes into an event.
    pub(crate) fn new(tokens_per_event: u32) -> Self {
        Self {
            tokens_per_event: tokens_per_event.max(1),
            gathered: 0,
            next_index: 0,
            complete: false,
            events: VecDeque::new(),
        }
    }

    /// Events at hand.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// A token is due at `due_ns`; an event goes with the last of its tokens.
    pub(crate) fn deal(&mut self, due_ns: u64, is_last: bool) {
        self.gathered += 1;
        self.complete |= is_last;
        if is_last || self.gathered == self.tokens_per_event {
            let tokens = std::mem::take(&mut self.gathered);
            self.events.push_back(Event { index: self.next_index, due_ns, tokens });
            self.next_index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_due_with_the_last_of_its_tokens() {
        let mut hand = Hand::new(2);
        hand.deal(10, false);
        assert!(hand.events.is_empty());
        hand.deal(20, false);
        hand.deal(30, true);
        let mut course = Course::Dealt(hand);
        assert_eq!(course.next(), Some(Event { index: 0, due_ns: 20, tokens: 2 }));
        assert!(!course.is_over());
        assert_eq!(course.next(), Some(Event { index: 1, due_ns: 30, tokens: 1 }));
        assert!(course.is_over() && course.peek().is_none());
        assert!(!Course::Dealt(Hand::new(0)).is_over(), "nothing is dealt yet");
    }
}
