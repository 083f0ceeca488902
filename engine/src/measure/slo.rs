//! Objectives on the run: each judged figure against its limit.

use serde::{Deserialize, Serialize};

use super::distribution::ratio;
use super::evidence::{Evidence, Shares, evidence};
use super::judged::{Figure, Trial};
use super::part::Part;
use crate::record::Tally;
use crate::workload::{Aim, Metric, Objective};

/// Whether an objective held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// It held.
    Pass,
    /// It did not.
    Fail,
    /// The run cannot tell: no sample, or the figure lies among requests that were cut.
    Unknown,
}

/// All objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SloReport {
    /// `fail` if any failed, else `unknown` if any is, else `pass`.
    pub verdict: Held,
    /// Each of them, in the order given.
    pub objectives: Vec<ObjectiveReport>,
}

/// One objective and what it was held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveReport {
    /// As the user wrote it.
    pub text: String,
    /// The metric, `error_rate` or `goodput_share`.
    pub metric: String,
    /// The limit of a latency, ns.
    pub limit_ns: Option<u64>,
    /// The judged figure of a latency, ns.
    pub value_ns: Option<f64>,
    /// The least that the figure can be, ns, where it lies among requests that failed or were cut.
    pub at_least_ns: Option<u64>,
    /// The limit of a share.
    #[serde(default)]
    pub limit_share: Option<f64>,
    /// The share itself.
    #[serde(default)]
    pub value_share: Option<f64>,
    /// `(limit − value) / limit`, for a lower bound `(value − limit) / limit`: below 0 when missed.
    pub margin: Option<f64>,
    /// Whether it held.
    pub verdict: Held,
    /// How sure that is; null without a sample.
    #[serde(default)]
    pub evidence: Option<Evidence>,
}

/// What objectives are held against.
pub(super) struct Bench<'a> {
    /// The requests that they are about.
    pub(super) part: &'a Part<'a>,
    /// The gaps of some of them, where they were drawn.
    pub(super) tallies: &'a [Tally],
    /// Counts of them.
    pub(super) shares: Shares,
}

/// Holds each objective against its figure; `None` without objectives.
#[must_use]
pub(super) fn judge(objectives: &[Objective], bench: &Bench<'_>) -> Option<SloReport> {
    if objectives.is_empty() {
        return None;
    }
    let judge = |objective: &Objective| {
        let trial = |metric| Some(bench.part.trial(metric));
        let report = hold(objective, &trial, bench.shares);
        let evidence = evidence(objective, bench.part, bench.tallies, bench.shares);
        ObjectiveReport { evidence, ..report }
    };
    Some(together(objectives.iter().map(judge).collect()))
}

/// The same where samples come without their requests: how sure a verdict is, is not known.
#[must_use]
pub(super) fn judge_samples<'a>(
    objectives: &[Objective],
    trial: &dyn Fn(Metric) -> Option<Trial<'a>>,
    shares: Shares,
) -> Option<SloReport> {
    let reports = objectives.iter().map(|objective| hold(objective, trial, shares));
    (!objectives.is_empty()).then(|| together(reports.collect()))
}

fn together(reports: Vec<ObjectiveReport>) -> SloReport {
    let any = |held| reports.iter().any(|report| report.verdict == held);
    let verdict = match (any(Held::Fail), any(Held::Unknown)) {
        (true, _) => Held::Fail,
        (false, true) => Held::Unknown,
        (false, false) => Held::Pass,
    };
    SloReport { verdict, objectives: reports }
}

