//! What many hosts do to one load, in simulated time: the engine's own arrivals, dealt to hosts whose
//! clocks disagree, before a server whose queue is known; hosts that start late or not at all; and what
//! becomes of percentiles that are averaged.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use tokclock_engine::plan::Arrivals;
use tokclock_engine::plan::arrival::Gaps;
use tokclock_engine::workload::Arrival;

/// Arrivals of the whole load per second.
const RATE: f64 = 10_000.0;
/// Arrivals that are looked at.
const ARRIVALS: usize = 400_000;
/// So many standard deviations of the clocks are left out at both ends.
const EDGES: f64 = 8.0;
/// How much of the server's time the load takes.
const UTILISATION: f64 = 0.8;
const NS_PER_S: f64 = 1e9;
const SEED: u64 = 7;

fn main() {
    skew();
    averages();
    starts();
    missing();
}

/// Arrivals of `hosts` hosts whose clocks are off by a normal law of `sigma_ns`, in order, ns.
fn seen(arrival: Arrival, hosts: u32, sigma_ns: f64) -> Vec<f64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let gaps = Gaps::new(RATE, arrival, SEED).unwrap();
    let offsets: Vec<f64> = (0..hosts)
        .map(|_| -> f64 {
            let off: f64 = StandardNormal.sample(&mut random);
            off * sigma_ns
        })
        .collect();
    let mut all: Vec<f64> = Arrivals::new(gaps, 0, 1)
        .take(ARRIVALS)
        .map(|(index, at)| at as f64 + offsets[(index % u64::from(hosts)) as usize])
        .collect();
    all.sort_unstable_by(f64::total_cmp);
    // Not the edges, where some hosts have not begun and others have ended.
    let edge = EDGES * sigma_ns;
    let (first, last) = (all.first().copied().unwrap_or(0.0), all.last().copied().unwrap_or(0.0));
    all.retain(|at| (first + edge..=last - edge).contains(at));
    all
}

/// Standard deviation of the gaps over their mean.
fn variation(arrivals: &[f64]) -> f64 {
    let gaps: Vec<f64> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    square.sqrt() / mean
}

/// The 99th percentile of the wait before a server that serves one after another, each in the same
/// time, in service times (Lindley's recursion).
fn wait_p99(arrivals: &[f64]) -> f64 {
    let service = UTILISATION / RATE * NS_PER_S;
    let mut free = f64::MIN;
    let mut waits: Vec<f64> = arrivals
        .iter()
        .map(|&at| {
            let begins = at.max(free);
            free = begins + service;
            (begins - at) / service
        })
        .collect();
    waits.sort_unstable_by(f64::total_cmp);
    waits[waits.len() * 99 / 100]
}

fn skew() {
    println!(
        "Start skew: {RATE} arrivals/s over so many hosts whose clocks are off by a normal law.\n\
         CV of all gaps as the server sees them, and p99 of the wait before a server that is busy\n\
         {:.0} % of the time, in service times; the plan itself first.\n",
        UTILISATION * 100.0
    );
    println!(
        "{:<22} {:>12} {:>14} {:>14} {:>14} {:>14}",
        "arrivals, hosts", "no skew", "0.1 ms", "1 ms", "10 ms", "100 ms"
    );
    let laws = [
        ("constant", Arrival::Constant),
        ("gamma, burstiness 4", Arrival::Gamma { burstiness: 4.0 }),
        ("poisson", Arrival::Poisson),
        ("gamma, burstiness 0.25", Arrival::Gamma { burstiness: 0.25 }),
    ];
    for (name, law) in laws {
        println!("{name}");
        for hosts in [10, 100, 1000] {
            let cell = |sigma_ms: f64| {
                let arrivals = seen(law, hosts, sigma_ms * 1e6);
                format!("{:.2} / {:.1}", variation(&arrivals), wait_p99(&arrivals))
            };
            println!(
                "{hosts:>22} {:>12} {:>14} {:>14} {:>14} {:>14}",
                cell(0.0),
                cell(0.1),
                cell(1.0),
                cell(10.0),
                cell(100.0)
            );
        }
    }
    println!();
}

