//! Where entries lie until they are sent: in memory, or beyond some size in an unlinked file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// Bytes held in memory before a file is made.
pub(super) const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Pieces being written, one after the other.
#[derive(Debug)]
pub(super) struct Writer {
    memory: Vec<u8>,
    memory_max: usize,
    file: Option<BufWriter<File>>,
    /// Where each piece ends.
    ends: Vec<u64>,
}

impl Writer {
    /// Nothing yet; at most `memory_max` bytes stay in memory.
    pub(super) const fn new(memory_max: usize) -> Self {
        Self { memory: Vec::new(), memory_max, file: None, ends: Vec::new() }
    }

    /// Appends a piece and gives its number.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub(super) fn add(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.file.is_none() && self.memory.len() + piece.len() > self.memory_max {
            let mut file = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(piece)?,
            None => self.memory.extend_from_slice(piece),
        }
        let start = self.ends.last().copied().unwrap_or(0);
        self.ends.push(start + piece.len() as u64);
        Ok(self.ends.len() - 1)
    }

    /// All pieces, to be read.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub(super) fn finish(self) -> io::Result<Spool> {
        let file = self.file.map(|file| file.into_inner().map_err(io::Error::from)).transpose()?;
        Ok(Spool { memory: self.memory, file, ends: self.ends })
    }
}

/// Pieces that can be read in any order, from any thread.
#[derive(Debug)]
pub(super) struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
    ends: Vec<u64>,
}

impl Spool {
    /// A piece.
    ///
    /// # Errors
    /// Those of the temporary file, and that there is no such piece.
    pub(super) fn piece(&self, number: usize) -> io::Result<Vec<u8>> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let start = if number == 0 { 0 } else { *self.ends.get(number - 1).ok_or_else(missing)? };
        let end = *self.ends.get(number).ok_or_else(missing)?;
        // Pieces were whole in memory once, so their lengths fit.
        let bytes = (end - start) as usize;
        match &self.file {
            Some(file) => {
                let mut piece = vec![0; bytes];
                file.read_exact_at(&mut piece, start)?;
                Ok(piece)
            }
            None => {
                let start = start as usize;
                self.memory.get(start..start + bytes).map(<[u8]>::to_vec).ok_or_else(missing)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_same_from_memory_and_from_a_file() {
        let pieces: Vec<Vec<u8>> = (0..50_u8).map(|number| vec![number; number.into()]).collect();
        for memory_max in [0, 100, 1 << 20] {
            let mut writer = Writer::new(memory_max);
            for (number, piece) in pieces.iter().enumerate() {
                assert_eq!(writer.add(piece).unwrap(), number);
            }
            let spool = writer.finish().unwrap();
            assert_eq!(spool.file.is_some(), memory_max < 1 << 20);
            for (number, piece) in pieces.iter().enumerate().rev() {
                assert_eq!(spool.piece(number).unwrap(), *piece);
            }
            assert!(spool.piece(50).is_err());
        }
    }
}