fn hold<'a>(
    objective: &Objective,
    trial: &dyn Fn(Metric) -> Option<Trial<'a>>,
    shares: Shares,
) -> ObjectiveReport {
    let report = ObjectiveReport {
        text: text(objective),
        metric: objective.aim.name().into(),
        limit_ns: None,
        value_ns: None,
        at_least_ns: None,
        limit_share: None,
        value_share: None,
        margin: None,
        verdict: Held::Unknown,
        evidence: None,
    };
    let Shares { failed, good } = shares;
    match objective.aim {
        Aim::Latency { percentile, metric, limit_ns } => {
            let figure = trial(metric).map_or(Figure::Absent, |trial| trial.figure(percentile));
            of_latency(report, figure, limit_ns, objective.inclusive)
        }
        Aim::ErrorRate(limit) => of_share(report, failed, (limit, true), objective.inclusive),
        Aim::GoodputShare(limit) => {
            of_share(report, good.unwrap_or_default(), (limit, false), objective.inclusive)
        }
    }
}

fn of_latency(
    report: ObjectiveReport,
    figure: Figure,
    limit_ns: u64,
    inclusive: bool,
) -> ObjectiveReport {
    let limit = limit_ns as f64;
    let within = |value: f64| if inclusive { value <= limit } else { value < limit };
    let (value_ns, at_least_ns, verdict) = match figure {
        Figure::Absent => (None, None, Held::Unknown),
        Figure::Known(value) if within(value) => (Some(value), None, Held::Pass),
        Figure::Known(value) => (Some(value), None, Held::Fail),
        Figure::Endless(bound) => (None, bound, Held::Fail),
        Figure::AtLeast(bound) if within(bound as f64) => (None, Some(bound), Held::Unknown),
        Figure::AtLeast(bound) => (None, Some(bound), Held::Fail),
    };
    ObjectiveReport {
        limit_ns: Some(limit_ns),
        value_ns,
        at_least_ns,
        margin: value_ns.filter(|_| limit > 0.0).map(|value| (limit - value) / limit),
        verdict,
        ..report
    }
}

/// A share `part` of all, bounded from above or from below.
fn of_share(
    report: ObjectiveReport,
    (part, all): (u64, u64),
    (limit, is_upper): (f64, bool),
    inclusive: bool,
) -> ObjectiveReport {
    let value = ratio(part as f64, all as f64);
    let held = |value: f64| {
        let past = if is_upper { value < limit } else { value > limit };
        past || (inclusive && value == limit)
    };
    let margin = |value: f64| if is_upper { limit - value } else { value - limit };
    ObjectiveReport {
        limit_share: Some(limit),
        value_share: value,
        margin: value.and_then(|value| ratio(margin(value), limit)),
        verdict: match value {
            None => Held::Unknown,
            Some(value) if held(value) => Held::Pass,
            Some(_) => Held::Fail,
        },
        ..report
    }
}

