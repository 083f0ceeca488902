//! Times in the answers of each server, whole and byte by byte.

use super::super::testing::{JSON, NDJSON, SSE, answer, in_chunks, read, with_length};
use crate::dialect::Dialect;
use crate::times::{ServerTimes, Source, Time};

/// What is known after an answer with this body, read whole and byte by byte.
fn told(dialect: &Dialect, content: &str, body: &str) -> Option<ServerTimes> {
    let mut machine = answer(dialect, content != JSON);
    let wire = if content == JSON { with_length(JSON, body) } else { in_chunks(content, body) };
    read(&mut machine, [&wire]);
    let whole = machine.server_times();
    read(&mut machine, wire.as_bytes().chunks(1));
    assert_eq!(machine.server_times(), whole, "{wire}");
    whole
}

fn known(times: Option<ServerTimes>, source: Source, expected: &[(Time, u64)]) {
    let times = times.expect("times were told");
    assert_eq!(times.source(), source);
    for (time, us) in expected {
        assert_eq!(times.get(*time), Some(us * 1000), "{time:?}");
    }
    let all = [
        Time::Queue,
        Time::Prefill,
        Time::Ttft,
        Time::Decode,
        Time::E2e,
        Time::KvTransfer,
        Time::MeanItl,
        Time::ReceivedAt,
        Time::SentAt,
    ];
    assert_eq!(all.iter().filter(|time| times.get(**time).is_some()).count(), expected.len());
}

const TOKEN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"text\":\"a\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn vllm_tells_them_beside_the_usage() {
    let metrics = "\"metrics\":{\"time_to_first_token_ms\":31.5,\"queue_time_ms\":4,\
                   \"generation_time_ms\":80.25,\"mean_itl_ms\":16.0,\"tokens_per_second\":54.0,\
                   \"speculative_decoding\":{\"mean_acceptance_length\":2.0}}";
    let expected = [
        (Time::Ttft, 31_500),
        (Time::Queue, 4_000),
        (Time::Decode, 80_250),
        (Time::MeanItl, 16_000),
    ];
    let usage = "\"choices\":[],\"usage\":{\"completion_tokens\":2}";
    let last = format!("data: {{{usage},{metrics}}}\n\n");
    let body = [TOKEN, TOKEN, &last, DONE].concat();
    for dialect in [Dialect::OpenaiChat, Dialect::OpenaiCompletions] {
        known(told(&dialect, SSE, &body), Source::VllmMetrics, &expected);
        let document = format!("{{\"choices\":[{{\"text\":\"a\"}}],{metrics}}}");
        known(told(&dialect, JSON, &document), Source::VllmMetrics, &expected);
        assert_eq!(told(&dialect, SSE, &[TOKEN, DONE].concat()), None);
    }
    let end = format!(
        "event: response.completed\ndata: {{\"type\":\"response.completed\",\"response\":\
         {{\"status\":\"completed\",{metrics}}}}}\n\n"
    );
    known(told(&Dialect::OpenaiResponses, SSE, &end), Source::VllmMetrics, &expected);
    let document = format!("{{\"status\":\"completed\",\"output\":[],{metrics}}}");
    known(told(&Dialect::OpenaiResponses, JSON, &document), Source::VllmMetrics, &expected);
}