/// TTFT of one request, ms: a lognormal law, `slow` times as long on a slow path.
fn ttft(random: &mut Xoshiro256PlusPlus, slow: f64) -> f64 {
    let law = LogNormal::new(100_f64.ln(), 0.5).unwrap();
    law.sample(random) * slow
}

fn p99(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[(values.len() * 99).div_ceil(100) - 1]
}

fn averages() {
    println!(
        "Averaged percentiles: p99 of TTFT over all requests, and the mean of the hosts' own p99.\n"
    );
    println!(
        "{:<44} {:>10} {:>12} {:>8}",
        "hosts, requests each, share of slow hosts", "pooled", "averaged", "ratio"
    );
    for (hosts, each, slow) in [
        (10, 10_000, 0.0),
        (100, 1_000, 0.0),
        (1000, 100, 0.0),
        (100, 1_000, 0.01),
        (100, 1_000, 0.1),
    ] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut pooled = Vec::new();
        let mut sum = 0.0;
        for host in 0..hosts {
            let factor = if f64::from(host) < slow * f64::from(hosts) { 3.0 } else { 1.0 };
            let mut own: Vec<f64> = (0..each).map(|_| ttft(&mut random, factor)).collect();
            sum += p99(&mut own);
            pooled.extend(own);
        }
        let (pooled, averaged) = (p99(&mut pooled), sum / f64::from(hosts));
        let name = format!("{hosts}, {each}, {:.0} % three times as slow", slow * 100.0);
        println!("{name:<44} {pooled:>10.1} {averaged:>12.1} {:>8.2}", averaged / pooled);
    }
    println!();
}

fn starts() {
    println!(
        "Margin of the common start: if a host needs 0.2 s (median) to stand ready, by a lognormal law\n\
         with a p99 of 1 s or of 5 s, so long before the start all must be told for all to be in time.\n"
    );
    println!("{:<10} {:>22} {:>22}", "hosts", "p99 of one 1 s", "p99 of one 5 s");
    for hosts in [1, 10, 100, 1000] {
        let margin = |p99_s: f64| {
            // With 99 % certainty all are in time: each within the 0.99^(1/hosts) quantile.
            let sigma = (p99_s / 0.2).ln() / 2.326_348;
            let each = 0.99_f64.powf(1.0 / f64::from(hosts));
            0.2 * (sigma * normal_quantile(each)).exp()
        };
        println!("{hosts:<10} {:>20.1} s {:>20.1} s", margin(1.0), margin(5.0));
    }
    println!();
}

/// The normal quantile of `p`, by bisection of the law's tail (Abramowitz and Stegun 26.2.17).
fn normal_quantile(p: f64) -> f64 {
    let tail = |x: f64| {
        let t = 1.0 / (1.0 + 0.231_641_9 * x);
        let series = t
            * (0.319_381_53
                + t * (-0.356_563_782
                    + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
        (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series
    };
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if tail(middle) > 1.0 - p { low = middle } else { high = middle }
    }
    low
}

fn missing() {
    println!(
        "Hosts that fail during a run: chance that all hold out, and that at least 99 % of the load is\n\
         sent, where each fails with the chance at the top.\n"
    );
    println!("{:<10} {:>20} {:>20} {:>20}", "hosts", "0.01 %", "0.1 %", "1 %");
    for hosts in [1_u32, 10, 100, 1000] {
        let cell = |chance: f64| {
            let all = (1.0 - chance).powi(hosts as i32);
            let spare = hosts / 100;
            let (mut mass, mut most) = (all, all);
            for k in 1..=spare {
                mass *= f64::from(hosts - k + 1) / f64::from(k) * chance / (1.0 - chance);
                most += mass;
            }
            format!("{:.1} %, {:.1} %", all * 100.0, most * 100.0)
        };
        println!("{hosts:<10} {:>20} {:>20} {:>20}", cell(1e-4), cell(1e-3), cell(1e-2));
    }
}
