//! What several results on one page have in common: an overview, one frontier over all sweeps.

use maud::{Markup, html};
use tokclock_engine::measure::Summary;
use tokclock_engine::measure::curve::{Curve, ParetoPoint, Point, pareto};
use tokclock_engine::run::search::SearchReport;

use super::super::curve::words as loads;
use super::super::front;
use super::sheet::Sheet;
use super::words::{self, ABSENT, number, percent, time};
use super::{frontier, kind, name, run};
use crate::results::{Kept, What};

/// Writes the overview, and each result by `each`.
pub(super) fn write(
    sheet: &mut Sheet,
    all: &[Kept],
    each: impl Fn(&mut Sheet, &Kept) -> Markup,
) -> Markup {
    let rows: Vec<Vec<String>> = all.iter().enumerate().map(|(at, kept)| row(at, kept)).collect();
    let head = [
        "result",
        "kind",
        "load",
        "objectives",
        "client",
        "failed",
        "TTFT p50",
        "TTFT p95",
        "ITL p95",
        "requests/s",
        "output tokens/s",
    ];
    let points = points(all);
    let figure = frontier::frontier("all-frontier", "Output tokens/s against TTFT", &points);
    let frontier = figure.map(|figure| sheet.figure(figure)).unwrap_or_default();
    let frontier = sheet.section("frontier", "One frontier over all sweeps", &frontier);
    let results: Vec<Markup> = all
        .iter()
        .enumerate()
        .map(|(at, kept)| {
            let id = sheet.begin(at + 1, &numbered(at, kept));
            let body = each(sheet, kept);
            html! { article #(id) { (body) } }
        })
        .collect();
    html! {
        header.top {
            h1 { (all.len()) " results" }
            p.lead { "Of a sweep or a search the figures are those of its operating point." }
        }
        (words::table("", &head, &rows))
        (frontier)
        @for one in &results { (one) }
    }
}

/// The name of a result among others: two may have the same, their directories have not.
fn numbered(at: usize, kept: &Kept) -> String {
    let folder = kept.path.file_name().map(|folder| words::safe(&folder.to_string_lossy()));
    let name = name(kept);
    match folder.filter(|folder| *folder != name) {
        Some(folder) => format!("{}. {name} ({folder})", at + 1),
        None => format!("{}. {name}", at + 1),
    }
}

fn row(at: usize, kept: &Kept) -> Vec<String> {
    let own = [numbered(at, kept), kind(kept).to_owned()];
    let rest = match &kept.what {
        What::Run(summary) => of_run(summary),
        What::Sweep(curve) => of_sweep(curve),
        What::Search(report) => of_search(report),
    };
    own.into_iter().chain(rest).collect()
}

fn of_run(summary: &Summary) -> Vec<String> {
    let (latency, rate) = (&summary.latency, &summary.rate);
    vec![
        front::load(&summary.workload.load, summary.sessions.is_some()),
        summary.slo.as_ref().map_or(ABSENT, |slo| front::held(slo.verdict).0).to_owned(),
        run::health(summary.client.verdict).0.to_owned(),
        percent(summary.requests.error_rate),
        time(latency.ttft.percentiles.p50),
        time(latency.ttft.percentiles.p95),
        time(latency.itl.percentiles.p95),
        number(rate.rps),
        number(rate.output_tps),
    ]
}

fn of_figures(
    load: String,
    objectives: &str,
    client: &str,
    figures: Option<&tokclock_engine::measure::curve::Figures>,
) -> Vec<String> {
    vec![
        load,
        objectives.to_owned(),
        client.to_owned(),
        percent(figures.and_then(|one| one.error_rate)),
        time(figures.and_then(|one| one.ttft_p50)),
        time(figures.and_then(|one| one.ttft_p95)),
        time(figures.and_then(|one| one.itl_p95)),
        number(figures.and_then(|one| one.rps)),
        number(figures.and_then(|one| one.output_tps)),
    ]
}

fn of_sweep(curve: &Curve) -> Vec<String> {
    let point = curve.envelope.as_ref().and_then(|envelope| envelope.operating_point.as_ref());
    let held = match (&curve.envelope, point) {
        (None, _) => ABSENT,
        (Some(_), Some(_)) => "held",
        (Some(_), None) => "not held",
    };
    let levels = curve.by_load();
    let load = match (point, levels.first(), levels.last()) {
        (Some(point), ..) => loads::load(curve.variable, point.value),
        (None, Some(first), Some(last)) => loads::range(curve.variable, first.value, last.value),
        _ => ABSENT.to_owned(),
    };
    let client = levels.iter().map(|level| level.client).max();
    let client = client.map_or(ABSENT, |health| run::health(health).0);
    of_figures(load, held, client, point.map(|point| &point.figures))
}

fn of_search(report: &SearchReport) -> Vec<String> {
    let low = report.boundary.low;
    let load = low.map_or_else(|| ABSENT.to_owned(), |low| loads::load(report.variable, low));
    let held = if low.is_some() { "held" } else { "not held" };
    let client = report.probes.iter().map(|probe| probe.client).max();
    let client = client.map_or(ABSENT, |health| run::health(health).0);
    of_figures(load, held, client, report.operating_point.as_ref())
}

/// The levels of all sweeps, held against each other.
fn points(all: &[Kept]) -> Vec<ParetoPoint> {
    let mut points = Vec::new();
    for (at, kept) in all.iter().enumerate() {
        let What::Sweep(curve) = &kept.what else { continue };
        let source = numbered(at, kept);
        points.extend(curve.pareto.iter().map(|point| Point {
            source: source.clone(),
            value: point.value,
            output_tps: point.output_tps,
            gpus: gpus(point),
            ttft_p50: point.ttft_p50,
            per_user_tps: point.per_user_tps,
        }));
    }
    pareto(&points)
}

/// How many GPUs there were is in the ratio of the two rates.
fn gpus(point: &ParetoPoint) -> Option<u32> {
    let ratio = point.output_tps? / point.output_tps_per_gpu?;
    ratio.is_finite().then(|| ratio.round() as u32)
}
