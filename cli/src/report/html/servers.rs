//! What the servers said of themselves, over the time of the run.

use maud::{Markup, html};
use serde_json::json;
use tokclock_engine::measure::{Estimate, LatencyReport, ServerSeen, Summary};
use tokclock_engine::run::SERVERS_FILE;
use tokclock_engine::telemetry::server::{Counted, Counter, Gauge, Reading, read_log};

use super::super::servers;
use super::super::text::{Page, count};
use super::charts::{axis, line, plain, short, traced};
use super::sheet::{Figure, Sheet};
use super::words::{self, ABSENT, number, percent, time};
use crate::results::Kept;

const NS_PER_S: f64 = 1e9;
/// Servers in a chart, at most.
const SERVERS_MAX: usize = 6;
/// Points of a line, at most; of more every second, third and so on is shown.
const POINTS_MAX: usize = 2000;
/// Rows of a table beside a chart, at most.
const ROWS_MAX: usize = 40;

/// A server's readings: when, and what.
type Looks = Vec<(f64, Counted)>;

/// Points of one line.
type Points = Vec<(f64, f64)>;

/// The section's content.
pub(super) fn write(sheet: &mut Sheet, kept: &Kept, summary: &Summary) -> Markup {
    if summary.servers.is_empty() {
        return html! {};
    }
    let looks = read(kept, summary);
    let figures = [
        chart(
            ("servers-requests", "Requests at the servers", "requests"),
            &looks,
            &[
                ("running", &|looks| gauge(looks, Gauge::Running)),
                ("waiting", &|looks| gauge(looks, Gauge::Waiting)),
            ],
        ),
        chart(
            ("servers-kv", "KV cache in use", "%"),
            &looks,
            &[("KV cache", &|looks| {
                gauge(looks, Gauge::KvUse)
                    .into_iter()
                    .map(|(at, share)| (at, share * 100.0))
                    .collect()
            })],
        ),
        chart(
            ("servers-tokens", "Tokens per second, by the servers", "tokens/s"),
            &looks,
            &[
                ("generated", &|looks| growth(looks, Counter::GenerationTokens)),
                ("prompts", &|looks| growth(looks, Counter::PromptTokens)),
            ],
        ),
        chart(
            ("servers-preempted", "Preemptions so far", "preemptions"),
            &looks,
            &[("preemptions", &|looks| since_begin(looks, Counter::Preemptions))],
        ),
    ];
    let shown: Vec<Markup> =
        figures.into_iter().flatten().map(|figure| sheet.figure(figure)).collect();
    html! {
        p { "What the servers count themselves, looked at again and again during the run; and the \
             client's own means of the same time beside theirs." }
        div.grid { @for one in &shown { (one) } }
        (table(summary))
        (words::told(&Page::heard(|page| servers::write(page, summary))))
    }
}

/// What was read of each server, in the order of the summary.
fn read(kept: &Kept, summary: &Summary) -> Vec<(String, Looks)> {
    let shown = summary.servers.iter().filter(|server| server.samples > 0).take(SERVERS_MAX);
    let mut all: Vec<(String, Looks)> =
        shown.map(|server| (server.url.clone(), Looks::new())).collect();
    let Ok(readings) = read_log(&kept.path.join(SERVERS_FILE)) else { return Vec::new() };
    for Reading { at_ns, url, said, .. } in readings {
        if let (Some((_, looks)), Ok(counted)) = (all.iter_mut().find(|one| one.0 == url), said) {
            looks.push((at_ns as f64 / NS_PER_S, counted));
        }
    }
    all
}

fn gauge(looks: &Looks, gauge: Gauge) -> Points {
    looks.iter().filter_map(|(at, counted)| Some((*at, counted.gauge(gauge)?))).collect()
}

fn values(looks: &Looks, counter: Counter) -> Points {
    looks.iter().filter_map(|(at, counted)| Some((*at, counted.counter(counter)?))).collect()
}

/// Growth per second, at the later of two looks; a server that was started again has none there.
fn growth(looks: &Looks, counter: Counter) -> Points {
    let values = values(looks, counter);
    let rate = |pair: &[(f64, f64)]| match pair {
        [(from, before), (to, after)] if to > from && after >= before => {
            Some((*to, (after - before) / (to - from)))
        }
        _ => None,
    };
    values.windows(2).filter_map(rate).collect()
}

fn since_begin(looks: &Looks, counter: Counter) -> Points {
    let values = values(looks, counter);
    let first = values.first().map_or(0.0, |(_, value)| *value);
    values.into_iter().map(|(at, value)| (at, (value - first).max(0.0))).collect()
}

/// Makes points of looks, and what they are called.
type Series<'a> = (&'a str, &'a dyn Fn(&Looks) -> Points);

