//! The options of a load that several hosts share.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::{Moment, ShardAsked};

/// Where several hosts send one load together. In a TOML file the keys are the names of the options.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct HostOptions {
    /// Send part I of N (I from 0) of the one load that N hosts send together; auto: as the variables of
    /// a launcher say. All hosts get the same options, --seed among them
    #[arg(long, value_name = "I/N|auto", help_heading = "Many hosts")]
    pub(crate) shard: Option<ShardAsked>,

    /// Begin the load at this instant of the wall clock: Unix seconds, or UTC such as
    /// 2025-12-01T00:00:00.5Z [default: as soon as all stands ready]
    #[arg(long, value_name = "TIME", help_heading = "Many hosts")]
    #[serde(skip_serializing)]
    pub(crate) start_at: Option<Moment>,
}
