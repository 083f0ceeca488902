//! One random stream per (seed, purpose, index): no draw depends on how many came before it.
//!
//! The key of a stream is a 64-bit mix of the three; the stream is Xoshiro256++. What a seed
//! means is part of a result, so neither may ever change: a test pins some values.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// What a stream is drawn for. Streams of different purposes have nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The gap before an arrival.
    Gap,
    /// The words of a prompt.
    Prompt,
    /// Input and output lengths of a request.
    Lengths,
    /// Whether, or which, something is picked out of the requests.
    Sample,
    /// Whether a request is cancelled on purpose.
    Cancel,
    /// The class of an item.
    Class,
    /// The prefix group of an item.
    GroupPick,
    /// The length of a group's prefix.
    GroupLength,
    /// The user of an item.
    UserPick,
    /// The length of a user's context.
    UserLength,
    /// The turns of a conversation.
    Turns,
    /// The pause before a request.
    Think,
    /// The words that all requests begin with.
    System,
    /// The words that the requests of a group begin with.
    Group,
    /// The words of a user or a session.
    User,
    /// The words of a block of a trace.
    Block,
    /// The words of an answer that is sent back.
    Answer,
    /// The words that keep a request out of a cache.
    Mark,
    /// Which entry of a data set a request uses.
    Data,
    /// Which prefill and decode server a request goes to.
    Pairing,
    /// Whether it goes by a router.
    Arm,
    /// Whether its prompt is sent once more.
    Baseline,
    /// Where its two servers meet.
    Room,
}

impl Purpose {
    /// The number that enters the key. Never reuse or change one.
    const fn tag(self) -> u64 {
        match self {
            Self::Gap => 1,
            Self::Prompt => 2,
            Self::Lengths => 3,
            Self::Sample => 4,
            Self::Cancel => 5,
            Self::Class => 13,
            Self::GroupPick => 14,
            Self::GroupLength => 15,
            Self::UserPick => 16,
            Self::UserLength => 17,
            Self::Turns => 18,
            Self::Think => 19,
            Self::System => 7,
            Self::Group => 8,
            Self::User => 9,
            Self::Block => 10,
            Self::Answer => 11,
            Self::Mark => 12,
            Self::Data => 6,
            Self::Pairing => 20,
            Self::Arm => 21,
            Self::Baseline => 22,
            Self::Room => 23,
        }
    }
}

/// All streams of one seed and purpose, mixed as far as goes without the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    base: u64,
}

impl Streams {
    /// The streams of `seed` for `purpose`.
    #[must_use]
    pub const fn new(seed: u64, purpose: Purpose) -> Self {
        Self { base: mix(mix(seed).wrapping_add(purpose.tag().wrapping_mul(WEYL))) }
    }

    /// The 64-bit key of the stream of `index`; different for every index.
    #[must_use]
    pub const fn key(self, index: u64) -> u64 {
        mix(self.base.wrapping_add(index.wrapping_mul(WEYL)))
    }

    /// The stream of `index`, at its start.
    #[must_use]
    pub fn at(self, index: u64) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.key(index))
    }
}

/// A number from 0 to below 1, of the 53 bits that a fraction holds exactly.
pub(crate) fn fraction(key: u64) -> f64 {
    (key >> 11) as f64 / (1_u64 << 53) as f64
}

/// 2^64 divided by the golden ratio, made odd: its multiples fall evenly over 64 bits
/// (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
const WEYL: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64 (same source): one to one, each bit of the input moves half of
/// those of the output.
pub(super) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::Rng;

    use super::*;

    #[test]
    fn the_streams_are_the_ones_that_were_published() {
        let first = |seed, purpose, index| Streams::new(seed, purpose).at(index).next_u64();
        let values = [
            first(0, Purpose::Gap, 0),
            first(0, Purpose::Gap, 1),
            first(1, Purpose::Prompt, 0),
            first(42, Purpose::Lengths, 1_000_000),
            first(u64::MAX, Purpose::Sample, u64::MAX),
        ];
        assert_eq!(values, PINNED);
    }

    // Computed by another program from the published definitions.
    const PINNED: [u64; 5] = [
        18_353_448_787_882_852_715,
        4_526_510_421_850_589_242,
        8_275_060_696_564_605_423,
        17_615_569_421_259_447_177,
        15_189_326_287_547_791_723,
    ];

    #[test]
    fn seed_purpose_and_index_each_give_another_stream() {
        let purposes = [Purpose::Gap, Purpose::Prompt, Purpose::Lengths, Purpose::Sample];
        let keys: HashSet<u64> = (0..50)
            .flat_map(|seed| purposes.map(|purpose| Streams::new(seed, purpose)))
            .flat_map(|streams| (0..50).map(move |index| streams.key(index)))
            .collect();
        assert_eq!(keys.len(), 50 * 4 * 50);
    }

    #[test]
    fn neighbouring_streams_share_no_bits() {
        // First draws of neighbours differ in 32 of 64 bits on average; over 10,000 pairs the
        // mean has a standard deviation of 4 / 100, so 0.2 is five of them.
        let streams = Streams::new(7, Purpose::Gap);
        let moved: u32 = (0..10_000)
            .map(|index| {
                (streams.at(index).next_u64() ^ streams.at(index + 1).next_u64()).count_ones()
            })
            .sum();
        assert!((f64::from(moved) / 10_000.0 - 32.0).abs() < 0.2, "{moved}");
    }
}
