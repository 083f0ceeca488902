//! Options of `trace`.

use std::path::PathBuf;

use clap::Args;
use tokclock_engine::measure::trace::Wanted;

use super::CommonArgs;
use crate::config::Options;
use crate::exit::Failure;
use crate::values::Share;

pub(super) const EXAMPLES: &str = "\
Examples:
  tokclock trace                                   the embedded simulator, 8 requests of one user
  tokclock trace http://127.0.0.1:8000 --isl 2048 --osl 128
                                                   where the time of each request goes
  tokclock trace http://127.0.0.1:8000 -n 64 -c 16 --slowest 3 --perfetto trace.json
                                                   under load, and all of it for ui.perfetto.dev

Writes a result directory as run does, with every output event. Exit codes as those of run.";

/// Requests of a trace unless an option says otherwise: few, to be looked at one by one.
const REQUESTS: u64 = 8;
/// Its users: one, so that requests do not disturb each other.
const USERS: f64 = 1.0;
/// The name of its result.
const NAME: &str = "trace";

/// Options of `trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// All that a run has and a file can say.
    #[command(flatten)]
    pub(crate) options: Options,

    /// Write a trace for ui.perfetto.dev there: every phase, leg and output event
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub(crate) perfetto: Option<PathBuf>,

    /// Draw so many single requests, the slowest first
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Trace")]
    pub(crate) slowest: usize,

    /// Name so many gaps between output events, the largest first
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Trace")]
    pub(crate) outliers: usize,

    /// Send no traceparent, which a trace sends unless told not to
    #[arg(long, help_heading = "Trace", conflicts_with = "traceparent")]
    pub(crate) no_traceparent: bool,

    /// What no file says.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

impl TraceArgs {
    /// The options typed over those of the file, if one is named, and over the defaults of a trace.
    ///
    /// # Errors
    /// A usage error if the file cannot be read.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let typed = self.options.clone();
        let mut options = match &self.common.config {
            Some(path) => typed.over(Options::read(path)?)?,
            None => typed,
        };
        let has_times = options.rates.is_some() || options.trace.is_some();
        if !has_times && options.rate.is_none() {
            options.concurrency.get_or_insert(USERS.into());
        }
        let has_end =
            options.requests.is_some() || options.duration.is_some() || options.sessions.is_some();
        if !has_times && !has_end {
            options.requests = Some(REQUESTS);
        }
        options.name.get_or_insert_with(|| NAME.to_owned());
        options.chunks = Some(true);
        if options.disagg.flow.as_deref() == Some("vllm-nixl") {
            // Of few requests a small share would be none.
            options.disagg.handoff_sample.get_or_insert(Share::from_percent(100.0));
        }
        options.traceparent.get_or_insert(true);
        if self.no_traceparent {
            options.traceparent = Some(false);
        }
        Ok(options)
    }

    /// What is to be shown beside the sums.
    #[must_use]
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { slowest: self.slowest, outliers: self.outliers }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;

    fn options(line: &[&str]) -> Options {
        let line = ["tokclock", "trace"].iter().chain(line);
        match Cli::try_parse_from(line).unwrap().command {
            Command::Trace(args) => args.options().unwrap(),
            _ => unreachable!("the line says trace"),
        }
    }

    #[test]
    fn a_trace_is_few_requests_of_one_user_with_all_events_and_a_trace_each() {
        let plain = options(&[]);
        assert_eq!((plain.concurrency, plain.requests), (Some(1.0.into()), Some(8)));
        assert_eq!((plain.chunks, plain.traceparent), (Some(true), Some(true)));
        assert_eq!(plain.name.as_deref(), Some("trace"));
    }

    #[test]
    fn what_is_typed_stays() {
        let open = options(&["--rate", "5", "-d", "1s", "--chunks=false", "--traceparent=false"]);
        assert_eq!((open.concurrency, open.requests), (None, None));
        assert_eq!((open.chunks, open.traceparent), (Some(true), Some(false)));
        assert_eq!(options(&["--no-traceparent"]).traceparent, Some(false));
        let replay = options(&["--trace", "recording.jsonl"]);
        assert_eq!((replay.concurrency, replay.requests), (None, None));
    }
}
