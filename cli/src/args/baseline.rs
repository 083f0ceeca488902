//! What may be typed after `tokclock baseline`.

use std::path::PathBuf;

use clap::Args;

use crate::values::Span;

/// Shown below its options.
pub(super) const EXAMPLES: &str = "\
Examples:
  tokclock baseline                     the whole ladder, about 75 s
  tokclock baseline --quick             less of it, about 15 s
  tokclock baseline --streams 1,32,500  those numbers of streams
  taskset -c 2,3 tokclock baseline      on these CPUs

Needs no server: it starts `tokclock sim` on other CPUs and compares what it records with the log of
when the simulator really received and sent. Leave the machine alone meanwhile.

Exit codes: 130 interrupted (what was measured is written), 1 could not run, 2 usage, 0.";

/// Options of `baseline`.
#[derive(Debug, Args)]
pub(crate) struct BaselineArgs {
    /// Fewer and shorter loads
    #[arg(long, help_heading = "Loads")]
    pub(crate) quick: bool,

    /// Open streams of the ladder [default: 1,8,64,256,1000,4000; with --quick 1,64,1000]
    #[arg(long, value_name = "N,...", value_delimiter = ',', help_heading = "Loads")]
    pub(crate) streams: Vec<u64>,

    /// How long each load lasts, about [default: 2s; with --quick 500ms]
    #[arg(long, value_name = "TIME", help_heading = "Loads")]
    pub(crate) duration: Option<Span>,

    /// Error of the service TTFT, at its p99, up to which a load counts as sustained [default: 500us]
    #[arg(long, value_name = "TIME", help_heading = "Bounds")]
    pub(crate) ttft_bound: Option<Span>,

    /// Error of the gaps between output events, likewise [default: 100us]
    #[arg(long, value_name = "TIME", help_heading = "Bounds")]
    pub(crate) gap_bound: Option<Span>,

    /// Directory of the results [default: tokclock-results/<time>-baseline]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,

    /// Print baseline.json to stdout, everything else to stderr
    #[arg(long, help_heading = "Results")]
    pub(crate) json: bool,

    /// Print nothing but errors (and, with --json, the result)
    #[arg(long, short = 'q', help_heading = "Results")]
    pub(crate) quiet: bool,
}
