//! Throughput against what one user sees: which levels no other one beats, the knee, the operating point.

use maud::{Markup, html};
use plotly::Scatter;
use plotly::common::{Line, Marker, MarkerSymbol, Mode, Position};
use serde_json::{Value, json};
use tokclock_engine::measure::curve::{Curve, ParetoPoint};

use super::super::curve::words as loads;
use super::super::text::Unit;
use super::charts::{axis, colour, dash, is_wide, placed, plain, rule, short, traced};
use super::sheet::{Figure, Sheet};
use super::words::{number, time};

/// Points that have their load written beside them, at most.
const LABELS_MAX: usize = 24;

/// Throughput against what one user sees.
pub(super) fn frontiers(sheet: &mut Sheet, curve: &Curve) -> Markup {
    let by_ttft = frontier("frontier-ttft", "Output tokens/s against TTFT", &curve.pareto);
    let by_ttft = by_ttft.map(|figure| sheet.figure(marked(figure, curve)));
    let by_user = by_user(&curve.pareto).map(|figure| sheet.figure(figure));
    html! {
        div.grid {
            @for one in [by_ttft, by_user].into_iter().flatten() { (one) }
        }
    }
}

fn is_per_gpu(points: &[ParetoPoint]) -> bool {
    !points.is_empty() && points.iter().all(|point| point.output_tps_per_gpu.is_some())
}

fn throughput(point: &ParetoPoint, per_gpu: bool) -> Option<f64> {
    let tps = if per_gpu { point.output_tps_per_gpu } else { point.output_tps };
    tps.filter(|tps| tps.is_finite())
}

fn sources(points: &[ParetoPoint]) -> Vec<&str> {
    let mut sources: Vec<&str> = Vec::new();
    for point in points {
        if !sources.contains(&point.source.as_str()) {
            sources.push(&point.source);
        }
    }
    sources
}

/// A point of a frontier: its place, its load, whether another one beats it.
type Placed = (f64, f64, f64, bool);

/// Points of each source as lines through rising loads; what is beaten is hollow.
fn lines(points: &[(&str, Vec<Placed>)], hover: &str) -> Vec<Value> {
    let has_labels = points.iter().map(|(_, own)| own.len()).sum::<usize>() <= LABELS_MAX;
    points
        .iter()
        .enumerate()
        .map(|(at, (source, own))| {
            let (xs, ys) = own.iter().map(|(x, y, ..)| (*x, short(*y))).unzip();
            let shape = ["circle", "square", "diamond"][at % 3];
            let symbol = |one: &Placed| match one.3 {
                true => format!("{shape}-open"),
                false => shape.to_owned(),
            };
            let symbols: Vec<String> = own.iter().map(symbol).collect();
            let marker = Marker::new().size(9).color(colour(at));
            let labels: Vec<String> = own.iter().map(|(.., load, _)| loads::bare(*load)).collect();
            let mode = if has_labels { Mode::LinesMarkersText } else { Mode::LinesMarkers };
            let trace = Scatter::new(xs, ys)
                .name(plain(source))
                .mode(mode)
                .marker(marker)
                .line(Line::new().color(colour(at)).dash(dash(at)).width(1.6))
                .text_array(labels)
                .text_position(Position::TopCenter)
                .show_legend(points.len() > 1)
                .hover_template(hover);
            let mut trace = traced(&trace);
            trace["marker"]["symbol"] = json!(symbols);
            trace
        })
        .collect()
}

/// The levels by throughput and TTFT; `None` of fewer than two.
pub(super) fn frontier(id: &'static str, title: &str, points: &[ParetoPoint]) -> Option<Figure> {
    let per_gpu = is_per_gpu(points);
    let known = || points.iter().filter_map(|point| point.ttft_p50);
    let unit = Unit::of(known().min()? as f64 * 3.0);
    let of = |source: &str| {
        let own = points.iter().filter(|point| point.source == source);
        let mut own: Vec<Placed> = own
            .filter_map(|point| {
                let x = short(unit.of_ns(point.ttft_p50? as f64));
                Some((x, throughput(point, per_gpu)?, point.value, point.dominated_by_ttft))
            })
            .collect();
        own.sort_by(|a, b| a.2.total_cmp(&b.2));
        own
    };
    let all: Vec<(&str, Vec<Placed>)> =
        sources(points).into_iter().map(|source| (source, of(source))).collect();
    let count: usize = all.iter().map(|(_, own)| own.len()).sum();
    if count < 2 {
        return None;
    }
    let tps = if per_gpu { "output tokens/s per GPU" } else { "output tokens/s" };
    let hover = format!(
        "load %{{text}}: %{{y:.5g}} {tps}, TTFT p50 %{{x:.4g}} {}<extra></extra>",
        unit.name
    );
    let best = all.iter().flat_map(|(source, own)| own.iter().map(move |one| (*source, one)));
    let best = best.max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let is_best = |point: &&ParetoPoint| point.source == best.0 && point.value == best.1.2;
    let ttft = points.iter().find(is_best).and_then(|point| point.ttft_p50);
    let beaten = all.iter().flat_map(|(_, own)| own).filter(|(.., is_beaten)| *is_beaten).count();
    let wide = is_wide(known().map(|ns| ns as f64));
    Some(Figure {
        id,
        title: title.to_owned(),
        finding: format!(
            "Up and to the left is better. The most, {} {tps}, at load {}{}, with a TTFT p50 of {}. \
             Hollow: the {beaten} of {count} levels that another one beats in both.",
            number(Some(best.1.1)),
            loads::bare(best.1.2),
            if all.len() > 1 {
                format!(" of {}", super::words::safe(best.0))
            } else {
                String::new()
            },
            time(ttft),
        ),
        height: 380,
        traces: lines(&all, &hover),
        layout: json!({
            "xaxis": axis(&format!("TTFT p50, {}", unit.name), wide), "yaxis": axis(tps, false),
        }),
        data: table(points, per_gpu),
    })
}

