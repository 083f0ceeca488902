//! `/v1/messages`: events of several types, content in blocks, and counts that come in parts.

use serde::de::{MapAccess, SeqAccess};

use super::found::{Bare, Choice, Found};
use super::lenient::{Fill, Take, count, fill, inner, inside, lenient, raw, raw_string};
use super::openai::fault;
use crate::event::{Fault, Finish, OutputKind, Usage};

/// An event. Its name says its type where its data does not.
pub(super) fn decode<'a>(
    name: &'a [u8],
    json: &'a str,
    counts: &mut Counts,
) -> Result<Found<'a>, serde_json::Error> {
    let mut outer = Outer::default();
    fill(json, &mut outer)?;
    let single = outer.kind.is_empty();
    let kind = if single { std::str::from_utf8(name).unwrap_or_default() } else { outer.kind };
    let mut found = Found { fault: fault(outer.error), single, ..Found::default() };
    match kind {
        "message_start" => {
            found.choice.role = true;
            found.single = true;
            // What it says of the output is of before there was any.
            *counts = Counts { output: None, ..outer.message.counts };
            found.usage = counts.usage();
        }
        "content_block_start" => outer.block.add_to(&mut found.choice),
        "content_block_delta" => outer.delta.block.add_to(&mut found.choice),
        "message_delta" => {
            found.choice.finish = outer.delta.stop.0;
            found.single = true;
            counts.update(outer.counts);
            found.usage = counts.usage();
        }
        "message_stop" => found.bare = Bare::Done,
        "ping" => found.bare = Bare::Ping,
        "error" if found.fault.is_none() => {
            found.fault = Some(Fault { message: json.into(), code: None });
        }
        _ => {}
    }
    Ok(found)
}

/// A document: the message itself.
pub(super) fn document(json: &str) -> Result<Found<'_>, serde_json::Error> {
    let mut message = Message::default();
    fill(json, &mut message)?;
    let mut found =
        Found { fault: fault(message.error), usage: message.counts.usage(), ..Found::default() };
    found.choice.finish = message.stop.0;
    match message.content.as_bytes().first() {
        Some(b'[') => {
            for block in inner::<Blocks<'_>>(message.content).0 {
                let input = block.input;
                block.add_to(&mut found.choice);
                if input != "{}" {
                    found.choice.push(OutputKind::ToolCall, input);
                }
            }
        }
        _ => found.choice.push(OutputKind::Content, inside(message.content)),
    }
    Ok(found)
}

#[derive(Default)]
struct Outer<'a> {
    kind: &'a str,
    message: Message<'a>,
    block: Block<'a>,
    delta: Delta<'a>,
    counts: Counts,
    error: &'a str,
}

impl<'de> Take<'de> for Outer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "type" => self.kind = raw_string(map)?,
            "message" => map.next_value_seed(Fill(&mut self.message))?,
            "content_block" => map.next_value_seed(Fill(&mut self.block))?,
            "delta" => map.next_value_seed(Fill(&mut self.delta))?,
            "usage" => self.counts = lenient(map)?,
            "error" => self.error = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// What changes: in a block, or in the message.
#[derive(Default)]
struct Delta<'a> {
    block: Block<'a>,
    stop: Stop,
}

impl<'de> Take<'de> for Delta<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "stop_reason" => self.stop = lenient(map)?,
            _ => self.block.field(name, map)?,
        }
        Ok(())
    }
}

/// A message, whole or as it begins.
#[derive(Default)]
struct Message<'a> {
    content: &'a str,
    stop: Stop,
    counts: Counts,
    error: &'a str,
}

impl<'de> Take<'de> for Message<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "content" => self.content = raw(map)?,
            "stop_reason" => self.stop = lenient(map)?,
            "usage" => self.counts = lenient(map)?,
            "error" => self.error = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Stop(Option<Finish>);

impl Take<'_> for Stop {
    fn string(&mut self, text: &str) {
        self.0 = match text {
            "refusal" => Some(Finish::ContentFilter),
            "model_context_window_exceeded" => Some(Finish::Length),
            word => Finish::from_word(word),
        };
    }
}

#[derive(Default)]
struct Blocks<'a>(Vec<Block<'a>>);

impl<'de> Take<'de> for Blocks<'de> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut block = Block::default();
        if list.next_element_seed(Fill(&mut block))?.is_none() {
            return Ok(false);
        }
        self.0.push(block);
        Ok(true)
    }
}

/// A block of content, or what comes of one: its fields tell which kind it is. A signature, and
/// what a tool of the server found, are not generated.
#[derive(Default)]
struct Block<'a> {
    text: &'a str,
    thinking: &'a str,
    /// Of a tool.
    name: &'a str,
    /// The tool's input as it grows.
    partial_json: &'a str,
    /// The tool's input, whole: at the start of a block it is still empty.
    input: &'a str,
}

impl<'a> Block<'a> {
    fn add_to(self, choice: &mut Choice<'a>) {
        choice.push(OutputKind::Content, self.text);
        choice.reasoning.push(self.thinking);
        choice.push(OutputKind::ToolCall, self.name);
        choice.push(OutputKind::ToolCall, self.partial_json);
    }
}

impl<'de> Take<'de> for Block<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "text" => self.text = raw_string(map)?,
            "thinking" => self.thinking = raw_string(map)?,
            "name" => self.name = raw_string(map)?,
            "partial_json" => self.partial_json = raw_string(map)?,
            "input" => self.input = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// The `usage` object, as it grows over a response.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Tokens of the prompt that are neither of the next two.
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    output: Option<u64>,
}

impl Counts {
    /// Counts grow: the newer one is the whole one.
    fn update(&mut self, newer: Self) {
        self.input = newer.input.or(self.input);
        self.cache_read = newer.cache_read.or(self.cache_read);
        self.cache_creation = newer.cache_creation.or(self.cache_creation);
        self.output = newer.output.or(self.output);
    }

    fn usage(&self) -> Option<Usage> {
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_creation.unwrap_or(0));
        Usage {
            input_tokens: self.input.map(|input| input.saturating_add(cached)),
            output_tokens: self.output,
            reasoning_tokens: None,
            cached_tokens: self.cache_read,
        }
        .known()
    }
}

impl<'de> Take<'de> for Counts {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "input_tokens" => self.input = count(raw(map)?),
            "cache_read_input_tokens" => self.cache_read = count(raw(map)?),
            "cache_creation_input_tokens" => self.cache_creation = count(raw(map)?),
            "output_tokens" => self.output = count(raw(map)?),
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
