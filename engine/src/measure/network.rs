//! The network's share: what the kernel measured of the connections.

use serde::{Deserialize, Serialize};

use super::distribution::{Distribution, ratio};
use super::summary::Latency;
use crate::record::{NetworkTally, Tally};

/// What TCP_INFO told of a run's connections, each looked at once, at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkReport {
    /// Least round-trip time of each connection; none over unix sockets. Through a proxy it is the
    /// way to the proxy.
    pub min_rtt: Distribution,
    /// Median of `min_rtt` / median of the service TTFB. It is a part of that, and not taken off.
    pub min_rtt_of_ttfb: Option<f64>,
    /// Median of `min_rtt` / median of the service TTFT.
    pub min_rtt_of_ttft: Option<f64>,
    /// Segments with data that we sent again / all that we sent.
    pub resent_share: Option<f64>,
    /// Segments with data that came out of order, as after a loss / all that came.
    pub out_of_order_share: Option<f64>,
    /// Looks at the receive window of a busy connection.
    pub window_looks: u64,
    /// Of those, looks that found no room for a segment: the server had to wait for us.
    pub windows_closed: u64,
}

impl NetworkReport {
    pub(super) fn new(tallies: &[Tally], latency: &Latency) -> Self {
        let mut sum = NetworkTally::default();
        for tally in tallies {
            sum.add(&tally.network);
        }
        let min_rtt = Distribution::from_histogram(&sum.min_rtt);
        let of = |whole: &Distribution| {
            ratio(min_rtt.percentiles.p50? as f64, whole.percentiles.p50? as f64)
        };
        Self {
            min_rtt_of_ttfb: of(&latency.service.ttfb),
            min_rtt_of_ttft: of(&latency.service.ttft),
            resent_share: ratio(sum.resent as f64, sum.sent as f64),
            out_of_order_share: ratio(sum.out_of_order as f64, sum.received as f64),
            window_looks: sum.window_looks,
            windows_closed: sum.windows_closed,
            min_rtt,
        }
    }
}
