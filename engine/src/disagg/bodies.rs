//! The bodies of the legs, made of the body of the whole request: members are added, replaced or left
//! out; whatever else stands in it goes on byte for byte.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON object as its members, in their order, each value as it stands.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// The name of a member; borrowed unless it has escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Whether `body` is a JSON object.
#[must_use]
pub(crate) fn is_object(body: &[u8]) -> bool {
    serde_json::from_slice::<Members<'_>>(body).is_ok()
}

/// Members that ask for a length or for more than one answer: none of them belongs to a request for
/// one token.
const OF_LENGTH: [&str; 6] = [
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "min_completion_tokens",
    "stream_options",
    "stream",
];

/// Appends the body that asks for one token and no stream, with `more` members. Of what asks for a
/// length only those go on that were there, with 1 in place of it.
pub(super) fn for_one_token(body: &[u8], stream: bool, more: &str, out: &mut Vec<u8>) {
    let Ok(Members(members)) = serde_json::from_slice::<Members<'_>>(body) else {
        // Whoever plans has seen that it is an object.
        out.extend_from_slice(body);
        return;
    };
    out.push(b'{');
    let mut is_first = true;
    let mut capped = false;
    for (name, value) in members {
        let value = match name.as_ref() {
            "max_tokens" | "max_completion_tokens" => {
                capped = true;
                "1"
            }
            "stream_options" if stream => value.get(),
            name if OF_LENGTH.contains(&name) => continue,
            _ => value.get(),
        };
        push(&name, value, &mut is_first, out);
    }
    if !capped {
        push("max_tokens", "1", &mut is_first, out);
    }
    push("stream", if stream { "true" } else { "false" }, &mut is_first, out);
    if !more.is_empty() {
        out.push(b',');
        out.extend_from_slice(more.as_bytes());
    }
    out.push(b'}');
}

/// Appends `body` with `more` members behind its own.
pub(super) fn with_more(body: &[u8], more: &str, out: &mut Vec<u8>) {
    let end = body.iter().rposition(|&byte| byte == b'}').unwrap_or(body.len());
    out.extend_from_slice(&body[..end]);
    if !more.is_empty() {
        if body[..end].iter().rfind(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(more.as_bytes());
    }
    out.push(b'}');
}

fn push(name: &str, value: &str, is_first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
    // Writing into a vector cannot fail.
    let _ = serde_json::to_writer(&mut *out, name);
    let _ = write!(out, ":{value}");
}

/// The request to the decode server: `head` up to the value of Content-Length, and `body` with the
/// hand-off object as it came.
#[must_use]
pub(crate) fn decode_request(head: &[u8], body: &[u8], handoff: Option<&[u8]>) -> Vec<u8> {
    const MEMBER: &[u8] = br#","kv_transfer_params":"#;
    let end = body.len().saturating_sub(1);
    let more = handoff.map_or(0, |object| MEMBER.len() + object.len());
    let mut out = Vec::with_capacity(head.len() + body.len() + more + 32);
    out.extend_from_slice(head);
    let _ = write!(out, "{}\r\n\r\n", body.len() + more);
    match handoff {
        None => out.extend_from_slice(body),
        Some(object) => {
            out.extend_from_slice(&body[..end]);
            out.extend_from_slice(MEMBER);
            out.extend_from_slice(object);
            out.push(b'}');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn one(body: &str, stream: bool, more: &str) -> String {
        let mut out = Vec::new();
        for_one_token(body.as_bytes(), stream, more, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_prefill_body_asks_for_one_token_and_keeps_all_else_as_it_stood() {
        let body = r#"{"model":"m","prompt":[1,2.50,3],"max_tokens":64,"min_tokens":64,"stream":true,"stream_options":{"include_usage":true},"temperature":1e-1}"#;
        assert_eq!(
            one(body, false, r#""x":1"#),
            r#"{"model":"m","prompt":[1,2.50,3],"max_tokens":1,"temperature":1e-1,"stream":false,"x":1}"#
        );
        let both = one(r#"{"max_completion_tokens":9}"#, false, "");
        assert_eq!(both, r#"{"max_completion_tokens":1,"stream":false}"#);
        assert_eq!(one("{}", true, ""), r#"{"max_tokens":1,"stream":true}"#);
        assert!(one(body, true, "").contains("include_usage"));
    }

    #[test]
    fn members_go_behind_those_that_are_there() {
        let with = |body: &str| {
            let mut out = Vec::new();
            with_more(body.as_bytes(), r#""room":7"#, &mut out);
            serde_json::from_slice::<Value>(&out).unwrap()
        };
        assert_eq!(with(r#"{"a":{"b":1}}"#), json!({"a": {"b": 1}, "room": 7}));
        assert_eq!(with("{ }\n"), json!({"room": 7}));
    }

    #[test]
    fn the_object_is_spliced_in_byte_for_byte() {
        let object = br#"{ "remote_block_ids" : [[1,2]], "x":1.0 }"#;
        let bytes =
            decode_request(b"POST / HTTP/1.1\r\nContent-Length: ", br#"{"a":1}"#, Some(object));
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())));
        assert!(body.contains(std::str::from_utf8(object).unwrap()), "{body}");
        serde_json::from_str::<Value>(body).unwrap();
        let plain = decode_request(b"Content-Length: ", br#"{"a":1}"#, None);
        assert_eq!(plain, b"Content-Length: 7\r\n\r\n{\"a\":1}");
    }

    #[test]
    fn only_an_object_is_one() {
        assert!(is_object(br#"{"a":[1]}"#) && is_object(b"{}"));
        assert!(!is_object(b"[1]") && !is_object(b"{") && !is_object(b""));
    }
}
