//! Fewer of the gaps that were drawn for resampling, so that the file of a shard stays small and the
//! shards of a load together keep as many as one host does.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Header;
use crate::measure::Facts;
use crate::record::GapSample;

/// Gaps that all shards of a load keep, about.
const GAPS_MAX: usize = 100_000;
/// Requests whose gaps each reactor keeps, at least.
const REQUESTS_MIN: usize = 5;

/// Facts with fewer gaps, every request having kept its own with the same chance, and apart from them
/// all gaps that there were of each tally.
pub(crate) fn thin_gaps(mut facts: Facts, header: &Header) -> (Facts, Vec<Vec<GapSample>>) {
    let most = GAPS_MAX / header.shard.of.max(1) as usize;
    let gaps: usize = facts.tallies.iter().flat_map(|tally| &tally.gap_samples).map(Vec::len).sum();
    let share = (most as f64 / gaps.max(1) as f64).min(1.0);
    let key = header.seed ^ u64::from(header.shard.index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(key);
    let thin = |tally: &mut crate::record::Tally| {
        let all = std::mem::take(&mut tally.gap_samples);
        let wanted = (all.len() as f64 * share).floor() as usize;
        let mut wanted = wanted.max(REQUESTS_MIN).min(all.len());
        // Selection sampling: each is taken with the chance that is left, so exactly as many are.
        for (at, sample) in all.iter().enumerate() {
            if rng.random_range(0..all.len() - at) < wanted {
                tally.gap_samples.push(sample.clone());
                wanted -= 1;
            }
        }
        all
    };
    let whole = facts.tallies.iter_mut().map(thin).collect();
    (facts, whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::facts;
    use crate::record::Tally;
    use crate::workload::Shard;

    fn header(of: u32) -> Header {
        Header {
            shard: Shard::new(0, of).unwrap(),
            plan: "p".into(),
            seed: 7,
            run_id: "r".into(),
            start_at_ns: None,
            version: "0".into(),
            host: serde_json::Value::Null,
        }
    }

    /// Facts of two reactors, with so many requests of 100 gaps each, all of the request's number.
    fn with_gaps(requests: usize) -> Facts {
        let sample = |number: usize| vec![(number as u64, 1); 100];
        let tally = Tally {
            gap_requests: 5_000,
            gap_samples: (0..requests).map(sample).collect(),
            ..Tally::default()
        };
        Facts { tallies: vec![tally.clone(), tally], ..facts(1000) }
    }

    #[test]
    fn few_gaps_are_all_kept() {
        let (thinned, whole) = thin_gaps(with_gaps(300), &header(1));
        assert_eq!(thinned.tallies[1].gap_samples, whole[1]);
        assert_eq!(thinned.tallies[1].gap_requests, 5_000);
    }

    #[test]
    fn many_are_thinned_evenly_and_never_to_nothing() {
        let (thinned, whole) = thin_gaps(with_gaps(1_000), &header(4));
        for tally in &thinned.tallies {
            // 25 000 gaps of the 200 000.
            assert_eq!(tally.gap_samples.len(), 125);
            let early = tally.gap_samples.iter().filter(|sample| sample[0].0 < 500).count();
            // Half of them, give or take five standard deviations.
            assert!(early.abs_diff(62) < 28, "{early}");
        }
        assert_eq!(whole[0].len(), 1_000);
        let (thinned, _) = thin_gaps(with_gaps(1_000), &header(50_000));
        assert_eq!(thinned.tallies[0].gap_samples.len(), REQUESTS_MIN);
        let (thinned, _) = thin_gaps(with_gaps(2), &header(50_000));
        assert_eq!(thinned.tallies[0].gap_samples.len(), 2);
    }
}
