//! Throughput and TTFT against load, drawn.

use tokclock_engine::measure::curve::{Curve, Level, Variable};
use tokclock_engine::measure::{Health, Held};

use super::super::plot::{Label, Plot, Scale};
use super::super::text::{Page, Unit};
use super::words::{Judged, bare, trimmed};

/// A level whose objectives held, or that had none.
const LEVEL: char = '*';
/// One whose objectives did not surely hold.
const BROKE: char = 'x';
/// The operating point.
const POINT: char = 'O';
/// One whose client could not be believed.
const INVALID: char = '?';
/// One whose figure is longer than anything.
const LOST: char = '^';

/// Writes both, if there are levels to compare.
pub(super) fn write(page: &mut Page, curve: &Curve) {
    let levels = curve.by_load();
    let has_tokens = levels.iter().any(|level| level.figures.output_tps.is_some());
    let (name, pick): (_, fn(&Level) -> Option<f64>) = if has_tokens {
        ("output tokens/s", |level| level.figures.output_tps)
    } else {
        ("requests/s", |level| level.figures.rps)
    };
    // Whatever is drawn of a rate begins at 0.
    of(page, curve, name, pick, false);
    of(page, curve, "TTFT p95", |level| level.figures.ttft_p95.map(|ns| ns as f64), true);
}

fn of(page: &mut Page, curve: &Curve, name: &str, pick: fn(&Level) -> Option<f64>, is_time: bool) {
    let levels = curve.by_load();
    let usable = |value: &f64| value.is_finite() && *value >= 0.0;
    let known: Vec<[f64; 2]> = levels
        .iter()
        .filter_map(|level| Some([level.value, pick(level).filter(usable)?]))
        .collect();
    let x = Scale::of(levels.iter().map(|level| level.value));
    let y = Scale::of(known.iter().map(|point| point[1]));
    let (Some(x), Some(y)) = (x, y.map(|y| if is_time { y } else { y.linear() })) else { return };
    if known.len() < 2 {
        return;
    }
    let is_lost = |level: &Level| is_time && Judged::TtftP95.is_lost(&level.figures);
    let mut marks: Vec<(f64, Option<f64>, char)> = Vec::new();
    for level in &levels {
        match pick(level).filter(usable) {
            Some(value) => marks.push((level.value, Some(value), mark(curve, level))),
            None if is_lost(level) => marks.push((level.value, None, LOST)),
            None => {}
        }
    }
    // The most important last, so that nothing covers them.
    marks.sort_by_key(|(.., mark)| {
        [LEVEL, BROKE, INVALID, LOST, POINT].iter().position(|m| m == mark)
    });
    let knee = curve.knee.best();
    let y_label: Label = if is_time { time } else { plain };
    let plot = Plot {
        x,
        y: y.rounded(),
        labels: [bare, y_label],
        x_ticks: x_ticks(&levels),
        joined: known,
        uprights: knee.into_iter().collect(),
        marks,
    };
    let legend = legend(&plot.marks, knee.is_some());
    plot.write(page, &title(name, curve.variable, x, y), &legend);
}

fn mark(curve: &Curve, level: &Level) -> char {
    let point = curve.envelope.as_ref().and_then(|envelope| envelope.operating_point.as_ref());
    if point.is_some_and(|point| point.value == level.value) {
        return POINT;
    }
    if level.client == Health::Invalid {
        return INVALID;
    }
    match level.slo {
        Some(Held::Fail | Held::Unknown) => BROKE,
        _ => LEVEL,
    }
}

fn title(name: &str, variable: Variable, x: Scale, y: Scale) -> String {
    let across = match variable {
        Variable::Concurrency => "users",
        Variable::Rate => "requests/s",
    };
    match (x.is_log, y.is_log) {
        (true, true) => format!("{name} against {across}, both on log scales"),
        _ => format!("{name}{} against {across}{}", y.said(), x.said()),
    }
}

/// Ends first, then from low to high.
fn x_ticks(levels: &[&Level]) -> Vec<f64> {
    let values = || levels.iter().map(|level| level.value);
    values().take(1).chain(values().next_back()).chain(values()).collect()
}

/// A time on an axis, without the zeros that [`Unit::show`] ends with.
pub(super) fn time(ns: f64) -> String {
    if ns == 0.0 {
        return "0".into();
    }
    let unit = Unit::of(ns);
    format!("{} {}", plain(unit.of_ns(ns)), unit.name)
}

/// A number on an axis.
pub(super) fn plain(value: f64) -> String {
    if value.fract() == 0.0 { bare(value) } else { trimmed(value) }
}

fn legend(marks: &[(f64, Option<f64>, char)], has_knee: bool) -> String {
    let has = |wanted: char| marks.iter().any(|(.., mark)| *mark == wanted);
    let meanings = [
        (has(LEVEL), "* a level"),
        (has(BROKE), "x objectives not held"),
        (has(INVALID), "? invalid client"),
        (has(POINT), "O operating point"),
        (has(LOST), "^ longer than anything"),
        (has_knee, ": knee"),
    ];
    let shown = meanings.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text);
    shown.collect::<Vec<_>>().join(", ")
}
