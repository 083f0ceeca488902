//! What is wrong with an objective or a limit that cannot be read.

use super::Metric;

/// An objective or limit that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectiveError {
    /// Not `figure(metric)<limit`.
    #[error(
        "objective `{text}`: write it like `p95(ttft)<500ms`, `error_rate<1%` or `goodput_share>=0.95`"
    )]
    Shape {
        /// The objective.
        text: String,
    },
    /// `>` or `>=`.
    #[error("objective `{text}`: it must be an upper bound, `<` or `<=`, like `p95(ttft)<500ms`")]
    LowerBound {
        /// The objective.
        text: String,
    },
    /// `<` or `<=` where more is better.
    #[error(
        "objective `{text}`: it must be a lower bound, `>` or `>=`, like `goodput_share>=0.95`"
    )]
    UpperBound {
        /// The objective.
        text: String,
    },
    /// Not a share.
    #[error("limit `{text}`: give a share from 0 to 1, like `1%` or `0.01`")]
    Share {
        /// What stood there.
        text: String,
    },
    /// Not a figure of a distribution.
    #[error("figure `{text}`: write mean, max or a percentile between p0 and p100, like `p99.9`")]
    Percentile {
        /// What stood there.
        text: String,
    },
    /// Not a metric.
    #[error(
        "metric `{name}`: it must be one of ttfb, ttft, ttfo, ttst, icl, itl, tpot, ntpot, e2e"
    )]
    Metric {
        /// What stood there.
        name: String,
    },
    /// No unit, or one that is not a time.
    #[error("limit `{text}`: give a number and its unit, ns, us, ms or s, like `500ms`")]
    Unit {
        /// What stood there.
        text: String,
    },
    /// No number, or one too small or large.
    #[error("limit `{text}`: give a plain number from 1 ns to a year, like `500ms` or `0.5s`")]
    Number {
        /// What stood there.
        text: String,
    },
    /// Not `metric:limit`.
    #[error("goodput `{text}`: write a metric and its limit in ms, like `ttft:500 tpot:50`")]
    LimitShape {
        /// What stood there.
        text: String,
    },
    /// No limit at all.
    #[error("goodput: it names no limit; write it like `ttft:500 tpot:50`")]
    NoLimit,
    /// The same metric again.
    #[error("goodput: {metric} has two limits; give it one, like `{metric}:500`")]
    Twice {
        /// The metric.
        metric: Metric,
    },
    /// A metric that a request has many of.
    #[error(
        "goodput: {metric} is many values per request; limit the request's mean, like `tpot:50`"
    )]
    NotPerRequest {
        /// The metric.
        metric: Metric,
    },
}
