//! The JSON body of a request: all of it but what is said and how long the answer is to be is made
//! once.
//!
//! Bodies depend on the workload and (seed, index) alone, not on the run.

mod dialogue;
mod members;

pub(super) use dialogue::Dialogue;
pub(super) use members::Shape;

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::push_number;
use crate::workload::template::Filling;
use crate::workload::{Dialect, Target, TemplateError};

/// Stands for the output length until a body is written: no length is as large, and nobody's text
/// holds it by chance.
const LENGTH: u64 = 7_036_874_417_766_402_113;

/// What stands around the prompt, the same in every body of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// How what is said stands in the body.
    pub(super) shape: Shape,
    /// From the opening brace to the colon before the prompt, with the output length between the
    /// pieces.
    before: Vec<Vec<u8>>,
    /// From behind the prompt to the closing brace, likewise.
    after: Vec<Vec<u8>>,
}

/// What of a class goes into every body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    /// The model.
    pub(super) model: &'a str,
    /// Tool definitions: a JSON array.
    pub(super) tools: Option<&'a str>,
    /// The prompt is a list of token ids.
    pub(super) as_ids: bool,
}

impl Frame {
    /// The frame of the bodies of one class.
    ///
    /// Members of `extra_body` replace ours whole, but those of [`NESTED`] are merged one level
    /// deep; a member that is null is left out, ours included. Those of `own`, which a recorded
    /// request brings, win over both.
    ///
    /// # Errors
    ///
    /// `extra_body` speaks of the prompt or contradicts `stream`, or the template is none.
    pub(super) fn new(
        target: &Target,
        said: Said<'_>,
        own: &Map<String, Value>,
    ) -> Result<Self, BodyError> {
        if target.dialect == Dialect::Template {
            return Self::of_template(target, said);
        }
        let shape = Shape::of(target.dialect, said.as_ids)
            .ok_or(BodyError::NoIds { dialect: target.dialect })?;
        let mut extra = target.extra_body.clone();
        extra.extend(own.clone());
        refuse_ours(target, &extra, shape.member)?;
        if let Some(tools) = said.tools {
            let tools: Value = serde_json::from_str(tools).map_err(|_| BodyError::Tools)?;
            extra.entry("tools").or_insert(tools);
        }

        let mut before = String::from("{");
        if let Some(model) = extra.remove("model").or_else(|| members::model(target, said.model)) {
            push_member(&mut before, "model", &model);
        }
        push_name(&mut before, shape.member);

        let mut after = String::new();
        for (name, ours) in members::settings(target, &Value::from(LENGTH)) {
            let value = match extra.remove(name) {
                Some(theirs) if NESTED.contains(&name) => merged(ours, theirs),
                Some(theirs) => theirs,
                None => ours,
            };
            push_member(&mut after, name, &value);
        }
        for (name, value) in &extra {
            push_member(&mut after, name, value);
        }
        after.push('}');
        Ok(Self { shape, before: pieces(&before), after: pieces(&after) })
    }

    /// The frame that a template gives, byte for byte as it stands in its file.
    fn of_template(target: &Target, said: Said<'_>) -> Result<Self, BodyError> {
        let template = target.template.as_ref().ok_or(BodyError::NoTemplate)?;
        if !target.extra_body.is_empty() || said.tools.is_some() {
            return Err(BodyError::TemplateExtra);
        }
        if said.as_ids {
            return Err(BodyError::NoIds { dialect: target.dialect });
        }
        let length = LENGTH.to_string();
        let filling = Filling { model: said.model, max_tokens: &length, stream: target.stream };
        let (before, after) = template.frame(filling)?;
        Ok(Self { shape: Shape::TEMPLATE, before: pieces(&before), after: pieces(&after) })
    }

    /// Appends the body that says `dialogue` and asks for `output_tokens`.
    pub(super) fn write(&self, dialogue: &Dialogue, output_tokens: u32, out: &mut Vec<u8>) {
        self.write_around(output_tokens, out, |out| dialogue.write(self.shape, out));
    }

