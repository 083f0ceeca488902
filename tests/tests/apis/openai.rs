//! The APIs that servers of many makes share: OpenAI's four, and Anthropic's.

use serde_json::json;
use tokclock_engine::workload::Dialect;

use super::{Answer, Api, Flow, Manner, forced, texts};

const TOO_LONG: (u16, &str, &str) = (
    400,
    r#"{"error":{"message":"at most 4096 tokens fit","type":"BadRequestError","param":null,"code":400}}"#,
    "at most 4096 tokens fit",
);

const BROKE: (&str, &str) = (
    r#"{"error":{"message":"the engine died","type":"InternalServerError","param":null,"code":500}}"#,
    "the engine died",
);

pub(crate) fn chat() -> Api {
    let chunk = |delta: &str, finish: &str| {
        format!(
            r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]}}"#
        )
    };
    let answer = Answer { reasoning: Some("hm"), ..Answer::counted(5, &[1, 1, 1]) };
    Api {
        dialect: Dialect::OpenaiChat,
        template: None,
        paths: ["/v1/chat/completions"; 2],
        prompt: "/messages/0/content",
        says: [forced(), vec![("/model", json!("m")), ("/messages/0/role", json!("user"))]].concat(),
        streams: Some("/stream"),
        flow: Some(Flow {
            manner: Manner::Data,
            events: vec![
                chunk(r#"{"role":"assistant","content":""}"#, "null"),
                chunk(r#"{"reasoning_content":"hm"}"#, "null"),
                chunk(r#"{"content":"Alpha"}"#, "null"),
                chunk(r#"{"content":" beta gamma"}"#, "null"),
                chunk("{}", r#""length""#),
                r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":7,"total_tokens":12,"completion_tokens":5}}"#.to_owned(),
                "[DONE]".to_owned(),
            ],
            output: [1, 2, 2, 3],
            done: 6,
            endless: 4,
            fault: BROKE,
            answer: answer.clone(),
        }),
        whole: (
            r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"hm","content":"Alpha beta gamma"},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":7,"total_tokens":12,"completion_tokens":5}}"#.to_owned(),
            answer.whole(),
        ),
        refusal: TOO_LONG,
    }
}

pub(crate) fn completions() -> Api {
    let chunk = |text: &str, finish: &str| {
        format!(
            r#"{{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{finish}}}]}}"#
        )
    };
    let answer = Answer::counted(4, &[1, 1, 1]);
    Api {
        dialect: Dialect::OpenaiCompletions,
        template: None,
        paths: ["/v1/completions"; 2],
        prompt: "/prompt",
        says: [forced(), vec![("/model", json!("m"))]].concat(),
        streams: Some("/stream"),
        flow: Some(Flow {
            manner: Manner::Data,
            events: vec![
                chunk("Alpha", "null"),
                chunk(" beta", "null"),
                // The last text comes with the finish.
                chunk(" gamma", r#""length""#),
                r#"{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":7,"total_tokens":11,"completion_tokens":4}}"#.to_owned(),
                "[DONE]".to_owned(),
            ],
            output: [0, 0, 1, 2],
            done: 4,
            endless: 2,
            fault: BROKE,
            answer: answer.clone(),
        }),
        whole: (
            r#"{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"Alpha beta gamma","logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":7,"total_tokens":11,"completion_tokens":4}}"#.to_owned(),
            answer.whole(),
        ),
        refusal: TOO_LONG,
    }
}

pub(crate) fn responses() -> Api {
    let answer = Answer { reasoning: Some("hm"), ..Answer::counted(5, &[1, 1, 1]) };
    let response = r#"{"id":"resp_1","object":"response","status":"incomplete","model":"m","error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Alpha beta gamma","annotations":[]}]}],"usage":{"input_tokens":7,"output_tokens":5,"total_tokens":12}}"#;
    let begun = r#"{"id":"resp_1","object":"response","status":"in_progress","model":"m","error":null,"output":[],"usage":null}"#;
    Api {
        dialect: Dialect::OpenaiResponses,
        template: None,
        paths: ["/v1/responses"; 2],
        prompt: "/input",
        says: vec![("/model", json!("m")), ("/max_output_tokens", json!(8))],
        streams: Some("/stream"),
        flow: Some(Flow {
            manner: Manner::Typed,
            events: vec![
                format!(r#"{{"type":"response.created","sequence_number":0,"response":{begun}}}"#),
                format!(r#"{{"type":"response.in_progress","sequence_number":1,"response":{begun}}}"#),
                r#"{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"content":[]}}"#.to_owned(),
                r#"{"type":"response.reasoning_text.delta","sequence_number":3,"output_index":0,"content_index":0,"item_id":"rs_1","delta":"hm"}"#.to_owned(),
                r#"{"type":"response.reasoning_text.done","sequence_number":4,"output_index":0,"content_index":0,"item_id":"rs_1","text":"hm"}"#.to_owned(),
                r#"{"type":"response.output_text.delta","sequence_number":5,"output_index":1,"content_index":0,"item_id":"msg_1","delta":"Alpha"}"#.to_owned(),
                r#"{"type":"response.output_text.delta","sequence_number":6,"output_index":1,"content_index":0,"item_id":"msg_1","delta":" beta gamma"}"#.to_owned(),
                r#"{"type":"response.output_text.done","sequence_number":7,"output_index":1,"content_index":0,"item_id":"msg_1","text":"Alpha beta gamma"}"#.to_owned(),
                format!(r#"{{"type":"response.incomplete","sequence_number":8,"response":{response}}}"#),
            ],
            output: [3, 5, 5, 6],
            done: 8,
            endless: 8,
            fault: (
                r#"{"type":"error","sequence_number":4,"code":"server_error","message":"the engine died","param":null}"#,
                "the engine died",
            ),
            answer: answer.clone(),
        }),
        whole: (response.to_owned(), answer.whole()),
        refusal: (
            404,
            r#"{"error":{"message":"there is no model m","type":"NotFoundError","param":null,"code":404}}"#,
            "there is no model m",
        ),
    }
}

pub(crate) fn embeddings() -> Api {
    Api {
        dialect: Dialect::OpenaiEmbeddings,
        template: None,
        paths: ["/v1/embeddings"; 2],
        prompt: "/input",
        says: vec![("/model", json!("m"))],
        streams: None,
        flow: None,
        whole: (
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25,-0.5,1e-3]}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}"#.to_owned(),
            Answer { text: "", reasoning: None, finish: None, each: Vec::new(), output: None, input: Some(7) },
        ),
        refusal: TOO_LONG,
    }
}

pub(crate) fn messages() -> Api {
    let answer =
        Answer { reasoning: Some("hm"), finish: Some("stop"), ..Answer::counted(5, &[1, 1, 1]) };
    Api {
        dialect: Dialect::AnthropicMessages,
        template: None,
        paths: ["/v1/messages"; 2],
        prompt: "/messages/0/content",
        says: vec![("/model", json!("m")), ("/messages/0/role", json!("user")), ("/max_tokens", json!(8))],
        streams: Some("/stream"),
        flow: Some(Flow {
            manner: Manner::Typed,
            events: texts(&[
                r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":7,"output_tokens":0}}}"#,
                r#"{"type":"ping"}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Alpha"}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" beta gamma"}}"#,
                r#"{"type":"content_block_stop","index":1}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}"#,
                r#"{"type":"message_stop"}"#,
            ]),
            output: [3, 7, 7, 8],
            done: 11,
            endless: 10,
            fault: (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"too many others"}}"#,
                "too many others",
            ),
            answer: answer.clone(),
        }),
        whole: (
            r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"Alpha beta gamma"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":5}}"#.to_owned(),
            answer.whole(),
        ),
        refusal: (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"too many others"}}"#,
            "too many others",
        ),
    }
}
