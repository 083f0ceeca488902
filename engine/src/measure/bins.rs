//! A run as series of 100 ms bins, and what they say: is it steady, does it rise.

use serde::{Deserialize, Serialize};

use super::distribution::ratio;
use super::metric::{Request, Since};
use super::rate::Window;
use super::steady::steady;
use super::trend::{Trend, rises};
use crate::record::Outcome;

/// Width of a bin, ns.
pub const BIN_NS: u64 = 100_000_000;
/// Bins of a series, at most (ten days); what comes later is left out.
const BINS_MAX: u64 = 8_640_000;
/// Significance that a trend must have.
const LEVEL: f64 = 0.01;
/// A change over the window matters from this part of the median on.
const MATERIAL: f64 = 0.1;

/// Series over whole bins of [`BIN_NS`], all of one length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bins {
    /// Mean TTFT of the requests whose origin lies in the bin, ns; `None` without any. Those that
    /// failed have none.
    pub ttft: Vec<Option<f64>>,
    /// Requests that ended well in the bin.
    pub completed: Vec<f64>,
    /// Requests in flight at the bin's end: written (or dispatched, where no write is known) before
    /// it, and not completed, failed or cut before it.
    pub in_flight: Vec<f64>,
}

/// The series of `requests`, of any phase and in any order, over `[start, end)`, ns from the run's
/// start. A last bin that is not whole is left out.
#[must_use]
pub fn bins(requests: &[Request], start: u64, end: u64) -> Bins {
    let count = (end.saturating_sub(start) / BIN_NS).min(BINS_MAX) as usize;
    let place =
        |at: u64| usize::try_from(at.checked_sub(start)? / BIN_NS).ok().filter(|&b| b < count);
    let mut sums = vec![(0.0, 0u32); count];
    let mut completed = vec![0.0; count];
    // Requests that came less those that went, in each bin; what happened before the first is its.
    let mut change = vec![0i64; count];
    let mut moved = |at: u64, by: i64| {
        let bin = if at < start { Some(0) } else { place(at) };
        if let Some(change) = bin.and_then(|bin| change.get_mut(bin)) {
            *change += by;
        }
    };
    for request in requests {
        let ttft = request.ttft(Since::Origin).filter(|_| request.outcome != Outcome::Error);
        let origin = place(request.origin).and_then(|bin| sums.get_mut(bin));
        if let (Some(ttft), Some((sum, seen))) = (ttft, origin) {
            *sum += ttft as f64;
            *seen += 1;
        }
        let done = request.completed();
        let ended = done.filter(|_| request.is_ok()).and_then(place);
        if let Some(count) = ended.and_then(|bin| completed.get_mut(bin)) {
            *count += 1.0;
        }
        let Some(sent) = request.write_start.get().or(request.dispatched.get()) else { continue };
        moved(sent, 1);
        if let Some(done) = done {
            moved(done.max(sent), -1);
        }
    }
    let mut now = 0i64;
    let mut in_flight = Vec::with_capacity(count);
    for change in change {
        now += change;
        in_flight.push(now as f64);
    }
    let mean = |(sum, seen): (f64, u32)| (seen > 0).then(|| sum / f64::from(seen));
    Bins { ttft: sums.into_iter().map(mean).collect(), completed, in_flight }
}

/// What the 100 ms bins of a window say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// TTFT and throughput are steady past the transient, and, in an open loop, nothing rises there;
    /// null where the window is too short to tell.
    pub is_steady: Option<bool>,
    /// How much of the beginning of the window is not yet steady, ns; null where it is not known to
    /// get steady.
    pub transient_ns: Option<u64>,
    /// In-flight count or TTFT rises through the window of an open loop, past the transient; null in
    /// a closed loop, and where too few bins are left to tell.
    pub rising: Option<bool>,
    /// Slope of the in-flight count past the transient, requests per second.
    pub in_flight_slope: Option<f64>,
    /// Probability of such a rise of it, or a greater one, where there is none.
    pub in_flight_p: Option<f64>,
    /// Slope of the TTFT past the transient, ns per second.
    pub ttft_slope: Option<f64>,
    /// Probability of such a rise of it, or a greater one, where there is none.
    pub ttft_p: Option<f64>,
    /// Bins that were looked at.
    pub bins: u64,
    /// Width of each, ns.
    pub bin_ns: u64,
}

