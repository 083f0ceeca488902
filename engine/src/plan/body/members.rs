//! The members of a body, API by API: how the prompt stands in it, and what is said beside it.

use serde_json::{Value, json};

use crate::workload::{Dialect, Target};

/// The member that holds the prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct PromptMember {
    /// Its name.
    pub(super) name: &'static str,
    /// It is a list of messages, of which the prompt is the only one.
    is_messages: bool,
}

impl PromptMember {
    /// That of a dialect; a template has none of its own.
    pub(super) fn of(dialect: Dialect) -> Self {
        let (name, is_messages) = match dialect {
            Dialect::OpenaiChat | Dialect::AnthropicMessages | Dialect::OllamaChat => {
                ("messages", true)
            }
            Dialect::OpenaiResponses | Dialect::OpenaiEmbeddings => ("input", false),
            Dialect::SglangGenerate => ("text", false),
            Dialect::TgiGenerate => ("inputs", false),
            Dialect::TritonGenerate => ("text_input", false),
            Dialect::OpenaiCompletions
            | Dialect::LlamacppCompletion
            | Dialect::OllamaGenerate
            | Dialect::Template => ("prompt", false),
        };
        Self { name, is_messages }
    }

    /// Its value around the prompt's text.
    pub(super) fn around(self) -> (&'static str, &'static str) {
        if self.is_messages { (r#"[{"role":"user","content":""#, r#""}]"#) } else { ("\"", "\"") }
    }
}

/// The model as a body has it.
pub(super) fn model(target: &Target) -> Option<Value> {
    match target.dialect {
        Dialect::SglangGenerate
        | Dialect::TgiGenerate
        | Dialect::TritonGenerate
        | Dialect::Template => None,
        // Only its router reads it.
        Dialect::LlamacppCompletion if target.model.is_empty() => None,
        _ => Some(json!(target.model)),
    }
}

/// Our members after the prompt, in order.
pub(super) fn settings(target: &Target, output_tokens: u32) -> Vec<(&'static str, Value)> {
    let length = json!(output_tokens);
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
