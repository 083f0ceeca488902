//! What was found in a data set: which lines cannot be used and why, and what was left out.

use std::fmt;

use crate::workload::Format;

/// Bad lines whose reasons a report keeps.
pub const BAD_LINES_KEPT: usize = 20;

/// By what the records of a file are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Lines, from 1.
    Line,
    /// Items of a JSON document, from 1.
    Item,
    /// Rows of a Parquet file, from 1.
    Row,
}

impl Unit {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Item => "item",
            Self::Row => "row",
        }
    }
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// The file.
    pub file: String,
    /// What the number counts.
    pub unit: Unit,
    /// Which one.
    pub number: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// `data.jsonl:4: reason`, or `data.json: item 4: reason`.
impl fmt::Display for BadLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, unit, number, reason } = self;
        match unit {
            Unit::Line => write!(formatter, "{file}:{number}: {reason}"),
            Unit::Item | Unit::Row => {
                write!(formatter, "{file}: {} {number}: {reason}", unit.word())
            }
        }
    }
}

/// What was found in a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataReport {
    /// The format, as given or found out; `Auto` where no line told.
    pub format: Format,
    /// Records read: lines that are not blank, items, rows.
    pub lines: u64,
    /// Entries kept.
    pub entries: u64,
    /// Requests in them.
    pub turns: u64,
    /// Records left out because they cannot be used.
    pub skipped: u64,
    /// The first [`BAD_LINES_KEPT`] of those.
    pub first_skipped: Vec<BadLine>,
    /// Records left out for their lengths.
    pub filtered: u64,
    /// Turns after the first that were left out, where only that was wanted.
    pub dropped_turns: u64,
    /// Remarks for the user, a line each.
    pub notes: Vec<String>,
}

impl DataReport {
    pub(super) const fn new(format: Format) -> Self {
        Self {
            format,
            lines: 0,
            entries: 0,
            turns: 0,
            skipped: 0,
            first_skipped: Vec::new(),
            filtered: 0,
            dropped_turns: 0,
            notes: Vec::new(),
        }
    }
}

/// The bad lines of a data set in one line of text.
pub(super) fn summary(first: &[BadLine], count: u64) -> String {
    const NAMED: usize = 3;
    let Some(bad) = first.first() else { return String::new() };
    if count <= 1 {
        return bad.to_string();
    }
    let named = &first[..first.len().min(NAMED)];
    let more = count - named.len() as u64;
    let alike = named.iter().all(|line| line.file == bad.file && line.unit == bad.unit);
    let word = bad.unit.word();
    if alike {
        let numbers: Vec<String> = named.iter().map(|line| line.number.to_string()).collect();
        let numbers = enumerated(&numbers, more);
        let (file, number) = (&bad.file, bad.number);
        return format!(
            "{file}: {word}s {numbers} cannot be used; {word} {number}: {}",
            bad.reason
        );
    }
    let places: Vec<String> = named
        .iter()
        .map(|line| format!("{} {word} {}", line.file, line.number, word = line.unit.word()))
        .collect();
    format!("{} cannot be used; the first: {}", enumerated(&places, more), bad.reason)
}

/// `2 and 4`; `2, 4, 9 and 17 more`.
fn enumerated(items: &[String], more: u64) -> String {
    match (items, more) {
        ([head @ .., last], 0) if !head.is_empty() => format!("{} and {last}", head.join(", ")),
        (_, 0) => items.join(", "),
        _ => format!("{} and {more} more", items.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_are_named_in_one_line() {
        let line = |file: &str, number| BadLine {
            file: file.into(),
            unit: Unit::Line,
            number,
            reason: "no `timestamp`".into(),
        };
        let lines = [line("a", 2), line("a", 4), line("a", 9), line("a", 10)];
        for (first, count, text) in [
            (&lines[..1], 1, "a:2: no `timestamp`"),
            (&lines[..2], 2, "a: lines 2 and 4 cannot be used; line 2: no `timestamp`"),
            (&lines[..3], 3, "a: lines 2, 4 and 9 cannot be used; line 2: no `timestamp`"),
            (&lines[..], 20, "a: lines 2, 4, 9 and 17 more cannot be used; line 2: no `timestamp`"),
            (
                &[line("a", 2), line("b", 1)],
                2,
                "a line 2 and b line 1 cannot be used; the first: no `timestamp`",
            ),
        ] {
            assert_eq!(summary(first, count), text);
        }
    }
}
