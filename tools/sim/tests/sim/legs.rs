//! Prefill and decode servers, played to by hand as a router would, against their own logs.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokclock_sim::{Fallback, Flow, Law, Record, Report, Role, RoleSettings, Server, Settings};

use crate::client::{Answer, Client};
use crate::timing::{MS, records};

pub(crate) const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

/// A server in a role, with its log.
pub(crate) struct Part {
    pub(crate) server: Server,
    pub(crate) client: Client,
    truth: PathBuf,
    _directory: TempDir,
}

impl Part {
    pub(crate) fn start(role: RoleSettings, ttft: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let truth = directory.path().join("truth.jsonl");
        let settings = Settings {
            ttft: Law::Constant(ttft * MS),
            itl: Law::Constant(2 * MS),
            truth: Some(truth.clone()),
            role: Some(role),
            ..Settings::default()
        };
        let server = Server::start(&settings).unwrap();
        let client = Client::new(server.address());
        Self { server, client, truth, _directory: directory }
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.client.post(path, &body.to_string())
    }

    pub(crate) fn end(self) -> (Report, Vec<Record>) {
        let report = self.server.stop();
        assert_eq!((report.internal_errors, report.truth_dropped), (0, 0));
        (report, records(&self.truth))
    }
}

pub(crate) fn prefill() -> RoleSettings {
    RoleSettings { role: Role::Prefill, ..RoleSettings::default() }
}

pub(crate) fn decode() -> RoleSettings {
    RoleSettings {
        role: Role::Decode,
        handoff: Law::Constant(15 * MS),
        recompute: Law::Constant(60 * MS),
        ..RoleSettings::default()
    }
}

/// What a router asks of the prefill server.
pub(crate) fn first(prompt: &Value) -> Value {
    json!({"prompt": prompt, "max_tokens": 1, "stream": false, "kv_transfer_params": {
        "do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
        "remote_block_ids": null, "remote_host": null, "remote_port": null}})
}

/// What it then asks of the decode server.
pub(crate) fn second(prompt: &Value, object: &Value) -> Value {
    json!({"prompt": prompt, "max_tokens": 3, "stream": true,
        "stream_options": {"include_usage": true}, "kv_transfer_params": object})
}

pub(crate) fn cached(answer: &Answer) -> u64 {
    let events = answer.events();
    events.last().unwrap()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

/// From when a request was read to its first token, as the server logged it.
pub(crate) fn waited_ns(record: &Record) -> u64 {
    record.events[0][0] - record.read_ns
}

#[test]
fn a_prompt_is_computed_handed_over_and_gone_on_with() {
    let mut prefill = Part::start(prefill(), 10);
    let mut decode = Part::start(decode(), 4);
    let prompt = json!("word ".repeat(40));
    let answer = prefill.post(COMPLETIONS, &first(&prompt)).json();
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(
        (&answer["usage"]["prompt_tokens"], &answer["usage"]["completion_tokens"]),
        (&json!(40), &json!(1))
    );
    let object = &answer["kv_transfer_params"];
    assert_eq!(object["do_remote_prefill"], true);
    assert_eq!(object["remote_block_ids"][0].as_array().unwrap().len(), 3);
    let stream = decode.post(COMPLETIONS, &second(&prompt, object));
    assert_eq!((stream.texts().len(), cached(&stream)), (3, 39));
    let (_, of_prefill) = prefill.end();
    let (report, of_decode) = decode.end();
    assert_eq!(report.completed, 1);
    let (first, second) = (&of_prefill[0], &of_decode[0]);
    assert_eq!((first.role, second.role), (Some(Role::Prefill), Some(Role::Decode)));
    assert!(first.prefill_done_ns.unwrap() >= first.read_ns + 10 * MS);
    assert!(first.tail.unwrap()[0] >= first.prefill_done_ns.unwrap());
    let [begin, end] = second.handoff_ns.unwrap();
    assert_eq!(end - begin, 15 * MS);
    assert!(second.events[0][0] >= end + 4 * MS);
    assert_eq!((second.fallback, second.cached_tokens), (None, Some(39)));
    assert_eq!(second.handoff_bytes, Some(40 * 131_072));
    assert_eq!(first.handoff_bytes, second.handoff_bytes);
}

#[test]
fn without_the_object_a_prefill_server_is_as_any_other() {
    let mut prefill = Part::start(prefill(), 1);
    let plain = json!({"prompt": "a b", "max_tokens": 2});
    assert!(prefill.post(COMPLETIONS, &plain).json().get("kv_transfer_params").is_none());
    let mut stream = first(&json!("a b"));
    stream["stream"] = true.into();
    let mut long = first(&json!("a b"));
    long["min_tokens"] = 2.into();
    for body in [stream, long] {
        let answer = prefill.post(COMPLETIONS, &body);
        assert_eq!(answer.status, 400);
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("do_remote_decode"));
    }
    assert_eq!(prefill.client.get("/v1/models").json()["data"][0]["id"], "sim");
}

