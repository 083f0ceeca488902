//! The page of a comparison: the verdict in one sentence, the figures, what is not the same.

use serde_json::Value;
use tokclock_engine::measure::compare::{Difference, Overall, Tripped};

use super::grid;
use super::text::{NONE, Page, Tone, escape};
use crate::compare::{
    Comparison, GateReport, Group, Pair, change, interval, level_of, number_of, outcome, value,
    verdict,
};

/// Differences of what is pinned that a page shows, at most.
const DRIFT_MAX: usize = 12;
/// Characters of a value there, at most.
const VALUE_MAX: usize = 60;

/// The page, in at most `width` columns.
pub(crate) fn comparison_page(comparison: &Comparison, width: usize, colour: bool) -> String {
    let mut page = super::page(width, colour);
    for pair in &comparison.pairs {
        let (word, tone) = word(pair.overall);
        page.verdict("verdict", (word, tone), &escape(&pair.sentence));
    }
    for gate in &comparison.gates {
        write_gate(&mut page, gate);
    }
    for side in &comparison.sides {
        let label = side.letter.to_string();
        let runs = if side.paths.len() > 1 {
            format!("{} runs: ", side.paths.len())
        } else {
            String::new()
        };
        let paths = escape(&side.paths.join(", "));
        page.words(&label, &format!("{runs}{paths} ({}, {})", side.kind, side.tool));
        for line in &side.warnings {
            page.verdict("", ("warning", Tone::Doubtful), &escape(line));
        }
    }
    for pair in &comparison.pairs {
        write_pair(&mut page, pair, comparison);
    }
    for side in &comparison.sides {
        let mut label = format!("of {}", side.letter);
        for line in side.remarks() {
            page.words(&std::mem::take(&mut label), &escape(&line));
        }
    }
    page.finish()
}

fn word(overall: Overall) -> (&'static str, Tone) {
    match overall {
        Overall::Better => ("better:", Tone::Good),
        Overall::Worse => ("WORSE:", Tone::Bad),
        Overall::Mixed => ("MIXED:", Tone::Doubtful),
        Overall::NoDifference => ("same:", Tone::Good),
        Overall::Unknown => ("unknown:", Tone::Doubtful),
    }
}

fn write_gate(page: &mut Page, gate: &GateReport) {
    let (word, tone) = match gate.tripped {
        Tripped::Yes | Tripped::Estimate => ("FAIL", Tone::Bad),
        Tripped::Maybe => ("NOTE", Tone::Doubtful),
        Tripped::No => ("pass", Tone::Good),
    };
    let at = gate.value.map_or_else(String::new, |load| format!(" at {}", number_of(load)));
    let text = escape(&gate.gate.text);
    let said = format!("{text} for {}{at}: {}; {}", gate.other, outcome(gate.tripped), gate.seen);
    page.verdict("fail-on", (word, tone), &said);
}

fn write_pair(page: &mut Page, pair: &Pair, comparison: &Comparison) {
    for group in &pair.groups {
        write_group(page, pair, group);
    }
    page.blank();
    if let Some(unit) = pair.unit {
        let level = level_of(comparison.level);
        page.words(
            "how",
            &format!(
                "{} change in % (shares in points), [interval at {level}]; one sample is one of the \
                 {unit}; a verdict stands after Holm's correction for all figures, perhaps is one that \
                 does not",
                pair.other
            ),
        );
    }
    if let Some(curves) = &pair.curves {
        let shown = |[a, b]: [Option<f64>; 2]| {
            let one = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), number_of);
            format!("{} -> {}", one(a), one(b))
        };
        page.words(
            "curve",
            &format!(
                "operating point {}, knee {}",
                shown(curves.operating_point),
                shown(curves.knee)
            ),
        );
    }
    let mut label = "not";
    for line in &pair.not_compared {
        page.words(std::mem::take(&mut label), &format!("compared: {}", escape(line)));
    }
    match pair.same_workload {
        Some(true) => page.words("workload", "the same was asked for"),
        Some(false) => page.words("workload", "NOT the same was asked for"),
        None => page.words("workload", "whether the same was asked for is not known"),
    }
    let all: Vec<_> = pair.workload.iter().chain(&pair.drift).collect();
    let mut label = "drift";
    for one in all.iter().take(DRIFT_MAX) {
        let line = format!("{}: {} -> {}", escape(&one.path), short(&one.base), short(&one.other));
        page.words(std::mem::take(&mut label), &line);
    }
    if all.len() > DRIFT_MAX {
        page.words("", &format!("{} more are in the JSON", all.len() - DRIFT_MAX));
    }
    let mut label = "note";
    for line in &pair.notes {
        page.words(std::mem::take(&mut label), &escape(line));
    }
}

fn write_group(page: &mut Page, pair: &Pair, group: &Group) {
    if group.figures.is_empty() {
        return;
    }
    let title = match group.value {
        Some(load) => format!("at {}", number_of(load)),
        None => "figure".to_owned(),
    };
    let (base, other) = (pair.base.to_string(), pair.other.to_string());
    let head = [title.as_str(), &base, &other, "change", "interval"];
    let row = |one: &Difference| {
        let cells = vec![
            one.figure.to_string(),
            value(one, one.base),
            value(one, one.other),
            change(one),
            interval(one),
        ];
        (cells, verdict(one))
    };
    let rows: Vec<(Vec<String>, String)> = group.figures.iter().map(row).collect();
    grid::with_words(page, &head, "verdict", &rows);
}

fn short(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    grid::shortened(&escape(&text), VALUE_MAX)
}
