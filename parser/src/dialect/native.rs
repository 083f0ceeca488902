//! What the servers' own formats share: an object, or a list of such, and its small values.

use serde::de::{MapAccess, SeqAccess};
use serde_json::value::RawValue;

use super::found::Found;
use super::lenient::{Fill, Take, count, fill, raw, raw_string};
use crate::event::{Finish, Usage};

/// Reads an object of the form `T`, or a list of them, which are taken together.
pub(super) fn read<'a, T: Take<'a> + Into<Found<'a>>>(
    json: &'a str,
) -> Result<Found<'a>, serde_json::Error> {
    let mut all = All::<T>::default();
    fill(json, &mut all)?;
    Ok(all.list.unwrap_or_else(|| all.one.into()))
}

struct All<'a, T> {
    one: T,
    list: Option<Found<'a>>,
}

impl<T: Default> Default for All<'_, T> {
    fn default() -> Self {
        Self { one: T::default(), list: None }
    }
}

impl<'de, T: Take<'de> + Into<Found<'de>>> Take<'de> for All<'de, T> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        self.one.field(name, map)
    }

    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut one = T::default();
        if list.next_element_seed(Fill(&mut one))?.is_none() {
            return Ok(false);
        }
        let one = one.into();
        self.list = Some(match self.list.take() {
            None => one,
            Some(before) => together(before, one),
        });
        Ok(true)
    }
}

fn together<'a>(mut all: Found<'a>, one: Found<'a>) -> Found<'a> {
    all.choice.append(one.choice);
    all.usage = match (all.usage, one.usage) {
        (Some(all), Some(one)) => Some(sum(all, one)),
        (all, one) => all.or(one),
    };
    all.times.take(&one.times);
    all.fault = all.fault.or(one.fault);
    all.done |= one.done;
    all.spots = one.spots;
    all
}

fn sum(a: Usage, b: Usage) -> Usage {
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    Usage {
        input_tokens: sum(a.input_tokens, b.input_tokens),
        output_tokens: sum(a.output_tokens, b.output_tokens),
        reasoning_tokens: sum(a.reasoning_tokens, b.reasoning_tokens),
        cached_tokens: sum(a.cached_tokens, b.cached_tokens),
    }
}

/// The count that the field at hand is, if it is one.
pub(super) fn number<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<u64>, A::Error> {
    raw(map).map(count)
}

/// Is the field at hand `true`?
pub(super) fn is_true<'de, A: MapAccess<'de>>(map: &mut A) -> Result<bool, A::Error> {
    raw(map).map(|json| json == "true")
}

/// What the field at hand says of the end, if it is a word.
pub(super) fn finish<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Finish>, A::Error> {
    raw_string(map).map(Finish::from_word)
}

/// A list of token ids.
#[derive(Default)]
pub(super) struct Ids<'a> {
    pub(super) count: u32,
    /// The only one, as it is written.
    pub(super) only: &'a str,
}

impl<'de> Take<'de> for Ids<'de> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let Some(id) = list.next_element::<&'de RawValue>()? else { return Ok(false) };
        self.only = if self.count == 0 { id.get() } else { "" };
        self.count = self.count.saturating_add(1);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::super::testing::brief;
    use crate::dialect::{Decoder, Dialect};
    use crate::sse::Message;

    fn event(decoder: &mut Decoder, data: &str) -> String {
        brief(&decoder.event(Message { name: b"", data: data.as_bytes() }))
    }

    fn number() -> impl Strategy<Value = &'static str> {
        let odd = ["-1", "1.5", "-0.25", "1e3", "null", "\"5\"", "07", "99999999999999999999"];
        prop_oneof![3 => select(&["0", "7", "12", "345"][..]), 1 => select(odd.to_vec())]
    }

    fn text() -> impl Strategy<Value = &'static str> {
        let odd = ["\"\"", "\"\\u0041\"", "\"\\x\"", "null", "5", "\"a\",\"x\":1"];
        prop_oneof![
            3 => select(&["\"a\"", "\" b\"", "\"é\"", "\"\\n\""][..]),
            1 => select(odd.to_vec()),
        ]
    }

    fn flag() -> impl Strategy<Value = &'static str> {
        prop_oneof![9 => Just("false"), 1 => select(&["true", "null", "0"][..])]
    }

    /// Events of a dialect that differ where its events differ, and in ways they should not.
    fn events(dialect: &Dialect) -> BoxedStrategy<Vec<String>> {
        let of = dialect.clone();
        let fields = (text(), [number(), number(), number()], flag());
        let one = fields.prop_map(move |(text, [a, b, c], flag)| match of {
            Dialect::TgiGenerate => format!(
                "{{\"index\":{a},\"token\":{{\"id\":{b},\"text\":{text},\"logprob\":{c},\
                 \"special\":{flag}}},\"generated_text\":null,\"details\":null}}"
            ),
            Dialect::LlamacppCompletion => format!(
                "{{\"index\":0,\"content\":{text},\"tokens\":[{a}],\"stop\":{flag},\
                 \"id_slot\":1,\"tokens_predicted\":{b},\"tokens_evaluated\":{c}}}"
            ),
            _ => format!(
                "{{\"created_at\":\"{a}\",\"message\":{{\"role\":\"assistant\",\
                 \"content\":{text}}},\"done\":{flag},\"eval_count\":{b}}}"
            ),
        });
        vec(one, 2..20).boxed()
    }

    proptest! {
        /// Whatever came before, an event means what it means alone.
        #[test]
        fn an_event_like_one_before_means_what_it_means_alone(
            (dialect, events) in select(vec![
                Dialect::TgiGenerate,
                Dialect::LlamacppCompletion,
                Dialect::OllamaChat,
            ])
            .prop_flat_map(|dialect| (Just(dialect.clone()), events(&dialect)))
        ) {
            let mut used = Decoder::new(dialect.clone());
            for data in &events {
                let alone = event(&mut Decoder::new(dialect.clone()), data);
                prop_assert_eq!(event(&mut used, data), alone, "{}", data);
            }
        }
    }
}
