//! Text Generation Inference's `/generate_stream` and `/generate`.
//!
//! An event is one token. A special token (end of sequence and the like) is no text, since the
//! server leaves it out of the text that it returns; but it is a token, since the server counts it.

use serde::de::MapAccess;

use super::found::{Choice, Found};
use super::lenient::{Fill, Length, Take, count, inside, lenient, raw, raw_string};
use super::native::{self, finish, is_true, number};
use super::openai;
use crate::event::{Fault, Finish, OutputKind, Usage};
use crate::shape::Spots;

/// An event of a stream.
pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    native::read::<Event<'_>>(json)
}

/// A whole document, whose text is that which ends a stream.
pub(super) fn document(json: &str) -> Result<Found<'_>, serde_json::Error> {
    native::read::<Document<'_>>(json)
}

#[derive(Default)]
struct Document<'a>(Event<'a>);

impl<'de> Take<'de> for Document<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        self.0.field(name, map)
    }
}

impl<'a> From<Document<'a>> for Found<'a> {
    fn from(Document(event): Document<'a>) -> Self {
        let mut choice = Choice { tokens: event.details.tokens, ..Choice::default() };
        choice.push(OutputKind::Content, event.generated_text.map_or("", inside));
        event.found(choice)
    }
}

#[derive(Default)]
struct Event<'a> {
    index: &'a str,
    token: Token<'a>,
    /// As it is written, with its quotes.
    generated_text: Option<&'a str>,
    details: Details,
    error: Option<Fault<'a>>,
    error_type: &'a str,
}

impl<'de> Take<'de> for Event<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "index" => self.index = raw(map)?,
            "token" => map.next_value_seed(Fill(&mut self.token))?,
            "generated_text" => {
                self.generated_text = Some(raw(map)?).filter(|json| json.starts_with('"'));
            }
            "details" => map.next_value_seed(Fill(&mut self.details))?,
            "error" => self.error = openai::fault(raw(map)?),
            "error_type" => self.error_type = raw_string(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

impl<'a> From<Event<'a>> for Found<'a> {
    fn from(event: Event<'a>) -> Self {
        let Token { id, text, special, logprob } = event.token;
        let tokens = u32::from(!text.is_empty() || count(id).is_some());
        let mut choice = Choice { tokens, ..Choice::default() };
        if !special {
            choice.push(OutputKind::Content, text);
        }
        // Without text it is the id that makes it a token.
        let id = if text.is_empty() { "" } else { id };
        let idle = [event.index, id, logprob];
        Self { spots: Spots { idle, ..Spots::default() }, ..event.found(choice) }
    }
}

impl<'a> Event<'a> {
    fn found(self, mut choice: Choice<'a>) -> Found<'a> {
        let done = self.generated_text.is_some();
        choice.finish = self.details.finish.or(done.then_some(Finish::Other));
        let kind = self.error_type;
        let fault = self.error.map(|fault| match fault.code {
            None if !kind.is_empty() => Fault { code: Some(kind.into()), ..fault },
            _ => fault,
        });
        Found { choice, usage: self.details.usage().known(), fault, done, ..Found::default() }
    }
}

#[derive(Default)]
struct Token<'a> {
    id: &'a str,
    text: &'a str,
    special: bool,
    logprob: &'a str,
}

impl<'de> Take<'de> for Token<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "id" => self.id = raw(map)?,
            "text" => self.text = raw_string(map)?,
            "special" => self.special = is_true(map)?,
            "logprob" => self.logprob = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Details {
    finish: Option<Finish>,
    generated_tokens: Option<u64>,
    input_length: Option<u64>,
    /// Tokens of the prompt, which a document lists if asked.
    prefill: u32,
    /// Tokens generated, which a document lists.
    tokens: u32,
}

impl Details {
    fn usage(&self) -> Usage {
        let listed = (self.prefill > 0).then_some(u64::from(self.prefill));
        Usage {
            input_tokens: self.input_length.or(listed),
            output_tokens: self.generated_tokens,
            ..Usage::default()
        }
    }
}

