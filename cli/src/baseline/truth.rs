//! The simulator's log beside our records.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use tokclock_engine::measure::{Accuracy, AccuracyReport, Seen};
use tokclock_engine::record::{Outcome, Row};
use tokclock_sim::Record;

use crate::exit::Failure;

/// Compares the successful requests among `rows` with the log at `path`. `start_ns` is
/// CLOCK_MONOTONIC at the start of our run.
///
/// # Errors
/// If the log cannot be read.
pub(super) fn compare(rows: &[Row], path: &Path, start_ns: u64) -> Result<AccuracyReport, Failure> {
    let mut witness = read(path)?;
    let mut accuracy = Accuracy::new();
    for row in rows.iter().filter(|row| row.outcome == Outcome::Ok) {
        match witness.remove(&row.request_id) {
            Some(theirs) => accuracy.add(&ours(row, start_ns), &theirs),
            None => accuracy.add_unmatched(),
        }
    }
    Ok(accuracy.report())
}

fn ours(row: &Row, start_ns: u64) -> Seen {
    let chunks = row.chunks.as_deref().unwrap_or_default();
    Seen {
        request: row.write_start.map(|at| at + start_ns),
        events: chunks.iter().map(|(at, _)| at + start_ns).collect(),
    }
}

/// The requests of the log that have an id and were answered to the end.
fn read(path: &Path) -> Result<HashMap<String, Seen>, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::could_not_run(format!("cannot read back {}: {error}", path.display()))
    };
    let mut seen = HashMap::new();
    for line in BufReader::new(File::open(path).map_err(|error| unreadable(&error))?).lines() {
        let line = line.map_err(|error| unreadable(&error))?;
        let record: Record = serde_json::from_str(&line).map_err(|error| unreadable(&error))?;
        if let (Some(id), true) = (&record.request_id, record.complete) {
            seen.insert(id.clone(), witnessed(&record));
        }
    }
    Ok(seen)
}

fn witnessed(record: &Record) -> Seen {
    Seen {
        // A request without a stamp was read later than it arrived, nobody knows by how much.
        request: record.arrived_ns,
        events: record.events.iter().map(|event| event[0]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_read_by_request_and_broken_answers_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("truth.jsonl");
        let whole = Record {
            request_id: Some("a".into()),
            arrived_ns: Some(7),
            read_ns: 9,
            events: vec![[20, 21, 1], [30, 31, 1]],
            complete: true,
            ..Record::default()
        };
        let cut = Record { request_id: Some("b".into()), complete: false, ..whole.clone() };
        let foreign = Record { request_id: None, ..whole.clone() };
        let lines =
            [&whole, &cut, &foreign].map(|record| serde_json::to_string(record).unwrap() + "\n");
        std::fs::write(&path, lines.concat()).unwrap();
        let seen = read(&path).unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen["a"], Seen { request: Some(7), events: vec![20, 30] });
        let unstamped = Record { arrived_ns: None, ..whole };
        assert_eq!(witnessed(&unstamped).request, None);
    }

    #[test]
    fn a_damaged_log_is_one_clear_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("truth.jsonl");
        std::fs::write(&path, "{").unwrap();
        let message = read(&path).unwrap_err().message;
        assert!(message.contains("truth.jsonl") && !message.contains('\n'), "{message}");
    }
}
