//! The first screen: what was run, what failed, whether the client and the promises held.

use std::collections::BTreeMap;

use tokclock_engine::measure::curve::About;
use tokclock_engine::measure::{
    ClassAsked, Health, Held, LoadReport, ObjectiveReport, Reason, ReasonKind, Severity, SloReport,
    Summary, TargetReport, TlsReport, WorkloadReport,
};

use super::hosts;
use super::text::{Page, Tone, count, duration, escape, number, percent, plural};

/// Writes it.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    headline(page, summary);
    page.blank();
    outcomes(page, summary);
    client(page, summary);
    objectives(page, summary);
    goodput(page, summary);
    for note in &summary.notes {
        reason(page, note);
    }
}

/// Where the requests of several load points went, and what they said.
pub(super) fn about(page: &mut Page, about: &About) {
    let name = escape(&about.name);
    page.words("run", &format!("{name}: {}", said(&about.workload)));
    target(page, &about.target);
    if let Some(tls) = &about.target.tls {
        tls_line(page, tls);
    }
    let hosts = about.hosts.map_or_else(String::new, |hosts| format!(", sent by {hosts} hosts"));
    page.words("", &format!("seed {}, tokclock {}{hosts}", about.seed, about.version));
    labels(page, &about.labels);
}

fn target(page: &mut Page, target: &TargetReport) {
    let stream = if target.stream { "" } else { ", not streaming" };
    let model = match target.model.as_str() {
        "" => String::new(),
        model => format!(", model {}", escape(model)),
    };
    page.words("target", &format!("{} ({}{model}{stream})", escape(&target.url), target.dialect));
    if let Some(disagg) = &target.disagg {
        page.words(
            "",
            &format!(
                "{}: prefill at {}, decode at {}{}",
                disagg.flow,
                escape(&disagg.prefill.join(", ")),
                escape(&disagg.decode.join(", ")),
                match disagg.routers.as_slice() {
                    [] => String::new(),
                    routers => format!(", in turn with the router {}", escape(&routers.join(", "))),
                }
            ),
        );
    }
    server(page, target);
}

/// What the server told of itself, where it told anything worth a line.
fn server(page: &mut Page, target: &TargetReport) {
    let Some(server) = &target.server else { return };
    let software = server.headers.get("server").map(String::as_str);
    let Some(kind) = server.kind.as_deref().or(software) else { return };
    let version = server.version.as_deref().map_or_else(String::new, |v| format!(" {}", escape(v)));
    let context = server.model.get("max_model_len").and_then(serde_json::Value::as_u64);
    let context = context.map_or_else(String::new, |n| format!(", context of {} tokens", count(n)));
    page.words("server", &format!("{}{version}{context}, by its own word", escape(kind)));
}

/// What the user wrote on the result.
fn labels(page: &mut Page, labels: &BTreeMap<String, String>) {
    let label = |(name, value): (&String, &String)| format!("{}={}", escape(name), escape(value));
    let all: Vec<String> = labels.iter().map(label).collect();
    if !all.is_empty() {
        page.words("labels", &all.join(", "));
    }
}

/// The beginning of a workload's hash, which is enough to see that two differ.
fn short_hash(asked: &WorkloadReport) -> String {
    let digits = asked.hash.as_deref().and_then(|hash| hash.strip_prefix("sha256:"));
    let shown = digits.and_then(|digits| digits.get(..12));
    shown.map_or_else(String::new, |digits| format!(", workload {digits}"))
}

/// What is sent and when, in words.
pub(crate) fn asked(asked: &WorkloadReport) -> String {
    let has_sessions = asked.classes.iter().any(|class| class.conversations);
    format!("{}, {}", load(&asked.load, has_sessions), said(asked))
}

/// What is sent, in words.
pub(crate) fn asked_content(asked: &WorkloadReport) -> String {
    said(asked)
}

