//! When the requests of an open loop go: gaps from the arrival law, instants as their sum.
//!
//! Gap *i* depends on (seed, *i*) alone and is a whole number of ns. Instant *i* is the sum of
//! the gaps 0 to *i*, counted from the start of the load, so it is the same on any number of
//! reactors or hosts. Random laws draw gap 0 like any other: arrival 0 comes gap 0 after the
//! start. Under `constant` gap 0 is 0, so that N seconds hold exactly N times the rate.
//!
//! Where the rate changes, the gaps are counted in arrivals instead of ns, and the rate says how
//! long each takes ([`series`]); a trace has its instants written down ([`times`]).

pub mod series;
pub mod times;

use rand_distr::{Distribution, Exp1, Gamma};

use super::random::{Purpose, Streams};
use crate::workload::Arrival;
use series::{Paced, Walk};
use times::Instants;

/// Least rate of an open loop, in requests per second: one a day.
pub const RATE_MIN: f64 = 1.0 / 86_400.0;
/// Highest rate of an open loop, in requests per second.
pub const RATE_MAX: f64 = crate::workload::series::RATE_MAX;
/// Least shape of the gamma law; the coefficient of variation is then 10.
pub const BURSTINESS_MIN: f64 = 0.01;
/// Largest shape of the gamma law; the gaps then differ by a thousandth.
pub const BURSTINESS_MAX: f64 = 1_000_000.0;

/// The arrivals of one reactor: every `(index, instant)` with index ≡ reactor (mod reactors),
/// the instant in ns after the start of the load, never before the last.
///
/// Walks all arrivals, those of the other reactors too. Ends where the series or the trace does,
/// else only where 64 bits do, after 584 years.
#[derive(Debug, Clone)]
pub struct Arrivals {
    source: Source,
    reactor: u64,
    reactors: u64,
    next_index: u64,
}

/// Where instants come from; asked for one index after the other.
#[derive(Debug, Clone)]
enum Source {
    Gaps { gaps: Gaps, last_instant_ns: u64 },
    Series(Walk),
    Times(Instants),
}

impl Source {
    fn instant_ns(&mut self, index: u64) -> Option<u64> {
        match self {
            Self::Gaps { gaps, last_instant_ns } => {
                *last_instant_ns = last_instant_ns.checked_add(gaps.gap_ns(index))?;
                Some(*last_instant_ns)
            }
            Self::Series(walk) => walk.instant_ns(index),
            Self::Times(instants) => instants.at(index),
        }
    }
}

impl Arrivals {
    /// The share of `reactor` (from 0) out of `reactors`; 0 reactors are taken as 1. A reactor
    /// past the last has no arrivals.
    #[must_use]
    pub fn new(gaps: Gaps, reactor: usize, reactors: usize) -> Self {
        Self::dealt(Source::Gaps { gaps, last_instant_ns: 0 }, reactor, reactors)
    }

    /// The same of a rate that changes.
    #[must_use]
    pub fn of_series(paced: &Paced, reactor: usize, reactors: usize) -> Self {
        Self::dealt(Source::Series(paced.walk()), reactor, reactors)
    }

    /// The same of a trace.
    #[must_use]
    pub fn of_times(instants: Instants, reactor: usize, reactors: usize) -> Self {
        Self::dealt(Source::Times(instants), reactor, reactors)
    }

    fn dealt(source: Source, reactor: usize, reactors: usize) -> Self {
        let (reactor, reactors) = (reactor as u64, (reactors as u64).max(1));
        let next_index = if reactor < reactors { 0 } else { u64::MAX };
        Self { source, reactor, reactors, next_index }
    }
}

impl Iterator for Arrivals {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let index = self.next_index;
            self.next_index = index.checked_add(1)?;
            let instant_ns = self.source.instant_ns(index)?;
            if index % self.reactors == self.reactor {
                return Some((index, instant_ns));
            }
        }
    }
}

/// The gaps between arrivals at a rate that stays.
#[derive(Debug, Clone, Copy)]
pub struct Gaps {
    draws: Draws,
    mean_ns: f64,
}

