//! What the end-to-end tests share: a simulated server, a load point against it, its truth log.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

pub mod cases;
pub mod command;
pub mod replay;
pub mod tls;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use tokclock_engine::measure::Facts;
use tokclock_engine::plan::{Materials, tokens};
use tokclock_engine::record::{Row, read_rows};
use tokclock_engine::run::{Control, Progress, Setup, Way, locate, run, settle_paths};
use tokclock_engine::workload::{
    Arrival, Client, Content, Dialect, LengthLaw, Load, Overflow, Schedule, Stop, Target, Template,
    Workload,
};
use tokclock_sim::serving::ServingSettings;
use tokclock_sim::{Law, Report, Server, Settings};

/// One millisecond in ns.
pub const MS: u64 = 1_000_000;

/// A small quick server: TTFT 20 ms, ITL 2 ms.
#[must_use]
pub fn settings() -> Settings {
    Settings { ttft: Law::Constant(20 * MS), itl: Law::Constant(2 * MS), ..Settings::default() }
}

/// A server that batches: so many requests at once, in steps of `step_ms` and a little for each.
#[must_use]
pub fn batching(step_ms: u64, max_batch: u32) -> Settings {
    let serving = ServingSettings {
        step_base_ns: step_ms * MS,
        step_per_request_ns: 20_000,
        prefill_rate: 200_000,
        max_batch,
        ..ServingSettings::default()
    };
    Settings { serving: Some(serving), ..Settings::default() }
}

/// A closed loop without ramp.
#[must_use]
pub fn closed(users: u64) -> Load {
    Load::Closed { users, ramp_ns: 0 }
}

/// A Poisson open loop.
#[must_use]
pub fn poisson(rate: f64, max_in_flight: Option<u64>, overflow: Overflow) -> Load {
    at_rate(rate, Arrival::Poisson, max_in_flight, overflow)
}

/// An open loop at one rate.
#[must_use]
pub fn at_rate(
    rate: f64,
    arrival: Arrival,
    max_in_flight: Option<u64>,
    overflow: Overflow,
) -> Load {
    Load::Open { schedule: Schedule::Rate { rate, arrival }, max_in_flight, overflow }
}

/// Stop after so many requests.
#[must_use]
pub fn requests(requests: u64) -> Stop {
    Stop { drain_ns: 10_000 * MS, ..Stop::after(requests) }
}

/// A load point against `address` with 8 output tokens and all output events kept.
#[must_use]
pub fn workload(address: SocketAddr, load: Load, stop: Stop) -> Workload {
    let located =
        locate(&format!("http://{address}"), Dialect::OpenaiChat, &Way::default()).unwrap();
    let client = Client { keep_chunks: true, ..Client::on(vec![0]) };
    let target = Target::chat(located.endpoint, "sim");
    Workload { seed: 7, ..Workload::plain(target, load, stop, Content::of_lengths(16, 8), client) }
}

/// Makes all its requests so long, in tokens.
pub fn set_lengths(workload: &mut Workload, input: u32, output: u32) {
    workload.mix[0].content.lengths = LengthLaw::constant(input, output);
}

/// Makes it speak `dialect` with the same server; `template` says how, where that is one.
pub fn speak(workload: &mut Workload, dialect: Dialect, template: Option<Template>) {
    let target = &mut workload.target;
    (target.dialect, target.template) = (dialect, template);
    let located = locate(&target.endpoints[0].url, dialect, &Way::default()).unwrap();
    target.endpoints = vec![located.endpoint];
    settle_paths(target);
}

/// As many reactors as asked for; they share CPUs where there are fewer.
#[must_use]
pub fn on_reactors(mut workload: Workload, reactors: usize) -> Workload {
    let cpus = tokclock_engine::run::cpus().len().max(1);
    workload.client.cpus = (0..reactors).map(|reactor| reactor % cpus).collect();
    workload
}

/// What a finished run left.
pub struct Ran {
    /// Facts of the run.
    pub facts: Facts,
    /// Its rows, in order of their index.
    pub rows: Vec<Row>,
    /// Where they lie.
    pub dir: TempDir,
}

impl Ran {
    /// Whether the kernel has stamped every read, and no piece of an answer of so many shared one
    /// with the next: a busy machine does that to a client, and then a mark is rightly that of the
    /// later piece.
    #[must_use]
    pub fn tells_apart(&self, row: &Row, pieces: usize) -> bool {
        let unstamped: u64 = self.facts.tallies.iter().map(|tally| tally.unstamped_reads).sum();
        // A piece larger than a read takes several.
        let is_small = row.bytes < 64 << 10;
        unstamped == 0 && is_small && row.reads as usize >= pieces
    }
}

