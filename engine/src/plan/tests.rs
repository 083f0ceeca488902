//! Rendered requests, read back by an HTTP and a JSON parser that are not ours.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::workload::{Arrival, Content, Dialect, Embedded, LengthLaw, Load, Overflow, Schedule};

mod bodies;
mod classes;
mod recorded;
mod sessions;
mod shared;

fn workload() -> Workload {
    let mut workload = crate::workload::sample();
    workload.target.model = "a \"model\"".into();
    workload.load = Load::Closed { users: 4, ramp_ns: 0 };
    workload.stop.requests = Some(100);
    workload.stop.warmup = Warmup::Requests(10);
    set_lengths(&mut workload, 64, 32);
    workload.seed = 7;
    workload
}

fn set_lengths(workload: &mut Workload, input: u32, output: u32) {
    workload.mix[0].content.lengths = LengthLaw::constant(input, output);
}

/// What the first class says.
fn content(workload: &mut Workload) -> &mut Content {
    &mut workload.mix[0].content
}

/// Tokens of a text. The words that we write are one token each under any embedded tokenizer.
fn tokens_of(text: &str) -> u32 {
    tokens::count(Embedded::Qwen2, text) as u32
}

/// An item as it is written, with its body.
fn said(plan: &Plan, item: u64) -> (Written, Value) {
    let mut out = Vec::new();
    let written = plan.render(item, &mut out).unwrap();
    let body = serde_json::from_slice(&out[written.body.clone()]).unwrap();
    (written, body)
}

/// The text of the only message.
fn prompt(body: &Value) -> &str {
    assert_eq!(body["messages"].as_array().unwrap().len(), 1, "{body}");
    body["messages"][0]["content"].as_str().unwrap()
}

/// The first words of a text.
fn words(text: &str, number: u32) -> String {
    text.split(' ').take(number as usize).collect::<Vec<_>>().join(" ")
}

fn made(workload: &Workload, run_id: &str) -> Result<Plan, PlanError> {
    Plan::new(workload, &Materials::default(), run_id)
}

fn plan(workload: &Workload) -> Plan {
    made(workload, "run1").unwrap()
}

fn with_headers(headers: &[(&str, &str)]) -> Workload {
    let mut workload = workload();
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    workload.target.headers = headers.iter().map(own).collect();
    workload
}

fn with_extra(extra: Value) -> Workload {
    let mut workload = workload();
    workload.target.extra_body = extra.as_object().unwrap().clone();
    workload
}

/// A request as another parser sees it.
struct Seen {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Value,
    body_text: String,
}

impl Seen {
    fn header(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(seen, _)| seen.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }
}

fn seen(plan: &Plan, index: u64) -> Seen {
    let mut out = Vec::new();
    let body = plan.render(index, &mut out).unwrap().body;
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let head_bytes = request.parse(&out).unwrap().unwrap();
    assert_eq!(body, head_bytes..out.len());
    let own = |header: &httparse::Header<'_>| {
        (header.name.to_owned(), String::from_utf8(header.value.to_vec()).unwrap())
    };
    let seen = Seen {
        method: request.method.unwrap().to_owned(),
        path: request.path.unwrap().to_owned(),
        headers: request.headers.iter().map(own).collect(),
        body: serde_json::from_slice(&out[head_bytes..]).unwrap(),
        body_text: String::from_utf8(out[head_bytes..].to_vec()).unwrap(),
    };
    assert_eq!(request.version, Some(1));
    assert_eq!(seen.header("content-length"), [seen.body_text.len().to_string()]);
    assert_eq!(seen.header("x-request-id"), [plan.request_id(index)]);
    seen
}

fn refusal(workload: &Workload) -> String {
    made(workload, "run1").unwrap_err().to_string()
}

