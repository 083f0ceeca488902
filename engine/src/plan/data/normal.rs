//! The normal form of an entry, one JSON object on a line. It is strict: a member that it does not
//! know is an error, since a misspelt name would otherwise be lost without a word.

use serde_json::value::RawValue;

use super::entry::{Content, Entry, Turn, check_blocks};
use super::members::{Members, Value};
use super::openai;
use super::stamps::{shown, write_ms};
use crate::workload::TimeUnit;

const ENTRY_NAMES: [&str; 4] = ["timestamp", "session", "system", "turns"];
const TURN_NAMES: [&str; 12] = [
    "prompt",
    "messages",
    "input_length",
    "hash_ids",
    "block_size",
    "body",
    "output_tokens",
    "input_tokens",
    "delay",
    "answer",
    "tools",
    "extra",
];

/// Whether the normal form knows this member.
pub(super) fn knows(name: &str) -> bool {
    ENTRY_NAMES.contains(&name) || is_of_turn(name)
}

/// Whether the normal form knows this member of a turn.
pub(super) fn is_of_turn(name: &str) -> bool {
    TURN_NAMES.contains(&name)
}

impl Entry {
    /// An entry from its normal form.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &str) -> Result<Self, String> {
        read(&Members::parse(line)?, None)
    }

    /// Appends the normal form, a line without its end.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        if let Some(ns) = self.timestamp_ns {
            write_ms(ns, object.name("timestamp"));
        }
        object.text("session", self.session.as_deref());
        object.text("system", self.system.as_deref());
        match self.turns.as_slice() {
            [turn] => write_turn(turn, &mut object),
            turns => {
                let out = object.name("turns");
                out.push(b'[');
                for (position, turn) in turns.iter().enumerate() {
                    if position > 0 {
                        out.push(b',');
                    }
                    let mut object = Object::begin(out);
                    write_turn(turn, &mut object);
                    object.end();
                }
                out.push(b']');
            }
        }
        object.end();
    }
}

/// An entry from the members of its normal form; `block_size` counts where it names none.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(members: &Members, block_size: Option<u32>) -> Result<Entry, String> {
    let turns = match members.get("turns") {
        None => vec![turn(members, block_size, &ENTRY_NAMES)?],
        Some(turns) => {
            let stranger = members.names().find(|name| !ENTRY_NAMES.contains(name));
            if let Some(name) = stranger {
                return Err(format!("{} beside `turns`: it belongs into a turn", shown(name)));
            }
            let turns = turns.json::<Vec<Box<RawValue>>>().map_err(of("turns"))?;
            let turns = turns.iter().enumerate().map(|(position, raw)| {
                let of_turn = |reason| format!("turn {}: {reason}", position + 1);
                let members = Members::parse(raw.get()).map_err(of_turn)?;
                turn(&members, block_size, &[]).map_err(of_turn)
            });
            turns.collect::<Result<Vec<_>, _>>()?
        }
    };
    if turns.is_empty() {
        return Err("`turns` is empty".to_owned());
    }
    let time = |value: &Value| value.ns(TimeUnit::Milliseconds);
    Ok(Entry {
        timestamp_ns: optional(members, "timestamp", time)?,
        session: optional(members, "session", Value::name)?,
        system: optional(members, "system", Value::any_text)?,
        turns,
    })
}

fn turn(members: &Members, block_size: Option<u32>, more: &[&str]) -> Result<Turn, String> {
    let known = |name: &&str| is_of_turn(name) || more.contains(name);
    if let Some(name) = members.names().find(|name| !known(name)) {
        return Err(format!(
            "unknown member {}: the native format has {}, {}",
            shown(name),
            ENTRY_NAMES.join(", "),
            TURN_NAMES.join(", ")
        ));
    }
    let mut turn = Turn::new(content(members, block_size)?);
    turn.output_tokens = optional(members, "output_tokens", Value::tokens)?;
    let declared = optional(members, "input_tokens", Value::tokens)?;
    turn.input_tokens = turn.input_tokens.or(declared);
    turn.delay_ns = optional(members, "delay", |value| value.ns(TimeUnit::Milliseconds))?;
    turn.answer = optional(members, "answer", Value::any_text)?;
    turn.tools = optional(members, "tools", Value::raw)?;
    turn.extra = optional(members, "extra", Value::json)?.unwrap_or_default();
    Ok(turn)
}

fn content(members: &Members, block_size: Option<u32>) -> Result<Content, String> {
    const KINDS: [&str; 4] = ["prompt", "messages", "input_length", "body"];
    let mut kinds = KINDS.into_iter().filter(|name| members.has(name));
    let kind = kinds.next().ok_or_else(|| {
        format!("one of {} is needed; there are {}", KINDS.join(", "), members.list())
    })?;
    if let Some(second) = kinds.next() {
        return Err(format!("both `{kind}` and `{second}`: one of them says what is sent"));
    }
    if kind != "input_length" && members.has("hash_ids") {
        return Err(format!("`hash_ids` beside `{kind}`: they go with `input_length` alone"));
    }
    let Some(value) = members.get(kind) else { return Err(format!("no `{kind}`")) };
    match kind {
        "prompt" => Ok(Content::Text(value.text().map_err(of(kind))?)),
        "messages" => {
            let messages = value.json::<Vec<Box<RawValue>>>().map_err(of(kind))?;
            openai::check_messages(&messages)?;
            Ok(Content::Messages(messages))
        }
        "body" => {
            let body = value.raw().map_err(of(kind))?;
            openai::check_body(&body)?;
            Ok(Content::Body(body))
        }
        _ => {
            let tokens = value.tokens().map_err(of(kind))?;
            let named = optional(members, "block_size", Value::tokens)?;
            synthetic(tokens, members.get("hash_ids"), named.or(block_size))
        }
    }
}