/// Carries out `workload`, watched by nobody.
#[must_use]
pub fn carry_out(workload: &Workload) -> Ran {
    carry_out_under(workload, &Arc::new(Control::new()))
}

/// Carries out `workload` under `control`.
#[must_use]
pub fn carry_out_under(workload: &Workload, control: &Arc<Control>) -> Ran {
    carry_out_with(workload, materials(workload), control)
}

/// What `workload` needs besides, where its tokenizer is all that it names.
#[must_use]
pub fn materials(workload: &Workload) -> Materials {
    let chosen = workload.text.tokenizer_chosen;
    let tokens = chosen.then(|| tokens::load(&workload.text.tokenizer, None).unwrap());
    Materials { tokens, ..Materials::default() }
}

/// Carries out `workload` under `control`, with what it needs besides.
#[must_use]
pub fn carry_out_with(workload: &Workload, materials: Materials, control: &Arc<Control>) -> Ran {
    let dir = TempDir::new().unwrap();
    let out_dir = dir.path().to_owned();
    let (run_id, scrape) = ("test".to_owned(), Default::default());
    let (gpus, start_at_ns, shard) = (None, None, None);
    let setup =
        Setup { out_dir, run_id, resolve_ns: 0, materials, gpus, scrape, start_at_ns, shard };
    let facts = run(workload, &setup, control, &Progress::new()).unwrap();
    let mut rows = rows(dir.path());
    rows.sort_by_key(|row| row.index);
    Ran { facts, rows, dir }
}

/// The rows of a result directory.
#[must_use]
pub fn rows(dir: &Path) -> Vec<Row> {
    read_rows(&dir.join("requests.jsonl")).unwrap().map(Result::unwrap).collect()
}

/// A simulated server with its truth log.
pub struct Sim {
    server: Server,
    dir: TempDir,
}

/// One request as the simulated server saw it; times are CLOCK_MONOTONIC ns.
pub type Truth = tokclock_sim::Record;

impl Sim {
    /// Starts a server.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        let dir = TempDir::new().unwrap();
        let truth = Some(dir.path().join("truth.jsonl"));
        let server = Server::start(&Settings { truth, ..settings }).unwrap();
        Self { server, dir }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Ends it: its report and its log.
    #[must_use]
    pub fn stop(self) -> (Report, Vec<Truth>) {
        let report = self.server.stop();
        let text = std::fs::read_to_string(self.dir.path().join("truth.jsonl")).unwrap();
        let truth = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (report, truth)
    }
}

/// A server of the test's own: every connection is given to `serve`, one after the other, until
/// `connections` were served.
///
/// Its thread ends by itself.
#[must_use]
pub fn odd_server(
    connections: usize,
    serve: impl Fn(TcpStream) + Send + Sync + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    let thread = std::thread::spawn(move || {
        let mut serving = Vec::new();
        for _ in 0..connections {
            let Ok((stream, _)) = listener.accept() else { break };
            let serve = Arc::clone(&serve);
            serving.push(std::thread::spawn(move || serve(stream)));
        }
        drop(listener);
        for one in serving {
            let _ = one.join();
        }
    });
    (address, thread)
}

/// Reads one request, head and body; `None` when the client has closed.
#[must_use]
pub fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0_u8; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .map_or(0, |length| length.trim().parse().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(got) => bytes.extend_from_slice(&piece[..got]),
        }
    }
}

/// The head of a streamed answer.
pub const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                               Transfer-Encoding: chunked\r\n\r\n";

/// One event as a chunk.
#[must_use]
pub fn event(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// One token as a chunk.
#[must_use]
pub fn token(text: &str) -> String {
    event(&format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#))
}

/// A streamed answer of three tokens with finish reason and `[DONE]`, all but its last chunk.
#[must_use]
pub fn open_answer() -> String {
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let tokens = ["Alpha", " beta", " gamma"].map(token).concat();
    STREAM_HEAD.to_owned() + &tokens + &event(finish) + &event("[DONE]")
}

/// The same, whole.
#[must_use]
pub fn short_answer() -> String {
    open_answer() + "0\r\n\r\n"
}
