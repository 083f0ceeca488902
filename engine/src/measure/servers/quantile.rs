//! Quantiles from the buckets of a histogram: estimates, with the bounds of the bucket that each lies
//! in, and none where the bucket says too little.

use serde::{Deserialize, Serialize};

/// A quantile as far as buckets tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// By straight lines within the bucket; null where that would be a guess.
    pub value_ns: Option<u64>,
    /// Lower bound of its bucket.
    pub from_ns: u64,
    /// Upper bound of its bucket; null for the last, which has none.
    pub to_ns: Option<u64>,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The quantiles `shares` of what came between two looks at the same buckets; nothing where nothing
/// came, or the buckets are not the same.
pub(super) fn estimates<const N: usize>(
    before: &[(f64, f64)],
    after: &[(f64, f64)],
    shares: [f64; N],
) -> [Option<Estimate>; N] {
    let grown = grown(before, after).unwrap_or_default();
    shares.map(|share| estimate(&grown, share))
}

/// What is not above each bound, of that which came between.
fn grown(before: &[(f64, f64)], after: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let same = before.len() == after.len()
        && before.iter().zip(after).all(|(one, other)| one.0.to_bits() == other.0.to_bits());
    // A server may show a histogram only once something is in it.
    let was = |at: usize| if same { before[at].1 } else { 0.0 };
    if !same && !before.is_empty() {
        return None;
    }
    let grown: Vec<(f64, f64)> =
        after.iter().enumerate().map(|(at, (bound, count))| (*bound, count - was(at))).collect();
    let rises = grown.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    (rises && grown.first().is_some_and(|first| first.1 >= 0.0)).then_some(grown)
}

fn estimate(grown: &[(f64, f64)], share: f64) -> Option<Estimate> {
    let total = grown.last()?.1;
    if total <= 0.0 {
        return None;
    }
    let rank = share * total;
    let at = grown.iter().position(|(_, count)| *count >= rank)?;
    let (bound, count) = grown[at];
    let (from, below) = at.checked_sub(1).map_or((0.0, 0.0), |at| grown[at]);
    let ns = |value: f64| value.round() as u64;
    let none = |why: String, to_ns: Option<u64>| Estimate {
        value_ns: None,
        from_ns: ns(from),
        to_ns,
        why: Some(why),
    };
    let millis = |value: f64| format!("{} ms", value / 1e6);
    Some(if !bound.is_finite() {
        none(format!("above {}, where the buckets end", millis(from)), None)
    } else if at == 0 {
        none(format!("below {}, where the buckets begin", millis(bound)), Some(ns(bound)))
    } else {
        let part = (rank - below) / (count - below);
        Estimate {
            value_ns: Some(ns(from + (bound - from) * part)),
            from_ns: ns(from),
            to_ns: Some(ns(bound)),
            why: None,
        }
    })
}
