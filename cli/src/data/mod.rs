//! `tokclock data`: what would be sent, without sending it.

mod check;
mod convert;
mod convert_load;
mod figures;
mod histogram;
mod load;
mod page;
mod preview;
mod said;
mod shared;
mod shown;
mod stats;
#[cfg(test)]
mod tests;

use tokclock_engine::plan::PlanError;

use crate::args::DataCommand;
use crate::exit::{Code, Failure};

/// Does what `command` says and gives the exit code. `allowed` are the CPUs that this process may
/// use.
///
/// # Errors
/// If the options make no sense, or the data cannot be read or made.
pub(crate) fn run(command: &DataCommand, allowed: &[usize]) -> Result<Code, Failure> {
    match command {
        DataCommand::Preview(args) => preview::run(args, allowed),
        DataCommand::Stats(args) => stats::run(args, allowed),
        DataCommand::Convert(args) => convert::run(args, allowed),
        DataCommand::Check(args) => check::run(args),
    }
}

fn failed(error: &PlanError) -> Failure {
    Failure::could_not_run(error.to_string())
}
