//! Requests looked at closely, for a terminal: single ones on a time axis, all of them by phase, gaps.

mod bars;
#[cfg(test)]
mod tests;

use tokclock_engine::measure::trace::{Outlier, Phase, PhaseFigures, Traced, Traces};
use tokclock_engine::measure::{Distribution, Summary};
use tokclock_engine::record::{KvFallback, Legs, Outcome};

use super::text::{Page, Tone, count, duration, escape, number, percent, plural};
use super::{front, gpus, grid, legs, page, server_times, servers};

/// Columns of this page, at most.
const WIDTH_MAX: usize = 80;
/// Letters of an error's text, at most.
const TEXT_MAX: usize = 200;
/// A second token that takes so many times a later gap is worth a word.
const SECOND_TOKEN_STANDS_OUT: f64 = 2.0;

/// The page of a trace in at most `width` columns (and at most 80), each line ended by `\n`.
pub(crate) fn trace_page(summary: &Summary, traces: &Traces, width: usize, colour: bool) -> String {
    let mut page = page(width.min(WIDTH_MAX), colour);
    front::write(&mut page, summary);
    singles(&mut page, traces, summary.requests.offered);
    phases(&mut page, traces);
    gaps(&mut page, traces);
    outliers(&mut page, &traces.gaps.outliers);
    legs::write(&mut page, summary);
    server_times::write(&mut page, summary);
    servers::write(&mut page, summary);
    gpus::write(&mut page, summary);
    page.finish()
}

fn singles(page: &mut Page, traces: &Traces, offered: u64) {
    page.blank();
    let (slowest, failed) = (traces.slowest.len() as u64, traces.failed.len() as u64);
    if slowest + failed == 0 {
        page.words("requests", "none is drawn");
        return;
    }
    let bad = match failed {
        0 => String::new(),
        failed => format!(", and {} that did not end well", count(failed)),
    };
    page.words(
        "slowest",
        &format!(
            "{} of {} {}{bad}, each from its origin; in decode . is a gap of more than twice its median",
            count(slowest),
            count(offered.max(slowest)),
            plural(offered, "request", "requests")
        ),
    );
    for traced in traces.slowest.iter().chain(&traces.failed) {
        page.blank();
        heading(page, traced);
        bars::write(page, traced);
    }
}

/// What is said of a request above its bars.
fn heading(page: &mut Page, traced: &Traced) {
    let row = &traced.row;
    let times = [
        ("E2E", traced.e2e_ns),
        ("TTFT", traced.ttft_ns),
        (
            "TTST",
            row.second_token.zip(row.first_token).and_then(|(at, first)| at.checked_sub(first)),
        ),
        ("client lag", Some(row.lag_max)),
    ];
    let known = times.iter().filter(|(_, ns)| ns.is_some());
    let known: Vec<String> = known.map(|(name, ns)| format!("{name} {}", duration(*ns))).collect();
    page.words(&format!("#{}", row.index), &known.join(", "));
    let reused = if row.reused { "reused" } else { "new" };
    let connection = format!("connection {} ({reused})", row.connection);
    let (input, output) =
        (tokens(row.input_tokens.or(row.client_input_tokens)), tokens(row.output_tokens));
    page.words("", &format!("{input} tokens in, {output} out, {connection}"));
    if let Some(trace) = &row.trace_id {
        page.words("", &format!("trace {}", escape(trace)));
    }
    if row.outcome != Outcome::Ok {
        let class = row.error.and_then(|class| serde_json::to_value(class).ok());
        let class = class.as_ref().and_then(serde_json::Value::as_str).unwrap_or("failed");
        let text: String =
            row.error_text.iter().flat_map(|text| text.chars()).take(TEXT_MAX).collect();
        page.verdict("", (class, Tone::Bad), &escape(&text));
    }
    if let Some(legs) = &row.legs {
        servers(page, legs);
    }
    if let Some(why) = row.kv_fallback {
        let why = match why {
            KvFallback::NoParams => "the prefill server's answer brought no hand-off object",
            KvFallback::NotCached => "less than half of the prompt came from a cache",
        };
        let text = format!("{why}: the decode server computed the prompt again");
        page.verdict("", ("KV fallback:", Tone::Bad), &text);
    }
}

