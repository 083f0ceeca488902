//! Percentiles in which a request that failed, was dropped or was cut took longer than anything.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::distribution::{ByPercentile, bucket, nearest, rank};
use super::interval::{Interval, order_statistics};
use super::metric::Request;
use crate::record::Outcome;
use crate::workload::{Metric, Percentile};

/// Stands for "longer than anything" among values in ns.
const ENDLESS: u64 = u64::MAX;

/// The judged figures of one metric. Never mixed with those of the successful.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedDistribution {
    /// Unit of every value here: `ns`.
    pub unit: String,
    /// Samples, those that count as longer than anything included.
    pub count: u64,
    /// Samples that count as longer than anything.
    pub unbounded: u64,
    /// Percentiles by nearest rank; null where one falls among the unbounded.
    #[serde(flatten)]
    pub percentiles: ByPercentile<Option<u64>>,
    /// Where a percentile is null for that reason: the least that it can be.
    pub at_least: ByPercentile<Option<u64>>,
    /// 95 % intervals; an end among the unbounded or beyond the sample is null.
    pub ci95: ByPercentile<Interval>,
}

/// The judged figures of every metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub struct Judged {
    pub ttfb: JudgedDistribution,
    pub ttft: JudgedDistribution,
    pub ttfo: JudgedDistribution,
    pub ttst: JudgedDistribution,
    pub icl: JudgedDistribution,
    pub itl: JudgedDistribution,
    pub tpot: JudgedDistribution,
    pub ntpot: JudgedDistribution,
    pub e2e: JudgedDistribution,
}

impl Judged {
    /// What `of` gives for each metric.
    pub(super) fn of(of: impl Fn(Metric) -> JudgedDistribution) -> Self {
        Self {
            ttfb: of(Metric::Ttfb),
            ttft: of(Metric::Ttft),
            ttfo: of(Metric::Ttfo),
            ttst: of(Metric::Ttst),
            icl: of(Metric::Icl),
            itl: of(Metric::Itl),
            tpot: of(Metric::Tpot),
            ntpot: of(Metric::Ntpot),
            e2e: of(Metric::E2e),
        }
    }
}

/// One figure, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Figure {
    /// No sample at all.
    Absent,
    /// Its value, ns.
    Known(f64),
    /// It lies among requests that failed or were dropped; what they would have taken is unknown,
    /// but not less than this, ns.
    Endless(Option<u64>),
    /// It lies among requests that were cut while they went on, and is at least this, ns.
    AtLeast(u64),
}

/// The samples of one metric over the measured part.
#[derive(Debug, Clone)]
pub(super) struct Trial<'a> {
    known: Known<'a>,
    /// For each cut request, the least that its value can be, ascending.
    cut: Vec<u64>,
    /// Samples of cut requests of which nothing is known.
    unaged: u64,
    /// Samples of requests that failed, were dropped or left no record.
    endless: u64,
}

#[derive(Debug, Clone)]
enum Known<'a> {
    /// In order of origin (cut and failed ones as `ENDLESS`), and the known ones sorted.
    Values {
        in_order: Vec<u64>,
        sorted: Vec<u64>,
    },
    Pooled(&'a Histogram<u64>),
}

impl Trial<'static> {
    /// `metric`, one value per request. `requests` are the measured ones in order of origin;
    /// `lost` is the number of arrivals without one (dropped, or without a record). A successful
    /// request that has no such value is left out. `end` is when the run ended.
    #[must_use]
    pub(super) fn of_requests(metric: Metric, requests: &[&Request], lost: u64, end: u64) -> Self {
        let (mut in_order, mut cut, mut endless) = (Vec::new(), Vec::new(), lost);
        for request in requests {
            match request.outcome {
                Outcome::Ok => in_order.extend(request.value(metric).map(|v| v.min(ENDLESS - 1))),
                Outcome::Error => {
                    endless += 1;
                    in_order.push(ENDLESS);
                }
                Outcome::Cancelled => {
                    cut.push(request.at_least(metric, end));
                    in_order.push(ENDLESS);
                }
            }
        }
        let mut sorted: Vec<u64> = in_order.iter().copied().filter(|&v| v != ENDLESS).collect();
        sorted.sort_unstable();
        cut.sort_unstable();
        Self { known: Known::Values { in_order, sorted }, cut, unaged: 0, endless }
    }
}

