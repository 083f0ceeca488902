//! What is remembered of the events of one response, where one alone does not say all.

use super::anthropic_messages::Counts;
use super::so_far::SoFar;
use super::told::Told;

/// Each part is of the dialects that need it.
#[derive(Debug, Clone, Default)]
pub(super) struct Past {
    /// `/v1/messages` counts the prompt at the start and the output at the end.
    pub(super) counts: Counts,
    /// What a template's events repeat, and counts that come in parts.
    pub(super) told: Told,
    /// What the events of SGLang and Triton repeat.
    pub(super) so_far: SoFar,
}

impl Past {
    /// Another response begins.
    pub(super) fn begin(&mut self) {
        self.counts = Counts::default();
        self.told.begin();
        self.so_far.begin();
    }
}
