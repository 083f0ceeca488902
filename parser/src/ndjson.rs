//! One JSON text per line, resumable at any byte.
//!
//! A line ends at its LF; a blank line is nothing, and blanks around a line, the CR of a CRLF
//! included, are no part of it. An unfinished last line counts as a line.

use std::ops::Range;

use memchr::memchr;

use crate::sse::Lies;
use crate::{Error, ErrorKind, Step};

/// Reads one stream of lines.
#[derive(Debug, Clone)]
pub struct Ndjson {
    line_bytes_max: usize,
    /// No line has ended yet, so a byte order mark may be there.
    first: bool,
    /// An unfinished line; or the whole one that was given, where it did not come in one piece.
    line: Vec<u8>,
    /// What of `line` was given, if it was; then `line` is to be cleared.
    given: Option<Range<usize>>,
}

const MARK: &[u8] = &[0xef, 0xbb, 0xbf];

impl Ndjson {
    /// A reader that refuses a line of more than `line_bytes_max` bytes.
    pub fn new(line_bytes_max: usize) -> Self {
        Self { line_bytes_max, first: true, line: Vec::new(), given: None }
    }

    /// Back to the start of a stream; the buffer keeps its memory.
    pub fn reset(&mut self) {
        self.line.clear();
        (self.first, self.given) = (true, None);
    }

    /// Reads up to the end of the next line that is not blank. Whatever is unfinished is kept
    /// inside: without an item all of `bytes` was used.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SizeLimit`] at the first byte too many.
    pub fn step<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Step<&'a [u8]>, Error> {
        let (used, lies) = self.advance(bytes)?;
        Ok(Step { used, item: lies.map(|lies| self.line(lies, bytes)) })
    }

    /// The stream ended: the line whose end is missing, if any.
    pub fn eof(&mut self) -> Option<&[u8]> {
        self.finish().then(|| self.line(Lies::Here, &[]))
    }

    /// The line that [`advance`](Self::advance) found in `bytes`.
    #[inline]
    pub(crate) fn line<'a>(&'a self, lies: Lies, bytes: &'a [u8]) -> &'a [u8] {
        match lies {
            Lies::There(from, to) => &bytes[from..to],
            Lies::Here => self.given.clone().map_or(&[], |given| &self.line[given]),
        }
    }

    /// [`step`](Self::step), without borrowing what it found.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<(usize, Option<Lies>), Error> {
        self.clear_given();
        let mut used = 0;
        while let Some(length) = memchr(b'\n', &bytes[used..]) {
            let (from, to) = (used, used + length);
            self.within(length, from)?;
            used = to + 1;
            if !self.line.is_empty() {
                self.line.extend_from_slice(&bytes[from..to]);
                if self.end_line() {
                    return Ok((used, Some(Lies::Here)));
                }
                self.line.clear();
                continue;
            }
            let inside = inside(&bytes[from..to], self.first);
            self.first = false;
            if !inside.is_empty() {
                return Ok((used, Some(Lies::There(from + inside.start, from + inside.end))));
            }
        }
        let rest = &bytes[used..];
        self.within(rest.len(), used)?;
        self.line.extend_from_slice(rest);
        Ok((bytes.len(), None))
    }

    /// True if a line was left without its end.
    pub(crate) fn finish(&mut self) -> bool {
        self.clear_given();
        self.end_line()
    }

    /// What was kept is a whole line. True if it is not blank, so that it is to be given.
    fn end_line(&mut self) -> bool {
        let inside = inside(&self.line, self.first);
        self.first = false;
        self.given = (!inside.is_empty()).then_some(inside);
        self.given.is_some()
    }

    #[inline]
    fn clear_given(&mut self) {
        if self.given.take().is_some() {
            self.line.clear();
        }
    }

    /// May `more` bytes, the first of them at `at`, join the line?
    #[inline]
    fn within(&self, more: usize, at: usize) -> Result<(), Error> {
        let room = self.line_bytes_max - self.line.len();
        if more > room {
            return Err(Error::new(ErrorKind::SizeLimit, at + room));
        }
        Ok(())
    }
}

