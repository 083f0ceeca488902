//! The two requests that one request becomes where prefill and decode are apart, as its record holds
//! them.

use serde::{Deserialize, Serialize};

use super::{ErrorClass, ServerTimings};

/// Which way a request took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Prefill and decode server were asked by us.
    Direct,
    /// A router was asked, which asked them.
    Router,
}

/// Why the decode server is known, or has to be taken, to have computed the prompt again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvFallback {
    /// The prefill server's answer brought no hand-off object.
    NoParams,
    /// The decode server says that it took less than half of the prompt from a cache.
    NotCached,
}

/// The legs of one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Legs {
    /// The way that it took; by way of a router there are no legs to see.
    pub arm: Arm,
    /// Bytes of the hand-off object as the prefill server wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_bytes: Option<u64>,
    /// The request to the prefill server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<Leg>,
    /// The request to the decode server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<Leg>,
    /// The same prompt to the same decode server once more, for one token, while its KV cache is
    /// there: sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Leg>,
}

impl Legs {
    /// By way of a router.
    #[must_use]
    pub fn by_router() -> Self {
        Self { arm: Arm::Router, handoff_bytes: None, prefill: None, decode: None, baseline: None }
    }
}

/// One HTTP request of several that make a request. Times are ns from the run's start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub struct Leg {
    /// The server's URL.
    pub url: String,
    pub connection: u64,
    pub reused: bool,
    pub status: Option<u16>,
    pub error: Option<ErrorClass>,
    pub connected: Option<u64>,
    pub tls_done: Option<u64>,
    pub write_start: Option<u64>,
    pub write_done: Option<u64>,
    pub first_byte: Option<u64>,
    pub head_done: Option<u64>,
    pub first_token: Option<u64>,
    /// For an answer in one piece: its last byte.
    pub done: Option<u64>,
    pub input_tokens: Option<u64>,
    pub cached_tokens: Option<u64>,
    pub bytes: u64,
    /// Largest client lag of a read of this leg, ns.
    pub lag_max: u64,
    /// What the server said of its own work on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Box<ServerTimings>>,
}
