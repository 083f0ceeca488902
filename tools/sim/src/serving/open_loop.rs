//! For tests: requests of one length that arrive by a Poisson law, in simulated time.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Arrival, Serving, ServingSettings};

/// What an open loop saw.
#[derive(Debug)]
pub(super) struct Seen {
    /// Requests completed per second between the first quarter of the arrivals and the last.
    pub(super) rps: f64,
    /// Share of all requests that were refused.
    pub(super) refused: f64,
    /// 95th percentiles, in ns, of those that arrived in the second quarter and in the last.
    pub(super) ttft_ns: [u64; 2],
    /// 95th percentile of the time between two tokens of a request, in ns.
    pub(super) itl_ns: u64,
    pub(super) preemptions: u64,
}

/// Sends `requests` at `rate` per second.
pub(super) fn run(settings: &ServingSettings, rate: f64, requests: usize, seed: u64) -> Seen {
    let (input, output) = (128, 32);
    let mut serving = Serving::new(settings);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut arrived, mut first) = (Vec::new(), vec![0; requests]);
    let (mut last, mut gaps, mut done) = (vec![0; requests], Vec::new(), Vec::new());
    let mut at_s = 0.0;
    let mut refused = 0;
    let mut take = |token: super::Emitted| {
        let id = token.id as usize;
        if token.index == 0 {
            first[id] = token.at_ns;
        } else {
            gaps.push(token.at_ns - last[id]);
        }
        last[id] = token.at_ns;
        if token.is_last {
            done.push(token.at_ns);
        }
    };
    for id in 0..requests {
        at_s -= (1.0 - rng.random::<f64>()).ln() / rate;
        let now_ns = (at_s * 1e9) as u64;
        serving.advance(now_ns, &mut take);
        let arrival = serving.arrive(now_ns, id as u64, input, output);
        refused += usize::from(arrival != Arrival::Queued);
        arrived.push(now_ns);
    }
    while let Some(end_ns) = serving.next_ns() {
        serving.advance(end_ns, &mut take);
    }
    let (from_ns, to_ns) = (arrived[requests / 4], arrived[requests - 1]);
    let within = done.iter().filter(|at| (from_ns..to_ns).contains(at)).count();
    let ttft = |ids: std::ops::Range<usize>| {
        let served = ids.filter(|&id| first[id] > 0);
        p95(served.map(|id| first[id] - arrived[id]).collect())
    };
    Seen {
        rps: within as f64 * 1e9 / (to_ns - from_ns) as f64,
        refused: refused as f64 / requests as f64,
        ttft_ns: [ttft(requests / 4..requests / 2), ttft(requests * 3 / 4..requests)],
        itl_ns: p95(gaps),
        preemptions: serving.counters().preemptions,
    }
}

fn p95(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() * 95 / 100]
}
