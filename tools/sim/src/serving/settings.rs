//! What a serving model is asked to be, its presets, and the limits that follow.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::law::Law;

/// The figures of a serving model. The default is the preset `queue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServingSettings {
    /// Requests that run at once; at least 1.
    pub max_batch: u32,
    /// Prompt tokens computed per second, apart from what every step costs; at least 1.
    pub prefill_rate: u64,
    /// Prompt tokens that go into one step at most; at least 1.
    pub prefill_chunk: u32,
    /// What every step takes, in ns.
    pub step_base_ns: u64,
    /// What each request that decodes adds to a step, in ns.
    pub step_per_request_ns: u64,
    /// Drawn for each step and added to it.
    pub step_jitter: Law,
    /// Tokens that the KV cache holds; at least 1.
    pub kv_tokens: u64,
    /// Whether a request starts when there is room for its prompt, and the youngest that run are
    /// preempted when others cannot grow. Else it starts when there is room for its prompt and
    /// all its output, and none is ever preempted.
    pub preempt: bool,
    /// How many are preempted at once, if so many run besides the oldest; at least 1. vLLM
    /// preempts one by one, SGLang retracts several to have room for the steps to come.
    pub preempt_at_once: u32,
    /// What becomes of a request that cannot start with the next step.
    pub when_full: WhenFull,
    /// Requests that may wait; a further one that cannot start is refused. `None`: no limit.
    pub queue: Option<u32>,
    /// The seed of the jitter.
    pub seed: u64,
}

/// What becomes of a request that finds the batch or the KV cache full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It waits, as far as the queue goes.
    #[default]
    Wait,
    /// It is refused.
    Refuse,
}

/// A word that is none of those known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no serving model {0:?}; choose among queue, shed, collapse")]
pub struct UnknownPreset(String);

impl ServingSettings {
    /// The names of the presets.
    pub const PRESETS: [&'static str; 3] = ["queue", "shed", "collapse"];

    /// A preset by its name. Past their limit they behave as they are called:
    ///
    /// - `queue`: what does not fit waits; throughput holds, latency grows.
    /// - `shed`: what does not fit is refused; the latency of the accepted holds.
    /// - `collapse`: a batch larger than the KV cache can hold, filled greedily, and preemption by
    ///   the dozen: what was computed is lost and computed again, and throughput falls. Once it
    ///   has begun it goes on until the load is far below the limit.
    ///
    /// # Errors
    /// A name that is none of [`Self::PRESETS`].
    pub fn preset(name: &str) -> Result<Self, UnknownPreset> {
        let queue = Self::default();
        match name {
            "queue" => Ok(queue),
            "shed" => Ok(Self { when_full: WhenFull::Refuse, ..queue }),
            "collapse" => Ok(Self {
                max_batch: 96,
                prefill_chunk: 4_096,
                kv_tokens: 10_240,
                preempt: true,
                preempt_at_once: 24,
                ..queue
            }),
            _ => Err(UnknownPreset(name.to_owned())),
        }
    }

    /// Says what is wrong with them, or nothing.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let positive = [
            ("max_batch", u64::from(self.max_batch)),
            ("prefill_rate", self.prefill_rate),
            ("prefill_chunk", u64::from(self.prefill_chunk)),
            ("kv_tokens", self.kv_tokens),
            ("preempt_at_once", u64::from(self.preempt_at_once)),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Some(format!("{name} is 0; give at least 1"));
        }
        if self.when_full == WhenFull::Refuse && self.queue.is_some_and(|places| places > 0) {
            return Some(
                "queue is given, but a request that finds no room is refused; let it wait or leave \
                 out the queue"
                    .to_owned(),
            );
        }
        None
    }

    /// Requests of `input` and `output` tokens that can run at once, by batch and KV cache.
    ///
    /// With preemption the cache holds those whose outputs are half done on average.
    #[must_use]
    pub fn batch_of(&self, input: u32, output: u32) -> u32 {
        let output = if self.preempt { output / 2 } else { output };
        let held = (u64::from(input) + u64::from(output)).max(1);
        let fit = u32::try_from(self.kv_tokens / held).unwrap_or(u32::MAX);
        fit.clamp(1, self.max_batch.max(1))
    }

    /// The most requests per second, each of `input` and `output` tokens, if none is ever
    /// preempted and none leaves early.
    ///
    /// With B requests at once, each runs for S = output + ⌈input / prefill_chunk⌉ − 1 steps, in
    /// which all B of them pass once:
    ///
    /// ```text
    /// B / (S × step_base + B × ((output − 1) × step_per_request + input / prefill_rate))
    /// ```
    ///
    /// If prompts come faster than chunks take them up, that is the limit: with
    /// q = prefill_chunk / input requests per step,
    ///
    /// ```text
    /// q / (step_base + prefill_chunk / prefill_rate + q × (output − 1) × step_per_request)
    /// ```
    ///
    /// The jitter is left out.
    #[must_use]
    pub fn capacity_rps(&self, input: u32, output: u32) -> f64 {
        let (input, output) = (input.max(1), output.max(1));
        let batch = f64::from(self.batch_of(input, output));
        let chunk = f64::from(self.prefill_chunk.max(1));
        let rate = self.prefill_rate.max(1) as f64;
        let base = self.step_base_ns as f64 / 1e9;
        let decode = f64::from(output - 1) * self.step_per_request_ns as f64 / 1e9;
        let input = f64::from(input);
        let steps = f64::from(output) + (input / chunk).ceil() - 1.0;
        let by_batch = batch / (steps * base + batch * (decode + input / rate));
        let prompts = chunk / input;
        let by_chunk = prompts / (base + chunk / rate + prompts * decode);
        by_batch.min(by_chunk)
    }

    /// The most output tokens per second where prompts cost nothing: a full batch's,
    /// `max_batch / (step_base + step_per_request × max_batch)`. `None` if steps take no time.
    #[must_use]
    pub fn decode_tps(&self) -> Option<f64> {
        let batch = f64::from(self.max_batch.max(1));
        let step_ns = self.step_base_ns as f64 + self.step_per_request_ns as f64 * batch;
        (step_ns > 0.0).then(|| batch * 1e9 / step_ns)
    }
}

