//! Searches against the serving model in simulated time: the boundary is known from a million requests,
//! and a search has to find it, say how sure it is, and be right about that.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model;

use std::ops::Range;
use std::sync::OnceLock;

use model::{Load, Point, SECOND, drive, in_parallel, judge, search, simulate};
use tokclock_engine::measure::Decision;
use tokclock_engine::run::search::{Boundary, Search, SearchSpec};
use tokclock_sim::serving::ServingSettings;

/// The most loads that `tokclock search` tries.
const PROBES: usize = 12;
const PRECISION: f64 = 0.05;

/// What is searched, and where the boundary lies.
#[derive(Clone, Copy)]
struct Case {
    slo: &'static str,
    input: u32,
    output: (u32, u32),
    look_ns: u64,
    /// All looks at one load are so many times as long as the first.
    looks: u64,
    /// The highest rate that keeps the objective, requests per second; found once as the crossing of a
    /// line through the logarithms of the shares of misses at five rates, a million requests each.
    truth: f64,
}

/// Prompts that need two steps each, so that requests queue for them one after the other: the boundary
/// lies at 88 % of the most that can be served.
const WAITING: Case = Case {
    slo: "p95(ttft)<600ms",
    input: 512,
    output: (8, 8),
    look_ns: 30 * SECOND,
    looks: 32,
    truth: 18.011,
};

/// Gaps between tokens are the steps of the server, and long where two prompts go into one.
const GAPS: Case = Case {
    slo: "p99(itl)<25.45ms",
    input: 128,
    output: (4, 12),
    look_ns: 20 * SECOND,
    looks: 16,
    truth: 49.33,
};

impl Case {
    fn point(&self, load: Load) -> Point {
        let queue = ServingSettings::preset("queue").unwrap();
        let point = Point::new(&queue, load, &[self.slo]);
        Point { input: self.input, output: self.output, ..point }
    }

    /// As the command makes it, which begins with what two users alone get done.
    fn spec(&self) -> SearchSpec {
        let alone = drive(&self.point(Load::Users(1))).answers[0];
        let start = 2e9 / (alone.last - alone.arrived) as f64;
        SearchSpec {
            start,
            least: start * 1e-3,
            most: 1e6,
            whole: false,
            precision: PRECISION,
            look_ns: self.look_ns,
            longest_ns: self.look_ns * self.looks,
            probes_max: PROBES,
            tiers: 1,
        }
    }

    /// Searches with each seed.
    fn all(&self, seeds: Range<u64>) -> Found {
        let spec = self.spec();
        let searches = in_parallel(seeds, |seed| {
            search(&spec, seed, |look, seed| {
                let point = self.point(Load::Rate(look.value));
                judge(&Point { seed, window_ns: look.length_ns, ..point })
            })
        });
        Found { truth: self.truth, searches }
    }
}

/// What searches with different seeds found.
struct Found {
    truth: f64,
    searches: Vec<Search>,
}

