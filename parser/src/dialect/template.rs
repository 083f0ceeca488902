//! A dialect that the user describes: where in the JSON what lies.

use std::fmt;

use serde::de::IgnoredAny;

use super::found::Found;
use super::lenient::{count, inside};
use super::openai::fault;
pub use super::pointer::PLACES_MAX;
use super::pointer::{Node, parse};
use super::told::{Tokens, Told};
use crate::event::{Finish, OutputKind, Usage, unescape};
use crate::shape::Spots;

/// How a stream is cut into events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// An event stream.
    #[default]
    Sse,
    /// A JSON text on each line, unless its content type is that of an event stream.
    Ndjson,
}

/// What the user says of a dialect. Every place is a JSON Pointer (RFC 6901), read both in the data
/// of an event and in a document; of several places for the same thing the first that holds some
/// counts. A value of the wrong type is the same as none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// How a stream is cut into events.
    pub framing: Framing,
    /// Generated text: a string.
    pub text: Vec<String>,
    /// Reasoning: a string.
    pub reasoning: Vec<String>,
    /// Tokens of this event: an array has one per element, a number is their count.
    pub tokens: Vec<String>,
    /// Tokens of the prompt: a number.
    pub input_tokens: Vec<String>,
    /// Tokens generated so far, or in all: a number.
    pub output_tokens: Vec<String>,
    /// Why generation ended: a word, `true`, or anything else that is neither null, false nor
    /// empty.
    pub finish: Vec<String>,
    /// An error: a string or an object. `/error` if no place is given.
    pub error: Vec<String>,
    /// `true` in the event that ends the answer.
    pub done: Vec<String>,
    /// The data that ends a stream, such as `[DONE]`, which does so in any case.
    pub done_line: Option<String>,
    /// Text, reasoning and arrays of tokens repeat what came before.
    pub cumulative: bool,
    /// The end of a complete body ends the answer, so that nothing else must.
    pub ends_with_body: bool,
}

/// A dialect made from [`Places`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    places: Places,
    root: Node,
    /// What the places of the tree are of, by number.
    roles: Vec<Role>,
    /// Nothing that may differ between events that are alike is read for two purposes.
    shapely: bool,
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// A place is no JSON Pointer.
    Pointer {
        /// Which field of [`Places`] it is in.
        field: &'static str,
        /// As it was given.
        pointer: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Neither text, nor reasoning, nor tokens have a place, so no output would ever be seen.
    NoOutput,
    /// More than [`PLACES_MAX`] places.
    TooMany,
    /// The line that ends a stream is empty.
    EmptyDoneLine,
}

/// What a place is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Text,
    Reasoning,
    Tokens,
    InputTokens,
    OutputTokens,
    Finish,
    Error,
    Done,
}

impl Places {
    fn by_role(&self) -> [(Role, &'static str, &[String]); 8] {
        [
            (Role::Text, "text", &self.text),
            (Role::Reasoning, "reasoning", &self.reasoning),
            (Role::Tokens, "tokens", &self.tokens),
            (Role::InputTokens, "input_tokens", &self.input_tokens),
            (Role::OutputTokens, "output_tokens", &self.output_tokens),
            (Role::Finish, "finish", &self.finish),
            (Role::Error, "error", &self.error),
            (Role::Done, "done", &self.done),
        ]
    }
}

impl Template {
    /// The dialect that these places make.
    ///
    /// # Errors
    ///
    /// If a place is no JSON Pointer, no place can show output, or there are too many.
    pub fn new(mut places: Places) -> Result<Self, TemplateError> {
        if places.error.is_empty() {
            places.error.push("/error".to_owned());
        }
        if let Some(line) = &mut places.done_line {
            *line = line.trim_ascii().to_owned();
            if line.is_empty() {
                return Err(TemplateError::EmptyDoneLine);
            }
        }
        if places.text.is_empty() && places.reasoning.is_empty() && places.tokens.is_empty() {
            return Err(TemplateError::NoOutput);
        }
        let mut paths = Vec::new();
        for (role, field, pointers) in places.by_role() {
            for pointer in pointers {
                let path = parse(pointer).map_err(|why| TemplateError::Pointer {
                    field,
                    pointer: pointer.clone(),
                    why,
                })?;
                paths.push((role, path));
            }
        }
        if paths.len() > PLACES_MAX {
            return Err(TemplateError::TooMany);
        }
        let mut root = Node::default();
        for (number, (_, path)) in paths.iter().enumerate() {
            root.insert(path, number);
        }
        // A line that is JSON could be taken for an event like one before.
        let line_is_json = places.done_line.as_deref().is_some_and(is_json);
        let shapely = !line_is_json && !texts_are_shared(&paths);
        Ok(Self { roles: paths.into_iter().map(|(role, _)| role).collect(), places, root, shapely })
    }

