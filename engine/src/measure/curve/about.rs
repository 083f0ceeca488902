//! What a curve or a search is about: where its requests went, and what they said.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::{Build, Summary, TargetReport, WorkloadReport};

/// Where the requests of several load points went, and what they said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The name of the whole.
    pub name: String,
    /// Version of this engine.
    pub version: String,
    /// How this program was built; null in what was written before that was known.
    #[serde(default)]
    pub build: Option<Build>,
    /// What the user wrote on it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The host of its first run.
    #[serde(default)]
    pub host: serde_json::Value,
    /// How many hosts sent together, at most; absent where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// The seed from which those of its runs are drawn.
    pub seed: u64,
    /// Where the requests went.
    pub target: TargetReport,
    /// What they said. The load in it, and so its hash, is that of the first run.
    pub workload: WorkloadReport,
}

impl About {
    /// What `first`, one of its runs, says of the whole.
    #[must_use]
    pub fn of(first: &Summary, name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            version: first.run.version.clone(),
            build: first.run.build.clone(),
            labels: first.labels.clone(),
            host: first.host.clone(),
            hosts: None,
            seed,
            target: first.target.clone(),
            workload: first.workload.clone(),
        }
    }
}
