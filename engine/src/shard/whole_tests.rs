//! Tests of the sum of shards.

use super::*;
use crate::measure::rows::{MS, facts};
use crate::record::GapSample;

const S: u64 = 1_000_000_000;

/// A shard that began so long after second 1000, with these counts in its wall-clock seconds.
fn piece(shard: u32, after_ms: u64, ok: &[u64]) -> Piece {
    let second = |&ok: &u64| Second { ok, ..Second::default() };
    let tally = Tally {
        seconds: ok.iter().map(second).collect(),
        offered: 10,
        last_end: 900 * MS,
        gap_samples: vec![GapSample::new()],
        ..Tally::default()
    };
    let mut facts = Facts {
        start_realtime_ns: 1000 * S + after_ms * MS,
        start_monotonic_ns: u64::from(shard),
        tallies: vec![tally],
        ..facts(1000)
    };
    facts.pooled.icl.record_n(5 * MS, u64::from(shard) + 1).unwrap();
    facts.tallies[0].network.min_rtt.record(MS).unwrap();
    Piece { shard, facts, offset_ns: 0, cut_off: false }
}

fn whole(pieces: Vec<Piece>) -> (Facts, Vec<Place>) {
    let mut whole = Whole::default();
    for piece in pieces {
        whole.add(piece);
    }
    whole.finish().unwrap()
}

fn ok(facts: &Facts) -> Vec<u64> {
    facts.seconds().iter().map(|second| second.ok).collect()
}

#[test]
fn counters_and_histograms_are_added_and_times_moved() {
    let (facts, places) = whole(vec![piece(0, 300, &[1, 2]), piece(1, 100, &[3, 4])]);
    assert_eq!(facts.start_realtime_ns, 1000 * S + 100 * MS);
    assert_eq!(facts.start_monotonic_ns, 1, "that of the host that began first");
    assert_eq!((facts.window_start, facts.window_end), (0, 1200 * MS));
    assert_eq!((facts.load_start, facts.end), (0, 1200 * MS));
    assert_eq!((facts.pooled.icl.len(), ok(&facts)), (3, vec![4, 6]));
    let reactors: Vec<(u32, u64)> =
        facts.tallies.iter().map(|tally| (tally.reactor, tally.last_end)).collect();
    assert_eq!(reactors, [(0, 1100 * MS), (1, 900 * MS)]);
    let connections: u64 = facts.tallies.iter().map(|tally| tally.network.min_rtt.len()).sum();
    assert_eq!(connections, 2);
    assert_eq!((places[1].first_reactor, places[1].reactors), (1, 1));
    assert!(!facts.interrupted);
}

#[test]
fn seconds_are_aligned_by_the_wall_clock_and_the_offset() {
    // The second host's clock is 2 s ahead: its second 1002 is second 1000.
    let mut ahead = piece(1, 2100, &[5, 6]);
    ahead.offset_ns = 2 * S as i64 + 40;
    let (facts, _) = whole(vec![piece(0, 100, &[1, 2]), ahead]);
    assert_eq!(ok(&facts), [6, 8]);
    assert_eq!(facts.window_end, 1000 * MS + 40);
    // It begins a whole second later.
    let (facts, _) = whole(vec![piece(0, 900, &[1, 2]), piece(1, 1100, &[5, 6])]);
    assert_eq!(ok(&facts), [1, 7, 6]);
    // What lies before the first second counts in it.
    let mut early = piece(0, 900, &[1, 2, 3]);
    early.offset_ns = -(400 * MS as i64);
    let (facts, _) = whole(vec![early]);
    assert_eq!((facts.start_realtime_ns, ok(&facts)), (1001 * S + 300 * MS, vec![3, 3]));
}

#[test]
fn a_shard_that_was_cut_off_sets_no_window_and_interrupts_nothing() {
    let mut cut = piece(1, 0, &[1]);
    cut.cut_off = true;
    cut.facts.window_end = 9000 * MS;
    cut.facts.window_by_requests = true;
    cut.facts.interrupted = true;
    cut.facts.driver = "unknown".into();
    let (facts, places) = whole(vec![cut.clone(), piece(0, 0, &[2])]);
    assert_eq!((facts.window_end, facts.window_by_requests), (1000 * MS, false));
    assert_eq!((facts.driver.as_str(), facts.interrupted), ("io_uring", false));
    assert!(places[0].cut_off);
    let (alone, _) = whole(vec![cut]);
    assert_eq!((alone.window_end, alone.driver.as_str()), (9000 * MS, "unknown"));
    assert!(alone.window_by_requests);
}

#[test]
fn drivers_and_losses_of_hosts_are_joined() {
    let mut other = piece(1, 0, &[1]);
    other.facts.driver = "epoll".into();
    other.facts.interrupted = true;
    other.facts.start_late_ns = 7;
    other.facts.host = Watched {
        steal_share: Some(0.2),
        softnet: Some(Softnet { dropped: 1, squeezed: 2 }),
        tcp: None,
    };
    let mut first = piece(0, 0, &[1]);
    first.facts.host = Watched {
        steal_share: Some(0.1),
        softnet: Some(Softnet { dropped: 3, squeezed: 0 }),
        tcp: Some(TcpLosses { dropped: 4, windows_closed: 5 }),
    };
    let (facts, _) = whole(vec![first, other]);
    assert_eq!((facts.driver.as_str(), facts.interrupted), ("io_uring, epoll", true));
    assert_eq!((facts.start_late_ns, facts.host.steal_share), (7, Some(0.2)));
    assert_eq!(facts.host.softnet, Some(Softnet { dropped: 4, squeezed: 2 }));
    assert_eq!(facts.host.tcp.map(|tcp| tcp.dropped), Some(4));
    assert!(Whole::default().finish().is_none());
}
