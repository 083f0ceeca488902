//! Rendering what is generated: response heads, server-sent events in chunks, whole bodies.

use crate::ask::Ask;
use crate::document::{Extra, SERVER, error_object, escaped, json, put, put_extra};
use crate::http::Endpoint;
use crate::settings::{Settings, UsageMode};

/// What ends a body in chunks.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// What ends a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// What is the same in every answer of a server.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Model and word as they stand inside a JSON string.
    model: String,
    word: String,
    usage: UsageMode,
    role: bool,
}

/// What is the same in every event of one answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Which API it answers.
    pub(crate) endpoint: Endpoint,
    /// The request's number.
    pub(crate) number: u64,
    /// When it was made, in seconds since 1970.
    pub(crate) created: u64,
    /// Prompt tokens, for usage.
    pub(crate) prompt_tokens: u32,
    /// Output tokens of the whole answer.
    pub(crate) output_tokens: u32,
    /// Whether it ends because its maximum is reached.
    pub(crate) capped: bool,
    /// Whether the connection ends after it.
    pub(crate) close: bool,
    /// Whether usage is told at the end.
    pub(crate) usage: bool,
    /// Whether every output event tells the usage so far.
    pub(crate) continuous: bool,
    /// By how much usage overstates the output tokens; 1 is the truth.
    pub(crate) usage_factor: u32,
    /// Whether a stream starts with a role event.
    pub(crate) role: bool,
    /// Whether a stream ends with `[DONE]`.
    pub(crate) done: bool,
    /// Prompt tokens that a cache had, where usage tells of them.
    pub(crate) cached: Option<u32>,
}

