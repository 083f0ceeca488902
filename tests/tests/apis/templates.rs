//! APIs that the user describes: events with a word at the end, and lines without.

use std::collections::BTreeMap;

use serde_json::json;
use tokclock_engine::record::TokenSource;
use tokclock_engine::workload::template::{Format, Reading};
use tokclock_engine::workload::{Dialect, Template};

use super::{Answer, Api, Flow, Manner, TEXT, texts};

const BODY: &str = r#"{ "query": "Say {{prompt}}.", "engine": "{{model}}",
    "limit": {{max_tokens}}, "live": {{stream}} }"#;

fn some(pointer: &str) -> Option<String> {
    Some(pointer.to_owned())
}

fn api(path: &str, paths: [&'static str; 2], answer: Reading, flow: Flow, whole: &str) -> Api {
    let read = flow.answer.clone().whole();
    Api {
        dialect: Dialect::Template,
        template: Some(Template {
            path: path.to_owned(),
            body: BODY.to_owned(),
            headers: BTreeMap::new(),
            answer,
        }),
        paths,
        prompt: "/query",
        says: vec![("/engine", json!("m")), ("/limit", json!(8))],
        streams: Some("/live"),
        flow: Some(flow),
        whole: (whole.to_owned(), read),
        refusal: (500, r#"{"failed":{"why":"no such engine"}}"#, "no such engine"),
    }
}

pub(crate) fn events() -> Api {
    let answer = Reading {
        text: some("/out/text"),
        reasoning: some("/out/thought"),
        input_tokens: some("/counts/in"),
        output_tokens: some("/counts/out"),
        finish: some("/out/why"),
        error: some("/failed/why"),
        done_data: some("<end>"),
        ..Reading::default()
    };
    let flow = Flow {
        manner: Manner::Data,
        events: texts(&[
            r#"{"out":{"thought":"hm"}}"#,
            r#"{"out":{"text":"Alpha"}}"#,
            r#"{"out":{"text":" beta gamma"}}"#,
            r#"{"out":{"text":"","why":"length"},"counts":{"in":7,"out":5}}"#,
            "<end>",
        ]),
        output: [0, 1, 1, 2],
        done: 4,
        endless: 3,
        fault: (r#"{"failed":{"why":"the engine died"}}"#, "the engine died"),
        answer: Answer { reasoning: Some("hm"), ..Answer::counted(5, &[1, 1, 1]) },
    };
    let whole = r#"{"out":{"text":"Alpha beta gamma","thought":"hm","why":"length"},"counts":{"in":7,"out":5}}"#;
    api("/v9/{{model}}/go?v=2", ["/v9/m/go?v=2"; 2], answer, flow, whole)
}

pub(crate) fn lines() -> Api {
    let answer = Reading {
        format: Format::Ndjson,
        text: some("/so_far"),
        tokens: some("/ids"),
        error: some("/failed/why"),
        cumulative: true,
        ends_with_body: true,
        ..Reading::default()
    };
    let flow = Flow {
        manner: Manner::Line,
        events: texts(&[
            r#"{"so_far":"Alpha","ids":[5]}"#,
            r#"{"so_far":"Alpha beta","ids":[5,6,7]}"#,
            r#"{"so_far":"Alpha beta gamma","ids":[5,6,7,8]}"#,
        ]),
        output: [0, 0, 1, 2],
        done: 3,
        endless: 3,
        fault: (r#"{"failed":{"why":"the engine died"}}"#, "the engine died"),
        answer: Answer {
            text: TEXT,
            reasoning: None,
            finish: None,
            each: vec![1, 2, 1],
            output: Some((4, TokenSource::TokenIds)),
            input: None,
        },
    };
    let whole = format!(r#"{{"so_far":"{TEXT}","ids":[5,6,7,8]}}"#);
    api("/lines", ["/lines"; 2], answer, flow, &whole)
}
