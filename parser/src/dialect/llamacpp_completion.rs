//! llama.cpp's `/completion`: every event has new text and the counts so far.

use serde::de::MapAccess;

use super::found::Found;
use super::lenient::{Fill, Take, count, raw, raw_string};
use super::native::{self, Ids, is_true, number};
use super::openai;
use super::server_times;
use crate::event::{Fault, Finish, OutputKind, Usage};
use crate::shape::{Count, Spots};

pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    native::read::<Answer<'_>>(json)
}

#[derive(Default)]
struct Answer<'a> {
    content: &'a str,
    tokens: Ids<'a>,
    stop: bool,
    stop_type: &'a str,
    /// Older servers say it so.
    stopped_limit: bool,
    stopped_itself: bool,
    /// Counts so far, as they are written.
    predicted: &'a str,
    evaluated: &'a str,
    /// The part of the work on the prompt that is done.
    progress: bool,
    timings: Option<Timings>,
    error: Option<Fault<'a>>,
    slot: &'a str,
    index: &'a str,
}

impl<'de> Take<'de> for Answer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "content" => self.content = raw_string(map)?,
            "tokens" => map.next_value_seed(Fill(&mut self.tokens))?,
            "stop" => self.stop = is_true(map)?,
            "stop_type" => self.stop_type = raw_string(map)?,
            "stopped_limit" => self.stopped_limit = is_true(map)?,
            "stopped_eos" | "stopped_word" => self.stopped_itself |= is_true(map)?,
            "tokens_predicted" => self.predicted = raw(map)?,
            "tokens_evaluated" => self.evaluated = raw(map)?,
            "prompt_progress" => self.progress = raw(map)?.starts_with('{'),
            "timings" => {
                let mut timings = Timings::default();
                map.next_value_seed(Fill(&mut timings))?;
                self.timings = Some(timings);
            }
            "error" => self.error = openai::fault(raw(map)?),
            "id_slot" => self.slot = raw(map)?,
            "index" => self.index = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

impl<'a> From<Answer<'a>> for Found<'a> {
    fn from(mut from: Answer<'a>) -> Self {
        let mut found = Self { fault: from.error.take(), done: from.stop, ..Self::default() };
        found.choice.push(OutputKind::Content, from.content);
        found.choice.tokens = from.tokens.count;
        found.choice.finish = from.stop.then(|| from.finish());
        found.times = from.timings.as_ref().map(|timings| timings.times.0).unwrap_or_default();
        // Before the first token there are counts as well, but they are a note.
        if !from.progress {
            found.usage = from.usage().known();
        }
        // With timings all is different anyway, and one count follows from two others.
        if from.timings.is_none() {
            let mut counts = [""; 5];
            counts[Count::Output as usize] = from.predicted;
            counts[Count::Input as usize] = from.evaluated;
            found.spots = Spots { idle: [from.tokens.only, from.slot, from.index], counts };
        }
        found
    }
}

impl Answer<'_> {
    fn finish(&self) -> Finish {
        match self.stop_type {
            "limit" => Finish::Length,
            "eos" | "word" => Finish::Stop,
            _ if self.stopped_limit => Finish::Length,
            _ if self.stopped_itself => Finish::Stop,
            _ => Finish::Other,
        }
    }

    /// `tokens_cached` is not among them: it is what the cache holds in the end, answer included.
    fn usage(&self) -> Usage {
        let input_tokens = count(self.evaluated);
        let timings = self.timings.as_ref();
        let cached_tokens = timings.and_then(|timings| {
            timings.cached.or_else(|| input_tokens?.checked_sub(timings.prompt?))
        });
        let output_tokens = count(self.predicted);
        Usage { input_tokens, output_tokens, cached_tokens, ..Usage::default() }
    }
}

#[derive(Default)]
struct Timings {
    cached: Option<u64>,
    /// Tokens of the prompt that were not in the cache.
    prompt: Option<u64>,
    times: server_times::Timings,
}

