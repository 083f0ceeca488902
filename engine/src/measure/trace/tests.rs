//! Requests made by hand, whose every part is known.

use super::*;
use crate::measure::rows::{MS, failed, row, row_at};
use crate::record::{Arm, ErrorClass, Leg, Legs, Phase as RunPhase};

const SCENE: Scene =
    Scene { is_open: false, stream: true, end_ns: 1000 * MS, requests: 8, e2e_p50: None };

fn traced(rows: impl IntoIterator<Item = Row>, wanted: Wanted) -> Traces {
    let mut tracer = Tracer::new(SCENE, wanted);
    rows.into_iter().for_each(|row| tracer.add(row));
    tracer.finish()
}

const ALL: Wanted = Wanted { slowest: 10, outliers: 10 };

/// Phases with their begin and end in ms.
fn steps(path: &Path) -> Vec<(Phase, u64, u64)> {
    let took_time = path.steps.iter().filter(|step| step.length() > 0);
    took_time.map(|step| (step.phase, step.from_ns / MS, step.to_ns / MS)).collect()
}

/// A request on a connection of its own whose tokens come at these times in ms.
fn fresh(index: u64, tokens_ms: &[u64]) -> Row {
    Row {
        connected: Some(2 * MS),
        tls_done: Some(5 * MS),
        write_start: Some(6 * MS),
        write_done: Some(7 * MS),
        first_byte: Some(9 * MS),
        done: tokens_ms.last().map(|last| (last + 1) * MS),
        chunks: Some(tokens_ms.iter().map(|ms| (ms * MS, 1)).collect()),
        ..row(index, tokens_ms)
    }
}

#[test]
fn a_request_is_cut_at_its_marks() {
    let traces = traced([fresh(0, &[20, 25, 35, 50])], ALL);
    let expected = [
        (Phase::Connect, 0, 2),
        (Phase::Tls, 2, 5),
        (Phase::Prepare, 5, 6),
        (Phase::Write, 6, 7),
        (Phase::Head, 7, 9),
        (Phase::FirstToken, 9, 20),
        (Phase::SecondToken, 20, 25),
        (Phase::Decode, 25, 50),
        (Phase::Tail, 50, 51),
    ];
    assert_eq!(steps(&traces.slowest[0].path), expected);
    let whole: f64 = traces.phases.iter().filter_map(|phase| phase.share).sum();
    assert!((whole - 1.0).abs() < 1e-9, "the parts of E2E add up: {whole}");
    let tail = traces.phases.last().unwrap();
    assert_eq!((tail.phase, tail.share, tail.spent.max), (Phase::Tail, None, Some(MS)));
}

#[test]
fn the_second_token_is_apart_from_the_gaps_after_it() {
    let traces = traced([fresh(0, &[20, 120, 130, 140]), fresh(1, &[20, 80, 90, 105])], ALL);
    let gaps = &traces.gaps;
    assert_eq!((gaps.second.min, gaps.second.max), (Some(60 * MS), Some(100 * MS)));
    assert_eq!((gaps.later.count, gaps.later.max), (4, Some(15 * MS)));
    let found = |at: usize| {
        let one = &gaps.outliers[at];
        (one.index, one.event, one.events, one.at_ns / MS, one.gap_ns / MS)
    };
    assert_eq!(
        (found(0), found(1), found(2)),
        ((0, 2, 4, 120, 100), (1, 2, 4, 80, 60), (1, 4, 4, 105, 15))
    );
    assert!((gaps.outliers[0].times_median.unwrap() - 10.0).abs() < 0.02);
    assert_eq!(gaps.outliers.len(), 6);
}

