//! Every API end to end: what is asked of its server, and what is made of its answers and errors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod apis;

use std::collections::BTreeSet;

use apis::{Answer, Api, Flow, native, openai, templates};
use serde_json::Value;
use tokclock_engine::record::{ErrorClass, Outcome, Row};
use tokclock_engine::workload::{Dialect, Workload};
use tokclock_tests::replay::{Asked, End, Log, Manners, Replay, Script};
use tokclock_tests::{MS, Ran, carry_out, closed, requests, speak, workload};

/// From one piece of an answer to the next, ms.
const GAP_MS: u64 = 12;
const LAST_CHUNK: &str = "0\r\n\r\n";

/// One test of each kind for each API, so that the one that fails is named.
macro_rules! each {
    ($($name:ident => $api:expr;)+) => {
        $(mod $name {
            use super::*;

            #[test]
            fn streams() {
                streams_are_read(&$api());
            }

            #[test]
            fn documents() {
                documents_are_read(&$api());
            }

            #[test]
            fn faults_of_streams() {
                broken_streams_are_named(&$api());
            }

            #[test]
            fn faults_of_documents() {
                broken_documents_are_named(&$api());
            }
        })+

        fn all() -> Vec<Api> {
            vec![$($api()),+]
        }
    };
}

each! {
    openai_chat => openai::chat;
    openai_completions => openai::completions;
    openai_responses => openai::responses;
    openai_embeddings => openai::embeddings;
    anthropic_messages => openai::messages;
    sglang_of_all => native::sglang_of_all;
    sglang_of_new => native::sglang_of_new;
    tgi => native::tgi;
    tgi_that_stops => native::tgi_that_stops;
    triton_of_new => native::triton_of_new;
    triton_of_all => native::triton_of_all;
    llamacpp => native::llamacpp;
    ollama_chat => native::ollama_chat;
    ollama_generate => native::ollama_generate;
    template_of_events => templates::events;
    template_of_lines => templates::lines;
}

#[test]
fn every_dialect_is_tested() {
    let tested: BTreeSet<&str> = all().iter().map(|api| api.dialect.as_str()).collect();
    let known = Dialect::ALL.iter().map(|dialect| dialect.as_str()).collect();
    assert_eq!(tested, known);
}

/// A run of one user against `scripts`, each for one request.
fn run(api: &Api, scripts: Vec<Script>, stream: bool) -> (Workload, Ran, Log) {
    let count = scripts.len() as u64;
    let server = Replay::start(scripts, Manners::default());
    let mut load = workload(server.address(), closed(1), requests(count));
    load.target.model = "m".to_owned();
    load.target.stream = stream;
    load.client.keep_text = true;
    load.limits.request_ns = Some(20_000 * MS);
    speak(&mut load, api.dialect, api.template.clone());
    let ran = carry_out(&load);
    let log = server.stop();
    assert_eq!(log.posts().count() as u64, count, "no request is sent twice unasked");
    (load, ran, log)
}

