//! The APIs that one make of server has for itself.

use serde_json::json;
use tokclock_engine::record::TokenSource;
use tokclock_engine::workload::Dialect;

use super::{Answer, Api, Flow, Manner, TEXT};

/// SGLang, with all of the text in every event or only what is new.
fn sglang(pieces: [&str; 3], ids: [&str; 3]) -> Api {
    let event = |text: &str, ids: &str, finish: &str, tokens: u32| {
        format!(
            r#"{{"text":"{text}","output_ids":{ids},"meta_info":{{"id":"r1","finish_reason":{finish},"prompt_tokens":7,"completion_tokens":{tokens},"cached_tokens":0}}}}"#
        )
    };
    let length = r#"{"type":"length","length":4}"#;
    let answer = Answer::counted(4, &[1, 2, 1]);
    Api {
        dialect: Dialect::SglangGenerate,
        template: None,
        paths: ["/generate"; 2],
        prompt: "/text",
        says: vec![
            ("/sampling_params/max_new_tokens", json!(8)),
            ("/sampling_params/min_new_tokens", json!(8)),
            ("/sampling_params/ignore_eos", json!(true)),
        ],
        streams: Some("/stream"),
        flow: Some(Flow {
            manner: Manner::Data,
            events: vec![
                event(pieces[0], ids[0], "null", 1),
                event(pieces[1], ids[1], "null", 3),
                event(pieces[2], ids[2], length, 4),
                "[DONE]".to_owned(),
            ],
            output: [0, 0, 1, 2],
            done: 3,
            endless: 2,
            fault: (
                r#"{"error":{"message":"out of memory","type":"InternalServerError","code":500}}"#,
                "out of memory",
            ),
            answer: answer.clone(),
        }),
        whole: (event(TEXT, "[5,6,7,8]", length, 4), answer.whole()),
        refusal: (
            400,
            r#"{"object":"error","message":"the input is too long","type":"BadRequest","param":null,"code":400}"#,
            "the input is too long",
        ),
    }
}

pub(crate) fn sglang_of_all() -> Api {
    sglang(["Alpha", "Alpha beta", TEXT], ["[5]", "[5,6,7]", "[5,6,7,8]"])
}

pub(crate) fn sglang_of_new() -> Api {
    sglang(["Alpha", " beta", " gamma"], ["[5]", "[6,7]", "[8]"])
}

