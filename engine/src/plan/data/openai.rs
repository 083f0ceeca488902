//! Bodies and messages of the OpenAI chat API.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::conversation::tools;
use super::entry::{Content, Entry, Turn};
use super::members::{Members, Value, fault};
use super::normal::{of, optional};
use super::reader::Remarks;
use crate::workload::TimeUnit;

/// Members that the run sets for itself.
const SET_BY_THE_RUN: [&str; 4] = ["model", "stream", "stream_options", "n"];

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// A request with all of its history, from its body or its messages alone.
///
/// # Errors
/// What is wrong with it.
pub(super) fn request(
    members: &Members,
    ignore_times: bool,
    remarks: &mut Remarks,
) -> Result<Entry, String> {
    let found = members.find(&["messages", "chat_messages"]);
    let (name, list) =
        found.ok_or_else(|| format!("no `messages`; there are {}", members.list()))?;
    let list = list.json::<Vec<Box<RawValue>>>().map_err(of(name))?;
    let mut turn = of_messages(list, remarks)?;
    let mut entry = Entry::default();
    for (other, value) in members.iter().filter(|(other, _)| *other != name) {
        match other {
            "max_tokens" | "max_completion_tokens" => {
                turn.output_tokens = Some(value.tokens().map_err(of(other))?);
            }
            "tools" => turn.tools = tools(value).map_err(of(other))?,
            "timestamp" if ignore_times => {}
            "timestamp" => {
                let time = value.ns(TimeUnit::Milliseconds).map_err(of(other))?;
                entry.timestamp_ns = Some(time);
            }
            "session_id" => entry.session = Some(value.name().map_err(of(other))?),
            _ if SET_BY_THE_RUN.contains(&other) => remarks.set_by_the_run += 1,
            _ => {
                let value = value.json().map_err(of(other))?;
                turn.extra.insert(other.to_owned(), value);
            }
        }
    }
    turn.delay_ns = optional(members, "delay", |value| value.ns(TimeUnit::Milliseconds))?;
    turn.extra.remove("delay");
    entry.turns.push(turn);
    Ok(entry)
}

/// One request with these messages. What the assistant said last is its answer in the recording.
///
/// # Errors
/// That there is nothing to send.
pub(super) fn of_messages(
    mut messages: Vec<Box<RawValue>>,
    remarks: &mut Remarks,
) -> Result<Turn, String> {
    check_messages(&messages)?;
    let mut answers = Vec::new();
    while let Some(last) = messages.last() {
        let message: Message<'_> = parse(last, messages.len())?;
        if message.role != "assistant" {
            break;
        }
        let text = message.content.and_then(|content| serde_json::from_str(content.get()).ok());
        answers.extend(text.map(|text: String| text));
        remarks.last_answers += 1;
        messages.pop();
    }
    let asks = messages.iter().enumerate().any(|(position, message)| {
        let role = parse(message, position + 1).map(|message| message.role);
        role.is_ok_and(|role| !matches!(&*role, "system" | "developer" | "assistant"))
    });
    if !asks {
        return Err("no message of the user: there is nothing to ask".to_owned());
    }
    answers.reverse();
    let mut turn = Turn::new(Content::Messages(messages));
    turn.answer = Some(answers.join("\n")).filter(|answer| !answer.is_empty());
    Ok(turn)
}

/// Whether every message has a role, and there is one.
///
/// # Errors
/// The first that has none.
pub(super) fn check_messages(messages: &[Box<RawValue>]) -> Result<(), String> {
    if messages.is_empty() {
        return Err("there are no messages in it".to_owned());
    }
    for (position, message) in messages.iter().enumerate() {
        parse(message, position + 1)?;
    }
    Ok(())
}

/// Whether a body is an object with something in it.
///
/// # Errors
/// What it is instead.
pub(super) fn check_body(body: &RawValue) -> Result<(), String> {
    let members = Members::parse(body.get()).map_err(|fault| format!("a body: {fault}"))?;
    match members.names().next() {
        Some(_) => Ok(()),
        None => Err("the body is empty".to_owned()),
    }
}

/// Whether a list holds messages of a conversation with `from` and `value`.
pub(super) fn is_sharegpt(list: &Value) -> bool {
    let list = list.json::<Vec<Box<RawValue>>>().unwrap_or_default();
    let first = list.first().and_then(|first| Members::parse(first.get()).ok());
    first.is_some_and(|first| first.has("from") && first.has("value"))
}

fn parse(message: &RawValue, number: usize) -> Result<Message<'_>, String> {
    serde_json::from_str(message.get())
        .map_err(|error| format!("message {number}: {}", fault(&error)))
}
