//! Findings for a terminal.

use super::finding::{Finding, State};
use crate::report;
use crate::report::text::{Page, escape};

/// The page: what was looked at, every finding, and at the end those worth a look.
pub(super) fn write(about: &str, groups: &[Vec<Finding>], width: usize, colour: bool) -> String {
    let mut page = report::page(width, colour);
    page.words("doctor", &escape(about));
    for group in groups {
        page.blank();
        group.iter().for_each(|finding| one(&mut page, finding));
    }
    page.blank();
    for (label, state) in [("warnings", State::Warn), ("notes", State::Note)] {
        let titles: Vec<&str> = groups
            .iter()
            .flatten()
            .filter(|finding| finding.state == state)
            .map(|finding| finding.title)
            .collect();
        let all = titles.join(", ");
        page.words(label, if titles.is_empty() { "none" } else { &all });
    }
    page.finish()
}

fn one(page: &mut Page, finding: &Finding) {
    page.verdict(finding.title, finding.state.word(), &escape(&finding.value));
    page.words("", &escape(&finding.meaning));
    if let Some(advice) = &finding.advice {
        page.words("", &escape(advice));
    }
    if let Some(command) = &finding.command {
        // In one line however long it is, so that it can be copied.
        page.line(&format!("{:14}{}", "", escape(command)));
    }
}
