//! Load points against the serving model of the simulator in simulated time: no socket, no clock, and
//! yet the rows, tallies and summary of a run.

mod rows;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokclock_engine::measure::{Facts, SloReport, Summary, summarize, verdict};
use tokclock_engine::plan::Arrivals;
use tokclock_engine::plan::arrival::Gaps;
use tokclock_engine::record::{Phase, Row};
use tokclock_engine::run::search::{Look, Search, SearchSpec};
use tokclock_engine::workload::{Arrival, Objectives, Overflow, Stop, Warmup, Workload};
use tokclock_sim::serving::{self, Emitted, Serving, ServingSettings};
use tokclock_tests::{at_rate, closed, workload};

use rows::{done, facts, row};

/// One second in ns.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// How long a refusal takes, ns.
const REFUSAL_NS: u64 = 1_000_000;
/// A time that was not reached.
const NEVER: u64 = u64::MAX;

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// So many per second, by a Poisson law.
    Rate(f64),
    /// So many users, each with one request at a time.
    Users(u64),
}

/// A load point.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) settings: ServingSettings,
    pub(crate) load: Load,
    /// Input tokens of each request.
    pub(crate) input: u32,
    /// Output tokens of each request: any number from the first to the second, alike often.
    pub(crate) output: (u32, u32),
    pub(crate) warmup_ns: u64,
    pub(crate) window_ns: u64,
    pub(crate) drain_ns: u64,
    pub(crate) objectives: Objectives,
    pub(crate) seed: u64,
    /// What is added to all tokens of a request that arrives so long after the start, ns.
    pub(crate) late: fn(u64) -> u64,
}

impl Point {
    /// Requests of `input` and `output` tokens at `load`, held against `slo`.
    pub(crate) fn new(settings: &ServingSettings, load: Load, slo: &[&str]) -> Self {
        let slo = slo.iter().map(|text| text.parse().unwrap()).collect();
        Self {
            settings: settings.clone(),
            load,
            input: 128,
            output: (32, 32),
            warmup_ns: 10 * SECOND,
            window_ns: 30 * SECOND,
            drain_ns: 10 * SECOND,
            objectives: Objectives { slo, ..Objectives::default() },
            seed: 1,
            late: |_| 0,
        }
    }

    fn window_end(&self) -> u64 {
        self.warmup_ns + self.window_ns
    }

    fn phase(&self, at: u64) -> Phase {
        if at < self.warmup_ns {
            Phase::Warmup
        } else if at < self.window_end() {
            Phase::Measure
        } else {
            Phase::Drain
        }
    }

    fn workload(&self) -> Workload {
        let load = match self.load {
            Load::Rate(rate) => at_rate(rate, Arrival::Poisson, None, Overflow::Wait),
            Load::Users(users) => closed(users),
        };
        let stop = Stop {
            requests: None,
            duration_ns: Some(self.window_ns),
            sessions: None,
            warmup: Warmup::Time(self.warmup_ns),
            drain_ns: self.drain_ns,
            until: None,
        };
        let address = "127.0.0.1:9".parse().unwrap();
        let asked = workload(address, load, stop);
        Workload { seed: self.seed, objectives: self.objectives.clone(), ..asked }
    }
}

/// What became of one request; times in ns from the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) arrived: u64,
    pub(crate) first: u64,
    pub(crate) second: u64,
    pub(crate) last: u64,
    /// The place of its first token in `Seen::times`.
    begin: usize,
    output: u32,
    got: u32,
    is_refused: bool,
}

/// What came of all requests.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answers: Vec<Answer>,
    /// When each token came, one request after the other.
    pub(crate) times: Vec<u64>,
    /// Requests whose last token came, since it was last looked at.
    ended: Vec<u64>,
}

impl Seen {
    fn take(&mut self, token: Emitted) {
        let answer = &mut self.answers[token.id as usize];
        let at = token.at_ns;
        self.times[answer.begin + token.index as usize] = at;
        match token.index {
            0 => answer.first = at,
            1 => answer.second = at,
            _ => {}
        }
        answer.got += 1;
        answer.last = at;
        if token.is_last {
            self.ended.push(token.id);
        }
    }

    /// When the tokens of an answer came; `None` if it is not whole.
    pub(crate) fn tokens(&self, answer: &Answer) -> Option<&[u64]> {
        let is_whole = answer.got == answer.output;
        is_whole.then(|| &self.times[answer.begin..answer.begin + answer.got as usize])
    }

