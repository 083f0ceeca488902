//! Options of `report` and `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tokclock_engine::measure::compare::Gate;
use tokclock_engine::workload::Metric;

pub(super) const REPORT_EXAMPLES: &str = "\
Examples:
  tokclock report tokclock-results/<run>                   its report.html again
  tokclock report tokclock-results/<run> --format md --out -
                                                           as Markdown, to stdout
  tokclock report tokclock-results/<run> --format csv,junit,hlog
  tokclock report tokclock-results/<run> --as aiperf       the files that AIPerf would have written
  tokclock report SWEEP-A SWEEP-B --out both               one page of several results

Exit codes: 0 written, 1 could not, 2 usage.";

pub(super) const COMPARE_EXAMPLES: &str = "\
Examples:
  tokclock compare RUN-A RUN-B                             what changed from A to B, beyond noise
  tokclock compare A1,A2,A3 B1,B2,B3                       three runs of each
  tokclock compare RUN-A RUN-B --fail-on 'p95(ttft)>+5%'   exit code 3 if it is surely so much slower
  tokclock compare vllm-bench.json RUN-B                   files of other tools too

Exit codes: 0 whatever changed, 1 could not read, 2 usage, 3 something named by --fail-on came about.";

/// A form in which results are rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Format {
    /// A page for a browser
    Html,
    /// Tables: one line for each result, and one for each request
    Csv,
    /// Markdown, for a pull request
    Md,
    /// All figures
    Json,
    /// Test cases, for CI
    Junit,
    /// Histograms of each second, for tools that read HdrHistogram logs
    Hlog,
    /// Requests, phases and output events on a time axis, for ui.perfetto.dev
    Perfetto,
}

/// Another tool, whose files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Peer {
    /// The files of `aiperf profile`
    Aiperf,
    /// The file of `vllm bench serve`
    Vllm,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Result directories, of runs, sweeps or searches
    #[arg(value_name = "DIR", required = true)]
    pub(crate) dirs: Vec<PathBuf>,

    /// What to write, several joined by commas [default: html; nothing where only --as is given]
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', hide_possible_values = false)]
    pub(crate) format: Vec<Format>,

    /// Write the files that another tool would have written, by its definitions; what has no true
    /// equivalent is left out and listed
    #[arg(long = "as", value_name = "TOOL", value_delimiter = ',')]
    pub(crate) peers: Vec<Peer>,

    /// Where the files go, or - for stdout (one format) [default: the result's own directory; the
    /// current one for several results]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// What is compared, the base first: result directories or files of other tools (AIPerf, GuideLLM,
    /// vllm bench serve); several runs of one side are joined by commas
    #[arg(value_name = "RESULT", required = true, num_args = 2..)]
    pub(crate) sides: Vec<String>,

    /// Exit with 3 if a figure surely changed by more than this, such as 'p95(ttft)>+5%', 'rps<-3%' or
    /// 'error_rate>+1%' (of shares: percentage points); repeatable
    #[arg(long, value_name = "EXPR")]
    pub(crate) fail_on: Vec<Gate>,

    /// Level of each interval and of all verdicts together
    #[arg(long, value_name = "SHARE", default_value = "99%", value_parser = level)]
    pub(crate) level: f64,

    /// Latencies to compare, such as ttft,e2e [default: ttft, ttst, icl, itl, tpot, e2e]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) metric: Vec<Metric>,

    /// Seed of drawing requests again; the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print the comparison as JSON, in place of the page
    #[arg(long, conflicts_with = "md")]
    pub(crate) json: bool,

    /// Print it as Markdown, in place of the page
    #[arg(long)]
    pub(crate) md: bool,

    /// Write compare.json, compare.md and compare.xml (JUnit) there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// A level such as 99% or 0.99, from 0.5 to 0.9999.
fn level(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let level = number.trim().parse::<f64>().ok().map(|level| level / unit);
    level
        .filter(|level| (0.5..=0.9999).contains(level))
        .ok_or_else(|| "a level lies between 50% and 99.99%, as in 95%".to_owned())
}
