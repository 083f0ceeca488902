//! The figures of a load whose records stayed with the hosts that sent it: their histograms and counts,
//! added up. Latencies are known to 0.1 %; what only records tell is absent.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::distribution::{ByPercentile, Distribution, ratio};
use super::evidence::Shares;
use super::goodput::{Attainment, GoodputReport};
use super::judged::{Judged, Trial};
use super::rate::{Rate, Window};
use super::slo;
use super::summary::{Latency, Phases, Requests, Service, Summary};
use super::tokens::Tokens;
use super::{Facts, cache, summarize};
use crate::record::histogram;
use crate::workload::{Metric, Workload};

const SECOND: f64 = 1e9;
/// The reason of cancelled requests that were cancelled on purpose.
const ON_PURPOSE: &str = "cancel_rate";

/// The figures of a load from histograms by the names of `summary.json`, added up over all hosts, and
/// from the summaries of the hosts, as far as there are any.
#[must_use]
pub fn summarize_added(
    workload: &Workload,
    facts: &Facts,
    latencies: &BTreeMap<String, Histogram<u64>>,
    hosts: &[&Summary],
) -> Summary {
    let mut summary = summarize(workload, facts, []);
    let offered = summary.requests.offered;
    summary.requests = requests(hosts, offered, latencies);
    summary.latency = latency(latencies, &summary.latency);
    let samples = Samples { latencies, facts, requests: &summary.requests };
    summary.judged = samples.judged();
    summary.tokens = tokens(hosts);
    let window = Window { start: facts.window_start, end: facts.window_end };
    summary.rate = rate(hosts, &summary, window);
    summary.goodput = goodput(hosts, window);
    let shares = Shares::of(&summary.requests, summary.goodput.as_ref());
    summary.slo =
        slo::judge_samples(&workload.objectives.slo, &|metric| samples.trial(metric), shares);
    summary.run.warmup_requests = hosts.iter().map(|host| host.run.warmup_requests).sum();
    // What follows from single requests is not known.
    summary.cache = Some(cache::cache(&[]));
    summary.client.slip = None;
    (summary.legs, summary.server_times, summary.sessions) = (None, None, None);
    (summary.classes, summary.stages) = (Vec::new(), Vec::new());
    summary.steadiness = Default::default();
    summary
}

fn requests(
    hosts: &[&Summary],
    offered: u64,
    latencies: &BTreeMap<String, Histogram<u64>>,
) -> Requests {
    let mut sum = Requests::default();
    for host in hosts {
        let one = &host.requests;
        for (total, more) in [
            (&mut sum.offered, one.offered),
            (&mut sum.started, one.started),
            (&mut sum.ok, one.ok),
            (&mut sum.failed, one.failed),
            (&mut sum.cancelled, one.cancelled),
            (&mut sum.censored, one.censored),
            (&mut sum.dropped, one.dropped),
            (&mut sum.retried, one.retried),
            (&mut sum.retries, one.retries),
            (&mut sum.retry_ns, one.retry_ns),
            (&mut sum.capped, one.capped),
        ] {
            *total = total.saturating_add(more);
        }
        for (all, own) in
            [(&mut sum.errors, &one.errors), (&mut sum.cancel_reasons, &one.cancel_reasons)]
        {
            own.iter().for_each(|(name, count)| *all.entry(name.clone()).or_default() += count);
        }
        for (class, text) in &one.error_examples {
            sum.error_examples.entry(class.clone()).or_insert_with(|| text.clone());
        }
    }
    // A host that was cut off and left no figures has at least what its histograms hold.
    let seen = latencies.get("e2e").map_or(0, Histogram::len);
    sum.ok = sum.ok.max(seen);
    sum.started = sum.started.max(sum.ok + sum.failed);
    sum.offered = sum.offered.max(offered).max(sum.ok + sum.failed);
    sum.error_rate = ratio(sum.failed as f64, (sum.ok + sum.failed) as f64);
    sum
}

fn latency(latencies: &BTreeMap<String, Histogram<u64>>, pooled: &Latency) -> Latency {
    let of = |name: &str| {
        latencies.get(name).map_or_else(Distribution::default, Distribution::from_histogram)
    };
    Latency {
        ttfb: of("ttfb"),
        ttft: of("ttft"),
        ttfo: of("ttfo"),
        ttst: of("ttst"),
        icl: pooled.icl.clone(),
        itl: pooled.itl.clone(),
        tpot: of("tpot"),
        ntpot: of("ntpot"),
        e2e: of("e2e"),
        stream_tail: of("stream_tail"),
        service: Service {
            ttfb: of("service.ttfb"),
            ttft: of("service.ttft"),
            ttfo: of("service.ttfo"),
            ntpot: of("service.ntpot"),
            e2e: of("service.e2e"),
        },
        phases: Phases::default(),
    }
}

