//! What the OpenAI formats share: the outer object, usage, errors, and how choices add up.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::de::{MapAccess, SeqAccess};

use super::found::{Choice, Found};
use super::lenient::{Fill, Length, Take, count, fill, inside, lenient, raw, raw_string};
use super::server_times;
use crate::event::{Fault, Finish, Usage, unescape};
use crate::shape::{Count, Spots};
use crate::times::ServerTimes;

/// Reads `json`, whose choices are of the form `C`.
pub(super) fn read<'a, C: Take<'a> + Into<Choice<'a>>>(
    json: &'a str,
) -> Result<Found<'a>, serde_json::Error> {
    let mut outer = Outer::<'a, C>::default();
    fill(json, &mut outer)?;
    let fault = outer.error.or(flat_fault(outer.object, outer.message, outer.code));
    let spots = Spots { idle: outer.idle, counts: outer.counts.written };
    let usage = outer.counts.usage();
    let (choice, times) = (outer.choices.all, outer.times);
    Ok(Found { choice, usage, fault, times, spots, ..Found::default() })
}

/// The outermost object.
struct Outer<'a, C> {
    choices: Choices<'a, C>,
    counts: Counts<'a>,
    error: Option<Fault<'a>>,
    object: &'a str,
    message: &'a str,
    code: &'a str,
    times: ServerTimes,
    /// Fields that mean nothing and differ between responses, or between all events.
    idle: [&'a str; 3],
}

impl<C> Default for Outer<'_, C> {
    fn default() -> Self {
        let (choices, counts) = (Choices::default(), Counts::default());
        let (object, message, code, times, idle) = Default::default();
        Self { choices, counts, error: None, object, message, code, times, idle }
    }
}

impl<'de, C: Take<'de> + Into<Choice<'de>>> Take<'de> for Outer<'de, C> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "choices" => map.next_value_seed(Fill(&mut self.choices))?,
            "usage" => map.next_value_seed(Fill(&mut self.counts))?,
            "error" => self.error = fault(raw(map)?),
            "object" => self.object = raw_string(map)?,
            "message" => self.message = raw_string(map)?,
            "code" => self.code = raw(map)?,
            "id" => self.idle[0] = raw(map)?,
            "created" => self.idle[1] = raw(map)?,
            "obfuscation" => self.idle[2] = raw(map)?,
            _ => server_times::outer(&mut self.times, name, map)?,
        }
        Ok(())
    }
}

impl Take<'_> for () {}

struct Choices<'a, C> {
    all: Choice<'a>,
    form: PhantomData<C>,
}

impl<C> Default for Choices<'_, C> {
    fn default() -> Self {
        Self { all: Choice::default(), form: PhantomData }
    }
}

impl<'de, C: Take<'de> + Into<Choice<'de>>> Take<'de> for Choices<'de, C> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut one = C::default();
        if list.next_element_seed(Fill(&mut one))?.is_none() {
            return Ok(false);
        }
        self.all.append(one.into());
        Ok(true)
    }
}

/// The `usage` object.
#[derive(Default)]
pub(super) struct Counts<'a> {
    usage: Usage,
    /// The numbers as they are written, by [`Count`].
    written: [&'a str; 5],
}

impl<'a> Counts<'a> {
    fn number(&mut self, which: Count, json: &'a str) -> Option<u64> {
        self.written[which as usize] = json;
        count(json)
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage.known()
    }
}

impl<'de> Take<'de> for Counts<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "prompt_tokens" => {
                self.usage.input_tokens = self.number(Count::Input, raw(map)?);
            }
            "completion_tokens" => {
                self.usage.output_tokens = self.number(Count::Output, raw(map)?);
            }
            "completion_tokens_details" => {
                let details: Details<'_> = lenient(map)?;
                self.usage.reasoning_tokens = self.number(Count::Reasoning, details.reasoning);
            }
            "prompt_tokens_details" => {
                let details: Details<'_> = lenient(map)?;
                self.usage.cached_tokens = self.number(Count::Cached, details.cached);
            }
            "total_tokens" => self.written[Count::Total as usize] = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// The parts of a count, as they are written.
#[derive(Default)]
pub(super) struct Details<'a> {
    pub(super) reasoning: &'a str,
    pub(super) cached: &'a str,
}

impl<'de> Take<'de> for Details<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "reasoning_tokens" => self.reasoning = raw(map)?,
            "cached_tokens" => self.cached = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// The fields that every kind of choice has beside its text; any other is read over.
pub(super) fn choice_field<'de, A: MapAccess<'de>>(
    choice: &mut Ending,
    name: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    match name {
        "finish_reason" => choice.finish = lenient::<_, Reason>(map)?.0,
        "token_ids" => choice.tokens = lenient::<_, Length>(map)?.0,
        _ => ().field(name, map)?,
    }
    Ok(())
}

/// What stands beside a choice's text.
#[derive(Default)]
pub(super) struct Ending {
    pub(super) finish: Option<Finish>,
    pub(super) tokens: u32,
}

#[derive(Default)]
struct Reason(Option<Finish>);

impl Take<'_> for Reason {
    fn string(&mut self, text: &str) {
        self.0 = Finish::from_word(text);
    }
}

/// The value of an `error` field; null, false and an empty string are none.
pub(super) fn fault(json: &str) -> Option<Fault<'_>> {
    match json {
        "" | "null" | "false" | "\"\"" => None,
        _ if json.starts_with('"') => Some(Fault { message: unescape(inside(json)), code: None }),
        _ => {
            let mut error = ErrorObject::default();
            fill(json, &mut error).ok()?;
            let message = match error.message {
                "" => Cow::Borrowed(json),
                message => unescape(message),
            };
            Some(Fault { message, code: code(error.code).or_else(|| code(error.kind)) })
        }
    }
}

/// The older form of an error has `object: "error"` and its message beside it.
pub(super) fn flat_fault<'a>(object: &str, message: &'a str, code: &'a str) -> Option<Fault<'a>> {
    let is_error = object == "error";
    is_error.then(|| Fault { message: unescape(message), code: self::code(code) })
}

#[derive(Default)]
struct ErrorObject<'a> {
    message: &'a str,
    code: &'a str,
    kind: &'a str,
}

impl<'de> Take<'de> for ErrorObject<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "message" => self.message = raw_string(map)?,
            "code" => self.code = raw(map)?,
            "type" => self.kind = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

/// A code may be a number or a string.
pub(super) fn code(json: &str) -> Option<Cow<'_, str>> {
    match json.as_bytes().first()? {
        b'"' => Some(unescape(inside(json))).filter(|code| !code.is_empty()),
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(json)),
        _ => None,
    }
}
