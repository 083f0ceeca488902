//! How often the comparison is right: runs of the same thing, and planted differences.

use super::*;
use crate::measure::noise::noise;
use crate::workload::Metric;

/// Requests of a run.
const REQUESTS: usize = 600;

/// What a run of made-up requests shows.
#[derive(Clone, Copy)]
struct Law {
    requests: usize,
    /// Deviation of the logarithm of TTFT, and how much of it a request takes over from the one before.
    sigma: f64,
    carry: f64,
    /// All latencies are so many times as long.
    factor: f64,
}

const PLAIN: Law = Law { requests: REQUESTS, sigma: 0.25, carry: 0.3, factor: 1.0 };

/// Requests whose TTFT and TPOT have logarithms with normal noise, dependent in order of origin: 200 ms
/// and 10 ms at the median, 64 tokens; one in a hundred fails; ten arrive per second.
fn run(law: Law, seed: u64) -> Observed {
    let Law { requests, sigma, carry, factor } = law;
    let (ttft, tpot) = (noise(seed * 3, requests, carry), noise(seed * 3 + 1, requests, carry));
    let other = noise(seed * 3 + 2, requests, 0.0);
    let ns = |middle: f64, sigma: f64, noise: f64| (middle * factor * (sigma * noise).exp()) as u64;
    let mut observed = Observed::default();
    let (mut first, mut second, mut each, mut whole) = (vec![], vec![], vec![], vec![]);
    let (mut served, mut failed) = (vec![], vec![]);
    for at in 0..requests {
        let (ttft, tpot) = (ns(2e8, sigma, ttft[at]), ns(1e7, sigma / 3.0, tpot[at]));
        failed.push(other[at] > 2.326);
        if other[at] > 2.326 {
            continue;
        }
        let origin = at as u64 * 100_000_000;
        first.push(ttft);
        second.push(ns(1e7, sigma, other[at]));
        each.push(tpot);
        whole.push(ttft + 63 * tpot);
        observed.decodes.push(Decode { ns: 63 * tpot, gaps: 63, tokens: 63 });
        let (begin, end) = (origin + ttft, origin + ttft + 63 * tpot);
        served.push(Served { first: begin, last: end, done: end, tokens: 64.0 });
    }
    observed.series = vec![
        (Metric::Ttft, first),
        (Metric::Ttst, second),
        (Metric::Tpot, each),
        (Metric::E2e, whole),
    ];
    let rate = Throughput { rps: Some(10.0), output_tps: Some(640.0), ..Throughput::default() };
    observed.rate = rate.spread(&served, 0, requests as u64 * 100_000_000);
    observed.failed = Some(Share::of(&failed));
    observed
}

/// How often of `rounds` two sides of so many runs are said to differ so.
fn said(rounds: u64, each: u64, base: Law, other: Law, wanted: Overall) -> u64 {
    let asked = Quantity::all(&METRICS);
    let round = |round: u64| {
        let side = |law: Law, half: u64| -> Vec<Observed> {
            (0..each).map(|one| run(law, ((round * 2 + half) * each) + one)).collect()
        };
        let plan = Plan { level: 0.99, seed: round };
        let mut all = differences(&side(base, 0), &side(other, 1), &asked, &plan);
        settle(&mut all, plan.level);
        overall(&all) == wanted
    };
    (0..rounds).filter(|&at| round(at)).count() as u64
}

#[test]
fn two_runs_of_the_same_thing_do_not_differ() {
    let right = said(100, 1, PLAIN, PLAIN, Overall::NoDifference);
    assert!(right >= 95, "{right}");
}

#[test]
fn nor_do_runs_whose_requests_follow_each_other_closely() {
    // As much as 9 requests say as little as one.
    let close = Law { carry: 0.8, ..PLAIN };
    let right = said(100, 1, close, close, Overall::NoDifference);
    assert!(right >= 95, "{right}");
}

#[test]
fn nor_do_three_runs_and_three() {
    let right = said(100, 3, PLAIN, PLAIN, Overall::NoDifference);
    assert!(right >= 95, "{right}");
}

#[test]
fn five_percent_are_found_in_600_requests() {
    let slow = Law { factor: 1.05, ..PLAIN };
    let right = said(100, 1, PLAIN, slow, Overall::Worse);
    assert!(right >= 90, "{right}");
}

#[test]
fn five_percent_are_found_in_five_runs_of_600_and_five() {
    let slow = Law { factor: 1.05, ..PLAIN };
    let right = said(100, 5, PLAIN, slow, Overall::Worse);
    assert!(right >= 90, "{right}");
}

