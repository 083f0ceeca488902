//! Whole curves.

use proptest::prelude::*;

use super::planted::{MS, figures, judged, level};
use super::*;
use crate::measure::rows::{closed, facts_of, failed, open, row_at};
use crate::measure::{Health, Held, Summary, summarize};
use crate::record::{ErrorClass, Row};
use crate::workload::{Aim, Metric, Objective, Percentile};

/// Eight answers, a refusal and a reset in 10 s; TTFT 100 ms, or `last_ms` for the last one.
fn run(last_ms: u64) -> Summary {
    let first = |i: u64| if i == 7 { last_ms } else { 100 };
    let times: Vec<[u64; 2]> =
        (0..8).map(|i| [i * 1000 + first(i), i * 1000 + first(i) + 20]).collect();
    let mut rows: Vec<Row> =
        times.iter().zip(0..).map(|(times, i)| row_at(i, i * 1000, i * 1000, times)).collect();
    rows.push(failed(8, ErrorClass::RateLimited, 8000, 8001));
    rows.push(failed(9, ErrorClass::ConnReset, 9000, 9001));
    let mut workload = open(1.0);
    workload.objectives.slo = vec![Objective {
        text: "p50(ttft)<200ms".into(),
        aim: Aim::Latency {
            percentile: Percentile::Quantile(0.5),
            metric: Metric::Ttft,
            limit_ns: 200 * MS,
        },
        inclusive: false,
    }];
    let tokens: Vec<&[u64]> = times.iter().map(|times| times.as_slice()).collect();
    let mut facts = facts_of(10_000, &tokens);
    facts.tallies[0].in_flight_max = 3;
    summarize(&workload, &facts, rows)
}

fn of_summaries(value: f64, summaries: &[&Summary]) -> Level {
    let one = |summary: &&Summary| Repetition::of(summary).with_dir("levels/01");
    Level::of(value, summaries.iter().map(one).collect())
}

#[test]
fn a_level_takes_its_figures_from_the_summaries() {
    let (a, b) = (run(100), run(300));
    let one = of_summaries(1.0, &[&a]);
    assert_eq!((one.figures.offered_rps, one.figures.rps), (Some(1.0), Some(0.8)));
    assert_eq!(one.figures.output_tps, Some(1.6));
    assert_eq!((one.figures.error_rate, one.figures.refused_share), (Some(0.2), Some(0.1)));
    assert_eq!((one.figures.ttft_p50, one.figures.ttft_p95), (Some(100 * MS), None));
    assert_eq!(one.figures.served_ttft_p95, Some(100 * MS));
    assert_eq!(one.figures.per_user_tps, Some(50.0));
    assert_eq!((one.figures.in_flight_max, one.figures.goodput_rps), (Some(3), Some(0.8)));
    assert_eq!((one.slo, one.client, one.steady), (Some(Held::Pass), Health::Valid, Some(true)));
    assert_eq!(one.figures.ci95.ttft_p50, a.judged.ttft.ci95.p50);
    assert_eq!(one.spread, None);

    let both = of_summaries(1.0, &[&a, &b]);
    assert_eq!(both.figures.served_ttft_p95, Some(200 * MS), "the mean of 100 and 300");
    let spread = both.spread.unwrap();
    assert_eq!(spread.rps, Some([0.8, 0.8]));
    assert_eq!(spread.ttft_p95, [None, None], "both lie among failures");
    assert_eq!(both.repetitions.len(), 2);
    assert_eq!(both.repetitions[1].objectives[0].text, "p50(ttft)<200ms");
}

#[test]
fn the_spread_reaches_from_the_smallest_to_the_largest() {
    let at = |rps, ttft| Repetition::of_figures(figures(rps, ttft, 1000), Health::Valid);
    let mut unbounded = at(3.0, 1);
    unbounded.figures.ttft_p95 = None;
    let got = Level::of(1.0, vec![at(2.0, 80), at(4.0, 60), unbounded]).spread.unwrap();
    assert_eq!(got.rps, Some([2.0, 4.0]));
    assert_eq!(got.ttft_p95, [Some(60 * MS), None]);
    assert_eq!(got.e2e_p95, [None, None]);
    assert_eq!(got.goodput_rps, None);
}

