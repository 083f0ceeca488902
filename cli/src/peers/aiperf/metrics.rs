//! AIPerf's metrics, by its definitions, from our records.
//!
//! A latency counts from before a connection is made to the last output. Metrics of a run use valid
//! requests only: those that ended well and have content. Percentiles are interpolated.

use std::collections::BTreeMap;

use tokclock_engine::measure::Linear;

use super::super::Remarks;
use super::super::records::{Records, Sent};

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// A metric: its tag, its heading and its unit there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) tag: &'static str,
    pub(super) header: &'static str,
    pub(super) unit: &'static str,
}

const fn name(tag: &'static str, header: &'static str, unit: &'static str) -> Name {
    Name { tag, header, unit }
}

const TTFT: Name = name("time_to_first_token", "Time to First Token", "ms");
const TTST: Name = name("time_to_second_token", "Time to Second Token", "ms");
const TTFO: Name = name("time_to_first_output_token", "Time to First Output Token", "ms");
const LATENCY: Name = name("request_latency", "Request Latency", "ms");
const DECODE: Name = name("decode_duration", "Decode Duration", "ms");
const ITL: Name = name("inter_token_latency", "Inter Token Latency", "ms");
const ICL: Name = name("inter_chunk_latency", "Inter Chunk Latency", "ms");
const PER_USER: Name =
    name("output_token_throughput_per_user", "Output Token Throughput Per User", "tokens/sec/user");
const E2E_RATE: Name =
    name("e2e_output_token_throughput", "E2E Output Token Throughput", "tokens/sec/user");
const PREFILL_RATE: Name =
    name("prefill_throughput_per_user", "Prefill Throughput Per User", "tokens/sec/user");
const OSL: Name = name("output_sequence_length", "Output Sequence Length", "tokens");
const ISL: Name = name("input_sequence_length", "Input Sequence Length", "tokens");
const OUTPUT: Name = name("output_token_count", "Output Token Count", "tokens");
const REASONING: Name = name("reasoning_token_count", "Reasoning Token Count", "tokens");
const GOOD: Name = name("good_request_count", "Good Request Count", "requests");

/// The limits of goodput that have a name there, by ours.
const LIMITS: [(&str, Name); 6] =
    [("ttft", TTFT), ("ttst", TTST), ("ttfo", TTFO), ("tpot", ITL), ("itl", ITL), ("e2e", LATENCY)];

/// All metrics of a load point.
#[derive(Debug)]
pub(super) struct Metrics {
    /// With a value for each request.
    pub(super) of_requests: Vec<(Name, Linear)>,
    /// With one for the run.
    pub(super) of_run: Vec<(Name, f64)>,
    /// Limits on requests, ms; none where there are none with a name there.
    pub(super) limits: Vec<(Name, f64)>,
}

/// It ended well and has content: without any it is a failure there.
pub(super) fn is_valid(one: &Sent, stream: bool) -> bool {
    one.is_ok() && one.latency.is_some() && (!stream || one.ttft.is_some())
}

impl Metrics {
    pub(super) fn of(of: &Records<'_>, remarks: &mut Remarks) -> Self {
        let stream = of.summary.target.stream;
        let valid: Vec<&Sent> = of.sent.iter().filter(|one| is_valid(one, stream)).collect();
        let empty = of.sent.iter().filter(|one| one.is_ok()).count() - valid.len();
        if empty > 0 {
            remarks.differ(
                "error_request_count",
                format!("{empty} answers without content are failures there, and none here"),
            );
        }
        let mut columns: BTreeMap<&'static str, (Name, Vec<f64>)> = BTreeMap::new();
        for one in &valid {
            for (name, value) in of_request(one, stream) {
                columns.entry(name.tag).or_insert_with(|| (name, Vec::new())).1.push(value);
            }
            for gap in one.gaps().filter(|_| of.has_chunks) {
                let (_, gaps) = columns.entry(ICL.tag).or_insert_with(|| (ICL, Vec::new()));
                gaps.push(gap as f64 / NS_PER_MS);
            }
        }
        let limits = limits(of, remarks);
        let mut metrics = Self { of_requests: Vec::new(), of_run: Vec::new(), limits };
        metrics.run(of, &valid, &columns);
        partial(&columns, &valid, stream, of.has_chunks, remarks);
        metrics.of_requests =
            columns.into_values().map(|(name, values)| (name, Linear::of(values))).collect();
        metrics
    }

