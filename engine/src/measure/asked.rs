//! What was asked for, as a summary holds it: no figure goes without the workload behind it.

use serde::{Deserialize, Serialize};

use crate::record::Tally;
use crate::workload::{Arrival, Endpoint, Load, Overflow, Tokenizer, Warmup, Workload};

/// Where the requests went. Headers may hold secrets and are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetReport {
    /// The base URL as given, without user information.
    pub url: String,
    /// The address that was connected to.
    pub address: String,
    /// The API.
    pub dialect: String,
    /// The model's name in every body.
    pub model: String,
    /// Whether answers were streamed.
    pub stream: bool,
    /// How TLS was spoken; null where it was not.
    pub tls: Option<TlsReport>,
}

/// How TLS was spoken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsReport {
    /// Certificates were checked.
    pub verified: bool,
    /// The name asked for and checked, where it was not the URL's host.
    pub server_name: Option<String>,
    /// Whether sessions could be resumed.
    pub resumption: bool,
    /// Handshakes carried out.
    pub handshakes: u64,
    /// Of those, handshakes that resumed an earlier session.
    pub resumed: u64,
}

/// What was sent and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadReport {
    /// When requests went.
    pub load: LoadReport,
    /// Requests of the measured part, if limited.
    pub requests: Option<u64>,
    /// Length of the measured part, ns, if limited.
    pub duration_ns: Option<u64>,
    /// Requests before it.
    pub warmup_requests: Option<u64>,
    /// Time before it, ns.
    pub warmup_ns: Option<u64>,
    /// Time after it for what is in flight, ns.
    pub drain_ns: u64,
    /// Input tokens of each prompt.
    pub input_tokens: u32,
    /// Output tokens asked for.
    pub output_tokens: u32,
    /// The tokenizer that counts them here.
    pub tokenizer: String,
}

/// When requests went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LoadReport {
    /// A fixed crowd, each user with one request at a time.
    Closed {
        /// Users.
        users: u64,
        /// They started evenly over this time, ns.
        ramp_ns: u64,
    },
    /// Arrivals that do not wait for answers.
    Open {
        /// Requests per second.
        rate: f64,
        /// The law of the gaps.
        arrival: String,
        /// 1/CV² of the gaps; null where they are equal.
        burstiness: Option<f64>,
        /// At most so many in flight.
        max_in_flight: Option<u64>,
        /// What happened above that: `wait` or `drop`.
        overflow: String,
    },
}

impl TargetReport {
    /// The target of `workload`, and what its reactors counted of TLS.
    #[must_use]
    pub fn new(workload: &Workload, tallies: &[Tally]) -> Self {
        let target = &workload.target;
        let sum = |field: fn(&Tally) -> u64| tallies.iter().map(field).sum();
        let is_tls = target.endpoints.iter().any(|endpoint| endpoint.tls);
        let tls = is_tls.then(|| TlsReport {
            verified: target.tls.verify,
            server_name: target.tls.server_name.clone(),
            resumption: target.tls.resume,
            handshakes: sum(|tally| tally.handshakes),
            resumed: sum(|tally| tally.resumed),
        });
        Self {
            url: joined(&target.endpoints, |endpoint| endpoint.url.clone()),
            address: joined(&target.endpoints, |endpoint| {
                endpoint.addresses.first().map(ToString::to_string).unwrap_or_default()
            }),
            dialect: target.dialect.as_str().into(),
            model: target.model.clone(),
            stream: target.stream,
            tls,
        }
    }
}

/// What each server has, in order.
fn joined(endpoints: &[Endpoint], part: impl Fn(&Endpoint) -> String) -> String {
    endpoints.iter().map(part).collect::<Vec<_>>().join(", ")
}

impl WorkloadReport {
    /// The load and content of `workload`; `ramp_ns` is the ramp that a closed loop really had.
    #[must_use]
    pub fn new(workload: &Workload, ramp_ns: u64) -> Self {
        let (stop, content) = (workload.stop, &workload.content);
        let (warmup_requests, warmup_ns) = match stop.warmup {
            Warmup::None => (None, None),
            Warmup::Requests(requests) => (Some(requests), None),
            Warmup::Time(ns) => (None, Some(ns)),
        };
        let tokenizer = match content.tokenizer {
            Tokenizer::O200kBase => "o200k_base",
            Tokenizer::Cl100kBase => "cl100k_base",
            Tokenizer::Qwen2 => "qwen2",
        };
        Self {
            load: LoadReport::new(workload.load, ramp_ns),
            requests: stop.requests,
            duration_ns: stop.duration_ns,
            warmup_requests,
            warmup_ns,
            drain_ns: stop.drain_ns,
            input_tokens: content.input_tokens,
            output_tokens: content.output_tokens,
            tokenizer: tokenizer.into(),
        }
    }
}

impl LoadReport {
    fn new(load: Load, ramp: u64) -> Self {
        match load {
            Load::Closed { users, ramp_ns } => Self::Closed { users, ramp_ns: ramp.max(ramp_ns) },
            Load::Open { rate, arrival, max_in_flight, overflow } => {
                let (arrival, burstiness) = match arrival {
                    Arrival::Constant => ("constant", None),
                    Arrival::Poisson => ("poisson", Some(1.0)),
                    Arrival::Gamma { burstiness } => ("gamma", Some(burstiness)),
                };
                let overflow = match overflow {
                    Overflow::Wait => "wait",
                    Overflow::Drop => "drop",
                };
                Self::Open {
                    rate,
                    arrival: arrival.into(),
                    burstiness,
                    max_in_flight,
                    overflow: overflow.into(),
                }
            }
        }
    }
}
