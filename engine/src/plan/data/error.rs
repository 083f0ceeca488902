//! Why a data set cannot be used, in one line each.

use std::io;

use super::report::{BadLine, summary};

const LEAVE_OUT: &str = " (--on-bad-line skip leaves such lines out)";

/// Why a data set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file cannot be opened.
    #[error("cannot open {file}: {error}")]
    Open {
        /// Its name.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be read to its end.
    #[error("cannot read {file} after {after}: {error}")]
    Read {
        /// Its name.
        file: String,
        /// The last place that was read: `line 7`.
        after: String,
        /// Why.
        error: io::Error,
    },
    /// A file as a whole is not what it should be.
    #[error("{file}: {reason}")]
    Unfit {
        /// Its name.
        file: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Lines cannot be used.
    #[error("{}{}", summary(.first, *.count), if *.all { "" } else { LEAVE_OUT })]
    Bad {
        /// The first of them.
        first: Vec<BadLine>,
        /// How many there are.
        count: u64,
        /// Whether there are no others.
        all: bool,
    },
    /// Nothing is left.
    #[error("{file}: no entries: {reason}")]
    Empty {
        /// Its name.
        file: String,
        /// Why.
        reason: String,
    },
    /// A filter on lengths meets a line whose length is not known.
    #[error(
        "{file}: {place} says nothing of its {what} tokens, on which a filter was set: choose a \
         tokenizer to count them (--tokenizer), or leave the filter out"
    )]
    Uncounted {
        /// Its name.
        file: String,
        /// `line 3`.
        place: String,
        /// `input` or `output`.
        what: &'static str,
    },
    /// The hub does not give the file.
    #[error("{0}")]
    Hub(String),
    /// What was read cannot be kept in, or taken from, a temporary file.
    #[error("the temporary file of the data set: {0} (TMPDIR names the folder it is made in)")]
    Spool(#[from] io::Error),
}
