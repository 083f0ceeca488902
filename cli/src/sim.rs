//! `tokclock sim`: the simulated server on its own.

use tokclock_sim::{Server, Settings};

use crate::args::SimArgs;
use crate::exit::{Code, Failure};
use crate::{interrupt, output};

/// Serves until Ctrl-C or SIGTERM, then prints what was served as JSON to stdout. The address goes
/// to stderr.
///
/// # Errors
/// If the server does not start.
pub(crate) fn serve(args: &SimArgs) -> Result<Code, Failure> {
    let server = Server::start(&settings(args)).map_err(|error| {
        Failure::could_not_run(format!("the simulator does not start: {error}"))
    })?;
    output::note(format_args!("http://{} (Ctrl-C ends)", server.address()));
    interrupt::wait()?;
    let report = serde_json::to_string_pretty(&server.stop())
        .map_err(|error| Failure::could_not_run(format!("the report is no JSON: {error}")))?;
    output::result(report);
    Ok(Code::Ok)
}

fn settings(args: &SimArgs) -> Settings {
    let base = Settings::default();
    Settings {
        port: args.port,
        cpus: args.cpus.clone().map_or(base.cpus, |list| list.0),
        model: args.model.clone().unwrap_or(base.model),
        ttft: args.ttft,
        ttst: args.ttst,
        itl: args.itl,
        tokens_per_event: args.tokens_per_event.unwrap_or(base.tokens_per_event),
        role_event: args.role_event.unwrap_or(base.role_event),
        head_early: args.head_early.unwrap_or(base.head_early),
        usage: args.usage.unwrap_or(base.usage),
        max_concurrent: args.max_concurrent.or(base.max_concurrent),
        default_output_tokens: args.default_output_tokens.unwrap_or(base.default_output_tokens),
        events_per_write: args.events_per_write.unwrap_or(base.events_per_write),
        word: args.word.clone().unwrap_or(base.word),
        seed: args.seed.unwrap_or(base.seed),
        truth: args.truth.clone(),
    }
}
