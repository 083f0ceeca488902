//! The JSON body of a request: all of it but the prompt is made once.
//!
//! Bodies depend on the workload and (seed, index) alone, not on the run.

mod members;

use serde_json::{Map, Value};

use self::members::PromptMember;
use crate::workload::template::Filling;
use crate::workload::{Content, Dialect, Target, TemplateError};

/// What stands before and after the prompt, the same in every body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// From the opening brace to the quote before the prompt.
    pub(super) before: Vec<u8>,
    /// From the quote after the prompt to the closing brace.
    pub(super) after: Vec<u8>,
}

impl Frame {
    /// The frame of a workload's bodies.
    ///
    /// Members of `extra_body` replace ours whole, but those of [`NESTED`] are merged one level
    /// deep; a member that is null is left out, ours included.
    ///
    /// # Errors
    ///
    /// `extra_body` speaks of the prompt or contradicts `stream`, or the template is none.
    pub(super) fn new(target: &Target, content: &Content) -> Result<Self, BodyError> {
        if target.dialect == Dialect::Template {
            return Self::of_template(target, content);
        }
        let prompt = PromptMember::of(target.dialect);
        refuse_ours(target, prompt.name)?;

        let mut extra = target.extra_body.clone();
        let mut before = String::from("{");
        if let Some(model) = extra.remove("model").or_else(|| members::model(target)) {
            push_member(&mut before, "model", &model);
        }
        let (open, close) = prompt.around();
        push_name(&mut before, prompt.name);
        before.push_str(open);

        let mut after = String::from(close);
        for (name, ours) in members::settings(target, content.output_tokens) {
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
        Ok(Self { before: before.into_bytes(), after: after.into_bytes() })
    }

    /// The frame that a template gives, byte for byte as it stands in its file.
    fn of_template(target: &Target, content: &Content) -> Result<Self, BodyError> {
        let template = target.template.as_ref().ok_or(BodyError::NoTemplate)?;
        if !target.extra_body.is_empty() {
            return Err(BodyError::TemplateExtra);
        }
        let (before, after) = template.frame(Filling {
            model: &target.model,
            max_tokens: content.output_tokens,
            stream: target.stream,
        })?;
        Ok(Self { before: before.into_bytes(), after: after.into_bytes() })
    }

    /// Bytes of a body apart from its prompt.
    pub(super) fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

/// Objects of ours whose members are merged with those of `extra_body`.
const NESTED: [&str; 3] = ["parameters", "options", "sampling_params"];

/// Members that others of our parts depend on: the prompt's tokens are counted, and the answer
/// is read as a stream or not.
fn refuse_ours(target: &Target, prompt: &'static str) -> Result<(), BodyError> {
    let extra = &target.extra_body;
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
}

#[cfg(test)]
mod tests;
