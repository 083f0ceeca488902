//! What a person touches: commands, options, files, progress, reports.

pub mod report;

use std::process::ExitCode;

/// Runs the command line of this process and gives its exit code.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
