//! Objectives on the run: each judged figure against its limit.

use serde::{Deserialize, Serialize};

use super::judged::{Figure, Trial};
use super::metric::name;
use crate::workload::{Metric, Objective, Percentile};

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
    /// The metric.
    pub metric: String,
    /// The limit, ns.
    pub limit_ns: u64,
    /// The judged figure, ns.
    pub value_ns: Option<f64>,
    /// The least that the figure can be, ns, where it lies among requests that failed or were cut.
    pub at_least_ns: Option<u64>,
    /// `(limit − value) / limit`: below 0 when missed.
    pub margin: Option<f64>,
    /// Whether it held.
    pub verdict: Held,
}

/// Holds each objective against its metric's trial; `None` without objectives.
#[must_use]
pub(super) fn judge<'a>(
    objectives: &[Objective],
    trial: impl Fn(Metric) -> Trial<'a>,
) -> Option<SloReport> {
    if objectives.is_empty() {
        return None;
    }
    let reports: Vec<ObjectiveReport> = objectives
        .iter()
        .map(|objective| hold(objective, trial(objective.metric).figure(objective.percentile)))
        .collect();
    let any = |held| reports.iter().any(|report| report.verdict == held);
    let verdict = match (any(Held::Fail), any(Held::Unknown)) {
        (true, _) => Held::Fail,
        (false, true) => Held::Unknown,
        (false, false) => Held::Pass,
    };
    Some(SloReport { verdict, objectives: reports })
}

fn hold(objective: &Objective, figure: Figure) -> ObjectiveReport {
    let limit = objective.limit_ns as f64;
    let within = |value: f64| if objective.inclusive { value <= limit } else { value < limit };
    let (value_ns, at_least_ns, verdict) = match figure {
        Figure::Absent => (None, None, Held::Unknown),
        Figure::Known(value) if within(value) => (Some(value), None, Held::Pass),
        Figure::Known(value) => (Some(value), None, Held::Fail),
        Figure::Endless(bound) => (None, bound, Held::Fail),
        Figure::AtLeast(bound) if within(bound as f64) => (None, Some(bound), Held::Unknown),
        Figure::AtLeast(bound) => (None, Some(bound), Held::Fail),
    };
    ObjectiveReport {
        text: text(objective),
        metric: name(objective.metric).into(),
        limit_ns: objective.limit_ns,
        value_ns,
        at_least_ns,
        margin: value_ns.filter(|_| limit > 0.0).map(|value| (limit - value) / limit),
        verdict,
    }
}

/// As the user wrote it, else as it would be written.
fn text(objective: &Objective) -> String {
    if !objective.text.is_empty() {
        return objective.text.clone();
    }
    let figure = match objective.percentile {
        Percentile::Quantile(q) => format!("p{}", (q * 100_000.0).round() / 1000.0),
        Percentile::Mean => "mean".into(),
        Percentile::Max => "max".into(),
    };
    let sign = if objective.inclusive { "<=" } else { "<" };
    let millis = objective.limit_ns as f64 / 1e6;
    format!("{figure}({}){sign}{millis}ms", name(objective.metric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::metric::Request;
    use crate::measure::rows::{MS, cut, failed, open, row};
    use crate::record::{ErrorClass, Row};

    fn objective(percentile: Percentile, ms: u64, inclusive: bool) -> Objective {
        Objective {
            text: String::new(),
            percentile,
            metric: Metric::Ttft,
            limit_ns: ms * MS,
            inclusive,
        }
    }

    fn verdict(rows: &[Row], objectives: &[Objective]) -> SloReport {
        let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, &open(1.0))).collect();
        let refs: Vec<&Request> = requests.iter().collect();
        let trial = Trial::of_requests(Metric::Ttft, &refs, 0, 10_000 * MS);
        judge(objectives, |_| trial.clone()).unwrap()
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
}
