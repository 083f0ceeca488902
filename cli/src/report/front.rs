//! The first screen: what was run, what failed, whether the client and the promises held.

use tokclock_engine::measure::{
    Health, Held, LoadReport, ObjectiveReport, Reason, Severity, Summary, TlsReport,
};

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

fn headline(page: &mut Page, summary: &Summary) {
    let (target, asked, run) = (&summary.target, &summary.workload, &summary.run);
    let name = run.name.as_deref().map_or_else(String::new, |name| format!("{}: ", escape(name)));
    let stream = if target.stream { "" } else { ", not streaming" };
    page.words(
        "run",
        &format!(
            "{name}{}, {} tokens in and {} out",
            load(&asked.load),
            count(asked.input_tokens.into()),
            count(asked.output_tokens.into())
        ),
    );
    let model = match target.model.as_str() {
        "" => String::new(),
        model => format!(", model {}", escape(model)),
    };
    page.words("target", &format!("{} ({}{model}{stream})", escape(&target.url), target.dialect));
    if let Some(tls) = &target.tls {
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
        &format!("{seconds} s{by_requests}{warmup}; seed {}, tokclock {}", run.seed, run.version),
    );
    if run.interrupted {
        page.verdict("", ("interrupted", Tone::Doubtful), "by the user: the run is incomplete");
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

fn load(load: &LoadReport) -> String {
    match load {
        LoadReport::Closed { users, ramp_ns } => {
            let ramp = match *ramp_ns {
                0 => String::new(),
                ns => format!(" started over {}", duration(Some(ns))),
            };
            format!("closed loop of {} {}{ramp}", count(*users), plural(*users, "user", "users"))
        }
        LoadReport::Open { rate, arrival, burstiness, max_in_flight, overflow } => {
            let burst = match (arrival.as_str(), burstiness) {
                ("gamma", Some(burstiness)) => format!(" (burstiness {burstiness})"),
                _ => String::new(),
            };
            let cap = max_in_flight.map_or_else(String::new, |cap| {
                let above = if overflow == "drop" { "dropped" } else { "made to wait" };
                format!(", at most {} in flight, others {above}", count(cap))
            });
            format!(
                "open loop of {} requests/s, {arrival} arrivals{burst}{cap}",
                number(Some(*rate))
            )
        }
    }
}

fn outcomes(page: &mut Page, summary: &Summary) {
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

fn reason(page: &mut Page, reason: &Reason) {
    let label = match reason.severity {
        Severity::Note => ("note:", Tone::Doubtful),
        Severity::Suspect => ("suspect:", Tone::Doubtful),
        Severity::Invalid => ("invalid:", Tone::Bad),
    };
    page.verdict("", label, &format!("{}. To do: {}.", reason.message, reason.advice));
}

fn objectives(page: &mut Page, summary: &Summary) {
    let Some(slo) = &summary.slo else { return };
    page.verdict("objectives", held(slo.verdict), "");
    for objective in &slo.objectives {
        let (word, tone) = held(objective.verdict);
        page.verdict(
            "",
            (word, tone),
            &format!("{}: {}", escape(&objective.text), standing(objective)),
        );
    }
}

fn held(held: Held) -> (&'static str, Tone) {
    match held {
        Held::Pass => ("pass", Tone::Good),
        Held::Fail => ("FAIL", Tone::Bad),
        Held::Unknown => ("unknown", Tone::Doubtful),
    }
}

fn standing(objective: &ObjectiveReport) -> String {
    if let Some(value) = objective.value_ns {
        let margin = objective
            .margin
            .map_or_else(String::new, |margin| format!(", margin {}", percent(Some(margin))));
        return format!("{}{margin}", duration(Some(value.round() as u64)));
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

fn goodput(page: &mut Page, summary: &Summary) {
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
