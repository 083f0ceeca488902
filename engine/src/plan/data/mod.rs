//! Data sets and traces: from files in many formats to requests in one.
//!
//! ```text
//! source ─ files, unpacked ─> records ─ lines, items, rows ─> reader ─ entries ─> gather ─> spool
//! ```
//!
//! A file is read once, one record at a time. Each becomes an [`Entry`], whose normal form lies in
//! the spool until a request needs it; in memory stay its place, its turns and its time.

mod columns;
mod conversation;
mod entry;
mod error;
mod facts;
mod fields;
#[cfg(test)]
mod format_tests;
mod gather;
mod lines;
mod members;
mod normal;
mod notes;
mod openai;
mod parquet;
mod reader;
mod records;
mod report;
mod select;
mod shape;
mod source;
mod spool;
mod stamps;
#[cfg(test)]
mod tests;

pub use entry::{Content, Entry, Turn};
pub use error::DataError;
pub use report::{BAD_LINES_KEPT, BadLine, DataReport, Unit};
pub use select::Selection;
pub use source::Hub;

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;

use crate::workload::{DataSpec, Format};
use gather::{Gather, Lies};
use reader::Reader;
use source::Input;
use spool::{MEMORY_BYTES_MAX, Spool};

/// What counts the tokens of a text.
pub type Count<'a> = dyn Fn(&str) -> u64 + Sync + 'a;

/// A data set, read and checked; it never changes, and any thread may read it.
#[derive(Debug)]
pub struct DataSet {
    spool: Spool,
    index: Vec<Lies>,
    more: HashMap<u32, Vec<u32>>,
    times: Vec<u64>,
    report: DataReport,
}

impl DataSet {
    /// Reads all of a data set. `count` gives the tokens of a text, where there is a tokenizer;
    /// `hub` gets files from the Hugging Face hub.
    ///
    /// # Errors
    /// That it cannot be read; lines that cannot be used, unless they are to be left out; that
    /// nothing is left; filters on lengths that are neither declared nor counted.
    pub fn load(
        spec: &DataSpec,
        count: Option<&Count<'_>>,
        hub: &Hub<'_>,
    ) -> Result<Self, DataError> {
        let mut gather = Gather::new(spec, reader(spec)?, count, None, MEMORY_BYTES_MAX);
        let name = read_source(spec, hub, &mut gather)?;
        Self::of(spec, gather, name)
    }

    /// Reads all of a data set from `text`, whatever the source of `spec` is; `name` is for
    /// messages, and its ending counts as that of a file.
    ///
    /// # Errors
    /// Those of [`DataSet::load`].
    pub fn read(
        spec: &DataSpec,
        name: &str,
        text: Box<dyn Read>,
        count: Option<&Count<'_>>,
    ) -> Result<Self, DataError> {
        let mut gather = Gather::new(spec, reader(spec)?, count, None, MEMORY_BYTES_MAX);
        let input = Input::new(name.to_owned(), source::ending(Path::new(name)), text)?;
        read_input(spec, input, &mut gather)?;
        Self::of(spec, gather, name.to_owned())
    }

    fn of(spec: &DataSpec, mut gather: Gather<'_>, file: String) -> Result<Self, DataError> {
        let report = finish(spec, &mut gather, &file)?;
        if gather.has_failed() {
            let (count, all) = (report.skipped, report.entries + report.filtered == 0);
            return Err(DataError::Bad { first: report.first_skipped, count, all });
        }
        if report.entries == 0 {
            let reason = why_empty(&report);
            return Err(DataError::Empty { file, reason });
        }
        let kept = gather.kept;
        let times = if gather.untimed == 0 { kept.times } else { Vec::new() };
        let spool = kept.writer.finish()?;
        Ok(Self { spool, index: kept.index, more: kept.more, times, report })
    }

    /// How many entries there are, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    #[must_use]
    pub fn len(&self) -> u64 {
        self.index.len() as u64
    }

    /// Requests of an entry, counted from 0 in the order of the file; 0 if there is no such entry.
    #[must_use]
    pub fn turns(&self, entry: u64) -> u32 {
        self.lies(entry).map_or(0, |lies| lies.turns)
    }

