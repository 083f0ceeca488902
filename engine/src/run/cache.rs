//! What a server counts of its prefix cache.

use crate::reactor::probe::{Asked, metrics};

/// Names of the counters of tokens looked up and found, with `_` in place of `:`: vLLM, older vLLM,
/// SGLang.
const COUNTERS: [(&str, &str); 3] = [
    ("vllm_prefix_cache_queries_total", "vllm_prefix_cache_hits_total"),
    ("vllm_gpu_prefix_cache_queries_total", "vllm_gpu_prefix_cache_hits_total"),
    ("sglang_prompt_tokens_total", "sglang_cached_tokens_total"),
];

/// Tokens that the servers have looked up in their prefix caches and found there, since they
/// started; `None` where none of them says.
#[must_use]
pub fn prefix_cache<'a>(servers: impl Iterator<Item = Asked<'a>>) -> Option<(u64, u64)> {
    servers
        .filter_map(|asked| counted(&metrics(&asked)?))
        .reduce(|one, other| (one.0.saturating_add(other.0), one.1.saturating_add(other.1)))
}

/// The sum of all samples of a name in a page of Prometheus text, with `_` in place of `:`; of a page
/// that is none, `None`.
pub(super) fn scrape_sum(text: &str) -> Option<impl Fn(&str) -> Option<f64> + use<>> {
    // The library takes no colon in a name, and no value has one.
    let lines = text.lines().map(|line| Ok(line.replace(':', "_")));
    let scrape = prometheus_parse::Scrape::parse(lines).ok()?;
    Some(move |name: &str| {
        let values = scrape.samples.iter().filter(|sample| sample.metric == name);
        let values = values.filter_map(|sample| match sample.value {
            prometheus_parse::Value::Counter(value)
            | prometheus_parse::Value::Gauge(value)
            | prometheus_parse::Value::Untyped(value) => value.is_finite().then_some(value),
            _ => None,
        });
        values.reduce(|sum, value| sum + value)
    })
}

fn counted(text: &str) -> Option<(u64, u64)> {
    let sum = scrape_sum(text)?;
    COUNTERS.iter().find_map(|(queries, hits)| Some((sum(queries)? as u64, sum(hits)? as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_all_engines_are_added_up() {
        let text = "# HELP vllm:prefix_cache_queries_total x\n\
            # TYPE vllm:prefix_cache_queries_total counter\n\
            vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 100.0\n\
            vllm:prefix_cache_queries_total{engine=\"1\",model_name=\"m\"} 20.0\n\
            # TYPE vllm:prefix_cache_hits_total counter\n\
            vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 64.0\n\
            vllm:prefix_cache_hits_total{engine=\"1\",model_name=\"m\"} 0.0\n";
        assert_eq!(counted(text), Some((120, 64)));
        assert_eq!(counted("process_cpu_seconds_total 1\n"), None);
        assert_eq!(counted("<html>no metrics</html>"), None);
    }
}
