//! The `tokclock` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    tokclock::main()
}
