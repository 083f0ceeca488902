//! When the items of a load go: at a rate, at one that changes, or at recorded times.

use super::arrival::series::Paced;
use super::arrival::times::Instants;
use super::arrival::{Arrivals, Gaps};
use super::{Materials, PlanError, class};
use crate::workload::{Load, Schedule, Workload};

/// When the items of an open loop go.
#[derive(Clone)]
pub(super) enum Timing {
    Gaps(Gaps),
    Series(Paced),
    Instants(Instants),
}

impl Timing {
    /// The timing of a workload; none of a closed loop.
    pub(super) fn new(
        workload: &Workload,
        materials: &Materials,
    ) -> Result<Option<Self>, PlanError> {
        let seed = workload.seed;
        let schedule = match &workload.load {
            Load::Closed { users: 0, .. } => return Err(PlanError::NoUsers),
            Load::Closed { .. } => return Ok(None),
            Load::Open { max_in_flight: Some(0), .. } => return Err(PlanError::NoneInFlight),
            Load::Open { schedule, .. } => schedule,
        };
        Ok(Some(match schedule {
            Schedule::Rate { rate, arrival } => Self::Gaps(Gaps::new(*rate, *arrival, seed)?),
            Schedule::Series { series, arrival } => {
                Self::Series(Paced::new(series, *arrival, seed)?)
            }
            Schedule::Replay(replay) => {
                let data = materials.data.first().and_then(Option::as_ref);
                let data = data.filter(|data| data.has_times()).ok_or(PlanError::NoTimes)?;
                let entries = class::replayed(data, replay);
                let times = entries.filter_map(|entry| data.time_ns(entry));
                let times: Vec<u64> =
                    times.map(|time| time.saturating_sub(replay.start_ns)).collect();
                if times.is_empty() {
                    return Err(PlanError::NothingReplayed);
                }
                Self::Instants(Instants::new(times.into(), replay.speed, 0, replay.loops)?)
            }
        }))
    }

    /// The arrivals of `reactor` out of `reactors`.
    pub(super) fn arrivals(&self, reactor: usize, reactors: usize) -> Arrivals {
        match self {
            Self::Gaps(gaps) => Arrivals::new(*gaps, reactor, reactors),
            Self::Series(series) => Arrivals::of_series(series, reactor, reactors),
            Self::Instants(instants) => Arrivals::of_times(instants.clone(), reactor, reactors),
        }
    }
}
