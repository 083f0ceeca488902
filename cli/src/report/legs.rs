//! Prefill and decode apart: what each leg takes, what the hand-off and a router add.

use tokclock_engine::measure::{
    Distribution, LegsReport, RouterReport, SignedDistribution, Summary,
};

use super::grid;
use super::table::{self, Line};
use super::text::{Page, count, duration, escape, percent};

/// The section's content; nothing where requests had no legs.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    let Some(legs) = &summary.legs else { return };
    page.blank();
    if legs.direct > legs.first_contact.requests || legs.prefill_leg.count > 0 {
        table::write(page, "leg", &lines(legs));
    }
    said(page, summary, legs);
}

/// All but the figures of each leg.
pub(super) fn said(page: &mut Page, summary: &Summary, legs: &LegsReport) {
    remarks(page, legs);
    transferred(page, summary);
    if legs.pairs.len() > 1 {
        pairs(page, legs);
    }
}

/// A line for each leg.
pub(super) fn lines(legs: &LegsReport) -> Vec<Line<'_>> {
    let all = parts(legs).into_iter();
    all.map(|(name, distribution)| Line { name: name.to_owned(), distribution }).collect()
}

/// The legs, in the order in which they follow each other, as far as there are samples.
pub(super) fn parts(legs: &LegsReport) -> Vec<(&'static str, &Distribution)> {
    let gap = if legs.concurrent { "skew of ours" } else { "client gap" };
    let all = [
        ("prefill leg", &legs.prefill_leg),
        (gap, &legs.client_gap),
        ("decode first", &legs.decode_first),
        ("sum: TTFT", &legs.service_ttft),
        ("TTST", &legs.ttst),
        ("ICL from 2", &legs.icl_after_second),
    ];
    all.into_iter().filter(|(_, distribution)| distribution.count > 0).collect()
}

/// What is said beside the figures.
pub(super) fn remarks(page: &mut Page, legs: &LegsReport) {
    if legs.concurrent {
        let text = "both servers are asked at once: the decode server's first token includes prefill and \
             hand-off";
        page.words("", text);
        if let Some(after) = &legs.after_prefill {
            let median = signed(after.percentiles.p50);
            page.words(
                "",
                &format!("first token after the prefill server's answer: {median} at p50"),
            );
        }
    }
    if let Some(handoff) = &legs.handoff {
        page.words(
            "hand-off",
            &estimated(handoff.estimate.as_ref(), &handoff.baseline, handoff.sampled_share),
        );
        if handoff.left_out > 0 {
            let left_out = count(handoff.left_out);
            page.words(
                "",
                &format!("{left_out} samples left out: their prompt was computed again"),
            );
        }
        if handoff.cache_assumed {
            page.words(
                "",
                "that the decode server had the prompt the second time is assumed: it does not say",
            );
        }
    }
    if let Some(bytes) = legs.handoff_bytes.percentiles.p50 {
        page.words("", &format!("the hand-off object has {} bytes at p50", count(bytes)));
    }
    if let Some(by) = &legs.router {
        router(page, by);
    }
    fallbacks(page, legs);
    if legs.first_contact.requests > 0 {
        let slowest = duration(legs.first_contact.decode_first.max);
        page.words(
            "",
            &format!(
                "{} first contacts of two servers are kept out (decode first up to {slowest})",
                count(legs.first_contact.requests)
            ),
        );
    }
}

fn estimated(estimate: Option<&SignedDistribution>, baseline: &Distribution, share: f64) -> String {
    let Some(estimate) = estimate else {
        return format!(
            "no estimate: no request of the {} sampled told anything",
            percent(Some(share))
        );
    };
    let figures = &estimate.percentiles;
    format!(
        "about {}{} at p50, {} at p95, from {} prompts that were sent once more without one (first token \
         then {} at p50)",
        signed(figures.p50),
        interval(estimate.ci95.p50),
        signed(figures.p95),
        count(estimate.count),
        duration(baseline.percentiles.p50)
    )
}

fn router(page: &mut Page, by: &RouterReport) {
    if by.ttft.count == 0 || by.direct_ttft.count == 0 {
        page.words("router", "no estimate: requests succeeded on one of the two ways alone");
        return;
    }
    let over = &by.overhead;
    page.words(
        "router",
        &format!(
            "adds {}{} to TTFT at p50, {}{} at p95: {} by it against {} without ({} and {} requests in a \
             drawn order)",
            signed(over.p50),
            interval(by.ci95.p50),
            signed(over.p95),
            interval(by.ci95.p95),
            duration(by.ttft.percentiles.p50),
            duration(by.direct_ttft.percentiles.p50),
            count(by.ttft.count),
            count(by.direct_ttft.count)
        ),
    );
}

fn fallbacks(page: &mut Page, legs: &LegsReport) {
    let all = &legs.kv_fallback;
    if all.count > 0 {
        page.words(
            "fallback",
            &format!(
                "{} of {} prompts were computed again by the decode server ({} without a hand-off object, {} \
                 not in its cache)",
                count(all.count),
                count(legs.direct),
                count(all.no_params),
                count(all.not_cached)
            ),
        );
    }
    if all.unknown > 0 {
        page.words(
            if all.count > 0 { "" } else { "fallback" },
            &format!(
                "not known of {} requests one by one: their decode server does not say what it had of a \
                 prompt, or counts its own prefix cache alone",
                count(all.unknown)
            ),
        );
    }
}

/// What decode servers count of all that was handed to them, where they do.
fn transferred(page: &mut Page, summary: &Summary) {
    let counted = summary.servers.iter().filter_map(|server| {
        let transferred = (*server.counters.get("prompt_transferred")?)?;
        Some((transferred, server.handed_tokens?))
    });
    let (transferred, handed) = counted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if handed == 0 {
        return;
    }
    let share = transferred as f64 / handed as f64;
    page.words(
        "",
        &format!(
            "decode servers count {} prompt tokens by transfer; prompts of {} tokens were handed to them \
             meanwhile ({})",
            count(transferred),
            count(handed),
            percent(Some(share))
        ),
    );
}

fn pairs(page: &mut Page, legs: &LegsReport) {
    let head = ["prefill", "decode", "ok", "prefill leg p50", "decode first p50"];
    let rows = legs.pairs.iter().map(|pair| {
        vec![
            escape(&pair.prefill),
            escape(&pair.decode),
            count(pair.requests),
            duration(pair.prefill_leg_p50),
            duration(pair.decode_first_p50),
        ]
    });
    page.blank();
    grid::write(page, &head, rows);
}

/// A difference of times, in the unit that reads best.
pub(super) fn signed(ns: Option<i64>) -> String {
    match ns {
        None => super::text::NONE.to_owned(),
        Some(ns) if ns < 0 => format!("-{}", duration(Some(ns.unsigned_abs()))),
        Some(ns) => duration(Some(ns.unsigned_abs())),
    }
}

/// ` [low, high]`; nothing where the sample supports neither end.
fn interval([low, high]: [Option<i64>; 2]) -> String {
    match (low, high) {
        (None, None) => String::new(),
        (low, high) => format!(" [{}, {}]", signed(low), signed(high)),
    }
}
