//! What a reactor is told before it starts, and the few words that cross threads while it runs.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokclock_parser::answer::{Answer, Limits as AnswerLimits, Settings};

use super::conn::Conn;
use super::deadline::Deadlines;
use super::legs::{Leg, Role};
use super::probe::{Asked, harmless_request, tunnel_request};
use super::tls::{self, TlsFilesError};
use crate::plan::random::{Purpose, Streams, fraction};
use crate::record::Window;
use crate::workload::{
    Address, Cancel, CancelAfter, Close, Connections, Dialect, Flow, Load, Overflow, Retries,
    Secrets, Sizes, Stamps, Target, TemplateError, Workload,
};

/// Counts tokens of a text, if it can.
pub(crate) type Count = dyn Fn(&str) -> Option<u64> + Send + Sync;

/// What one reactor is told.
pub(crate) struct ReactorSetup {
    /// Its number, from 0.
    pub(crate) reactor: u32,
    /// How many there are.
    pub(crate) reactors: u32,
    /// The CPU to pin to.
    pub(crate) cpu: core_affinity::CoreId,
    /// Where to connect: request *i* goes to number *i mod n*.
    pub(crate) servers: Vec<Server>,
    /// Kernel receive stamps.
    pub(crate) stamped: bool,
    /// End connections by a reset.
    pub(crate) reset: bool,
    /// The whole load.
    pub(crate) load: Load,
    /// It is a closed loop.
    pub(crate) is_closed: bool,
    /// Most requests in flight on this reactor (open loop).
    pub(crate) cap: Option<u64>,
    /// What happens above that.
    pub(crate) overflow: Overflow,
    /// Timeouts.
    pub(crate) deadlines: Deadlines,
    /// How to read answers.
    pub(crate) answers: Settings,
    /// Gather the generated text.
    pub(crate) gather_text: bool,
    /// Our tokenizer, where the user chose one.
    pub(crate) count: Option<Arc<Count>>,
    /// How long what is in flight may go on after the last request was issued, ns.
    pub(crate) drain_ns: u64,
    /// How long a connection serves.
    pub(crate) connections: Connections,
    /// Requests that a connection carries at most.
    pub(crate) requests_per_connection: u64,
    /// Addresses that connections come from, in turn.
    pub(crate) source_ips: Vec<IpAddr>,
    /// What becomes of requests that fail.
    pub(crate) retries: Retries,
    /// Requests that are cancelled on purpose.
    pub(crate) cancel: Option<Cancel>,
    /// Seed of every random choice.
    pub(crate) seed: u64,
    /// Never sleep.
    pub(crate) spin: bool,
    /// What no text may hold.
    pub(crate) secrets: Secrets,
    /// Prefill servers answer in one piece.
    pub(crate) prefill_is_whole: bool,
}

