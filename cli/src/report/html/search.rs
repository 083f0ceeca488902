//! The page of a search.

use maud::{Markup, html};
use plotly::Scatter;
use plotly::common::{Marker, MarkerSymbol, Mode};
use serde_json::{Value, json};
use tokclock_engine::measure::curve::Curve;
use tokclock_engine::measure::{Decision, Health};
use tokclock_engine::run::search::{ProbeReport, SearchReport};

use super::super::curve::{words as loads, write_notes};
use super::super::front;
use super::super::search::{probes, write_words};
use super::super::text::{Page, Tone, Unit};
use super::charts::{axis, colour, in_unit, is_wide, placed, rule, short, traced};
use super::run::{again, card, health};
use super::sheet::{Figure, Sheet};
use super::sweep::{setup, tiles};
use super::sweep_charts;
use super::words::{self, number, percent, time};
use crate::results::Kept;

/// Writes it.
pub(super) fn write(sheet: &mut Sheet, kept: &Kept, report: &SearchReport, name: &str) -> Markup {
    let tried = tried(report);
    let tried = tried.map(|figure| sheet.figure(figure)).unwrap_or_default();
    let table = Page::heard(|page| probes::write(page, report));
    let notes = Page::heard(|page| write_notes(page, &report.notes));
    let by_load = curve(kept).map(|curve| sweep_charts::by_load(sheet, &curve)).unwrap_or_default();
    html! {
        (first(sheet, report, name))
        (sheet.section("probes", "Every load that was tried", &html! { (tried) (words::told(&table)) }))
        (sheet.section("load", "By load", &by_load))
        (sheet.section("notes", "Notes", &words::told(&notes)))
        (sheet.section("setup", "What was run, where", &setup(sheet, report.about.as_ref())))
        (sheet.section("again", "Reproduce it", &again("search", kept.run_toml.as_deref())))
    }
}

