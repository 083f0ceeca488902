//! The slow and obvious decoder that the parser is compared with: JSON as a tree, text as strings.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;
use tokclock_parser::dialect::Dialect;
use tokclock_parser::event::{Event, Note, Usage, unescape};

/// The meaning of an event, with nothing borrowed or escaped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Meaning {
    /// Kind, text, reasoning, tokens, finish, usage.
    Output(String, String, String, u32, Option<String>, Option<Usage>),
    Tail(Option<String>, Option<Usage>),
    Fault(String, Option<String>),
    Role,
    Empty,
    Ping,
    Done,
    Malformed,
}

impl From<&Event<'_>> for Meaning {
    fn from(event: &Event<'_>) -> Self {
        match event {
            Event::Output(output) => Self::Output(
                format!("{:?}", output.kind),
                unescape(output.text.as_str()).into(),
                unescape(output.reasoning.as_str()).into(),
                output.tokens.unwrap_or(0),
                output.finish.map(|finish| finish.as_str().to_owned()),
                output.usage.copied(),
            ),
            Event::Tail(tail) => Self::Tail(
                tail.finish.map(|finish| finish.as_str().to_owned()),
                tail.usage.copied(),
            ),
            Event::Fault(fault) => Self::Fault(
                fault.message.clone().into_owned(),
                fault.code.clone().map(|code| code.into_owned()),
            ),
            Event::Note(Note::Role) => Self::Role,
            Event::Note(Note::Empty) => Self::Empty,
            Event::Note(Note::Ping) => Self::Ping,
            Event::Done => Self::Done,
            Event::Malformed(_) => Self::Malformed,
        }
    }
}

/// What the data of one unnamed event means.
pub(crate) fn meaning(dialect: &Dialect, data: &[u8]) -> Meaning {
    let text = String::from_utf8_lossy(data);
    if text.trim_ascii() == "[DONE]" {
        return Meaning::Done;
    }
    let Ok(json) = serde_json::from_str::<Value>(&text) else {
        let quoted = text.starts_with("{'error'");
        return if quoted { Meaning::Fault(text.into(), None) } else { Meaning::Malformed };
    };
    if let Some(fault) = fault(&json, &text) {
        return fault;
    }
    let mut all = All::default();
    for choice in json["choices"].as_array().into_iter().flatten() {
        all.add(dialect, choice);
    }
    all.meaning(usage(&json["usage"]))
}

fn fault(json: &Value, text: &str) -> Option<Meaning> {
    let error = &json["error"];
    match error {
        Value::Null | Value::Bool(false) => {}
        Value::String(message) if message.is_empty() => {}
        Value::String(message) => return Some(Meaning::Fault(message.clone(), None)),
        _ => {
            let message = match error["message"].as_str() {
                // Without a message it is the error as it was written.
                None | Some("") => raw(text, &["error"]),
                Some(message) => message.to_owned(),
            };
            let code = code(text, &["error", "code"]).or_else(|| code(text, &["error", "type"]));
            return Some(Meaning::Fault(message, code));
        }
    }
    let message = json["message"].as_str().unwrap_or("").to_owned();
    (json["object"] == "error").then(|| Meaning::Fault(message, code(text, &["code"])))
}

/// A number as it is written, or what a string says.
fn code(text: &str, path: &[&str]) -> Option<String> {
    let written = raw(text, path);
    match serde_json::from_str(&written).ok()? {
        Value::String(code) if !code.is_empty() => Some(code),
        Value::Number(_) => Some(written),
        _ => None,
    }
}

/// The JSON at this path as it is written; empty if there is none.
fn raw(text: &str, path: &[&str]) -> String {
    let [name, path @ ..] = path else { return text.to_owned() };
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap_or_default();
    fields.get(*name).map_or(String::new(), |field| raw(field.get(), path))
}

#[derive(Default)]
struct All {
    /// Foremost first: the order of `OutputKind`.
    kinds: [bool; 4],
    text: String,
    reasoning: String,
    tokens: u32,
    finish: Option<String>,
    role: bool,
}

impl All {
    fn add(&mut self, dialect: &Dialect, choice: &Value) {
        self.tokens += choice["token_ids"].as_array().map_or(0, |ids| ids.len() as u32);
        if let Some(word) = choice["finish_reason"].as_str().filter(|word| !word.is_empty()) {
            let known = ["stop", "length", "tool_calls", "content_filter"];
            self.finish =
                Some(known.into_iter().find(|name| *name == word).unwrap_or("other").into());
        }
        let from = match dialect {
            Dialect::OpenaiCompletions => {
                self.text(0, &choice["text"]);
                choice
            }
            _ => {
                let key = if choice.get("delta").is_some() { "delta" } else { "message" };
                self.message(&choice[key]);
                &choice[key]
            }
        };
        let reasoning = [&from["reasoning"], &from["reasoning_content"]];
        let mut found = reasoning.into_iter().filter_map(Value::as_str);
        self.reasoning.push_str(found.find(|text| !text.is_empty()).unwrap_or(""));
    }

    fn message(&mut self, message: &Value) {
        self.role |= message["role"].as_str().is_some_and(|role| !role.is_empty());
        self.text(0, &message["content"]);
        for part in message["content"].as_array().into_iter().flatten() {
            self.text(0, &part["text"]);
            self.text(1, &part["refusal"]);
        }
        self.text(1, &message["refusal"]);
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let functions = calls.map(|call| &call["function"]).chain([&message["function_call"]]);
        for function in functions {
            self.text(2, &function["name"]);
            self.text(2, &function["arguments"]);
        }
        self.kinds[3] |= message["audio"]["data"].as_str().is_some_and(|data| !data.is_empty());
        self.kinds[3] |= message["images"].as_array().is_some_and(|images| !images.is_empty());
        self.text(3, &message["audio"]["transcript"]);
    }

    fn text(&mut self, kind: usize, value: &Value) {
        let text = value.as_str().unwrap_or("");
        self.kinds[kind] |= !text.is_empty();
        self.text.push_str(text);
    }

    fn meaning(self, usage: Option<Usage>) -> Meaning {
        let names = ["Content", "Refusal", "ToolCall", "Media"];
        let kind = match self.kinds.iter().position(|seen| *seen) {
            Some(first) => names[first],
            None if !self.reasoning.is_empty() => "Reasoning",
            None if self.tokens > 0 => "TokenIds",
            None if self.finish.is_some() || usage.is_some() => {
                return Meaning::Tail(self.finish, usage);
            }
            None if self.role => return Meaning::Role,
            None => return Meaning::Empty,
        };
        let (text, reasoning) = (self.text, self.reasoning);
        Meaning::Output(kind.into(), text, reasoning, self.tokens, self.finish, usage)
    }
}

fn usage(json: &Value) -> Option<Usage> {
    let count = |value: &Value| {
        let whole = |number: &f64| number.fract() == 0.0 && (0.0..=2_f64.powi(53)).contains(number);
        value.as_u64().or_else(|| value.as_f64().filter(whole).map(|number| number as u64))
    };
    let usage = Usage {
        input_tokens: count(&json["prompt_tokens"]),
        output_tokens: count(&json["completion_tokens"]),
        reasoning_tokens: count(&json["completion_tokens_details"]["reasoning_tokens"]),
        cached_tokens: count(&json["prompt_tokens_details"]["cached_tokens"]),
    };
    (usage != Usage::default()).then_some(usage)
}
