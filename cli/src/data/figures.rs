//! What `data stats` finds, as it stands in its JSON.

use serde::Serialize;

use tokclock_engine::measure::ArrivalReport;

use super::histogram::{Bin, bins};

/// What the JSON calls itself.
pub(super) const SCHEMA: &str = "tokclock.data/1";

/// All that is found. What cannot be said is null.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) schema: &'static str,
    pub(super) version: &'static str,
    pub(super) seed: u64,
    /// Requests that stand alone, or conversations.
    pub(super) items: u64,
    pub(super) requests: u64,
    pub(super) recordings: Vec<Recording>,
    pub(super) input: Input,
    /// Tokens asked for; null where the API generates nothing.
    pub(super) output: Option<Lengths>,
    /// Turns of each conversation; null where there are none.
    pub(super) turns: Option<Lengths>,
    pub(super) prefixes: Prefixes,
    pub(super) cache: Cache,
    pub(super) system: SystemPrompts,
    /// Null for a closed loop.
    pub(super) arrivals: Option<ArrivalReport>,
    pub(super) notes: Vec<String>,
}

/// A recording that was read.
#[derive(Debug, Serialize)]
pub(super) struct Recording {
    pub(super) source: String,
    pub(super) format: String,
    pub(super) entries: u64,
    pub(super) requests: u64,
    /// Requests that say how many tokens their prompt has, or were counted.
    pub(super) input_known: u64,
    /// Requests that say how many tokens to ask for.
    pub(super) output_known: u64,
    /// Requests with a recorded answer.
    pub(super) answers: u64,
    /// What its hash ids tell; null where it has none.
    pub(super) blocks: Option<Blocks>,
}

/// What prompts share by the names of their blocks.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Blocks {
    pub(super) tokens_per_block: u32,
    /// Blocks of all prompts.
    pub(super) blocks: u64,
    /// Different ones.
    pub(super) distinct: u64,
    /// Different beginnings: chains of blocks from the first on.
    pub(super) distinct_prefixes: u64,
    /// Different first blocks.
    pub(super) distinct_first: u64,
}

/// Lengths of prompts.
#[derive(Debug, Serialize)]
pub(super) struct Input {
    /// Tokens of the requests where they are known.
    pub(super) tokens: Option<Lengths>,
    /// Requests where they are not.
    pub(super) unknown: u64,
    /// Characters of all requests, if there are such; null else.
    pub(super) characters: Option<Lengths>,
}

/// How much prompts begin alike.
#[derive(Debug, Serialize)]
pub(super) struct Prefixes {
    /// `tokens` or `characters`.
    pub(super) unit: &'static str,
    /// How many of them are compared.
    pub(super) length: usize,
    /// Prompts that are compared: of conversations the first turn.
    pub(super) prompts: u64,
    /// Different beginnings.
    pub(super) distinct: u64,
}

/// What a prefix cache without limits would know.
#[derive(Debug, Default, Serialize)]
pub(super) struct Cache {
    /// Requests whose tokens are known.
    pub(super) requests: u64,
    pub(super) input_tokens: u64,
    pub(super) ideal_cached_tokens: u64,
    /// Null without tokens.
    pub(super) ideal_share: Option<f64>,
}

/// Who has system prompts.
#[derive(Debug, Serialize)]
pub(super) struct SystemPrompts {
    /// Prompts that have one: of conversations the first turn.
    pub(super) prompts: u64,
    /// Different ones.
    pub(super) distinct: u64,
    /// Prompts that have the commonest.
    pub(super) commonest: u64,
}

/// Many lengths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Lengths {
    pub(super) count: u64,
    pub(super) min: u64,
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p95: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    pub(super) mean: f64,
    /// Standard deviation (divisor `count`).
    pub(super) stdev: f64,
    pub(super) histogram: Vec<Bin>,
}

impl Lengths {
    /// Their figures, percentiles by nearest rank; none if there are none.
    pub(super) fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let (min, max) = (*values.first()?, *values.last()?);
        let count = values.len() as f64;
        let mean = values.iter().map(|value| u128::from(*value)).sum::<u128>() as f64 / count;
        let squares: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100).max(1);
            values.get(rank - 1).copied().unwrap_or(max)
        };
        Some(Self {
            count: values.len() as u64,
            min,
            p50: at(50),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            max,
            mean,
            stdev: (squares / count).sqrt(),
            histogram: bins(&values),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let lengths = Lengths::of((1..=20).rev().map(|value| value * 100).collect()).unwrap();
        assert_eq!((lengths.p50, lengths.p90, lengths.p95, lengths.p99), (1000, 1800, 1900, 2000));
        assert_eq!((lengths.min, lengths.max, lengths.mean), (100, 2000, 1050.0));
        assert!((lengths.stdev - 576.628).abs() < 0.001);
        assert_eq!(Lengths::of(Vec::new()), None);
        assert_eq!(Lengths::of(vec![7]).unwrap().p99, 7);
    }
}
