//! Load as the server sees it: how many, when, what, and never more than was asked for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokclock_engine::record::{ErrorClass, Outcome, Phase, WaitCause};
use tokclock_engine::run::Control;
use tokclock_engine::workload::{Overflow, Stop, Warmup};
use tokclock_sim::{Law, Settings};
use tokclock_tests::{
    MS, Sim, carry_out, carry_out_under, closed, on_reactors, poisson, requests, set_lengths,
    settings, workload,
};

#[test]
fn a_closed_loop_sends_exactly_what_was_asked_for_and_never_more_at_once() {
    for reactors in 1..=3 {
        let sim = Sim::start(settings());
        let load = workload(sim.address(), closed(7), requests(50));
        let ran = carry_out(&on_reactors(load, reactors));
        let (report, truth) = sim.stop();
        assert_eq!(report.requests, 50, "{reactors} reactors");
        assert_eq!(report.peak_in_flight, 7, "{reactors} reactors");
        let at_server = truth.iter().map(|one| one.in_flight).max();
        assert_eq!(at_server, Some(7));
        assert_eq!(ran.rows.len(), 50);
        assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Ok));
        let starved: u64 = ran.facts.tallies.iter().map(|tally| tally.feed_starved).sum();
        assert_eq!(starved, 0, "the bodies were there before the users");
        let indices: Vec<u64> = ran.rows.iter().map(|row| row.index).collect();
        assert_eq!(indices, (0..50).collect::<Vec<_>>(), "every index once");
    }
}

#[test]
fn there_is_no_hidden_cap_on_connections() {
    // So slow that on any machine the last comes before the first is answered.
    let sim = Sim::start(Settings { ttft: Law::Constant(500 * MS), ..settings() });
    let ran = carry_out(&workload(sim.address(), closed(200), requests(400)));
    assert_eq!(sim.stop().0.peak_in_flight, 200);
    assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Ok));
}

#[test]
fn every_one_of_many_connections_meets_its_deadline() {
    // More than a reactor looks at in one go.
    const USERS: u64 = 600;
    let sim = Sim::start(Settings { ttft: Law::Constant(60_000 * MS), ..settings() });
    let mut load = workload(sim.address(), closed(USERS), requests(USERS));
    load.limits.first_token_ns = Some(200 * MS);
    // Raises the limit on open files: both ends of the connections are in this process.
    let both_ends = workload(sim.address(), closed(2 * USERS + 100), requests(1));
    let _notes = tokclock_engine::run::check(&both_ends).unwrap();
    let ran = carry_out(&load);
    let _ = sim.stop();
    assert_eq!(ran.rows.len() as u64, USERS);
    let is_late = |class| class == Some(ErrorClass::TimeoutFirstToken);
    assert!(ran.rows.iter().all(|row| is_late(row.error)), "{:?}", ran.rows);
    assert!(ran.facts.end < 30_000 * MS, "{} ms", ran.facts.end / MS);
}

#[test]
fn waiting_requests_go_on_side_by_side_on_either_driver() {
    // A reactor that waits for sockets in the wrong way serves one after the other, and everything
    // still ends well: only the time tells. Alone, a request takes 20 + 7 × 2 ms.
    let alone = {
        let sim = Sim::start(settings());
        let ran = carry_out(&workload(sim.address(), closed(1), requests(2)));
        (ran.facts.end - ran.facts.window_start) / 2
    };
    let sim = Sim::start(settings());
    let ran = carry_out(&workload(sim.address(), closed(16), requests(32)));
    let rounds = (ran.facts.end - ran.facts.window_start) / alone;
    assert!(rounds < 16, "32 requests of 16 users took {rounds} times one request, not 2");
}

#[test]
fn the_same_seed_sends_the_same_bodies_and_arrivals_on_any_number_of_reactors() {
    let mut seen = Vec::new();
    for reactors in [1, 2] {
        let sim = Sim::start(settings());
        let load = poisson(400.0, None, Overflow::Wait);
        let load = workload(sim.address(), load, requests(120));
        let ran = carry_out(&on_reactors(load, reactors));
        let bodies: BTreeSet<String> = sim.stop().1.into_iter().map(|one| one.body_hash).collect();
        assert_eq!(bodies.len(), 120, "no two prompts are equal");
        let first = ran.rows[0].intended;
        let instants: Vec<u64> = ran.rows.iter().map(|row| row.intended - first).collect();
        seen.push((bodies, instants));
    }
    assert!(seen[0] == seen[1]);
}

