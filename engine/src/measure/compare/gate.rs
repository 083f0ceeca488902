//! What must not come about: `p95(ttft)>+5%`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::difference::Difference;
use super::quantity::Quantity;

/// A difference that must not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// As it was written.
    pub text: String,
    /// Of which figure.
    pub quantity: Quantity,
    /// Whether it is to stay below `limit`, or above.
    pub is_above: bool,
    /// The change: a share of the base, or points of a share.
    pub limit: f64,
}

/// Why something is no gate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GateError {
    /// Its parts are not there.
    #[error(
        "{text:?} is no difference: write a figure, > or <, and a signed percentage, as in 'p95(ttft)>+5%'"
    )]
    Shape {
        /// As it was written.
        text: String,
    },
    /// It names no figure.
    #[error("{text:?}: {reason}, or one of rps, output_tps, error_rate, goodput_share")]
    Figure {
        /// As it was written.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// What became of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tripped {
    /// The difference is surely beyond the limit.
    Yes,
    /// The difference has no interval and is beyond the limit: it counts.
    Estimate,
    /// It is beyond the limit, but not surely: it does not count.
    Maybe,
    /// It is not beyond.
    No,
}

impl Tripped {
    /// Whether it counts.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Yes | Self::Estimate)
    }
}

impl Gate {
    /// What becomes of it: surely beyond is that the near end of the interval is. `None` if the
    /// difference has no change to look at.
    #[must_use]
    pub fn judge(&self, difference: &Difference) -> Option<Tripped> {
        let is_beyond =
            |value: f64| if self.is_above { value > self.limit } else { value < self.limit };
        let [low, high] = difference.interval;
        let is_beyond_as_seen = is_beyond(difference.change?);
        let near = if self.is_above { low } else { high };
        Some(match (is_beyond_as_seen, near) {
            (false, _) => Tripped::No,
            (true, Some(near)) if is_beyond(near) => Tripped::Yes,
            (true, None) if difference.p.is_none() && low.is_none() && high.is_none() => {
                Tripped::Estimate
            }
            (true, _) => Tripped::Maybe,
        })
    }
}

/// As it was written.
impl fmt::Display for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

/// As it was written.
impl Serialize for Gate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Reads a figure, `>` or `<`, and a signed percentage; of a share that is percentage points.
impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let text = text.trim();
        let shape = || GateError::Shape { text: text.to_owned() };
        let at = text.find(['<', '>']).ok_or_else(shape)?;
        let (figure, limit) = (&text[..at], text[at + 1..].trim());
        let number = limit.strip_suffix('%').ok_or_else(shape)?.trim_end();
        let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent = number.parse::<f64>().ok().filter(|_| is_plain(digits));
        let quantity = figure.parse().map_err(|error: crate::workload::ObjectiveError| {
            GateError::Figure { text: text.to_owned(), reason: error.to_string() }
        })?;
        Ok(Self {
            text: text.to_owned(),
            quantity,
            is_above: text[at..].starts_with('>'),
            limit: percent.filter(|percent| percent.is_finite()).ok_or_else(shape)? / 100.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::compare::{Basis, ChangeIs, Verdict};
    use crate::workload::{Metric, Percentile};

    fn difference(change: f64, interval: [Option<f64>; 2]) -> Difference {
        Difference {
            figure: Quantity::Rps,
            unit: "",
            base: 1.0,
            other: 1.0 + change,
            change_is: ChangeIs::Relative,
            change: Some(change),
            interval,
            p: interval[0].map(|_| 0.5),
            p_holm: None,
            visible_from: None,
            basis: Basis::Requests,
            verdict: Verdict::NoInterval,
        }
    }

    #[test]
    fn a_gate_trips_when_the_near_end_is_beyond() {
        let gate: Gate = "p95(ttft) > +5%".parse().unwrap();
        assert_eq!(gate.quantity, Quantity::Latency(Percentile::Quantile(0.95), Metric::Ttft));
        let judge = |gate: &Gate, change, ends| gate.judge(&difference(change, ends)).unwrap();
        assert_eq!(judge(&gate, 0.12, [Some(0.08), Some(0.17)]), Tripped::Yes);
        assert_eq!(judge(&gate, 0.12, [Some(0.02), Some(0.2)]), Tripped::Maybe);
        assert_eq!(judge(&gate, 0.12, [None, Some(0.2)]), Tripped::Maybe);
        assert_eq!(judge(&gate, 0.04, [Some(0.03), Some(0.2)]), Tripped::No);
        assert_eq!(judge(&gate, 0.12, [None, None]), Tripped::Estimate);
        let gate: Gate = "rps<-10%".parse().unwrap();
        assert_eq!(judge(&gate, -0.2, [Some(-0.3), Some(-0.15)]), Tripped::Yes);
        assert_eq!(judge(&gate, -0.2, [Some(-0.3), Some(-0.05)]), Tripped::Maybe);
    }

    #[test]
    fn what_is_no_gate_is_named() {
        for text in ["", "p95(ttft)", "p95(ttft)>5", "p95(ttft)>NaN%", "rps>+-5%", "rps>inf%"] {
            assert!(matches!(text.parse::<Gate>(), Err(GateError::Shape { .. })), "{text}");
        }
        for text in ["p95(tftt)>5%", "max(ttft)>5%", "speed>5%", "p0(ttft)>5%"] {
            assert!(matches!(text.parse::<Gate>(), Err(GateError::Figure { .. })), "{text}");
        }
    }
}
