//! A run over its time: each request's latency, what came and went, tokens, failures.

use maud::{Markup, html};
use plotly::common::{ColorScale, ColorScaleElement, Marker, Mode};
use plotly::{Bar, HeatMap, Scatter};
use serde_json::{Value, json};
use tokclock_engine::measure::Summary;
use tokclock_engine::measure::views::{Cloud, Heat, Timeline, Views};

use super::super::text::{Unit, count};
use super::charts::{axis, colour, in_unit, is_wide, rule, short, steps, traced};
use super::seen::{Seen, TokenRate};
use super::sheet::{Figure, Sheet};
use super::words::{number, time};

const NS_PER_S: f64 = 1e9;
/// Rows of a table beside a chart, at most; more are put together.
const ROWS_MAX: usize = 40;
/// Classes of failures that have a colour of their own.
const CLASSES_MAX: usize = 6;

/// The section's content.
pub(super) fn write(sheet: &mut Sheet, summary: &Summary, seen: &Seen) -> Markup {
    let marks = marks(summary);
    let mut figures = Vec::new();
    if let Some(views) = &seen.views {
        for (id, title, of) in [
            ("ttft-time", "TTFT over time", &views.ttft_cloud),
            ("tpot-time", "TPOT over time", &views.tpot_cloud),
            ("e2e-time", "E2E over time", &views.e2e_cloud),
        ] {
            figures.extend(of.as_ref().map(|cloud| cloud_figure((id, title), cloud, &marks)));
        }
        figures.push(requests(views, &marks));
        figures.push(in_flight(&views.timeline, &marks));
    }
    figures.extend(seen.tokens.as_ref().map(|rate| tokens(rate, &marks)));
    if let Some(views) = &seen.views {
        figures.extend(failures(&views.timeline, &marks));
    }
    let shown: Vec<Markup> = figures.into_iter().map(|figure| sheet.figure(figure)).collect();
    html! {
        @if !shown.is_empty() {
            div.grid { @for one in &shown { (one) } }
        }
    }
}

/// Where the measured part begins and ends, where something came before or after it.
pub(super) fn marks(summary: &Summary) -> Value {
    let (run, window) = (&summary.run, &summary.run.window);
    let seconds = |ns: u64| short(ns as f64 / NS_PER_S);
    let mut shapes = Vec::new();
    let mut notes = Vec::new();
    let begins = (run.warmup_requests > 0).then_some((window.start_ns, "measured from here"));
    let ends =
        (!window.by_requests && window.end_ns < run.end_ns).then_some((window.end_ns, "to here"));
    for (at, name) in [begins, ends].into_iter().flatten() {
        let (shape, note) = rule("x", seconds(at), name, 6);
        shapes.push(shape);
        notes.push(note);
    }
    json!({ "shapes": shapes, "annotations": notes })
}

/// The layout of a chart with these marks and axes.
pub(super) fn with(marks: &Value, x: Value, y: Value) -> Value {
    json!({
        "shapes": marks["shapes"], "annotations": marks["annotations"], "xaxis": x, "yaxis": y,
    })
}

/// The axis of time.
pub(super) fn seconds_axis() -> Value {
    json!({ "title": { "text": "s from the start" } })
}

