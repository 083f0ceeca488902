//! Options of `sim`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use tokclock_sim::{Law, Rate, UsageMode};

use super::role::RoleArgs;
use super::serving::ServingArgs;
use crate::values::{CpuList, Span};

pub(super) const EXAMPLES: &str = "\
Examples:
  tokclock sim --port 8000
  tokclock sim --port 8000 --ttft 200ms --itl 20ms --max-concurrent 16
  tokclock sim --port 8000 --serving shed --max-batch 8
  tokclock sim --port 8101 --role prefill
  tokclock sim --port 8102 --role decode
  tokclock sim --role router --prefill http://127.0.0.1:8101 --decode http://127.0.0.1:8102
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

    /// Also be a DCGM exporter at this port, with figures that follow the load; 0 takes a free one
    #[arg(long, value_name = "PORT", help_heading = "Server")]
    pub(crate) dcgm: Option<u16>,

    /// GPUs that it tells of [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_1(), requires = "dcgm", help_heading = "Server")]
    pub(crate) gpus: Option<u32>,

    /// How often its figures are renewed [default: 1s]
    #[arg(long, value_name = "TIME", requires = "dcgm", help_heading = "Server")]
    pub(crate) dcgm_interval: Option<Span>,

    /// Let this go wrong so often, see below; repeatable
    #[arg(long, value_name = "KIND=RATE", help_heading = "Server")]
    pub(crate) fault: Vec<Rate>,

    /// Time to first token [default: 50ms]
    #[arg(long, value_name = "LAW", help_heading = "Timing")]
    pub(crate) ttft: Option<Law>,

    /// Time from the first token to the second [default: as --itl]
    #[arg(long, value_name = "LAW", help_heading = "Timing")]
    pub(crate) ttst: Option<Law>,

    /// Time between tokens [default: 10ms]
    #[arg(long, value_name = "LAW", help_heading = "Timing")]
    pub(crate) itl: Option<Law>,

    /// Seed of every random choice
    #[arg(long, value_name = "N", help_heading = "Timing")]
    pub(crate) seed: Option<u64>,

    /// A model of what a server can do, in place of fixed times.
    #[command(flatten)]
    pub(crate) serving: ServingArgs,

    /// One part of a deployment where prefill and decode are apart.
    #[command(flatten)]
    pub(crate) role: RoleArgs,

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

pub(super) fn at_least_1() -> RangedI64ValueParser<u32> {
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
