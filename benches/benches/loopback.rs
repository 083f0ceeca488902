//! The whole client against the simulator on this host, as ratios within one run: what kernel stamps
//! gain, and how much of a parse-nothing client's throughput is left when everything is parsed.
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use tempfile::TempDir;
use tokclock_engine::clock::monotonic_ns;
use tokclock_engine::record::{Outcome, Row, read_rows};
use tokclock_engine::run::{Control, Progress, Setup, Way, cpus, locate, run};
use tokclock_engine::workload::{
    Client, Content, Dialect, Limits, Load, Objectives, Sizes, Stamps, Stop, Target, Tls,
    Tokenizer, Warmup, Workload,
};
use tokclock_sim::{Law, Record, Server, Settings};

const MS: u64 = 1_000_000;
const USERS: u64 = 64;

fn main() {
    let cpus = cpus();
    println!("{} CPUs; server on the first, client on the last; {USERS} streams\n", cpus.len());
    accuracy(&cpus);
    throughput(&cpus);
}

/// Service TTFT and gaps against the simulator's own log, with both kinds of stamps.
fn accuracy(cpus: &[usize]) {
    println!("error against the server's log, µs   TTFT p50   TTFT p99    gap p50    gap p99");
    let mut medians = Vec::new();
    for stamps in [Stamps::Kernel, Stamps::Observed] {
        let dir = TempDir::new().unwrap();
        let truth = dir.path().join("truth.jsonl");
        let settings = Settings {
            cpus: vec![cpus[0]],
            ttft: Law::Constant(50 * MS),
            itl: Law::Constant(10 * MS),
            truth: Some(truth.clone()),
            ..Settings::default()
        };
        let server = Server::start(&settings).unwrap();
        let mut load = workload(server.address(), cpus.len() - 1, 256, 64);
        load.client.stamps = stamps;
        let rows = carry_out(&load, &dir);
        let _ = server.stop();
        let (ttft, gaps) = errors(&rows, &truth_of(&truth));
        let figures = [p(&ttft, 0.5), p(&ttft, 0.99), p(&gaps, 0.5), p(&gaps, 0.99)];
        println!(
            "{:<34} {:>10.1} {:>10.1} {:>10.2} {:>10.1}",
            format!("{stamps} stamps"),
            figures[0],
            figures[1],
            figures[2],
            figures[3]
        );
        medians.push(figures);
    }
    let ratio = |at: usize| medians[1][at] / medians[0][at].max(0.01);
    println!(
        "{:<34} {:>10.1} {:>10.1} {:>10.1} {:>10.1}\n",
        "observed / kernel",
        ratio(0),
        ratio(1),
        ratio(2),
        ratio(3)
    );
}

/// Tokens per second of a server without delay, against a client that parses nothing.
fn throughput(cpus: &[usize]) {
    for (tokens, requests) in [(512, 8_000), (64, 30_000)] {
        let settings = Settings {
            cpus: vec![cpus[0]],
            ttft: Law::ZERO,
            itl: Law::ZERO,
            events_per_write: 64,
            ..Settings::default()
        };
        let server = Server::start(&settings).unwrap();
        let mut ratios = Vec::new();
        for _ in 0..5 {
            let nothing = parse_nothing(server.address(), tokens, requests, cpus[cpus.len() - 1]);
            let mut load = workload(server.address(), cpus.len() - 1, requests, tokens);
            load.client.keep_chunks = false;
            let rows = carry_out(&load, &TempDir::new().unwrap());
            assert!(rows.iter().all(|row| row.outcome == Outcome::Ok && row.events == tokens));
            let first = rows.iter().map(|row| row.dispatched.unwrap()).min().unwrap();
            let last = rows.iter().map(|row| row.done.unwrap()).max().unwrap();
            ratios.push(nothing as f64 / (last - first) as f64);
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "tokens/s over those of a parse-nothing client, {tokens} tokens, 64 events a write: \
             median {:.2} of 5 pairs ({:.2} to {:.2})",
            ratios[2], ratios[0], ratios[4]
        );
        let _ = server.stop();
    }
}

