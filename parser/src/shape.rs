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
    /// [`FIELD`], then the data up to the text.
    prefix: Vec<u8>,
    /// The data after the text, then [`BLANK`].
    suffix: Vec<u8>,
    /// Everything of the output but its text.
    rest: Option<Rest>,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    output: Output<'static>,
    in_reasoning: bool,
}

/// How the line of an event begins on most wires, and how the event ends.
const FIELD: &[u8] = b"data: ";
const BLANK: &[u8] = b"\n\n";

impl Shape {
    /// Knows nothing again; keeps its memory.
    pub fn forget(&mut self) {
        self.rest = None;
    }

    /// The output in `data`, if `data` has the shape that was learned.
    #[inline]
    pub fn read<'a>(&self, data: &'a [u8]) -> Option<Output<'a>> {
        let rest = self.rest.as_ref()?;
        let tail = data.strip_prefix(&self.prefix[FIELD.len()..])?;
        let length = plain(tail)?;
        let suffix = &self.suffix[..self.suffix.len() - BLANK.len()];
        if &tail[length..] != suffix {
            return None;
        }
        rest.output_with(&tail[..length])
    }

    /// The same for an event as it lies on the wire, where `bytes` begins with one: its output, and
    /// its length with its blank line.
    #[inline]
    pub fn read_wire<'a>(&self, bytes: &'a [u8]) -> Option<(Output<'a>, usize)> {
        let rest = self.rest.as_ref()?;
        let tail = bytes.strip_prefix(self.prefix.as_slice())?;
        let length = plain(tail)?;
        if !tail[length..].starts_with(&self.suffix) {
            return None;
        }
        let output = rest.output_with(&tail[..length])?;
        Some((output, self.prefix.len() + length + self.suffix.len()))
    }

    /// Learns the shape of `data`, which was read as `output`: only if it has exactly one text, and
    /// that is a whole JSON string of `data`, which is one line. Else what was known is forgotten.
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
        if memchr::memchr2(b'\n', b'\r', data).is_some() {
            return;
        }
        self.prefix.clear();
        self.prefix.extend_from_slice(FIELD);
        self.prefix.extend_from_slice(&data[..from]);
        self.suffix.clear();
        self.suffix.extend_from_slice(&data[to..]);
        self.suffix.extend_from_slice(BLANK);
        let Output { kind, tokens, finish, usage, .. } = *output;
        let output = Output { kind, text: "", reasoning: "", tokens, finish, usage };
        self.rest = Some(Rest { output, in_reasoning });
    }
}

impl Rest {
    #[inline]
    fn output_with<'a>(&self, text: &'a [u8]) -> Option<Output<'a>> {
        let text = std::str::from_utf8(text).ok()?;
        Some(match self.in_reasoning {
            true => Output { reasoning: text, ..self.output },
            false => Output { text, ..self.output },
        })
    }
}

/// Where in `whole` the slice `part` of it lies; `None` if it is no slice of it.
fn place(part: &[u8], whole: &[u8]) -> Option<(usize, usize)> {
    let from = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let to = from.checked_add(part.len())?;
    (to <= whole.len()).then_some((from, to))
}

/// The length of the inside of a JSON string at the start of `bytes` (RFC 8259 §7), UTF-8 apart, up
/// to its closing quote; `None` if it is empty, not closed, or has what only the JSON reader judges.
#[inline]
fn plain(bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    loop {
        length += usual(&bytes[length..]);
        match *bytes.get(length)? {
            b'"' => return (length > 0).then_some(length),
            b'\\' => {
                let (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') =
                    *bytes.get(length + 1)?
                else {
                    return None;
                };
                length += 2;
            }
            0..0x20 => return None,
            _ => length += 1,
        }
    }
}

/// How many bytes at the start are neither quote nor backslash nor control, as far as whole words
/// go: eight bytes at a time, since texts are short and a branch per byte is mispredicted.
#[inline]
fn usual(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let mut length = 0;
    while let Some(word) = bytes[length..].first_chunk() {
        let word = u64::from_le_bytes(*word);
        // The lowest byte that is marked is below the bound for certain, those above it may not be.
        let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGH;
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let marked = below(word, 0x20) | quote | backslash;
        if marked != 0 {
            return length + marked.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length
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
        for text in
            ["x", "longer text", "much longer than one word", r#"\"\\\/\b\f\n\r\t"#, "é", "\u{7f}"]
        {
            let data = format!("{{\"content\":\"{text}\",\"n\":1}}");
            assert_eq!(learned().read(data.as_bytes()).unwrap().text, text);
            let wire = format!("data: {data}\n\n");
            let more = format!("{wire}data");
            let (output, used) = learned().read_wire(more.as_bytes()).unwrap();
            assert_eq!((output.text, used), (text, wire.len()));
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
