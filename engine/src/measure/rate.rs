//! Rates: what arrived or completed in the window, per second.

use serde::{Deserialize, Serialize};

use super::Facts;
use super::distribution::{ByPercentile, finite, ratio};
use super::metric::Request;
use crate::workload::{Load, Workload};

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// The measurement window, both ends included, ns from the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first instant.
    pub start: u64,
    /// Its last instant.
    pub end: u64,
}

impl Window {
    /// Whether something that happened at `at` happened inside.
    #[must_use]
    pub fn holds(&self, at: Option<u64>) -> bool {
        at.is_some_and(|at| (self.start..=self.end).contains(&at))
    }

    /// Its length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.start) as f64 / SECOND
    }

    /// `count` per second; `None` if the window is empty.
    #[must_use]
    pub fn per_second(&self, count: u64) -> Option<f64> {
        ratio(count as f64, self.seconds())
    }
}

/// Rates over the window. `None` where there is no window or no such thing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests per second that the schedule asked for in the measured part; null in a closed loop,
    /// which asks for none. In a window by requests `(n − 1) / (last − first instant)`.
    pub offered_rps: Option<f64>,
    /// Requests that ended well in the window, per second.
    pub rps: Option<f64>,
    /// `rps / offered_rps`; in a window by requests `drain_rps / offered_rps`, since the time that
    /// the last answers take is no shortfall.
    pub achieved_share: Option<f64>,
    /// Output tokens that arrived in the window, per second, whatever became of their request.
    pub output_tps: Option<f64>,
    /// Input tokens whose request was wholly written in the window, per second.
    pub input_tps: Option<f64>,
    /// `(n − 1) / (last completion − first completion)`, so that filling the pipeline is no part.
    pub drain_rps: Option<f64>,
    /// Output tokens per second that one user saw: `1 / TPOT`. `p95` is the rate at the 95th
    /// percentile of TPOT: all but 5 % of the users were at least as fast.
    pub per_user_tps: ByPercentile<Option<f64>>,
}

/// The rates of a run. `tpot` is that of the successful, ns.
#[must_use]
pub(super) fn rates(
    workload: &Workload,
    facts: &Facts,
    requests: &[Request],
    offered: u64,
    tpot: &ByPercentile<Option<u64>>,
) -> Rate {
    let window = Window { start: facts.window_start, end: facts.window_end };
    let ends = |request: &&Request| request.is_ok() && window.holds(request.completed());
    let completions: Vec<u64> =
        requests.iter().filter(ends).filter_map(Request::completed).collect();
    let input: u64 = requests
        .iter()
        .filter(|request| window.holds(request.write_done.get()))
        .filter_map(|request| request.input_tokens.get())
        .fold(0, u64::saturating_add);
    let output: u64 =
        facts.tallies.iter().map(|t| t.window_output_tokens).fold(0, u64::saturating_add);
    let rps = window.per_second(completions.len() as u64);
    let drain_rps = drain_rate(&completions);
    let achieved = if facts.window_by_requests { drain_rps } else { rps };
    let offered_rps = match workload.load {
        Load::Closed { .. } => None,
        Load::Open { .. } if facts.window_by_requests => issue_rate(requests.iter(), offered),
        Load::Open { .. } => window.per_second(offered),
    };
    Rate {
        offered_rps,
        rps,
        achieved_share: achieved.and_then(|rps| ratio(rps, offered_rps?)),
        output_tps: window.per_second(output),
        input_tps: window.per_second(input),
        drain_rps,
        per_user_tps: ByPercentile::from_fn(|p| {
            let ns = tpot.at(p).copied().flatten()?;
            ratio(SECOND, ns as f64)
        }),
    }
}

/// The rate of the schedule between its first and last instant that was issued.
pub(super) fn issue_rate<'a>(
    requests: impl Iterator<Item = &'a Request> + Clone,
    offered: u64,
) -> Option<f64> {
    let measured = requests.filter(|r| r.is_measured()).map(|r| r.intended);
    let (first, last) = (measured.clone().min()?, measured.max()?);
    let gaps = offered.checked_sub(1)?;
    ratio(gaps as f64 * SECOND, (last - first) as f64)
}

/// Completions per second after the first; `None` with fewer than two instants.
fn drain_rate(completions: &[u64]) -> Option<f64> {
    let (first, last) = (completions.iter().min()?, completions.iter().max()?);
    finite((completions.len() - 1) as f64 * SECOND / (last - first) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{MS, closed, cut, facts, open, row, row_at};
    use crate::record::{Phase, Row};

    fn rate(workload: &Workload, facts: &Facts, rows: &[Row], offered: u64) -> Rate {
        let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, workload)).collect();
        rates(workload, facts, &requests, offered, &ByPercentile::default())
    }

    #[test]
    fn the_drain_rate_leaves_out_the_filling_of_the_pipeline() {
        let rows: Vec<Row> = (0..5).map(|i| row(i, &[5000, 10_000 + i * 1000])).collect();
        let got = rate(&closed(5), &facts(14_000), &rows, 5);
        assert_eq!(got.drain_rps, Some(1.0));
        assert!((got.rps.unwrap() - 0.3571).abs() < 1e-4);
        assert_eq!(got.offered_rps, None);
        assert_eq!(rate(&closed(1), &facts(14_000), &rows[..1], 1).drain_rps, None);
    }

    #[test]
    fn tokens_of_cut_requests_that_arrived_in_the_window_count() {
        let times = |from: u64, n: u64| (1..=n).map(|i| from + i * 100).collect::<Vec<_>>();
        let (a, b, c) = (times(0, 60), times(6000, 40), times(7000, 30));
        let rows = [row(0, &a), cut(1, 6000, &b, 10_000), cut(2, 5000, &c, 10_000)];
        let facts = crate::measure::rows::facts_of(10_000, &[&a, &b, &c]);
        let got = rate(&closed(2), &facts, &rows, 3);
        assert_eq!(got.output_tps, Some(13.0));
        assert_eq!(got.rps, Some(0.1));
    }

    #[test]
    fn what_completes_outside_the_window_is_no_throughput() {
        let mut warm = row_at(0, 0, 0, &[1500]);
        warm.phase = Phase::Warmup;
        let rows = [warm, row_at(1, 1000, 1000, &[1900]), row_at(2, 1000, 1000, &[3000])];
        let mut facts = facts(2000);
        facts.window_start = 1000 * MS;
        let got = rate(&open(2.0), &facts, &rows, 2);
        assert_eq!(
            got.rps,
            Some(2.0),
            "the warm-up request completed inside, the last one did not"
        );
        assert_eq!(got.offered_rps, Some(2.0));
        assert_eq!(got.input_tps, Some(16.0));
    }

    #[test]
    fn in_a_window_by_requests_the_offered_rate_is_that_of_the_schedule() {
        let late = |i: u64| row_at(i, i * 100, i * 100, &[4000 + i * 100]);
        let rows: Vec<Row> = (0..11).map(late).collect();
        let mut facts = facts(5000);
        facts.window_by_requests = true;
        let got = rate(&open(10.0), &facts, &rows, 11);
        assert_eq!(got.offered_rps, Some(10.0));
        assert_eq!(got.rps, Some(2.2));
        assert_eq!(got.achieved_share, Some(1.0), "the last answers' own time is no shortfall");
    }

    #[test]
    fn an_empty_window_has_no_rates() {
        let got = rate(&open(1.0), &facts(0), &[], 0);
        assert_eq!(got, Rate::default());
    }
}
