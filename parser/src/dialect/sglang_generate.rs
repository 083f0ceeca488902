//! SGLang's `/generate`. Counts are of all tokens so far, and so is the text unless the server is
//! told otherwise: see [`SoFar`](super::so_far::SoFar).

use serde::de::MapAccess;

use super::found::Found;
use super::lenient::{Fill, Length, Take, fill, inside, raw, raw_string};
use super::native::{self, number};
use super::openai;
use super::server_times;
use crate::event::{Fault, Finish, OutputKind, Usage};

pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    native::read::<Answer<'_>>(json)
}

#[derive(Default)]
struct Answer<'a> {
    text: &'a str,
    output_ids: Length,
    meta: Meta<'a>,
    error: Option<Fault<'a>>,
    object: &'a str,
    message: &'a str,
    code: &'a str,
}

impl<'de> Take<'de> for Answer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "text" => self.text = raw_string(map)?,
            "output_ids" => map.next_value_seed(Fill(&mut self.output_ids))?,
            "meta_info" => map.next_value_seed(Fill(&mut self.meta))?,
            "error" => self.error = openai::fault(raw(map)?),
            "object" => self.object = raw_string(map)?,
            "message" => self.message = raw_string(map)?,
            "code" => self.code = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

impl<'a> From<Answer<'a>> for Found<'a> {
    fn from(from: Answer<'a>) -> Self {
        let Answer { text, output_ids, meta, error, object, message, code } = from;
        let mut found = Self { usage: meta.usage.known(), ..Self::default() };
        found.fault = error.or(meta.abort).or_else(|| openai::flat_fault(object, message, code));
        found.times = meta.told.times();
        found.choice.finish = meta.finish;
        found.choice.push(OutputKind::Content, text);
        // The list may be of all ids so far or of the new ones: only the count beside it tells.
        if meta.usage.output_tokens.is_some() {
            found.choice.tokens = output_ids.0;
        } else if output_ids.0 > 0 && text.is_empty() {
            found.choice.mark(OutputKind::TokenIds);
        }
        found
    }
}

#[derive(Default)]
struct Meta<'a> {
    usage: Usage,
    finish: Option<Finish>,
    abort: Option<Fault<'a>>,
    told: server_times::Meta,
}

impl<'de> Take<'de> for Meta<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "prompt_tokens" => self.usage.input_tokens = number(map)?,
            "completion_tokens" => self.usage.output_tokens = number(map)?,
            "reasoning_tokens" => self.usage.reasoning_tokens = number(map)?,
            "cached_tokens" => self.usage.cached_tokens = number(map)?,
            "finish_reason" => (self.finish, self.abort) = reason(raw(map)?),
            _ => self.told.member(name, map)?,
        }
        Ok(())
    }
}

/// Why it ended: an object, or a word. The server's own abort is an error if it says why.
fn reason(json: &str) -> (Option<Finish>, Option<Fault<'_>>) {
    if json.starts_with('"') {
        return (Finish::from_word(inside(json)), None);
    }
    let mut reason = Reason::default();
    if fill(json, &mut reason).is_err() {
        return (None, None);
    }
    let finish = Finish::from_word(reason.kind);
    if reason.kind != "abort" || (reason.message.is_empty() && reason.status.is_none()) {
        return (finish, None);
    }
    let fault = openai::fault(json).map(|fault| match reason.status {
        Some(status) => Fault { code: Some(status.to_string().into()), ..fault },
        None => fault,
    });
    (finish, fault)
}

#[derive(Default)]
struct Reason<'a> {
    kind: &'a str,
    message: &'a str,
    status: Option<u64>,
}