/// What was run, where and for how long.
pub(super) fn headline(page: &mut Page, summary: &Summary) {
    let (asked, run) = (&summary.workload, &summary.run);
    let has_sessions = summary.sessions.is_some();
    let name = run.name.as_deref().map_or_else(String::new, |name| format!("{}: ", escape(name)));
    page.words("run", &format!("{name}{}, {}", load(&asked.load, has_sessions), said(asked)));
    labels(page, &summary.labels);
    target(page, &summary.target);
    if let Some(tls) = &summary.target.tls {
        tls_line(page, tls);
    }
    let by_requests = if run.window.by_requests { ", to the last completion" } else { "" };
    let warmup = match run.warmup_requests {
        0 => String::new(),
        requests => format!(" after {} of warm-up", requests_of(requests)),
    };
    let seconds = number(Some(run.window.seconds));
    page.words(
        "window",
        &format!(
            "{seconds} s{by_requests}{warmup}; seed {}{}, tokclock {}",
            run.seed,
            short_hash(asked),
            run.version
        ),
    );
    hosts::verdict(page, summary);
    steadiness(page, summary);
    if run.interrupted {
        let is_rebuilt = summary.notes.iter().any(|note| note.kind == ReasonKind::Rebuilt);
        let how = if is_rebuilt { "before it wrote its figures" } else { "by the user" };
        let what = format!("{how}: the run is incomplete");
        page.verdict("", ("interrupted", Tone::Doubtful), &what);
    }
}

/// Whether the service was steady, where something speaks against it, and what the run waited for.
fn steadiness(page: &mut Page, summary: &Summary) {
    let steered = &summary.run.steered;
    if let Some(rule) = &steered.until {
        let reached = if steered.until_reached == Some(true) { "reached" } else { "not reached" };
        page.words("until", &format!("{}: {reached}", escape(rule)));
    }
    if steered.steady_after_warmup == Some(false) {
        page.verdict(
            "",
            ("not steady", Tone::Doubtful),
            "when the warm-up ended: TTFT or throughput were still on their way",
        );
    }
    if summary.steadiness.is_steady == Some(false) {
        page.verdict(
            "",
            ("not steady", Tone::Doubtful),
            "through the window: its figures are those of a change (MSER-5)",
        );
    }
    if summary.steadiness.rising == Some(true) {
        page.verdict(
            "",
            ("falling behind", Tone::Doubtful),
            "requests in flight or TTFT rose through the window: the load is more than is served",
        );
    }
}

fn tls_line(page: &mut Page, tls: &TlsReport) {
    let name = tls.server_name.as_ref();
    let name = name.map_or_else(String::new, |name| format!(", name {}", escape(name)));
    let resumption = if tls.resumption { "" } else { ", resumption off" };
    let counts = format!(
        "{} handshakes, {} resumed{resumption}{name}",
        count(tls.handshakes),
        count(tls.resumed)
    );
    if tls.verified {
        page.words("tls", &counts);
    } else {
        let loud = ("verification off", Tone::Bad);
        page.verdict("tls", loud, &format!("(--insecure); {counts}"));
    }
}

/// Letters of a law, at most, that stand beside its mean.
const LAW_MAX: usize = 40;

/// What was sent, in a few words.
fn said(asked: &WorkloadReport) -> String {
    match asked.classes.as_slice() {
        [] => "what was sent is not known".into(),
        [one] => content(one, asked),
        several => {
            let name = |class: &ClassAsked| {
                let name = class.name.as_deref().unwrap_or("-");
                format!("{} {}", percent(Some(class.share)), escape(name))
            };
            let names: Vec<String> = several.iter().map(name).collect();
            format!("{} classes: {}", several.len(), names.join(", "))
        }
    }
}

