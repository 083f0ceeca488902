//! `tokclock compare`: what changed between results, beyond noise.

use crate::args::CompareArgs;
use crate::exit::{Code, Failure};

/// Compares results and gives the exit code.
///
/// # Errors
/// A result that cannot be read.
pub(crate) fn compare(args: &CompareArgs) -> Result<Code, Failure> {
    Err(Failure::could_not_run(format!("nothing is compared yet: {:?} {}", args.sides, args.json)))
}