impl<'de> Take<'de> for Timings {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "cache_n" => self.cached = number(map)?,
            "prompt_n" => self.prompt = number(map)?,
            _ => self.times.member(name, map)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SSE, brief, broken, document, stream, without};
    use crate::dialect::{Decoder, Dialect::LlamacppCompletion as LLAMA};
    use crate::sse::Message;

    fn event(text: &str, ids: &str, predicted: u64) -> String {
        format!(
            "data: {{\"index\":0,\"content\":\"{text}\",\"tokens\":[{ids}],\"stop\":false,\
             \"id_slot\":3,\"tokens_predicted\":{predicted},\"tokens_evaluated\":6}}\n\n"
        )
    }

    fn last(text: &str, stop_type: &str, timings: &str) -> String {
        format!(
            "data: {{\"index\":0,\"content\":\"{text}\",\"tokens\":[],\"id_slot\":3,\"stop\":true,\
             \"tokens_predicted\":2,\"tokens_evaluated\":6,\"stop_type\":\"{stop_type}\",\
             \"tokens_cached\":7,\"timings\":{{{timings}\"prompt_ms\":1.5}}}}\n\n"
        )
    }

    #[test]
    fn tokens_and_the_event_that_ends_them() {
        let body = event("one", "8", 1) + &event(" two", "9", 2) + &last("", "limit", "");
        let seen = ["content <one> #1 6>1", "content < two> #1 6>2", "tail length 6>2 done"];
        assert_eq!(stream(&LLAMA, SSE, &body), seen);
    }

    #[test]
    fn the_event_that_ends_it_keeps_its_text() {
        let body = last("two", "word", "");
        assert_eq!(stream(&LLAMA, SSE, &body), ["content <two> stop 6>2 done"]);
        assert_eq!(stream(&LLAMA, SSE, &last("", "eos", "")), ["tail stop 6>2 done"]);
        assert_eq!(stream(&LLAMA, SSE, &last("", "none", "")), ["tail other 6>2 done"]);
        let old = "data: {\"content\":\"\",\"stop\":true,\"stopped_limit\":true}\n\n";
        assert_eq!(stream(&LLAMA, SSE, old), ["tail length done"]);
        let old = "data: {\"content\":\"\",\"stop\":true,\"stopped_eos\":true,\
                   \"stopped_word\":false,\"stopped_limit\":false}\n\n";
        assert_eq!(stream(&LLAMA, SSE, old), ["tail stop done"]);
    }

    #[test]
    fn the_cached_part_of_the_prompt_is_told_by_the_timings() {
        let with = |timings| stream(&LLAMA, SSE, &last("", "limit", timings)).concat();
        assert_eq!(with("\"cache_n\":4,"), "tail length 6>2 cached 4 done");
        assert_eq!(with("\"prompt_n\":5,"), "tail length 6>2 cached 1 done");
        assert_eq!(with("\"prompt_n\":7,"), "tail length 6>2 done");
    }

    #[test]
    fn progress_and_pings_are_no_tokens() {
        let progress = "data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"stop\":false,\
                        \"tokens_predicted\":0,\"tokens_evaluated\":6,\"prompt_progress\":\
                        {\"total\":6,\"cache\":0,\"processed\":3,\"time_ms\":2}}\n\n";
        let body = [progress, ":\n\n", &event("one", "", 1), &last("", "limit", "")].concat();
        let seen = ["empty", "content <one> 6>1", "tail length 6>2 done"];
        assert_eq!(stream(&LLAMA, SSE, &body), seen);
    }

    #[test]
    fn an_error_inside_a_200() {
        let body = event("one", "8", 1)
            + "data: {\"error\":{\"code\":500,\"message\":\"no room\",\"type\":\"server_error\"}}\n\n";
        let seen = ["content <one> #1 6>1", "fault <no room> 500"];
        assert_eq!(stream(&LLAMA, SSE, &body), seen);
    }

    #[test]
    fn a_stream_that_is_cut_off_does_not_end() {
        let body = event("one", "8", 1) + &last("", "limit", "")[..50];
        assert_eq!(broken(&LLAMA, SSE, &body), ["content <one> #1 6>1", "empty"]);
        assert_eq!(stream(&LLAMA, SSE, &event("one", "8", 1)), ["content <one> #1 6>1"]);
    }

    #[test]
    fn documents_are_one_object_or_a_list() {
        let one = "{\"index\":0,\"content\":\"one two\",\"tokens\":[8,9],\"stop\":true,\
                   \"tokens_predicted\":2,\"tokens_evaluated\":6,\"stop_type\":\"eos\"}";
        assert_eq!(document(&LLAMA, one), ["content <one two> #2 stop 6>2 done"]);
        let both = document(&LLAMA, &format!("[{one},{one}]"));
        assert_eq!(both, ["content <one twoone two> #4 stop 12>4 done"]);
        let error = "{\"error\":{\"code\":400,\"message\":\"no prompt\"}}";
        assert_eq!(document(&LLAMA, error), ["fault <no prompt> 400"]);
    }

    #[test]
    fn what_is_absent_or_of_another_type_changes_nothing_else() {
        let full = last("x", "limit", "\"cache_n\":4,");
        let full = full.trim().strip_prefix("data: ").unwrap();
        let without = |field| without(&LLAMA, full, field);
        assert_eq!(without("content"), "tail length 6>2 cached 4 done");
        assert_eq!(without("stop"), "content <x> 6>2 cached 4");
        assert_eq!(without("stop_type"), "content <x> other 6>2 cached 4 done");
        assert_eq!(without("tokens_predicted"), "content <x> length 6>- cached 4 done");
        assert_eq!(without("tokens_evaluated"), "content <x> length ->2 cached 4 done");
        assert_eq!(without("timings"), "content <x> length 6>2 done");
    }

    #[test]
    fn most_events_need_no_json() {
        let mut decoder = Decoder::new(LLAMA);
        for number in 1..9 {
            let event = event("x", &(number * 50).to_string(), number);
            let data = event.trim().strip_prefix("data: ").unwrap().as_bytes();
            assert_eq!(decoder.finds(data), number > 1);
            let read = brief(&decoder.event(Message { name: b"", data }));
            assert_eq!(read, format!("content <x> #1 6>{number}"));
        }
    }
}
