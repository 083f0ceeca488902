//! Every finished request as a line of a table.

use std::io::Write;

use serde_json::Value;
use tokclock_engine::record::Row;

use super::curve_csv::text;
use crate::exit::Failure;
use crate::results::Kept;

/// The columns after that of the directory, each with the field of `requests.jsonl` that it holds.
const COLUMNS: [(&str, &str); 47] = [
    ("index", "index"),
    ("request_id", "request_id"),
    ("phase", "phase"),
    ("class", "class"),
    ("session", "session"),
    ("turn", "turn"),
    ("reactor", "reactor"),
    ("connection", "connection"),
    ("reused", "reused"),
    ("attempts", "attempts"),
    ("retries", "retries"),
    ("retry_ns", "retry_ns"),
    ("wait_cause", "wait_cause"),
    ("outcome", "outcome"),
    ("error", "error"),
    ("error_text", "error_text"),
    ("malformed_events", "malformed_events"),
    ("status", "status"),
    ("finish", "finish"),
    ("retry_after_s", "retry_after"),
    ("intended_ns", "intended"),
    ("dispatched_ns", "dispatched"),
    ("connected_ns", "connected"),
    ("tls_done_ns", "tls_done"),
    ("write_start_ns", "write_start"),
    ("write_done_ns", "write_done"),
    ("first_byte_ns", "first_byte"),
    ("head_done_ns", "head_done"),
    ("first_token_ns", "first_token"),
    ("first_output_ns", "first_output"),
    ("second_token_ns", "second_token"),
    ("last_token_ns", "last_token"),
    ("done_ns", "done"),
    ("input_tokens", "input_tokens"),
    ("client_input_tokens", "client_input_tokens"),
    ("cached_tokens", "cached_tokens"),
    ("ideal_cached_tokens", "ideal_cached_tokens"),
    ("output_tokens", "output_tokens"),
    ("output_source", "output_source"),
    ("client_output_tokens", "client_output_tokens"),
    ("reasoning_tokens", "reasoning_tokens"),
    ("first_tokens", "first_tokens"),
    ("events", "events"),
    ("bytes", "bytes"),
    ("reads", "reads"),
    ("coalesced", "coalesced"),
    ("lag_max_ns", "lag_max"),
];
/// Fields that stand in the file only where they are not 0.
const ZERO_IF_ABSENT: [&str; 2] = ["retries", "retry_ns"];

/// Writes all finished requests of all load points (RFC 4180, lines ended by `\n`) with a header: all
/// that `requests.jsonl` holds but output events and texts. Marks are ns from the run's start; what
/// does not exist is empty. A text that a spreadsheet would take for a formula begins with `'`.
///
/// # Errors
/// Requests that cannot be read, or an `out` that cannot be written.
pub(crate) fn requests_csv(results: &[Kept], out: &mut dyn Write) -> Result<(), Failure> {
    let failed = |error: csv::Error| Failure::could_not_run(format!("requests.csv: {error}"));
    let mut table = csv::Writer::from_writer(out);
    let names = COLUMNS.iter().map(|(name, _)| *name);
    table.write_record(std::iter::once("dir").chain(names)).map_err(failed)?;
    for kept in results {
        for point in kept.points()? {
            let dir = text(&point.path.display().to_string());
            point.each_row(|row| {
                let cells = std::iter::once(dir.clone()).chain(cells(row));
                table.write_record(cells).map_err(failed)
            })?;
        }
    }
    table.flush().map_err(|error| failed(error.into()))
}

fn cells(row: Row) -> impl Iterator<Item = String> {
    let row = Row { chunks: None, text: None, reasoning_text: None, ..row };
    let fields = serde_json::to_value(row).unwrap_or_default();
    COLUMNS.iter().map(move |(_, field)| match fields.get(field) {
        None if ZERO_IF_ABSENT.contains(field) => "0".to_owned(),
        None | Some(Value::Null) => String::new(),
        Some(Value::String(said)) => text(said),
        Some(other) => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn every_field_of_a_request_has_a_column() {
        let mut row = row(0, 0);
        (row.retries, row.retry_ns, row.retry_after) = (1, 2, Some(3));
        let fields = serde_json::to_value(row).unwrap();
        let fields = fields.as_object().unwrap();
        for name in fields.keys() {
            assert!(COLUMNS.iter().any(|(_, field)| field == name), "{name}");
        }
        assert_eq!(fields.len(), COLUMNS.len());
    }

    #[test]
    fn texts_survive_and_none_is_a_formula() {
        let mut row = row(0, 0);
        row.error_text = Some("=1+1".into());
        row.request_id = "a,\"b\"\nc".into();
        let cells: Vec<String> = cells(row).collect();
        assert_eq!((cells[1].as_str(), cells[15].as_str()), ("a,\"b\"\nc", "'=1+1"));
        assert_eq!((cells[10].as_str(), cells[22].as_str()), ("0", ""));
    }
}
