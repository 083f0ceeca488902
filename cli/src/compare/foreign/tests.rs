//! Whatever a file holds, it is read or refused in words.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A small result of each tool.
fn seeds() -> [Value; 3] {
    let successful = json!({"successful": {"mean": 2.0, "percentiles": {"p50": 1.0, "p99": 3.0}}});
    let timings = json!({"request_start": 1.0, "first_token_iteration": 1.5,
        "last_token_iteration": 2.0, "request_end": 2.5});
    let request = json!({"info": {"timings": timings}, "output_tokens": 7});
    [
        json!({
            "duration": 2.0, "completed": 2, "failed": 0, "request_throughput": 1.0,
            "output_throughput": 4.0, "request_goodput": 0.5, "mean_ttft_ms": 1.0,
            "median_tpot_ms": 2.0, "ttfts": [0.1, 0.2], "itls": [[0.1], [0.2, 0.3]],
            "output_lens": [2, 3], "errors": ["", ""], "start_times": [5.0, 6.0]
        }),
        json!({"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": [{
            "metrics": {
                "request_totals": {"successful": 2, "errored": 0}, "requests_per_second": successful,
                "time_to_first_token_ms": successful, "request_latency": successful,
                "slo_attainment": 0.5, "slo_determined_requests": 2
            },
            "requests": {"successful": [request, request]}
        }]}),
        json!({
            "aiperf_version": "0.13.0", "request_throughput": {"avg": 1.0},
            "request_count": {"avg": 2.0}, "error_request_count": {"avg": 0.0},
            "good_request_count": {"avg": 1.0},
            "time_to_first_token": {"unit": "ms", "avg": 1.0, "p50": 1.0, "p99": 2.0}
        }),
    ]
}

/// Every place of a file.
fn places(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(name, one)| places(one, format!("{path}/{name}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(at, one)| places(one, format!("{path}/{at}"), found));
        }
        _ => {}
    }
    found.push(path);
}

fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!("text")),
        Just(json!(true)),
        Just(json!([[1e300]])),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
    ]
}

#[test]
fn a_small_result_of_each_tool_is_read() {
    for seed in seeds() {
        let foreign = read(&seed, Path::new("/none")).unwrap().unwrap();
        assert!(foreign.observed.rate.rps.is_some() || seed.get("benchmarks").is_some());
        assert!(foreign.observed.good.is_some(), "{}", foreign.tool);
        assert!(!foreign.definitions.is_empty());
    }
}

proptest! {
    #[test]
    fn a_file_with_something_odd_in_it_is_read_or_refused(
        which in 0_usize..3, place in any::<prop::sample::Index>(), odd in odd(),
    ) {
        let mut seed = seeds()[which].clone();
        let mut found = Vec::new();
        places(&seed, String::new(), &mut found);
        if let Some(value) = seed.pointer_mut(place.get(&found[..]).as_str()) {
            *value = odd;
        }
        match read(&seed, Path::new("/none")) {
            Some(Ok(foreign)) => {
                for given in &foreign.observed.given {
                    prop_assert!(given.value.is_finite() && given.value >= 0.0);
                }
                let rate = &foreign.observed.rate;
                for value in [rate.rps, rate.output_tps].into_iter().flatten() {
                    prop_assert!(value.is_finite());
                }
            }
            Some(Err(reason)) => prop_assert!(!reason.is_empty() && !reason.contains('\n')),
            None => {}
        }
    }
}
