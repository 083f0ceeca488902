//! Every load that a search tried, in that order, as a table.

use tokclock_engine::measure::{Decision, Health};
use tokclock_engine::run::search::{ProbeReport, SearchReport, TierReport};

use super::super::curve::words::{self, Judged, LOST, LOST_MEANS, bare, rate, texts};
use super::super::grid;
use super::super::text::{NONE, Page, duration, escape};

/// Writes it.
pub(in super::super) fn write(page: &mut Page, report: &SearchReport) {
    if report.probes.is_empty() {
        return;
    }
    let others: Vec<String> = report.tiers.iter().enumerate().skip(1).map(tier).collect();
    let mut head = vec!["#", words::head(report.variable), "decision"];
    head.extend(others.iter().map(String::as_str));
    head.extend(["served\nreq/s", "TTFT\np95", "ITL\np95", "errors\n%", "looks", "time\ns"]);
    let rows: Vec<(Vec<String>, String)> = report
        .probes
        .iter()
        .enumerate()
        .map(|(at, probe)| (cells(report, at + 1, probe), remarks(report, probe)))
        .collect();
    let has_lost = rows.iter().flat_map(|(cells, _)| cells).any(|cell| cell == LOST);
    grid::with_words(page, &head, "what broke", &rows);
    if has_lost {
        page.words("", LOST_MEANS);
    }
}

/// The head of a tier's decisions.
fn tier((at, tier): (usize, &TierReport)) -> String {
    const NAME_MAX: usize = 10;
    match &tier.name {
        Some(name) => format!("tier\n{}", grid::shortened(&escape(name), NAME_MAX)),
        None => format!("tier\n{}", at + 1),
    }
}

pub(in super::super) fn word(decision: Decision) -> String {
    match decision {
        Decision::Pass => "pass",
        Decision::Fail => "FAIL",
        Decision::Unsure => "unsure",
    }
    .to_owned()
}

fn cells(report: &SearchReport, number: usize, probe: &ProbeReport) -> Vec<String> {
    let figures = &probe.figures;
    let latency = |judged: Judged| match judged.of(figures) {
        None if judged.is_lost(figures) => LOST.to_owned(),
        ns => duration(ns),
    };
    let mut cells = vec![number.to_string(), bare(probe.value), word(probe.decision)];
    let others = 1..report.tiers.len();
    cells
        .extend(others.map(|at| probe.tiers.get(at).map_or_else(|| NONE.into(), |one| word(*one))));
    cells.extend([
        rate(figures.rps),
        latency(Judged::TtftP95),
        latency(Judged::ItlP95),
        rate(figures.error_rate.map(|share| share * 100.0)),
        probe.looks.to_string(),
        bare(probe.seconds),
    ]);
    cells
}

/// What broke, which way the samples lean, which end of the boundary it is.
fn remarks(report: &SearchReport, probe: &ProbeReport) -> String {
    let mut parts = Vec::new();
    match probe.client {
        Health::Valid => {}
        Health::Suspect => parts.push("suspect client".to_owned()),
        Health::Invalid => parts.push("INVALID client".to_owned()),
    }
    let is_valid = probe.client != Health::Invalid;
    match (probe.decision, probe.leans_to_pass) {
        (Decision::Unsure, true) => parts.push("leans to pass".into()),
        (Decision::Unsure, false) if is_valid => {
            let broke = if probe.broke.is_empty() {
                String::new()
            } else {
                format!(" by {}", texts(&probe.broke))
            };
            parts.push(format!("leans to FAIL{broke}"));
        }
        _ if probe.broke.is_empty() => {}
        _ => parts.push(texts(&probe.broke)),
    }
    if report.boundary.low == Some(probe.value) {
        parts.push("<- operating point".into());
    }
    if parts.is_empty() { NONE.into() } else { parts.join(", ") }
}
