//! How sure a run makes it that an objective holds: as shares of samples beyond a limit, so that what
//! several runs say can be added up.

use serde::{Deserialize, Serialize};

use super::clusters::clustered;
use super::dependence::{BATCHES, BATCHES_MIN, dependence, long_run};
use super::goodput::GoodputReport;
use super::interval::Pool;
use super::judged::Trial;
use super::metric::Request;
use super::part::Part;
use super::summary::Requests;
use crate::record::Tally;
use crate::workload::{Aim, Metric, Objective, Percentile};

/// Where in the law of TPOT the dependence of gaps is looked for besides.
const TPOT_PLACES: [f64; 3] = [0.75, 0.9, 0.95];

/// What a run says of one objective.
///
/// "p95 is below L" is the same as "at most 5 % of the samples are not below L", so every percentile
/// is judged as a share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// Of a share of samples.
    Share {
        /// Samples that are beyond the limit.
        misses: u64,
        /// Samples of which it is known on which side they are.
        samples: u64,
        /// So many independent samples would say as much.
        effective: f64,
        /// The share of misses that the objective allows; with 0 a single one breaks it.
        allowed: f64,
    },
    /// Of a mean.
    Mean {
        /// The mean, ns.
        mean_ns: f64,
        /// Its standard error, from the means of batches, ns; null with too few samples.
        error_ns: Option<f64>,
        /// Samples.
        samples: u64,
        /// The limit, ns.
        limit_ns: u64,
    },
}

/// What is decided on an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// The sample is too small to say.
    Unsure,
}

impl Evidence {
    /// What both say together; `None` if they are not about the same.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (
                Self::Share { misses, samples, effective, allowed },
                Self::Share { misses: more, samples: of, effective: worth, allowed: same },
            ) => {
                let (one, two) = (samples as f64, of as f64);
                let all = (one + two).max(1.0);
                // The variance of the share of all samples, in that of an independent one. A run that
                // saw one long burst makes the sum worth little, however quiet the others were.
                let of_share =
                    (one / all).powi(2) / effective.max(1.0) + (two / all).powi(2) / worth.max(1.0);
                Some(Self::Share {
                    misses: misses.saturating_add(more),
                    samples: samples.saturating_add(of),
                    effective: if of_share > 0.0 { 1.0 / of_share } else { 0.0 },
                    allowed: allowed.min(same),
                })
            }
            (
                Self::Mean { mean_ns: one, error_ns: a, samples: n, limit_ns },
                Self::Mean { mean_ns: two, error_ns: b, samples: m, .. },
            ) => {
                let all = (n + m).max(1) as f64;
                let (x, y) = (n as f64 / all, m as f64 / all);
                Some(Self::Mean {
                    mean_ns: one * x + two * y,
                    error_ns: a.zip(b).map(|(a, b)| (a * x).hypot(b * y)),
                    samples: n + m,
                    limit_ns,
                })
            }
            // A mean that cannot be told, since a request failed, is a share that allows none.
            (share @ Self::Share { .. }, _) | (_, share) => Some(share),
        }
    }

    /// The decision, with `z` the normal quantile of the certainty wanted on each side. Shares by
    /// Wilson's interval (1927) on the effective sample size.
    #[must_use]
    pub fn decide(&self, z: f64) -> Decision {
        let (value, [low, high], limit) = match *self {
            Self::Share { misses, samples, allowed, .. } if allowed <= 0.0 || samples == 0 => {
                return match (misses, samples) {
                    (_, 0) => Decision::Unsure,
                    (0, _) => Decision::Pass,
                    _ => Decision::Fail,
                };
            }
            Self::Share { misses, samples, effective, allowed } => {
                let share = misses as f64 / samples as f64;
                (share, wilson(share, effective, z), allowed)
            }
            Self::Mean { error_ns: None, .. } => return Decision::Unsure,
            Self::Mean { mean_ns, error_ns: Some(error), limit_ns, .. } => {
                (mean_ns, [mean_ns - z * error, mean_ns + z * error], limit_ns as f64)
            }
        };
        if value.is_nan() {
            Decision::Unsure
        } else if high <= limit {
            Decision::Pass
        } else if low > limit {
            Decision::Fail
        } else {
            Decision::Unsure
        }
    }

    /// Whether the sample itself keeps the objective, however small it is.
    #[must_use]
    pub fn leans_to_pass(&self) -> bool {
        match *self {
            Self::Share { misses, samples, allowed, .. } => {
                samples > 0 && misses as f64 <= allowed * samples as f64
            }
            Self::Mean { mean_ns, limit_ns, .. } => mean_ns <= limit_ns as f64,
        }
    }
}

/// Wilson's interval of a share that was seen in `n` independent samples.
pub(super) fn wilson(share: f64, n: f64, z: f64) -> [f64; 2] {
    let n = n.max(1.0);
    let middle = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).max(0.0).sqrt();
    let scale = 1.0 + z * z / n;
    [((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0)]
}

