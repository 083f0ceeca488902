//! A load whose rate changes, piece by piece: each request belongs to the piece of its schedule,
//! whenever it was sent.

use serde::{Deserialize, Serialize};

use super::Facts;
use super::distribution::Distribution;
use super::metric::{Request, Since};
use crate::plan::Arrivals;
use crate::plan::arrival::series::Paced;
use crate::record::Outcome;
use crate::workload::{Load, Piece, Schedule, Workload};

/// One piece of a load whose rate changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// When it began, ns from the run's start.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The rate at its begin, per second.
    pub from: f64,
    /// The rate at its end, per second.
    pub to: f64,
    /// Arrivals that the schedule placed there, whatever became of them.
    pub offered: u64,
    /// Of these, requests whose first byte was written before its end.
    pub started_within: u64,
    /// Of these, requests that ended well.
    pub ok: u64,
    /// Of these, requests that failed.
    pub failed: u64,
    /// Of these, requests that we ended.
    pub cancelled: u64,
    /// TTFT of the successful, ns.
    pub ttft: Distribution,
}

/// The pieces of a load whose rate changes; none of another. `requests` are in order of origin.
pub(super) fn stages(workload: &Workload, facts: &Facts, requests: &[Request]) -> Vec<StageReport> {
    let Load::Open { schedule: Schedule::Series { series, arrival }, .. } = &workload.load else {
        return Vec::new();
    };
    let Ok(gaps) = Paced::new(series, *arrival, workload.seed) else { return Vec::new() };
    let begin = facts.load_start;
    let end = facts.window_end.saturating_sub(begin);
    let (host, hosts) = (workload.shard.index as usize, workload.shard.of as usize);
    let mut instants = Arrivals::of_series(&gaps, host, hosts).map(|(_, at)| at).peekable();
    let mut at = 0_u64;
    let stage = |piece: &Piece| {
        let start = at;
        at = start.saturating_add(piece.duration_ns).min(end.max(start));
        let mut offered = 0;
        while instants.next_if(|instant| *instant < at).is_some() {
            offered += 1;
        }
        // In an open loop a request's origin is when it was meant to start.
        let before = |end: u64| {
            let end = begin.saturating_add(end);
            requests.partition_point(|request| request.origin < end)
        };
        let own = requests[before(start)..before(at)].iter();
        let own: Vec<&Request> = own.filter(|one| one.turn.unwrap_or(0) == 0).collect();
        let count = |outcome| own.iter().filter(|r| r.outcome == outcome).count() as u64;
        let within = |r: &&&Request| r.write_start.get().is_some_and(|sent| sent < begin + at);
        let ok = own.iter().filter(|request| request.is_ok());
        StageReport {
            start_ns: begin + start,
            end_ns: begin + at,
            from: piece.from,
            to: piece.to,
            offered,
            started_within: own.iter().filter(within).count() as u64,
            ok: count(Outcome::Ok),
            failed: count(Outcome::Error),
            cancelled: count(Outcome::Cancelled),
            ttft: Distribution::from_values(
                &ok.filter_map(|request| request.ttft(Since::Origin)).collect::<Vec<u64>>(),
            ),
        }
    };
    series.pieces().iter().map(stage).filter(|stage| stage.end_ns > stage.start_ns).collect()
}
