//! What of a load this host sends, where several hosts share it: the parts of all hosts are the load,
//! each item once, at the instants and with the numbers that one host alone would give them.

use super::{Plan, PlanError};
use crate::workload::{Load, Shard, Stop, Warmup, Workload};

/// Where in an open loop the measured part lies, as far as the arrivals alone say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    /// When it begins, ns after the start of the load, where a number of requests goes before it.
    pub(crate) opens_ns: Option<u64>,
    /// The first item after it, where a time goes before it and requests end it.
    pub(crate) items: Option<u64>,
}

impl Plan {
    /// Which part of the load this host sends.
    #[must_use]
    pub const fn shard(&self) -> Shard {
        self.shard
    }

    /// Whether this host sends item `item`.
    #[must_use]
    pub fn has_item(&self, item: u64) -> bool {
        self.shard.has_item(item, self.round)
    }

    /// How many of the first `items` items this host sends.
    #[must_use]
    pub fn items_of(&self, items: u64) -> u64 {
        self.shard.items_of(items, self.round)
    }

    /// How many items this host sends, warm-up included, where [`total`](Self::total) is known.
    #[must_use]
    pub fn own_total(&self) -> Option<u64> {
        self.total.map(|total| self.items_of(total))
    }

    /// The stop rules of the whole load as this host counts by them: where it is the requests that it
    /// begins itself, by its part of them.
    pub(crate) fn own_stop(&self, stop: &Stop) -> Stop {
        let part = |all| self.shard.part_of(all);
        if self.has_sessions {
            let warmup = match stop.warmup {
                Warmup::Requests(requests) => Warmup::Requests(part(requests)),
                warmup => warmup,
            };
            return Stop { requests: stop.requests.map(part), warmup, ..*stop };
        }
        match stop.warmup {
            // From where on they are measured is not known, but how many are.
            Warmup::Time(_) | Warmup::Auto(_) => {
                let requests = stop.requests.map(|requests| self.items_of(requests));
                Stop { requests, ..*stop }
            }
            // Their numbers are those of the whole.
            Warmup::None | Warmup::Requests(_) => *stop,
        }
    }

    /// Where the measured part of an open loop lies: the same on all hosts. The arrivals of the whole
    /// load are gone through up to its begin.
    pub(crate) fn bounds(&self, stop: &Stop) -> Bounds {
        let none = Bounds::default();
        let (Some(timing), false) = (&self.timing, self.has_sessions) else { return none };
        let mut all = timing.arrivals(0, 1);
        match (stop.warmup, stop.requests) {
            (Warmup::Requests(requests @ 1..), _) => {
                let first = usize::try_from(requests).ok().and_then(|first| all.nth(first));
                Bounds { opens_ns: first.map(|(_, at)| at), ..none }
            }
            (Warmup::Time(warmup_ns), Some(requests)) => {
                let first = all.find(|(_, at)| *at >= warmup_ns);
                Bounds { items: first.map(|(item, _)| item.saturating_add(requests)), ..none }
            }
            _ => none,
        }
    }
}

/// Users that take items in turn; of an open loop there is no end of them.
pub(super) fn round(load: &Load) -> u64 {
    match load {
        Load::Closed { users, .. } => *users,
        Load::Open { .. } => u64::MAX,
    }
}

/// Refuses a load that so many hosts cannot share.
pub(super) fn check(workload: &Workload) -> Result<(), PlanError> {
    let hosts = workload.shard.of;
    if workload.shard.is_whole() {
        return Ok(());
    }
    if matches!(workload.stop.warmup, Warmup::Auto(_)) {
        let instead = "give the warm-up as a time or as a number of requests";
        return Err(PlanError::Alone { what: "a warm-up until it is steady", hosts, instead });
    }
    if workload.stop.until.is_some() {
        let instead = "give a duration or a number of requests";
        return Err(PlanError::Alone { what: "an end once enough is known", hosts, instead });
    }
    match workload.load {
        Load::Closed { users, .. } if users > 0 && users < u64::from(hosts) => {
            Err(PlanError::FewUsers { users, hosts })
        }
        Load::Open { max_in_flight: Some(most), .. } if most > 0 && most < u64::from(hosts) => {
            Err(PlanError::FewInFlight { most, hosts })
        }
        _ => Ok(()),
    }
}