    /// A request arrives; whether it is refused.
    fn arrive(&mut self, serving: &mut Serving, point: &Point, at: u64) -> bool {
        let id = self.answers.len() as u64;
        let (least, most) = point.output;
        let output = least + (mixed(point.seed, id) % u64::from(most - least + 1)) as u32;
        let is_refused = serving.arrive(at, id, point.input, output) != serving::Arrival::Queued;
        let begin = self.times.len();
        self.times.resize(begin + output as usize, NEVER);
        self.answers.push(Answer {
            arrived: at,
            first: NEVER,
            second: NEVER,
            last: NEVER,
            begin,
            output,
            got: 0,
            is_refused,
        });
        is_refused
    }

    /// Ends all steps until `at`.
    fn advance(&mut self, serving: &mut Serving, at: u64) {
        serving.advance(at, &mut |token| self.take(token));
    }
}

/// The finaliser of SplitMix64 (Steele et al. 2014).
pub(crate) fn mixed(seed: u64, index: u64) -> u64 {
    let mut mixed = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Lets the model serve; what became of the requests until the end of the drain.
pub(crate) fn drive(point: &Point) -> Seen {
    let mut serving = Serving::new(&point.settings);
    let mut seen = Seen::default();
    match point.load {
        Load::Rate(rate) => {
            let gaps = Gaps::new(rate, Arrival::Poisson, point.seed).unwrap();
            for (_, at) in Arrivals::new(gaps, 0, 1) {
                if at >= point.window_end() {
                    break;
                }
                seen.advance(&mut serving, at);
                seen.arrive(&mut serving, point, at);
            }
        }
        Load::Users(users) => keep_busy(&mut serving, &mut seen, point, users),
    }
    seen.advance(&mut serving, point.window_end() + point.drain_ns);
    seen
}

/// A closed loop until the end of the window.
fn keep_busy(serving: &mut Serving, seen: &mut Seen, point: &Point, users: u64) {
    // When users that were turned away try again.
    let mut again: Vec<u64> = (0..users).map(|_| 0).collect();
    loop {
        let retry = again.iter().copied().min();
        let next = [serving.next_ns(), retry].into_iter().flatten().min();
        let Some(now) = next.filter(|at| *at < point.window_end()) else { return };
        seen.advance(serving, now);
        let ready = again.iter().filter(|at| **at <= now).count() + seen.ended.len();
        again.retain(|at| *at > now);
        seen.ended.clear();
        for _ in 0..ready {
            if seen.arrive(serving, point, now) {
                again.push(now + REFUSAL_NS);
            }
        }
    }
}

/// Carries out a load point in simulated time; the summary of it.
pub(crate) fn simulate(point: &Point) -> Summary {
    let (facts, rows) = ran(point);
    summarize(&point.workload(), &facts, rows)
}

/// The objectives alone of the same: it takes a tenth of the time.
pub(crate) fn judge(point: &Point) -> SloReport {
    let (facts, rows) = ran(point);
    verdict(&point.workload(), &facts, rows).unwrap()
}

/// What a run leaves.
fn ran(point: &Point) -> (Facts, impl Iterator<Item = Row>) {
    let seen = drive(point);
    let end = point.window_end() + point.drain_ns;
    let all = seen.answers.iter();
    let settled = all.map(|answer| done(answer, point).min(end)).max().unwrap_or(end);
    let end = settled.max(point.window_end());
    let facts = facts(point, &seen, end);
    let point = point.clone();
    let rows = seen.answers.into_iter().zip(0..);
    (facts, rows.map(move |(answer, index)| row(&point, &answer, index, end)))
}

/// What `work` makes of each seed, in their order, on all CPUs.
pub(crate) fn in_parallel<T: Send>(seeds: Range<u64>, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let some = || {
        let mut done = Vec::new();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return done;
            }
            done.push((seed, work(seed)));
        }
    };
    let mut all: Vec<(u64, T)> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..std::thread::available_parallelism().map_or(1, |count| count.get()) {
            threads.push(scope.spawn(some));
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, done)| done).collect()
}

/// Searches with `look` as the runs, each with a seed of its own.
pub(crate) fn search(
    spec: &SearchSpec,
    seed: u64,
    mut look: impl FnMut(Look, u64) -> SloReport,
) -> Search {
    let mut search = Search::new(spec.clone());
    while let Some(next) = search.next() {
        let key = next.value.to_bits() ^ (next.number as u64).rotate_left(48);
        let seen = look(next, mixed(seed, key) >> 11);
        let evidence = seen.objectives.iter().map(|one| one.evidence).collect();
        search.saw(next.value, next.length_ns, vec![evidence], false);
    }
    search
}
