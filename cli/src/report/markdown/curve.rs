//! A sweep in Markdown: what it says, and its levels.

use tokclock_engine::measure::curve::{Curve, Level};

use super::super::curve::words::{LOST, LOST_MEANS, bare, head, rate};
use super::super::curve::{in_words, write_remarks};
use super::super::front::held;
use super::super::text::{NONE, Page, duration, percent};
use super::text::{list, plain, table};
use super::{heading, health};

/// Writes it.
pub(super) fn write(out: &mut String, curve: &Curve, dir: Option<&str>) {
    heading(out, "sweep", curve.about.as_ref().map(|about| &*about.name), dir);
    let mut page = Page::endless();
    in_words(&mut page, curve);
    list(out, &page.sentences());
    if !curve.levels.is_empty() {
        levels(out, curve);
    }
    let mut page = Page::endless();
    write_remarks(&mut page, curve);
    list(out, &page.sentences());
}

fn levels(out: &mut String, curve: &Curve) {
    let load = head(curve.variable).replace('\n', " ");
    let columns = [
        &*load,
        "req/s",
        "tokens/s",
        "goodput",
        "TTFT p50",
        "TTFT p95",
        "ITL p95",
        "E2E p95",
        "errors",
        "objectives",
        "client",
        "remarks",
    ];
    let levels = curve.by_load();
    let rows: Vec<_> = levels.iter().map(|level| row(curve, level)).collect();
    table(out, &columns, &rows);
    if rows.iter().flatten().any(|cell| *cell == plain(LOST)) {
        out.push_str(&format!("\n{}\n", plain(LOST_MEANS)));
    }
}

fn row(curve: &Curve, level: &Level) -> Vec<String> {
    let figures = &level.figures;
    // Without a request there is no percentile to be lost.
    let judged = |value: Option<u64>| match value {
        None if figures.requests == Some(0) || figures.served_ttft_p50.is_none() => NONE.into(),
        None => plain(LOST),
        some => duration(some),
    };
    let slo = level.slo.map_or(NONE, |slo| held(slo).0);
    vec![
        bare(level.value),
        rate(figures.rps),
        rate(figures.output_tps),
        rate(figures.goodput_rps),
        judged(figures.ttft_p50),
        judged(figures.ttft_p95),
        judged(figures.itl_p95),
        judged(figures.e2e_p95),
        percent(figures.error_rate),
        slo.to_owned(),
        health(level.client).to_owned(),
        remarks(curve, level),
    ]
}

/// What a level stands for.
fn remarks(curve: &Curve, level: &Level) -> String {
    let point = curve.envelope.as_ref().and_then(|envelope| envelope.operating_point.as_ref());
    let is = |value: Option<f64>| value == Some(level.value);
    let all = [
        (is(point.map(|point| point.value)), "operating point"),
        (is(curve.knee.best()), "knee"),
        (level.saturated == Some(true), "saturated"),
        (level.rising == Some(true), "falling behind"),
        (level.steady == Some(false), "not steady"),
    ];
    let said: Vec<&str> = all.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
    said.join(", ")
}
