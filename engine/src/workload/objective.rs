//! Objectives on a run (`p95(ttft)<500ms`) and limits on a request (`ttft:500 tpot:50`).

/// A metric that an objective or limit may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Time to first byte.
    Ttfb,
    /// Time to first token.
    Ttft,
    /// Time to first output that is not reasoning.
    Ttfo,
    /// Time to second token.
    Ttst,
    /// Inter-chunk latency.
    Icl,
    /// Inter-token latency; for one request, its time per output token.
    Itl,
    /// Time per output token.
    Tpot,
    /// Normalised time per output token.
    Ntpot,
    /// End-to-end latency.
    E2e,
}

/// Which figure of a distribution an objective is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    /// The q-quantile, 0 < q < 1.
    Quantile(f64),
    /// The mean.
    Mean,
    /// The largest value.
    Max,
}

/// An objective on the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// As the user wrote it.
    pub text: String,
    /// Which figure.
    pub percentile: Percentile,
    /// Of which metric.
    pub metric: Metric,
    /// Largest value, in ns.
    pub limit_ns: u64,
    /// Whether the limit itself is allowed (`<=`) or not (`<`).
    pub inclusive: bool,
}

/// A limit on one request; a value equal to it is within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Of which metric.
    pub metric: Metric,
    /// Largest value, in ns.
    pub limit_ns: u64,
}

/// All limits that a good request meets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Goodput {
    /// The limits, each metric once.
    pub limits: Vec<Limit>,
}