fn content(class: &ClassAsked, asked: &WorkloadReport) -> String {
    if let Some(data) = &class.data {
        return format!("recorded in {}", escape(data));
    }
    let mut parts = vec![match (asked.input_tokens, asked.output_tokens) {
        (Some(input), Some(output)) => {
            let about = |mean: f64, law: Option<&str>| match law {
                Some(law) if law.parse::<u32>().is_err() && law.len() <= LAW_MAX => {
                    format!("{} ({})", number(Some(mean)), escape(law))
                }
                _ => count(mean.round() as u64),
            };
            format!(
                "{} tokens in and {} out",
                about(input, class.isl.as_deref()),
                about(output, Some(&class.osl))
            )
        }
        _ => "synthetic".into(),
    }];
    if class.template_tokens > 0 {
        parts.push(format!("{} of them the template's", count(class.template_tokens.into())));
    }
    if class.system_tokens > 0 {
        parts.push(format!("after {} of a system prompt", count(class.system_tokens.into())));
    }
    if let Some(groups) = class.prefix_groups {
        parts.push(format!(
            "in {} prefix {}",
            count(groups.into()),
            plural(groups.into(), "group", "groups")
        ));
    }
    if class.conversations {
        let history = class.history.as_deref().unwrap_or("live");
        parts.push(format!("conversations with {history} history"));
    }
    if let Some(share) = class.cached_share {
        parts.push(format!("{} of them shared", percent(Some(share))));
    }
    parts.join(", ")
}

pub(super) fn load(load: &LoadReport, has_sessions: bool) -> String {
    let what = if has_sessions { "conversations" } else { "requests" };
    match load {
        LoadReport::Closed { users, ramp_ns } => {
            let ramp = match *ramp_ns {
                0 => String::new(),
                ns => format!(" started over {}", duration(Some(ns))),
            };
            format!("closed loop of {} {}{ramp}", count(*users), plural(*users, "user", "users"))
        }
        LoadReport::Open { rate, arrival, burstiness, max_in_flight, overflow } => {
            let law = law(arrival, *burstiness);
            let cap = cap(*max_in_flight, overflow);
            format!("open loop of {} {what}/s, {law} arrivals{cap}", number(Some(*rate)))
        }
        LoadReport::Series { rates, arrival, burstiness, max_in_flight, overflow } => {
            let law = law(arrival, *burstiness);
            let cap = cap(*max_in_flight, overflow);
            format!("open loop of {} {what}/s, {law} arrivals{cap}", escape(rates))
        }
        LoadReport::Replay { speed, loops, max_in_flight, overflow } => {
            let cap = cap(*max_in_flight, overflow);
            let faster = if *speed == 1.0 {
                String::new()
            } else {
                format!(", {} times as fast", number(Some(*speed)))
            };
            let often =
                if *loops == 1 { String::new() } else { format!(", {} times", count(*loops)) };
            format!("replay at recorded times{faster}{often}{cap}")
        }
    }
}

fn law(arrival: &str, burstiness: Option<f64>) -> String {
    match (arrival, burstiness) {
        ("gamma", Some(burstiness)) => format!("gamma (burstiness {burstiness})"),
        _ => arrival.to_owned(),
    }
}

fn cap(max_in_flight: Option<u64>, overflow: &str) -> String {
    max_in_flight.map_or_else(String::new, |cap| {
        let above = if overflow == "drop" { "dropped" } else { "made to wait" };
        format!(", at most {} in flight, others {above}", count(cap))
    })
}

fn outcomes(page: &mut Page, summary: &Summary) {
    counts(page, summary);
    failures(page, summary);
}

/// How requests ended that did not fail.
pub(super) fn counts(page: &mut Page, summary: &Summary) {
    let counts = &summary.requests;
    let mut ended = vec![format!("{} ok of {} offered", count(counts.ok), count(counts.offered))];
    let others = [
        (counts.dropped, "dropped by the cap"),
        (counts.cancelled, "cancelled"),
        (counts.censored.saturating_sub(counts.cancelled), "without a record"),
        (counts.retried, "retried"),
        (counts.capped, "ended at their length limit"),
    ];
    ended.extend(
        others.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))),
    );
    page.words("requests", &ended.join(", "));
    if counts.retries > 0 {
        page.words(
            "",
            &format!(
                "{} more attempts: {} of failed ones and pauses lie inside the latencies",
                count(counts.retries),
                duration(Some(counts.retry_ns))
            ),
        );
    }
}