impl<'a> Trial<'a> {
    /// Gaps pooled over all requests. A bad request stands for as many samples as a good one has on
    /// average, so that it weighs in pooled figures as it does in those per request. `ok`, `failed`
    /// and `cut` count requests (dropped ones are among the failed).
    #[must_use]
    pub(super) fn of_gaps(pooled: &'a Histogram<u64>, ok: u64, failed: u64, cut: u64) -> Self {
        let each = |requests: u64| {
            let samples = u128::from(pooled.len()) * u128::from(requests);
            match u64::try_from(samples.div_ceil(u128::from(ok.max(1)))) {
                Ok(0) | Err(_) => requests,
                Ok(samples) => samples,
            }
        };
        let (unaged, endless) = (each(cut), each(failed));
        Self { known: Known::Pooled(pooled), cut: Vec::new(), unaged, endless }
    }

    /// Values of single requests that were counted in a histogram; of `failed` and `cut` requests only
    /// the number is known.
    #[must_use]
    pub(super) fn of_counted(values: &'a Histogram<u64>, failed: u64, cut: u64) -> Self {
        Self { known: Known::Pooled(values), cut: Vec::new(), unaged: cut, endless: failed }
    }

    /// The figure that `percentile` names.
    #[must_use]
    pub(super) fn figure(&self, percentile: Percentile) -> Figure {
        let count = self.count();
        if count == 0 {
            return Figure::Absent;
        }
        match percentile {
            Percentile::Quantile(q) => {
                let exact = q * count as f64;
                // A product such as 0.07 * 100 may lie a hair above its true value.
                let at = (exact - exact * 1e-12).ceil().clamp(1.0, count as f64) as u64;
                self.at_rank(at)
            }
            Percentile::Max => self.at_rank(count),
            Percentile::Mean => self.mean(),
        }
    }

    /// The figures that are written down.
    #[must_use]
    pub(super) fn distribution(&self) -> JudgedDistribution {
        let count = self.count();
        let figures = ByPercentile::from_fn(|p| match count {
            0 => Figure::Absent,
            _ => self.at_rank(rank(count, p)),
        });
        JudgedDistribution {
            unit: "ns".into(),
            count,
            unbounded: count - self.known_count(),
            percentiles: ByPercentile::from_fn(|p| self.known_at(rank(count, p))),
            at_least: ByPercentile::from_fn(|p| match figures.at(p) {
                Some(Figure::Endless(bound)) => *bound,
                Some(Figure::AtLeast(bound)) => Some(*bound),
                _ => None,
            }),
            ci95: self.intervals(),
        }
    }

    /// Samples that are longer than `limit`, ns, and those of which it is known: a cut request that was
    /// waited for no longer than that is on neither side.
    #[must_use]
    pub(super) fn beyond(&self, limit: u64) -> (u64, u64) {
        let longer = match &self.known {
            Known::Values { sorted, .. } => {
                (sorted.len() - sorted.partition_point(|&value| value <= limit)) as u64
            }
            Known::Pooled(pooled) => pooled.len() - pooled.count_between(0, limit),
        };
        let waited = (self.cut.len() - self.cut.partition_point(|&age| age <= limit)) as u64;
        let out = waited + self.endless;
        (longer + out, self.known_count() + out)
    }

    /// Whether a request failed or was dropped.
    #[must_use]
    pub(super) fn is_endless(&self) -> bool {
        self.endless > 0
    }

