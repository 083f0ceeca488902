//! What is remembered of the events of one response, where one says only a part of what is asked.

use super::anthropic_messages::Counts;
use super::so_far::SoFar;
use super::told::Told;

/// Of each dialect that needs it.
#[derive(Debug, Clone, Default)]
pub(super) struct Past {
    /// `/v1/messages` counts the prompt at the start and the output at the end.
    pub(super) counts: Counts,
    /// A template's text that every event repeats.
    pub(super) told: Told,
    /// What the events of SGLang and Triton repeat.
    pub(super) so_far: SoFar,
}

impl Past {
    /// Another response begins.
    pub(super) fn begin(&mut self) {
        self.counts = Counts::default();
        self.told.clear();
        self.so_far.reset();
    }
}
