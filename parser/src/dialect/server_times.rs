//! The objects in which servers tell how long a request took them, whatever dialect they stand in.

use serde::de::MapAccess;

use super::lenient::{Take, fill, inner, inside, lenient, raw};
use crate::times::{ServerTimes, Source, Time, Unit};

/// Members that tell a time: their names, units, and what they are.
type Members = [(&'static str, Unit, Time)];

const LLAMACPP: &Members =
    &[("prompt_ms", Unit::Millis, Time::Prefill), ("predicted_ms", Unit::Millis, Time::Decode)];

const VLLM: &Members = &[
    ("queue_time_ms", Unit::Millis, Time::Queue),
    // From when it was scheduled.
    ("time_to_first_token_ms", Unit::Millis, Time::Ttft),
    // From the first token to the last.
    ("generation_time_ms", Unit::Millis, Time::Decode),
    ("mean_itl_ms", Unit::Millis, Time::MeanItl),
];

const DYNAMO: &Members = &[
    ("prefill_wait_time_ms", Unit::Millis, Time::Queue),
    ("prefill_time_ms", Unit::Millis, Time::Prefill),
    ("ttft_ms", Unit::Millis, Time::Ttft),
    ("total_time_ms", Unit::Millis, Time::E2e),
    ("kv_transfer_estimated_latency_ms", Unit::Millis, Time::KvTransfer),
    ("request_received_ms", Unit::Millis, Time::ReceivedAt),
];

const OLLAMA: &Members = &[
    ("prompt_eval_duration", Unit::Nanos, Time::Prefill),
    ("eval_duration", Unit::Nanos, Time::Decode),
    ("total_duration", Unit::Nanos, Time::E2e),
];

const SGLANG: &Members = &[
    ("queue_time", Unit::Seconds, Time::Queue),
    ("first_token_latency", Unit::Seconds, Time::Ttft),
    ("e2e_latency", Unit::Seconds, Time::E2e),
    ("request_received_ts", Unit::Seconds, Time::ReceivedAt),
    ("response_sent_to_client_ts", Unit::Seconds, Time::SentAt),
];

/// The time that a member of one of these names holds; `false` if it has none of them, and was not
/// read.
fn member<'de, A: MapAccess<'de>>(
    times: &mut ServerTimes,
    members: &Members,
    name: &str,
    map: &mut A,
) -> Result<bool, A::Error> {
    let Some((_, unit, time)) = members.iter().find(|(member, ..)| *member == name) else {
        return Ok(false);
    };
    times.set(*time, unit.ns(raw(map)?));
    Ok(true)
}

/// The outer members of a document of the OpenAI kind, or of an event of one, that hold times.
pub(super) fn outer<'de, A: MapAccess<'de>>(
    times: &mut ServerTimes,
    name: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    match name {
        "timings" => times.take(&object::<Timings>(raw(map)?).0),
        "metrics" => times.take(&object::<Metrics>(raw(map)?).0),
        // It holds objects: as it is written it would have to be read over first, which takes memory.
        "nvext" => times.take(&object::<Timing>(lenient::<_, Nvext<'_>>(map)?.0).0),
        _ => ().field(name, map)?,
    }
    Ok(())
}

/// What an object holds; nothing of any other value, however strange.
fn object<'a, T: Take<'a>>(json: &'a str) -> T {
    if json.starts_with('{') { inner(json) } else { T::default() }
}

/// A member of Ollama's last line, or another.
pub(super) fn ollama<'de, A: MapAccess<'de>>(
    times: &mut ServerTimes,
    name: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    let mut told = ServerTimes::of(Source::Ollama);
    if member(&mut told, OLLAMA, name, map)? {
        times.take(&told);
        return Ok(());
    }
    ().field(name, map)
}

/// `timings` of llama.cpp.
pub(super) struct Timings(pub(super) ServerTimes);

impl Default for Timings {
    fn default() -> Self {
        Self(ServerTimes::of(Source::LlamacppTimings))
    }
}

impl Timings {
    /// The member at hand, which is none of those that others take.
    pub(super) fn member<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if member(&mut self.0, LLAMACPP, name, map)? { Ok(()) } else { ().field(name, map) }
    }
}

impl<'de> Take<'de> for Timings {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        self.member(name, map)
    }
}

/// `metrics` of vLLM.
pub(super) struct Metrics(pub(super) ServerTimes);

impl Default for Metrics {
    fn default() -> Self {
        Self(ServerTimes::of(Source::VllmMetrics))
    }
}

impl<'de> Take<'de> for Metrics {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if member(&mut self.0, VLLM, name, map)? { Ok(()) } else { ().field(name, map) }
    }
}

/// `nvext` of Dynamo: its `timing` as it is written.
#[derive(Default)]
struct Nvext<'a>(&'a str);

impl<'de> Take<'de> for Nvext<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "timing" => self.0 = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// Its `timing`.
struct Timing(ServerTimes);

impl Default for Timing {
    fn default() -> Self {
        Self(ServerTimes::of(Source::DynamoNvext))
    }
}

impl<'de> Take<'de> for Timing {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if member(&mut self.0, DYNAMO, name, map)? { Ok(()) } else { ().field(name, map) }
    }
}

/// What `meta_info` of SGLang tells.
pub(super) struct Meta {
    times: ServerTimes,
    /// Moments of the server's own clock, of which only what lies between them is used.
    entered: Option<u64>,
    prefilled: Option<u64>,
}

impl Default for Meta {
    fn default() -> Self {
        let times = ServerTimes::of(Source::SglangMetaInfo);
        Self { times, entered: None, prefilled: None }
    }
}

impl Meta {
    /// The member at hand, which is none of those that others take.
    pub(super) fn member<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match name {
            "forward_entry_time" => self.entered = Unit::Seconds.ns(raw(map)?),
            "prefill_finished_time" => self.prefilled = Unit::Seconds.ns(raw(map)?),
            _ if member(&mut self.times, SGLANG, name, map)? => {}
            _ => ().field(name, map)?,
        }
        Ok(())
    }

    /// All that was told.
    pub(super) fn times(mut self) -> ServerTimes {
        self.times.set(Time::Prefill, between(self.entered, self.prefilled));
        if self.times.get(Time::Ttft).is_none() {
            let received = self.times.get(Time::ReceivedAt);
            self.times.set(Time::Ttft, between(received, self.prefilled));
        }
        self.times
    }
}

/// A day, ns: what lies further apart is not of one clock.
const DAY: u64 = 86_400_000_000_000;

fn between(from: Option<u64>, to: Option<u64>) -> Option<u64> {
    to?.checked_sub(from?).filter(|ns| *ns < DAY)
}

/// The `Server-Timing` of an event that TensorRT-LLM sends when the stream is over, with its escapes;
/// empty if there is none.
pub(crate) fn late_server_timing(json: &str) -> &str {
    let mut late = Late::default();
    match fill(json, &mut late) {
        Ok(()) => inside(late.0),
        Err(_) => "",
    }
}

#[derive(Default)]
struct Late<'a>(&'a str);

impl<'de> Take<'de> for Late<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if name.eq_ignore_ascii_case("server-timing") {
            self.0 = raw(map)?;
            return Ok(());
        }
        ().field(name, map)
    }
}

#[cfg(test)]
mod tests;
