//! The legs of disaggregated requests, together: how long each takes, what the hand-off and a router
//! add, and how often the prompt was computed again.

use std::collections::BTreeSet;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::distribution::{ByPercentile, Distribution};
use super::leg_times::LegTimes;
use super::metric::{Request, Since};
use super::signed::SignedDistribution;
use crate::record::{Arm, KvFallback};
use crate::workload::{Flow, Workload};

/// How the hand-off is estimated.
const HOW_HANDOFF: &str = "decode_first of a request minus the first token of the same prompt sent to \
    the same decode server right after it, while its KV cache was there; 95 % intervals by order \
    statistics on the effective sample size";
/// How a router is.
const HOW_ROUTER: &str = "TTFT by the router minus TTFT without it, percentile by percentile, over \
    requests that took turns in a drawn order, each with a cache salt of its own; 95 % intervals by \
    MOVER from those of the two sides";

/// Figures of the successful requests of the measured part that had legs. First contacts of two
/// servers are kept out of all but their own count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LegsReport {
    /// How requests are handed over.
    pub flow: String,
    /// Both servers are asked at once.
    pub concurrent: bool,
    /// Which servers worked together.
    pub pairs: Vec<PairReport>,
    /// Requests without a router.
    pub direct: u64,
    /// Requests by one.
    pub by_router: u64,
    /// Prompts that were computed again.
    pub kv_fallback: FallbackReport,
    /// Last byte of the prefill server's answer − first byte written to it.
    pub prefill_leg: Distribution,
    /// Our own part between the legs.
    pub client_gap: Distribution,
    /// First token − first byte written to the decode server.
    pub decode_first: Distribution,
    /// First token − last byte of the prefill server's answer; null without a sample.
    pub after_prefill: Option<SignedDistribution>,
    /// TTFT from the first byte written: the sum of the legs and the gap.
    pub service_ttft: Distribution,
    /// Gap between the first and the second output event.
    pub ttst: Distribution,
    /// Gaps between output events after the second, pooled; of all requests of the measured part.
    pub icl_after_second: Distribution,
    /// Time per output token after the second, per request.
    pub tpot_after_second: Distribution,
    /// Bytes of hand-off objects; the unit is bytes.
    pub handoff_bytes: Distribution,
    /// What the hand-off took; null where it is not estimated.
    pub handoff: Option<HandoffReport>,
    /// What a router adds; null without one.
    pub router: Option<RouterReport>,
    /// First contacts: the hand-off of two servers that had not spoken before is slow.
    pub first_contact: FirstContact,
}

/// A prefill and a decode server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairReport {
    /// URL of the one.
    pub prefill: String,
    /// URL of the other.
    pub decode: String,
    /// Successful requests of the measured part.
    pub requests: u64,
    /// Median of the prefill leg, ns.
    pub prefill_leg_p50: Option<u64>,
    /// Median of the decode server's first token, ns.
    pub decode_first_p50: Option<u64>,
}

/// How often the prompt was computed again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackReport {
    /// All of them.
    pub count: u64,
    /// The prefill server handed nothing over.
    pub no_params: u64,
    /// The decode server says that it had less than half of the prompt, and counts hand-offs.
    pub not_cached: u64,
    /// Requests whose decode server does not say, or was never seen to count what is handed over.
    pub unknown: u64,
}

/// Requests that were written to a decode server before the first token came from a hand-off of its
/// pair.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FirstContact {
    /// Their number, warm-up included.
    pub requests: u64,
    /// Their decode servers' first tokens.
    pub decode_first: Distribution,
}

/// What the hand-off took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffReport {
    /// How this was found out.
    pub how: String,
    /// Share of the requests that were asked once more, as it was asked for.
    pub sampled_share: f64,
    /// Differences of the sampled requests; null where none tells anything.
    pub estimate: Option<SignedDistribution>,
    /// The first tokens of the prompts that were sent once more.
    pub baseline: Distribution,
    /// Sampled requests that tell nothing: the prompt was computed again, the first time or the second.
    pub left_out: u64,
    /// The decode server does not say whether it had the prompt the second time: that is assumed.
    pub cache_assumed: bool,
}

/// What a router adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterReport {
    /// How this was found out.
    pub how: String,
    /// TTFT by the router.
    pub ttft: Distribution,
    /// TTFT without it.
    pub direct_ttft: Distribution,
    /// The difference of each percentile, ns.
    pub overhead: ByPercentile<Option<i64>>,
    /// 95 % intervals of the differences.
    pub ci95: ByPercentile<[Option<i64>; 2]>,
}

