//! The file of `vllm bench serve --save-result --save-detailed`, version 0.33.
//!
//! Its definitions: TTFT and latency count from before a connection is made, latency to the last
//! output; TPOT is `(latency − TTFT) / (tokens − 1)` of answers with several tokens; ITL is the gap
//! between output events; the duration goes from the first request to the last end; percentiles are
//! interpolated. Lists are seconds, `..._ms` are ms.

use serde_json::{Map, Value, json};
use tokclock_engine::measure::{Linear, LoadReport};

use super::records::{Records, Sent};
use super::{Named, Remarks};
use crate::exit::Failure;

const NS_PER_S: f64 = 1e9;
const MS_PER_S: f64 = 1e3;
/// Longer than any run: what a damaged line says beyond that asks for no memory.
const SECONDS_MAX: usize = 31 * 24 * 3600;

/// The result file, under the name that the tool would have given it.
///
/// # Errors
/// None that is known of.
pub(super) fn files(of: &Records<'_>, remarks: &mut Remarks) -> Result<Vec<Named>, Failure> {
    let mut out = Map::new();
    let name = settings(of, &mut out, remarks);
    totals(of, &mut out, remarks);
    details(of, &mut out, remarks);
    peaks(of, &mut out, remarks);
    latencies(of, &mut out, remarks);
    absent(of, remarks);
    Ok(vec![(name, super::json(&out)?)])
}

/// What was asked for. Gives the name of the file.
fn settings(of: &Records<'_>, out: &mut Map<String, Value>, remarks: &mut Remarks) -> String {
    let (summary, asked) = (of.summary, &of.summary.workload);
    let date = match of.began() {
        Some(began) => date(began),
        None => {
            remarks.leave_out("date", "when a run began that was cut off is not known");
            None
        }
    };
    let backend = match summary.target.dialect.as_str() {
        "openai-completions" => "openai",
        "openai-embeddings" => "openai-embeddings",
        other => other,
    };
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    if let Some(date) = &date {
        put("date", json!(date));
    }
    put("endpoint_type", json!(backend));
    put("backend", json!(backend));
    put("label", json!("tokclock"));
    put("model_id", json!(summary.target.model));
    put("tokenizer_id", json!(asked.tokenizer));
    put("num_prompts", json!(of.sent.len()));
    let (rate, burstiness, cap) = match &asked.load {
        LoadReport::Closed { users, .. } => (Some(json!("inf")), None, Some(*users)),
        LoadReport::Open { rate, burstiness, max_in_flight, .. } => {
            (Some(json!(rate)), *burstiness, *max_in_flight)
        }
        LoadReport::Series { max_in_flight, .. } | LoadReport::Replay { max_in_flight, .. } => {
            (None, None, *max_in_flight)
        }
    };
    match (&rate, burstiness) {
        (Some(rate), _) => _ = put("request_rate", rate.clone()),
        (None, _) => remarks.leave_out(
            "request_rate ramp_up_strategy ramp_up_start_rps ramp_up_end_rps",
            "the rate changed, or was that of a recording",
        ),
    }
    match burstiness {
        Some(burstiness) => _ = put("burstiness", json!(burstiness)),
        None => remarks.leave_out(
            "burstiness",
            "the gaps followed no gamma law (or, at equal gaps, it is no number that JSON holds)",
        ),
    }
    put("max_concurrency", json!(cap));
    let rate = rate.map_or("recorded".to_owned(), |rate| match rate {
        Value::String(text) => text,
        number => number.to_string(),
    });
    let cap = cap.map_or_else(String::new, |cap| format!("-concurrency{cap}"));
    let model = summary.target.model.rsplit('/').next().unwrap_or_default();
    let safe = |char: char| if char.is_alphanumeric() || "-_.".contains(char) { char } else { '_' };
    let model: String = model.chars().map(safe).collect();
    let date = date.map_or_else(String::new, |date| format!("-{date}"));
    format!("tokclock-{rate}qps{cap}-{model}{date}.json")
}

/// `20260131-235959`, in UTC.
fn date(unix_ns: u64) -> Option<String> {
    let at = std::time::UNIX_EPOCH.checked_add(std::time::Duration::from_nanos(unix_ns))?;
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at_checked(8)?;
    Some(format!("{day}-{time}"))
}

