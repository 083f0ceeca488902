//! Options of `sweep` and `search`.

use std::path::PathBuf;

use clap::Args;

use super::CommonArgs;
use crate::config::{CurveOptions, Options, SearchOptions};
use crate::exit::Failure;

pub(super) const SWEEP_EXAMPLES: &str = "\
Examples:
  tokclock sweep                                   the embedded simulator, to past its limit
  tokclock sweep http://127.0.0.1:8000 -c 1,2,4,8,16 -d 20s --slo 'p95(ttft)<500ms'
  tokclock sweep http://127.0.0.1:8000 --rate 1..32 --repeat 3
  tokclock sweep http://127.0.0.1:8000 --rate auto --overload --slo 'p95(ttft)<500ms'
                                                   and how it comes back from twice its knee
  tokclock sweep --resume tokclock-results/<sweep>
                                                   go on where it was ended

Each level is a run of its own under levels/; curve.json and curve.csv hold them all.
Exit codes, the first that applies: 130 interrupted, 1 could not run or the server went away, 2 usage,
5 no request succeeded at any level, 0 whatever it saw.";

pub(super) const SEARCH_EXAMPLES: &str = "\
Examples:
  tokclock search --slo 'p95(ttft)<200ms'          the embedded simulator
  tokclock search http://127.0.0.1:8000 --slo 'p95(ttft)<500ms' --slo 'p99(itl)<40ms'
                                                   the highest rate, to 5 %
  tokclock search http://127.0.0.1:8000 -c auto --slo 'p95(e2e)<3s'
                                                   the most users
  tokclock search http://127.0.0.1:8000 --slo 'p95(ttft)<1s' --tier 'gold: p95(ttft)<300ms'
                                                   two boundaries, from the same probes

Exit codes, the first that applies: 130 interrupted, 1 could not run or the server went away, 2 usage,
3 no load that was tried keeps the objectives, 0.";

/// Options of `sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Its own, which a file can hold too.
    #[command(flatten)]
    pub(crate) curve: CurveOptions,

    /// All that a run has and a file can say.
    #[command(flatten)]
    pub(crate) options: Options,

    /// Go on with a sweep that was ended, from the levels in its directory
    #[arg(long, value_name = "DIR", help_heading = "Sweep", conflicts_with = "config")]
    pub(crate) resume: Option<PathBuf>,

    /// Directories of other sweeps, whose points are held against those of this one (repeatable)
    #[arg(long, value_name = "DIR", help_heading = "Sweep")]
    pub(crate) beside: Vec<PathBuf>,

    /// What no file says.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Options of `search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Its own, which a file can hold too.
    #[command(flatten)]
    pub(crate) search: SearchOptions,

    /// All that a run has and a file can say.
    #[command(flatten)]
    pub(crate) options: Options,

    /// Go on with a search that was ended, from the probes in its directory
    #[arg(long, value_name = "DIR", help_heading = "Search", conflicts_with = "config")]
    pub(crate) resume: Option<PathBuf>,

    /// What no file says.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

impl SweepArgs {
    /// The options typed over those of the file, or of the sweep that goes on.
    ///
    /// # Errors
    /// A usage error if the file cannot be read.
    pub(crate) fn options(&self) -> Result<(Options, CurveOptions), Failure> {
        let file = self.resume.as_ref().map(|dir| dir.join("run.toml"));
        Options::with(&self.options, &self.curve, file.or_else(|| self.common.config.clone()))
    }
}

impl SearchArgs {
    /// The options typed over those of the file, or of the search that goes on.
    ///
    /// # Errors
    /// A usage error if the file cannot be read.
    pub(crate) fn options(&self) -> Result<(Options, SearchOptions), Failure> {
        let file = self.resume.as_ref().map(|dir| dir.join("run.toml"));
        Options::with(&self.options, &self.search, file.or_else(|| self.common.config.clone()))
    }
}
