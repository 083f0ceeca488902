//! The page of a sweep.

use maud::{Markup, html};
use serde_json::Value;
use tokclock_engine::measure::curve::{About, Curve, Figures, Level};
use tokclock_engine::measure::{Health, Held};

use super::super::curve::{headline, levels, verdicts, words as loads, write_remarks};
use super::super::front;
use super::super::text::{Page, Tone, count, plural};
use super::run::{again, card, health, tile};
use super::sheet::Sheet;
use super::words::{self, ABSENT, number, percent, time};
use super::{facts, frontier, sweep_charts};
use crate::results::Kept;

/// Writes it.
pub(super) fn write(sheet: &mut Sheet, kept: &Kept, curve: &Curve, name: &str) -> Markup {
    let frontiers = frontier::frontiers(sheet, curve);
    let by_load = sweep_charts::by_load(sheet, curve);
    let table = Page::heard(|page| levels::write(page, curve));
    let notes = Page::heard(|page| write_remarks(page, curve));
    html! {
        (first(sheet, curve, name))
        (sheet.section("frontier", "Throughput against latency", &frontiers))
        (sheet.section("load", "By load", &by_load))
        (sheet.section("levels", "Levels", &html! { (words::told(&table)) (latencies(curve)) }))
        (sheet.section("objectives", "Objectives at each level", &objectives(curve)))
        (sheet.section("repetitions", "Repetitions", &repetitions(curve)))
        (sheet.section("notes", "Notes", &words::told(&notes)))
        (sheet.section("setup", "What was run, where", &setup(sheet, curve.about.as_ref())))
        (sheet.section("again", "Reproduce it", &again("sweep", kept.run_toml.as_deref())))
    }
}

fn first(sheet: &Sheet, curve: &Curve, name: &str) -> Markup {
    let said = Page::heard(|page| {
        if let Some(about) = &curve.about {
            front::about(page, about);
        }
        verdicts::write(page, curve);
    });
    let point = curve.envelope.as_ref().and_then(|envelope| envelope.operating_point.as_ref());
    html! {
        header.top {
            (sheet.title(name))
            p.lead { (headline(curve)) }
        }
        div.cards { (objective_card(curve)) (failure_card(&curve.by_load())) (client_card(&curve.by_load())) }
        @match point {
            Some(point) => {
                (tiles(&format!("at {}", loads::load(curve.variable, point.value)), &point.figures))
            }
            None => {
                @if let Some(best) = fastest(curve) {
                    (tiles(&format!("at {}", loads::load(curve.variable, best.value)), &best.figures))
                }
            }
        }
        (words::told(&said))
    }
}

/// The level with the most throughput: what stands on the first screen where nothing was asked for.
fn fastest(curve: &Curve) -> Option<&Level> {
    let served = curve.levels.iter().filter(|level| level.figures.rps.is_some());
    served.max_by(|a, b| a.figures.rps.unwrap_or(0.0).total_cmp(&b.figures.rps.unwrap_or(0.0)))
}

fn objective_card(curve: &Curve) -> Markup {
    let Some(envelope) = &curve.envelope else {
        return card("Objectives", ("none asked", None), "Give --slo to see where they hold.");
    };
    let asked = loads::texts(&envelope.objectives);
    match &envelope.operating_point {
        Some(point) => {
            let at = loads::load(curve.variable, point.value);
            card(
                "Operate at",
                (&at, Some(Tone::Good)),
                &format!("the highest load that held {asked}"),
            )
        }
        None => {
            card("Objectives", ("not held", Some(Tone::Bad)), &format!("at any level: {asked}"))
        }
    }
}

fn failure_card(levels: &[&Level]) -> Markup {
    let with =
        levels.iter().filter(|level| level.figures.error_rate.is_some_and(|share| share > 0.0));
    let with: Vec<&&Level> = with.collect();
    let all = levels.len() as u64;
    if with.is_empty() {
        let tone = if levels.is_empty() { Tone::Doubtful } else { Tone::Good };
        let of = format!("0 at {} {}", count(all), plural(all, "level", "levels"));
        return card("Failed requests", (&of, Some(tone)), "");
    }
    let worst = with.iter().filter_map(|level| level.figures.error_rate).fold(0.0, f64::max);
    let at = format!("at {} of {} levels", with.len(), count(all));
    let more = format!("up to {} of a level's requests", percent(Some(worst)));
    card("Failed requests", (&at, Some(Tone::Bad)), &more)
}

