//! Prefill and decode on different servers: which, and how one hands over to the other.

use super::Endpoint;

/// How a request is handed from the prefill to the decode server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// vLLM with its NIXL connector: the prefill server answers first, and what it answers goes into
    /// the request to the decode server, which pulls the KV cache.
    VllmNixl,
    /// vLLM with its NIXL push connector: both are asked at once, and the prefill server pushes.
    VllmPush,
    /// SGLang: both are asked at once with the same body, and meet in a room.
    Sglang,
}

impl Flow {
    /// Whether both servers are asked at once.
    #[must_use]
    pub fn is_concurrent(self) -> bool {
        self != Self::VllmNixl
    }
}

/// Which prefill and decode server a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pick {
    /// Each pair in turn.
    RoundRobin,
    /// Any pair, drawn by the seed and the request's number.
    Random,
}

/// The router's role.
#[derive(Debug, Clone, PartialEq)]
pub struct Disagg {
    /// How requests are handed over.
    pub flow: Flow,
    /// The prefill servers, at least one; the decode servers are those of the target.
    pub prefill: Vec<Prefill>,
    /// Routers that are asked in turn with ours: every second request goes by one of them.
    pub routers: Vec<Endpoint>,
    /// Who gets which request.
    pub pick: Pick,
    /// Share of the requests, 0 to 1, whose prompt is sent to its decode server once more, for the
    /// time that it takes there without a hand-off.
    pub baseline: f64,
}

/// A prefill server, and where decode servers find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefill {
    /// Where requests go.
    pub endpoint: Endpoint,
    /// The host that decode servers meet it at: that of the URL unless another is given.
    pub host: String,
    /// The port there: vLLM's side channel, SGLang's bootstrap server.
    pub port: u16,
    /// Name of its engine (vLLM push).
    pub engine_id: Option<String>,
    /// Ranks of its tensor parallelism (vLLM push).
    pub tensor_parallel: u32,
    /// Ranks of its pipeline parallelism (vLLM push).
    pub pipeline_parallel: u32,
}
