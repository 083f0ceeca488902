//! From the data of an event, or a document, to its meaning: the shape first, then JSON.

use std::borrow::Cow;

use super::found::{Found, Pieces};
use super::so_far::SoFar;
use super::{Dialect, openai_chat, openai_completions};
use super::{llamacpp_completion, ollama_chat, ollama_generate};
use super::{sglang_generate, tgi_generate, triton_generate};
use crate::event::{Event, Fault, Malformed, Note, Output, OutputKind, Tail, Usage};
use crate::memory::Memory;
use crate::shape::Spots;
use crate::sse::Message;

/// Reads events and documents of one dialect. Keeps buffers, and the shapes of events,
/// which serve best if one decoder reads all responses of a server.
#[derive(Debug, Clone)]
pub struct Decoder {
    dialect: Dialect,
    memory: Memory,
    /// Texts of one event that lie apart.
    joined: String,
    /// Data that was no UTF-8, repaired.
    repaired: String,
    /// The counts of the event read last by JSON.
    usage: Usage,
    /// What the response at hand held before, where events repeat it.
    so_far: SoFar,
}

impl Decoder {
    /// A reader of this dialect.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            memory: Memory::default(),
            joined: String::new(),
            repaired: String::new(),
            usage: Usage::default(),
            so_far: SoFar::default(),
        }
    }

    /// Ready for the next response: what the events of the last one added up to is forgotten, but
    /// not their shapes.
    pub fn reset(&mut self) {
        self.so_far.reset();
    }

    /// Forgets the shapes of all events: the next one is read as JSON.
    pub fn forget(&mut self) {
        self.memory.forget();
    }

    /// What one event of a stream means. Bytes that are no UTF-8 count as U+FFFD, as the standard
    /// for event streams has it.
    #[inline]
    pub fn event<'a>(&'a mut self, message: Message<'a>) -> Event<'a> {
        if !message.name.is_empty() {
            return self.event_by_json(message);
        }
        if message.data == DONE.as_bytes() {
            return Event::Done;
        }
        match self.memory.find(message.data) {
            Some(fit) => self.memory.event(fit),
            None => self.event_by_json(message),
        }
    }

    /// The output of the event that `bytes` begins with, and the event's length: only if it is whole
    /// and like the last one.
    #[inline]
    pub(crate) fn like_the_last<'a>(&mut self, bytes: &'a [u8]) -> Option<(Output<'a>, usize)> {
        self.memory.read_wire(bytes)
    }

    /// Is this the data of an event that needs no JSON reader?
    #[cfg(test)]
    pub(crate) fn finds(&self, data: &[u8]) -> bool {
        self.memory.clone().find(data).is_some()
    }

    /// What a whole document means.
    pub fn document<'a>(&'a mut self, data: &'a [u8]) -> Event<'a> {
        let text = utf8(data, &mut self.repaired);
        let read = match self.dialect {
            Dialect::TgiGenerate => tgi_generate::document(text),
            _ => self.dialect.read(text),
        };
        match read {
            Ok(found) => judge(found, &mut self.joined, &mut self.usage),
            Err(error) => Event::Malformed(place(text, &error)),
        }
    }

    #[inline(never)]
    fn event_by_json<'a>(&'a mut self, message: Message<'a>) -> Event<'a> {
        let Message { name, data } = message;
        match name {
            b"ping" => return Event::Note(Note::Ping),
            // Copies of what comes again as data.
            b"tool_call_dispatch" | b"reasoning_dispatch" => return Event::Note(Note::Empty),
            _ => {}
        }
        let text = utf8(data, &mut self.repaired);
        if text.trim_ascii() == DONE {
            return Event::Done;
        }
        let mut spots = Spots::default();
        let repeats = self.dialect.may_repeat();
        let event = match self.dialect.read(text) {
            Ok(mut found) if repeats => {
                let tokens = self.so_far.subtract(&mut found);
                let event = judge(found, &mut self.joined, &mut self.usage);
                match event {
                    Event::Output(output) if tokens.is_some() => {
                        Event::Output(Output { tokens, ..output })
                    }
                    event => event,
                }
            }
            Ok(found) => {
                spots = found.spots;
                judge(found, &mut self.joined, &mut self.usage)
            }
            // One router writes errors in the notation of its own language.
            Err(_) if text.starts_with("{'error'") => fault(text),
            Err(_) if name == b"error" => fault(text),
            Err(error) => Event::Malformed(place(text, &error)),
        };
        match event {
            // The same bytes mean something else the next time.
            _ if name.is_empty() && repeats => {}
            _ if name.is_empty() => self.memory.learn(data, &event, &spots),
            Event::Fault(_) => {}
            _ if name == b"error" => return fault(text),
            _ => {}
        }
        event
    }
}

