//! The usual names of fields, by format.

use super::members::{Members, Value};
use super::normal;
use crate::workload::{DataSpec, Field, Format, TimeUnit};

/// Fields that hold what no request can carry yet, and what they hold.
const MEDIA: [(&str, &str); 11] = [
    ("image", "images"),
    ("images", "images"),
    ("image_uuids", "images"),
    ("image_files", "images"),
    ("image_url", "images"),
    ("audio", "audio"),
    ("audios", "audio"),
    ("audio_files", "audio"),
    ("video", "videos"),
    ("videos", "videos"),
    ("video_files", "videos"),
];

/// The names under which a field may stand, the first one found counts; in any case.
pub(super) const fn names(format: Format, field: Field) -> &'static [&'static str] {
    match format {
        Format::Azure => match field {
            Field::Timestamp => &["TIMESTAMP"],
            Field::InputTokens => &["ContextTokens"],
            Field::OutputTokens => &["GeneratedTokens"],
            _ => &[],
        },
        Format::BurstGpt => match field {
            Field::Timestamp => &["Timestamp"],
            Field::InputTokens => &["Request tokens"],
            Field::OutputTokens => &["Response tokens"],
            _ => &[],
        },
        Format::Bailian => match field {
            Field::Timestamp => &["timestamp"],
            Field::InputTokens => &["input_length"],
            Field::OutputTokens => &["output_length"],
            Field::HashIds => &["hash_ids"],
            _ => &[],
        },
        Format::Lengths => match field {
            Field::Prompt | Field::System | Field::Messages | Field::Body | Field::Answer => &[],
            _ => usual(field),
        },
        Format::Mooncake => match field {
            Field::Prompt => &["text_input"],
            Field::Messages => &["messages"],
            Field::Body => &["payload"],
            Field::Answer | Field::System => &[],
            _ => usual(field),
        },
        Format::SingleTurn | Format::RandomPool => match field {
            Field::Prompt => &["text", "texts"],
            Field::Messages | Field::HashIds | Field::Answer | Field::System => &[],
            _ => usual(field),
        },
        _ => usual(field),
    }
}

const fn usual(field: Field) -> &'static [&'static str] {
    match field {
        Field::Prompt => &[
            "prompt",
            "text",
            "text_input",
            "instruction",
            "question",
            "input",
            "content",
            "query",
        ],
        Field::System => &["system_prompt", "system", "prefix"],
        Field::Messages => &["messages", "chat_messages", "conversations", "conversation"],
        Field::Answer => &["response", "completion", "output", "answer"],
        Field::InputTokens => &[
            "input_length",
            "input_tokens",
            "prompt_tokens",
            "prompt_tokens_count",
            "input_tokens_count",
            "Request tokens",
            "ContextTokens",
        ],
        Field::OutputTokens => &[
            "output_length",
            "output_tokens",
            "completion_tokens",
            "output_tokens_count",
            "completion_tokens_count",
            "max_tokens",
            "max_completion_tokens",
            "Response tokens",
            "GeneratedTokens",
        ],
        Field::Timestamp => &["timestamp", "arrival_time"],
        Field::Delay => &["delay"],
        Field::Session => &["session_id", "session", "conversation_id", "chat_id"],
        Field::Tools => &["tools"],
        Field::HashIds => &["hash_ids"],
        Field::Body => &[],
    }
}

/// A field of a record and the name it stands under: the one given, else a usual one.
pub(super) fn find<'a>(
    spec: &DataSpec,
    format: Format,
    members: &'a Members,
    field: Field,
) -> Option<(&'a str, &'a Value)> {
    match spec.named(field) {
        Some(name) => members.iter().find(|(key, _)| *key == name),
        None => members.find(names(format, field)),
    }
}

/// The unit of times, and of a format that says nothing of it.
pub(super) fn time_unit(spec: &DataSpec, format: Format) -> TimeUnit {
    spec.time_unit.unwrap_or(match format {
        Format::Bailian | Format::BurstGpt => TimeUnit::Seconds,
        _ => TimeUnit::Milliseconds,
    })
}

/// Tokens of a block of `hash_ids`, where that is known.
pub(super) fn block_size(spec: &DataSpec, format: Format) -> Option<u32> {
    spec.block_size.or(match format {
        Format::Mooncake | Format::Lengths => Some(512),
        Format::Bailian => Some(16),
        _ => None,
    })
}