fn stream_head(flow: &Flow) -> String {
    let kind = flow.manner.content_type();
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn document(status: u16, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} So\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// The head, each event and the end of the body, one after the other.
fn paced(flow: &Flow) -> Script {
    let mut script = Script::at_once(stream_head(flow), 0);
    let events = flow.events.iter().map(|data| chunk(&flow.manner.event(data)));
    for (number, piece) in (1..).zip(events.chain([LAST_CHUNK.to_owned()])) {
        script.bytes.extend_from_slice(piece.as_bytes());
        script.pieces.push((number * GAP_MS, script.bytes.len()));
    }
    script
}

fn streams_are_read(api: &Api) {
    let Some(flow) = &api.flow else { return assert!(!api.dialect.streams()) };
    let (load, ran, log) = run(api, vec![paced(flow), paced(flow)], true);
    for row in &ran.rows {
        let asked = log.post(&row.request_id);
        asks(api, asked, &load, true);
        says(row, &flow.answer);
        let [first, output, second, last] = flow.output;
        let marks = [
            ("first token", row.first_token, first),
            ("first output", row.first_output, output),
            ("second token", row.second_token, second),
            ("last token", row.last_token, last),
            ("done", row.done, flow.done),
        ];
        for (what, mark, event) in marks {
            let mark = mark.unwrap() + ran.facts.start_monotonic_ns;
            let told_apart = ran.tells_apart(row, flow.events.len() + 2);
            let near = asked.near(mark, (event as u64 + 1) * GAP_MS, told_apart);
            assert_eq!(near, Ok(()), "{what}: {row:?}");
        }
    }
    assert!(ran.rows[1].reused, "{:?}", ran.rows[1]);
}

fn documents_are_read(api: &Api) {
    let (body, answer) = &api.whole;
    let answered = Script::at_once(document(200, body), GAP_MS);
    let (load, ran, log) = run(api, vec![answered.clone(), answered], false);
    for row in &ran.rows {
        asks(api, log.post(&row.request_id), &load, false);
        says(row, answer);
        let marks = [row.first_token, row.second_token, row.last_token];
        assert_eq!(marks, [None; 3], "a document has no tokens of its own");
        let asked = log.post(&row.request_id);
        let done = row.done.unwrap() + ran.facts.start_monotonic_ns;
        assert_eq!(asked.near(done, GAP_MS, false), Ok(()), "{row:?}");
    }
    assert!(ran.rows[1].reused, "{:?}", ran.rows[1]);
}

/// The request is what the API wants.
fn asks(api: &Api, asked: &Asked, load: &Workload, stream: bool) {
    assert_eq!(asked.target, api.paths[usize::from(!stream)]);
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let accept = match &api.flow {
        Some(flow) if stream => flow.manner.content_type(),
        _ => "application/json",
    };
    assert_eq!(asked.header("accept"), Some(accept));
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    let prompt = body.pointer(api.prompt).and_then(Value::as_str).unwrap();
    assert!(prompt.len() > load.mix[0].content.lengths.means().0 as usize, "{prompt:?}");
    for (place, value) in &api.says {
        assert_eq!(body.pointer(place), Some(value), "{place} in {body}");
    }
    if let Some(place) = api.streams {
        assert_eq!(body.pointer(place), Some(&Value::Bool(stream)), "{place} in {body}");
    }
}

/// The row says all that the answer said.
fn says(row: &Row, answer: &Answer) {
    assert_eq!((row.outcome, row.error), (Outcome::Ok, None), "{row:?}");
    assert_eq!(row.text.as_deref(), Some(answer.text), "{row:?}");
    assert_eq!(row.reasoning_text.as_deref(), answer.reasoning, "{row:?}");
    assert_eq!(row.finish.as_deref(), answer.finish, "{row:?}");
    assert_eq!((row.output_tokens, row.output_source), answer.output.unzip(), "{row:?}");
    assert_eq!(row.input_tokens, answer.input, "{row:?}");
    assert_eq!(row.malformed_events, 0, "{row:?}");
    let each: Vec<u32> = row.chunks.iter().flatten().map(|chunk| chunk.1).collect();
    assert_eq!((row.events as usize, each), (answer.each.len(), answer.each.clone()), "{row:?}");
}

/// What must come of an answer: no class if it is ok; a text that its error holds.
struct Broken<'a> {
    what: &'a str,
    script: Script,
    class: Option<ErrorClass>,
    text: &'a str,
}

fn broken<'a>(
    what: &'a str,
    bytes: String,
    class: Option<ErrorClass>,
    text: &'a str,
) -> Broken<'a> {
    Broken { what, script: Script::at_once(bytes, 0), class, text }
}