/// A text to be made up, of blocks where there are `hash_ids`.
///
/// # Errors
/// Blocks that do not fit.
pub(super) fn synthetic(
    tokens: u32,
    hash_ids: Option<&Value>,
    block_size: Option<u32>,
) -> Result<Content, String> {
    let blocks: Vec<u64> = match hash_ids {
        Some(value) => value.json().map_err(of("hash_ids"))?,
        None => return Ok(Content::Synthetic { tokens, blocks: Vec::new(), block_size: 0 }),
    };
    let block_size = block_size
        .ok_or("`hash_ids` without `block_size`: say how many tokens a block has (--block-size)")?;
    check_blocks(tokens, blocks.len(), block_size)?;
    Ok(Content::Synthetic { tokens, blocks, block_size })
}

/// A member, where it is there.
///
/// # Errors
/// What is wrong with it, with its name.
pub(super) fn optional<T>(
    members: &Members,
    name: &str,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<Option<T>, String> {
    members.get(name).map(read).transpose().map_err(of(name))
}

/// Puts the name of a member before what is wrong with it.
pub(super) fn of(name: &str) -> impl Fn(String) -> String {
    move |reason| format!("{} {reason}", shown(name))
}

fn write_turn(turn: &Turn, object: &mut Object<'_>) {
    let is_synthetic = matches!(turn.content, Content::Synthetic { .. });
    match &turn.content {
        Content::Text(text) => object.text("prompt", Some(text)),
        Content::Messages(messages) => {
            let out = object.name("messages");
            out.push(b'[');
            for (position, message) in messages.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                push_raw(message, out);
            }
            out.push(b']');
        }
        Content::Synthetic { tokens, blocks, block_size } => {
            object.value("input_length", Some(tokens));
            if !blocks.is_empty() {
                object.value("hash_ids", Some(blocks));
                object.value("block_size", Some(block_size));
            }
        }
        Content::Body(body) => push_raw(body, object.name("body")),
    }
    object.value("output_tokens", turn.output_tokens.as_ref());
    object.value("input_tokens", turn.input_tokens.as_ref().filter(|_| !is_synthetic));
    if let Some(ns) = turn.delay_ns {
        write_ms(ns, object.name("delay"));
    }
    object.text("answer", turn.answer.as_deref());
    if let Some(tools) = &turn.tools {
        push_raw(tools, object.name("tools"));
    }
    object.value("extra", Some(&turn.extra).filter(|extra| !extra.is_empty()));
}

/// Ends of lines in JSON stand between its words alone, where a space is as good.
fn push_raw(raw: &RawValue, out: &mut Vec<u8>) {
    let bytes = raw.get().bytes();
    out.extend(bytes.map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
}

/// A JSON object being written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Where the value of this name goes.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn text(&mut self, name: &str, text: Option<&str>) {
        self.value(name, text.as_ref());
    }

    fn value<T: serde::Serialize>(&mut self, name: &str, value: Option<&T>) {
        if let Some(value) = value {
            // Writing into a vector cannot fail, and these types have no keys that could.
            let _ = serde_json::to_writer(self.name(name), value);
        }
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(line: &str) -> String {
        let mut out = Vec::new();
        Entry::parse(line).unwrap().write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_entry_is_read_back_from_its_line() {
        for line in [
            r#"{"prompt":"a \"quoted\" line\n"}"#,
            r#"{"timestamp":1.5,"session":"s","system":"be short","prompt":"q","output_tokens":5}"#,
            r#"{"input_length":655,"hash_ids":[0,18446744073709551615],"block_size":512}"#,
            r#"{"input_length":655,"output_tokens":3,"delay":0.000001}"#,
            r#"{"messages":[{"role":"user","content":"q"}],"extra":{"seed":1,"top_p":0.5}}"#,
            r#"{"body":{"x":1.0,  "y":[1e400]}}"#,
            r#"{"turns":[{"prompt":"q","input_tokens":1,"answer":""},{"prompt":"r","tools":[1]}]}"#,
        ] {
            assert_eq!(again(line), line);
        }
        assert_eq!(again("{\"body\":{\n\"x\":\r\n1}}"), r#"{"body":{ "x":  1}}"#);
    }

    #[test]
    fn a_wrong_line_is_refused_by_name() {
        for (line, reason) in [
            (r#"{"prompt":"a","id":1}"#, "unknown member `id`"),
            (r#"{"prompt":"a","body":{}}"#, "both `prompt` and `body`"),
            (r#"{"prompt":""}"#, "`prompt` is empty"),
            (r#"{"prompt":null}"#, "one of prompt, messages"),
            (r#"{"turns":[]}"#, "`turns` is empty"),
            (r#"{"turns":[{"prompt":7}]}"#, "turn 1: `prompt` is a number, not a text"),
            (r#"{"turns":[{"prompt":"a"}],"answer":"b"}"#, "`answer` beside `turns`"),
            (r#"{"input_length":0}"#, "`input_length` is 0"),
            (r#"{"input_length":5,"hash_ids":[1]}"#, "without `block_size`"),
            (r#"{"input_length":5,"hash_ids":[1,2],"block_size":5}"#, "must be 1"),
            (r#"{"input_length":5,"hash_ids":[-1],"block_size":5}"#, "`hash_ids` is not usable"),
            (r#"{"messages":[]}"#, "no messages"),
            (r#"{"prompt":"a","timestamp":-1}"#, "`timestamp` is not usable: `-1` is negative"),
        ] {
            let found = Entry::parse(line).unwrap_err();
            assert!(found.contains(reason), "{line}: {found}");
        }
    }
}
