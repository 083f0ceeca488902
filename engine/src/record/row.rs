//! One request as a line of `requests.jsonl`: the file's schema, written and read here alone.

use serde::{Deserialize, Serialize};

use super::legs::{KvFallback, Legs};
use super::server_times::ServerTimings;

/// In which part of the run the request's origin lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the measured part.
    Warmup,
    /// In the measured part.
    Measure,
    /// After it.
    Drain,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A whole answer.
    Ok,
    /// A failure, of the class in `error`.
    Error,
    /// Ended by us, for the reason in `error`; no failure.
    Cancelled,
}

/// Why a request failed or was cancelled. Names are those of the definitions, in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub enum ErrorClass {
    Dns,
    ConnectRefused,
    ConnectTimeout,
    TlsHandshake,
    TlsVerify,
    ConnClosedEarly,
    ConnReset,
    BodyTruncated,
    StreamTruncated,
    BadFraming,
    HttpStatus,
    RateLimited,
    Redirect,
    ServerErrorEvent,
    MalformedEvent,
    EmptyStream,
    NotStreaming,
    UnsupportedEncoding,
    SizeLimit,
    TimeoutFirstByte,
    TimeoutFirstToken,
    TimeoutIdle,
    TimeoutRequest,
    LocalResource,
    /// Cancelled: still in flight at the end of the drain, or at a limit of ours.
    Deadline,
    /// Cancelled: the user interrupted the run.
    Interrupt,
    /// Cancelled: on purpose, as one of the share that was asked for.
    CancelRate,
}

/// Why an open-loop request was written later than it was meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// The reactor was busy or woke late.
    Reactor,
    /// The body was not ready.
    Feed,
    /// The user's own limit on requests in flight.
    Cap,
    /// A connection had to be opened.
    Connect,
    /// The writer of records was behind.
    Recorder,
}

/// Where `output_tokens` comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The server's usage.
    Usage,
    /// The ids that the server sent.
    TokenIds,
    /// Our tokenizer over the whole text.
    Client,
    /// One per output event.
    Events,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero_u32(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero_u64(value: &u64) -> bool {
    *value == 0
}

/// One request. Times are ns from the run's start; a mark that was not reached is `None` (null).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub struct Row {
    pub index: u64,
    pub request_id: String,
    /// The trace that was sent as `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    pub phase: Phase,
    pub class: Option<String>,
    pub session: Option<u64>,
    pub turn: Option<u32>,
    /// The host that sent it, where several sent one load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    pub reactor: u32,
    pub connection: u64,
    pub reused: bool,
    pub attempts: u32,
    /// Attempts after a failed one, with `--retries`.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub retries: u32,
    /// Time that failed attempts and the pauses after them took, ns; inside the latencies.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub retry_ns: u64,
    pub wait_cause: Option<WaitCause>,
    pub outcome: Outcome,
    pub error: Option<ErrorClass>,
    pub error_text: Option<String>,
    pub malformed_events: u32,
    pub status: Option<u16>,
    pub finish: Option<String>,
    pub intended: u64,
    pub dispatched: Option<u64>,
    pub connected: Option<u64>,
    pub tls_done: Option<u64>,
    pub write_start: Option<u64>,
    pub write_done: Option<u64>,
    pub first_byte: Option<u64>,
    pub head_done: Option<u64>,
    pub first_token: Option<u64>,
    /// First output that is not reasoning (equal to `first_token` without reasoning).
    pub first_output: Option<u64>,
    pub second_token: Option<u64>,
    pub last_token: Option<u64>,
    pub done: Option<u64>,
    pub input_tokens: Option<u64>,
    /// Input tokens by our own tokenizer, without what the server adds to them.
    pub client_input_tokens: Option<u64>,
    /// Input tokens that the server took from its prefix cache, where it says so.
    #[serde(default)]
    pub cached_tokens: Option<u64>,
    /// Input tokens that a prefix cache without limits would know.
    #[serde(default)]
    pub ideal_cached_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// Where `output_tokens` comes from.
    pub output_source: Option<TokenSource>,
    /// Output tokens by our own tokenizer, where it counted.
    pub client_output_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
    /// Tokens of the first output event, where known.
    pub first_tokens: Option<u32>,
    pub events: u32,
    pub bytes: u64,
    pub reads: u32,
    pub coalesced: u32,
    /// Largest client lag of a read of this request, ns.
    pub lag_max: u64,
    /// With `--chunks`: `[arrival, tokens]` of every output event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Vec<(u64, u32)>>,
    /// With `--keep-text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// With `--keep-text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_text: Option<String>,
    /// Seconds of the answer's `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// The requests that this one became, where prefill and decode are apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<Box<Legs>>,
    /// The decode server computed the prompt again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_fallback: Option<KvFallback>,
    /// What the server said of its own work on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Box<ServerTimings>>,
}
