//! Answers as servers write them, whose texts vary in length and escapes, so that the branch
//! predictor is not flattered; and a reader that counts what the parser finds in them.

use std::fmt::Write as _;

use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
use tokclock_parser::dialect::Dialect;
use tokclock_parser::event::{Event, Usage};

/// What an answer holds, to be found again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Events of any kind, but not those that only say that it is over.
    pub events: u64,
    /// Those with output.
    pub outputs: u64,
    /// Bytes of text in them, as they stand there.
    pub text_bytes: u64,
    /// Output tokens by the server's count.
    pub output_tokens: u64,
}

/// One answer as it goes on the wire.
#[derive(Debug, Clone)]
pub struct Wire {
    /// How it is to be read.
    pub dialect: Dialect,
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// Where its head ends, then where each event ends, then where the answer does.
    pub cuts: Vec<usize>,
    /// What is in it.
    pub expected: Counted,
}

impl Wire {
    /// An answer of so many tokens, one in each event. Equal seeds give equal answers.
    ///
    /// Dialects that are not written here come as OpenAI chat.
    #[must_use]
    pub fn new(dialect: &Dialect, seed: u64, tokens: u64) -> Self {
        let id = mix(seed);
        let mut texts = (0..tokens).map(|token| piece(mix(seed << 32 | token)));
        match dialect {
            Dialect::OpenaiResponses => responses(id, &mut texts, tokens),
            Dialect::AnthropicMessages => anthropic(id, &mut texts, tokens),
            Dialect::LlamacppCompletion => llamacpp(&mut texts, tokens),
            Dialect::TgiGenerate => tgi(&mut texts, tokens),
            Dialect::OllamaChat => ollama(id, &mut texts, tokens),
            _ => chat(id, &mut texts, tokens),
        }
    }

    /// What reads it.
    #[must_use]
    pub fn reader(&self) -> Answer {
        let dialect = self.dialect.clone();
        Answer::new(Settings { dialect, stream: true, limits: Limits::default() })
    }

    /// What is in it according to the parser: the next answer on a connection that is in use, in
    /// reads of so many bytes, or of one event each if 0.
    pub fn read(&self, answer: &mut Answer, read_bytes: usize) -> Counted {
        answer.reset();
        let mut counted = Counted::default();
        let mut feed = |mut bytes: &[u8]| {
            while let Ok(step) = answer.next(bytes) {
                bytes = &bytes[step.used..];
                match step.item {
                    Some(Signal::Event(event)) => counted.count(&event),
                    Some(_) => {}
                    None => break,
                }
            }
        };
        if read_bytes > 0 {
            self.bytes.chunks(read_bytes).for_each(feed);
        } else {
            let mut start = 0;
            for &cut in &self.cuts {
                feed(&self.bytes[start..cut]);
                start = cut;
            }
        }
        counted
    }

    fn begin(dialect: Dialect, content_type: &str, tokens: u64) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        let expected = Counted { outputs: tokens, output_tokens: tokens, ..Counted::default() };
        let cuts = vec![head.len()];
        Self { dialect, bytes: head.into_bytes(), cuts, expected }
    }

    fn output(&mut self, text: &str, event: &str) {
        self.expected.text_bytes += text.len() as u64;
        self.event(event);
    }

    fn event(&mut self, event: &str) {
        self.expected.events += 1;
        self.chunk(event);
    }

    fn chunk(&mut self, event: &str) {
        let mut chunk = String::new();
        // Writing to a string cannot fail.
        let _ = write!(chunk, "{:x}\r\n{event}\r\n", event.len());
        self.bytes.extend_from_slice(chunk.as_bytes());
        self.cuts.push(self.bytes.len());
    }

    fn end(mut self) -> Self {
        self.bytes.extend_from_slice(b"0\r\n\r\n");
        self.cuts.push(self.bytes.len());
        self
    }
}