    /// The `q`-quantile of the known samples.
    #[must_use]
    pub(super) fn known_quantile(&self, q: f64) -> Option<u64> {
        let count = self.known_count();
        (count > 0)
            .then(|| (q * count as f64).ceil().clamp(1.0, count as f64) as u64)
            .and_then(|at| self.known_at(at))
    }

    /// One value per request in order of origin, cut and failed ones as the largest number; nothing of
    /// pooled gaps.
    #[must_use]
    pub(super) fn in_order(&self) -> &[u64] {
        match &self.known {
            Known::Values { in_order, .. } => in_order,
            Known::Pooled(_) => &[],
        }
    }

    /// Mean of pooled gaps, ns, and their number.
    #[must_use]
    pub(super) fn pooled_mean(&self) -> Option<(f64, u64)> {
        match &self.known {
            Known::Pooled(pooled) if !pooled.is_empty() => Some((pooled.mean(), pooled.len())),
            _ => None,
        }
    }

    fn at_rank(&self, at: u64) -> Figure {
        let known = self.known_count();
        if at <= known {
            return self.known_at(at).map_or(Figure::Absent, |value| Figure::Known(value as f64));
        }
        let top = self.largest_known();
        let among_cut = at - known;
        if among_cut <= self.unaged {
            return Figure::AtLeast(top.unwrap_or(0));
        }
        match nearest(&self.cut, among_cut - self.unaged) {
            // Longer than anything known, and longer than it had been waited for.
            Some(age) => Figure::AtLeast(age.max(top.unwrap_or(0))),
            None => Figure::Endless(self.cut.last().copied().max(top)),
        }
    }

    /// The value at a rank among the known ones.
    fn known_at(&self, at: u64) -> Option<u64> {
        match &self.known {
            Known::Values { sorted, .. } => nearest(sorted, at),
            Known::Pooled(pooled) => bucket(pooled, at),
        }
    }

    fn mean(&self) -> Figure {
        if self.endless > 0 {
            return Figure::Endless(None);
        }
        let top = self.largest_known().unwrap_or(0);
        let known = self.known_count() as f64;
        let sum = match &self.known {
            Known::Values { sorted, .. } => {
                sorted.iter().map(|&v| u128::from(v)).sum::<u128>() as f64
            }
            Known::Pooled(pooled) => pooled.mean() * known,
        };
        if self.cut.is_empty() && self.unaged == 0 {
            return Figure::Known(sum / known);
        }
        let aged: f64 = self.cut.iter().map(|&age| age.max(top) as f64).sum();
        let least = aged + self.unaged as f64 * top as f64;
        Figure::AtLeast(((sum + least) / self.count() as f64) as u64)
    }

    fn intervals(&self) -> ByPercentile<Interval> {
        let Known::Values { in_order, sorted } = &self.known else {
            return ByPercentile::default();
        };
        // Arrivals without a row have no place in the order; at the end they are as good.
        let lost = self.count() as usize - in_order.len();
        let mut values = in_order.clone();
        values.extend(std::iter::repeat_n(ENDLESS, lost));
        let mut all = sorted.clone();
        all.resize(values.len(), ENDLESS);
        let ci = order_statistics(&values, &all);
        ByPercentile::from_fn(|p| {
            ci.at(p).map_or([None, None], |ends| ends.map(|end| end.filter(|&ns| ns != ENDLESS)))
        })
    }

    fn known_count(&self) -> u64 {
        match &self.known {
            Known::Values { sorted, .. } => sorted.len() as u64,
            Known::Pooled(pooled) => pooled.len(),
        }
    }

    fn largest_known(&self) -> Option<u64> {
        match &self.known {
            Known::Values { sorted, .. } => sorted.last().copied(),
            Known::Pooled(pooled) => (!pooled.is_empty()).then(|| pooled.max()),
        }
    }

