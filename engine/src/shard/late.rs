//! Which hosts began late, and whether that makes a result one of a part of the load.

use super::{Place, Standing};
use crate::measure::LateHost;

/// A start that is later than this, beyond what the clocks are known to, is late, ns.
const LATE_NS: u64 = 1_000_000;
/// Share of the measured part, and time, ns, beyond which the load was another one than was asked for.
const MISSED_SHARE: f64 = 0.01;
const MISSED_NS: u64 = 1_000_000_000;

/// The hosts that began late: by their own word, or against the middle one of all. Of a host that was
/// cut off its load's start is not known well enough.
#[must_use]
pub fn late(places: &[Place], standings: &[Standing]) -> Vec<LateHost> {
    let both = || places.iter().zip(standings);
    let mut starts: Vec<(u64, u64)> = both()
        .filter(|(place, _)| !place.cut_off)
        .map(|(place, standing)| (place.load_ns, standing.error_ns))
        .collect();
    starts.sort_unstable();
    let Some(&(middle, middle_error)) = starts.get(starts.len().saturating_sub(1) / 2) else {
        return Vec::new();
    };
    let one = |(place, standing): (&Place, &Standing)| {
        let error = standing.error_ns.saturating_add(middle_error);
        let after = place.load_ns.saturating_sub(middle).saturating_sub(error);
        let against = if place.cut_off { 0 } else { after };
        let by_ns = place.start_late_ns.max(against);
        (by_ns > LATE_NS).then_some(LateHost { shard: place.shard, by_ns })
    };
    both().filter_map(one).collect()
}

/// Whether a host that began so much later has missed a part of a window that is so long, ns.
#[must_use]
pub fn is_missed(by_ns: u64, window_ns: u64) -> bool {
    by_ns > MISSED_NS.min((window_ns as f64 * MISSED_SHARE) as u64)
}

/// From the first start to the last, ns; of hosts that were cut off it is not known.
#[must_use]
pub fn skew(places: &[Place]) -> u64 {
    let starts = || places.iter().filter(|place| !place.cut_off).map(|place| place.load_ns);
    starts().max().unwrap_or(0).saturating_sub(starts().min().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn place(shard: u32, load_ms: u64) -> Place {
        Place {
            shard,
            start_ns: 0,
            load_ns: load_ms * MS,
            end_ns: 10_000 * MS,
            start_late_ns: 0,
            first_reactor: 0,
            reactors: 1,
            cut_off: false,
        }
    }

    #[test]
    fn a_host_is_late_by_its_own_word_or_against_the_others() {
        let told = Place { start_late_ns: 5 * MS, ..place(2, 100) };
        let places = [place(0, 100), place(1, 101), told, place(3, 140)];
        let found = late(&places, &[Standing::default(); 4]);
        let by: Vec<(u32, u64)> = found.iter().map(|one| (one.shard, one.by_ns)).collect();
        assert_eq!(by, [(2, 5 * MS), (3, 40 * MS)], "1 ms is in time");
        assert_eq!(skew(&places), 40 * MS);
    }

    #[test]
    fn what_the_clocks_may_be_off_is_no_delay() {
        let vague = Standing { error_ns: 20 * MS, ..Standing::default() };
        let places = [place(0, 100), place(1, 100), place(2, 130)];
        assert!(late(&places, &[vague; 3]).is_empty());
        let sharp = Standing { error_ns: MS, ..Standing::default() };
        let found = late(&places, &[sharp; 3]);
        assert_eq!((found.len(), found[0].by_ns), (1, 28 * MS));
    }

    #[test]
    fn of_a_host_that_was_cut_off_only_its_own_word_counts() {
        let cut = Place { cut_off: true, ..place(1, 900) };
        assert!(late(&[place(0, 100), cut], &[Standing::default(); 2]).is_empty());
        let told = Place { start_late_ns: 2 * MS, ..cut };
        assert_eq!(late(&[place(0, 100), told], &[Standing::default(); 2]).len(), 1);
        assert_eq!((late(&[cut], &[Standing::default()]).len(), skew(&[cut])), (0, 0));
    }

    #[test]
    fn a_delay_counts_by_the_length_of_the_window() {
        assert!(!is_missed(10 * MS, 1000 * MS) && is_missed(11 * MS, 1000 * MS));
        assert!(!is_missed(900 * MS, 600_000 * MS) && is_missed(1001 * MS, 600_000 * MS));
    }
}