/// As the user wrote it, else as it would be written.
fn text(objective: &Objective) -> String {
    if !objective.text.is_empty() {
        return objective.text.clone();
    }
    let orequal = if objective.inclusive { "=" } else { "" };
    match objective.aim {
        Aim::Latency { percentile, metric, limit_ns } => {
            let millis = limit_ns as f64 / 1e6;
            format!("{percentile}({metric})<{orequal}{millis}ms")
        }
        Aim::ErrorRate(most) => format!("error_rate<{orequal}{most}"),
        Aim::GoodputShare(least) => format!("goodput_share>{orequal}{least}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::metric::Request;
    use crate::measure::rows::{MS, cut, failed, open, row};
    use crate::record::{ErrorClass, Row, histogram};
    use crate::workload::{Metric, Percentile};

    fn objective(percentile: Percentile, ms: u64, inclusive: bool) -> Objective {
        let aim = Aim::Latency { percentile, metric: Metric::Ttft, limit_ns: ms * MS };
        Objective { text: String::new(), aim, inclusive }
    }

    fn verdict(rows: &[Row], objectives: &[Objective]) -> SloReport {
        let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, &open(1.0))).collect();
        let refs: Vec<&Request> = requests.iter().collect();
        let none = histogram();
        let part = Part::new(&refs, &requests, rows.len() as u64, 10_000 * MS, &none, &none);
        let failed = rows.iter().filter(|row| row.error.is_some()).count() as u64;
        let good = Some((3, 4));
        let shares = Shares { failed: (failed, rows.len() as u64), good };
        judge(objectives, &Bench { part: &part, tallies: &[], shares }).unwrap()
    }

    #[test]
    fn the_limit_itself_passes_only_where_it_is_allowed() {
        let rows = [row(0, &[100])];
        let p50 = Percentile::Quantile(0.5);
        let got = verdict(&rows, &[objective(p50, 100, true), objective(p50, 100, false)]);
        assert_eq!(got.objectives[0].verdict, Held::Pass);
        assert_eq!(got.objectives[1].verdict, Held::Fail);
        assert_eq!(got.objectives[1].text, "p50(ttft)<100ms");
        assert_eq!(got.verdict, Held::Fail);
    }

    #[test]
    fn a_percentile_among_failures_misses_whatever_the_limit() {
        let rows = [row(0, &[100]), failed(1, ErrorClass::ConnReset, 0, 1)];
        let p95 = objective(Percentile::Quantile(0.95), 5000, true);
        let got = verdict(&rows, &[p95]);
        assert_eq!(got.verdict, Held::Fail);
        assert_eq!(got.objectives[0].value_ns, None);
        assert_eq!(got.objectives[0].at_least_ns, Some(100 * MS));
        assert_eq!(got.objectives[0].margin, None);
    }

    #[test]
    fn a_percentile_among_cut_requests_is_unknown_until_their_age_passes_the_limit() {
        let rows = [row(0, &[100]), cut(1, 0, &[], 3000)];
        let max = |ms| objective(Percentile::Max, ms, true);
        assert_eq!(verdict(&rows, &[max(5000)]).verdict, Held::Unknown);
        assert_eq!(verdict(&rows, &[max(2999)]).verdict, Held::Fail);
        assert_eq!(verdict(&[], &[max(1)]).verdict, Held::Unknown, "no sample");
    }

    #[test]
    fn the_margin_is_the_part_of_the_limit_that_is_left() {
        let got = verdict(&[row(0, &[100])], &[objective(Percentile::Mean, 400, false)]);
        assert_eq!(got.objectives[0].margin, Some(0.75));
        assert_eq!(got.objectives[0].value_ns, Some(100e6));
    }

    #[test]
    fn a_share_is_held_against_its_bound_on_the_right_side() {
        let rows = [row(0, &[100]), failed(1, ErrorClass::ConnReset, 0, 1)];
        let share = |aim, inclusive| Objective { text: String::new(), aim, inclusive };
        let objectives = [
            share(Aim::ErrorRate(0.5), true),
            share(Aim::ErrorRate(0.5), false),
            share(Aim::GoodputShare(0.75), true),
            share(Aim::GoodputShare(0.95), true),
        ];
        let got = verdict(&rows, &objectives).objectives;
        let verdicts: Vec<Held> = got.iter().map(|one| one.verdict).collect();
        assert_eq!(verdicts, [Held::Pass, Held::Fail, Held::Pass, Held::Fail]);
        assert_eq!(got[3].text, "goodput_share>=0.95");
        assert_eq!((got[3].value_share, got[3].limit_ns), (Some(0.75), None));
        assert!(got[3].margin.unwrap() < 0.0);
    }

    #[test]
    fn the_evidence_counts_samples_beyond_the_limit() {
        let rows = [row(0, &[100]), row(1, &[300]), cut(2, 0, &[], 50), cut(3, 0, &[], 3000)];
        let p50 = Percentile::Quantile(0.5);
        let got = verdict(&rows, &[objective(p50, 300, true), objective(p50, 300, false)]);
        let misses: Vec<(u64, u64)> = got
            .objectives
            .iter()
            .map(|one| match one.evidence {
                Some(Evidence::Share { misses, samples, .. }) => (misses, samples),
                _ => (0, 0),
            })
            .collect();
        assert_eq!(misses, [(1, 3), (2, 3)], "a request cut early is on neither side");
    }
}