#[test]
fn a_chat_request_says_all_and_nothing_more() {
    let seen = seen(&plan(&workload()), 5);
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(seen.header("host"), ["127.0.0.1:8000"]);
    assert_eq!(seen.header("user-agent"), [concat!("tokclock/", env!("CARGO_PKG_VERSION"))]);
    assert_eq!(seen.header("content-type"), ["application/json"]);
    assert_eq!(seen.header("accept"), ["text/event-stream"]);
    assert_eq!(seen.header("x-request-id"), ["run1-5"]);
    assert_eq!(seen.headers.len(), 6, "no Accept-Encoding and nothing else");
    let prompt = seen.body["messages"][0]["content"].as_str().unwrap();
    assert_eq!(tokens::count(Embedded::Qwen2, prompt), 64);
    let expected = json!({
        "model": "a \"model\"",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 32,
        "min_tokens": 32,
        "ignore_eos": true,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(seen.body, expected);
}

#[test]
fn a_completion_without_stream_asks_for_json() {
    let mut workload = workload();
    workload.target.dialect = Dialect::OpenaiCompletions;
    workload.target.endpoints[0].path = "/v1/completions".into();
    workload.target.stream = false;
    let seen = seen(&plan(&workload), 0);
    assert_eq!(seen.path, "/v1/completions");
    assert_eq!(seen.header("accept"), ["application/json"]);
    assert_eq!(seen.body["stream"], false);
    assert_eq!(seen.body.get("stream_options"), None);
    assert_eq!(seen.body.get("messages"), None);
    let prompt = seen.body["prompt"].as_str().unwrap();
    assert_eq!(tokens::count(Embedded::Cl100kBase, prompt), 64);
}

#[test]
fn each_api_is_asked_for_the_form_that_it_streams_in() {
    let accept = |dialect, stream| {
        let mut workload = workload();
        (workload.target.dialect, workload.target.stream) = (dialect, stream);
        seen(&plan(&workload), 0).header("accept").join("|")
    };
    assert_eq!(accept(Dialect::AnthropicMessages, true), "text/event-stream");
    assert_eq!(accept(Dialect::OllamaChat, true), "application/x-ndjson");
    assert_eq!(accept(Dialect::OllamaGenerate, true), "application/x-ndjson");
    assert_eq!(accept(Dialect::OllamaGenerate, false), "application/json");
    assert_eq!(accept(Dialect::OpenaiEmbeddings, false), "application/json");
    let mut workload = workload();
    workload.target.dialect = Dialect::Template;
    let file = json!({"path": "/x", "body": "[\"{{prompt}}\"]",
                      "answer": {"format": "ndjson", "text": "/t"}});
    workload.target.template = Some(serde_json::from_value(file).unwrap());
    assert_eq!(seen(&plan(&workload), 0).header("accept"), ["application/x-ndjson"]);
}

#[test]
fn no_output_is_asked_for_where_none_is_generated() {
    let mut workload = workload();
    set_lengths(&mut workload, 64, 0);
    assert!(refusal(&workload).starts_with("output tokens 0"));
    workload.target.dialect = Dialect::OpenaiEmbeddings;
    assert_eq!(plan(&workload).render(0, &mut Vec::new()).unwrap().output_tokens, 0);
}

#[test]
fn extra_body_replaces_adds_and_removes() {
    let extra = json!({
        "min_tokens": null, "ignore_eos": false, "temperature": 0.5, "model": "other",
        "stream_options": {"continuous_usage_stats": true}, "unknown": null,
    });
    let seen = seen(&plan(&with_extra(extra)), 0);
    assert_eq!(seen.body.get("min_tokens"), None);
    assert_eq!(seen.body.get("unknown"), None);
    assert_eq!(seen.body["ignore_eos"], false);
    assert_eq!(seen.body["temperature"], 0.5);
    assert_eq!(seen.body["model"], "other");
    let not_merged = json!({"continuous_usage_stats": true});
    assert_eq!(seen.body["stream_options"], not_merged);
    for name in ["ignore_eos", "model", "stream_options"] {
        assert_eq!(seen.body_text.matches(&format!("\"{name}\":")).count(), 1, "{name} once");
    }
}

#[test]
fn a_body_without_a_model_is_still_json() {
    let seen = seen(&plan(&with_extra(json!({"model": null}))), 0);
    assert_eq!(seen.body.get("model"), None);
    assert!(seen.body_text.starts_with("{\"messages\":"));
}

#[test]
fn extra_body_cannot_contradict_the_plan() {
    let text = refusal(&with_extra(json!({"messages": []})));
    assert!(text.contains("`messages` is written by the plan"), "{text}");
    let text = refusal(&with_extra(json!({"stream": false})));
    assert!(text.contains("`stream` contradicts"), "{text}");
    assert!(refusal(&with_extra(json!({"stream": null}))).contains("`stream`"));
    assert_eq!(seen(&plan(&with_extra(json!({"stream": true}))), 0).body["stream"], true);
}

#[test]
fn a_users_header_replaces_ours_of_the_same_name() {
    let headers =
        [("user-agent", "me"), ("Cookie", "a=1"), ("HOST", "example.org"), ("Cookie", " b=2\t")];
    let seen = seen(&plan(&with_headers(&headers)), 0);
    assert_eq!(seen.header("user-agent"), ["me"]);
    assert_eq!(seen.header("host"), ["example.org"]);
    assert_eq!(seen.header("cookie"), ["a=1", "b=2"]);
    assert_eq!(seen.headers.len(), 8);
}

#[test]
fn headers_that_would_break_the_request_are_refused_and_values_not_shown() {
    let cases = [
        (("A", "secret\r\nB: c"), "header 1, `A`: its value has a line break"),
        (("A", "secret\n"), "line break"),
        (("A", "secret\0"), "control byte"),
        (("A\r\nB", "secret"), "header 1: its name"),
        (("A secret", "secret"), "header 1: its name"),
        (("", "secret"), "header 1: its name is empty or"),
        (("content-length", "secret"), "`Content-Length` is set by tokclock alone"),
        (("x-request-ID", "secret"), "`X-Request-Id` is set by tokclock alone"),
        (("accept-encoding", "secret"), "`Accept-Encoding`"),
    ];
    for (header, expected) in cases {
        let text = refusal(&with_headers(&[header]));
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    let text = refusal(&with_headers(&[("Host", "a"), ("host", "b")]));
    assert!(text.contains("`Host` is given twice"), "{text}");
    let plan = plan(&with_headers(&[("Authorization", "Bearer secret")]));
    assert!(!format!("{plan:?}").contains("secret"));
}

#[test]
fn a_request_line_cannot_be_split() {
    for path in ["", "v1", "/a b", "/a\r\nX: y", "/\u{e9}"] {
        let mut workload = workload();
        workload.target.endpoints[0].path = path.into();
        assert!(refusal(&workload).starts_with("path: "), "{path}");
    }
    let mut workload = workload();
    for run_id in ["", "a b", "a\r\nX: y"] {
        let text = made(&workload, run_id).unwrap_err().to_string();
        assert!(text.starts_with("run id: "), "{text}");
    }
    workload.target.endpoints[0].host = "a\r\nX: y".into();
    assert!(refusal(&workload).starts_with("host: "));
}

#[test]
fn bodies_depend_on_seed_and_index_alone() {
    let body = |workload: &Workload, run_id: &str, index| {
        let mut out = b"before".to_vec();
        let body = made(workload, run_id).unwrap().render(index, &mut out).unwrap().body;
        assert!(out.starts_with(b"beforePOST "));
        out[body].to_vec()
    };
    let one = workload();
    let mut other = workload();
    other.seed += 1;
    assert_eq!(body(&one, "a", 3), body(&one, "another-run", 3));
    assert_ne!(body(&one, "a", 3), body(&one, "a", 4));
    assert_ne!(body(&one, "a", 3), body(&other, "a", 3));
}

#[test]
fn ten_thousand_prompts_share_no_block_of_sixteen_tokens() {
    let plan = plan(&workload());
    let heads: HashSet<Vec<String>> = (0..10_000)
        .map(|index| {
            let body = seen(&plan, index).body;
            let prompt = body["messages"][0]["content"].as_str().unwrap().to_owned();
            prompt.split(' ').take(16).map(str::to_owned).collect()
        })
        .collect();
    assert_eq!(heads.len(), 10_000);
}

#[test]
fn ids_are_written_as_they_are_sent() {
    let plan = plan(&workload());
    assert_eq!(seen(&plan, u64::MAX).header("x-request-id"), ["run1-18446744073709551615"]);
}

#[test]
fn the_total_is_known_when_requests_end_the_load() {
    let mut workload = workload();
    assert_eq!(plan(&workload).total(), Some(110));
    workload.stop.warmup = Warmup::None;
    assert_eq!(plan(&workload).total(), Some(100));
    workload.stop.warmup = Warmup::Time(1);
    assert_eq!(plan(&workload).total(), None);
    workload.stop = Stop { requests: None, duration_ns: Some(1), ..workload.stop };
    workload.stop.warmup = Warmup::Requests(5);
    assert_eq!(plan(&workload).total(), None);
}

#[test]
fn only_an_open_loop_has_arrivals() {
    let mut workload = workload();
    assert!(plan(&workload).arrivals(0, 1).is_none());
    workload.load = open(2.0, None);
    let arrivals = plan(&workload).arrivals(1, 2).unwrap();
    let first: Vec<_> = arrivals.take(2).collect();
    assert_eq!(first, [(1, 500_000_000), (3, 1_500_000_000)]);
}

fn open(rate: f64, max_in_flight: Option<u64>) -> Load {
    let schedule = Schedule::Rate { rate, arrival: Arrival::Constant };
    Load::Open { schedule, max_in_flight, overflow: Overflow::Wait }
}

#[test]
fn workloads_that_make_no_sense_are_refused() {
    type Change = fn(&mut Workload);
    let cases: [(Change, &str); 8] = [
        (|w| w.load = Load::Closed { users: 0, ramp_ns: 0 }, "concurrency 0"),
        (|w| w.load = open(f64::NAN, None), "rate NaN"),
        (|w| w.load = open(1.0, Some(0)), "max in flight 0"),
        (|w| w.stop.requests = None, "nothing ends the load"),
        (|w| w.stop.requests = Some(0), "the measured part is empty"),
        (|w| set_lengths(w, 0, 32), "input tokens 0"),
        (|w| set_lengths(w, u32::MAX, 32), "input tokens 4294967295"),
        (|w| set_lengths(w, 64, 0), "output tokens 0"),
    ];
    for (change, expected) in cases {
        let mut workload = workload();
        change(&mut workload);
        let text = refusal(&workload);
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn a_buffer_that_is_large_enough_never_grows() {
    let mut workload = workload();
    for input_tokens in [1, 3, 64, 1_000] {
        set_lengths(&mut workload, input_tokens, 32);
        let plan = plan(&workload);
        let mut out = Vec::with_capacity(64 << 10);
        let before = out.capacity();
        for index in (0..200).chain([u64::MAX]) {
            out.clear();
            plan.render(index, &mut out).unwrap();
        }
        assert_eq!(out.capacity(), before);
    }
}

#[test]
fn a_plan_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&plan(&workload()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_model_length_and_index_renders_to_a_valid_request(
        model in any::<String>(), input_tokens in 1u32..400, index: u64, run_id in "[!-~]{1,40}",
    ) {
        let mut workload = workload();
        workload.target.model = model.clone();
        set_lengths(&mut workload, input_tokens, 32);
        let seen = seen(&made(&workload, &run_id).unwrap(), index);
        prop_assert_eq!(&seen.body["model"], &json!(model));
        let prompt = seen.body["messages"][0]["content"].as_str().unwrap();
        prop_assert_eq!(prompt.split(' ').count(), input_tokens as usize);
    }
}