impl Found {
    fn boundaries(&self) -> impl Iterator<Item = Boundary> + '_ {
        self.searches.iter().map(|search| search.boundary(0))
    }

    /// Both ends are known, and the boundary lies between them.
    fn held(&self) -> usize {
        let is_known = |one: &Boundary| one.low.is_some() && one.high.is_some();
        self.boundaries().filter(is_known).filter(|one| self.is_right(one)).count()
    }

    /// No end is known that lies on the wrong side.
    fn right(&self) -> usize {
        self.boundaries().filter(|one| self.is_right(one)).count()
    }

    fn is_right(&self, one: &Boundary) -> bool {
        one.low.is_none_or(|low| low <= self.truth)
            && one.high.is_none_or(|high| high >= self.truth)
    }

    /// Shares by which the estimates are off.
    fn errors(&self) -> Vec<f64> {
        self.boundaries().filter_map(|one| Some((one.estimate? / self.truth - 1.0).abs())).collect()
    }

    /// The mean of high / low, where both are known.
    fn width(&self) -> f64 {
        let ratio = |one: Boundary| Some(one.high? / one.low?);
        let ratios: Vec<f64> = self.boundaries().filter_map(ratio).collect();
        mean(&ratios)
    }

    fn probes(&self) -> Vec<f64> {
        self.searches.iter().map(|search| search.probes().len() as f64).collect()
    }

    /// What is worth knowing of all of them.
    fn said(&self) -> String {
        let seconds = self.searches.iter().flat_map(Search::probes).map(|one| one.length_ns);
        let seconds = seconds.sum::<u64>() / SECOND / self.searches.len() as u64;
        let most = |all: Vec<f64>| all.into_iter().fold(0.0, f64::max);
        format!(
            "{} searches: {} hold it, {} are not wrong; off by {:.4} on average, {:.4} at most; high/low \
             {:.3}; {:.1} probes, {} at most; {seconds} simulated seconds each",
            self.searches.len(),
            self.held(),
            self.right(),
            mean(&self.errors()),
            most(self.errors()),
            self.width(),
            mean(&self.probes()),
            most(self.probes()),
        )
    }
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

/// A hundred searches that two tests look at.
fn hundred() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| WAITING.all(0..100))
}

/// The share of misses in so many requests at `rate`.
fn missed(case: &Case, rate: f64, requests: f64, count: fn(&Point) -> (u64, u64)) -> f64 {
    let window_ns = (requests / rate * 1e9) as u64;
    let (over, of) = count(&Point { window_ns, seed: 41, ..case.point(Load::Rate(rate)) });
    over as f64 / of as f64
}

/// No socket and no driver has a part in these: `.ci/run` leaves them out when it runs all others on
/// epoll.
mod simulated {
    use super::*;

    #[test]
    fn the_verdict_alone_is_that_of_the_summary() {
        let slo = [
            "p95(ttft)<600ms",
            "p99(itl)<25ms",
            "error_rate<1%",
            "goodput_share>90%",
            "mean(e2e)<1s",
        ];
        for name in ServingSettings::PRESETS {
            let settings = ServingSettings::preset(name).unwrap();
            let point = Point::new(&settings, Load::Rate(55.0), &slo);
            let point = Point { window_ns: 10 * SECOND, ..point };
            let summary = simulate(&point);
            assert_eq!(summary.slo, Some(judge(&point)), "{name}");
            assert!(summary.slo.unwrap().objectives.iter().all(|one| one.evidence.is_some()));
        }
    }

    #[test]
    fn the_boundary_is_the_one_that_a_million_requests_show() {
        // About a hundred of them say as much as one alone (`run::search` has to find that out), so that a
        // share of 5 % is known to 0.2 % of all, and 1 % of the rate changes it by 1 %.
        let late = |point: &Point| {
            let (mut over, mut of) = (0, 0);
            for answer in drive(point).answers.iter().filter(|one| one.arrived >= point.warmup_ns) {
                over += u64::from(answer.first - answer.arrived >= 600_000_000);
                of += 1;
            }
            (over, of)
        };
        let around = |factor: f64| missed(&WAITING, WAITING.truth * factor, 1e6, late);
        let shares = in_parallel(0..2, |at| around([0.99, 1.01][at as usize]));
        assert!((0.03..0.046).contains(&shares[0]), "{shares:?}");
        assert!((0.054..0.08).contains(&shares[1]), "{shares:?}");
        let queue = ServingSettings::preset("queue").unwrap();
        let load = WAITING.truth / queue.capacity_rps(512, 8);
        assert!((0.8..0.92).contains(&load), "{load}");
    }

