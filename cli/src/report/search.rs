//! A search for a terminal: where the boundary lies, and every load that was tried.

mod boundary;
pub(super) mod probes;
#[cfg(test)]
pub(super) mod tests;

use tokclock_engine::measure::curve::Variable;
use tokclock_engine::run::search::SearchReport;

use super::curve::words::{figures, load, share, texts};
use super::text::{Page, Tone, escape};

/// The page of `report` in at most `width` columns (and at most 100), each line ended by `\n`.
///
/// `colour` allows ANSI colours; the caller knows the terminal and NO_COLOR. Control characters of
/// texts are escaped.
#[must_use]
pub fn search_page(report: &SearchReport, width: usize, colour: bool) -> String {
    let mut page = super::page(width, colour);
    in_words(&mut page, report);
    probes::write(&mut page, report);
    if !report.notes.is_empty() {
        page.blank();
        super::curve::write_notes(&mut page, &report.notes);
    }
    page.finish()
}

/// What it is about and what it found.
pub(super) fn in_words(page: &mut Page, report: &SearchReport) {
    if let Some(about) = &report.about {
        super::front::about(page, about);
    }
    write_words(page, report);
}

/// Writes what was asked for, where the boundaries lie and where to operate.
pub(super) fn write_words(page: &mut Page, report: &SearchReport) {
    headline(page, report);
    boundary::write(page, report);
    if let (Some(low), Some(point)) = (report.boundary.low, &report.operating_point) {
        let at = load(report.variable, low);
        page.words("operate at", &format!("{at}: {}", figures(point)));
    }
    tiers(page, report);
}

fn headline(page: &mut Page, report: &SearchReport) {
    let what = match report.variable {
        Variable::Concurrency => "number of users of a closed loop",
        Variable::Rate => "rate of an open loop",
    };
    let name = report.tiers.first().and_then(|tier| tier.name.as_ref());
    let name = name.map_or_else(String::new, |name| format!(" ({})", escape(name)));
    page.words(
        "search",
        &format!(
            "for the highest {what} that keeps {}{name}, to within {}",
            texts(&report.objectives),
            share(report.precision)
        ),
    );
    if !report.is_complete {
        page.verdict(
            "",
            ("INCOMPLETE:", Tone::Bad),
            "it was interrupted or the server went away; what follows is what was seen until then",
        );
    }
    if let Some(limit) = report.limited_by_client {
        page.verdict(
            "client",
            ("INVALID", Tone::Bad),
            &format!(
                "at {} and above: this client could not carry that load, so nothing is known of the \
                 server there. To do: give it more cores (--reactors, --cpus)",
                load(report.variable, limit)
            ),
        );
    }
}

/// The tiers after the first.
fn tiers(page: &mut Page, report: &SearchReport) {
    for (at, tier) in report.tiers.iter().enumerate().skip(1) {
        let name = tier.name.as_ref().map_or_else(|| format!("{}", at + 1), |name| escape(name));
        page.words("tier", &format!("{name}: {}", texts(&tier.objectives)));
        boundary::of_tier(page, "", report, at);
    }
}
