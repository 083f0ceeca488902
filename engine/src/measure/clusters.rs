//! Gaps as clusters: those of one request depend on each other.

use super::interval::Pool;
use crate::record::{GapSample, Tally};

/// So many independent samples would say as much about the share of gaps beyond `limit`, ns, as those
/// of all requests do, by the variance between the drawn requests (a ratio of totals over clusters:
/// Cochran, Sampling Techniques, 11.3). `None` where that share is 0 or 1, or nothing was drawn.
#[must_use]
pub(super) fn clustered(tallies: &[Tally], pool: Pool, limit: u64) -> Option<f64> {
    let of_request = |gaps: &GapSample| -> (f64, f64) {
        gaps.iter().fold((0.0, 0.0), |(over, of), &(gap, tokens)| {
            let (each, samples) = match pool {
                Pool::Chunks => (gap, 1.0),
                Pool::Tokens => (gap / u64::from(tokens.max(1)), f64::from(tokens.max(1))),
            };
            (if each > limit { over + samples } else { over }, of + samples)
        })
    };
    let drawn: Vec<(f64, f64)> =
        tallies.iter().flat_map(|tally| &tally.gap_samples).map(of_request).collect();
    let (over, of) = drawn.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (requests, share) = (drawn.len() as f64, over / of);
    if drawn.len() < 2 || !(share > 0.0 && share < 1.0) {
        return None;
    }
    let apart: f64 = drawn.iter().map(|(over, of)| (over - share * of).powi(2)).sum();
    let variance = apart * requests / (requests - 1.0) / (of * of);
    let population: u64 = tallies.iter().map(|tally| tally.gap_requests).sum();
    let worth = share * (1.0 - share) / variance * (population as f64 / requests).max(1.0);
    worth.is_finite().then_some(worth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_come_together_are_worth_fewer_samples() {
        let tally = |samples| Tally { gap_samples: samples, gap_requests: 100, ..Tally::default() };
        // Every request has one long gap of ten: as even as can be. Or ten have long ones alone.
        let spread: Vec<GapSample> = (0..100)
            .map(|i| (0..10).map(|k| (if (i + k) % 10 < 1 + i % 2 { 9 } else { 1 }, 1)).collect())
            .collect();
        let lumped = (0..100).map(|i| vec![(if i % 10 == 0 { 9 } else { 1 }, 1); 10]).collect();
        let spread = clustered(&[tally(spread)], Pool::Chunks, 5).unwrap();
        let lumped = clustered(&[tally(lumped)], Pool::Chunks, 5).unwrap();
        assert!(spread > 1000.0, "{spread}");
        assert!((lumped - 99.0).abs() < 1e-6, "a hundred requests of one kind each: {lumped}");
        assert_eq!(clustered(&[tally(vec![vec![(1, 1); 4]; 9])], Pool::Chunks, 5), None);
    }
}