impl Gaps {
    /// Gaps whose mean is 1/`rate`.
    ///
    /// # Errors
    ///
    /// A rate outside of [`RATE_MIN`] to [`RATE_MAX`], a burstiness outside of
    /// [`BURSTINESS_MIN`] to [`BURSTINESS_MAX`].
    pub fn new(rate: f64, arrival: Arrival, seed: u64) -> Result<Self, ArrivalError> {
        if !(RATE_MIN..=RATE_MAX).contains(&rate) {
            return Err(ArrivalError::Rate { rate });
        }
        Ok(Self { draws: Draws::new(arrival, seed)?, mean_ns: 1e9 / rate })
    }

    /// The gap before arrival `index`, in ns.
    #[must_use]
    pub fn gap_ns(&self, index: u64) -> u64 {
        match self.draws.gap(index) {
            // Rounding to the nearest moves the mean by nothing that could be measured; the cast
            // saturates.
            Some(gap) => (gap * self.mean_ns).round() as u64,
            // Differences of rounded instants: rounded gaps would drift.
            None => {
                let before = index.saturating_sub(1);
                self.constant_ns(index).saturating_sub(self.constant_ns(before))
            }
        }
    }

    /// Instant `index` of the constant law, in ns: index / rate, rounded once. The product is
    /// right to 2^-52 of itself, which is less than 1 ns for 50 days.
    fn constant_ns(&self, index: u64) -> u64 {
        (index as f64 * self.mean_ns).round() as u64
    }
}

/// Gaps of mean 1, before any rate.
#[derive(Debug, Clone, Copy)]
struct Draws {
    law: Law,
    streams: Streams,
}

#[derive(Debug, Clone, Copy)]
enum Law {
    Constant,
    Poisson,
    Gamma(Gamma<f64>),
}

impl Draws {
    fn new(arrival: Arrival, seed: u64) -> Result<Self, ArrivalError> {
        let law = match arrival {
            Arrival::Constant => Law::Constant,
            Arrival::Poisson => Law::Poisson,
            Arrival::Gamma { burstiness } => Law::Gamma(unit_gamma(burstiness)?),
        };
        Ok(Self { law, streams: Streams::new(seed, Purpose::Gap) })
    }

    /// The gap before arrival `index`; `None` under the constant law, where arrival *i* is simply
    /// *i* gaps after the start.
    fn gap(&self, index: u64) -> Option<f64> {
        match &self.law {
            Law::Constant => None,
            Law::Poisson => Some(Exp1.sample(&mut self.streams.at(index))),
            Law::Gamma(law) => Some(law.sample(&mut self.streams.at(index))),
        }
    }
}

/// The gamma law of mean 1 with shape `burstiness`; its coefficient of variation is
/// 1/sqrt(burstiness).
fn unit_gamma(burstiness: f64) -> Result<Gamma<f64>, ArrivalError> {
    if !(BURSTINESS_MIN..=BURSTINESS_MAX).contains(&burstiness) {
        return Err(ArrivalError::Burstiness { burstiness });
    }
    Gamma::new(burstiness, 1.0 / burstiness).map_err(|_| ArrivalError::Burstiness { burstiness })
}

/// An arrival law that cannot be carried out.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ArrivalError {
    /// No usable rate.
    #[error("rate {rate}: give requests per second, from one a day (0.0000116) to 10 million")]
    Rate {
        /// What was given.
        rate: f64,
    },
    /// No usable burstiness.
    #[error("burstiness {burstiness}: give 0.01 to 1000000; 1 is Poisson, less is burstier")]
    Burstiness {
        /// What was given.
        burstiness: f64,
    },
    /// More arrivals than can be counted.
    #[error("rate series of {arrivals:e} arrivals: give at most {:e}", series::ARRIVALS_MAX)]
    TooMany {
        /// How many the series makes.
        arrivals: f64,
    },
    /// A trace of nothing.
    #[error("the trace has no arrivals, or is to be played 0 times")]
    NoTimes,
    /// A trace that goes back.
    #[error("arrival {number} of the trace comes before the one in front of it: sort them by time")]
    Order {
        /// Which, from 1.
        number: usize,
    },
    /// No usable factor of speed.
    #[error("trace speed {speed}: give 0.001 to 1000000; 10 is ten times faster")]
    Speed {
        /// What was given.
        speed: f64,
    },
    /// A time past what 64 bits hold, once slowed down.
    #[error("arrival {number} of the trace is over 100 years away: play it faster")]
    Far {
        /// Which, from 1.
        number: usize,
    },
    /// Nothing tells when the next round would begin.
    #[error("a trace whose arrivals are all at one instant cannot be played more than once")]
    NoSpan,
}

#[cfg(test)]
mod tests;
