//! The parts of a load: its classes, the turns of its conversations, the pieces of its rate.

use tokclock_engine::measure::{ClassReport, SessionsReport, StageReport, Summary};

use super::grid;
use super::text::{Page, count, duration, escape, number, percent};

/// Stages of a page, at most.
const STAGES_SHOWN: usize = 24;
/// A share found in a server's cache by so much above what a perfect one would know comes from
/// before the run.
const MORE_THAN_IDEAL: f64 = 0.02;

/// Writes what there is of them.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    classes(page, &summary.classes);
    if let Some(sessions) = &summary.sessions {
        conversations(page, sessions);
    }
    stages(page, &summary.stages);
}

fn classes(page: &mut Page, classes: &[ClassReport]) {
    if classes.is_empty() {
        return;
    }
    let head =
        ["class", "ok", "failed", "req/s", "tokens/s", "TTFT p50", "p95", "TPOT p50", "E2E p50"];
    let row = |class: &ClassReport| {
        let latency = &class.latency;
        vec![
            escape(&class.name),
            count(class.requests.ok),
            count(class.requests.failed),
            number(class.rps),
            number(class.output_tps),
            duration(latency.ttft.percentiles.p50),
            duration(latency.ttft.percentiles.p95),
            duration(latency.tpot.percentiles.p50),
            duration(latency.e2e.percentiles.p50),
        ]
    };
    grid::write(page, &head, classes.iter().map(row));
}

fn conversations(page: &mut Page, sessions: &SessionsReport) {
    page.blank();
    let unsent = match sessions.turns_unsent {
        0 => String::new(),
        turns => format!(", {} turns not sent", count(turns)),
    };
    page.words(
        "sessions",
        &format!(
            "{} begun in the window, {} carried out to their end{unsent}",
            count(sessions.begun),
            count(sessions.done)
        ),
    );
    let head =
        ["turn", "requests", "failed", "tokens in", "out", "cached", "TTFT p50", "p95", "E2E p50"];
    let rows = sessions.turns.iter().map(|turn| {
        let more = if turn.and_later { "+" } else { "" };
        vec![
            format!("{}{more}", turn.turn + 1),
            count(turn.requests),
            count(turn.failed),
            number(turn.input_tokens),
            number(turn.output_tokens),
            percent(turn.cached_share),
            duration(turn.ttft.percentiles.p50),
            duration(turn.ttft.percentiles.p95),
            duration(turn.e2e.percentiles.p50),
        ]
    });
    grid::write(page, &head, rows);
}

fn stages(page: &mut Page, stages: &[StageReport]) {
    if stages.len() < 2 {
        return;
    }
    let head = ["stage", "rate", "offered", "sent in it", "ok", "failed", "cancelled", "TTFT p50"];
    let row = |(number_of, stage): (usize, &StageReport)| {
        let rate = if stage.from == stage.to {
            number(Some(stage.from))
        } else {
            format!("{} to {}", number(Some(stage.from)), number(Some(stage.to)))
        };
        vec![
            (number_of + 1).to_string(),
            rate,
            count(stage.offered),
            count(stage.started_within),
            count(stage.ok),
            count(stage.failed),
            count(stage.cancelled),
            duration(stage.ttft.percentiles.p50),
        ]
    };
    grid::write(page, &head, stages.iter().take(STAGES_SHOWN).enumerate().map(row));
    if stages.len() > STAGES_SHOWN {
        let more = stages.len() - STAGES_SHOWN;
        page.words("", &format!("{more} more of them are in summary.json"));
    }
}

/// What is known of prefix caches, where anything is shared or found.
pub(super) fn cache(page: &mut Page, summary: &Summary) {
    let Some(cache) = &summary.cache else { return };
    let server = cache.server.as_ref().filter(|server| server.queries > 0);
    let mut parts = Vec::new();
    let anything = [cache.ideal_share, cache.reported_share, server.and_then(|s| s.share)];
    if !anything.iter().flatten().any(|share| *share > 0.0) {
        return;
    }
    parts.push(match cache.ideal_share {
        Some(share) => format!("a perfect one would know {} of the input", percent(Some(share))),
        None => "what a perfect one would know was not compared".to_owned(),
    });
    if cache.reported_share.is_some() {
        parts.push(format!("answers report {}", percent(cache.reported_share)));
    }
    if let Some(server) = server {
        parts.push(format!(
            "the server counts {} ({} of {} tokens)",
            percent(server.share),
            count(server.hits),
            count(server.queries)
        ));
    }
    page.words("cache", &parts.join(", "));
    let (known, ideal) = (server.and_then(|server| server.share), cache.ideal_share);
    if let (Some(known), Some(ideal)) = (known, ideal)
        && known > ideal + MORE_THAN_IDEAL
    {
        page.words(
            "",
            "that is more than these prompts share: the server has seen them before; another --seed, \
             or --cache-bust run, keeps runs apart",
        );
    }
}