/// The connection ends after `broken`.
fn closing(broken: Broken<'_>) -> Broken<'_> {
    Broken { script: Script { end: End::Close, ..broken.script }, ..broken }
}

/// Each answer has come to what it must, and the connection was used again wherever it could be.
fn hold(api: &Api, answers: Vec<Broken<'_>>, stream: bool) -> Vec<Row> {
    let (_, ran, _) = run(api, answers.iter().map(|one| one.script.clone()).collect(), stream);
    let mut open = false;
    for (row, one) in ran.rows.iter().zip(&answers) {
        let what = one.what;
        let outcome = if one.class.is_some() { Outcome::Error } else { Outcome::Ok };
        assert_eq!((row.outcome, row.error), (outcome, one.class), "{what}: {row:?}");
        let text = row.error_text.as_deref().unwrap_or_default();
        assert!(text.contains(one.text), "{what}: {row:?}");
        assert_eq!((row.reused, row.attempts), (open, 1), "{what}: {row:?}");
        open = one.script.end == End::Keepalive;
    }
    ran.rows
}

fn broken_streams_are_named(api: &Api) {
    let Some(flow) = &api.flow else { return assert!(!api.dialect.streams()) };
    let head = stream_head(flow);
    let events = |count: usize| {
        let events = flow.events[..count].iter();
        head.clone() + &events.map(|data| chunk(&flow.manner.event(data))).collect::<String>()
    };
    let begun = events(flow.output[0] + 1);
    let fault = chunk(&flow.manner.event(flow.fault.0));
    let (status, refusal, says) = api.refusal;
    // Where nothing but the end of the body ends a stream, an end too early is an end.
    let ends_with_body = flow.endless == flow.events.len();
    let cut = if ends_with_body { None } else { Some(ErrorClass::StreamTruncated) };
    let whole = events(flow.events.len()) + LAST_CHUNK;
    let kind = flow.manner.content_type();
    let until_close = |count: usize| {
        let events = flow.events[..count].iter().map(|data| flow.manner.event(data));
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n") + &events.collect::<String>()
    };
    let rows = hold(
        api,
        vec![
            broken(
                "an error inside",
                begun.clone() + &fault + LAST_CHUNK,
                Some(ErrorClass::ServerErrorEvent),
                flow.fault.1,
            ),
            broken("cut before its end", events(flow.endless) + LAST_CHUNK, cut, ""),
            broken("empty", head.clone() + LAST_CHUNK, Some(ErrorClass::EmptyStream), ""),
            broken("refused", document(status, refusal), Some(ErrorClass::HttpStatus), says),
            broken(
                "an error in place of a stream",
                document(200, refusal),
                Some(ErrorClass::ServerErrorEvent),
                says,
            ),
            closing(broken(
                "cut inside a chunk",
                begun + "ff\r\ndata: {",
                Some(ErrorClass::BodyTruncated),
                "",
            )),
            closing(broken("cut by a close", until_close(flow.endless), cut, "")),
            closing(broken("whole by a close", until_close(flow.events.len()), None, "")),
            broken("whole", whole, None, ""),
        ],
        true,
    );
    let begun: String = rows.iter().map(|row| row.first_token.map_or('-', |_| '+')).collect();
    assert_eq!(begun, "++---++++", "partial marks are kept");
}

fn broken_documents_are_named(api: &Api) {
    let whole = document(200, &api.whole.0);
    let half = &api.whole.0[..api.whole.0.len() / 2];
    let (status, refusal, says) = api.refusal;
    hold(
        api,
        vec![
            broken("refused", document(status, refusal), Some(ErrorClass::HttpStatus), says),
            broken("an error", document(200, refusal), Some(ErrorClass::ServerErrorEvent), says),
            broken("empty", document(200, ""), Some(ErrorClass::EmptyStream), ""),
            broken("half of it", document(200, half), Some(ErrorClass::MalformedEvent), ""),
            closing(broken(
                "cut",
                whole[..whole.len() - 9].to_owned(),
                Some(ErrorClass::BodyTruncated),
                "",
            )),
            broken("whole", whole, None, ""),
        ],
        false,
    );
}
