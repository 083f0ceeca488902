//! From a file to its records: JSON lines, JSON documents, tables, plain text.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::DataError;
use super::lines::{LineByLine, Lines};
use super::members::{Members, fault};
use super::report::Unit;
use super::shape::{Shape, shape};
use super::source::{Content, Input};
use crate::workload::Format;

/// One record of a file.
pub(super) enum Record {
    /// JSON, perhaps.
    Json(String),
    /// A row of a table.
    Row(Members),
    /// A line of plain text.
    Text(String),
}

/// Where a record is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) file: &'a str,
    pub(super) unit: Unit,
    pub(super) number: u64,
}

/// What takes the records, or why one is none; it may say that it wants no more.
pub(super) type Each<'a> = dyn FnMut(Place<'_>, Result<Record, String>) -> ControlFlow<()> + 'a;

/// Hands every record of a file to `each`.
///
/// # Errors
/// What keeps the rest of the file from being read.
pub(super) fn read(input: Input, format: Format, each: &mut Each<'_>) -> Result<(), DataError> {
    let Input { name, ending, head, content } = input;
    let unfit = |reason| DataError::Unfit { file: name.clone(), reason };
    let reader = match content {
        Content::Text(reader) => reader,
        Content::Parquet(file) => return super::parquet::read(&name, file, each),
    };
    let mut walk = Walk { file: &name, unit: Unit::Line, number: 0, stopped: false, each };
    match shape(format, &ending, &head).map_err(unfit)? {
        Shape::Text => walk.lines(reader, Record::Text),
        Shape::JsonLines => walk.lines(reader, Record::Json),
        Shape::Table { delimiter } => walk.table(reader, delimiter),
        Shape::List | Shape::Wrapped => walk.document(reader),
        Shape::Documents => walk.documents(reader),
    }
}

/// Where the reading of a file stands.
struct Walk<'a, 'b> {
    file: &'a str,
    unit: Unit,
    number: u64,
    stopped: bool,
    each: &'a mut Each<'b>,
}

impl Walk<'_, '_> {
    fn give(&mut self, number: u64, record: Result<Record, String>) -> ControlFlow<()> {
        self.number = number;
        let flow = (self.each)(Place { file: self.file, unit: self.unit, number }, record);
        self.stopped = flow.is_break();
        flow
    }

    fn failed(&self, error: io::Error) -> DataError {
        let after = format!("{} {}", self.unit.word(), self.number);
        DataError::Read { file: self.file.to_owned(), after, error }
    }

    fn lines(
        &mut self,
        reader: Box<dyn Read>,
        kind: fn(String) -> Record,
    ) -> Result<(), DataError> {
        let mut lines = Lines::new(reader);
        while let Some((number, line)) = lines.next().map_err(|error| self.failed(error))? {
            let line = match std::str::from_utf8(line) {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => Ok(kind(line.to_owned())),
                Err(error) => Err(format!("not UTF-8 (byte {})", error.valid_up_to() + 1)),
            };
            if self.give(number, line).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn table(&mut self, reader: Box<dyn Read>, delimiter: u8) -> Result<(), DataError> {
        let (lines, began) = LineByLine::new(Lines::new(reader));
        let mut table = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .terminator(csv::Terminator::Any(b'\n'))
            .from_reader(lines);
        let header = table.byte_headers().map_err(|error| self.failed(error.into()))?.clone();
        let names = self.column_names(&header)?;
        began.set(0);
        let mut row = csv::ByteRecord::new();
        loop {
            let record = match table.read_byte_record(&mut row) {
                Ok(false) => return Ok(()),
                Ok(true) => cells(&names, &row),
                Err(error) => match error.kind() {
                    csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                        Err(format!("{len} cells, but the header has {expected_len}"))
                    }
                    _ => return Err(self.failed(error.into())),
                },
            };
            if self.give(began.take(), record).is_break() {
                return Ok(());
            }
        }
    }

    fn column_names(&self, header: &csv::ByteRecord) -> Result<Vec<String>, DataError> {
        let unfit = |reason| DataError::Unfit { file: self.file.to_owned(), reason };
        let mut names: Vec<String> = Vec::new();
        for cell in header {
            let name = std::str::from_utf8(cell).map(str::trim);
            let name = name.map_err(|_| unfit("its header is not UTF-8".to_owned()))?;
            if !name.is_empty() && names.iter().any(|before| before == name) {
                return Err(unfit(format!("two columns are called `{name}`")));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    /// A list, or an object whose `data` is one: items are read one by one.
    fn document(&mut self, reader: Box<dyn Read>) -> Result<(), DataError> {
        self.unit = Unit::Item;
        let mut document = serde_json::Deserializer::from_reader(BufReader::new(reader));
        let read = (&mut document).deserialize_any(Items(self)).and_then(|()| document.end());
        self.end_of_document(read)
    }

    /// Objects one after the other, each over several lines.
    fn documents(&mut self, reader: Box<dyn Read>) -> Result<(), DataError> {
        self.unit = Unit::Item;
        let documents = serde_json::Deserializer::from_reader(BufReader::new(reader));
        for item in documents.into_iter::<Box<RawValue>>() {
            let read = item.map(|item| {
                let _ = self.give(self.number + 1, Ok(Record::Json(item.get().to_owned())));
            });
            let failed = read.is_err();
            self.end_of_document(read)?;
            if failed || self.stopped {
                break;
            }
        }
        Ok(())
    }

    /// After a fault in JSON there is no way to tell where the next item begins.
    fn end_of_document(&mut self, read: Result<(), serde_json::Error>) -> Result<(), DataError> {
        match read {
            Err(error) if error.is_io() => Err(self.failed(error.into())),
            Err(error) if !self.stopped => {
                let reason = format!("{}; what follows cannot be read", fault(&error));
                let _ = self.give(self.number + 1, Err(reason));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn cells(names: &[String], row: &csv::ByteRecord) -> Result<Record, String> {
    let mut cells = Vec::with_capacity(names.len());
    for (name, cell) in names.iter().zip(row) {
        let cell = std::str::from_utf8(cell).map_err(|_| format!("`{name}` is not UTF-8"))?;
        cells.push((name.clone(), cell.to_owned()));
    }
    Ok(Record::Row(Members::of_row(cells)))
}

/// Gives each item of a list as it is met, so that no more than one is in memory.
struct Items<'a, 'b, 'c>(&'a mut Walk<'b, 'c>);

impl<'de> Visitor<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects, or an object with such a list as `data`")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            let number = self.0.number + 1;
            if self.0.give(number, Ok(Record::Json(item.get().to_owned()))).is_break() {
                return Err(S::Error::custom("no more items are wanted"));
            }
        }
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<(), M::Error> {
        while let Some(name) = members.next_key::<String>()? {
            if name == "data" {
                members.next_value_seed(Items(&mut *self.0))?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}