/// How long a client takes that only receives until an answer's last bytes, ns.
fn parse_nothing(address: SocketAddr, tokens: u32, requests: u64, cpu: usize) -> u64 {
    std::thread::spawn(move || {
        pin(cpu);
        let body = format!(
            r#"{{"model":"sim","messages":[{{"role":"user","content":"hi"}}],"max_tokens":{tokens},"stream":true,"stream_options":{{"include_usage":true}}}}"#
        );
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut streams: Vec<TcpStream> = (0..USERS)
            .map(|_| {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                stream.set_nonblocking(true).unwrap();
                stream
            })
            .collect();
        let mut ready: Vec<libc::pollfd> = streams
            .iter()
            .map(|stream| libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        let mut buffer = vec![0_u8; 64 << 10];
        let (mut sent, mut ended) = (0, 0);
        let start = monotonic_ns();
        for stream in &mut streams {
            stream.write_all(request.as_bytes()).unwrap();
            sent += 1;
        }
        while ended < requests {
            // SAFETY: the descriptors are open, the array is valid for its length.
            unsafe { libc::poll(ready.as_mut_ptr(), ready.len() as libc::nfds_t, 1_000) };
            for (stream, one) in streams.iter_mut().zip(&ready) {
                let got = if one.revents == 0 { 0 } else { stream.read(&mut buffer).unwrap_or(0) };
                if !buffer[..got].ends_with(b"\r\n0\r\n\r\n") {
                    continue;
                }
                ended += 1;
                if sent < requests {
                    stream.write_all(request.as_bytes()).unwrap();
                    sent += 1;
                }
            }
        }
        monotonic_ns() - start
    })
    .join()
    .unwrap()
}

fn pin(cpu: usize) {
    // SAFETY: all-zero is an empty set, the set and its size are valid, 0 is the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

fn workload(address: SocketAddr, cpu: usize, requests: u64, tokens: u32) -> Workload {
    let located =
        locate(&format!("http://{address}"), Dialect::OpenaiChat, &Way::default()).unwrap();
    Workload {
        target: Target {
            endpoints: vec![located.endpoint],
            tls: Tls::default(),
            dialect: Dialect::OpenaiChat,
            template: None,
            model: "sim".to_owned(),
            stream: true,
            force_length: true,
            return_token_ids: false,
            continuous_usage: false,
            headers: Vec::new(),
            extra_body: serde_json::Map::new(),
        },
        load: Load::Closed { users: USERS, ramp_ns: 0 },
        stop: Stop {
            requests: Some(requests),
            duration_ns: None,
            warmup: Warmup::None,
            drain_ns: 10_000 * MS,
        },
        content: Content {
            input_tokens: 32,
            output_tokens: tokens,
            tokenizer: Tokenizer::O200kBase,
            tokenizer_chosen: false,
        },
        objectives: Objectives::default(),
        client: Client { keep_chunks: true, ..Client::on(vec![cpu]) },
        limits: Limits::default(),
        sizes: Sizes::default(),
        seed: 1,
    }
}

/// Runs; gives the rows.
fn carry_out(workload: &Workload, dir: &TempDir) -> Vec<Row> {
    let setup = Setup { out_dir: dir.path().to_owned(), run_id: "bench".to_owned(), resolve_ns: 0 };
    run(workload, &setup, &Arc::new(Control::new()), &Progress::new()).unwrap();
    let rows = read_rows(&dir.path().join("requests.jsonl")).unwrap();
    rows.map(Result::unwrap).collect()
}

fn truth_of(path: &std::path::Path) -> HashMap<String, Record> {
    let text = std::fs::read_to_string(path).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Record>(line).unwrap());
    records.filter_map(|one| one.request_id.clone().map(|id| (id, one))).collect()
}

/// Errors of service TTFT, and of each gap but the last of its stream, µs, sorted.
fn errors(rows: &[Row], truth: &HashMap<String, Record>) -> (Vec<f64>, Vec<f64>) {
    let (mut ttft, mut gaps) = (Vec::new(), Vec::new());
    for row in rows {
        let (one, chunks) = (&truth[&row.request_id], row.chunks.as_ref().unwrap());
        let ours = chunks[0].0 - row.write_start.unwrap();
        let theirs = one.events[0][0] - one.arrived_ns.unwrap_or(one.read_ns);
        ttft.push((ours as f64 - theirs as f64) / 1e3);
        let pairs = chunks.windows(2).zip(one.events.windows(2));
        for (ours, theirs) in pairs.take(chunks.len().saturating_sub(2)) {
            let error = (ours[1].0 - ours[0].0).abs_diff(theirs[1][0] - theirs[0][0]);
            gaps.push(error as f64 / 1e3);
        }
    }
    ttft.sort_by(f64::total_cmp);
    gaps.sort_by(f64::total_cmp);
    (ttft, gaps)
}

/// Nearest rank.
fn p(sorted: &[f64], q: f64) -> f64 {
    sorted[((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}