fn chart(
    (id, title, unit): (&'static str, &str, &str),
    looks: &[(String, Looks)],
    series: &[Series<'_>],
) -> Option<Figure> {
    let mut lines = Vec::new();
    for (url, looks) in looks {
        for (name, of) in series {
            let points = of(looks);
            // A line that is alone of its server needs no name beside that.
            let name = if series.len() == 1 { String::new() } else { format!("{name} ") };
            if !points.is_empty() {
                lines.push((format!("{name}{}", words::safe(url)), points));
            }
        }
    }
    let most = lines.iter().flat_map(|(_, points)| points).map(|(_, y)| *y).fold(0.0, f64::max);
    if lines.is_empty() {
        return None;
    }
    let traces = lines.iter().enumerate().map(|(place, (name, points))| {
        let step = points.len().div_ceil(POINTS_MAX).max(1);
        let shown = points.iter().step_by(step);
        let (xs, ys) = shown.map(|(x, y)| (short(*x), short(*y))).unzip();
        let name = plain(name);
        let hover = format!("{name}: %{{y:.5g}} {unit} at %{{x:.2f}} s<extra></extra>");
        traced(&line(&name, place, xs, ys).hover_template(hover))
    });
    let rows = lines.iter().flat_map(|(name, points)| {
        let together = points.len().div_ceil((ROWS_MAX / lines.len()).max(1)).max(1);
        points.chunks(together).map(move |part| {
            let mean = part.iter().map(|(_, y)| *y).sum::<f64>() / part.len() as f64;
            let from = part.first().map_or(0.0, |(x, _)| *x);
            vec![name.clone(), format!("{from:.2} s"), number(Some(mean))]
        })
    });
    Some(Figure {
        id,
        title: title.to_owned(),
        finding: format!("At most {} {unit} at a look.", number(Some(most))),
        height: 260,
        traces: traces.collect(),
        layout: json!({
            "xaxis": { "title": { "text": "s from the start" } }, "yaxis": axis(unit, false),
        }),
        data: (vec!["series", "from", "mean"], rows.collect()),
    })
}

/// The figures of all servers.
fn table(summary: &Summary) -> Markup {
    let head = [
        "server",
        "figure",
        "samples",
        "client mean",
        "server mean",
        "between",
        "p50",
        "p95",
        "p99",
    ];
    let rows: Vec<Vec<String>> = summary.servers.iter().flat_map(times).collect();
    html! {
        @if !rows.is_empty() {
            (words::table(
                "Times by the servers' own clocks. Their percentiles are estimates from buckets, with the \
                 bounds of the bucket.",
                &head,
                &rows,
            ))
        }
        @let shares: Vec<Vec<String>> = summary.servers.iter().filter_map(cache).collect();
        @if !shares.is_empty() {
            (words::table("Prefix caches", &["server", "looked up", "found", "share"], &shares))
        }
    }
}

fn times(server: &ServerSeen) -> Vec<Vec<String>> {
    let ns = |value: Option<f64>| time(value.map(|ns| ns.round().max(0.0) as u64));
    let row = |(name, latency): (&String, &LatencyReport)| {
        let beside = server.beside.get(name);
        let between = beside.and_then(|beside| beside.difference_ns);
        let sign = if between.is_some_and(|ns| ns < 0.0) { "−" } else { "" };
        vec![
            words::safe(&server.url),
            name.clone(),
            latency.count.map_or_else(|| ABSENT.to_owned(), count),
            ns(beside.and_then(|beside| beside.client_mean_ns)),
            ns(latency.mean_ns),
            format!("{sign}{}", ns(between.map(f64::abs))),
            estimate(latency.p50.as_ref()),
            estimate(latency.p95.as_ref()),
            estimate(latency.p99.as_ref()),
        ]
    };
    server.latency.iter().map(row).collect()
}

fn estimate(estimate: Option<&Estimate>) -> String {
    let Some(estimate) = estimate else { return ABSENT.to_owned() };
    match (estimate.value_ns, estimate.to_ns) {
        (Some(value), Some(to)) => format!(
            "{} ({} to {})",
            time(Some(value)),
            time(Some(estimate.from_ns)),
            time(Some(to))
        ),
        _ => estimate.why.as_deref().map_or_else(|| ABSENT.to_owned(), words::safe),
    }
}

fn cache(server: &ServerSeen) -> Option<Vec<String>> {
    let prefix = server.prefix?;
    let known = |value: Option<u64>| value.map_or_else(|| ABSENT.to_owned(), count);
    Some(vec![
        words::safe(&server.url),
        known(prefix.queries),
        known(prefix.hits),
        percent(prefix.share),
    ])
}
