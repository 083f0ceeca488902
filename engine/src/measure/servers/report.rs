//! `servers` in `summary.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::heard::{Heard, Sum};
use super::quantile::{Estimate, estimates};
use super::span::Span;
use crate::measure::distribution::ratio;
use crate::telemetry::server::{Counter, Gauge, Pair};

/// What one server said of the measured part. Of what it does not say there is nothing; what cannot be
/// said of this part is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerSeen {
    /// Where it was asked.
    pub url: String,
    /// What kind of server it is, by the names of its metrics.
    pub kind: Option<String>,
    /// `named` by the user, or a `target` of the load.
    pub by: String,
    /// Looks that succeeded, over the whole run.
    pub samples: u64,
    /// Looks that did not.
    pub failed: u64,
    /// The time that the figures are of: the looks nearest to the ends of the window.
    pub window: Option<Here>,
    /// What a look took.
    pub scrape_ns: Option<Took>,
    /// How it was: least, mean and most of the looks within that time.
    pub gauges: BTreeMap<String, GaugeReport>,
    /// How much it counted in that time.
    pub counters: BTreeMap<String, Option<u64>>,
    /// Its prefix cache, in that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<ShareReport>,
    /// A cache outside of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_prefix: Option<ShareReport>,
    /// Times by its own clock, in that time.
    pub latency: BTreeMap<String, LatencyReport>,
    /// KV transfers, in that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferReport>,
    /// Tokens of the prompts that were handed to it in that time, as the client counts them: beside
    /// `prompt_transferred` of its counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_tokens: Option<u64>,
    /// The client's own means over the same time, beside the server's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, Beside>,
    /// What speaks against these figures.
    pub notes: Vec<String>,
}

/// A part of the run, ns from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "these are the ends")]
pub struct Here {
    pub from_ns: u64,
    pub to_ns: u64,
}

/// What looks took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition")]
pub struct Took {
    pub p50: u64,
    pub max: u64,
}

/// What was seen of a gauge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition")]
pub struct GaugeReport {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
}

/// A part of a whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShareReport {
    /// What was found.
    pub hits: Option<u64>,
    /// What was looked up.
    pub queries: Option<u64>,
    /// `hits / queries`.
    pub share: Option<f64>,
}

/// A time by the server's own clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Mean, from sum and count.
    pub mean_ns: Option<f64>,
    /// Samples.
    pub count: Option<u64>,
    /// Estimates from buckets, where the server has some that are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<Estimate>,
    /// The same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Estimate>,
    /// The same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Estimate>,
}

/// KV transfers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferReport {
    /// How many.
    pub count: Option<u64>,
    /// What one took.
    pub mean_ns: Option<f64>,
    /// Bytes of all; null where the server does not say.
    pub bytes: Option<u64>,
    /// Bytes of one.
    pub mean_bytes: Option<f64>,
    /// How many failed.
    pub failed: Option<u64>,
    /// Requests whose KV was given up before it was fetched.
    pub expired: Option<u64>,
    /// Fetches of KV that had been given up: it may have been another's by then.
    pub after_expiry: Option<u64>,
}

/// A mean of the client's beside the server's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The client's, from the first byte written.
    pub client_mean_ns: Option<f64>,
    /// Its samples.
    pub client_count: u64,
    /// The server's.
    pub server_mean_ns: Option<f64>,
    /// Its samples.
    pub server_count: Option<u64>,
    /// The client's less the server's: what lies between them.
    pub difference_ns: Option<f64>,
}

/// Pairs that are times of requests.
const TIMES: [Pair; 7] =
    [Pair::Queue, Pair::Prefill, Pair::Decode, Pair::Ttft, Pair::Itl, Pair::Tpot, Pair::E2e];

/// What a server said, beside what the client saw.
pub(super) fn report(span: &Span, heard: &Heard) -> ServerSeen {
    let last = span.to.as_ref().map(|look| &look.counted);
    let has = |pair: Pair| last.is_some_and(|last| last.pair(pair).is_some());
    let counters =
        Counter::ALL.iter().filter(|one| last.is_some_and(|last| last.counter(**one).is_some()));
    let latency: BTreeMap<String, LatencyReport> = TIMES
        .into_iter()
        .filter(|pair| has(*pair))
        .map(|pair| (pair.name().to_owned(), latency(span, pair)))
        .collect();
    ServerSeen {
        url: span.url.clone(),
        kind: last.map(|last| last.kind.name().to_owned()),
        by: span.by.word().to_owned(),
        samples: span.samples,
        failed: span.failed,
        window: span.bounds().map(|(from_ns, to_ns)| Here { from_ns, to_ns }),
        scrape_ns: span.took().map(|(p50, max)| Took { p50, max }),
        gauges: gauges(span),
        counters: counters.map(|one| (one.name().to_owned(), whole(span.grown(*one)))).collect(),
        prefix: has(Pair::Prefix).then(|| share(span, Pair::Prefix)),
        external_prefix: has(Pair::ExternalPrefix).then(|| share(span, Pair::ExternalPrefix)),
        transfer: has(Pair::Transfer).then(|| transfer(span)),
        handed_tokens: heard.handed_tokens(),
        beside: beside(&latency, heard),
        latency,
        notes: notes(span),
    }
}

