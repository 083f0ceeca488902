//! Streams and documents of `/v1/responses`.

use super::super::testing::{self, SSE};
use super::super::{Decoder, Dialect};

const DIALECT: Dialect = Dialect::OpenaiResponses;

fn stream(body: &str) -> Vec<String> {
    testing::stream(&DIALECT, SSE, body)
}

fn event(json: &str) -> String {
    testing::event(&DIALECT, json)
}

fn document(json: &str) -> String {
    testing::document(&DIALECT, json).concat()
}

/// Each event: its type after `response.`, and its fields beside type and number.
const TALK: &[(&str, &str)] = &[
    (
        "created",
        r#""response":{"id":"r1","status":"in_progress","output":[],"usage":null,"error":null}"#,
    ),
    ("in_progress", r#""response":{"id":"r1","status":"in_progress","output":[],"usage":null}"#),
    (
        "output_item.added",
        r#""output_index":0,"item":{"id":"i0","type":"reasoning","summary":[],"status":"in_progress"}"#,
    ),
    ("reasoning_text.delta", r#""item_id":"i0","output_index":0,"content_index":0,"delta":"Two"#),
    ("reasoning_text.delta", r#""item_id":"i0","output_index":0,"content_index":0,"delta":" and"#),
    ("reasoning_text.done", r#""item_id":"i0","output_index":0,"content_index":0,"text":"Two and"#),
    (
        "reasoning_summary_text.delta",
        r#""item_id":"i0","output_index":0,"summary_index":0,"delta":"Sums"#,
    ),
    (
        "output_item.done",
        r#""output_index":0,"item":{"id":"i0","type":"reasoning","content":[{"type":"reasoning_text","text":"Two and"}]}"#,
    ),
    (
        "output_item.added",
        r#""output_index":1,"item":{"id":"i1","type":"message","role":"assistant","content":[]}"#,
    ),
    (
        "content_part.added",
        r#""item_id":"i1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}"#,
    ),
    (
        "output_text.delta",
        r#""item_id":"i1","output_index":1,"content_index":0,"logprobs":[],"obfuscation":"ab3","delta":"Four"#,
    ),
    (
        "output_text.delta",
        r#""item_id":"i1","output_index":1,"content_index":0,"logprobs":[],"obfuscation":"x","delta":", \"yes\""#,
    ),
    ("output_text.done", r#""item_id":"i1","output_index":1,"content_index":0,"text":"Four, yes"#),
    (
        "content_part.done",
        r#""item_id":"i1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Four, yes"}"#,
    ),
    (
        "output_item.done",
        r#""output_index":1,"item":{"id":"i1","type":"message","content":[{"type":"output_text","text":"Four, yes"}]}"#,
    ),
    (
        "output_item.added",
        r#""output_index":2,"item":{"id":"i2","type":"function_call","name":"add","arguments":"","call_id":"c1"}"#,
    ),
    ("function_call_arguments.delta", r#""item_id":"i2","output_index":2,"delta":"{\"a\":"#),
    ("function_call_arguments.delta", r#""item_id":"i2","output_index":2,"delta":"2}"#),
    ("function_call_arguments.done", r#""item_id":"i2","output_index":2,"arguments":"{\"a\":2}"#),
    (
        "output_item.done",
        r#""output_index":2,"item":{"id":"i2","type":"function_call","name":"add","arguments":"{}"}"#,
    ),
    (
        "completed",
        r#""response":{"id":"r1","status":"completed","error":null,"incomplete_details":null,"output":[{"type":"message","content":[{"type":"output_text","text":"Four, yes"}]},{"type":"function_call","name":"add","arguments":"{}"}],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":33,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":42}}"#,
    ),
];

const SAID: &[&str] = &[
    "empty",
    "empty",
    "empty",
    "reasoning (Two)",
    "reasoning ( and)",
    "empty",
    "reasoning (Sums)",
    "empty",
    "empty",
    "empty",
    "content <Four>",
    r#"content <, \"yes\">"#,
    "empty",
    "empty",
    "empty",
    "tool <add>",
    r#"tool <{\"a\":>"#,
    "tool <2}>",
    "empty",
    "empty",
    "tail tool_calls 9>33 reasoning 20 cached 4 done",
];

fn wire(events: &[(&str, &str)], name: bool, kind: bool) -> String {
    let event = |(number, (of, fields)): (usize, &(&str, &str))| {
        let name = if name { format!("event: response.{of}\n") } else { String::new() };
        let kind = if kind { format!("\"type\":\"response.{of}\",") } else { String::new() };
        // A string at the end is left open above.
        let open = fields.replace("\\\"", "").matches('"').count() % 2 == 1;
        let end = if open { "\"" } else { "" };
        format!("{name}data: {{{kind}\"sequence_number\":{number},{fields}{end}}}\n\n")
    };
    events.iter().enumerate().map(event).collect()
}

#[test]
fn a_stream_says_the_same_with_names_without_them_and_by_names_alone() {
    assert_eq!(stream(&wire(TALK, true, true)), SAID);
    assert_eq!(stream(&wire(TALK, false, true)), SAID);
    assert_eq!(stream(&wire(TALK, true, false)), SAID);
}

#[test]
fn deltas_are_known_again_whatever_their_numbers_and_names() {
    let mut decoder = Decoder::new(DIALECT);
    let data = |number: u32, item: &str, text: &str| {
        format!(
            "{{\"type\":\"response.output_text.delta\",\"item_id\":\"{item}\",\
             \"sequence_number\":{number},\"delta\":\"{text}\"}}"
        )
    };
    let known = data(9, "i1", "a");
    assert!(!decoder.finds(known.as_bytes()));
    let name = b"response.output_text.delta";
    decoder.event(crate::sse::Message { name, data: known.as_bytes() });
    assert!(decoder.finds(data(10, "item2", "longer").as_bytes()));
    assert!(!decoder.finds(data(10, "i1", "").as_bytes()));
    let untyped = br#"{"delta":"a"}"#;
    decoder.event(crate::sse::Message { name, data: untyped });
    assert!(!decoder.finds(untyped));
}

#[test]
fn how_a_response_ends() {
    for (json, said) in [
        (r#"{"type":"response.completed","response":{"status":"completed"}}"#, "tail stop done"),
        (r#"{"type":"response.completed"}"#, "tail stop done"),
        (
            r#"{"type":"response.completed","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#,
            "tail length done",
        ),
        (
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"},"usage":{"output_tokens":7}}}"#,
            "tail length ->7 done",
        ),
        (
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}"#,
            "tail content_filter done",
        ),
        (r#"{"type":"response.incomplete","response":null}"#, "tail other done"),
        (r#"{"type":"response.cancelled","response":{}}"#, "tail other done"),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"Lost"}}}"#,
            "fault <Lost> server_error",
        ),
        (r#"{"type":"response.failed","response":{"status":"failed"}}"#, "fault <failed>"),
        (r#"{"type":"response.failed"}"#, "fault <failed>"),
        (r#"{"type":"error","code":"rate","message":"Later","param":null}"#, "fault <Later> rate"),
        (r#"{"type":"error","error":{"type":"rate","message":"Later"}}"#, "fault <Later> rate"),
        (r#"{"type":"error","code":null}"#, r#"fault <{"type":"error","code":null}>"#),
        (r#"{"error":{"message":"Lost","code":500}}"#, "fault <Lost> 500"),
        (r#"{"type":"response.output_text.delta","delta":"a","error":"Lost"}"#, "fault <Lost>"),
    ] {
        assert_eq!(event(json), said, "{json}");
    }
}

#[test]
fn nothing_counts_after_the_end() {
    let mut events = vec![TALK[20], TALK[10]];
    assert_eq!(stream(&wire(&events, true, true)), [SAID[20], "empty"]);
    events.remove(0);
    let body = wire(&events, true, true);
    assert_eq!(stream(&body[..body.len() - 9]), ["empty"]);
    assert_eq!(stream(&format!("{body}data: [DONE]\n\n")), [SAID[10], "done"]);
}

#[test]
fn media_is_output_without_text() {
    for (json, said) in [
        (r#"{"type":"response.audio.delta","delta":"AAAA"}"#, "media"),
        (r#"{"type":"response.audio.delta","delta":""}"#, "empty"),
        (r#"{"type":"response.audio.transcript.delta","delta":"Four"}"#, "media <Four>"),
        (
            r#"{"type":"response.image_generation_call.partial_image","partial_image_b64":"AAAA"}"#,
            "media",
        ),
    ] {
        assert_eq!(event(json), said, "{json}");
    }
    assert_eq!(event(r#"{"type":"response.refusal.delta","delta":"No"}"#), "refusal <No>");
}

#[test]
fn what_is_null_absent_or_of_another_type_changes_nothing() {
    for json in [
        "{}",
        "null",
        "[]",
        r#"{"type":null,"delta":"a"}"#,
        r#"{"type":"response.output_text.delta"}"#,
        r#"{"type":"response.output_text.delta","delta":null}"#,
        r#"{"type":"response.output_text.delta","delta":{"text":"a"}}"#,
        r#"{"type":"response.output_text.delta","delta":7}"#,
        r#"{"type":"response.output_item.added","item":{"type":"message","name":"a"}}"#,
        r#"{"type":"response.output_item.added","item":{"type":"function_call","name":""}}"#,
        r#"{"type":"response.output_item.added","item":"function_call"}"#,
        r#"{"type":"response.output_text.annotation.added","delta":"a"}"#,
        r#"{"type":"response.created","response":{"error":{"message":"not yet"}}}"#,
    ] {
        assert_eq!(event(json), "empty", "{json}");
    }
    let twice = r#"{"type":"response.output_text.delta","delta":"a","delta":"b"}"#;
    assert_eq!(event(twice), "content <b>");
    assert_eq!(stream("data: {\"type\":\"resp\n\n"), ["malformed at 12"]);
}

#[test]
fn a_document_is_all_items_in_order() {
    let json = r#"{"id":"r1","object":"response","status":"completed","error":null,"output":[
        {"type":"reasoning","summary":[{"type":"summary_text","text":"Sums."}],
            "content":[{"type":"reasoning_text","text":"Two and"}]},
        {"type":"message","role":"assistant","content":[
            {"type":"output_text","text":"Four","annotations":[]},{"type":"refusal","refusal":"No"}]},
        {"type":"function_call","name":"add","arguments":"{\"a\":2}"},
        {"type":"web_search_call","action":{"query":"q"}},
        {"type":"mcp_call","name":"now","arguments":"","output":"12:00"}],
        "usage":{"input_tokens":9,"output_tokens":33,
            "output_tokens_details":{"reasoning_tokens":20},"input_tokens_details":null}}"#;
    assert_eq!(
        document(json),
        r#"content <FourNoadd{\"a\":2}now> (Sums.Two and) tool_calls 9>33 reasoning 20"#
    );
    let cut = r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},
        "output":[{"content":[{"text":"Fo"}]}],"usage":{"output_tokens":1}}"#;
    assert_eq!(document(cut), "content <Fo> length ->1");
    let image =
        r#"{"status":"completed","output":[{"type":"image_generation_call","result":"AA"}]}"#;
    assert_eq!(document(image), "media stop");
    let audio = r#"{"output":[{"content":[{"data":"AA","transcript":"Hi"}]}]}"#;
    assert_eq!(document(audio), "media <Hi>");
}

#[test]
fn a_document_may_be_an_error_or_nothing() {
    for (json, said) in [
        (r#"{"error":{"message":"No","code":"bad"}}"#, "fault <No> bad"),
        (
            r#"{"status":"failed","error":{"message":"Lost","code":"server_error"}}"#,
            "fault <Lost> server_error",
        ),
        (r#"{"status":"failed","output":[{"content":[{"text":"Fo"}]}]}"#, "fault <failed>"),
        (r#"{"object":"error","message":"No","code":400}"#, "fault <No> 400"),
        (r#"{"status":"in_progress","output":[]}"#, "empty"),
        (r#"{"status":7,"output":{},"usage":[],"error":null}"#, "empty"),
        ("{}", "empty"),
        ("[]", "empty"),
    ] {
        assert_eq!(document(json), said, "{json}");
    }
    assert_eq!(document(r#"{"status":"completed","output":["#), "malformed at 31");
}
