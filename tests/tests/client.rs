//! What the client says of itself: its cost, and what the kernel knows of its connections.

use tokclock_engine::measure::{ClientReport, summarize};
use tokclock_engine::record::Outcome;
use tokclock_engine::workload::{Connections, Workload};
use tokclock_sim::{Law, Settings};
use tokclock_tests::{MS, Sim, carry_out, closed, poisson, requests, settings, workload};

/// Runs, and judges the client.
fn report(load: &Workload) -> ClientReport {
    let ran = carry_out(load);
    assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Ok), "{:?}", ran.rows);
    summarize(load, &ran.facts, ran.rows).client
}

#[test]
fn a_spinning_reactor_takes_its_core_and_is_not_called_busy_for_it() {
    let sim = Sim::start(Settings { ttft: Law::Constant(300 * MS), ..settings() });
    let mut load = workload(sim.address(), closed(1), requests(2));
    let plain = report(&load);
    load.client.spin = true;
    let spinning = report(&load);
    let _ = sim.stop();
    let cost = |report: &ClientReport| {
        let one = &report.reactors[0];
        (one.cpu_ns, one.spin_ns, one.cpu_ns - one.spin_ns.min(one.cpu_ns))
    };
    let ((plain_cpu, _, _), (cpu, spun, worked)) = (cost(&plain), cost(&spinning));
    assert!((plain.spin, spinning.spin) == (false, true));
    assert!(cpu > 2 * plain_cpu, "{cpu} ns of CPU time while spinning, {plain_cpu} without");
    assert!(spun > worked, "{spun} ns of {cpu} ns of CPU time are said to be spinning");
}

#[test]
fn a_spinning_reactor_keeps_the_schedule_of_an_open_loop() {
    let sim = Sim::start(settings());
    let load = poisson(200.0, None, tokclock_engine::workload::Overflow::Wait);
    let mut load = workload(sim.address(), load, requests(60));
    load.client.spin = true;
    let ran = carry_out(&load);
    let (_, truth) = sim.stop();
    assert_eq!((ran.rows.len(), truth.len()), (60, 60));
    for row in &ran.rows {
        assert!(row.write_start.unwrap() >= row.intended, "nothing goes out early: {row:?}");
    }
}

#[test]
fn every_connection_tells_its_round_trip_time_once() {
    let sim = Sim::start(settings());
    let mut load = workload(sim.address(), closed(4), requests(12));
    let pooled = report(&load);
    load.client.connections = Connections::PerRequest;
    let each = report(&load);
    let _ = sim.stop();
    assert_eq!((pooled.network.min_rtt.count, pooled.connections), (4, 4));
    assert_eq!((each.network.min_rtt.count, each.connections), (12, 12));
    for network in [&pooled.network, &each.network] {
        let share = network.min_rtt_of_ttft.unwrap();
        assert!(share > 0.0 && share < 1.0, "an answer takes a round trip and more: {share}");
        assert!(network.min_rtt_of_ttfb.unwrap() >= share);
        assert_eq!(network.windows_closed, 0);
    }
    assert!(pooled.network.window_looks > 0, "this kernel tells the window");
}
