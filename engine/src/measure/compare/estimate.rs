//! A figure of one side, and how far it may be off.

use super::super::dependence::dependence;
use super::Basis;
use super::observed::{Observed, Share, rate_error};
use super::quantity::Quantity;
use super::resample::{Resampled, Sample, ratio_error};
use crate::workload::{Metric, Percentile};

/// How far a time of ours may be off whatever the sample, ns: uniform up to so much on either side, as
/// `tokclock baseline` finds it on a quiet host.
const TIME_NS: f64 = 10_000.0;
/// The same of a percentile of pooled gaps that comes from a histogram, as a share: its buckets have
/// three digits.
const BUCKET: f64 = 0.000_5;
/// The normal quantile of the 95 % intervals that a summary gives.
const Z95: f64 = 1.959_964;
/// Degrees of freedom that the interval of a summary is taken to have.
const GIVEN_DF: f64 = 20.0;

/// A figure of one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Estimate {
    /// Something above 0, of which the ratio to another is taken.
    Ratio {
        /// Its value.
        value: f64,
        /// How far its logarithm may be off; `None` where nobody knows.
        spread: Option<Spread>,
        /// From what that is known.
        basis: Basis,
    },
    /// A share.
    Share(Share),
}

/// How far the logarithm of a figure may be off on either side: a standard error for each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// Below; `None` where the sample supports no such end.
    pub(super) below: Option<f64>,
    /// Above.
    pub(super) above: Option<f64>,
    /// Degrees of freedom with which they are known.
    pub(super) df: f64,
}

impl Spread {
    fn even(resampled: Resampled) -> Self {
        let error = Some(resampled.error);
        Self { below: error, above: error, df: resampled.df }
    }

    /// With an error besides that no sample shows.
    fn and(self, more: f64) -> Self {
        let wider = |error: Option<f64>| error.map(|error| error.hypot(more));
        Self { below: wider(self.below), above: wider(self.above), ..self }
    }
}

/// A quantity and what a side says of it.
pub(super) type Found = (Quantity, Option<Estimate>);

/// What several runs that are one side say of `asked`, their requests taken as one sample.
///
/// Without a seed nothing is drawn again: values alone, without errors.
pub(super) fn estimates(runs: &[&Observed], asked: &[Quantity], seed: Option<u64>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::with_capacity(asked.len());
    for &quantity in asked {
        if found.iter().any(|(known, _)| *known == quantity) {
            continue;
        }
        match quantity {
            Quantity::Latency(_, metric) => {
                let of_metric = asked.iter().filter_map(|other| match other {
                    Quantity::Latency(figure, its) if *its == metric => Some(*figure),
                    _ => None,
                });
                let figures = of_metric.collect();
                found.extend(latencies(runs, metric, figures, seed));
            }
            _ => found.push((quantity, rate_or_share(runs, quantity))),
        }
    }
    found
}

/// The figures of one metric together: a sample is drawn again once for all of them.
fn latencies(
    runs: &[&Observed],
    metric: Metric,
    mut figures: Vec<Percentile>,
    seed: Option<u64>,
) -> Vec<Found> {
    figures.sort_by(|a, b| share_of(*a).total_cmp(&share_of(*b)));
    figures.dedup();
    let quantiles: Vec<f64> =
        figures.iter().map(|figure| share_of(*figure)).filter(|q| *q <= 1.0).collect();
    let sampled = sampled(runs, metric, &quantiles, seed);
    let of = |(place, &figure): (usize, &Percentile)| {
        let place = if figure == Percentile::Mean { quantiles.len() } else { place };
        let estimate = match &sampled {
            Some((values, errors, basis)) => values.get(place).map(|&value| Estimate::Ratio {
                value,
                spread: errors.get(place).copied().flatten().map(Spread::even),
                basis: *basis,
            }),
            None => {
                mean_of_decodes(runs, figure, metric, seed).or_else(|| given(runs, figure, metric))
            }
        };
        (Quantity::Latency(figure, metric), estimate.map(|one| widened(one, metric)))
    };
    figures.iter().enumerate().map(of).collect()
}

/// The share of samples below a percentile; the mean comes after all of them.
fn share_of(figure: Percentile) -> f64 {
    if let Percentile::Quantile(q) = figure { q } else { 2.0 }
}

type Sampled = (Vec<f64>, Vec<Option<Resampled>>, Basis);

/// The percentiles and then the mean of samples that are known, in order of origin.
fn sampled(
    runs: &[&Observed],
    metric: Metric,
    quantiles: &[f64],
    seed: Option<u64>,
) -> Option<Sampled> {
    let (sample, basis) = match metric {
        Metric::Icl | Metric::Itl => {
            let known = runs.iter().map(|run| run.gaps.as_deref()).collect::<Option<Vec<_>>>()?;
            // Other tools know gaps, but not what came with each.
            let is_bare = |&(_, tokens): &(u64, u32)| tokens == 0;
            if metric == Metric::Itl && known.iter().copied().flatten().flatten().any(is_bare) {
                return None;
            }
            let requests: Vec<Vec<(u64, u32)>> =
                known.concat().iter().map(|gaps| weighted(gaps, metric)).collect();
            (Sample::of_gaps(requests.iter().map(Vec::as_slice)), Basis::Gaps)
        }
        _ => {
            let known = runs.iter().map(|run| run.values(metric)).collect::<Option<Vec<_>>>()?;
            (Sample::of_requests(&known.concat()), Basis::Requests)
        }
    };
    let values = sample.values(quantiles)?;
    let errors = seed.map(|seed| sample.errors(quantiles, seed)).unwrap_or_default();
    Some((values, errors, basis))
}

