//! `search.json`: what a search found, and everything it tried on the way.

use serde::{Deserialize, Serialize};

use super::{Boundary, Search};
use crate::measure::curve::{About, Figures, Level, Variable};
use crate::measure::{Decision, Health};

/// Name and version of the schema of `search.json`.
pub const SEARCH_SCHEMA: &str = "tokclock.search/1";

/// `search.json`. What does not exist is null; no number is NaN or infinite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    /// [`SEARCH_SCHEMA`].
    pub schema: String,
    /// Where its requests went and what they said.
    #[serde(default)]
    pub about: Option<About>,
    /// What was varied.
    pub variable: Variable,
    /// The objectives of the first tier, as they were written.
    pub objectives: Vec<String>,
    /// Where its boundary lies.
    pub boundary: Boundary,
    /// Its objectives that broke at the upper end of the boundary, the surely broken first.
    pub breached: Vec<String>,
    /// The figures at the lower end of the boundary: the operating point.
    pub operating_point: Option<Figures>,
    /// Every load that was tried, in that order.
    pub probes: Vec<ProbeReport>,
    /// Every tier of objectives, the first one too.
    pub tiers: Vec<TierReport>,
    /// The share to which the boundary was to be known.
    pub precision: f64,
    /// The lowest load that the client could not carry: above it nothing is known.
    pub limited_by_client: Option<f64>,
    /// The search came to its end; else it was interrupted, or the server went away.
    pub is_complete: bool,
    /// What else a reader should know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One tier of objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierReport {
    /// Its name; null of the only one.
    pub name: Option<String>,
    /// Its objectives, as they were written.
    pub objectives: Vec<String>,
    /// Where its boundary lies.
    pub boundary: Boundary,
    /// Its objectives that broke at the upper end of the boundary, the surely broken first.
    pub breached: Vec<String>,
}

/// One load that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The load.
    pub value: f64,
    /// What is decided on the first tier.
    pub decision: Decision,
    /// Whether the samples alone keep its objectives, however few they are.
    pub leans_to_pass: bool,
    /// How often it was looked at.
    pub looks: usize,
    /// How long the looks were together, without warm-up and drain, s.
    pub seconds: f64,
    /// The decision on each tier.
    pub tiers: Vec<Decision>,
    /// Objectives of the first tier that it breaks, as the samples lean.
    pub broke: Vec<String>,
    /// The worst verdict on the client.
    pub client: Health,
    /// The median of each figure over the looks.
    #[serde(flatten)]
    pub figures: Figures,
    /// The result directory of each look.
    pub dirs: Vec<String>,
}

/// A tier: its name and its objectives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tier {
    /// Its name; none of the only one.
    pub name: Option<String>,
    /// Its objectives, as they were written.
    pub objectives: Vec<String>,
}

impl SearchReport {
    /// The report of a search, over and complete or not. `levels` hold what was seen at each load.
    #[must_use]
    pub fn new(
        variable: Variable,
        search: &Search,
        tiers: &[Tier],
        levels: &[Level],
        is_complete: bool,
    ) -> Self {
        let of_tier = |(at, tier): (usize, &Tier)| {
            let boundary = search.boundary(at);
            let names = |broken: Vec<usize>| -> Vec<String> {
                broken.into_iter().filter_map(|one| tier.objectives.get(one).cloned()).collect()
            };
            let breached = boundary.high.and_then(|high| search.at(high));
            TierReport {
                name: tier.name.clone(),
                objectives: tier.objectives.clone(),
                breached: breached.map(|probe| names(probe.broken(at))).unwrap_or_default(),
                boundary,
            }
        };
        let tiers: Vec<TierReport> = tiers.iter().enumerate().map(of_tier).collect();
        let probe = |probe: &super::Probe| {
            let level = levels.iter().find(|level| level.value == probe.value);
            let first = tiers.first().map(|tier| &tier.objectives[..]).unwrap_or_default();
            let broke = probe.broken(0).into_iter().filter_map(|at| first.get(at).cloned());
            ProbeReport {
                value: probe.value,
                decision: probe.verdict(0),
                leans_to_pass: probe.leans_to_pass(0),
                looks: probe.looks,
                seconds: probe.length_ns as f64 / 1e9,
                tiers: (0..tiers.len()).map(|at| probe.verdict(at)).collect(),
                broke: broke.collect(),
                client: level.map_or(Health::Valid, |level| level.client),
                figures: level.map(|level| level.figures.clone()).unwrap_or_default(),
                dirs: level
                    .map(|level| level.repetitions.iter().map(|one| one.dir.clone()).collect())
                    .unwrap_or_default(),
            }
        };
        let invalid = search.probes().iter().filter(|probe| probe.is_invalid);
        let boundary = tiers.first().map_or_else(|| search.boundary(0), |one| one.boundary.clone());
        let at_low = boundary.low.and_then(|low| levels.iter().find(|level| level.value == low));
        Self {
            schema: SEARCH_SCHEMA.into(),
            about: None,
            variable,
            objectives: tiers.first().map(|tier| tier.objectives.clone()).unwrap_or_default(),
            breached: tiers.first().map(|tier| tier.breached.clone()).unwrap_or_default(),
            operating_point: at_low.map(|level| level.figures.clone()),
            probes: search.probes().iter().map(probe).collect(),
            precision: search.spec.precision,
            limited_by_client: invalid.map(|probe| probe.value).reduce(f64::min),
            is_complete,
            notes: Vec::new(),
            boundary,
            tiers,
        }
    }
}
