//! The one error of this crate: what was wrong, and at which byte.

use std::fmt;

/// A response that cannot be read on: its kind and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// What was wrong.
    pub kind: ErrorKind,
    /// Offset of the offending byte: of a single reader, from the start of the call's input; of an
    /// [`Answer`](crate::answer::Answer), from the first byte of the response.
    pub at: usize,
}

/// What can be wrong with a response as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are no HTTP/1 response head.
    BadHead,
    /// The framing of the body contradicts itself: lengths, chunk sizes, chunk ends.
    BadFraming,
    /// A head, a line, an event or a document is larger than its limit.
    SizeLimit,
    /// The peer closed before the framing was complete.
    BodyTruncated,
    /// The peer closed before the first byte of the (final) response.
    ClosedEarly,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, at: usize) -> Self {
        Self { kind, at }
    }

    /// The same error, seen from a buffer that starts `base` bytes earlier; or later, if `base`
    /// wraps around.
    pub(crate) fn after(self, base: usize) -> Self {
        Self { at: self.at.wrapping_add(base), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ErrorKind::BadHead => "not an HTTP/1 response head",
            ErrorKind::BadFraming => "bad body framing",
            ErrorKind::SizeLimit => "larger than its size limit",
            ErrorKind::BodyTruncated => "connection closed before the response was complete",
            ErrorKind::ClosedEarly => "connection closed before the response began",
        };
        write!(f, "{what} (at byte {})", self.at)
    }
}

impl std::error::Error for Error {}
