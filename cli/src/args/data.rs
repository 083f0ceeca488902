//! What may be typed after `tokclock data`.

use std::path::PathBuf;

use clap::{Arg, Args, Subcommand, ValueEnum};

use crate::config::Options;
use crate::exit::Failure;

pub(super) const EXAMPLES: &str = "\
Examples:
  tokclock data preview traffic.jsonl              the first 5 entries, as they would be sent
  tokclock data stats traffic.jsonl                how long they are, what they share
  tokclock data check traffic.jsonl                lines that cannot be used";

const PREVIEW_EXAMPLES: &str = "\
Examples:
  tokclock data preview traffic.jsonl              the first 5 entries, as they would be sent
  tokclock data preview -n 1 --isl 512 --turns 3   a synthetic conversation
  tokclock data preview traffic.jsonl -n 1 --body  the whole body
  tokclock data preview traffic.jsonl -n 1 --body=raw | jq .
  tokclock data preview --config tokclock-results/<run>/run.toml
                                                   what a run has sent

In a conversation <answer> stands for what the server will have answered, MODEL for a model that is
not named. Exit codes: 1 could not be read or made, 2 usage, 0.";

const STATS_EXAMPLES: &str = "\
Examples:
  tokclock data stats traffic.jsonl                lengths as far as the file declares them
  tokclock data stats traffic.jsonl --tokenizer o200k_base
                                                   and counted where it does not
  tokclock data stats --isl lognormal:median=400,p95=4000 --rate 20 -n 2000
                                                   a synthetic load, its arrivals too
  tokclock data stats trace.csv --json | jq .arrivals

Later turns of a conversation take answers to have as many tokens as are asked for.
Exit codes: 1 could not be read or made, 2 usage, 0.";

const CONVERT_EXAMPLES: &str = "\
Examples:
  tokclock data convert sharegpt.json --to traffic.jsonl
  tokclock data convert trace.csv --to - | head -n 3
  tokclock data convert traffic.jsonl --tokenizer qwen2 --to counted.jsonl
                                                   with the input tokens of every prompt
  tokclock data convert --isl 512 --rate 5 -n 100 --to load.jsonl
                                                   a synthetic load, to be handed on

Exit codes: 1 could not be read or written, 2 usage, 0.";

const CHECK_EXAMPLES: &str = "\
Examples:
  tokclock data check traffic.jsonl                every bad line, then a summary
  tokclock data check --trace trace.csv            every line must have a time, too
  tokclock data check questions.csv --field prompt=ask

Bad lines go to stdout, one a line, as FILE:LINE: REASON; the summary goes to stderr.
Exit codes: 0 all can be used, 1 some cannot, or there are none, 2 usage or no
recording.";

/// What is done with the data of a load.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Show requests as they would be sent
    #[command(after_help = PREVIEW_EXAMPLES, allow_negative_numbers = true)]
    Preview(Box<PreviewArgs>),
    /// Say how long requests are, what they share, when they come
    #[command(after_help = STATS_EXAMPLES, allow_negative_numbers = true)]
    Stats(Box<StatsArgs>),
    /// Write our own JSONL
    #[command(after_help = CONVERT_EXAMPLES, allow_negative_numbers = true)]
    Convert(Box<ConvertArgs>),
    /// Name every line that cannot be used, and why
    #[command(after_help = CHECK_EXAMPLES, allow_negative_numbers = true)]
    Check(Box<CheckArgs>),
}

/// What would be sent: the options of `run`, among which a file may be named without `--data`.
#[derive(Debug, Args)]
#[command(mut_args(as_file))]
pub(crate) struct DataOptions {
    /// All that says what would be sent.
    #[command(flatten)]
    options: Options,

    /// Server whose tokenizer is asked, with --tokenizer server alone
    #[arg(long = "url", id = "server", value_name = "URL", help_heading = "Target")]
    server: Vec<String>,

    /// Take options from a TOML file, such as the run.toml of a run; what is typed here wins
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    config: Option<PathBuf>,

    /// Print no remarks, only what was asked for and errors
    #[arg(long, short = 'q', help_heading = "Content")]
    pub(crate) quiet: bool,
}

/// How a body is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BodyAs {
    /// A member a line.
    Pretty,
    /// As it is sent, in one line.
    Raw,
}

/// Options of `data preview`.
#[derive(Debug, Args)]
#[command(mut_arg("requests", |arg| arg.help("Requests or conversations to show [default: 5]")))]
pub(crate) struct PreviewArgs {
    /// What would be sent.
    #[command(flatten)]
    pub(crate) data: DataOptions,

    /// Show whole bodies: pretty, raw (alone, a body a line) [without a value: pretty]
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "pretty",
        hide_possible_values = true,
        help_heading = "Load"
    )]
    pub(crate) body: Option<BodyAs>,
}

/// Options of `data stats`.
#[derive(Debug, Args)]
#[command(mut_arg("requests", |arg| {
    arg.help("Requests or conversations to look at [default: all of a recording, else 10000]")
}))]
pub(crate) struct StatsArgs {
    /// What would be sent.
    #[command(flatten)]
    pub(crate) data: DataOptions,

