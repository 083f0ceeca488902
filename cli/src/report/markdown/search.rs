//! A search in Markdown: the boundary, and every load that was tried.

use tokclock_engine::measure::Decision;
use tokclock_engine::run::search::{ProbeReport, SearchReport};

use super::super::curve::words::{bare, head, rate};
use super::super::curve::write_notes;
use super::super::search::in_words;
use super::super::text::{Page, duration, number, percent};
use super::text::{code, list, table};
use super::{heading, health};

/// Writes it.
pub(super) fn write(out: &mut String, search: &SearchReport, dir: Option<&str>) {
    heading(out, "search", search.about.as_ref().map(|about| &*about.name), dir);
    let mut page = Page::endless();
    in_words(&mut page, search);
    list(out, &page.sentences());
    if !search.probes.is_empty() {
        probes(out, search);
    }
    let mut page = Page::endless();
    write_notes(&mut page, &search.notes);
    list(out, &page.sentences());
}

fn probes(out: &mut String, search: &SearchReport) {
    let load = head(search.variable).replace('\n', " ");
    let columns = [
        &*load, "decision", "looks", "seconds", "req/s", "TTFT p95", "ITL p95", "E2E p95",
        "errors", "client", "broke",
    ];
    let rows: Vec<_> = search.probes.iter().map(row).collect();
    table(out, &columns, &rows);
}

fn row(probe: &ProbeReport) -> Vec<String> {
    let figures = &probe.figures;
    let decision = match (probe.decision, probe.leans_to_pass) {
        (Decision::Pass, _) => "held",
        (Decision::Fail, _) => "broke",
        (Decision::Unsure, true) => "unsure, leans to held",
        (Decision::Unsure, false) => "unsure, leans to broke",
    };
    let broke: Vec<String> = probe.broke.iter().map(|one| code(one)).collect();
    vec![
        bare(probe.value),
        decision.to_owned(),
        probe.looks.to_string(),
        number(Some(probe.seconds)),
        rate(figures.rps),
        duration(figures.ttft_p95),
        duration(figures.itl_p95),
        duration(figures.e2e_p95),
        percent(figures.error_rate),
        health(probe.client).to_owned(),
        broke.join(" "),
    ]
}
