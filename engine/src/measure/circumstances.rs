//! What a run is pinned by beside its figures: who ran it, with which build, against what.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::server::ServerReport;

/// What no record holds of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circumstances {
    /// Its name.
    pub name: String,
    /// The user's own labels.
    pub labels: BTreeMap<String, String>,
    /// The host, as the caller describes it.
    pub host: serde_json::Value,
    /// What the server told of itself.
    pub server: Option<ServerReport>,
    /// The hash of the workload.
    pub workload: Option<String>,
}

/// How this program was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// `release`, or `debug`: then the client is slower, and its figures are worth less.
    pub profile: String,
    /// What it was built for, as `x86_64-unknown-linux-gnu`.
    pub target: String,
    /// The commit that it was built from, where `TOKCLOCK_COMMIT` was set for the compiler.
    pub commit: Option<String>,
}

impl Build {
    /// That of this program.
    #[must_use]
    pub fn of_this() -> Self {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let env = if cfg!(target_env = "gnu") {
            "-gnu"
        } else if cfg!(target_env = "musl") {
            "-musl"
        } else {
            ""
        };
        let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
        Self {
            profile: profile.to_owned(),
            target: format!("{arch}-unknown-{os}{env}"),
            commit: option_env!("TOKCLOCK_COMMIT").map(str::to_owned),
        }
    }

    /// Whether the compiler was told not to optimise.
    #[must_use]
    pub fn is_debug(&self) -> bool {
        self.profile == "debug"
    }
}
