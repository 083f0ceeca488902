//! The request of a person, as values that can be saved: target, arrivals, lengths, objectives,
//! stop rules. Everything here is plain data; `plan` expands it, `reactor` carries it out.

mod dialect;
mod names;
pub mod objective;
mod secret;
pub mod template;

pub use names::UnknownName;
pub use objective::{Goodput, Limit, Metric, Objective, ObjectiveError, Percentile};
pub(crate) use secret::Secrets;
pub use secret::{REDACTED, is_secret};
pub use template::{Template, TemplateError};

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// One load point, whole: what `run` needs and what a result must hold to be reproduced.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Where the requests go.
    pub target: Target,
    /// When they go.
    pub load: Load,
    /// When to stop, and what counts.
    pub stop: Stop,
    /// What they say.
    pub content: Content,
    /// What the service promised.
    pub objectives: Objectives,
    /// How this host sends.
    pub client: Client,
    /// How long anything may take.
    pub limits: Limits,
    /// How large an answer may be.
    pub sizes: Sizes,
    /// Seed of every random choice.
    pub seed: u64,
}

/// The API spoken with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `POST /v1/chat/completions`.
    OpenaiChat,
    /// `POST /v1/completions`.
    OpenaiCompletions,
    /// `POST /v1/responses`.
    OpenaiResponses,
    /// `POST /v1/embeddings`; never a stream.
    OpenaiEmbeddings,
    /// `POST /v1/messages`.
    AnthropicMessages,
    /// SGLang's `POST /generate`.
    SglangGenerate,
    /// Text Generation Inference's `POST /generate_stream`, or `/generate`.
    TgiGenerate,
    /// Triton's `POST /v2/models/M/generate_stream`, or `/generate`.
    TritonGenerate,
    /// llama.cpp's `POST /completion`.
    LlamacppCompletion,
    /// Ollama's `POST /api/chat`.
    OllamaChat,
    /// Ollama's `POST /api/generate`.
    OllamaGenerate,
    /// What a template describes.
    Template,
}

/// What is asked, and of whom.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The servers, at least one: request *i* goes to number *i mod n*.
    pub endpoints: Vec<Endpoint>,
    /// How TLS is spoken with those whose URL says https.
    pub tls: Tls,
    /// The API.
    pub dialect: Dialect,
    /// The template, where the API is one.
    pub template: Option<Template>,
    /// Model name sent in every body; may be empty where the API needs none.
    pub model: String,
    /// Whether answers are streamed.
    pub stream: bool,
    /// Ask for outputs that do not end before their length, where the API can.
    pub force_length: bool,
    /// Ask for the ids of the tokens of each event.
    pub return_token_ids: bool,
    /// Ask for the count of tokens in each event.
    pub continuous_usage: bool,
    /// Extra request headers, in order. Values may be secret: they are never printed or saved here.
    pub headers: Vec<(String, String)>,
    /// Members added to (or replacing those of) every body; none with a template.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
}

/// One server, with its name already resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The base URL as it was given, without user information.
    pub url: String,
    /// Where to connect, at least one: the next is tried where one does not answer.
    pub addresses: Vec<Address>,
    /// Value of the `Host` header.
    pub host: String,
    /// Path below which the API lies, `/v1`; empty at the root of the server.
    pub base_path: String,
    /// Query of every request with its question mark, or nothing.
    pub query: String,
    /// Path of the requests, prefix and query included: `/v1/chat/completions`. It may depend on
    /// the model and on `stream`: `run::settle_paths` sets it once these are known.
    pub path: String,
    /// Through a proxy that reads requests: what stands before the path in their first line.
    pub via: Option<String>,
    /// Through a proxy that passes bytes on: the `host:port` it is asked to connect to.
    pub tunnel: Option<String>,
    /// TLS is spoken.
    pub tls: bool,
    /// The host of the URL, without brackets: what a certificate is for.
    pub server_name: String,
}

impl Endpoint {
    /// Whether it lies on this host.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.addresses.iter().all(|address| match address {
            Address::Ip(ip) => ip.ip().to_canonical().is_loopback(),
            Address::Unix(_) => true,
        })
    }
}