    /// The metrics that have one value for all requests.
    fn run(
        &mut self,
        of: &Records<'_>,
        valid: &[&Sent],
        columns: &BTreeMap<&'static str, (Name, Vec<f64>)>,
    ) {
        let (count, errors) = (valid.len() as f64, (of.sent.len() - valid.len()) as f64);
        let mut put = |tag, header, unit, value: f64| {
            if value.is_finite() {
                self.of_run.push((name(tag, header, unit), value));
            }
        };
        put("request_count", "Request Count", "requests", count);
        if errors > 0.0 {
            put("error_request_count", "Error Request Count", "requests", errors);
            put("request_error_rate", "Request Error Rate", "%", 100.0 * errors / (count + errors));
        }
        let completed = "Completed Requests (Success + Error)";
        put("completed_request_count", completed, "requests", count + errors);
        let total =
            |name: Name| columns.get(name.tag).map(|(_, values)| values.iter().sum::<f64>());
        // Only where every request has it is the sum that of all.
        let whole = |name: Name| {
            let of_all = columns.get(name.tag).is_some_and(|(_, all)| all.len() == valid.len());
            total(name).filter(|_| of_all)
        };
        let (input, output) = (whole(ISL), whole(OSL));
        for (name, header, sum) in [
            ("total_isl", "Total Input Sequence Length", input),
            ("total_osl", "Total Output Sequence Length", output),
            ("total_output_tokens", "Total Output Tokens", whole(OUTPUT)),
            ("total_reasoning_tokens", "Total Reasoning Tokens", whole(REASONING)),
        ] {
            if let Some(sum) = sum {
                put(name, header, "tokens", sum);
            }
        }
        let first = valid.iter().map(|one| one.start).min();
        let last = valid.iter().filter_map(|one| Some(one.start + one.latency?)).max();
        let Some((first, last)) = first.zip(last) else { return };
        let seconds = last.saturating_sub(first) as f64 / NS_PER_S;
        put("benchmark_duration", "Benchmark Duration", "sec", seconds);
        put("request_throughput", "Request Throughput", "requests/sec", count / seconds);
        let rates = [
            ("input_token_throughput", "Input Token Throughput", input),
            ("output_token_throughput", "Output Token Throughput", output),
            (
                "total_token_throughput",
                "Total Token Throughput",
                input.zip(output).map(|(i, o)| i + o),
            ),
        ];
        for (tag, header, sum) in rates {
            if let Some(sum) = sum {
                put(tag, header, "tokens/sec", sum / seconds);
            }
        }
        if !self.limits.is_empty() {
            let stream = of.summary.target.stream;
            let limits = self.limits.clone();
            let good = valid.iter().filter(|one| keeps(one, stream, &limits)).count() as f64;
            let mut put =
                |tag, header, unit, value| self.of_run.push((name(tag, header, unit), value));
            put(GOOD.tag, GOOD.header, GOOD.unit, good);
            if seconds > 0.0 {
                put("goodput", "Goodput", "requests/sec", good / seconds);
            }
            put("good_request_fraction", "GoodRequestFraction", "ratio", good / (count + errors));
        }
    }
}

