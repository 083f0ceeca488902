//! Results as GitHub Markdown, short enough for a comment on a pull request.

mod curve;
mod search;
mod text;

use tokclock_engine::measure::{
    Distribution, Health, Held, ObjectiveReport, Reason, Severity, Summary,
};

use super::text::{NONE, Page, Said, count, duration, percent};
use super::{front, legs};
use crate::results::{Kept, What};
use text::{code, list, plain, table};

/// All results, one after the other, each with a heading. Texts are escaped.
#[must_use]
pub(crate) fn markdown(results: &[Kept]) -> String {
    let mut out = String::new();
    for kept in results {
        if !out.is_empty() {
            out.push('\n');
        }
        let named = (results.len() > 1).then(|| kept.path.display().to_string());
        match &kept.what {
            What::Run(summary) => run(&mut out, summary, named.as_deref()),
            What::Sweep(curve) => curve::write(&mut out, curve, named.as_deref()),
            What::Search(search) => search::write(&mut out, search, named.as_deref()),
        }
    }
    out
}

/// One run alone, for tests.
#[cfg(test)]
pub(super) fn of_run(summary: &Summary) -> String {
    let mut out = String::new();
    run(&mut out, summary, None);
    out
}

/// A heading: what it is, its name, where it lies.
fn heading(out: &mut String, what: &str, name: Option<&str>, dir: Option<&str>) {
    let name = name.map_or_else(String::new, |name| format!(" {}", plain(name)));
    let dir = dir.map_or_else(String::new, |dir| format!(" ({})", plain(dir)));
    out.push_str(&format!("### tokclock {what}{name}{dir}\n"));
}

fn run(out: &mut String, summary: &Summary, dir: Option<&str>) {
    heading(out, "run", summary.run.name.as_deref(), dir);
    out.push_str(&format!("\n{}\n", verdict(summary)));
    let mut page = Page::endless();
    front::headline(&mut page, summary);
    front::counts(&mut page, summary);
    front::goodput(&mut page, summary);
    super::rates(&mut page, &summary.rate);
    super::tokens(&mut page, &summary.tokens);
    if let Some(gpus) = &summary.gpus {
        super::gpus::words(&mut page, gpus);
    }
    super::servers::write(&mut page, summary);
    list(out, &page.sentences());
    latencies(out, summary);
    heard(out, |page| super::server_times::write(page, summary));
    heard(out, |page| super::hosts::write(page, summary));
    failures(out, summary);
    objectives(out, summary);
    reasons(out, summary);
}

/// The verdicts in one line.
fn verdict(summary: &Summary) -> String {
    let requests = &summary.requests;
    let failed = match requests.failed {
        0 => format!("no failures in {} requests", count(requests.ok)),
        failed => format!(
            "**{} of {} requests failed** ({})",
            count(failed),
            count(requests.ok + failed),
            percent(requests.error_rate)
        ),
    };
    let reports = summary.classes.iter().map(|class| &class.slo).chain([&summary.slo]);
    let held: Vec<Held> = reports.flatten().map(|slo| slo.verdict).collect();
    let objectives = match held.as_slice() {
        [] => "no objectives",
        held if held.contains(&Held::Fail) => "**objectives missed**",
        held if held.contains(&Held::Unknown) => "objectives unknown",
        _ => "objectives held",
    };
    let cut = if summary.run.interrupted { ", **interrupted**" } else { "" };
    let part = if summary.is_partial() { ", **PARTIAL**" } else { "" };
    format!("{objectives}, {failed}, client {}{cut}{part}", health(summary.client.verdict))
}

/// The verdict on a client.
fn health(verdict: Health) -> &'static str {
    match verdict {
        Health::Valid => "valid",
        Health::Suspect => "**suspect**",
        Health::Invalid => "**INVALID**",
    }
}

fn latencies(out: &mut String, summary: &Summary) {
    if summary.requests.ok == 0 {
        out.push_str("\nNothing completed, so there is no latency to show.\n");
        return;
    }
    let head =
        ["latency", "count", "mean", "p50", "p90", "p95", "p99", "p99.9", "max", "95 % of p95"];
    let row = |name: &str, of: &Distribution| {
        let p = &of.percentiles;
        let mean = of.mean.map(|mean| mean.round() as u64);
        let mut cells = vec![name.to_owned(), count(of.count)];
        cells.extend([mean, p.p50, p.p90, p.p95, p.p99, p.p99_9, of.max].map(duration));
        let [low, high] = of.ci95.p95;
        cells.push(match (low, high) {
            (None, None) => NONE.into(),
            ends => format!("{} to {}", duration(ends.0), duration(ends.1)),
        });
        cells
    };
    let lines = super::latencies(&summary.latency);
    let rows: Vec<_> = lines.iter().map(|line| row(&line.name, line.distribution)).collect();
    table(out, &head, &rows);
    let Some(of) = &summary.legs else { return };
    let head: Vec<&str> = std::iter::once("leg").chain(head.into_iter().skip(1)).collect();
    let lines = legs::lines(of);
    let rows: Vec<_> = lines.iter().map(|line| row(&line.name, line.distribution)).collect();
    table(out, &head, &rows);
    let mut page = Page::endless();
    legs::remarks(&mut page, of);
    list(out, &page.sentences());
}

