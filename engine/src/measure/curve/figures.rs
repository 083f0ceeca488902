//! The figures of one point of a curve, and the median of several.

use serde::{Deserialize, Serialize};

use super::leg_means::LegMeans;
use crate::measure::Summary;
use crate::measure::distribution::{finite, ratio};
use crate::measure::interval::Interval;

/// Error classes with which a server turns a request away.
const REFUSALS: [&str; 2] = ["rate_limited", "http_status"];

/// The figures of a run, or the medians of several. Latencies are ns and, but for `served_...`, the
/// judged ones: null where the percentile falls among failed, dropped or cut requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Arrivals that the schedule placed in the measured part, issued or not.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Requests per second that the schedule asked for; null in a closed loop.
    pub offered_rps: Option<f64>,
    /// Requests that ended well in the window, per second.
    pub rps: Option<f64>,
    /// The share of the offered rate that was served.
    pub achieved_share: Option<f64>,
    /// Requests per second between the first and the last completion.
    pub drain_rps: Option<f64>,
    /// Output tokens that arrived in the window, per second.
    pub output_tps: Option<f64>,
    /// Input tokens wholly written in the window, per second.
    pub input_tps: Option<f64>,
    /// Good requests per second; null without limits on requests.
    pub goodput_rps: Option<f64>,
    /// Good requests / all of the measured part; null without limits.
    pub goodput_share: Option<f64>,
    /// Output tokens per second of the user in the middle: `1 / p50(TPOT)` of the successful.
    pub per_user_tps: Option<f64>,
    /// TTFT, p50.
    pub ttft_p50: Option<u64>,
    /// TTFT, p95.
    pub ttft_p95: Option<u64>,
    /// TTFT, p99.
    pub ttft_p99: Option<u64>,
    /// ITL, p50.
    pub itl_p50: Option<u64>,
    /// ITL, p95.
    pub itl_p95: Option<u64>,
    /// ITL, p99.
    pub itl_p99: Option<u64>,
    /// E2E, p50.
    pub e2e_p50: Option<u64>,
    /// E2E, p95.
    pub e2e_p95: Option<u64>,
    /// TTFT of the successful alone, p50.
    pub served_ttft_p50: Option<u64>,
    /// TTFT of the successful alone, p95.
    pub served_ttft_p95: Option<u64>,
    /// E2E of the successful alone, p50.
    pub served_e2e_p50: Option<u64>,
    /// Failed / (ok + failed).
    pub error_rate: Option<f64>,
    /// Turned away by the server (`rate_limited`, `http_status`) / (ok + failed).
    pub refused_share: Option<f64>,
    /// Requests in flight at once, at most: the sum of each reactor's maximum, so that with several
    /// reactors it is an upper bound.
    pub in_flight_max: Option<u64>,
    /// Means of legs, where prefill and decode are apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<LegMeans>,
    /// 95 % intervals of the judged latencies.
    #[serde(default)]
    pub ci95: Intervals,
}

/// 95 % intervals `[low, high]` in ns; an end that is not supported is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is that of its figure")]
pub struct Intervals {
    pub ttft_p50: Interval,
    pub ttft_p95: Interval,
    pub ttft_p99: Interval,
    pub itl_p50: Interval,
    pub itl_p95: Interval,
    pub itl_p99: Interval,
    pub e2e_p50: Interval,
    pub e2e_p95: Interval,
}

impl Figures {
    /// The figures of one run.
    #[must_use]
    pub fn of(summary: &Summary) -> Self {
        let (rate, judged, served) = (&summary.rate, &summary.judged, &summary.latency);
        let (ttft, itl, e2e) = (&judged.ttft, &judged.itl, &judged.e2e);
        let reactors = &summary.client.reactors;
        Self {
            requests: Some(summary.requests.offered),
            offered_rps: rate.offered_rps,
            rps: rate.rps,
            achieved_share: rate.achieved_share,
            drain_rps: rate.drain_rps,
            output_tps: rate.output_tps,
            input_tps: rate.input_tps,
            goodput_rps: summary.goodput.as_ref().and_then(|goodput| goodput.rps),
            goodput_share: summary.goodput.as_ref().and_then(|goodput| goodput.share),
            per_user_tps: rate.per_user_tps.p50,
            ttft_p50: ttft.percentiles.p50,
            ttft_p95: ttft.percentiles.p95,
            ttft_p99: ttft.percentiles.p99,
            itl_p50: itl.percentiles.p50,
            itl_p95: itl.percentiles.p95,
            itl_p99: itl.percentiles.p99,
            e2e_p50: e2e.percentiles.p50,
            e2e_p95: e2e.percentiles.p95,
            served_ttft_p50: served.ttft.percentiles.p50,
            served_ttft_p95: served.ttft.percentiles.p95,
            served_e2e_p50: served.e2e.percentiles.p50,
            error_rate: summary.requests.error_rate,
            refused_share: refused_share(summary),
            in_flight_max: (!reactors.is_empty())
                .then(|| reactors.iter().map(|r| r.in_flight_max).fold(0, u64::saturating_add)),
            legs: LegMeans::of(summary),
            ci95: Intervals {
                ttft_p50: ttft.ci95.p50,
                ttft_p95: ttft.ci95.p95,
                ttft_p99: ttft.ci95.p99,
                itl_p50: itl.ci95.p50,
                itl_p95: itl.ci95.p95,
                itl_p99: itl.ci95.p99,
                e2e_p50: e2e.ci95.p50,
                e2e_p95: e2e.ci95.p95,
            },
        }
    }