impl<'de> Take<'de> for Reason<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "type" => self.kind = raw_string(map)?,
            "message" => self.message = raw_string(map)?,
            "status_code" => self.status = number(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SSE, broken, document, stream, without};
    use crate::dialect::Dialect::SglangGenerate as SGLANG;

    fn event(text: &str, ids: &str, tokens: u64, finish: &str) -> String {
        format!(
            "data: {{\"text\":\"{text}\",\"output_ids\":[{ids}],\"meta_info\":{{\"id\":\"q\",\
             \"finish_reason\":{finish},\"prompt_tokens\":4,\"completion_tokens\":{tokens},\
             \"cached_tokens\":0}}}}\n\n"
        )
    }

    const LENGTH: &str = "{\"type\":\"length\",\"length\":4}";
    const DONE: &str = "data: [DONE]\n\n";

    #[test]
    fn of_a_text_that_grows_only_the_new_part_counts() {
        let body = [
            event("Le", "11", 1, "null"),
            event("Le ch", "11,12", 2, "null"),
            event("Le ch\\u00e2t", "11,12,13,14", 4, "null"),
            event("Le ch\\u00e2t", "11,12,13,14", 4, LENGTH),
            DONE.into(),
        ];
        let seen = [
            "content <Le> #1 4>1 cached 0",
            "content < ch> #1 4>2 cached 0",
            r"content <\u00e2t> #2 4>4 cached 0",
            "tail length 4>4 cached 0",
            "done",
        ];
        assert_eq!(stream(&SGLANG, SSE, &body.concat()), seen);
    }

    #[test]
    fn new_parts_alone_are_taken_as_they_come() {
        let body = [
            event("Le", "11", 1, "null"),
            event(" ch", "12", 2, "null"),
            event(" ch", "12", 3, "null"),
            event("at", "13", 4, LENGTH),
            DONE.into(),
        ];
        let seen = [
            "content <Le> #1 4>1 cached 0",
            "content < ch> #1 4>2 cached 0",
            "content < ch> #1 4>3 cached 0",
            "content <at> #1 length 4>4 cached 0",
            "done",
        ];
        assert_eq!(stream(&SGLANG, SSE, &body.concat()), seen);
    }

    #[test]
    fn new_tokens_without_new_text_are_ids_and_text_without_new_tokens_has_none() {
        let body = [
            event("", "1", 1, "null"),
            event("", "1", 1, "null"),
            event("a", "1,2", 2, "null"),
            event("a", "1,2,3", 3, "null"),
            event("ab", "1,2,3", 3, "null"),
            event("abc", "1,2,3,4", 4, LENGTH),
        ];
        let seen = [
            "ids #1 4>1 cached 0",
            "tail 4>1 cached 0",
            "content <a> #1 4>2 cached 0",
            "ids #1 4>3 cached 0",
            "content <b> #0 4>3 cached 0",
            "content <c> #1 length 4>4 cached 0",
        ];
        assert_eq!(stream(&SGLANG, SSE, &body.concat()), seen);
    }

    #[test]
    fn a_server_without_tokenizer_sends_ids_alone() {
        let body = "data: {\"output_ids\":[7],\"meta_info\":{\"completion_tokens\":1}}\n\n\
                    data: {\"output_ids\":[7,8,9],\"meta_info\":{\"completion_tokens\":3}}\n\n";
        assert_eq!(stream(&SGLANG, SSE, body), ["ids #1 ->1", "ids #2 ->3"]);
        let bare = "data: {\"output_ids\":[7]}\n\ndata: {\"output_ids\":[7,8]}\n\n";
        assert_eq!(stream(&SGLANG, SSE, bare), ["ids", "ids"]);
    }

    #[test]
    fn errors_inside_a_200() {
        let body = event("a", "1", 1, "null")
            + "data: {\"error\":{\"message\":\"out of blocks\",\"type\":\"Full\",\"code\":503}}\n\n"
            + DONE;
        let seen = ["content <a> #1 4>1 cached 0", "fault <out of blocks> 503", "done"];
        assert_eq!(stream(&SGLANG, SSE, &body), seen);
        let flat = "data: {\"object\":\"error\",\"message\":\"no such model\",\"code\":404}\n\n";
        assert_eq!(stream(&SGLANG, SSE, flat), ["fault <no such model> 404"]);
    }

    #[test]
    fn an_abort_is_an_error_if_it_says_why() {
        let with = |reason: &str| stream(&SGLANG, SSE, &event("a", "1", 1, reason)).concat();
        let abort = |rest: &str| with(&format!("{{\"type\":\"abort\"{rest}}}"));
        let said = ",\"message\":\"queue is full\",\"status_code\":503";
        assert_eq!(abort(said), "fault <queue is full> 503");
        assert_eq!(abort(",\"message\":\"gone\",\"status_code\":null"), "fault <gone> abort");
        assert!(abort(",\"status_code\":500").ends_with("500"));
        assert_eq!(abort(""), "content <a> #1 other 4>1 cached 0");
        assert_eq!(with("\"stop\""), "content <a> #1 stop 4>1 cached 0");
        assert_eq!(with("{\"type\":\"stop\",\"matched\":2}"), "content <a> #1 stop 4>1 cached 0");
    }

    #[test]
    fn every_response_starts_anew() {
        let body = event("same", "1", 1, "null") + &event("same text", "1,2", 2, LENGTH) + DONE;
        // `stream` reads it many times over in one answer.
        assert_eq!(stream(&SGLANG, SSE, &body).len(), 3);
    }

    #[test]
    fn a_stream_that_is_cut_off() {
        let whole = event("a", "1", 1, "null");
        let body = whole.clone() + &whole[..30];
        let seen = broken(&SGLANG, SSE, &body);
        assert_eq!(seen, ["content <a> #1 4>1 cached 0", "empty"]);
    }

    #[test]
    fn documents_are_one_object_or_a_list() {
        let one = "{\"text\":\"a b\",\"output_ids\":[1,2],\"meta_info\":{\"prompt_tokens\":3,\
                   \"completion_tokens\":2,\"reasoning_tokens\":1,\"finish_reason\":\
                   {\"type\":\"stop\"}}}";
        let seen = "content <a b> #2 stop 3>2 reasoning 1";
        assert_eq!(document(&SGLANG, one), [seen]);
        assert_eq!(document(&SGLANG, &format!("[{one}]")), [seen]);
        let both = document(&SGLANG, &format!("[{one},{one}]"));
        assert_eq!(both, ["content <a ba b> #4 stop 6>4 reasoning 2"]);
        assert_eq!(document(&SGLANG, "{\"error\":{\"message\":\"no\"}}"), ["fault <no>"]);
        assert_eq!(document(&SGLANG, "[]"), ["empty"]);
    }

    #[test]
    fn what_is_absent_or_of_another_type_changes_nothing_else() {
        let full = event("a", "1", 1, LENGTH);
        let full = full.trim().strip_prefix("data: ").unwrap();
        let without = |field| without(&SGLANG, full, field);
        assert_eq!(without("text"), "ids #1 length 4>1 cached 0");
        assert_eq!(without("output_ids"), "content <a> #1 length 4>1 cached 0");
        assert_eq!(without("meta_info"), "content <a>");
        assert_eq!(without("meta_info.prompt_tokens"), "content <a> #1 length ->1 cached 0");
        assert_eq!(without("meta_info.completion_tokens"), "content <a> length 4>- cached 0");
        assert_eq!(without("meta_info.finish_reason"), "content <a> #1 4>1 cached 0");
    }
}
