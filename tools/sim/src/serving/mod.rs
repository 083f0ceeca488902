//! A serving model: continuous batching with chunked prefill and a KV cache of known size, as a
//! state machine without clock and socket.
//!
//! Requests wait first come first served. The engine works in steps, one after the other. A step
//! carries at most `prefill_chunk` prompt tokens, over the running requests in their order, and
//! one token of each request whose prompt is done:
//!
//! ```text
//! step = step_base + step_per_request × requests that decode + prompt tokens / prefill_rate
//! ```
//!
//! A request whose prompt ends in a step has its first token at the end of that step, and one more
//! at the end of each step after it. The times are exact: a step begins where the one before
//! ended, however late [`Serving::advance`] is called.
//!
//! The limits that follow are in closed form: [`ServingSettings::capacity_rps`] for requests of
//! one length, and `max_batch / (step_base + step_per_request × max_batch)` tokens per second for
//! decoding alone ([`ServingSettings::decode_tps`]).
//!
//! ```
//! use tokclock_sim::serving::{Arrival, Serving, ServingSettings};
//!
//! let mut serving = Serving::new(&ServingSettings::preset("queue")?);
//! assert_eq!(serving.arrive(0, 7, 128, 2), Arrival::Queued);
//! let mut due = Vec::new();
//! while let Some(end_ns) = serving.next_ns() {
//!     serving.advance(end_ns, &mut |token| due.push((token.id, token.at_ns, token.is_last)));
//! }
//! // 8 ms and 128 tokens at 16,000 tokens/s; then 8 ms and 0.1 ms for the one that decodes.
//! assert_eq!(due, [(7, 16_000_000, false), (7, 24_100_000, true)]);
//! # Ok::<(), tokclock_sim::serving::UnknownPreset>(())
//! ```

mod engine;
mod outcome;
mod settings;

#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod open_loop;
#[cfg(test)]
mod preset_tests;

pub use engine::Serving;
pub use outcome::{Arrival, Counters, Emitted, Left, Refusal};
pub use settings::{ServingSettings, UnknownPreset, WhenFull};