/// The figures of legs; none where no request had any. `requests` are all of them, by origin; `icl`
/// holds the gaps of the successful of the measured part.
#[must_use]
pub(super) fn legs(
    workload: &Workload,
    requests: &[Request],
    icl: &Histogram<u64>,
) -> Option<LegsReport> {
    let disagg = workload.target.disagg.as_ref()?;
    let first = contacts(requests);
    let counting = counting(requests);
    let good = || requests.iter().filter(|one| one.is_measured() && one.is_ok());
    let is_arm =
        |arm: Arm| move |one: &&Request| one.legs.as_ref().is_some_and(|legs| legs.arm == arm);
    let is_known = |one: &&Request| !is_first(one, &first);
    let direct: Vec<&Request> = good().filter(is_arm(Arm::Direct)).filter(is_known).collect();
    let routed: Vec<&Request> = good().filter(is_arm(Arm::Router)).collect();
    let of = |value: &dyn Fn(&Request) -> Option<u64>| {
        let values: Vec<u64> = direct.iter().filter_map(|one| value(one)).collect();
        Distribution::from_values(&values)
    };
    let signed = |value: &dyn Fn(&Request) -> Option<i64>| {
        let values: Vec<i64> = direct.iter().filter_map(|one| value(one)).collect();
        SignedDistribution::from_values(&values)
    };
    let is_sampled = disagg.baseline > 0.0 && disagg.flow == Flow::VllmNixl;
    Some(LegsReport {
        flow: disagg.flow.as_str().to_owned(),
        concurrent: disagg.flow.is_concurrent(),
        pairs: pairs(workload, &direct),
        direct: good().filter(is_arm(Arm::Direct)).count() as u64,
        by_router: routed.len() as u64,
        kv_fallback: fallbacks(good().filter(is_arm(Arm::Direct)), &counting),
        prefill_leg: of(&Request::prefill_leg),
        client_gap: of(&Request::client_gap),
        decode_first: of(&Request::decode_first),
        after_prefill: signed(&Request::after_prefill),
        service_ttft: of(&|one| one.ttft(Since::Write)),
        ttst: of(&Request::ttst),
        icl_after_second: after_second(icl, good()),
        tpot_after_second: of(&Request::tpot_after_second),
        handoff_bytes: Distribution {
            unit: "bytes".into(),
            ..of(&|one| one.legs.as_ref()?.handoff_bytes.get())
        },
        handoff: is_sampled.then(|| handoff(&direct, disagg.baseline, &counting)),
        router: (!disagg.routers.is_empty()).then(|| router(&routed, &direct)),
        first_contact: {
            let firsts = || requests.iter().filter(|one| is_first(one, &first));
            let times: Vec<u64> = firsts().filter_map(Request::decode_first).collect();
            FirstContact {
                requests: firsts().count() as u64,
                decode_first: Distribution::from_values(&times),
            }
        },
    })
}

/// When the first token of a hand-off came, for each pair of servers.
fn contacts(requests: &[Request]) -> Vec<((u16, u16), u64)> {
    let mut first: Vec<((u16, u16), u64)> = Vec::new();
    for request in requests.iter().filter(|one| one.is_ok()) {
        let Some(legs) = request.legs.as_ref().filter(|legs| legs.arm == Arm::Direct) else {
            continue;
        };
        let Some(token) = request.first_token.get() else { continue };
        match first.iter_mut().find(|(pair, _)| *pair == legs.servers) {
            Some((_, at)) => *at = (*at).min(token),
            None => first.push((legs.servers, token)),
        }
    }
    first
}

fn is_first(request: &Request, first: &[((u16, u16), u64)]) -> bool {
    let Some(legs) = request.legs.as_ref().filter(|legs| legs.arm == Arm::Direct) else {
        return false;
    };
    let at = first.iter().find(|(pair, _)| *pair == legs.servers);
    let (Some((_, at)), Some(write)) = (at, legs.decode_write.get()) else { return false };
    write < *at
}

fn pairs(workload: &Workload, direct: &[&Request]) -> Vec<PairReport> {
    let disagg = workload.target.disagg.as_ref();
    let prefills: Vec<&str> =
        disagg.iter().flat_map(|one| &one.prefill).map(|one| one.endpoint.url.as_str()).collect();
    let mut found = Vec::new();
    for (p, prefill) in prefills.iter().enumerate() {
        for (d, decode) in workload.target.endpoints.iter().enumerate() {
            let its = |one: &&&Request| {
                one.legs.as_ref().is_some_and(|legs| legs.servers == (p as u16, d as u16))
            };
            let median = |value: fn(&Request) -> Option<u64>| {
                let own = direct.iter().filter(its);
                let values: Vec<u64> = own.filter_map(|one| value(one)).collect();
                Distribution::from_values(&values).percentiles.p50
            };
            found.push(PairReport {
                prefill: (*prefill).to_owned(),
                decode: decode.url.clone(),
                requests: direct.iter().filter(its).count() as u64,
                prefill_leg_p50: median(Request::prefill_leg),
                decode_first_p50: median(Request::decode_first),
            });
        }
    }
    found
}

