//! AIPerf: `profile_export_aiperf.json`, with `profile_export.jsonl` beside it where it is there.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;
use tokclock_engine::measure::compare::{Decode, Given, Observed, Served, Share, Throughput};
use tokclock_engine::workload::Metric;

use super::Foreign;
use super::fields::{At, PERCENTILES, figures};

/// The file of its figures.
pub(super) const FILE: &str = "profile_export_aiperf.json";
/// The file of its requests.
pub(super) const RECORDS: &str = "profile_export.jsonl";
/// Bytes of a line of that file, at most.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Its latencies, by our names.
const LATENCIES: [(&str, Metric); 6] = [
    ("time_to_first_token", Metric::Ttft),
    ("time_to_second_token", Metric::Ttst),
    ("time_to_first_output_token", Metric::Ttfo),
    ("request_latency", Metric::E2e),
    ("inter_token_latency", Metric::Tpot),
    ("inter_chunk_latency", Metric::Icl),
];
const DEFINITIONS: [&str; 5] = [
    "TTFT and E2E start before its client takes or opens a connection, when it really sends: in an open \
     loop a late client does not show, ours count from the schedule",
    "its inter_token_latency is one value per request, our TPOT; its inter_chunk_latency is our ICL; it \
     has no pooled ITL",
    "times are when its client handled a read, not when the kernel received it; events of one read have \
     one time",
    "percentiles of its summary are interpolated, ours are by nearest rank; those from its records are too",
    "throughput is over first start to last end of the successful; output tokens are those of requests \
     that ended",
];

/// Whether AIPerf wrote it.
pub(super) fn is_it(value: &Value) -> bool {
    value.get("aiperf_version").is_some()
        || (value.get("request_latency").is_some_and(|at| at.get("unit").is_some())
            && value.get("input_config").is_some())
}

/// Reads the figures, and the requests at `records` if they are there.
///
/// # Errors
/// A field that is not what it should be, with its path.
pub(super) fn read(root: At<'_>, records: &Path) -> Result<Foreign, String> {
    let version = root.get("aiperf_version").and_then(|at| at.text().map(str::to_owned));
    let average = |name: &str| match root.find(&[name, "avg"]) {
        Some(at) => at.number().map(Some),
        None => Ok(None),
    };
    let mut observed = Observed::default();
    let path = records.file_name().and_then(|name| name.to_str()).unwrap_or(RECORDS);
    let mut served = Vec::new();
    if let Ok(file) = File::open(records) {
        let (requests, failed) = requests(file).map_err(|error| format!("{path}: {error}"))?;
        observed.failed = Some(Share::of(&failed)).filter(|share| share.of > 0);
        served = add(&mut observed, requests);
    } else if let (Some(ok), failed) =
        (average("request_count")?, average("error_request_count")?.unwrap_or(0.0))
    {
        observed.failed = counted(failed, ok + failed);
    }
    for (name, metric) in LATENCIES {
        let is_known = match metric {
            Metric::Icl => observed.gaps.is_some(),
            _ => observed.values(metric).is_some(),
        };
        if let Some(at) = root.get(name).filter(|_| !is_known) {
            observed.given.extend(summary(&at, metric)?);
        }
    }
    let rate = Throughput {
        rps: average("request_throughput")?,
        output_tps: average("output_token_throughput")?,
        ..Throughput::default()
    };
    let start = served.iter().map(|one| one.first).min().unwrap_or(0);
    let end = served.iter().map(|one| one.done).max().unwrap_or(0);
    observed.rate = rate.spread(&served, start, end);
    if let (Some(good), Some(all)) = (average("good_request_count")?, observed.failed) {
        observed.good = counted(good, all.of as f64);
    }
    Ok(Foreign {
        tool: version.map_or_else(|| "AIPerf".to_owned(), |version| format!("AIPerf {version}")),
        observed,
        definitions: DEFINITIONS.map(str::to_owned).to_vec(),
        left_out: left_out(&root),
        workload: root.get("input_config").map_or(Value::Null, |at| at.value().clone()),
    })
}

/// Its times that have no equal here.
fn left_out(root: &At<'_>) -> Vec<String> {
    let is_known = |name: &str| LATENCIES.iter().any(|(known, _)| *known == name);
    let is_time = |name: &&str| {
        root.find(&[*name, "unit"]).is_some_and(|unit| unit_ns(&unit).is_ok()) && !is_known(name)
    };
    root.names().filter(is_time).map(str::to_owned).collect()
}

/// A share of requests whose order is not known.
pub(super) fn counted(hits: f64, of: f64) -> Option<Share> {
    let (hits, of) = (hits.round() as u64, of.round() as u64);
    (of > 0).then_some(Share { hits: hits.min(of), of, effective: of as f64 })
}

