//! Which entry a request uses, from (seed, number of the request) alone: no table, no state.

use rand::Rng;

use crate::plan::random::{Purpose, Streams, mix};
use crate::workload::Order;

/// The order in which the entries of a data set are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    order: Order,
    len: u64,
    streams: Streams,
}

impl Selection {
    /// An order of `len` entries, of which there is at least one.
    #[must_use]
    pub fn new(order: Order, len: u64, seed: u64) -> Self {
        Self { order, len: len.max(1), streams: Streams::new(seed, Purpose::Data) }
    }

    /// The entry that item `item` uses, below the number of entries.
    #[must_use]
    pub fn entry(&self, item: u64) -> u64 {
        match self.order {
            Order::Sequential => item % self.len,
            Order::Shuffle => self.shuffled(item / self.len, item % self.len),
            // The high half of the product is even over the entries, but for 2^-64 of them.
            Order::Sample => {
                let draw = self.streams.at(item).next_u64();
                ((u128::from(draw) * u128::from(self.len)) >> 64) as u64
            }
        }
    }

    /// A permutation of the next power of four, walked along until it meets an entry: fewer than
    /// four steps on average.
    fn shuffled(&self, pass: u64, position: u64) -> u64 {
        let key = self.streams.key(pass);
        let bits = u64::BITS - (self.len - 1).leading_zeros();
        let half = bits.div_ceil(2).max(1);
        let mut value = feistel(position, half, key);
        while value >= self.len {
            value = feistel(value, half, key);
        }
        value
    }
}

/// A Feistel network of six rounds on two halves of `half` bits: one to one whatever the rounds do.
const fn feistel(value: u64, half: u32, key: u64) -> u64 {
    let mask = (1 << half) - 1;
    let (mut left, mut right) = (value >> half & mask, value & mask);
    let mut round = 0;
    while round < 6 {
        let noise = mix(key ^ mix(right.wrapping_add(round << 32))) >> (u64::BITS - half);
        (left, right) = (right, left ^ noise);
        round += 1;
    }
    left << half | right
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_shuffle_uses_each_entry_once_in_each_pass() {
        for len in [1, 2, 3, 4, 5, 16, 17, 100, 1000] {
            let selection = Selection::new(Order::Shuffle, len, 7);
            let pass = |pass: u64| -> Vec<u64> {
                (pass * len..(pass + 1) * len).map(|item| selection.entry(item)).collect()
            };
            let (first, second) = (pass(0), pass(1));
            for entries in [&first, &second] {
                let set: HashSet<_> = entries.iter().copied().collect();
                assert_eq!(set.len() as u64, len);
                assert!(entries.iter().all(|entry| *entry < len));
            }
            assert!(len < 16 || first != second && !first.is_sorted());
        }
    }

    #[test]
    fn huge_sets_and_items_stay_in_range() {
        for order in [Order::Sequential, Order::Shuffle, Order::Sample] {
            for len in [u64::from(u32::MAX), 1 << 40, u64::MAX] {
                let selection = Selection::new(order, len, 1);
                for item in [0, 1, len - 1, u64::MAX] {
                    assert!(selection.entry(item) < len);
                }
            }
        }
    }

    #[test]
    fn places_of_a_shuffle_are_even() {
        // The mean place of the first of ten entries over 10,000 passes: 4.5 ± 5 · 2.87 / 100.
        let selection = Selection::new(Order::Shuffle, 10, 3);
        let sum: u64 = (0..10_000).map(|pass| selection.entry(pass * 10)).sum();
        assert!((sum as f64 / 10_000.0 - 4.5).abs() < 0.15, "{sum}");
    }

    #[test]
    fn a_sample_draws_with_replacement_and_the_same_again() {
        let selection = Selection::new(Order::Sample, 100, 5);
        let draws: Vec<u64> = (0..100).map(|item| selection.entry(item)).collect();
        let again: Vec<u64> = (0..100).map(|item| selection.entry(item)).collect();
        let set: HashSet<_> = draws.iter().collect();
        assert_eq!(draws, again);
        // 63.4 of 100 are expected to be drawn.
        assert!((50..78).contains(&set.len()), "{}", set.len());
        assert_eq!(Selection::new(Order::Sequential, 3, 0).entry(4), 1);
    }

    #[test]
    fn what_a_seed_means_never_changes() {
        // Computed by another program from the definitions above.
        let shuffle = Selection::new(Order::Shuffle, 1000, 42);
        let sample = Selection::new(Order::Sample, 1000, 42);
        let items = [0, 1, 999, 1000, 123_456];
        assert_eq!(items.map(|item| shuffle.entry(item)), [389, 609, 215, 158, 343]);
        assert_eq!(items.map(|item| sample.entry(item)), [173, 137, 15, 616, 308]);
    }
}
