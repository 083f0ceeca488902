//! AIPerf's line for each request: `profile_export.jsonl`.

use serde_json::{Map, Value, json};

use super::super::Remarks;
use super::super::records::{Records, Sent};
use super::metrics::{Metrics, is_valid, keeps, of_request};
use crate::exit::Failure;

/// The lines, of a run that began at `began`, ns since 1970.
pub(super) fn lines(
    of: &Records<'_>,
    metrics: &Metrics,
    began: u64,
    remarks: &mut Remarks,
) -> Result<Vec<u8>, Failure> {
    let stream = of.summary.target.stream;
    let mut out = Vec::new();
    let mut endless = 0;
    for one in &of.sent {
        let Some(done) = one.row.done.or(one.row.last_token) else {
            endless += 1;
            continue;
        };
        let valid = is_valid(one, stream);
        let mut line = Map::new();
        line.insert("metadata".into(), metadata(one, began, done));
        let mut values = if valid { values(one, of, metrics) } else { Map::new() };
        if let Some(input) = one.input().filter(|_| !valid) {
            values.insert("error_isl".into(), json!({"value": input, "unit": "tokens"}));
        }
        line.insert("metrics".into(), Value::Object(values));
        if !valid {
            let (class, text) = error(one);
            let code = one.row.status.filter(|_| !one.is_ok());
            line.insert("error".into(), json!({"code": code, "type": class, "message": text}));
        }
        serde_json::to_writer(&mut out, &line)
            .map_err(|error| Failure::could_not_run(format!("profile_export.jsonl: {error}")))?;
        out.push(b'\n');
    }
    if endless > 0 {
        remarks.differ(
            "request_end_ns",
            format!("{endless} requests without an end have no line: the end cannot be left out"),
        );
    }
    Ok(out)
}

/// What failed, in a word, and what was said of it.
pub(super) fn error(one: &Sent) -> (String, String) {
    if one.is_ok() {
        return ("InvalidInferenceResultError".into(), "the answer has no content".into());
    }
    one.failure()
}

fn metadata(one: &Sent, began: u64, done: u64) -> Value {
    let row = &one.row;
    let mut out = json!({
        "session_num": row.session.unwrap_or(row.index),
        "x_request_id": row.request_id,
        "request_start_ns": began.saturating_add(one.start),
        "request_end_ns": began.saturating_add(done),
        "worker_id": format!("reactor_{}", row.reactor),
        "record_processor_id": "tokclock",
        "benchmark_phase": "profiling",
        "phase_name": "profiling",
        "phase_kind": "profiling",
        "was_cancelled": false,
    });
    if let Some(turn) = row.turn {
        out["turn_index"] = json!(turn);
    }
    out
}

fn values(one: &Sent, of: &Records<'_>, metrics: &Metrics) -> Map<String, Value> {
    let stream = of.summary.target.stream;
    let mut out = Map::new();
    for (name, value) in of_request(one, stream) {
        // Tokens are counts.
        let value = if name.unit == "tokens" { json!(value as u64) } else { json!(value) };
        out.insert(name.tag.into(), json!({"value": value, "unit": name.unit}));
    }
    let gaps: Vec<f64> = one.gaps().map(|gap| gap as f64 / 1e6).collect();
    if of.has_chunks && !gaps.is_empty() {
        out.insert("inter_chunk_latency".into(), json!({"value": gaps, "unit": "ms"}));
    }
    if !metrics.limits.is_empty() {
        let good = u8::from(keeps(one, stream, &metrics.limits));
        out.insert("good_request_count".into(), json!({"value": good, "unit": "requests"}));
    }
    out
}