/// Counts, sums and rates. The duration is that from the first request to the last end.
fn totals(of: &Records<'_>, out: &mut Map<String, Value>, remarks: &mut Remarks) {
    let first = of.sent.iter().map(|one| one.start).min();
    let last = of.sent.iter().filter_map(|one| one.row.done).max();
    let duration = first.zip(last).map(|(first, last)| last.saturating_sub(first));
    let duration = duration.map(|ns| ns as f64 / NS_PER_S).filter(|seconds| *seconds > 0.0);
    let good = || of.sent.iter().filter(|one| one.is_ok());
    let completed = good().count();
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("completed", json!(completed));
    put("failed", json!(of.sent.len() - completed));
    let output: u64 = good().filter_map(|one| one.row.output_tokens).sum();
    put("total_output_tokens", json!(output));
    let input: Option<u64> = good().map(Sent::input).sum();
    match input {
        Some(input) => _ = put("total_input_tokens", json!(input)),
        None => remarks.leave_out(
            "total_input_tokens input_lens total_token_throughput",
            "the input tokens of some requests are not known",
        ),
    }
    let Some(duration) = duration else {
        remarks.leave_out(
            "duration request_throughput output_throughput total_token_throughput request_goodput",
            "nothing was sent for any time",
        );
        return;
    };
    put("duration", json!(duration));
    put("request_throughput", json!(completed as f64 / duration));
    put("output_throughput", json!(output as f64 / duration));
    if let Some(input) = input {
        put("total_token_throughput", json!((input + output) as f64 / duration));
    }
    match goodput(of) {
        Goodput::None => _ = put("request_goodput", Value::Null),
        Goodput::Good(good) => _ = put("request_goodput", json!(good as f64 / duration)),
        Goodput::Foreign => remarks.leave_out(
            "request_goodput",
            "a limit is on a metric that vllm bench serve has no limit for",
        ),
    }
}

/// Requests that kept the limits, by the tool's own metrics.
enum Goodput {
    None,
    Good(usize),
    Foreign,
}

fn goodput(of: &Records<'_>) -> Goodput {
    let Some(goodput) = &of.summary.goodput else { return Goodput::None };
    let known = |name: &str| matches!(name, "ttft" | "tpot" | "itl" | "e2e");
    if !goodput.objectives.iter().all(|one| known(&one.metric)) {
        return Goodput::Foreign;
    }
    let keeps = |one: &&Sent| {
        goodput.objectives.iter().all(|limit| {
            let value = match limit.metric.as_str() {
                "ttft" => one.ttft.map(|ns| ns as f64),
                "e2e" => one.latency.map(|ns| ns as f64),
                // There an answer of one token has a TPOT of 0.
                _ => Some(tpot(one).unwrap_or(0.0)),
            };
            value.is_some_and(|value| value <= limit.limit_ns as f64)
        })
    };
    Goodput::Good(of.sent.iter().filter(|one| one.is_ok()).filter(keeps).count())
}

/// `(latency − TTFT) / (tokens − 1)` in ns, of several tokens.
fn tpot(one: &Sent) -> Option<f64> {
    let tokens = one.row.output_tokens.filter(|&tokens| tokens > 1)?;
    let span = one.latency?.checked_sub(one.ttft?)?;
    Some(span as f64 / (tokens - 1) as f64)
}

/// The lists of `--save-detailed`, one entry a request.
fn details(of: &Records<'_>, out: &mut Map<String, Value>, remarks: &mut Remarks) {
    let seconds = |ns: u64| ns as f64 / NS_PER_S;
    let list = |value: &dyn Fn(&Sent) -> Value| Value::Array(of.sent.iter().map(value).collect());
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    if of.sent.iter().all(|one| one.input().is_some()) {
        put("input_lens", list(&|one| json!(one.input())));
    } else {
        remarks.leave_out("input_lens", "the input tokens of some requests are not known");
    }
    let of_good = |one: &Sent, value: Option<u64>| if one.is_ok() { value.unwrap_or(0) } else { 0 };
    put("output_lens", list(&|one| json!(of_good(one, one.row.output_tokens))));
    put("ttfts", list(&|one| json!(seconds(one.ttft.unwrap_or(0)))));
    put("latencies", list(&|one| json!(seconds(of_good(one, one.latency)))));
    put("start_times", list(&|one| json!(seconds(one.start))));
    put("errors", list(&|one| if one.is_ok() { json!("") } else { json!(one.failure().1) }));
    remarks.differ(
        "ttfts latencies output_lens",
        "0 stands for what a failed request (or a document, which has no TTFT) does not have, as in \
         the original",
    );
    remarks.differ(
        "start_times",
        "seconds since the run's start; the original's have no epoch either",
    );
    if of.has_chunks {
        let gaps = |one: &Sent| one.gaps().map(|gap| json!(seconds(gap))).collect();
        put("itls", list(&|one| Value::Array(gaps(one))));
    } else {
        remarks.leave_out("itls", "needs every output event: run with --chunks");
    }
    if of.has_text {
        let said = |one: &Sent| one.row.text.clone().unwrap_or_default();
        put("generated_texts", list(&|one| json!(said(one))));
    } else {
        remarks.leave_out("generated_texts", "needs the texts: run with --keep-text");
    }
}

