//! What the presets do below and past their limits, and the limits themselves.

use super::ServingSettings;
use super::open_loop::{Seen, run};

/// Requests of one run; at the limits of the presets about a minute's.
const REQUESTS: usize = 4_000;

const MS: u64 = 1_000_000;

/// A preset at 0.7, 1.5 and 2 times its limit, with some seeds, and that limit in requests per
/// second.
fn at_three_loads(name: &str) -> (Vec<[Seen; 3]>, f64) {
    let settings = ServingSettings::preset(name).unwrap();
    let limit = settings.capacity_rps(128, 32);
    let at = |load, seed| run(&settings, load * limit, REQUESTS, seed);
    ((1..5).map(|seed| [0.7, 1.5, 2.0].map(|load| at(load, seed))).collect(), limit)
}

/// Below the limit all presets keep up, without refusals to speak of, and answer soon.
fn assert_keeps_up(below: &Seen, limit: f64) {
    assert!((0.65..0.75).contains(&(below.rps / limit)), "{below:?}");
    assert!(below.refused < 0.02, "{below:?}");
    assert!(below.ttft_ns.iter().all(|ttft| *ttft < 80 * MS), "{below:?}");
    assert!(below.itl_ns < 40 * MS, "{below:?}");
}

/// Each run past the limit, beside the one below with the same seed.
fn past_limit(runs: &[[Seen; 3]]) -> impl Iterator<Item = (&Seen, &Seen)> {
    runs.iter().flat_map(|[below, past, far]| [(below, past), (below, far)])
}

#[test]
fn queue_holds_its_throughput_while_latency_grows() {
    let (runs, limit) = at_three_loads("queue");
    for [below, past, far] in &runs {
        assert_keeps_up(below, limit);
        assert!(far.ttft_ns[1] > past.ttft_ns[1]);
    }
    for (below, seen) in past_limit(&runs) {
        assert!((0.97..1.03).contains(&(seen.rps / limit)), "{seen:?}");
        assert_eq!((seen.refused, seen.preemptions), (0.0, 0));
        // It grows with the load's time, without bound.
        assert!(seen.ttft_ns[0] > 20 * below.ttft_ns[0], "{seen:?}");
        assert!(2 * seen.ttft_ns[1] > 3 * seen.ttft_ns[0], "{seen:?}");
    }
}

#[test]
fn shed_refuses_and_the_accepted_are_served_as_before() {
    let (runs, limit) = at_three_loads("shed");
    for [below, past, far] in &runs {
        assert_keeps_up(below, limit);
        for (seen, load) in [(past, 1.5), (far, 2.0)] {
            // What is beyond the limit, and a little more: places are not always taken at once.
            let beyond: f64 = 1.0 - 1.0 / load;
            assert!((seen.refused - beyond).abs() < 0.06, "{seen:?}");
        }
    }
    for (below, seen) in past_limit(&runs) {
        assert!(seen.rps > 0.9 * limit && seen.rps < 1.03 * limit, "{seen:?}");
        assert!(seen.ttft_ns.iter().all(|ttft| *ttft < 2 * below.ttft_ns[0]), "{seen:?}");
        assert!(2 * seen.itl_ns < 3 * below.itl_ns, "{seen:?}");
    }
}

#[test]
fn collapse_loses_throughput_to_recomputation() {
    let (runs, limit) = at_three_loads("collapse");
    runs.iter().for_each(|[below, ..]| assert_keeps_up(below, limit));
    for (below, seen) in past_limit(&runs) {
        // Less than the half of its limit, and far less than it did below it.
        assert!(seen.rps < 0.5 * limit && seen.rps < 0.75 * below.rps, "{seen:?}");
        // That of each request is computed once more on the average.
        assert!(seen.preemptions > REQUESTS as u64, "{seen:?}");
        assert!(seen.ttft_ns[1] > 100 * below.ttft_ns[1], "{seen:?}");
    }
}

#[test]
fn the_presets_have_their_limits_about_the_same_place() {
    let limits = ServingSettings::PRESETS
        .map(|name| ServingSettings::preset(name).unwrap().capacity_rps(128, 32));
    assert!(limits.iter().all(|limit| (40.0..80.0).contains(limit)), "{limits:?}");
    assert_eq!(limits[0], limits[1]);
}

/// Requests of one length, so many always there.
fn saturated_rps(settings: &ServingSettings, input: u32, output: u32) -> f64 {
    let mut serving = super::Serving::new(settings);
    let mut next = 0;
    let mut done = Vec::new();
    let mut over = 0;
    for _ in 0..settings.max_batch * 2 {
        serving.arrive(0, next, input, output);
        next += 1;
    }
    while done.len() < 2_000 {
        let end_ns = serving.next_ns().unwrap();
        serving.advance(end_ns, &mut |token| {
            if token.is_last {
                done.push(token.at_ns);
                over += 1;
            }
        });
        for _ in 0..std::mem::take(&mut over) {
            serving.arrive(end_ns, next, input, output);
            next += 1;
        }
    }
    let from = done.len() / 2;
    (done.len() - 1 - from) as f64 * 1e9 / (done[done.len() - 1] - done[from]) as f64
}

#[test]
fn the_capacity_in_closed_form_is_that_of_a_saturated_engine() {
    let base = ServingSettings::default();
    let tight = ServingSettings { kv_tokens: 2_000, ..base };
    let free = ServingSettings { step_per_request_ns: 0, max_batch: 7, ..base };
    for (settings, input, output) in [
        (&base, 128, 32),
        (&base, 16, 200),
        (&base, 700, 20),
        (&base, 3_000, 10),
        (&base, 64, 1),
        (&tight, 128, 32),
        (&free, 100, 64),
    ] {
        let (seen, said) =
            (saturated_rps(settings, input, output), settings.capacity_rps(input, output));
        assert!((seen / said - 1.0).abs() < 0.03, "{input}/{output}: {seen}, not {said}");
    }
    // Decoding alone, nearly: a prompt of one token for a long output.
    let tps = saturated_rps(&base, 1, 2_000) * 2_000.0;
    assert!((tps / base.decode_tps().unwrap() - 1.0).abs() < 0.03, "{tps}");
}
