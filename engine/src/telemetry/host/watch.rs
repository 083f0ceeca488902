//! What happened to this host between two moments.

use serde::{Deserialize, Serialize};

use super::{Files, Softnet, Steal, TcpLosses};

/// The moment from which a host is watched.
#[derive(Debug)]
pub struct Watch {
    steal: Steal,
    softnet: Option<Softnet>,
    tcp: Option<TcpLosses>,
}

/// What was counted on a host while it was watched. What its kernel does not tell is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Watched {
    /// Share of the CPU time that the hypervisor took away, 0 to 1.
    pub steal_share: Option<f64>,
    /// Packets that were dropped before any socket had them, and turns cut short.
    pub softnet: Option<Softnet>,
    /// Segments that were dropped at sockets, and windows that were closed; of any process.
    pub tcp: Option<TcpLosses>,
}

impl Watch {
    /// Begins.
    #[must_use]
    pub fn begin() -> Self {
        let files = Files::here();
        Self { steal: Steal::now(), softnet: Softnet::read(&files), tcp: TcpLosses::read(&files) }
    }

    /// What was counted since.
    #[must_use]
    pub fn end(self) -> Watched {
        let files = Files::here();
        let softnet = Softnet::read(&files).zip(self.softnet);
        let tcp = TcpLosses::read(&files).zip(self.tcp);
        Watched {
            steal_share: self.steal.share(),
            softnet: softnet.map(|(now, before)| now.since(before)),
            tcp: tcp.map(|(now, before)| now.since(before)),
        }
    }
}
