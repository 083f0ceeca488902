//! The law of arrivals: how fast they come, how bursty they are, and whether they look like Poisson.

use serde::Serialize;

const SECOND_NS: u64 = 1_000_000_000;
/// Gaps below which the law of gaps is not tested.
const GAPS_MIN: usize = 20;
/// Whole seconds below which counts in them are not compared.
const WINDOWS_MIN: u64 = 10;
/// Critical value at 5 % of Stephens' modified KS statistic for the exponential law whose mean is
/// that of the sample (1974, table 1.3). That of a known mean would accept too much.
const CRITICAL: f64 = 1.094;
/// Coefficients of variation this near to 1 are neither burstier nor smoother than Poisson.
const NEAR_1: f64 = 0.1;

/// What the times of a load tell of the law that made them. What cannot be said is `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArrivalReport {
    /// Arrivals.
    pub count: u64,
    /// From the first to the last, ns.
    pub duration_ns: u64,
    /// Gaps per time, in arrivals per second.
    pub mean_rate: Option<f64>,
    /// Most arrivals in any second; none if all lasts less.
    pub peak_rate: Option<u64>,
    /// Coefficient of variation of the gaps: 0 is constant, 1 Poisson, more is burstier.
    pub gap_cv: Option<f64>,
    /// Index of dispersion of counts: their variance over their mean, in whole seconds from the first
    /// arrival on. 1 is Poisson; none below 10 s.
    pub dispersion: Option<f64>,
    /// Autocorrelation of gaps that follow each other.
    pub lag1: Option<f64>,
    /// Absolute autocorrelation that 5 % of independent gaps would exceed.
    pub lag1_bound: Option<f64>,
    /// All times are multiples of this, ns; 0 if they are all one.
    pub resolution_ns: u64,
    /// The test of the gaps; none below 20 of them.
    pub test: Option<GapTest>,
    /// What follows.
    pub verdict: ArrivalVerdict,
}

/// The test of gaps against the exponential law of their own mean (Kolmogorov-Smirnov, Lilliefors).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GapTest {
    /// Largest distance between the two distributions.
    pub distance: f64,
    /// The distance from which 5 % of exponential samples of this size are on.
    pub critical: f64,
    /// The distance reaches that.
    pub rejected: bool,
}

/// What the times look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalVerdict {
    /// Too few gaps to say.
    TooFew,
    /// Steps of the times are too large against the gaps to say.
    TooCoarse,
    /// Nothing speaks against exponential gaps.
    Exponential,
    /// They vary more than exponential ones.
    Burstier,
    /// They vary less than exponential ones.
    Smoother,
    /// They vary as much, and have another law.
    Otherwise,
}

impl ArrivalReport {
    /// The report on arrivals at `times_ns`, which never go back; none if there are no arrivals.
    #[must_use]
    pub fn of(times_ns: &[u64]) -> Option<Self> {
        let (first, last) = (*times_ns.first()?, *times_ns.last()?);
        let duration_ns = last.saturating_sub(first);
        let pairs = times_ns.windows(2);
        let gaps: Vec<u64> = pairs.map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let resolution_ns = gaps.iter().fold(0, |step, gap| gcd(step, *gap));
        let moments = Moments::of(&gaps);
        let test = moments.as_ref().filter(|_| gaps.len() >= GAPS_MIN);
        let test = test.map(|moments| test_gaps(&gaps, moments.mean));
        let gap_cv = moments.as_ref().map(|moments| moments.variance.sqrt() / moments.mean);
        Some(Self {
            count: times_ns.len() as u64,
            duration_ns,
            mean_rate: moments.as_ref().map(|moments| SECOND_NS as f64 / moments.mean),
            peak_rate: (duration_ns >= SECOND_NS).then(|| peak(times_ns)),
            gap_cv,
            dispersion: dispersion(times_ns, first, duration_ns),
            lag1: moments.as_ref().and_then(|moments| moments.lag1(&gaps)),
            lag1_bound: (gaps.len() > 2).then(|| 1.96 / (gaps.len() as f64).sqrt()),
            resolution_ns,
            test,
            verdict: verdict(test, gap_cv, resolution_ns, moments.map_or(0.0, |m| m.mean)),
        })
    }
}

