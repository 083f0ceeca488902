//! No field of a chat chunk can do harm by being null, absent or of another type.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod heard;

use heard::{Heard, heard};
use serde_json::{Value, json};
use tokclock_parser::dialect::Dialect;
use tokclock_tests::replay::{Manners, Replay, Script};
use tokclock_tests::{MS, STREAM_HEAD, carry_out, closed, event, requests, token, workload};

/// The fields of a chunk, each with a value of its type, and one that carries output where it can.
/// Only output of the field itself is in its chunk, so that what it does can be seen.
fn fields() -> Vec<(&'static str, Value)> {
    vec![
        ("/id", json!("chatcmpl-1")),
        ("/object", json!("chat.completion.chunk")),
        ("/created", json!(1)),
        ("/model", json!("m")),
        ("/system_fingerprint", json!("f")),
        ("/service_tier", json!("default")),
        ("/choices", json!([])),
        ("/choices/0", json!({})),
        ("/choices/0/index", json!(0)),
        ("/choices/0/logprobs", json!({ "content": [] })),
        ("/choices/0/finish_reason", json!("stop")),
        ("/choices/0/stop_reason", json!("stop")),
        ("/choices/0/token_ids", json!([5])),
        ("/choices/0/delta", json!({})),
        ("/choices/0/delta/role", json!("assistant")),
        ("/choices/0/delta/content", json!("x")),
        ("/choices/0/delta/reasoning", json!("x")),
        ("/choices/0/delta/reasoning_content", json!("x")),
        ("/choices/0/delta/refusal", json!("x")),
        ("/choices/0/delta/tool_calls", json!([])),
        ("/choices/0/delta/tool_calls/0", json!({})),
        ("/choices/0/delta/tool_calls/0/index", json!(0)),
        ("/choices/0/delta/tool_calls/0/id", json!("t")),
        ("/choices/0/delta/tool_calls/0/type", json!("function")),
        ("/choices/0/delta/tool_calls/0/function", json!({})),
        ("/choices/0/delta/tool_calls/0/function/name", json!("x")),
        ("/choices/0/delta/tool_calls/0/function/arguments", json!("x")),
        ("/choices/0/delta/function_call", json!({})),
        ("/choices/0/delta/function_call/name", json!("x")),
        ("/choices/0/delta/function_call/arguments", json!("x")),
        ("/choices/0/delta/audio", json!({})),
        ("/choices/0/delta/audio/data", json!("x")),
        ("/choices/0/delta/audio/transcript", json!("x")),
        ("/choices/0/delta/images", json!([])),
        ("/usage", json!({})),
        ("/usage/prompt_tokens", json!(7)),
        ("/usage/completion_tokens", json!(9)),
        ("/usage/total_tokens", json!(16)),
        ("/usage/prompt_tokens_details", json!({})),
        ("/usage/prompt_tokens_details/cached_tokens", json!(1)),
        ("/usage/completion_tokens_details", json!({})),
        ("/usage/completion_tokens_details/reasoning_tokens", json!(1)),
        ("/error", json!(null)),
    ]
}

/// Values that are of the type of `right`, or mean something in its place.
fn is_meant(path: &str, right: &Value, value: &Value) -> bool {
    let whole = value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0);
    match right {
        Value::String(_) => value.is_string() || (path.ends_with("/content") && value.is_array()),
        Value::Number(_) => whole,
        Value::Array(_) => value.is_array(),
        Value::Object(_) => value.is_object(),
        // Anything else than nothing is an error.
        _ => !(value.is_null() || *value == json!(false) || *value == json!("")),
    }
}

fn wrong_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(false),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("y"),
        json!([]),
        json!([null]),
        json!([[]]),
        json!([{}]),
        json!(["y"]),
        json!({}),
        json!({ "text": null }),
        json!({ "content": { "content": "y" } }),
    ]
}

/// The chunk in which `path` has `value`, and nothing else carries output; without it if `None`.
fn chunk(path: &str, value: Option<&Value>) -> String {
    let (parent, name) = path.rsplit_once('/').unwrap();
    let mut inner = match (name, value) {
        ("0", value) => json!([value]),
        (_, None) => json!({}),
        (name, Some(value)) => json!({ name: value }),
    };
    for name in parent.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
        inner = if name == "0" { json!([inner]) } else { json!({ name: inner }) };
    }
    inner.to_string()
}

/// A whole answer with `chunks` between its first and its last token.
fn around(chunks: &[String]) -> Vec<u8> {
    let usage = json!({ "choices": [], "usage": { "completion_tokens": 2 } }).to_string();
    let finish = json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] }).to_string();
    let middle: String = chunks.iter().map(|data| event(data)).collect();
    let end = [finish.as_str(), &usage, "[DONE]"].map(event).concat();
    let all = [STREAM_HEAD, &token("A"), &middle, &token("B"), &end, "0\r\n\r\n"];
    all.concat().into_bytes()
}

fn heard_around(chunks: &[String]) -> Heard {
    heard(&Dialect::OpenaiChat, &around(chunks), [])
}

/// Every chunk with a field that is null, or not of its type.
fn odd_chunks() -> Vec<(String, String)> {
    let mut odd = Vec::new();
    for (path, right) in fields() {
        for value in wrong_values() {
            if !is_meant(path, &right, &value) {
                odd.push((format!("{path} is {value}"), chunk(path, Some(&value))));
            }
        }
    }
    assert!(odd.len() > 400, "{}", odd.len());
    odd
}

#[test]
fn a_field_that_is_null_or_not_of_its_type_is_as_good_as_absent() {
    let plain = heard_around(&[]);
    assert_eq!((plain.outputs, plain.text.as_str(), plain.tokens), (2, "AB", Some(2)));
    for (path, right) in fields() {
        let seen = heard_around(&[chunk(path, Some(&right))]);
        assert_eq!((seen.malformed, seen.done), (0, true), "{path}");
        assert_eq!(seen.outputs, if carries_output(path) { 3 } else { 2 }, "{path}");
        assert_eq!(heard_around(&[chunk(path, None)]), plain, "{path} is absent");
    }
    for (what, chunk) in odd_chunks() {
        assert_eq!(heard_around(&[chunk]), plain, "{what}");
    }
}

/// The right value of this field is output.
fn carries_output(path: &str) -> bool {
    let of_text = ["content", "reasoning", "reasoning_content", "refusal", "name", "arguments"];
    let of_media = ["data", "transcript", "token_ids"];
    let name = path.rsplit('/').next().unwrap();
    of_text.contains(&name) || of_media.contains(&name)
}

#[test]
fn a_stream_of_nothing_but_odd_chunks_is_two_tokens_and_no_failure() {
    let chunks: Vec<String> = odd_chunks().into_iter().map(|(_, chunk)| chunk).collect();
    let script = Script::at_once(around(&chunks), 0);
    let server = Replay::start(vec![script], Manners::default());
    let mut load = workload(server.address(), closed(1), requests(2));
    load.client.keep_text = true;
    load.limits.request_ns = Some(20_000 * MS);
    let ran = carry_out(&load);
    assert_eq!(server.stop().posts().count(), 2);
    for row in &ran.rows {
        assert_eq!((row.error, row.malformed_events), (None, 0), "{:?}", row.error_text);
        assert_eq!((row.events, row.text.as_deref()), (2, Some("AB")));
        assert_eq!((row.output_tokens, row.finish.as_deref()), (Some(2), Some("length")));
    }
}
