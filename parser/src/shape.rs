//! The fast path: most events equal the one before but for their text.
//!
//! ```text
//!  last   {"id":"7","choices":[{"delta":{"content":"  Hello  "},"finish_reason":null}]}
//!         └──────────────── prefix ─────────────────┘ text └────────── suffix ────────┘
//!  next   same prefix, same suffix, and between them the inside of one JSON string
//! ```
//!
//! Then the next event is the same JSON but for that string, so it means the same but for its text.
//! This must never be a guess: whatever is not certain is left to the JSON reader.

use crate::event::Output;

/// What the last output event looked like.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    prefix: Vec<u8>,
    suffix: Vec<u8>,
    /// Everything of the output but its text.
    rest: Option<Rest>,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    output: Output<'static>,
    in_reasoning: bool,
}

impl Shape {
    /// Knows nothing again; keeps its memory.
    pub fn forget(&mut self) {
        self.rest = None;
    }

    /// The output in `data`, if `data` has the shape that was learned.
    #[inline]
    pub fn read<'a>(&self, data: &'a [u8]) -> Option<Output<'a>> {
        let rest = self.rest.as_ref()?;
        let text =
            data.strip_prefix(self.prefix.as_slice())?.strip_suffix(self.suffix.as_slice())?;
        if text.is_empty() || !is_plain(text) {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let output = rest.output;
        Some(match rest.in_reasoning {
            true => Output { reasoning: text, ..output },
            false => Output { text, ..output },
        })
    }

    /// Learns the shape of `data`, which was read as `output`: only if it has exactly one text, and
    /// that is a whole JSON string of `data`. Else what was known is forgotten.
    pub fn learn(&mut self, data: &[u8], output: &Output<'_>) {
        self.rest = None;
        let in_reasoning = output.text.is_empty();
        let text = if in_reasoning { output.reasoning } else { output.text };
        if text.is_empty() || (!in_reasoning && !output.reasoning.is_empty()) {
            return;
        }
        let Some((from, to)) = place(text.as_bytes(), data) else { return };
        if !data[..from].ends_with(b"\"") || !data[to..].starts_with(b"\"") {
            return;
        }
        self.prefix.clear();
        self.prefix.extend_from_slice(&data[..from]);
        self.suffix.clear();
        self.suffix.extend_from_slice(&data[to..]);
        let Output { kind, tokens, finish, usage, .. } = *output;
        let output = Output { kind, text: "", reasoning: "", tokens, finish, usage };
        self.rest = Some(Rest { output, in_reasoning });
    }
}

/// Where in `whole` the slice `part` of it lies; `None` if it is no slice of it.
fn place(part: &[u8], whole: &[u8]) -> Option<(usize, usize)> {
    let from = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let to = from.checked_add(part.len())?;
    (to <= whole.len()).then_some((from, to))
}

/// Is this the inside of a JSON string (RFC 8259 §7), UTF-8 apart? `\u` is left to the JSON reader.
#[inline]
fn is_plain(text: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' | 0..0x20 => return false,
            b'\\' => {
                let Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') = bytes.next()
                else {
                    return false;
                };
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::OutputKind;

    /// An output of this kind without text, to be filled in.
    fn empty(kind: OutputKind) -> Output<'static> {
        Output { kind, text: "", reasoning: "", tokens: None, finish: None, usage: None }
    }

    fn learned() -> Shape {
        let data = br#"{"content":"ab","n":1}"#;
        let text = std::str::from_utf8(&data[12..14]).unwrap();
        let mut shape = Shape::default();
        shape.learn(data, &Output { text, ..empty(OutputKind::Content) });
        shape
    }

    #[test]
    fn an_event_like_the_last_is_read_without_json() {
        for text in ["x", "longer text", r#"\"\\\/\b\f\n\r\t"#, "é", "\u{7f}"] {
            let data = format!("{{\"content\":\"{text}\",\"n\":1}}");
            assert_eq!(learned().read(data.as_bytes()).unwrap().text, text);
        }
    }

    #[test]
    fn whatever_is_not_certain_is_not_read() {
        for text in ["", "\"", "a\",\"b\":\"c", "\\", "a\\", "\\u0041", "\\x", "\n", "\0"] {
            let data = format!("{{\"content\":\"{text}\",\"n\":1}}");
            assert_eq!(learned().read(data.as_bytes()), None, "{text:?}");
        }
        for data in [&b"{\"content\":\"\xff\",\"n\":1}"[..], b"", b"{\"content\":\",\"n\":1}"] {
            assert_eq!(learned().read(data), None);
        }
    }

    #[test]
    fn a_text_from_elsewhere_or_two_texts_teach_nothing() {
        let data = br#"{"content":"ab","reasoning":"cd"}"#;
        let (text, reasoning) = ("ab", std::str::from_utf8(&data[29..31]).unwrap());
        let mut shape = learned();
        shape.learn(data, &Output { text, ..empty(OutputKind::Content) });
        assert_eq!(shape.read(data), None);
        let text = std::str::from_utf8(&data[12..14]).unwrap();
        shape.learn(data, &Output { text, reasoning, ..empty(OutputKind::Content) });
        assert_eq!(shape.read(data), None);
    }

    #[test]
    fn a_text_that_is_no_string_teaches_nothing() {
        let data = br#"{"arguments":{"a":1}}"#;
        let text = std::str::from_utf8(&data[13..20]).unwrap();
        let mut shape = Shape::default();
        shape.learn(data, &Output { text, ..empty(OutputKind::ToolCall) });
        assert_eq!(shape.read(data), None);
    }
}