impl Default for ServingSettings {
    fn default() -> Self {
        Self {
            max_batch: 32,
            prefill_rate: 16_000,
            prefill_chunk: 256,
            step_base_ns: 8_000_000,
            step_per_request_ns: 100_000,
            step_jitter: Law::ZERO,
            kv_tokens: 262_144,
            preempt: false,
            preempt_at_once: 1,
            when_full: WhenFull::Wait,
            queue: None,
            seed: 1,
        }
    }
}

impl FromStr for WhenFull {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "wait" => Ok(Self::Wait),
            "refuse" => Ok(Self::Refuse),
            _ => Err("expected wait or refuse".to_owned()),
        }
    }
}

impl fmt::Display for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wait => "wait",
            Self::Refuse => "refuse",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(seen: f64, expected: f64) {
        assert!((seen - expected).abs() < 1e-3 * expected, "{seen}, not {expected}");
    }

    #[test]
    fn limits_follow_from_the_figures() {
        let queue = ServingSettings::default();
        // 32 steps of 8 ms; each of 32 requests adds 31 × 0.1 ms and 8 ms of prefill.
        near(queue.capacity_rps(128, 32), 32.0 / (0.256 + 32.0 * 0.0111));
        near(queue.decode_tps().unwrap(), 32.0 / 0.0112);
        // Three chunks for each prompt, so 34 steps.
        let (prompts, gaps) = (768.0 / 16_000.0, 31.0 * 1e-4);
        let by_batch = 32.0 / (34.0 * 0.008 + 32.0 * (gaps + prompts));
        let by_chunk = (256.0 / 768.0) / (0.024 + gaps / 3.0);
        near(queue.capacity_rps(768, 32), f64::min(by_batch, by_chunk));
        assert!(by_chunk < by_batch, "long prompts wait for chunks");
    }

    #[test]
    fn the_kv_cache_bounds_the_batch() {
        let tight = ServingSettings { kv_tokens: 1_600, ..ServingSettings::default() };
        assert_eq!(tight.batch_of(128, 32), 10);
        assert_eq!(ServingSettings { preempt: true, ..tight }.batch_of(128, 32), 11);
        assert_eq!(tight.batch_of(10_000, 1), 1, "what never fits is not asked here");
        let no_time = ServingSettings { step_base_ns: 0, step_per_request_ns: 0, ..tight };
        assert_eq!(no_time.decode_tps(), None);
        assert!(no_time.capacity_rps(0, 0).is_finite());
    }

    #[test]
    fn presets_are_sound_and_others_are_named() {
        for name in ServingSettings::PRESETS {
            let settings = ServingSettings::preset(name).unwrap();
            assert_eq!(settings.fault(), None, "{name}");
            let text = serde_json::to_string(&settings).unwrap();
            assert_eq!(serde_json::from_str::<ServingSettings>(&text).unwrap(), settings);
        }
        let said = ServingSettings::preset("fast").unwrap_err().to_string();
        assert!(ServingSettings::PRESETS.iter().all(|name| said.contains(name)), "{said}");
    }

    #[test]
    fn settings_that_make_no_sense_are_named() {
        let zero = ServingSettings { prefill_rate: 0, ..ServingSettings::default() };
        assert_eq!(zero.fault().unwrap(), "prefill_rate is 0; give at least 1");
        let shed = ServingSettings::preset("shed").unwrap();
        assert!(ServingSettings { queue: Some(4), ..shed }.fault().is_some());
        assert_eq!(ServingSettings { queue: Some(0), ..shed }.fault(), None);
    }
}