/// Mean and variance (divisor n) of gaps, in ns.
struct Moments {
    mean: f64,
    variance: f64,
}

impl Moments {
    /// None without a gap above 0.
    fn of(gaps: &[u64]) -> Option<Self> {
        let count = gaps.len() as f64;
        let mean = gaps.iter().map(|gap| u128::from(*gap)).sum::<u128>() as f64 / count;
        let squares: f64 = gaps.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum();
        (mean > 0.0).then(|| Self { mean, variance: squares / count })
    }

    /// None where there is nothing to correlate.
    fn lag1(&self, gaps: &[u64]) -> Option<f64> {
        let away = |gap: u64| gap as f64 - self.mean;
        let products: f64 = gaps.windows(2).map(|pair| away(pair[0]) * away(pair[1])).sum();
        let all = self.variance * gaps.len() as f64;
        // Gaps that differ by rounding alone are constant.
        (gaps.len() > 2 && self.variance.sqrt() > self.mean * 1e-6).then(|| products / all)
    }
}

const fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Most arrivals within one second.
fn peak(times_ns: &[u64]) -> u64 {
    let (mut from, mut most) = (0, 0);
    for (to, time) in times_ns.iter().enumerate() {
        while time - times_ns[from] >= SECOND_NS {
            from += 1;
        }
        most = most.max(to + 1 - from);
    }
    most as u64
}

/// Variance over mean of the counts in whole seconds.
fn dispersion(times_ns: &[u64], first: u64, duration_ns: u64) -> Option<f64> {
    let windows = duration_ns / SECOND_NS;
    if windows < WINDOWS_MIN {
        return None;
    }
    let (mut sum, mut squares) = (0.0, 0.0);
    let within = times_ns.iter().map(|time| (time - first) / SECOND_NS);
    let within: Vec<u64> = within.take_while(|window| *window < windows).collect();
    for same in within.chunk_by(|one, other| one == other) {
        let count = same.len() as f64;
        sum += count;
        squares += count * count;
    }
    let mean = sum / windows as f64;
    Some((squares / windows as f64 - mean * mean).max(0.0) / mean)
}

fn test_gaps(gaps: &[u64], mean: f64) -> GapTest {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable();
    let count = sorted.len() as f64;
    let mut distance = 0.0_f64;
    for (rank, gap) in sorted.iter().enumerate() {
        let expected = -(-(*gap as f64) / mean).exp_m1();
        let (below, above) = (rank as f64 / count, (rank + 1) as f64 / count);
        distance = distance.max(expected - below).max(above - expected);
    }
    let critical = CRITICAL / (count.sqrt() + 0.26 + 0.5 / count.sqrt()) + 0.2 / count;
    GapTest { distance, critical, rejected: distance >= critical }
}

