//! Kinds of servers, and under which names they count what. The one place that knows.
//!
//! Names have `_` in place of `:`. `a+b` adds up, `a{label=value}` takes some of the series of a
//! name. A pair is `sum/count`; a name alone stands for `name_sum/name_count` of a histogram. Of
//! several lines for one figure the first that the server has holds.

use super::figures::{Counter, Gauge, Pair};

/// Kinds of servers whose names are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "these are names")]
pub enum Kind {
    Dynamo,
    Vllm,
    Sglang,
    TrtLlm,
    Tgi,
    LlamaCpp,
    Triton,
}

/// What a kind calls what.
pub(super) struct Names {
    pub(super) kind: Kind,
    /// Beginnings of names that no other kind has.
    pub(super) marks: &'static [&'static str],
    pub(super) gauges: &'static [(Gauge, &'static str)],
    pub(super) counters: &'static [(Counter, &'static str)],
    /// With what makes ns, or bytes, of the server's unit.
    pub(super) pairs: &'static [(Pair, &'static str, f64)],
}

const S: f64 = 1e9;
const MS: f64 = 1e6;
const US: f64 = 1e3;

impl Kind {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dynamo => "dynamo",
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::TrtLlm => "trt-llm",
            Self::Tgi => "tgi",
            Self::LlamaCpp => "llama.cpp",
            Self::Triton => "triton",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().map(|names| names.kind).find(|kind| kind.name() == name)
    }
}

