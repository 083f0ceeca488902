//! All latencies of a run as a table, with their intervals, the judged figures beside those of the
//! successful; and their distributions.

use maud::{Markup, html};
use tokclock_engine::measure::{Distribution, Interval, JudgedDistribution, Summary};

use super::super::text::{Unit, count};
use super::charts::distributions;
use super::seen::Seen;
use super::sheet::Sheet;
use super::words::ABSENT;

/// The section's content.
pub(super) fn write(sheet: &mut Sheet, summary: &Summary, seen: &Seen) -> Markup {
    let views = seen.views.as_ref();
    let pools = &seen.pools;
    let requests = distributions(
        "latency-cdf",
        "How long requests took",
        &[
            ("TTFT", views.and_then(|views| views.ttft.as_ref())),
            ("E2E", views.and_then(|views| views.e2e.as_ref())),
        ],
    );
    // Where each event carries one token, ICL is ITL again.
    let icl = pools.icl.as_ref().filter(|icl| Some(*icl) != pools.itl.as_ref());
    let tokens = distributions(
        "gap-cdf",
        "Time between tokens",
        &[
            ("ITL", pools.itl.as_ref()),
            ("TPOT", views.and_then(|views| views.tpot.as_ref())),
            ("ICL", icl),
        ],
    );
    let (requests, tokens) = (sheet.figure(requests), sheet.figure(tokens));
    html! {
        @if summary.requests.ok == 0 {
            p { "Nothing completed, so there is no latency to show." }
        } @else {
            (table(summary))
        }
        div.grid { (requests) (tokens) }
        @if summary.requests.ok > 0 {
            details {
                summary { "Phases of the successful requests, and latencies counted from the first write" }
                (plain_table(&phases(summary)))
                (plain_table(&service(summary)))
            }
        }
    }
}

type Line<'a> = (&'static str, &'a Distribution, Option<&'a JudgedDistribution>);

fn lines(summary: &Summary) -> Vec<Line<'_>> {
    let (of, judged) = (&summary.latency, &summary.judged);
    let all = [
        ("TTFB", &of.ttfb, Some(&judged.ttfb)),
        ("TTFT", &of.ttft, Some(&judged.ttft)),
        ("TTFO", &of.ttfo, Some(&judged.ttfo)),
        ("TTST", &of.ttst, Some(&judged.ttst)),
        ("ICL", &of.icl, Some(&judged.icl)),
        ("ITL", &of.itl, Some(&judged.itl)),
        ("TPOT", &of.tpot, Some(&judged.tpot)),
        ("NTPOT", &of.ntpot, Some(&judged.ntpot)),
        ("E2E", &of.e2e, Some(&judged.e2e)),
        ("stream tail", &of.stream_tail, None),
    ];
    // Without reasoning, TTFO is TTFT again.
    all.into_iter().filter(|(name, ..)| *name != "TTFO" || of.ttfo != of.ttft).collect()
}

fn phases(summary: &Summary) -> Vec<(&'static str, &Distribution)> {
    let of = &summary.latency.phases;
    let all = [
        ("connect", &of.connect),
        ("TLS", &of.tls),
        ("write", &of.write),
        ("server wait", &of.server_wait),
        ("prefill wait", &of.prefill_wait),
        ("decode", &of.decode),
        ("tail", &of.tail),
    ];
    all.into_iter().filter(|(_, one)| one.count > 0).collect()
}

fn service(summary: &Summary) -> Vec<(&'static str, &Distribution)> {
    let of = &summary.latency.service;
    vec![
        ("TTFB from write", &of.ttfb),
        ("TTFT from write", &of.ttft),
        ("NTPOT from write", &of.ntpot),
        ("E2E from write", &of.e2e),
    ]
}

/// The value that chooses the unit of a line.
fn unit_of(distribution: &Distribution) -> Unit {
    let middle = distribution.percentiles.p50.filter(|&ns| ns > 0);
    Unit::of(middle.or(distribution.max).unwrap_or(0) as f64)
}

fn shown(unit: Unit, ns: Option<f64>) -> String {
    ns.map_or_else(|| ABSENT.to_owned(), |ns| unit.show(ns))
}

/// A percentile with its interval below it.
fn cell(unit: Unit, value: Option<u64>, [low, high]: Interval) -> Markup {
    let end = |ns: Option<u64>| ns.map_or_else(|| "?".to_owned(), |ns| unit.show(ns as f64));
    html! {
        td {
            (shown(unit, value.map(|ns| ns as f64)))
            @if value.is_some() { small { (end(low)) " – " (end(high)) } }
        }
    }
}

/// A judged percentile; one among bad requests says what it is at least.
fn judged_cell(unit: Unit, value: Option<u64>, at_least: Option<u64>, ci: Interval) -> Markup {
    match (value, at_least) {
        (None, Some(bound)) => html! { td { "≥ " (unit.show(bound as f64)) } },
        (value, _) => cell(unit, value, ci),
    }
}

fn table(summary: &Summary) -> Markup {
    let lines = lines(summary);
    html! {
        div.scroll tabindex="0" role="group" aria-label="Latencies" {
            table {
                caption {
                    "Latencies of the successful requests, 95 % intervals below the figures (? where the \
                     sample is too small for that end). Judged: failed, dropped and cut requests count as \
                     longer than anything."
                }
                thead { tr {
                    @for title in ["metric", "unit", "count", "mean", "p50", "p90", "p95", "p99", "p99.9",
                        "max", "judged p50", "judged p95", "judged p99"] {
                        th scope="col" { (title) }
                    }
                } }
                tbody { @for line in &lines { (row(line)) } }
            }
        }
    }
}

fn row((name, of, judged): &Line<'_>) -> Markup {
    let unit = unit_of(of);
    let (p, ci) = (&of.percentiles, &of.ci95);
    html! {
        tr {
            th scope="row" { (name) }
            td { (unit.name) }
            td { (count(of.count)) }
            td { (shown(unit, of.mean)) }
            (cell(unit, p.p50, ci.p50))
            (cell(unit, p.p90, ci.p90))
            (cell(unit, p.p95, ci.p95))
            (cell(unit, p.p99, ci.p99))
            (cell(unit, p.p99_9, ci.p99_9))
            td { (shown(unit, of.max.map(|ns| ns as f64))) }
            @match judged {
                Some(judged) => {
                    @let (p, least, ci) = (&judged.percentiles, &judged.at_least, &judged.ci95);
                    (judged_cell(unit, p.p50, least.p50, ci.p50))
                    (judged_cell(unit, p.p95, least.p95, ci.p95))
                    (judged_cell(unit, p.p99, least.p99, ci.p99))
                }
                None => { td { (ABSENT) } td { (ABSENT) } td { (ABSENT) } }
            }
        }
    }
}

pub(super) fn plain_table(lines: &[(&'static str, &Distribution)]) -> Markup {
    let head = ["part", "unit", "count", "mean", "p50", "p90", "p95", "p99", "max"];
    let row = |(name, of): &(&'static str, &Distribution)| {
        let unit = unit_of(of);
        let p = &of.percentiles;
        let value = |ns: Option<u64>| shown(unit, ns.map(|ns| ns as f64));
        vec![
            (*name).to_owned(),
            unit.name.to_owned(),
            count(of.count),
            shown(unit, of.mean),
            value(p.p50),
            value(p.p90),
            value(p.p95),
            value(p.p99),
            value(of.max),
        ]
    };
    super::words::table("", &head, &lines.iter().map(row).collect::<Vec<_>>())
}
