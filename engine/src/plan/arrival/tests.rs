//! Gaps and instants against the laws that they come from.

use proptest::prelude::*;

use super::*;

const GAPS: usize = 100_000;

fn gaps(rate: f64, arrival: Arrival, seed: u64) -> Gaps {
    Gaps::new(rate, arrival, seed).unwrap()
}

fn drawn(arrival: Arrival, seed: u64) -> Vec<f64> {
    let gaps = gaps(1_000.0, arrival, seed);
    (0..GAPS as u64).map(|index| gaps.gap_ns(index) as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

fn lag_one_correlation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let products = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
    products.sum::<f64>() / values.len() as f64 / variance(values)
}

#[test]
fn poisson_gaps_have_the_moments_of_the_exponential_law() {
    for seed in 0..3 {
        let gaps = drawn(Arrival::Poisson, seed);
        // n = 100,000, sqrt(n) = 316. All bounds are 4.5 standard errors or more.
        // Mean: CV/sqrt(n) = 0.0032.
        assert!((mean(&gaps) / 1e6 - 1.0).abs() < 0.015);
        // CV: the standard error of a sample CV of the exponential law is 1/sqrt(n).
        let cv = variance(&gaps).sqrt() / mean(&gaps);
        assert!((cv - 1.0).abs() < 0.015, "{cv}");
        // Correlation of independent values: 1/sqrt(n).
        assert!(lag_one_correlation(&gaps).abs() < 0.015);
        // The law itself, not only its moments: P(gap > 2 means) = e^-2, standard error
        // sqrt(p(1-p)/n) = 0.0011.
        let above = gaps.iter().filter(|gap| **gap > 2e6).count() as f64 / GAPS as f64;
        assert!((above - (-2f64).exp()).abs() < 0.005, "{above}");
    }
}

#[test]
fn poisson_counts_are_as_dispersed_as_their_mean() {
    for seed in 10..13 {
        let arrivals = Arrivals::new(gaps(1_000.0, Arrival::Poisson, seed), 0, 1);
        let mut counts = vec![0.0; 9_000];
        for (_, instant_ns) in arrivals.take(GAPS) {
            if let Some(count) = counts.get_mut((instant_ns / 10_000_000) as usize) {
                *count += 1.0;
            }
        }
        // Variance over mean of counts in 9,000 windows of 10 expected arrivals; its
        // standard error is sqrt(2/9,000) = 0.015. Poisson gives 1.
        let dispersion = variance(&counts) / mean(&counts);
        assert!((dispersion - 1.0).abs() < 0.075, "{dispersion}");
    }
}

#[test]
fn gamma_gaps_have_the_burstiness_that_was_asked_for() {
    for burstiness in [0.25, 0.5, 1.0, 4.0, 100.0] {
        let gaps = drawn(Arrival::Gamma { burstiness }, 5);
        let cv = 1.0 / burstiness.sqrt();
        // Bounds of five standard errors. Mean: CV/sqrt(n) of itself. CV: by the delta method
        // its relative variance is (1 + 1/k)/(2n) for shape k.
        assert!((mean(&gaps) / 1e6 - 1.0).abs() < 5.0 * cv / 316.0);
        let found = variance(&gaps).sqrt() / mean(&gaps);
        let bound = 5.0 * (0.5 + 0.5 / burstiness).sqrt() / 316.0;
        assert!((found / cv - 1.0).abs() < bound, "{burstiness}: {found} for {cv}");
        assert!(lag_one_correlation(&gaps).abs() < 5.0 / 316.0);
    }
}

#[test]
fn constant_arrivals_do_not_drift() {
    let instants = |rate, count| -> Vec<u64> {
        Arrivals::new(gaps(rate, Arrival::Constant, 0), 0, 1)
            .take(count)
            .map(|(_, instant_ns)| instant_ns)
            .collect()
    };
    assert_eq!(instants(3.0, 4), [0, 333_333_333, 666_666_667, 1_000_000_000]);
    let last = instants(3.0, 300_001).pop();
    assert_eq!(last, Some(100_000_000_000_000), "a day and more at 3 a second");
    assert_eq!(instants(7e6, 700_001).pop(), Some(100_000_000));
}

#[test]
fn arrivals_are_the_same_on_any_number_of_reactors() {
    for arrival in [Arrival::Constant, Arrival::Poisson, Arrival::Gamma { burstiness: 0.5 }] {
        let gaps = gaps(50.0, arrival, 11);
        let alone: Vec<_> = Arrivals::new(gaps, 0, 1).take(600).collect();
        for reactors in 1..=3 {
            let mut union: Vec<_> = (0..reactors)
                .flat_map(|reactor| Arrivals::new(gaps, reactor, reactors).take(600 / reactors))
                .collect();
            union.sort_unstable();
            assert_eq!(union, alone, "{arrival:?} on {reactors}");
        }
    }
}

#[test]
fn a_reactor_past_the_last_has_nothing_to_do() {
    let gaps = gaps(50.0, Arrival::Constant, 0);
    assert_eq!(Arrivals::new(gaps, 2, 2).next(), None);
    assert_eq!(Arrivals::new(gaps, 0, 0).next(), Some((0, 0)));
}

#[test]
fn another_seed_gives_other_gaps_of_the_same_law() {
    assert_ne!(drawn(Arrival::Poisson, 1)[..5], drawn(Arrival::Poisson, 2)[..5]);
}

#[test]
fn the_gaps_are_the_ones_that_were_published() {
    let poisson = gaps(10.0, Arrival::Poisson, 42);
    assert_eq!(
        [0, 1, 2, 1_000].map(|index| poisson.gap_ns(index)),
        [72_694_854, 9_676_231, 118_203_234, 273_262_470]
    );
    let gamma = gaps(10.0, Arrival::Gamma { burstiness: 0.5 }, 42);
    assert_eq!(
        [0, 1, 2, 1_000].map(|index| gamma.gap_ns(index)),
        [40_330_060, 167_877_932, 119_633_442, 403_049_140]
    );
}

#[test]
fn rates_and_shapes_that_make_no_sense_are_refused() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-6, 1.1e7] {
        let error = Gaps::new(rate, Arrival::Poisson, 0).unwrap_err();
        assert!(error.to_string().contains("requests per second"), "{error}");
    }
    for burstiness in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
        let error = Gaps::new(1.0, Arrival::Gamma { burstiness }, 0).unwrap_err();
        assert!(error.to_string().starts_with("burstiness"), "{error}");
    }
}

proptest! {
    #[test]
    fn constant_instants_are_within_a_ns_of_the_true_ones(
        rate in 1u64..10_000_000, index in 0u64..1_000_000_000,
    ) {
        prop_assume!(index / rate < 50 * 86_400);
        let instant_ns = gaps(rate as f64, Arrival::Constant, 0).constant_ns(index);
        let exact = u128::from(index) * 1_000_000_000 / u128::from(rate);
        prop_assert!(u128::from(instant_ns).abs_diff(exact) <= 1);
    }
}