    fn count(&self) -> u64 {
        self.known_count() + self.unaged + self.cut.len() as u64 + self.endless
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{MS, cut, failed, open, row};
    use crate::record::{ErrorClass, Row, histogram};

    fn trial(rows: &[Row], lost: u64) -> Trial<'static> {
        let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, &open(1.0))).collect();
        let refs: Vec<&Request> = requests.iter().collect();
        Trial::of_requests(Metric::E2e, &refs, lost, 60_000 * MS)
    }

    #[test]
    fn failures_are_endless_and_not_five_millisecond_samples() {
        let mut rows: Vec<Row> = (1..=18).map(|i| row(i, &[i * 100])).collect();
        rows.push(failed(19, ErrorClass::HttpStatus, 0, 5));
        rows.push(failed(20, ErrorClass::HttpStatus, 0, 5));
        let judged = trial(&rows, 0).distribution();
        assert_eq!((judged.count, judged.unbounded), (20, 2));
        assert_eq!(judged.percentiles.p50, Some(1000 * MS));
        assert_eq!(judged.percentiles.p90, Some(1800 * MS));
        assert_eq!(judged.percentiles.p95, None);
        assert_eq!(judged.at_least.p95, Some(1800 * MS));
        assert_eq!(judged.at_least.p90, None, "only where the percentile is null");
    }

    #[test]
    fn the_largest_number_is_still_a_known_value() {
        let mut longest = row(0, &[10]);
        longest.last_token = Some(u64::MAX);
        let judged = trial(&[longest], 1).distribution();
        assert_eq!((judged.count, judged.unbounded), (2, 1));
        assert_eq!(judged.percentiles.p50, Some(ENDLESS - 1));
    }

    #[test]
    fn dropped_arrivals_weigh_like_failures() {
        let rows: Vec<Row> = (1..=9).map(|i| row(i, &[i * 100])).collect();
        let judged = trial(&rows, 1).distribution();
        assert_eq!((judged.count, judged.percentiles.p90), (10, Some(900 * MS)));
        assert_eq!((judged.percentiles.p95, judged.at_least.p95), (None, Some(900 * MS)));
    }

    #[test]
    fn a_cut_request_is_at_least_as_long_as_it_was_waited_for() {
        let mut rows: Vec<Row> = (1..=8).map(|i| row(i, &[i * 100])).collect();
        rows.push(cut(9, 0, &[], 30_000));
        rows.push(cut(10, 0, &[], 50));
        let trial = trial(&rows, 0);
        assert_eq!(trial.figure(Percentile::Quantile(0.9)), Figure::AtLeast(800 * MS));
        assert_eq!(trial.figure(Percentile::Max), Figure::AtLeast(30_000 * MS));
        assert_eq!(trial.figure(Percentile::Quantile(0.8)), Figure::Known(800e6));
        assert_eq!(trial.figure(Percentile::Mean), Figure::AtLeast(3_440 * MS));
    }

    #[test]
    fn an_answer_without_that_metric_is_left_out() {
        let rows = [row(0, &[10]), row(1, &[10, 20])];
        let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, &open(1.0))).collect();
        let refs: Vec<&Request> = requests.iter().collect();
        assert_eq!(Trial::of_requests(Metric::Tpot, &refs, 0, 0).distribution().count, 1);
    }

    #[test]
    fn a_bad_request_weighs_in_pooled_gaps_as_a_good_one() {
        let mut pooled = histogram();
        pooled.record_n(1000, 180).unwrap();
        let trial = Trial::of_gaps(&pooled, 18, 2, 0);
        let judged = trial.distribution();
        assert_eq!((judged.count, judged.unbounded), (200, 20));
        assert!(judged.percentiles.p90.is_some());
        assert_eq!(judged.percentiles.p95, None);
        assert!(matches!(trial.figure(Percentile::Quantile(0.95)), Figure::Endless(Some(_))));
        assert_eq!(Trial::of_gaps(&histogram(), 0, 0, 0).figure(Percentile::Max), Figure::Absent);
        assert_eq!(Trial::of_gaps(&histogram(), 0, 5, 0).distribution().count, 5);
    }
}
