//! Rows, workloads and facts for the tests of this folder.

use super::Facts;
use crate::record::{ErrorClass, Outcome, Phase, Pooled, Row, Tally, TokenSource};
use crate::workload::{Arrival, Load, Overflow, Schedule, Workload};

/// One millisecond in ns.
pub(crate) const MS: u64 = 1_000_000;

/// A successful request from 0 whose tokens come at these times in ms, one per event.
pub(crate) fn row(index: u64, tokens_ms: &[u64]) -> Row {
    row_at(index, 0, 0, tokens_ms)
}

/// The same, meant for `intended_ms` and sent at `sent_ms`.
pub(crate) fn row_at(index: u64, intended_ms: u64, sent_ms: u64, tokens_ms: &[u64]) -> Row {
    let first = tokens_ms.first().map(|ms| ms * MS);
    let last = tokens_ms.last().map(|ms| ms * MS);
    Row {
        index,
        request_id: format!("r{index}"),
        trace_id: None,
        phase: Phase::Measure,
        class: None,
        session: None,
        turn: None,
        shard: None,
        reactor: 0,
        connection: index,
        reused: true,
        attempts: 1,
        retries: 0,
        retry_ns: 0,
        wait_cause: None,
        outcome: Outcome::Ok,
        error: None,
        error_text: None,
        malformed_events: 0,
        status: Some(200),
        finish: Some("stop".into()),
        intended: intended_ms * MS,
        dispatched: Some(sent_ms * MS),
        connected: None,
        tls_done: None,
        write_start: Some(sent_ms * MS),
        write_done: Some(sent_ms * MS),
        first_byte: first,
        head_done: first,
        first_token: first,
        first_output: first,
        second_token: tokens_ms.get(1).map(|ms| ms * MS),
        last_token: last,
        done: last,
        input_tokens: Some(8),
        client_input_tokens: None,
        cached_tokens: None,
        ideal_cached_tokens: None,
        output_tokens: Some(tokens_ms.len() as u64),
        output_source: Some(TokenSource::Usage),
        client_output_tokens: None,
        reasoning_tokens: None,
        first_tokens: first.map(|_| 1),
        events: tokens_ms.len() as u32,
        bytes: 0,
        reads: 0,
        coalesced: 0,
        lag_max: 0,
        chunks: None,
        text: None,
        reasoning_text: None,
        retry_after: None,
        legs: None,
        kv_fallback: None,
        server: None,
    }
}

/// A failure from `at_ms`, settled at `done_ms`.
pub(crate) fn failed(index: u64, class: ErrorClass, at_ms: u64, done_ms: u64) -> Row {
    Row {
        outcome: Outcome::Error,
        error: Some(class),
        output_tokens: None,
        output_source: None,
        done: Some(done_ms * MS),
        ..row_at(index, at_ms, at_ms, &[])
    }
}

/// A request that was cut at `cut_ms`, after these tokens.
pub(crate) fn cut(index: u64, at_ms: u64, tokens_ms: &[u64], cut_ms: u64) -> Row {
    Row {
        outcome: Outcome::Cancelled,
        error: Some(ErrorClass::Deadline),
        done: Some(cut_ms * MS),
        ..row_at(index, at_ms, at_ms, tokens_ms)
    }
}

/// An open loop of equal gaps.
pub(crate) fn open(rate: f64) -> Workload {
    workload(Load::Open {
        schedule: Schedule::Rate { rate, arrival: Arrival::Constant },
        max_in_flight: None,
        overflow: Overflow::Wait,
    })
}

/// A closed loop without ramp.
pub(crate) fn closed(users: u64) -> Workload {
    workload(Load::Closed { users, ramp_ns: 0 })
}

fn workload(load: Load) -> Workload {
    Workload { load, ..crate::workload::sample() }
}

/// The facts of a run whose window goes from 0 to `window_ms`, with one idle reactor.
pub(crate) fn facts(window_ms: u64) -> Facts {
    Facts {
        start_monotonic_ns: 1,
        start_realtime_ns: 2,
        load_start: 0,
        start_late_ns: 0,
        window_start: 0,
        window_end: window_ms * MS,
        window_by_requests: false,
        end: window_ms * MS,
        interrupted: false,
        driver: "io_uring".into(),
        ring: "single_issuer defer_taskrun".into(),
        kernel_stamps: true,
        tallies: vec![Tally { wall_ns: window_ms * MS, ..Tally::default() }],
        pooled: Pooled::default(),
        host: crate::telemetry::host::Watched::default(),
        resolve_ns: 0,
        ramp_ns: 0,
        steered: Default::default(),
        ceiling: None,
    }
}

/// Facts whose pooled gaps and window tokens are those of `rows`, tokens at these times in ms.
pub(crate) fn facts_of(window_ms: u64, tokens_ms: &[&[u64]]) -> Facts {
    let mut facts = facts(window_ms);
    for times in tokens_ms {
        let gaps: Vec<(u64, u32)> =
            times.windows(2).map(|pair| ((pair[1] - pair[0]) * MS, 1)).collect();
        for &(gap, _) in &gaps {
            facts.pooled.icl.record(gap).unwrap();
            facts.pooled.itl.record(gap).unwrap();
        }
        let tally = &mut facts.tallies[0];
        tally.window_output_tokens += times.iter().filter(|&&t| t <= window_ms).count() as u64;
        tally.output_events += times.len() as u64;
        tally.output_reads += times.len() as u64;
        tally.reads += times.len() as u64;
        if !gaps.is_empty() {
            tally.gap_samples.push(gaps);
            tally.gap_requests += 1;
        }
    }
    facts
}
