//! `/v1/completions`: plain text.

use serde::de::MapAccess;

use super::found::{Choice, Found};
use super::lenient::{Take, raw_string};
use super::openai::{Ending, choice_field, read};
use crate::event::OutputKind;

pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    read::<TextChoice<'_>>(json)
}

#[derive(Default)]
struct TextChoice<'a> {
    text: &'a str,
    reasoning: &'a str,
    reasoning_content: &'a str,
    ending: Ending,
}

impl<'de> Take<'de> for TextChoice<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "text" => self.text = raw_string(map)?,
            "reasoning" => self.reasoning = raw_string(map)?,
            "reasoning_content" => self.reasoning_content = raw_string(map)?,
            _ => choice_field(&mut self.ending, name, map)?,
        }
        Ok(())
    }
}

impl<'a> From<TextChoice<'a>> for Choice<'a> {
    fn from(from: TextChoice<'a>) -> Self {
        let Ending { finish, tokens } = from.ending;
        let mut choice = Self { finish, tokens, ..Self::default() };
        choice.push(OutputKind::Content, from.text);
        choice.reasoning.push(from.reasoning);
        if from.reasoning.is_empty() {
            choice.reasoning.push(from.reasoning_content);
        }
        choice
    }
}
