//! Instants of series against the process that they are to be.

use proptest::prelude::*;

use super::super::{Arrivals, Gaps};
use super::*;

fn paced(text: &str, arrival: Arrival, seed: u64) -> Paced {
    Paced::new(&text.parse().unwrap(), arrival, seed).unwrap()
}

fn instants(text: &str, arrival: Arrival, seed: u64) -> Vec<u64> {
    let arrivals = Arrivals::of_series(&paced(text, arrival, seed), 0, 1);
    arrivals.map(|(_, instant_ns)| instant_ns).collect()
}

fn between(instants: &[u64], from_s: f64, to_s: f64) -> usize {
    let (from, to) = ((from_s * 1e9) as u64, (to_s * 1e9) as u64);
    instants.iter().filter(|instant| (from..to).contains(instant)).count()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

#[test]
fn a_constant_ramp_sends_at_the_root() {
    let sent = instants("0..100@4s,100@4s", Arrival::Constant, 0);
    assert_eq!(sent.len(), 600);
    for (index, instant_ns) in sent.iter().take(200).enumerate() {
        let exact = (2.0 * index as f64 * 4.0 / 100.0).sqrt() * 1e9;
        assert!((*instant_ns as f64 - exact).abs() <= 1.0, "{index}: {instant_ns} for {exact}");
    }
    let in_second = |second: usize| between(&sent, second as f64, second as f64 + 1.0);
    let counts: Vec<usize> = (0..8).map(in_second).collect();
    assert_eq!(counts[4..], [100; 4]);
    for (count, range) in counts.iter().zip([11..=14, 36..=39, 61..=64, 86..=89]) {
        assert!(range.contains(count), "{count} in {range:?}");
    }
    assert!((198..=202).contains(&between(&sent, 0.0, 4.0)));
}

#[test]
fn constant_steps_hold_their_rates_exactly() {
    let sent = instants("50@2s,0@1s,100@2s", Arrival::Constant, 0);
    assert_eq!(sent.len(), 300);
    assert_eq!(between(&sent, 0.0, 2.0), 100);
    assert_eq!((sent[0], sent[99]), (0, 1_980_000_000));
    assert_eq!(sent[100], 3_000_000_000, "none in the silence, none at its begin");
    assert_eq!(sent.last(), Some(&4_990_000_000));
    let falling = instants("100..0@4s", Arrival::Constant, 0);
    assert_eq!(falling.len(), 200);
    let last_ns = 4e9 - 2e9 * (2.0 / 25.0f64).sqrt() / 2.0;
    assert!((*falling.last().unwrap() as f64 - last_ns).abs() <= 1.0);
}

#[test]
fn a_rate_that_stays_gives_the_instants_of_a_plain_rate() {
    for rate in ["3", "7", "1234.5"] {
        let series = Arrivals::of_series(&paced(rate, Arrival::Constant, 0), 0, 1);
        let gaps = Gaps::new(rate.parse().unwrap(), Arrival::Constant, 0).unwrap();
        assert!(series.take(10_000).eq(Arrivals::new(gaps, 0, 1).take(10_000)));
    }
    let series = Arrivals::of_series(&paced("50", Arrival::Poisson, 9), 0, 1).take(1_000);
    let gaps = Gaps::new(50.0, Arrival::Poisson, 9).unwrap();
    // Sums are rounded to 2^-24 of 20 ms, 1.2 ns, in each gap.
    for ((_, found), (_, plain)) in series.zip(Arrivals::new(gaps, 0, 1)) {
        assert!(found.abs_diff(plain) < 200, "{found} for {plain}");
    }
}

#[test]
fn poisson_pieces_have_the_counts_of_their_rates() {
    let text = "500@20s,0..2000@20s,2000@10s,1500..100@20s";
    for seed in 0..3 {
        let sent = instants(text, Arrival::Poisson, seed);
        let pieces = [(0.0, 20.0, 10_000.0), (20.0, 40.0, 20_000.0), (40.0, 50.0, 20_000.0)];
        let halves = [(20.0, 30.0, 5_000.0), (30.0, 40.0, 15_000.0), (50.0, 70.0, 16_000.0)];
        for (from, to, expected) in pieces.into_iter().chain(halves) {
            let count = between(&sent, from, to) as f64;
            assert!((count - expected).abs() < 4.0 * expected.sqrt(), "{from}: {count}");
        }
        assert!(sent.is_sorted() && *sent.last().unwrap() <= 70_000_000_000);
    }
}

#[test]
fn poisson_arrivals_are_a_poisson_process_in_their_own_time() {
    let series: RateSeries = "0..1000@60s,1000@40s,1000..200@60s".parse().unwrap();
    let sent = instants(&series.to_string(), Arrival::Poisson, 12);
    // Λ at each instant, from the pieces as they are written.
    let integral = |instant_ns: u64| {
        let t = instant_ns as f64 / 1e9;
        let (up, level, down) = (t.min(60.0), (t - 60.0).clamp(0.0, 40.0), (t - 100.0).max(0.0));
        up * up * 1000.0 / 120.0 + level * 1000.0 + down * 1000.0 - down * down * 800.0 / 120.0
    };
    let sums: Vec<f64> = sent.iter().map(|instant| integral(*instant)).collect();
    let mut gaps: Vec<f64> = sums.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let root = (gaps.len() as f64).sqrt();
    let middle = mean(&gaps);
    let products = gaps.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle));
    let lag_one = products.sum::<f64>() / gaps.len() as f64 / variance(&gaps);
    assert!(lag_one.abs() < 4.0 / root, "{lag_one}");
    gaps.sort_by(f64::total_cmp);
    let distance = gaps.iter().enumerate().map(|(index, gap)| {
        let exact = 1.0 - (-gap).exp();
        let (below, above) = (index as f64, index as f64 + 1.0);
        (exact - below / gaps.len() as f64).abs().max((exact - above / gaps.len() as f64).abs())
    });
    let distance = distance.fold(0.0, f64::max) * root;
    assert!(distance < 1.95, "Kolmogorov {distance}: more but once in 1,000");
    // Counts in windows of ten arrivals: variance over mean is 1 with an error of sqrt(2/n).
    let mut counts = vec![0.0; 10_000];
    for sum in &sums {
        if let Some(count) = counts.get_mut((sum / 10.0) as usize) {
            *count += 1.0;
        }
    }
    let dispersion = variance(&counts) / mean(&counts);
    assert!((dispersion - 1.0).abs() < 4.0 * (2.0f64 / 10_000.0).sqrt(), "{dispersion}");
}

