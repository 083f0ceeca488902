//! The mean of each leg at one point of a curve: parts that can be stacked.

use serde::{Deserialize, Serialize};

use super::figures::middle;
use crate::measure::{LegsReport, Summary};

/// Means, ns, of the successful requests that had legs; null where there is no sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LegMeans {
    /// Both servers were asked at once: the prefill leg lies beside the decode leg, not before it.
    pub concurrent: bool,
    /// From the first byte to the prefill server to the last byte of its answer.
    pub prefill_leg: Option<f64>,
    /// Our own part between the legs.
    pub client_gap: Option<f64>,
    /// First token since the decode server was asked.
    pub decode_first: Option<f64>,
    /// Of that, what the hand-off took by its estimate.
    pub handoff: Option<f64>,
    /// From the first to the second output event.
    pub ttst: Option<f64>,
}

impl LegMeans {
    /// Those of a run; none where its requests had no legs.
    #[must_use]
    pub fn of(summary: &Summary) -> Option<Self> {
        summary.legs.as_ref().map(Self::of_legs)
    }

    /// Those of its legs.
    #[must_use]
    pub fn of_legs(legs: &LegsReport) -> Self {
        Self {
            concurrent: legs.concurrent,
            prefill_leg: legs.prefill_leg.mean,
            client_gap: legs.client_gap.mean,
            decode_first: legs.decode_first.mean,
            handoff: legs.handoff.as_ref().and_then(|handoff| handoff.estimate.as_ref()?.mean),
            ttst: legs.ttst.mean,
        }
    }

    /// The median of each; none of none.
    pub(super) fn median(of: &[Self]) -> Option<Self> {
        let first = of.first()?;
        let rate = |pick: fn(&Self) -> Option<f64>| middle(of.iter().filter_map(pick).collect());
        Some(Self {
            concurrent: first.concurrent,
            prefill_leg: rate(|one| one.prefill_leg),
            client_gap: rate(|one| one.client_gap),
            decode_first: rate(|one| one.decode_first),
            handoff: rate(|one| one.handoff),
            ttst: rate(|one| one.ttst),
        })
    }

    /// The parts of a request's time from its first byte to its second output event, in their order:
    /// names, and means in ns. They add up to the means of service TTFT and TTST.
    #[must_use]
    pub fn stacked(&self) -> Vec<(&'static str, f64)> {
        let handoff = self.handoff.filter(|_| !self.concurrent).map(|ns| ns.max(0.0));
        let rest = self.decode_first.map(|ns| (ns - handoff.unwrap_or(0.0)).max(0.0));
        let before = if self.concurrent { None } else { self.prefill_leg };
        let first = if self.concurrent { "prefill, hand-off, first token" } else { "decode first" };
        let first = if handoff.is_some() { "decode first, the rest" } else { first };
        let all = [
            ("prefill leg", before),
            ("client gap", self.client_gap),
            ("hand-off (estimate)", handoff),
            (first, rest),
            ("second token", self.ttst),
        ];
        all.into_iter().filter_map(|(name, ns)| Some((name, ns?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_parts_add_up() {
        let means = LegMeans {
            concurrent: false,
            prefill_leg: Some(30.0),
            client_gap: Some(1.0),
            decode_first: Some(20.0),
            handoff: Some(15.0),
            ttst: Some(5.0),
        };
        let sum = |means: LegMeans| means.stacked().iter().map(|(_, ns)| ns).sum::<f64>();
        assert!((sum(means) - 56.0).abs() < 1e-9);
        assert_eq!(means.stacked().len(), 5);
        let negative = LegMeans { handoff: Some(-3.0), ..means };
        assert!(negative.stacked().iter().all(|(_, ns)| *ns >= 0.0));
        assert!((sum(LegMeans { concurrent: true, ..means }) - 26.0).abs() < 1e-9);
        assert_eq!(LegMeans::median(&[means, means]), Some(means));
        assert_eq!(LegMeans::median(&[]), None);
    }
}