impl Counted {
    /// Counts an event in.
    #[inline]
    pub fn count(&mut self, event: &Event<'_>) {
        match event {
            Event::Output(output) => {
                self.outputs += 1;
                self.text_bytes += output.text.len() as u64;
                self.count_tokens(output.usage);
            }
            Event::Tail(tail) => self.count_tokens(tail.usage),
            Event::Done => return,
            _ => {}
        }
        self.events += 1;
    }

    #[inline]
    fn count_tokens(&mut self, usage: Option<&Usage>) {
        if let Some(tokens) = usage.and_then(|usage| usage.output_tokens) {
            self.output_tokens = tokens;
        }
    }
}

const SSE: &str = "text/event-stream; charset=utf-8";

fn chat(id: u64, texts: &mut dyn Iterator<Item = String>, tokens: u64) -> Wire {
    let mut wire = Wire::begin(Dialect::OpenaiChat, SSE, tokens);
    let created = 1_764_000_000 + id % 1000;
    let event = |delta: &str, finish: &str, usage: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-{id:016x}{id:016x}\",\"object\":\"chat.completion.chunk\",\
             \"created\":{created},\"model\":\"example/model-8b-instruct\",\"choices\":[{{\
             \"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]{usage}}}\n\n"
        )
    };
    wire.event(&event(r#"{"role":"assistant","content":""}"#, "null", ""));
    for text in texts {
        wire.output(&text, &event(&format!(r#"{{"content":"{text}"}}"#), "null", ""));
    }
    wire.event(&event("{}", r#""stop""#, ""));
    let (prompt, total) = (id % 500, id % 500 + tokens);
    let usage = format!(
        r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{tokens}}}"#
    );
    wire.event(&event("{}", "null", &usage));
    wire.chunk("data: [DONE]\n\n");
    wire.end()
}

fn responses(id: u64, texts: &mut dyn Iterator<Item = String>, tokens: u64) -> Wire {
    let mut wire = Wire::begin(Dialect::OpenaiResponses, SSE, tokens);
    let mut number = 0;
    let mut event = |of: &str, fields: &str| {
        number += 1;
        format!(
            "event: response.{of}\ndata: {{\"type\":\"response.{of}\",\"sequence_number\":{number},{fields}}}\n\n"
        )
    };
    let begun = format!(r#""response":{{"id":"resp_{id:016x}","status":"in_progress"}}"#);
    wire.event(&event("created", &begun));
    for text in texts {
        let fields = format!(
            r#""item_id":"msg_{id:016x}","output_index":0,"content_index":0,"delta":"{text}""#
        );
        wire.output(&text, &event("output_text.delta", &fields));
    }
    let usage = format!(r#""usage":{{"input_tokens":{},"output_tokens":{tokens}}}"#, id % 500);
    let ended =
        format!(r#""response":{{"id":"resp_{id:016x}","status":"completed","output":[],{usage}}}"#);
    wire.event(&event("completed", &ended));
    wire.end()
}

fn anthropic(id: u64, texts: &mut dyn Iterator<Item = String>, tokens: u64) -> Wire {
    let mut wire = Wire::begin(Dialect::AnthropicMessages, SSE, tokens);
    let event =
        |of: &str, fields: &str| format!("event: {of}\ndata: {{\"type\":\"{of}\"{fields}}}\n\n");
    let message = format!(
        r#","message":{{"id":"msg_{id:016x}","type":"message","role":"assistant","content":[],"usage":{{"input_tokens":{},"output_tokens":1}}}}"#,
        id % 500
    );
    wire.event(&event("message_start", &message));
    let block = r#","index":0,"content_block":{"type":"text","text":""}"#;
    wire.event(&event("content_block_start", block));
    for text in texts {
        let fields = format!(r#","index":0,"delta":{{"type":"text_delta","text":"{text}"}}"#);
        wire.output(&text, &event("content_block_delta", &fields));
    }
    wire.event(&event("content_block_stop", r#","index":0"#));
    let ended = format!(
        r#","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{{"output_tokens":{tokens}}}"#
    );
    wire.event(&event("message_delta", &ended));
    wire.chunk(&event("message_stop", ""));
    wire.end()
}

fn llamacpp(texts: &mut dyn Iterator<Item = String>, tokens: u64) -> Wire {
    let mut wire = Wire::begin(Dialect::LlamacppCompletion, SSE, tokens);
    let event = |text: &str, rest: &str, so_far: u64| {
        format!(
            "data: {{\"index\":0,\"content\":\"{text}\",\"tokens\":[],{rest},\"id_slot\":3,\
             \"tokens_predicted\":{so_far},\"tokens_evaluated\":6}}\n\n"
        )
    };
    for (so_far, text) in (1..).zip(texts) {
        wire.output(&text, &event(&text, r#""stop":false"#, so_far));
    }
    wire.event(&event("", r#""stop":true,"stop_type":"limit""#, tokens));
    wire.end()
}

fn tgi(texts: &mut dyn Iterator<Item = String>, tokens: u64) -> Wire {
    let mut wire = Wire::begin(Dialect::TgiGenerate, SSE, tokens);
    for (index, text) in (1..).zip(texts) {
        let id = mix(index) % 128_000;
        let logprob = -((id % 1000) as f64) / 1000.0;
        // The last one also says how it ended.
        let details = if index == tokens {
            format!(r#"{{"finish_reason":"length","generated_tokens":{tokens},"seed":null}}"#)
        } else {
            "null".to_owned()
        };
        let event = format!(
            "data:{{\"index\":{index},\"token\":{{\"id\":{id},\"text\":\"{text}\",\
             \"logprob\":{logprob},\"special\":false}},\"generated_text\":null,\
             \"details\":{details}}}\n\n"
        );
        wire.output(&text, &event);
    }
    wire.end()
}

fn ollama(id: u64, texts: &mut dyn Iterator<Item = String>, tokens: u64) -> Wire {
    let mut wire = Wire::begin(Dialect::OllamaChat, "application/x-ndjson", tokens);
    let line = |number: u64, text: &str, rest: &str| {
        let (second, part) = (number / 100 % 60, mix(number) % 1_000_000_000);
        format!(
            "{{\"model\":\"example\",\"created_at\":\"2026-01-02T03:04:{second:02}.{part:09}Z\",\
             \"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},{rest}}}\n"
        )
    };
    for (number, text) in (0..).zip(texts) {
        wire.output(&text, &line(number, &text, r#""done":false"#));
    }
    let rest = format!(
        r#""done_reason":"stop","done":true,"total_duration":{},"prompt_eval_count":26,"eval_count":{tokens}"#,
        id % 10_000_000_000
    );
    wire.event(&line(tokens, "", &rest));
    wire.end()
}

/// A token's text: one to twelve letters, now and then an escape or a letter of two bytes.
fn piece(random: u64) -> String {
    let mut text = String::from(if random & 1 == 0 { " " } else { "" });
    for at in 0..1 + random % 11 {
        text.push(char::from(b'a' + (mix(random + at) % 26) as u8));
    }
    match random >> 32 & 31 {
        0 => text.push_str("\\n"),
        1 => text.push_str("\\\""),
        2 => text.push('é'),
        _ => {}
    }
    text
}

/// The finaliser of splitmix64: a number that looks random.
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: [Dialect; 6] = [
        Dialect::OpenaiChat,
        Dialect::OpenaiResponses,
        Dialect::AnthropicMessages,
        Dialect::LlamacppCompletion,
        Dialect::TgiGenerate,
        Dialect::OllamaChat,
    ];

    #[test]
    fn the_parser_finds_what_was_written_however_it_is_cut() {
        for dialect in WRITTEN {
            let wire = Wire::new(&dialect, 7, 100);
            assert_eq!(wire.dialect, dialect);
            let mut answer = wire.reader();
            for read_bytes in [0, 1, 100, 65536] {
                assert_eq!(wire.read(&mut answer, read_bytes), wire.expected, "{dialect:?}");
            }
        }
    }

    #[test]
    fn texts_vary() {
        let wire = Wire::new(&Dialect::OpenaiChat, 1, 500);
        let text = String::from_utf8(wire.bytes).unwrap();
        assert!(text.contains("\\n\"") && text.contains("\\\"\"") && text.contains('é'));
    }
}