#[test]
fn llamacpp_tells_them_on_all_routes_and_the_last_count() {
    let timings = |ms: u64| {
        format!(
            "\"timings\":{{\"cache_n\":0,\"prompt_n\":4,\"prompt_ms\":12.5,\"predicted_n\":{ms},\
             \"predicted_ms\":{ms}.0,\"predicted_per_second\":null}}"
        )
    };
    let expected = [(Time::Prefill, 12_500), (Time::Decode, 9_000)];
    let body: String = (1..10)
        .map(|ms| format!("data: {{\"choices\":[{{\"text\":\"a\"}}],{}}}\n\n", timings(ms)))
        .collect();
    let times = told(&Dialect::OpenaiCompletions, SSE, &(body + DONE));
    known(times, Source::LlamacppTimings, &expected);
    let end = format!("data: {{\"content\":\"\",\"stop\":true,{}}}\n\n", timings(9));
    known(told(&Dialect::LlamacppCompletion, SSE, &end), Source::LlamacppTimings, &expected);
    let document = format!("{{\"content\":\"a\",\"stop\":true,{}}}", timings(9));
    let times = told(&Dialect::LlamacppCompletion, JSON, &document);
    known(times, Source::LlamacppTimings, &expected);
    let end = format!(
        "data: {{\"type\":\"response.completed\",\"response\":{{\"status\":\"completed\"}},{}}}\n\n",
        timings(9)
    );
    known(told(&Dialect::OpenaiResponses, SSE, &end), Source::LlamacppTimings, &expected);
}

#[test]
fn sglang_tells_them_in_its_meta_info() {
    let event = |text: &str, meta: &str| {
        format!("data: {{\"text\":\"{text}\",\"meta_info\":{{\"id\":\"q\"{meta}}}}}\n\n")
    };
    let body = event("a", ",\"completion_tokens\":1,\"queue_time\":0.004")
        + &event(
            "a b",
            ",\"completion_tokens\":2,\"e2e_latency\":0.21,\"request_received_ts\":1000.5,\
             \"forward_entry_time\":1000.51,\"prefill_finished_time\":1000.53,\
             \"response_sent_to_client_ts\":1000.75",
        )
        + DONE;
    let expected = [
        (Time::Queue, 4_000),
        (Time::E2e, 210_000),
        (Time::ReceivedAt, 1_000_500_000),
        (Time::SentAt, 1_000_750_000),
        (Time::Prefill, 20_000),
        (Time::Ttft, 30_000),
    ];
    known(told(&Dialect::SglangGenerate, SSE, &body), Source::SglangMetaInfo, &expected);
    let own = event("a", ",\"first_token_latency\":0.025,\"prefill_finished_time\":12.0");
    let own = told(&Dialect::SglangGenerate, SSE, &(own + DONE));
    known(own, Source::SglangMetaInfo, &[(Time::Ttft, 25_000)]);
    let apart = ",\"request_received_ts\":1767225600.0,\"prefill_finished_time\":99.0";
    let apart = told(&Dialect::SglangGenerate, SSE, &(event("a", apart) + DONE));
    known(apart, Source::SglangMetaInfo, &[(Time::ReceivedAt, 1_767_225_600_000_000)]);
}

#[test]
fn dynamo_and_ollama_tell_them_at_the_end() {
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"nvext\":{\"worker_id\":\
               {\"decode_worker_id\":93},\"timing\":{\"request_received_ms\":1767225600123,\
               \"prefill_wait_time_ms\":1.9,\"prefill_time_ms\":80.2,\"ttft_ms\":96.4,\
               \"total_time_ms\":912.0,\"kv_hit_rate\":0.25,\
               \"kv_transfer_estimated_latency_ms\":14.1}}}\n\n";
    let expected = [
        (Time::ReceivedAt, 1_767_225_600_123_000),
        (Time::Queue, 1_900),
        (Time::Prefill, 80_200),
        (Time::Ttft, 96_400),
        (Time::E2e, 912_000),
        (Time::KvTransfer, 14_100),
    ];
    let body = [TOKEN, end, DONE].concat();
    known(told(&Dialect::OpenaiChat, SSE, &body), Source::DynamoNvext, &expected);
    let body = "{\"message\":{\"content\":\"a\"},\"response\":\"a\",\"done\":false}\n\
                {\"done\":true,\"done_reason\":\"stop\",\"total_duration\":5000000,\
                \"load_duration\":1000,\"prompt_eval_duration\":2000000,\"eval_duration\":1000000}\n";
    let expected = [(Time::E2e, 5_000), (Time::Prefill, 2_000), (Time::Decode, 1_000)];
    for dialect in [Dialect::OllamaChat, Dialect::OllamaGenerate] {
        known(told(&dialect, NDJSON, body), Source::Ollama, &expected);
    }
}

