//! `vllm bench serve --save-result`, with and without `--save-detailed`.

use serde_json::{Map, Value};
use tokclock_engine::measure::compare::{Decode, Observed, Served, Throughput};
use tokclock_engine::workload::{Metric, Percentile};

use super::Foreign;
use super::aiperf::counted;
use super::fields::{At, given};

/// Ns of a second.
const SECOND: f64 = 1e9;
/// Ns of a millisecond.
const MS: f64 = 1e6;
/// Its latencies, by our names.
const LATENCIES: [(&str, Metric); 4] =
    [("ttft", Metric::Ttft), ("tpot", Metric::Tpot), ("itl", Metric::Icl), ("e2el", Metric::E2e)];
/// What says what was asked for.
const ASKED: [&str; 8] = [
    "backend",
    "endpoint_type",
    "model_id",
    "tokenizer_id",
    "num_prompts",
    "request_rate",
    "burstiness",
    "max_concurrency",
];
const DEFINITIONS: [&str; 5] = [
    "TTFT and E2E start just before its client posts the request: opening a connection is inside, the \
     wait for a place under --max-concurrency is not, and in an open loop a late client does not show",
    "its itl is the gap between chunks, our ICL; it has no ITL per token",
    "its tpot is 0 for answers of one token, which ours leaves out",
    "percentiles of its summary are interpolated, ours are by nearest rank; those from its lists are too",
    "throughput is over first send to last end, ramp and tail inside; output tokens are those of requests \
     that ended",
];

/// Whether vLLM's benchmark wrote it.
pub(super) fn is_it(value: &Value) -> bool {
    let has = |name: &str| value.get(name).is_some();
    has("request_throughput") && has("output_throughput") && has("completed") && has("duration")
}

/// Reads it.
///
/// # Errors
/// A field that is not what it should be, with its path.
pub(super) fn read(root: At<'_>) -> Result<Foreign, String> {
    let mut observed = Observed::default();
    let served = lists(&root, &mut observed)?;
    for (name, metric) in LATENCIES {
        let is_known = match metric {
            Metric::Icl => observed.gaps.is_some(),
            _ => observed.values(metric).is_some(),
        };
        if !is_known {
            summary(&root, name, metric, &mut observed)?;
        }
    }
    let rate = Throughput {
        rps: root.number_of("request_throughput")?,
        output_tps: root.number_of("output_throughput")?,
        ..Throughput::default()
    };
    let start = served.iter().map(|one| one.first).min().unwrap_or(0);
    let end = served.iter().map(|one| one.done).max().unwrap_or(0);
    observed.rate = rate.spread(&served, start, end);
    let completed = root.number_of("completed")?.unwrap_or(0.0);
    let all = completed + root.number_of("failed")?.unwrap_or(0.0);
    observed.failed = counted(all - completed, all);
    if let (Some(good), Some(duration)) =
        (root.number_of("request_goodput")?, root.number_of("duration")?)
    {
        observed.good = counted(good * duration, all);
    }
    let asked = ASKED.into_iter().filter_map(|name| Some((name, root.get(name)?)));
    let workload: Map<String, Value> =
        asked.map(|(name, at)| (name.to_owned(), at.value().clone())).collect();
    Ok(Foreign {
        tool: "vllm bench serve".to_owned(),
        observed,
        definitions: DEFINITIONS.map(str::to_owned).to_vec(),
        left_out: left_out(&root),
        workload: Value::Object(workload),
    })
}

/// Its times that have no equal here.
fn left_out(root: &At<'_>) -> Vec<String> {
    let time = |name: &'_ str| Some(name.strip_prefix("median_")?.strip_suffix("_ms")?.to_owned());
    let is_known = |name: &String| LATENCIES.iter().any(|(known, _)| known == name);
    let others = root.names().filter_map(time).filter(|name| !is_known(name));
    others.collect()
}

/// `mean_ttft_ms`, `median_ttft_ms`, `p99_ttft_ms`.
fn summary(
    root: &At<'_>,
    name: &str,
    metric: Metric,
    observed: &mut Observed,
) -> Result<(), String> {
    let percent = [("median", 0.5), ("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];
    let percentiles = percent.map(|(word, q)| (word, Percentile::Quantile(q)));
    for (word, figure) in percentiles.into_iter().chain([("mean", Percentile::Mean)]) {
        if let Some(at) = root.get(&format!("{word}_{name}_ms")) {
            observed.given.push(given(metric, figure, at.ns(MS)?));
        }
    }
    Ok(())
}

/// The lists of `--save-detailed`: one item per request, failed ones too.
fn lists(root: &At<'_>, observed: &mut Observed) -> Result<Vec<Served>, String> {
    let list = |name: &str| root.get(name).map(|at| at.items()).transpose();
    let (Some(ttfts), Some(itls)) = (list("ttfts")?, list("itls")?) else {
        return Ok(Vec::new());
    };
    let (lens, errors, starts) = (list("output_lens")?, list("errors")?, list("start_times")?);
    for (name, one) in [("output_lens", &lens), ("errors", &errors), ("start_times", &starts)] {
        if one.as_ref().is_some_and(|one| one.len() != ttfts.len()) {
            return Err(format!("{name} has not as many items as ttfts"));
        }
    }
    if itls.len() != ttfts.len() {
        return Err("itls has not as many items as ttfts".to_owned());
    }
    let mut requests = Vec::new();
    for (at, (ttft, gaps)) in ttfts.iter().zip(&itls).enumerate() {
        let error =
            pick(errors.as_ref(), at).and_then(|one| one.text().map(|text| !text.is_empty()));
        let ttft = ttft.ns(SECOND)?;
        if error == Some(true) || ttft <= 0.0 {
            continue;
        }
        let gaps = gaps.items()?;
        let gaps = gaps.iter().map(|gap| gap.ns(SECOND)).collect::<Result<Vec<f64>, String>>()?;
        let tokens = pick(lens.as_ref(), at).map(|one| one.number()).transpose()?;
        let start = pick(starts.as_ref(), at).map(|one| one.ns(SECOND)).transpose()?;
        requests.push((start.unwrap_or(0.0), ttft, gaps, tokens));
    }
    requests.sort_by(|a, b| a.0.total_cmp(&b.0));
    let has_starts = starts.is_some();
    let mut served = Vec::new();
    let (mut first, mut whole, mut each, mut all) = (vec![], vec![], vec![], vec![]);
    for (start, ttft, gaps, tokens) in requests {
        let decode: f64 = gaps.iter().sum();
        first.push(ttft as u64);
        whole.push((ttft + decode) as u64);
        if let Some(tokens) = tokens.filter(|tokens| *tokens >= 2.0 && !gaps.is_empty()) {
            each.push((decode / (tokens - 1.0)) as u64);
        }
        observed.decodes.push(Decode { ns: decode as u64, gaps: gaps.len() as u64, tokens: 0 });
        let (from, to) = ((start + ttft) as u64, (start + ttft + decode) as u64);
        if has_starts {
            served.push(Served { first: from, last: to, done: to, tokens: tokens.unwrap_or(0.0) });
        }
        all.push(gaps.into_iter().map(|gap| (gap as u64, 0)).collect::<Vec<_>>());
    }
    observed.series = vec![(Metric::Ttft, first), (Metric::E2e, whole), (Metric::Tpot, each)];
    observed.gaps = Some(all).filter(|all| !all.is_empty());
    Ok(served)
}

/// An item of a list that may not be there.
fn pick<'a>(list: Option<&Vec<At<'a>>>, at: usize) -> Option<At<'a>> {
    list?.get(at).cloned()
}
