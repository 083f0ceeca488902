//! Waiting between two loads until the servers have nothing left to do, where they say so.

use super::cache::scrape_sum;
use crate::clock;
use crate::reactor::pause;
use crate::reactor::probe::{Asked, metrics};

/// Names of the gauges of requests that run and that wait, with `_` in place of `:`: vLLM, SGLang,
/// TGI, llama.cpp.
const GAUGES: [(&str, &str); 4] = [
    ("vllm_num_requests_running", "vllm_num_requests_waiting"),
    ("sglang_num_running_reqs", "sglang_num_queue_reqs"),
    ("tgi_batch_current_size", "tgi_queue_size"),
    ("llamacpp_requests_processing", "llamacpp_requests_deferred"),
];
/// The first pause between two looks, ns; each is twice the one before.
const PAUSE_NS: u64 = 5_000_000;
const PAUSE_MAX_NS: u64 = 250_000_000;

/// What came of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// The servers have nothing to do.
    Yes,
    /// They still had something when the time was over.
    No,
    /// One of them does not say.
    Unknown,
}

/// Waits until none of the servers has a request left, up to `longest_ns`. They are asked for their
/// `/metrics`.
pub fn wait_idle<'a>(
    servers: impl Iterator<Item = Asked<'a>> + Clone,
    longest_ns: u64,
    is_over: impl Fn() -> bool,
) -> Idle {
    let begun = clock::monotonic_ns();
    let mut length = PAUSE_NS;
    loop {
        let mut left = 0.0;
        for asked in servers.clone() {
            let Some(busy) = metrics(&asked).and_then(|text| busy(&text)) else {
                return Idle::Unknown;
            };
            left += busy;
        }
        if left <= 0.0 {
            return Idle::Yes;
        }
        if is_over() || clock::monotonic_ns().saturating_sub(begun) >= longest_ns {
            return Idle::No;
        }
        pause(length);
        length = (length * 2).min(PAUSE_MAX_NS);
    }
}

/// Requests that a server runs or keeps waiting.
fn busy(text: &str) -> Option<f64> {
    let sum = scrape_sum(text)?;
    GAUGES.iter().find_map(|(running, waiting)| Some(sum(running)? + sum(waiting).unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_and_what_waits_is_added_up_over_engines() {
        let text = "# TYPE vllm:num_requests_running gauge\n\
            vllm:num_requests_running{engine=\"0\"} 3.0\n\
            vllm:num_requests_running{engine=\"1\"} 1.0\n\
            # TYPE vllm:num_requests_waiting gauge\n\
            vllm:num_requests_waiting{engine=\"0\"} 2.0\n";
        assert_eq!(busy(text), Some(6.0));
        assert_eq!(busy("llamacpp:requests_processing 0\n"), Some(0.0));
        assert_eq!(busy("process_cpu_seconds_total 1\n"), None);
    }
}
