//! A dialect that the user describes: where in the JSON what lies.

/// Where in the JSON of an event, or of a document, what lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {}
