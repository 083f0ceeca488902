//! Curves with planted figures, for the tests of pages.

use tokclock_engine::measure::curve::{Curve, Figures, Level, Recovery, Repetition, Variable};
use tokclock_engine::measure::{Health, Held, ObjectiveReport, Reason, ReasonKind, Severity};

pub(in super::super) const MS: u64 = 1_000_000;

/// A server that serves 40 requests/s of 128 tokens, as `users` see it.
pub(in super::super) fn served(users: f64) -> Figures {
    let rps = (users * 2.6).min(40.0 + users * 0.01);
    let seconds = (users / rps).max(0.38);
    let ttft = ((seconds - 0.36) * 1e9) as u64;
    Figures {
        rps: Some(rps),
        output_tps: Some(rps * 128.0),
        per_user_tps: Some(128.0 / seconds.max(1.2)),
        ttft_p50: Some(ttft / 2),
        ttft_p95: Some(ttft),
        ttft_p99: Some(ttft * 2),
        itl_p50: Some(9 * MS),
        itl_p95: Some(9 * MS + users as u64 * MS / 10),
        e2e_p50: Some((seconds * 1e9) as u64),
        e2e_p95: Some((seconds * 1.2e9) as u64),
        served_ttft_p50: Some(ttft / 2),
        served_ttft_p95: Some(ttft),
        served_e2e_p50: Some((seconds * 1e9) as u64),
        error_rate: Some(0.0),
        refused_share: Some(0.0),
        ..Figures::default()
    }
}

pub(in super::super) fn objective(text: &str, verdict: Held) -> ObjectiveReport {
    ObjectiveReport {
        text: text.into(),
        metric: "ttft".into(),
        limit_ns: Some(500 * MS),
        value_ns: None,
        at_least_ns: None,
        limit_share: None,
        value_share: None,
        margin: None,
        verdict,
        evidence: None,
    }
}

/// A run with these figures whose only objective came out so.
pub(in super::super) fn run(figures: Figures, text: &str, verdict: Held) -> Repetition {
    Repetition {
        slo: Some(verdict),
        objectives: vec![objective(text, verdict)],
        ..Repetition::of_figures(figures, Health::Valid)
    }
}

pub(in super::super) fn reason(severity: Severity, message: &str) -> Reason {
    Reason {
        kind: ReasonKind::ClientLag,
        severity,
        figure: 2e6,
        threshold: 1e6,
        unit: "ns".into(),
        message: message.into(),
        advice: "give it more cores".into(),
    }
}

/// Twice each of 1 to 128 users; the objective holds up to 64.
pub(in super::super) fn closed() -> Curve {
    let users = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    let level = |users: f64| {
        let first = served(users);
        let mut second = served(users);
        second.rps = second.rps.map(|rps| rps * 1.04);
        second.ttft_p95 = second.ttft_p95.map(|ns| ns + ns / 5);
        let held = if first.ttft_p95 < Some(500 * MS) { Held::Pass } else { Held::Fail };
        Level::of(
            users,
            vec![run(first, "p95(ttft)<500ms", held), run(second, "p95(ttft)<500ms", held)],
        )
    };
    let mut levels: Vec<Level> = users.iter().map(|&users| level(users)).collect();
    levels[6].client = Health::Suspect;
    levels[6].notes = vec![reason(Severity::Suspect, "the client handled bytes 2.000 ms late")];
    levels[7].steady = Some(false);
    let mut curve = Curve::new(Variable::Concurrency, levels, "vllm", None);
    curve.recovery = Some(Recovery {
        after: 128.0,
        load: 16.0,
        limits: vec!["ttft:500".into()],
        objectives_held_after_ns: Some(3_200 * MS),
        waited_ns: 30_000 * MS,
    });
    curve.notes = vec!["level 9 was left out: the server went away".into()];
    curve
}

/// An open loop whose server refuses what it cannot serve from 60 requests/s on.
pub(in super::super) fn open() -> Curve {
    let level = |rate: f64| {
        let rps = rate.min(60.0);
        let refused = 1.0 - rps / rate;
        let mut figures = served(12.0);
        figures.offered_rps = Some(rate * 1.01);
        figures.rps = Some(rps);
        figures.output_tps = Some(rps * 128.0);
        figures.achieved_share = Some(rps / rate);
        figures.goodput_rps = Some(rps * 0.99);
        figures.error_rate = Some(refused);
        figures.refused_share = Some(refused);
        if refused > 0.05 {
            (figures.ttft_p95, figures.itl_p95) = (None, None);
        }
        let verdict = if refused > 0.05 { Held::Fail } else { Held::Pass };
        Level::of(rate, vec![run(figures, "p95(ttft)<500ms", verdict)])
    };
    let levels = [10.0, 20.0, 40.0, 60.0, 80.0, 120.0].map(level).to_vec();
    Curve::new(Variable::Rate, levels, "sglang", None)
}