#[test]
fn a_chat_is_handed_over_as_well() {
    let (mut prefill, mut decode) = (Part::start(prefill(), 1), Part::start(decode(), 1));
    let mut body = first(&Value::Null);
    body["messages"] = json!([{"role": "user", "content": "one two three"}]);
    let object = prefill.post(CHAT, &body).json()["kv_transfer_params"].clone();
    let mut body = second(&Value::Null, &object);
    body["messages"] = json!([{"role": "user", "content": "one two three"}]);
    assert_eq!(cached(&decode.post(CHAT, &body)), 2);
}

#[test]
fn what_cannot_be_taken_over_is_silently_computed_again() {
    let mut prefill = Part::start(prefill(), 1);
    let mut decode = Part::start(decode(), 1);
    let prompt = |number: u32| json!(format!("{number} b c d"));
    let object = prefill.post(COMPLETIONS, &first(&prompt(0))).json()["kv_transfer_params"].clone();
    let with = |key: &str, value: Value| {
        let mut object = object.clone();
        object[key] = value;
        object
    };
    let bad = [
        (with("remote_block_ids", Value::Null), Fallback::Incomplete),
        (with("remote_port", json!("5600")), Fallback::Incomplete),
        (with("remote_request_id", json!("cmpl-other")), Fallback::Unknown),
        (with("remote_num_tokens", json!(99)), Fallback::OtherPrompt),
        (with("remote_request_id", json!("cmpl-0000000000-0-0000000000000001")), Fallback::Expired),
    ];
    for (number, (object, _)) in (1..).zip(&bad) {
        let stream = decode.post(COMPLETIONS, &second(&prompt(number), object));
        assert_eq!((stream.status, cached(&stream)), (200, 0));
    }
    let (_, records) = decode.end();
    for (record, (_, why)) in records.iter().zip(bad) {
        assert_eq!((record.fallback, record.cached_tokens), (Some(why), Some(0)));
        assert!(record.handoff_ns.is_none() && waited_ns(record) >= 60 * MS);
    }
}

#[test]
fn shares_of_both_sides_fail_by_the_seed() {
    let with_shares = |role: RoleSettings| RoleSettings {
        fallback: 0.3,
        no_params: 0.3,
        recompute: Law::Constant(3 * MS),
        handoff: Law::ZERO,
        ..role
    };
    let mut prefill = Part::start(with_shares(prefill()), 0);
    let mut decode = Part::start(with_shares(decode()), 0);
    let (mut absent, mut lost, mut kept) = (0, 0, 0);
    for number in 0..60 {
        let prompt = json!(format!("{number} b"));
        let answer = prefill.post(COMPLETIONS, &first(&prompt)).json();
        match answer.get("kv_transfer_params") {
            None => absent += 1,
            Some(object) if cached(&decode.post(COMPLETIONS, &second(&prompt, object))) == 0 => {
                lost += 1;
            }
            Some(_) => kept += 1,
        }
    }
    assert!(absent > 5 && lost > 3 && kept > 10, "{absent} {lost} {kept}");
    let (_, of_prefill) = prefill.end();
    let without = of_prefill.iter().filter(|one| one.fallback == Some(Fallback::NoParams));
    assert_eq!(without.count(), absent);
    let (_, of_decode) = decode.end();
    let drawn = of_decode.iter().filter(|one| one.fallback == Some(Fallback::Drawn));
    assert_eq!(drawn.count(), lost);
}

#[test]
fn a_decode_server_remembers_prompts() {
    let mut decode = Part::start(decode(), 5);
    let ask = |prompt: &str, salt: &str| {
        json!({"prompt": prompt, "cache_salt": salt, "max_tokens": 1, "stream": true,
            "stream_options": {"include_usage": true}})
    };
    let expected = [("a b c", "x", 0), ("a b c", "x", 2), ("a b c", "y", 0), ("a b d", "x", 0)];
    for (prompt, salt, tokens) in expected {
        assert_eq!(cached(&decode.post(COMPLETIONS, &ask(prompt, salt))), tokens);
    }
    let (_, records) = decode.end();
    for (record, (_, _, tokens)) in records.iter().zip(expected) {
        assert_eq!(record.fallback, None);
        let least = if tokens == 0 { 60 } else { 5 };
        assert!(waited_ns(record) >= least * MS);
    }
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let fault = |role: RoleSettings| {
        let settings = Settings { role: Some(role), ..Settings::default() };
        Server::start(&settings).unwrap_err().to_string()
    };
    assert!(fault(RoleSettings { fallback: 1.5, ..decode() }).contains("fallback"));
    let router = RoleSettings { role: Role::Router, flow: Flow::Sglang, ..RoleSettings::default() };
    assert!(fault(router).contains("needs the URLs"));
}
