//! What was asked for, as a summary holds it: no figure goes without the workload behind it.

use serde::{Deserialize, Serialize};

use super::server::ServerReport;
use crate::record::Tally;
use crate::workload::{Arrival, Class, Endpoint, Load, Replay, Schedule, Target, Warmup, Workload};

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
    /// What the first server told of itself; null where it was not asked, or told nothing.
    #[serde(default)]
    pub server: Option<ServerReport>,
    /// The router's role, where prefill and decode are apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disagg: Option<DisaggReport>,
}

/// Who prefills and who decodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisaggReport {
    /// How requests are handed over.
    pub flow: String,
    /// URLs of the prefill servers.
    pub prefill: Vec<String>,
    /// URLs of the decode servers.
    pub decode: Vec<String>,
    /// URLs of the routers that were asked in turn.
    pub routers: Vec<String>,
    /// Which server a request went to.
    pub pick: String,
}

impl DisaggReport {
    fn of(target: &Target) -> Option<Self> {
        let disagg = target.disagg.as_ref()?;
        let urls = |endpoints: &mut dyn Iterator<Item = &Endpoint>| {
            endpoints.map(|endpoint| endpoint.url.clone()).collect()
        };
        Some(Self {
            flow: disagg.flow.as_str().to_owned(),
            prefill: urls(&mut disagg.prefill.iter().map(|prefill| &prefill.endpoint)),
            decode: urls(&mut target.endpoints.iter()),
            routers: urls(&mut disagg.routers.iter()),
            pick: disagg.pick.as_str().to_owned(),
        })
    }
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
    /// A hash of all that decides what is sent and when, but for the seed: with the same seed, equal
    /// hashes are equal requests at equal instants. Null where it was not made.
    #[serde(default)]
    pub hash: Option<String>,
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
    /// Conversations of the load, if limited.
    #[serde(default)]
    pub sessions: Option<u64>,
    /// Mean input tokens of a synthetic prompt of the first class, without what it shares with others.
    pub input_tokens: Option<f64>,
    /// Mean output tokens asked for, likewise.
    pub output_tokens: Option<f64>,
    /// The tokenizer that counts them here.
    pub tokenizer: String,
    /// What was sent: one class, or several by weight.
    #[serde(default)]
    pub classes: Vec<ClassAsked>,
}

/// What requests of one class said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassAsked {
    /// Its name; null where there is one alone.
    pub name: Option<String>,
    /// Its share of all items.
    pub share: f64,
    /// The model that it asks for, where it is not the target's.
    pub model: Option<String>,
    /// The recording that it was taken from.
    pub data: Option<String>,
    /// The law of input lengths, in tokens; null for a recording.
    pub isl: Option<String>,
    /// The law of output lengths, in tokens.
    pub osl: String,
    /// Tokens of the system prompt that all of its requests share.
    pub system_tokens: u32,
    /// Prefixes, each of which some of its requests share.
    pub prefix_groups: Option<u32>,
    /// The share of each prompt that others begin with too, where that was asked for.
    pub cached_share: Option<f64>,
    /// Requests belong to conversations.
    pub conversations: bool,
    /// What later turns hold of earlier ones: `live`, `recorded` or `none`; null without turns.
    pub history: Option<String>,
    /// What keeps prefix caches from knowing prompts: `none`, `run` or `request`.
    pub cache_bust: String,
    /// Tokens that the server adds to a prompt and that input lengths include.
    pub template_tokens: u32,
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
    /// Arrivals at the times of a recording.
    Replay {
        /// How many times as fast.
        speed: f64,
        /// How often.
        loops: u64,
        /// At most so many in flight.
        max_in_flight: Option<u64>,
        /// What happened above that: `wait` or `drop`.
        overflow: String,
    },
    /// Arrivals at a rate that changes.
    Series {
        /// The rate, as it was given.
        rates: String,
        /// The law of the gaps.
        arrival: String,
        /// 1/CV² of the gaps; null where they are equal.
        burstiness: Option<f64>,
        /// At most so many in flight.
        max_in_flight: Option<u64>,
        /// What happened above that: `wait` or `drop`.
        overflow: String,
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
            server: None,
            disagg: DisaggReport::of(target),
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
        let stop = workload.stop;
        let (warmup_requests, warmup_ns) = match stop.warmup {
            Warmup::None => (None, None),
            Warmup::Requests(requests) => (Some(requests), None),
            Warmup::Time(ns) => (None, Some(ns)),
            // How long it was is a fact of the run.
            Warmup::Auto(_) => (None, None),
        };
        let first = workload.mix.first().map(|class| &class.content);
        let synthetic = first.filter(|content| content.data.is_none());
        let (input_tokens, output_tokens) =
            synthetic.map(|content| content.lengths.means()).unzip();
        let all: f64 = workload.mix.iter().map(|class| class.weight).sum();
        Self {
            hash: None,
            load: LoadReport::new(&workload.load, ramp_ns),
            requests: stop.requests,
            duration_ns: stop.duration_ns,
            sessions: stop.sessions,
            warmup_requests,
            warmup_ns,
            drain_ns: stop.drain_ns,
            input_tokens,
            output_tokens,
            tokenizer: workload.text.tokenizer.to_string(),
            classes: workload.mix.iter().map(|class| ClassAsked::new(class, all)).collect(),
        }
    }
}

impl ClassAsked {
    fn new(class: &Class, all: f64) -> Self {
        let content = &class.content;
        let (isl, osl) = content.lengths.texts();
        let conversations = content.has_sessions();
        Self {
            name: class.name.clone(),
            share: class.weight / all,
            model: class.model.clone(),
            data: content.data.as_ref().map(|data| data.source.to_string()),
            isl: content.data.is_none().then_some(isl),
            osl,
            system_tokens: content.shared.system_tokens,
            prefix_groups: content.shared.groups.as_ref().map(|groups| groups.count),
            cached_share: content.shared.cached_share,
            conversations,
            history: conversations.then(|| content.conversation.history.to_string()),
            cache_bust: content.cache_bust.to_string(),
            template_tokens: content.template_tokens,
        }
    }
}

impl LoadReport {
    fn new(load: &Load, ramp: u64) -> Self {
        let (schedule, max_in_flight, overflow) = match load {
            Load::Closed { users, ramp_ns } => {
                return Self::Closed { users: *users, ramp_ns: ramp.max(*ramp_ns) };
            }
            Load::Open { schedule, max_in_flight, overflow } => {
                (schedule, *max_in_flight, overflow.to_string())
            }
        };
        match schedule {
            Schedule::Rate { rate, arrival } => {
                let (arrival, burstiness) = law(*arrival);
                Self::Open { rate: *rate, arrival, burstiness, max_in_flight, overflow }
            }
            Schedule::Series { series, arrival } => {
                let (arrival, burstiness) = law(*arrival);
                let rates = series.to_string();
                Self::Series { rates, arrival, burstiness, max_in_flight, overflow }
            }
            Schedule::Replay(replay) => {
                let Replay { speed, loops, .. } = *replay;
                Self::Replay { speed, loops, max_in_flight, overflow }
            }
        }
    }
}

/// The name of a law of gaps, and 1/CV² of them.
fn law(arrival: Arrival) -> (String, Option<f64>) {
    let (name, burstiness) = match arrival {
        Arrival::Constant => ("constant", None),
        Arrival::Poisson => ("poisson", Some(1.0)),
        Arrival::Gamma { burstiness } => ("gamma", Some(burstiness)),
    };
    (name.into(), burstiness)
}
