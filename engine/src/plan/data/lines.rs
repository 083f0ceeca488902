//! Lines of a text, numbered, in bounded memory.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

/// Most bytes of a line, and of a row of a table.
const LINE_BYTES_MAX: usize = 256 << 20;

/// Lines, ended by LF or CRLF.
pub(super) struct Lines {
    input: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// The lines of `input`.
    pub(super) fn new(input: Box<dyn Read>) -> Self {
        let input = BufReader::with_capacity(256 * 1024, input);
        Self { input, line: Vec::new(), number: 0 }
    }

    /// The next line, without its end, and its number from 1.
    ///
    /// # Errors
    /// Those of reading, and that a line is longer than can be held.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        self.line.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = (&mut self.input).take(most).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        if read > LINE_BYTES_MAX {
            return Err(too_long());
        }
        self.number += 1;
        for end in [b'\n', b'\r'] {
            if self.line.last() == Some(&end) {
                self.line.pop();
            }
        }
        Ok(Some((self.number, &self.line)))
    }
}

/// Gives a reader of tables one line at a time, so that it is known where each row began.
pub(super) struct LineByLine {
    lines: Lines,
    /// The line being handed on, with its end, and how much of it went.
    line: Vec<u8>,
    used: usize,
    /// Number of the row's first line that is not blank; 0 until it is read.
    began: Rc<Cell<u64>>,
    row_bytes: usize,
}

impl LineByLine {
    /// The lines of a table; whoever reads a row takes its number out of the cell.
    pub(super) fn new(lines: Lines) -> (Self, Rc<Cell<u64>>) {
        let began = Rc::new(Cell::new(0));
        let whole = Self { lines, line: Vec::new(), used: 0, began: began.clone(), row_bytes: 0 };
        (whole, began)
    }
}

impl Read for LineByLine {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.line.len() {
            let Some((number, line)) = self.lines.next()? else { return Ok(0) };
            if self.began.get() == 0 && !line.is_empty() {
                self.began.set(number);
                self.row_bytes = 0;
            }
            self.line.clear();
            self.line.extend_from_slice(line);
            self.line.push(b'\n');
            self.used = 0;
            self.row_bytes += self.line.len();
            if self.row_bytes > LINE_BYTES_MAX {
                return Err(too_long());
            }
        }
        let left = &self.line[self.used..];
        let bytes = left.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&left[..bytes]);
        self.used += bytes;
        Ok(bytes)
    }
}

fn too_long() -> io::Error {
    let megabytes = LINE_BYTES_MAX >> 20;
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a line, or a cell whose quotes are never closed, has more than {megabytes} MB"),
    )
}
