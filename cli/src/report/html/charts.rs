//! What all charts have in common: colours, axes, lines of distributions.

use plotly::Scatter;
use plotly::common::{DashType, Line, LineShape, Mode};
use serde::Serialize;
use serde_json::{Value, json};
use tokclock_engine::measure::views::Cdf;

use super::super::text::Unit;
use super::sheet::Figure;
use super::words::time;

/// Names of the page's colours, in the order in which series take them: told apart by the colour-blind,
/// and never the only thing that tells two series apart.
pub(super) const COLOURS: [&str; 7] = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5", "--s6"];
const DASHES: [DashType; 4] = [DashType::Solid, DashType::Dash, DashType::Dot, DashType::DashDot];
/// Values apart by more than this many times are shown on a logarithmic axis.
const WIDE: f64 = 12.0;
/// The shares that the table of a distribution has.
const SHARES: [(f64, &str); 10] = [
    (0.0, "least"),
    (0.1, "10 %"),
    (0.25, "25 %"),
    (0.5, "50 %"),
    (0.75, "75 %"),
    (0.9, "90 %"),
    (0.95, "95 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (1.0, "most"),
];

/// The colour of the series at a place.
pub(super) fn colour(place: usize) -> &'static str {
    COLOURS[place % COLOURS.len()]
}

/// The dash of the series at a place.
pub(super) fn dash(place: usize) -> DashType {
    DASHES[place % DASHES.len()].clone()
}

/// A trace as JSON; what is no number becomes null, which is not drawn.
pub(super) fn traced(trace: &impl Serialize) -> Value {
    serde_json::to_value(trace).unwrap_or(Value::Null)
}

/// `value` in six digits: what no eye can see takes no room in the page.
pub(super) fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Values in a unit.
pub(super) fn in_unit(unit: Unit, values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    values.into_iter().map(|ns| short(unit.of_ns(ns))).collect()
}

/// An axis with a title, logarithmic where its values are far apart.
pub(super) fn axis(title: &str, is_log: bool) -> Value {
    if is_log {
        json!({ "title": { "text": title }, "type": "log" })
    } else {
        json!({ "title": { "text": title }, "rangemode": "tozero" })
    }
}

/// Whether values are so far apart that most of them would lie at the begin of a linear axis.
pub(super) fn is_wide(values: impl IntoIterator<Item = f64>) -> bool {
    let (low, high) = values
        .into_iter()
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    high > low * WIDE
}

/// A line through points, told from others by its dash as well.
pub(super) fn line(name: &str, place: usize, xs: Vec<f64>, ys: Vec<f64>) -> Box<Scatter<f64, f64>> {
    let style = Line::new().color(colour(place)).dash(dash(place)).width(2.0);
    Scatter::new(xs, ys).name(name).mode(Mode::Lines).line(style)
}

/// A line of steps: each value holds until the next.
pub(super) fn steps(
    name: &str,
    place: usize,
    xs: Vec<f64>,
    ys: Vec<f64>,
) -> Box<Scatter<f64, f64>> {
    let style = Line::new().color(colour(place)).dash(dash(place)).width(1.8).shape(LineShape::Hv);
    Scatter::new(xs, ys).name(name).mode(Mode::Lines).line(style)
}

/// A vertical or horizontal line across the whole chart, with its name beside it.
pub(super) fn rule(axis: &str, at: f64, name: &str, place: usize) -> (Value, Value) {
    let (x0, x1, y0, y1) = match axis {
        "x" => (json!(at), json!(at), json!(0), json!(1)),
        _ => (json!(0), json!(1), json!(at), json!(at)),
    };
    let (xref, yref) = if axis == "x" { ("x", "paper") } else { ("paper", "y") };
    let shape = json!({
        "type": "line", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "xref": xref, "yref": yref,
        "line": { "color": colour(place), "width": 1.5, "dash": "dash" },
    });
    let (x, y, xanchor, yanchor) = match axis {
        "x" => (json!(at), json!(1), "left", "top"),
        _ => (json!(1), json!(at), "right", "bottom"),
    };
    let note = json!({
        "x": x, "y": y, "xref": xref, "yref": yref, "xanchor": xanchor, "yanchor": yanchor,
        "text": plain(name), "showarrow": false, "font": { "color": colour(place), "size": 11 },
    });
    (shape, note)
}

