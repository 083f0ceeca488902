//! What is typed: the commands and their options.

mod baseline;
mod config;
mod curve;
mod data;
mod help;
mod merge;
mod report;
mod role;
mod serving;
mod sim;
mod trace;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, FromArgMatches as _, Parser, Subcommand};

use crate::config::Options;
use crate::exit::{Code, Failure};
use crate::output::{self, Screen};
use crate::values::CpuList;
pub(crate) use baseline::BaselineArgs;
pub(crate) use config::{
    CompletionsArgs, ConfigCheckArgs, ConfigCommand, LoadCommand, ManArgs, SchemaArgs,
};
pub(crate) use curve::{SearchArgs, SweepArgs};
pub(crate) use data::{BodyAs, CheckArgs, ConvertArgs, DataCommand, PreviewArgs, StatsArgs};
pub(crate) use help::command;
pub(crate) use merge::MergeArgs;
pub(crate) use report::{CompareArgs, Format, Peer, ReportArgs};
pub(crate) use sim::SimArgs;
pub(crate) use trace::TraceArgs;
pub(crate) use worker::{FleetArgs, WorkerArgs};

/// Times LLM servers: sends load and measures every token of the answers.
#[derive(Debug, Parser)]
#[command(name = "tokclock", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one load point against a server, or against the embedded simulator
    #[command(after_help = RUN_EXAMPLES, allow_negative_numbers = true)]
    Run(Box<RunArgs>),
    /// Go through several loads: the curve, its knee, the range where objectives hold
    #[command(after_help = curve::SWEEP_EXAMPLES, allow_negative_numbers = true)]
    Sweep(Box<SweepArgs>),
    /// Find the highest load that keeps objectives
    #[command(after_help = curve::SEARCH_EXAMPLES, allow_negative_numbers = true)]
    Search(Box<SearchArgs>),
    /// Send few requests and show where the time of each goes
    #[command(after_help = trace::EXAMPLES, allow_negative_numbers = true)]
    Trace(Box<TraceArgs>),
    /// Make one result of those of several hosts that sent one load
    #[command(after_help = merge::EXAMPLES)]
    Merge(MergeArgs),
    /// Render results again: pages, tables, files for other tools
    #[command(after_help = report::REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Say what changed between two or more results, beyond noise
    #[command(after_help = report::COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Say what this host can do for a load client, and what to change
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Find out what the client costs on this host and how far its figures can be trusted
    #[command(after_help = baseline::EXAMPLES)]
    Baseline(Box<BaselineArgs>),
    /// Send a part of the load that another host leads, as it says on standard input
    #[command(after_help = worker::EXAMPLES)]
    Worker(WorkerArgs),
    /// Look at what would be sent: preview, statistics, conversion, bad lines
    #[command(after_help = data::EXAMPLES)]
    Data {
        /// What to do with it.
        #[command(subcommand)]
        command: DataCommand,
    },
    /// Serve as a simulated LLM server until Ctrl-C, then print what was served as JSON
    #[command(after_help = sim::EXAMPLES)]
    Sim(Box<SimArgs>),
    /// Check files of options, or print their JSON Schema
    #[command(after_help = config::CONFIG_EXAMPLES)]
    Config {
        /// What to do with them.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print what makes a shell complete commands and options
    #[command(after_help = config::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print manual pages
    #[command(after_help = config::MAN_EXAMPLES)]
    Man(ManArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  tokclock run                                     a first run, no server needed
  tokclock run http://127.0.0.1:8000 -c 32 -n 500  32 users, 500 requests
  tokclock run http://127.0.0.1:8000 --rate 5 --duration 1m --warmup 10s
                                                   5 arrivals per second, whatever the answers do
  tokclock run http://127.0.0.1:8000 --isl 512 --osl 128 --slo 'p95(ttft)<500ms'
                                                   exit code 3 if the objective is missed
  tokclock run --config tokclock-results/<run>/run.toml
                                                   the same run again

Exit codes, the first that applies: 130 interrupted (results are written), 1 could not run,
2 usage, 4 result invalid, 5 too many failures or no success, 3 an objective missed, 0.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  tokclock doctor                                  for a server on this host
  tokclock doctor http://127.0.0.1:8000            on the way to a server: its interface and queues
  tokclock doctor --json | jq '.findings[] | select(.state == \"warn\")'

Changes nothing and sends nothing but a look for the address that answers, where a name has several.
Exit codes: 0 whatever was found, 1 could not run, 2 usage.";

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// All that a file can say too.
    #[command(flatten)]
    pub(crate) options: Options,

    /// What no file says.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

impl RunArgs {
    /// The options typed over those of the file, if one is named.
    ///
    /// # Errors
    /// A usage error if the file cannot be read.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let typed = self.options.clone();
        match &self.common.config {
            Some(path) => typed.over(Options::read(path)?),
            None => Ok(typed),
        }
    }
}

/// Options of every command that sends a load, beside those that a file can hold.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonArgs {
    /// Take options from a TOML file, keys named as the options; what is typed here wins
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) config: Option<PathBuf>,

    /// Baseline of this host to compare with, or none [default: the newest that `tokclock
    /// baseline` took here]
    #[arg(long, value_name = "FILE", help_heading = "Client")]
    pub(crate) baseline: Option<PathBuf>,

    /// Write no report.html beside the result; `tokclock report` makes it later
    #[arg(long, help_heading = "Results")]
    pub(crate) no_report: bool,

    /// Print the result as JSON to stdout, everything else to stderr
    #[arg(long, help_heading = "Results")]
    pub(crate) json: bool,

    /// Print nothing but errors (and, with --json, the result)
    #[arg(long, short = 'q', help_heading = "Results")]
    pub(crate) quiet: bool,

    /// Who sends.
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