impl<'de> Take<'de> for Details {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "finish_reason" => self.finish = finish(map)?,
            "generated_tokens" => self.generated_tokens = number(map)?,
            "input_length" => self.input_length = number(map)?,
            "prefill" => self.prefill = lenient::<_, Length>(map)?.0,
            "tokens" => self.tokens = lenient::<_, Length>(map)?.0,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SSE, broken, document, stream, without};
    use crate::dialect::{Decoder, Dialect::TgiGenerate as TGI};
    use crate::sse::Message;

    fn event(index: u32, text: &str, special: bool, ending: &str) -> String {
        format!(
            "data:{{\"index\":{index},\"token\":{{\"id\":{},\"text\":\"{text}\",\"logprob\":-{}.25,\
             \"special\":{special}}},{ending}}}\n\n",
            index * 31,
            index % 3
        )
    }

    const OPEN: &str = "\"generated_text\":null,\"details\":null";

    fn last(reason: &str) -> String {
        format!(
            "\"generated_text\":\"un deux\",\"details\":{{\"finish_reason\":\"{reason}\",\
             \"generated_tokens\":3,\"seed\":null,\"input_length\":5}}"
        )
    }

    #[test]
    fn an_event_is_a_token_and_the_last_one_ends_it() {
        let body = event(1, "un", false, OPEN)
            + &event(2, " de", false, OPEN)
            + &event(3, "ux", false, &last("length"));
        let seen = ["content <un> #1", "content < de> #1", "content <ux> #1 length 5>3 done"];
        assert_eq!(stream(&TGI, SSE, &body), seen);
    }

    #[test]
    fn a_special_token_is_a_token_without_text() {
        let body = event(1, "un", false, OPEN)
            + &event(2, "<think>", true, OPEN)
            + &event(3, "</s>", true, &last("eos_token"));
        let seen = ["content <un> #1", "ids #1", "ids #1 stop 5>3 done"];
        assert_eq!(stream(&TGI, SSE, &body), seen);
    }

    #[test]
    fn the_end_may_come_without_details_and_with_an_empty_text() {
        let body = event(1, "", false, "\"generated_text\":\"\",\"details\":null");
        assert_eq!(stream(&TGI, SSE, &body), ["ids #1 other done"]);
        let body = event(1, "x", false, &last("stop_sequence"));
        assert_eq!(stream(&TGI, SSE, &body), ["content <x> #1 stop 5>3 done"]);
    }

    #[test]
    fn errors_inside_a_200() {
        let body = event(1, "un", false, OPEN)
            + "data:{\"error\":\"Model is overloaded\",\"error_type\":\"overloaded\"}\n\n";
        let seen = ["content <un> #1", "fault <Model is overloaded> overloaded"];
        assert_eq!(stream(&TGI, SSE, &body), seen);
        assert_eq!(stream(&TGI, SSE, "data:{\"error\":\"x\"}\n\n"), ["fault <x>"]);
    }

    #[test]
    fn a_stream_that_is_cut_off_does_not_end() {
        let whole = event(1, "un", false, OPEN);
        let seen = broken(&TGI, SSE, &format!(":\n\n{whole}{}", &whole[..20]));
        assert_eq!(seen, ["content <un> #1", "empty"]);
        // Nor does one that is whole but for its last event.
        assert_eq!(stream(&TGI, SSE, &whole), ["content <un> #1"]);
    }

    #[test]
    fn documents_are_one_object_or_a_list() {
        let one = "{\"generated_text\":\"un deux\",\"details\":{\"finish_reason\":\"eos_token\",\
                   \"generated_tokens\":2,\"prefill\":[{\"id\":1},{\"id\":2},{\"id\":3}],\
                   \"tokens\":[{\"id\":8,\"text\":\"un\"},{\"id\":9,\"text\":\" deux\"}]}}";
        let seen = "content <un deux> #2 stop 3>2 done";
        assert_eq!(document(&TGI, one), [seen]);
        assert_eq!(document(&TGI, &format!("[{one}]")), [seen]);
        let bare = "{\"generated_text\":\"un\"}";
        assert_eq!(document(&TGI, bare), ["content <un> other done"]);
        let error = "{\"error\":\"too long\",\"error_type\":\"validation\"}";
        assert_eq!(document(&TGI, error), ["fault <too long> validation"]);
    }

    #[test]
    fn what_is_absent_or_of_another_type_changes_nothing_else() {
        let full = event(1, "x", false, &last("length"));
        let without = |field| without(&TGI, full.trim().strip_prefix("data:").unwrap(), field);
        assert_eq!(without("index"), "content <x> #1 length 5>3 done");
        assert_eq!(without("token"), "tail length 5>3 done");
        assert_eq!(without("token.id"), "content <x> #1 length 5>3 done");
        assert_eq!(without("token.text"), "ids #1 length 5>3 done");
        assert_eq!(without("token.special"), "content <x> #1 length 5>3 done");
        assert_eq!(without("details"), "content <x> #1 other done");
        assert_eq!(without("details.finish_reason"), "content <x> #1 other 5>3 done");
        assert_eq!(without("details.generated_tokens"), "content <x> #1 length 5>- done");
    }

    #[test]
    fn most_events_need_no_json() {
        let mut decoder = Decoder::new(TGI);
        for index in 1..9 {
            let event = event(index, "x", false, OPEN);
            let data = event.trim().strip_prefix("data:").unwrap().as_bytes();
            assert_eq!(decoder.finds(data), index > 1);
            decoder.event(Message { name: b"", data });
        }
        let data = event(9, "</s>", true, OPEN);
        assert!(!decoder.finds(data.trim().strip_prefix("data:").unwrap().as_bytes()));
    }
}
