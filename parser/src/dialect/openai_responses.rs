//! `/v1/responses`: events of many types, of which those that end in `delta` carry the output.

use serde::de::{MapAccess, SeqAccess};

use super::found::{Choice, Found};
use super::lenient::{Fill, Take, count, fill, inside, lenient, raw, raw_string};
use super::openai::{Details, code, fault, flat_fault};
use super::server_times;
use crate::event::{Fault, Finish, OutputKind, Usage, unescape};
use crate::shape::Spots;
use crate::times::ServerTimes;

/// An event. Its name says its type where its data does not.
pub(super) fn decode<'a>(name: &'a [u8], json: &'a str) -> Result<Found<'a>, serde_json::Error> {
    let mut outer = Outer::default();
    fill(json, &mut outer)?;
    let named = outer.kind.is_empty();
    let kind = if named { std::str::from_utf8(name).unwrap_or_default() } else { outer.kind };
    let (fault, times) = (fault(outer.error), outer.times);
    let mut found = Found { fault, times, ..Found::default() };
    // Any other event comes once, and repeats what the deltas said.
    found.single = named || !kind.ends_with(".delta");
    found.spots = Spots { idle: outer.idle, ..Spots::default() };
    let delta = inside(outer.delta);
    match kind {
        "response.output_text.delta" => found.choice.push(OutputKind::Content, delta),
        "response.refusal.delta" => found.choice.push(OutputKind::Refusal, delta),
        "response.reasoning_text.delta"
        | "response.reasoning_summary_text.delta"
        | "response.reasoning.delta"
        | "response.reasoning_summary.delta" => found.choice.reasoning.push(delta),
        "response.function_call_arguments.delta"
        | "response.custom_tool_call_input.delta"
        | "response.mcp_call_arguments.delta"
        | "response.code_interpreter_call_code.delta" => {
            found.choice.push(OutputKind::ToolCall, delta);
        }
        "response.audio.transcript.delta" | "response.output_audio_transcript.delta" => {
            found.choice.push(OutputKind::Media, delta);
        }
        "response.audio.delta" | "response.output_audio.delta" if !delta.is_empty() => {
            found.choice.mark(OutputKind::Media);
        }
        "response.image_generation_call.partial_image" if !outer.image.is_empty() => {
            found.choice.mark(OutputKind::Media);
        }
        "response.output_item.added" => {
            found.choice.push(OutputKind::ToolCall, outer.item.called());
        }
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            outer.response.end(kind, &mut found);
        }
        "error" if found.fault.is_none() => {
            let message =
                if outer.message.is_empty() { json.into() } else { unescape(outer.message) };
            found.fault = Some(Fault { message, code: code(outer.code) });
        }
        _ => {}
    }
    Ok(found)
}

/// A document: the response itself.
pub(super) fn document(json: &str) -> Result<Found<'_>, serde_json::Error> {
    let mut response = Response::<'_, Items<'_>>::default();
    fill(json, &mut response)?;
    let (usage, fault) = (response.counts.usage(), response.fault());
    let finish = response.finish(response.output.calls);
    let choice = Choice { finish, ..response.output.choice };
    let times = response.times;
    Ok(Found { choice, usage, fault, times, ..Found::default() })
}

#[derive(Default)]
struct Outer<'a> {
    kind: &'a str,
    delta: &'a str,
    item: Tool<'a>,
    image: &'a str,
    response: Response<'a, Calls>,
    error: &'a str,
    message: &'a str,
    code: &'a str,
    times: ServerTimes,
    idle: [&'a str; 3],
}

impl<'de> Take<'de> for Outer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "type" => self.kind = raw_string(map)?,
            "delta" => self.delta = raw(map)?,
            "item" => self.item = lenient(map)?,
            "partial_image_b64" => self.image = raw_string(map)?,
            "response" => map.next_value_seed(Fill(&mut self.response))?,
            "error" => self.error = raw(map)?,
            "message" => self.message = raw_string(map)?,
            "code" => self.code = raw(map)?,
            "sequence_number" => self.idle[0] = raw(map)?,
            "item_id" => self.idle[1] = raw(map)?,
            "obfuscation" => self.idle[2] = raw(map)?,
            _ => server_times::outer(&mut self.times, name, map)?,
        }
        Ok(())
    }
}

/// A response as a whole, of whose output as much is read as `O` takes.
#[derive(Default)]
struct Response<'a, O> {
    status: &'a str,
    output: O,
    incomplete: Incomplete<'a>,
    counts: Counts,
    error: &'a str,
    object: &'a str,
    message: &'a str,
    code: &'a str,
    times: ServerTimes,
}

impl<'a> Response<'a, Calls> {
    /// What the event that ends a stream says.
    fn end(mut self, kind: &'a str, found: &mut Found<'a>) {
        let word = kind.strip_prefix("response.").unwrap_or_default();
        // One server calls every end completed, and tells the truth in the status.
        if self.status.is_empty() || word == "failed" {
            self.status = word;
        }
        found.choice.finish = self.finish(self.output.0);
        found.usage = self.counts.usage();
        found.times.take(&self.times);
        found.done = true;
        found.fault = found.fault.take().or_else(|| self.fault());
    }
}

impl<'a, O> Response<'a, O> {
    fn finish(&self, calls: bool) -> Option<Finish> {
        Some(match self.status {
            "completed" if calls => Finish::ToolCalls,
            "completed" => Finish::Stop,
            "incomplete" if self.incomplete.reason == "max_output_tokens" => Finish::Length,
            "incomplete" => Finish::from_word(self.incomplete.reason).unwrap_or(Finish::Other),
            "cancelled" => Finish::Other,
            _ => return None,
        })
    }