    /// An entry, counted from 0 in the order of the file.
    ///
    /// # Errors
    /// That there is none, and those of the temporary file.
    pub fn entry(&self, entry: u64) -> Result<Entry, DataError> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no entry {entry}"));
        let lies = self.lies(entry).ok_or_else(missing)?;
        let mut found = self.piece(lies.piece)?;
        let more = u32::try_from(entry).ok().and_then(|entry| self.more.get(&entry));
        for piece in more.into_iter().flatten() {
            found.turns.append(&mut self.piece(*piece)?.turns);
        }
        Ok(found)
    }

    /// Goes through all that was read, in order, as bytes that are equal where entries are.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub(super) fn each_piece(&self, add: &mut dyn FnMut(&[u8])) -> Result<(), DataError> {
        for (entry, lies) in self.index.iter().enumerate() {
            add(&self.spool.piece(lies.piece as usize)?);
            let more = u32::try_from(entry).ok().and_then(|entry| self.more.get(&entry));
            for piece in more.into_iter().flatten() {
                add(&self.spool.piece(*piece as usize)?);
            }
        }
        self.times.iter().for_each(|time| add(&time.to_le_bytes()));
        Ok(())
    }

    /// When an entry goes, in ns since the first one; `None` unless every entry has a time.
    #[must_use]
    pub fn time_ns(&self, entry: u64) -> Option<u64> {
        usize::try_from(entry).ok().and_then(|entry| self.times.get(entry).copied())
    }

    /// Whether every entry has a time. They are then in the order of their times.
    #[must_use]
    pub fn has_times(&self) -> bool {
        !self.times.is_empty()
    }

    /// What was found and what was left out.
    #[must_use]
    pub const fn report(&self) -> &DataReport {
        &self.report
    }

    fn lies(&self, entry: u64) -> Option<&Lies> {
        usize::try_from(entry).ok().and_then(|entry| self.index.get(entry))
    }

    fn piece(&self, piece: u32) -> Result<Entry, DataError> {
        let damaged = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
        let text = String::from_utf8(self.spool.piece(piece as usize)?)
            .map_err(|_| damaged("not UTF-8".to_owned()))?;
        Ok(Entry::parse(&text).map_err(damaged)?)
    }
}

/// Reads all of a data set and tells of each line that cannot be used, keeping no entries. Filters
/// on lengths are not looked at.
///
/// # Errors
/// That it cannot be read to its end.
pub fn check(
    spec: &DataSpec,
    each: &mut dyn FnMut(&BadLine),
    hub: &Hub<'_>,
) -> Result<DataReport, DataError> {
    let mut gather = Gather::new(spec, reader(spec)?, None, Some(each), 0);
    let name = read_source(spec, hub, &mut gather)?;
    finish(spec, &mut gather, &name)
}

fn reader(spec: &DataSpec) -> Result<Reader<'_>, DataError> {
    let unfit = |reason| DataError::Unfit { file: spec.source.to_string(), reason };
    if spec.block_size == Some(0) {
        return Err(unfit("--block-size must be at least 1".to_owned()));
    }
    if spec.limit == Some(0) {
        return Err(unfit("a limit of 0 entries leaves nothing to send".to_owned()));
    }
    Reader::new(spec).map_err(unfit)
}

/// Reads all files of a source; gives what the whole is called.
fn read_source(
    spec: &DataSpec,
    hub: &Hub<'_>,
    gather: &mut Gather<'_>,
) -> Result<String, DataError> {
    let places = source::places(&spec.source, hub)?;
    let name = match places.as_slice() {
        [place] => place.name(),
        _ => spec.source.to_string(),
    };
    for (position, place) in places.iter().enumerate() {
        if position > 0 && gather.reader.format() == Format::RandomPool {
            let reason = "only one pool of aiperf-random-pool can be drawn from: name one file";
            return Err(DataError::Unfit { file: name, reason: reason.to_owned() });
        }
        read_input(spec, place.open()?, gather)?;
        if gather.failed.is_some() {
            break;
        }
    }
    Ok(name)
}

fn read_input(spec: &DataSpec, input: Input, gather: &mut Gather<'_>) -> Result<(), DataError> {
    let format = match spec.format {
        Format::Auto if !spec.fields.is_empty() => Format::Columns,
        format => format,
    };
    records::read(input, format, &mut |place, record| gather.take(place, record))
}

fn finish(spec: &DataSpec, gather: &mut Gather<'_>, file: &str) -> Result<DataReport, DataError> {
    if let Some(error) = gather.failed.take() {
        return Err(error);
    }
    gather.report.format = gather.reader.format();
    gather.report.notes = notes::notes(spec, gather);
    if let Some(name) = gather.reader.unseen().filter(|_| gather.report.entries > 0) {
        let reason = format!("no line has `{name}`, which --field names");
        return Err(DataError::Unfit { file: file.to_owned(), reason });
    }
    Ok(gather.report.clone())
}

fn why_empty(report: &DataReport) -> String {
    match report.first_skipped.first() {
        Some(bad) if report.filtered == 0 => {
            format!("all {} were left out as bad; the first: {bad}", report.skipped)
        }
        _ if report.filtered > 0 => {
            format!("the filters on lengths left out all {}", report.filtered)
        }
        _ if report.lines > 0 => "every request failed in the recording".to_owned(),
        _ => "there are no records in it".to_owned(),
    }
}
