//! The report of a run for a terminal: verdicts first, then tables.

mod baseline;
mod client;
mod comparison;
mod curve;
mod curve_csv;
mod document;
mod front;
mod gpus;
mod grid;
mod hosts;
pub(crate) mod html;
mod junit;
mod legs;
mod markdown;
mod parts;
mod perfetto;
mod plot;
mod requests_csv;
mod search;
mod server_times;
mod servers;
mod summary_csv;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod trace;

use tokclock_engine::measure::{Added, Distribution, Latency, Rate, Summary, Tokens};

pub(crate) use baseline::{baseline_console, baseline_page};
pub(crate) use comparison::comparison_page;
pub use curve::curve_page;
pub use curve_csv::curve_csv;
pub(crate) use document::Document;
pub(crate) use front::{asked, asked_content};
pub(crate) use junit::junit;
pub(crate) use markdown::markdown;
#[cfg(test)]
use markdown::of_run as markdown_of;
pub(crate) use perfetto::perfetto;
pub(crate) use requests_csv::requests_csv;
pub use search::search_page;
pub(crate) use summary_csv::summary_csv;
use table::Line;
use text::{Page, count, number, percent};
pub(crate) use trace::trace_page;

/// Columns of a report, at most; `width` can make it narrower.
const WIDTH_MAX: usize = 100;
/// Columns below which lines would no longer read.
const WIDTH_MIN: usize = 40;
/// Relative difference from which a service figure is shown beside the other.
const SERVICE_DIFFERENCE: f64 = 0.01;

/// The report of `summary` in at most `width` columns (and at most 100), each line ended by `\n`.
///
/// `colour` allows ANSI colours; the caller knows the terminal and NO_COLOR. Control characters of
/// texts that came from a server are escaped.
#[must_use]
pub fn console(summary: &Summary, width: usize, colour: bool) -> String {
    let mut page = page(width, colour);
    front::write(&mut page, summary);
    if summary.requests.ok == 0 {
        page.blank();
        page.words("latency", "nothing completed, so there is no latency to show");
    } else {
        page.blank();
        let mut lines = latencies(&summary.latency);
        lines.extend(service(&summary.latency));
        table::write(&mut page, "latency", &lines);
        page.blank();
        table::write(&mut page, "phase", &phases(&summary.latency));
    }
    legs::write(&mut page, summary);
    server_times::write(&mut page, summary);
    parts::write(&mut page, summary);
    page.blank();
    rates(&mut page, &summary.rate);
    tokens(&mut page, &summary.tokens);
    parts::cache(&mut page, summary);
    gpus::write(&mut page, summary);
    servers::write(&mut page, summary);
    hosts::write(&mut page, summary);
    page.blank();
    client::write(&mut page, &summary.client);
    page.finish()
}

/// An empty page of at most `width` columns, within what reads well.
pub(crate) fn page(width: usize, colour: bool) -> Page {
    Page::new(width.clamp(WIDTH_MIN, WIDTH_MAX), colour)
}

fn latencies(latency: &Latency) -> Vec<Line<'_>> {
    let all = [
        ("TTFB", &latency.ttfb),
        ("TTFT", &latency.ttft),
        ("TTFO", &latency.ttfo),
        ("TTST", &latency.ttst),
        ("ICL", &latency.icl),
        ("ITL", &latency.itl),
        ("TPOT", &latency.tpot),
        ("NTPOT", &latency.ntpot),
        ("E2E", &latency.e2e),
    ];
    // Without reasoning, TTFO is TTFT again.
    all.into_iter()
        .filter(|&(name, _)| name != "TTFO" || latency.ttfo != latency.ttft)
        .map(|(name, distribution)| Line { name: name.into(), distribution })
        .collect()
}

/// The service variants that differ from the figures that count from the origin.
fn service(latency: &Latency) -> Vec<Line<'_>> {
    let service = &latency.service;
    let pairs = [
        ("TTFB", &latency.ttfb, &service.ttfb),
        ("TTFT", &latency.ttft, &service.ttft),
        ("E2E", &latency.e2e, &service.e2e),
    ];
    pairs
        .into_iter()
        .filter(|(_, whole, service)| differ(whole, service))
        .map(|(name, _, distribution)| Line { name: format!("{name} service"), distribution })
        .collect()
}

fn differ(whole: &Distribution, service: &Distribution) -> bool {
    let pairs = [
        (whole.percentiles.p50, service.percentiles.p50),
        (whole.percentiles.p99, service.percentiles.p99),
    ];
    pairs.into_iter().any(|pair| match pair {
        (Some(a), Some(b)) => a.abs_diff(b) as f64 > a as f64 * SERVICE_DIFFERENCE,
        (a, b) => a != b,
    })
}

fn phases(latency: &Latency) -> Vec<Line<'_>> {
    let phases = &latency.phases;
    let all = [
        ("connect", &phases.connect),
        ("TLS", &phases.tls),
        ("write", &phases.write),
        ("server wait", &phases.server_wait),
        ("prefill wait", &phases.prefill_wait),
        ("decode", &phases.decode),
        ("tail", &phases.tail),
    ];
    all.into_iter()
        .filter(|(_, distribution)| distribution.count > 0)
        .map(|(name, distribution)| Line { name: name.into(), distribution })
        .collect()
}

fn rates(page: &mut Page, rate: &Rate) {
    let mut parts = vec![format!("{} requests/s", number(rate.rps))];
    if let Some(offered) = rate.offered_rps {
        let achieved = percent(rate.achieved_share);
        parts.push(format!("offered {} requests/s ({achieved} achieved)", number(Some(offered))));
    }
    parts.push(format!("{} output tokens/s", number(rate.output_tps)));
    parts.push(format!("{} input tokens/s", number(rate.input_tps)));
    if let Some(drain) = rate.drain_rps {
        parts.push(format!("{} requests/s from first to last completion", number(Some(drain))));
    }
    let user = &rate.per_user_tps;
    if user.p50.is_some() {
        parts.push(format!(
            "per user {} tokens/s at the median TPOT, {} at its p95",
            number(user.p50),
            number(user.p95)
        ));
    }
    page.words("rates", &parts.join(", "));
}

fn tokens(page: &mut Page, tokens: &Tokens) {
    let source = tokens.source.as_deref().map_or_else(String::new, |by| format!(" (by {by})"));
    let mut parts =
        vec![format!("{} input, {} output{source}", count(tokens.input), count(tokens.output))];
    if let Some(reasoning) = tokens.reasoning {
        parts.push(format!("{} of them reasoning", count(reasoning)));
    }
    if let (Some(client), Some(server)) = (tokens.client_count, tokens.server_count) {
        let difference = tokens.relative_difference.map_or_else(String::new, |share| {
            format!(" ({}{})", if share < 0.0 { "" } else { "+" }, percent(Some(share)))
        });
        parts.push(format!(
            "our own count {} against the server's {}{difference}",
            count(client),
            count(server)
        ));
    }
    if let (Some(client), Some(server)) = (tokens.input_client_count, tokens.input_server_count)
        && client != server
    {
        let added = tokens.input_added.map_or_else(String::new, |added| match added {
            Added { min, max, .. } if min == max => format!(": its template adds {min} to each"),
            Added { min, p50, max } => {
                format!(": it counts {min} to {max} more of each, {p50} at the median")
            }
        });
        parts.push(format!(
            "of the input {} said by us, {} counted by the server{added}",
            count(client),
            count(server)
        ));
    }
    parts.extend(tokens.note.clone());
    page.words("tokens", &parts.join(", "));
}