/// The counts that objectives on shares are judged by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shares {
    /// Failed requests, and those that ended well or failed.
    pub(super) failed: (u64, u64),
    /// Good requests, and those that are good or missed a limit; none without limits.
    pub(super) good: Option<(u64, u64)>,
}

impl Shares {
    /// Those of some requests.
    pub(super) fn of(counts: &Requests, good: Option<&GoodputReport>) -> Self {
        Self {
            failed: (counts.failed, counts.ok + counts.failed),
            good: good.map(|report| (report.good, report.of)),
        }
    }
}

/// What the requests of `part` say of `objective`; `None` without a sample. `tallies` hold the gaps of
/// requests that were drawn; without them each request counts as one sample.
pub(super) fn evidence(
    objective: &Objective,
    part: &Part<'_>,
    tallies: &[Tally],
    shares: Shares,
) -> Option<Evidence> {
    let share = |misses: u64, samples: u64, allowed: f64, dependence: f64| {
        let effective = samples as f64 / dependence;
        (samples > 0).then_some(Evidence::Share { misses, samples, effective, allowed })
    };
    let marks = |is_bad: fn(&Request) -> bool| -> Vec<u64> {
        part.measured().iter().map(|request| u64::from(is_bad(request))).collect()
    };
    match objective.aim {
        Aim::ErrorRate(most) => {
            let (failed, settled) = shares.failed;
            share(failed, settled, most, dependence(&marks(Request::is_failed), &[0]))
        }
        Aim::GoodputShare(least) => {
            let (good, of) = shares.good?;
            // Not good is failed or late, by whatever limit there is.
            let failures = dependence(&marks(|request| !request.is_ok()), &[0]);
            let late = [Metric::Ttft, Metric::Tpot, Metric::E2e].into_iter().map(|metric| {
                let trial = part.trial(metric);
                dependence(trial.in_order(), &pivots(&trial, least))
            });
            share(of - good, of, 1.0 - least, late.fold(failures, f64::max))
        }
        Aim::Latency { percentile, metric, limit_ns } => {
            let trial = part.trial(metric);
            let limit = if objective.inclusive { limit_ns } else { limit_ns.saturating_sub(1) };
            let (misses, samples) = trial.beyond(limit);
            if samples == 0 {
                return None;
            }
            let allowed = match percentile {
                Percentile::Quantile(q) => 1.0 - q,
                Percentile::Max => 0.0,
                Percentile::Mean if trial.is_endless() => 0.0,
                Percentile::Mean => return mean(&trial, limit),
            };
            let effective = effective(part, &trial, tallies, metric, (limit, 1.0 - allowed));
            let misses = if percentile == Percentile::Mean { misses.max(1) } else { misses };
            Some(Evidence::Share { misses, samples, effective, allowed })
        }
    }
}

/// So many independent samples would say as much about "beyond `limit`" as those of `trial` do.
///
/// Where a sample has no miss at all its dependence does not show there, so it is looked for at the
/// percentile itself and in the middle too, and the worst of them counts.
fn effective(
    part: &Part<'_>,
    trial: &Trial<'_>,
    tallies: &[Tally],
    metric: Metric,
    (limit, quantile): (u64, f64),
) -> f64 {
    let (_, samples) = trial.beyond(limit);
    let pool = match metric {
        Metric::Icl => Pool::Chunks,
        Metric::Itl => Pool::Tokens,
        _ => {
            let mut places = pivots(trial, quantile);
            places.push(limit);
            return samples as f64 / dependence(trial.in_order(), &places);
        }
    };
    // The gaps of one request depend on each other, and requests that run side by side share the steps
    // of a batch, and with them every long gap. That shows somewhere in how long their tokens take.
    let tpot = part.trial(Metric::Tpot);
    let mut places = pivots(&tpot, quantile);
    places.extend(TPOT_PLACES.into_iter().filter_map(|q| tpot.known_quantile(q)));
    let factor = dependence(tpot.in_order(), &places);
    let pivot = trial.known_quantile(quantile).unwrap_or(limit);
    let worth = [limit, pivot].into_iter().filter_map(|at| clustered(tallies, pool, at));
    let worth = worth.reduce(f64::min).unwrap_or(tpot.in_order().len() as f64);
    (worth / factor).min(samples as f64)
}

/// Where the dependence of a sample is looked for: at the percentile and in the middle.
fn pivots(trial: &Trial<'_>, quantile: f64) -> Vec<u64> {
    [quantile, 0.5].into_iter().filter_map(|q| trial.known_quantile(q)).collect()
}

