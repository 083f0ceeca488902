//! The writer's side: rows appended to `requests.jsonl` as requests finish, seconds added up.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use super::recorder::{SecondPooled, WriterRings};
use super::settled::Annotate;
use super::{Pooled, Row, Settled};

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 256 * 1024;

/// The file of finished requests, and the sum of all seconds.
pub struct Spill<N> {
    file: BufWriter<File>,
    rings: Vec<WriterRings>,
    pooled: Pooled,
    /// One line, before it is written.
    line: Vec<u8>,
    notes: N,
    /// The first failure to write; what comes after it is lost and counted.
    failed: Option<io::Error>,
    lost: u64,
}

impl<N: Annotate> Spill<N> {
    /// Creates the file.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn create(path: &Path, rings: Vec<WriterRings>, notes: N) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        let (pooled, line) = (Pooled::default(), Vec::new());
        Ok(Self { file, rings, pooled, line, notes, failed: None, lost: 0 })
    }

    /// Takes all that is there now and hands it to the kernel. Returns how many requests that were.
    pub fn turn(&mut self) -> usize {
        let mut taken = 0;
        for reactor in 0..self.rings.len() {
            while let Ok(settled) = self.rings[reactor].settled.pop() {
                self.append(&settled);
                taken += 1;
                let mut chunks = settled.chunks;
                if chunks.capacity() > 0 {
                    chunks.clear();
                    let _ = self.rings[reactor].buffers.push(chunks);
                }
            }
            while let Ok(mut second) = self.rings[reactor].seconds.pop() {
                self.pooled.add(&second.pooled);
                second.pooled.clear();
                let _ = self.rings[reactor].blanks.push(second.pooled);
            }
        }
        if let Err(error) = self.file.flush() {
            self.failed.get_or_insert(error);
        }
        taken
    }

    /// Whether a write has failed: the run cannot go on.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Appends what reactors still held, and gives the sum of all seconds.
    ///
    /// # Errors
    /// The first failure to write, of the whole run.
    pub fn finish(
        mut self,
        rest: impl IntoIterator<Item = (SecondPooled, Vec<Settled>)>,
    ) -> io::Result<Pooled> {
        self.turn();
        for (second, settled) in rest {
            self.pooled.add(&second.pooled);
            for one in settled {
                self.append(&one);
            }
        }
        self.turn();
        match self.failed {
            Some(error) if self.lost > 0 => Err(io::Error::new(
                error.kind(),
                format!("{error}, and {} finished requests are missing", self.lost),
            )),
            Some(error) => Err(error),
            None => Ok(self.pooled.whole()),
        }
    }

    fn append(&mut self, settled: &Settled) {
        if self.failed.is_some() {
            self.lost += 1;
            return;
        }
        let row = settled.row(&self.notes);
        self.line.clear();
        let written =
            serde_json::to_writer(&mut self.line, &row).map_err(io::Error::from).and_then(|()| {
                self.line.push(b'\n');
                self.file.write_all(&self.line)
            });
        if let Err(error) = written {
            self.failed = Some(error);
        }
        self.notes.seen(&row);
    }
}

/// Reads the rows of a `requests.jsonl`. The last line of a killed run may be cut: it is left out.
///
/// # Errors
/// Opening the file; each item may be an error of reading, or of a line that is no row, with its
/// number.
pub fn read_rows(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Row>> + use<>> {
    let file = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    let mut lines = file.split(b'\n').enumerate().peekable();
    Ok(std::iter::from_fn(move || {
        let (number, line) = lines.next()?;
        let line = match line {
            Ok(line) if line.is_empty() => return None,
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        match serde_json::from_slice(&line) {
            Ok(row) => Some(Ok(row)),
            Err(_) if lines.peek().is_none() => None,
            Err(error) => Some(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("line {}: {error}", number + 1),
            ))),
        }
    }))
}
