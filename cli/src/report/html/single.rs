//! Single requests, phase by phase.

use maud::{Markup, html};
use plotly::common::{Marker, Mode, Orientation};
use plotly::{Bar, Scatter};
use serde_json::{Value, json};
use tokclock_engine::measure::views::{Shown, Why};

use super::super::text::Unit;
use super::charts::{axis, colour, in_unit, plain, short, traced};
use super::sheet::{Figure, Sheet};
use super::words::{self, ABSENT, time};

/// Phases in the order in which they follow each other: their names, and colour and hatching of each.
const PHASES: [(&str, &str, usize, &str); 10] = [
    ("wait", "waiting for its turn", 6, "/"),
    ("connect", "connect", 4, ""),
    ("tls", "TLS", 3, ""),
    ("prepare", "before the write", 6, ""),
    ("write", "write", 2, ""),
    ("server_wait", "server wait", 5, ""),
    ("prefill_wait", "prefill wait", 1, ""),
    ("decode", "decode", 0, ""),
    ("tail", "tail", 2, "x"),
    ("lost", "until it was lost", 3, "x"),
];

/// The section's content.
pub(super) fn write(sheet: &mut Sheet, singles: &[Shown]) -> Markup {
    if singles.is_empty() {
        return html! {};
    }
    let figure = waterfall(singles);
    let errors: Vec<&Shown> = singles.iter().filter(|one| one.error_text.is_some()).collect();
    html! {
        p { "Where the time of the slowest, the usual, the fastest and some failed requests went, from \
             each one's origin." }
        (sheet.figure(figure))
        @if !errors.is_empty() {
            dl.said {
                @for one in &errors {
                    dt { (label(one)) }
                    dd {
                        (one.error.as_deref().unwrap_or(ABSENT)) ": "
                        (words::safe(one.error_text.as_deref().unwrap_or_default()))
                    }
                }
            }
        }
    }
}

fn label(one: &Shown) -> String {
    format!("#{} {}", one.index, reason(one))
}

fn reason(one: &Shown) -> String {
    let word = |why: &Why| match why {
        Why::Failed => one.error.clone().unwrap_or_else(|| "failed".to_owned()),
        Why::SlowestE2e => "slow E2E".to_owned(),
        Why::SlowestTtft => "slow TTFT".to_owned(),
        Why::Median => "median".to_owned(),
        Why::Fastest => "fastest".to_owned(),
    };
    // Of a request that is everything at once, the first two reasons say enough.
    one.why.iter().take(2).map(word).collect::<Vec<_>>().join(", ")
}

fn waterfall(singles: &[Shown]) -> Figure {
    let ends = || singles.iter().filter_map(|one| one.steps.last()).map(|step| step.to_ns as f64);
    let unit = Unit::of(ends().fold(0.0, f64::max) / 3.0);
    let labels: Vec<String> = singles.iter().map(|one| plain(&label(one))).collect();
    let mut traces: Vec<Value> =
        PHASES.iter().filter_map(|phase| bars(phase, singles, &labels, unit)).collect();
    traces.extend(events(singles, &labels, unit));
    let slowest = singles.iter().find(|one| one.why.contains(&Why::SlowestE2e));
    let finding = slowest.and_then(|one| {
        let longest = one.steps.iter().max_by_key(|step| step.to_ns - step.from_ns)?;
        let spent = time(Some(longest.to_ns - longest.from_ns));
        Some(format!(
            "The slowest, #{}, took {}, most of it in {} ({spent}).",
            one.index,
            time(one.e2e_ns),
            named(longest.phase)
        ))
    });
    Figure {
        id: "waterfall",
        title: "Single requests".to_owned(),
        finding: finding
            .unwrap_or_else(|| "No request of the measured part ended well.".to_owned()),
        height: 110 + 26 * singles.len() as u32,
        traces,
        layout: json!({
            "barmode": "stack", "bargap": 0.3,
            "xaxis": axis(&format!("{} from the origin", unit.name), false),
            "yaxis": { "autorange": "reversed", "type": "category" },
        }),
        data: table(singles),
    }
}

fn named(phase: &str) -> &'static str {
    PHASES.iter().find(|(key, ..)| *key == phase).map_or("another phase", |(_, name, ..)| name)
}

fn spent(one: &Shown, phase: &str) -> Option<u64> {
    let mut own = one.steps.iter().filter(|step| step.phase == phase).peekable();
    own.peek()?;
    Some(own.map(|step| step.to_ns - step.from_ns).sum())
}

/// The steps of a phase; they follow each other without a gap, so that bars can be stacked.
fn bars(
    (key, name, place, hatching): &(&str, &str, usize, &str),
    singles: &[Shown],
    labels: &[String],
    unit: Unit,
) -> Option<Value> {
    let spent: Vec<Option<u64>> = singles.iter().map(|one| spent(one, key)).collect();
    if spent.iter().all(Option::is_none) {
        return None;
    }
    let xs = in_unit(unit, spent.iter().map(|ns| ns.unwrap_or(0) as f64));
    let text: Vec<String> = spent.iter().map(|ns| time(*ns)).collect();
    let bar = Bar::new(xs, labels.to_vec())
        .name(*name)
        .orientation(Orientation::Horizontal)
        .hover_text_array(text)
        .hover_template(format!("%{{y}}: {name} %{{hovertext}}<extra></extra>"));
    let mut bar = traced(&bar);
    bar["marker"] = json!({ "color": colour(*place), "pattern": { "shape": hatching } });
    Some(bar)
}

/// The output events, where they were kept.
fn events(singles: &[Shown], labels: &[String], unit: Unit) -> Option<Value> {
    let all = || {
        singles.iter().zip(labels).flat_map(|(one, label)| {
            one.events_ns.iter().map(move |ns| (*ns as f64, label.clone()))
        })
    };
    all().next()?;
    let (xs, ys): (Vec<f64>, Vec<String>) =
        all().map(|(ns, label)| (short(unit.of_ns(ns)), label)).unzip();
    let marker = Marker::new().color("--ink").size(4).opacity(0.7);
    let trace = Scatter::new(xs, ys).name("output event").mode(Mode::Markers).marker(marker);
    let mut trace = traced(&trace.hover_template("output event at %{x:.5g}<extra></extra>"));
    trace["marker"]["symbol"] = json!("line-ns-open");
    Some(trace)
}

fn table(singles: &[Shown]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let shown = |(key, ..): &&(&str, &str, usize, &str)| {
        singles.iter().any(|one| spent(one, key).is_some())
    };
    let phases: Vec<&(&str, &'static str, usize, &str)> = PHASES.iter().filter(shown).collect();
    let head = ["request", "begun", "TTFT", "E2E", "tokens in", "out"];
    let trace = singles.iter().any(|one| one.trace_id.is_some()).then_some("trace");
    let head = head.into_iter().chain(phases.iter().map(|(_, name, ..)| *name)).chain(trace);
    let tokens = |count: Option<u64>| count.map_or_else(|| ABSENT.to_owned(), |n| n.to_string());
    let row = |one: &Shown| {
        let own = [
            label(one),
            time(Some(one.origin_ns)),
            time(one.ttft_ns),
            time(one.e2e_ns),
            tokens(one.input_tokens),
            tokens(one.output_tokens),
        ];
        let spent = phases.iter().map(|(key, ..)| time(spent(one, key)));
        let sent =
            trace.map(|_| one.trace_id.as_deref().map_or_else(|| ABSENT.to_owned(), words::safe));
        own.into_iter().chain(spent).chain(sent).collect()
    };
    (head.collect(), singles.iter().map(row).collect())
}