fn summary(at: &At<'_>, metric: Metric) -> Result<Vec<Given>, String> {
    let unit = match at.get("unit") {
        Some(unit) => unit_ns(&unit)?,
        None => return Err(at.is_no("metric with a unit")),
    };
    figures(at, metric, &PERCENTILES, Some("avg"), unit)
}

fn unit_ns(at: &At<'_>) -> Result<f64, String> {
    match at.text() {
        Some("ns") => Ok(1.0),
        Some("us" | "µs") => Ok(1e3),
        Some("ms") => Ok(1e6),
        Some("s" | "sec" | "seconds") => Ok(1e9),
        _ => Err(at.is_no("unit of time: ns, us, ms or sec")),
    }
}

/// One request that ended well.
struct Record {
    start: u64,
    values: Vec<(Metric, u64)>,
    gaps: Option<Vec<(u64, u32)>>,
    tokens: f64,
}

/// The successful requests by start, and whether each that ended failed.
fn requests(file: File) -> Result<(Vec<Record>, Vec<bool>), String> {
    let mut lines = BufReader::new(file);
    let (mut records, mut ends, mut line) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1_u64.. {
        line.clear();
        let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|error| error.to_string())? == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let at_line = |error: &dyn std::fmt::Display| format!("line {number}: {error}");
        let value: Value = serde_json::from_slice(&line).map_err(|error| at_line(&error))?;
        record(&At::root(&value), &mut records, &mut ends).map_err(|error| at_line(&error))?;
    }
    records.sort_by_key(|record| record.start);
    ends.sort_by_key(|&(start, _)| start);
    Ok((records, ends.into_iter().map(|(_, failed)| failed).collect()))
}

fn record(
    root: &At<'_>,
    records: &mut Vec<Record>,
    ends: &mut Vec<(u64, bool)>,
) -> Result<(), String> {
    let metadata = root.get("metadata").ok_or_else(|| root.is_no("record with metadata"))?;
    let phase = metadata.get("benchmark_phase").and_then(|at| at.text());
    let cancelled =
        metadata.get("was_cancelled").is_some_and(|at| at.value() == &Value::Bool(true));
    if phase.is_some_and(|phase| phase != "profiling") || cancelled {
        return Ok(());
    }
    let start = metadata.number_of("request_start_ns")?.unwrap_or(0.0) as u64;
    ends.push((start, root.get("error").is_some()));
    if root.get("error").is_some() {
        return Ok(());
    }
    let metrics = root.get("metrics").ok_or_else(|| root.is_no("record with metrics"))?;
    let mut record = Record { start, values: Vec::new(), gaps: None, tokens: 0.0 };
    for (name, metric) in LATENCIES {
        let Some(at) = metrics.get(name) else { continue };
        let Some(value) = at.get("value") else { continue };
        let unit = at.get("unit").map_or(Ok(1e6), |unit| unit_ns(&unit))?;
        if metric == Metric::Icl {
            let gap = |at: At<'_>| Ok((at.ns(unit)? as u64, 0));
            record.gaps = Some(value.items()?.into_iter().map(gap).collect::<Result<_, String>>()?);
        } else {
            record.values.push((metric, value.ns(unit)? as u64));
        }
    }
    if let Some(tokens) = metrics.find(&["output_sequence_length", "value"]) {
        record.tokens = tokens.number()?;
    }
    records.push(record);
    Ok(())
}

/// Takes over what the requests say; gives them as throughput sees them.
fn add(observed: &mut Observed, records: Vec<Record>) -> Vec<Served> {
    let value = |record: &Record, metric: Metric| {
        record.values.iter().find(|(its, _)| *its == metric).map(|(_, value)| *value)
    };
    for (_, metric) in LATENCIES.into_iter().filter(|(_, metric)| *metric != Metric::Icl) {
        let values = records.iter().filter_map(|record| value(record, metric)).collect();
        observed.series.push((metric, values));
    }
    let served = |record: &Record| {
        let e2e = value(record, Metric::E2e)?;
        let first = record.start.saturating_add(value(record, Metric::Ttft).unwrap_or(e2e));
        let done = record.start.saturating_add(e2e);
        Some(Served { first, last: done, done, tokens: record.tokens })
    };
    let served = records.iter().filter_map(served).collect();
    let gaps: Vec<Vec<(u64, u32)>> = records.into_iter().filter_map(|one| one.gaps).collect();
    let decode = |gaps: &Vec<(u64, u32)>| Decode {
        ns: gaps.iter().fold(0, |sum: u64, (gap, _)| sum.saturating_add(*gap)),
        gaps: gaps.len() as u64,
        tokens: 0,
    };
    observed.decodes = gaps.iter().map(decode).collect();
    observed.gaps = Some(gaps).filter(|gaps| !gaps.is_empty());
    served
}