/// Where in `line` its text lies, without what may stand around it.
#[inline]
fn inside(line: &[u8], first: bool) -> Range<usize> {
    let bare = if first { line.strip_prefix(MARK).unwrap_or(line) } else { line };
    let from = line.len() - bare.trim_ascii_start().len();
    from..from + bare.trim_ascii().len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All lines, in pieces of `piece` bytes.
    fn read(wire: &[u8], piece: usize) -> Vec<String> {
        let mut lines = Ndjson::new(1 << 20);
        let mut found = Vec::new();
        for mut bytes in wire.chunks(piece) {
            loop {
                let step = lines.step(bytes).unwrap();
                bytes = &bytes[step.used..];
                let Some(line) = step.item else { break };
                found.push(String::from_utf8_lossy(line).into());
            }
        }
        found.extend(lines.eof().map(|line| String::from_utf8_lossy(line).into()));
        found
    }

    fn reads_as(wire: &str, expected: &[&str]) {
        for piece in 1..=wire.len() {
            assert_eq!(read(wire.as_bytes(), piece), expected, "{wire:?} in pieces of {piece}");
        }
    }

    #[test]
    fn both_line_ends_may_be_mixed_and_blank_lines_are_nothing() {
        reads_as("{\"a\":1}\n[2]\r\n\n\r\n \t \n3\n", &["{\"a\":1}", "[2]", "3"]);
        reads_as("\r\n", &[]);
    }

    #[test]
    fn blanks_around_a_line_are_no_part_of_it() {
        reads_as("  {\"a\": 1} \t\r\n x", &["{\"a\": 1}", "x"]);
    }

    #[test]
    fn the_last_line_needs_no_line_end() {
        reads_as("1\n2", &["1", "2"]);
        reads_as("1\n2\r", &["1", "2"]);
    }

    #[test]
    fn one_byte_order_mark_is_dropped_and_a_half_one_is_not() {
        reads_as("\u{feff}1\n\u{feff}2\n", &["1", "\u{feff}2"]);
        reads_as("\u{feff}\n1", &["1"]);
        reads_as("\u{feff}1", &["1"]);
        assert_eq!(read(b"\xef\xbb1\n", 1), [String::from_utf8_lossy(b"\xef\xbb1")]);
    }

    #[test]
    fn a_line_that_lies_whole_in_its_piece_is_lent() {
        let mut lines = Ndjson::new(99);
        let bytes = b"{\"a\":1}\r\n{\"b\":2}\n{\"c\"";
        assert_eq!(lines.advance(bytes), Ok((9, Some(Lies::There(0, 7)))));
        assert_eq!(lines.advance(&bytes[9..]), Ok((8, Some(Lies::There(0, 7)))));
        assert_eq!(lines.line.capacity(), 0);
    }

    /// Where the reader gives up, if it does, in pieces of `piece` bytes.
    fn refused_at(wire: &[u8], piece: usize, line_bytes_max: usize) -> Option<Error> {
        let mut lines = Ndjson::new(line_bytes_max);
        let mut at = 0;
        while at < wire.len() {
            let end = wire.len().min((at / piece + 1) * piece);
            match lines.step(&wire[at..end]) {
                Ok(step) => at += step.used,
                Err(error) => return Some(error.after(at)),
            }
        }
        None
    }

    #[test]
    fn a_line_above_the_limit_is_refused_at_the_same_byte_however_it_is_cut() {
        for (wire, at) in [(&b"1234\n12345\n"[..], 9), (b"12345", 4), (b"\n\n    5\n", 6)] {
            for piece in 1..=wire.len() {
                let error = Error { kind: ErrorKind::SizeLimit, at };
                assert_eq!(refused_at(wire, piece, 4), Some(error));
                assert_eq!(refused_at(wire, piece, 5), None);
            }
        }
    }

    #[test]
    fn after_a_reset_nothing_is_left() {
        let mut lines = Ndjson::new(99);
        assert_eq!(lines.step(b"{\"a\"").unwrap().item, None);
        lines.reset();
        assert_eq!(lines.step("\u{feff}2\n".as_bytes()).unwrap().item, Some(&b"2"[..]));
    }

    proptest! {
        /// As `str::lines` has it, for any bytes and any cuts.
        #[test]
        fn lines_are_those_of_the_whole_text(text in "[ab \r\n\u{e9}]{0,40}", piece in 1_usize..9) {
            let whole: Vec<_> =
                text.split('\n').map(|line| line.trim_ascii()).filter(|line| !line.is_empty()).collect();
            prop_assert_eq!(read(text.as_bytes(), piece), whole);
        }
    }
}
