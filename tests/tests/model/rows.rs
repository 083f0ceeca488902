//! What a run in simulated time leaves: a row of each request, and what a recorder would have counted.

use tokclock_engine::measure::Facts;
use tokclock_engine::record::{
    ErrorClass, GapSample, Outcome, Phase, Pooled, Row, Tally, TokenSource,
};

use super::{Answer, NEVER, Point, REFUSAL_NS, Seen, mixed};

/// Requests whose gaps are kept, as a reactor keeps them.
const GAP_SAMPLES_MAX: usize = 2_000;
/// When a request is over; never, if it is cut.
pub(super) fn done(answer: &Answer, point: &Point) -> u64 {
    if answer.is_refused {
        answer.arrived + REFUSAL_NS
    } else if answer.got == answer.output {
        answer.last + (point.late)(answer.arrived)
    } else {
        NEVER
    }
}

/// The row of an answer.
pub(super) fn row(point: &Point, answer: &Answer, index: u64, end: u64) -> Row {
    let late = (point.late)(answer.arrived);
    let mark = |at: u64| (at != NEVER && at + late <= end).then(|| at + late);
    let first = mark(answer.first);
    let is_whole = done(answer, point) <= end;
    let (outcome, error) = match (answer.is_refused, is_whole) {
        (true, _) => (Outcome::Error, Some(ErrorClass::HttpStatus)),
        (false, true) => (Outcome::Ok, None),
        (false, false) => (Outcome::Cancelled, Some(ErrorClass::Deadline)),
    };
    Row {
        index,
        request_id: String::new(),
        trace_id: None,
        phase: point.phase(answer.arrived),
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
        outcome,
        error,
        error_text: None,
        malformed_events: 0,
        status: Some(if answer.is_refused { 503 } else { 200 }),
        finish: None,
        intended: answer.arrived,
        dispatched: Some(answer.arrived),
        connected: None,
        tls_done: None,
        write_start: Some(answer.arrived),
        write_done: Some(answer.arrived),
        first_byte: first,
        head_done: first,
        first_token: first,
        first_output: first,
        second_token: mark(answer.second),
        last_token: if answer.got > 0 { mark(answer.last) } else { None },
        done: Some(done(answer, point).min(end)),
        input_tokens: Some(u64::from(point.input)),
        client_input_tokens: None,
        cached_tokens: None,
        ideal_cached_tokens: None,
        output_tokens: is_whole.then_some(u64::from(answer.got)),
        output_source: is_whole.then_some(TokenSource::Usage),
        client_output_tokens: None,
        reasoning_tokens: None,
        first_tokens: first.map(|_| 1),
        events: answer.got,
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

/// What a recorder would have counted.
pub(super) fn facts(point: &Point, seen: &Seen, end: u64) -> Facts {
    let mut pooled = Pooled::default();
    let mut tally = Tally { wall_ns: end, last_end: end, ..Tally::default() };
    let window = point.warmup_ns..point.window_end();
    let mut run = (0, 0);
    for (answer, index) in seen.answers.iter().zip(0..) {
        let late = (point.late)(answer.arrived);
        let times = &seen.times[answer.begin..answer.begin + answer.got as usize];
        let is_measured = point.phase(answer.arrived) == Phase::Measure;
        tally.offered += u64::from(is_measured);
        for at in times {
            tally.window_output_tokens += u64::from(window.contains(&(at + late)));
        }
        if is_measured && answer.got >= 2 && done(answer, point) <= end {
            for pair in times.windows(2) {
                let gap = pair[1] - pair[0];
                if gap != run.0 {
                    pool(&mut pooled, run);
                    run = (gap, 0);
                }
                run.1 += 1;
            }
            keep(&mut tally, times, mixed(point.seed, !index));
        }
    }
    pool(&mut pooled, run);
    let tokens: u64 = seen.answers.iter().map(|answer| u64::from(answer.got)).sum();
    (tally.output_events, tally.output_reads, tally.reads) = (tokens, tokens, tokens);
    Facts {
        start_monotonic_ns: 0,
        start_realtime_ns: 0,
        load_start: 0,
        start_late_ns: 0,
        window_start: point.warmup_ns,
        window_end: point.window_end(),
        window_by_requests: false,
        end,
        interrupted: false,
        driver: "none".to_owned(),
        ring: String::new(),
        kernel_stamps: true,
        tallies: vec![tally],
        pooled,
        host: tokclock_engine::telemetry::host::Watched::default(),
        resolve_ns: 0,
        ramp_ns: 0,
        steered: Default::default(),
        ceiling: None,
    }
}

/// So many equal gaps.
fn pool(pooled: &mut Pooled, (gap, times): (u64, u64)) {
    if times > 0 {
        pooled.icl.record_n(gap, times).unwrap();
        pooled.itl.record_n(gap, times).unwrap();
    }
}

/// Keeps the gaps of each request with the same chance (reservoir sampling, algorithm R).
fn keep(tally: &mut Tally, times: &[u64], drawn: u64) {
    tally.gap_requests += 1;
    let place = match tally.gap_samples.len() {
        GAP_SAMPLES_MAX => (drawn % tally.gap_requests) as usize,
        room => {
            tally.gap_samples.push(GapSample::new());
            room
        }
    };
    if let Some(sample) = tally.gap_samples.get_mut(place) {
        sample.clear();
        sample.extend(times.windows(2).map(|pair| (pair[1] - pair[0], 1)));
    }
}
