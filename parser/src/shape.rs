//! The fast path: most events equal one before but for their text, and the same kinds of event
//! return in every response with another id and other counts.
//!
//! ```text
//!  known  {"id":"7","created":17,"choices":[{"delta":{"content":" Hello"},"finish_reason":null}]}
//!         └─────┘ └─┘          └─┘                            └──────┘ └───────────────────────┘
//!         literal id  literal  number         literal           text          literal
//!  next   the same literals; between them a string's inside, a whole number, or again a text
//! ```
//!
//! Where the holes are is known from the JSON reader: the text, the counts of `usage`, and values
//! that mean nothing. Then the next event is the same JSON but for what is in
//! the holes, so it means the same but for them. This must never be a guess: whatever is not certain
//! is left to the JSON reader.

use crate::event::{Event, Finish, Note, Output, OutputKind, Tail, Text, Usage};
use crate::scan;

/// What one event looked like, and what it means.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    /// [`FIELD`], the data without its text, [`BLANK`].
    wire: Vec<u8>,
    /// In the order in which they lie.
    holes: Vec<Hole>,
    /// Where in `wire` the text was cut out.
    text_at: Option<usize>,
    meaning: Meaning,
    /// The counts of the event read last.
    usage: Option<Usage>,
}

/// What may differ: its place in `wire`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Hole {
    at: usize,
    length: usize,
    form: Form,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Text,
    /// A string's inside that means nothing.
    Word,
    /// A number that means nothing.
    Number,
    /// Likewise, of any form.
    Decimal,
    Count(Count),
}

/// A number of the `usage` object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Input,
    Output,
    Reasoning,
    Cached,
    /// Known from the others, so it is ignored.
    Total,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Meaning {
    #[default]
    Empty,
    Role,
    Tail(Option<Finish>),
    Output(Made),
}

/// An output without its text and usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Made {
    kind: OutputKind,
    tokens: Option<u32>,
    finish: Option<Finish>,
    in_reasoning: bool,
}

/// JSON values, as they are written, that may differ from event to event; empty where there is none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spots<'a> {
    /// Values that mean nothing: strings and numbers count.
    pub(crate) idle: [&'a str; 3],
    /// The numbers of the `usage` object, by [`Count`].
    pub(crate) counts: [&'a str; 5],
}

const HOLES_MAX: usize = 9;

/// How the line of an event begins on most wires, and how the event ends.
const FIELD: &[u8] = b"data: ";
const BLANK: &[u8] = b"\n\n";

impl Shape {
    /// The output of an event as it lies on the wire, where `bytes` begins with one that differs in
    /// its text alone; and its length with its blank line.
    #[inline]
    pub(crate) fn read_wire<'a>(&self, bytes: &'a [u8]) -> Option<(Output<'a>, usize)> {
        let (prefix, suffix) = self.wire.split_at(self.text_at?);
        let Meaning::Output(made) = self.meaning else { return None };
        if self.usage.is_some() {
            return None;
        }
        let text = scan::text(bytes.strip_prefix(prefix)?)?;
        let end = prefix.len() + text.len();
        bytes[end..].starts_with(suffix).then(|| (made.output(text, None), end + suffix.len()))
    }

    /// The text of the event with this data, if it differs in its text alone.
    #[inline]
    pub(crate) fn same<'a>(&self, data: &'a [u8]) -> Option<Text<'a>> {
        let (prefix, suffix) = self.wire.split_at(self.text_at?);
        let text = scan::text(data.strip_prefix(&prefix[FIELD.len()..])?)?;
        let end = prefix.len() - FIELD.len() + text.len();
        (data[end..] == suffix[..suffix.len() - BLANK.len()]).then_some(text)
    }

    /// Likewise if it differs in any of the holes; then it is the event that is known from now on.
    pub(crate) fn fit<'a>(&mut self, data: &'a [u8]) -> Option<Text<'a>> {
        let mut found = [Hole::default(); HOLES_MAX];
        let mut usage = self.usage;
        let mut text = Text::default();
        let (mut at, mut from) = (0, FIELD.len());
        for (hole, found) in self.holes.iter().zip(&mut found) {
            let literal = self.wire.get(from..hole.at)?;
            let rest = data[at..].strip_prefix(literal)?;
            at += literal.len();
            let length = match hole.form {
                Form::Text => {
                    text = scan::text(rest)?;
                    text.len()
                }
                Form::Word => scan::word(rest)?,
                Form::Number => scan::number(rest)?.0,
                Form::Decimal => scan::decimal(rest)?,
                Form::Count(count) => {
                    let (length, number) = scan::number(rest)?;
                    if let Some(usage) = &mut usage {
                        count.set(usage, number);
                    }
                    length
                }
            };
            *found = Hole { at, length, form: hole.form };
            at += length;
            from = hole.at + hole.length;
        }
        if data[at..] != self.wire[from..self.wire.len() - BLANK.len()] {
            return None;
        }
        self.usage = usage;
        let holes = self.holes.len();
        self.holes.copy_from_slice(&found[..holes]);
        self.keep(data);
        Some(text)
    }

    /// Becomes the shape of `data`, which is one line and was read as `event`: only if its text, if
    /// there is one, is a whole JSON string of `data`. False if it has no shape.
    pub(crate) fn learn(&mut self, data: &[u8], event: &Event<'_>, spots: &Spots<'_>) -> bool {
        let (meaning, text, usage) = match event {
            Event::Note(Note::Empty) => (Meaning::Empty, None, None),
            Event::Note(Note::Role) => (Meaning::Role, None, None),
            // The last event of an answer comes once: it may be read as JSON.
            event if event.is_last() => return false,
            Event::Tail(tail) => (Meaning::Tail(tail.finish), None, tail.usage),
            Event::Output(output) => {
                let Some((made, text)) = Made::of(output) else { return false };
                (Meaning::Output(made), Some(text), output.usage)
            }
            _ => return false,
        };
        if memchr::memchr2(b'\n', b'\r', data).is_some() {
            return false;
        }
        self.holes.clear();
        if let Some(text) = text {
            let Some((from, to)) = place(text.as_bytes(), data) else { return false };
            if !data[..from].ends_with(b"\"") || !data[to..].starts_with(b"\"") {
                return false;
            }
            self.holes.push(Hole { at: from, length: to - from, form: Form::Text });
        }
        self.holes.extend(spots.idle.iter().filter_map(|json| idle(json, data)));
        if usage.is_some() {
            let counts = Count::ALL.into_iter().zip(spots.counts);
            self.holes.extend(counts.filter_map(|(count, json)| count.hole(json, data)));
        }
        self.holes.sort_unstable_by_key(|hole| hole.at);
        self.meaning = meaning;
        self.usage = usage.copied();
        self.keep(data);
        true
    }

    /// Keeps `data`, whose holes are known by their places in it.
    fn keep(&mut self, data: &[u8]) {
        self.wire.clear();
        self.wire.extend_from_slice(FIELD);
        self.text_at = None;
        let (mut from, mut cut) = (0, 0);
        for hole in &mut self.holes {
            let at = hole.at;
            hole.at = FIELD.len() + at - cut;
            if hole.form == Form::Text {
                self.wire.extend_from_slice(&data[..at]);
                self.text_at = Some(hole.at);
                (from, cut) = (at + hole.length, hole.length);
                hole.length = 0;
            }
        }
        self.wire.extend_from_slice(&data[from..]);
        self.wire.extend_from_slice(BLANK);
    }

    /// What the event means that was read last, with this text.
    #[inline]
    pub(crate) fn event<'a>(&'a self, text: Text<'a>) -> Event<'a> {
        let usage = self.usage.as_ref();
        match self.meaning {
            Meaning::Output(made) => Event::Output(made.output(text, usage)),
            Meaning::Tail(finish) => Event::Tail(Tail { finish, usage, done: false }),
            Meaning::Role => Event::Note(Note::Role),
            Meaning::Empty => Event::Note(Note::Empty),
        }
    }

    /// Does it have a text, so that many events like it may follow?
    pub(crate) fn has_text(&self) -> bool {
        self.text_at.is_some()
    }

    /// Are the two of the same event, but for its text?
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.meaning == other.meaning && self.wire == other.wire && self.holes == other.holes
    }
}