/// Whether the window of a run is steady, and whether an open loop is falling behind in it.
///
/// Steady: MSER-5 on TTFT and on completions finds its cut in the first half. Alone it would call
/// two in five of the windows of a stable queue unsteady, since it also runs away from a burst; so
/// if its cut lies later, the window is unsteady only if TTFT, completions or in-flight drift through
/// all of it, up or down. If they do not, the best cut in the first half is the transient.
///
/// Rising: past the transient (all of an unsteady window), the in-flight count or the TTFT rises.
///
/// Both kinds of trend are Mann-Kendall's at level 0.01 and must be material: Sen's slope times the
/// bins is at least a tenth of the median, so that a long quiet run with a tiny trend is not called
/// saturated. Bins without a TTFT are no part of its trend.
#[must_use]
pub fn steadiness(requests: &[Request], window: Window, is_open_loop: bool) -> Steadiness {
    let series = bins(requests, window.start, window.end);
    let found = steady(&series.ttft, &series.completed);
    let is_unsteady = found.is_steady == Some(false) && drifts(&series);
    let cut = if is_unsteady { 0 } else { found.first_half_cut_bins };
    let in_flight = Course::of(series.in_flight.iter().skip(cut).copied());
    let ttft = Course::of(series.ttft.iter().skip(cut).flatten().copied());
    let rising = [in_flight.rises(), ttft.rises()].into_iter().flatten().reduce(|a, b| a || b);
    let rising = rising.filter(|_| is_open_loop);
    let is_steady = found.is_steady.map(|_| !is_unsteady && rising != Some(true));
    let seconds = |bins: usize| bins as f64 * BIN_NS as f64 / 1e9;
    let per_second = |course: &Course, bins: usize| {
        course.trend.and_then(|_| ratio(course.change(), seconds(bins)))
    };
    let bins_left = series.in_flight.len() - cut;
    Steadiness {
        is_steady,
        transient_ns: is_steady.filter(|&steady| steady).map(|_| cut as u64 * BIN_NS),
        rising,
        in_flight_slope: per_second(&in_flight, bins_left),
        in_flight_p: in_flight.trend.map(|trend| trend.p),
        ttft_slope: per_second(&ttft, bins_left),
        ttft_p: ttft.trend.map(|trend| trend.p),
        bins: series.in_flight.len() as u64,
        bin_ns: BIN_NS,
    }
}

/// Whether any series rises or falls through the whole window.
fn drifts(series: &Bins) -> bool {
    let all = [
        Course::of(series.ttft.iter().flatten().copied()),
        Course::of(series.completed.iter().copied()),
        Course::of(series.in_flight.iter().copied()),
    ];
    all.iter().any(|course| course.rises() == Some(true) || course.falls())
}

/// Where a series goes.
struct Course {
    count: f64,
    median: f64,
    trend: Option<Trend>,
}

impl Course {
    fn of(series: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = series.collect();
        let trend = rises(&values, LEVEL);
        values.sort_by(f64::total_cmp);
        let median = values.get(values.len() / 2).copied().unwrap_or(0.0);
        Self { count: values.len() as f64, median, trend }
    }

    /// By how much it changes from end to end.
    fn change(&self) -> f64 {
        self.trend.map_or(0.0, |trend| trend.slope_per_bin * self.count)
    }

    /// It rises, by an amount that matters.
    fn rises(&self) -> Option<bool> {
        let matters = self.change() > 0.0 && self.change() >= MATERIAL * self.median;
        self.trend.map(|trend| trend.rises && matters)
    }

