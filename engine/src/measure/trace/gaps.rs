//! Gaps between output events: the first apart from the rest, since the hand-off of a prompt's cache may
//! lie in it, and the largest of all with their places.

use hdrhistogram::Histogram;

use crate::measure::distribution::{ByPercentile, Distribution};
use crate::measure::metric::Request;
use crate::record::{HIGHEST_NS, Row, histogram};

/// A gap that stands out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlier {
    /// The request that it lies in.
    pub index: u64,
    /// The number of the event that ended it, from 1: the gap before the second token ends with 2.
    pub event: u32,
    /// Events of the request.
    pub events: u32,
    /// When it ended, ns from the run's start.
    pub at_ns: u64,
    /// Its length, ns.
    pub gap_ns: u64,
    /// So many times the median of all gaps after the second token.
    pub times_median: Option<f64>,
    /// The largest client lag of the request, ns.
    pub lag_max_ns: u64,
}

/// Gaps of all requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Gaps {
    /// From the first to the second output event, of the successful: TTST.
    pub second: Distribution,
    /// All gaps after the second output event, of the successful, pooled; where events were kept.
    pub later: Distribution,
    /// The largest of all gaps of all requests, the largest first.
    pub outliers: Vec<Outlier>,
}

/// The same while rows go by.
#[derive(Debug)]
pub(super) struct GapsSoFar {
    most: usize,
    second: Vec<u64>,
    later: Histogram<u64>,
    /// The largest of them, to the ns.
    later_max: Option<u64>,
    outliers: Vec<Outlier>,
}

impl GapsSoFar {
    pub(super) fn new(most: usize) -> Self {
        let (second, outliers) = (Vec::new(), Vec::new());
        Self { most, second, later: histogram(), later_max: None, outliers }
    }

    pub(super) fn add(&mut self, row: &Row, request: &Request) {
        if request.is_ok() {
            self.second.extend(request.ttst());
        }
        let chunks = row.chunks.as_deref().unwrap_or_default();
        let events = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        for (event, pair) in (2_u32..).zip(chunks.windows(2)) {
            let (before, at) = (pair[0].0, pair[1].0);
            let gap = at.saturating_sub(before);
            if event > 2 && request.is_ok() {
                // What is longer than an hour counts as an hour.
                self.later.saturating_record(gap.min(HIGHEST_NS));
                self.later_max = self.later_max.max(Some(gap));
            }
            self.offer(Outlier {
                index: row.index,
                event,
                events,
                at_ns: at,
                gap_ns: gap,
                times_median: None,
                lag_max_ns: row.lag_max,
            });
        }
    }

    fn offer(&mut self, one: Outlier) {
        let key = |outlier: &Outlier| (u64::MAX - outlier.gap_ns, outlier.index, outlier.event);
        let at = self.outliers.partition_point(|other| key(other) < key(&one));
        if at < self.most {
            self.outliers.insert(at, one);
            self.outliers.truncate(self.most);
        }
    }

    pub(super) fn finish(mut self) -> Gaps {
        let whole = Distribution::from_histogram(&self.later);
        // A bucket reaches beyond what fell into it.
        let within = |thousandths| {
            let value = whole.percentiles.at(thousandths).copied().flatten();
            value.map(|value| value.min(self.later_max.unwrap_or(value)))
        };
        let percentiles = ByPercentile::from_fn(within);
        let later = Distribution { max: self.later_max, percentiles, ..whole };
        let median = later.percentiles.p50.filter(|median| *median > 0);
        for outlier in &mut self.outliers {
            outlier.times_median = median.map(|median| outlier.gap_ns as f64 / median as f64);
        }
        Gaps { second: Distribution::from_values(&self.second), later, outliers: self.outliers }
    }
}
