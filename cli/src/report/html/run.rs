//! The page of one load point.

use maud::{Markup, html};
use serde_json::Value;
use tokclock_engine::measure::{
    Evidence, Health, Held, Interval, ObjectiveReport, SloReport, Summary,
};

use super::super::text::{Page, Said, Tone, count};
use super::super::{client, front, hosts, parts, rates, server_times, tokens};
use super::seen::Seen;
use super::sheet::Sheet;
use super::words::{self, ABSENT, number, percent, time};
use super::{charts, facts, gpus, latency, legs, over_time, servers, single};
use crate::results::Kept;

/// Writes it.
pub(super) fn write(sheet: &mut Sheet, kept: &Kept, summary: &Summary, name: &str) -> Markup {
    let seen = Seen::of(kept, summary);
    let latencies = latency::write(sheet, summary, &seen);
    let legs = legs::write(sheet, summary, &seen);
    let over_time = over_time::write(sheet, summary, &seen);
    let gpus = gpus::write(sheet, summary, &kept.path);
    let servers = servers::write(sheet, kept, summary);
    let singles = seen.views.as_ref().map_or(&[][..], |views| &views.singles);
    let singles = single::write(sheet, singles);
    let client = own_client(sheet, summary, &seen);
    let whole = serde_json::to_value(summary).unwrap_or(Value::Null);
    html! {
        (first(sheet, summary, &seen, name))
        (sheet.section("objectives", "Objectives", &objectives(summary)))
        (sheet.section("latency", "Latency", &latencies))
        (sheet.section("legs", "Prefill and decode", &legs))
        (sheet.section("server", "What the server says", &said_by_server(summary)))
        (sheet.section("time", "Over time", &over_time))
        (sheet.section("gpus", "GPUs", &gpus))
        (sheet.section("servers", "Servers", &servers))
        (sheet.section("single", "Single requests", &singles))
        (sheet.section("failures", "Failures", &failures(summary)))
        (sheet.section("parts", "Parts of the load", &load_parts(summary)))
        (sheet.section("client", "Client", &client))
        (sheet.section("hosts", "Hosts", &sent_by(summary)))
        (sheet.section("setup", "What was run, where", &setup(sheet, &whole)))
        (sheet.section("again", "Reproduce it", &again("run", kept.run_toml.as_deref())))
    }
}

/// The first screen.
fn first(sheet: &Sheet, summary: &Summary, seen: &Seen, name: &str) -> Markup {
    let said = Page::heard(|page| front::write(page, summary));
    let sentence = said.iter().find_map(|one| match one {
        Said::Words { label, text, .. } if label == "run" => Some(text.as_str()),
        _ => None,
    });
    let sentence = sentence.unwrap_or_default();
    let sentence = sentence.strip_prefix(&format!("{name}: ")).unwrap_or(sentence);
    let rest: Vec<Said> = said
        .iter()
        .filter(|one| !matches!(one, Said::Words { label, .. } if label == "run"))
        .cloned()
        .collect();
    html! {
        header.top {
            (sheet.title(name))
            p.lead { (sentence) }
        }
        div.cards { (objective_card(summary)) (failure_card(summary)) (client_card(summary)) }
        @if let Some(merge) = summary.merge.as_ref().filter(|merge| merge.partial) {
            p.unheard { "PARTIAL: this is a part of the load: " (hosts::why(merge)) "." }
        }
        @if summary.run.interrupted {
            p.unheard { "Interrupted by the user: the run is incomplete." }
        }
        (tiles(summary))
        (words::told(&rest))
        @for missing in &seen.missing {
            p.unheard { "Not read: " (words::safe(missing)) "." }
        }
    }
}

/// The hosts that sent the load, where there were several.
fn sent_by(summary: &Summary) -> Markup {
    words::told(&Page::heard(|page| hosts::write(page, summary)))
}

/// A verdict that must not be missed.
pub(super) fn card(what: &str, (value, tone): (&str, Option<Tone>), more: &str) -> Markup {
    html! {
        div class={ "card " (tone.map_or("", words::class)) } {
            p.what { (what) }
            p.value { (value) }
            @if !more.is_empty() { p.more { (more) } }
        }
    }
}

/// A figure.
pub(super) fn tile(what: &str, value: &str, more: &str) -> Markup {
    html! {
        div.tile {
            p.what { (what) }
            p.value { (value) }
            @if !more.is_empty() { p.more { (more) } }
        }
    }
}

fn all_objectives(summary: &Summary) -> Vec<(Option<&str>, &SloReport)> {
    let own = summary.slo.iter().map(|slo| (None, slo));
    let classes = summary.classes.iter();
    let classes =
        classes.filter_map(|class| Some((Some(class.name.as_str()), class.slo.as_ref()?)));
    own.chain(classes).collect()
}