/// How TLS is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the roots to trust, in place of those of the system and of webpki.
    pub roots: Option<PathBuf>,
    /// PEM files of our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Check certificates.
    pub verify: bool,
    /// Name to ask for and to check, in place of the URL's host.
    pub server_name: Option<String>,
    /// Resume sessions.
    pub resume: bool,
}

impl Default for Tls {
    /// Verified, resumed.
    fn default() -> Self {
        Self { roots: None, identity: None, verify: true, server_name: None, resume: true }
    }
}

/// Where a socket connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Ip(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Debug for Target {
    /// Leaves out the values of headers: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Target")
            .field("endpoints", &self.endpoints)
            .field("dialect", &self.dialect)
            .field("model", &self.model)
            .field("stream", &self.stream)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// When requests go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// A fixed crowd of users, each with one request at a time.
    Closed {
        /// Users over all reactors, at least 1.
        users: u64,
        /// The users start one after another, evenly over this time, in ns.
        ramp_ns: u64,
    },
    /// Arrivals that do not wait for answers.
    Open {
        /// Requests per second, finite and above 0.
        rate: f64,
        /// The law of the gaps.
        arrival: Arrival,
        /// At most so many in flight.
        max_in_flight: Option<u64>,
        /// What happens to an arrival above that.
        overflow: Overflow,
    },
}

impl Load {
    /// Over how long the users of a closed loop start, ns; 0 for an open loop.
    #[must_use]
    pub fn ramp_ns(self) -> u64 {
        match self {
            Self::Closed { ramp_ns, .. } => ramp_ns,
            Self::Open { .. } => 0,
        }
    }

    /// Whether users wait for their answers.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Closed { .. })
    }
}

/// The law of the gaps between arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps; `burstiness` is their shape, 1/CV². 1 is Poisson, below 1 burstier.
    Gamma {
        /// Shape of the gamma law, finite and above 0.
        burstiness: f64,
    },
}

/// What happens to an arrival when `max_in_flight` is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// It waits; its latency counts from the instant it was meant to start.
    Wait,
    /// It is dropped and counted.
    Drop,
}

/// When to stop, and what counts. At least one of `requests` and `duration_ns` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// Requests of the measured part.
    pub requests: Option<u64>,
    /// Length of the measured part, in ns.
    pub duration_ns: Option<u64>,
    /// What goes before it, not measured, extra.
    pub warmup: Warmup,
    /// How long what is in flight may go on after the last request was issued, in ns.
    pub drain_ns: u64,
}

/// What goes before the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    /// Nothing.
    None,
    /// So many requests.
    Requests(u64),
    /// So long, in ns.
    Time(u64),
}

/// What requests say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Input tokens of each prompt, at least 1.
    pub input_tokens: u32,
    /// Output tokens asked for, at least 1; 0 where nothing is generated.
    pub output_tokens: u32,
    /// The embedded tokenizer that counts them.
    pub tokenizer: Tokenizer,
    /// Whether that tokenizer was chosen by the user, so that it may also count answers.
    pub tokenizer_chosen: bool,
}

/// A tokenizer that needs no network and no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tokenizer {
    /// `o200k_base`.
    O200kBase,
    /// `cl100k_base`.
    Cl100kBase,
    /// `qwen2`.
    Qwen2,
}

/// What the service promised.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Objectives {
    /// Objectives on the run: `p95(ttft)<500ms`.
    pub slo: Vec<Objective>,
    /// Limits on each request: `ttft:500 tpot:50`.
    pub goodput: Option<Goodput>,
    /// Whether an output capped by its length may count as good.
    pub capped_is_miss: bool,
}

/// How this host sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    /// Positions in the list of CPUs that this process may use, one per reactor.
    pub cpus: Vec<usize>,
    /// Where the time of an arrival comes from.
    pub stamps: Stamps,
    /// Keep every output event in the records.
    pub keep_chunks: bool,
    /// Keep the generated text in the records.
    pub keep_text: bool,
    /// How our side ends a connection.
    pub close: Close,
    /// How long a connection serves.
    pub connections: Connections,
    /// Requests that a connection carries at most.
    pub requests_per_connection: Option<u64>,
    /// Addresses that connections come from, in turn; the kernel chooses if there is none.
    pub source_ips: Vec<IpAddr>,
    /// What becomes of requests that fail.
    pub retries: Retries,
    /// Requests that are cancelled on purpose.
    pub cancel: Option<Cancel>,
}

