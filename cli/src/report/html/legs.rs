//! Prefill and decode apart: the legs as stacked bars, the hand-off as a distribution.

use maud::{Markup, html};
use plotly::Bar;
use plotly::common::Orientation;
use serde_json::{Value, json};
use tokclock_engine::measure::Summary;
use tokclock_engine::measure::curve::{Curve, LegMeans, Level};

use super::super::curve::words as loads;
use super::super::legs;
use super::super::text::{Page, Unit};
use super::charts::{axis, colour, distributions, in_unit, traced};
use super::latency::plain_table;
use super::seen::Seen;
use super::sheet::{Figure, Sheet};
use super::words::{self, time};

/// Hatchings of the parts, beside their colours.
const HATCHINGS: [&str; 5] = ["", "/", "x", "", "."];

/// The section of a run; nothing where its requests had no legs.
pub(super) fn write(sheet: &mut Sheet, summary: &Summary, seen: &Seen) -> Markup {
    let Some(report) = &summary.legs else { return html! {} };
    let said = Page::heard(|page| legs::said(page, summary, report));
    let lines = legs::parts(report);
    let bars = stacked(
        "legs",
        "Where the time to the second token goes",
        &[("all requests".to_owned(), LegMeans::of_legs(report))],
    );
    let views = seen.views.as_ref();
    let handoff = distributions(
        "handoff-cdf",
        "Hand-off",
        &[
            ("hand-off (estimate)", views.and_then(|views| views.handoff.as_ref())),
            ("the same prompt once more", views.and_then(|views| views.once_more.as_ref())),
        ],
    );
    let each = distributions(
        "leg-cdf",
        "Legs",
        &[
            ("prefill leg", views.and_then(|views| views.prefill_leg.as_ref())),
            ("decode first", views.and_then(|views| views.decode_first.as_ref())),
        ],
    );
    let bars = sheet.figure(bars);
    let (each, handoff) = (sheet.figure(each), sheet.figure(handoff));
    html! {
        @if !lines.is_empty() { (plain_table(&lines)) }
        (words::told(&said))
        (bars)
        div.grid { (each) (handoff) }
        @if let Some(handoff) = &report.handoff {
            p { "How the hand-off is estimated: " (handoff.how) "." }
        }
        @if let Some(router) = &report.router {
            p { "How the router is measured: " (router.how) "." }
        }
    }
}

/// The legs by load; nothing where no level has any.
pub(super) fn by_load(curve: &Curve) -> Option<Figure> {
    let levels = curve.by_load();
    let bar = |level: &&Level| Some((loads::bare(level.value), level.figures.legs?));
    let bars: Vec<(String, LegMeans)> = levels.iter().filter_map(bar).collect();
    if bars.is_empty() {
        return None;
    }
    let title = format!("Legs by load, {}", loads::unit(curve.variable, 2.0));
    Some(stacked("legs-load", &title, &bars))
}

/// Bars of means, each with its name.
fn stacked(id: &'static str, title: &str, bars: &[(String, LegMeans)]) -> Figure {
    let parts: Vec<Vec<(&'static str, f64)>> = bars.iter().map(|(_, one)| one.stacked()).collect();
    let whole = |parts: &[(&'static str, f64)]| parts.iter().map(|(_, ns)| ns).sum::<f64>();
    let most = parts.iter().map(|one| whole(one)).fold(0.0, f64::max);
    let unit = Unit::of(most / 3.0);
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in parts.iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let labels: Vec<String> = bars.iter().map(|(label, _)| label.clone()).collect();
    let of = |parts: &[(&'static str, f64)], name: &str| {
        parts.iter().find(|(one, _)| *one == name).map(|(_, ns)| *ns)
    };
    let traces = names.iter().enumerate().map(|(place, name)| {
        let values = parts.iter().map(|one| of(one, name).unwrap_or(0.0));
        let texts: Vec<String> =
            parts.iter().map(|one| time(of(one, name).map(|ns| ns.round() as u64))).collect();
        let bar = Bar::new(in_unit(unit, values), labels.clone())
            .name(*name)
            .orientation(Orientation::Horizontal)
            .hover_text_array(texts)
            .hover_template(format!("%{{y}}: {name} %{{hovertext}}<extra></extra>"));
        let mut bar = traced(&bar);
        bar["marker"] = json!({
            "color": colour(place), "pattern": { "shape": HATCHINGS[place % HATCHINGS.len()] },
        });
        bar
    });
    let last = parts.last();
    let largest = last.and_then(|one| one.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
    let finding = match (last, largest) {
        (Some(one), Some((name, ns))) if whole(one) > 0.0 => format!(
            "Means of the successful requests. The largest part{}: {name}, {} of {}.",
            if bars.len() > 1 { " at the highest load" } else { "" },
            time(Some(ns.round() as u64)),
            time(Some(whole(one).round() as u64))
        ),
        _ => "No request succeeded.".to_owned(),
    };
    let traces: Vec<Value> = if most > 0.0 { traces.collect() } else { Vec::new() };
    let head = std::iter::once("load").chain(names.iter().copied()).collect();
    let row = |((label, _), parts): (&(String, LegMeans), &Vec<(&'static str, f64)>)| {
        let cells = names.iter().map(|name| time(of(parts, name).map(|ns| ns.round() as u64)));
        std::iter::once(label.clone()).chain(cells).collect()
    };
    Figure {
        id,
        title: title.to_owned(),
        finding,
        height: 150 + 34 * bars.len() as u32,
        traces,
        layout: json!({
            "barmode": "stack", "bargap": 0.3, "xaxis": axis(unit.name, false),
            "yaxis": { "autorange": "reversed", "type": "category" },
        }),
        data: (head, bars.iter().zip(&parts).map(row).collect()),
    }
}
