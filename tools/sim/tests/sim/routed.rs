//! Deployments with a router, and the flows that ask both servers at once.

use serde_json::{Value, json};
use tokclock_sim::{Fallback, Flow, Law, Role, RoleSettings, Server, Settings};

use crate::client::Client;
use crate::legs::{COMPLETIONS, Part, cached, decode, first, prefill, second, waited_ns};
use crate::timing::MS;

/// Servers and a router of a flow; the shares, laws and delays of each are set by `adapt`.
fn deployment(flow: Flow, adapt: impl Fn(&mut RoleSettings)) -> [Part; 3] {
    let start = |role: RoleSettings, ttft| {
        let mut role = RoleSettings { flow, ..role };
        adapt(&mut role);
        Part::start(role, ttft)
    };
    let handoff = Law::Constant(15 * MS);
    let (prefill, decode) = (start(RoleSettings { handoff, ..prefill() }, 10), start(decode(), 4));
    let url = |part: &Part| vec![format!("http://{}", part.server.address())];
    let router = start(
        RoleSettings {
            role: Role::Router,
            prefill: url(&prefill),
            decode: url(&decode),
            router_delay: Law::Constant(5 * MS),
            ..RoleSettings::default()
        },
        0,
    );
    [prefill, decode, router]
}

/// What a client asks of a router.
fn plain(prompt: &str) -> Value {
    json!({"prompt": prompt, "max_tokens": 3, "stream": true,
        "stream_options": {"include_usage": true}})
}

#[test]
fn a_router_asks_one_after_the_other() {
    let [prefill, decode, mut router] = deployment(Flow::VllmNixl, |_| {});
    for number in 0..3 {
        let stream = router.post(COMPLETIONS, &plain(&format!("{number} b c d")));
        assert_eq!((stream.texts().len(), cached(&stream)), (3, 3));
    }
    assert_eq!(router.client.get("/v1/models").json()["data"][0]["id"], "sim");
    let (report, routed) = router.end();
    assert_eq!((report.completed, report.broken, report.aborted), (3, 0, 0));
    let (_, first) = prefill.end();
    let (_, second) = decode.end();
    for ((routed, first), second) in routed.iter().zip(&first).zip(&second) {
        let [from, to] = routed.delay_ns.unwrap();
        assert_eq!((routed.role, to - from), (Some(Role::Router), 5 * MS));
        assert!(first.tail.unwrap()[0] <= routed.prefill_done_ns.unwrap());
        assert!(routed.prefill_done_ns.unwrap() <= from && to <= second.read_ns);
        assert!(second.head.unwrap()[0] <= routed.head.unwrap()[0]);
    }
}

#[test]
fn push_needs_both_at_once_and_the_same_id() {
    let [prefill, decode, mut router] = deployment(Flow::VllmPush, |_| {});
    let stream = router.post(COMPLETIONS, &plain("a b c d"));
    assert_eq!((stream.texts().len(), cached(&stream)), (3, 3));
    router.end();
    let (_, first) = prefill.end();
    let (_, second) = decode.end();
    let [from, to] = second[0].handoff_ns.unwrap();
    assert_eq!(from, first[0].prefill_done_ns.unwrap().max(second[0].started_ns.unwrap()));
    assert_eq!(to - from, 15 * MS);
    assert!(second[0].events[0][0] >= to + 4 * MS);
    assert_eq!(first[0].request_id, second[0].request_id);
}

#[test]
fn push_without_its_prefill_is_computed_again_after_the_lease() {
    let role = RoleSettings { flow: Flow::VllmPush, lease_ns: 50 * MS, ..decode() };
    let mut decode = Part::start(role, 1);
    let object = json!({"do_remote_prefill": true, "remote_engine_id": "e",
        "remote_host": "127.0.0.1", "remote_port": 1, "remote_request_id": "nobody"});
    assert_eq!(cached(&decode.post(COMPLETIONS, &second(&json!("a b c"), &object))), 0);
    let (_, records) = decode.end();
    assert_eq!(records[0].fallback, Some(Fallback::NoPeer));
    assert!(waited_ns(&records[0]) >= (50 + 60) * MS);
}