    /// It falls, by an amount that matters.
    fn falls(&self) -> bool {
        let matters = self.change() < 0.0 && -self.change() >= MATERIAL * self.median;
        matters && self.trend.is_some_and(|trend| 1.0 - trend.p < LEVEL)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_distr::{Distribution, Exp1};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::measure::noise::noisy;
    use crate::measure::rows::{MS, cut, failed, open, row_at};
    use crate::record::{ErrorClass, Phase, Row};

    fn requests(rows: &[Row]) -> Vec<Request> {
        rows.iter().map(|row| Request::new(row, &open(1.0))).collect()
    }

    fn window(ms: u64) -> Window {
        Window { start: 0, end: ms * MS }
    }

    #[test]
    fn ttft_goes_by_origin_and_completions_by_their_end() {
        let rows = [
            row_at(0, 110, 110, &[150]),
            row_at(1, 120, 120, &[220, 350]),
            row_at(2, 499, 499, &[700]),
            failed(3, ErrorClass::ConnReset, 10, 20),
            cut(4, 300, &[310], 480),
        ];
        let got = bins(&requests(&rows), 0, 599 * MS);
        assert_eq!(got.ttft, [None, Some(70e6), None, Some(10e6), Some(201e6)]);
        assert_eq!(got.completed, [0.0, 1.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn in_flight_is_counted_at_the_end_of_each_bin() {
        let mut queued = row_at(3, 0, 250, &[450]);
        queued.phase = Phase::Warmup;
        let mut unsent = cut(4, 0, &[], 400);
        (unsent.write_start, unsent.dispatched) = (None, None);
        let mut lost = row_at(5, 390, 390, &[]);
        lost.done = None;
        let rows = [
            row_at(0, 0, 0, &[150]),
            row_at(1, 100, 100, &[300]),
            failed(2, ErrorClass::ConnReset, 10, 20),
            queued,
            unsent,
            lost,
        ];
        // Bin by bin: 0; 1 alone; 1 and 3; 3 and 5 (1 ended as the bin began); 5, which never ends.
        let got = bins(&requests(&rows), 0, 500 * MS);
        assert_eq!(got.in_flight, [1.0, 1.0, 2.0, 2.0, 1.0]);
        // What began before the window counts in it.
        let later = bins(&requests(&rows), 200 * MS, 500 * MS);
        assert_eq!(later.in_flight, [2.0, 2.0, 1.0]);
        assert_eq!(later.ttft[1], None, "the third has no token");
    }

    #[test]
    fn no_window_has_no_bins() {
        let got = bins(&requests(&[row_at(0, 0, 0, &[10])]), 500, 400);
        assert_eq!(got, Bins::default());
        let none = steadiness(&[], window(0), true);
        assert_eq!(none, Steadiness { bin_ns: BIN_NS, ..Steadiness::default() });
        let short = steadiness(&requests(&[row_at(0, 0, 0, &[10])]), window(3000), true);
        assert_eq!((short.is_steady, short.rising, short.bins), (None, None, 30));
    }

    /// 20 requests per second for 40 s, each with this TTFT in ms by its place, noise of 5 % added,
    /// done after as long again.
    fn run(seed: u64, ttft: impl Fn(f64) -> f64) -> Vec<Request> {
        let noise = noisy(seed, 800, 0.0, |_| 0.0);
        let rows: Vec<Row> = (0..800u64)
            .zip(&noise)
            .map(|(i, noise)| {
                let wait = (ttft(i as f64 / 20.0) * (1.0 + 0.05 * noise)).max(1.0) as u64;
                row_at(i, i * 50, i * 50, &[i * 50 + wait, i * 50 + 2 * wait])
            })
            .collect();
        requests(&rows)
    }

    #[test]
    fn an_open_loop_that_falls_behind_rises_and_is_not_steady() {
        // A queue that grows by 100 ms of waiting per second.
        let got = steadiness(&run(1, |second| 200.0 + 100.0 * second), window(40_000), true);
        assert_eq!((got.rising, got.is_steady, got.transient_ns), (Some(true), Some(false), None));
        let slope = got.ttft_slope.unwrap();
        assert!((slope / 100e6 - 1.0).abs() < 0.05, "100 ms per second: {slope}");
        assert!(got.in_flight_slope.unwrap() > 1.0, "{got:?}");
        assert!(got.ttft_p.unwrap() < 1e-6);
        let closed = steadiness(&run(1, |second| 200.0 + 100.0 * second), window(40_000), false);
        assert_eq!((closed.rising, closed.is_steady), (None, Some(false)));
    }

    #[test]
    fn a_quiet_run_is_steady_and_a_tiny_trend_is_no_rise() {
        let quiet = steadiness(&run(2, |_| 200.0), window(40_000), true);
        assert_eq!((quiet.rising, quiet.is_steady), (Some(false), Some(true)));
        assert!(quiet.transient_ns.unwrap() <= 10_000 * MS, "{quiet:?}");
        // 5 % in all: plain to see under this noise, and of no account.
        let tiny = steadiness(&run(2, |second| 200.0 + 0.25 * second), window(40_000), true);
        assert!(tiny.ttft_p.unwrap() < 0.01, "{tiny:?}");
        assert_eq!(tiny.rising, Some(false));
    }

    #[test]
    fn a_warm_up_inside_the_window_is_found_and_no_rise() {
        let got = steadiness(
            &run(3, |second| 200.0 + 2000.0 * (-second / 1.5).exp()),
            window(40_000),
            true,
        );
        assert_eq!((got.is_steady, got.rising), (Some(true), Some(false)));
        let transient = got.transient_ns.unwrap() / MS;
        assert!((2500..15_000).contains(&transient), "{transient} ms of e-folds of 1.5 s");
    }

    /// Twenty servers of 1 s each (exponential) before which `rate` requests per second queue, for
    /// 20 s and a window of 40 s.
    fn queue(seed: u64, rate: f64) -> Steadiness {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut exponential = || -> f64 { Exp1.sample(&mut random) };
        let (mut free, mut now, mut rows) = ([0.0f64; 20], 0.0, Vec::new());
        while now < 60.0 {
            now += exponential() / rate;
            let server = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let begun = now.max(*server);
            *server = begun + exponential();
            let ms = |seconds: f64| (seconds * 1000.0) as u64;
            let tokens = [ms(begun) + 50, ms(*server) + 50];
            rows.push(row_at(rows.len() as u64, ms(now), ms(now), &tokens));
        }
        steadiness(&requests(&rows), Window { start: 20_000 * MS, end: 60_000 * MS }, true)
    }

    #[test]
    fn a_stable_queue_is_steady_for_all_its_bursts_and_an_overloaded_one_rises() {
        let of = |rate| (0..5).map(|seed| queue(seed, rate)).collect::<Vec<_>>();
        let stable = of(16.0);
        let steady = stable.iter().filter(|one| one.is_steady == Some(true)).count();
        assert!(steady >= 4, "{stable:?}");
        let behind = of(26.0);
        let rising = behind.iter().filter(|one| one.rising == Some(true)).count();
        assert!(rising >= 4, "6 requests per second are too many: {behind:?}");
        let slope = behind.iter().filter_map(|one| one.in_flight_slope).sum::<f64>() / 5.0;
        assert!((4.0..8.0).contains(&slope), "{slope} per second");
    }
}
