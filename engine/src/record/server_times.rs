//! What a server said of its own work on one request, as a record holds it.

use serde::{Deserialize, Serialize};
use tokclock_parser::times::{ServerTimes, Source, Time};

/// Where the times stood in the answer, which decides what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TimesSource {
    /// `timings` of llama.cpp.
    #[serde(rename = "llamacpp.timings")]
    LlamacppTimings,
    /// `metrics` of vLLM.
    #[serde(rename = "vllm.metrics")]
    VllmMetrics,
    /// `meta_info` of SGLang.
    #[serde(rename = "sglang.meta_info")]
    SglangMetaInfo,
    /// `nvext.timing` of Dynamo.
    #[serde(rename = "dynamo.nvext")]
    DynamoNvext,
    /// The last line of Ollama.
    #[serde(rename = "ollama")]
    Ollama,
    /// The header `Server-Timing`, or what stands for it after a stream.
    #[serde(rename = "server-timing")]
    ServerTiming,
    /// Another header.
    #[serde(rename = "header")]
    Header,
}

impl TimesSource {
    /// The word for it in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LlamacppTimings => "llamacpp.timings",
            Self::VllmMetrics => "vllm.metrics",
            Self::SglangMetaInfo => "sglang.meta_info",
            Self::DynamoNvext => "dynamo.nvext",
            Self::Ollama => "ollama",
            Self::ServerTiming => "server-timing",
            Self::Header => "header",
        }
    }
}

impl From<Source> for TimesSource {
    fn from(source: Source) -> Self {
        match source {
            Source::LlamacppTimings => Self::LlamacppTimings,
            Source::VllmMetrics => Self::VllmMetrics,
            Source::SglangMetaInfo => Self::SglangMetaInfo,
            Source::DynamoNvext => Self::DynamoNvext,
            Source::Ollama => Self::Ollama,
            Source::ServerTiming => Self::ServerTiming,
            Source::Header => Self::Header,
        }
    }
}

/// What a server said of one request: durations in ns, moments in ns since 1970 on the server's own
/// clock. Nothing here is on the clock of the other marks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/server-times.md")]
pub struct ServerTimings {
    pub source: TimesSource,
    /// Number of the server among those that were given, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub endpoint: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_transfer_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_itl_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_realtime_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_realtime_ns: Option<u64>,
    /// Times that a header gave a name of their own, ns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<(String, u64)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_first(endpoint: &u16) -> bool {
    *endpoint == 0
}

impl ServerTimings {
    /// From what the parser found: nothing if there is neither a time nor a name.
    pub(crate) fn of(times: Option<ServerTimes>, named: &[(String, u64)]) -> Option<Box<Self>> {
        if times.is_none() && named.is_empty() {
            return None;
        }
        let times = times.unwrap_or_default();
        Some(Box::new(Self {
            source: times.source().into(),
            endpoint: 0,
            queue_ns: times.get(Time::Queue),
            prefill_ns: times.get(Time::Prefill),
            ttft_ns: times.get(Time::Ttft),
            decode_ns: times.get(Time::Decode),
            e2e_ns: times.get(Time::E2e),
            kv_transfer_ns: times.get(Time::KvTransfer),
            mean_itl_ns: times.get(Time::MeanItl),
            received_realtime_ns: times.get(Time::ReceivedAt),
            sent_realtime_ns: times.get(Time::SentAt),
            named: named.to_vec(),
        }))
    }
}