    /// What it was made from, as it is understood.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Is this data the line that ends a stream?
    pub(super) fn ends_at(&self, data: &str) -> bool {
        self.places.done_line.as_deref().is_some_and(|line| data.trim_ascii() == line)
    }

    /// What an event or a document holds.
    pub(super) fn decode<'a>(
        &self,
        json: &'a str,
        told: &mut Told,
    ) -> Result<Found<'a>, serde_json::Error> {
        let values = self.root.find(json)?;
        let mut found = Found::default();
        let (mut text, mut reasoning, mut tokens) = ("", "", Tokens::default());
        let mut usage = Usage::default();
        for (role, value) in self.roles.iter().zip(values.at) {
            match role {
                Role::Text if text.is_empty() => text = inside(value),
                Role::Reasoning if reasoning.is_empty() => reasoning = inside(value),
                Role::Tokens if tokens.count == 0 => tokens = Tokens::read(value),
                Role::InputTokens => usage.input_tokens = usage.input_tokens.or(count(value)),
                Role::OutputTokens => usage.output_tokens = usage.output_tokens.or(count(value)),
                Role::Finish if found.choice.finish.is_none() => {
                    found.choice.finish = finish(value);
                }
                Role::Error if found.fault.is_none() && value.starts_with(['"', '{']) => {
                    found.fault = fault(value);
                }
                Role::Done => found.done |= value == "true",
                _ => {}
            }
        }
        let told_before =
            self.places.cumulative && !(text.is_empty() && reasoning.is_empty() && !tokens.listed);
        if told_before {
            text = told.text.news(text);
            reasoning = told.reasoning.news(reasoning);
            tokens = told.new_tokens(tokens);
        }
        found.usage = usage.known().map(|usage| told.count(usage));
        found.single = !self.shapely || told_before || found.usage.is_some();
        found.choice.push(OutputKind::Content, text);
        found.choice.reasoning.push(reasoning);
        found.choice.tokens = tokens.count;
        found.spots = Spots { idle: values.idle, ..Spots::default() };
        Ok(found)
    }
}

/// Does a text, which differs from event to event, say anything else as well?
fn texts_are_shared(paths: &[(Role, Vec<String>)]) -> bool {
    let text = |role| matches!(role, Role::Text | Role::Reasoning);
    let shared = |(role, path): &(Role, Vec<String>)| {
        paths.iter().any(|(other, below)| {
            role != other && (text(*role) || text(*other)) && below.starts_with(path)
        })
    };
    paths.iter().any(shared)
}

fn is_json(line: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(line).is_ok()
}

/// Why generation ended, if this value says that it did.
fn finish(json: &str) -> Option<Finish> {
    match json {
        "" | "null" | "false" => None,
        "true" => Some(Finish::Stop),
        _ if json.starts_with('"') => Finish::from_word(&unescape(inside(json))),
        _ if json.starts_with(['{', '[']) => {
            let empty = json[1..json.len() - 1].trim_ascii().is_empty();
            (!empty).then_some(Finish::Other)
        }
        _ => Some(Finish::Other),
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pointer { field, pointer, why } => {
                write!(f, "`{field}`: `{pointer}` cannot be read: {why}")
            }
            Self::NoOutput => f.write_str(
                "no output would be seen: give a place for `text`, `reasoning` or `tokens`",
            ),
            Self::TooMany => write!(f, "more than {PLACES_MAX} places"),
            Self::EmptyDoneLine => f.write_str(
                "`done_line` is empty: give the data that ends a stream, or leave it out",
            ),
        }
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests;
