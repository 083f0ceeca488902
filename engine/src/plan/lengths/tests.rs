//! Draws against the exact laws, with fixed seeds: 100,000 of each.

use std::collections::HashMap;
use std::io::Write;

use super::*;
use crate::workload::law::special::{gamma_halves, normal_halves};

const DRAWS: u64 = 100_000;
const ROOT: f64 = 316.227_766;
/// Kolmogorov's distance times the root of the draws that a true law passes but once in 1,000.
const KS_MAX: f64 = 1.95;

fn law(text: &str) -> Law {
    Law::of_lengths(text).unwrap()
}

fn apart(input: &str, output: &str) -> LengthLaw {
    LengthLaw::Apart { input: law(input), output: law(output) }
}

fn drawn(law: &LengthLaw, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let sampler = LengthSampler::new(law, seed);
    let lengths = (0..DRAWS).map(|index| sampler.at(index));
    lengths.map(|lengths| (f64::from(lengths.input), f64::from(lengths.output))).unzip()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn covariance(left: &[f64], right: &[f64]) -> f64 {
    let (left_mean, right_mean) = (mean(left), mean(right));
    let products = left.iter().zip(right).map(|(l, r)| (l - left_mean) * (r - right_mean));
    products.sum::<f64>() / left.len() as f64
}

fn sd(values: &[f64]) -> f64 {
    covariance(values, values).sqrt()
}

fn correlation(left: &[f64], right: &[f64]) -> f64 {
    covariance(left, right) / sd(left) / sd(right)
}

/// The largest distance between the share of values up to *k* and `cdf(k + 0.5)`, what rounding
/// makes of a continuous law, over all *k* drawn.
fn distance(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let (mut largest, mut seen) = (0f64, 0);
    for group in values.chunk_by(|left, right| left == right) {
        let before = seen as f64 / values.len() as f64;
        seen += group.len();
        let after = seen as f64 / values.len() as f64;
        let from = (cdf(group[0] - 0.5) - before).abs();
        largest = largest.max(from).max((cdf(group[0] + 0.5) - after).abs());
    }
    largest * ROOT
}

/// Checks the draws of a law that its clamps hardly touch.
fn check(text: &str, sd_exact: f64, kurtosis: f64, cdf: impl Fn(f64) -> f64) {
    let both = apart(text, text);
    let (input, output) = drawn(&both, 5);
    for values in [&input, &output] {
        let error = sd_exact / ROOT;
        let found = mean(values);
        assert!((found - law(text).mean()).abs() < 4.0 * error, "{text}: mean {found}");
        // The standard error of a standard deviation, from the fourth moment.
        let bound = 4.0 * sd_exact * ((kurtosis - 1.0) / 4.0).sqrt() / ROOT;
        assert!((sd(values) - sd_exact).abs() < bound, "{text}: sd {}", sd(values));
        let lag_one = correlation(&values[1..], &values[..values.len() - 1]);
        assert!(lag_one.abs() < 4.0 / ROOT, "{text}: lag one {lag_one}");
    }
    let between = correlation(&input, &output);
    assert!(between.abs() < 4.0 / ROOT, "{text}: input and output {between}");
    // Values below the least length are at it.
    let clamped = |value: f64| if value < 1.0 { 0.0 } else { cdf(value) };
    for values in [input, output] {
        let found = distance(values, clamped);
        assert!(found < KS_MAX, "{text}: {found}");
    }
}

#[test]
fn normal_lengths_are_normal() {
    check("normal:2000,300", 300.0, 3.0, |x| normal_halves((x - 2000.0) / 300.0).0);
}

#[test]
fn gamma_and_exponential_lengths_follow_their_laws() {
    // Excess kurtosis 6 / shape.
    check("gamma:2000,1000", 1000.0, 4.5, |x| gamma_halves(4.0, x / 500.0).0);
    check("exp:3000", 3000.0, 9.0, |x| 1.0 - (-x / 3000.0).exp());
}

#[test]
fn lognormal_lengths_follow_their_law_by_moments_or_percentiles() {
    let sigma_squared = 0.25f64.ln_1p();
    let mu = 2000f64.ln() - sigma_squared / 2.0;
    let kurtosis = 6.9;
    check("lognormal:2000,1000", 1000.0, kurtosis, |x| {
        normal_halves((x.ln() - mu) / sigma_squared.sqrt()).0
    });
    let (input, _) = drawn(&apart("lognormal:median=512,p95=4096", "1"), 8);
    let share =
        |most: f64| input.iter().filter(|value| **value <= most).count() as f64 / DRAWS as f64;
    assert!((share(512.0) - 0.5).abs() < 4.0 * 0.5 / ROOT, "{}", share(512.0));
    assert!((share(4096.0) - 0.95).abs() < 4.0 * 0.218 / ROOT, "{}", share(4096.0));
}

#[test]
fn uniform_lengths_reach_both_ends_alike() {
    let sd = (901f64.powi(2) / 12.0).sqrt();
    check("uniform:100,1000", sd, 1.8, |x| ((x - 99.5) / 901.0).clamp(0.0, 1.0));
    let (input, _) = drawn(&apart("uniform:1,4", "1"), 1);
    let found = chi_square(&input, &[(1.0, 0.25), (2.0, 0.25), (3.0, 0.25), (4.0, 0.25)]);
    assert!(found < 16.3, "{found}: 3 degrees, once in 1,000");
}

/// Pearson's statistic of values against their probabilities.
fn chi_square(values: &[f64], law: &[(f64, f64)]) -> f64 {
    let mut counts: HashMap<u64, f64> = HashMap::new();
    values.iter().for_each(|value| *counts.entry(*value as u64).or_default() += 1.0);
    let term = |(value, probability): &(f64, f64)| {
        let expected = probability * values.len() as f64;
        (counts.get(&(*value as u64)).copied().unwrap_or(0.0) - expected).powi(2) / expected
    };
    law.iter().map(term).sum()
}

#[test]
fn zipf_lengths_are_as_frequent_as_their_weights() {
    for (exponent, seed) in [(0.5, 1), (1.0, 2), (1.2, 3), (3.0, 4)] {
        let (input, _) = drawn(&apart(&format!("zipf:{exponent},20"), "1"), seed);
        let weights: Vec<f64> = (1..=20).map(|k| f64::from(k).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        let law: Vec<(f64, f64)> =
            weights.iter().zip(1..).map(|(w, k)| (f64::from(k), w / total)).collect();
        let found = chi_square(&input, &law);
        assert!(found < 43.8, "{exponent}: {found}; 19 degrees, once in 1,000");
    }
}

#[test]
fn mixes_and_files_keep_their_weights() {
    let (input, _) = drawn(&apart("mix:70%*512,25%*64,5%*9", "1"), 2);
    let found = chi_square(&input, &[(512.0, 0.7), (64.0, 0.25), (9.0, 0.05)]);
    assert!(found < 13.8, "{found}: 2 degrees, once in 1,000");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"5,1\n6,0\n7,2\n8,1\n").unwrap();
    let (input, _) = drawn(&apart(&format!("file:{}", file.path().display()), "1"), 2);
    let found = chi_square(&input, &[(5.0, 0.25), (7.0, 0.5), (8.0, 0.25)]);
    assert!(found < 13.8, "{found}");
    assert!(!input.contains(&6.0));
}

#[test]
fn clamps_hold_and_gather_what_is_outside() {
    let (input, output) = drawn(&apart("normal:100,50,min=80,max=120", "normal:5,100"), 4);
    assert!(input.iter().all(|value| (80.0..=120.0).contains(value)));
    let outside = normal_halves(-0.4).0;
    for end in [80.0, 120.0] {
        let found = input.iter().filter(|value| **value == end).count() as f64 / DRAWS as f64;
        // Half a token around the bound rounds to it too.
        assert!((found - outside).abs() < 4.0 * 0.5 / ROOT + 0.005, "{end}: {found}");
    }
    assert!(output.iter().all(|value| *value >= 1.0));
    let (huge, _) = drawn(&apart("lognormal:4000000,4000000", "1"), 4);
    assert!(huge.iter().all(|value| *value <= f64::from(LENGTH_MAX)));
    assert!(huge.contains(&f64::from(LENGTH_MAX)));
}

#[test]
fn pairs_stay_together() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"input,output,weight\n100,900,1\n200,500,2\n300,100,1\n").unwrap();
    let pairs = LengthLaw::of_pairs(&file.path().display().to_string()).unwrap();
    let joint = LengthLaw::Joint(vec![
        (1.0, law("100"), law("900")),
        (2.0, law("200"), law("500")),
        (1.0, law("300"), law("100")),
    ]);
    for lengths in [pairs, joint] {
        let (input, output) = drawn(&lengths, 6);
        assert!(correlation(&input, &output) < -0.999_999);
        let found = chi_square(&input, &[(100.0, 0.25), (200.0, 0.5), (300.0, 0.25)]);
        assert!(found < 13.8, "{found}");
        assert!(input.iter().zip(&output).all(|(input, output)| *output == 1300.0 - 4.0 * input));
    }
}