const DONE: &str = "[DONE]";

impl Dialect {
    fn read<'a>(&self, json: &'a str) -> Result<Found<'a>, serde_json::Error> {
        match self {
            Self::OpenaiChat => openai_chat::decode(json),
            Self::SglangGenerate => sglang_generate::decode(json),
            Self::TgiGenerate => tgi_generate::decode(json),
            Self::TritonGenerate => triton_generate::decode(json),
            Self::LlamacppCompletion => llamacpp_completion::decode(json),
            Self::OllamaChat => ollama_chat::decode(json),
            Self::OllamaGenerate => ollama_generate::decode(json),
            _ => openai_completions::decode(json),
        }
    }
}

fn fault(text: &str) -> Event<'_> {
    Event::Fault(Fault { message: Cow::Borrowed(text), code: None })
}

fn utf8<'a>(data: &'a [u8], repaired: &'a mut String) -> &'a str {
    match std::str::from_utf8(data) {
        Ok(text) => text,
        Err(_) => {
            *repaired = String::from_utf8_lossy(data).into_owned();
            repaired
        }
    }
}

/// An error outweighs output, output outweighs what else is there.
fn judge<'a>(found: Found<'a>, joined: &'a mut String, storage: &'a mut Usage) -> Event<'a> {
    if let Some(fault) = found.fault {
        return Event::Fault(fault);
    }
    let choice = found.choice;
    let usage = found.usage.map(|usage| {
        *storage = usage;
        &*storage
    });
    let kind = match choice.kind {
        Some(kind) => kind,
        None if !choice.reasoning.first.is_empty() => OutputKind::Reasoning,
        None if choice.tokens > 0 => OutputKind::TokenIds,
        None if choice.finish.is_some() || usage.is_some() || found.done => {
            return Event::Tail(Tail { finish: choice.finish, usage, done: found.done });
        }
        None if choice.role => return Event::Note(Note::Role),
        None => return Event::Note(Note::Empty),
    };
    let (text, reasoning) = join(&choice.text, &choice.reasoning, joined);
    let tokens = (choice.tokens > 0).then_some(choice.tokens);
    let (text, reasoning) = (text.into(), reasoning.into());
    let (finish, done) = (choice.finish, found.done);
    Event::Output(Output { kind, text, reasoning, tokens, finish, usage, done })
}

fn join<'a>(
    text: &Pieces<'a>,
    reasoning: &Pieces<'a>,
    joined: &'a mut String,
) -> (&'a str, &'a str) {
    if text.more.is_empty() && reasoning.more.is_empty() {
        return (text.first, reasoning.first);
    }
    joined.clear();
    text.add_to(joined);
    let middle = joined.len();
    reasoning.add_to(joined);
    joined.split_at(middle)
}

impl Pieces<'_> {
    fn add_to(&self, joined: &mut String) {
        joined.push_str(self.first);
        joined.extend(self.more.iter().copied());
    }
}

/// The JSON reader counts lines and columns from one.
fn place(text: &str, error: &serde_json::Error) -> Malformed {
    let before: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    Malformed { at: (before + error.column().saturating_sub(1)).min(text.len()) }
}
