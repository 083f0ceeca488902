//! From the data of an event, or a document, to its meaning: the shape first, then JSON.

use std::borrow::Cow;

use super::found::{Bare, Found, Pieces};
use super::past::Past;
use super::{
    Dialect, anthropic_messages, llamacpp_completion, ollama_chat, ollama_generate, openai_chat,
    openai_completions, openai_embeddings, openai_responses, sglang_generate, tgi_generate,
    triton_generate,
};
use crate::event::{Event, Fault, Malformed, Note, Output, OutputKind, Tail, Usage};
use crate::memory::{Memory, Place};
use crate::shape::Spots;
use crate::sse::Message;
use crate::times::ServerTimes;

/// What is known of the shapes of a dialect's events. Readers of the same dialect can hand it on, so
/// that each shape is learned and kept once.
#[derive(Debug, Clone, Default)]
pub struct Known(Option<Box<Memory>>);

/// Reads events and documents of one dialect. Keeps buffers, and the shapes of events,
/// which serve best if one decoder reads all responses of a server.
#[derive(Debug, Clone)]
pub struct Decoder {
    dialect: Dialect,
    known: Known,
    /// Where this stream stood in it, while another reads with it.
    place: Place,
    /// Texts of one event that lie apart.
    joined: String,
    /// Data that was no UTF-8, repaired.
    repaired: String,
    /// The counts of the event read last by JSON.
    usage: Usage,
    /// What the server said of its own work in this response. Most say nothing, and of thousands of
    /// connections each has a place for it.
    times: Option<Box<ServerTimes>>,
    /// What is remembered of the earlier events of this response.
    past: Past,
}

/// Takes what an event told of the server's own work; there is a place for it from the first on.
#[inline]
fn take(times: &mut Option<Box<ServerTimes>>, told: &ServerTimes) {
    if told.is_known() {
        times.get_or_insert_default().take(told);
    }
}

impl Decoder {
    /// A reader of this dialect.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            known: Known::default(),
            place: Place::default(),
            joined: String::new(),
            repaired: String::new(),
            usage: Usage::default(),
            times: None,
            past: Past::default(),
        }
    }

    /// Another response begins. What events look like is still known.
    pub fn begin(&mut self) {
        self.past.begin();
        if let Some(times) = &mut self.times {
            **times = ServerTimes::default();
        }
    }

    /// What the server said of its own work in this response so far.
    pub fn server_times(&self) -> Option<&ServerTimes> {
        self.times.as_deref()
    }

    /// Forgets the shapes of all events: the next one is read as JSON.
    pub fn forget(&mut self) {
        if let Some(memory) = &mut self.known.0 {
            memory.forget();
        }
    }

    /// Exchanges what is known of the shapes of events; `known` must come from a reader of the same
    /// dialect, or be new.
    #[inline]
    pub fn swap_known(&mut self, known: &mut Known) {
        std::mem::swap(&mut self.known, known);
        if let Some(memory) = &known.0 {
            self.place = memory.place();
        }
        if let Some(memory) = &mut self.known.0 {
            memory.go_to(self.place);
        }
    }

    /// What one event of a stream means. Bytes that are no UTF-8 count as U+FFFD, as the standard
    /// for event streams has it.
    #[inline]
    pub fn event<'a>(&'a mut self, message: Message<'a>) -> Event<'a> {
        if message.name.is_empty() {
            if message.data == DONE.as_bytes() {
                return Event::Done;
            }
        } else if NAMES_ALONE.contains(&message.name) {
            return self.event_by_json(message);
        }
        let fit = self.known.0.as_deref_mut().and_then(|memory| memory.find(message.data));
        match fit {
            Some(fit) => self.known.0.get_or_insert_default().event(fit),
            None => self.event_by_json(message),
        }
    }

    /// The output of the event that `bytes` begins with, and the event's length: only if it is whole
    /// and like the last one.
    #[inline]
    pub(crate) fn like_the_last<'a>(&mut self, bytes: &'a [u8]) -> Option<(Output<'a>, usize)> {
        self.known.0.as_deref_mut()?.read_wire(bytes)
    }

    /// Is this the data of an event that needs no JSON reader?
    #[cfg(test)]
    pub(crate) fn finds(&self, data: &[u8]) -> bool {
        self.known.clone().0.is_some_and(|mut memory| memory.find(data).is_some())
    }

    /// What a whole document means.
    pub fn document<'a>(&'a mut self, data: &'a [u8]) -> Event<'a> {
        let text = utf8(data, &mut self.repaired);
        match self.dialect.read_document(text) {
            Ok(found) => {
                take(&mut self.times, &found.times);
                judge(found, &mut self.joined, &mut self.usage)
            }
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
        if text.trim_ascii() == DONE || self.dialect.ends_at(text) {
            return Event::Done;
        }
        let (mut spots, mut single) = (Spots::default(), true);
        let event = match self.dialect.read(name, text, &mut self.past) {
            Ok(mut found) if self.dialect.may_repeat() => {
                // Its shape is not learned: the same bytes mean something else the next time.
                take(&mut self.times, &found.times);
                let tokens = self.past.so_far.subtract(&mut found);
                let event = judge(found, &mut self.joined, &mut self.usage);
                match event {
                    Event::Output(output) if tokens.is_some() => {
                        Event::Output(Output { tokens, ..output })
                    }
                    event => event,
                }
            }
            Ok(found) => {
                // Times are in no shape: they are never those of another request.
                (spots, single) = (found.spots, found.single || found.times.is_known());
                take(&mut self.times, &found.times);
                judge(found, &mut self.joined, &mut self.usage)
            }
            // One router writes errors in the notation of its own language.
            Err(_) if text.starts_with("{'error'") => fault(text),
            Err(_) if name == b"error" => fault(text),
            Err(error) => Event::Malformed(place(text, &error)),
        };
        match event {
            Event::Fault(_) => {}
            _ if name == b"error" => return fault(text),
            _ if single => {}
            _ => self.known.0.get_or_insert_default().learn(data, &event, &spots),
        }
        event
    }
}