#[test]
fn sglang_meets_in_a_room() {
    let [mut prefill, mut decode, mut router] = deployment(Flow::Sglang, |_| {});
    let stream = router.post(COMPLETIONS, &plain("a b c d"));
    assert_eq!(stream.texts().len(), 3);
    // A client that asks one after the other hears nothing.
    let port = prefill.server.side_port().unwrap();
    let mut body = plain("e f");
    body["bootstrap_host"] = "127.0.0.1".into();
    body["bootstrap_port"] = port.into();
    body["bootstrap_room"] = 77.into();
    body["stream"] = false.into();
    prefill.client.send(crate::client::request(COMPLETIONS, &body.to_string()).as_bytes());
    assert!(prefill.client.is_silent());
    body["stream"] = true.into();
    assert_eq!(decode.post(COMPLETIONS, &body).texts().len(), 3);
    assert_eq!(prefill.client.answer().json()["usage"]["completion_tokens"], 1);
    assert_eq!(decode.post(COMPLETIONS, &plain("g")).status, 400);
    router.end();
    let (_, first) = prefill.end();
    let (_, second) = decode.end();
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first.handoff_ns, second.handoff_ns);
        let [from, to] = first.handoff_ns.unwrap();
        assert_eq!((first.prefill_done_ns, to - from), (Some(from), 15 * MS));
        assert!(first.tail.unwrap()[0] >= to && second.events[0][0] >= to);
        assert_eq!(second.events.len(), 3);
    }
    assert!(first[1].prefill_done_ns.unwrap() >= second[1].started_ns.unwrap() + 10 * MS);
}

#[test]
fn a_router_may_read_prefill_to_its_end_first() {
    // A hand-off that prefill answers after, while the decode server streams on.
    let [prefill, _decode, mut router] = deployment(Flow::Sglang, |role| role.drain_prefill = true);
    assert_eq!(router.post(COMPLETIONS, &plain("a b c")).texts().len(), 3);
    let (_, routed) = router.end();
    assert!(routed[0].head.unwrap()[0] >= routed[0].prefill_done_ns.unwrap());
    let (_, first) = prefill.end();
    assert!(first[0].tail.unwrap()[0] <= routed[0].prefill_done_ns.unwrap());
}

#[test]
fn many_clients_of_a_router_are_served_side_by_side() {
    for flow in [Flow::VllmNixl, Flow::VllmPush, Flow::Sglang] {
        let [prefill, decode, router] = deployment(flow, |_| {});
        let address = router.server.address();
        std::thread::scope(|scope| {
            for user in 0..64 {
                scope.spawn(move || {
                    let mut client = Client::new(address);
                    let body = plain(&format!("{user} b c")).to_string();
                    assert_eq!(client.post(COMPLETIONS, &body).texts().len(), 3);
                });
            }
        });
        let (report, _) = router.end();
        assert_eq!((report.completed, report.requests), (64, 64));
        assert!(report.peak_in_flight > 8, "{}", report.peak_in_flight);
        let (_, records) = decode.end();
        assert!(records.iter().all(|record| record.fallback.is_none()), "{flow}");
        drop(prefill);
    }
}

#[test]
fn a_server_that_is_down_is_told_of() {
    let [prefill, decode, mut router] = deployment(Flow::Sglang, |_| {});
    drop(decode);
    let answer = router.post(COMPLETIONS, &plain("a"));
    assert_eq!(answer.status, 502);
    assert!(answer.body.contains("the decode server cannot be asked"), "{}", answer.body);
    let (report, _) = router.end();
    assert_eq!(report.broken, 1);
    drop(prefill);
}

