//! Triton's `/v2/models/M/generate_stream` and `/generate`. Whether a text is new or all so far
//! depends on what serves the model: see [`SoFar`](super::so_far::SoFar).

use serde::de::{MapAccess, SeqAccess};
use serde_json::value::RawValue;

use super::found::{Found, Pieces};
use super::lenient::{Take, fill, inside, raw, raw_string};
use super::native::{self, number};
use super::openai;
use crate::event::{Fault, Finish, OutputKind, Usage};

pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    native::read::<Answer<'_>>(json)
}

/// What vLLM as the backend adds if asked is here as well.
#[derive(Default)]
struct Answer<'a> {
    text: Texts<'a>,
    finish: Option<Finish>,
    /// Tokens of this event.
    output_tokens: Option<u64>,
    input_tokens: Option<u64>,
    error: Option<Fault<'a>>,
}

impl<'de> Take<'de> for Answer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "text_output" => self.text = Texts::read(raw(map)?),
            "finish_reason" => {
                self.finish = match raw_string(map)? {
                    "None" => None,
                    word => Finish::from_word(word),
                };
            }
            "num_output_tokens" => self.output_tokens = number(map)?,
            "num_input_tokens" => self.input_tokens = number(map)?,
            "error" => self.error = openai::fault(raw(map)?),
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

impl<'a> From<Answer<'a>> for Found<'a> {
    fn from(from: Answer<'a>) -> Self {
        let Answer { text, finish, output_tokens, input_tokens, error } = from;
        let usage = Usage { input_tokens, ..Usage::default() }.known();
        let mut found = Self { usage, fault: error, ..Self::default() };
        found.choice.finish = finish;
        found.choice.tokens = output_tokens.map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX));
        found.choice.push_all(OutputKind::Content, text.0);
        found
    }
}

/// A string, or a list of such, where the model's output is declared with more than one.
#[derive(Default)]
struct Texts<'a>(Pieces<'a>);

impl<'a> Texts<'a> {
    fn read(json: &'a str) -> Self {
        let mut texts = Self::default();
        if json.starts_with('[') {
            return fill(json, &mut texts).map_or(Self::default(), |()| texts);
        }
        texts.0.push(inside(json));
        texts
    }
}

impl<'de> Take<'de> for Texts<'de> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let Some(text) = list.next_element::<&'de RawValue>()? else { return Ok(false) };
        self.0.push(inside(text.get()));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        SSE, answer, broken, document, read, stream, until_close, without,
    };
    use crate::dialect::Dialect::TritonGenerate as TRITON;

    fn event(text: &str) -> String {
        format!(
            "data: {{\"model_name\":\"ensemble\",\"model_version\":\"1\",\"text_output\":\"{text}\"}}\n\n"
        )
    }

    #[test]
    fn new_parts_and_the_end_of_the_body() {
        let body = event("eins") + &event(" zwei") + &event("") + &event(" drei");
        let seen = ["content <eins>", "content < zwei>", "empty", "content < drei>", "done"];
        assert_eq!(stream(&TRITON, SSE, &body), seen);
    }

    #[test]
    fn texts_that_grow() {
        let body = event("eins") + &event("eins zw") + &event("eins zw") + &event("eins zwei");
        let seen = ["content <eins>", "content < zw>", "empty", "content <ei>", "done"];
        assert_eq!(stream(&TRITON, SSE, &body), seen);
    }

    #[test]
    fn the_last_event_may_lack_its_blank_line() {
        let body = event("eins") + event(" zwei").trim_end();
        let seen = ["content <eins>", "content < zwei>", "done"];
        assert_eq!(stream(&TRITON, SSE, &body), seen);
    }

    #[test]
    fn neither_an_error_nor_nothing_is_an_end() {
        let body = event("eins") + "data: {\"error\":\"queue limit\"}\n\n";
        let seen = ["content <eins>", "fault <queue limit>"];
        assert_eq!(stream(&TRITON, SSE, &body), seen);
        assert_eq!(stream(&TRITON, SSE, &event("")), ["empty"]);
        assert_eq!(stream(&TRITON, SSE, ""), [""; 0]);
    }

    #[test]
    fn a_body_that_is_cut_off_is_no_end() {
        let body = event("eins") + &event(" zwei")[..40];
        assert_eq!(broken(&TRITON, SSE, &body), ["content <eins>", "empty"]);
        assert_eq!(broken(&TRITON, SSE, &event("eins")), ["content <eins>"]);
    }

    #[test]
    fn a_body_that_ends_with_the_connection_is_an_end() {
        let mut answer = answer(&TRITON, true);
        let wire = until_close(SSE, &event("eins"));
        assert_eq!(read(&mut answer, [&wire]), ["head", "content <eins>", "done", "end"]);
    }

    #[test]
    fn what_vllm_adds_if_asked() {
        let body = "data: {\"text_output\":\"eins\",\"finish_reason\":\"None\",\
                    \"num_output_tokens\":2,\"num_input_tokens\":5}\n\n\
                    data: {\"text_output\":\" zwei\",\"finish_reason\":\"length\",\
                    \"num_output_tokens\":1,\"num_input_tokens\":5}\n\n";
        let seen = ["content <eins> #2 5>-", "content < zwei> #1 length 5>-", "done"];
        assert_eq!(stream(&TRITON, SSE, body), seen);
    }

    #[test]
    fn documents_hold_a_text_or_a_list_of_one() {
        assert_eq!(document(&TRITON, "{\"text_output\":\"a b\"}"), ["content <a b>", "done"]);
        assert_eq!(document(&TRITON, "{\"text_output\":[\"a b\"]}"), ["content <a b>", "done"]);
        assert_eq!(document(&TRITON, "{\"error\":\"no\"}"), ["fault <no>"]);
        assert_eq!(document(&TRITON, "{}"), ["empty"]);
    }

    #[test]
    fn what_is_absent_or_of_another_type_changes_nothing_else() {
        let full = "{\"text_output\":\"a\",\"finish_reason\":\"stop\",\"num_output_tokens\":1}";
        let without = |field| without(&TRITON, full, field);
        assert_eq!(without("text_output"), "ids #1 stop");
        assert_eq!(without("finish_reason"), "content <a> #1");
        assert_eq!(without("num_output_tokens"), "content <a> stop");
    }
}
