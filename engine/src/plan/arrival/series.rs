//! Arrivals of a rate that changes, by counting time in arrivals.
//!
//! Λ(t) is the integral of the rate: how many arrivals are expected until t. Gaps of mean 1 from
//! the arrival law add up to sums S, and arrival *i* goes at Λ⁻¹(Sᵢ): where the rate is high, a
//! gap is short. Poisson gaps make a Poisson process of that rate; equal ones put arrival *i*
//! where Λ passes *i*. Sums are whole numbers of 2^-24 of an arrival (60 ns at one a second), so
//! that they are the same on any number of reactors, and never drift; 64 bits of them end after
//! 10^12 arrivals.

use std::sync::Arc;

use super::{ArrivalError, Draws};
use crate::workload::{Arrival, Piece, RateSeries};

/// Parts of an arrival that a sum counts.
const PARTS: f64 = (1u64 << PARTS_BITS) as f64;
const PARTS_BITS: u32 = 24;
/// Most arrivals of a series that ends.
pub const ARRIVALS_MAX: f64 = 5e11;

/// A series ready to be walked, shared by all reactors.
#[derive(Debug, Clone)]
pub struct Paced {
    draws: Draws,
    legs: Arc<[Leg]>,
}

/// A piece, and where it ends.
#[derive(Debug, Clone, Copy)]
struct Leg {
    piece: Piece,
    begin_ns: u64,
    /// Sums from here on, in parts of an arrival, ...
    begin: u64,
    /// ... and below this are in the piece. Without end: `u64::MAX`.
    end: u64,
}

impl Paced {
    /// Arrivals at the rate of `series`, with gaps as `arrival` has them.
    ///
    /// # Errors
    ///
    /// A burstiness outside of its bounds; a series of more than [`ARRIVALS_MAX`] arrivals.
    pub fn new(series: &RateSeries, arrival: Arrival, seed: u64) -> Result<Self, ArrivalError> {
        let draws = Draws::new(arrival, seed)?;
        let (mut begin_ns, mut begin, mut arrivals) = (0u64, 0, 0.0);
        let mut legs = Vec::with_capacity(series.pieces().len());
        for piece in series.pieces() {
            arrivals += piece.arrivals();
            if arrivals.is_finite() && arrivals > ARRIVALS_MAX {
                return Err(ArrivalError::TooMany { arrivals });
            }
            // Saturates only without end.
            let end = (arrivals * PARTS).round() as u64;
            legs.push(Leg { piece: *piece, begin_ns, begin, end });
            begin_ns = begin_ns.saturating_add(piece.duration_ns);
            begin = end;
        }
        Ok(Self { draws, legs: legs.into() })
    }

    /// A walk over all arrivals from the first.
    pub(super) fn walk(&self) -> Walk {
        Walk { paced: self.clone(), leg: 0, sum: 0, last_instant_ns: 0 }
    }
}

/// The instants of a series, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    paced: Paced,
    leg: usize,
    /// In parts of an arrival.
    sum: u64,
    last_instant_ns: u64,
}

impl Walk {
    /// The instant of arrival `index`, which follows the last that was asked for; `None` after
    /// the end.
    pub(super) fn instant_ns(&mut self, index: u64) -> Option<u64> {
        self.sum = match self.paced.draws.gap(index) {
            Some(gap) => self.sum.checked_add((gap * PARTS).round() as u64)?,
            None => index.checked_mul(1 << PARTS_BITS)?,
        };
        // An arrival on the border of two pieces is in the later; a silent piece has none.
        while self.sum >= self.paced.legs.get(self.leg)?.end {
            self.leg += 1;
        }
        let leg = self.paced.legs.get(self.leg)?;
        let instant_ns = leg.begin_ns.checked_add(leg.offset_ns(self.sum - leg.begin))?;
        // The last bit of a root may go either way.
        self.last_instant_ns = self.last_instant_ns.max(instant_ns);
        Some(self.last_instant_ns)
    }
}

impl Leg {
    /// How long after the begin of the piece its integral reaches `parts`.
    fn offset_ns(&self, parts: u64) -> u64 {
        let Piece { duration_ns, from, to } = self.piece;
        let arrivals = parts as f64 / PARTS;
        if from == to {
            // The same product as that of a rate that stays, so the same instants.
            return ((arrivals * (1e9 / from)).round() as u64).min(duration_ns);
        }
        // With u = t / duration: from u + (to - from) u² / 2 = mean, the arrivals over the
        // duration. This root has no difference of near values in it, whichever way the rate goes.
        let mean = arrivals * 1e9 / duration_ns as f64;
        let root = (from * from + 2.0 * (to - from) * mean).max(0.0).sqrt();
        let share = if mean > 0.0 { 2.0 * mean / (from + root) } else { 0.0 };
        ((share * duration_ns as f64).round() as u64).min(duration_ns)
    }
}

#[cfg(test)]
mod tests;