const DONE: &str = "[DONE]";

/// Names that say what an event means whatever its data is. Of any other event the data says it.
const NAMES_ALONE: [&[u8]; 4] = [b"ping", b"error", b"tool_call_dispatch", b"reasoning_dispatch"];

impl Dialect {
    /// What the data of an event holds. Its name counts only where the data does not say its kind.
    fn read<'a>(
        &self,
        name: &'a [u8],
        json: &'a str,
        past: &mut Past,
    ) -> Result<Found<'a>, serde_json::Error> {
        match self {
            Self::OpenaiChat => openai_chat::decode(json),
            Self::OpenaiCompletions => openai_completions::decode(json),
            Self::SglangGenerate => sglang_generate::decode(json),
            Self::TgiGenerate => tgi_generate::decode(json),
            Self::TritonGenerate => triton_generate::decode(json),
            Self::LlamacppCompletion => llamacpp_completion::decode(json),
            Self::OllamaChat => ollama_chat::decode(json),
            Self::OllamaGenerate => ollama_generate::decode(json),
            Self::OpenaiResponses => openai_responses::decode(name, json),
            Self::OpenaiEmbeddings => openai_embeddings::decode(json),
            Self::AnthropicMessages => anthropic_messages::decode(name, json, &mut past.counts),
            Self::Template(template) => template.decode(json, &mut past.told),
        }
    }

    /// What a document holds: in most dialects, what an event does.
    fn read_document<'a>(&self, json: &'a str) -> Result<Found<'a>, serde_json::Error> {
        match self {
            Self::OpenaiResponses => openai_responses::document(json),
            Self::AnthropicMessages => anthropic_messages::document(json),
            Self::TgiGenerate => tgi_generate::document(json),
            _ => self.read(b"", json, &mut Past::default()),
        }
    }

    /// Is this data the line that ends a stream of this dialect? `[DONE]` ends it in any.
    fn ends_at(&self, data: &str) -> bool {
        match self {
            Self::Template(template) => template.ends_at(data),
            _ => false,
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
        None if matches!(found.bare, Bare::Done) => return Event::Done,
        None if matches!(found.bare, Bare::Ping) => return Event::Note(Note::Ping),
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