/// Words and tables that other pages show too.
fn heard(out: &mut String, write: impl FnOnce(&mut Page)) {
    let said = Page::heard(write);
    let words = said.iter().filter_map(|one| match one {
        Said::Words { label, text, .. } => Some((label.as_str(), text.as_str())),
        Said::Grid { .. } => None,
    });
    list(out, &words.collect::<Vec<_>>());
    for one in &said {
        if let Said::Grid { head, rows } = one {
            table(out, &head.iter().map(String::as_str).collect::<Vec<_>>(), rows);
        }
    }
}

fn failures(out: &mut String, summary: &Summary) {
    let requests = &summary.requests;
    if requests.failed == 0 {
        return;
    }
    let row = |(class, failed): (&String, &u64)| {
        let example = requests.error_examples.get(class).map_or("", String::as_str);
        vec![code(class), count(*failed), code(example)]
    };
    let rows: Vec<_> = requests.errors.iter().map(row).collect();
    table(out, &["failure", "requests", "for example"], &rows);
}

fn objectives(out: &mut String, summary: &Summary) {
    let row = |class: Option<&str>, one: &ObjectiveReport| {
        let of = class.map_or_else(String::new, |class| format!("{}: ", plain(class)));
        let (word, _) = front::held(one.verdict);
        vec![format!("{of}{}", code(&one.text)), word.to_owned(), plain(&front::standing(one))]
    };
    let whole = summary.slo.iter().flat_map(|slo| &slo.objectives).map(|one| row(None, one));
    let classes = summary.classes.iter().flat_map(|class| {
        let all = class.slo.iter().flat_map(|slo| &slo.objectives);
        all.map(|one| row(Some(&class.name), one))
    });
    let rows: Vec<_> = whole.chain(classes).collect();
    if !rows.is_empty() {
        table(out, &["objective", "verdict", "observed"], &rows);
    }
}

fn reasons(out: &mut String, summary: &Summary) {
    let all = summary.client.reasons.iter().chain(&summary.notes);
    let said: Vec<(&str, String)> = all.map(reason).collect();
    if !said.is_empty() {
        let said: Vec<(&str, &str)> = said.iter().map(|(word, text)| (*word, &**text)).collect();
        list(out, &said);
    }
}

fn reason(reason: &Reason) -> (&'static str, String) {
    let word = match reason.severity {
        Severity::Note => "note",
        Severity::Suspect => "client suspect",
        Severity::Invalid => "client INVALID",
    };
    (word, format!("{}. To do: {}.", reason.message, reason.advice))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::curve::planted;
    use super::super::tests::troubled;
    use super::*;

    fn page(what: Vec<What>) -> String {
        let kept = |what| Kept { path: PathBuf::from("dir_1"), run_toml: None, what };
        let results: Vec<Kept> = what.into_iter().map(kept).collect();
        markdown(&results)
    }

    #[test]
    fn a_run_begins_with_its_verdicts_and_harms_nobody() {
        let page = page(vec![What::Run(Box::new(troubled()))]);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[0], "### tokclock run");
        assert!(
            lines[2].starts_with("**objectives missed**, **10 of 60 requests failed**"),
            "{page}"
        );
        assert!(lines[2].ends_with("client valid"), "{page}");
        assert!(
            page.contains("- **run** closed loop of 8 users, 512 tokens in and 3 out"),
            "{page}"
        );
        assert!(page.contains("model tiny\\\\u{1b}\\[2J"), "{page}");
        let row =
            "| `conn_reset` | 10 | ``bad\\|gateway `x`\\u{1b}[2J\\u{0}\\n<script>@team #1 *b*`` |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("| `p95(ttft)<500ms` | FAIL |"), "{page}");
        assert!(page.contains("| TTFT | 50 |"), "{page}");
        assert!(!page.contains('\x1b') && page.len() < 6000, "{}", page.len());
    }

    #[test]
    fn a_run_in_which_nothing_completed_has_no_table_of_latencies() {
        let mut summary = troubled();
        summary.requests.ok = 0;
        let page = page(vec![What::Run(Box::new(summary))]);
        assert!(page.contains("Nothing completed") && !page.contains("| TTFT |"), "{page}");
    }

    #[test]
    fn a_sweep_has_its_levels_and_marks_what_they_stand_for() {
        let curve = planted::closed();
        let page = page(vec![
            What::Sweep(Box::new(curve.clone())),
            What::Sweep(Box::new(planted::open())),
        ]);
        assert!(page.contains("### tokclock sweep") && page.contains("(dir\\_1)"), "{page}");
        assert_eq!(page.matches("### ").count(), 2);
        let point = curve.envelope.unwrap().operating_point.unwrap().value;
        let row =
            page.lines().find(|line| line.contains("operating point") && line.starts_with('|'));
        assert!(row.unwrap().starts_with(&format!("| {point} |")), "{page}");
        assert!(page.contains("| saturated") || page.contains(", saturated"), "{page}");
    }
}