fn table(points: &[ParetoPoint], per_gpu: bool) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let beaten = |is_beaten: bool| if is_beaten { "yes" } else { "no" }.to_owned();
    let row = |point: &ParetoPoint| {
        vec![
            super::words::safe(&point.source),
            loads::bare(point.value),
            number(throughput(point, per_gpu)),
            time(point.ttft_p50),
            beaten(point.dominated_by_ttft),
            number(point.per_user_tps),
            beaten(point.dominated_by_user),
        ]
    };
    let tps = if per_gpu { "tokens/s per GPU" } else { "tokens/s" };
    let head =
        vec!["result", "load", tps, "TTFT p50", "beaten", "tokens/s per user", "beaten there"];
    (head, points.iter().map(row).collect())
}

/// With the knee and the operating point of the curve.
fn marked(mut figure: Figure, curve: &Curve) -> Figure {
    let per_gpu = is_per_gpu(&curve.pareto);
    let known = curve.pareto.iter().filter_map(|point| point.ttft_p50).min();
    let unit = Unit::of(known.unwrap_or(0) as f64 * 3.0);
    let is_log = figure.layout["xaxis"]["type"] == "log";
    let at = |load: f64| {
        let point = curve.pareto.iter().find(|point| point.value == load)?;
        Some((short(unit.of_ns(point.ttft_p50? as f64)), short(throughput(point, per_gpu)?)))
    };
    let mut said = Vec::new();
    if let Some((load, (x, y))) = curve.knee.best().and_then(|load| Some((load, at(load)?))) {
        figure.traces.push(single_mark("knee", MarkerSymbol::Star, 3, x, y));
        said.push(format!("Star: the knee, at load {}.", loads::bare(load)));
    }
    let point = curve.envelope.as_ref().and_then(|envelope| envelope.operating_point.as_ref());
    if let Some((load, (x, y))) = point.and_then(|point| Some((point.value, at(point.value)?))) {
        figure.traces.push(single_mark("operating point", MarkerSymbol::DiamondOpen, 2, x, y));
        let (shape, mut note) = rule("x", x, "objectives hold up to here", 2);
        note["x"] = json!(placed(x, is_log));
        figure.layout["shapes"] = json!([shape]);
        figure.layout["annotations"] = json!([note]);
        said.push(format!(
            "Diamond and dashed line: the highest load that held the objectives, {}.",
            loads::bare(load)
        ));
    }
    figure.finding = format!("{} {}", figure.finding, said.join(" "));
    figure
}

fn single_mark(name: &str, symbol: MarkerSymbol, place: usize, x: f64, y: f64) -> Value {
    let line = Line::new().color(colour(place)).width(2.0);
    let marker = Marker::new().size(17).symbol(symbol).color(colour(place)).line(line);
    let trace = Scatter::new(vec![x], vec![y]).name(name).mode(Mode::Markers).marker(marker);
    traced(&trace.hover_template(format!("{name}<extra></extra>")))
}

fn by_user(points: &[ParetoPoint]) -> Option<Figure> {
    let per_gpu = is_per_gpu(points);
    let of = |source: &str| {
        let own = points.iter().filter(|point| point.source == source);
        let mut own: Vec<Placed> = own
            .filter_map(|point| {
                let user = point.per_user_tps.filter(|tps| tps.is_finite())?;
                Some((
                    short(user),
                    throughput(point, per_gpu)?,
                    point.value,
                    point.dominated_by_user,
                ))
            })
            .collect();
        own.sort_by(|a, b| a.2.total_cmp(&b.2));
        own
    };
    let all: Vec<(&str, Vec<Placed>)> =
        sources(points).into_iter().map(|source| (source, of(source))).collect();
    let known = || all.iter().flat_map(|(_, own)| own);
    if known().count() < 2 {
        return None;
    }
    let tps = if per_gpu { "output tokens/s per GPU" } else { "output tokens/s" };
    let hover =
        format!("load %{{text}}: %{{y:.5g}} {tps}, %{{x:.4g}} tokens/s per user<extra></extra>");
    let ends = known()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one.0), high.max(one.0)));
    Some(Figure {
        id: "frontier-user",
        title: "Output tokens/s against the speed one user sees".to_owned(),
        finding: format!(
            "Up and to the right is better. The user in the middle saw {} to {} tokens/s.",
            number(Some(ends.0)),
            number(Some(ends.1))
        ),
        height: 380,
        traces: lines(&all, &hover),
        layout: json!({ "xaxis": axis("tokens/s per user", false), "yaxis": axis(tps, false) }),
        data: table(points, per_gpu),
    })
}
