//! `/v1/chat/completions`: deltas and messages.

use serde::de::{MapAccess, SeqAccess};

use super::found::{Choice, Found, Pieces};
use super::lenient::{Fill, Length, Take, fill, inside, lenient, raw, raw_string};
use super::openai::{Ending, choice_field, read};
use crate::event::OutputKind;

pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    read::<ChatChoice<'_>>(json)
}

/// A choice: `delta` in a stream, `message` in a document.
#[derive(Default)]
struct ChatChoice<'a> {
    message: Message<'a>,
    ending: Ending,
}

impl<'de> Take<'de> for ChatChoice<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "delta" | "message" => map.next_value_seed(Fill(&mut self.message))?,
            _ => choice_field(&mut self.ending, name, map)?,
        }
        Ok(())
    }
}

impl<'a> From<ChatChoice<'a>> for Choice<'a> {
    fn from(from: ChatChoice<'a>) -> Self {
        let ChatChoice { message, ending } = from;
        let mut choice = Self { role: message.role, ..Self::default() };
        (choice.finish, choice.tokens) = (ending.finish, ending.tokens);
        match message.content {
            Content::Text(text) => choice.push(OutputKind::Content, text),
            Content::Parts(parts) => parts.add_to(&mut choice),
        }
        choice.push(OutputKind::Refusal, message.refusal);
        for call in [message.tool_calls, message.function_call] {
            choice.push_all(OutputKind::ToolCall, call.0);
        }
        if message.audio.data || message.images.0 > 0 {
            choice.mark(OutputKind::Media);
        }
        choice.push(OutputKind::Media, message.audio.transcript);
        // A server in transition sends the same text under both names: it is one.
        choice.reasoning.push(message.reasoning);
        if message.reasoning.is_empty() {
            choice.reasoning.push(message.reasoning_content);
        }
        choice
    }
}

#[derive(Default)]
struct Message<'a> {
    role: bool,
    content: Content<'a>,
    reasoning: &'a str,
    reasoning_content: &'a str,
    refusal: &'a str,
    tool_calls: Calls<'a>,
    function_call: Calls<'a>,
    audio: Audio<'a>,
    images: Length,
}

impl<'de> Take<'de> for Message<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "role" => self.role = !raw_string(map)?.is_empty(),
            "content" => self.content = Content::read(raw(map)?),
            "reasoning" => self.reasoning = raw_string(map)?,
            "reasoning_content" => self.reasoning_content = raw_string(map)?,
            "refusal" => self.refusal = raw_string(map)?,
            "tool_calls" => map.next_value_seed(Fill(&mut self.tool_calls))?,
            "function_call" => {
                let function: Function<'_> = lenient(map)?;
                self.function_call = Calls(function.joined());
            }
            "audio" => self.audio = lenient(map)?,
            "images" => self.images = lenient(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// Content is a string, or a list of parts.
enum Content<'a> {
    Text(&'a str),
    Parts(Parts<'a>),
}

impl Default for Content<'_> {
    fn default() -> Self {
        Self::Text("")
    }
}

impl<'a> Content<'a> {
    fn read(json: &'a str) -> Self {
        if !json.starts_with('[') {
            return Self::Text(inside(json));
        }
        let mut parts = Parts::default();
        fill(json, &mut parts).map_or(Self::Text(""), |()| Self::Parts(parts))
    }
}

#[derive(Default)]
struct Parts<'a>(Vec<Part<'a>>);

impl<'a> Parts<'a> {
    fn add_to(self, choice: &mut Choice<'a>) {
        for part in self.0 {
            choice.push(OutputKind::Content, part.text);
            choice.push(OutputKind::Refusal, part.refusal);
            if part.media {
                choice.mark(OutputKind::Media);
            }
        }
    }
}

impl<'de> Take<'de> for Parts<'de> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut part = Part::default();
        if list.next_element_seed(Fill(&mut part))?.is_none() {
            return Ok(false);
        }
        self.0.push(part);
        Ok(true)
    }
}

#[derive(Default)]
struct Part<'a> {
    text: &'a str,
    refusal: &'a str,
    media: bool,
}

impl<'de> Take<'de> for Part<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "text" => self.text = raw_string(map)?,
            "refusal" => self.refusal = raw_string(map)?,
            "image_url" | "image" | "audio" | "input_audio" | "output_audio" | "b64_json" => {
                self.media |= !matches!(raw(map)?, "null" | "\"\"" | "{}" | "[]");
            }
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// The names and arguments of tool calls, in order.
#[derive(Default)]
struct Calls<'a>(Pieces<'a>);

impl<'de> Take<'de> for Calls<'de> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut call = Call::default();
        if list.next_element_seed(Fill(&mut call))?.is_none() {
            return Ok(false);
        }
        let function = call.function;
        self.0.push(function.name);
        self.0.push(function.arguments);
        Ok(true)
    }
}

#[derive(Default)]
struct Call<'a> {
    function: Function<'a>,
}

impl<'de> Take<'de> for Call<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "function" => self.function = lenient(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Function<'a> {
    fn joined(self) -> Pieces<'a> {
        let mut pieces = Pieces::default();
        pieces.push(self.name);
        pieces.push(self.arguments);
        pieces
    }
}

impl<'de> Take<'de> for Function<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "name" => self.name = raw_string(map)?,
            "arguments" => self.arguments = raw_string(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Audio<'a> {
    data: bool,
    transcript: &'a str,
}

impl<'de> Take<'de> for Audio<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "data" => self.data = !raw_string(map)?.is_empty(),
            "transcript" => self.transcript = raw_string(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}
