//! Every body as JSON: what it says, and nothing more.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::workload::Template;
use crate::workload::template::Reading;

fn target(dialect: Dialect) -> Target {
    let mut target = crate::workload::sample().target;
    target.dialect = dialect;
    target.model = "m".into();
    target
}

fn frame(target: &Target) -> Result<Frame, BodyError> {
    Frame::new(target, Said { model: &target.model, tools: None, as_ids: false }, &Map::new())
}

fn body(target: &Target) -> Value {
    serde_json::from_slice(&sent(&frame(target).unwrap())).unwrap()
}

/// The body that says "Hi" and asks for 9 tokens.
fn sent(frame: &Frame) -> Vec<u8> {
    let mut dialogue = Dialogue::default();
    dialogue.user(frame.shape, |out| out.extend_from_slice(b"Hi"));
    let mut out = Vec::new();
    frame.write(&dialogue, 9, &mut out);
    out
}

fn with_extra(dialect: Dialect, extra: Value) -> Target {
    let Value::Object(extra_body) = extra else { unreachable!("an object is given") };
    Target { extra_body, ..target(dialect) }
}

fn messages() -> Value {
    json!([{"role": "user", "content": "Hi"}])
}

#[test]
fn streams_are_asked_for_in_the_words_of_each_api() {
    let forced = json!({"max_new_tokens": 9, "min_new_tokens": 9, "ignore_eos": true});
    let cases = [
        (
            Dialect::OpenaiChat,
            json!({"model": "m", "messages": messages(), "max_tokens": 9, "min_tokens": 9,
                   "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true}}),
        ),
        (
            Dialect::OpenaiCompletions,
            json!({"model": "m", "prompt": "Hi", "max_tokens": 9, "min_tokens": 9,
                   "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true}}),
        ),
        (
            Dialect::OpenaiResponses,
            json!({"model": "m", "input": "Hi", "max_output_tokens": 9, "stream": true}),
        ),
        (
            Dialect::AnthropicMessages,
            json!({"model": "m", "messages": messages(), "max_tokens": 9, "stream": true}),
        ),
        (Dialect::SglangGenerate, json!({"text": "Hi", "sampling_params": forced, "stream": true})),
        (
            Dialect::TgiGenerate,
            json!({"inputs": "Hi", "parameters": {"max_new_tokens": 9, "details": true}}),
        ),
        (
            Dialect::TritonGenerate,
            json!({"text_input": "Hi", "parameters": {"stream": true, "max_tokens": 9}}),
        ),
        (
            Dialect::LlamacppCompletion,
            json!({"model": "m", "prompt": "Hi", "n_predict": 9, "ignore_eos": true,
                   "stream": true}),
        ),
        (
            Dialect::OllamaChat,
            json!({"model": "m", "messages": messages(), "stream": true,
                   "options": {"num_predict": 9}}),
        ),
        (
            Dialect::OllamaGenerate,
            json!({"model": "m", "prompt": "Hi", "stream": true, "options": {"num_predict": 9}}),
        ),
    ];
    for (dialect, expected) in cases {
        assert_eq!(body(&target(dialect)), expected, "{dialect}");
    }
}

#[test]
fn documents_are_asked_for_as_such() {
    let whole = |dialect| Target { stream: false, ..target(dialect) };
    let embedded = body(&whole(Dialect::OpenaiEmbeddings));
    assert_eq!(embedded, json!({"model": "m", "input": "Hi"}));
    let chat = body(&whole(Dialect::OpenaiChat));
    assert_eq!((&chat["stream"], chat.get("stream_options")), (&json!(false), None));
    assert_eq!(body(&whole(Dialect::TritonGenerate))["parameters"]["stream"], false);
    let tgi = body(&whole(Dialect::TgiGenerate));
    assert_eq!(tgi, body(&target(Dialect::TgiGenerate)));
    for dialect in [
        Dialect::OpenaiResponses,
        Dialect::AnthropicMessages,
        Dialect::SglangGenerate,
        Dialect::LlamacppCompletion,
        Dialect::OllamaChat,
    ] {
        assert_eq!(body(&whole(dialect))["stream"], false, "{dialect}");
    }
}

#[test]
fn without_force_only_the_maximum_is_sent() {
    let plain = |dialect| body(&Target { force_length: false, ..target(dialect) });
    let chat = plain(Dialect::OpenaiChat);
    assert_eq!(chat["max_tokens"], 9);
    assert_eq!((chat.get("min_tokens"), chat.get("ignore_eos")), (None, None));
    let sglang = plain(Dialect::SglangGenerate);
    assert_eq!(sglang["sampling_params"], json!({"max_new_tokens": 9}));
    let llamacpp = plain(Dialect::LlamacppCompletion);
    assert_eq!((&llamacpp["n_predict"], llamacpp.get("ignore_eos")), (&json!(9), None));
    for dialect in Dialect::ALL.iter().copied().filter(|dialect| !dialect.forces_length()) {
        if dialect != Dialect::Template {
            assert_eq!(plain(dialect), body(&target(dialect)), "{dialect}");
        }
    }
}

#[test]
fn ids_and_counts_of_tokens_are_asked_for_where_there_are_words_for_it() {
    let asked = |dialect| {
        let target = target(dialect);
        body(&Target { return_token_ids: true, continuous_usage: true, ..target })
    };
    for dialect in [Dialect::OpenaiChat, Dialect::OpenaiCompletions] {
        let body = asked(dialect);
        assert_eq!(body["return_token_ids"], true);
        let options = json!({"include_usage": true, "continuous_usage_stats": true});
        assert_eq!(body["stream_options"], options);
    }
    assert_eq!(asked(Dialect::LlamacppCompletion)["return_tokens"], true);
    assert_eq!(asked(Dialect::TgiGenerate), body(&target(Dialect::TgiGenerate)));
}

#[test]
fn a_server_of_one_model_may_go_unnamed() {
    let unnamed = Target { model: String::new(), ..target(Dialect::LlamacppCompletion) };
    assert_eq!(body(&unnamed).get("model"), None);
}

#[test]
fn nested_members_are_merged_one_level_deep() {
    let extra = json!({"options": {"num_ctx": 8192, "num_predict": null, "stop": {"a": 1}}});
    let options = body(&with_extra(Dialect::OllamaChat, extra))["options"].clone();
    assert_eq!(options, json!({"num_ctx": 8192, "stop": {"a": 1}}));
    let extra = json!({"parameters": {"details": false, "top_k": 1}, "id": "x"});
    let body_of_tgi = body(&with_extra(Dialect::TgiGenerate, extra));
    let parameters = json!({"max_new_tokens": 9, "details": false, "top_k": 1});
    assert_eq!(body_of_tgi, json!({"inputs": "Hi", "parameters": parameters, "id": "x"}));
    let extra = json!({"sampling_params": {"temperature": 0}});
    let sampling = body(&with_extra(Dialect::SglangGenerate, extra))["sampling_params"].clone();
    assert_eq!((&sampling["temperature"], &sampling["ignore_eos"]), (&json!(0), &json!(true)));
    for whole in [json!(null), json!([1])] {
        let extra = json!({"parameters": whole});
        let body = body(&with_extra(Dialect::TritonGenerate, extra));
        assert_eq!(body.get("parameters"), Some(&whole).filter(|whole| !whole.is_null()));
    }
    // Where the member is none of ours it is one like any other.
    let extra = json!({"options": {"a": null}});
    assert_eq!(body(&with_extra(Dialect::OpenaiChat, extra))["options"], json!({"a": null}));
}

#[test]
fn the_prompt_and_the_stream_are_ours_in_every_api() {
    for dialect in Dialect::ALL.iter().copied().filter(|one| *one != Dialect::Template) {
        let name = Shape::of(dialect, false).unwrap().member;
        let taken = frame(&with_extra(dialect, json!({name: "x"})));
        assert_eq!(taken, Err(BodyError::Prompt { member: name }), "{dialect}");
        let other = frame(&with_extra(dialect, json!({"stream": false})));
        assert_eq!(other, Err(BodyError::Stream { stream: true }), "{dialect}");
    }
    let inner = with_extra(Dialect::TritonGenerate, json!({"parameters": {"stream": false}}));
    assert_eq!(frame(&inner), Err(BodyError::Stream { stream: true }));
    let same = with_extra(Dialect::TritonGenerate, json!({"max_tokens": 9, "stream": true}));
    assert_eq!(body(&same)["stream"], true);
}

#[test]
fn a_template_is_sent_as_it_stands() {
    let text = r#"{ "n": {{max_tokens}}, "q": "{{prompt}}", "m": "{{model}}", "x": 1.50 }"#;
    let template = Template {
        path: "/x".into(),
        body: text.into(),
        headers: BTreeMap::new(),
        answer: Reading::default(),
    };
    let target = Target { template: Some(template), ..target(Dialect::Template) };
    let sent = sent(&frame(&target).unwrap());
    assert_eq!(sent, br#"{ "n": 9, "q": "Hi", "m": "m", "x": 1.50 }"#);
    let extra = json!({"a": 1}).as_object().unwrap().clone();
    let more = Target { extra_body: extra, ..target.clone() };
    assert_eq!(frame(&more), Err(BodyError::TemplateExtra));
    let none = Target { template: None, ..target };
    assert_eq!(frame(&none), Err(BodyError::NoTemplate));
}
