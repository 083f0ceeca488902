//! What a reactor has put off until an instant: users who think, turns that wait for theirs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::RawFd;

use super::conn::Request;

/// What is put off, soonest first.
#[derive(Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    /// Entries so far: of two for one instant the first comes first.
    entries: u64,
    /// The timer of whoever sleeps until the soonest, when it wakes, and how far ahead.
    sleeper: Option<(RawFd, u64, u64)>,
}

struct Entry {
    at: u64,
    number: u64,
    request: Box<Request>,
}

impl Agenda {
    /// When the soonest is due; `u64::MAX` if nothing is put off.
    #[inline]
    pub(crate) fn soonest(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |entry| entry.0.at)
    }

    /// Whether nothing is put off.
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Puts a request off until `at`. The timer and its new time, where a sleeper must wake earlier.
    pub(crate) fn put(&mut self, at: u64, request: Box<Request>) -> Option<(RawFd, u64)> {
        self.entries += 1;
        self.heap.push(Reverse(Entry { at, number: self.entries, request }));
        let (timer, wake, margin) = self.sleeper.as_mut()?;
        let earlier = at.saturating_sub(*margin);
        if earlier >= *wake {
            return None;
        }
        *wake = earlier;
        Some((*timer, earlier))
    }

    /// The soonest, if it is due at `now`.
    pub(crate) fn take(&mut self, now: u64) -> Option<Box<Request>> {
        if self.soonest() > now {
            return None;
        }
        self.heap.pop().map(|entry| entry.0.request)
    }

    /// All that is put off, which will not come about.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<Request>> + use<> {
        std::mem::take(&mut self.heap).into_iter().map(|entry| entry.0.request)
    }

    /// Somebody sleeps until `wake` by `timer`, to be `margin` ahead of what is due.
    pub(crate) fn sleeps(&mut self, timer: RawFd, wake: u64, margin: u64) {
        self.sleeper = Some((timer, wake, margin));
    }

    /// Nobody sleeps any more. When he was to wake, at last.
    pub(crate) fn is_awake(&mut self) -> Option<u64> {
        self.sleeper.take().map(|(_, wake, _)| wake)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::feed::Prepared;
    use crate::record::Phase;

    fn request(index: u64) -> Box<Request> {
        let prepared = Prepared { index, ..Prepared::default() };
        Box::new(Request::new(prepared, 0, Phase::Measure, None))
    }

    #[test]
    fn what_is_due_first_comes_first_and_then_what_was_put_first() {
        let mut agenda = Agenda::default();
        for (index, at) in [(0, 30), (1, 10), (2, 20), (3, 10)] {
            assert_eq!(agenda.put(at, request(index)), None, "nobody sleeps");
        }
        assert_eq!(agenda.soonest(), 10);
        assert!(agenda.take(9).is_none());
        let taken: Vec<u64> =
            std::iter::from_fn(|| agenda.take(20)).map(|request| request.prepared.index).collect();
        assert_eq!(taken, [1, 3, 2]);
        assert_eq!(agenda.drain().count(), 1);
        assert!(agenda.is_empty());
    }

    #[test]
    fn a_sleeper_is_woken_for_what_comes_sooner_alone() {
        let mut agenda = Agenda::default();
        agenda.sleeps(7, 1_000, 100);
        assert_eq!(agenda.put(1_200, request(0)), None);
        assert_eq!(agenda.put(900, request(1)), Some((7, 800)));
        assert_eq!(agenda.put(950, request(2)), None);
        assert_eq!(agenda.is_awake(), Some(800));
        assert_eq!(agenda.put(1, request(3)), None);
    }
}
