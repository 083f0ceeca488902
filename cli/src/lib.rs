//! What a person touches: commands, options, files, progress, reports.

mod args;
mod baseline;
mod checking;
mod compare;
mod config;
mod cpus;
mod curve;
mod data;
mod describing;
mod doctor;
mod exit;
mod fleet;
mod gpus;
mod host;
mod hosts;
mod interrupt;
mod merge;
mod output;
mod peers;
mod place;
mod progress;
pub mod report;
mod reporting;
mod resolve;
mod results;
mod run;
mod secret;
mod sim;
mod stage;
mod trace;
mod values;
mod worker;

use std::process::ExitCode;

use args::{Command, ConfigCommand};

/// Runs the command line of this process and gives its exit code.
#[must_use]
pub fn main() -> ExitCode {
    // Asked once, before any thread is pinned: a pinned thread sees its own CPU only.
    let cpus = tokclock_engine::run::cpus();
    let done = match args::parse(std::env::args_os()) {
        Ok(cli) => match cli.command {
            Command::Run(args) => run::run(&args, &cpus),
            Command::Sweep(args) => curve::sweep(&args, &cpus),
            Command::Search(args) => curve::search(&args, &cpus),
            Command::Trace(args) => trace::trace(&args, &cpus),
            Command::Merge(args) => merge::merge(&args),
            Command::Report(args) => reporting::report(&args),
            Command::Compare(args) => compare::compare(&args),
            Command::Doctor(args) => doctor::doctor(&args, &cpus),
            Command::Baseline(args) => baseline::run(&args, &cpus),
            Command::Worker(args) => worker::work(&args, &cpus),
            Command::Data { command } => data::run(&command, &cpus),
            Command::Sim(args) => sim::serve(&args),
            Command::Config { command: ConfigCommand::Check(args) } => {
                checking::check(&args, &cpus)
            }
            Command::Config { command: ConfigCommand::Schema(args) } => describing::schema(&args),
            Command::Completions(args) => describing::completions(&args),
            Command::Man(args) => describing::man(&args),
        },
        Err(code) => return code.into(),
    };
    match done {
        Ok(code) => code.into(),
        Err(failure) => {
            output::error(&failure);
            failure.code.into()
        }
    }
}