/// The samples of a request's gaps: one for each, or one for each token.
fn weighted(gaps: &[(u64, u32)], metric: Metric) -> Vec<(u64, u32)> {
    let of = |&(gap, tokens): &(u64, u32)| match metric {
        Metric::Itl => (gap / u64::from(tokens.max(1)), tokens.max(1)),
        _ => (gap, 1),
    };
    gaps.iter().map(of).collect()
}

/// The mean of gaps, which each request's first and last event tell: `Σ time / Σ gaps`, or `/ Σ tokens`.
fn mean_of_decodes(
    runs: &[&Observed],
    figure: Percentile,
    metric: Metric,
    seed: Option<u64>,
) -> Option<Estimate> {
    if figure != Percentile::Mean || !matches!(metric, Metric::Icl | Metric::Itl) {
        return None;
    }
    let pair = |one: &super::Decode| {
        let parts = if metric == Metric::Icl { one.gaps } else { one.tokens };
        (one.ns as f64, parts as f64)
    };
    let pairs: Vec<(f64, f64)> =
        runs.iter().flat_map(|run| &run.decodes).map(pair).filter(|pair| pair.1 > 0.0).collect();
    let sum = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let value = sum.0 / sum.1;
    let spread = seed.and_then(|seed| ratio_error(&pairs, seed)).map(Spread::even);
    (value > 0.0 && value.is_finite()).then_some(Estimate::Ratio {
        value,
        spread,
        basis: Basis::Requests,
    })
}

/// What the summaries give: the mean of the logarithms, with the mean of their errors.
fn given(runs: &[&Observed], figure: Percentile, metric: Metric) -> Option<Estimate> {
    let each = runs
        .iter()
        .map(|run| {
            let given = run.given(figure, metric).filter(|given| given.value > 0.0)?;
            let log = given.value.ln();
            // Intervals of pooled gaps take requests as independent, which those side by side are not.
            let factor = run
                .values(Metric::Tpot)
                .map_or(1.0, |values| dependence(values, &middle(values)).sqrt());
            let far = |end: Option<f64>| {
                let end = end.filter(|end| *end > 0.0)?;
                Some((end.ln() - log).abs() / Z95 * factor)
            };
            Some((log, given.ci95.map(far)))
        })
        .collect::<Option<Vec<_>>>()?;
    let count = each.len() as f64;
    let value = match runs {
        [run] => run.given(figure, metric)?.value,
        _ => (each.iter().map(|one| one.0).sum::<f64>() / count).exp(),
    };
    let side = |end: usize| {
        let ends = each.iter().map(|one: &(f64, [Option<f64>; 2])| one.1[end]);
        let squares = ends.map(|error| error.map(|error| error * error)).sum::<Option<f64>>();
        squares.map(|squares| squares.sqrt() / count)
    };
    let (below, above) = (side(0), side(1));
    let spread = (below.is_some() || above.is_some())
        .then_some(Spread { below, above, df: GIVEN_DF }.and(BUCKET / 3.0_f64.sqrt()));
    Some(Estimate::Ratio { value, spread, basis: Basis::Summary })
}

/// The median of values.
fn middle(values: &[u64]) -> Vec<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().into_iter().collect()
}

/// With what a time may be off besides.
fn widened(estimate: Estimate, metric: Metric) -> Estimate {
    // Errors of single times cancel in what is counted over many tokens.
    let is_single = !matches!(metric, Metric::Tpot | Metric::Ntpot);
    match estimate {
        Estimate::Ratio { value, spread: Some(spread), basis } if is_single && value > 0.0 => {
            let spread = Some(spread.and(TIME_NS / 3.0_f64.sqrt() / value));
            Estimate::Ratio { value, spread, basis }
        }
        other => other,
    }
}

/// A rate is the mean of those of the runs; a share counts the requests of all of them.
fn rate_or_share(runs: &[&Observed], quantity: Quantity) -> Option<Estimate> {
    let share = |pick: fn(&Observed) -> Option<Share>| {
        let all = runs.iter().map(|run| pick(run)).collect::<Option<Vec<_>>>()?;
        let sum = all.into_iter().reduce(|sum, one| Share {
            hits: sum.hits.saturating_add(one.hits),
            of: sum.of.saturating_add(one.of),
            effective: sum.effective + one.effective,
        });
        sum.filter(|sum| sum.of > 0).map(Estimate::Share)
    };
    let is_requests = match quantity {
        Quantity::ErrorRate => return share(|run| run.failed),
        Quantity::GoodputShare => return share(|run| run.good),
        _ => quantity == Quantity::Rps,
    };
    let count = runs.len() as f64;
    let (mut sum, mut squares, mut df) = (0.0, Some(0.0), f64::INFINITY);
    for run in runs {
        let rate = &run.rate;
        let (value, parts) = match is_requests {
            true => (rate.rps, &rate.requests),
            false => (rate.output_tps, &rate.tokens),
        };
        sum += value.filter(|value| *value > 0.0)?;
        let error = rate_error(parts);
        squares = squares.zip(error).map(|(squares, one)| squares + one.error * one.error);
        df = error.map_or(df, |one| df.min(one.df));
    }
    let error = squares.map(|squares| squares.sqrt() / count);
    let spread = error.map(|error| Spread::even(Resampled { error, df: df * count }));
    Some(Estimate::Ratio { value: sum / count, spread, basis: Basis::Parts })
}