#[test]
fn the_slowest_come_first_and_those_that_failed_get_half_of_the_places() {
    let warm_up = Row { phase: RunPhase::Warmup, ..fresh(9, &[20, 900]) };
    let bad = |index| failed(index, ErrorClass::ConnReset, 0, 70);
    let rows = || {
        let good = [fresh(0, &[20, 50]), fresh(1, &[20, 90]), fresh(2, &[20, 90])];
        good.into_iter().chain([bad(4), bad(3), bad(5), warm_up.clone()])
    };
    let order = |all: &[Traced]| all.iter().map(|one| one.row.index).collect::<Vec<_>>();
    let kept = |traces: &Traces| (order(&traces.slowest), order(&traces.failed));
    let traces = traced(rows(), ALL);
    assert_eq!(kept(&traces), (vec![1, 2, 0], vec![3, 4, 5]));
    assert_eq!(steps(&traces.failed[0].path), [(Phase::Lost, 0, 70)]);
    assert_eq!(traces.failed[0].e2e_ns, None);
    assert_eq!(traces.e2e.count, 3, "a failure has no E2E");
    let few = |slowest| Wanted { slowest, outliers: 1 };
    let traces = traced(rows().collect::<Vec<_>>().into_iter().rev(), few(3));
    assert_eq!((kept(&traces), traces.gaps.outliers.len()), ((vec![1, 2], vec![3]), 1));
    assert_eq!(kept(&traced(rows(), few(1))), (vec![1], vec![]));
    assert_eq!(kept(&traced(rows(), few(5))), (vec![1, 2, 0], vec![3, 4]));
    assert_eq!(kept(&traced([bad(7), bad(6)], few(1))), (vec![], vec![6]));
    assert_eq!(kept(&traced(rows(), few(0))), (vec![], vec![]));
}

/// A request of two legs, in ms: prefill from 1 to `prefill_done`, decode from `decode_start` on.
fn legged(prefill_done: u64, decode_start: u64) -> Row {
    let leg = |start: u64, done: u64| Leg {
        url: "http://127.0.0.1:1".into(),
        write_start: Some(start * MS),
        done: Some(done * MS),
        ..Leg::default()
    };
    let (prefill, decode) = (Some(leg(1, prefill_done)), Some(leg(decode_start, 90)));
    let legs = Legs { arm: Arm::Direct, handoff_bytes: None, prefill, decode, baseline: None };
    Row { legs: Some(Box::new(legs)), ..fresh(0, &[60, 70, 90]) }
}

#[test]
fn legs_that_follow_each_other_take_the_place_of_the_head() {
    let traces = traced([legged(40, 42)], ALL);
    let expected = [
        (Phase::Prepare, 0, 1),
        (Phase::PrefillLeg, 1, 40),
        (Phase::ClientGap, 40, 42),
        (Phase::DecodeFirst, 42, 60),
        (Phase::SecondToken, 60, 70),
        (Phase::Decode, 70, 90),
        (Phase::Tail, 90, 91),
    ];
    assert_eq!(steps(&traces.slowest[0].path), expected);
    assert_eq!(traces.slowest[0].path.beside, None);
    assert!(traces.phases.iter().all(|one| one.share.is_some() || one.phase == Phase::Tail));
}

#[test]
fn legs_that_overlap_lie_beside_each_other() {
    let traces = traced([legged(55, 2)], ALL);
    let path = &traces.slowest[0].path;
    assert_eq!(steps(path)[..2], [(Phase::Prepare, 0, 2), (Phase::DecodeFirst, 2, 60)]);
    let beside = path.beside.unwrap();
    assert_eq!((beside.from_ns / MS, beside.to_ns / MS), (1, 55));
    let leg = traces.phases.iter().find(|one| one.phase == Phase::PrefillLeg).unwrap();
    assert_eq!((leg.share, leg.spent.max), (None, Some(54 * MS)));
}

#[test]
fn nothing_gives_no_figure() {
    let traces = traced([], ALL);
    assert!(traces.slowest.is_empty() && traces.phases.is_empty());
    assert_eq!((traces.e2e.count, traces.gaps.later.count), (0, 0));
    // No event was kept, and the second token came with the first.
    let mute = Row { chunks: None, ..row_at(0, 0, 0, &[10, 10, 10]) };
    let gaps = traced([mute], ALL).gaps;
    assert_eq!((gaps.later.count, gaps.later.max, gaps.outliers.len()), (0, None, 0));
    let packed = Row { chunks: Some(vec![(MS, 1); 4]), ..row(0, &[1, 1, 1, 1]) };
    let gaps = traced([packed], ALL).gaps;
    assert_eq!((gaps.outliers[0].gap_ns, gaps.outliers[0].times_median), (0, None));
}
