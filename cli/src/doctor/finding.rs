//! One thing that was found: data for the page and for the JSON.

use serde::Serialize;

use crate::report::text::Tone;

/// How good it is for a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Nothing better can be had here.
    Ok,
    /// It matters to some measurements, or is not known.
    Note,
    /// Figures will suffer from it.
    Warn,
}

impl State {
    /// The word for it and its colour.
    pub(super) fn word(self) -> (&'static str, Tone) {
        match self {
            Self::Ok => ("ok", Tone::Good),
            Self::Note => ("note", Tone::Doubtful),
            Self::Warn => ("warn", Tone::Bad),
        }
    }
}

/// What was found, what it means for a measurement, and what would change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Its name for scripts.
    pub(super) id: &'static str,
    /// Its name on the page.
    pub(super) title: &'static str,
    /// How good it is.
    pub(super) state: State,
    /// What was found; `unknown` where the host does not tell.
    pub(super) value: String,
    /// What it means for a measurement.
    pub(super) meaning: String,
    /// What to do, where something can be better.
    pub(super) advice: Option<String>,
    /// The command that does it.
    pub(super) command: Option<String>,
}

/// What stands for a value that the host does not tell.
pub(super) const UNKNOWN: &str = "unknown";

impl Finding {
    /// A finding that is as good as it gets; the others say more.
    pub(super) fn new(
        id: &'static str,
        title: &'static str,
        value: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        let (value, meaning) = (value.into(), meaning.into());
        Self { id, title, state: State::Ok, value, meaning, advice: None, command: None }
    }

    /// What the host does not tell, and why that may be.
    pub(super) fn unknown(
        id: &'static str,
        title: &'static str,
        meaning: impl Into<String>,
    ) -> Self {
        Self { state: State::Note, ..Self::new(id, title, UNKNOWN, meaning) }
    }

    /// It matters to some measurements.
    pub(super) fn note(self, advice: impl Into<String>) -> Self {
        Self { state: State::Note, advice: Some(advice.into()), ..self }
    }

    /// Figures will suffer from it.
    pub(super) fn warn(self, advice: impl Into<String>) -> Self {
        Self { state: State::Warn, advice: Some(advice.into()), ..self }
    }

    /// The command that changes it.
    pub(super) fn command(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }
}
