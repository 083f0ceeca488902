//! Recorded cases of load: what a server sees of it, and what the run says of itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use tokclock_engine::measure::{ReasonKind, summarize};
use tokclock_engine::plan::arrival::Gaps;
use tokclock_engine::record::{ErrorClass, Outcome, Row, WaitCause};
use tokclock_engine::workload::{Arrival, Overflow, Retries, Stop, Warmup};
use tokclock_tests::cases::{Case, paced};
use tokclock_tests::replay::{Manners, Replay, Script};
use tokclock_tests::{
    MS, at_rate, carry_out, closed, requests, set_lengths, short_answer, workload,
};

fn serve(script: Script) -> Replay {
    Replay::start(vec![script], Manners::default())
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn seconds(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1e9) as u64
}

/// `value` lies in the expected range.
#[track_caller]
fn lies(value: f64, range: &Value) {
    lies_or_as(value, range, f64::INFINITY);
}

/// The same, but if the server itself came to no more than `served` on a busy machine, so may we.
#[track_caller]
fn lies_or_as(value: f64, range: &Value, served: f64) {
    let [low, high] = [0, 1].map(|end| range[end].as_f64().unwrap());
    let low = low.min(served);
    assert!((low..=high).contains(&value), "{value} is not in {range}");
}

#[test]
fn l001_an_open_loop_does_not_drift() {
    let Case { client, expected, .. } = Case::named("L001");
    let rate = client["rate"].as_f64().unwrap();
    let gaps = Gaps::new(rate, Arrival::Poisson, count(&client["seed"])).unwrap();
    let planned = count(&client["requests"]);
    let gaps: Vec<f64> = (0..planned).map(|i| gaps.gap_ns(i) as f64 / MS as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    lies(mean, &expected["gap_mean_ms"]);
    lies(variance.sqrt() / mean, &expected["gap_cv"]);

    // A part of it over a socket: requests come as late at the end as they did at the beginning.
    let server = serve(Script::at_once(short_answer(), 0));
    let load = at_rate(rate, Arrival::Poisson, None, Overflow::Wait);
    let ran = carry_out(&workload(server.address(), load, requests(500)));
    let log = server.stop();
    assert_eq!(log.posts().count(), 500);
    let start = ran.facts.start_monotonic_ns;
    let late = |row: &Row| log.post(&row.request_id).at as f64 - (row.intended + start) as f64;
    let lates: Vec<f64> = ran.rows.iter().map(late).collect();
    let middle = |lates: &[f64]| {
        let mut sorted = lates.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let span = (ran.rows[499].intended - ran.rows[0].intended) as f64;
    let drift = (middle(&lates[375..]) - middle(&lates[..125])) / span;
    // The rates that are allowed, and 20 ms for a machine that grew busy meanwhile.
    let allowed = expected["achieved_rps"][1].as_f64().unwrap() / rate - 1.0 + 20e6 / span;
    assert!(drift.abs() < allowed, "drifted by {drift} of the time, {allowed} is allowed");
}

#[test]
fn l003_what_waits_for_a_place_says_so_and_never_comes_as_more() {
    let Case { client, expected, .. } = Case::named("L003");
    let server = serve(Script::at_once(short_answer(), 500));
    let rate = client["rate"].as_f64().unwrap();
    let most = client["max_in_flight"].as_u64();
    let load = at_rate(rate, Arrival::Constant, most, Overflow::Wait);
    let stop = Stop {
        requests: None,
        duration_ns: Some(seconds(&client["duration_s"])),
        sessions: None,
        warmup: Warmup::None,
        drain_ns: seconds(&client["drain_s"]),
        until: None,
    };
    let load = workload(server.address(), load, stop);
    let ran = carry_out(&load);
    let log = server.stop();
    assert_eq!(log.peak_in_flight, count(&expected["peak_inflight_at_server"]));
    let served = log.posts().filter(|asked| !asked.sent.is_empty()).count();
    let capped = ran.rows.iter().filter(|row| row.wait_cause == Some(WaitCause::Cap)).count();
    let summary = summarize(&load, &ran.facts, ran.rows);
    assert_eq!(summary.requests.offered, count(&expected["offered"]));
    lies_or_as(summary.requests.ok as f64, &expected["completed_about"], served as f64 - 4.0);
    assert!(capped as u64 > summary.requests.offered / 2, "{capped} waited for the cap");
    let slip = &summary.client.slip.as_ref().unwrap().by_cause["cap"];
    lies((slip.max.unwrap() / MS) as f64, &expected["dispatch_delay_max_ms"]);
    let held = summary.notes.iter().any(|note| note.kind == ReasonKind::CapReached);
    assert!(held, "the report says that the user's own limit held requests back");
    let offered = summary.rate.offered_rps.unwrap();
    let rate = client["rate"].as_f64().unwrap();
    assert!((offered / rate - 1.0).abs() < 0.02, "{offered} offered, {rate} asked for");
    assert!(summary.rate.achieved_share.unwrap() < 0.15, "{:?}", summary.rate);
}

#[test]
fn l007_one_reactor_has_no_hidden_cap() {
    let Case { client, expected, .. } = Case::named("L007");
    let server = serve(Script::at_once(short_answer(), 500));
    let load = closed(count(&client["concurrency"]));
    let ran = carry_out(&workload(server.address(), load, requests(count(&client["requests"]))));
    let log = server.stop();
    assert_eq!(log.peak_in_flight, count(&expected["server_stats"]["peak_inflight"]));
    let ok = ran.rows.iter().filter(|row| row.outcome == Outcome::Ok).count();
    assert_eq!(ok as u64, count(&expected["completed"]));
}

#[test]
fn l011_a_duration_is_kept_while_answers_go_on() {
    let Case { client, expected, .. } = Case::named("L011");
    let server = serve(paced(600, 50, 50));
    let stop = Stop {
        requests: None,
        duration_ns: Some(seconds(&client["duration_s"])),
        sessions: None,
        warmup: Warmup::None,
        drain_ns: seconds(&client["grace_s"]),
        until: None,
    };
    let mut load = workload(server.address(), closed(count(&client["concurrency"])), stop);
    set_lengths(&mut load, 16, 600);
    let ran = carry_out(&load);
    let log = server.stop();
    let wall = (ran.facts.end - ran.facts.window_start) as f64 / 1e9;
    let [least, most] = [0, 1].map(|end| expected["wall_s"][end].as_f64().unwrap());
    // Two seconds for a busy machine: the answers would take half a minute.
    assert!((least..most + 2.0).contains(&wall), "{wall} s");
    // Every piece but the head is a token.
    let end = ran.facts.start_monotonic_ns + ran.facts.window_end;
    let sent = log.posts().flat_map(|asked| &asked.sent[1..]);
    let sent = sent.filter(|piece| piece.ended <= end).count() as u64;
    let counted = ran.facts.tallies[0].window_output_tokens;
    assert!(counted.abs_diff(sent) <= 3, "{counted} counted, {sent} sent before the end");
    lies_or_as(counted as f64, &expected["tokens_in_window"], sent as f64 - 3.0);
    let summary = summarize(&load, &ran.facts, ran.rows);
    let slowest = (sent as f64 - 3.0) / summary.run.window.seconds;
    lies_or_as(summary.rate.output_tps.unwrap(), &expected["output_tok_s"], slowest);
    assert_eq!(summary.requests.ok, count(&expected["completed"]));
    assert_eq!(summary.requests.cancelled, count(&expected["cancelled"]));
    assert_eq!(summary.requests.failed, count(&expected["failed"]));
}

#[test]
fn l023_a_refused_request_is_not_sent_again_unasked() {
    let case = Case::named("L023");
    let (client, expected) = (&case.client, &case.expected);
    let server = case.serve();
    let load = closed(count(&client["concurrency"]));
    let ran = carry_out(&workload(server.address(), load, requests(count(&client["requests"]))));
    let posts = server.stop().posts().count() as u64;
    assert_eq!(posts, count(&expected["retries_off"]["server_posts"]));
    assert_eq!(ran.rows.len() as u64, count(&expected["failed"]));
    for row in &ran.rows {
        assert_eq!((row.error, row.attempts), (Some(ErrorClass::RateLimited), 1));
        assert_eq!(row.retry_after, Some(1), "what the server asked for is kept");
        assert_eq!(row.first_token, None);
    }
    assert_eq!(expected["error_class"], "rate_limited");
}

#[test]
fn l023_retries_are_as_many_as_were_asked_for() {
    let case = Case::named("L023");
    let (client, expected) = (&case.client, &case.expected);
    // The same without the second that it asks for: the pauses are then ours, and short here.
    let answer = String::from_utf8(case.scripts[0].bytes.clone()).unwrap();
    let server = serve(Script::at_once(answer.replace("Retry-After: 1\r\n", ""), 0));
    let asked_for = count(&client["requests"]);
    let mut load =
        workload(server.address(), closed(count(&client["concurrency"])), requests(asked_for));
    let backoff_ns = count(&client["retry_base_ms"]) * MS / 20;
    load.client.retries = Retries { max: count(&client["retries"]) as u32, backoff_ns };
    let ran = carry_out(&load);
    let posts = server.stop().posts().count() as u64;
    assert_eq!(posts, count(&expected["server_posts"]));
    assert_eq!(ran.rows.len() as u64, count(&expected["failed"]));
    for row in &ran.rows {
        assert_eq!((row.error, row.retry_after), (Some(ErrorClass::RateLimited), None));
        assert_eq!(u64::from(row.attempts), count(&expected["attempts_per_request"]));
        // The base, twice the base and four times.
        assert!(row.retry_ns >= 7 * backoff_ns, "{row:?}");
    }
    let summary = summarize(&load, &ran.facts, ran.rows);
    assert_eq!(summary.requests.failed, count(&expected["failed"]));
    assert_eq!(summary.requests.retries, posts - summary.requests.failed);
    let wall = (ran.facts.end - ran.facts.window_start) as f64 / 1e9;
    assert!(wall < expected["wall_s_max"].as_f64().unwrap(), "{wall} s");
}
