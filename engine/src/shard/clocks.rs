//! `clocks.json`: how far the clocks of hosts are from that of whoever led the load.

use serde::{Deserialize, Serialize};

/// Name and version of the schema.
const SCHEMA: &str = "tokclock.clocks/1";

/// What was found out of the hosts' clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// Name and version of the schema.
    pub schema: String,
    /// One per host.
    pub hosts: Vec<HostClock>,
}

/// CLOCK_REALTIME of a host against that of the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostClock {
    /// The shard of that host.
    pub shard: u32,
    /// The host's clock less the coordinator's, ns, at `at_realtime_ns`.
    pub offset_ns: i64,
    /// Half the round trip of the best exchange: the offset is known to no better, ns.
    pub error_ns: u64,
    /// How fast the offset grows, parts per billion; null where the exchanges do not tell.
    pub drift_ppb: Option<f64>,
    /// The drift is known to no better, parts per billion; null where there is none.
    #[serde(default)]
    pub drift_error_ppb: Option<f64>,
    /// Exchanges that were made.
    pub exchanges: u32,
    /// When the offset was that, by the host's clock, ns.
    pub at_realtime_ns: u64,
}

impl Clocks {
    /// Of these hosts.
    #[must_use]
    pub fn new(hosts: Vec<HostClock>) -> Self {
        Self { schema: SCHEMA.into(), hosts }
    }

    /// Whether this version knows what it says.
    ///
    /// # Errors
    /// Another schema, with its name.
    pub fn check(&self) -> Result<(), String> {
        if self.schema == SCHEMA {
            return Ok(());
        }
        Err(format!("its schema is `{}`, this version reads `{SCHEMA}`", self.schema))
    }
}
