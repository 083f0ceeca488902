//! Conversations in which every speaker has a name: ShareGPT and its like.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::entry::{Content, Entry, Turn};
use super::members::{Members, Value, fault};
use super::normal::{of, optional};
use super::reader::Remarks;
use super::stamps::shown;
use crate::workload::TimeUnit;

#[derive(Deserialize)]
struct Said {
    #[serde(alias = "role")]
    from: String,
    #[serde(alias = "content", alias = "text")]
    value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    System,
    User,
    Assistant,
}

/// A conversation in which each text of the user is a request.
///
/// # Errors
/// What is wrong with it.
pub(super) fn sharegpt(
    members: &Members,
    ignore_times: bool,
    remarks: &mut Remarks,
) -> Result<Entry, String> {
    let names = ["conversations", "conversation", "messages", "chat_messages"];
    let (name, list) = members
        .find(&names)
        .ok_or_else(|| format!("no `conversations`; there are {}", members.list()))?;
    let mut entry = of_list(&list.json::<Vec<Box<RawValue>>>().map_err(of(name))?, remarks)?;
    let system = optional(members, "system", Value::any_text)?;
    entry.system = entry.system.or(system.filter(|system| !system.is_empty()));
    entry.session = optional(members, "id", Value::name)?;
    if !ignore_times {
        let time = |value: &Value| value.ns(TimeUnit::Milliseconds);
        entry.timestamp_ns = optional(members, "timestamp", time)?;
    }
    let tools = optional(members, "tools", tools)?.flatten();
    for turn in &mut entry.turns {
        turn.tools.clone_from(&tools);
    }
    Ok(entry)
}

/// The requests of a list of what was said. What one speaker says in a row is one text; what the
/// assistant says before the user is left out and counted.
///
/// # Errors
/// What is wrong with it.
pub(super) fn of_list(list: &[Box<RawValue>], remarks: &mut Remarks) -> Result<Entry, String> {
    let mut entry = Entry::default();
    let mut texts: Vec<(String, Option<String>)> = Vec::new();
    for (position, raw) in list.iter().enumerate() {
        let wrong = |reason: String| format!("message {}: {reason}", position + 1);
        let said: Said = serde_json::from_str(raw.get()).map_err(|error| wrong(fault(&error)))?;
        match (speaker(&said.from).map_err(wrong)?, texts.last_mut()) {
            (Speaker::System, None) => join(entry.system.get_or_insert_default(), &said.value),
            (Speaker::System, Some(_)) => {
                return Err(wrong("a system prompt within the conversation".to_owned()));
            }
            (Speaker::User, Some((text, None))) => join(text, &said.value),
            (Speaker::User, _) => texts.push((said.value, None)),
            (Speaker::Assistant, None) => remarks.leading_answers += 1,
            (Speaker::Assistant, Some((_, answer))) => {
                join(answer.get_or_insert_default(), &said.value);
            }
        }
    }
    for (position, (text, answer)) in texts.into_iter().enumerate() {
        if text.trim().is_empty() {
            return Err(format!("turn {} of the user is empty", position + 1));
        }
        let mut turn = Turn::new(Content::Text(text));
        turn.answer = answer.filter(|answer| !answer.is_empty());
        entry.turns.push(turn);
    }
    if entry.turns.is_empty() {
        return Err("no turn of the user in this conversation".to_owned());
    }
    Ok(entry)
}

/// Tools: a list, or a text that holds one; `None` for an empty one.
///
/// # Errors
/// What it is instead.
pub(super) fn tools(value: &Value) -> Result<Option<Box<RawValue>>, String> {
    if value.is_blank() {
        return Ok(None);
    }
    let raw = match value.kind() {
        "a text" => {
            let text = value.any_text()?;
            RawValue::from_string(text).map_err(|_| "is a text that is no JSON".to_owned())?
        }
        _ => value.raw()?,
    };
    match raw.get().as_bytes().first() {
        Some(b'[') => Ok(Some(raw)),
        _ => Err("is not a list".to_owned()),
    }
}

fn speaker(name: &str) -> Result<Speaker, String> {
    match name {
        "human" | "user" => Ok(Speaker::User),
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => Ok(Speaker::Assistant),
        "system" => Ok(Speaker::System),
        _ => Err(format!("unknown speaker {}: human, gpt and system are known", shown(name))),
    }
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}
