//! What is compared: a figure of a latency, a rate, a share.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::workload::{Metric, ObjectiveError, Percentile};

/// One figure of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// A percentile or the mean of a latency of the successful.
    Latency(Percentile, Metric),
    /// Requests that ended well, per second.
    Rps,
    /// Output tokens per second.
    OutputTps,
    /// Failed / (ok + failed).
    ErrorRate,
    /// Good requests / those that are good or missed a limit.
    GoodputShare,
}

/// The latencies that are compared unless others are asked for.
pub const METRICS: [Metric; 6] =
    [Metric::Ttft, Metric::Ttst, Metric::Icl, Metric::Itl, Metric::Tpot, Metric::E2e];
/// The figures of each.
const FIGURES: [Percentile; 5] = [
    Percentile::Quantile(0.5),
    Percentile::Quantile(0.9),
    Percentile::Quantile(0.95),
    Percentile::Quantile(0.99),
    Percentile::Mean,
];

impl Quantity {
    /// All that is compared of `metrics`, then rates and shares.
    #[must_use]
    pub fn all(metrics: &[Metric]) -> Vec<Self> {
        let of = |&metric: &Metric| FIGURES.map(|figure| Self::Latency(figure, metric));
        let rates = [Self::Rps, Self::OutputTps, Self::ErrorRate, Self::GoodputShare];
        metrics.iter().flat_map(of).chain(rates).collect()
    }

    /// The latency it is of, if it is one.
    #[must_use]
    pub fn metric(self) -> Option<Metric> {
        if let Self::Latency(_, metric) = self { Some(metric) } else { None }
    }

    /// Whether it is a share, whose difference is one of percentage points.
    #[must_use]
    pub fn is_share(self) -> bool {
        matches!(self, Self::ErrorRate | Self::GoodputShare)
    }

    /// Whether more of it is better.
    #[must_use]
    pub fn is_better_high(self) -> bool {
        matches!(self, Self::Rps | Self::OutputTps | Self::GoodputShare)
    }

    /// The unit of its values.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Latency(..) => "ns",
            Self::Rps => "requests/s",
            Self::OutputTps => "tokens/s",
            Self::ErrorRate | Self::GoodputShare => "share",
        }
    }
}

/// `p95(ttft)`, `mean(e2e)`, `rps`, `output_tps`, `error_rate`, `goodput_share`.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(figure, metric) => write!(formatter, "{figure}({metric})"),
            Self::Rps => formatter.write_str("rps"),
            Self::OutputTps => formatter.write_str("output_tps"),
            Self::ErrorRate => formatter.write_str("error_rate"),
            Self::GoodputShare => formatter.write_str("goodput_share"),
        }
    }
}

/// As it is shown.
impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads what is shown, in any case.
impl FromStr for Quantity {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let text = text.trim();
        match text.to_ascii_lowercase().as_str() {
            "rps" => return Ok(Self::Rps),
            "output_tps" => return Ok(Self::OutputTps),
            "error_rate" => return Ok(Self::ErrorRate),
            "goodput_share" => return Ok(Self::GoodputShare),
            _ => {}
        }
        let parts = text.strip_suffix(')').and_then(|text| text.split_once('('));
        let (figure, metric) =
            parts.ok_or_else(|| ObjectiveError::Metric { name: text.to_owned() })?;
        match figure.parse()? {
            Percentile::Max => Err(ObjectiveError::Percentile { text: figure.to_owned() }),
            figure => Ok(Self::Latency(figure, metric.parse()?)),
        }
    }
}
