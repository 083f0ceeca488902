//! Options of `sweep` and `search` that a file can hold too.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::{Share, Span};

/// Options of `sweep` beside those of a run.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CurveOptions {
    /// Run each level so often, in a seeded order; the spread is shown [default: 1]
    #[arg(long, value_name = "K", help_heading = "Sweep")]
    pub(crate) repeat: Option<u32>,

    /// Add levels at 1.5 and 2 times the knee, then see how long the service takes to come back
    /// [default: with --concurrency auto or --rate auto]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Sweep"
    )]
    pub(crate) overload: Option<bool>,

    /// Do not leave out levels above one where half of the requests failed or were not served
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Sweep"
    )]
    pub(crate) keep_going: Option<bool>,

    /// GPUs that serve, for tokens/s of each
    #[arg(long, value_name = "N", help_heading = "Sweep")]
    pub(crate) gpus: Option<u32>,

    /// Wait so long at most for the server to be idle before each level [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = "Sweep")]
    pub(crate) idle_wait: Option<Span>,
}

/// Options of `search` beside those of a run.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct SearchOptions {
    /// How close to each other the highest load that holds and the lowest that does not shall be
    /// [default: 5%]
    #[arg(long, value_name = "SHARE", help_heading = "Search")]
    pub(crate) precision: Option<Share>,

    /// How long one load is looked at in all, at most, until it is sure [default: 16 times --duration]
    #[arg(long, value_name = "TIME", help_heading = "Search")]
    pub(crate) max_duration: Option<Span>,

    /// Loads that are tried, at most, for each tier [default: 12]
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) max_probes: Option<u32>,

    /// Further objectives with a boundary of their own, such as 'gold: p95(ttft)<200ms,
    /// p99(itl)<30ms' (repeatable)
    #[arg(long, value_name = "NAME: RULES", help_heading = "Search")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tier: Vec<String>,

    /// Wait so long at most for the server to be idle before each probe [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = "Search")]
    pub(crate) idle_wait: Option<Span>,
}