/// TGI: the last token is text, or a special one that is none.
fn tgi_until(last: &str, special: bool, reason: &str, finish: &'static str) -> Api {
    let token = |id: u32, text: &str, special: bool| {
        format!(r#"{{"id":{id},"text":"{text}","logprob":-0.5,"special":{special}}}"#)
    };
    let event = |id: u32, token: &str, end: &str| {
        format!(r#"{{"index":{id},"token":{token},"generated_text":{end}}}"#)
    };
    let tokens =
        [token(1, "Alpha", false), token(2, " beta gamma", false), token(3, last, special)];
    let text = if special { TEXT } else { "Alpha beta gamma delta" };
    let details = format!(r#""finish_reason":"{reason}","generated_tokens":3,"seed":null"#);
    let end = format!(r#""{text}","details":{{{details},"input_length":7}}"#);
    let all = tokens.join(",");
    let answer = Answer { text, finish: Some(finish), ..Answer::counted(3, &[1, 1, 1]) };
    Api {
        dialect: Dialect::TgiGenerate,
        template: None,
        paths: ["/generate_stream", "/generate"],
        prompt: "/inputs",
        says: vec![("/parameters/max_new_tokens", json!(8)), ("/parameters/details", json!(true))],
        streams: None,
        flow: Some(Flow {
            manner: Manner::Tight,
            events: vec![
                event(1, &tokens[0], r#"null,"details":null"#),
                event(2, &tokens[1], r#"null,"details":null"#),
                event(3, &tokens[2], &end),
            ],
            output: [0, 0, 1, 2],
            done: 2,
            endless: 2,
            fault: (
                r#"{"error":"Request failed during generation: it died","error_type":"generation"}"#,
                "it died",
            ),
            answer: answer.clone(),
        }),
        whole: (
            format!(
                r#"{{"generated_text":"{text}","details":{{{details},"prefill":[],"tokens":[{all}]}}}}"#
            ),
            // A document tells the length of the prompt only if asked for its tokens.
            Answer { input: None, ..answer.whole() },
        ),
        refusal: (
            422,
            r#"{"error":"Input validation error: too long","error_type":"validation"}"#,
            "Input validation error: too long",
        ),
    }
}

pub(crate) fn tgi() -> Api {
    tgi_until(" delta", false, "length", "length")
}

pub(crate) fn tgi_that_stops() -> Api {
    tgi_until("</s>", true, "eos_token", "stop")
}

/// Triton tells neither counts nor why it ended.
fn triton(pieces: [&str; 3]) -> Api {
    let event =
        |text: &str| format!(r#"{{"model_name":"m","model_version":"1","text_output":"{text}"}}"#);
    let answer = Answer {
        text: TEXT,
        reasoning: None,
        finish: None,
        each: vec![1, 1, 1],
        output: Some((3, TokenSource::Events)),
        input: None,
    };
    Api {
        dialect: Dialect::TritonGenerate,
        template: None,
        paths: ["/v2/models/m/generate_stream", "/v2/models/m/generate"],
        prompt: "/text_input",
        says: vec![("/parameters/max_tokens", json!(8))],
        streams: Some("/parameters/stream"),
        flow: Some(Flow {
            manner: Manner::Data,
            events: pieces.map(event).to_vec(),
            output: [0, 0, 1, 2],
            done: 3,
            endless: 3,
            fault: (r#"{"error":"the model instance is gone"}"#, "the model instance is gone"),
            answer: answer.clone(),
        }),
        whole: (event(TEXT), Answer { output: None, ..answer.whole() }),
        refusal: (
            400,
            r#"{"error":"unexpected inference input for model 'm'"}"#,
            "unexpected inference input for model 'm'",
        ),
    }
}

pub(crate) fn triton_of_new() -> Api {
    triton(["Alpha", " beta", " gamma"])
}

pub(crate) fn triton_of_all() -> Api {
    triton(["Alpha", "Alpha beta", TEXT])
}

pub(crate) fn llamacpp() -> Api {
    let event = |text: &str, tokens: u32| {
        format!(
            r#"{{"index":0,"content":"{text}","tokens":[],"stop":false,"id_slot":0,"tokens_predicted":{tokens},"tokens_evaluated":7}}"#
        )
    };
    let last = |text: &str| {
        format!(
            r#"{{"index":0,"content":"{text}","tokens":[],"id_slot":0,"stop":true,"model":"m","tokens_predicted":4,"tokens_evaluated":7,"tokens_cached":10,"truncated":false,"stop_type":"limit","stopping_word":"","timings":{{"prompt_n":7,"prompt_ms":12.5,"predicted_n":4,"predicted_ms":60.1}}}}"#
        )
    };
    let answer = Answer::counted(4, &[1, 2, 1]);
    Api {
        dialect: Dialect::LlamacppCompletion,
        template: None,
        paths: ["/completion"; 2],
        prompt: "/prompt",
        says: vec![("/n_predict", json!(8)), ("/ignore_eos", json!(true))],
        streams: Some("/stream"),
        flow: Some(Flow {
            manner: Manner::Data,
            events: vec![event("Alpha", 1), event(" beta", 3), event(" gamma", 4), last("")],
            output: [0, 0, 1, 2],
            done: 3,
            endless: 3,
            fault: (
                r#"{"error":{"code":500,"message":"the context is full","type":"server_error"}}"#,
                "the context is full",
            ),
            answer: answer.clone(),
        }),
        whole: (last(TEXT), answer.whole()),
        refusal: (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            "Loading model",
        ),
    }
}

/// What Ollama says of the end in either of its APIs.
const ENDS: &str = r#""done":true,"done_reason":"length","total_duration":9000000,"load_duration":1000000,"prompt_eval_count":7,"prompt_eval_duration":2000000,"eval_count":5,"eval_duration":5000000"#;

/// Ollama; `said` makes the text and the reasoning of an event.
fn ollama(dialect: Dialect, said: fn(&str, &str) -> String) -> Api {
    let event = |text: &str, thinking: &str, end: &str| {
        let said = said(text, thinking);
        format!(r#"{{"model":"m","created_at":"2026-01-01T00:00:00.123456789Z",{said},{end}}}"#)
    };
    let open = r#""done":false"#;
    let answer = Answer { reasoning: Some("hm"), ..Answer::counted(5, &[1, 1, 1, 1]) };
    let is_chat = dialect == Dialect::OllamaChat;
    Api {
        dialect,
        template: None,
        paths: [if is_chat { "/api/chat" } else { "/api/generate" }; 2],
        prompt: if is_chat { "/messages/0/content" } else { "/prompt" },
        says: vec![("/model", json!("m")), ("/options/num_predict", json!(8))],
        streams: Some("/stream"),
        flow: Some(Flow {
            manner: Manner::Line,
            events: vec![
                event("", "hm", open),
                event("Alpha", "", open),
                event(" beta", "", open),
                event(" gamma", "", open),
                event("", "", ENDS),
            ],
            output: [0, 1, 1, 3],
            done: 4,
            endless: 4,
            fault: (r#"{"error":"the runner has gone"}"#, "the runner has gone"),
            answer: answer.clone(),
        }),
        whole: (event(TEXT, "hm", ENDS), answer.whole()),
        refusal: (404, r#"{"error":"model 'm' not found"}"#, "model 'm' not found"),
    }
}

pub(crate) fn ollama_chat() -> Api {
    ollama(Dialect::OllamaChat, |text, thinking| {
        format!(r#""message":{{"role":"assistant","content":"{text}","thinking":"{thinking}"}}"#)
    })
}

pub(crate) fn ollama_generate() -> Api {
    ollama(Dialect::OllamaGenerate, |text, thinking| {
        format!(r#""response":"{text}","thinking":"{thinking}""#)
    })
}
