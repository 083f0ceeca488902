//! Curves of the serving model in simulated time: the knee lies where it was computed, the presets are
//! told apart by what they do past it, and a window says how steady it was.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "what other tests need of it")]
mod model;

use model::{Load, Point, SECOND, drive, in_parallel, mixed, simulate};
use tokclock_engine::measure::curve::{Curve, Level, PastKnee, Repetition, Variable};
use tokclock_engine::measure::{Held, Steadiness};
use tokclock_engine::run::ladder::{Ladder, Levels, Seen, geometric};
use tokclock_sim::serving::ServingSettings;

/// The objective of the knee, and its limit in ns.
const SLO: &str = "p95(ttft)<200ms";
const LIMIT_NS: u64 = 200_000_000;
/// From one level to the next.
const STEP: f64 = 1.25;

fn preset(name: &str) -> (ServingSettings, f64) {
    let settings = ServingSettings::preset(name).unwrap();
    let capacity = settings.capacity_rps(128, 32);
    (settings, capacity)
}

/// The curve of these rates, each seen once, for so many seconds.
fn curve(
    settings: &ServingSettings,
    rates: &[f64],
    slo: &[&str],
    (seed, seconds): (u64, u64),
) -> Curve {
    let level = |at: u64| {
        let rate = rates[at as usize];
        let point = Point::new(settings, Load::Rate(rate), slo);
        let point = Point { seed: mixed(seed, at) >> 11, window_ns: seconds * SECOND, ..point };
        Level::of(rate, vec![Repetition::of(&simulate(&point))])
    };
    let levels = in_parallel(0..rates.len() as u64, level);
    Curve::new(Variable::Rate, levels, "model", None)
}

/// Whether two levels of a ladder are neighbours, or one.
fn within_a_step(one: f64, other: f64) -> bool {
    (one / other).ln().abs() <= STEP.ln() * 1.01
}

/// The share of requests that kept the limit, over ten times as long.
fn good_share(settings: &ServingSettings, rate: f64) -> f64 {
    let point = Point::new(settings, Load::Rate(rate), &[]);
    let point = Point { window_ns: 200 * SECOND, seed: 5, ..point };
    let answers = drive(&point).answers;
    let good = answers.iter().filter(|one| one.first.saturating_sub(one.arrived) <= LIMIT_NS);
    good.count() as f64 / answers.len() as f64
}

/// No socket and no driver has a part in these: `.ci/run` leaves them out when it runs all others on
/// epoll.
mod simulated {
    use super::*;

    #[test]
    fn the_knee_lies_within_a_level_of_the_computed_one() {
        let (queue, capacity) = preset("queue");
        let rates = geometric(capacity * 0.3, capacity * 1.5, STEP, false);
        let holds = |rate: &&f64| **rate < capacity && good_share(&queue, **rate) >= 0.95;
        let by_limits = *rates.iter().take_while(holds).last().unwrap();
        let plain = *rates.iter().rfind(|rate| **rate < capacity).unwrap();
        for seed in 0..2 {
            let got = curve(&queue, &rates, &[SLO], (seed, 20));
            let knee = got.knee.by_goodput.unwrap();
            assert!(within_a_step(knee, by_limits), "{knee}, and {by_limits} was computed");
            assert_eq!(got.knee.goodput_still_holds, Some(false));
            let bend = got.knee.by_curvature.unwrap();
            assert!(within_a_step(bend, plain), "{bend}, and the last below capacity is {plain}");
            let envelope = got.envelope.unwrap();
            assert!(within_a_step(envelope.holds_to.unwrap(), by_limits), "{envelope:?}");
            assert_eq!(envelope.above.unwrap().slo, Held::Fail);
        }
    }