#[test]
fn tensorrt_tells_them_when_the_stream_is_over() {
    let late = "event: trtllm.perf_metrics\ndata: {\"Server-Timing\":\"server_queue;dur=2, \
                server_ttft;dur=30;desc=\\\"a,b\\\", server_kv_transfer;dur=1\",\"X-Other\":1}\n\n";
    let body = [TOKEN, DONE, late].concat();
    let expected = [(Time::Queue, 2_000), (Time::Ttft, 30_000), (Time::KvTransfer, 1_000)];
    known(told(&Dialect::OpenaiChat, SSE, &body), Source::ServerTiming, &expected);
    for broken in ["{}", "5", "{\"Server-Timing\":7}", "x", "\u{e9}"] {
        let late = format!("event: trtllm.perf_metrics\ndata: {broken}\n\n");
        assert_eq!(told(&Dialect::OpenaiChat, SSE, &[TOKEN, DONE, &late].concat()), None);
    }
    let other = late.replace("trtllm", "other");
    assert_eq!(told(&Dialect::OpenaiChat, SSE, &[TOKEN, DONE, &other].concat()), None);
}

#[test]
fn a_head_tells_them_and_a_body_outweighs_it() {
    let wire = |head: &str, body: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: {SSE}\r\n{head}\r\n{body}")
    };
    let mut machine = answer(&Dialect::OpenaiChat, true);
    let head = "Server-Timing: queue;dur=2, e2e;dur=9, db;dur=1\r\n";
    read(&mut machine, [wire(head, &[TOKEN, DONE].concat())]);
    // The head of a stream cannot know how long all of it takes.
    known(machine.server_times(), Source::ServerTiming, &[(Time::Queue, 2_000)]);
    assert_eq!(machine.named_times().len(), 3);
    let last = "data: {\"choices\":[],\"metrics\":{\"queue_time_ms\":7}}\n\n";
    read(&mut machine, [wire(head, &[TOKEN, last, DONE].concat())]);
    known(machine.server_times(), Source::VllmMetrics, &[(Time::Queue, 7_000)]);
    read(&mut machine, [wire("", &[TOKEN, DONE].concat())]);
    assert_eq!(machine.server_times(), None, "those of an earlier answer are forgotten");
    assert!(machine.named_times().is_empty());
}

#[test]
fn an_event_that_was_read_before_tells_its_times_again() {
    let last = "data: {\"choices\":[],\"metrics\":{\"queue_time_ms\":7}}\n\n";
    let body = [TOKEN, last, DONE].concat();
    let wire = in_chunks(SSE, &body);
    let mut machine = answer(&Dialect::OpenaiChat, true);
    for _ in 0..3 {
        read(&mut machine, [&wire]);
        known(machine.server_times(), Source::VllmMetrics, &[(Time::Queue, 7_000)]);
    }
}

#[test]
fn broken_values_change_nothing_else() {
    for value in ["\"5\"", "-5", "1e400", "null", "true", "[]", "{}", "[[1,{}]]"] {
        let last = format!(
            "data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}],\"usage\":\
             {{\"completion_tokens\":1}},\"metrics\":{{\"queue_time_ms\":{value}}},\
             \"timings\":{value},\"nvext\":{{\"timing\":{value}}}}}\n\n"
        );
        let body = [TOKEN, &last, DONE].concat();
        let mut machine = answer(&Dialect::OpenaiChat, true);
        let seen = read(&mut machine, [in_chunks(SSE, &body)]);
        assert_eq!(seen[2], "tail stop ->1", "{value}");
        assert_eq!(machine.server_times(), None, "{value}");
        let meta = format!(
            "data: {{\"text\":\"a\",\"meta_info\":{{\"completion_tokens\":1,\"queue_time\":{value},\
             \"prefill_finished_time\":{value},\"e2e_latency\":{value}}}}}\n\n"
        );
        assert_eq!(told(&Dialect::SglangGenerate, SSE, &(meta + DONE)), None, "{value}");
    }
}