fn client_card(levels: &[&Level]) -> Markup {
    let worst = levels.iter().map(|level| level.client).max().unwrap_or(Health::Valid);
    let word = health(worst);
    let not_valid = levels.iter().filter(|level| level.client != Health::Valid).count();
    let more = match not_valid {
        0 => "at every level: the figures are the server's".to_owned(),
        some => format!("not valid at {some} of {} levels: see below", levels.len()),
    };
    card("Client", (word.0, Some(word.1)), &more)
}

/// The figures of a point of a curve.
pub(super) fn tiles(at: &str, of: &Figures) -> Markup {
    html! {
        div.tiles {
            (tile("TTFT p50", &time(of.ttft_p50), at))
            (tile("TTFT p95", &time(of.ttft_p95), at))
            (tile("ITL p95", &time(of.itl_p95), at))
            (tile("E2E p95", &time(of.e2e_p95), at))
            (tile("Requests/s", &number(of.rps), at))
            (tile("Output tokens/s", &number(of.output_tps), at))
            @if of.per_user_tps.is_some() {
                (tile("Tokens/s per user", &number(of.per_user_tps), at))
            }
        }
    }
}

/// The judged latencies of every level with their intervals.
fn latencies(curve: &Curve) -> Markup {
    let head =
        ["load", "TTFT p50", "TTFT p95", "TTFT p99", "ITL p50", "ITL p95", "ITL p99", "E2E p95"];
    let rows = curve.by_load().into_iter().map(|level| {
        let (of, ci) = (&level.figures, &level.figures.ci95);
        let cell = |value: Option<u64>, interval| match words::interval(interval) {
            Some(interval) if value.is_some() => format!("{} ({interval})", time(value)),
            _ => time(value),
        };
        vec![
            loads::load(curve.variable, level.value),
            cell(of.ttft_p50, ci.ttft_p50),
            cell(of.ttft_p95, ci.ttft_p95),
            cell(of.ttft_p99, ci.ttft_p99),
            cell(of.itl_p50, ci.itl_p50),
            cell(of.itl_p95, ci.itl_p95),
            cell(of.itl_p99, ci.itl_p99),
            cell(of.e2e_p95, ci.e2e_p95),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    html! {
        details {
            summary { "Percentiles with their 95 % intervals" }
            (words::table("", &head, &rows))
        }
    }
}

fn objectives(curve: &Curve) -> Markup {
    let rows: Vec<Vec<String>> = curve
        .by_load()
        .into_iter()
        .flat_map(|level| level.repetitions.iter().map(move |one| (level.value, one)))
        .flat_map(|(value, one)| one.objectives.iter().map(move |objective| (value, objective)))
        .map(|(value, objective)| {
            let figure = match (objective.value_ns, objective.value_share, objective.at_least_ns) {
                (Some(ns), ..) => time(Some(ns.round() as u64)),
                (None, Some(share), _) => percent(Some(share)),
                (None, None, Some(bound)) => format!("at least {}", time(Some(bound))),
                _ => ABSENT.to_owned(),
            };
            vec![
                loads::load(curve.variable, value),
                words::safe(&objective.text),
                front::held(objective.verdict).0.to_owned(),
                figure,
                percent(objective.margin),
            ]
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            (words::table("", &["load", "objective", "verdict", "figure", "margin"], &rows))
        }
    }
}

fn repetitions(curve: &Curve) -> Markup {
    if curve.levels.iter().all(|level| level.repetitions.len() < 2) {
        return html! {};
    }
    let head =
        ["load", "run", "objectives", "client", "requests/s", "tokens/s", "TTFT p95", "ITL p95"];
    let rows: Vec<Vec<String>> = curve
        .by_load()
        .into_iter()
        .flat_map(|level| level.repetitions.iter().map(move |one| (level.value, one)))
        .map(|(value, one)| {
            let held = |slo: Held| front::held(slo).0;
            vec![
                loads::load(curve.variable, value),
                words::safe(&one.dir),
                one.slo.map_or(ABSENT, held).to_owned(),
                health(one.client).0.to_owned(),
                number(one.figures.rps),
                number(one.figures.output_tps),
                time(one.figures.ttft_p95),
                time(one.figures.itl_p95),
            ]
        })
        .collect();
    words::table("", &head, &rows)
}

/// What the whole was about.
pub(super) fn setup(sheet: &Sheet, about: Option<&About>) -> Markup {
    let whole = serde_json::to_value(about).unwrap_or(Value::Null);
    html! {
        div.columns {
            @for (title, key) in [("Labels", "labels"), ("Target", "target"), ("Workload", "workload"), ("Host", "host")] {
                @let table = facts::table(&whole[key]);
                @if !table.0.is_empty() { div { (sheet.part(title)) (table) } }
            }
        }
    }
}
