//! A curve for a terminal: what it says in words, its levels, plots, notes.

mod frontier;
pub(super) mod levels;
mod notes;
#[cfg(test)]
pub(super) mod planted;
mod plots;
#[cfg(test)]
mod tests;
pub(super) mod verdicts;
pub(super) mod words;

pub(super) use notes::{of_document as write_notes, write as write_remarks};
use tokclock_engine::measure::curve::{Curve, Variable};

use super::text::{Page, count, plural};

/// The page of `curve` in at most `width` columns (and at most 100), each line ended by `\n`.
///
/// `colour` allows ANSI colours; the caller knows the terminal and NO_COLOR. Control characters of
/// texts are escaped.
#[must_use]
pub fn curve_page(curve: &Curve, width: usize, colour: bool) -> String {
    let mut page = super::page(width, colour);
    in_words(&mut page, curve);
    if !curve.levels.is_empty() {
        levels::write(&mut page, curve);
        plots::write(&mut page, curve);
        frontier::write(&mut page, curve);
    }
    notes::write(&mut page, curve);
    page.finish()
}

/// What it is about and what it says.
pub(super) fn in_words(page: &mut Page, curve: &Curve) {
    if let Some(about) = &curve.about {
        super::front::about(page, about);
    }
    page.words("curve", &headline(curve));
    if !curve.levels.is_empty() {
        verdicts::write(page, curve);
    }
}

pub(super) fn headline(curve: &Curve) -> String {
    let levels = curve.by_load();
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else {
        return "no level was run".into();
    };
    let what = match curve.variable {
        Variable::Concurrency => "a closed loop",
        Variable::Rate => "an open loop",
    };
    let runs = levels.iter().map(|level| level.repetitions.len());
    let often = match (runs.clone().min(), runs.max()) {
        (_, None | Some(0 | 1)) => String::new(),
        (Some(least), Some(most)) if least < most => format!(", run {least} to {most} times"),
        (_, Some(most)) => format!(", run {most} times each"),
    };
    let number = levels.len() as u64;
    format!(
        "{} {} of {what}, {}{often}",
        count(number),
        plural(number, "level", "levels"),
        words::range(curve.variable, first.value, last.value)
    )
}