#[test]
fn e2e_is_ttft_plus_the_gaps_for_every_request() {
    let sim = Sim::start(settings());
    let ran = carry_out(&workload(sim.address(), closed(5), requests(40)));
    for row in &ran.rows {
        let chunks = row.chunks.as_ref().unwrap();
        assert_eq!(chunks.len(), 8);
        let gaps: u64 = chunks.windows(2).map(|pair| pair[1].0 - pair[0].0).sum();
        let origin = row.dispatched.unwrap();
        let ttft = row.first_token.unwrap() - origin;
        assert_eq!(row.last_token.unwrap() - origin, ttft + gaps);
        assert_eq!(row.output_tokens, Some(8));
    }
}

#[test]
fn arrivals_and_writes_lie_where_the_servers_own_log_says() {
    let sim = Sim::start(settings());
    let ran = carry_out(&workload(sim.address(), closed(4), requests(40)));
    let (_, truth) = sim.stop();
    let start = ran.facts.start_monotonic_ns;
    // Two clocks are compared here: conversion costs less than this.
    let slack = 2_000;
    for row in &ran.rows {
        let one = truth.iter().find(|one| one.request_id.as_deref() == Some(&row.request_id));
        let one = one.unwrap();
        assert!(row.write_start.unwrap() + start <= one.read_ns + slack);
        for (chunk, event) in row.chunks.as_ref().unwrap().iter().zip(&one.events) {
            assert!(chunk.0 + start + slack >= event[0], "nothing arrives before it is sent");
        }
    }
    let tally = &ran.facts.tallies[0];
    assert!(
        tally.unstamped_reads * 10 < tally.reads,
        "{} of {}",
        tally.unstamped_reads,
        tally.reads
    );
}

#[test]
fn max_in_flight_holds_and_the_wait_is_charged_to_the_request() {
    for reactors in [1, 2] {
        let sim = Sim::start(settings());
        let load = poisson(500.0, Some(3), Overflow::Wait);
        let load = workload(sim.address(), load, requests(60));
        let ran = carry_out(&on_reactors(load, reactors));
        assert!(sim.stop().0.peak_in_flight <= 3);
        assert_eq!(ran.rows.len(), 60);
        let capped = ran.rows.iter().filter(|row| row.wait_cause == Some(WaitCause::Cap));
        let waits: Vec<u64> = capped.map(|row| row.write_start.unwrap() - row.intended).collect();
        assert!(waits.len() > 40, "500/s into 3 places of 34 ms: nearly all wait");
        assert!(waits.iter().max() > Some(&(100 * MS)));
    }
}

#[test]
fn dropped_arrivals_are_counted_and_never_sent() {
    let sim = Sim::start(settings());
    let load = poisson(500.0, Some(3), Overflow::Drop);
    let ran = carry_out(&workload(sim.address(), load, requests(60)));
    let (report, _) = sim.stop();
    let tally = &ran.facts.tallies[0];
    assert_eq!(tally.offered, 60);
    assert!(tally.dropped > 10);
    assert_eq!(tally.dropped + ran.rows.len() as u64, 60);
    assert_eq!(report.requests, ran.rows.len() as u64);
    assert!(report.peak_in_flight <= 3);
}

#[test]
fn a_run_by_time_ends_in_time_and_its_rest_is_cancelled_without_failure() {
    let settings = Settings { ttft: Law::Constant(100_000 * MS), ..settings() };
    let sim = Sim::start(settings);
    let stop = Stop {
        requests: None,
        duration_ns: Some(300 * MS),
        sessions: None,
        warmup: Warmup::None,
        drain_ns: 100 * MS,
        until: None,
    };
    let ran = carry_out(&workload(sim.address(), closed(3), stop));
    let _ = sim.stop();
    assert_eq!(ran.rows.len(), 3);
    for row in &ran.rows {
        assert_eq!((row.outcome, row.error), (Outcome::Cancelled, Some(ErrorClass::Deadline)));
    }
    let length = ran.facts.window_end - ran.facts.window_start;
    assert_eq!(length, 300 * MS, "the window is what was asked for");
    assert!(ran.facts.end >= ran.facts.window_end + 100 * MS);
}