    /// Print the figures as JSON, in place of the page
    #[arg(long, help_heading = "Results")]
    pub(crate) json: bool,
}

/// Options of `data convert`.
#[derive(Debug, Args)]
#[command(mut_arg("requests", |arg| {
    arg.help("Entries to write [default: all of a recording, else as many as a run would send]")
}))]
pub(crate) struct ConvertArgs {
    /// What would be sent.
    #[command(flatten)]
    pub(crate) data: DataOptions,

    /// File to write to, or - for standard output
    #[arg(long, value_name = "OUT", required = true, help_heading = "Results")]
    pub(crate) to: PathBuf,

    /// Overwrite it if it exists
    #[arg(long, help_heading = "Results")]
    pub(crate) force: bool,
}

/// Options of `data check`.
#[derive(Debug, Args)]
#[command(mut_arg("requests", |arg| arg.hide(true)))]
pub(crate) struct CheckArgs {
    /// What would be sent.
    #[command(flatten)]
    pub(crate) data: DataOptions,
}

/// Makes the URL of a run a file, and hides what is no matter of data. All is still taken, so that
/// the line of a run can be used with another word.
fn as_file(arg: Arg) -> Arg {
    const HIDDEN: [&str; 7] =
        ["Client", "Connections", "Limits", "Objectives", "Results", "TLS", "Telemetry"];
    const ALONE: [&str; 12] = [
        "header",
        "api_key_env",
        "api_key_file",
        "wait_ready",
        "no_server_facts",
        "traceparent",
        "drain",
        "ramp",
        "max_in_flight",
        "overflow",
        "cancel_rate",
        "cancel_after",
    ];
    if arg.get_id() == "url" {
        return arg.value_name("FILE").help(
            "Recording to read, as --data has it: a file, a folder, - or hf:owner/name/file",
        );
    }
    if arg.get_id() == "model" {
        return arg.help("Model to ask for [default: MODEL stands for it]");
    }
    let hidden = arg.get_help_heading().is_some_and(|heading| HIDDEN.contains(&heading))
        || ALONE.contains(&arg.get_id().as_str());
    if hidden { arg.hide(true) } else { arg }
}

impl DataOptions {
    /// The requests that are asked for by what was typed, whatever a file says.
    #[must_use]
    pub(crate) fn typed_requests(&self) -> Option<u64> {
        self.options.requests
    }

    /// The options of the run that would send this: those typed over those of the file, if one is
    /// named. A name without `://` that stands alone is a recording.
    ///
    /// # Errors
    /// A usage error: a recording that is named twice, a file of options that cannot be read.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let mut typed = self.options.clone();
        let (mut urls, mut files): (Vec<String>, Vec<String>) =
            std::mem::take(&mut typed.url).into_iter().partition(|text| text.contains("://"));
        urls.extend(self.server.iter().cloned());
        typed.url = urls;
        if let Some(file) = files.pop() {
            if let Some(other) = files.pop() {
                return Err(Failure::usage(format!(
                    "one recording at a time: {other} and {file} are two (a folder is read whole)"
                )));
            }
            if typed.content.data.is_some() || typed.trace.is_some() {
                return Err(Failure::usage(format!(
                    "{file} and --data or --trace both name a recording: name it once"
                )));
            }
            typed.content.data = Some(file);
        }
        match &self.config {
            Some(path) => typed.over(Options::read(path)?),
            None => Ok(typed),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;

    fn options(line: &[&str]) -> Result<Options, Failure> {
        let line = ["tokclock", "data", "stats"].iter().chain(line);
        match Cli::try_parse_from(line).unwrap().command {
            Command::Data { command: DataCommand::Stats(args) } => args.data.options(),
            _ => unreachable!("the line says data stats"),
        }
    }

    #[test]
    fn the_line_of_a_run_is_taken_as_it_stands() {
        let line = ["http://127.0.0.1:8000", "-c", "32", "--isl", "512", "--out", "o", "-q"];
        let taken = options(&line).unwrap();
        assert_eq!(taken.url, ["http://127.0.0.1:8000"]);
        assert_eq!((taken.concurrency, taken.content.data), (Some(32.0.into()), None));
    }

    #[test]
    fn a_name_alone_is_a_recording() {
        let taken = options(&["a.jsonl", "--url", "http://127.0.0.1:8000"]).unwrap();
        assert_eq!(taken.content.data.as_deref(), Some("a.jsonl"));
        assert_eq!(taken.url, ["http://127.0.0.1:8000"]);
        assert_eq!(options(&["-"]).unwrap().content.data.as_deref(), Some("-"));
    }

    #[test]
    fn a_recording_is_named_once() {
        for line in [&["a", "b"][..], &["a", "--data", "b"], &["a", "--trace", "b"]] {
            assert_eq!(options(line).unwrap_err().code as u8, 2, "{line:?}");
        }
    }
}
