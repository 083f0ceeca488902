//! What the servers say of the measured part, beside what the client saw of it.
//!
//! ```text
//! readings ─► Span (the two nearest the window's ends, and what lies between) ─┐
//! rows ─────► Heard (the client's own means over the same time) ───────────────┴─► ServerSeen
//! ```
//! Nothing is interpolated between readings: the time that a figure is of is stated.

mod heard;
mod quantile;
mod report;
mod span;
#[cfg(test)]
mod tests;

pub use quantile::Estimate;
pub use report::{
    Beside, GaugeReport, Here, LatencyReport, ServerSeen, ShareReport, Took, TransferReport,
};

use std::collections::HashMap;

use super::rate::Window;
use crate::record::Row;
use crate::telemetry::server::Reading;
use heard::Heard;
use span::Span;

/// The servers of a run while its rows go by.
#[derive(Debug)]
pub struct Servers {
    seen: Vec<(Span, Heard)>,
}

impl Servers {
    /// Takes the readings of a run, each server's in the order in which they were taken.
    pub fn of(readings: impl IntoIterator<Item = Reading>, window: Window) -> Self {
        let mut spans: Vec<Span> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for reading in readings {
            let place = *places.entry(reading.url.clone()).or_insert(spans.len());
            if place == spans.len() {
                spans.push(Span::new(&reading, window));
            }
            spans[place].add(reading);
        }
        let heard = |span: Span| {
            let heard = Heard::over(span.bounds(), span.share(), &span.url);
            (span, heard)
        };
        Self { seen: spans.into_iter().map(heard).collect() }
    }

    /// Whether no server was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Takes a request of any phase.
    pub fn hear(&mut self, row: &Row) {
        self.seen.iter_mut().for_each(|(_, heard)| heard.add(row));
    }

    /// What it comes to, in the order of the URLs: who answers first is chance.
    #[must_use]
    pub fn finish(mut self) -> Vec<ServerSeen> {
        self.seen.sort_by(|one, other| one.0.url.cmp(&other.0.url));
        self.seen.iter().map(|(span, heard)| report::report(span, heard)).collect()
    }
}
