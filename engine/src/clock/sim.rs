//! A clock that moves when told: logic is tested on it with exact expectations.

use std::cell::Cell;

/// A simulated clock, in ns since its start.
#[derive(Debug, Default)]
pub struct SimClock {
    now: Cell<u64>,
}

impl SimClock {
    /// Now.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// Moves forward by `ns` and returns the new time.
    pub fn advance(&self, ns: u64) -> u64 {
        self.now.set(self.now.get() + ns);
        self.now.get()
    }

    /// Moves forward to `at`; a time in the past changes nothing.
    pub fn advance_to(&self, at: u64) -> u64 {
        self.now.set(self.now.get().max(at));
        self.now.get()
    }
}
