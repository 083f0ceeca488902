//! What a load depends on of its recording.

use super::DataSet;

impl DataSet {
    /// Whether an entry is a conversation of several turns.
    #[must_use]
    pub const fn has_conversations(&self) -> bool {
        self.report().turns > self.report().entries
    }
}
