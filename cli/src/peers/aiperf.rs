//! The files of `aiperf profile`, version 0.13: `profile_export_aiperf.json` and `.csv`, and
//! `profile_export.jsonl` with a line for each request.

mod export;
mod metrics;
mod requests;

use serde_json::{Value, json};
use tokclock_engine::measure::LoadReport;

use super::records::Records;
use super::{Named, Remarks};
use crate::exit::Failure;
use metrics::Metrics;

/// All three, as far as there is something to say in them.
///
/// # Errors
/// None that is known of.
pub(super) fn files(of: &Records<'_>, remarks: &mut Remarks) -> Result<Vec<Named>, Failure> {
    let metrics = Metrics::of(of, remarks);
    let mut files = vec![
        ("profile_export_aiperf.json".to_owned(), export::document(of, &metrics, remarks)?),
        ("profile_export_aiperf.csv".to_owned(), export::table(&metrics)?),
    ];
    match of.began() {
        Some(began) => {
            let lines = requests::lines(of, &metrics, began, remarks)?;
            files.push(("profile_export.jsonl".to_owned(), lines));
        }
        None => remarks.leave_out(
            "profile_export.jsonl start_time end_time",
            "its times are those of day, and when a run began that was cut off is not known",
        ),
    }
    absent(of, remarks);
    Ok(files)
}

/// The configuration, as far as it has words there; none where it has not.
fn input_config(of: &Records<'_>, remarks: &mut Remarks) -> Option<Value> {
    let summary = of.summary;
    let kind = match summary.target.dialect.as_str() {
        "openai-chat" => "chat",
        "openai-completions" => "completions",
        "openai-responses" => "responses",
        "openai-embeddings" => "embeddings",
        "anthropic-messages" => "messages",
        _ => "raw",
    };
    let urls: Vec<&str> = summary.target.url.split(", ").collect();
    let Some((dataset, phase)) = dataset(of).zip(phase(of)) else {
        remarks.leave_out(
            "input_config",
            "there are no words there for several classes of requests, or for a rate that changes",
        );
        return None;
    };
    remarks.leave_out(
        "input_config.tokenizer input_config.artifacts",
        "what was sent is said in other words in run.toml and summary.json",
    );
    Some(json!({
        "models": {"items": [{"name": summary.target.model}]},
        "endpoint": {"urls": urls, "type": kind, "streaming": summary.target.stream},
        "datasets": [dataset],
        "phases": [phase],
    }))
}

/// What was sent, where it is one recording or one law of lengths.
fn dataset(of: &Records<'_>) -> Option<Value> {
    let asked = &of.summary.workload;
    let [class] = asked.classes.as_slice() else { return None };
    if let Some(data) = &class.data {
        return Some(json!({"name": "main", "type": "file", "path": data}));
    }
    let prompts = json!({
        "isl": {"mean": asked.input_tokens?},
        "osl": {"mean": asked.output_tokens?},
    });
    Some(json!({"name": "main", "type": "synthetic", "prompts": prompts}))
}

/// When it was sent.
fn phase(of: &Records<'_>) -> Option<Value> {
    let asked = &of.summary.workload;
    let mut phase = match &asked.load {
        LoadReport::Closed { users, .. } => json!({"type": "concurrency", "concurrency": users}),
        LoadReport::Open { rate, arrival, burstiness, max_in_flight, .. } => {
            let mut phase = json!({"type": arrival, "rate": rate});
            if arrival == "gamma" {
                phase["smoothness"] = json!(burstiness);
            }
            if let Some(most) = max_in_flight {
                phase["concurrency"] = json!(most);
            }
            phase
        }
        LoadReport::Replay { .. } => json!({"type": "fixed_schedule"}),
        LoadReport::Series { .. } => return None,
    };
    phase["name"] = json!("profiling");
    phase["kind"] = json!("profiling");
    if let Some(requests) = asked.requests {
        phase["requests"] = json!(requests);
    }
    if let Some(sessions) = asked.sessions {
        phase["sessions"] = json!(sessions);
    }
    if let Some(duration) = asked.duration_ns {
        phase["duration"] = json!(duration as f64 / 1e9);
    }
    Some(phase)
}

/// What never has an equivalent.
fn absent(of: &Records<'_>, remarks: &mut Remarks) {
    remarks.leave_out("aiperf_version benchmark_id run_info", "AIPerf did not make this run");
    remarks.leave_out(
        "credit_issued_ns request_ack_ns effective_latency credit_to_start_latency \
         credit_drop_latency",
        "requests get no credits here, and the first event of any kind has no mark; latencies from \
         the schedule are in summary.json",
    );
    remarks.leave_out(
        "adj_request_latency adj_time_to_first_token adj_inter_token_latency",
        "percentiles with failed requests are the judged ones of summary.json, by another rule",
    );
    remarks.leave_out(
        "effective_concurrency effective_prefill_concurrency tokens_in_flight",
        "curves over time are not made",
    );
    remarks.leave_out(
        "trace_data telemetry_data stream_setup_latency stream_prefill_latency",
        "of an HTTP client or a monitor that was not there",
    );
    if of.warmup > 0 {
        remarks.leave_out(
            "warmup_metrics",
            format!("{} requests of the warm-up are in no figure", of.warmup),
        );
    }
    if of.cut > 0 {
        remarks.differ(
            "request_count",
            format!("without {} requests that were cut at the end of the run", of.cut),
        );
    }
    remarks.differ(
        "input_sequence_length output_sequence_length",
        "the server's counts where it sends them, as with --use-server-token-count",
    );
    remarks.differ("worker_id record_processor_id", "the reactor, and this tool");
}