fn failures(page: &mut Page, summary: &Summary) {
    let counts = &summary.requests;
    if counts.failed == 0 {
        page.verdict("failures", ("no failures", Tone::Good), "");
        return;
    }
    let classes: Vec<String> =
        counts.errors.iter().map(|(class, n)| format!("{} {class}", count(*n))).collect();
    let failed = count(counts.failed);
    let of = format!("({}): {}", percent(counts.error_rate), classes.join(", "));
    page.verdict("failures", (&failed, Tone::Bad), &of);
    for (class, text) in &counts.error_examples {
        page.words("", &format!("{class}: {}", escape(text)));
    }
}

fn client(page: &mut Page, summary: &Summary) {
    let (verdict, means) = match summary.client.verdict {
        Health::Valid => (("valid", Tone::Good), ""),
        Health::Suspect => (("SUSPECT", Tone::Doubtful), "figures may hold a part of the client's"),
        Health::Invalid => (("INVALID", Tone::Bad), "this run is not what was asked for"),
    };
    page.verdict("client", verdict, means);
    for given in &summary.client.reasons {
        reason(page, given);
    }
}

/// A reason, with what can be done.
pub(super) fn reason(page: &mut Page, reason: &Reason) {
    let label = match reason.severity {
        Severity::Note => ("note:", Tone::Doubtful),
        Severity::Suspect => ("suspect:", Tone::Doubtful),
        Severity::Invalid => ("invalid:", Tone::Bad),
    };
    page.verdict("", label, &format!("{}. To do: {}.", reason.message, reason.advice));
}

fn objectives(page: &mut Page, summary: &Summary) {
    if let Some(slo) = &summary.slo {
        page.verdict("objectives", held(slo.verdict), "");
        each(page, slo);
    }
    for class in &summary.classes {
        if let Some(slo) = &class.slo {
            let of = format!("of class {}", escape(&class.name));
            page.verdict("objectives", held(slo.verdict), &of);
            each(page, slo);
        }
    }
}

fn each(page: &mut Page, slo: &SloReport) {
    for objective in &slo.objectives {
        let (word, tone) = held(objective.verdict);
        page.verdict(
            "",
            (word, tone),
            &format!("{}: {}", escape(&objective.text), standing(objective)),
        );
    }
}

/// The word for a verdict.
pub(super) fn held(held: Held) -> (&'static str, Tone) {
    match held {
        Held::Pass => ("pass", Tone::Good),
        Held::Fail => ("FAIL", Tone::Bad),
        Held::Unknown => ("unknown", Tone::Doubtful),
    }
}

/// What an objective came to.
pub(super) fn standing(objective: &ObjectiveReport) -> String {
    let figure = match (objective.value_ns, objective.value_share) {
        (Some(value), _) => Some(duration(Some(value.round() as u64))),
        (None, share) => share.map(|share| percent(Some(share))),
    };
    if let Some(figure) = figure {
        let margin = objective
            .margin
            .map_or_else(String::new, |margin| format!(", margin {}", percent(Some(margin))));
        return format!("{figure}{margin}");
    }
    match (objective.at_least_ns, objective.verdict) {
        (Some(bound), Held::Fail) => {
            format!(
                "at least {}: it lies among requests that did not end well",
                duration(Some(bound))
            )
        }
        (None, Held::Fail) => "it lies among requests that did not end well".into(),
        (Some(bound), _) => {
            format!("at least {}: it lies among requests that were cut", duration(Some(bound)))
        }
        (None, _) => "no sample".into(),
    }
}

/// Requests that kept every limit.
pub(super) fn goodput(page: &mut Page, summary: &Summary) {
    let Some(goodput) = &summary.goodput else { return };
    let limits: Vec<String> = goodput
        .objectives
        .iter()
        .map(|one| {
            let limit = duration(Some(one.limit_ns));
            format!("{} <= {limit} by {}", one.metric, percent(one.share))
        })
        .collect();
    page.words(
        "goodput",
        &format!(
            "{} requests/s, {} tokens/s; {} good, {} of {}: {}",
            number(goodput.rps),
            number(goodput.tps),
            count(goodput.good),
            percent(goodput.share),
            requests_of(goodput.of),
            limits.join(", ")
        ),
    );
}

fn requests_of(n: u64) -> String {
    format!("{} {}", count(n), plural(n, "request", "requests"))
}