    #[test]
    fn a_ladder_that_climbs_by_itself_ends_past_capacity_and_sees_the_knee() {
        let (queue, capacity) = preset("queue");
        let ladder = Ladder {
            levels: Levels::Auto { start: capacity / 14.0, most: 1e6 },
            whole: false,
            overload: true,
            keep_going: false,
        };
        let (mut levels, mut knee) = (Vec::<Level>::new(), None);
        let seen = |curve: &Curve| {
            let is_hopeless =
                |level: &Level| level.figures.achieved_share.is_some_and(|it| it < 0.5);
            let seen = |level: &Level| Seen {
                value: level.value,
                is_saturated: level.saturated == Some(true),
                is_hopeless: is_hopeless(level),
            };
            curve.levels.iter().map(seen).collect::<Vec<_>>()
        };
        let mut so_far = Vec::new();
        while let Some(rate) = ladder.next(&so_far, knee) {
            levels.extend(curve(&queue, &[rate], &[], (rate.to_bits(), 12)).levels);
            let got = Curve::new(Variable::Rate, levels.clone(), "model", None);
            (so_far, knee) = (seen(&got), got.knee.best());
            assert!(levels.len() < 12, "{so_far:?}");
        }
        let saturated = so_far.iter().filter(|one| one.is_saturated).map(|one| one.value);
        let first = saturated.fold(f64::INFINITY, f64::min);
        assert!((0.95..2.0).contains(&(first / capacity)), "{first} of {capacity}");
        assert!((0.5..1.4).contains(&(knee.unwrap() / capacity)), "{knee:?} of {capacity}");
    }

    #[test]
    fn what_a_service_does_past_its_knee_is_told_apart() {
        let all = [
            ("queue", PastKnee::Queues),
            ("shed", PastKnee::Sheds),
            ("collapse", PastKnee::Collapses),
        ];
        for (name, expected) in all {
            let (settings, capacity) = preset(name);
            let rates = [0.5, 0.7, 1.0, 1.4, 2.0].map(|factor| factor * capacity);
            for (seed, slo) in [(1, &[][..]), (2, &[SLO][..])] {
                let got = curve(&settings, &rates, slo, (seed, 12));
                assert_eq!(got.past_knee, Some(expected), "{name}: {:?}", got.knee);
                let last = got.by_load().last().unwrap().saturated;
                assert_eq!(last, Some(true), "{name}");
            }
        }
    }

    /// What the bins of a window say at this share of capacity, with so much added to early answers.
    fn steadiness(factor: f64, window_s: u64, late: fn(u64) -> u64) -> Vec<Steadiness> {
        let (queue, output) = (preset("queue").0, 8);
        let rate = factor * queue.capacity_rps(128, output);
        in_parallel(0..8, |seed| {
            let point = Point::new(&queue, Load::Rate(rate), &[]);
            let point = Point { output: (output, output), ..point };
            let window_ns = window_s * SECOND;
            simulate(&Point { late, window_ns, seed: mixed(seed, 3) >> 11, warmup_ns: 0, ..point })
                .steadiness
        })
    }

    fn count(all: &[Steadiness], test: impl Fn(&Steadiness) -> bool) -> usize {
        all.iter().filter(|one| test(one)).count()
    }

    #[test]
    fn a_slow_start_is_cut_and_a_quick_one_is_not() {
        // 1 s at first, 80 ms after 5 s: a deviation of what is seen anyway; 7 ms after 10 s.
        let cold = |at: u64| (1e9 * (-(at as f64) / 2e9).exp()) as u64;
        let got = steadiness(0.5, 30, cold);
        let covered = |one: &Steadiness| {
            one.transient_ns.is_some_and(|ns| (5 * SECOND..15 * SECOND).contains(&ns))
        };
        assert!(count(&got, covered) >= 7, "{got:?}");
        assert!(count(&got, |one| one.rising == Some(false)) >= 7, "{got:?}");
        let quick = steadiness(0.5, 30, |_| 0);
        let short = |one: &Steadiness| one.transient_ns.is_some_and(|ns| ns < 5 * SECOND);
        assert!(count(&quick, short) >= 7, "{quick:?}");
        assert!(count(&quick, |one| one.is_steady == Some(true)) >= 7, "{quick:?}");
    }

    #[test]
    fn a_service_that_falls_behind_rises_and_one_that_keeps_up_does_not() {
        let behind = steadiness(1.3, 20, |_| 0);
        assert_eq!(count(&behind, |one| one.rising == Some(true)), 8, "{behind:?}");
        assert_eq!(count(&behind, |one| one.is_steady == Some(false)), 8, "{behind:?}");
        let well = steadiness(0.7, 20, |_| 0);
        assert!(count(&well, |one| one.rising == Some(false)) >= 7, "{well:?}");
    }
}
