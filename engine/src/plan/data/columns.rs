//! Requests whose parts stand under names: tables, traces, AIPerf's turns.

use serde_json::value::RawValue;

use super::conversation::{self, tools};
use super::entry::{Content, Entry, Turn};
use super::fields::{block_size, check_media, find, names, nothing_to_send, time_unit};
use super::members::{Members, Value};
use super::normal::{of, optional, synthetic};
use super::openai;
use super::reader::Remarks;
use crate::workload::{DataSpec, Field, Format, TimeUnit};

/// One record and how to look at it.
pub(super) struct Columns<'a> {
    pub(super) spec: &'a DataSpec,
    pub(super) format: Format,
    pub(super) members: &'a Members,
}

impl<'a> Columns<'a> {
    /// The request, or the conversation, of this record; `None` if it failed when it was recorded.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn entry(&self, remarks: &mut Remarks) -> Result<Option<Entry>, String> {
        check_media(self.members)?;
        if self.failed_when_recorded() {
            remarks.failed += 1;
            return Ok(None);
        }
        let mut entry = self.content(remarks)?;
        if !self.spec.ignore_times {
            let unit = time_unit(self.spec, self.format);
            entry.timestamp_ns = self.optional(Field::Timestamp, |value| value.ns(unit))?;
        }
        entry.session = self.optional(Field::Session, Value::name)?;
        entry.system = match self.optional(Field::System, Value::any_text)? {
            Some(system) if !system.is_empty() => Some(system),
            _ => entry.system,
        };
        if let Some(first) = entry.turns.first_mut() {
            self.fill(first)?;
        }
        Ok(Some(entry))
    }

    /// What is not the content of a turn.
    fn fill(&self, turn: &mut Turn) -> Result<(), String> {
        turn.output_tokens = self.optional(Field::OutputTokens, Value::tokens)?;
        if let Some((_, output)) = trace_names(self.format).filter(|_| turn.output_tokens.is_none())
        {
            return Err(self.missing(output));
        }
        turn.delay_ns = self.optional(Field::Delay, |value| value.ns(TimeUnit::Milliseconds))?;
        if let Some(tools) = self.optional(Field::Tools, tools)? {
            turn.tools = tools;
        }
        if matches!(turn.content, Content::Text(_) | Content::Messages(_)) {
            turn.input_tokens = self.optional(Field::InputTokens, Value::tokens)?;
        }
        if matches!(self.format, Format::SingleTurn | Format::RandomPool | Format::Mooncake) {
            turn.extra = optional(self.members, "extra", Value::json)?.unwrap_or_default();
        }
        if turn.answer.is_none() && matches!(turn.content, Content::Text(_)) {
            // Under a usual name there may be anything: only a text is an answer.
            let answer = self.find(Field::Answer).and_then(|(_, value)| value.any_text().ok());
            turn.answer = answer.filter(|answer| !answer.is_empty());
        }
        Ok(())
    }

    fn content(&self, remarks: &mut Remarks) -> Result<Entry, String> {
        self.check_single_content()?;
        let one = |turn| Entry { turns: vec![turn], ..Entry::default() };
        if let Some((name, value)) = self.find(Field::Body) {
            let body = body(value).map_err(of(name))?;
            return Ok(one(Turn::new(Content::Body(body))));
        }
        if let Some((name, value)) = self.find(Field::Messages) {
            let list = value.json::<Vec<Box<RawValue>>>().map_err(of(name))?;
            if openai::is_sharegpt(value) {
                return conversation::of_list(&list, remarks);
            }
            return Ok(one(openai::of_messages(list, remarks)?));
        }
        if let Some((name, value)) = self.find(Field::Prompt) {
            return Ok(one(Turn::new(self.prompt(name, value)?)));
        }
        if let Some((name, value)) = self.find(Field::InputTokens) {
            let tokens = value.tokens().map_err(of(name))?;
            let hash_ids = self.find(Field::HashIds).map(|(_, value)| value);
            let content = synthetic(tokens, hash_ids, block_size(self.spec, self.format))?;
            return Ok(one(Turn::new(content)));
        }
        let named = [Field::Prompt, Field::Messages, Field::Body, Field::InputTokens];
        match named.iter().find_map(|field| self.spec.named(*field)) {
            Some(name) if self.members.blank(&[name]).is_some() => {
                Err(format!("`{name}` is empty, so there is nothing to send"))
            }
            Some(name) => Err(format!("no `{name}`; there are {}", self.members.list())),
            None => Err(match trace_names(self.format) {
                Some((input, _)) => self.missing(input),
                None => nothing_to_send(self.members),
            }),
        }
    }

    /// A trace says in one way what is sent.
    fn check_single_content(&self) -> Result<(), String> {
        if self.format != Format::Mooncake {
            return Ok(());
        }
        let fields = [Field::Prompt, Field::Messages, Field::Body];
        let mut found = fields.iter().filter_map(|field| self.find(*field));
        let Some((first, _)) = found.next() else { return Ok(()) };
        if let Some((second, _)) = found.next() {
            return Err(format!("both `{first}` and `{second}`: one of them says what is sent"));
        }
        match self.find(Field::HashIds).filter(|(_, ids)| !ids.is_blank()) {
            Some((ids, _)) => Err(format!("`{ids}` beside `{first}`: they go with a length alone")),
            None => Ok(()),
        }
    }

    fn prompt(&self, name: &str, value: &Value) -> Result<Content, String> {
        if let Some(role) = self.members.get("role").filter(|_| self.format == Format::SingleTurn) {
            let role = role.text().map_err(of("role"))?;
            if role != "user" {
                return Err(format!("`role` is `{role}`: only what the user says can be sent"));
            }
        }
        if name != "texts" || value.kind() != "a list" {
            return Ok(Content::Text(value.text().map_err(of(name))?));
        }
        let texts = value.json::<Vec<String>>().map_err(of(name))?;
        match texts.as_slice() {
            [] => Err("`texts` is empty".to_owned()),
            [text] if text.is_empty() => Err("`texts` holds nothing but an empty text".to_owned()),
            [text] => Ok(Content::Text(text.clone())),
            _ => {
                let part = |text| serde_json::json!({"type": "text", "text": text});
                let parts: Vec<_> = texts.iter().map(part).collect();
                let message = serde_json::json!({"role": "user", "content": parts});
                let raw = RawValue::from_string(message.to_string());
                Ok(Content::Messages(vec![raw.map_err(|error| error.to_string())?]))
            }
        }
    }

    /// BurstGPT writes 0 response tokens where a request failed.
    fn failed_when_recorded(&self) -> bool {
        let tokens = self.find(Field::OutputTokens).and_then(|(_, value)| value.any_text().ok());
        let is_zero = |text: String| text.trim().parse() == Ok(0.0_f64);
        self.format == Format::BurstGpt && tokens.is_some_and(is_zero)
    }

    fn missing(&self, name: &str) -> String {
        match self.members.blank(&[name]) {
            Some(_) => format!("`{name}` is empty"),
            None => format!("no `{name}`; there are {}", self.members.list()),
        }
    }

    fn find(&self, field: Field) -> Option<(&'a str, &'a Value)> {
        find(self.spec, self.format, self.members, field)
    }

    fn optional<T>(
        &self,
        field: Field,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let found = self.find(field);
        found.map(|(name, value)| read(value).map_err(of(name))).transpose()
    }
}

/// The names of both lengths in a format that always has them.
const fn trace_names(format: Format) -> Option<(&'static str, &'static str)> {
    let is_trace = matches!(format, Format::Azure | Format::BurstGpt | Format::Bailian);
    let (input, output) = (names(format, Field::InputTokens), names(format, Field::OutputTokens));
    match (input, output) {
        ([input, ..], [output, ..]) if is_trace => Some((input, output)),
        _ => None,
    }
}

/// A body: an object, or a text that holds one.
fn body(value: &Value) -> Result<Box<RawValue>, String> {
    let raw = match value.kind() {
        "a text" => RawValue::from_string(value.text()?)
            .map_err(|_| "is a text that is no JSON".to_owned())?,
        _ => value.raw()?,
    };
    openai::check_body(&raw)?;
    Ok(raw)
}