    /// The median of each figure. A rate that some runs lack is the median of the others'; a judged
    /// latency that some runs lack is taken as longer than anything there. Intervals are those of
    /// the only run; of several there are none, their spread says more.
    #[must_use]
    pub fn median(of: &[&Self]) -> Self {
        let rate = |pick: fn(&Self) -> Option<f64>| {
            middle(of.iter().filter_map(|figures| pick(figures)).collect())
        };
        let judged = |pick: fn(&Self) -> Option<u64>| {
            middle_ns(of.iter().map(|figures| pick(figures)).collect())
        };
        let known = |pick: fn(&Self) -> Option<u64>| {
            middle_ns(of.iter().map(|figures| pick(figures)).filter(Option::is_some).collect())
        };
        Self {
            requests: known(|f| f.requests),
            offered_rps: rate(|f| f.offered_rps),
            rps: rate(|f| f.rps),
            achieved_share: rate(|f| f.achieved_share),
            drain_rps: rate(|f| f.drain_rps),
            output_tps: rate(|f| f.output_tps),
            input_tps: rate(|f| f.input_tps),
            goodput_rps: rate(|f| f.goodput_rps),
            goodput_share: rate(|f| f.goodput_share),
            per_user_tps: rate(|f| f.per_user_tps),
            ttft_p50: judged(|f| f.ttft_p50),
            ttft_p95: judged(|f| f.ttft_p95),
            ttft_p99: judged(|f| f.ttft_p99),
            itl_p50: judged(|f| f.itl_p50),
            itl_p95: judged(|f| f.itl_p95),
            itl_p99: judged(|f| f.itl_p99),
            e2e_p50: judged(|f| f.e2e_p50),
            e2e_p95: judged(|f| f.e2e_p95),
            served_ttft_p50: known(|f| f.served_ttft_p50),
            served_ttft_p95: known(|f| f.served_ttft_p95),
            served_e2e_p50: known(|f| f.served_e2e_p50),
            error_rate: rate(|f| f.error_rate),
            refused_share: rate(|f| f.refused_share),
            in_flight_max: known(|f| f.in_flight_max),
            legs: LegMeans::median(&of.iter().filter_map(|one| one.legs).collect::<Vec<_>>()),
            ci95: match of {
                [only] => only.ci95,
                _ => Intervals::default(),
            },
        }
    }
}

fn refused_share(summary: &Summary) -> Option<f64> {
    let requests = &summary.requests;
    let refused: u64 = REFUSALS.iter().filter_map(|class| requests.errors.get(*class)).sum();
    ratio(refused as f64, (requests.ok + requests.failed) as f64)
}

/// The median; of an even number of values the mean of the two in the middle.
pub(super) fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return finite(upper);
    }
    let lower = *values.get(values.len() / 2 - 1)?;
    finite(lower + (upper - lower) / 2.0)
}

/// The same in ns, `None` being longer than anything.
fn middle_ns(mut values: Vec<Option<u64>>) -> Option<u64> {
    values.sort_by_key(|value| value.unwrap_or(u64::MAX));
    let upper = (*values.get(values.len() / 2)?)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = (*values.get(values.len() / 2 - 1)?)?;
    Some(lower + (upper - lower) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_the_two_there() {
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(middle(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(middle(vec![]), None);
        assert_eq!(middle_ns(vec![Some(30), Some(10), Some(20)]), Some(20));
        assert_eq!(middle_ns(vec![Some(30), Some(10)]), Some(20));
        assert_eq!(middle_ns(vec![Some(u64::MAX), Some(u64::MAX)]), Some(u64::MAX));
        assert_eq!(middle_ns(vec![]), None);
    }

    #[test]
    fn an_unbounded_latency_is_longer_than_anything() {
        assert_eq!(middle_ns(vec![None, Some(10), Some(20)]), Some(20));
        assert_eq!(middle_ns(vec![None, None, Some(20)]), None);
        assert_eq!(middle_ns(vec![None, Some(20)]), None);
    }

    #[test]
    fn served_latencies_and_rates_are_medians_of_what_there_is() {
        let run = |rps, served| Figures { rps, served_e2e_p50: served, ..Figures::default() };
        let (a, b, c) = (run(Some(2.0), Some(10)), run(None, None), run(Some(4.0), Some(30)));
        let got = Figures::median(&[&a, &b, &c]);
        assert_eq!((got.rps, got.served_e2e_p50), (Some(3.0), Some(20)));
        assert_eq!(Figures::median(&[]), Figures::default());
    }

    #[test]
    fn intervals_are_those_of_an_only_run() {
        let mut one = Figures { ttft_p95: Some(7), ..Figures::default() };
        one.ci95.ttft_p95 = [Some(5), None];
        assert_eq!(Figures::median(&[&one]), one);
        let two = Figures::median(&[&one, &one]);
        assert_eq!((two.ttft_p95, two.ci95.ttft_p95), (Some(7), [None, None]));
    }
}
