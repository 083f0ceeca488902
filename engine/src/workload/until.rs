//! How well a figure must be known before a run may end: `ci(p95(ttft))<3%`.

use std::fmt;
use std::str::FromStr;

use super::objective::{Metric, ObjectiveError, Percentile};

/// The measured part may end when the farther end of the 95 % interval of a percentile is closer to it
/// than this share of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Until {
    /// The quantile, 0 < q < 1.
    pub quantile: f64,
    /// Of which metric: one that a request has one value of.
    pub metric: Metric,
    /// The share, above 0.
    pub width: f64,
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// Not `ci(p95(ttft))<3%`.
    #[error("`{text}`: write it like `ci(p95(ttft))<3%`")]
    Shape {
        /// What stood there.
        text: String,
    },
    /// What stands in the brackets.
    #[error(transparent)]
    Figure(#[from] ObjectiveError),
    /// A mean or a maximum.
    #[error("`{text}`: only percentiles have an interval, such as `ci(p95(ttft))<3%`")]
    NoPercentile {
        /// What stood there.
        text: String,
    },
    /// Pooled gaps.
    #[error(
        "`{metric}` is many values per request: wait for its mean per request, `ci(p95(tpot))<3%`"
    )]
    Pooled {
        /// The metric.
        metric: Metric,
    },
}

impl FromStr for Until {
    type Err = UntilError;

    fn from_str(text: &str) -> Result<Self, UntilError> {
        let text = text.trim();
        let shape = || UntilError::Shape { text: text.to_owned() };
        let (what, width) = text.split_once('<').ok_or_else(shape)?;
        let width = width.strip_prefix('=').unwrap_or(width).trim();
        let inside = what.trim().strip_prefix("ci(").and_then(|rest| rest.strip_suffix(')'));
        let inside = inside.and_then(|inside| inside.trim().strip_suffix(')')).ok_or_else(shape)?;
        let (figure, metric) = inside.split_once('(').ok_or_else(shape)?;
        let metric: Metric = metric.parse()?;
        if matches!(metric, Metric::Icl | Metric::Itl) {
            return Err(UntilError::Pooled { metric });
        }
        let Percentile::Quantile(quantile) = figure.parse()? else {
            return Err(UntilError::NoPercentile { text: text.to_owned() });
        };
        let (number, unit) = match width.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (width, 1.0),
        };
        let width = number.parse::<f64>().map_err(|_| shape())? / unit;
        if !(width > 0.0 && width <= 1.0) {
            return Err(shape());
        }
        Ok(Self { quantile, metric, width })
    }
}

impl fmt::Display for Until {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percentile = Percentile::Quantile(self.quantile);
        write!(formatter, "ci({percentile}({}))<{}", self.metric, self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_and_reads_back() {
        let rule: Until = " ci( p99.9(e2e) ) <= 2.5% ".parse().unwrap();
        assert_eq!(rule, Until { quantile: 0.999, metric: Metric::E2e, width: 0.025 });
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }

    #[test]
    fn a_wrong_rule_shows_a_right_one() {
        for (text, wrong) in [
            ("p95(ttft)<3%", "write it like"),
            ("ci(p95(ttft)<3%", "write it like"),
            ("ci(p95(ttft))<0%", "write it like"),
            ("ci(p95(ttft))<wide", "write it like"),
            ("ci(mean(ttft))<3%", "only percentiles"),
            ("ci(p95(itl))<3%", "p95(tpot)"),
            ("ci(p95(tfft))<3%", "metric `tfft`"),
        ] {
            let said = text.parse::<Until>().unwrap_err().to_string();
            assert!(said.contains(wrong), "{text}: {said}");
        }
    }
}
