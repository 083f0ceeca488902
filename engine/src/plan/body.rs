//! The JSON body of a request: all of it but the prompt is made once.
//!
//! Bodies depend on the workload and (seed, index) alone, not on the run.

use serde_json::{Map, Value, json};

use crate::workload::{Content, Dialect, Target};

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
    /// Both dialects ask for the length by `max_tokens`, which every server takes, and force it
    /// by `min_tokens` and `ignore_eos`. Members of `extra_body` replace ours whole, without
    /// merging; a member that is null is left out, ours included.
    ///
    /// # Errors
    ///
    /// `extra_body` speaks of the prompt or contradicts `stream`.
    pub(super) fn new(target: &Target, content: &Content) -> Result<Self, BodyError> {
        let prompt_member = prompt_member(target.dialect);
        refuse_ours(&target.extra_body, prompt_member, target.stream)?;

        let mut extra = target.extra_body.clone();
        let model = extra.remove("model").unwrap_or_else(|| json!(target.model));
        let mut before = String::from("{");
        push_member(&mut before, "model", &model);
        push_comma(&mut before);
        before.push_str(match target.dialect {
            Dialect::OpenaiChat => r#""messages":[{"role":"user","content":""#,
            _ => r#""prompt":""#,
        });

        let mut after = String::from(match target.dialect {
            Dialect::OpenaiChat => r#""}]"#,
            _ => r#"""#,
        });
        for (name, ours) in settings(content.output_tokens, target.stream) {
            let value = extra.remove(name).unwrap_or(ours);
            push_member(&mut after, name, &value);
        }
        for (name, value) in &extra {
            push_member(&mut after, name, value);
        }
        after.push('}');
        Ok(Self { before: before.into_bytes(), after: after.into_bytes() })
    }

    /// Bytes of a body apart from its prompt.
    pub(super) fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

/// Our members after the prompt, in order.
fn settings(output_tokens: u32, stream: bool) -> Vec<(&'static str, Value)> {
    let mut members = vec![
        ("max_tokens", json!(output_tokens)),
        ("min_tokens", json!(output_tokens)),
        ("ignore_eos", json!(true)),
        ("stream", json!(stream)),
    ];
    if stream {
        members.push(("stream_options", json!({"include_usage": true})));
    }
    members
}

fn prompt_member(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenaiChat => "messages",
        _ => "prompt",
    }
}

/// Members that others of our parts depend on: the prompt's tokens are counted, and the answer
/// is read as a stream or not.
fn refuse_ours(
    extra: &Map<String, Value>,
    prompt_member: &'static str,
    stream: bool,
) -> Result<(), BodyError> {
    if extra.contains_key(prompt_member) {
        return Err(BodyError::Prompt { member: prompt_member });
    }
    match extra.get("stream") {
        Some(value) if *value != Value::Bool(stream) => Err(BodyError::Stream { stream }),
        _ => Ok(()),
    }
}

fn push_member(json: &mut String, name: &str, value: &Value) {
    if value.is_null() {
        return;
    }
    push_comma(json);
    json.push_str(&Value::from(name).to_string());
    json.push(':');
    json.push_str(&value.to_string());
}

fn push_comma(json: &mut String) {
    if !json.ends_with('{') {
        json.push(',');
    }
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
}
