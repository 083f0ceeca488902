//! From records to figures: percentiles with intervals, rates, goodput, verdicts.

mod input;

pub use input::Facts;
