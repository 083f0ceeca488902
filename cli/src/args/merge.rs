//! Options of `merge`.

use std::path::PathBuf;

use clap::Args;

use crate::output::Screen;

pub(super) const EXAMPLES: &str = "\
Examples:
  tokclock merge host-0 host-1 host-2 --out together       the shards of one load, as one result
  tokclock merge shards --out together                     all shards in a directory
  tokclock merge shards --clocks clocks.json               with what is known of the hosts' clocks
  tokclock merge shards --histograms                       from histograms alone, within 0.1 %

Exit codes are those of run. A result that is only a part of the load, because shards are missing,
were cut off or began late, is written, and ends with 1 if nothing else applies. Shards that do
not belong together are refused with 2.";

/// Options of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Shards: result directories made with --shard, or directories that hold such
    #[arg(value_name = "DIR", required = true)]
    pub(crate) dirs: Vec<PathBuf>,

    /// Where the result goes [default: tokclock-results/<time>-merge]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// How far the hosts' clocks are apart [default: clocks.json beside the shards, if it is there; else
    /// they are taken to agree]
    #[arg(long, value_name = "FILE")]
    pub(crate) clocks: Option<PathBuf>,

    /// Go by the histograms of each second alone, within 0.1 %: where records are too many, or stayed
    /// behind
    #[arg(long)]
    pub(crate) histograms: bool,

    /// Write no report.html beside the result
    #[arg(long)]
    pub(crate) no_report: bool,

    /// Print the result as JSON to stdout, everything else to stderr
    #[arg(long)]
    pub(crate) json: bool,

    /// Print nothing but errors (and, with --json, the result)
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
}

impl MergeArgs {
    /// Where the command prints.
    #[must_use]
    pub(crate) fn screen(&self) -> Screen {
        Screen { quiet: self.quiet, json: self.json }
    }
}