#[test]
fn tokens_of_requests_that_were_cut_count_where_they_arrived() {
    let settings = Settings {
        ttft: Law::Constant(10 * MS),
        itl: Law::Constant(10 * MS),
        default_output_tokens: 10_000,
        ..settings()
    };
    let sim = Sim::start(settings);
    let stop = Stop {
        requests: None,
        duration_ns: Some(500 * MS),
        sessions: None,
        warmup: Warmup::None,
        drain_ns: 0,
        until: None,
    };
    let mut load = workload(sim.address(), closed(2), stop);
    set_lengths(&mut load, 16, 10_000);
    let ran = carry_out(&load);
    let (_, truth) = sim.stop();
    let end = ran.facts.start_monotonic_ns + ran.facts.window_end;
    let sent: u64 = truth
        .iter()
        .flat_map(|one| &one.events)
        .filter(|event| event[0] < end)
        .map(|event| event[2])
        .sum();
    let counted = ran.facts.tallies[0].window_output_tokens;
    assert!(counted.abs_diff(sent) <= 2, "{counted} counted, {sent} sent before the end");
    assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Cancelled));
}

#[test]
fn warm_up_is_extra_and_named() {
    for warmup in [Warmup::Requests(10), Warmup::Time(100 * MS)] {
        let sim = Sim::start(settings());
        let stop = Stop { warmup, ..requests(30) };
        let ran = carry_out(&on_reactors(workload(sim.address(), closed(5), stop), 2));
        let _ = sim.stop();
        let measured = ran.rows.iter().filter(|row| row.phase == Phase::Measure).count();
        let warm = ran.rows.iter().filter(|row| row.phase == Phase::Warmup);
        assert_eq!(measured, 30, "{warmup:?}");
        let last_warm = warm.map(|row| row.dispatched.unwrap()).max().unwrap();
        match warmup {
            Warmup::Requests(_) => assert_eq!(ran.rows.len(), 40),
            _ => assert!(last_warm < ran.facts.window_start),
        }
    }
}

#[test]
fn a_window_by_requests_ends_with_the_last_completion() {
    for duration_ns in [None, Some(60_000 * MS)] {
        let sim = Sim::start(settings());
        let stop = Stop { duration_ns, ..requests(12) };
        let ran = carry_out(&workload(sim.address(), closed(3), stop));
        let _ = sim.stop();
        assert!(ran.facts.window_by_requests);
        let last = ran.rows.iter().map(|row| row.done.unwrap()).max();
        assert_eq!(Some(ran.facts.window_end), last);
    }
}

#[test]
fn an_interrupt_lets_what_is_in_flight_end_and_a_second_one_does_not() {
    for second in [false, true] {
        let settings = Settings { ttft: Law::Constant(400 * MS), ..settings() };
        let sim = Sim::start(settings);
        let load = workload(sim.address(), closed(4), requests(1_000));
        let control = Arc::new(Control::new());
        let wish = Arc::clone(&control);
        let user = std::thread::spawn(move || {
            // A busy host takes its time to start.
            std::thread::sleep(Duration::from_millis(1400));
            if second { wish.cut() } else { wish.stop() }
        });
        let ran = carry_out_under(&load, &control);
        user.join().unwrap();
        let _ = sim.stop();
        assert!(ran.facts.interrupted);
        let ok = ran.rows.iter().filter(|row| row.outcome == Outcome::Ok).count();
        let cut = ran.rows.iter().filter(|row| row.error == Some(ErrorClass::Interrupt)).count();
        assert_eq!(ok + cut, ran.rows.len(), "every request has an outcome");
        assert_eq!(cut > 0, second);
        assert!(ok >= 4);
    }
}
