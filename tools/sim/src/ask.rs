//! What the JSON body of a generating request asks for.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::http::Endpoint;

/// The most output tokens one request may ask for.
pub(crate) const OUTPUT_TOKENS_MAX: u64 = 10_000_000;

/// A request, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The model it names, if it does.
    pub(crate) model: Option<String>,
    /// Whether the answer comes event by event.
    pub(crate) stream: bool,
    /// Whether a stream ends with a usage event.
    pub(crate) include_usage: bool,
    /// Whether every event of a stream carries the usage so far (with `include_usage`).
    pub(crate) continuous_usage: bool,
    /// The most output tokens it wants; these are generated exactly.
    pub(crate) max_tokens: Option<u32>,
    /// Words in its prompt: a rough count.
    pub(crate) prompt_tokens: u32,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    messages: Option<Words>,
    prompt: Option<Words>,
    text: Option<Words>,
    input_ids: Option<Words>,
    sampling_params: Option<SamplingParams>,
}

#[derive(Default, Deserialize)]
struct SamplingParams {
    max_new_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
    continuous_usage_stats: bool,
}

impl Ask {
    /// Reads a body.
    ///
    /// # Errors
    /// What is wrong with it, for the client.
    pub(crate) fn read(endpoint: Endpoint, body: &[u8]) -> Result<Self, String> {
        let body: Body<'_> = serde_json::from_slice(body)
            .map_err(|error| format!("the body cannot be read as a request: {error}"))?;
        let (name, prompt) = match endpoint {
            Endpoint::Chat => ("messages", body.messages),
            Endpoint::Completions => ("prompt", body.prompt),
            Endpoint::Native => ("text", body.text.or(body.input_ids)),
        };
        let Some(Words(words)) = prompt else {
            return Err(format!("the body has no {name:?}"));
        };
        let sampling = body.sampling_params.filter(|_| endpoint == Endpoint::Native);
        let max_new_tokens = sampling.and_then(|params| params.max_new_tokens);
        let max_tokens = body.max_completion_tokens.or(body.max_tokens);
        let max_tokens = match max_new_tokens.or(max_tokens) {
            Some(max) if !(1..=OUTPUT_TOKENS_MAX).contains(&max) => {
                return Err(format!(
                    "the maximum of {max} output tokens is not between 1 and {OUTPUT_TOKENS_MAX}"
                ));
            }
            max => max.and_then(|max| u32::try_from(max).ok()),
        };
        let options = body.stream_options.unwrap_or_default();
        Ok(Self {
            model: body.model.map(Cow::into_owned),
            stream: body.stream.unwrap_or(false),
            include_usage: options.include_usage,
            continuous_usage: options.continuous_usage_stats,
            max_tokens,
            prompt_tokens: u32::try_from(words).unwrap_or(u32::MAX),
        })
    }
}

/// Counts words in text wherever a prompt may hold it: a string, a list of strings or token
/// numbers (each a word), messages with `content` and content parts with `text`.
struct Words(u64);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordCounter).map(Self)
    }
}

struct WordCounter;

impl<'de> Visitor<'de> for WordCounter {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, messages or token numbers")
    }

    fn visit_str<E>(self, text: &str) -> Result<u64, E> {
        Ok(text.split_whitespace().count() as u64)
    }

    fn visit_u64<E>(self, _: u64) -> Result<u64, E> {
        Ok(1)
    }

    fn visit_i64<E>(self, _: i64) -> Result<u64, E> {
        Ok(1)
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u64, A::Error> {
        let mut words = 0;
        while let Some(Words(more)) = items.next_element()? {
            words += more;
        }
        Ok(words)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<u64, A::Error> {
        let mut words = 0;
        while let Some(key) = fields.next_key::<Cow<'_, str>>()? {
            if key == "content" || key == "text" {
                words += fields.next_value::<Words>()?.0;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(body: &str) -> Result<Ask, String> {
        Ask::read(Endpoint::Chat, body.as_bytes())
    }

    #[test]
    fn a_chat_request_is_understood() {
        let ask = chat(
            r#"{"model":"sim","stream":true,"max_tokens":9,"max_completion_tokens":7,
            "stream_options":{"include_usage":true,"continuous_usage_stats":true},
            "ignore_eos":true,"min_tokens":7,"temperature":0.5,
            "messages":[{"role":"system","content":"one two"},
            {"role":"user","content":[{"type":"text","text":"three\nfour five"}]}]}"#,
        )
        .unwrap();
        assert_eq!(
            ask,
            Ask {
                model: Some("sim".into()),
                stream: true,
                include_usage: true,
                continuous_usage: true,
                max_tokens: Some(7),
                prompt_tokens: 5,
            }
        );
    }

    #[test]
    fn a_prompt_may_be_text_a_list_or_token_numbers() {
        let words = |prompt: &str| {
            let body = format!(r#"{{"prompt":{prompt}}}"#);
            Ask::read(Endpoint::Completions, body.as_bytes()).unwrap().prompt_tokens
        };
        assert_eq!(words(r#""a b\tc""#), 3);
        assert_eq!(words(r#"["a b","c"]"#), 3);
        assert_eq!(words("[5,6,7,8]"), 4);
        assert_eq!(words("[[5,6],[7]]"), 3);
    }

    #[test]
    fn a_body_that_asks_for_nonsense_is_told_so() {
        for (body, fault) in [
            ("{", "cannot be read"),
            ("[]", "cannot be read"),
            (r#"{"prompt":"x"}"#, "no \"messages\""),
            (r#"{"messages":[],"max_tokens":0}"#, "not between 1"),
            (r#"{"messages":[],"max_tokens":99999999}"#, "not between 1"),
            (r#"{"messages":[],"max_tokens":-1}"#, "cannot be read"),
            (r#"{"messages":[],"stream":"yes"}"#, "cannot be read"),
        ] {
            let said = chat(body).unwrap_err();
            assert!(said.contains(fault), "{body}: {said}");
        }
    }

    #[test]
    fn nulls_are_as_good_as_absent() {
        let ask = chat(r#"{"messages":[{"content":null}],"model":null,"stream_options":null}"#);
        assert_eq!(ask.unwrap().prompt_tokens, 0);
    }
}
