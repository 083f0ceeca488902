//! Ollama's `/api/generate`, and what it shares with `/api/chat`.

use serde::de::{MapAccess, SeqAccess};

use super::found::{Choice, Found, Pieces};
use super::lenient::{Fill, Take, inside, lenient, raw, raw_string};
use super::native::{self, finish, is_true, number};
use super::openai;
use super::server_times;
use crate::event::{Fault, Finish, OutputKind, Usage};
use crate::shape::Spots;
use crate::times::ServerTimes;

pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    native::read::<Answer<'_>>(json)
}

#[derive(Default)]
struct Answer<'a> {
    said: Said<'a>,
    outer: Outer<'a>,
}

impl<'de> Take<'de> for Answer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "response" => self.said.content = raw_string(map)?,
            "thinking" => self.said.thinking = raw_string(map)?,
            "tool_calls" => map.next_value_seed(Fill(&mut self.said.calls))?,
            _ => self.outer.field(name, map)?,
        }
        Ok(())
    }
}

impl<'a> From<Answer<'a>> for Found<'a> {
    fn from(Answer { said, outer }: Answer<'a>) -> Self {
        outer.found(said.into())
    }
}

/// What the model said.
#[derive(Default)]
pub(super) struct Said<'a> {
    pub(super) role: bool,
    pub(super) content: &'a str,
    pub(super) thinking: &'a str,
    pub(super) calls: Calls<'a>,
}

impl<'a> From<Said<'a>> for Choice<'a> {
    fn from(said: Said<'a>) -> Self {
        let mut choice = Self { role: said.role, ..Self::default() };
        choice.push(OutputKind::Content, said.content);
        choice.push_all(OutputKind::ToolCall, said.calls.0);
        choice.reasoning.push(said.thinking);
        choice
    }
}

/// What stands around what the model said.
#[derive(Default)]
pub(super) struct Outer<'a> {
    done: bool,
    finish: Option<Finish>,
    usage: Usage,
    error: Option<Fault<'a>>,
    times: ServerTimes,
    created_at: &'a str,
}

impl<'de> Take<'de> for Outer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "done" => self.done = is_true(map)?,
            "done_reason" => self.finish = finish(map)?,
            "prompt_eval_count" => self.usage.input_tokens = number(map)?,
            "eval_count" => self.usage.output_tokens = number(map)?,
            "error" => self.error = openai::fault(raw(map)?),
            "created_at" => self.created_at = raw(map)?,
            _ => server_times::ollama(&mut self.times, name, map)?,
        }
        Ok(())
    }
}

impl<'a> Outer<'a> {
    pub(super) fn found(self, mut choice: Choice<'a>) -> Found<'a> {
        choice.finish = self.finish.or(self.done.then_some(Finish::Other));
        Found {
            choice,
            usage: self.usage.known(),
            fault: self.error,
            times: self.times,
            done: self.done,
            spots: Spots { idle: [self.created_at, "", ""], ..Spots::default() },
            ..Found::default()
        }
    }
}

/// The names and arguments of tool calls, in order. Arguments are an object, kept as its JSON.
#[derive(Default)]
pub(super) struct Calls<'a>(Pieces<'a>);

impl<'de> Take<'de> for Calls<'de> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut call = Call::default();
        if list.next_element_seed(Fill(&mut call))?.is_none() {
            return Ok(false);
        }
        self.0.push(call.function.name);
        self.0.push(call.function.arguments);
        Ok(true)
    }
}

#[derive(Default)]
struct Call<'a> {
    function: Function<'a>,
}

impl<'de> Take<'de> for Call<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "function" => self.function = lenient(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'de> Take<'de> for Function<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "name" => self.name = raw_string(map)?,
            "arguments" => {
                let json = raw(map)?;
                self.arguments = if json.starts_with('{') { json } else { inside(json) };
            }
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NDJSON, broken, document, stream, without};
    use crate::dialect::Dialect::OllamaGenerate as OLLAMA;

    fn line(what: &str) -> String {
        format!("{{\"model\":\"m\",\"created_at\":\"2026-01-02T03:04:05.678Z\",{what}}}\n")
    }

    #[test]
    fn thinking_an_answer_and_its_end() {
        let body = line("\"response\":\"\",\"thinking\":\"hm\",\"done\":false")
            + &line("\"response\":\"ja\",\"done\":false")
            + "\r\n"
            + &line("\"response\":\" doch\",\"done\":false")
            + &line(
                "\"response\":\"\",\"done\":true,\"done_reason\":\"length\",\"context\":[1,2],\
                 \"total_duration\":9,\"prompt_eval_count\":7,\"eval_count\":3",
            );
        let seen = ["reasoning (hm)", "content <ja>", "content < doch>", "tail length 7>3 done"];
        assert_eq!(stream(&OLLAMA, NDJSON, &body), seen);
        assert_eq!(stream(&OLLAMA, NDJSON, body.trim_end()), seen);
    }

    #[test]
    fn the_end_keeps_its_text_and_may_lack_reason_and_counts() {
        let body = line("\"response\":\"ja\",\"done\":true,\"eval_count\":1");
        assert_eq!(stream(&OLLAMA, NDJSON, &body), ["content <ja> other ->1 done"]);
        let load = line("\"response\":\"\",\"done\":true,\"done_reason\":\"load\"");
        assert_eq!(stream(&OLLAMA, NDJSON, &load), ["tail other done"]);
    }

    #[test]
    fn a_stream_that_is_cut_off_does_not_end() {
        let whole = line("\"response\":\"ja\",\"done\":false");
        let seen = broken(&OLLAMA, NDJSON, &format!("{whole}{}", &whole[..30]));
        assert_eq!(seen, ["content <ja>", "empty"]);
        assert_eq!(stream(&OLLAMA, NDJSON, &whole), ["content <ja>"]);
    }

    #[test]
    fn a_document_is_the_same_object() {
        let one = line(
            "\"response\":\"ja doch\",\"thinking\":\"hm\",\"done\":true,\"done_reason\":\"stop\",\
             \"eval_count\":3",
        );
        assert_eq!(document(&OLLAMA, &one), ["content <ja doch> (hm) stop ->3 done"]);
        assert_eq!(document(&OLLAMA, "{\"error\":\"no such model\"}"), ["fault <no such model>"]);
    }

    #[test]
    fn what_is_absent_or_of_another_type_changes_nothing_else() {
        let full = line(
            "\"response\":\"ja\",\"thinking\":\"hm\",\"done\":true,\"done_reason\":\"stop\",\
             \"prompt_eval_count\":7,\"eval_count\":3",
        );
        let without = |field| without(&OLLAMA, &full, field);
        assert_eq!(without("response"), "reasoning (hm) stop 7>3 done");
        assert_eq!(without("thinking"), "content <ja> stop 7>3 done");
        assert_eq!(without("done"), "content <ja> (hm) stop 7>3");
        assert_eq!(without("done_reason"), "content <ja> (hm) other 7>3 done");
        assert_eq!(without("eval_count"), "content <ja> (hm) stop 7>- done");
        assert_eq!(without("prompt_eval_count"), "content <ja> (hm) stop ->3 done");
    }
}