/// The mean and its standard error by batch means (Law, Simulation Modeling and Analysis, 9.5.3).
fn mean(trial: &Trial<'_>, limit_ns: u64) -> Option<Evidence> {
    let values = trial.in_order();
    if values.is_empty() {
        let (mean_ns, samples) = trial.pooled_mean()?;
        return Some(Evidence::Mean { mean_ns, error_ns: None, samples, limit_ns });
    }
    let of = |values: &[u64]| {
        values.iter().map(|&value| value as f64).sum::<f64>() / values.len().max(1) as f64
    };
    let size = values.len().div_ceil(BATCHES).max(1);
    let means: Vec<f64> = values.chunks(size).map(of).collect();
    let mean_ns = of(values);
    let is_enough = means.len() >= BATCHES_MIN;
    let error_ns = is_enough.then(|| (long_run(&means) / means.len() as f64).sqrt());
    let samples = values.len() as u64;
    Some(Evidence::Mean { mean_ns, error_ns, samples, limit_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{MS, open, row_at};
    use crate::record::{Row, histogram};

    fn share(misses: u64, samples: u64, effective: f64) -> Evidence {
        Evidence::Share { misses, samples, effective, allowed: 0.05 }
    }

    #[test]
    fn wilson_gives_its_published_interval() {
        // 15 of 148: 0.0624 to 0.1604 at 95 % (Newcombe 1998, table I: 15/148).
        let [low, high] = wilson(15.0 / 148.0, 148.0, 1.959_964);
        assert!((low - 0.0624).abs() < 1e-4 && (high - 0.1605).abs() < 1e-4, "{low} {high}");
        assert_eq!(wilson(0.0, 100.0, 2.0)[0], 0.0);
    }

    #[test]
    fn a_small_sample_decides_nothing_and_a_large_one_does() {
        assert_eq!(share(0, 20, 20.0).decide(1.96), Decision::Unsure);
        assert_eq!(share(0, 200, 200.0).decide(1.96), Decision::Pass);
        assert_eq!(share(9, 200, 200.0).decide(1.96), Decision::Unsure);
        assert_eq!(share(30, 200, 200.0).decide(1.96), Decision::Fail);
        assert_eq!(share(30, 200, 6.0).decide(1.96), Decision::Unsure, "30 in a row are as one");
    }

    #[test]
    fn what_several_runs_say_adds_up() {
        let Some(Evidence::Share { misses: 1, samples: 200, effective, .. }) =
            share(0, 40, 40.0).and(share(1, 160, 80.0))
        else {
            panic!("a share");
        };
        // (1/5)² / 40 + (4/5)² / 80 = 0.009: the dependence is the mean of 1 and 2 by samples.
        assert!((effective - 1.0 / 0.009).abs() < 1e-9, "{effective}");
        let burst = share(30, 100, 1.2).and(share(0, 100, 100.0)).unwrap();
        assert_eq!(burst.decide(1.96), Decision::Unsure, "100 quiet ones vouch for no burst");
        let mean = |mean_ns, error, samples| Evidence::Mean {
            mean_ns,
            error_ns: Some(error),
            samples,
            limit_ns: 100,
        };
        let Some(Evidence::Mean { mean_ns, error_ns: Some(error), samples: 400, .. }) =
            mean(80.0, 4.0, 100).and(mean(120.0, 4.0, 300))
        else {
            panic!("a mean");
        };
        assert!((mean_ns - 110.0).abs() < 1e-9 && (error - 10.0_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn where_none_is_allowed_one_is_too_many() {
        let of = |misses| Evidence::Share { misses, samples: 10, effective: 1.0, allowed: 0.0 };
        assert_eq!(of(0).decide(3.0), Decision::Pass);
        assert_eq!(of(1).decide(3.0), Decision::Fail);
    }

    #[test]
    fn late_requests_in_a_row_make_a_goodput_share_less_sure() {
        let effective = |is_late: fn(u64) -> bool| {
            let ttft = |i: u64| if is_late(i) { 900 } else { 100 } + i % 7;
            let row = |i: u64| row_at(i, i * 10, i * 10, &[i * 10 + ttft(i)]);
            let rows: Vec<Row> = (0..1000).map(row).collect();
            let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, &open(1.0))).collect();
            let refs: Vec<&Request> = requests.iter().collect();
            let none = histogram();
            let part = Part::new(&refs, &requests, 1000, 20_000 * MS, &none, &none);
            let aim = Aim::GoodputShare(0.8);
            let objective = Objective { text: String::new(), aim, inclusive: true };
            let shares = Shares { failed: (0, 1000), good: Some((800, 1000)) };
            match evidence(&objective, &part, &[], shares) {
                Some(Evidence::Share { misses: 200, samples: 1000, effective, .. }) => effective,
                other => panic!("{other:?}"),
            }
        };
        let scattered = effective(|i| i % 5 == 0);
        let in_rows = effective(|i| i % 500 < 100);
        assert!(scattered > 900.0 && in_rows < 40.0, "{scattered} {in_rows}");
    }
}
