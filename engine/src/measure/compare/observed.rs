//! What one run gives to be compared: values per request where they are known, figures where not.

use super::super::dependence::{BATCHES, BATCHES_MIN, dependence, long_run};
use super::super::distribution::Distribution;
use super::super::metric::Request;
use super::super::rate::Window;
use super::super::summary::Summary;
use super::super::{GoodputReport, LoadReport};
use super::resample::Resampled;
use crate::record::Row;
use crate::workload::{Metric, Percentile};

/// Completions that each part of a window has at least, on average.
const PART_MIN: usize = 4;
/// Latencies of which each request has one value.
const SINGLE: [Metric; 7] = [
    Metric::Ttfb,
    Metric::Ttft,
    Metric::Ttfo,
    Metric::Ttst,
    Metric::Tpot,
    Metric::Ntpot,
    Metric::E2e,
];

/// What one run gives to be compared. Requests are those of the measured part, in order of origin;
/// times are ns. What is not known is empty or `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The values of a latency, one of each successful request that has it.
    pub series: Vec<(Metric, Vec<u64>)>,
    /// The gaps of each successful request, with the tokens of the later event.
    pub gaps: Option<Vec<Vec<(u64, u32)>>>,
    /// Of each successful request with two output events: the time from the first to the last, the
    /// gaps, and the tokens after the first event.
    pub decodes: Vec<Decode>,
    /// Figures whose samples are not known.
    pub given: Vec<Given>,
    /// Requests and tokens per second.
    pub rate: Throughput,
    /// Failed requests among those that ended well or failed.
    pub failed: Option<Share>,
    /// Good ones among those that are good or missed a limit.
    pub good: Option<Share>,
}

/// What a request's tokens took after the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decode {
    /// From the first output event to the last, ns.
    pub ns: u64,
    /// Output events after the first.
    pub gaps: u64,
    /// Tokens after those of the first event.
    pub tokens: u64,
}

/// A figure whose sample is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Given {
    /// Of which latency.
    pub metric: Metric,
    /// Which figure of it.
    pub figure: Percentile,
    /// Its value, ns.
    pub value: f64,
    /// Its 95 % interval, ns; an end that is not known is `None`.
    pub ci95: [Option<f64>; 2],
}

/// What was served per second, and how evenly.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Throughput {
    /// Requests that ended well, per second.
    pub rps: Option<f64>,
    /// Output tokens per second.
    pub output_tps: Option<f64>,
    /// Requests that ended well in each of equal parts of the window.
    pub requests: Vec<f64>,
    /// Output tokens in each of them.
    pub tokens: Vec<f64>,
}

/// A share of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Requests of the kind.
    pub hits: u64,
    /// Requests at all.
    pub of: u64,
    /// So many independent ones would say as much of it.
    pub effective: f64,
}

/// A request that ended well, as throughput sees it; ns on any clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// Its first token.
    pub first: u64,
    /// Its last.
    pub last: u64,
    /// When it was complete.
    pub done: u64,
    /// Its output tokens.
    pub tokens: f64,
}

impl Share {
    /// Of requests in order, whether each is of the kind.
    #[must_use]
    pub fn of(marks: &[bool]) -> Self {
        let hits = marks.iter().filter(|&&mark| mark).count() as u64;
        let values: Vec<u64> = marks.iter().map(|&mark| u64::from(mark)).collect();
        let of = marks.len() as u64;
        let factor = if marks.len() < BATCHES_MIN { 1.0 } else { dependence(&values, &[0]) };
        Self { hits, of, effective: of as f64 / factor }
    }
}

impl Throughput {
    /// The same with how evenly `served` came between `start` and `end`. A request's tokens are spread
    /// evenly from its first to its last.
    #[must_use]
    pub fn spread(self, served: &[Served], start: u64, end: u64) -> Self {
        let parts = (served.len() / PART_MIN).min(BATCHES);
        let length = end.saturating_sub(start) as f64 / parts.max(1) as f64;
        if parts < BATCHES_MIN || length <= 0.0 {
            return self;
        }
        let place = |at: u64| (at.saturating_sub(start) as f64 / length).min(parts as f64);
        let (mut requests, mut tokens) = (vec![0.0; parts], vec![0.0; parts]);
        for one in served {
            if (start..=end).contains(&one.done)
                && let Some(part) = requests.get_mut((place(one.done) as usize).min(parts - 1))
            {
                *part += 1.0;
            }
            let (from, to) = (place(one.first), place(one.last));
            if to <= from {
                if let Some(part) = tokens.get_mut((from as usize).min(parts - 1)) {
                    *part += one.tokens;
                }
                continue;
            }
            for (part, number) in tokens.iter_mut().zip(0..).skip(from as usize) {
                let inside = to.min(f64::from(number) + 1.0) - from.max(f64::from(number));
                if inside <= 0.0 {
                    break;
                }
                *part += one.tokens * inside / (to - from);
            }
        }
        Self { requests, tokens, ..self }
    }
}