#[test]
fn gaps_are_compared_by_request_and_their_means_as_tokens() {
    // Forty requests of eight gaps: 10 ms, and 20 ms for two tokens.
    let of = |more: u64| {
        let gap = |at: u64| (10_000_000 + at * 7 % 5 * 1_000 + more, 1);
        let gaps: Vec<Vec<(u64, u32)>> = (0..40)
            .map(|at| (0..7).map(|_| gap(at)).chain([(20_000_000 + 2 * more, 2)]).collect())
            .collect();
        Observed { gaps: Some(gaps), ..Observed::default() }
    };
    let asked = Quantity::all(&[Metric::Icl, Metric::Itl]);
    let plan = Plan { level: 0.99, seed: 1 };
    let mut all = differences(&[of(0)], &[of(3_000_000)], &asked, &plan);
    settle(&mut all, plan.level);
    let find = |name: &str| all.iter().find(|one| one.figure.to_string() == name).unwrap();
    let itl = find("p99(itl)");
    assert!((itl.change.unwrap() - 0.3).abs() < 0.01, "{itl:?}");
    assert_eq!((itl.verdict, itl.basis), (Verdict::Worse, Basis::Gaps));
    assert!(find("p99(icl)").base > 1.9e7);
    // Where nobody knows the tokens there is no ITL.
    let bare = |mut run: Observed| {
        run.gaps.iter_mut().flatten().flatten().for_each(|gap| gap.1 = 0);
        run
    };
    let asked = [asked[0], asked[5]];
    let known = known(&[bare(of(0))], &asked);
    assert_eq!(known, [asked[0]]);
}

#[test]
fn a_summary_alone_gives_intervals_where_it_has_them() {
    let of = |value: f64, ci95: [Option<f64>; 2]| {
        let figure = crate::workload::Percentile::Quantile(0.95);
        let given = Given { metric: Metric::Itl, figure, value, ci95 };
        Observed { given: vec![given], ..Observed::default() }
    };
    let asked = Quantity::all(&[Metric::Itl]);
    let plan = Plan { level: 0.95, seed: 1 };
    let one = |a: Observed, b: Observed| {
        let mut all = differences(&[a], &[b], &asked, &plan);
        settle(&mut all, plan.level);
        assert_eq!(all.len(), 1);
        all.remove(0)
    };
    let ends = |low: f64, high: f64| [Some(low), Some(high)];
    let far = one(of(1e7, ends(0.98e7, 1.02e7)), of(1.2e7, ends(1.18e7, 1.22e7)));
    assert_eq!((far.verdict, far.basis), (Verdict::Worse, Basis::Summary));
    let near = one(of(1e7, ends(0.8e7, 1.2e7)), of(1.2e7, ends(1.0e7, 1.4e7)));
    assert_eq!(near.verdict, Verdict::NoDifference);
    let bare = one(of(1e7, [None; 2]), of(1.2e7, [None; 2]));
    assert_eq!((bare.verdict, bare.interval), (Verdict::NoInterval, [None, None]));
    assert!((bare.change.unwrap() - 0.2).abs() < 1e-12);
    // The end that matters is not known: nothing is said.
    let open = one(of(1e7, [Some(0.98e7), None]), of(1.2e7, ends(1.18e7, 1.22e7)));
    assert_eq!(open.verdict, Verdict::NoInterval);
}

#[test]
fn holm_leaves_the_sure_and_takes_the_doubtful() {
    let of = |p: f64| {
        let mut one = Difference::of_runs(Quantity::Rps, &[1.0, 1.1], &[2.0, 2.1], 0.95);
        one.p = Some(p);
        one
    };
    let mut all = [of(0.04), of(0.01), of(0.03), of(0.005)];
    settle(&mut all, 0.95);
    let adjusted: Vec<f64> =
        all.iter().map(|one| (one.p_holm.unwrap() * 1e6).round() / 1e6).collect();
    assert_eq!(adjusted, [0.06, 0.03, 0.06, 0.02]);
    assert_eq!(overall(&all), Overall::Better);
}

proptest::proptest! {
    #[test]
    fn no_figure_is_no_number(
        values in proptest::collection::vec(0_u64..u64::MAX / 4, 0..60),
        others in proptest::collection::vec(0_u64..1_000_000_000, 0..60),
        failed in proptest::collection::vec(proptest::bool::ANY, 0..40),
    ) {
        let of = |values: Vec<u64>, failed: &[bool]| Observed {
            series: vec![(Metric::Ttft, values)],
            failed: (!failed.is_empty()).then(|| Share::of(failed)),
            ..Observed::default()
        };
        let plan = Plan { level: 0.99, seed: 7 };
        let sides = [of(values, &failed), of(others, &failed[failed.len() / 2..])];
        for each in [1, 2] {
            let side = |at: usize| vec![sides[at].clone(); each];
            let asked = Quantity::all(&METRICS);
            let mut all = differences(&side(0), &side(1), &asked, &plan);
            settle(&mut all, plan.level);
            for one in all {
                let [low, high] = one.interval;
                let optional = [one.change, low, high, one.p, one.p_holm, one.visible_from];
                for value in optional.into_iter().flatten().chain([one.base, one.other]) {
                    proptest::prop_assert!(value.is_finite(), "{:?}", one);
                }
            }
        }
    }
}
