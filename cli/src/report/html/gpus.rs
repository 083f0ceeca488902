//! GPUs over the time of a run: how busy they were, what they drew, what they held, when they were
//! slowed.

use std::io;
use std::path::Path;

use maud::{Markup, html};
use serde_json::{Value, json};
use tokclock_engine::measure::Summary;
use tokclock_engine::telemetry::gpu::{Device, GPUS_FILE, Gauge, Logged, Reading, read_log};

use super::super::gpus;
use super::super::text::{Page, escape};
use super::charts::{axis, colour, plain, short, steps, traced};
use super::over_time::{marks, seconds_axis, with};
use super::sheet::{Figure, Sheet};
use super::words::{self, number, percent};

const NS_PER_S: f64 = 1e9;
/// Points of a line, at most; more are put together.
const POINTS_MAX: usize = 600;
/// Devices that have lines of their own, at most.
const DEVICES_MAX: usize = 16;
/// Rows of the table beside a chart, for each device.
const ROWS_MAX: usize = 20;
const GIB: f64 = (1_u64 << 30) as f64;

/// Charts: identifier, title, figure, its axis, and by how much it is multiplied.
const CHARTS: [(&str, &str, Gauge, &str, f64); 6] = [
    ("gpu-busy", "GPU utilisation", Gauge::Utilisation, "% of time", 100.0),
    ("gpu-power", "GPU power", Gauge::Power, "W", 1.0),
    ("gpu-memory", "GPU memory in use", Gauge::MemoryUsed, "GiB", 1.0 / GIB),
    ("gpu-clock", "SM clock", Gauge::SmClock, "MHz", 1.0),
    ("gpu-tensor", "Tensor pipes active", Gauge::TensorActive, "% of cycles", 100.0),
    ("gpu-dram", "DRAM active", Gauge::DramActive, "% of cycles", 100.0),
];

/// What one device told, in order of time.
struct Track {
    label: String,
    looks: Vec<(u64, Reading)>,
}

/// The section's content, and what could not be read.
pub(super) fn write(sheet: &mut Sheet, summary: &Summary, dir: &Path) -> Markup {
    let Some(report) = &summary.gpus else { return html! {} };
    let said = Page::heard(|page| gpus::write(page, summary));
    let tracks = tracks(&dir.join(GPUS_FILE));
    let missing = tracks.as_ref().err().map(|error| escape(&error.to_string()));
    let tracks = tracks.unwrap_or_default();
    let marks = with_throttling(marks(summary), &tracks);
    let charts = CHARTS.iter().filter_map(|chart| figure(chart, &tracks, &marks));
    let shown: Vec<Markup> = charts.map(|one| sheet.figure(one)).collect();
    let left_out = report.devices.len().saturating_sub(DEVICES_MAX);
    html! {
        (words::told(&said))
        @if let Some(missing) = missing {
            p.unheard { "Not read: " (GPUS_FILE) ": " (missing) "; no chart of GPUs is shown." }
        }
        @if left_out > 0 && !shown.is_empty() {
            p { "Charts show the first " (DEVICES_MAX) " of them." }
        }
        @if !shown.is_empty() {
            div.grid { @for one in &shown { (one) } }
        }
    }
}

/// The looks at each device of a file.
fn tracks(path: &Path) -> io::Result<Vec<Track>> {
    let mut all: Vec<((String, Device), Track)> = Vec::new();
    for line in read_log(path)? {
        let Logged { at, source, device, reading } = line?;
        let known = all.iter_mut().find(|((from, one), _)| *from == source && *one == device);
        if let Some((_, track)) = known {
            track.looks.push((at, reading));
        } else if all.len() < DEVICES_MAX {
            let label = label(&device);
            all.push(((source, device), Track { label, looks: vec![(at, reading)] }));
        }
    }
    Ok(all.into_iter().map(|(_, track)| track).collect())
}

fn label(device: &Device) -> String {
    let number = device.index.map_or_else(|| "?".to_owned(), |index| index.to_string());
    let instance = device.instance.as_deref().map_or_else(String::new, |one| format!("/{one}"));
    let host = device.host.as_deref().map_or_else(String::new, |host| format!(" {host}"));
    plain(&format!("GPU {number}{instance}{host}"))
}

/// Marks of the window, and a shade where the clocks of a device were held down.
fn with_throttling(mut marks: Value, tracks: &[Track]) -> Value {
    let spans: Vec<(u64, u64)> = tracks.iter().flat_map(slowed).collect();
    let mut spans = together(spans);
    spans.truncate(POINTS_MAX);
    let shade = |(from, to): (u64, u64)| {
        json!({
            "type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
            "x0": short(from as f64 / NS_PER_S), "x1": short(to as f64 / NS_PER_S),
            "fillcolor": colour(1), "opacity": 0.15, "line": { "width": 0 },
        })
    };
    if let Some(shapes) = marks["shapes"].as_array_mut() {
        shapes.extend(spans.into_iter().map(shade));
    }
    marks
}

/// When a device was slowed: from such a look to the next one.
fn slowed(track: &Track) -> Vec<(u64, u64)> {
    let is_slow = |reading: &Reading| reading.throttle.is_some_and(|throttle| throttle.slows());
    let pairs = track.looks.windows(2).filter_map(|pair| match pair {
        [(from, reading), (to, _)] if is_slow(reading) => Some((*from, *to)),
        _ => None,
    });
    pairs.collect()
}

