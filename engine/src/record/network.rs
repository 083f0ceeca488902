//! What the kernel said of a reactor's connections.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::tally::histogram;

/// What TCP_INFO said of the connections of one reactor, or of any sum of those.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NetworkTally {
    /// Minimum round-trip time of each connection at its end, ns; the kernel counts in µs.
    #[serde(with = "super::encoded")]
    pub min_rtt: Histogram<u64>,
    /// Segments with data that we sent, over connections that were looked at.
    pub sent: u64,
    /// Segments that we sent again.
    pub resent: u64,
    /// Segments with data that we received.
    pub received: u64,
    /// Of those, segments that came out of order: one before them was lost or overtaken.
    pub out_of_order: u64,
    /// Times that the receive window of a busy connection was looked at.
    pub window_looks: u64,
    /// Of those, times that it had no room for a segment.
    pub windows_closed: u64,
}

impl Default for NetworkTally {
    fn default() -> Self {
        Self {
            min_rtt: histogram(),
            sent: 0,
            resent: 0,
            received: 0,
            out_of_order: 0,
            window_looks: 0,
            windows_closed: 0,
        }
    }
}

impl NetworkTally {
    /// All of it; what is left is nothing, and takes no memory to speak of.
    pub(crate) fn take(&mut self) -> Self {
        let min_rtt = Histogram::new_with_bounds(1, 2, 0).unwrap_or_else(|_| histogram());
        std::mem::replace(self, Self { min_rtt, ..Self::default() })
    }

    /// Adds what another reactor saw.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so adding cannot fail.
        let _ = self.min_rtt.add(&other.min_rtt);
        self.sent += other.sent;
        self.resent += other.resent;
        self.received += other.received;
        self.out_of_order += other.out_of_order;
        self.window_looks += other.window_looks;
        self.windows_closed += other.windows_closed;
    }
}
