//! The clock that the kernel keeps time by.

use super::files::Files;

/// What CLOCK_MONOTONIC and CLOCK_REALTIME are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockSource {
    /// The one in use, such as `tsc`.
    pub current: String,
    /// Those that could be.
    pub available: Vec<String>,
}

impl ClockSource {
    /// Reads it.
    #[must_use]
    pub fn read(files: &Files) -> Option<Self> {
        let folder = "sys/devices/system/clocksource/clocksource0";
        let current = files.text(&format!("{folder}/current_clocksource"))?;
        let available = files.text(&format!("{folder}/available_clocksource")).unwrap_or_default();
        let available = available.split_whitespace().map(str::to_owned).collect();
        Some(Self { current, available })
    }
}
