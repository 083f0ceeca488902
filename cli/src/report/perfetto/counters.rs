//! What is told of the load as a whole: requests in flight, and output tokens per second.

use std::io;

use tokclock_engine::record::Row;

use super::events::Events;
use super::lanes::Span;

/// Bins of the rate of tokens, at most.
const BINS_MAX: u64 = 1000;
/// Width of such a bin at least, ns: what comes in less time is no rate.
const BIN_MIN_NS: u64 = 20_000_000;
const NS_PER_S: f64 = 1e9;

/// Both while rows go by.
#[derive(Debug)]
pub(super) struct Counters {
    /// When a request was taken up or ended, and what that adds.
    steps: Vec<(u64, i8)>,
    bin_ns: u64,
    bins: Vec<u64>,
    /// At least one row holds its output events.
    has_events: bool,
}

impl Counters {
    /// Those of a run that lasted `end_ns`.
    pub(super) fn new(end_ns: u64) -> Self {
        let bin_ns = end_ns.div_ceil(BINS_MAX).max(BIN_MIN_NS);
        Self { steps: Vec::new(), bin_ns, bins: Vec::new(), has_events: false }
    }

    /// Takes a row, whose request is drawn over `span`.
    pub(super) fn add(&mut self, row: &Row, span: Span) {
        if let Some(at) = row.dispatched {
            self.steps.extend([(at, 1), (span.to.max(at), -1)]);
        }
        self.has_events |= row.chunks.is_some();
        for (at, tokens) in row.chunks.iter().flatten() {
            let bin = usize::try_from(at / self.bin_ns).unwrap_or(usize::MAX);
            // What lies far behind the end of the run is no time of this run.
            if bin as u64 > 2 * BINS_MAX {
                continue;
            }
            if self.bins.len() <= bin {
                self.bins.resize(bin + 1, 0);
            }
            self.bins[bin] += u64::from(*tokens);
        }
    }

    /// Writes their values.
    pub(super) fn write(mut self, events: &mut Events<'_>) -> io::Result<()> {
        self.steps.sort_unstable();
        let mut in_flight = 0_i64;
        for at in self.steps.chunk_by(|one, next| one.0 == next.0) {
            in_flight += at.iter().map(|(_, added)| i64::from(*added)).sum::<i64>();
            events.counter("requests in flight", at[0].0, in_flight as f64)?;
        }
        if !self.has_events {
            return Ok(());
        }
        for (bin, tokens) in (0..).zip(self.bins.into_iter().chain([0])) {
            let rate = tokens as f64 * NS_PER_S / self.bin_ns as f64;
            events.counter("output tokens/s", bin * self.bin_ns, rate)?;
        }
        Ok(())
    }
}