fn verdict(
    test: Option<GapTest>,
    gap_cv: Option<f64>,
    resolution_ns: u64,
    mean_ns: f64,
) -> ArrivalVerdict {
    let (Some(test), Some(cv)) = (test, gap_cv) else { return ArrivalVerdict::TooFew };
    if !test.rejected {
        return ArrivalVerdict::Exponential;
    }
    // Rounding alone moves the distribution by up to this share; constant gaps are no rounding.
    let rounding = resolution_ns as f64 / mean_ns;
    if rounding > test.critical / 2.0 && cv > NEAR_1 {
        return ArrivalVerdict::TooCoarse;
    }
    match cv {
        cv if cv > 1.0 + NEAR_1 => ArrivalVerdict::Burstier,
        cv if cv < 1.0 - NEAR_1 => ArrivalVerdict::Smoother,
        _ => ArrivalVerdict::Otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arrivals;
    use crate::plan::arrival::Gaps;
    use crate::workload::Arrival;

    /// The first `count` arrivals at 50 per second.
    fn times(arrival: Arrival, seed: u64, count: usize) -> Vec<u64> {
        let gaps = Gaps::new(50.0, arrival, seed).unwrap();
        Arrivals::new(gaps, 0, 1).take(count).map(|(_, time)| time).collect()
    }

    fn report(arrival: Arrival) -> ArrivalReport {
        ArrivalReport::of(&times(arrival, 7, 5000)).unwrap()
    }

    fn near(found: Option<f64>, expected: f64, by: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < by, "{found} is not {expected} ± {by}");
    }

    #[test]
    fn poisson_arrivals_look_like_poisson() {
        let report = report(Arrival::Poisson);
        assert_eq!((report.count, report.verdict), (5000, ArrivalVerdict::Exponential));
        // Standard errors: 1.4 % of the rate and of the CV, 14 % of the dispersion of 100 seconds.
        near(report.mean_rate, 50.0, 2.8);
        near(report.gap_cv, 1.0, 0.06);
        near(report.dispersion, 1.0, 0.5);
        near(report.lag1, 0.0, 0.05);
        assert!(report.peak_rate.unwrap() > 60);
        assert!(!report.test.unwrap().rejected);
    }

    #[test]
    fn gamma_arrivals_are_burstier_or_smoother_by_their_shape() {
        let bursty = report(Arrival::Gamma { burstiness: 0.25 });
        assert_eq!(bursty.verdict, ArrivalVerdict::Burstier);
        near(bursty.gap_cv, 2.0, 0.2);
        assert!(bursty.dispersion.unwrap() > 2.0);
        let smooth = report(Arrival::Gamma { burstiness: 4.0 });
        assert_eq!(smooth.verdict, ArrivalVerdict::Smoother);
        near(smooth.gap_cv, 0.5, 0.05);
        assert!(smooth.dispersion.unwrap() < 0.6);
    }

    #[test]
    fn constant_arrivals_are_smooth_whatever_their_step() {
        let report = report(Arrival::Constant);
        assert_eq!(report.verdict, ArrivalVerdict::Smoother);
        assert_eq!((report.resolution_ns, report.lag1), (20_000_000, None));
        near(report.gap_cv, 0.0, 1e-9);
        near(report.dispersion, 0.0, 1e-9);
        assert_eq!(report.peak_rate, Some(50));
    }

    #[test]
    fn one_of_twenty_poisson_samples_is_rejected() {
        // 1000 samples of 100 gaps: 50 ± 4 standard errors of 6.9.
        let rejected = (0..1000)
            .filter(|seed| {
                let report = ArrivalReport::of(&times(Arrival::Poisson, *seed, 101)).unwrap();
                report.test.unwrap().rejected
            })
            .count();
        assert!((22..78).contains(&rejected), "{rejected}");
    }

    #[test]
    fn whole_seconds_are_too_coarse_for_gaps_of_20_ms() {
        let seconds: Vec<u64> = times(Arrival::Poisson, 7, 5000)
            .into_iter()
            .map(|time| time / SECOND_NS * SECOND_NS)
            .collect();
        let report = ArrivalReport::of(&seconds).unwrap();
        assert_eq!(report.verdict, ArrivalVerdict::TooCoarse);
        assert_eq!(report.resolution_ns, SECOND_NS);
        near(report.dispersion, 1.0, 0.5);
    }

    #[test]
    fn gaps_that_depend_on_each_other_are_seen() {
        let mut time = 0;
        let alternating = (0..200_u64).map(|number| {
            time += if number % 2 == 0 { 1_000_000 } else { 99_000_000 };
            time
        });
        let report = ArrivalReport::of(&alternating.collect::<Vec<_>>()).unwrap();
        near(report.lag1, -1.0, 0.02);
        assert!(report.lag1.unwrap().abs() > report.lag1_bound.unwrap());
    }

    #[test]
    fn what_cannot_be_said_is_not_said() {
        assert_eq!(ArrivalReport::of(&[]), None);
        for times in [&[5][..], &[5, 5, 5], &[5, 9]] {
            let report = ArrivalReport::of(times).unwrap();
            assert_eq!(report.verdict, ArrivalVerdict::TooFew, "{times:?}");
            assert_eq!((report.test, report.dispersion, report.peak_rate), (None, None, None));
            assert_eq!(report.lag1, None);
        }
        assert_eq!(ArrivalReport::of(&[5, 5, 5]).unwrap().mean_rate, None);
    }
}