impl Client {
    /// One reactor on each of these CPUs, and nothing out of the ordinary: kernel stamps, pooled
    /// connections, no retries, nothing kept but the marks.
    #[must_use]
    pub fn on(cpus: Vec<usize>) -> Self {
        Self {
            cpus,
            stamps: Stamps::Kernel,
            keep_chunks: false,
            keep_text: false,
            close: Close::Fin,
            connections: Connections::Pooled,
            requests_per_connection: None,
            source_ips: Vec::new(),
            retries: Retries::default(),
            cancel: None,
        }
    }
}

/// How long a connection serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Whoever has a request takes an idle one.
    Pooled,
    /// Each user of a closed loop keeps its own.
    PerUser,
    /// Each request opens one.
    PerRequest,
}

/// What becomes of requests that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retries {
    /// Attempts beyond the first.
    pub max: u32,
    /// Pause before the first of them, ns; it doubles each time. A longer `Retry-After` wins.
    pub backoff_ns: u64,
}

/// Requests that are cancelled on purpose, to load the server's way of aborting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancel {
    /// Their share, 0 to 1.
    pub rate: f64,
    /// When.
    pub after: CancelAfter,
}

/// When a request is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAfter {
    /// So long after its last byte was sent, ns.
    Time(u64),
    /// At the output event of this number.
    Events(u32),
}

/// Where the time of an arrival comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// The kernel's network stack.
    Kernel,
    /// The moment the reactor handled the bytes.
    Observed,
}

/// How our side ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// In order; leaves a port in TIME_WAIT.
    Fin,
    /// By a reset; leaves nothing.
    Rst,
}

/// How long anything may take, in ns; `None` is without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// The whole request, from its origin.
    pub request_ns: Option<u64>,
    /// Opening a connection.
    pub connect_ns: Option<u64>,
    /// The TLS handshake.
    pub tls_ns: Option<u64>,
    /// From the last request byte to the first of the answer.
    pub first_byte_ns: Option<u64>,
    /// From the last request byte to the first token.
    pub first_token_ns: Option<u64>,
    /// From the last request byte on, between bytes of the answer.
    pub idle_ns: Option<u64>,
}

/// How large the parts of an answer may be, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The head.
    pub head: usize,
    /// One line, and the data of one event.
    pub event: usize,
    /// A document that is no stream.
    pub body: usize,
}

impl Default for Sizes {
    /// 64 KiB, 16 MiB, 64 MiB.
    fn default() -> Self {
        Self { head: 64 << 10, event: 16 << 20, body: 64 << 20 }
    }
}

/// A small load point for tests, which change what matters to them.
#[cfg(test)]
pub(crate) fn sample() -> Workload {
    Workload {
        target: Target {
            endpoints: vec![Endpoint {
                url: "http://127.0.0.1:8000".into(),
                addresses: vec![Address::Ip(SocketAddr::from(([127, 0, 0, 1], 8000)))],
                host: "127.0.0.1:8000".into(),
                base_path: "/v1".into(),
                query: String::new(),
                path: "/v1/chat/completions".into(),
                via: None,
                tunnel: None,
                tls: false,
                server_name: "127.0.0.1".into(),
            }],
            tls: Tls::default(),
            dialect: Dialect::OpenaiChat,
            template: None,
            model: "tiny".into(),
            stream: true,
            force_length: true,
            return_token_ids: false,
            continuous_usage: false,
            headers: Vec::new(),
            extra_body: serde_json::Map::new(),
        },
        load: Load::Closed { users: 1, ramp_ns: 0 },
        stop: Stop { requests: Some(8), duration_ns: None, warmup: Warmup::None, drain_ns: 0 },
        content: Content {
            input_tokens: 8,
            output_tokens: 8,
            tokenizer: Tokenizer::O200kBase,
            tokenizer_chosen: false,
        },
        objectives: Objectives::default(),
        client: Client::on(vec![0]),
        limits: Limits::default(),
        sizes: Sizes::default(),
        seed: 1,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_secret_header_is_not_in_debug_output() {
        let mut workload = super::sample();
        workload.target.headers.push(("Authorization".into(), "Bearer sk-1".into()));
        let text = format!("{workload:?}");
        assert!(text.contains("Authorization") && !text.contains("sk-1"));
    }
}