/// The most tokens in a second, and the most requests.
fn peaks(of: &Records<'_>, out: &mut Map<String, Value>, remarks: &mut Remarks) {
    let good = || of.sent.iter().filter(|one| one.is_ok());
    let Some(first) = good().map(|one| one.start).min() else { return };
    let second = |at: u64| ((at.saturating_sub(first) as f64 / NS_PER_S) as usize).min(SECONDS_MAX);
    let last = good().filter_map(|one| Some(one.start + one.latency?)).max().unwrap_or(first);
    let mut active = vec![0_u64; second(last) + 1];
    let mut tokens = vec![0_u64; second(last) + 1];
    for one in good() {
        let end = one.start + one.latency.unwrap_or(0);
        for count in active.iter_mut().take(second(end) + 1).skip(second(one.start)) {
            *count += 1;
        }
        for (arrival, _) in one.row.chunks.iter().flatten() {
            if let Some(count) = tokens.get_mut(second(*arrival)) {
                *count += 1;
            }
        }
    }
    let most = |counts: &[u64]| counts.iter().copied().max().unwrap_or(0);
    out.insert("max_concurrent_requests".into(), json!(most(&active)));
    if of.has_chunks {
        out.insert("max_output_tokens_per_s".into(), json!(most(&tokens) as f64));
        remarks.differ("max_output_tokens_per_s", "counts output events, as the original does");
    } else {
        remarks.leave_out("max_output_tokens_per_s", "needs every output event: run with --chunks");
    }
}

/// Mean, median, standard deviation and p99 of each latency, ms.
fn latencies(of: &Records<'_>, out: &mut Map<String, Value>, remarks: &mut Remarks) {
    let good = || of.sent.iter().filter(|one| one.is_ok());
    let ms = |ns: u64| ns as f64 / NS_PER_S * MS_PER_S;
    let mut all = vec![("e2el", Linear::of(good().filter_map(|one| one.latency).map(ms)))];
    if of.summary.target.stream {
        all.push(("ttft", Linear::of(good().filter_map(|one| one.ttft).map(ms))));
        all.push(("tpot", Linear::of(good().filter_map(tpot).map(|ns| ns / 1e6))));
    } else {
        remarks.leave_out(
            "mean_ttft_ms median_ttft_ms mean_tpot_ms median_tpot_ms",
            "answers came as documents and not as streams",
        );
    }
    if of.has_chunks {
        all.push(("itl", Linear::of(good().flat_map(Sent::gaps).map(ms))));
    }
    for (name, values) in &all {
        let figures = [
            ("mean", values.mean()),
            ("median", values.percentile(50.0)),
            ("std", values.stdev()),
            ("p99", values.percentile(99.0)),
        ];
        for (word, figure) in figures {
            if let Some(figure) = figure {
                out.insert(format!("{word}_{name}_ms"), json!(figure));
            }
        }
    }
    if !of.has_chunks {
        pooled(of, out, remarks);
    }
}

/// The gaps between output events where only their histogram was kept.
fn pooled(of: &Records<'_>, out: &mut Map<String, Value>, remarks: &mut Remarks) {
    let gaps = &of.summary.latency.icl;
    if gaps.count == 0 {
        remarks.leave_out(
            "mean_itl_ms median_itl_ms std_itl_ms p99_itl_ms",
            "no gap between output events was recorded",
        );
        return;
    }
    let figures = [
        ("mean", gaps.mean),
        ("median", gaps.percentiles.p50.map(|ns| ns as f64)),
        ("std", gaps.stdev),
        ("p99", gaps.percentiles.p99.map(|ns| ns as f64)),
    ];
    for (word, figure) in figures {
        if let Some(ns) = figure {
            out.insert(format!("{word}_itl_ms"), json!(ns / 1e6));
        }
    }
    remarks.differ(
        "mean_itl_ms median_itl_ms std_itl_ms p99_itl_ms",
        "from a histogram with a resolution of 0.1 %, percentiles by nearest rank: with --chunks they \
         are computed as in the original",
    );
}

/// What never has an equivalent.
fn absent(of: &Records<'_>, remarks: &mut Remarks) {
    remarks.leave_out(
        "queue_times mean_client_queue_time_ms mean_e2el_including_client_queue_ms",
        "counted there from when a task was made; latencies from the schedule are in summary.json",
    );
    remarks.leave_out("rtfx", "of audio");
    remarks.leave_out(
        "server_queue_times server_ttfts spec_decode_acceptance_rate spec_decode_acceptance_length \
         probe_completed rps_change_events",
        "nothing like it is measured",
    );
    if of.cut > 0 {
        remarks.differ(
            "num_prompts",
            format!(
                "without {} requests that were cut at the end of the run: the original waits for all",
                of.cut
            ),
        );
    }
    if of.warmup > 0 {
        remarks.differ("num_prompts", format!("without {} requests of the warm-up", of.warmup));
    }
    let backends = ["openai-chat", "openai-completions", "openai-embeddings"];
    if !backends.contains(&of.summary.target.dialect.as_str()) {
        remarks.differ("backend endpoint_type", "the name of the API here; there is none there");
    }
    remarks.differ(
        "total_input_tokens input_lens",
        "the server's count where it sends one, and with it what its template adds; the original \
         counts by itself",
    );
}