impl Wire {
    /// Prepares what the settings decide.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            model: escaped(&settings.model),
            word: escaped(&settings.word),
            usage: settings.usage,
            role: settings.role_event,
        }
    }

    /// The model's name as it stands inside of a quoted string.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// The answer to `ask`, which is request `number`.
    pub(crate) fn answer(&self, endpoint: Endpoint, ask: &Ask, default_tokens: u32) -> Answer {
        let usage = match self.usage {
            UsageMode::Requested => ask.include_usage || !ask.stream,
            UsageMode::Always => true,
            UsageMode::Never => false,
        };
        Answer {
            endpoint,
            number: 0,
            created: 0,
            prompt_tokens: ask.prompt_tokens,
            output_tokens: ask.max_tokens.unwrap_or(default_tokens),
            capped: ask.max_tokens.is_some(),
            close: false,
            usage,
            // SGLang's own events carry all of the answer so far, so no two are alike.
            continuous: usage && ask.continuous_usage || endpoint == Endpoint::Native,
            usage_factor: 1,
            role: self.role && endpoint == Endpoint::Chat,
            done: true,
            cached: None,
        }
    }

    /// The head of a stream, with the role event where there is one.
    pub(crate) fn head(&self, out: &mut Vec<u8>, answer: &Answer, request_id: Option<&str>) {
        put(out, format_args!("HTTP/1.1 200 OK\r\n{SERVER}"));
        out.extend_from_slice(b"content-type: text/event-stream; charset=utf-8\r\n");
        out.extend_from_slice(b"cache-control: no-cache\r\n");
        put_extra(out, Extra { request_id, close: answer.close, ..Extra::default() });
        out.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        if answer.role {
            chunk(out, |out| {
                self.opening(out, answer);
                out.extend_from_slice(br#"{"index":0,"delta":{"role":"assistant","content":""},"#);
                out.extend_from_slice(br#""logprobs":null,"finish_reason":null}]"#);
                self.closing(out, answer, 0);
            });
        }
    }

    /// One output event with `tokens` tokens, `so_far` with it.
    pub(crate) fn output(&self, out: &mut Vec<u8>, answer: &Answer, tokens: u32, so_far: u32) {
        if answer.endpoint == Endpoint::Native {
            chunk(out, |out| {
                out.extend_from_slice(b"data: ");
                self.native(out, answer, so_far.max(tokens));
                out.extend_from_slice(b"\n\n");
            });
            return;
        }
        chunk(out, |out| {
            self.opening(out, answer);
            out.extend_from_slice(match answer.endpoint {
                Endpoint::Chat => br#"{"index":0,"delta":{"content":""#.as_slice(),
                _ => br#"{"index":0,"text":""#,
            });
            self.words(out, tokens);
            out.extend_from_slice(match answer.endpoint {
                Endpoint::Chat => br#""},"logprobs":null,"finish_reason":null}]"#.as_slice(),
                _ => br#"","logprobs":null,"finish_reason":null}]"#,
            });
            self.closing(out, answer, so_far);
        });
    }

    /// An output event that breaks off within its JSON.
    pub(crate) fn malformed(&self, out: &mut Vec<u8>, answer: &Answer) {
        chunk(out, |out| {
            self.opening(out, answer);
            out.extend_from_slice(b"\n\n");
        });
    }

    /// All that follows the last output event: finish, usage, `[DONE]`, the last chunk.
    pub(crate) fn tail(&self, out: &mut Vec<u8>, answer: &Answer) {
        // The last of SGLang's own events says that it is.
        let says_so = answer.endpoint == Endpoint::Native;
        if !says_so {
            self.finish_event(out, answer);
        }
        if answer.usage && !says_so {
            chunk(out, |out| {
                self.opening(out, answer);
                out.push(b']');
                put_usage(out, answer, answer.output_tokens, answer.cached);
                out.extend_from_slice(b"}\n\n");
            });
        }
        if answer.done {
            chunk(out, |out| out.extend_from_slice(DONE));
        }
        out.extend_from_slice(LAST_CHUNK);
    }

    fn finish_event(&self, out: &mut Vec<u8>, answer: &Answer) {
        chunk(out, |out| {
            self.opening(out, answer);
            out.extend_from_slice(match answer.endpoint {
                Endpoint::Chat => br#"{"index":0,"delta":{},"#.as_slice(),
                _ => br#"{"index":0,"text":"","#,
            });
            put(out, format_args!(r#""logprobs":null,"finish_reason":"{}"}}]"#, finish(answer)));
            self.closing(out, answer, answer.output_tokens);
        });
    }

    /// All of an answer so far, as SGLang has it.
    fn native(&self, out: &mut Vec<u8>, answer: &Answer, so_far: u32) {
        out.extend_from_slice(br#"{"text":""#);
        self.words(out, so_far);
        out.extend_from_slice(br#"","output_ids":["#);
        for token in 0..so_far {
            let comma = if token == 0 { "" } else { "," };
            put(out, format_args!("{comma}{}", 1_000 + token % 1_000));
        }
        let (number, prompt) = (answer.number, answer.prompt_tokens);
        put(out, format_args!(r#"],"meta_info":{{"id":"{number:032x}","finish_reason":"#));
        if so_far < answer.output_tokens {
            out.extend_from_slice(b"null");
        } else if answer.capped {
            put(out, format_args!(r#"{{"type":"length","length":{so_far}}}"#));
        } else {
            out.extend_from_slice(br#"{"type":"stop","matched":2}"#);
        }
        let told = u64::from(so_far) * u64::from(answer.usage_factor);
        let cached = answer.cached.unwrap_or(0);
        put(out, format_args!(r#","prompt_tokens":{prompt},"completion_tokens":{told},"#));
        put(out, format_args!(r#""cached_tokens":{cached}}}}}"#));
    }

    /// The body of an answer in one piece, with a hand-off object if there is one.
    pub(crate) fn body(&self, answer: &Answer, object: Option<&[u8]>) -> Vec<u8> {
        let mut body = Vec::new();
        if answer.endpoint == Endpoint::Native {
            self.native(&mut body, answer, answer.output_tokens);
            return body;
        }
        self.identity(&mut body, answer, "chat.completion");
        body.extend_from_slice(br#"{"index":0,"#);
        body.extend_from_slice(match answer.endpoint {
            Endpoint::Chat => br#""message":{"role":"assistant","content":""#.as_slice(),
            _ => br#""text":""#,
        });
        self.words(&mut body, answer.output_tokens);
        body.extend_from_slice(match answer.endpoint {
            Endpoint::Chat => br#""},"#.as_slice(),
            _ => br#"","#,
        });
        put(&mut body, format_args!(r#""logprobs":null,"finish_reason":"{}"}}]"#, finish(answer)));
        if answer.usage {
            put_usage(&mut body, answer, answer.output_tokens, answer.cached);
        }
        if let Some(object) = object {
            body.extend_from_slice(br#","kv_transfer_params":"#);
            body.extend_from_slice(object);
        }
        body.push(b'}');
        body
    }

    /// The list of models.
    pub(crate) fn models(&self, out: &mut Vec<u8>, close: bool) {
        let body = format!(
            r#"{{"object":"list","data":[{{"id":"{}","object":"model",{}}}]}}"#,
            self.model, r#""created":0,"owned_by":"tokclock-sim""#
        );
        json(out, 200, body.as_bytes(), Extra { close, ..Extra::default() });
    }

    fn opening(&self, out: &mut Vec<u8>, answer: &Answer) {
        out.extend_from_slice(b"data: ");
        self.identity(out, answer, "chat.completion.chunk");
    }

    /// What every object starts with, up to its list of choices.
    fn identity(&self, out: &mut Vec<u8>, answer: &Answer, chat_object: &str) {
        let (prefix, object) = match answer.endpoint {
            Endpoint::Chat => ("chatcmpl", chat_object),
            _ => ("cmpl", "text_completion"),
        };
        let (number, created) = (answer.number, answer.created);
        put(out, format_args!(r#"{{"id":"{prefix}-{number:010}","object":"{object}","#));
        put(out, format_args!(r#""created":{created},"model":"{}","choices":["#, self.model));
    }

    fn closing(&self, out: &mut Vec<u8>, answer: &Answer, so_far: u32) {
        if answer.continuous {
            put_usage(out, answer, so_far, None);
        }
        out.extend_from_slice(b"}\n\n");
    }

    fn words(&self, out: &mut Vec<u8>, tokens: u32) {
        out.reserve(self.word.len() * tokens as usize);
        for _ in 0..tokens {
            out.extend_from_slice(self.word.as_bytes());
        }
    }
}

/// An error inside of a stream, and the end of the stream.
pub(crate) fn error_event(out: &mut Vec<u8>) {
    chunk(out, |out| {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&error_object());
        out.extend_from_slice(b"\n\n");
    });
    chunk(out, |out| out.extend_from_slice(DONE));
    out.extend_from_slice(LAST_CHUNK);
}

/// A comment, which carries nothing.
pub(crate) fn ping(out: &mut Vec<u8>) {
    chunk(out, |out| out.extend_from_slice(b": ping\n\n"));
}

fn put_usage(out: &mut Vec<u8>, answer: &Answer, output: u32, cached: Option<u32>) {
    let prompt = answer.prompt_tokens;
    let output = u64::from(output) * u64::from(answer.usage_factor);
    let total = u64::from(prompt) + output;
    put(out, format_args!(r#","usage":{{"prompt_tokens":{prompt},"completion_tokens":{output},"#));
    put(out, format_args!(r#""total_tokens":{total}"#));
    if let Some(cached) = cached {
        put(out, format_args!(r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#));
    }
    out.push(b'}');
}

fn finish(answer: &Answer) -> &'static str {
    if answer.capped { "length" } else { "stop" }
}

/// One chunk of a chunked body (RFC 9112 section 7.1) around whatever `body` writes.
fn chunk(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    // The size goes first but is known last: leave room for it, a fixed number of digits.
    const SIZE: usize = 8;
    let start = out.len();
    out.extend_from_slice(b"00000000\r\n");
    body(out);
    let length = out.len() - start - SIZE - 2;
    let digits = format!("{length:x}");
    // Leading zeros are allowed but no real server sends them, so close the gap.
    let spare = SIZE - digits.len().min(SIZE);
    out[start + spare..start + SIZE].copy_from_slice(digits.as_bytes());
    out.drain(start..start + spare);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(endpoint: Endpoint) -> Answer {
        Answer {
            endpoint,
            number: 7,
            created: 1_700_000_000,
            prompt_tokens: 3,
            output_tokens: 2,
            capped: true,
            close: false,
            usage: true,
            continuous: false,
            usage_factor: 1,
            role: true,
            done: true,
            cached: None,
        }
    }

    fn rendered(render: impl FnOnce(&Wire, &mut Vec<u8>)) -> String {
        let settings = Settings { word: " a\"b".into(), ..Settings::default() };
        let mut out = Vec::new();
        render(&Wire::new(&settings), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_chunk_states_its_own_length() {
        for length in [0, 1, 15, 16, 255, 4096] {
            let mut out = b"before".to_vec();
            chunk(&mut out, |out| out.extend(std::iter::repeat_n(b'x', length)));
            let expected = format!("before{length:x}\r\n{}\r\n", "x".repeat(length));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn an_output_event_is_one_chunk_with_escaped_text() {
        let text = rendered(|wire, out| wire.output(out, &answer(Endpoint::Chat), 2, 2));
        let event = concat!(
            r#"data: {"id":"chatcmpl-0000000007","object":"chat.completion.chunk","#,
            r#""created":1700000000,"model":"sim","choices":[{"index":0,"delta":"#,
            r#"{"content":" a\"b a\"b"},"logprobs":null,"finish_reason":null}]}"#,
            "\n\n"
        );
        assert_eq!(text, format!("{:x}\r\n{event}\r\n", event.len()));
    }

    #[test]
    fn a_tail_ends_the_stream_and_the_body() {
        let text = rendered(|wire, out| wire.tail(out, &answer(Endpoint::Completions)));
        let usage = r#""usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}"#;
        assert!(text.contains(r#""finish_reason":"length""#) && text.contains(usage));
        assert!(text.ends_with("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"));
    }

    #[test]
    fn usage_and_the_end_of_a_stream_can_be_wrong() {
        let wrong = Answer { usage_factor: 2, done: false, ..answer(Endpoint::Chat) };
        let text = rendered(|wire, out| wire.tail(out, &wrong));
        let usage = r#""usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}"#;
        assert!(text.contains(usage) && text.contains("finish_reason"));
        assert!(!text.contains("[DONE]") && text.ends_with("}\n\n\r\n0\r\n\r\n"));
    }

    #[test]
    fn a_malformed_event_is_an_event_and_no_json() {
        let text = rendered(|wire, out| wire.malformed(out, &answer(Endpoint::Chat)));
        let data = text.split_once("data: ").unwrap().1.strip_suffix("\n\n\r\n").unwrap();
        assert!(data.starts_with("{\"id\":\"chatcmpl-") && !data.contains('\n'));
        assert!(serde_json::from_str::<serde_json::Value>(data).is_err());
    }
}
