//! What servers said of each request, beside what the client saw of it.
//!
//! Durations of two clocks are subtracted, never moments: only where a server gives the moments of a
//! request's arrival and of its answer is the distance of its clock estimated.

mod clock;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distribution::Distribution;
use super::metric::{Request, Since};
use super::signed::SignedDistribution;
use crate::record::{Row, ServerTimings, TimesSource};
use crate::workload::Workload;

pub use clock::ClockReport;

use clock::Clocks;

/// Names of times that are kept, at most: a server may make up new ones with each request.
const NAMES_MAX: usize = 16;

/// The times that servers told, over the successful requests of the measured part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerTimesReport {
    /// Where they stood; null where they have names alone.
    pub source: Option<TimesSource>,
    /// Requests that told any there.
    pub count: u64,
    /// Requests that told some elsewhere, which are left out.
    pub others: u64,
    /// From arrival to the start of the work.
    pub queue: Distribution,
    /// The work on the prompt.
    pub prefill: Distribution,
    /// To the first token, as this server defines it.
    pub ttft: Distribution,
    /// From there, or from the end of the prefill, to the last token.
    pub decode: Distribution,
    /// All of it.
    pub e2e: Distribution,
    /// Moving the KV cache.
    pub kv_transfer: Distribution,
    /// The mean gap between tokens of each request.
    pub mean_itl: Distribution,
    /// Times by the names that headers gave them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, Distribution>,
    /// What the client saw less what the server says.
    pub client_minus_server: ClientMinusServer,
    /// The clock of each server that tells moments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<ClockReport>,
}

/// Differences, request by request: network, parsing, queueing that the server does not count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientMinusServer {
    /// Of the service TTFT.
    pub ttft: Option<Difference>,
    /// Of the service E2E.
    pub e2e: Option<Difference>,
    /// Of the time from the first token to the last.
    pub decode: Option<Difference>,
}

/// One difference over all requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What was taken from the client.
    pub client: String,
    /// What was subtracted, in the server's names of this report.
    pub server: String,
    /// Why the two are not of the same thing, where they are not.
    pub note: Option<String>,
    /// Its figures; negative where the server says more than the client saw.
    #[serde(flatten)]
    pub figures: SignedDistribution,
}

/// What a difference is made of, by the source.
struct Formula {
    server: &'static str,
    value: fn(&ServerTimings) -> Option<u64>,
    note: Option<&'static str>,
}

const NOT_QUEUE: &str = "the server counts no queue: it is in the difference";

/// What a server's TTFT is made of.
fn ttft(source: TimesSource) -> Formula {
    match source {
        TimesSource::VllmMetrics => Formula {
            server: "queue + ttft",
            value: |times| times.queue_ns?.checked_add(times.ttft_ns?),
            note: None,
        },
        TimesSource::LlamacppTimings | TimesSource::Ollama => {
            Formula { server: "prefill", value: |times| times.prefill_ns, note: Some(NOT_QUEUE) }
        }
        TimesSource::DynamoNvext => Formula {
            server: "ttft",
            value: |times| times.ttft_ns,
            note: Some(
                "with separate prefill workers the server counts to theirs: the hand-off is in the \
                 difference",
            ),
        },
        TimesSource::SglangMetaInfo | TimesSource::ServerTiming | TimesSource::Header => {
            Formula { server: "ttft", value: |times| times.ttft_ns, note: None }
        }
    }
}

/// What a server's E2E is made of.
fn e2e(source: TimesSource) -> Formula {
    match source {
        TimesSource::VllmMetrics => Formula {
            server: "queue + ttft + decode",
            value: |times| {
                times.queue_ns?.checked_add(times.ttft_ns?)?.checked_add(times.decode_ns?)
            },
            note: None,
        },
        TimesSource::LlamacppTimings => Formula {
            server: "prefill + decode",
            value: |times| times.prefill_ns?.checked_add(times.decode_ns?),
            note: Some(NOT_QUEUE),
        },
        _ => Formula { server: "e2e", value: |times| times.e2e_ns, note: None },
    }
}

/// What a server's decode is.
fn decode(source: TimesSource) -> Formula {
    let note = match source {
        TimesSource::LlamacppTimings | TimesSource::Ollama => {
            Some("the server counts from the end of the prefill, the client from the first token")
        }
        _ => None,
    };
    Formula { server: "decode", value: |times| times.decode_ns, note }
}

/// What is gathered while rows go by; nothing where servers tell nothing.
#[derive(Debug, Default)]
pub(super) struct Told {
    requests: Vec<One>,
    clocks: Clocks,
}

/// A request whose server told something.
#[derive(Debug)]
struct One {
    /// Orders them, as intervals need it.
    order: (u64, u64),
    times: Box<ServerTimings>,
    ttft: Option<u64>,
    e2e: Option<u64>,
    decode: Option<u64>,
    /// The server is one of two: times are counted from when it was asked.
    is_leg: bool,
}