    /// The same for whoever writes the value of the prompt's member by himself.
    pub(super) fn write_around(
        &self,
        output_tokens: u32,
        out: &mut Vec<u8>,
        prompt: impl FnOnce(&mut Vec<u8>),
    ) {
        write_pieces(&self.before, output_tokens, out);
        prompt(out);
        write_pieces(&self.after, output_tokens, out);
    }
}

/// A text cut where the output length stands.
fn pieces(text: &str) -> Vec<Vec<u8>> {
    text.split(&LENGTH.to_string()).map(|piece| piece.as_bytes().to_vec()).collect()
}

fn write_pieces(pieces: &[Vec<u8>], output_tokens: u32, out: &mut Vec<u8>) {
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            push_number(output_tokens.into(), out);
        }
        out.extend_from_slice(piece);
    }
}

/// Appends `text` as the inside of a JSON string.
pub(super) fn push_escaped(text: &str, out: &mut Vec<u8>) {
    let escaped = match text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        true => Cow::Borrowed(text.as_bytes()),
        false => {
            let quoted = Value::from(text).to_string().into_bytes();
            Cow::Owned(quoted[1..quoted.len() - 1].to_vec())
        }
    };
    out.extend_from_slice(&escaped);
}

/// Objects of ours whose members are merged with those of `extra_body`.
const NESTED: [&str; 3] = ["parameters", "options", "sampling_params"];

/// Members that others of our parts depend on: the prompt's tokens are counted, and the answer
/// is read as a stream or not.
fn refuse_ours(
    target: &Target,
    extra: &Map<String, Value>,
    prompt: &'static str,
) -> Result<(), BodyError> {
    if extra.contains_key(prompt) {
        return Err(BodyError::Prompt { member: prompt });
    }
    let inner = match target.dialect {
        Dialect::TritonGenerate => extra.get("parameters").and_then(|inner| inner.get("stream")),
        _ => None,
    };
    let differs = |value: &Value| *value != Value::Bool(target.stream);
    if extra.get("stream").is_some_and(differs) || inner.is_some_and(differs) {
        return Err(BodyError::Stream { stream: target.stream });
    }
    Ok(())
}

/// Their members over ours; one that is null takes ours away.
fn merged(ours: Value, theirs: Value) -> Value {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let all: Map<String, Value> = ours.into_iter().chain(theirs).collect();
            Value::Object(all.into_iter().filter(|(_, value)| !value.is_null()).collect())
        }
        (_, theirs) => theirs,
    }
}

fn push_member(json: &mut String, name: &str, value: &Value) {
    if value.is_null() {
        return;
    }
    push_name(json, name);
    json.push_str(&value.to_string());
}

fn push_name(json: &mut String, name: &str) {
    if !json.ends_with('{') {
        json.push(',');
    }
    json.push_str(&Value::from(name).to_string());
    json.push(':');
}

/// A body that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The prompt is the plan's.
    #[error("extra body: `{member}` is written by the plan; remove it")]
    Prompt {
        /// Name of the member.
        member: &'static str,
    },
    /// The answer would not be what is read.
    #[error("extra body: `stream` contradicts the target, which has stream = {stream}; remove it")]
    Stream {
        /// What the target says.
        stream: bool,
    },
    /// The dialect is a template, and there is none.
    #[error("dialect `template`: there is no template")]
    NoTemplate,
    /// A template is sent as it stands.
    #[error("extra body: a template is sent as it stands; write the members there")]
    TemplateExtra,
    /// The template cannot be filled in.
    #[error("template: {0}")]
    Template(#[from] TemplateError),
    /// The API takes text alone.
    #[error(
        "token ids: {dialect} takes text alone; use openai-completions, openai-embeddings, \
         sglang-generate or llamacpp-completion"
    )]
    NoIds {
        /// The API.
        dialect: Dialect,
    },
    /// Tool definitions that are no JSON.
    #[error("tools: they are no JSON")]
    Tools,
}

#[cfg(test)]
mod tests;