/// Whether no member holds what cannot be sent.
///
/// # Errors
/// The first that does.
pub(super) fn check_media(members: &Members) -> Result<(), String> {
    for (name, value) in members.iter() {
        let media = MEDIA.iter().find(|(media, _)| media.eq_ignore_ascii_case(name));
        if let Some((_, what)) = media.filter(|_| !value.is_blank()) {
            let verb = if *what == "audio" { "is" } else { "are" };
            return Err(format!("`{name}`: {what} {verb} not supported yet"));
        }
    }
    Ok(())
}

/// What to say where nothing can be sent.
pub(super) fn nothing_to_send(members: &Members) -> String {
    for field in [Field::Prompt, Field::Messages, Field::InputTokens] {
        if let Some(name) = members.blank(usual(field)) {
            return format!("`{name}` is empty, so there is nothing to send");
        }
    }
    let example = members.names().next().unwrap_or("NAME");
    format!(
        "no field is a prompt, messages or a length; there are {}: name the one to send, as in \
         --field prompt={example}",
        members.list()
    )
}

/// The members of a record that are not used, as names in a text; `None` if all are.
pub(super) fn unused(spec: &DataSpec, format: Format, members: &Members) -> Option<String> {
    const SILENT: [&str; 4] = ["extra", "role", "type", "block_size"];
    let is_used = |name: &str| {
        Field::ALL.iter().any(|field| {
            find(spec, format, members, *field).is_some_and(|(found, _)| found == name)
        })
    };
    let unused: Vec<String> = members
        .names()
        .filter(|name| !SILENT.contains(name) && !is_used(name))
        .map(|name| format!("`{name}`"))
        .collect();
    if unused.is_empty() { None } else { Some(unused.join(", ")) }
}

/// The format of a record, by the names of its members.
///
/// # Errors
/// That nothing in it can be sent, with what there is.
pub(super) fn detect(members: &Members) -> Result<Format, String> {
    let has = |name: &str| members.has(name);
    let any = |names: &[&str]| names.iter().any(|name| has(name));
    let found = |field| members.find(usual(field)).is_some();
    let kind = members.get("type").and_then(|kind| kind.text().ok());
    let list = members.find(&["messages", "chat_messages"]).map(|(_, list)| list);
    let all_native = members.names().all(normal::knows);
    Ok(match kind.as_deref() {
        Some("single_turn") => Format::SingleTurn,
        Some("multi_turn") => Format::MultiTurn,
        Some("random_pool") => Format::RandomPool,
        _ if has("TIMESTAMP") && has("ContextTokens") && has("GeneratedTokens") => Format::Azure,
        _ if has("Request tokens") && has("Response tokens") => Format::BurstGpt,
        _ if has("payloads") => Format::InputsJson,
        _ if has("turns") => {
            if is_native_turns(members) {
                Format::Native
            } else {
                Format::MultiTurn
            }
        }
        _ if any(&["conversations", "conversation"]) => Format::ShareGpt,
        _ if list.is_some_and(super::openai::is_sharegpt) => Format::ShareGpt,
        _ if has("chat_id") && has("hash_ids") => Format::Bailian,
        _ if all_native && is_native(members) => Format::Native,
        _ if any(&["hash_ids", "text_input", "payload"]) => Format::Mooncake,
        _ if has("messages") && any(&["timestamp", "output_length"]) => Format::Mooncake,
        _ if has("messages") => Format::OpenaiMessages,
        _ if has("texts") => Format::SingleTurn,
        _ if has("text") && any(&["session_id", "delay", "output_length"]) => Format::SingleTurn,
        _ if has("prompt")
            && members.names().all(|name| ["prompt", "output_tokens"].contains(&name))
            && has("output_tokens") =>
        {
            Format::VllmCustom
        }
        _ if found(Field::Prompt) || found(Field::Messages) => Format::Columns,
        _ if has("timestamp") && has("input_length") => Format::Lengths,
        _ if found(Field::InputTokens) => Format::Columns,
        _ => {
            check_media(members)?;
            return Err(nothing_to_send(members));
        }
    })
}

/// Whether an entry of nothing but native members has one that only the native format has.
fn is_native(members: &Members) -> bool {
    let has = |name: &str| members.has(name);
    let sends = has("prompt") || has("messages") || has("input_length") || has("body");
    let ours = ["body", "block_size", "extra", "answer", "session", "input_tokens"];
    let asks = has("output_tokens") && (has("messages") || has("input_length"));
    sends && (ours.iter().any(|name| has(name)) || asks)
}

fn is_native_turns(members: &Members) -> bool {
    let turns = members.get("turns").and_then(|turns| turns.json::<Vec<Members>>().ok());
    let first = turns.and_then(|turns| turns.into_iter().next());
    first.is_some_and(|first| first.names().all(normal::is_of_turn))
}
