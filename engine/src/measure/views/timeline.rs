//! What came and went while a run lasted.

use std::collections::BTreeMap;

use crate::measure::metric::Request;
use crate::measure::summary::class_name;
use crate::record::Outcome;

/// Bins of time, at most.
pub const TIME_BINS_MAX: usize = 600;
/// Requests of a bin, about, at least: with fewer a line would only show their grain.
const REQUESTS_OF_BIN: u64 = 8;
/// Width of a bin, ns, unless the bins would be too many: the first that is wide enough.
const WIDTHS_NS: [u64; 4] = [100_000_000, 200_000_000, 500_000_000, 1_000_000_000];
const SECOND_NS: u64 = 1_000_000_000;

/// Counts over bins of equal width, the first of which begins with the run. All series have one length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Width of a bin, ns.
    pub bin_ns: u64,
    /// Requests whose schedule lies in the bin; those that were dropped have no row and are not there.
    pub offered: Vec<u64>,
    /// Those that ended well in it.
    pub ok: Vec<u64>,
    /// Those that failed in it.
    pub failed: Vec<u64>,
    /// Those that we ended in it.
    pub cancelled: Vec<u64>,
    /// Requests in flight at its end.
    pub in_flight: Vec<u64>,
    /// Failures by class.
    pub errors: BTreeMap<String, Vec<u64>>,
    /// Requests that began less those that ended, by bin.
    change: Vec<i64>,
}

impl Timeline {
    /// An empty one of a run that lasted `end_ns` and had about so many requests.
    pub(super) fn new(end_ns: u64, requests: u64) -> Self {
        let end_ns = end_ns.max(1);
        let fair = u128::from(end_ns) * u128::from(REQUESTS_OF_BIN) / u128::from(requests.max(1));
        let most = TIME_BINS_MAX as u64 - 1;
        let fits = |width: &&u64| end_ns / **width <= most && u128::from(**width) >= fair;
        let whole = end_ns.div_ceil(most).next_multiple_of(SECOND_NS);
        let bin_ns = WIDTHS_NS.iter().find(fits).copied().unwrap_or(whole);
        let bins = usize::try_from(end_ns / bin_ns).unwrap_or(0) + 1;
        let zero = || vec![0_u64; bins];
        Self {
            bin_ns,
            offered: zero(),
            ok: zero(),
            failed: zero(),
            cancelled: zero(),
            in_flight: zero(),
            errors: BTreeMap::new(),
            change: vec![0; bins],
        }
    }

    /// Takes a request of any phase. What lies after the end counts into the last bin.
    pub(super) fn add(&mut self, request: &Request) {
        let begun = request.write_start.get().or(request.dispatched.get());
        let seen =
            [request.last_token, request.first_byte, request.write_done, request.write_start];
        let last = seen.iter().find_map(|mark| mark.get()).or(begun).unwrap_or(request.intended);
        let ended = request.done.get().unwrap_or(last).max(begun.unwrap_or(0));
        self.count(request.intended, |line| &mut line.offered);
        self.count(ended, |line| match request.outcome {
            Outcome::Ok => &mut line.ok,
            Outcome::Error => &mut line.failed,
            Outcome::Cancelled => &mut line.cancelled,
        });
        if request.is_failed() {
            let bins = self.change.len();
            let at = self.place(ended);
            let class = self.errors.entry(class_name(request.error));
            class.or_insert_with(|| vec![0; bins])[at] += 1;
        }
        if let Some(begun) = begun {
            let (from, to) = (self.place(begun), self.place(ended));
            self.change[from] += 1;
            self.change[to] -= 1;
        }
    }

    fn place(&self, at: u64) -> usize {
        usize::try_from(at / self.bin_ns).unwrap_or(usize::MAX).min(self.change.len() - 1)
    }

    fn count(&mut self, at: u64, series: impl Fn(&mut Self) -> &mut Vec<u64>) {
        let at = self.place(at);
        series(self)[at] += 1;
    }

    /// With what is in flight summed up.
    pub(super) fn finish(mut self) -> Self {
        let mut now = 0_i64;
        for (in_flight, change) in self.in_flight.iter_mut().zip(&self.change) {
            now += change;
            *in_flight = u64::try_from(now).unwrap_or(0);
        }
        self.change.clear();
        self
    }
}

/// Counts of equal bins in at most [`TIME_BINS_MAX`] bins: how many are one now, and their sums.
#[must_use]
pub fn merged(counts: &[u64]) -> (usize, Vec<u64>) {
    let together = counts.len().div_ceil(TIME_BINS_MAX).max(1);
    let sum = |part: &[u64]| part.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
    (together, counts.chunks(together).map(sum).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{MS, failed, row_at};
    use crate::record::ErrorClass;

    fn line(requests: &[Request], end_ms: u64) -> Timeline {
        let mut line = Timeline::new(end_ms * MS, requests.len() as u64);
        requests.iter().for_each(|request| line.add(request));
        line.finish()
    }

    #[test]
    fn requests_count_where_they_begin_and_end() {
        let rows = [
            row_at(0, 0, 0, &[100, 1500]),
            row_at(1, 1000, 1000, &[1100, 2200]),
            failed(2, ErrorClass::ConnReset, 1200, 1300),
        ];
        let requests = rows.map(|row| Request::of(&row, false, true));
        let line = line(&requests, 2500);
        assert_eq!(line.bin_ns, 1_000 * MS);
        assert_eq!(line.offered, [1, 2, 0]);
        assert_eq!(line.ok, [0, 1, 1]);
        assert_eq!(line.failed, [0, 1, 0]);
        assert_eq!(line.in_flight, [1, 1, 0]);
        assert_eq!(line.errors["conn_reset"], [0, 1, 0]);
    }

    #[test]
    fn bins_are_few_and_wide_enough_for_what_they_hold() {
        for (end_ms, requests, width_ms) in [
            (0, 0, 100),
            (3_000, 1_000, 100),
            (3_000, 60, 500),
            (60_000, 1_000_000, 200),
            (600_000, 1_000_000, 2000),
            (86_400_000, 10, 145_000),
        ] {
            let line = Timeline::new(end_ms * MS, requests);
            assert_eq!(line.bin_ns, width_ms * MS, "{end_ms} ms, {requests}");
            assert!(line.ok.len() <= TIME_BINS_MAX, "{end_ms} ms");
        }
    }

    #[test]
    fn counts_are_merged_without_loss() {
        assert_eq!(merged(&[]), (1, Vec::new()));
        assert_eq!(merged(&[1, 2]), (1, vec![1, 2]));
        let (together, sums) = merged(&vec![1; 1501]);
        assert_eq!((together, sums.len(), sums.iter().sum::<u64>()), (3, 501, 1501));
    }
}
