//! What a sweep or search would do, as far as its options say: nothing is sent and nothing is written.

use tokclock_engine::measure::curve::Variable;

use super::campaign::drafted;
use super::spot::Range;
use super::{search, sweep};
use crate::config::{CurveOptions, Options, SearchOptions};
use crate::exit::Failure;
use crate::resolve::Draft;
use crate::resolve::gather::{Gathered, Needed};
use crate::values::Levels;

/// How what a workload needs is read.
type Gather<'a> = &'a dyn Fn(&Needed<'_>) -> Result<Gathered, Failure>;

/// The loads of a sweep in words, and its draft.
///
/// # Errors
/// If the options make no sense.
pub(crate) fn planned_sweep(
    options: Options,
    extra: &CurveOptions,
    allowed: &[usize],
    gather: Gather<'_>,
) -> Result<(String, Draft), Failure> {
    sweep::check(extra)?;
    let (range, draft) = drafted(options, allowed, gather)?;
    let often = match extra.repeat.unwrap_or(1) {
        1 => String::new(),
        times => format!(", each {times} times"),
    };
    Ok((format!("a sweep over {}{often}", levels(&range)), draft))
}

/// The loads of a search in words, and its draft.
///
/// # Errors
/// If the options make no sense.
pub(crate) fn planned_search(
    mut options: Options,
    extra: &SearchOptions,
    allowed: &[usize],
    gather: Gather<'_>,
) -> Result<(String, Draft), Failure> {
    let (_, precision) = search::check(&mut options, extra)?;
    let (range, draft) = drafted(options, allowed, gather)?;
    Ok((format!("a search over {}, to {} %", levels(&range), precision * 100.0), draft))
}

fn levels(range: &Range) -> String {
    let what = match range.variable {
        Variable::Concurrency => "users",
        Variable::Rate => "requests/s",
    };
    match (&range.levels, range.listed()) {
        (Levels::Auto, _) | (_, None) => format!("{what}, chosen as it goes"),
        (levels, Some(values)) => format!("{levels} {what} ({} loads)", values.len()),
    }
}
