//! Both dialects, streamed and not, with and without the server's own count of tokens.

use tokclock_engine::measure::summarize;
use tokclock_engine::record::{Outcome, TokenSource};
use tokclock_engine::workload::{Dialect, Goodput, Limit, Metric, Stamps, Workload};
use tokclock_sim::{Law, Settings, UsageMode};
use tokclock_tests::{MS, Ran, Sim, carry_out, closed, requests, settings, workload};

fn against(settings: Settings, change: impl FnOnce(&mut Workload)) -> (Workload, Ran) {
    let sim = Sim::start(settings);
    let mut load = workload(sim.address(), closed(3), requests(12));
    change(&mut load);
    let ran = carry_out(&load);
    let _ = sim.stop();
    assert_eq!(ran.rows.len(), 12);
    assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Ok), "{:?}", ran.rows[0]);
    (load, ran)
}

fn completions(load: &mut Workload) {
    load.target.dialect = Dialect::OpenaiCompletions;
    load.target.endpoints[0].path = "/v1/completions".to_owned();
}

#[test]
fn both_dialects_are_read_streamed_and_not() {
    for is_chat in [true, false] {
        for stream in [true, false] {
            let (_, ran) = against(settings(), |load| {
                if !is_chat {
                    completions(load);
                }
                load.target.stream = stream;
                load.client.keep_text = true;
            });
            for row in &ran.rows {
                assert_eq!(
                    (row.output_tokens, row.output_source),
                    (Some(8), Some(TokenSource::Usage))
                );
                assert_eq!(row.text.as_deref(), Some(" hello".repeat(8).as_str()));
                assert_eq!(row.finish.as_deref(), Some("length"));
                assert_eq!(row.first_token.is_some(), stream, "a document has no first token");
                assert_eq!(row.events, if stream { 8 } else { 0 });
                assert!(row.done.is_some());
            }
        }
    }
}

#[test]
fn without_usage_events_are_counted_or_the_text_if_a_tokenizer_was_named() {
    let silent = || Settings { usage: UsageMode::Never, tokens_per_event: 2, ..settings() };
    let (load, ran) = against(silent(), |_| {});
    for row in &ran.rows {
        assert_eq!((row.output_tokens, row.output_source), (Some(4), Some(TokenSource::Events)));
    }
    let summary = summarize(&load, &ran.facts, ran.rows);
    assert!(summary.tokens.note.is_some(), "the report says that it is an event count");

    let (_, ran) = against(silent(), |load| load.text.tokenizer_chosen = true);
    for row in &ran.rows {
        assert_eq!((row.output_tokens, row.output_source), (Some(8), Some(TokenSource::Client)));
        let chunks: Vec<u32> = row.chunks.as_ref().unwrap().iter().map(|chunk| chunk.1).collect();
        assert_eq!(chunks, [2, 2, 2, 2], "spread by the text");
    }
}

#[test]
fn a_chosen_tokenizer_is_set_beside_the_servers_count() {
    let (load, ran) = against(settings(), |load| load.text.tokenizer_chosen = true);
    let summary = summarize(&load, &ran.facts, ran.rows);
    assert_eq!((summary.tokens.server_count, summary.tokens.client_count), (Some(96), Some(96)));
}

#[test]
fn observed_stamps_are_later_than_the_kernels_and_say_so() {
    let (load, ran) = against(settings(), |load| load.client.stamps = Stamps::Observed);
    let tally = &ran.facts.tallies[0];
    assert_eq!(tally.unstamped_reads, tally.reads);
    let summary = summarize(&load, &ran.facts, ran.rows);
    assert_eq!(summary.client.stamps, "observed");
}

#[test]
fn goodput_counts_what_met_every_limit() {
    let limit = |metric, ms: u64| Limit { metric, limit_ns: ms * MS };
    for (ttft_ms, good) in [(10_000, 12), (1, 0)] {
        let (load, ran) = against(settings(), |load| {
            let limits = vec![limit(Metric::Ttft, ttft_ms), limit(Metric::Tpot, 10_000)];
            load.objectives.goodput = Some(Goodput { limits });
        });
        let summary = summarize(&load, &ran.facts, ran.rows);
        let goodput = summary.goodput.unwrap();
        assert_eq!((goodput.good, goodput.of), (good, 12));
    }
}

#[test]
fn a_queue_at_the_server_shows_in_ttft_and_not_in_the_gaps() {
    // Four places, eight users: half of the requests wait for a whole answer of another.
    let limited = Settings {
        max_concurrent: Some(4),
        ttft: Law::Constant(5 * MS),
        itl: Law::Constant(10 * MS),
        ..settings()
    };
    let sim = Sim::start(limited);
    let load = workload(sim.address(), closed(8), requests(48));
    let ran = carry_out(&load);
    let (report, truth) = sim.stop();
    assert_eq!((report.peak_in_flight, report.peak_waiting), (4, 4));
    let mut waits = 0;
    for row in &ran.rows {
        let one = truth.iter().find(|one| one.request_id.as_deref() == Some(&row.request_id));
        let one = one.unwrap();
        let wait = one.started_ns.unwrap() - one.read_ns;
        waits += u64::from(wait > 20 * MS);
        // Two clocks are compared: conversion costs less than 2 µs.
        let ttft = row.first_token.unwrap() - row.dispatched.unwrap();
        assert!(ttft + 2_000 >= wait + 5 * MS, "TTFT {ttft}, waited {wait}");
        let sent = one.events.last().unwrap()[0] - one.events[0][0];
        let decode = row.last_token.unwrap() - row.first_token.unwrap();
        let before_first_token = one.events[0][0] - one.read_ns;
        assert!(decode < sent + before_first_token, "the wait is no part of the gaps");
    }
    assert!(waits >= 20, "four of eight users wait for a whole answer: {waits}");
}
