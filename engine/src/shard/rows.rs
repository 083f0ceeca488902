//! The records of several shards as those of one run: in order of completion, on one time axis.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;

use crate::record::Row;

/// Bytes of records that are read at once from one file: as many hosts as there are have such a piece
/// in memory, and none keeps its file open.
const PIECE_BYTES: u64 = 64 * 1024;

/// The records of one shard.
#[derive(Debug)]
pub struct Records {
    /// The shard.
    pub shard: u32,
    /// Its file of records.
    pub path: PathBuf,
    /// How much later its run began than that of all, ns.
    pub later_ns: u64,
    /// Number of its first reactor among all.
    pub first_reactor: u32,
}

/// Gives the records of all shards to `take`: moved to the common axis, with the shard in them and
/// reactors numbered over all. Each shard's keep their order, and among shards the one that ended first
/// comes first. A last line that was not written to its end is left out.
///
/// # Errors
/// A file that cannot be read, or a line in it that is no record, with its number; or what `take` gives.
pub fn merge_rows(
    records: Vec<Records>,
    take: &mut dyn FnMut(Row) -> io::Result<()>,
) -> io::Result<()> {
    let mut sources: Vec<Source> = records.into_iter().map(Source::new).collect();
    let mut next = BinaryHeap::new();
    for (number, source) in sources.iter_mut().enumerate() {
        next.extend(source.peek()?.map(|at| Reverse((at, number))));
    }
    while let Some(Reverse((_, number))) = next.pop() {
        let Some(source) = sources.get_mut(number) else { continue };
        if let Some(row) = source.ready.pop_front() {
            take(row)?;
        }
        next.extend(source.peek()?.map(|at| Reverse((at, number))));
    }
    Ok(())
}

/// When a request was settled, as far as its record tells.
fn ended(row: &Row) -> u64 {
    let marks = [row.done, row.last_token, row.first_byte, row.write_done, row.dispatched];
    marks.into_iter().flatten().next().unwrap_or(row.intended)
}

struct Source {
    records: Records,
    /// Where the next piece begins, and how many lines lie before it.
    offset: u64,
    lines: u64,
    is_over: bool,
    ready: VecDeque<Row>,
}

impl Source {
    fn new(records: Records) -> Self {
        Self { records, offset: 0, lines: 0, is_over: false, ready: VecDeque::new() }
    }

    /// When its next request ended; `None` after the last.
    fn peek(&mut self) -> io::Result<Option<u64>> {
        while self.ready.is_empty() && !self.is_over {
            self.read().map_err(|error| {
                let path = self.records.path.display();
                io::Error::new(error.kind(), format!("{path}: {error}"))
            })?;
        }
        Ok(self.ready.front().map(ended))
    }

    /// Reads a piece, of whole lines.
    fn read(&mut self) -> io::Result<()> {
        let mut file = BufReader::new(File::open(&self.records.path)?);
        file.seek(SeekFrom::Start(self.offset))?;
        let (begin, mut line) = (self.offset, Vec::new());
        while self.offset - begin < PIECE_BYTES {
            line.clear();
            let length = file.read_until(b'\n', &mut line)? as u64;
            if length == 0 {
                self.is_over = true;
                return Ok(());
            }
            self.offset += length;
            self.lines += 1;
            match serde_json::from_slice::<Row>(&line) {
                Ok(row) => self.ready.push_back(placed(row, &self.records)),
                // A run that was killed may have been writing it.
                Err(_) if file.fill_buf()?.is_empty() => {
                    self.is_over = true;
                    return Ok(());
                }
                Err(error) => {
                    let text = format!("line {}: {error}", self.lines);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(())
    }
}

fn placed(row: Row, records: &Records) -> Row {
    let mut row = row.shifted(records.later_ns);
    row.shard = Some(records.shard);
    row.reactor = row.reactor.saturating_add(records.first_reactor);
    row
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::measure::rows::{MS, row_at};

    fn write(dir: &std::path::Path, name: &str, rows: &[Row], torn: &str) -> PathBuf {
        let path = dir.join(name);
        let mut file = File::create(&path).unwrap();
        for row in rows {
            writeln!(file, "{}", serde_json::to_string(row).unwrap()).unwrap();
        }
        file.write_all(torn.as_bytes()).unwrap();
        path
    }

    fn records(shard: u32, path: PathBuf, later_ms: u64) -> Records {
        Records { shard, path, later_ns: later_ms * MS, first_reactor: shard * 10 }
    }

    fn merged(records: Vec<Records>) -> io::Result<Vec<Row>> {
        let mut all = Vec::new();
        merge_rows(records, &mut |row| {
            all.push(row);
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn records_come_in_order_of_completion_on_one_axis() {
        let dir = tempfile::tempdir().unwrap();
        // More than one piece of the first.
        let many: Vec<Row> = (0..400).map(|i| row_at(2 * i, i, i, &[i + 5])).collect();
        let few: Vec<Row> =
            (0..40).map(|i| row_at(2 * i + 1, 10 * i, 10 * i, &[10 * i + 1])).collect();
        let first = write(dir.path(), "a", &many, "");
        let second = write(dir.path(), "b", &few, "{\"index\": 7, \"re");
        let rows = merged(vec![records(0, first, 0), records(1, second, 3)]).unwrap();
        assert_eq!(rows.len(), 440);
        assert!(rows.is_sorted_by_key(|row| row.done));
        let one = rows.iter().find(|row| row.index == 21).unwrap();
        assert_eq!((one.shard, one.reactor, one.intended), (Some(1), 10, 103 * MS));
        let other = rows.iter().find(|row| row.index == 20).unwrap();
        assert_eq!((other.shard, other.reactor, other.done), (Some(0), 0, Some(15 * MS)));
    }

    #[test]
    fn a_bad_line_is_named_and_a_torn_one_at_the_end_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), "a", &[row_at(0, 0, 0, &[1])], "nothing\n{}\n");
        let said = merged(vec![records(0, path, 0)]).unwrap_err().to_string();
        assert!(said.contains("/a: line 2: "), "{said}");
        let missing = dir.path().join("none");
        assert!(merged(vec![records(0, missing, 0)]).is_err());
        let empty = write(dir.path(), "b", &[], "");
        assert!(merged(vec![records(0, empty, 0)]).unwrap().is_empty());
    }

    #[test]
    fn what_the_taker_says_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), "a", &[row_at(0, 0, 0, &[1]), row_at(1, 0, 0, &[1])], "");
        let mut seen = 0;
        let full = merge_rows(vec![records(0, path, 0)], &mut |_| {
            seen += 1;
            Err(io::Error::other("full"))
        });
        assert_eq!((full.unwrap_err().to_string(), seen), ("full".into(), 1));
    }
}
