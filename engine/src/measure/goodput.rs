//! Goodput: requests that ended well and kept every limit.

use serde::{Deserialize, Serialize};

use super::distribution::ratio;
use super::metric::Request;
use super::rate::Window;
use crate::record::Outcome;
use crate::workload::{Limit, Metric, Objectives};

/// What became of the limits on each request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoodputReport {
    /// Each limit alone.
    pub objectives: Vec<Attainment>,
    /// Good requests completed in the window, per second.
    pub rps: Option<f64>,
    /// Their output tokens, per second.
    pub tps: Option<f64>,
    /// Good requests of the measured part.
    pub good: u64,
    /// Requests of the measured part that are good or missed a limit: all but those that were cut
    /// before a limit had passed.
    pub of: u64,
    /// `good / of`.
    pub share: Option<f64>,
    /// Whether an output that ended at its length limit is a miss.
    pub capped_is_miss: bool,
}

/// How many requests kept one limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attainment {
    /// The metric.
    pub metric: String,
    /// Its limit, ns; the limit itself is allowed.
    pub limit_ns: u64,
    /// Requests that kept it.
    pub met: u64,
    /// Requests that kept or missed it.
    pub of: u64,
    /// `met / of`.
    pub share: Option<f64>,
}

/// Goodput over `requests` of every phase; `None` without limits. `lost` is the number of measured
/// arrivals that have no row: dropped, or without a record. `end` is when the run ended.
#[must_use]
pub(super) fn goodput(
    objectives: &Objectives,
    requests: &[Request],
    lost: u64,
    window: Window,
    end: u64,
) -> Option<GoodputReport> {
    let limits = objectives.request_limits().unwrap_or_default();
    if limits.is_empty() {
        return None;
    }
    let verdict = |request: &Request| -> Kept {
        let capped = request.is_ok() && request.capped && objectives.capped_is_miss;
        let all = limits.iter().map(|&limit| kept(request, limit, end));
        all.fold(if capped { Kept::No } else { Kept::Yes }, Kept::and)
    };
    let (mut good, mut of) = (0, lost);
    for request in requests.iter().filter(|request| request.is_measured()) {
        let kept = verdict(request);
        good += u64::from(kept == Kept::Yes);
        of += u64::from(kept != Kept::Open);
    }
    let (mut requests_in, mut tokens_in) = (0u64, 0u64);
    for request in requests.iter().filter(|request| window.holds(request.completed())) {
        if verdict(request) == Kept::Yes {
            requests_in += 1;
            tokens_in = tokens_in.saturating_add(request.output_tokens.get().unwrap_or(0));
        }
    }
    let objectives_met =
        limits.iter().map(|&limit| attainment(limit, requests, lost, end)).collect();
    Some(GoodputReport {
        objectives: objectives_met,
        rps: window.per_second(requests_in),
        tps: window.per_second(tokens_in),
        good,
        of,
        share: ratio(good as f64, of as f64),
        capped_is_miss: objectives.capped_is_miss,
    })
}

fn attainment(limit: Limit, requests: &[Request], lost: u64, end: u64) -> Attainment {
    let (mut met, mut of) = (0, lost);
    for request in requests.iter().filter(|request| request.is_measured()) {
        let kept = kept(request, limit, end);
        met += u64::from(kept == Kept::Yes);
        of += u64::from(kept != Kept::Open);
    }
    Attainment {
        metric: limit.metric.as_str().into(),
        limit_ns: limit.limit_ns,
        met,
        of,
        share: ratio(met as f64, of as f64),
    }
}

/// Whether a limit was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
    /// The request was cut before anyone could know.
    Open,
}

impl Kept {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            _ => Self::Yes,
        }
    }
}

/// Limits are inclusive. A good answer without a second token has nothing that could break a limit
/// per token; one without any token has not kept a limit on the first.
fn kept(request: &Request, limit: Limit, end: u64) -> Kept {
    let yes_if = |met| if met { Kept::Yes } else { Kept::No };
    match request.outcome {
        Outcome::Error => Kept::No,
        // Were the whole request known to have kept the limit, it would still not be a good one.
        Outcome::Cancelled if request.at_least(limit.metric, end) > limit.limit_ns => Kept::No,
        Outcome::Cancelled => Kept::Open,
        Outcome::Ok => match request.value(limit.metric) {
            Some(value) => yes_if(value <= limit.limit_ns),
            None => yes_if(matches!(
                limit.metric,
                Metric::Ttst | Metric::Icl | Metric::Itl | Metric::Tpot
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{MS, cut, failed, open, row};
    use crate::record::{ErrorClass, Row};
    use crate::workload::Goodput;

    fn limits(pairs: &[(Metric, u64)]) -> Objectives {
        let limits =
            pairs.iter().map(|&(metric, ms)| Limit { metric, limit_ns: ms * MS }).collect();
        Objectives { goodput: Some(Goodput { limits }), ..Objectives::default() }
    }

    fn report(objectives: &Objectives, rows: &[Row], lost: u64) -> GoodputReport {
        let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, &open(1.0))).collect();
        let window = Window { start: 0, end: 3000 * MS };
        goodput(objectives, &requests, lost, window, 3000 * MS).unwrap()
    }

    /// `count` tokens, the first at `first` ms, the others `gap` ms apart.
    fn paced(index: u64, first: u64, gap: u64, count: u64) -> Row {
        row(index, &(0..count).map(|i| first + i * gap).collect::<Vec<_>>())
    }

    #[test]
    fn all_limits_count_at_once_and_the_limit_itself_is_allowed() {
        let rows = [
            paced(1, 150, 25, 11),
            paced(2, 250, 20, 11),
            paced(3, 180, 40, 11),
            failed(4, ErrorClass::HttpStatus, 0, 0),
            paced(5, 200, 30, 11),
            paced(6, 199, 29, 11),
        ];
        let got = report(&limits(&[(Metric::Ttft, 200), (Metric::Tpot, 30)]), &rows, 0);
        assert_eq!((got.good, got.of, got.share), (3, 6, Some(0.5)));
        assert_eq!(got.rps, Some(1.0));
        assert_eq!(got.tps, Some(11.0));
        let met: Vec<_> = got.objectives.iter().map(|o| (o.metric.as_str(), o.met, o.of)).collect();
        assert_eq!(met, [("ttft", 4, 6), ("tpot", 4, 6)]);
    }

    #[test]
    fn a_cut_request_is_a_miss_only_once_its_age_exceeds_a_limit() {
        let rows =
            [row(0, &[100]), cut(1, 0, &[], 201), cut(2, 0, &[], 200), cut(3, 0, &[50], 900)];
        let got = report(&limits(&[(Metric::Ttft, 200)]), &rows, 0);
        assert_eq!((got.good, got.of), (1, 2));
        let got = report(&limits(&[(Metric::E2e, 200)]), &rows, 0);
        assert_eq!((got.good, got.of), (1, 3));
    }

    #[test]
    fn dropped_arrivals_are_misses() {
        let got = report(&limits(&[(Metric::Ttft, 200)]), &[row(0, &[100])], 3);
        assert_eq!((got.good, got.of, got.share), (1, 4, Some(0.25)));
    }

    #[test]
    fn a_capped_output_counts_as_the_user_says() {
        let mut capped = row(0, &[100]);
        capped.finish = Some("length".into());
        let mut objectives = limits(&[(Metric::Ttft, 200)]);
        assert_eq!(report(&objectives, &[capped.clone()], 0).good, 1);
        objectives.capped_is_miss = true;
        assert_eq!(report(&objectives, &[capped], 0).good, 0);
    }
}
