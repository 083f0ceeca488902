//! The KV caches that a prefill server holds for decode servers: no clock, no socket.

use std::collections::{HashSet, VecDeque};

/// Offers that are remembered; the oldest is forgotten first.
const OFFERS_MAX: usize = 65_536;

/// KV caches that are offered, by the id in their hand-off object, and how many nobody took.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// In the order of their making, each with the end of its lease.
    open: VecDeque<(u64, String)>,
    taken: HashSet<String>,
    expired: u64,
}

impl Offers {
    /// One is offered until `until_ns`.
    pub(crate) fn add(&mut self, id: String, until_ns: u64) {
        if self.open.len() == OFFERS_MAX
            && let Some((_, oldest)) = self.open.pop_front()
        {
            self.taken.remove(&oldest);
        }
        self.open.push_back((until_ns, id));
    }

    /// A decode server has taken one over.
    pub(crate) fn take(&mut self, id: &str) {
        // What is not on offer is of another server, or too late.
        if self.taken.len() < OFFERS_MAX {
            self.taken.insert(id.to_owned());
        }
    }

    /// How many nobody had taken when their lease ended, up to `now_ns`.
    pub(crate) fn expired(&mut self, now_ns: u64) -> u64 {
        // They end in the order of their making but for what their times of computing differ.
        while let Some((until_ns, _)) = self.open.front()
            && *until_ns <= now_ns
            && let Some((_, id)) = self.open.pop_front()
        {
            self.expired += u64::from(!self.taken.remove(&id));
        }
        self.expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_took_in_time_has_expired() {
        let mut offers = Offers::default();
        for (id, until_ns) in [("a", 10), ("b", 20), ("c", 30)] {
            offers.add(id.to_owned(), until_ns);
        }
        offers.take("b");
        assert_eq!([5, 10, 25, 40, 50].map(|now_ns| offers.expired(now_ns)), [0, 1, 1, 2, 2]);
        assert!(offers.taken.is_empty());
        for number in 0..=OFFERS_MAX as u64 {
            offers.add(number.to_string(), 90);
        }
        assert_eq!(offers.open.len(), OFFERS_MAX);
    }
}
