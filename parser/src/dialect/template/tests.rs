//! Dialects of several forms, described.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::testing::{JSON, NDJSON, SSE, document, event, stream};
use super::super::{Decoder, Dialect};
use super::*;

fn all(pointers: &[&str]) -> Vec<String> {
    pointers.iter().map(|pointer| (*pointer).to_owned()).collect()
}

fn dialect(places: Places) -> Dialect {
    Dialect::Template(Arc::new(Template::new(places).unwrap()))
}

fn text_at(pointer: &str) -> Places {
    Places { text: all(&[pointer]), ..Places::default() }
}

/// One with a place for everything.
fn full() -> Dialect {
    dialect(Places {
        text: all(&["/out/0/text", "/out/0/message/text"]),
        reasoning: all(&["/out/0/think"]),
        tokens: all(&["/out/0/ids", "/new"]),
        input_tokens: all(&["/counts/in"]),
        output_tokens: all(&["/counts/out"]),
        finish: all(&["/out/0/why"]),
        error: all(&["/fault", "/error"]),
        done: all(&["/last"]),
        done_line: Some("END".into()),
        ..Places::default()
    })
}

#[test]
fn every_place_is_read() {
    for (json, said) in [
        (r#"{"out":[{"text":"Hi"}]}"#, "content <Hi>"),
        (r#"{"out":[{"text":"Hi","think":"hm","ids":[1,2]}],"id":"x"}"#, "content <Hi> (hm) #2"),
        (r#"{"out":[{"text":"","message":{"text":"Hi"}}],"new":3}"#, "content <Hi> #3"),
        (r#"{"out":[{"think":"hm"},{"text":"no"}]}"#, "reasoning (hm)"),
        (r#"{"out":[{"ids":[7]}]}"#, "ids #1"),
        (r#"{"counts":{"in":9,"out":5}}"#, "tail 9>5"),
        (r#"{"out":[{"text":"Hi","why":"length"}],"last":true}"#, "content <Hi> length done"),
        (r#"{"out":[{"why":true}]}"#, "tail stop"),
        (r#"{"out":[{"why":{"type":"stop"}}]}"#, "tail other"),
        (r#"{"last":true}"#, "tail done"),
        (r#"{"fault":"Lost","out":[{"text":"Hi"}]}"#, "fault <Lost>"),
        (r#"{"error":{"message":"Lost","code":7}}"#, "fault <Lost> 7"),
        ("END", "done"),
        (" END ", "done"),
        ("[DONE]", "done"),
    ] {
        assert_eq!(event(&full(), json), said, "{json}");
    }
}

#[test]
fn what_is_null_absent_or_of_another_type_changes_nothing() {
    for json in [
        "{}",
        "null",
        "7",
        r#""END""#,
        "[]",
        r#"{"out":null}"#,
        r#"{"out":{"text":"Hi"}}"#,
        r#"{"out":[]}"#,
        r#"{"out":["text"]}"#,
        r#"{"out":[{"text":7,"think":["hm"],"ids":"12","why":null}],"new":-1}"#,
        r#"{"out":[{"text":null,"ids":[],"why":""}],"counts":7,"fault":null,"error":false}"#,
        r#"{"out":[{"why":false}],"last":"true","fault":7,"error":[1]}"#,
        r#"{"out":[{"why":{}}],"last":false,"fault":""}"#,
        r#"{"out":[{"why":[ ]}],"counts":{"in":"9","out":1.5}}"#,
        r#"{"out":[{"text":"Hi"}],"out":[{"text":""}]}"#,
        r#"{"out":[{"text":"Hi"}],"out":7}"#,
    ] {
        assert_eq!(event(&full(), json), "empty", "{json}");
    }
    assert_eq!(stream(&full(), SSE, "data: {\"out\":[{\"text\":\n\n"), ["malformed at 15"]);
}

#[test]
fn names_may_have_any_characters() {
    let json = r#"{"a/b":{"m~n":{"":"Hi","0":"no"}},"caf\u00e9":["x","y"]}"#;
    assert_eq!(event(&dialect(text_at("/a~1b/m~0n/")), json), "content <Hi>");
    assert_eq!(event(&dialect(text_at("/café/1")), json), "content <y>");
    for pointer in ["/café/01", "/café/-", "/café/2", "/café/+1", "/a~1b/m~0n/1"] {
        assert_eq!(event(&dialect(text_at(pointer)), json), "empty", "{pointer}");
    }
    assert_eq!(event(&dialect(text_at("/a~1b/m~0n/0")), json), "content <no>");
    assert_eq!(event(&dialect(text_at("")), "\"Hi\" "), "content <Hi>");
}

#[test]
fn a_bad_template_is_refused_with_the_place_and_the_reason() {
    let said = |places| Template::new(places).unwrap_err().to_string();
    assert_eq!(
        said(text_at("choices/0/text")),
        "`text`: `choices/0/text` cannot be read: a JSON Pointer begins with `/`, as in \
         `/choices/0/text`"
    );
    for pointer in ["/a~", "/a~2b", "/~/b"] {
        let places = Places { finish: all(&["/ok", pointer]), ..text_at("/a") };
        assert_eq!(
            said(places),
            format!(
                "`finish`: `{pointer}` cannot be read: `~` is written `~0`, and `/` inside a name \
                 `~1`"
            )
        );
    }
    assert!(said(text_at(&"/a".repeat(65))).ends_with("it goes more than 64 levels down"));
    assert_eq!(event(&dialect(text_at(&"/a".repeat(64))), "{\"a\":{}}"), "empty");
    assert!(said(Places { done: all(&["/done"]), ..Places::default() }).contains("`text`"));
    assert!(said(Places { done_line: Some(" ".into()), ..text_at("/a") }).contains("`done_line`"));
    assert!(said(Places { text: vec!["/a".into(); 32], ..Places::default() }).contains("32"));
}

#[test]
fn counts_that_come_apart_are_told_together() {
    let body = "data: {\"counts\":{\"in\":9}}\n\ndata: {\"out\":[{\"text\":\"a\"}],\"counts\":{\"out\":1}}\
                \n\ndata: {\"out\":[{\"text\":\"b\"}]}\n\ndata: {\"counts\":{\"out\":2}}\n\ndata: END\n\n";
    assert_eq!(
        stream(&full(), SSE, body),
        ["tail 9>-", "content <a> 9>1", "content <b>", "tail 9>2", "done"]
    );
}

fn cumulative() -> Dialect {
    dialect(Places {
        tokens: all(&["/ids"]),
        reasoning: all(&["/think"]),
        finish: all(&["/why"]),
        cumulative: true,
        ..text_at("/text")
    })
}

#[test]
fn of_a_text_that_repeats_only_the_news_are_output() {
    let body = |texts: &[&str]| -> String {
        texts.iter().map(|text| format!("data: {{\"text\":\"{text}\"}}\n\n")).collect()
    };
    let said = |texts: &[&str]| stream(&cumulative(), SSE, &body(texts));
    assert_eq!(
        said(&["A", "A b", "A b", "A b c"]),
        ["content <A>", "content < b>", "empty", "content < c>"]
    );
    // A text may be taken back, or get shorter and grow again.
    assert_eq!(
        said(&["A \u{fffd}", "A é", "A", "A éx"]).join("|"),
        "content <A \u{fffd}>|content <é>|empty|content <x>"
    );
    assert_eq!(said(&["ab", "ax"]), ["content <ab>", "content <x>"]);
    // Neither a character nor an escape is cut.
    assert_eq!(said(&["aè", "aé"]), ["content <aè>", "content <é>"]);
    assert_eq!(said(&[r"a\n", r"a\t"]), [r"content <a\n>", r"content <\t>"]);
    assert_eq!(said(&[r"\u00e8", r"\u00e9"]), [r"content <\u00e8>", r"content <\u00e9>"]);
    assert_eq!(said(&[r"\\n", r"\\nx"]), [r"content <\\n>", "content <x>"]);
    assert_eq!(said(&["", "A", "", "A"]), ["empty", "content <A>", "empty", "empty"]);
}

#[test]
fn a_list_of_tokens_that_repeats_is_counted_once() {
    let body = "data: {\"text\":\"A\",\"think\":\"hm\",\"ids\":[1]}\n\n\
                data: {\"text\":\"A b\",\"think\":\"hm\",\"ids\":[1,2,3]}\n\n\
                data: {\"text\":\"A b\",\"ids\":[1,2,3,4]}\n\n\
                data: {\"text\":\"A b\",\"ids\":[1,2,3,4],\"why\":\"stop\"}\n\n";
    assert_eq!(
        stream(&cumulative(), SSE, body),
        ["content <A> (hm) #1", "content < b> #2", "ids #1", "tail stop"]
    );
    assert_eq!(
        document(&cumulative(), r#"{"text":"A b","ids":[1,2],"why":"stop"}"#),
        ["content <A b> #2 stop"]
    );
}

#[test]
fn a_complete_body_may_be_the_end() {
    let places = Places { ends_with_body: true, ..text_at("/text") };
    let body = "data: {\"text\":\"a\"}\n\n";
    assert_eq!(stream(&dialect(places.clone()), SSE, body), ["content <a>", "done"]);
    assert_eq!(stream(&dialect(text_at("/text")), SSE, body), ["content <a>"]);
    let lost = format!("{body}data: {{\"error\":\"Lost\"}}\n\n");
    assert_eq!(stream(&dialect(places), SSE, &lost), ["content <a>", "fault <Lost>"]);
}

#[test]
fn a_stream_may_have_a_text_on_each_line() {
    let lines = dialect(Places {
        framing: Framing::Ndjson,
        done: all(&["/last"]),
        cumulative: true,
        ..text_at("/text")
    });
    let body = "{\"text\":\"a\"}\r\n\n {\"text\":\"a b\"}\n{\"last\":true}";
    for content in [NDJSON, JSON, "text/plain"] {
        assert_eq!(
            stream(&lines, content, body),
            ["content <a>", "content < b>", "tail done"],
            "{content}"
        );
    }
}

#[test]
fn a_line_that_ends_a_stream_may_look_like_an_event() {
    let end = dialect(Places { done_line: Some("{\"kind\":\"end\"}".into()), ..text_at("/text") });
    let body = "data: {\"kind\":\"go\"}\n\ndata: {\"text\":\"a\"}\n\ndata: {\"kind\":\"end\"}\n\n";
    assert_eq!(stream(&end, SSE, body), ["empty", "content <a>", "done"]);
    let end = dialect(Places { done_line: Some("{\"text\":\"END\"}".into()), ..text_at("/text") });
    let body = "data: {\"text\":\"a\"}\n\ndata: {\"text\":\"b\"}\n\ndata: {\"text\":\"END\"}\n\n";
    assert_eq!(stream(&end, SSE, body), ["content <a>", "content <b>", "done"]);
}

#[test]
fn a_text_that_is_a_reason_as_well_is_never_known_by_its_shape() {
    let both = dialect(Places { finish: all(&["/text"]), ..text_at("/text") });
    let body = "data: {\"text\":\"a\"}\n\ndata: {\"text\":\"length\"}\n\n";
    assert_eq!(stream(&both, SSE, body), ["content <a> other", "content <length> length"]);
}

#[test]
fn events_are_known_again_by_what_no_place_is_at() {
    let mut decoder = Decoder::new(full());
    let data =
        |id: &str, text: &str| format!("{{\"id\":\"{id}\",\"out\":[{{\"text\":\"{text}\"}}]}}");
    let known = data("1", "a");
    decoder.event(crate::sse::Message { name: b"chunk", data: known.as_bytes() });
    assert!(decoder.finds(data("next", "longer").as_bytes()));
    assert!(!decoder.finds(data("n\\n", "a").as_bytes()));
}

/// JSON with few names, so that they meet the pointers often.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (0..9_u8).prop_map(Into::into),
        "[ab\\\\\"é]{0,3}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map("[ab01~/]{0,2}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    /// What a tree of the whole JSON finds.
    #[test]
    fn pointers_find_what_a_tree_finds(
        json in json(),
        paths in proptest::collection::vec(
            proptest::collection::vec("[ab01~/]{0,2}", 0..4), 1..5
        ),
    ) {
        let mut root = Node::default();
        let mut pointers = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let escape = |name: &String| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            let pointer: String = path.iter().map(escape).collect();
            prop_assert_eq!(&parse(&pointer).unwrap(), path);
            root.insert(path, number);
            pointers.push(pointer);
        }
        let text = json.to_string();
        let values = root.find(&text).unwrap();
        for (number, pointer) in pointers.iter().enumerate() {
            let expected = json.pointer(pointer).map(ToString::to_string).unwrap_or_default();
            prop_assert_eq!(values.at[number], expected, "{}", pointer);
        }
    }
}