#[test]
fn lengths_depend_on_seed_and_index_alone() {
    let both = apart("normal:512,128", "exp:64");
    let sampler = LengthSampler::new(&both, 7);
    let backwards: Vec<Lengths> = (0..100).rev().map(|index| sampler.at(index)).collect();
    let forwards: Vec<Lengths> = (0..100).map(|index| sampler.clone().at(index)).collect();
    assert!(forwards.iter().eq(backwards.iter().rev()));
    assert_ne!(sampler.at(3), LengthSampler::new(&both, 8).at(3));
    // The input comes first and does not know of the output.
    let other = LengthSampler::new(&apart("normal:512,128", "9"), 7);
    assert!((0..100).all(|index| other.at(index).input == sampler.at(index).input));
    let fixed = LengthSampler::new(&LengthLaw::constant(512, 64), 7);
    assert_eq!(fixed.at(u64::MAX), Lengths { input: 512, output: 64 });
    let none = LengthLaw::Apart { input: law("5"), output: Law::constant(0) };
    assert_eq!(LengthSampler::new(&none, 0).at(0).output, 0);
    assert_eq!(LengthSampler::new(&LengthLaw::Joint(Vec::new()), 0).at(0).input, 1);
}

#[test]
fn a_seed_keeps_its_lengths() {
    let sampler = LengthSampler::new(&apart("normal:512,128", "lognormal:median=64,p95=512"), 42);
    let found = [0, 1, 1_000].map(|index| sampler.at(index)).map(|l| (l.input, l.output));
    assert_eq!(found, [(433, 133), (537, 69), (292, 61)]);
}