/// A worker of Dynamo's passes its engine's names on, so it counts as that engine; its own come last.
pub(super) const TABLE: [Names; 8] = [
    Names {
        kind: Kind::Dynamo,
        marks: &["dynamo_frontend_"],
        gauges: &[
            (Gauge::Running, "dynamo_frontend_inflight_requests"),
            (Gauge::Running, "dynamo_frontend_active_requests"),
            (Gauge::Waiting, "dynamo_frontend_queued_requests"),
        ],
        counters: &[
            (Counter::PromptTokens, "dynamo_frontend_input_sequence_tokens_sum"),
            (Counter::GenerationTokens, "dynamo_frontend_output_tokens_total"),
            (Counter::GenerationTokens, "dynamo_frontend_output_sequence_tokens_sum"),
            (Counter::Cached, "dynamo_frontend_cached_tokens_sum"),
            (Counter::Finished, "dynamo_frontend_requests_total{status=success}"),
            (Counter::Rejected, "dynamo_frontend_model_rejection_total"),
        ],
        pairs: &[
            (Pair::Ttft, "dynamo_frontend_time_to_first_token_seconds", S),
            (Pair::Itl, "dynamo_frontend_inter_token_latency_seconds", S),
            (Pair::E2e, "dynamo_frontend_request_duration_seconds", S),
            (Pair::Transfer, "dynamo_component_router_kv_transfer_estimated_latency_seconds", S),
        ],
    },
    Names {
        kind: Kind::Vllm,
        marks: &["vllm_"],
        gauges: &[
            (Gauge::Running, "vllm_num_requests_running"),
            (Gauge::Waiting, "vllm_num_requests_waiting"),
            (Gauge::Transferring, "vllm_num_requests_kv_fetch_by_stage{stage=in_progress}"),
            (Gauge::KvUse, "vllm_kv_cache_usage_perc"),
            (Gauge::KvUse, "vllm_gpu_cache_usage_perc"),
        ],
        counters: &[
            (Counter::PromptTokens, "vllm_prompt_tokens_total"),
            (Counter::GenerationTokens, "vllm_generation_tokens_total"),
            (Counter::Finished, "vllm_request_success_total"),
            (Counter::Rejected, "vllm_admission_rejections_total"),
            (Counter::Rejected, "tokclock_sim_refused_total"),
            (Counter::Preemptions, "vllm_num_preemptions_total"),
            (Counter::Computed, "vllm_prompt_tokens_by_source_total{source=local_compute}"),
            (Counter::Cached, "vllm_prompt_tokens_by_source_total{source=local_cache_hit}"),
            (Counter::Cached, "vllm_prompt_tokens_cached_total"),
            (
                Counter::Transferred,
                "vllm_prompt_tokens_by_source_total{source=external_kv_transfer}",
            ),
            (Counter::TransferFailed, "vllm_nixl_num_failed_transfers_total"),
            (
                Counter::TransferFailed,
                "vllm_mooncake_num_failed_transfers_total+vllm_mooncake_num_failed_recvs_total",
            ),
            (Counter::TransferExpired, "vllm_nixl_num_kv_expired_reqs_total"),
            (Counter::TransferExpired, "vllm_mooncake_num_kv_expired_reqs_total"),
            (Counter::TransferLate, "vllm_nixl_num_notifications_after_expiry_total"),
        ],
        pairs: &[
            (Pair::Queue, "vllm_request_queue_time_seconds", S),
            (Pair::Prefill, "vllm_request_prefill_time_seconds", S),
            (Pair::Decode, "vllm_request_decode_time_seconds", S),
            (Pair::Ttft, "vllm_time_to_first_token_seconds", S),
            (Pair::Itl, "vllm_inter_token_latency_seconds", S),
            (Pair::Itl, "vllm_time_per_output_token_seconds", S),
            (Pair::Tpot, "vllm_request_time_per_output_token_seconds", S),
            (Pair::E2e, "vllm_e2e_request_latency_seconds", S),
            (Pair::Transfer, "vllm_nixl_xfer_time_seconds", S),
            (Pair::Transfer, "vllm_mooncake_xfer_time_seconds", S),
            (Pair::TransferBytes, "vllm_nixl_bytes_transferred", 1.0),
            (Pair::TransferBytes, "vllm_mooncake_bytes_transferred", 1.0),
            (Pair::Prefix, "vllm_prefix_cache_hits_total/vllm_prefix_cache_queries_total", 1.0),
            (
                Pair::Prefix,
                "vllm_gpu_prefix_cache_hits_total/vllm_gpu_prefix_cache_queries_total",
                1.0,
            ),
            (
                Pair::ExternalPrefix,
                "vllm_external_prefix_cache_hits_total/vllm_external_prefix_cache_queries_total",
                1.0,
            ),
        ],
    },
    Names {
        kind: Kind::Sglang,
        marks: &["sglang_"],
        gauges: &[
            (Gauge::Running, "sglang_num_running_reqs"),
            (Gauge::Waiting, "sglang_num_queue_reqs"),
            (
                Gauge::Transferring,
                "sglang_num_prefill_inflight_queue_reqs+sglang_num_decode_transfer_queue_reqs",
            ),
            (Gauge::KvUse, "sglang_token_usage"),
            (Gauge::KvUse, "sglang_full_token_usage"),
        ],
        counters: &[
            (Counter::PromptTokens, "sglang_prompt_tokens_total"),
            (Counter::GenerationTokens, "sglang_generation_tokens_total"),
            (Counter::Finished, "sglang_num_requests_total"),
            (Counter::Preemptions, "sglang_num_retracted_requests_total"),
            (Counter::Cached, "sglang_cached_tokens_total"),
            (
                Counter::TransferFailed,
                "sglang_num_transfer_failed_reqs_total+sglang_num_bootstrap_failed_reqs_total",
            ),
        ],
        pairs: &[
            (Pair::Queue, "sglang_queue_time_seconds", S),
            (Pair::Prefill, "sglang_per_stage_req_latency_seconds{stage=prefill_forward}", S),
            (Pair::Ttft, "sglang_time_to_first_token_seconds", S),
            (Pair::Itl, "sglang_inter_token_latency_seconds", S),
            (Pair::Tpot, "sglang_request_time_per_output_token_seconds", S),
            (Pair::E2e, "sglang_e2e_request_latency_seconds", S),
            (Pair::Transfer, "sglang_kv_transfer_latency_ms", MS),
            (Pair::Prefix, "sglang_cached_tokens_total/sglang_prompt_tokens_total", 1.0),
        ],
    },
    Names {
        kind: Kind::TrtLlm,
        marks: &["trtllm_"],
        gauges: &[
            (Gauge::Running, "trtllm_num_requests_running"),
            (Gauge::Waiting, "trtllm_num_requests_waiting"),
            (Gauge::KvUse, "trtllm_kv_cache_utilization"),
        ],
        counters: &[
            (Counter::PromptTokens, "trtllm_prompt_tokens_total"),
            (Counter::GenerationTokens, "trtllm_generation_tokens_total"),
            (Counter::Finished, "trtllm_request_success_total"),
            (Counter::Cached, "trtllm_prompt_cached_tokens_total"),
        ],
        pairs: &[
            (Pair::Queue, "trtllm_request_queue_time_seconds", S),
            (Pair::Prefill, "trtllm_request_prefill_time_seconds", S),
            (Pair::Decode, "trtllm_request_decode_time_seconds", S),
            (Pair::Ttft, "trtllm_time_to_first_token_seconds", S),
            (Pair::Tpot, "trtllm_time_per_output_token_seconds", S),
            (Pair::E2e, "trtllm_e2e_request_latency_seconds", S),
            (Pair::Transfer, "trtllm_kv_transfer_latency_seconds", S),
            (Pair::TransferBytes, "trtllm_kv_transfer_bytes", 1.0),
            (Pair::Prefix, "trtllm_prompt_cached_tokens_total/trtllm_prompt_tokens_total", 1.0),
            (
                Pair::Prefix,
                "trtllm_kv_cache_reused_blocks_total/\
                 trtllm_kv_cache_reused_blocks_total+trtllm_kv_cache_missed_blocks_total",
                1.0,
            ),
        ],
    },
    Names {
        kind: Kind::Tgi,
        marks: &["tgi_"],
        gauges: &[(Gauge::Running, "tgi_batch_current_size"), (Gauge::Waiting, "tgi_queue_size")],
        counters: &[
            (Counter::PromptTokens, "tgi_request_input_length_sum"),
            (Counter::GenerationTokens, "tgi_request_generated_tokens_sum"),
            (Counter::Finished, "tgi_request_success"),
            (Counter::Rejected, "tgi_request_failure{err=overloaded}"),
            (Counter::Cached, "tgi_request_skipped_tokens_sum"),
        ],
        pairs: &[
            (Pair::Queue, "tgi_request_queue_duration", S),
            (Pair::Tpot, "tgi_request_mean_time_per_token_duration", S),
            (Pair::E2e, "tgi_request_duration", S),
            (Pair::Prefix, "tgi_request_skipped_tokens_sum/tgi_request_input_length_sum", 1.0),
        ],
    },
    Names {
        kind: Kind::LlamaCpp,
        marks: &["llamacpp_"],
        gauges: &[
            (Gauge::Running, "llamacpp_requests_processing"),
            (Gauge::Waiting, "llamacpp_requests_deferred"),
            (Gauge::KvUse, "llamacpp_kv_cache_usage_ratio"),
        ],
        counters: &[
            (Counter::PromptTokens, "llamacpp_prompt_tokens_total"),
            (Counter::GenerationTokens, "llamacpp_tokens_predicted_total"),
            (Counter::Cached, "llamacpp_prompt_tokens_cached_total"),
        ],
        pairs: &[(
            Pair::Itl,
            "llamacpp_tokens_predicted_seconds_total/llamacpp_tokens_predicted_total",
            S,
        )],
    },
    Names {
        kind: Kind::Triton,
        marks: &["nv_inference_", "nv_trt_llm_"],
        gauges: &[
            (Gauge::Running, "nv_trt_llm_request_metrics{request_type=scheduled}"),
            (Gauge::Waiting, "nv_trt_llm_request_metrics{request_type=waiting}"),
            (Gauge::Waiting, "nv_inference_pending_request_count"),
            (Gauge::KvUse, "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"),
        ],
        counters: &[
            (Counter::Finished, "nv_inference_request_success"),
            (Counter::Rejected, "nv_inference_request_failure{reason=REJECTED}"),
        ],
        pairs: &[
            (Pair::Queue, "nv_inference_queue_duration_us/nv_inference_request_success", US),
            (Pair::Ttft, "nv_inference_first_response_histogram_ms", MS),
            (Pair::E2e, "nv_inference_request_duration_us/nv_inference_request_success", US),
        ],
    },
    Names {
        kind: Kind::Dynamo,
        marks: &["dynamo_component_"],
        gauges: &[
            (Gauge::Running, "dynamo_component_inflight_requests"),
            (Gauge::Waiting, "dynamo_component_queue_depth"),
            (Gauge::KvUse, "dynamo_component_gpu_cache_usage_percent"),
        ],
        counters: &[],
        pairs: &[
            (Pair::E2e, "dynamo_component_request_duration_seconds", S),
            (Pair::Transfer, "dynamo_component_router_kv_transfer_estimated_latency_seconds", S),
        ],
    },
];