impl CommonArgs {
    /// Where the command prints.
    #[must_use]
    pub(crate) fn screen(&self) -> Screen {
        Screen { quiet: self.quiet, json: self.json }
    }
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The server that the load would go to [default: one on this host]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Look at so many reactors [default: one for each physical core, with one CPU left for the rest]
    #[arg(long, value_name = "N")]
    pub(crate) reactors: Option<usize>,

    /// Look at reactors on these CPUs, such as 0,2-5
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,

    /// Print the findings as JSON, in place of the page
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads a command line; the first item is the name of the program.
///
/// # Errors
/// The exit code, once help or a usage error has been printed.
pub(crate) fn parse<I>(line: I) -> Result<Cli, Code>
where
    I: IntoIterator<Item = OsString>,
{
    let matched = command().try_get_matches_from(line);
    let read = matched.and_then(|matches| {
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
    });
    read.map_err(|error| {
        if is_stray_value(&error) {
            // It may be the second half of an unquoted header, so it is not shown.
            output::error(Failure::usage(
                "one argument too many: see --help; a value with blanks needs quotes",
            ));
        } else {
            // A closed pipe is no reason to fail, and there is nowhere else to say so.
            let _ = error.print();
        }
        if error.use_stderr() { Code::Usage } else { Code::Ok }
    })
}

fn is_stray_value(error: &clap::Error) -> bool {
    let is_value = |value: &ContextValue| match value {
        ContextValue::String(text) => !text.starts_with('-'),
        _ => false,
    };
    error.kind() == ErrorKind::UnknownArgument
        && error.get(ContextKind::InvalidArg).is_some_and(is_value)
}

/// The options of `run` as typed, for tests.
#[cfg(test)]
pub(crate) fn parse_options(options: &[&str]) -> Options {
    let line = ["tokclock", "run"].iter().chain(options);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Run(args) => args.options().unwrap(),
        _ => unreachable!("the line says run"),
    }
}

/// The options of `baseline` as typed, for tests.
#[cfg(test)]
pub(crate) fn parse_baseline(options: &[&str]) -> BaselineArgs {
    let line = ["tokclock", "baseline"].iter().chain(options);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Baseline(args) => *args,
        _ => unreachable!("the line says baseline"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn code(line: &[&str]) -> Code {
        parse(line.iter().map(OsString::from)).unwrap_err()
    }

    #[test]
    fn the_definition_of_the_options_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bad_values_are_usage_errors() {
        for line in [
            &["tokclock", "run", "--duration", "soon"][..],
            &["tokclock", "run", "--max-error-rate", "200%"],
            &["tokclock", "run", "--trace", "file", "--data", "file"],
            &["tokclock", "run", "--class", "isl"],
            &["tokclock", "run", "--class", "rate=5"],
            &["tokclock", "baseline", "--streams", "many"],
            &["tokclock", "baseline", "--duration", "soon"],
            &["tokclock", "sim", "--unix", "s", "--port", "1"],
            &["tokclock", "sim", "--fault", "stall"],
            &["tokclock", "sim", "--fault", "explode=5%"],
            &["tokclock", "sim", "--fault", "stall=500%"],
            &["tokclock", "sweep", "--concurrency", "4..1"],
            &["tokclock", "search", "--precision", "many"],
            &["tokclock", "sim", "--serving", "fast"],
            &["tokclock", "sim", "--serving", "queue", "--itl", "1ms"],
            &["tokclock", "sim", "--serving", "queue", "--max-concurrent", "4"],
            &["tokclock", "sim", "--serving", "queue", "--when-full", "cry"],
            &["tokclock", "sim", "--max-batch", "4"],
            &["tokclock", "sim", "--queue", "4"],
            &["tokclock"],
        ] {
            assert_eq!(code(line), Code::Usage, "{line:?}");
        }
    }

    #[test]
    fn help_is_no_error() {
        assert_eq!(code(&["tokclock", "run", "--help"]), Code::Ok);
        assert_eq!(code(&["tokclock", "--version"]), Code::Ok);
    }

    #[test]
    fn the_help_names_every_dialect() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let option = run.get_arguments().find(|one| one.get_id() == "dialect").unwrap();
        let help = option.get_help().unwrap().to_string();
        for dialect in tokclock_engine::workload::Dialect::ALL {
            assert!(help.contains(dialect.as_str()), "{dialect}");
        }
    }

    #[test]
    fn a_switch_of_the_file_can_be_turned_off_again() {
        assert_eq!(parse_options(&["--chunks"]).chunks, Some(true));
        assert_eq!(parse_options(&["--chunks=false"]).chunks, Some(false));
        let options = parse_options(&["--no-stream", "http://127.0.0.1:1"]);
        assert_eq!(options.url, ["http://127.0.0.1:1"]);
    }

    #[test]
    fn headers_and_objectives_repeat() {
        let options = parse_options(&["--header", "A: 1", "--header", "B: 2", "--slo", "x"]);
        assert_eq!(options.header, ["A: 1", "B: 2"]);
        assert_eq!(options.slo, ["x"]);
    }
}
