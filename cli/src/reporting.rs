//! `tokclock report`: results that lie there, rendered again.

use crate::args::ReportArgs;
use crate::exit::{Code, Failure};
use crate::results::Kept;

/// Renders results again and gives the exit code.
///
/// # Errors
/// A result that cannot be read, or files that cannot be written.
pub(crate) fn report(args: &ReportArgs) -> Result<Code, Failure> {
    let _kept = args.dirs.iter().map(|dir| Kept::open(dir)).collect::<Result<Vec<_>, _>>()?;
    Err(Failure::could_not_run(format!("nothing is rendered yet into {:?}", args.out)))
}
