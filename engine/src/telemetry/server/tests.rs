//! Pages of every kind of server, small and broken ones, and what they come to.

use super::figures::{Counter, Gauge, Pair};
use super::kinds::{Kind, TABLE};
use super::log::{Log, read_log};
use super::reading::{By, Counted, Reading, Share};
use super::text::counted;

const VLLM: &str = r#"# HELP vllm:num_requests_running Running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a:b,c"} 3.0
vllm:num_requests_running{engine="1",model_name="a:b,c"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} NaN
vllm:num_requests_waiting{engine="1"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{source="local_compute"} 70.0
vllm:prompt_tokens_by_source_total{source="external_kv_transfer"} 30.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0"} 1.0
vllm:num_preemptions_total{engine="1"} +Inf
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_sum{engine="0"} 1.5
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001"} 0.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} 4.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 5.0
vllm:time_to_first_token_seconds_count{engine="0"} 5.0
vllm:time_to_first_token_seconds_sum{engine="1"} 0.5
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.001"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.5"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf"} 2.0
vllm:time_to_first_token_seconds_count{engine="1"} 2.0
# TYPE vllm:nixl_bytes_transferred histogram
vllm:nixl_bytes_transferred_sum 4096
vllm:nixl_bytes_transferred_count 2
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total 100
vllm:prefix_cache_hits_total 25
"#;

#[test]
fn engines_are_added_up_and_their_caches_are_not() {
    let got = counted(VLLM).unwrap();
    assert_eq!(got.kind, Kind::Vllm);
    assert_eq!(got.gauge(Gauge::Running), Some(7.0));
    assert_eq!(got.gauge(Gauge::Waiting), Some(2.0), "what is no number is left out");
    assert_eq!((got.gauge(Gauge::KvUse), got.kv_use_max), (Some(0.5), Some(0.75)));
    assert_eq!(got.counter(Counter::Computed), Some(70.0));
    assert_eq!(got.counter(Counter::Transferred), Some(30.0));
    assert_eq!(got.counter(Counter::Preemptions), Some(1.0));
    assert_eq!(got.counter(Counter::Rejected), None);
    assert_eq!(got.pair(Pair::Ttft), Some((2e9, 7.0)));
    assert_eq!(got.buckets(Pair::Ttft), [(1e6, 1.0), (5e8, 6.0), (f64::INFINITY, 7.0)]);
    assert_eq!(got.pair(Pair::TransferBytes), Some((4096.0, 2.0)));
    assert_eq!(got.pair(Pair::Prefix), Some((25.0, 100.0)));
}

#[test]
fn every_kind_is_known_by_its_own_names() {
    for (page, kind, running) in [
        (
            "sglang:num_running_reqs{tp_rank=\"0\"} 2\nsglang:num_running_reqs{tp_rank=\"1\"} 2\n",
            Kind::Sglang,
            2.0,
        ),
        ("trtllm_num_requests_running 3\n", Kind::TrtLlm, 3.0),
        ("trtllm:num_requests_running 3\n", Kind::TrtLlm, 3.0),
        ("dynamo_frontend_inflight_requests{model=\"m\"} 4\n", Kind::Dynamo, 4.0),
        ("dynamo_component_inflight_requests 4\n", Kind::Dynamo, 4.0),
        ("dynamo_component_inflight_requests 4\nvllm:num_requests_running 5\n", Kind::Vllm, 5.0),
        ("tgi_batch_current_size 5\n", Kind::Tgi, 5.0),
        (
            "nv_trt_llm_request_metrics{request_type=\"scheduled\"} 6\n\
             nv_trt_llm_request_metrics{request_type=\"waiting\"} 9\n",
            Kind::Triton,
            6.0,
        ),
        ("llamacpp:requests_processing 7\n", Kind::LlamaCpp, 7.0),
    ] {
        let got = counted(page).unwrap();
        assert_eq!((got.kind, got.gauge(Gauge::Running)), (kind, Some(running)), "{page}");
    }
}

#[test]
fn units_and_sums_of_several_names_are_those_of_the_table() {
    let page = "sglang:kv_transfer_latency_ms_sum 30\nsglang:kv_transfer_latency_ms_count 2\n\
        sglang:num_transfer_failed_reqs_total 1\nsglang:num_bootstrap_failed_reqs_total 2\n\
        sglang:per_stage_req_latency_seconds_sum{stage=\"prefill_forward\"} 3\n\
        sglang:per_stage_req_latency_seconds_count{stage=\"prefill_forward\"} 4\n\
        sglang:per_stage_req_latency_seconds_sum{stage=\"decode_waiting\"} 50\n\
        sglang:per_stage_req_latency_seconds_count{stage=\"decode_waiting\"} 5\n";
    let got = counted(page).unwrap();
    assert_eq!(got.pair(Pair::Transfer), Some((30e6, 2.0)));
    assert_eq!(got.counter(Counter::TransferFailed), Some(3.0));
    assert_eq!(got.pair(Pair::Prefill), Some((3e9, 4.0)));
    let triton = "nv_inference_queue_duration_us{model=\"m\"} 500\n\
        nv_inference_request_success{model=\"m\"} 5\n";
    assert_eq!(counted(triton).unwrap().pair(Pair::Queue), Some((5e5, 5.0)));
    let blocks = "trtllm_kv_cache_reused_blocks_total 3\ntrtllm_kv_cache_missed_blocks_total 1\n";
    assert_eq!(counted(blocks).unwrap().pair(Pair::Prefix), Some((3.0, 4.0)));
}

#[test]
fn what_is_no_page_of_metrics_is_nothing() {
    for page in [
        "",
        "<html>no</html>",
        "{\"iterLatencyMS\": 5, \"numActiveRequests\": 1}",
        "process_cpu_seconds_total 1\n",
        "vllm:num_requests_running NaN\n",
        "vllm:num_requests_running{\n",
        "vllm:x{le=\"\",=,=\"\"} \u{0}\n# TYPE vllm:x histogram\nvllm:x_bucket{le=\"no\"} 1\n",
    ] {
        assert_eq!(counted(page), None, "{page}");
    }
}

#[test]
fn no_name_in_the_table_has_a_colon_and_every_kind_has_a_name_of_its_own() {
    for names in &TABLE {
        assert_eq!(Kind::named(names.kind.name()), Some(names.kind));
        let expressions = names.gauges.iter().map(|(_, name)| *name);
        let expressions = expressions.chain(names.counters.iter().map(|(_, name)| *name));
        for name in expressions.chain(names.pairs.iter().map(|(_, name, _)| *name)) {
            assert!(!name.contains([':', ' ']), "{name}");
        }
    }
}

#[test]
fn what_is_appended_is_read_back_but_for_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("servers.csv");
    let log = Log::create(&path).unwrap();
    let reading = |at_ns, said: Result<Counted, String>| Reading {
        at_ns,
        took_ns: 7,
        url: "http://a/metrics?x=\"1,2\"".to_owned(),
        by: By::Named,
        share: Share { place: None, of: 2 },
        said,
    };
    let all = [
        reading(1, Ok(counted(VLLM).unwrap())),
        reading(2, Err("status 500, \"no\"".to_owned())),
        Reading {
            by: By::Target,
            share: Share { place: Some(1), of: 2 },
            ..reading(3, Ok(counted("tgi_queue_size 5\n").unwrap()))
        },
    ];
    all.iter().for_each(|one| log.add(one).unwrap());
    let back = |path| read_log(path).unwrap().collect::<Vec<_>>();
    assert_eq!(back(&path), all);
    let bytes = std::fs::read(&path).unwrap();
    for cut in (0..bytes.len()).step_by(11) {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let back = back(&path);
        assert!(back.len() < all.len() && all.starts_with(&back), "{cut}");
    }
}
