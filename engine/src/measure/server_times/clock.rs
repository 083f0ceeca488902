//! How far a server's clock is from this host's, from the moments that it tells of single requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::{Row, ServerTimings};
use crate::workload::Workload;

/// The clock of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReport {
    /// The server's URL as it was given.
    pub url: Option<String>,
    /// How far its clock is ahead of this host's, ns.
    pub offset_ns: i64,
    /// How far that may be wrong, ns: half of what the two spans of that request differ by.
    pub error_ns: u64,
    /// Requests of which both moments are known and agree with what the client saw.
    pub samples: u64,
    /// How it was found.
    pub how: String,
}

const HOW: &str = "((received - written) + (sent - ended)) / 2 of the request whose span at the \
                   client exceeds that at the server by least";

/// The best sample of each server.
#[derive(Debug, Default)]
pub(super) struct Clocks(BTreeMap<u16, Best>);

/// A request, with its moments at the client in ns from the run's start.
#[derive(Debug)]
struct Best {
    samples: u64,
    /// The client's span less the server's, ns.
    round_trip: u64,
    /// Sums of both moments: of the server's, and of the client's.
    server: u128,
    client: u128,
}

impl Clocks {
    /// Looks at a request of any phase.
    pub(super) fn add(&mut self, row: &Row, times: &ServerTimings) {
        let (Some(received), Some(sent)) = (times.received_realtime_ns, times.sent_realtime_ns)
        else {
            return;
        };
        // Its last byte may have been written after the server began to read, never before it began
        // to be written; what the moment of sending belongs to came at the very end, or before.
        let decode = row.legs.as_ref().and_then(|legs| legs.decode.as_ref());
        let written = decode.map_or(row.write_start, |leg| leg.write_start);
        let (Some(written), Some(ended)) = (written, row.done) else { return };
        let span = |from: u64, to: u64| to.checked_sub(from);
        let (Some(seen), Some(served)) = (span(written, ended), span(received, sent)) else {
            return;
        };
        let Some(round_trip) = seen.checked_sub(served) else { return };
        let server = u128::from(received) + u128::from(sent);
        let client = u128::from(written) + u128::from(ended);
        let new = Best { samples: 1, round_trip, server, client };
        self.0
            .entry(times.endpoint)
            .and_modify(|best| {
                let samples = best.samples + 1;
                // The order of requests decides nothing.
                let rank = |one: &Best| (one.round_trip, one.client, one.server);
                if (round_trip, client, server) < rank(best) {
                    (best.round_trip, best.server, best.client) = (round_trip, server, client);
                }
                best.samples = samples;
            })
            .or_insert(new);
    }

    /// What is known of each server's clock.
    pub(super) fn finish(self, workload: &Workload, start_realtime_ns: u64) -> Vec<ClockReport> {
        let report = |(endpoint, best): (u16, Best)| {
            let client = best.client + 2 * u128::from(start_realtime_ns);
            let twice = i128::try_from(best.server).ok()? - i128::try_from(client).ok()?;
            Some(ClockReport {
                url: workload
                    .target
                    .endpoints
                    .get(usize::from(endpoint))
                    .map(|one| one.url.clone()),
                offset_ns: i64::try_from(twice / 2).ok()?,
                error_ns: best.round_trip.div_ceil(2),
                samples: best.samples,
                how: HOW.to_owned(),
            })
        };
        self.0.into_iter().filter_map(report).collect()
    }
}