/// The metrics of one valid request.
pub(super) fn of_request(one: &Sent, stream: bool) -> Vec<(Name, f64)> {
    let ms = |ns: u64| ns as f64 / NS_PER_MS;
    let mut values = Vec::new();
    let mut put = |name: Name, value: Option<f64>| {
        values.extend(value.filter(|value| value.is_finite()).map(|value| (name, value)));
    };
    let output = one.row.output_tokens.map(|tokens| tokens as f64);
    let input = one.input().map(|tokens| tokens as f64);
    let latency = one.latency.map(ms);
    put(LATENCY, latency);
    put(OSL, output);
    put(ISL, input);
    // Where reasoning came and the server does not count it, nobody knows the rest.
    let has_reasoning = one.row.first_output != one.row.first_token;
    let reasoning = one.row.reasoning_tokens.map(|tokens| tokens as f64);
    let known = reasoning.or((!has_reasoning).then_some(0.0));
    put(OUTPUT, output.zip(known).map(|(all, part)| (all - part).max(0.0)));
    put(REASONING, reasoning);
    let per_second =
        |tokens: Option<f64>, ms: Option<f64>| tokens.zip(ms).map(|(n, ms)| n / ms * 1e3);
    put(E2E_RATE, per_second(output, latency));
    if !stream {
        return values;
    }
    let since = |mark: Option<u64>| mark.and_then(|at| at.checked_sub(one.start)).map(ms);
    let ttft = one.ttft.map(ms);
    put(TTFT, ttft);
    put(TTST, one.row.second_token.zip(one.row.first_token).map(|(b, a)| ms(b.saturating_sub(a))));
    put(TTFO, since(one.row.first_output));
    let decode = latency.zip(ttft).map(|(latency, ttft)| latency - ttft);
    put(DECODE, decode);
    let gaps =
        one.row.output_tokens.filter(|&tokens| tokens >= 2).map(|tokens| (tokens - 1) as f64);
    let itl = decode.zip(gaps).map(|(decode, gaps)| decode / gaps);
    put(ITL, itl);
    put(PER_USER, itl.map(|itl| 1e3 / itl));
    put(PREFILL_RATE, per_second(input, ttft));
    values
}

/// Whether a valid request kept every limit; one without the metric did not.
pub(super) fn keeps(one: &Sent, stream: bool, limits: &[(Name, f64)]) -> bool {
    let values = of_request(one, stream);
    let value = |name: Name| values.iter().find(|(is, _)| *is == name).map(|(_, value)| *value);
    limits.iter().all(|(name, limit)| value(*name).is_some_and(|value| value <= *limit))
}

/// The limits by their names there, ms; none if one has no name.
fn limits(of: &Records<'_>, remarks: &mut Remarks) -> Vec<(Name, f64)> {
    let Some(goodput) = &of.summary.goodput else { return Vec::new() };
    let known = |metric: &str| LIMITS.iter().find(|(is, _)| *is == metric).map(|(_, name)| *name);
    let limits: Option<Vec<(Name, f64)>> = goodput
        .objectives
        .iter()
        .map(|one| Some((known(&one.metric)?, one.limit_ns as f64 / NS_PER_MS)))
        .collect();
    limits.unwrap_or_else(|| {
        remarks.leave_out(
            "goodput good_request_count good_request_fraction",
            "a limit is on a metric that has no name there",
        );
        Vec::new()
    })
}

/// Says which metrics some or all requests do not have.
fn partial(
    columns: &BTreeMap<&'static str, (Name, Vec<f64>)>,
    valid: &[&Sent],
    stream: bool,
    has_chunks: bool,
    remarks: &mut Remarks,
) {
    if stream && !has_chunks {
        remarks.leave_out("inter_chunk_latency", "needs every output event: run with --chunks");
    }
    if !stream {
        remarks.leave_out(
            "time_to_first_token time_to_second_token inter_token_latency inter_chunk_latency",
            "answers came as documents and not as streams",
        );
    }
    let lacks = |name: Name| columns.get(name.tag).is_none_or(|(_, all)| all.len() < valid.len());
    if lacks(ISL) {
        remarks.leave_out(
            "total_isl input_token_throughput total_token_throughput",
            "the input tokens of some requests are not known",
        );
    }
    if lacks(OUTPUT) {
        remarks.leave_out(
            "total_output_tokens",
            "some answers hold reasoning that the server does not count apart",
        );
    }
    if lacks(REASONING) {
        remarks.leave_out(
            "total_reasoning_tokens reasoning_token_count",
            "the server does not count reasoning apart in every answer",
        );
    }
}
