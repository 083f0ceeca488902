//! The levels of a curve as a table: one row each, in order of load.

use tokclock_engine::measure::curve::{Curve, Figures, Level, Spread};
use tokclock_engine::measure::{Health, Held, Interval};

use super::super::front::held;
use super::super::grid;
use super::super::table::plus_minus;
use super::super::text::{NONE, Page, Unit};
use super::words::{Judged, LOST, LOST_MEANS, bare, head, rate};

/// What stands for a spread of which one end is longer than anything.
const OPEN: &str = "±?";

/// A column: its head, and a cell for each level.
struct Column {
    head: String,
    cells: Vec<String>,
}

/// Writes it, and what its marks mean.
pub(in super::super) fn write(page: &mut Page, curve: &Curve) {
    let levels = curve.by_load();
    let columns = columns(curve, &levels);
    let head: Vec<&str> = columns.iter().map(|column| column.head.as_str()).collect();
    let rows: Vec<(Vec<String>, String)> = levels
        .iter()
        .enumerate()
        .map(|(row, level)| {
            let cell = |column: &Column| column.cells.get(row).cloned().unwrap_or_default();
            (columns.iter().map(cell).collect(), marks(curve, level))
        })
        .collect();
    grid::with_words(page, &head, "", &rows);
    legend(page, &levels, &columns);
}

fn legend(page: &mut Page, levels: &[&Level], columns: &[Column]) {
    let shows = |mark: &str| columns.iter().flat_map(|one| &one.cells).any(|c| c.contains(mark));
    if levels.iter().any(|level| level.repetitions.len() > 1) {
        page.words(
            "",
            "medians of the repetitions; ± is how far the farther end of them is from it",
        );
    }
    if shows(OPEN) {
        page.words("", "±? of some repetitions, not of all, it is longer than anything");
    }
    if shows(LOST) {
        page.words("", LOST_MEANS);
    }
}

fn columns(curve: &Curve, levels: &[&Level]) -> Vec<Column> {
    let loads = levels.iter().map(|level| bare(level.value)).collect();
    let load = Column { head: head(curve.variable).into(), cells: loads };
    let mut columns = vec![load];
    if curve.variable.is_open() {
        columns.push(rates("offered\nreq/s", levels, |f| f.offered_rps, |_| None));
    }
    columns.push(rates("served\nreq/s", levels, |f| f.rps, |s| s.rps));
    columns.push(rates("output\ntok/s", levels, |f| f.output_tps, |s| s.output_tps));
    if levels.iter().any(|level| level.figures.goodput_rps.is_some()) {
        columns.push(rates("good\nreq/s", levels, |f| f.goodput_rps, |s| s.goodput_rps));
    }
    columns.push(latencies("TTFT\np50", levels, Judged::TtftP50, |_| None));
    columns.push(latencies("TTFT\np95", levels, Judged::TtftP95, |s| Some(s.ttft_p95)));
    columns.push(latencies("ITL\np95", levels, Judged::ItlP95, |s| Some(s.itl_p95)));
    let errors = |figures: &Figures| figures.error_rate.map(|share| share * 100.0);
    columns.push(rates("errors\n%", levels, errors, |_| None));
    columns.push(rates("user\ntok/s", levels, |f| f.per_user_tps, |_| None));
    columns
}

fn rates(
    head: &str,
    levels: &[&Level],
    pick: fn(&Figures) -> Option<f64>,
    ends: fn(&Spread) -> Option<[f64; 2]>,
) -> Column {
    let cell = |level: &&Level| {
        let value = pick(&level.figures);
        let ends = level.spread.as_ref().and_then(ends).zip(value);
        let away = ends.and_then(|([low, high], value)| away(value, low, high));
        stacked(rate(value), away)
    };
    Column { head: head.into(), cells: levels.iter().map(cell).collect() }
}

/// All in one unit: that in which the least still has digits.
fn latencies(
    head: &str,
    levels: &[&Level],
    judged: Judged,
    ends: fn(&Spread) -> Option<Interval>,
) -> Column {
    let known = levels.iter().filter_map(|level| judged.of(&level.figures));
    let least = known.filter(|ns| *ns > 0).min().unwrap_or(0);
    let unit = Unit::of(least as f64 * 10.0);
    let cell = |level: &&Level| {
        let Some(ns) = judged.of(&level.figures) else {
            return if judged.is_lost(&level.figures) { LOST } else { NONE }.to_owned();
        };
        let away = level.spread.as_ref().and_then(ends).and_then(|ends| match ends {
            [Some(low), Some(high)] => away(ns as f64, low as f64, high as f64),
            [_, None] => Some(OPEN.into()),
            _ => None,
        });
        stacked(rate(Some(unit.of_ns(ns as f64))), away)
    };
    Column { head: format!("{head}\n{}", unit.name), cells: levels.iter().map(cell).collect() }
}

/// How far the farther end is from `value`; nothing of 0.
fn away(value: f64, low: f64, high: f64) -> Option<String> {
    let share = (value - low).abs().max((high - value).abs()) / value.abs();
    share.is_finite().then(|| plus_minus(share))
}

fn stacked(cell: String, below: Option<String>) -> String {
    match below {
        Some(below) => format!("{cell}\n{below}"),
        None => cell,
    }
}

/// What is to be known of a level beside its figures.
fn marks(curve: &Curve, level: &Level) -> String {
    let mut marks = Vec::new();
    marks.extend(level.slo.map(|slo: Held| held(slo).0));
    if level.saturated == Some(true) {
        marks.push("saturated");
    }
    match level.client {
        Health::Valid => {}
        Health::Suspect => marks.push("suspect client"),
        Health::Invalid => marks.push("INVALID client"),
    }
    if level.steady == Some(false) {
        marks.push("unsteady");
    }
    let knee = &curve.knee;
    let is = |at: Option<f64>| at == Some(level.value);
    let by_goodput = knee.by_goodput.filter(|_| knee.goodput_still_holds != Some(true));
    match (is(by_goodput), is(knee.by_curvature)) {
        (false, false) => {}
        (true, false) if knee.by_curvature.is_some() => marks.push("knee (goodput)"),
        (false, true) if by_goodput.is_some() => marks.push("knee (curvature)"),
        _ => marks.push("knee"),
    }
    let point = curve.envelope.as_ref().and_then(|envelope| envelope.operating_point.as_ref());
    if is(point.map(|point| point.value)) {
        marks.push("<- operating point");
    }
    marks.join(", ")
}