/// The value of a series whose line starts so.
fn series(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn metrics_tell_what_was_handed_over() {
    let [mut prefill, mut decode, mut router] = deployment(Flow::VllmNixl, |_| {});
    for number in 0..2 {
        router.post(COMPLETIONS, &plain(&format!("{number} b c d")));
    }
    let again = json!({"prompt": "1 b c d", "max_tokens": 1});
    decode.post(COMPLETIONS, &again);
    decode.post(COMPLETIONS, &json!({"prompt": "new words", "max_tokens": 1}));
    let told = decode.client.get("/metrics").body;
    let at = |name: &str| series(&told, name);
    let of = |source: &str| {
        at(&format!(r#"vllm:prompt_tokens_by_source_total{{model_name="sim",source="{source}""#))
    };
    assert_eq!((of("external_kv_transfer"), of("local_cache_hit")), (6.0, 3.0));
    assert_eq!(of("local_compute"), 14.0 - 9.0);
    assert_eq!(at("vllm:nixl_xfer_time_seconds_sum"), 0.03);
    assert_eq!(at("vllm:nixl_xfer_time_seconds_count"), 2.0);
    assert_eq!(at("vllm:nixl_bytes_transferred_sum"), 2.0 * 4.0 * 131_072.0);
    assert_eq!(at("vllm:external_prefix_cache_hits_total"), 6.0);
    assert_eq!(at("vllm:e2e_request_latency_seconds_count"), 4.0);
    // A hand-off counts as waiting, as on the real one; then come four tokens' times.
    assert!(at("vllm:request_queue_time_seconds_sum") >= 0.03);
    assert!(at("vllm:time_to_first_token_seconds_sum") >= 0.03 + 0.004 * 3.0 + 0.06);
    assert_eq!(at("vllm:inter_token_latency_seconds_count"), 4.0);
    assert_eq!((at("vllm:kv_cache_usage_perc"), at("vllm:num_requests_running")), (0.0, 0.0));
    let told = prefill.client.get("/metrics").body;
    assert_eq!(series(&told, "vllm:prompt_tokens_total"), 8.0);
    assert_eq!(series(&told, "vllm:nixl_num_kv_expired_reqs_total"), 0.0);
    assert!(!told.contains("nixl_bytes"));
}

#[test]
fn sglang_tells_by_its_own_names() {
    let [mut prefill, mut decode, mut router] = deployment(Flow::Sglang, |_| {});
    router.post(COMPLETIONS, &plain("a b c d"));
    let told = prefill.client.get("/metrics").body;
    assert_eq!(series(&told, "sglang:kv_transfer_latency_ms_sum"), 15.0);
    assert_eq!(series(&told, "sglang:kv_transfer_total_mb_sum"), 0.5);
    assert_eq!(series(&told, "sglang:num_prefill_bootstrap_queue_reqs"), 0.0);
    assert!(told.contains(r#"engine_type="prefill""#) && !told.contains("vllm:"));
    let told = decode.client.get("/metrics").body;
    assert_eq!(series(&told, "sglang:generation_tokens_total"), 3.0);
    assert_eq!(series(&told, "sglang:time_to_first_token_seconds_count"), 1.0);
}

#[test]
fn sglang_has_its_own_path() {
    let [mut prefill, _decode, mut router] = deployment(Flow::Sglang, |_| {});
    let body = json!({"text": "a b c", "stream": true, "sampling_params": {"max_new_tokens": 3}});
    let answer = router.post("/generate", &body);
    let events = answer.events();
    assert_eq!(events.len(), 3);
    let told = |at: usize, name: &str| events[at]["meta_info"][name].clone();
    assert_eq!((told(0, "completion_tokens"), told(0, "finish_reason")), (1.into(), Value::Null));
    assert_eq!((told(2, "completion_tokens"), told(2, "cached_tokens")), (3.into(), 2.into()));
    assert_eq!(told(2, "finish_reason"), json!({"type": "length", "length": 3}));
    assert_eq!(events[1]["text"], " hello hello");
    assert_eq!(prefill.post("/generate", &body).status, 400, "there is no room");
    let plain = Server::start(&Settings::default()).unwrap();
    let mut client = Client::new(plain.address());
    assert_eq!(client.post("/generate", &body.to_string()).status, 404);
}

#[test]
fn a_prefill_server_counts_what_nobody_took_in_time() {
    let [mut prefill, mut decode, router] =
        deployment(Flow::VllmNixl, |role| role.lease_ns = 400 * MS);
    drop(router);
    let object = |prefill: &mut Part, prompt: &str| {
        prefill.post(COMPLETIONS, &first(&json!(prompt))).json()["kv_transfer_params"].clone()
    };
    let taken = object(&mut prefill, "a b");
    object(&mut prefill, "c d");
    decode.post(COMPLETIONS, &second(&json!("a b"), &taken));
    let expired = || {
        let told = Client::new(prefill.server.address()).get("/metrics").body;
        series(&told, "vllm:nixl_num_kv_expired_reqs_total")
    };
    let expires = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        expired() > 0.0
    });
    assert!(expires);
    let (_, records) = decode.end();
    // On a host so slow that the first was late as well there is nothing to see.
    if records[0].fallback.is_none() {
        assert_eq!(expired(), 1.0);
    }
}