impl Made {
    /// `None` unless there is exactly one text.
    fn of<'a>(output: &Output<'a>) -> Option<(Self, Text<'a>)> {
        let in_reasoning = output.text.is_empty();
        let text = if in_reasoning { output.reasoning } else { output.text };
        if text.is_empty() || (!in_reasoning && !output.reasoning.is_empty()) {
            return None;
        }
        let Output { kind, tokens, finish, .. } = *output;
        Some((Self { kind, tokens, finish, in_reasoning }, text))
    }

    #[inline]
    fn output<'a>(self, text: Text<'a>, usage: Option<&'a Usage>) -> Output<'a> {
        let Self { kind, tokens, finish, in_reasoning } = self;
        let none = Text::default();
        let (text, reasoning) = if in_reasoning { (none, text) } else { (text, none) };
        Output { kind, text, reasoning, tokens, finish, usage, done: false }
    }
}

impl Count {
    const ALL: [Self; 5] = [Self::Input, Self::Output, Self::Reasoning, Self::Cached, Self::Total];

    fn set(self, usage: &mut Usage, number: u64) {
        match self {
            Self::Input => usage.input_tokens = Some(number),
            Self::Output => usage.output_tokens = Some(number),
            Self::Reasoning => usage.reasoning_tokens = Some(number),
            Self::Cached => usage.cached_tokens = Some(number),
            Self::Total => {}
        }
    }

    fn hole(self, json: &str, data: &[u8]) -> Option<Hole> {
        let (at, to) = place(json.as_bytes(), data)?;
        let (length, _) = scan::number(json.as_bytes())?;
        (length == to - at).then_some(Hole { at, length, form: Form::Count(self) })
    }
}

/// The hole for a value that means nothing: of a string its inside, or a number.
fn idle(json: &str, data: &[u8]) -> Option<Hole> {
    let (at, to) = place(json.as_bytes(), data)?;
    if let Some(inside) = json.strip_prefix('"') {
        let length = scan::word(inside.as_bytes())?;
        return (length + 2 == to - at).then_some(Hole { at: at + 1, length, form: Form::Word });
    }
    let whole = scan::number(json.as_bytes()).filter(|(length, _)| *length == to - at);
    let form = if whole.is_some() { Form::Number } else { Form::Decimal };
    let length = scan::decimal(json.as_bytes())?;
    (length == to - at).then_some(Hole { at, length, form })
}

/// Where in `whole` the slice `part` of it lies; `None` if it is empty or no slice of it.
fn place(part: &[u8], whole: &[u8]) -> Option<(usize, usize)> {
    let from = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let to = from.checked_add(part.len())?;
    (!part.is_empty() && to <= whole.len()).then_some((from, to))
}
