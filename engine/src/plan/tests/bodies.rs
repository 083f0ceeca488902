//! Token ids and tools in bodies.

use std::sync::Arc;

use super::prompt::{Lexicon, Prompts};
use super::*;
use crate::workload::Groups;
use crate::workload::{Law, Popularity};

/// A load whose prompts are ids, and the plan of it where ids from 1000 to 1999 are drawn.
fn of_ids(dialect: Dialect) -> (Workload, Result<Plan, PlanError>) {
    let mut workload = workload();
    set_lengths(&mut workload, 40, 8);
    workload.target.dialect = dialect;
    workload.text.as_ids = true;
    let prompts = Prompts::with(0, Arc::new(Lexicon::of_ids(1_000..=1_999).unwrap()), None);
    let materials = Materials { prompts: Some(prompts), ..Materials::default() };
    let plan = Plan::new(&workload, &materials, "run1");
    (workload, plan)
}

#[test]
fn prompts_are_ids_where_an_api_takes_them() {
    for (dialect, member) in [
        (Dialect::OpenaiCompletions, "prompt"),
        (Dialect::OpenaiEmbeddings, "input"),
        (Dialect::SglangGenerate, "input_ids"),
        (Dialect::LlamacppCompletion, "prompt"),
    ] {
        let plan = of_ids(dialect).1.unwrap();
        let (written, body) = said(&plan, 0);
        let ids = body[member].as_array().unwrap();
        assert_eq!((ids.len(), written.input_tokens), (40, Some(40)), "{dialect}");
        let are_drawn = ids.iter().all(|id| (1_000..2_000).contains(&id.as_u64().unwrap()));
        assert!(are_drawn, "{dialect}: {body}");
        assert_ne!(body[member], said(&plan, 1).1[member], "{dialect}");
        assert_eq!(body.get("text"), None);
    }
}

#[test]
fn ids_are_refused_where_text_alone_is_taken() {
    for dialect in [Dialect::OpenaiChat, Dialect::AnthropicMessages, Dialect::TgiGenerate] {
        let text = of_ids(dialect).1.unwrap_err().to_string();
        assert!(text.contains("takes text alone; use openai-completions"), "{text}");
    }
    let (mut workload, _) = of_ids(Dialect::OpenaiCompletions);
    let text = refusal(&workload);
    assert!(text.starts_with("token ids: this tokenizer does not tell them"), "{text}");
    workload.text.as_ids = false;
    let lexicon = Arc::new(Lexicon::of_ids(1_000..=1_999).unwrap());
    let materials =
        Materials { prompts: Some(Prompts::with(0, lexicon, None)), ..Materials::default() };
    let text = Plan::new(&workload, &materials, "run1").unwrap_err().to_string();
    assert!(text.contains("makes no text"), "{text}");
}

#[test]
fn ids_share_their_beginnings_as_words_do() {
    let (mut workload, _) = of_ids(Dialect::OpenaiCompletions);
    content(&mut workload).shared.system_tokens = 10;
    let tokens = Some(Law::of_lengths("6").unwrap());
    content(&mut workload).shared.groups =
        Some(Groups { count: 1, tokens, popularity: Popularity::Uniform });
    let prompts = Prompts::with(0, Arc::new(Lexicon::of_ids(1_000..=1_999).unwrap()), None);
    let materials = Materials { prompts: Some(prompts), ..Materials::default() };
    let plan = Plan::new(&workload, &materials, "run1").unwrap();
    let ids = |item| said(&plan, item).1["prompt"].as_array().unwrap().clone();
    let (one, other) = (ids(0), ids(1));
    assert_eq!((one.len(), other.len()), (56, 56));
    assert_eq!(one[..16], other[..16]);
    assert_ne!(one[16..], other[16..]);
}

#[test]
fn tools_stand_in_every_body() {
    let tools = json!([{"type": "function", "function": {"name": "look_up"}}]);
    let mut workload = workload();
    content(&mut workload).tools = Some(tools.to_string());
    let with_tools = plan(&workload);
    for item in 0..3 {
        assert_eq!(said(&with_tools, item).1["tools"], tools);
    }
    workload.target.extra_body = json!({"tools": [], "x": 1}).as_object().unwrap().clone();
    let (_, body) = said(&plan(&workload), 0);
    assert_eq!((&body["tools"], &body["x"]), (&json!([]), &json!(1)), "what was typed wins");
    workload.target.extra_body.clear();
    content(&mut workload).tools = Some("no list".to_owned());
    assert_eq!(refusal(&workload), "tools: they are no JSON");
}