impl Told {
    /// Adds a request of any phase.
    pub(super) fn add(&mut self, row: &Row, request: &Request) {
        let Some(times) = row.server.as_ref().filter(|_| request.is_ok()) else { return };
        self.clocks.add(row, times);
        if request.is_measured() {
            // Of two servers it is the one that decodes that tells.
            let decode_write = request.legs.as_ref().and_then(|legs| legs.decode_write.get());
            let since = |at: Option<u64>| at?.checked_sub(decode_write?);
            let (ttft, e2e) = match decode_write {
                Some(_) => (since(request.first_token.get()), since(request.last_token.get())),
                None => (request.ttft(Since::Write), request.e2e(Since::Write)),
            };
            self.requests.push(One {
                order: (request.origin, request.index),
                times: times.clone(),
                ttft,
                e2e,
                is_leg: decode_write.is_some(),
                decode: request.decode(),
            });
        }
    }

    /// The figures; `start_realtime_ns` is when the run began.
    pub(super) fn finish(
        mut self,
        workload: &Workload,
        start_realtime_ns: u64,
    ) -> Option<ServerTimesReport> {
        if self.requests.is_empty() {
            return None;
        }
        self.requests.sort_by_key(|one| one.order);
        let source = usual(&self.requests);
        let (own, others): (Vec<&One>, Vec<&One>) = self
            .requests
            .iter()
            .filter(|one| tells(&one.times))
            .partition(|one| Some(one.times.source) == source);
        let of = |value: fn(&ServerTimings) -> Option<u64>| {
            let values: Vec<u64> = own.iter().filter_map(|one| value(&one.times)).collect();
            Distribution::from_values(&values)
        };
        Some(ServerTimesReport {
            source,
            count: own.len() as u64,
            others: others.len() as u64,
            queue: of(|times| times.queue_ns),
            prefill: of(|times| times.prefill_ns),
            ttft: of(|times| times.ttft_ns),
            decode: of(|times| times.decode_ns),
            e2e: of(|times| times.e2e_ns),
            kv_transfer: of(|times| times.kv_transfer_ns),
            mean_itl: of(|times| times.mean_itl_ns),
            named: named(&self.requests),
            client_minus_server: source.map(|source| differences(source, &own)).unwrap_or_default(),
            clocks: self.clocks.finish(workload, start_realtime_ns),
        })
    }
}

/// Does it hold any time but those with names of their own?
fn tells(times: &ServerTimings) -> bool {
    let durations = [times.queue_ns, times.prefill_ns, times.ttft_ns, times.decode_ns];
    let others = [times.e2e_ns, times.kv_transfer_ns, times.mean_itl_ns];
    let moments = [times.received_realtime_ns, times.sent_realtime_ns];
    durations.iter().chain(&others).chain(&moments).any(Option::is_some)
}

/// The source of most requests.
fn usual(requests: &[One]) -> Option<TimesSource> {
    let mut counts = BTreeMap::<TimesSource, u64>::new();
    for one in requests.iter().filter(|one| tells(&one.times)) {
        *counts.entry(one.times.source).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(source, _)| source)
}

fn named(requests: &[One]) -> BTreeMap<String, Distribution> {
    let mut values = BTreeMap::<&str, Vec<u64>>::new();
    for (name, ns) in requests.iter().flat_map(|one| &one.times.named) {
        let has_room = values.len() < NAMES_MAX;
        match values.get_mut(name.as_str()) {
            Some(values) => values.push(*ns),
            None if has_room => {
                values.insert(name, vec![*ns]);
            }
            None => {}
        }
    }
    let all = values.into_iter();
    all.map(|(name, values)| (name.to_owned(), Distribution::from_values(&values))).collect()
}

fn differences(source: TimesSource, own: &[&One]) -> ClientMinusServer {
    let of = |client: &str, seen: fn(&One) -> Option<u64>, formula: Formula| {
        let difference = |one: &&One| {
            let (seen, told) = (seen(one)?, (formula.value)(&one.times)?);
            i64::try_from(i128::from(seen) - i128::from(told)).ok()
        };
        let values: Vec<i64> = own.iter().filter_map(difference).collect();
        SignedDistribution::from_values(&values).map(|figures| Difference {
            client: client.to_owned(),
            server: formula.server.to_owned(),
            note: formula.note.map(str::to_owned),
            figures,
        })
    };
    let is_leg = own.iter().any(|one| one.is_leg);
    let [to_first, to_last] = match is_leg {
        true => ["decode_first", "decode leg to the last token"],
        false => ["service TTFT", "service E2E"],
    };
    ClientMinusServer {
        ttft: of(to_first, |one| one.ttft, ttft(source)),
        e2e: of(to_last, |one| one.e2e, e2e(source)),
        decode: of("decode", |one| one.decode, decode(source)),
    }
}
