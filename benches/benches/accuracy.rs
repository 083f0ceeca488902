//! How far the engine's times are from those that the simulator logged, with both kinds of stamps,
//! from few streams to many.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::collections::HashMap;
use std::path::Path;

use tempfile::TempDir;
use tokclock_benches::load::{carry_out, workload};
use tokclock_benches::simulator::{Simulator, serve_if_asked};
use tokclock_engine::measure::{Accuracy, AccuracyReport, Distribution, Seen};
use tokclock_engine::record::Row;
use tokclock_engine::run::cpus;
use tokclock_engine::workload::{Load, Stamps};
use tokclock_sim::{Law, Record, Report, Settings};

const MS: u64 = 1_000_000;

/// A closed loop of so many streams.
struct Shape {
    streams: u64,
    itl_ns: u64,
    requests: u64,
    tokens: u32,
    ramp_ns: u64,
}

const SHAPES: [Shape; 3] = [
    Shape { streams: 64, itl_ns: 10 * MS, requests: 256, tokens: 64, ramp_ns: 10 * MS },
    Shape { streams: 1_000, itl_ns: 10 * MS, requests: 4_000, tokens: 64, ramp_ns: 600 * MS },
    Shape { streams: 8_000, itl_ns: 160 * MS, requests: 8_000, tokens: 32, ramp_ns: 1_600 * MS },
];

/// What one run came to.
struct Errors {
    accuracy: AccuracyReport,
    /// Share of the reads without a kernel stamp.
    unstamped: f64,
    busy: f64,
    server_busy: f64,
    server: Report,
}

fn main() {
    if serve_if_asked().unwrap() {
        return;
    }
    println!(
        "error of service TTFT and of each gap but a stream's last, against the server's log, µs\n\
         {:<34} {:>9} {:>9} {:>9} {:>9}   {:>6} {:>6}   {:>8} {:>8}",
        "",
        "TTFT p50",
        "TTFT p99",
        "gap p50",
        "gap p99",
        "client",
        "server",
        "late p50",
        "late p99"
    );
    let cpus = cpus();
    for shape in &SHAPES {
        let ms = shape.itl_ns / MS;
        println!("{} streams, ITL {ms} ms", shape.streams);
        let kernel = measure(shape, Stamps::Kernel, cpus[0]);
        let observed = measure(shape, Stamps::Observed, cpus[0]);
        line("kernel stamps", &kernel);
        line("observed stamps", &observed);
        let ratios: String = percentiles(&observed)
            .into_iter()
            .zip(percentiles(&kernel))
            .map(|(observed, kernel)| format!(" {:>9.1}", observed / kernel.max(0.001)))
            .collect();
        println!("  {:<32}{ratios}", "observed / kernel");
        if kernel.unstamped > 0.001 {
            println!("  {:.1} % of the reads had no kernel stamp", kernel.unstamped * 100.0);
        }
    }
    println!(
        "client, server: busy share of their core in % (the server's with its spinning towards \
         due times);\nlate: how late the server's sends began against its own schedule, µs"
    );
}

/// p50 and p99 of the errors of TTFT and of the gaps, µs.
fn percentiles(errors: &Errors) -> [f64; 4] {
    let us = |ns: Option<u64>| ns.unwrap() as f64 / 1e3;
    let of = |errors: &Distribution| [us(errors.percentiles.p50), us(errors.percentiles.p99)];
    let ([a, b], [c, d]) = (of(&errors.accuracy.ttft_error), of(&errors.accuracy.gap_error));
    [a, b, c, d]
}

fn line(name: &str, errors: &Errors) {
    let late = errors.server.lateness;
    let [ttft_p50, ttft_p99, gap_p50, gap_p99] = percentiles(errors);
    println!(
        "  {name:<32} {:>9.1} {:>9.1} {:>9.2} {:>9.1}   {:>6.0} {:>6.0}   {:>8.1} {:>8.1}",
        ttft_p50,
        ttft_p99,
        gap_p50,
        gap_p99,
        errors.busy * 100.0,
        errors.server_busy * 100.0,
        late.p50_ns as f64 / 1e3,
        late.p99_ns as f64 / 1e3,
    );
}

fn measure(shape: &Shape, stamps: Stamps, cpu: usize) -> Errors {
    let dir = TempDir::new().unwrap();
    let truth = dir.path().join("truth.jsonl");
    let settings = Settings {
        cpus: vec![cpu],
        ttft: Law::Constant(50 * MS),
        itl: Law::Constant(shape.itl_ns),
        truth: Some(truth.clone()),
        ..Settings::default()
    };
    let server = Simulator::start(&settings).unwrap();
    let load = Load::Closed { users: shape.streams, ramp_ns: shape.ramp_ns };
    let mut workload = workload(server.address(), load, shape.requests, shape.tokens).unwrap();
    workload.client.stamps = stamps;
    workload.client.keep_chunks = true;
    let before = server.cpu_ns();
    let carried = carry_out(&workload).unwrap();
    let wall = carried.wall_ns() as f64;
    let server_busy = (server.cpu_ns() - before) as f64 / wall;
    let server = server.stop().unwrap();
    assert_eq!((server.completed, server.truth_dropped), (shape.requests, 0));
    let accuracy = compare(&carried.rows, &truth_of(&truth));
    assert_eq!((accuracy.requests, accuracy.unmatched), (shape.requests, 0));
    let sum = |field: fn(&tokclock_engine::record::Tally) -> u64| {
        carried.facts.tallies.iter().map(field).sum::<u64>() as f64
    };
    Errors {
        accuracy,
        unstamped: sum(|tally| tally.unstamped_reads) / sum(|tally| tally.reads),
        busy: carried.work_ns() as f64 / wall,
        server_busy,
        server,
    }
}

fn truth_of(path: &Path) -> HashMap<String, Record> {
    let text = std::fs::read_to_string(path).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Record>(line).unwrap());
    records.filter_map(|one| one.request_id.clone().map(|id| (id, one))).collect()
}

/// Our marks beside those of the log. Only differences of one side's own are compared but for the time
/// of sending, which is not shown, so the two may count from different starts.
fn compare(rows: &[Row], truth: &HashMap<String, Record>) -> AccuracyReport {
    let mut accuracy = Accuracy::new();
    for row in rows {
        let one = &truth[&row.request_id];
        let arrivals = row.chunks.as_ref().unwrap().iter().map(|(at, _)| *at);
        let ours = Seen { request: row.write_start, events: arrivals.collect() };
        let sent = one.events.iter().map(|event| event[0]);
        let theirs = Seen { request: one.arrived_ns, events: sent.collect() };
        accuracy.add(&ours, &theirs);
    }
    accuracy.report()
}
