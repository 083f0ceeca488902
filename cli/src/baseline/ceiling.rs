//! What one reactor sustains as fast as the simulator sends.

use super::bench::Bench;
use super::ladder::{Plan, blame};
use super::point::{Point, Rates};
use super::result::{Kind, Limit, Rung};
use crate::exit::Failure;

/// A load at full speed that leaves the bounds is tried again at these shares of it.
const SHARES: [f64; 4] = [0.8, 0.6, 0.4, 0.2];

/// A figure of the ceiling.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// The median of the runs; `None` if no speed was inside the bounds.
    pub(super) median: Option<f64>,
    pub(super) runs: Vec<f64>,
    pub(super) limit: Limit,
}

/// Finds the figure of `kind`: the fastest speed whose errors are inside the bounds, then the median
/// of runs at it that keep nothing, as most runs do. `None` if it was interrupted.
///
/// # Errors
/// If a load cannot be carried out.
pub(super) fn find(
    bench: &mut Bench<'_>,
    plan: &Plan,
    kind: Kind,
    ladder: &mut Vec<Rung>,
) -> Result<Option<Found>, Failure> {
    let flood = Point::flood(kind, plan.duration_ns / 2);
    let Some(first) = bench.rung(&flood, true)? else { return Ok(None) };
    let limit = blame(&first, bench.placement.is_shared);
    let requests_per_s = first.requests_per_s;
    let mut inside = first.is_inside.then(|| flood.clone());
    ladder.push(first);
    for share in SHARES {
        let (None, Some(requests_per_s)) = (&inside, requests_per_s) else { break };
        let slower = slowed(&flood, requests_per_s, share);
        let Some(rung) = bench.rung(&slower, true)? else { return Ok(None) };
        inside = rung.is_inside.then_some(slower);
        ladder.push(rung);
    }
    let mut runs = Vec::new();
    if let Some(point) = inside {
        let plain = Point { is_witnessed: false, ..point };
        for _ in 0..plan.runs {
            let Some(rates) = bench.rates(&plain)? else { return Ok(None) };
            runs.extend(figure(kind, rates));
        }
    }
    Ok(Some(Found { median: median(&runs), runs, limit }))
}

/// The same load at about `share` of the requests per second: users wait for their first token.
fn slowed(flood: &Point, requests_per_s: f64, share: f64) -> Point {
    let alone_ns = flood.streams as f64 * 1e9 / requests_per_s;
    Point { ttft_ns: (alone_ns * (1.0 / share - 1.0)) as u64, ..flood.clone() }
}

fn figure(kind: Kind, rates: Rates) -> Option<f64> {
    if kind == Kind::Requests { rates.requests } else { rates.chunks }
}

/// The middle one; of an even number the lower of the two.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_one_of_the_runs() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(1.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_slowed_load_has_the_share_that_it_was_asked_for() {
        let flood = Point::flood(Kind::Requests, 1);
        // 64 users at 6400 requests/s take 10 ms each; at half the speed 20 ms.
        assert_eq!(slowed(&flood, 6_400.0, 0.5).ttft_ns, 10_000_000);
    }
}
