//! The charts of a sweep by load: latencies with the limits of objectives, throughput.

use maud::{Markup, html};
use plotly::common::{ErrorData, ErrorType, Marker, Mode};
use serde_json::{Value, json};
use tokclock_engine::measure::curve::{Curve, Figures, Level};
use tokclock_engine::measure::{Held, Interval};

use super::super::curve::words as loads;
use super::super::text::{Unit, plural};
use super::charts::{axis, colour, in_unit, is_wide, line, placed, rule, short, traced};
use super::sheet::{Figure, Sheet};
use super::words::{number, time};

/// A judged latency, its name, its interval, and how it is drawn.
type Percentile = (&'static str, fn(&Figures) -> Option<u64>, fn(&Figures) -> Interval);

/// Percentiles and throughput by load.
pub(super) fn by_load(sheet: &mut Sheet, curve: &Curve) -> Markup {
    let ttft: [Percentile; 3] = [
        ("TTFT p50", |f| f.ttft_p50, |f| f.ci95.ttft_p50),
        ("TTFT p95", |f| f.ttft_p95, |f| f.ci95.ttft_p95),
        ("TTFT p99", |f| f.ttft_p99, |f| f.ci95.ttft_p99),
    ];
    let itl: [Percentile; 3] = [
        ("ITL p50", |f| f.itl_p50, |f| f.ci95.itl_p50),
        ("ITL p95", |f| f.itl_p95, |f| f.ci95.itl_p95),
        ("ITL p99", |f| f.itl_p99, |f| f.ci95.itl_p99),
    ];
    let e2e: [Percentile; 2] = [
        ("E2E p50", |f| f.e2e_p50, |f| f.ci95.e2e_p50),
        ("E2E p95", |f| f.e2e_p95, |f| f.ci95.e2e_p95),
    ];
    let figures = [
        rates(curve),
        percentiles(curve, ("ttft-load", "TTFT by load", "ttft"), &ttft),
        percentiles(curve, ("itl-load", "ITL by load", "itl"), &itl),
        percentiles(curve, ("e2e-load", "E2E by load", "e2e"), &e2e),
    ];
    let shown: Vec<Markup> =
        figures.into_iter().flatten().map(|figure| sheet.figure(figure)).collect();
    let legs = super::legs::by_load(curve).map(|figure| sheet.figure(figure));
    html! {
        div.grid { @for one in &shown { (one) } }
        @if let Some(legs) = legs { (legs) }
    }
}

/// Ticks of a logarithmic axis are at least so many times one another, so that each can be read.
const TICKS_APART: f64 = 1.2;

fn load_axis(curve: &Curve, levels: &[&Level]) -> Value {
    let is_log = is_wide(levels.iter().map(|level| level.value));
    let mut load = axis(loads::unit(curve.variable, 2.0), is_log);
    // Loads were chosen by somebody: they are what is worth a tick, as far as there is room.
    if is_log && levels.len() <= 12 {
        let mut values: Vec<f64> = levels.iter().map(|level| level.value).collect();
        values.dedup_by(|next, kept| *next < *kept * TICKS_APART);
        let names: Vec<String> = values.iter().map(|value| loads::bare(*value)).collect();
        load["tickvals"] = json!(values);
        load["ticktext"] = json!(names);
        load["tickmode"] = json!("array");
    }
    load
}

fn percentiles(
    curve: &Curve,
    (id, title, metric): (&'static str, &str, &str),
    of: &[Percentile],
) -> Option<Figure> {
    let levels = curve.by_load();
    let values = || {
        let all = of.iter().flat_map(|(_, pick, _)| levels.iter().map(|one| pick(&one.figures)));
        all.flatten().map(|ns| ns as f64)
    };
    let least = values().reduce(f64::min)?;
    let unit = Unit::of(least * 3.0);
    let is_log = is_wide(values());
    let traces = of.iter().enumerate().map(|(place, (name, pick, ci))| {
        let known: Vec<(f64, u64, Interval)> = levels
            .iter()
            .filter_map(|one| Some((one.value, pick(&one.figures)?, ci(&one.figures))))
            .collect();
        let away = |end: Option<u64>, value: u64| {
            short(unit.of_ns(end.map_or(0, |end| end.abs_diff(value)) as f64))
        };
        let up = known.iter().map(|(_, value, [_, high])| away(*high, *value)).collect();
        let down = known.iter().map(|(_, value, [low, _])| away(*low, *value)).collect();
        let bars = ErrorData::new(ErrorType::Data).symmetric(false).array(up).array_minus(down);
        let bars = bars.color(colour(place)).thickness(1.0).width(3);
        let xs = known.iter().map(|(load, ..)| *load).collect();
        let ys = in_unit(unit, known.iter().map(|(_, value, _)| *value as f64));
        let hover = format!("load %{{x}}: {name} %{{y:.4g}} {}<extra></extra>", unit.name);
        let trace = line(name, place, xs, ys).mode(Mode::LinesMarkers).error_y(bars);
        traced(&trace.marker(Marker::new().color(colour(place)).size(6)).hover_template(hover))
    });
    let (shapes, notes): (Vec<Value>, Vec<Value>) = limits(curve, metric)
        .map(|(text, ns)| {
            let at = short(unit.of_ns(ns as f64));
            let (shape, mut note) = rule("y", at, &text, 3);
            note["y"] = json!(placed(at, is_log));
            (shape, note)
        })
        .unzip();
    let last = levels.last()?;
    let said: Vec<String> =
        of.iter().map(|(name, pick, _)| format!("{name} {}", time(pick(&last.figures)))).collect();
    let head = std::iter::once("load").chain(of.iter().map(|(name, ..)| *name)).collect();
    let rows = levels.iter().map(|level| {
        let cells = of.iter().map(|(_, pick, _)| time(pick(&level.figures)));
        std::iter::once(loads::bare(level.value)).chain(cells).collect()
    });
    Some(Figure {
        id,
        title: title.to_owned(),
        finding: format!(
            "Judged percentiles with their 95 % intervals. At the highest load: {}.",
            said.join(", ")
        ),
        height: 300,
        traces: traces.collect(),
        layout: json!({
            "xaxis": load_axis(curve, &levels), "yaxis": axis(unit.name, is_log),
            "shapes": shapes, "annotations": notes,
        }),
        data: (head, rows.collect()),
    })
}

/// The limits that objectives put on a metric.
fn limits<'a>(curve: &'a Curve, metric: &'a str) -> impl Iterator<Item = (String, u64)> + 'a {
    let first = curve.levels.iter().flat_map(|level| &level.repetitions).next();
    let all = first.into_iter().flat_map(|one| &one.objectives);
    all.filter(move |one| one.metric.contains(metric))
        .filter_map(|one| Some((super::words::safe(&one.text), one.limit_ns?)))
}

fn rates(curve: &Curve) -> Option<Figure> {
    let levels = curve.by_load();
    type Rate = (&'static str, fn(&Figures) -> Option<f64>);
    let all: [Rate; 3] =
        [("served", |f| f.rps), ("good", |f| f.goodput_rps), ("offered", |f| f.offered_rps)];
    let has = |(_, pick): &Rate| levels.iter().any(|level| pick(&level.figures).is_some());
    let known: Vec<Rate> = all.into_iter().filter(|one| has(one)).collect();
    if known.is_empty() {
        return None;
    }
    let traces = known.iter().enumerate().map(|(place, (name, pick))| {
        let points = levels.iter().filter_map(|one| Some((one.value, short(pick(&one.figures)?))));
        let (xs, ys) = points.unzip();
        let hover = format!("load %{{x}}: %{{y:.4g}} requests/s {name}<extra></extra>");
        let trace = line(name, place, xs, ys).mode(Mode::LinesMarkers);
        traced(&trace.marker(Marker::new().color(colour(place)).size(6)).hover_template(hover))
    });
    let most = levels.iter().filter_map(|level| Some((level, level.figures.rps?)));
    let most = most.max_by(|a, b| a.1.total_cmp(&b.1));
    let failed = levels.iter().filter(|level| level.slo == Some(Held::Fail)).count();
    let head = std::iter::once("load").chain(known.iter().map(|(name, _)| *name)).collect();
    let rows = levels.iter().map(|level| {
        let cells = known.iter().map(|(_, pick)| number(pick(&level.figures)));
        std::iter::once(loads::bare(level.value)).chain(cells).collect()
    });
    let mut layout = json!({
        "xaxis": load_axis(curve, &levels), "yaxis": axis("requests/s", false),
    });
    let is_log = layout["xaxis"]["type"] == "log";
    if let Some(knee) = curve.knee.best() {
        let (shape, mut note) = rule("x", knee, "knee", 3);
        note["x"] = json!(placed(knee, is_log));
        layout["shapes"] = json!([shape]);
        layout["annotations"] = json!([note]);
    }
    Some(Figure {
        id: "rate-load",
        title: "Requests per second by load".to_owned(),
        finding: most.map_or_else(String::new, |(level, rps)| {
            format!(
                "At most {} requests/s were served, at {}{}.",
                number(Some(rps)),
                loads::load(curve.variable, level.value),
                if failed > 0 {
                    format!(
                        "; objectives failed at {failed} {}",
                        plural(failed as u64, "level", "levels")
                    )
                } else {
                    String::new()
                }
            )
        }),
        height: 300,
        traces: traces.collect(),
        layout,
        data: (head, rows.collect()),
    })
}
