//! What is typed: the commands and their options.

mod baseline;
mod data;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};
use tokclock_sim::{Law, Rate, UsageMode};

use crate::config::Options;
use crate::exit::{Code, Failure};
use crate::output;
use crate::values::CpuList;
pub(crate) use baseline::BaselineArgs;
pub(crate) use data::{BodyAs, CheckArgs, ConvertArgs, DataCommand, PreviewArgs, StatsArgs};

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
    /// Say what this host can do for a load client, and what to change
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Find out what the client costs on this host and how far its figures can be trusted
    #[command(after_help = baseline::EXAMPLES)]
    Baseline(Box<BaselineArgs>),
    /// Look at what would be sent: preview, statistics, conversion, bad lines
    Data {
        /// What to do with it.
        #[command(subcommand)]
        command: DataCommand,
    },
    /// Serve as a simulated LLM server until Ctrl-C, then print what was served as JSON
    #[command(after_help = SIM_EXAMPLES)]
    Sim(Box<SimArgs>),
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

const SIM_EXAMPLES: &str = "\
Examples:
  tokclock sim --port 8000
  tokclock sim --port 8000 --ttft 200ms --itl 20ms --max-concurrent 16
  tokclock sim --port 8000 --fault status:429,2s=5% --fault stall:3=1% --fault reset=1%

Faults, each as KIND=RATE with a RATE such as 5% or 0.05. Together at most 100%: a request has one
fault at most, and which depends on --seed and the request's number alone. AFTER counts output
events before the fault; without it the fault comes in the middle of the answer.
  close-before          closed after the request is read, without a byte of answer
  status:CODE[,RETRY]   an error of status 400 to 599, with Retry-After if RETRY is given (2s)
  stall-head            no byte is sent, the connection stays open
  stall[:AFTER]         nothing follows, the connection stays open
  reset[:AFTER]         the connection is reset
  truncate[:AFTER]      the connection is closed within a chunk
  cut[:AFTER]           the body ends in order, without finish reason and [DONE]
  error-event[:AFTER]   an error object and [DONE] in a stream of status 200
  malformed[:AFTER]     one event is no JSON, the stream goes on
  empty                 status 200, no event
  no-done               a finish reason, no [DONE]
  wrong-usage           twice as many tokens told as sent, where usage is told
  close-after           closed after a whole answer that did not announce it
  pings                 a comment before every output event
  drip[:BYTES[,GAP]]    the answer in small pieces [default: 16 bytes, 1ms]
  refuse                the connection is reset when accepted; its RATE is of connections, and apart
An answer that is no stream fails in the middle of its body; cut, no-done and pings leave it alone.";

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// All that a file can say too.
    #[command(flatten)]
    pub(crate) options: Options,

    /// Take options from a TOML file, keys named as the options; what is typed here wins
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) config: Option<PathBuf>,

    /// Baseline of this host to compare with, or none [default: the newest that `tokclock
    /// baseline` took here]
    #[arg(long, value_name = "FILE", help_heading = "Client")]
    pub(crate) baseline: Option<PathBuf>,

    /// Print the summary as JSON to stdout, everything else to stderr
    #[arg(long, help_heading = "Results")]
    pub(crate) json: bool,

    /// Print nothing but errors (and, with --json, the summary)
    #[arg(long, short = 'q', help_heading = "Results")]
    pub(crate) quiet: bool,
}

impl RunArgs {
    /// The options typed over those of the file, if one is named.
    ///
    /// # Errors
    /// A usage error if the file cannot be read.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let typed = self.options.clone();
        match &self.config {
            Some(path) => typed.over(Options::read(path)?),
            None => Ok(typed),
        }
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

/// Options of `sim`. What is absent is as the simulator has it.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Port on the loopback address; 0 takes a free one
    #[arg(long, default_value_t = 8000, help_heading = "Server")]
    pub(crate) port: u16,

    /// Listen on this unix socket in place of a port; it must not exist yet
    #[arg(long, value_name = "PATH", conflicts_with = "port", help_heading = "Server")]
    pub(crate) unix: Option<PathBuf>,

    /// CPUs to serve on, such as 0,2-5
    #[arg(long, value_name = "LIST", help_heading = "Server")]
    pub(crate) cpus: Option<CpuList>,

    /// Name of the model that it lists
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub(crate) model: Option<String>,

    /// Serve at most so many requests at once, the others wait [default: no limit]
    #[arg(long, value_name = "N", value_parser = at_least_1(), help_heading = "Server")]
    pub(crate) max_concurrent: Option<u32>,

    /// Write down when every token left
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub(crate) truth: Option<PathBuf>,

    /// End when standard input ends, too: for a caller that must leave nothing running
    #[arg(long, help_heading = "Server")]
    pub(crate) until_stdin_ends: bool,

    /// Let this go wrong so often, see below; repeatable
    #[arg(long, value_name = "KIND=RATE", help_heading = "Server")]
    pub(crate) fault: Vec<Rate>,

    /// Time to first token
    #[arg(long, value_name = "LAW", default_value = "50ms", help_heading = "Timing")]
    pub(crate) ttft: Law,

    /// Time from the first token to the second [default: as --itl]
    #[arg(long, value_name = "LAW", help_heading = "Timing")]
    pub(crate) ttst: Option<Law>,

    /// Time between tokens
    #[arg(long, value_name = "LAW", default_value = "10ms", help_heading = "Timing")]
    pub(crate) itl: Law,

    /// Seed of every random choice
    #[arg(long, value_name = "N", help_heading = "Timing")]
    pub(crate) seed: Option<u64>,

    /// Tokens that each event carries
    #[arg(long, value_name = "N", value_parser = at_least_1(), help_heading = "Answer")]
    pub(crate) tokens_per_event: Option<u32>,

    /// Events that each write carries
    #[arg(long, value_name = "N", value_parser = at_least_1(), help_heading = "Answer")]
    pub(crate) events_per_write: Option<u32>,

    /// Output tokens of a request that asks for no number
    #[arg(long, value_name = "N", value_parser = at_least_1(), help_heading = "Answer")]
    pub(crate) default_output_tokens: Option<u32>,

    /// Whether a first event names the role and carries no token
    #[arg(long, value_name = "BOOL", help_heading = "Answer")]
    pub(crate) role_event: Option<bool>,

    /// Whether the response head leaves before the first token is due
    #[arg(long, value_name = "BOOL", help_heading = "Answer")]
    pub(crate) head_early: Option<bool>,

    /// When token counts are sent: requested (as the request says), always, never
    #[arg(long, value_name = "WHEN", value_parser = usage_mode, help_heading = "Answer")]
    pub(crate) usage: Option<UsageMode>,

    /// The text of every token
    #[arg(long, value_name = "TEXT", help_heading = "Answer")]
    pub(crate) word: Option<String>,
}

fn at_least_1() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

fn usage_mode(text: &str) -> Result<UsageMode, String> {
    match text {
        "requested" => Ok(UsageMode::Requested),
        "always" => Ok(UsageMode::Always),
        "never" => Ok(UsageMode::Never),
        _ => Err("expected requested, always or never".to_owned()),
    }
}

/// Reads a command line; the first item is the name of the program.
///
/// # Errors
/// The exit code, once help or a usage error has been printed.
pub(crate) fn parse<I>(line: I) -> Result<Cli, Code>
where
    I: IntoIterator<Item = OsString>,
{
    Cli::try_parse_from(line).map_err(|error| {
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
            &["tokclock", "sweep"],
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
