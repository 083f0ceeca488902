//! Distributions as a table: one line each, in the unit that reads best.

use comfy_table::presets;
use comfy_table::{CellAlignment, Table};

use tokclock_engine::measure::{Distribution, Interval};

use super::text::{NONE, Page, Unit, columns, count};

/// One line of a table.
pub(super) struct Line<'a> {
    pub(super) name: String,
    pub(super) distribution: &'a Distribution,
}

/// The figures that a table may show, and whether p50, p95 and p99 have their intervals.
type Shape = (&'static [&'static str], bool);

/// From the most that is worth showing to the least that is of use.
const SHAPES: [Shape; 4] = [
    (&["count", "mean", "p50", "p90", "p95", "p99", "max"], true),
    (&["count", "mean", "p50", "p90", "p95", "p99", "max"], false),
    (&["count", "p50", "p95", "p99", "max"], false),
    (&["p50", "p99"], false),
];

/// Writes the richest table that fits the page; says what its marks mean.
pub(super) fn write(page: &mut Page, title: &str, lines: &[Line<'_>]) {
    let mut shown = Vec::new();
    let mut with_intervals = false;
    for shape in SHAPES {
        shown = render(title, lines, shape);
        with_intervals = shown.iter().any(|line| line.contains('±'));
        if shown.iter().all(|line| columns(line.trim_end()) <= page.width) {
            break;
        }
    }
    for line in &shown {
        page.line(line);
    }
    if with_intervals {
        page.words("", "± is the farther end of the 95 % interval");
    }
    if shown.iter().any(|line| line.contains('~')) {
        page.words("", "~ the sample is too small for both ends of this figure's 95 % interval");
    }
}

fn render(title: &str, lines: &[Line<'_>], (figures, intervals): Shape) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([title, "unit"].into_iter().chain(figures.iter().copied()));
    for line in lines {
        let unit = Unit::of(scale(line.distribution));
        let mut row = vec![line.name.clone(), unit.name.to_owned()];
        row.extend(figures.iter().map(|figure| cell(line.distribution, figure, unit, intervals)));
        table.add_row(row);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at > 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().collect()
}

/// The value that chooses the unit of a line.
fn scale(distribution: &Distribution) -> f64 {
    let middle = distribution.percentiles.p50.filter(|&ns| ns > 0);
    middle.or(distribution.max).unwrap_or(0) as f64
}

fn cell(distribution: &Distribution, figure: &str, unit: Unit, intervals: bool) -> String {
    let (values, ci) = (&distribution.percentiles, &distribution.ci95);
    let plain = |value: Option<u64>| value.map_or(NONE.into(), |ns| unit.show(ns as f64));
    let doubted = |value: Option<u64>, interval: Interval| match value {
        Some(_) if interval.contains(&None) => format!("~{}", plain(value)),
        Some(ns) if intervals && ns > 0 => format!("{} {}", plain(value), spread(ns, interval)),
        _ => plain(value),
    };
    match figure {
        "count" => count(distribution.count),
        "mean" => distribution.mean.map_or(NONE.into(), |mean| unit.show(mean)),
        "p50" => doubted(values.p50, ci.p50),
        "p90" => plain(values.p90),
        "p95" => doubted(values.p95, ci.p95),
        "p99" => doubted(values.p99, ci.p99),
        _ => plain(distribution.max),
    }
}

/// How far the interval reaches from the value, at most, as a part of it.
fn spread(value: u64, interval: Interval) -> String {
    let away = interval.into_iter().flatten().map(|end| end.abs_diff(value)).max().unwrap_or(0);
    plus_minus(away as f64 / value as f64)
}

/// A distance as a part of what it is from.
pub(super) fn plus_minus(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("±{percent:.1}%") } else { format!("±{percent:.0}%") }
}
