//! What every dialect maps to: the meaning of one event, and of a whole document.

use std::borrow::Cow;
use std::fmt;

/// One event of a stream, or what a non-streaming document holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// It carries generated output.
    Output(Output<'a>),
    /// No output, but how it ended or what it used.
    Tail(Tail<'a>),
    /// The server reports an error inside a 200, or in the document of an error status.
    Fault(Fault<'a>),
    /// Nothing that is generated.
    Note(Note),
    /// The dialect's terminator.
    Done,
    /// Data that is neither JSON nor a known marker. The stream goes on.
    Malformed(Malformed),
}

impl Event<'_> {
    /// Is it the dialect's terminator or terminal event, after which nothing of the answer comes?
    #[inline]
    pub fn is_last(&self) -> bool {
        match self {
            Self::Output(output) => output.done,
            Self::Tail(tail) => tail.done,
            Self::Done => true,
            _ => false,
        }
    }
}

/// Generated output: at least one of text, reasoning, media or token ids is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output<'a> {
    /// What was generated; anything else beside reasoning decides.
    pub kind: OutputKind,
    /// Content, refusal, tool names and arguments, or a transcript, in document order. Empty if
    /// there is none. Arguments that are an object, not a string, are its JSON.
    pub text: Text<'a>,
    /// Reasoning, in the same form.
    pub reasoning: Text<'a>,
    /// How many tokens, if the event lists their ids or tells their number otherwise; 0 if it says
    /// that there is none beyond those of earlier events.
    pub tokens: Option<u32>,
    /// Why generation ended, if it did with this event.
    pub finish: Option<Finish>,
    /// Counts, if the server sends them with every event.
    pub usage: Option<&'a Usage>,
    /// It is the dialect's terminal event too.
    pub done: bool,
}

/// Generated text as it came: the inside of a JSON string, still escaped (see [`unescape`]), and
/// UTF-8 for certain. Whoever needs it as `str` pays for that: most readers need only its length.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// The caller has seen that they are ASCII.
    #[inline]
    pub(crate) fn from_ascii(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.is_ascii());
        Self(bytes)
    }

    /// Its UTF-8.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text itself. Takes time that grows with its length.
    pub fn as_str(self) -> &'a str {
        std::str::from_utf8(self.0).unwrap_or_default()
    }

    /// How many bytes it has.
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Is there none?
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> From<&'a str> for Text<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// What an [`Output`] generated. If several: the first of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// The answer.
    Content,
    /// A refusal to answer.
    Refusal,
    /// A tool's name or arguments.
    ToolCall,
    /// A piece of audio or an image.
    Media,
    /// Reasoning before the answer.
    Reasoning,
    /// Token ids without text.
    TokenIds,
}

/// An event without output that says how generation ended or what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail<'a> {
    /// Why generation ended.
    pub finish: Option<Finish>,
    /// Token counts.
    pub usage: Option<&'a Usage>,
    /// It is the dialect's terminal event.
    pub done: bool,
}

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model stopped by itself, or met a stop string.
    Stop,
    /// The limit of output tokens.
    Length,
    /// It calls tools.
    ToolCalls,
    /// A filter cut it.
    ContentFilter,
    /// Another reason.
    Other,
}

impl Finish {
    /// The name that records and reports use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other => "other",
        }
    }

    /// The meaning of a server's word; `None` for the empty string, which some send for "not yet".
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "" => return None,
            "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" => Self::Stop,
            "length" | "max_tokens" => Self::Length,
            "tool_calls" | "function_call" | "tool_use" => Self::ToolCalls,
            "content_filter" => Self::ContentFilter,
            _ => Self::Other,
        })
    }
}

/// Token counts of the server. At least one is present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: Option<u64>,
    /// Tokens generated, reasoning included.
    pub output_tokens: Option<u64>,
    /// Those of them that are reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Those of the prompt that came from a cache.
    pub cached_tokens: Option<u64>,
}

impl Usage {
    /// Itself, if there is any count.
    pub(crate) fn known(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// An error that the server reports as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault<'a> {
    /// The server's words; the error's JSON if it has no message.
    pub message: Cow<'a, str>,
    /// Its code, or its type if it has no code.
    pub code: Option<Cow<'a, str>>,
}

/// An event that means nothing for any figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A role, without text.
    Role,
    /// Nothing of interest, or anything after the terminator.
    Empty,
    /// A keep-alive that is an event.
    Ping,
}

/// Where data stopped being JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Byte offset in the event's data.
    pub at: usize,
}

/// The text that the inside of a JSON string stands for (RFC 8259 §7).
///
/// Half of a surrogate pair becomes U+FFFD; an escape that JSON does not have is kept as it is.
pub fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', raw.as_bytes()) else { return Cow::Borrowed(raw) };
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut next = Some(first);
    while let Some(at) = next {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (used, character) = escape(rest);
        match character {
            Some(character) => text.push(character),
            None => text.push_str(&rest[..used]),
        }
        rest = &rest[used..];
        next = memchr::memchr(b'\\', rest.as_bytes());
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// The escape that `rest` begins with: its length, and what it stands for.
fn escape(rest: &str) -> (usize, Option<char>) {
    let character = match rest.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(&same @ (b'"' | b'\\' | b'/')) => char::from(same),
        Some(b'u') => return unicode_escape(rest),
        _ => return (1, None),
    };
    (2, Some(character))
}

fn unicode_escape(rest: &str) -> (usize, Option<char>) {
    let Some(unit) = code_unit(rest) else { return (2, None) };
    if (0xd800..0xdc00).contains(&unit)
        && let Some(low) = code_unit(&rest[6..])
        && (0xdc00..0xe000).contains(&low)
    {
        let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        return (12, char::from_u32(code));
    }
    (6, Some(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)))
}

/// The four hex digits of `\uXXXX` at the start of `rest`.
fn code_unit(rest: &str) -> Option<u32> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    // `from_str_radix` would take a sign.
    let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(unescape("café"), Cow::Borrowed("café")));
    }

    #[test]
    fn half_a_pair_is_a_replacement_character() {
        assert_eq!(unescape(r"a\ud83d\ude00b"), "a\u{1f600}b");
        assert_eq!(
            unescape(r"\ud83dx\ude00\ud83d\ud83d\ude00"),
            "\u{fffd}x\u{fffd}\u{fffd}\u{1f600}"
        );
        assert_eq!(unescape(r"\ud83d"), "\u{fffd}");
    }

    #[test]
    fn what_is_no_escape_is_kept() {
        for raw in [r"\", r"\x", r"\u12", r"\u+123", r"\u12é", r"\é"] {
            assert_eq!(unescape(raw), raw);
        }
    }

    proptest! {
        #[test]
        fn what_serde_json_escapes_comes_back(text in ".*") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unescape(&json[1..json.len() - 1]), text);
        }
    }
}
