//! The writer's side: rows appended to `requests.jsonl` as requests finish, seconds added up.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::recorder::{SecondPooled, WriterRings};
use super::settled::Annotate;
use super::{Pooled, Row, SecondsFile, Settled};

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file could not be written.
#[derive(Debug)]
pub struct Unwritten {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

/// The file of finished requests, and the sum of all seconds.
pub struct Spill<N> {
    path: PathBuf,
    file: BufWriter<File>,
    /// The seconds one by one, where they are kept.
    seconds: Option<SecondsFile>,
    rings: Vec<WriterRings>,
    pooled: Pooled,
    /// One line, before it is written.
    line: Vec<u8>,
    notes: N,
    /// The first failure to write; what comes after it is lost and counted.
    failed: Option<Unwritten>,
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
        let path = path.to_owned();
        Ok(Self { path, file, seconds: None, rings, pooled, line, notes, failed: None, lost: 0 })
    }

    /// The same, which keeps the seconds one by one too, if there is a file for them.
    #[must_use]
    pub fn with_seconds(self, seconds: Option<SecondsFile>) -> Self {
        let reactors = self.rings.len();
        let expecting = |mut seconds: SecondsFile| {
            seconds.expect(reactors);
            seconds
        };
        Self { seconds: seconds.map(expecting), ..self }
    }

    /// Takes all that is there now and hands it to the kernel. Returns how many requests that were.
    pub fn turn(&mut self) -> usize {
        let mut taken = 0;
        self.seconds.iter_mut().for_each(SecondsFile::begin_turn);
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
                self.pool(reactor, &second);
                second.pooled.clear();
                let _ = self.rings[reactor].blanks.push(second.pooled);
            }
        }
        let flushed = self.file.flush();
        self.note(flushed);
        let written = self.seconds.as_mut().map_or(Ok(()), SecondsFile::end_turn);
        self.note_seconds(written);
        taken
    }

    /// Whether a write has failed: the run cannot go on.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Appends what reactors still held, in the order of the reactors, and gives the sum of all seconds.
    ///
    /// # Errors
    /// The first failure to write, of the whole run.
    pub fn finish(
        mut self,
        rest: impl IntoIterator<Item = (SecondPooled, Vec<Settled>)>,
    ) -> Result<Pooled, Unwritten> {
        self.turn();
        for (reactor, (second, settled)) in rest.into_iter().enumerate() {
            for one in settled {
                self.append(&one);
            }
            self.pool(reactor, &second);
        }
        self.turn();
        let written = self.seconds.as_mut().map_or(Ok(()), SecondsFile::finish);
        self.note_seconds(written);
        match self.failed {
            Some(Unwritten { path, error }) if self.lost > 0 => {
                let text = format!("{error}, and {} finished requests are missing", self.lost);
                Err(Unwritten { path, error: io::Error::new(error.kind(), text) })
            }
            Some(unwritten) => Err(unwritten),
            None => Ok(self.pooled.whole()),
        }
    }

    fn pool(&mut self, reactor: usize, second: &SecondPooled) {
        self.pooled.add(&second.pooled);
        if let Some(seconds) = &mut self.seconds {
            seconds.add_pooled(reactor, second);
        }
    }

    /// Keeps the first failure to write the requests.
    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            let path = &self.path;
            self.failed.get_or_insert_with(|| Unwritten { path: path.clone(), error });
        }
    }

    /// The same for the seconds.
    fn note_seconds(&mut self, written: io::Result<()>) {
        if let (Err(error), Some(seconds)) = (written, &self.seconds) {
            let path = seconds.path().to_owned();
            self.failed.get_or_insert(Unwritten { path, error });
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
        self.note(written);
        if let Some(seconds) = &mut self.seconds {
            seconds.add_row(&row);
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
