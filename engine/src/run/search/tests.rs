//! Searches over made-up services whose boundary is known.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn spec() -> SearchSpec {
    SearchSpec {
        start: 2.0,
        least: 0.01,
        most: 10_000.0,
        whole: false,
        precision: 0.05,
        look_ns: 10 * SECOND,
        longest_ns: 640 * SECOND,
        probes_max: 12,
        tiers: 1,
    }
}

/// `misses` of `samples`, of which 5 % may be.
fn share(misses: u64, samples: u64) -> Option<Evidence> {
    let effective = samples as f64;
    (samples > 0).then_some(Evidence::Share { misses, samples, effective, allowed: 0.05 })
}

/// A service that misses a share of (value / boundary)^8 × 5 %, seen in as many requests as come.
fn noisy(look: Look, boundary: f64, random: &mut Xoshiro256PlusPlus) -> Option<Evidence> {
    let samples = (look.value * look.length_ns as f64 / 1e9).round() as u64;
    let chance = (0.05 * (look.value / boundary).powi(8)).min(1.0);
    let misses = (0..samples).filter(|_| random.random::<f64>() < chance).count() as u64;
    share(misses, samples)
}

/// A service without chance.
fn sharp(value: f64, boundary: f64) -> Option<Evidence> {
    share(if value < boundary { 0 } else { 500 }, 1000)
}

fn search(spec: SearchSpec, mut server: impl FnMut(Look) -> Vec<Vec<Option<Evidence>>>) -> Search {
    let mut search = Search::new(spec);
    for _ in 0..200 {
        let Some(look) = search.next() else { return search };
        let seen = server(look);
        search.saw(look.value, look.length_ns, seen, false);
    }
    panic!("the search does not end: {:?}", search.probes());
}

#[test]
fn a_sharp_boundary_is_found_to_the_precision() {
    for boundary in [0.7, 3.3, 47.0, 999.0] {
        let spec = SearchSpec { probes_max: 14, ..spec() };
        let done = search(spec, |look| vec![vec![sharp(look.value, boundary)]]);
        let got = done.boundary(0);
        let (low, high) = (got.low.unwrap(), got.high.unwrap());
        assert!(low < boundary && boundary <= high && got.is_precise, "{boundary}: {got:?}");
        assert!(high / low <= 1.0501);
        // Doublings to get past it, then halvings of that step.
        let doublings = (boundary / 2.0).log2().abs().ceil() as usize + 1;
        assert!(done.probes().len() <= doublings + 4, "{boundary}: {}", done.probes().len());
    }
}

#[test]
fn noise_makes_a_search_slower_and_not_wrong() {
    let (mut holds, mut close, mut probes) = (0, 0, 0);
    for seed in 0..100 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let boundary = 31.0 + seed as f64 / 3.0;
        let done = search(spec(), |look| vec![vec![noisy(look, boundary, &mut random)]]);
        let got = done.boundary(0);
        let holds_it = got.low.is_none_or(|low| low <= boundary)
            && got.high.is_none_or(|high| boundary <= high);
        holds += u32::from(holds_it && got.low.is_some() && got.high.is_some());
        close += u32::from((got.estimate.unwrap() / boundary - 1.0).abs() < 0.05);
        probes = probes.max(done.probes().len());
    }
    assert!(holds >= 90 && close >= 90, "{holds} hold it, {close} are close");
    assert!(probes <= 12, "{probes}");
}

#[test]
fn a_load_is_looked_at_longer_until_it_is_sure() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let done = search(spec(), |look| vec![vec![noisy(look, 40.0, &mut random)]]);
    let longest = done.probes().iter().max_by_key(|probe| probe.looks).unwrap();
    assert!(longest.looks > 1 && longest.length_ns > 10 * SECOND);
    assert!((longest.value / 40.0 - 1.0).abs() < 0.2, "near the boundary: {}", longest.value);
    let far = done.probes().iter().filter(|probe| probe.value < 20.0 || probe.value > 80.0);
    assert!(far.clone().count() > 0 && far.clone().all(|probe| probe.looks == 1));
}

#[test]
fn users_are_whole_and_their_boundary_lies_between_two_neighbours() {
    let whole = SearchSpec { whole: true, start: 1.0, least: 1.0, ..spec() };
    let done = search(whole, |look| vec![vec![sharp(look.value, 11.5)]]);
    assert!(done.probes().iter().all(|probe| probe.value.fract() == 0.0));
    assert_eq!((done.boundary(0).low, done.boundary(0).high), (Some(11.0), Some(12.0)));
    assert!(done.boundary(0).is_precise);
}

#[test]
fn a_service_that_never_holds_or_never_breaks_has_one_end() {
    let never = search(SearchSpec { least: 0.5, ..spec() }, |_| vec![vec![share(900, 1000)]]);
    assert_eq!((never.boundary(0).low, never.boundary(0).high), (None, Some(0.5)));
    let always = search(SearchSpec { most: 100.0, ..spec() }, |_| vec![vec![share(0, 1000)]]);
    assert_eq!((always.boundary(0).low, always.boundary(0).high), (Some(100.0), None));
    assert_eq!(always.boundary(0).estimate, None);
}

