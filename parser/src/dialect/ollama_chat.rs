//! Ollama's `/api/chat`: what `/api/generate` has, with the text in a message.

use serde::de::MapAccess;

use super::found::Found;
use super::lenient::{Fill, Take, raw_string};
use super::native;
use super::ollama_generate::{Outer, Said};

pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    native::read::<Answer<'_>>(json)
}

#[derive(Default)]
struct Answer<'a> {
    message: Message<'a>,
    outer: Outer<'a>,
}

impl<'de> Take<'de> for Answer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "message" => map.next_value_seed(Fill(&mut self.message))?,
            _ => self.outer.field(name, map)?,
        }
        Ok(())
    }
}

impl<'a> From<Answer<'a>> for Found<'a> {
    fn from(Answer { message, outer }: Answer<'a>) -> Self {
        outer.found(message.0.into())
    }
}

#[derive(Default)]
struct Message<'a>(Said<'a>);

impl<'de> Take<'de> for Message<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        let Self(said) = self;
        match name {
            "role" => said.role = !raw_string(map)?.is_empty(),
            "content" => said.content = raw_string(map)?,
            "thinking" => said.thinking = raw_string(map)?,
            "tool_calls" => map.next_value_seed(Fill(&mut said.calls))?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        JSON, NDJSON, SSE, answer, broken, document, read, stream, with_length, without,
    };
    use crate::ErrorKind;
    use crate::answer::{Answer, Limits, Settings};
    use crate::dialect::Decoder;
    use crate::dialect::Dialect::{OllamaChat as OLLAMA, OpenaiChat};
    use crate::sse::Message;

    fn line(second: u32, message: &str, rest: &str) -> String {
        format!(
            "{{\"model\":\"m\",\"created_at\":\"2026-01-02T03:04:{second:02}.1234567Z\",\
             \"message\":{{\"role\":\"assistant\",{message}}},{rest}}}\n"
        )
    }

    const OPEN: &str = "\"done\":false";
    const LAST: &str = "\"done_reason\":\"stop\",\"done\":true,\"total_duration\":5191566416,\
                        \"prompt_eval_count\":26,\"eval_count\":4";

    fn body() -> String {
        line(1, "\"content\":\"\",\"thinking\":\"hm\"", OPEN)
            + &line(2, "\"content\":\"ja\"", OPEN)
            + &line(3, "\"content\":\", \\\"é\\\"\"", OPEN)
            + &line(4, "\"content\":\"\"", LAST)
    }

    const SEEN: [&str; 4] =
        ["reasoning (hm)", "content <ja>", r#"content <, \"é\">"#, "tail stop 26>4 done"];

    #[test]
    fn thinking_an_answer_and_its_end() {
        assert_eq!(stream(&OLLAMA, NDJSON, &body()), SEEN);
        assert_eq!(stream(&OLLAMA, NDJSON, &body().replace('\n', "\r\n\r\n")), SEEN);
        assert_eq!(stream(&OLLAMA, NDJSON, &format!("\u{feff}{}", body().trim_end())), SEEN);
    }

    #[test]
    fn a_stream_of_lines_is_one_under_any_other_name() {
        for content in [JSON, "text/plain", "application/octet-stream", "application/jsonl"] {
            assert_eq!(stream(&OLLAMA, content, &body()), SEEN, "{content}");
        }
        let events: String = body().lines().map(|line| format!("data: {line}\n\n")).collect();
        assert_eq!(stream(&OLLAMA, SSE, &events), SEEN);
    }

    #[test]
    fn for_a_dialect_without_lines_they_are_no_stream() {
        let mut answer = answer(&OpenaiChat, true);
        read(&mut answer, [with_length(NDJSON, &body())]);
        assert!(answer.not_streaming());
    }

    #[test]
    fn what_is_no_line_of_json_is_malformed_among_others_and_no_stream_alone() {
        let mut answer = answer(&OLLAMA, true);
        let mixed = body().replacen('\n', "\n<oops>\n", 1);
        let seen = read(&mut answer, [with_length(NDJSON, &mixed)]);
        assert_eq!(seen[2], "malformed at 0");
        assert!(seen[3..6].iter().eq(&SEEN[1..]));
        assert!(!answer.not_streaming());

        let page = "<html>\n<body>busy</body>\n</html>";
        read(&mut answer, [with_length("text/html", page)]);
        assert!(answer.not_streaming());
        assert_eq!(answer.error_body(), page.as_bytes());

        read(&mut answer, [with_length(NDJSON, "")]);
        assert!(!answer.not_streaming());
    }

    #[test]
    fn an_error_spread_over_lines_is_found() {
        let error = "{\n  \"error\": \"model is loading\"\n}";
        for body in [error, &format!("{error}\n")] {
            let seen = stream(&OLLAMA, JSON, body);
            assert_eq!(seen.last().unwrap(), "fault <model is loading>");
            assert!(seen[..seen.len() - 1].iter().all(|event| event.starts_with("malformed")));
        }
    }

    #[test]
    fn tools_are_called_by_name_and_arguments() {
        let call = "\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"add\",\
                    \"arguments\":{\"x\":1,\"y\":\"\\n\"}}},{\"id\":\"c\",\"function\":\
                    {\"name\":\"now\",\"arguments\":{}}}]";
        let body = line(1, call, OPEN) + &line(2, "\"content\":\"\"", LAST);
        let seen = [r#"tool <add{"x":1,"y":"\n"}now{}>"#, "tail stop 26>4 done"];
        assert_eq!(stream(&OLLAMA, NDJSON, &body), seen);
    }

    #[test]
    fn an_error_line_inside_a_200() {
        let body = line(1, "\"content\":\"ja\"", OPEN) + "{\"error\":\"runner has stopped\"}\n";
        let seen = ["content <ja>", "fault <runner has stopped>"];
        assert_eq!(stream(&OLLAMA, NDJSON, &body), seen);
        assert_eq!(stream(&OLLAMA, NDJSON, body.trim_end()), seen);
    }

    #[test]
    fn after_the_end_nothing_counts() {
        let body = body() + &line(9, "\"content\":\"more\"", OPEN) + "{";
        let seen = stream(&OLLAMA, NDJSON, &body);
        assert!(seen.starts_with(&SEEN.map(str::to_owned)));
        assert_eq!(seen[4..], ["empty", "empty"]);
    }

    #[test]
    fn a_stream_that_is_cut_off_does_not_end() {
        let all = body();
        let cut = all.trim_end().rfind('\n').unwrap();
        assert_eq!(broken(&OLLAMA, NDJSON, &all[..=cut]), SEEN[..3]);
        assert_eq!(broken(&OLLAMA, NDJSON, &all[..cut + 9])[..3], SEEN[..3]);
        assert_eq!(stream(&OLLAMA, NDJSON, &all[..=cut]), SEEN[..3]);
    }

    #[test]
    fn a_line_above_the_limit_is_refused_at_the_same_byte_however_it_is_cut() {
        let limits = Limits { event_bytes: 150, ..Limits::default() };
        let settings = Settings { dialect: OLLAMA, stream: true, limits };
        let long = format!("\"content\":\"{}\"", "x".repeat(80));
        let body = line(1, "\"content\":\"ja\"", OPEN) + &line(2, &long, OPEN);
        let wire = with_length(NDJSON, &body);
        let at = wire.len() - line(2, &long, OPEN).len() + 150;
        let mut answer = Answer::new(settings);
        for piece in 1..wire.len() {
            answer.reset();
            let mut pieces = wire.as_bytes().chunks(piece);
            let mut rest = &b""[..];
            let error = loop {
                match answer.next(rest) {
                    Ok(step) if step.item.is_some() => rest = &rest[step.used..],
                    Ok(_) => rest = pieces.next().unwrap(),
                    Err(error) => break error,
                }
            };
            assert_eq!((error.kind, error.at), (ErrorKind::SizeLimit, at), "in pieces of {piece}");
        }
    }

    #[test]
    fn a_document_is_the_same_object() {
        let one = line(1, "\"content\":\"ja\",\"thinking\":\"hm\"", LAST);
        assert_eq!(document(&OLLAMA, &one), ["content <ja> (hm) stop 26>4 done"]);
    }

    #[test]
    fn what_is_absent_or_of_another_type_changes_nothing_else() {
        let full = line(1, "\"content\":\"ja\"", LAST);
        let without = |field| without(&OLLAMA, &full, field);
        assert_eq!(without("message"), "tail stop 26>4 done");
        assert_eq!(without("message.content"), "tail stop 26>4 done");
        assert_eq!(without("message.role"), "content <ja> stop 26>4 done");
        assert_eq!(without("done"), "content <ja> stop 26>4");
        assert_eq!(without("done_reason"), "content <ja> other 26>4 done");
        let call = "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]";
        let call = line(1, call, OPEN);
        for other in ["null", "7", "\"\"", "[]"] {
            let call = call.replace("{\"x\":1}", other);
            assert_eq!(stream(&OLLAMA, NDJSON, &call), ["tool <f>"]);
        }
    }

    #[test]
    fn most_lines_need_no_json() {
        let mut decoder = Decoder::new(OLLAMA);
        for second in 1..9 {
            let line = line(second, "\"content\":\"x\"", OPEN);
            let data = line.trim_end().as_bytes();
            assert_eq!(decoder.finds(data), second > 1);
            decoder.event(Message { name: b"", data });
        }
    }
}