/// Spans without overlaps.
fn together(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut whole: Vec<(u64, u64)> = Vec::new();
    for (from, to) in spans {
        match whole.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => whole.push((from, to)),
        }
    }
    whole
}

fn figure(
    &(id, title, gauge, unit, times): &(&'static str, &str, Gauge, &str, f64),
    tracks: &[Track],
    marks: &Value,
) -> Option<Figure> {
    let known: Vec<(&str, Vec<(f64, f64)>)> = tracks
        .iter()
        .map(|track| (track.label.as_str(), points(&track.looks, gauge, times)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    if known.is_empty() {
        return None;
    }
    let traces = known.iter().enumerate().map(|(place, (label, points))| {
        let (xs, ys) = points.iter().map(|(x, y)| (short(*x), short(*y))).unzip();
        let hover = format!("{label} at %{{x:.2f}} s: %{{y:.4g}} {unit}<extra></extra>");
        traced(&steps(label, place, xs, ys).hover_template(hover))
    });
    let values = || known.iter().flat_map(|(_, points)| points).map(|(_, y)| *y);
    let mean = values().sum::<f64>() / values().count() as f64;
    let (least, most) =
        values().fold((f64::MAX, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)));
    let is_slowed = tracks.iter().any(|track| !slowed(track).is_empty());
    let shaded = if is_slowed { " Shaded where clocks of a GPU were held down." } else { "" };
    Some(Figure {
        id,
        title: title.to_owned(),
        finding: format!(
            "{} {unit} in the mean of all looks, from {} to {}.{shaded}",
            number(Some(mean)),
            number(Some(least)),
            number(Some(most))
        ),
        height: 260,
        traces: traces.collect(),
        layout: with(marks, seconds_axis(), axis(unit, false)),
        data: (vec!["GPU, from", "mean", "most", "slowed"], rows(tracks, gauge, times)),
    })
}

/// Times and values of a figure, several looks put together where there are many.
fn points(looks: &[(u64, Reading)], gauge: Gauge, times: f64) -> Vec<(f64, f64)> {
    let known: Vec<(f64, f64)> = looks
        .iter()
        .filter_map(|(at, reading)| Some((*at as f64 / NS_PER_S, reading.get(gauge)? * times)))
        .collect();
    let each = known.len().div_ceil(POINTS_MAX).max(1);
    let mean = |part: &[(f64, f64)]| {
        let sum: f64 = part.iter().map(|(_, y)| y).sum();
        part.first().map(|(x, _)| (*x, sum / part.len() as f64))
    };
    known.chunks(each).filter_map(mean).collect()
}

/// The same in a few parts of equally many looks.
fn rows(tracks: &[Track], gauge: Gauge, times: f64) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for track in tracks {
        let each = track.looks.len().div_ceil(ROWS_MAX).max(1);
        for part in track.looks.chunks(each) {
            let values: Vec<f64> =
                part.iter().filter_map(|(_, reading)| Some(reading.get(gauge)? * times)).collect();
            let Some((from, _)) = part.first().filter(|_| !values.is_empty()) else { continue };
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let told = part.iter().filter_map(|(_, reading)| reading.throttle);
            let slow = told.clone().filter(|throttle| throttle.slows()).count() as f64;
            let all = told.count();
            rows.push(vec![
                format!("{}, {:.1} s", track.label, *from as f64 / NS_PER_S),
                number(Some(mean)),
                number(values.iter().copied().reduce(f64::max)),
                percent((all > 0).then(|| slow / all as f64)),
            ]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use tokclock_engine::telemetry::gpu::Throttle;

    use super::*;

    fn track(label: &str, throttles: &[u64]) -> Track {
        let look = |(tick, bits): (usize, &u64)| {
            let reading = Reading::throttled(Some(Throttle(*bits)));
            (tick as u64 * 1_000_000_000, reading.with(Gauge::Power, tick as f64))
        };
        let looks = throttles.iter().enumerate().map(look).collect();
        Track { label: label.to_owned(), looks }
    }

    #[test]
    fn a_shade_lies_where_any_device_was_slowed() {
        let tracks = [track("GPU 0", &[0, 4, 4, 1, 0]), track("GPU 1", &[0, 0, 8, 8, 0])];
        let got = with_throttling(json!({ "shapes": [], "annotations": [] }), &tracks);
        let shapes = got["shapes"].as_array().unwrap();
        assert_eq!(shapes.len(), 1, "{got}");
        assert_eq!((&shapes[0]["x0"], &shapes[0]["x1"]), (&json!(1.0), &json!(4.0)));
    }

    #[test]
    fn a_chart_has_a_line_for_each_device_and_its_figures_in_a_table() {
        let tracks = [track("GPU 0", &[0, 4]), track("GPU 1", &[0, 0])];
        let marks = json!({ "shapes": [], "annotations": [] });
        let chart = figure(&CHARTS[1], &tracks, &marks).unwrap();
        assert_eq!(chart.traces.len(), 2);
        assert_eq!(chart.data.1.len(), 4);
        assert_eq!(chart.data.1[0][0], "GPU 0, 0.0 s");
        assert!(figure(&CHARTS[4], &tracks, &marks).is_none(), "nobody told of tensor pipes");
        let many: Vec<(u64, Reading)> =
            (0..1000).map(|at| (at, Reading::default().with(Gauge::Power, 5.0))).collect();
        assert_eq!(points(&many, Gauge::Power, 1.0).len(), 500);
    }
}
