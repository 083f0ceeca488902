//! What is kept of a run while it goes on: rows of finished requests, histograms, counters.

mod row;
mod tally;

pub use row::{ErrorClass, Outcome, Phase, Row, TokenSource, WaitCause};
pub use tally::{GapSample, HIGHEST_NS, Pooled, Second, Tally, histogram};