/// What a reactor cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// How TLS is spoken.
    #[error(transparent)]
    Tls(#[from] TlsFilesError),
    /// How answers are read.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// One server as a reactor sees it.
pub(crate) struct Server {
    /// Its base URL, as it was given.
    pub(crate) url: String,
    /// Where to connect, in the order in which they are tried.
    pub(crate) addresses: Vec<Address>,
    /// What is asked of a proxy before all else.
    pub(crate) tunnel: Option<Vec<u8>>,
    /// How TLS is spoken, and the name that is asked for.
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// A request without effect that warms the path: head and all.
    pub(crate) warm_request: Vec<u8>,
}

impl Server {
    /// The servers of a target. They share the memory of sessions.
    fn all(target: &Target) -> Result<Vec<Self>, TlsFilesError> {
        let mut config = None;
        let mut servers = Vec::new();
        for asked in Asked::all(target) {
            let endpoint = asked.endpoint;
            let tls = if endpoint.tls {
                let config = match &config {
                    Some(config) => Arc::clone(config),
                    None => Arc::clone(config.insert(Arc::new(tls::config(&target.tls)?))),
                };
                Some((config, tls::server_name(endpoint, &target.tls)?))
            } else {
                None
            };
            servers.push(Self {
                url: endpoint.url.clone(),
                addresses: endpoint.addresses.clone(),
                tunnel: endpoint.tunnel.as_deref().map(|to| tunnel_request(to).into_bytes()),
                tls,
                warm_request: harmless_request(&asked),
            });
        }
        Ok(servers)
    }
}

impl ReactorSetup {
    /// What reactor `number` of so many is told of `workload`.
    pub(crate) fn new(
        workload: &Workload,
        (number, reactors): (u64, u64),
        cpu: core_affinity::CoreId,
        answers: Answers,
    ) -> Result<Self, SetupError> {
        let target = &workload.target;
        let is_closed = workload.load.is_closed();
        let (cap, overflow) = match workload.load {
            Load::Closed { .. } => (None, Overflow::Wait),
            Load::Open { max_in_flight, overflow, .. } => {
                let own = max_in_flight.map(|all| workload.shard.part_of(all));
                (own.map(|all| share_of(all, number, reactors)), overflow)
            }
        };
        let dialect = parser_dialect(target)?;
        Ok(Self {
            reactor: number as u32,
            reactors: reactors as u32,
            cpu,
            servers: Server::all(target)?,
            stamped: workload.client.stamps == Stamps::Kernel,
            reset: workload.client.close == Close::Rst,
            load: workload.load.clone(),
            is_closed,
            cap,
            overflow,
            deadlines: Deadlines::new(workload.limits, workload.client.cancel, is_closed),
            answers: Settings {
                dialect,
                stream: target.stream,
                limits: answer_limits(workload.sizes),
            },
            gather_text: workload.client.keep_text || answers.count.is_some() || answers.live,
            count: answers.count,
            drain_ns: workload.stop.drain_ns,
            connections: workload.client.connections,
            requests_per_connection: workload.client.requests_per_connection.unwrap_or(u64::MAX),
            source_ips: workload.client.source_ips.clone(),
            retries: workload.client.retries,
            cancel: workload.client.cancel,
            seed: workload.seed,
            spin: workload.client.spin,
            secrets: Secrets::of(target),
            prefill_is_whole: target.disagg.as_ref().is_some_and(|one| one.flow != Flow::Sglang),
        })
    }

    /// When request `index` is cancelled on purpose, if it is one of those.
    pub(crate) fn to_cancel(&self, index: u64) -> Option<CancelAfter> {
        let cancel = self.cancel?;
        let key = Streams::new(self.seed, Purpose::Cancel).key(index);
        (fraction(key) < cancel.rate).then_some(cancel.after)
    }

    /// What reads answers that are streams, or are not.
    pub(crate) fn answer(&self, stream: bool) -> Answer {
        Answer::new(Settings { stream, ..self.answers.clone() })
    }

    /// Whether the answer to a leg of this role is a stream: a prefill server of vLLM is asked for none.
    pub(super) fn is_stream(&self, leg: Option<Leg>) -> bool {
        let is_apart = leg.is_some_and(|leg| leg.role == Role::Prefill) && self.prefill_is_whole;
        self.answers.stream && !is_apart
    }

    /// A place for a connection.
    pub(crate) fn new_conn(&self) -> Conn {
        Conn::free(Answer::new(self.answers.clone()), self.answers.stream, self.gather_text)
    }
}

/// How answers in the target's dialect are read.
fn parser_dialect(target: &Target) -> Result<tokclock_parser::dialect::Dialect, TemplateError> {
    use tokclock_parser::dialect::Dialect as Read;
    Ok(match target.dialect {
        Dialect::OpenaiChat => Read::OpenaiChat,
        Dialect::OpenaiCompletions => Read::OpenaiCompletions,
        Dialect::OpenaiResponses => Read::OpenaiResponses,
        Dialect::OpenaiEmbeddings => Read::OpenaiEmbeddings,
        Dialect::AnthropicMessages => Read::AnthropicMessages,
        Dialect::SglangGenerate => Read::SglangGenerate,
        Dialect::TgiGenerate => Read::TgiGenerate,
        Dialect::TritonGenerate => Read::TritonGenerate,
        Dialect::LlamacppCompletion => Read::LlamacppCompletion,
        Dialect::OllamaChat => Read::OllamaChat,
        Dialect::OllamaGenerate => Read::OllamaGenerate,
        Dialect::Template => {
            let reading = target.template.clone().map(|template| template.answer);
            Read::Template(Arc::new(reading.unwrap_or_default().parsed()?))
        }
    })
}

fn answer_limits(sizes: Sizes) -> AnswerLimits {
    let Sizes { head, event, body } = sizes;
    AnswerLimits { head_bytes: head, event_bytes: event, body_bytes: body }
}

/// What all reactors are told at the start of the load.
#[derive(Clone)]
pub(crate) struct Start {
    /// When the first request may begin, ns since the run's start.
    pub(crate) begin: u64,
    /// The measured part.
    pub(crate) window: Arc<Window>,
    /// The user's wish to end.
    pub(crate) control: Arc<Control>,
    /// What this reactor has done so far.
    pub(crate) gauge: Arc<Gauge>,
}

/// The user's wish to end a run. Callable from any thread.
#[derive(Debug, Default)]
pub struct Control {
    wish: AtomicU8,
}

impl Control {
    const STOP: u8 = 1;
    const CUT: u8 = 2;

    /// No wish yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Issue nothing more, let what is in flight end, write the results.
    pub fn stop(&self) {
        self.wish.fetch_max(Self::STOP, Relaxed);
    }

    /// End what is in flight too, write the results.
    pub fn cut(&self) {
        self.wish.fetch_max(Self::CUT, Relaxed);
    }

    /// Whether the end was wished for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.wish.load(Relaxed) >= Self::STOP
    }

    /// Whether the end was wished for at once.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.wish.load(Relaxed) >= Self::CUT
    }
}

