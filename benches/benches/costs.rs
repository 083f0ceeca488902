//! What single operations of the engine cost, beside one receive call of a small chunk.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use tokclock_benches::answers::{Wire, mix};
use tokclock_benches::feeding::{Feeding, GOAL_PER_S};
use tokclock_benches::figures::best_ns;
use tokclock_benches::load::{Carried, carry_out, workload};
use tokclock_benches::simulator::{Simulator, serve_if_asked};
use tokclock_engine::clock::RunClock;
use tokclock_engine::measure::summarize;
use tokclock_engine::plan::{Materials, Plan};
use tokclock_engine::record::{
    Chunk, Outcome, Pooled, ReadNote, Recorder, RecorderSetup, Settled, Window, WriterRings,
    histogram, rings,
};
use tokclock_engine::run::cpus;
use tokclock_engine::workload::{Arrival, LengthLaw, Load, Overflow, Schedule, Stop, Workload};
use tokclock_parser::dialect::Dialect;
use tokclock_sim::Settings;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn main() {
    if serve_if_asked().unwrap() {
        return;
    }
    let cpus = cpus();
    let server = Settings { cpus: vec![cpus[0]], ..Settings::default() };
    let server = Simulator::start(&server).unwrap();
    let closed = Load::Closed { users: 64, ramp_ns: 0 };
    let workload = workload(server.address(), closed, 20_000, 1).unwrap();
    // What runs beside the load is measured where the load will be.
    let unit = std::thread::spawn(move || {
        tokclock_benches::pin(cpus[cpus.len() - 1]).unwrap();
        let unit = receive_ns();
        println!(
            "fastest of many passes, but means where a reactor runs; a receive is one recvmsg of 300 \
             bytes with a kernel stamp\n"
        );
        println!("{:<58} {:>10}   in receives", "", "ns");
        let table = Table { unit };
        table.line("one receive", unit);
        clock(&table);
        parser(&table);
        recorder(&table);
        seconds(&table);
        unit
    });
    let table = Table { unit: unit.join().unwrap() };
    bodies(&table, &workload);
    feeding(&workload);
    paced(&table, &workload);
    drop(server);
}

struct Table {
    /// One receive, ns.
    unit: f64,
}

impl Table {
    fn line(&self, name: &str, ns: f64) {
        println!("{name:<58} {ns:>10.1}   {:>8.3}", ns / self.unit);
    }
}

/// One receive call of a chunk of 300 bytes that is there, with its kernel stamp.
fn receive_ns() -> f64 {
    const SOCKETS: u64 = 64;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let pairs: Vec<(TcpStream, TcpStream)> = (0..SOCKETS)
        .map(|_| {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            far.set_nodelay(true).unwrap();
            stamp(&near);
            (near, far)
        })
        .collect();
    let mut best = f64::MAX;
    for _ in 0..2_000 {
        for (_, far) in &pairs {
            (&*far).write_all(&[b'x'; 300]).unwrap();
        }
        let all = || pairs.iter().for_each(|(near, _)| assert_eq!(receive(near), 300));
        best = best.min(best_ns(SOCKETS, 1, all));
    }
    best
}

fn stamp(stream: &TcpStream) {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: the option takes a u32, whose address and size are given.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    assert_eq!(done, 0);
}

fn receive(stream: &TcpStream) -> isize {
    let (mut buffer, mut control) = ([0_u8; 4096], [0_u64; 16]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message points to buffers that outlive the call, with their sizes.
    unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) }
}

fn clock(table: &Table) {
    let clock = RunClock::start();
    let read = || {
        for _ in 0..1_000 {
            black_box(clock.now());
        }
    };
    table.line("clock: one look", best_ns(1_000, 1_000, read));
}

/// The whole parser, over answers of 200 tokens that stay in the core's cache.
fn parser(table: &Table) {
    let wires: Vec<Wire> = (0..4).map(|seed| Wire::new(&Dialect::OpenaiChat, seed, 200)).collect();
    let events: u64 = wires.iter().map(|wire| wire.expected.events).sum();
    let mut answer = wires[0].reader();
    let mut pass = |read_bytes| {
        for wire in &wires {
            assert_eq!(wire.read(&mut answer, read_bytes), wire.expected);
        }
    };
    table.line("parser: an event, in a read of its own", best_ns(events, 400, || pass(0)));
    table.line("parser: an event among others in a read", best_ns(events, 400, || pass(65_536)));
}

fn new_recorder() -> (Recorder, WriterRings) {
    let (reactor, writer) = rings(2_048);
    let setup = RecorderSetup {
        reactor: 0,
        cpu: 0,
        start_realtime_ns: 0,
        window: Arc::new(Window::new(&Stop::after(1), 0, false)),
        keep_chunks: false,
        seed: 1,
        ramp_end: 0,
        classes: 1,
    };
    (Recorder::new(setup, reactor), writer)
}

