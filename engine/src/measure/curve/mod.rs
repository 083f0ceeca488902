//! A curve: what became of the figures while the load was varied. The types of `curve.json`.
//!
//! ```text
//! Summary ─► Repetition ─┐
//! Summary ─► Repetition ─┴► Level ─┐
//!                           Level ─┴► Curve { knee, past_knee, envelope, pareto }
//! ```
//! Latencies are ns, rates are per second, loads are in the unit of the [`Variable`]. The shape
//! (knee, what follows it, envelope) is read from the levels in order of load.

mod about;
mod envelope;
mod figures;
mod knee;
mod leg_means;
mod level;
mod pareto;
mod past;
#[cfg(test)]
mod planted;
mod recovery;
mod saturation;

pub use about::About;
pub use envelope::{Envelope, OperatingPoint, Outside, envelope};
pub use figures::{Figures, Intervals};
pub use knee::{Knee, knee};
pub use leg_means::LegMeans;
pub use level::{Level, Repetition, Spread};
pub use pareto::{ParetoPoint, Point, pareto};
pub use past::{PastKnee, past_knee};
pub use recovery::Recovery;
pub use saturation::saturated;

use serde::{Deserialize, Serialize};

/// Name and version of the schema of `curve.json`.
pub const CURVE_SCHEMA: &str = "tokclock.curve/1";

/// What was varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variable {
    /// Users of a closed loop.
    Concurrency,
    /// Arrivals per second of an open loop.
    Rate,
}

impl Variable {
    /// Arrivals do not wait for answers.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::Rate
    }

    /// The word for it in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
        }
    }
}

/// `curve.json`. What does not exist is null; no number is NaN or infinite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// [`CURVE_SCHEMA`].
    pub schema: String,
    /// Where its requests went and what they said.
    #[serde(default)]
    pub about: Option<About>,
    /// What was varied.
    pub variable: Variable,
    /// Every level, in the order they were run.
    pub levels: Vec<Level>,
    /// Where more load stops paying.
    pub knee: Knee,
    /// What the server does beyond it; null when no level tells.
    pub past_knee: Option<PastKnee>,
    /// The levels as trades of throughput against what a user sees.
    pub pareto: Vec<ParetoPoint>,
    /// The range of load where the objectives held; null without objectives.
    pub envelope: Option<Envelope>,
    /// How the server came back after overload; null where that was not tried.
    #[serde(default)]
    pub recovery: Option<Recovery>,
    /// What else a reader should know.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Curve {
    /// The curve of `levels`, in the order they were run: fills in which of them are saturated, and
    /// reads knee, envelope and frontiers. It may be made anew after each level. `source` names the
    /// result in the points of `pareto`; `gpus` is how many served it, where that is known.
    #[must_use]
    pub fn new(
        variable: Variable,
        mut levels: Vec<Level>,
        source: &str,
        gpus: Option<u32>,
    ) -> Self {
        saturation::mark(&mut levels, variable);
        let rising = by_load(&levels);
        let knee = knee(&rising);
        let past_knee = past_knee(&rising, &knee);
        let envelope = envelope(&levels);
        let points: Vec<Point> =
            levels.iter().map(|level| Point::of(source, level, gpus)).collect();
        Self {
            schema: CURVE_SCHEMA.into(),
            about: None,
            variable,
            knee,
            past_knee,
            pareto: pareto(&points),
            envelope,
            recovery: None,
            notes: Vec::new(),
            levels,
        }
    }

    /// The levels by load.
    #[must_use]
    pub fn by_load(&self) -> Vec<&Level> {
        by_load(&self.levels)
    }
}

/// See [`Curve::by_load`]. Levels of equal load stay in the order they were run.
fn by_load(levels: &[Level]) -> Vec<&Level> {
    let mut sorted: Vec<&Level> = levels.iter().collect();
    sorted.sort_by(|a, b| a.value.total_cmp(&b.value));
    sorted
}

#[cfg(test)]
mod tests;