/// How far the logarithm of a rate may be off, by its parts: batch means.
pub(super) fn rate_error(parts: &[f64]) -> Option<Resampled> {
    let count = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / count;
    let error = (long_run(parts) / count).sqrt() / mean;
    (parts.len() >= BATCHES_MIN && error.is_finite())
        .then_some(Resampled { error, df: count - 1.0 })
}

impl Observed {
    /// What a run of ours gives: `rows` are those of its `requests.jsonl`, in any order.
    #[must_use]
    pub fn of(summary: &Summary, rows: impl IntoIterator<Item = Row>) -> Self {
        let is_closed = matches!(summary.workload.load, LoadReport::Closed { .. });
        let stream = summary.target.stream;
        let mut requests: Vec<Timed> = rows
            .into_iter()
            .map(|row| (Request::of(&row, is_closed, stream), row.chunks.map(gaps)))
            .collect();
        requests.sort_by_key(|(request, _)| (request.origin, request.index));
        let window = &summary.run.window;
        let window = Window { start: window.start_ns, end: window.end_ns };
        let rate = Throughput {
            rps: summary.rate.rps,
            output_tps: summary.rate.output_tps,
            ..Throughput::default()
        };
        let rate = rate.spread(&served(&requests), window.start, window.end);
        requests.retain(|(request, _)| request.is_measured());
        let settled: Vec<bool> = requests
            .iter()
            .filter(|(request, _)| request.is_ok() || request.is_failed())
            .map(|(request, _)| request.is_failed())
            .collect();
        let good = summary.goodput.as_ref().map(|goodput| good(goodput, &requests));
        requests.retain(|(request, _)| request.is_ok());
        let decodes: Vec<Decode> = requests.iter().filter_map(|(one, _)| decode(one)).collect();
        let series: Vec<(Metric, Vec<u64>)> =
            SINGLE.map(|metric| (metric, values(&requests, metric))).into();
        // Rows hold all events or none: `--chunks` is the whole run's.
        let gaps: Option<Vec<Vec<(u64, u32)>>> =
            requests.into_iter().map(|(_, gaps)| gaps).collect::<Option<Vec<_>>>();
        let gaps = gaps.filter(|gaps| !gaps.is_empty());
        let given = given(summary, &series, gaps.is_some());
        let counts = &summary.requests;
        let failed = match counts.ok + counts.failed {
            _ if !settled.is_empty() => Some(Share::of(&settled)),
            0 => None,
            of => Some(Share { hits: counts.failed, of, effective: of as f64 }),
        };
        Self { series, gaps, decodes, given, rate, failed, good }
    }

    /// Whether every output event carried one token, so that ITL is ICL again.
    #[must_use]
    pub fn is_token_per_event(&self) -> bool {
        let of = |metric| self.given.iter().filter(move |given| given.metric == metric);
        let is_same = |given: &Given| self.given(given.figure, Metric::Icl).map(|icl| icl.value);
        let mut gaps = self.gaps.iter().flatten().flatten();
        (self.gaps.is_some() || of(Metric::Itl).next().is_some())
            && gaps.all(|&(_, tokens)| tokens == 1)
            && of(Metric::Itl).all(|given| is_same(given) == Some(given.value))
            && self.decodes.iter().all(|one| one.gaps == one.tokens)
    }

    /// The values of a latency, if any.
    #[must_use]
    pub fn values(&self, metric: Metric) -> Option<&[u64]> {
        let found = self.series.iter().find(|(its, _)| *its == metric);
        found.map(|(_, values)| values.as_slice()).filter(|values| !values.is_empty())
    }