fn gauges(span: &Span) -> BTreeMap<String, GaugeReport> {
    let one = |gauge: &Gauge| {
        let spread = span.gauges[*gauge as usize]?;
        let mean = ratio(spread.sum, spread.count as f64)?;
        let report = GaugeReport { min: spread.min, mean, max: spread.max };
        Some((gauge.name().to_owned(), report))
    };
    Gauge::ALL.iter().filter_map(one).collect()
}

fn whole(value: Option<f64>) -> Option<u64> {
    value.map(|value| value.round() as u64)
}

fn share(span: &Span, pair: Pair) -> ShareReport {
    let grown = span.pair(pair);
    ShareReport {
        hits: whole(grown.map(|(hits, _)| hits)),
        queries: whole(grown.map(|(_, queries)| queries)),
        share: grown.and_then(|(hits, queries)| ratio(hits, queries)),
    }
}

fn latency(span: &Span, pair: Pair) -> LatencyReport {
    let grown = span.pair(pair);
    let [p50, p95, p99] = match span.ends() {
        Some((from, to)) => estimates(from.buckets(pair), to.buckets(pair), [0.5, 0.95, 0.99]),
        None => [None, None, None],
    };
    LatencyReport {
        mean_ns: grown.and_then(|(sum, count)| ratio(sum, count)),
        count: whole(grown.map(|(_, count)| count)),
        p50,
        p95,
        p99,
    }
}

fn transfer(span: &Span) -> TransferReport {
    let (time, bytes) = (span.pair(Pair::Transfer), span.pair(Pair::TransferBytes));
    let mean = |pair: Option<(f64, f64)>| pair.and_then(|(sum, count)| ratio(sum, count));
    TransferReport {
        count: whole(time.map(|(_, count)| count)),
        mean_ns: mean(time),
        bytes: whole(bytes.map(|(sum, _)| sum)),
        mean_bytes: mean(bytes),
        failed: whole(span.grown(Counter::TransferFailed)),
        expired: whole(span.grown(Counter::TransferExpired)),
        after_expiry: whole(span.grown(Counter::TransferLate)),
    }
}

fn beside(latency: &BTreeMap<String, LatencyReport>, heard: &Heard) -> BTreeMap<String, Beside> {
    let Some(sums) = heard.sums() else { return BTreeMap::new() };
    let one = |(pair, sum): (Pair, Sum)| {
        let server = latency.get(pair.name())?;
        let client = ratio(sum.total_ns, sum.count as f64);
        let between = client.zip(server.mean_ns).map(|(client, server)| client - server);
        let beside = Beside {
            client_mean_ns: client,
            client_count: sum.count,
            server_mean_ns: server.mean_ns,
            server_count: server.count,
            difference_ns: between,
        };
        Some((pair.name().to_owned(), beside))
    };
    [Pair::Ttft, Pair::Itl, Pair::E2e].into_iter().zip(sums).filter_map(one).collect()
}

fn notes(span: &Span) -> Vec<String> {
    let mut notes = Vec::new();
    let looks = span.samples + span.failed;
    if let Some((at_ns, reason)) = &span.failure {
        notes.push(if span.samples == 0 {
            format!("{reason} (0 of {looks} looks succeeded)")
        } else {
            format!(
                "{} of {looks} looks failed, the last at {:.1} s: {reason}",
                span.failed,
                *at_ns as f64 / 1e9
            )
        });
    } else if span.bounds().is_none() {
        notes.push("it was looked at only once, so nothing is known of what it counted".to_owned());
    }
    if let Some(at_ns) = span.restarted_ns {
        notes.push(format!(
            "a counter had gone back at {:.1} s: the server was started again, so what it counted is \
             not known",
            at_ns as f64 / 1e9
        ));
    }
    let late = span.grown(Counter::TransferLate).filter(|late| *late > 0.0);
    if let Some(late) = late {
        notes.push(format!(
            "{late:.0} fetches of KV came after it had been given up: it may have been another \
             request's by then, so outputs of this run may be wrong"
        ));
    }
    notes
}
