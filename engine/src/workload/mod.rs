//! The request of a person, as values that can be saved: target, arrivals, lengths, objectives,
//! stop rules. Everything here is plain data; `plan` expands it, `reactor` carries it out.

mod client;
mod dialect;
mod names;
pub mod objective;
mod secret;
mod target;
pub mod template;
mod threshold;

pub use client::{Cancel, CancelAfter, Client, Close, Connections, Limits, Retries, Sizes, Stamps};
pub use names::UnknownName;
pub use objective::{Goodput, Limit, Metric, Objective, ObjectiveError, Percentile};
pub(crate) use secret::Secrets;
pub use secret::{REDACTED, is_secret};
pub use target::{Address, Endpoint, Target, Tls};
pub use template::{Template, TemplateError};
pub use threshold::{ClientFigure, Threshold, ThresholdError, Thresholds};

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

/// A small load point for tests, which change what matters to them.
#[cfg(test)]
pub(crate) fn sample() -> Workload {
    Workload {
        target: Target {
            endpoints: vec![Endpoint {
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