fn recorder(table: &Table) {
    let values: Vec<u64> = (0..1_000).map(|at| 5_000 + mix(at) % 50_000).collect();
    let mut lag = histogram();
    let all = || values.iter().for_each(|value| lag.saturating_record(*value));
    table.line("histogram: one value", best_ns(1_000, 1_000, all));

    let (mut recorder, mut writer) = new_recorder();
    let note = |lag| ReadNote { observed: 1, lag: Some(lag), outputs: 1, coalesced: 0, slow: None };
    let all = || values.iter().for_each(|lag| recorder.read(note(*lag)));
    table.line("recorder: a read with one event", best_ns(1_000, 1_000, all));

    let chunks: Vec<Chunk> =
        (1..=64).map(|at| Chunk { arrival: at * 10 * MS, tokens: 1, text_bytes: 6 }).collect();
    let mut settled = Settled::new(0, 0);
    let mut best = f64::MAX;
    for _ in 0..200 {
        let some = || {
            for index in 0..100 {
                settled.index = index;
                settled.outcome = Outcome::Ok;
                settled.marks.dispatched = 0;
                settled.marks.first_token = chunks[0].arrival;
                settled.marks.last_token = chunks[63].arrival;
                settled.marks.done = chunks[63].arrival;
                settled.output_tokens = Some(64);
                settled.chunks.clear();
                settled.chunks.extend_from_slice(&chunks);
                recorder.settle(&mut settled, 700 * MS, false);
            }
        };
        best = best.min(best_ns(100, 1, some));
        while writer.settled.pop().is_ok() {}
    }
    table.line("recorder: the end of a request of 64 events, handed over", best);
}

/// What becomes of a second's histograms.
fn seconds(table: &Table) {
    let (recorder, mut writer) = new_recorder();
    let recorder = RefCell::new(recorder);
    let second = Cell::new(0_u64);
    let mut pooled = Pooled::default();
    let (mut rotating, mut adding, mut clearing) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..200 {
        for at in 0..1_000 {
            let note = ReadNote {
                observed: 1,
                lag: Some(5_000 + mix(at) % 50_000),
                outputs: 1,
                coalesced: 0,
                slow: None,
            };
            recorder.borrow_mut().read(note);
        }
        second.set(second.get() + 1);
        let rotate = || recorder.borrow_mut().rotate(second.get() * S);
        rotating = rotating.min(best_ns(1, 1, rotate));
        let mut full = writer.seconds.pop().unwrap();
        adding = adding.min(best_ns(1, 1, || pooled.add(&full.pooled)));
        clearing = clearing.min(best_ns(1, 1, || full.pooled.clear()));
        writer.blanks.push(full.pooled).unwrap();
    }
    assert_eq!(pooled.whole().lag.len(), 200 * 1_000);
    table.line("a second's turn, on the reactor", rotating);
    table.line("a second's turn, on the writer: adding it up", adding);
    table.line("a second's turn, on the writer: clearing it", clearing);
}

/// Requests before they are sent, and the figures after all.
fn bodies(table: &Table, workload: &Workload) {
    for tokens in [32, 512] {
        let mut workload = workload.clone();
        workload.mix[0].content.lengths = LengthLaw::constant(tokens, 1);
        let plan = Plan::new(&workload, &Materials::default(), "bench").unwrap();
        let mut bytes = Vec::new();
        let render = || {
            for index in 0..100 {
                bytes.clear();
                black_box(plan.render(index, &mut bytes).unwrap());
            }
        };
        let name = format!("feeder: rendering a request of {tokens} input tokens");
        table.line(&name, best_ns(100, 200, render));
    }
}

/// How many requests of 512 input tokens one thread writes, against what it is to write at least.
fn feeding(workload: &Workload) {
    const REQUESTS: u64 = 500;
    for mut feeding in Feeding::all(workload).unwrap() {
        let ns = best_ns(REQUESTS, 40, || {
            black_box(feeding.write(REQUESTS).unwrap());
        });
        let per_s = 1e9 / ns;
        let name = format!("feeder: 512 tokens from {}", feeding.name);
        println!("{name:<58} {per_s:>8.0}/s   {:>8.3} of 10,000/s", per_s / GOAL_PER_S);
    }
}

/// Closed against open loops, one token an answer.
fn paced(table: &Table, workload: &Workload) {
    let requests = workload.stop.requests.unwrap();
    let closed = carry_out(workload).unwrap();
    let cost = line(table, "reactor: a request of a closed loop, at full speed", &closed);
    for (rate, requests) in [(10_000, 20_000), (1_000, 3_000)] {
        let (arrival, overflow) = (Arrival::Poisson, Overflow::Wait);
        let rate_per_s = f64::from(rate);
        let schedule = Schedule::Rate { rate: rate_per_s, arrival };
        let load = Load::Open { schedule, max_in_flight: None, overflow };
        let workload = Workload { load, stop: stop_with(workload, requests), ..workload.clone() };
        let open = carry_out(&workload).unwrap();
        let name = format!("reactor: a request of an open loop, {rate}/s");
        let open_cost = line(table, &name, &open);
        println!("{:<58} {:>10.2}", "  over that of the closed loop", open_cost / cost);
        let spin = open.spin_ns() as f64 / requests as f64;
        table.line("  and spent spinning towards the due time", spin);
    }
    let beside = closed.process_cpu_ns.saturating_sub(closed.work_ns() + closed.spin_ns());
    let name = "beside the reactor: feeder, writer and the rest, a request";
    table.line(name, beside as f64 / requests as f64);
    figures(table, workload, &closed);
}

fn stop_with(workload: &Workload, requests: u64) -> Stop {
    Stop { requests: Some(requests), ..workload.stop }
}

fn line(table: &Table, name: &str, carried: &Carried) -> f64 {
    let cost = carried.work_ns() as f64 / carried.rows.len() as f64;
    table.line(name, cost);
    cost
}

/// All figures of a run.
fn figures(table: &Table, workload: &Workload, carried: &Carried) {
    let count = carried.rows.len() as u64;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let mut rows = Some(carried.rows.clone());
        let all = || {
            let rows = rows.take().unwrap_or_default();
            let summary = summarize(workload, &carried.facts, rows);
            assert_eq!(summary.requests.ok, count);
        };
        best = best.min(best_ns(count, 1, all));
    }
    table.line(&format!("figures: a request, of {count} in a run"), best);
}
