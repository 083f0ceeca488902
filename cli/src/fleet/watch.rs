//! How far a load over several hosts is, for the line of progress.

use std::sync::{Arc, Mutex, PoisonError};

use tokclock_engine::run::Snapshot;

use super::link::Seen;
use crate::progress::Watched;

/// A worker that was silent for so long is said to be, ns.
const SILENT_NS: u64 = 3_000_000_000;

/// The workers of a load.
#[derive(Debug, Default)]
pub(super) struct Watch {
    workers: Vec<(usize, Arc<Seen>)>,
    /// Those that are over, by their number: lost ones too.
    over: Mutex<Vec<usize>>,
    lost: Mutex<Vec<usize>>,
}

impl Watch {
    /// Of these, by their numbers.
    #[must_use]
    pub(super) fn new(workers: Vec<(usize, Arc<Seen>)>) -> Self {
        Self { workers, ..Self::default() }
    }

    /// One of them has come to its end, or was lost.
    pub(super) fn over(&self, number: usize, is_lost: bool) {
        if is_lost {
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        }
        self.over.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }
}

impl Watched for Watch {
    fn snapshot(&self) -> Snapshot {
        let all: Vec<Snapshot> = self.workers.iter().map(|(_, seen)| seen.latest()).collect();
        Snapshot::of_all(&all)
    }

    fn remark(&self) -> Option<String> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = self
            .workers
            .iter()
            .filter(|(number, seen)| !over.contains(number) && seen.silent_ns() > SILENT_NS);
        let lost = lost.iter().map(|number| format!("worker {number} lost"));
        let silent = silent.map(|(number, seen)| {
            format!("worker {number} silent for {} s", seen.silent_ns() / 1_000_000_000)
        });
        let said: Vec<String> = lost.chain(silent).collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_lost_are_named() {
        let seen = || {
            let seen = Arc::new(Seen::default());
            seen.renew();
            seen
        };
        let watch = Watch::new(vec![(0, seen()), (1, seen())]);
        assert_eq!(watch.remark(), None);
        watch.over(1, true);
        watch.over(0, false);
        assert_eq!(watch.remark().as_deref(), Some("worker 1 lost"));
        assert_eq!(watch.snapshot().ok, 0);
    }
}