#[test]
fn above_a_load_that_the_client_cannot_carry_nothing_is_tried() {
    let mut search = Search::new(spec());
    while let Some(look) = search.next() {
        let is_invalid = look.value >= 20.0;
        search.saw(look.value, look.length_ns, vec![vec![share(0, 1000)]], is_invalid);
    }
    let got = search.boundary(0);
    assert_eq!((got.high, got.estimate), (None, None), "it is not the server that broke");
    assert!(got.low.unwrap() < 20.0 && got.low.unwrap() > 15.0, "{got:?}");
}

#[test]
fn a_look_at_which_the_client_failed_takes_nothing_from_those_before() {
    let mut search = Search::new(spec());
    search.saw(5.0, SECOND, vec![vec![share(0, 1000)]], false);
    search.saw(5.0, SECOND, vec![vec![share(900, 1000)]], true);
    let probe = search.at(5.0).unwrap();
    assert_eq!((probe.verdict(0), probe.looks, probe.is_invalid), (Decision::Pass, 2, false));
    search.saw(9.0, SECOND, vec![vec![share(900, 1000)]], true);
    search.saw(9.0, SECOND, vec![vec![share(0, 1000)]], false);
    assert_eq!(search.boundary(0).low, Some(9.0), "a good look makes up for it");
}

#[test]
fn tiers_share_what_was_seen() {
    let two = SearchSpec { tiers: 2, probes_max: 40, ..spec() };
    let both = |look: Look| vec![vec![sharp(look.value, 47.0)], vec![sharp(look.value, 21.0)]];
    let done = search(two, both);
    let alone = |boundary: f64| {
        let one = SearchSpec { probes_max: 40, ..spec() };
        search(one, |look| vec![vec![sharp(look.value, boundary)]]).probes().len()
    };
    assert!(done.boundary(0).is_precise && done.boundary(1).is_precise);
    assert!(done.boundary(1).high.unwrap() <= 22.1);
    assert!(done.probes().len() < alone(47.0) + alone(21.0) - 3, "{}", done.probes().len());
}

#[test]
fn a_server_that_changes_its_mind_is_told() {
    let mut search = Search::new(spec());
    for (value, misses) in [(10.0, 0), (20.0, 800), (40.0, 0)] {
        search.saw(value, SECOND, vec![vec![share(misses, 1000)]], false);
    }
    let got = search.boundary(0);
    assert_eq!((got.low, got.high, got.is_contradicted), (Some(10.0), Some(20.0), true));
}

#[test]
fn the_objective_that_broke_is_named() {
    let mut search = Search::new(SearchSpec { tiers: 1, ..spec() });
    let seen = vec![vec![share(0, 1000), share(8, 100), share(900, 1000)]];
    search.saw(5.0, SECOND, seen, false);
    assert_eq!(search.probes()[0].broken(0), [2, 1], "the surely broken first");
}

#[test]
fn a_look_without_a_sample_is_had_again() {
    let mut search = Search::new(spec());
    let look = search.next().unwrap();
    search.saw(look.value, look.length_ns, vec![vec![None]], false);
    let again = search.next().unwrap();
    assert_eq!((again.value, again.number), (look.value, 2));
}

#[test]
fn where_no_new_load_may_be_tried_the_ones_that_were_are_looked_at_longer() {
    // Around a boundary at 40 nothing can be decided; 20 needs a second look.
    let mut search = Search::new(SearchSpec { probes_max: 4, ..spec() });
    let (few, many) = (SECOND, 640 * SECOND);
    search.saw(20.0, few, vec![vec![share(0, 80)]], false);
    search.saw(39.5, many, vec![vec![share(190, 4000)]], false);
    search.saw(40.5, many, vec![vec![share(210, 4000)]], false);
    search.saw(60.0, few, vec![vec![share(900, 1000)]], false);
    assert_eq!((search.boundary(0).low, search.boundary(0).high), (None, Some(60.0)));
    let next = search.next().unwrap();
    assert_eq!((next.value, next.number), (20.0, 2));
    search.saw(20.0, few, vec![vec![share(0, 200)]], false);
    assert_eq!(search.boundary(0).low, Some(20.0));
    assert_eq!(search.next(), None);
}

#[test]
fn a_load_that_was_tried_about_a_step_out_stands_for_a_new_one() {
    let mut search = Search::new(spec());
    let many = 640 * SECOND;
    search.saw(37.0, SECOND, vec![vec![share(0, 80)]], false);
    search.saw(39.5, many, vec![vec![share(190, 4000)]], false);
    search.saw(40.5, many, vec![vec![share(900, 4000)]], false);
    let next = search.next().unwrap();
    assert_eq!((next.value, next.number), (37.0, 2), "a step down from 39.5 is 37.6");
}

#[test]
fn an_end_is_looked_at_longer_though_a_load_close_to_it_is_sure() {
    let whole = SearchSpec { whole: true, start: 1.0, least: 1.0, ..spec() };
    let mut search = Search::new(whole);
    let seen = [(33.0, share(4, 1000)), (34.0, share(26, 600)), (35.0, share(130, 1000))];
    for (value, evidence) in seen {
        search.saw(value, 10 * SECOND, vec![vec![evidence]], false);
    }
    assert_eq!((search.boundary(0).low, search.boundary(0).high), (Some(33.0), Some(35.0)));
    let next = search.next().unwrap();
    assert_eq!((next.value, next.number), (34.0, 2));
}