/// What one reactor has done so far; written by it a few times a second, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Gauge {
    pub(crate) issued: AtomicU64,
    pub(crate) ok: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) output_tokens: AtomicU64,
    pub(crate) output_events: AtomicU64,
    pub(crate) ttft_sum_ns: AtomicU64,
    pub(crate) ttft_count: AtomicU64,
}

/// What answers are needed for beside their times.
#[derive(Clone)]
pub(crate) struct Answers {
    /// Our tokenizer, where the user chose one: it counts them.
    pub(crate) count: Option<Arc<Count>>,
    /// They become a part of later requests.
    pub(crate) live: bool,
}

/// Starts of the users of one reactor of this host, ns after the load's begin. Hosts, and the reactors
/// of each, take them in turn, so the parts add up for any number of both.
pub(crate) fn users_of(workload: &Workload, number: u64, reactors: u64) -> Vec<u64> {
    let Load::Closed { users, ramp_ns } = workload.load else { return Vec::new() };
    let (first, step) = workload.shard.of_reactor(number, reactors);
    (first..users)
        .step_by(step as usize)
        .map(|user| (u128::from(user) * u128::from(ramp_ns) / u128::from(users)) as u64)
        .collect()
}

/// The part of `all` that reactor `number` of so many has; the parts add up.
fn share_of(all: u64, number: u64, reactors: u64) -> u64 {
    all / reactors + u64::from(number < all % reactors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Shard;

    #[test]
    fn parts_of_a_whole_add_up_for_any_number_of_reactors() {
        for all in [1, 2, 7, 64, 1000] {
            for reactors in 1..=8 {
                let sum: u64 = (0..reactors).map(|number| share_of(all, number, reactors)).sum();
                assert_eq!(sum, all);
            }
        }
    }

    #[test]
    fn users_of_all_hosts_and_reactors_are_the_crowd_at_its_own_instants() {
        let load = Load::Closed { users: 23, ramp_ns: 1_000_003 };
        let whole = Workload { load, ..crate::workload::sample() };
        let crowd = users_of(&whole, 0, 1);
        assert_eq!((crowd.len(), crowd[0], crowd[22]), (23, 0, 22 * 1_000_003 / 23));
        // Hosts of different size.
        for hosts in [&[1][..], &[3], &[1, 3], &[2, 1, 4], &[1; 23]] {
            let mut all = Vec::new();
            for (index, &reactors) in (0..).zip(hosts) {
                let shard = Shard::new(index, hosts.len() as u32).unwrap();
                let part = Workload { shard, ..whole.clone() };
                for number in 0..reactors {
                    let own = users_of(&part, number, reactors);
                    assert!(!own.is_empty(), "{hosts:?}");
                    all.extend(own);
                }
            }
            all.sort_unstable();
            assert_eq!(all, crowd, "{hosts:?}");
        }
    }
}