#[test]
fn a_level_is_as_good_as_its_repetitions_together() {
    let of = |verdicts: &[Held]| {
        Level::of(1.0, verdicts.iter().map(|&verdict| judged(verdict)).collect()).slo
    };
    use Held::{Fail, Pass, Unknown};
    assert_eq!(of(&[Pass, Pass]), Some(Pass));
    assert_eq!(of(&[Pass, Unknown]), Some(Unknown));
    assert_eq!(of(&[Unknown, Fail, Pass]), Some(Fail));
    assert_eq!(of(&[]), None);

    let told = |told: &[(Option<bool>, Option<bool>)]| {
        let one = |&(steady, rising): &(Option<bool>, Option<bool>)| Repetition {
            steady,
            rising,
            ..judged(Pass)
        };
        let level = Level::of(1.0, told.iter().map(one).collect());
        (level.steady, level.rising)
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(told(&[(yes, no), (yes, yes)]), (yes, no), "half is not more than half");
    assert_eq!(told(&[(yes, yes), (no, yes), (None, no)]), (no, yes));
    assert_eq!(told(&[(yes, None), (None, None)]), (None, None));

    let mut suspect = judged(Pass);
    suspect.client = Health::Suspect;
    assert_eq!(Level::of(1.0, vec![judged(Pass), suspect]).client, Health::Suspect);
}

#[test]
fn a_closed_loop_curve_is_marked_and_read() {
    // One server of 100 per second and 10 ms each: N users see max(N, 1) · 10 ms.
    let at = |users: f64| {
        level(users, figures(100.0 * users.min(4.0) / 4.0, 10, (users.max(4.0) * 10.0) as u64))
    };
    let levels: Vec<Level> = [1.0, 2.0, 4.0, 8.0, 16.0].map(at).into();
    let got = Curve::new(Variable::Concurrency, levels, "night", Some(2));
    let marks: Vec<_> = got.levels.iter().map(|level| level.saturated).collect();
    assert_eq!(marks, [None, Some(false), Some(false), Some(true), Some(true)]);
    assert_eq!((got.knee.by_goodput, got.knee.by_curvature), (None, Some(4.0)));
    assert_eq!((got.past_knee, got.envelope), (Some(PastKnee::Queues), None));
    assert_eq!((got.pareto.len(), got.pareto[4].output_tps_per_gpu), (5, Some(500.0)));
}

#[test]
fn a_curve_has_the_names_of_its_schema_and_survives_being_read() {
    let repeated = of_summaries(2.0, &[&run(100), &run(300)]);
    let single = of_summaries(1.0, &[&run(100)]);
    let mut curve = Curve::new(Variable::Rate, vec![single, repeated], "night", None);
    curve.recovery = Some(Recovery {
        after: 4.0,
        load: 2.0,
        objectives_held_after_ns: Some(7),
        waited_ns: 9,
        limits: vec!["ttft:5".into()],
    });
    let json = serde_json::to_value(&curve).unwrap();
    assert_eq!((&json["schema"], &json["variable"]), (&"tokclock.curve/1".into(), &"rate".into()));
    for path in [
        "/levels/0/value",
        "/levels/0/dir",
        "/levels/0/offered_rps",
        "/levels/0/rps",
        "/levels/0/output_tps",
        "/levels/0/goodput_rps",
        "/levels/0/ttft_p95",
        "/levels/0/itl_p95",
        "/levels/0/slo",
        "/levels/0/saturated",
        "/levels/0/ci95/ttft_p50/0",
        "/levels/1/spread/ttft_p95/0",
        "/levels/1/repetitions/1/rps",
        "/knee/by_goodput",
        "/knee/by_curvature",
        "/past_knee",
        "/pareto/0/dominated_by_ttft",
        "/envelope/operating_point/value",
        "/envelope/operating_point/rps",
        "/envelope/holds_from",
        "/envelope/holds_to",
        "/envelope/objectives/0",
        "/recovery/waited_ns",
    ] {
        assert!(json.pointer(path).is_some(), "{path}");
    }
    assert_eq!(json["levels"][0]["dir"], "levels/01");
    assert_eq!(serde_json::from_value::<Curve>(json).unwrap(), curve);
}

#[test]
fn a_curve_without_anything_has_no_number_that_is_none() {
    let nothing = Curve::new(Variable::Rate, Vec::new(), "a", None);
    assert_eq!((nothing.knee, nothing.past_knee), (Knee::default(), None));
    let dead = of_summaries(0.0, &[&summarize(&closed(0), &facts_of(0, &[]), [])]);
    let got = Curve::new(Variable::Concurrency, vec![dead.clone(), dead], "a", Some(0));
    let shown = format!("{got:?}");
    assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
}

prop_compose! {
    fn any_level()(
        value in 0u32..6, verdict in 0..3,
        rates in prop::array::uniform4(prop::option::of(0.0f64..1e12)),
        times in prop::array::uniform4(prop::option::of(prop_oneof![0..=u64::MAX, Just(0), 0..9u64])),
        rising: Option<bool>, repetitions in 0usize..4,
    ) -> Level {
        let mut one = judged([Held::Pass, Held::Fail, Held::Unknown][verdict as usize]);
        one.rising = rising;
        one.figures = Figures {
            rps: rates[0],
            goodput_rps: rates[1],
            output_tps: rates[2],
            refused_share: rates[3],
            achieved_share: rates[3],
            ttft_p50: times[0],
            served_ttft_p95: times[1],
            served_ttft_p50: times[2],
            served_e2e_p50: times[3],
            ..Figures::default()
        };
        Level::of(f64::from(value), vec![one; repetitions])
    }
}

proptest! {
    #[test]
    fn no_levels_can_make_a_number_that_is_none(
        levels in prop::collection::vec(any_level(), 0..9), is_open: bool, gpus: Option<u32>,
    ) {
        let variable = if is_open { Variable::Rate } else { Variable::Concurrency };
        let got = Curve::new(variable, levels, "a", gpus);
        let shown = format!("{got:?}");
        prop_assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
        let loads: Vec<f64> = got.by_load().iter().map(|level| level.value).collect();
        for knee in [got.knee.by_goodput, got.knee.by_curvature].into_iter().flatten() {
            prop_assert!(loads.contains(&knee), "a knee is a level on the way");
        }
        if let Some(envelope) = &got.envelope {
            prop_assert!(envelope.holds_from <= envelope.holds_to);
            let inside = |load: f64| Some(load) >= envelope.holds_from && Some(load) <= envelope.holds_to;
            let held = got.by_load().iter().filter(|level| inside(level.value)).all(|l| l.held());
            prop_assert!(held || envelope.holds_to.is_none());
        }
        let text = serde_json::to_string(&got).unwrap();
        prop_assert!(serde_json::from_str::<Curve>(&text).is_ok());
    }
}
