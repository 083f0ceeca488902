//! What a curve or a search is about: where its requests went, and what they said.

use serde::{Deserialize, Serialize};

use crate::measure::{Summary, TargetReport, WorkloadReport};

/// Where the requests of several load points went, and what they said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The name of the whole.
    pub name: String,
    /// Version of this engine.
    pub version: String,
    /// The seed from which those of its runs are drawn.
    pub seed: u64,
    /// Where the requests went.
    pub target: TargetReport,
    /// What they said. The load in it is that of the first run.
    pub workload: WorkloadReport,
}

impl About {
    /// What `first`, one of its runs, says of the whole.
    #[must_use]
    pub fn of(first: &Summary, name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            version: first.run.version.clone(),
            seed,
            target: first.target.clone(),
            workload: first.workload.clone(),
        }
    }
}