#[test]
fn gamma_gaps_keep_their_spread_whatever_the_rate() {
    let sent = instants("200@50s,2000@50s", Arrival::Gamma { burstiness: 4.0 }, 3);
    for (from, to, gap_ns) in [(0.0, 50.0, 5e6), (50.0, 100.0, 5e5)] {
        let inside: Vec<u64> = sent
            .iter()
            .copied()
            .filter(|instant| (from..to).contains(&(*instant as f64 / 1e9)))
            .collect();
        let gaps: Vec<f64> = inside.windows(2).map(|p| (p[1] - p[0]) as f64 / gap_ns).collect();
        let root = (gaps.len() as f64).sqrt();
        assert!((mean(&gaps) - 1.0).abs() < 4.0 * 0.5 / root);
        assert!((variance(&gaps).sqrt() - 0.5).abs() < 4.0 * 0.5 * (0.5f64 + 0.125).sqrt() / root);
    }
}

#[test]
fn a_series_is_the_same_on_any_number_of_reactors() {
    for arrival in [Arrival::Constant, Arrival::Poisson, Arrival::Gamma { burstiness: 0.5 }] {
        let paced = paced("0..60@5s,20@5s,0@1s,90..10@5s", arrival, 11);
        let alone: Vec<_> = Arrivals::of_series(&paced, 0, 1).collect();
        assert!(alone.iter().enumerate().all(|(index, (found, _))| index as u64 == *found));
        for reactors in 1..=3 {
            let share = |reactor| Arrivals::of_series(&paced, reactor, reactors);
            let mut union: Vec<_> = (0..reactors).flat_map(share).collect();
            union.sort_unstable();
            assert_eq!(union, alone, "{arrival:?} on {reactors}");
        }
    }
}

#[test]
fn a_series_without_end_goes_on_and_one_with_too_many_is_refused() {
    let ramp = RateSeries::ramp(1_000.0, 1_000_000_000).unwrap();
    let paced = Paced::new(&ramp, Arrival::Constant, 0).unwrap();
    let last = Arrivals::of_series(&paced, 0, 1).nth(100_500).unwrap();
    assert_eq!(last, (100_500, 101_000_000_000));
    let huge: RateSeries = "10000000@24h".parse().unwrap();
    let text = Paced::new(&huge, Arrival::Constant, 0).unwrap_err().to_string();
    assert!(text.contains("8.64e11 arrivals"), "{text}");
}

proptest! {
    #[test]
    fn the_inverse_of_the_integral_is_its_inverse(
        from in 0.0f64..1e5, to in 0.0f64..1e5, duration_ns in 1_000_000u64..1_000_000_000_000,
        share in 0.0f64..1.0, step in 0u64..1_000,
    ) {
        prop_assume!(from + to > 1e-3);
        let piece = Piece { duration_ns, from, to };
        let end = (piece.arrivals() * PARTS) as u64;
        let leg = Leg { piece, begin_ns: 0, begin: 0, end };
        let parts = (share * end as f64) as u64;
        let offset_ns = leg.offset_ns(parts);
        prop_assert!(offset_ns <= duration_ns);
        prop_assert!(leg.offset_ns(parts + step) + 1 >= offset_ns, "but for the last bit");
        // Back by the integral, whose error is that of half a ns at the highest rate around.
        let t = offset_ns as f64 / 1e9;
        let slope = (to - from) / (duration_ns as f64 / 1e9);
        let back = from * t + slope * t * t / 2.0;
        let bound = from.max(to) * 1e-9 + 1.0 / PARTS + back * 1e-12;
        prop_assert!((back - parts as f64 / PARTS).abs() <= bound, "{back}");
    }

    #[test]
    fn instants_never_go_back_and_end_with_the_series(
        pieces in prop::collection::vec((1u64..2_000_000_000, 0.0f64..300.0, 0.0f64..300.0), 1..6),
        seed: u64,
    ) {
        let pieces = pieces.iter().map(|(duration_ns, from, to)| {
            Piece { duration_ns: *duration_ns, from: *from, to: *to }
        });
        let series = RateSeries::new(pieces.collect()).unwrap();
        let duration_ns = series.duration_ns().unwrap();
        for arrival in [Arrival::Constant, Arrival::Poisson] {
            let paced = Paced::new(&series, arrival, seed).unwrap();
            let sent: Vec<u64> = Arrivals::of_series(&paced, 0, 1).map(|(_, at)| at).collect();
            prop_assert!(sent.is_sorted());
            prop_assert!(sent.last().is_none_or(|last| *last <= duration_ns));
            if arrival == Arrival::Constant {
                prop_assert!((sent.len() as f64 - series.arrivals_expected()).abs() <= 1.0);
            }
        }
    }
}