fn objective_card(summary: &Summary) -> Markup {
    let all = all_objectives(summary);
    let each: Vec<&ObjectiveReport> = all.iter().flat_map(|(_, slo)| &slo.objectives).collect();
    if each.is_empty() {
        return card("Objectives", ("none asked", None), "Give --slo to have some judged.");
    }
    let number_of = |held: Held| each.iter().filter(|one| one.verdict == held).count();
    let (failed, unknown) = (number_of(Held::Fail), number_of(Held::Unknown));
    let missed: Vec<String> = each
        .iter()
        .filter(|one| one.verdict != Held::Pass)
        .map(|one| words::safe(&one.text))
        .collect();
    let more = if missed.is_empty() {
        format!("{} of {} held", each.len(), each.len())
    } else {
        format!("{} of {} held, not {}", number_of(Held::Pass), each.len(), missed.join(", "))
    };
    let word = match (failed, unknown) {
        (0, 0) => ("pass", Some(Tone::Good)),
        (0, _) => ("unknown", Some(Tone::Doubtful)),
        _ => ("FAIL", Some(Tone::Bad)),
    };
    card("Objectives", word, &more)
}

fn failure_card(summary: &Summary) -> Markup {
    let requests = &summary.requests;
    let settled = requests.ok + requests.failed;
    let mut more: Vec<String> =
        requests.errors.iter().map(|(class, n)| format!("{} {class}", count(*n))).collect();
    let others = [(requests.dropped, "dropped"), (requests.cancelled, "cancelled")];
    more.extend(
        others.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))),
    );
    let value = match requests.failed {
        0 => format!("0 of {}", count(settled)),
        failed => {
            format!("{} of {} ({})", count(failed), count(settled), percent(requests.error_rate))
        }
    };
    let tone = match (requests.failed, requests.ok) {
        (0, 0) => Tone::Doubtful,
        (0, _) => Tone::Good,
        _ => Tone::Bad,
    };
    card("Failed requests", (&value, Some(tone)), &more.join(", "))
}

fn client_card(summary: &Summary) -> Markup {
    let word = health(summary.client.verdict);
    let reasons: Vec<String> =
        summary.client.reasons.iter().map(|one| words::safe(&one.message)).collect();
    let means = match summary.client.verdict {
        Health::Valid => "The figures are the server's.",
        Health::Suspect => "Figures may hold a part of the client's: ",
        Health::Invalid => "This run is not what was asked for: ",
    };
    card("Client", (word.0, Some(word.1)), &format!("{means}{}", reasons.join("; ")))
}

/// The word for a verdict on the client.
pub(super) fn health(health: Health) -> (&'static str, Tone) {
    match health {
        Health::Valid => ("valid", Tone::Good),
        Health::Suspect => ("SUSPECT", Tone::Doubtful),
        Health::Invalid => ("INVALID", Tone::Bad),
    }
}

fn tiles(summary: &Summary) -> Markup {
    let (latency, rate) = (&summary.latency, &summary.rate);
    let timed = |what: &str, value: Option<u64>, ci: Interval| {
        let more = match (value, words::interval(ci)) {
            (None, _) => String::new(),
            (_, None) => "sample too small for an interval".to_owned(),
            (_, Some(_)) if ci.contains(&None) => "small sample".to_owned(),
            (_, Some(ci)) => format!("95 %: {ci}"),
        };
        tile(what, &time(value), &more)
    };
    let (ttft, itl, e2e) = (&latency.ttft, &latency.itl, &latency.e2e);
    let offered = rate
        .offered_rps
        .map_or_else(String::new, |rps| format!("of {} offered", number(Some(rps))));
    html! {
        div.tiles {
            (timed("TTFT p50", ttft.percentiles.p50, ttft.ci95.p50))
            (timed("TTFT p95", ttft.percentiles.p95, ttft.ci95.p95))
            (timed("ITL p95", itl.percentiles.p95, itl.ci95.p95))
            (timed("E2E p50", e2e.percentiles.p50, e2e.ci95.p50))
            (tile("Requests/s", &number(rate.rps), &offered))
            (tile("Output tokens/s", &number(rate.output_tps), ""))
            @if let Some(goodput) = &summary.goodput {
                (tile("Good requests/s", &number(goodput.rps),
                    &format!("{} of requests", percent(goodput.share))))
            }
        }
    }
}

fn objectives(summary: &Summary) -> Markup {
    let rows: Vec<Vec<String>> = all_objectives(summary)
        .into_iter()
        .flat_map(|(class, slo)| slo.objectives.iter().map(move |one| objective(class, one)))
        .collect();
    let said = Page::heard(|page| front::goodput(page, summary));
    html! {
        @if !rows.is_empty() {
            (words::table(
                "Each objective against the judged figure, in which failed, dropped and cut requests count \
                 as longer than anything.",
                &["objective", "verdict", "figure", "margin", "evidence"],
                &rows,
            ))
        }
        (words::told(&said))
    }
}