    #[test]
    fn a_search_finds_the_boundary_to_five_percent_and_its_interval_holds_it() {
        let found = hundred();
        eprintln!("{}", found.said());
        assert!(found.held() >= 90, "{}", found.said());
        let close = found.errors().iter().filter(|error| **error <= PRECISION).count();
        assert!(close >= 98, "{close} are close; {}", found.said());
        assert!(found.probes().iter().all(|probes| *probes <= PROBES as f64), "{}", found.said());
    }

    #[test]
    fn with_shorter_looks_the_interval_is_wider_and_not_wrong_and_says_that_it_is_undecided() {
        let brief = Case { looks: 4, ..WAITING }.all(100..150);
        eprintln!("{}", brief.said());
        assert!(brief.right() >= 45, "{}", brief.said());
        assert!(brief.width() > hundred().width() + 0.1, "{}", brief.said());
        for search in &brief.searches {
            let got = search.boundary(0);
            let width = got.low.zip(got.high).map(|(low, high)| high / low);
            assert_eq!(got.is_precise, width.is_some_and(|width| width <= 1.0501));
            let inside = |value: f64| {
                got.low.is_none_or(|low| value > low) && got.high.is_none_or(|high| value < high)
            };
            let mut inside = search.probes().iter().filter(|probe| inside(probe.value));
            assert!(inside.all(|probe| probe.verdict(0) == Decision::Unsure), "{got:?}");
        }
        let precise = brief.boundaries().filter(|one| one.is_precise).count();
        assert!(precise <= 10, "{precise} of 50");
    }

    #[test]
    fn an_objective_on_gaps_is_found_likewise() {
        let long = |point: &Point| {
            let seen = drive(point);
            let measured = seen.answers.iter().filter(|one| one.arrived >= point.warmup_ns);
            let (mut over, mut of) = (0, 0);
            for pair in
                measured.filter_map(|one| seen.tokens(one)).flat_map(|times| times.windows(2))
            {
                over += u64::from(pair[1] - pair[0] >= 25_450_000);
                of += 1;
            }
            (over, of)
        };
        let around = |factor: f64| missed(&GAPS, GAPS.truth * factor, 3e5, long);
        let shares = in_parallel(0..2, |at| around([0.98, 1.02][at as usize]));
        assert!(shares[0] < 0.01 && shares[1] > 0.01, "{shares:?}");
        let found = GAPS.all(0..24);
        eprintln!("{}", found.said());
        assert!(found.held() >= 22, "{}", found.said());
        let close = found.errors().iter().filter(|error| **error <= PRECISION).count();
        assert!(close >= 22, "{close} are close; {}", found.said());
        assert!(found.probes().iter().all(|probes| *probes <= PROBES as f64), "{}", found.said());
    }

    #[test]
    fn users_are_found_as_two_neighbours() {
        let case = Case { slo: "p95(ttft)<110ms", output: (16, 48), ..GAPS };
        let share = |users: u64| {
            let seen = drive(&Point { window_ns: 500 * SECOND, ..case.point(Load::Users(users)) });
            let late = seen.answers.iter().filter(|one| one.first - one.arrived >= 110_000_000);
            late.count() as f64 / seen.answers.len() as f64
        };
        assert!(share(34) < 0.04 && share(35) > 0.08, "{} {}", share(34), share(35));
        let spec =
            SearchSpec { start: 1.0, least: 1.0, most: 65_536.0, whole: true, ..case.spec() };
        let searches = in_parallel(0..10, |seed| {
            search(&spec, seed, |look, seed| {
                let point = case.point(Load::Users(look.value as u64));
                judge(&Point { seed, window_ns: look.length_ns, ..point })
            })
        });
        let found = Found { truth: 34.5, searches };
        eprintln!("{}", found.said());
        let is_it =
            |one: &Boundary| (one.low, one.high) == (Some(34.0), Some(35.0)) && one.is_precise;
        assert!(found.boundaries().filter(is_it).count() >= 9, "{}", found.said());
        assert!(found.probes().iter().all(|probes| *probes <= PROBES as f64), "{}", found.said());
    }
}
