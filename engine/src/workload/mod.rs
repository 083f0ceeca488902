//! The request of a person, as values that can be saved: target, arrivals, lengths, objectives,
//! stop rules. Everything here is plain data; `plan` expands it, `reactor` carries it out.

mod client;
mod content;
mod data;
mod dialect;
mod disagg;
pub mod law;
mod names;
pub mod objective;
mod secret;
pub mod series;
mod shard;
mod target;
pub mod template;
mod threshold;
pub(crate) mod tokenizer;
mod until;

pub use client::{Cancel, CancelAfter, Client, Close, Connections, Limits, Retries, Sizes, Stamps};
pub use content::{
    CacheBust, Class, Content, Conversation, Groups, History, Popularity, Shared, Text, Turns,
    UserContext,
};
pub use data::{DataSpec, Field, Format, OnBadLine, Order, Source, TimeUnit};
pub use disagg::{Disagg, Flow, Pick, Prefill};
pub use law::{Law, LawError, LengthLaw};
pub use names::UnknownName;
pub use objective::{Aim, Goodput, Limit, Metric, Objective, ObjectiveError, Percentile};
pub(crate) use secret::Secrets;
pub use secret::{REDACTED, is_secret, names_secret};
pub use series::{Piece, RateSeries, SeriesError};
pub use shard::{Shard, ShardError};
pub use target::{Address, Endpoint, Target, Tls};
pub use template::{Template, TemplateError};
pub use threshold::{ClientFigure, Threshold, ThresholdError, Thresholds};
pub use tokenizer::{Embedded, Tokenizer};
pub use until::{Until, UntilError};

/// One load point, whole: what `run` needs and what a result must hold to be reproduced.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Where the requests go.
    pub target: Target,
    /// When they go.
    pub load: Load,
    /// When to stop, and what counts.
    pub stop: Stop,
    /// How texts are written and counted.
    pub text: Text,
    /// What requests say: one class of them, or several by weight.
    pub mix: Vec<Class>,
    /// What the service promised all of them together.
    pub objectives: Objectives,
    /// How this host sends.
    pub client: Client,
    /// How long anything may take.
    pub limits: Limits,
    /// How large an answer may be.
    pub sizes: Sizes,
    /// Seed of every random choice.
    pub seed: u64,
    /// Which part of all this is sent from here. Load, stop rules and numbers are those of the whole.
    pub shard: Shard,
}

impl Workload {
    /// One class of requests, with no objectives and the limits that are there by default.
    #[must_use]
    pub fn plain(target: Target, load: Load, stop: Stop, content: Content, client: Client) -> Self {
        Self {
            target,
            load,
            stop,
            text: Text::default(),
            mix: vec![Class::only(content)],
            objectives: Objectives::default(),
            client,
            limits: Limits::default(),
            sizes: Sizes::default(),
            seed: 1,
            shard: Shard::WHOLE,
        }
    }
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

/// When requests go.
#[derive(Debug, Clone, PartialEq)]
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
        /// When items arrive.
        schedule: Schedule,
        /// At most so many in flight.
        max_in_flight: Option<u64>,
        /// What happens to an arrival above that.
        overflow: Overflow,
    },
}

impl Load {
    /// Over how long the users of a closed loop start, ns; 0 for an open loop.
    #[must_use]
    pub fn ramp_ns(&self) -> u64 {
        match self {
            Self::Closed { ramp_ns, .. } => *ramp_ns,
            Self::Open { .. } => 0,
        }
    }

    /// Whether users wait for their answers.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }
}

/// When the items of an open loop arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// At one rate.
    Rate {
        /// Items per second, finite and above 0.
        rate: f64,
        /// The law of the gaps.
        arrival: Arrival,
    },
    /// At a rate that changes.
    Series {
        /// The rate.
        series: RateSeries,
        /// The law of the gaps, in a time that runs as fast as the rate.
        arrival: Arrival,
    },
    /// When they did in the recording of the first class.
    Replay(Replay),
}

/// How the times of a recording are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// How many times as fast; finite and above 0.
    pub speed: f64,
    /// Requests from this time of the recording on, ns since its first.
    pub start_ns: u64,
    /// And before this.
    pub end_ns: Option<u64>,
    /// How often, at least 1.
    pub loops: u64,
}

impl Default for Replay {
    /// All of it, once, as fast as it was.
    fn default() -> Self {
        Self { speed: 1.0, start_ns: 0, end_ns: None, loops: 1 }
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

/// When to stop, and what counts. At least one of `requests`, `duration_ns` and `sessions` is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// Requests of the measured part.
    pub requests: Option<u64>,
    /// Length of the measured part, in ns.
    pub duration_ns: Option<u64>,
    /// Conversations, warm-up included.
    pub sessions: Option<u64>,
    /// What goes before it, not measured, extra.
    pub warmup: Warmup,
    /// How long what is in flight may go on after the last request was issued, in ns.
    pub drain_ns: u64,
    /// The measured part ends sooner once this is known well enough.
    pub until: Option<Until>,
}

impl Stop {
    /// After so many requests, all of them measured; the drain has no time.
    #[must_use]
    pub const fn after(requests: u64) -> Self {
        Self {
            requests: Some(requests),
            duration_ns: None,
            sessions: None,
            warmup: Warmup::None,
            drain_ns: 0,
            until: None,
        }
    }
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
    /// Until TTFT and throughput are steady, but no longer than this, in ns.
    Auto(u64),
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

/// A small load point for tests, which change what matters to them.
#[cfg(test)]
pub(crate) fn sample() -> Workload {
    let endpoint = Endpoint {
        url: "http://127.0.0.1:8000".into(),
        addresses: vec![Address::Ip(std::net::SocketAddr::from(([127, 0, 0, 1], 8000)))],
        host: "127.0.0.1:8000".into(),
        base_path: "/v1".into(),
        query: String::new(),
        path: "/v1/chat/completions".into(),
        via: None,
        tunnel: None,
        tls: false,
        server_name: "127.0.0.1".into(),
    };
    Workload::plain(
        Target::chat(endpoint, "tiny"),
        Load::Closed { users: 1, ramp_ns: 0 },
        Stop::after(8),
        Content::of_lengths(8, 8),
        Client::on(vec![0]),
    )
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
