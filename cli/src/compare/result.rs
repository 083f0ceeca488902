//! `compare.json`: what the sides are, what changed between the base and each other side, what the gates
//! say.

use serde::Serialize;
use tokclock_engine::measure::compare::{Difference, Gate, Overall, Tripped};
use tokclock_engine::run::search::Boundary;

use super::drift::Drift;

/// Name and version of the schema.
pub(crate) const SCHEMA: &str = "tokclock.compare/1";

/// `compare.json`. What does not exist is null; no number is NaN or infinite.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// [`SCHEMA`].
    pub(crate) schema: &'static str,
    /// Level of every interval, and of all verdicts of a pair together.
    pub(crate) level: f64,
    /// Seed of drawing again.
    pub(crate) seed: u64,
    /// The sides, the base first.
    pub(crate) sides: Vec<SideReport>,
    /// The base and each other side.
    pub(crate) pairs: Vec<Pair>,
    /// What `--fail-on` named, for each pair and level.
    pub(crate) gates: Vec<GateReport>,
    /// A gate tripped.
    pub(crate) tripped: bool,
}

/// One side.
#[derive(Debug, Serialize)]
pub(crate) struct SideReport {
    /// Its letter; A is the base.
    pub(crate) letter: char,
    /// `run`, `sweep` or `search`.
    pub(crate) kind: &'static str,
    /// Where its results lie.
    pub(crate) paths: Vec<String>,
    /// What measured them.
    pub(crate) tool: String,
    /// Where the definitions of another tool are not ours.
    pub(crate) definitions: Vec<String>,
    /// Times of another tool that are not taken, by its names.
    pub(crate) left_out: Vec<String>,
    /// What makes it doubtful.
    pub(crate) warnings: Vec<String>,
}

impl SideReport {
    /// What to know of another tool's figures, a line each.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = String> + '_ {
        let left_out =
            (!self.left_out.is_empty()).then(|| format!("not taken: {}", self.left_out.join(", ")));
        self.definitions.iter().cloned().chain(left_out)
    }
}

/// What changed between the base and another side.
#[derive(Debug, Serialize)]
pub(crate) struct Pair {
    /// The letter of the base.
    pub(crate) base: char,
    /// The letter of the other side.
    pub(crate) other: char,
    /// What all figures say together.
    pub(crate) overall: Overall,
    /// The same in one sentence.
    pub(crate) sentence: String,
    /// What is one sample: `requests`, or `runs` where both sides have several; null of searches.
    pub(crate) unit: Option<&'static str>,
    /// The figures; of sweeps one group for each load that both have.
    pub(crate) groups: Vec<Group>,
    /// What is not compared, and why.
    pub(crate) not_compared: Vec<String>,
    /// Whether the same was asked for; null where that is not known.
    pub(crate) same_workload: Option<bool>,
    /// What was asked for differently.
    pub(crate) workload: Vec<Drift>,
    /// What drifted besides.
    pub(crate) drift: Vec<Drift>,
    /// Points of both sweeps, side by side; null of others.
    pub(crate) curves: Option<Curves>,
    /// The boundaries of both searches; null of others.
    pub(crate) boundaries: Option<[Boundary; 2]>,
    /// What else to know.
    pub(crate) notes: Vec<String>,
}

/// The figures at one load.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    /// The load of a level; null of runs.
    pub(crate) value: Option<f64>,
    /// What they say together.
    pub(crate) overall: Overall,
    /// Each of them.
    pub(crate) figures: Vec<Difference>,
}

/// Points of two sweeps, the base's first.
#[derive(Debug, Serialize)]
pub(crate) struct Curves {
    /// Loads that only one of them has.
    pub(crate) unmatched: [Vec<f64>; 2],
    /// The load at the upper end of the operating envelope.
    pub(crate) operating_point: [Option<f64>; 2],
    /// The load of the knee.
    pub(crate) knee: [Option<f64>; 2],
}

/// What became of one gate in one pair, at one load.
#[derive(Debug, Serialize)]
pub(crate) struct GateReport {
    /// As it was written.
    pub(crate) gate: Gate,
    /// The letter of the other side.
    pub(crate) other: char,
    /// The load of a level; null of runs.
    pub(crate) value: Option<f64>,
    /// What became of it.
    pub(crate) tripped: Tripped,
    /// The difference in words.
    pub(crate) seen: String,
}
