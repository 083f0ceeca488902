//! Streams and documents of `/v1/messages`.

use super::super::Dialect;
use super::super::testing::{self, SSE, with_length};

const DIALECT: Dialect = Dialect::AnthropicMessages;

fn stream(body: &str) -> Vec<String> {
    testing::stream(&DIALECT, SSE, body)
}

fn event(json: &str) -> String {
    testing::event(&DIALECT, json)
}

fn document(json: &str) -> String {
    testing::document(&DIALECT, json).concat()
}

/// Each with its name, as servers send them.
fn named(events: &[(&str, &str)]) -> String {
    events.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect()
}

const TALK: &[(&str, &str)] = &[
    (
        "message_start",
        r#"{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":9,"cache_read_input_tokens":4,"cache_creation_input_tokens":2,"output_tokens":1}}}"#,
    ),
    ("ping", r#"{"type":"ping"}"#),
    (
        "content_block_start",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    ),
    (
        "content_block_delta",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Two\nand"}}"#,
    ),
    (
        "content_block_delta",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
    ),
    ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
    (
        "content_block_start",
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
    ),
    (
        "content_block_delta",
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Four"}}"#,
    ),
    (
        "content_block_delta",
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" it \"is\""}}"#,
    ),
    ("content_block_stop", r#"{"type":"content_block_stop","index":1}"#),
    (
        "content_block_start",
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"add","input":{}}}"#,
    ),
    (
        "content_block_delta",
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    ),
    (
        "content_block_delta",
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":2}"}}"#,
    ),
    ("content_block_stop", r#"{"type":"content_block_stop","index":2}"#),
    (
        "message_delta",
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":33}}"#,
    ),
    ("message_stop", r#"{"type":"message_stop"}"#),
];

const SAID: &[&str] = &[
    "tail 15>- cached 4",
    "ping",
    "empty",
    r"reasoning (Two\nand)",
    "empty",
    "empty",
    "empty",
    "content <Four>",
    r#"content < it \"is\">"#,
    "empty",
    "tool <add>",
    "empty",
    r#"tool <{\"a\":2}>"#,
    "empty",
    "tail tool_calls 15>33 cached 4",
    "done",
];

#[test]
fn a_stream_says_the_same_with_names_without_them_and_by_names_alone() {
    assert_eq!(stream(&named(TALK)), SAID);
    let unnamed: String = TALK.iter().map(|(_, data)| format!("data: {data}\n\n")).collect();
    assert_eq!(stream(&unnamed), SAID);
    let untyped: Vec<(&str, String)> = TALK
        .iter()
        .map(|(name, data)| (*name, data.replacen(&format!("\"type\":\"{name}\""), "\"x\":0", 1)))
        .collect();
    let untyped: Vec<(&str, &str)> =
        untyped.iter().map(|(name, data)| (*name, data.as_str())).collect();
    assert_eq!(stream(&named(&untyped)), SAID);
}

#[test]
fn the_counts_of_the_end_are_the_whole_and_those_of_the_start_fill_what_it_lacks() {
    let start =
        |usage: &str| format!("{{\"type\":\"message_start\",\"message\":{{\"usage\":{usage}}}}}");
    let delta =
        |usage: &str| format!("{{\"type\":\"message_delta\",\"delta\":{{}},\"usage\":{usage}}}");
    let pair = |first: &str, last: &str| {
        stream(&format!("data: {}\n\ndata: {}\n\n", start(first), delta(last))).pop().unwrap()
    };
    assert_eq!(pair(r#"{"input_tokens":9}"#, r#"{"output_tokens":5}"#), "tail 9>5");
    assert_eq!(
        pair(r#"{"input_tokens":9,"output_tokens":1}"#, "null"),
        "tail 9>-",
        "what is said of the output at the start is not the whole"
    );
    assert_eq!(
        pair(
            r#"{"input_tokens":9}"#,
            r#"{"input_tokens":3,"cache_read_input_tokens":6,"output_tokens":5}"#
        ),
        "tail 9>5 cached 6"
    );
    assert_eq!(
        pair(r#"{"input_tokens":0}"#, r#"{"input_tokens":7,"output_tokens":"5"}"#),
        "tail 7>-"
    );
    assert_eq!(pair("7", "[]"), "empty");
}

#[test]
fn counts_of_one_response_are_not_those_of_the_next() {
    // A used machine that has read a stream with counts reads another without.
    let with = named(TALK);
    let without = named(&TALK[14..]);
    let mut answer = testing::answer(&DIALECT, true);
    let mut read = |body: &str| testing::read(&mut answer, [with_length(SSE, body)]);
    assert!(read(&with).ends_with(&["done".to_owned(), "end".to_owned()]));
    assert_eq!(read(&without)[1], "tail tool_calls ->33");
}

#[test]
fn an_error_ends_a_stream_with_its_type_as_its_code() {
    let lost = r#"{"type":"error","error":{"type":"overloaded_error","message":"Later"}}"#;
    let mut events = TALK[..8].to_vec();
    events.push(("error", lost));
    assert_eq!(stream(&named(&events)).last().unwrap(), "fault <Later> overloaded_error");
    assert_eq!(event(lost), "fault <Later> overloaded_error");
    assert_eq!(event(r#"{"error":{"message":"Lost"}}"#), "fault <Lost>");
    assert_eq!(event(r#"{"type":"error"}"#), r#"fault <{"type":"error"}>"#);
    assert_eq!(stream(&named(&[("error", "no JSON")])), ["fault <no JSON>"]);
}

#[test]
fn a_stream_that_is_cut_has_no_end() {
    let body = named(&TALK[..14]);
    let said = stream(&body);
    assert_eq!(said, SAID[..14]);
    let cut = &body[..body.len() - 30];
    assert_eq!(stream(cut).last().unwrap(), "empty");
    assert_eq!(stream("data: {\"type\":\n\n"), ["malformed at 7"]);
}

#[test]
fn what_is_null_absent_or_of_another_type_changes_nothing() {
    for json in [
        "{}",
        "null",
        "[]",
        "7",
        r#"{"type":7,"delta":{"text":"a"}}"#,
        r#"{"type":"content_block_delta"}"#,
        r#"{"type":"content_block_delta","delta":null}"#,
        r#"{"type":"content_block_delta","delta":"a"}"#,
        r#"{"type":"content_block_delta","delta":{"text":null,"thinking":7,"partial_json":{}}}"#,
        r#"{"type":"content_block_start","content_block":[{"text":"a"}]}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":null}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":""},"usage":{"output_tokens":-1}}"#,
        r#"{"type":"new_in_2030","delta":{"text":"a"},"error":null}"#,
    ] {
        assert_eq!(event(json), "empty", "{json}");
    }
    assert_eq!(event(r#"{"type":"message_start","message":null}"#), "role");
    assert_eq!(
        event(r#"{"type":"content_block_start","content_block":{"text":"Hi"}}"#),
        "content <Hi>"
    );
    let both = r#"{"type":"content_block_delta","delta":{"text":"a"},"delta":{"thinking":"b"}}"#;
    assert_eq!(event(both), "reasoning (b)");
}

#[test]
fn reasons_to_stop() {
    for (word, finish) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "other"),
    ] {
        let json =
            format!("{{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{word}\"}}}}");
        assert_eq!(event(&json), format!("tail {finish}"));
    }
}

#[test]
fn a_document_is_all_blocks_in_order() {
    let json = r#"{"id":"m1","type":"message","role":"assistant","model":"m","content":[
        {"type":"thinking","thinking":"Two and two","signature":"c2ln"},
        {"type":"text","text":"Four"},
        {"type":"tool_use","id":"t1","name":"add","input":{"a":2}},
        {"type":"tool_use","id":"t2","name":"now","input":{}},
        {"type":"redacted_thinking","data":"eA=="}],
        "stop_reason":"tool_use","stop_sequence":null,
        "usage":{"input_tokens":9,"cache_read_input_tokens":4,"output_tokens":33}}"#;
    assert_eq!(
        document(json),
        "content <Fouradd{\"a\":2}now> (Two and two) tool_calls 13>33 cached 4"
    );
    assert_eq!(document(r#"{"content":"Hi","stop_reason":"end_turn"}"#), "content <Hi> stop");
    let empty = r#"{"content":[],"stop_reason":"max_tokens","usage":{"output_tokens":0}}"#;
    assert_eq!(document(empty), "tail length ->0");
}

#[test]
fn a_document_may_be_an_error_or_nothing() {
    let json = r#"{"type":"error","error":{"type":"invalid_request_error","message":"No"}}"#;
    assert_eq!(document(json), "fault <No> invalid_request_error");
    for json in ["{}", "[]", r#"{"content":null,"usage":null,"stop_reason":null,"error":null}"#] {
        assert_eq!(document(json), "empty", "{json}");
    }
    assert_eq!(document(r#"{"content":[{"type":"text","text":"Fo"#), "malformed at 36");
}
