//! The run second by second: every second is there, and one without samples has nulls.

use serde::{Deserialize, Serialize};

use super::Facts;
use super::distribution::ratio;

/// One second of wall-clock time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Its number, from the wall-clock second in which the run began.
    pub second: u64,
    /// Unix time at which it began, seconds.
    pub unix: u64,
    /// Arrivals that the schedule placed in it.
    pub offered: u64,
    /// Requests whose first byte was written.
    pub started: u64,
    /// Requests that ended well.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that we ended.
    pub cancelled: u64,
    /// Arrivals dropped.
    pub dropped: u64,
    /// Output events that arrived.
    pub events: u64,
    /// Output tokens that arrived.
    pub output_tokens: u64,
    /// Input tokens whose request was wholly written.
    pub input_tokens: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Mean TTFT of the requests that ended well, ns; null if none did.
    pub ttft_mean_ns: Option<f64>,
}

/// The seconds of a run, none left out.
#[must_use]
pub fn series(facts: &Facts) -> Vec<Bin> {
    let first = facts.start_realtime_ns / 1_000_000_000;
    (0u64..)
        .zip(facts.seconds())
        .map(|(second, counted)| Bin {
            second,
            unix: first.saturating_add(second),
            offered: counted.offered,
            started: counted.started,
            ok: counted.ok,
            failed: counted.failed,
            cancelled: counted.cancelled,
            dropped: counted.dropped,
            events: counted.events,
            output_tokens: counted.output_tokens,
            input_tokens: counted.input_tokens,
            in_flight: counted.in_flight,
            ttft_mean_ns: ratio(counted.ttft_sum_ns as f64, counted.ttft_count as f64),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::facts;
    use crate::record::Second;

    #[test]
    fn empty_seconds_stay_and_have_no_latency() {
        let mut facts = facts(4000);
        let one = Second { ok: 1, ttft_sum_ns: 200, ttft_count: 1, ..Second::default() };
        facts.tallies[0].seconds = vec![one, Second::default(), Second::default(), one];
        let bins = series(&facts);
        assert_eq!(bins.iter().map(|bin| bin.ok).collect::<Vec<_>>(), [1, 0, 0, 1]);
        let means: Vec<Option<f64>> = bins.iter().map(|bin| bin.ttft_mean_ns).collect();
        assert_eq!(means, [Some(200.0), None, None, Some(200.0)]);
        assert!(serde_json::to_value(&bins[1]).unwrap()["ttft_mean_ns"].is_null());
    }
}
