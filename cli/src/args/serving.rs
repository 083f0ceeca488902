//! What may be typed after `tokclock sim --serving`.

use clap::Args;
use tokclock_sim::Law;
use tokclock_sim::serving::{ServingSettings, WhenFull};

use super::sim::at_least_1;
use crate::values::Span;

/// Options of a serving model. What is absent is as the preset has it.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServingArgs {
    /// Batch requests as a real server does, in place of --ttft, --ttst, --itl and
    /// --max-concurrent. Past its limit (about 50 requests/s of 128 input and 32 output tokens) the
    /// model queue lets requests wait, shed refuses them with 503, and collapse loses throughput
    #[arg(
        id = "serving",
        long,
        value_name = "queue|shed|collapse",
        value_parser = |name: &str| ServingSettings::preset(name),
        conflicts_with_all = ["ttft", "ttst", "itl", "max_concurrent", "events_per_write"],
        help_heading = "Serving model"
    )]
    pub(crate) preset: Option<ServingSettings>,

    /// Requests that run at once [default: 32; collapse: 96]
    #[arg(long, value_name = "N", value_parser = at_least_1(), requires = "serving", help_heading = "Serving model")]
    pub(crate) max_batch: Option<u32>,

    /// Prompt tokens computed per second [default: 16000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "serving", help_heading = "Serving model")]
    pub(crate) prefill_rate: Option<u64>,

    /// Prompt tokens in one step at most [default: 256; collapse: 4096]
    #[arg(long, value_name = "N", value_parser = at_least_1(), requires = "serving", help_heading = "Serving model")]
    pub(crate) prefill_chunk: Option<u32>,

    /// What every step takes [default: 8ms]
    #[arg(long, value_name = "TIME", requires = "serving", help_heading = "Serving model")]
    pub(crate) step_base: Option<Span>,

    /// What each request that decodes adds to a step [default: 100us]
    #[arg(long, value_name = "TIME", requires = "serving", help_heading = "Serving model")]
    pub(crate) step_per_request: Option<Span>,

    /// Drawn for each step and added to it [default: none]
    #[arg(long, value_name = "LAW", requires = "serving", help_heading = "Serving model")]
    pub(crate) step_jitter: Option<Law>,

    /// Tokens that the KV cache holds [default: 262144; collapse: 10240]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "serving", help_heading = "Serving model")]
    pub(crate) kv_tokens: Option<u64>,

    /// What becomes of a request that finds no room: wait or refuse [default: wait; shed: refuse]
    #[arg(long, value_name = "WHAT", requires = "serving", help_heading = "Serving model")]
    pub(crate) when_full: Option<WhenFull>,

    /// Whether requests start with room for their prompt alone, and the youngest are preempted when
    /// others grow out of it [default: false; collapse: true]
    #[arg(long, value_name = "BOOL", requires = "serving", help_heading = "Serving model")]
    pub(crate) preempt: Option<bool>,

    /// How many are preempted at once [default: 1; collapse: 24]
    #[arg(long, value_name = "N", value_parser = at_least_1(), requires = "serving", help_heading = "Serving model")]
    pub(crate) preempt_at_once: Option<u32>,

    /// Requests that may wait, further ones are refused [default: no limit]
    #[arg(long, value_name = "N", requires = "serving", help_heading = "Serving model")]
    pub(crate) queue: Option<u32>,
}

impl ServingArgs {
    /// The preset with what else was typed; `seed` is that of its jitter.
    pub(crate) fn settings(&self, seed: Option<u64>) -> Option<ServingSettings> {
        let preset = self.preset.clone()?;
        Some(ServingSettings {
            max_batch: self.max_batch.unwrap_or(preset.max_batch),
            prefill_rate: self.prefill_rate.unwrap_or(preset.prefill_rate),
            prefill_chunk: self.prefill_chunk.unwrap_or(preset.prefill_chunk),
            step_base_ns: self.step_base.map_or(preset.step_base_ns, Span::ns),
            step_per_request_ns: self.step_per_request.map_or(preset.step_per_request_ns, Span::ns),
            step_jitter: self.step_jitter.unwrap_or(preset.step_jitter),
            kv_tokens: self.kv_tokens.unwrap_or(preset.kv_tokens),
            preempt: self.preempt.unwrap_or(preset.preempt),
            preempt_at_once: self.preempt_at_once.unwrap_or(preset.preempt_at_once),
            when_full: self.when_full.unwrap_or(preset.when_full),
            queue: self.queue.or(preset.queue),
            seed: seed.unwrap_or(preset.seed),
        })
    }
}