fn objective(class: Option<&str>, one: &ObjectiveReport) -> Vec<String> {
    let of = class.map_or_else(String::new, |class| format!("{}: ", words::safe(class)));
    let figure = match (one.value_ns, one.value_share, one.at_least_ns) {
        (Some(ns), ..) => time(Some(ns.round() as u64)),
        (None, Some(share), _) => percent(Some(share)),
        (None, None, Some(bound)) => format!("at least {}", time(Some(bound))),
        _ => ABSENT.to_owned(),
    };
    let evidence = match one.evidence {
        None => "no sample".to_owned(),
        Some(Evidence::Share { misses, samples, effective, allowed }) => format!(
            "{} of {} samples beyond the limit, {} allowed; worth {} independent ones",
            count(misses),
            count(samples),
            percent(Some(allowed)),
            count(effective.max(0.0).round() as u64)
        ),
        Some(Evidence::Mean { error_ns, samples, .. }) => format!(
            "mean of {} samples, standard error {}",
            count(samples),
            time(error_ns.map(|ns| ns.max(0.0).round() as u64))
        ),
    };
    let word = front::held(one.verdict).0.to_owned();
    vec![format!("{of}{}", words::safe(&one.text)), word, figure, percent(one.margin), evidence]
}

fn failures(summary: &Summary) -> Markup {
    let requests = &summary.requests;
    if requests.failed == 0 && requests.cancelled == 0 {
        return html! { p { "No request of the measured part failed, and none was cancelled." } };
    }
    let settled = (requests.ok + requests.failed) as f64;
    let rows = requests.errors.iter().map(|(class, n)| {
        let example = requests.error_examples.get(class).map_or(ABSENT, String::as_str);
        let share = percent(Some(*n as f64 / settled));
        vec![words::safe(class), count(*n), share, words::safe(example)]
    });
    let cancelled = requests.cancel_reasons.iter().map(|(reason, n)| {
        vec![format!("cancelled: {}", words::safe(reason)), count(*n), ABSENT.into(), ABSENT.into()]
    });
    let head = ["class", "requests", "of those settled", "the first of them said"];
    let rows: Vec<Vec<String>> = rows.chain(cancelled).collect();
    words::table("Requests of the measured part that did not end well.", &head, &rows)
}

/// Times that servers told of their own work, and what the client saw beyond them.
fn said_by_server(summary: &Summary) -> Markup {
    words::told(&Page::heard(|page| server_times::write(page, summary)))
}

fn load_parts(summary: &Summary) -> Markup {
    let said = Page::heard(|page| {
        parts::write(page, summary);
        parts::cache(page, summary);
    });
    words::told(&said)
}

fn own_client(sheet: &mut Sheet, summary: &Summary, seen: &Seen) -> Markup {
    let lag = charts::distributions(
        "lag-cdf",
        "Client lag",
        &[("lag of reads", seen.pools.lag.as_ref())],
    );
    let slip = seen.views.as_ref().and_then(|views| views.slip.as_ref());
    let slip = charts::distributions("slip-cdf", "Schedule slip", &[("slip", slip)]);
    let (lag, slip) = (sheet.figure(lag), sheet.figure(slip));
    let said = Page::heard(|page| client::write(page, &summary.client));
    let causes = summary.client.slip.iter().flat_map(|slip| &slip.by_cause).map(|(cause, of)| {
        vec![
            words::safe(cause),
            count(of.count),
            time(of.percentiles.p50),
            time(of.percentiles.p99),
            time(of.max),
        ]
    });
    let causes: Vec<Vec<String>> = causes.collect();
    html! {
        p { "What the client itself added: how late it handled what had arrived (lag), and how late it \
             sent what was due (slip)." }
        div.grid { (lag) (slip) }
        @if !causes.is_empty() {
            (words::table("Slip by its cause", &["cause", "requests", "p50", "p99", "most"], &causes))
        }
        (words::told(&said))
        (words::told(&Page::heard(|page| {
            rates(page, &summary.rate);
            tokens(page, &summary.tokens);
        })))
    }
}

/// Everything that the summary holds of target, workload and host, whatever it is.
fn setup(sheet: &Sheet, whole: &Value) -> Markup {
    let parts = [
        ("Labels", "labels"),
        ("Target", "target"),
        ("Workload", "workload"),
        ("Host", "host"),
        ("Run", "run"),
    ];
    html! {
        div.columns {
            @for (title, key) in parts {
                @let table = facts::table(&whole[key]);
                @if !table.0.is_empty() { div { (sheet.part(title)) (table) } }
            }
        }
    }
}

/// How to have the same again.
pub(super) fn again(command: &str, run_toml: Option<&str>) -> Markup {
    html! {
        @match run_toml {
            Some(text) => {
                p { "In the directory of the result:" }
                pre tabindex="0" { code { "tokclock " (command) " --config run.toml" } }
                details {
                    summary { "run.toml" }
                    pre tabindex="0" { code { (escaped_lines(text)) } }
                }
            }
            None => { p { "There is no run.toml beside this result." } }
        }
    }
}

/// A text of several lines without anything that could turn or hide others.
fn escaped_lines(text: &str) -> String {
    text.lines().map(words::safe).collect::<Vec<_>>().join("\n")
}
