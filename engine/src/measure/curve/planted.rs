//! Levels with planted figures, for the tests of this folder.

use super::figures::Figures;
use super::level::{Level, Repetition};
use crate::measure::{Health, Held, ObjectiveReport};

/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;

/// So much throughput at these latencies in ms, TTFT p95 and E2E p50 (of the successful and judged
/// alike), ten tokens a request.
pub(super) fn figures(rps: f64, ttft_ms: u64, e2e_ms: u64) -> Figures {
    let (ttft, e2e) = (Some(ttft_ms * MS), Some(e2e_ms * MS));
    Figures {
        rps: Some(rps),
        output_tps: Some(rps * 10.0),
        ttft_p50: ttft,
        ttft_p95: ttft,
        served_ttft_p50: ttft,
        served_ttft_p95: ttft,
        e2e_p50: e2e,
        served_e2e_p50: e2e,
        error_rate: Some(0.0),
        refused_share: Some(0.0),
        ..Figures::default()
    }
}

/// A level of one run with these figures.
pub(super) fn level(value: f64, figures: Figures) -> Level {
    Level::of(value, vec![Repetition::of_figures(figures, Health::Valid)])
}

/// A run whose only objective came out so.
pub(super) fn judged(verdict: Held) -> Repetition {
    Repetition {
        slo: Some(verdict),
        objectives: vec![ObjectiveReport {
            text: "p95(ttft)<500ms".into(),
            metric: "ttft".into(),
            limit_ns: Some(500 * MS),
            value_ns: None,
            at_least_ns: None,
            limit_share: None,
            value_share: None,
            margin: None,
            verdict,
            evidence: None,
        }],
        ..Repetition::of_figures(Figures::default(), Health::Valid)
    }
}

/// Throughput and E2E of an M/M/1 queue that serves `capacity` per second, offered `rate`: the mean
/// time in it is `1 / (capacity − rate)` (Kleinrock, Queueing Systems I, 3.2), and with the rate at
/// or over the capacity as long as a window of 60 s lets the queue become.
pub(super) fn queueing(rate: f64, capacity: f64) -> Level {
    let mut one = if rate < capacity {
        let ms = (1000.0 / (capacity - rate)) as u64;
        figures(rate, ms, ms)
    } else {
        let ms = 1000.0 * (rate - capacity) / capacity * 60.0 / 2.0 + 10_000.0;
        figures(capacity, ms as u64, ms as u64)
    };
    one.offered_rps = Some(rate);
    one.achieved_share = one.rps.map(|rps| rps / rate);
    level(rate, one)
}
