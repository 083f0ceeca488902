//! Every finished request as a line of a table.

use std::io::Write;

use serde_json::Value;
use tokclock_engine::record::Row;

use super::curve_csv::text;
use crate::exit::Failure;
use crate::results::Kept;

/// The columns after that of the directory, each with the field of `requests.jsonl` that it holds; a
/// dot leads into an object.
const COLUMNS: [(&str, &str); 70] = [
    ("index", "index"),
    ("request_id", "request_id"),
    ("trace_id", "trace_id"),
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
    ("server_source", "server.source"),
    ("server_endpoint", "server.endpoint"),
    ("server_queue_ns", "server.queue_ns"),
    ("server_prefill_ns", "server.prefill_ns"),
    ("server_ttft_ns", "server.ttft_ns"),
    ("server_decode_ns", "server.decode_ns"),
    ("server_e2e_ns", "server.e2e_ns"),
    ("server_kv_transfer_ns", "server.kv_transfer_ns"),
    ("server_mean_itl_ns", "server.mean_itl_ns"),
    ("server_received_realtime_ns", "server.received_realtime_ns"),
    ("server_sent_realtime_ns", "server.sent_realtime_ns"),
    ("server_named", "server.named"),
    ("kv_fallback", "kv_fallback"),
    ("arm", "legs.arm"),
    ("handoff_bytes", "legs.handoff_bytes"),
    ("prefill_url", "legs.prefill.url"),
    ("prefill_write_start_ns", "legs.prefill.write_start"),
    ("prefill_done_ns", "legs.prefill.done"),
    ("decode_url", "legs.decode.url"),
    ("decode_write_start_ns", "legs.decode.write_start"),
    ("baseline_write_start_ns", "legs.baseline.write_start"),
    ("baseline_first_token_ns", "legs.baseline.first_token"),
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
    COLUMNS.iter().map(move |(_, field)| {
        match field.split('.').try_fold(&fields, |at, name| at.get(name)) {
            None if ZERO_IF_ABSENT.contains(field) => "0".to_owned(),
            None | Some(Value::Null) => String::new(),
            Some(Value::String(said)) => text(said),
            Some(other) => text(&other.to_string()),
        }
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
        let mut told =
            serde_json::json!({ "source": "ollama", "endpoint": 1, "named": [["a", 1]] });
        for (_, field) in COLUMNS {
            if let Some(name) = field.strip_prefix("server.").filter(|name| name.ends_with("_ns")) {
                told[name] = 5.into();
            }
        }
        row.server = Some(Box::new(serde_json::from_value(told).unwrap()));
        row.trace_id = Some("0a".into());
        let fields = serde_json::to_value(row).unwrap();
        let fields = fields.as_object().unwrap();
        let server = fields["server"].as_object().unwrap().keys();
        let own = fields.keys().filter(|name| *name != "server").cloned();
        let names: Vec<String> = own.chain(server.map(|name| format!("server.{name}"))).collect();
        for name in &names {
            assert!(COLUMNS.iter().any(|(_, field)| field == name), "{name}");
        }
        // Of legs there are the marks that figures are made of; a request without any has none.
        let of_legs = COLUMNS.iter().filter(|(_, field)| field.starts_with("legs."));
        assert_eq!(names.len() + 1 + of_legs.count(), COLUMNS.len());
    }

    #[test]
    fn texts_survive_and_none_is_a_formula() {
        let mut row = row(0, 0);
        row.error_text = Some("=1+1".into());
        row.request_id = "a,\"b\"\nc".into();
        let cells: Vec<String> = cells(row).collect();
        assert_eq!((cells[1].as_str(), cells[16].as_str()), ("a,\"b\"\nc", "'=1+1"));
        assert_eq!((cells[11].as_str(), cells[23].as_str()), ("0", ""));
    }
}
