//! Options of a load over several hosts, and of those who send their part of it.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  tokclock run http://10.0.0.9:8000 --rate 200 -d 30s --worker 'ssh a tokclock worker' --worker
      'ssh b tokclock worker'                      it is started by those who lead a load
  echo '{\"do\":\"hello\"}' | tokclock worker          who it is, in a line of JSON

Speaks lines of JSON on standard input and output and listens on nothing. It ends with its input.
Exit codes: 0, 1 could not run, 2 usage.";

/// Options of `worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Keep results below this directory [default: one of the system's temporary directories, gone
    /// at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Carry out loads, for the worker that started this process.
    #[arg(long, hide = true, requires = "dir")]
    pub(crate) carry_out: bool,
}

/// Who sends the load in place of this process.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FleetArgs {
    /// Share the load with this command, which starts `tokclock worker` on another host, such as 'ssh
    /// a tokclock worker' (repeatable); it is run without a shell
    #[arg(long, value_name = "CMD", help_heading = "Many hosts")]
    pub(crate) worker: Vec<String>,

    /// File of such commands, one a line
    #[arg(long, value_name = "FILE", help_heading = "Many hosts")]
    pub(crate) workers: Option<PathBuf>,
}

impl FleetArgs {
    /// Whether others send.
    #[must_use]
    pub(crate) fn has_workers(&self) -> bool {
        !self.worker.is_empty() || self.workers.is_some()
    }
}
