//! The `tokclock` command, built where the tests can find it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tokclock::main()
}