/// The servers of the legs, and what was handed from one to the other.
fn servers(page: &mut Page, legs: &Legs) {
    let named = [("prefill", &legs.prefill), ("decode", &legs.decode)];
    let named = named.into_iter().filter_map(|(name, leg)| Some((name, leg.as_ref()?)));
    let mut parts: Vec<String> =
        named.map(|(name, leg)| format!("{name} {}", escape(&leg.url))).collect();
    if let Some(bytes) = legs.handoff_bytes {
        parts.push(format!("hand-off object of {} bytes", count(bytes)));
    }
    let again =
        legs.baseline.as_ref().and_then(|leg| leg.first_token?.checked_sub(leg.write_start?));
    if let Some(ns) = again {
        parts.push(format!("first token of the same prompt again {}", duration(Some(ns))));
    }
    if !parts.is_empty() {
        page.words("", &parts.join(", "));
    }
}

fn tokens(number: Option<u64>) -> String {
    number.map_or_else(|| "?".to_owned(), count)
}

/// All successful requests by phase.
fn phases(page: &mut Page, traces: &Traces) {
    if traces.phases.is_empty() {
        page.blank();
        page.words("phases", "nothing completed, so there is no phase to show");
        return;
    }
    let cells = |name: &str, share: Option<f64>, spent: &Distribution| {
        let [p50, p95, max] = three(spent, spent.percentiles.p95);
        vec![name.to_owned(), percent(share), p50, p95, max, count(spent.count)]
    };
    let row = |one: &PhaseFigures| cells(one.phase.name(), one.share, &one.spent);
    let whole = cells("E2E", traces.e2e.max.map(|_| 1.0), &traces.e2e);
    let rows = traces.phases.iter().map(row).chain([whole]);
    grid::write(page, &["phase", "of all E2E", "p50", "p95", "max", "requests"], rows);
    let is_after = |one: &PhaseFigures| one.share.is_none() && one.phase == Phase::Tail;
    if traces.phases.iter().any(is_after) {
        page.words("", "the tail comes after the last token, where E2E ends");
    }
    if traces.phases.iter().any(|one| one.share.is_none() && one.phase == Phase::PrefillLeg) {
        page.words("", "the prefill leg lies beside other phases: it has no part of E2E to itself");
    }
}

/// The second token beside the gaps after it.
fn gaps(page: &mut Page, traces: &Traces) {
    let gaps = &traces.gaps;
    if gaps.second.count == 0 {
        page.blank();
        page.words("gaps", "no successful request had two output events, so there is no gap");
        return;
    }
    let cells = |name: &str, gaps: &Distribution| {
        let [p50, p99, max] = three(gaps, gaps.percentiles.p99);
        vec![name.to_owned(), p50, p99, max, count(gaps.count)]
    };
    let rows = [cells("1 -> 2 (TTST)", &gaps.second), cells("from 2 on", &gaps.later)];
    grid::write(page, &["gap", "p50", "p99", "max", "gaps"], rows.into_iter());
    let medians = gaps.second.percentiles.p50.zip(gaps.later.percentiles.p50);
    let times = medians.map(|(second, later)| second as f64 / later as f64);
    if let Some(times) =
        times.filter(|times| times.is_finite() && *times >= SECOND_TOKEN_STANDS_OUT)
    {
        page.words(
            "",
            &format!(
                "the second token takes {} times as long as those after it: where a prompt's cache is \
                 handed over after the first, the hand-over lies here",
                number(Some(times))
            ),
        );
    }
}

/// Median, an upper percentile and the largest.
fn three(values: &Distribution, upper: Option<u64>) -> [String; 3] {
    [values.percentiles.p50, upper, values.max].map(duration)
}

/// The largest gaps and where they lie.
fn outliers(page: &mut Page, outliers: &[Outlier]) {
    if outliers.is_empty() {
        return;
    }
    let row = |one: &Outlier| {
        vec![
            duration(Some(one.gap_ns)),
            number(one.times_median),
            format!("#{}", one.index),
            format!("{} of {}", count(one.event.into()), count(one.events.into())),
            duration(Some(one.at_ns)),
            duration(Some(one.lag_max_ns)),
        ]
    };
    let head = ["largest", "x median", "request", "before event", "at", "client lag"];
    grid::write(page, &head, outliers.iter().map(row));
    page.words(
        "",
        "client lag is the largest of the whole request: a gap far above it is none of the client's \
         making",
    );
}
