//! What a curve says in words: envelope, knee, what follows it, how the server came back.

use tokclock_engine::measure::curve::{Curve, Envelope, Level, Outside, PastKnee};
use tokclock_engine::measure::{Health, Held};

use super::super::text::{Page, Tone, duration, percent};
use super::words::{self, load, loads, range, rate, texts};

/// Writes what there is of them.
pub(in super::super) fn write(page: &mut Page, curve: &Curve) {
    client(page, curve);
    if let Some(envelope) = &curve.envelope {
        objectives(page, curve, envelope);
    }
    knee(page, curve);
    past_knee(page, curve);
    recovery(page, curve);
}

/// Levels whose figures are not the server's alone.
fn client(page: &mut Page, curve: &Curve) {
    let grave = [
        (Health::Invalid, ("INVALID", Tone::Bad), "what ran there is not what was asked for"),
        (Health::Suspect, ("SUSPECT", Tone::Doubtful), "figures may hold a part of the client's"),
    ];
    let mut label = "client";
    for (health, word, means) in grave {
        let levels = curve.by_load().into_iter().filter(|level| level.client == health);
        let mut at: Vec<f64> = levels.map(|level| level.value).collect();
        at.dedup();
        if !at.is_empty() {
            let text = format!("at {}: {means}", loads(curve.variable, &at));
            page.verdict(std::mem::take(&mut label), word, &text);
        }
    }
}

fn objectives(page: &mut Page, curve: &Curve, envelope: &Envelope) {
    page.words("objectives", &texts(&envelope.objectives));
    let broke = |outside: &Outside| {
        let (broke, at) = (texts(&outside.broke), load(curve.variable, outside.value));
        match outside.slo {
            Held::Fail => format!("at {at} {broke} broke"),
            _ => format!("at {at} it is not known whether {broke} held"),
        }
    };
    let (Some(from), Some(to)) = (envelope.holds_from, envelope.holds_to) else {
        let first = envelope
            .above
            .as_ref()
            .map_or_else(String::new, |lowest| format!("at any level: {} already", broke(lowest)));
        page.verdict("", ("not held", Tone::Bad), &first);
        return;
    };
    let mut parts = vec![range(curve.variable, from, to)];
    parts.extend(envelope.below.as_ref().map(broke));
    parts.push(match &envelope.above {
        Some(above) => broke(above),
        None => "that is the highest level, so they may hold beyond it".into(),
    });
    if !envelope.holds_again.is_empty() {
        parts.push(format!(
            "held again at {}, which is no part of the range",
            loads(curve.variable, &envelope.holds_again)
        ));
    }
    page.verdict("", ("held", Tone::Good), &parts.join("; "));
    if let Some(point) = &envelope.operating_point {
        let at = load(curve.variable, point.value);
        page.words("operate at", &format!("{at}: {}", words::figures(&point.figures)));
    }
}

fn knee(page: &mut Page, curve: &Curve) {
    let at = |value: f64| load(curve.variable, value);
    let knee = &curve.knee;
    let text = match (knee.by_goodput, knee.goodput_still_holds, knee.by_curvature) {
        (None, _, None) => return,
        (Some(good), Some(true), bend) => {
            let bend = bend
                .map_or_else(String::new, |bend| format!("; by curvature it is at {}", at(bend)));
            format!(
                "none by goodput: up to {}, the highest level, at least 95 % of what is served is \
                 good{bend}",
                at(good)
            )
        }
        (Some(good), _, Some(bend)) if good == bend => {
            format!("at {}, by goodput and by curvature", at(good))
        }
        (Some(good), _, Some(bend)) => format!(
            "the two rules differ: by goodput at {} (the last level where at least 95 % of what is \
             served is good), by curvature at {} (where more load begins to cost more latency than \
             it brings throughput)",
            at(good),
            at(bend)
        ),
        (Some(good), _, None) => format!(
            "at {}, by goodput: the last level where at least 95 % of what is served is good",
            at(good)
        ),
        (None, _, Some(bend)) => format!(
            "at {}, by curvature: more load begins to cost more latency than it brings throughput",
            at(bend)
        ),
    };
    page.words("knee", &text);
}

fn past_knee(page: &mut Page, curve: &Curve) {
    let levels = curve.by_load();
    let (Some(past), Some(last)) = (curve.past_knee, levels.last()) else { return };
    let (at, figures) = (load(curve.variable, last.value), &last.figures);
    let (word, tone, text) = match past {
        PastKnee::Sheds => {
            let share = figures.refused_share;
            let share = share
                .map_or_else(String::new, |share| format!(" ({} at {at})", percent(Some(share))));
            let text = format!(
                "it refuses what it cannot serve{share}, the latency of the accepted holds"
            );
            ("sheds:", Tone::Good, text)
        }
        PastKnee::Queues => {
            let ttft = figures.served_ttft_p95.map_or_else(String::new, |ns| {
                format!(" (TTFT p95 of the successful {} at {at})", duration(Some(ns)))
            });
            ("queues:", Tone::Doubtful, format!("throughput holds and latency grows{ttft}"))
        }
        PastKnee::Collapses => (
            "collapses:",
            Tone::Bad,
            format!(
                "throughput falls, from {} requests/s at best to {} at {at}",
                rate(most(&levels)),
                rate(figures.rps)
            ),
        ),
    };
    page.verdict("past knee", (word, tone), &text);
}

fn most(levels: &[&Level]) -> Option<f64> {
    levels.iter().filter_map(|level| level.figures.rps).reduce(f64::max)
}

fn recovery(page: &mut Page, curve: &Curve) {
    let Some(recovery) = &curve.recovery else { return };
    let after = format!(
        "{}, at {}",
        load(curve.variable, recovery.after),
        load(curve.variable, recovery.load)
    );
    match recovery.objectives_held_after_ns {
        Some(ns) => page.words(
            "recovery",
            &format!(
                "the objectives held again {} after the end of an overload of {after}",
                duration(Some(ns))
            ),
        ),
        None => page.verdict(
            "recovery",
            ("not", Tone::Bad),
            &format!(
                "within {} after the end of an overload of {after}: the objectives did not hold again",
                duration(Some(recovery.waited_ns))
            ),
        ),
    }
}
