//! The event stream of the WHATWG HTML standard, §9.2.6, resumable at any byte.
//!
//! Two departures, because servers need them: an event whose blank line never came is still given
//! at the end of the stream (`data: [DONE]` is often the last line, without any line end), and an
//! unfinished last line counts as a line.

use memchr::memchr2;

use crate::{Error, ErrorKind, Step};

/// One event with data. Events without data are dispatched to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The `event:` field; empty if none was sent.
    pub name: &'a [u8],
    /// The `data:` lines, joined by LF.
    pub data: &'a [u8],
}

/// Reads one event stream.
#[derive(Debug, Clone)]
pub struct Sse {
    event_bytes_max: usize,
    /// How much of a byte order mark was met; 3 once it no longer matters.
    mark: u8,
    /// The last byte was a CR that ended a line, so an LF now is the rest of that line end.
    after_cr: bool,
    /// An unfinished line.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    /// A `data:` line was met since the last event.
    has_data: bool,
    /// What `name` and `data` hold was given and is to be cleared.
    given: bool,
    strange_lines: u64,
}

/// Where the data of a found event lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lies {
    /// In the caller's slice, from here to there.
    There(usize, usize),
    /// In the reader.
    Here,
}

impl Sse {
    /// A reader that refuses a line, or an event's data, of more than `event_bytes_max` bytes.
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            mark: 0,
            after_cr: false,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            given: false,
            strange_lines: 0,
        }
    }

    /// Back to the start of a stream; buffers keep their memory.
    pub fn reset(&mut self) {
        self.line.clear();
        self.name.clear();
        self.data.clear();
        (self.mark, self.after_cr, self.has_data, self.given) = (0, false, false, false);
        self.strange_lines = 0;
    }

    /// Lines that were no comment and no field of the standard: a sign that this is no stream.
    pub fn strange_lines(&self) -> u64 {
        self.strange_lines
    }

    /// Reads up to the end of the next event. Whatever is unfinished is kept inside: without an
    /// item all of `bytes` was used.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SizeLimit`] at the first byte too many.
    pub fn step<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Step<Message<'a>>, Error> {
        let (used, lies) = self.advance(bytes)?;
        Ok(Step { used, item: lies.map(|lies| self.message(lies, bytes)) })
    }

    /// The stream ended: the event whose blank line is missing, if any.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SizeLimit`] as [`step`](Self::step).
    pub fn eof(&mut self) -> Result<Option<Message<'_>>, Error> {
        let found = self.finish()?;
        Ok(found.then(|| self.message(Lies::Here, &[])))
    }

    /// Does the next byte begin an event, with nothing before it?
    #[inline]
    pub(crate) fn is_between_events(&self) -> bool {
        !self.after_cr
            && (self.given
                || matches!(self.mark, 0 | 3)
                    && self.line.is_empty()
                    && !self.has_data
                    && self.name.is_empty())
    }

    /// A whole event was read past this reader.
    #[inline]
    pub(crate) fn skip_event(&mut self) {
        self.mark = 3;
        if self.given {
            self.clear();
        }
    }

    /// The largest line.
    #[inline]
    pub(crate) fn event_bytes_max(&self) -> usize {
        self.event_bytes_max
    }

    /// The event that [`advance`](Self::advance) found in `bytes`.
    #[inline]
    pub(crate) fn message<'a>(&'a self, lies: Lies, bytes: &'a [u8]) -> Message<'a> {
        match lies {
            Lies::There(from, to) => Message { name: &[], data: &bytes[from..to] },
            Lies::Here => Message { name: &self.name, data: &self.data },
        }
    }

    /// [`step`](Self::step), without borrowing what it found.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<(usize, Option<Lies>), Error> {
        // Most often a whole event follows, in one line.
        if self.is_between_events()
            && let Some(found) = self.whole(bytes)?
        {
            return Ok(found);
        }
        self.advance_by_line(bytes)
    }

    /// `data: ...` with its blank line, all in `bytes`; anything else is left to the slow path.
    #[inline]
    fn whole(&mut self, bytes: &[u8]) -> Result<Option<(usize, Option<Lies>)>, Error> {
        let Some(rest) = bytes.strip_prefix(b"data:") else { return Ok(None) };
        let Some(length) = memchr2(b'\n', b'\r', rest) else { return Ok(None) };
        let end = 5 + length;
        self.within(end)?;
        let next = if bytes[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
        let Some(&blank) = bytes.get(next) else { return Ok(None) };
        if blank != b'\n' && blank != b'\r' {
            return Ok(None);
        }
        let from = if rest.first() == Some(&b' ') { 6 } else { 5 };
        self.after_cr = blank == b'\r';
        self.mark = 3;
        if self.given {
            self.clear();
        }
        Ok(Some((next + 1, Some(Lies::There(from, end)))))
    }

    fn advance_by_line(&mut self, bytes: &[u8]) -> Result<(usize, Option<Lies>), Error> {
        if self.given {
            self.clear();
        }
        let mut used = self.skip_mark(bytes);
        while used < bytes.len() {
            if self.after_cr {
                self.after_cr = false;
                if bytes[used] == b'\n' {
                    used += 1;
                    continue;
                }
            }
            let rest = &bytes[used..];
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                self.within(self.line.len() + rest.len()).map_err(|_| {
                    // Half a byte order mark was kept before the limit was known to be met.
                    let at = used.wrapping_add(self.event_bytes_max).wrapping_sub(self.line.len());
                    Error::new(ErrorKind::SizeLimit, at)
                })?;
                self.line.extend_from_slice(rest);
                return Ok((bytes.len(), None));
            };
            self.after_cr = rest[length] == b'\r';
            self.within(self.line.len() + length)
                .map_err(|error| error.after(used.wrapping_sub(self.line.len())))?;
            let ended = if self.line.is_empty() {
                self.take_line(&rest[..length])
            } else {
                self.take_carried_line(&rest[..length])
            };
            used += length + 1;
            if ended.map_err(|error| error.after(used - 1))? {
                self.given = true;
                return Ok((used, Some(Lies::Here)));
            }
        }
        Ok((used, None))
    }

    fn take_carried_line(&mut self, rest: &[u8]) -> Result<bool, Error> {
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(rest);
        let ended = self.take_line(&line);
        line.clear();
        self.line = line;
        ended
    }

    /// One line without its end. True if it ends an event that has data.
    fn take_line(&mut self, line: &[u8]) -> Result<bool, Error> {
        if line.is_empty() {
            if self.has_data {
                return Ok(true);
            }
            self.name.clear();
            return Ok(false);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
                self.within(self.data.len()).map_err(|error| Error { at: 0, ..error })?;
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // A comment, and two fields that matter only to a client that reconnects.
            b"" | b"id" | b"retry" => {}
            _ => self.strange_lines += 1,
        }
        Ok(false)
    }

    /// One byte order mark at the very start is no part of the first line.
    fn skip_mark(&mut self, bytes: &[u8]) -> usize {
        const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
        let mut used = 0;
        while self.mark < 3 && used < bytes.len() {
            let met = usize::from(self.mark);
            if bytes[used] == MARK[met] {
                used += 1;
                self.mark += 1;
                continue;
            }
            self.line.extend_from_slice(&MARK[..met]);
            self.mark = 3;
        }
        used
    }

    /// True if an event was left without its blank line.
    pub(crate) fn finish(&mut self) -> Result<bool, Error> {
        if self.given {
            self.clear();
        }
        if self.mark < 3 {
            self.line.extend_from_slice(&[0xef, 0xbb, 0xbf][..usize::from(self.mark)]);
        }
        if !self.line.is_empty() {
            self.take_carried_line(&[])?;
        }
        self.given = self.has_data;
        Ok(self.has_data)
    }

    fn clear(&mut self) {
        self.name.clear();
        self.data.clear();
        (self.has_data, self.given) = (false, false);
    }

    fn within(&self, bytes: usize) -> Result<(), Error> {
        if bytes > self.event_bytes_max {
            return Err(Error::new(ErrorKind::SizeLimit, self.event_bytes_max));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of all events, in pieces of `piece` bytes.
    fn read(wire: &[u8], piece: usize) -> Vec<String> {
        let mut sse = Sse::new(1 << 20);
        let mut found = Vec::new();
        for mut bytes in wire.chunks(piece) {
            loop {
                let step = sse.step(bytes).unwrap();
                bytes = &bytes[step.used..];
                let Some(message) = step.item else { break };
                let name = String::from_utf8_lossy(message.name);
                let data = String::from_utf8_lossy(message.data);
                found.push(if name.is_empty() { data.into() } else { format!("{name}={data}") });
            }
        }
        if let Some(message) = sse.eof().unwrap() {
            found.push(String::from_utf8_lossy(message.data).into());
        }
        found
    }

    fn reads_as(wire: &str, expected: &[&str]) {
        for piece in 1..=wire.len() {
            assert_eq!(read(wire.as_bytes(), piece), expected, "{wire:?} in pieces of {piece}");
        }
    }

    #[test]
    fn all_line_ends_may_be_mixed() {
        reads_as(
            "data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\r\ndata: e\r\n\n\r\r\n\n",
            &["a", "b", "c", "d", "e"],
        );
    }

    #[test]
    fn an_event_is_complete_at_the_cr_of_its_blank_line() {
        let mut sse = Sse::new(99);
        let step = sse.step(b"data: a\r\n\r").unwrap();
        assert_eq!((step.used, step.item.unwrap().data), (10, &b"a"[..]));
        assert_eq!(sse.step(b"\ndata: b\n\n").unwrap().item.unwrap().data, b"b");
    }

    #[test]
    fn comments_and_fields_without_data_dispatch_nothing() {
        reads_as(
            ": ping\n\n:\n\n:\ndata: a\n:\n\nretry: 3\n\nevent: x\n\nid: 7\ndata: b\n\n",
            &["a", "b"],
        );
    }

    #[test]
    fn a_name_belongs_to_its_event_only() {
        reads_as("event: x\ndata: a\n\ndata: b\n\nevent\ndata: c\n\n", &["x=a", "b", "c"]);
    }

    #[test]
    fn data_lines_are_joined_and_one_blank_is_dropped() {
        reads_as("data:a\ndata:  b\ndata\n\ndata:\n\n", &["a\n b\n", ""]);
    }

    #[test]
    fn one_byte_order_mark_is_dropped_and_a_half_one_is_not() {
        reads_as("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"]);
        assert_eq!(read(b"\xef\xbbdata: a\n\ndata: b\n\n", 1), ["b"]);
    }

    #[test]
    fn the_last_event_needs_neither_blank_line_nor_line_end() {
        reads_as("data: a\n\ndata: [DONE]", &["a", "[DONE]"]);
        reads_as("data: a\n\ndata: [DONE]\n", &["a", "[DONE]"]);
    }

    #[test]
    fn a_line_and_an_event_above_the_limit_are_refused_however_they_are_cut() {
        for wire in [&b"data: 123456789\n\n"[..], b"data: 1234\ndata: 1234\ndata: 1234\n\n"] {
            let errors = [1, 2, 5, wire.len()].map(|piece| {
                let mut sse = Sse::new(13);
                let mut base = 0;
                wire.chunks(piece).find_map(|bytes| {
                    let error = sse.step(bytes).err().map(|error| error.after(base));
                    base += bytes.len();
                    error
                })
            });
            assert!(errors[0].is_some());
            assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        }
    }

    #[test]
    fn half_a_mark_above_the_limit_is_refused_however_it_is_cut() {
        let mut sse = Sse::new(0);
        assert_eq!(sse.step(b"\xefx").unwrap_err().at, 0);
        let mut sse = Sse::new(0);
        assert_eq!(sse.step(b"\xef").unwrap().item, None);
        assert_eq!(sse.step(b"x").unwrap_err().after(1).at, 0);
    }

    #[test]
    fn lines_of_another_format_are_counted() {
        let mut sse = Sse::new(99);
        assert_eq!(sse.step(b"{\"a\":1}\n: x\nid: 1\n<html>\n").unwrap().item, None);
        assert_eq!(sse.strange_lines(), 2);
    }
}