    /// A figure whose sample is not known.
    #[must_use]
    pub(super) fn given(&self, figure: Percentile, metric: Metric) -> Option<Given> {
        let is_it = |one: &&Given| one.metric == metric && one.figure == figure;
        self.given.iter().find(is_it).copied()
    }
}

/// A request, and its gaps where they are known.
type Timed = (Request, Option<Vec<(u64, u32)>>);

/// The gaps between output events, each with the tokens of the later one.
fn gaps(chunks: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
    chunks.windows(2).map(|pair| (pair[1].0.saturating_sub(pair[0].0), pair[1].1)).collect()
}

fn served(requests: &[Timed]) -> Vec<Served> {
    let of = |(request, _): &Timed| {
        let done = request.completed()?;
        let last = request.last_token.get().unwrap_or(done);
        let first = request.first_token.get().unwrap_or(last);
        let tokens = request.output_tokens.get().unwrap_or(0) as f64;
        request.is_ok().then_some(Served { first, last, done, tokens })
    };
    requests.iter().filter_map(of).collect()
}

fn values(requests: &[Timed], metric: Metric) -> Vec<u64> {
    requests.iter().filter_map(|(request, _)| request.value(metric)).collect()
}

fn decode(request: &Request) -> Option<Decode> {
    let first = request.first_tokens.map_or(1, u64::from);
    Some(Decode {
        ns: request.decode()?,
        gaps: u64::from(request.events.checked_sub(1).filter(|&gaps| gaps > 0)?),
        tokens: request.output_tokens.get().unwrap_or(0).saturating_sub(first),
    })
}

/// The goodput share as the run gives it; its dependence from failures and from each limit.
fn good(goodput: &GoodputReport, requests: &[Timed]) -> Share {
    let limits: Vec<(Metric, u64)> = goodput
        .objectives
        .iter()
        .filter_map(|one| Some((one.metric.parse().ok()?, one.limit_ns)))
        .collect();
    let is_good = |request: &Request| {
        let keeps = |&(metric, limit): &(Metric, u64)| {
            request.value(metric).is_none_or(|value| value <= limit)
        };
        request.is_ok() && limits.iter().all(keeps)
    };
    let marks: Vec<bool> = requests.iter().map(|(request, _)| is_good(request)).collect();
    let seen = Share::of(&marks);
    let factor = seen.of as f64 / seen.effective.max(1.0);
    let effective = goodput.of as f64 / factor.max(1.0);
    Share { hits: goodput.good, of: goodput.of, effective }
}

/// The figures of the summary whose samples the rows do not hold: all without rows, pooled gaps
/// without `--chunks`.
fn given(summary: &Summary, series: &[(Metric, Vec<u64>)], has_gaps: bool) -> Vec<Given> {
    let latency = &summary.latency;
    let all: [(Metric, &Distribution); 9] = [
        (Metric::Ttfb, &latency.ttfb),
        (Metric::Ttft, &latency.ttft),
        (Metric::Ttfo, &latency.ttfo),
        (Metric::Ttst, &latency.ttst),
        (Metric::Icl, &latency.icl),
        (Metric::Itl, &latency.itl),
        (Metric::Tpot, &latency.tpot),
        (Metric::Ntpot, &latency.ntpot),
        (Metric::E2e, &latency.e2e),
    ];
    let is_known = |metric: Metric| match metric {
        Metric::Icl | Metric::Itl => has_gaps,
        _ => series.iter().any(|(its, values)| *its == metric && !values.is_empty()),
    };
    let figures = |(metric, distribution): (Metric, &Distribution)| {
        let percentile = |thousandths: u64| {
            let value = *distribution.percentiles.at(thousandths)?;
            let ci95 = distribution.ci95.at(thousandths).copied().unwrap_or_default();
            let figure = Percentile::Quantile(thousandths as f64 / 1000.0);
            let ci95 = ci95.map(|end| end.map(|ns| ns as f64));
            Some(Given { metric, figure, value: value? as f64, ci95 })
        };
        let mean = distribution.mean.map(|value| Given {
            metric,
            figure: Percentile::Mean,
            value,
            ci95: [None, None],
        });
        let percentiles = [500, 750, 900, 950, 990, 999].into_iter().filter_map(percentile);
        percentiles.chain(mean).collect::<Vec<_>>()
    };
    all.into_iter().filter(|(metric, _)| !is_known(*metric)).flat_map(figures).collect()
}
