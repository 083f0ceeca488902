//! AIPerf's figures of a run, as JSON and as CSV.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokclock_engine::measure::Linear;

use super::super::Remarks;
use super::super::records::Records;
use super::metrics::{Metrics, Name, is_valid};
use crate::exit::Failure;

/// The version of the JSON that is written.
const SCHEMA: &str = "1.4";
/// Its percentiles.
const PERCENTILES: [u32; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// `profile_export_aiperf.json`: metrics by their tags, and what there is to say of the run.
pub(super) fn document(
    of: &Records<'_>,
    metrics: &Metrics,
    remarks: &mut Remarks,
) -> Result<Vec<u8>, Failure> {
    let mut out = Map::new();
    out.insert("schema_version".into(), json!(SCHEMA));
    for (name, values) in &metrics.of_requests {
        out.insert(name.tag.into(), record(*name, values));
    }
    for (name, value) in &metrics.of_run {
        out.insert(name.tag.into(), json!({"unit": name.unit, "avg": value}));
    }
    if let Some(mut config) = super::input_config(of, remarks) {
        if !metrics.limits.is_empty() {
            let slos =
                metrics.limits.iter().map(|(name, limit)| (name.tag.to_owned(), json!(limit)));
            config["slos"] = Value::Object(slos.collect());
        }
        out.insert("input_config".into(), config);
    }
    out.insert("was_cancelled".into(), json!(of.summary.run.interrupted));
    out.insert("is_complete".into(), json!(!of.summary.run.interrupted));
    out.insert("error_summary".into(), errors(of));
    if let Some(began) = of.began() {
        let first = of.sent.iter().map(|one| one.start).min();
        let last = of.sent.iter().filter_map(|one| one.row.done).max();
        for (name, at) in [("start_time", first), ("end_time", last)] {
            if let Some(text) = at.and_then(|at| instant(began.saturating_add(at))) {
                out.insert(name.into(), json!(text));
            }
        }
        remarks.differ("start_time end_time", "the first request sent and the last end");
    }
    super::super::json(&out)
}

/// `2026-01-31T23:59:59.000000Z`.
fn instant(unix_ns: u64) -> Option<String> {
    let at = UNIX_EPOCH.checked_add(Duration::from_nanos(unix_ns))?;
    Some(humantime::format_rfc3339_micros(at).to_string())
}

fn record(name: Name, values: &Linear) -> Value {
    let mut out = Map::new();
    out.insert("unit".into(), json!(name.unit));
    for (stat, value) in stats(values) {
        if let Some(value) = value {
            out.insert(stat, json!(value));
        }
    }
    out.insert("count".into(), json!(values.count()));
    Value::Object(out)
}

/// The figures of a metric, in the order of the columns of the CSV.
fn stats(values: &Linear) -> Vec<(String, Option<f64>)> {
    let mut all = vec![
        ("avg".to_owned(), values.mean()),
        ("min".to_owned(), values.min()),
        ("max".to_owned(), values.max()),
        ("sum".to_owned(), Some(values.sum())),
    ];
    let percentile = |p: u32| (format!("p{p}"), values.percentile(p.into()));
    all.extend(PERCENTILES.map(percentile));
    all.push(("std".to_owned(), values.stdev()));
    all
}

/// Failures that are alike, counted.
fn errors(of: &Records<'_>) -> Value {
    let stream = of.summary.target.stream;
    let mut alike: BTreeMap<(Option<u16>, String, String), u64> = BTreeMap::new();
    for one in of.sent.iter().filter(|one| !is_valid(one, stream)) {
        let (class, text) = super::requests::error(one);
        *alike.entry((one.row.status.filter(|_| !one.is_ok()), class, text)).or_default() += 1;
    }
    let error = |((code, class, text), count): (&(Option<u16>, String, String), &u64)| json!({"error_details": {"code": code, "type": class, "message": text}, "count": count});
    Value::Array(alike.iter().map(error).collect())
}

/// `profile_export_aiperf.csv`: the metrics of requests, a blank line, the metrics of the run.
pub(super) fn table(metrics: &Metrics) -> Result<Vec<u8>, Failure> {
    let failed =
        |error: csv::Error| Failure::could_not_run(format!("profile_export_aiperf.csv: {error}"));
    let writer = || {
        let mut builder = csv::WriterBuilder::new();
        builder.terminator(csv::Terminator::CRLF).from_writer(Vec::new())
    };
    let mut first = writer();
    let names = stats(&Linear::of([])).into_iter().map(|(stat, _)| stat);
    first.write_record(std::iter::once("Metric".to_owned()).chain(names)).map_err(failed)?;
    for (name, values) in &metrics.of_requests {
        let cells = stats(values).into_iter().map(|(_, value)| cell(value));
        first.write_record(std::iter::once(heading(*name)).chain(cells)).map_err(failed)?;
    }
    let mut second = writer();
    second.write_record(["Metric", "Value"]).map_err(failed)?;
    let mut of_run = metrics.of_run.clone();
    of_run.sort_by_key(|(name, _)| name.tag);
    for (name, value) in of_run {
        second.write_record([heading(name), cell(Some(value))]).map_err(failed)?;
    }
    let whole = |table: csv::Writer<Vec<u8>>| {
        table.into_inner().map_err(|error| failed(error.into_error().into()))
    };
    let mut out = whole(first)?;
    out.extend_from_slice(b"\r\n");
    out.extend(whole(second)?);
    Ok(out)
}

fn heading(name: Name) -> String {
    match name.unit {
        "requests" => name.header.to_owned(),
        unit => format!("{} ({unit})", name.header),
    }
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2}"))
}
