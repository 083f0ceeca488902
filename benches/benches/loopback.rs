//! What the engine costs beside a client that parses nothing, as ratios of runs in turn: rate, and
//! CPU time of the client's thread for each output event.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use tokclock_benches::figures::Spread;
use tokclock_benches::load::{carry_out, request, workload};
use tokclock_benches::nothing::{Ask, Idle, take};
use tokclock_benches::simulator::{Simulator, serve_if_asked};
use tokclock_engine::run::cpus;
use tokclock_engine::workload::Load;
use tokclock_sim::Settings;

const USERS: u64 = 64;
const ROUNDS: usize = 5;
/// Busy share from which a core is full.
const FULL: f64 = 0.95;

/// How a server without delay sends its answers.
struct Shape {
    events_per_write: u32,
    tokens: u32,
    requests: u64,
    /// Whether requests are what is counted in the end, and not tokens.
    by_request: bool,
}

const SHAPES: [Shape; 3] = [
    Shape { events_per_write: 1, tokens: 512, requests: 600, by_request: false },
    Shape { events_per_write: 64, tokens: 512, requests: 8_000, by_request: false },
    Shape { events_per_write: 64, tokens: 64, requests: 30_000, by_request: true },
];

/// What one run of one client took.
struct Run {
    /// From the first request to the last answer, ns.
    wall: f64,
    /// CPU time of the client's thread, ns.
    work: f64,
    /// CPU time of the server in that time, ns.
    server: f64,
    /// Reads of response bytes.
    reads: f64,
}

/// One run of each client.
struct Round {
    engine: Run,
    sleeps: Run,
    spins: Run,
}

fn main() {
    if serve_if_asked().unwrap() {
        return;
    }
    let cpus = cpus();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    println!(
        "server on CPU {first}, client on CPU {last}; {USERS} connections; medians of {ROUNDS} rounds \
         of one run each;\nA: a client that parses nothing and sleeps between reads; B: the same, \
         but it spins"
    );
    for shape in &SHAPES {
        let rounds = measure(shape, first, last);
        report(shape, &rounds);
    }
}

/// Rounds of all clients in turn; the order is turned round each time.
fn measure(shape: &Shape, first: usize, last: usize) -> Vec<Round> {
    let settings = Settings {
        cpus: vec![first],
        events_per_write: shape.events_per_write,
        ..Settings::default()
    };
    let server = Simulator::start(&settings).unwrap();
    let load = Load::Closed { users: USERS, ramp_ns: 0 };
    let workload = workload(server.address(), load, shape.requests, shape.tokens).unwrap();
    let request = request(&workload).unwrap();
    let engine = || {
        let before = server.cpu_ns();
        let carried = carry_out(&workload).unwrap();
        let server = (server.cpu_ns() - before) as f64;
        let (wall, work) = (carried.wall_ns() as f64, carried.work_ns() as f64);
        let reads = carried.facts.tallies.iter().map(|tally| tally.reads).sum::<u64>() as f64;
        Run { wall, work, server, reads }
    };
    let nothing = |idle| {
        let before = server.cpu_ns();
        let ask = Ask {
            address: server.address(),
            request: &request,
            connections: USERS as usize,
            requests: shape.requests,
            cpu: last,
            idle,
        };
        let taken = take(ask).unwrap();
        assert_eq!(taken.answers, shape.requests);
        let server = (server.cpu_ns() - before) as f64;
        let (wall, work, reads) = (taken.wall_ns as f64, taken.cpu_ns as f64, taken.reads as f64);
        Run { wall, work, server, reads }
    };
    // The first run finds all caches cold.
    nothing(Idle::Sleep);
    let round = |number: usize| {
        if number.is_multiple_of(2) {
            let (sleeps, spins) = (nothing(Idle::Sleep), nothing(Idle::Spin));
            Round { engine: engine(), sleeps, spins }
        } else {
            let engine = engine();
            let (spins, sleeps) = (nothing(Idle::Spin), nothing(Idle::Sleep));
            Round { engine, sleeps, spins }
        }
    };
    let rounds = (0..ROUNDS).map(round).collect();
    let report = server.stop().unwrap();
    // Each run of the client that parses nothing learns one more answer than it counts.
    let learnt = 2 * ROUNDS as u64 + 1;
    let runs = learnt + ROUNDS as u64;
    assert_eq!(report.completed, shape.requests * runs + learnt);
    assert_eq!(report.tokens, report.completed * u64::from(shape.tokens));
    rounds
}

fn report(shape: &Shape, rounds: &[Round]) {
    let Shape { tokens, requests, by_request, .. } = *shape;
    let events = (requests * u64::from(tokens)) as f64;
    let (unit, count) = if by_request { ("requests", requests as f64) } else { ("tokens", events) };
    println!("\n{:<42} {:>9} {:>9} {:>9}   ratio", shape.name(), "engine", "A", "B");
    let row = |name: &str, figure: &dyn Fn(&Run) -> f64, ratio: &dyn Fn(&Round) -> f64| {
        let of = |run: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(run)).median;
        let (engine, spins) =
            (of(&|round| figure(&round.engine)), of(&|round| figure(&round.spins)));
        let sleeps = of(&|round| figure(&round.sleeps));
        let ratio = Spread::of(rounds.iter().map(ratio));
        println!("  {name:<40} {engine:>9.1} {sleeps:>9.1} {spins:>9.1}   {ratio}");
    };
    let to_a = |figure: fn(&Run) -> f64| {
        move |round: &Round| figure(&round.engine) / figure(&round.sleeps)
    };
    let rate = |run: &Run| 1e6 * count / run.wall;
    let to_faster =
        |round: &Round| rate(&round.engine) / rate(&round.sleeps).max(rate(&round.spins));
    row(&format!("thousand {unit}/s (over the faster)"), &rate, &to_faster);
    let work = to_a(|run| run.work);
    row("client's CPU, ns per event (over A)", &|run| run.work / events, &work);
    if by_request {
        row("client's CPU, µs per request (over A)", &|run| run.work / count / 1e3, &work);
    }
    row("events a read (over A)", &|run| events / run.reads, &to_a(|run| 1.0 / run.reads));
    row("server's CPU, ns per event (over A)", &|run| run.server / events, &to_a(|run| run.server));
    row(
        "client busy, % (over A)",
        &|run| 100.0 * run.work / run.wall,
        &to_a(|run| run.work / run.wall),
    );
    let busy = |run: &Run| 100.0 * run.server / run.wall;
    row("server busy, % (over A)", &busy, &to_a(|run| run.server / run.wall));
    let engine = Spread::of(rounds.iter().map(|round| busy(&round.engine))).median;
    let limit = if engine >= 100.0 * FULL { "is" } else { "is not" };
    println!("  with the engine the server's core {limit} the limit");
}

impl Shape {
    fn name(&self) -> String {
        let events = self.events_per_write;
        let written = if events == 1 { "event" } else { "events" };
        format!("{} tokens an answer, {events} {written} a write", self.tokens)
    }
}
