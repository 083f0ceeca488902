//! The coordinator's time: its wall clock when it began, continued by its monotonic clock, so that a step
//! of the wall clock moves no host.

use tokclock_engine::clock::{monotonic_ns, realtime_ns};

/// The coordinator's time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeline {
    realtime_ns: u64,
    monotonic_ns: u64,
}

impl Timeline {
    /// Begins now.
    #[must_use]
    pub(super) fn begin() -> Self {
        Self { realtime_ns: realtime_ns(), monotonic_ns: monotonic_ns() }
    }

    /// Now, ns since the epoch.
    #[must_use]
    pub(super) fn now_ns(self) -> u64 {
        self.realtime_ns + monotonic_ns().saturating_sub(self.monotonic_ns)
    }
}
