//! The members of a body, API by API: how the prompt stands in it, and what is said beside it.

use serde_json::{Value, json};

use crate::workload::{Dialect, Target};

/// How what is said stands in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The member that holds it.
    pub(super) member: &'static str,
    /// As what.
    pub(super) way: Way,
    /// Where a system prompt stands.
    pub(super) system: System,
}

/// As what a prompt stands in its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A list of messages.
    Messages,
    /// A text; a list of messages where there are several.
    Input,
    /// A text.
    Text,
    /// A list of token ids.
    Ids,
}

/// Where a system prompt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// A message before the others.
    Message,
    /// A member of that name.
    Member(&'static str),
    /// At the beginning of the text.
    Text,
}

impl Shape {
    /// That of a template, whose file has quotes around the prompt.
    pub(super) const TEMPLATE: Self = Self { member: "", way: Way::Text, system: System::Text };

    /// That of a dialect; none where it takes no ids.
    pub(super) fn of(dialect: Dialect, as_ids: bool) -> Option<Self> {
        let (member, way, system) = match dialect {
            Dialect::OpenaiChat | Dialect::OllamaChat => {
                ("messages", Way::Messages, System::Message)
            }
            Dialect::AnthropicMessages => ("messages", Way::Messages, System::Member("system")),
            Dialect::OpenaiResponses => ("input", Way::Input, System::Member("instructions")),
            Dialect::OpenaiEmbeddings => ("input", Way::Text, System::Text),
            Dialect::SglangGenerate if as_ids => ("input_ids", Way::Text, System::Text),
            Dialect::SglangGenerate => ("text", Way::Text, System::Text),
            Dialect::TgiGenerate => ("inputs", Way::Text, System::Text),
            Dialect::TritonGenerate => ("text_input", Way::Text, System::Text),
            Dialect::OpenaiCompletions
            | Dialect::LlamacppCompletion
            | Dialect::OllamaGenerate
            | Dialect::Template => ("prompt", Way::Text, System::Text),
        };
        if !as_ids {
            return Some(Self { member, way, system });
        }
        let takes_ids = matches!(
            dialect,
            Dialect::OpenaiCompletions
                | Dialect::OpenaiEmbeddings
                | Dialect::SglangGenerate
                | Dialect::LlamacppCompletion
        );
        takes_ids.then_some(Self { member, way: Way::Ids, system: System::Text })
    }

    /// Whether there is a place for a system prompt of its own.
    pub(crate) fn has_system(self) -> bool {
        self.system != System::Text
    }

    /// Whether the system prompt is no message.
    pub(crate) fn keeps_system_apart(self) -> bool {
        matches!(self.system, System::Member(_))
    }

    /// Whether earlier turns stand as messages of their own.
    pub(crate) fn has_messages(self) -> bool {
        matches!(self.way, Way::Messages | Way::Input)
    }

    /// Whether prompts are token ids.
    pub(crate) fn is_ids(self) -> bool {
        self.way == Way::Ids
    }
}

/// The model as a body has it.
pub(super) fn model(target: &Target, model: &str) -> Option<Value> {
    match target.dialect {
        Dialect::SglangGenerate
        | Dialect::TgiGenerate
        | Dialect::TritonGenerate
        | Dialect::Template => None,
        // Only its router reads it.
        Dialect::LlamacppCompletion if model.is_empty() => None,
        _ => Some(json!(model)),
    }
}

/// Our members after the prompt, in order; `length` stands for the output length.
pub(super) fn settings(target: &Target, length: &Value) -> Vec<(&'static str, Value)> {
    let length = length.clone();
    let stream = ("stream", json!(target.stream));
    match target.dialect {
        Dialect::OpenaiChat | Dialect::OpenaiCompletions => openai(target, length),
        Dialect::OpenaiResponses => vec![("max_output_tokens", length), stream],
        Dialect::OpenaiEmbeddings | Dialect::Template => Vec::new(),
        Dialect::AnthropicMessages => vec![("max_tokens", length), stream],
        Dialect::SglangGenerate => {
            let forced =
                json!({"max_new_tokens": length, "min_new_tokens": length, "ignore_eos": true});
            let plain = json!({"max_new_tokens": length});
            vec![("sampling_params", if target.force_length { forced } else { plain }), stream]
        }
        // Details are what says why an answer ended and how long it is.
        Dialect::TgiGenerate => {
            vec![("parameters", json!({"max_new_tokens": length, "details": true}))]
        }
        Dialect::TritonGenerate => {
            vec![("parameters", json!({"stream": target.stream, "max_tokens": length}))]
        }
        Dialect::LlamacppCompletion => llamacpp(target, length),
        Dialect::OllamaChat | Dialect::OllamaGenerate => {
            vec![stream, ("options", json!({"num_predict": length}))]
        }
    }
}

/// The length is asked for by `max_tokens`, which every server takes.
fn openai(target: &Target, length: Value) -> Vec<(&'static str, Value)> {
    let mut members = vec![("max_tokens", length.clone())];
    if target.force_length {
        members.push(("min_tokens", length));
        members.push(("ignore_eos", json!(true)));
    }
    members.push(("stream", json!(target.stream)));
    if target.stream {
        let options = if target.continuous_usage {
            json!({"include_usage": true, "continuous_usage_stats": true})
        } else {
            json!({"include_usage": true})
        };
        members.push(("stream_options", options));
    }
    if target.return_token_ids {
        members.push(("return_token_ids", json!(true)));
    }
    members
}

/// `cache_prompt` is left to the server, whose default is what others meet too.
fn llamacpp(target: &Target, length: Value) -> Vec<(&'static str, Value)> {
    let mut members = vec![("n_predict", length)];
    if target.force_length {
        members.push(("ignore_eos", json!(true)));
    }
    members.push(("stream", json!(target.stream)));
    if target.return_token_ids {
        members.push(("return_tokens", json!(true)));
    }
    members
}