/// The curve that a search leaves beside its report, if it can be read.
fn curve(kept: &Kept) -> Option<Curve> {
    let text = std::fs::read(kept.path.join("curve.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

fn first(sheet: &Sheet, report: &SearchReport, name: &str) -> Markup {
    let said = Page::heard(|page| {
        if let Some(about) = &report.about {
            front::about(page, about);
        }
        write_words(page, report);
    });
    let lead = format!(
        "A search for the highest load that keeps {}, to within {}.",
        loads::texts(&report.objectives),
        loads::share(report.precision)
    );
    html! {
        header.top {
            (sheet.title(name))
            p.lead { (lead) }
        }
        div.cards { (boundary_card(report)) (failure_card(report)) (client_card(report)) }
        @if !report.is_complete {
            p.unheard { "Incomplete: it was interrupted, or the server went away." }
        }
        @if let (Some(low), Some(figures)) = (report.boundary.low, &report.operating_point) {
            (tiles(&format!("at {}", loads::load(report.variable, low)), figures))
        }
        (words::told(&said))
    }
}

fn boundary_card(report: &SearchReport) -> Markup {
    let boundary = &report.boundary;
    let load = |value: f64| loads::load(report.variable, value);
    let (value, tone, more) = match (boundary.low, boundary.high) {
        (Some(low), Some(high)) => {
            let sure = boundary.is_precise && !boundary.is_contradicted;
            let tone = if sure { Tone::Good } else { Tone::Doubtful };
            (load(low), tone, format!("held; broke at {}", load(high)))
        }
        (Some(low), None) => {
            (load(low), Tone::Doubtful, "held; no load surely broke the objectives".to_owned())
        }
        (None, Some(high)) => match boundary.estimate {
            Some(estimate) => (
                "not sure".to_owned(),
                Tone::Doubtful,
                format!(
                    "about {} as far as the samples tell; broke at {}",
                    load(estimate),
                    load(high)
                ),
            ),
            None => (
                "not held".to_owned(),
                Tone::Bad,
                format!("the objectives broke at {} already", load(high)),
            ),
        },
        (None, None) => {
            ("nothing sure".to_owned(), Tone::Doubtful, "the samples decide nothing".to_owned())
        }
    };
    card("Boundary", (&value, Some(tone)), &more)
}

fn failure_card(report: &SearchReport) -> Markup {
    let rates = || report.probes.iter().filter_map(|probe| probe.figures.error_rate);
    let with = rates().filter(|share| *share > 0.0).count();
    if with == 0 {
        let value = format!("0 at {} loads", report.probes.len());
        return card("Failed requests", (&value, Some(Tone::Good)), "");
    }
    let value = format!("at {with} of {} loads", report.probes.len());
    let worst = rates().fold(0.0, f64::max);
    let more = format!("up to {} of a load's requests", percent(Some(worst)));
    card("Failed requests", (&value, Some(Tone::Bad)), &more)
}

fn client_card(report: &SearchReport) -> Markup {
    let worst = report.probes.iter().map(|probe| probe.client).max().unwrap_or(Health::Valid);
    let word = health(worst);
    let not_valid = report.probes.iter().filter(|probe| probe.client != Health::Valid).count();
    let more = match not_valid {
        0 => "at every load: the figures are the server's".to_owned(),
        some => format!("not valid at {some} of {} loads: see the table", report.probes.len()),
    };
    card("Client", (word.0, Some(word.1)), &more)
}

/// The loads by TTFT, with what was decided on each.
fn tried(report: &SearchReport) -> Option<Figure> {
    let ttft = |probe: &ProbeReport| probe.figures.ttft_p95;
    let values = || report.probes.iter().filter_map(ttft).map(|ns| ns as f64);
    let unit = Unit::of(values().reduce(f64::min)? * 3.0);
    let (wide_y, wide_x) =
        (is_wide(values()), is_wide(report.probes.iter().map(|probe| probe.value)));
    let kinds = [
        (Decision::Pass, "pass", MarkerSymbol::Circle, 2),
        (Decision::Fail, "FAIL", MarkerSymbol::X, 1),
        (Decision::Unsure, "unsure", MarkerSymbol::DiamondOpen, 6),
    ];
    let traces = kinds.into_iter().filter_map(|(decision, name, symbol, place)| {
        let own = report.probes.iter().filter(|probe| probe.decision == decision);
        let (xs, ns): (Vec<f64>, Vec<f64>) =
            own.filter_map(|probe| Some((probe.value, ttft(probe)? as f64))).unzip();
        if xs.is_empty() {
            return None;
        }
        let marker = Marker::new().size(10).symbol(symbol).color(colour(place));
        let hover =
            format!("load %{{x}}: {name}, TTFT p95 %{{y:.4g}} {}<extra></extra>", unit.name);
        let trace = Scatter::new(xs, in_unit(unit, ns)).name(name).mode(Mode::Markers);
        Some(traced(&trace.marker(marker).hover_template(hover)))
    });
    let ends = [(report.boundary.low, "held"), (report.boundary.high, "broke")];
    let (shapes, notes): (Vec<Value>, Vec<Value>) = ends
        .into_iter()
        .filter_map(|(at, name)| {
            let at = short(at?);
            let (shape, mut note) = rule("x", at, name, 6);
            note["x"] = json!(placed(at, wide_x));
            if name == "held" {
                note["xanchor"] = json!("right");
            }
            Some((shape, note))
        })
        .unzip();
    let mut by_load: Vec<&ProbeReport> = report.probes.iter().collect();
    by_load.sort_by(|a, b| a.value.total_cmp(&b.value));
    let rows = by_load.iter().map(|probe| {
        let word = probes::word(probe.decision);
        vec![loads::bare(probe.value), word, time(ttft(probe)), number(probe.figures.rps)]
    });
    Some(Figure {
        id: "probes-chart",
        title: "TTFT p95 at each load".to_owned(),
        finding: format!(
            "{} loads were tried; those between the dashed lines are where the boundary lies. A load \
             without a mark has no TTFT p95: it lies among requests that did not end well.",
            report.probes.len()
        ),
        height: 340,
        traces: traces.collect(),
        layout: json!({
            "xaxis": axis(loads::unit(report.variable, 2.0), wide_x),
            "yaxis": axis(&format!("TTFT p95, {}", unit.name), wide_y),
            "shapes": shapes, "annotations": notes,
        }),
        data: (vec!["load", "decision", "TTFT p95", "requests/s"], rows.collect()),
    })
}