fn cloud_figure((id, title): (&'static str, &str), cloud: &Cloud, marks: &Value) -> Figure {
    match cloud {
        Cloud::Points(points) => points_figure((id, title), points, marks),
        Cloud::Heat(heat) => heat_figure((id, title), heat, marks),
    }
}

fn points_figure(
    (id, title): (&'static str, &str),
    points: &[(u64, u64)],
    marks: &Value,
) -> Figure {
    let mut sorted: Vec<u64> = points.iter().map(|(_, ns)| *ns).collect();
    sorted.sort_unstable();
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let unit = Unit::of(middle as f64);
    let is_log = is_wide(sorted.iter().map(|ns| *ns as f64));
    let least = if is_log { 1.0 } else { 0.0 };
    let xs = points.iter().map(|(at, _)| short(*at as f64 / NS_PER_S)).collect();
    let ys = in_unit(unit, points.iter().map(|(_, ns)| (*ns as f64).max(least)));
    let marker = Marker::new().size(5).color(colour(0)).opacity(0.65);
    let hover = format!("begun at %{{x:.3f}} s: %{{y:.4g}} {}<extra></extra>", unit.name);
    let trace = Scatter::new(xs, ys).mode(Mode::Markers).marker(marker).hover_template(hover);
    let ends = sorted.first().copied().zip(sorted.last().copied()).unwrap_or((0, 0));
    Figure {
        id,
        title: title.to_owned(),
        finding: format!(
            "Each of the {} successful requests at the time it began: from {} to {}.",
            count(points.len() as u64),
            time(Some(ends.0)),
            time(Some(ends.1))
        ),
        height: 280,
        traces: vec![traced(&trace.show_legend(false))],
        layout: with(marks, seconds_axis(), axis(unit.name, is_log)),
        data: (vec!["begun", "requests", "least", "middle", "most"], parts_of(points)),
    }
}

/// The points in a few parts of equal time.
fn parts_of(points: &[(u64, u64)]) -> Vec<Vec<String>> {
    let Some((last, _)) = points.last() else { return Vec::new() };
    let width = (last / 10).max(1);
    let mut rows = Vec::new();
    for part in points.chunk_by(|a, b| a.0 / width == b.0 / width) {
        let mut values: Vec<u64> = part.iter().map(|(_, ns)| *ns).collect();
        values.sort_unstable();
        let at = |place: usize| time(values.get(place).copied());
        let from = part.first().map_or(0, |(at, _)| at / width * width);
        rows.push(vec![
            format!("from {}", time(Some(from))),
            count(part.len() as u64),
            at(0),
            at(values.len() / 2),
            at(values.len().saturating_sub(1)),
        ]);
    }
    rows
}

fn heat_figure((id, title): (&'static str, &str), heat: &Heat, marks: &Value) -> Figure {
    let sums: Vec<u64> = heat.counts.iter().map(|row| row.iter().sum()).collect();
    let fullest = (0..sums.len()).max_by_key(|at| sums.get(*at)).unwrap_or(0);
    let edge = |at: usize| heat.edges.get(at).copied().unwrap_or(0.0);
    let unit = Unit::of(edge(fullest));
    let middle = |at: usize| (edge(at) * edge(at + 1)).sqrt();
    let columns = heat.counts.first().map_or(0, Vec::len);
    let xs: Vec<f64> =
        (0..columns).map(|at| short((at as f64 + 0.5) * heat.bin_ns as f64 / NS_PER_S)).collect();
    let ys = in_unit(unit, (0..sums.len()).map(middle));
    // Empty bins stay empty: one request is seen.
    let z: Vec<Vec<Option<f64>>> = heat
        .counts
        .iter()
        .map(|row| row.iter().map(|n| (*n > 0).then(|| short((*n as f64).log10()))).collect())
        .collect();
    let scale = ["--h1", "--h2", "--h3", "--h4"].into_iter().enumerate();
    let scale = scale.map(|(at, name)| ColorScaleElement(at as f64 / 3.0, name.to_owned()));
    let counts: Vec<Vec<String>> =
        heat.counts.iter().map(|row| row.iter().map(|n| count(*n)).collect()).collect();
    let hover = format!(
        "at %{{x:.2f}} s, about %{{y:.4g}} {}: %{{text}} requests<extra></extra>",
        unit.name
    );
    let trace = HeatMap::new(xs, ys, z)
        .color_scale(ColorScale::Vector(scale.collect()))
        .show_scale(false)
        .hover_on_gaps(false)
        .text_matrix(counts)
        .hover_template(hover);
    let rows = (0..sums.len()).filter(|at| sums.get(*at).is_some_and(|sum| *sum > 0));
    let rows = rows.map(|at| {
        let ends = [edge(at), edge(at + 1)].map(|ns| time(Some(ns.round() as u64)));
        vec![format!("{} to {}", ends[0], ends[1]), count(sums.get(at).copied().unwrap_or(0))]
    });
    Figure {
        id,
        title: title.to_owned(),
        finding: format!(
            "{} successful requests by the time they began; the darker (in dark colours the brighter), \
             the more of them. Most lie around {}.",
            count(sums.iter().sum()),
            time(Some(middle(fullest).round() as u64))
        ),
        height: 300,
        traces: vec![traced(&trace)],
        layout: with(marks, seconds_axis(), axis(unit.name, heat.counts.len() > 1)),
        data: (vec!["latency", "requests"], rows.collect()),
    }
}

/// Begins of bins, s.
fn begins(bins: usize, width_s: f64, from_s: f64) -> Vec<f64> {
    (0..bins).map(|at| short(from_s + at as f64 * width_s)).collect()
}

fn requests(views: &Views, marks: &Value) -> Figure {
    let line = &views.timeline;
    let width_s = line.bin_ns as f64 / NS_PER_S;
    let series = [
        ("offered", &line.offered),
        ("ok", &line.ok),
        ("failed", &line.failed),
        ("cancelled", &line.cancelled),
    ];
    let kept: Vec<(usize, (&str, &Vec<u64>))> = series
        .into_iter()
        .enumerate()
        .filter(|(at, (_, counts))| *at < 2 || counts.iter().any(|n| *n > 0))
        .collect();
    // Offered is what the others are held against, so it is the dashed one.
    let place = |at: usize| [6, 0, 1, 3][at % 4];
    let traces = kept.iter().map(|(at, (name, counts))| {
        let ys = counts.iter().map(|n| short(*n as f64 / width_s)).collect();
        let xs = begins(counts.len(), width_s, 0.0);
        let hover = format!("{name} at %{{x:.2f}} s: %{{y:.4g}}/s<extra></extra>");
        traced(&steps(name, place(*at), xs, ys).hover_template(hover))
    });
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    let said: Vec<String> =
        kept.iter().map(|(_, (name, counts))| format!("{} {name}", count(sum(counts)))).collect();
    Figure {
        id: "requests-time",
        title: "Requests per second".to_owned(),
        finding: format!(
            "Of all phases: {}; each step is {} long.",
            said.join(", "),
            time(Some(line.bin_ns))
        ),
        height: 260,
        traces: traces.collect(),
        layout: with(marks, seconds_axis(), axis("requests/s", false)),
        data: (
            std::iter::once("from").chain(kept.iter().map(|(_, (name, _))| *name)).collect(),
            rows_of(
                &kept.iter().map(|(_, (_, counts))| &counts[..]).collect::<Vec<_>>(),
                line.bin_ns,
            ),
        ),
    }
}

/// Sums of series over a few parts of equal time.
fn rows_of(series: &[&[u64]], bin_ns: u64) -> Vec<Vec<String>> {
    let bins = series.first().map_or(0, |counts| counts.len());
    let together = bins.div_ceil(ROWS_MAX).max(1);
    (0..bins)
        .step_by(together)
        .map(|at| {
            let from = time(Some(bin_ns.saturating_mul(at as u64)));
            let sum = |counts: &&[u64]| counts.iter().skip(at).take(together).sum::<u64>();
            std::iter::once(from).chain(series.iter().map(|counts| count(sum(counts)))).collect()
        })
        .collect()
}

fn in_flight(line: &Timeline, marks: &Value) -> Figure {
    let width_s = line.bin_ns as f64 / NS_PER_S;
    let most = line.in_flight.iter().max().copied().unwrap_or(0);
    // The value belongs to the end of its bin.
    let xs = begins(line.in_flight.len(), width_s, width_s);
    let ys = line.in_flight.iter().map(|n| *n as f64).collect();
    let hover = "%{y} in flight at %{x:.2f} s<extra></extra>";
    let trace = steps("in flight", 0, xs, ys).hover_template(hover).show_legend(false);
    let together = line.in_flight.len().div_ceil(ROWS_MAX).max(1);
    let rows = line.in_flight.chunks(together).enumerate().map(|(at, part)| {
        let end = (at * together + part.len()) as u64;
        let last = part.last().copied().unwrap_or(0);
        vec![format!("at {}", time(Some(line.bin_ns.saturating_mul(end)))), count(last)]
    });
    Figure {
        id: "in-flight",
        title: "Requests in flight".to_owned(),
        finding: format!("At most {} at the end of a step.", count(most)),
        height: 260,
        traces: vec![traced(&trace)],
        layout: with(marks, seconds_axis(), axis("requests", false)),
        data: (vec!["time", "in flight"], rows.collect()),
    }
}

fn tokens(rate: &TokenRate, marks: &Value) -> Figure {
    let most = rate.per_second.iter().copied().fold(0.0, f64::max);
    let xs = begins(rate.per_second.len(), rate.width_s, rate.from_s);
    let ys: Vec<f64> = rate.per_second.iter().map(|one| short(*one)).collect();
    let hover = "%{y:.5g} tokens/s from %{x:.2f} s on<extra></extra>";
    let trace = steps("output tokens", 2, xs.clone(), ys).hover_template(hover).show_legend(false);
    let together = xs.len().div_ceil(ROWS_MAX).max(1);
    let rows = rate.per_second.chunks(together).zip(xs.chunks(together)).map(|(part, from)| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        let from = format!("{:.2} s", from.first().copied().unwrap_or(0.0));
        vec![from, number(Some(mean))]
    });
    Figure {
        id: "tokens-time",
        title: "Output tokens per second".to_owned(),
        finding: format!(
            "As they arrived, by seconds of the wall clock (the first and the last are not whole): at \
             most {} tokens/s.",
            number(Some(most))
        ),
        height: 260,
        traces: vec![traced(&trace)],
        layout: with(marks, seconds_axis(), axis("tokens/s", false)),
        data: (vec!["from", "tokens/s"], rows.collect()),
    }
}

fn failures(line: &Timeline, marks: &Value) -> Option<Figure> {
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    let mut classes: Vec<(&String, &Vec<u64>)> = line.errors.iter().collect();
    classes.sort_by_key(|(_, counts)| std::cmp::Reverse(sum(counts)));
    let worst = classes.first()?;
    let width_s = line.bin_ns as f64 / NS_PER_S;
    let shapes = ["", "/", "x", "-", "|", "+", "."];
    let traces = classes.iter().take(CLASSES_MAX).enumerate().map(|(at, (name, counts))| {
        let xs = begins(counts.len(), width_s, width_s / 2.0);
        let ys: Vec<f64> = counts.iter().map(|n| *n as f64).collect();
        let hover = format!("%{{y}} {name} at %{{x:.2f}} s<extra></extra>");
        let mut bar = traced(&Bar::new(xs, ys).name(name.as_str()).hover_template(hover));
        let shape = shapes.get(at).copied().unwrap_or("");
        bar["marker"] = json!({ "color": colour(at + 1), "pattern": { "shape": shape } });
        bar
    });
    let said: Vec<String> =
        classes.iter().map(|(name, counts)| format!("{} {name}", count(sum(counts)))).collect();
    let mut layout = with(marks, seconds_axis(), axis("failures", false));
    layout["barmode"] = json!("stack");
    layout["bargap"] = json!(0.05);
    Some(Figure {
        id: "failures-time",
        title: "Failures by class".to_owned(),
        finding: format!("Of all phases: {}; most are {}.", said.join(", "), worst.0),
        height: 260,
        traces: traces.collect(),
        layout,
        data: (vec!["from", "failed", "by class"], failed_rows(line, &classes)),
    })
}

/// Failures over a few parts of equal time, all and by class.
fn failed_rows(line: &Timeline, classes: &[(&String, &Vec<u64>)]) -> Vec<Vec<String>> {
    let series: Vec<&[u64]> = std::iter::once(&line.failed[..])
        .chain(classes.iter().map(|(_, counts)| &counts[..]))
        .collect();
    let named = |row: Vec<String>| {
        let each = row.iter().skip(2).zip(classes).filter(|(n, _)| *n != "0");
        let each: Vec<String> = each.map(|(n, (name, _))| format!("{n} {name}")).collect();
        row.iter().take(2).cloned().chain([each.join(", ")]).collect()
    };
    rows_of(&series, line.bin_ns).into_iter().map(named).collect()
}