/// The place of a value among annotations of a logarithmic axis.
pub(super) fn placed(value: f64, is_log: bool) -> f64 {
    if is_log { value.max(f64::MIN_POSITIVE).log10() } else { value }
}

/// A text in which plotly finds no markup of its own.
pub(super) fn plain(text: &str) -> String {
    super::words::safe(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Distributions as lines, all in one unit.
pub(super) fn distributions(
    id: &'static str,
    title: &str,
    series: &[(&'static str, Option<&Cdf>)],
) -> Figure {
    let known: Vec<(&'static str, &Cdf)> =
        series.iter().filter_map(|(name, cdf)| Some((*name, (*cdf)?))).collect();
    let middle = known.iter().filter_map(|(_, cdf)| cdf.at(0.5)).max().unwrap_or(0);
    let unit = Unit::of(middle as f64);
    let values = || known.iter().flat_map(|(_, cdf)| &cdf.points).map(|(_, ns)| *ns as f64);
    let is_log = is_wide(values());
    // A logarithmic axis has no 0.
    let least = if is_log { 1.0 } else { 0.0 };
    let traces = known.iter().enumerate().map(|(place, (name, cdf))| {
        let xs = in_unit(unit, cdf.points.iter().map(|(_, ns)| (*ns as f64).max(least)));
        let ys = cdf.points.iter().map(|(share, _)| short(share * 100.0)).collect();
        let of = format!("{name}: %{{y:.2f}} % within %{{x:.4g}} {}<extra></extra>", unit.name);
        let style = Line::new().color(colour(place)).dash(dash(place)).shape(LineShape::Hv);
        traced(&line(name, place, xs, ys).line(style.width(2.0)).hover_template(of))
    });
    let findings: Vec<String> = known
        .iter()
        .map(|(name, cdf)| {
            let [half, most] = [cdf.at(0.5), cdf.at(0.95)].map(time);
            format!("{name}: half within {half}, 95 % within {most}, at most {}", time(cdf.at(1.0)))
        })
        .collect();
    let head = std::iter::once("share within").chain(known.iter().map(|(name, _)| *name));
    let row = |(share, named): &(f64, &str)| {
        let cells = known.iter().map(|(_, cdf)| time(cdf.at(*share)));
        std::iter::once((*named).to_owned()).chain(cells).collect()
    };
    Figure {
        id,
        title: title.to_owned(),
        finding: format!("{}.", findings.join("; ")),
        height: 300,
        traces: traces.collect(),
        layout: json!({
            "xaxis": axis(unit.name, is_log),
            "yaxis": { "title": { "text": "% of samples" }, "range": [0, 100.5] },
        }),
        data: (head.collect(), SHARES.iter().map(row).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_drawn_in_its_unit_and_stands_in_a_table() {
        let cdf = Cdf::from_values(vec![10_000_000, 20_000_000, 40_000_000]).unwrap();
        let figure = distributions("x", "X", &[("TTFT", Some(&cdf)), ("E2E", None)]);
        assert_eq!(figure.traces.len(), 1);
        assert_eq!(figure.traces[0]["x"], json!([10.0, 20.0, 40.0]));
        assert_eq!(figure.layout["xaxis"]["title"]["text"], "ms");
        assert!(figure.finding.starts_with("TTFT: half within 20.00 ms"), "{}", figure.finding);
        assert_eq!(figure.data.1[3], ["50 %", "20.00 ms"]);
        assert!(distributions("x", "X", &[("TTFT", None)]).traces.is_empty());
    }

    #[test]
    fn zero_is_on_no_logarithmic_axis_and_nothing_is_no_number() {
        let cdf = Cdf::from_values(vec![0, 5, 1_000_000]).unwrap();
        let figure = distributions("x", "X", &[("lag", Some(&cdf))]);
        assert_eq!(figure.layout["xaxis"]["type"], "log");
        assert!(figure.traces[0]["x"][0].as_f64().unwrap() > 0.0);
        assert!(traced(&line("n", 0, vec![f64::NAN], vec![1.0]))["x"][0].is_null());
        assert_eq!(plain("<b>&"), "&lt;b&gt;&amp;");
    }
}
