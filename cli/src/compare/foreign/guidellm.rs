//! GuideLLM's report: one benchmark of it.

use serde_json::Value;
use tokclock_engine::measure::compare::{Given, Observed, Served, Throughput};
use tokclock_engine::workload::Metric;

use super::Foreign;
use super::aiperf::counted;
use super::fields::{At, PERCENTILES, figures};

/// Ns of a second.
const SECOND: f64 = 1e9;
/// Ns of a millisecond.
const MS: f64 = 1e6;
/// Its latencies, by our names, and their units.
const LATENCIES: [(&str, Metric, f64); 5] = [
    ("time_to_first_token_ms", Metric::Ttft, MS),
    ("time_to_first_output_token_ms", Metric::Ttfo, MS),
    ("time_per_output_token_ms", Metric::Ntpot, MS),
    ("inter_token_latency_ms", Metric::Tpot, MS),
    ("request_latency", Metric::E2e, SECOND),
];
const DEFINITIONS: [&str; 5] = [
    "TTFT starts when its client writes the request: opening a connection is not inside, and in an open \
     loop a late client does not show",
    "its time_per_output_token holds TTFT, our NTPOT; its inter_token_latency is one value per request, \
     our TPOT; it has no gaps between tokens or chunks",
    "its request_latency goes to the end of the answer, ours to the last token",
    "percentiles are those of its weighted samples by nearest rank",
    "throughput is time-weighted over its measured window, after its warm-up and cool-down",
];

/// Whether GuideLLM wrote it.
pub(super) fn is_it(value: &Value) -> bool {
    let first = value.get("benchmarks").and_then(|all| all.get(0));
    first.is_some_and(|one| one.get("metrics").is_some())
}

/// Reads it.
///
/// # Errors
/// A field that is not what it should be, with its path; or more than one benchmark.
pub(super) fn read(root: At<'_>) -> Result<Foreign, String> {
    let all = root.get("benchmarks").map_or(Ok(Vec::new()), |at| at.items())?;
    let [benchmark] = all.as_slice() else {
        let count = all.len();
        return Err(format!(
            "it holds {count} benchmarks: compare takes one at a time; write each to a file of its own"
        ));
    };
    let metrics =
        benchmark.get("metrics").ok_or_else(|| benchmark.is_no("benchmark with metrics"))?;
    let mut observed = Observed::default();
    let served = requests(benchmark, &mut observed)?;
    for (name, metric, unit) in LATENCIES {
        let known = observed.values(metric).is_some();
        if let Some(at) = metrics.find(&[name, "successful"]).filter(|_| !known) {
            observed.given.extend(distribution(&at, metric, unit)?);
        }
    }
    let mean = |name: &str| match metrics.find(&[name, "successful", "mean"]) {
        Some(at) => at.number().map(Some),
        None => Ok(None),
    };
    let rate = Throughput {
        rps: mean("requests_per_second")?,
        output_tps: mean("output_tokens_per_second")?,
        ..Throughput::default()
    };
    let start = served.iter().map(|one| one.first).min().unwrap_or(0);
    let end = served.iter().map(|one| one.done).max().unwrap_or(0);
    observed.rate = rate.spread(&served, start, end);
    if let Some(totals) = metrics.get("request_totals") {
        let ok = totals.number_of("successful")?.unwrap_or(0.0);
        let failed = totals.number_of("errored")?.unwrap_or(0.0);
        observed.failed = counted(failed, ok + failed);
    }
    if let (Some(share), Some(of)) =
        (metrics.number_of("slo_attainment")?, metrics.number_of("slo_determined_requests")?)
    {
        observed.good = counted(share * of, of);
    }
    let version = root.find(&["metadata", "guidellm_version"]).and_then(|at| at.text());
    Ok(Foreign {
        tool: version
            .map_or_else(|| "GuideLLM".to_owned(), |version| format!("GuideLLM {version}")),
        observed,
        definitions: DEFINITIONS.map(str::to_owned).to_vec(),
        left_out: left_out(&metrics),
        workload: root.find(&["config", "spec"]).map_or(Value::Null, |at| at.value().clone()),
    })
}

/// Its times that have no equal here.
fn left_out(metrics: &At<'_>) -> Vec<String> {
    let is_time = |name: &&str| ["_ms", "_latency", "_delay"].iter().any(|end| name.ends_with(end));
    let is_known = |name: &str| LATENCIES.iter().any(|(known, ..)| *known == name);
    let others = metrics.names().filter(is_time).filter(|name| !is_known(name));
    others.map(str::to_owned).collect()
}

fn distribution(at: &At<'_>, metric: Metric, unit_ns: f64) -> Result<Vec<Given>, String> {
    let mut all = figures(at, metric, &[], Some("mean"), unit_ns)?;
    if let Some(percentiles) = at.get("percentiles") {
        all.extend(figures(&percentiles, metric, &PERCENTILES, None, unit_ns)?);
    }
    Ok(all)
}

/// The successful requests, where the report keeps all of them. Each latency is the one it gives, or
/// follows from its times.
fn requests(benchmark: &At<'_>, observed: &mut Observed) -> Result<Vec<Served>, String> {
    let Some(list) = benchmark.find(&["requests", "successful"]) else { return Ok(Vec::new()) };
    let list = list.items()?;
    let made = benchmark.find(&["metrics", "request_totals", "successful"]);
    let made = made.map(|at| at.number()).transpose()?;
    // A sample of them is no run.
    if list.is_empty() || made.is_some_and(|made| made > list.len() as f64) {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for one in &list {
        let timings = one.find(&["info", "timings"]);
        let time = |name: &str| match timings.as_ref().and_then(|at| at.get(name)) {
            // Unix time: longer than any latency may be.
            Some(at) => at.number().map(Some),
            None => Ok(None),
        };
        let start = time("request_start")?;
        let (first, last) = (time("first_token_iteration")?, time("last_token_iteration")?);
        let end = time("request_end")?;
        let since = |from: Option<f64>, to: Option<f64>| {
            Some((to? - from?) * SECOND).filter(|ns| *ns >= 0.0)
        };
        let mut values = Vec::new();
        for (name, metric, unit) in LATENCIES {
            let from_times = match metric {
                Metric::Ttft => since(start, first),
                Metric::E2e => since(start, end),
                _ => None,
            };
            let said = one.get(name).map(|at| at.ns(unit)).transpose()?;
            values.push((metric, said.or(from_times)));
        }
        let tokens = one.number_of("output_tokens")?.unwrap_or(0.0);
        all.push((start.unwrap_or(0.0), first, last, end, tokens, values));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, metric, _) in LATENCIES {
        let its = |values: &[(Metric, Option<f64>)]| {
            values.iter().find(|(known, _)| *known == metric).and_then(|(_, value)| *value)
        };
        let values: Vec<u64> =
            all.iter().filter_map(|one| its(&one.5)).map(|ns| ns as u64).collect();
        if !values.is_empty() {
            observed.series.push((metric, values));
        }
    }
    let origin = all.first().map_or(0.0, |one| one.0);
    let place = |at: f64| ((at - origin).max(0.0) * SECOND) as u64;
    let served = all.iter().filter_map(|(_, first, last, end, tokens, _)| {
        let done = place((*end)?);
        let last = last.map_or(done, place);
        Some(Served { first: first.map_or(last, place), last, done, tokens: *tokens })
    });
    Ok(served.collect())
}
