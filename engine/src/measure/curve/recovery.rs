//! How long a server needs to come back from overload.

use serde::{Deserialize, Serialize};

use crate::measure::metric::Request;
use crate::record::{Outcome, Row};
use crate::workload::{Limit, Metric, Workload};

/// Requests in a row that are looked at together.
const TOGETHER: usize = 20;
/// So many of them may miss a limit: 5 %.
const MISSES_MAX: usize = 1;

/// The time after overload until the objectives hold again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// The load that overloaded it, in the unit of the curve's variable.
    pub after: f64,
    /// The load that it had from then on.
    pub load: f64,
    /// From the end of the overload to when the objectives held again, ns; null if they did not while
    /// it was waited for.
    pub objectives_held_after_ns: Option<u64>,
    /// How long it was waited for, ns.
    pub waited_ns: u64,
    /// What each request had to keep, as `ttft:500` with the value in ms.
    pub limits: Vec<String>,
}

impl Recovery {
    /// What the requests of `rows` say that came at `load` after an overload that ended at `end_ns`, on
    /// their clock. A request keeps the objectives if it ends well and within every one of `limits`.
    ///
    /// They hold again from the first request on after which, of every twenty in a row, at most one
    /// does not: 5 %, as many as "goodput is 0.95 of throughput" allows. `None` with fewer than twenty
    /// requests.
    #[must_use]
    pub fn new(
        (after, load): (f64, f64),
        rows: impl IntoIterator<Item = Row>,
        workload: &Workload,
        end_ns: u64,
        limits: &[Limit],
    ) -> Option<Self> {
        let mut requests: Vec<Request> = rows
            .into_iter()
            .map(|row| Request::new(&row, workload))
            .filter(|request| request.origin >= end_ns && !request.is_cancelled_on_purpose())
            .collect();
        requests.sort_by_key(|request| (request.origin, request.index));
        let misses: Vec<bool> = requests.iter().map(|one| !keeps(one, limits)).collect();
        if misses.len() < TOGETHER {
            return None;
        }
        let holds = |together: &[bool]| together.iter().filter(|miss| **miss).count() <= MISSES_MAX;
        let bad = misses.windows(TOGETHER).rposition(|together| !holds(together));
        // From the request after the last one that begins a bad twenty.
        let first = bad.map_or(0, |at| at + 1);
        let is_back = first + TOGETHER <= misses.len();
        let at = requests.get(first).map_or(end_ns, |request| request.origin);
        let last = requests.last().map_or(end_ns, |request| request.origin);
        Some(Self {
            after,
            load,
            objectives_held_after_ns: is_back.then(|| if first == 0 { 0 } else { at - end_ns }),
            waited_ns: last - end_ns,
            limits: limits.iter().map(ToString::to_string).collect(),
        })
    }
}

/// Whether a request ended well and within every limit; one that was cut did not.
fn keeps(request: &Request, limits: &[Limit]) -> bool {
    let within = |limit: &Limit| match request.value(limit.metric) {
        Some(value) => value <= limit.limit_ns,
        None => !matches!(limit.metric, Metric::Ttft | Metric::E2e),
    };
    request.outcome == Outcome::Ok && limits.iter().all(within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{MS, open, row_at};

    const LIMIT: [Limit; 1] = [Limit { metric: Metric::Ttft, limit_ns: 100 * MS }];

    /// A request every 100 ms; its TTFT in ms by its number.
    fn seen(count: u64, ttft: impl Fn(u64) -> u64) -> Option<Recovery> {
        let row = |i: u64| row_at(i, i * 100, i * 100, &[i * 100 + ttft(i)]);
        Recovery::new((20.0, 5.0), (0..count).map(row), &open(10.0), 1000 * MS, &LIMIT)
    }

    #[test]
    fn it_is_back_when_no_more_than_one_of_twenty_misses() {
        // The backlog of the first ten falls by 100 ms each.
        let got = seen(100, |i| 2000_u64.saturating_sub(i * 50)).unwrap();
        // Request 38 is the first within 100 ms; 37 may be the one of its twenty that is not.
        assert_eq!(got.objectives_held_after_ns, Some(2700 * MS));
        assert_eq!((got.waited_ns, got.limits), (8900 * MS, vec!["ttft:100".to_owned()]));
    }

    #[test]
    fn it_may_be_back_at_once_or_not_at_all() {
        assert_eq!(seen(60, |_| 50).unwrap().objectives_held_after_ns, Some(0));
        assert_eq!(seen(60, |_| 500).unwrap().objectives_held_after_ns, None);
        assert_eq!(
            seen(60, |i| if i == 30 { 500 } else { 50 }).unwrap().objectives_held_after_ns,
            Some(0)
        );
        assert_eq!(seen(29, |_| 50), None, "nineteen say nothing");
    }
}