/// What figures are held against.
struct Samples<'a> {
    latencies: &'a BTreeMap<String, Histogram<u64>>,
    facts: &'a Facts,
    requests: &'a Requests,
}

impl<'a> Samples<'a> {
    /// The judged samples of one metric: of what is bad only the number is known.
    fn trial(&self, metric: Metric) -> Option<Trial<'a>> {
        let counts = self.requests;
        let on_purpose = counts.cancel_reasons.get(ON_PURPOSE).copied().unwrap_or(0);
        let cut = counts.cancelled.saturating_sub(on_purpose);
        let lost = counts.dropped + counts.censored.saturating_sub(cut);
        let failed = counts.failed + lost;
        match metric {
            Metric::Icl | Metric::Itl => {
                // Only answers with a gap could give samples.
                let with_gap = self.latencies.get("ttst").map_or(0, Histogram::len);
                let pooled = &self.facts.pooled;
                let gaps = if metric == Metric::Icl { &pooled.icl } else { &pooled.itl };
                Some(Trial::of_gaps(gaps, with_gap, failed, cut))
            }
            _ => Some(Trial::of_counted(self.latencies.get(metric.as_str())?, failed, cut)),
        }
    }

    fn judged(&self) -> Judged {
        let nothing = histogram();
        Judged::of(|metric| {
            let trial = self.trial(metric);
            trial.unwrap_or_else(|| Trial::of_counted(&nothing, 0, 0)).distribution()
        })
    }
}

fn tokens(hosts: &[&Summary]) -> Tokens {
    let mut sum = Tokens::default();
    for one in hosts.iter().map(|host| &host.tokens) {
        sum.input = sum.input.saturating_add(one.input);
        sum.output = sum.output.saturating_add(one.output);
        sum.events = sum.events.saturating_add(one.events);
        for (total, more) in [
            (&mut sum.reasoning, one.reasoning),
            (&mut sum.input_client_count, one.input_client_count),
            (&mut sum.input_server_count, one.input_server_count),
            (&mut sum.client_count, one.client_count),
            (&mut sum.server_count, one.server_count),
        ] {
            *total = match (*total, more) {
                (Some(total), Some(more)) => Some(total.saturating_add(more)),
                (total, more) => total.or(more),
            };
        }
        for (name, count) in &one.sources {
            *sum.sources.entry(name.clone()).or_default() += count;
        }
        sum.note = sum.note.or_else(|| one.note.clone());
    }
    sum.source = match sum.sources.len() {
        0 => None,
        1 => sum.sources.keys().next().cloned(),
        _ => Some("mixed".into()),
    };
    let both = sum.client_count.zip(sum.server_count);
    sum.relative_difference =
        both.and_then(|(client, server)| ratio(client as f64 - server as f64, server as f64));
    sum
}

/// Rates add up: each is over the window of its host.
fn rate(hosts: &[&Summary], summary: &Summary, window: Window) -> Rate {
    let sum = |of: fn(&Rate) -> Option<f64>| {
        let known = hosts.iter().filter_map(|host| of(&host.rate));
        known.fold(None, |sum: Option<f64>, one| Some(sum.unwrap_or(0.0) + one))
    };
    let rps = sum(|rate| rate.rps).or_else(|| window.per_second(summary.requests.ok));
    let offered_rps = sum(|rate| rate.offered_rps);
    let tpot = &summary.latency.tpot.percentiles;
    Rate {
        offered_rps,
        rps,
        // To the last completion of each host, its own rate was another one.
        achieved_share: rps
            .zip(offered_rps)
            .filter(|_| !summary.run.window.by_requests)
            .and_then(|(rps, offered)| ratio(rps, offered)),
        output_tps: summary.rate.output_tps,
        input_tps: sum(|rate| rate.input_tps),
        drain_rps: None,
        per_user_tps: ByPercentile::from_fn(|p| {
            ratio(SECOND, tpot.at(p).copied().flatten()? as f64)
        }),
    }
}

/// Good requests add up; `None` where no host has any limit.
fn goodput(hosts: &[&Summary], window: Window) -> Option<GoodputReport> {
    let mut reports = hosts.iter().filter_map(|host| host.goodput.as_ref());
    let mut sum = reports.next()?.clone();
    let add = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    };
    for one in reports {
        (sum.good, sum.of) = (sum.good + one.good, sum.of + one.of);
        (sum.rps, sum.tps) = (add(sum.rps, one.rps), add(sum.tps, one.tps));
        for (all, own) in sum.objectives.iter_mut().zip(&one.objectives) {
            (all.met, all.of) = (all.met + own.met, all.of + own.of);
        }
    }
    sum.share = ratio(sum.good as f64, sum.of as f64);
    let share = |one: &mut Attainment| one.share = ratio(one.met as f64, one.of as f64);
    sum.objectives.iter_mut().for_each(share);
    (window.end > window.start).then_some(sum)
}

#[cfg(test)]
#[path = "added_tests.rs"]
mod tests;
