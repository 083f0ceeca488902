//! Lines from a peer, none of which can take all memory.

use std::io::{self, BufRead};

/// Longest line that is read: a piece of a file, or the options of a load, is far shorter.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// A line, without its end.
    Line(&'a [u8]),
    /// A line that is longer than is read; it was passed over.
    TooLong,
    /// Nothing more comes.
    End,
}

/// Reads line after line.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    most: usize,
}

impl<R: BufRead> Lines<R> {
    /// Of `input`.
    pub fn new(input: R) -> Self {
        Self::at_most(input, LINE_BYTES_MAX)
    }

    /// Of `input`, none longer than `most` bytes.
    pub fn at_most(input: R, most: usize) -> Self {
        Self { input, line: Vec::new(), most }
    }

    /// The next line that is not empty. What follows the last line end is no line: its sender was cut
    /// off.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn next_line(&mut self) -> io::Result<Read<'_>> {
        self.line.clear();
        let mut is_too_long = false;
        loop {
            let there = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                there => there?,
            };
            if there.is_empty() {
                return Ok(Read::End);
            }
            let end = there.iter().position(|&byte| byte == b'\n');
            let piece = &there[..end.unwrap_or(there.len())];
            if self.line.len() + piece.len() > self.most {
                is_too_long = true;
                // What was kept of it is of no use.
                self.line = Vec::new();
            }
            if !is_too_long {
                self.line.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_none() {
                continue;
            }
            if is_too_long {
                return Ok(Read::TooLong);
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Read::Line(self.line.trim_ascii()));
            }
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn all(text: &[u8], most: usize, buffer: usize) -> Vec<String> {
        let mut lines = Lines::at_most(BufReader::with_capacity(buffer, text), most);
        let mut found = Vec::new();
        loop {
            match lines.next_line().unwrap() {
                Read::Line(line) => found.push(String::from_utf8_lossy(line).into_owned()),
                Read::TooLong => found.push("too long".into()),
                Read::End => return found,
            }
        }
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = b"one\r\n\n  two \n123456789\nthree\nhalf";
        for buffer in 1..40 {
            assert_eq!(all(text, 8, buffer), ["one", "two", "too long", "three"], "{buffer}");
        }
        assert!(all(b"", 8, 8).is_empty() && all(b"\n\n", 8, 8).is_empty());
    }
}