    fn fault(&self) -> Option<Fault<'a>> {
        let failed =
            || (self.status == "failed").then(|| Fault { message: self.status.into(), code: None });
        fault(self.error)
            .or_else(|| flat_fault(self.object, self.message, self.code))
            .or_else(failed)
    }
}

impl<'de, O: Take<'de>> Take<'de> for Response<'de, O> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "status" => self.status = raw_string(map)?,
            "output" => map.next_value_seed(Fill(&mut self.output))?,
            "incomplete_details" => self.incomplete = lenient(map)?,
            "usage" => self.counts = lenient(map)?,
            "error" => self.error = raw(map)?,
            "object" => self.object = raw_string(map)?,
            "message" => self.message = raw_string(map)?,
            "code" => self.code = raw(map)?,
            _ => server_times::outer(&mut self.times, name, map)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Incomplete<'a> {
    reason: &'a str,
}

impl<'de> Take<'de> for Incomplete<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "reason" => self.reason = raw_string(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// What a response generated: messages, reasoning, calls of tools.
#[derive(Default)]
struct Items<'a> {
    choice: Choice<'a>,
    /// A function of the client is called.
    calls: bool,
}

impl<'de> Take<'de> for Items<'de> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut item = Item::default();
        if list.next_element_seed(Fill(&mut item))?.is_none() {
            return Ok(false);
        }
        self.calls |= item.tool.is_of_client();
        item.add_to(&mut self.choice);
        Ok(true)
    }
}

/// Is a function of the client among what it generated?
#[derive(Default)]
struct Calls(bool);

impl<'de> Take<'de> for Calls {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut tool = Tool::default();
        if list.next_element_seed(Fill(&mut tool))?.is_none() {
            return Ok(false);
        }
        self.0 |= tool.is_of_client();
        Ok(true)
    }
}

/// An item as far as it is a call of a tool.
#[derive(Default)]
struct Tool<'a> {
    kind: &'a str,
    name: &'a str,
}

impl<'a> Tool<'a> {
    /// The name of the tool that it calls; empty if it calls none.
    fn called(&self) -> &'a str {
        match self.kind {
            "function_call" | "custom_tool_call" | "mcp_call" => self.name,
            _ => "",
        }
    }

    /// Is it for the client to answer the call?
    fn is_of_client(&self) -> bool {
        matches!(self.kind, "function_call" | "custom_tool_call")
    }
}

impl<'de> Take<'de> for Tool<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "type" => self.kind = raw_string(map)?,
            "name" => self.name = raw_string(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Item<'a> {
    tool: Tool<'a>,
    content: Parts<'a>,
    summary: Parts<'a>,
    /// Of a function, of a tool of another kind, of an interpreter.
    arguments: [&'a str; 3],
    image: bool,
}

impl<'a> Item<'a> {
    fn add_to(self, choice: &mut Choice<'a>) {
        match self.tool.kind {
            "message" | "" => self.content.add_to(choice),
            "reasoning" => {
                let parts = self.summary.0.iter().chain(&self.content.0);
                parts.for_each(|part| choice.reasoning.push(part.text));
            }
            "function_call" | "custom_tool_call" | "mcp_call" | "code_interpreter_call" => {
                choice.push(OutputKind::ToolCall, self.tool.called());
                self.arguments.iter().for_each(|text| choice.push(OutputKind::ToolCall, text));
            }
            "image_generation_call" if self.image => choice.mark(OutputKind::Media),
            _ => {}
        }
    }
}

impl<'de> Take<'de> for Item<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "content" => map.next_value_seed(Fill(&mut self.content))?,
            "summary" => map.next_value_seed(Fill(&mut self.summary))?,
            "arguments" => self.arguments[0] = raw_string(map)?,
            "input" => self.arguments[1] = raw_string(map)?,
            "code" => self.arguments[2] = raw_string(map)?,
            "result" => self.image = !raw_string(map)?.is_empty(),
            _ => self.tool.field(name, map)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Parts<'a>(Vec<Part<'a>>);

impl<'a> Parts<'a> {
    fn add_to(self, choice: &mut Choice<'a>) {
        for part in self.0 {
            choice.push(OutputKind::Content, part.text);
            choice.push(OutputKind::Refusal, part.refusal);
            choice.push(OutputKind::Media, part.transcript);
            if part.audio {
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
    transcript: &'a str,
    audio: bool,
}

impl<'de> Take<'de> for Part<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "text" => self.text = raw_string(map)?,
            "refusal" => self.refusal = raw_string(map)?,
            "transcript" => self.transcript = raw_string(map)?,
            "data" => self.audio = !raw_string(map)?.is_empty(),
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// The `usage` object.
#[derive(Default)]
struct Counts(Usage);

impl Counts {
    fn usage(&self) -> Option<Usage> {
        self.0.known()
    }
}

impl<'de> Take<'de> for Counts {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "input_tokens" => self.0.input_tokens = count(raw(map)?),
            "output_tokens" => self.0.output_tokens = count(raw(map)?),
            "output_tokens_details" => {
                self.0.reasoning_tokens = count(lenient::<_, Details<'_>>(map)?.reasoning);
            }
            "input_tokens_details" => {
                self.0.cached_tokens = count(lenient::<_, Details<'_>>(map)?.cached);
            }
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