/// Decode servers that count what is handed over among what they had in a cache: those that ever said
/// that they had a prompt. Others tell of their own prefix cache alone, as vLLM 0.32 does, and of them
/// nothing follows from having had none.
fn counting(requests: &[Request]) -> BTreeSet<u16> {
    let legs = requests.iter().filter(|one| one.is_ok()).filter_map(|one| one.legs.as_ref());
    let direct = legs.filter(|legs| legs.arm == Arm::Direct && legs.had_it == Some(true));
    direct.map(|legs| legs.servers.1).collect()
}

/// Whether the prompt of a request was computed again, now that all of them are known.
fn fallback(legs: &LegTimes, counting: &BTreeSet<u16>) -> Option<KvFallback> {
    match legs.fallback {
        Some(KvFallback::NoParams) => legs.fallback,
        _ if !counting.contains(&legs.servers.1) => None,
        _ => (legs.had_it == Some(false)).then_some(KvFallback::NotCached),
    }
}

fn fallbacks<'a>(
    direct: impl Iterator<Item = &'a Request>,
    counting: &BTreeSet<u16>,
) -> FallbackReport {
    let mut report = FallbackReport::default();
    for legs in direct.filter_map(|one| one.legs.as_ref()) {
        match fallback(legs, counting) {
            Some(KvFallback::NoParams) => report.no_params += 1,
            Some(KvFallback::NotCached) => report.not_cached += 1,
            None => {
                let tells = legs.had_it.is_some() && counting.contains(&legs.servers.1);
                report.unknown += u64::from(!tells);
            }
        }
    }
    report.count = report.no_params + report.not_cached;
    report
}

/// The gaps but for the first of each request: those are samples of the same histogram.
fn after_second<'a>(icl: &Histogram<u64>, good: impl Iterator<Item = &'a Request>) -> Distribution {
    let mut rest = icl.clone();
    let mut first = crate::record::histogram();
    for gap in good.filter_map(Request::ttst) {
        first.saturating_record(gap);
    }
    match rest.subtract(&first) {
        Ok(()) => Distribution::from_histogram(&rest),
        // The rows are not those that the gaps are of: a run that was cut off.
        Err(_) => Distribution::default(),
    }
}

fn handoff(direct: &[&Request], sampled_share: f64, counting: &BTreeSet<u16>) -> HandoffReport {
    let sampled = || {
        let legs = direct.iter().filter_map(|one| Some((one, one.legs.as_ref()?)));
        legs.filter(|(_, legs)| legs.once_more.get().is_some())
    };
    let tells = |legs: &LegTimes| {
        fallback(legs, counting).is_none() && legs.once_more_is_cached != Some(false)
    };
    let kept = || sampled().filter(|(_, legs)| tells(legs));
    let estimates: Vec<i64> = kept().filter_map(|(one, _)| one.handoff()).collect();
    let baselines: Vec<u64> = kept().filter_map(|(_, legs)| legs.once_more.get()).collect();
    HandoffReport {
        how: HOW_HANDOFF.to_owned(),
        sampled_share,
        estimate: SignedDistribution::from_values(&estimates),
        baseline: Distribution::from_values(&baselines),
        left_out: sampled().filter(|(_, legs)| !tells(legs)).count() as u64,
        cache_assumed: kept().any(|(_, legs)| legs.once_more_is_cached.is_none()),
    }
}

fn router(routed: &[&Request], direct: &[&Request]) -> RouterReport {
    let ttft = |of: &[&Request]| {
        let values: Vec<u64> = of.iter().filter_map(|one| one.ttft(Since::Origin)).collect();
        Distribution::from_values(&values)
    };
    let (by, without) = (ttft(routed), ttft(direct));
    let both = |p: u64| {
        let (a, b) = (*by.percentiles.at(p)?, *without.percentiles.at(p)?);
        Some((a?, b?))
    };
    let overhead = |p: u64| both(p).map(|(a, b)| a as i64 - b as i64);
    // The variance of a difference, each end by its own (Zou and Donner 2008).
    let ends = |p: u64| {
        let (Some((a, b)), Some([al, ah]), Some([bl, bh])) =
            (both(p), by.ci95.at(p), without.ci95.at(p))
        else {
            return [None, None];
        };
        let (a, b) = (a as f64, b as f64);
        let far =
            |one: Option<u64>, other: Option<u64>| Some((one? as f64 - a).hypot(other? as f64 - b));
        let at = |away: Option<f64>| away.map(|away| (a - b + away).round() as i64);
        [at(far(*al, *bh).map(|away| -away)), at(far(*ah, *bl))]
    };
    RouterReport {
        how: HOW_ROUTER.to_owned(),
        overhead: ByPercentile::from_fn(overhead),
        ci95: ByPercentile::from_fn(ends),
        ttft: by,
        direct_ttft: without,
    }
}

#[cfg(test)]
#[path = "legs_tests.rs"]
mod tests;
