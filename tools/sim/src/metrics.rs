//! `GET /metrics`: how the server is, in Prometheus' text format, by vLLM's names where they mean
//! the same; for a server of SGLang by its names.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::document::{Extra, put, typed};
use crate::histogram::{self, Histogram};
use crate::legs::{Flow, Role, RoleSettings};

/// Figures of who is served and who waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) running: u64,
    pub(crate) waiting: u64,
    /// Of those that run: how many wait for another server.
    pub(crate) meeting: u64,
    /// KV caches that nobody took over in time.
    pub(crate) expired: u64,
    /// 0 to 1; `None`: there is no KV cache.
    pub(crate) kv_usage: Option<f64>,
    pub(crate) preemptions: u64,
    pub(crate) refused: u64,
}

/// What one thread has sent. Only that thread writes, any may read.
#[derive(Debug)]
#[repr(align(64))] // a cache line of its own
pub(crate) struct Sent {
    pub(crate) prompt_tokens: Count,
    pub(crate) output_tokens: Count,
    /// Whole answers that ended by themselves, and at their maximum.
    pub(crate) stopped: Count,
    pub(crate) capped: Count,
    /// Prompt tokens that were in the cache, and that were handed over.
    pub(crate) cached_tokens: Count,
    pub(crate) handed_tokens: Count,
    /// Prompt tokens that were asked of another server.
    pub(crate) asked_tokens: Count,
    /// From when a request was read to its first token.
    pub(crate) first: Histogram,
    /// From one output event to the next.
    pub(crate) between: Histogram,
    /// In the queue, to the first token, to the last, and all of it.
    pub(crate) queue: Histogram,
    pub(crate) prefill: Histogram,
    pub(crate) decode: Histogram,
    pub(crate) whole: Histogram,
    /// Hand-offs: their times and bytes.
    pub(crate) handoff: Histogram,
    pub(crate) handoff_ms: Histogram,
    pub(crate) bytes: Histogram,
    pub(crate) mebibytes: Histogram,
}

impl Default for Sent {
    fn default() -> Self {
        let long = || Histogram::new(histogram::LONG);
        Self {
            prompt_tokens: Count::default(),
            output_tokens: Count::default(),
            stopped: Count::default(),
            capped: Count::default(),
            cached_tokens: Count::default(),
            handed_tokens: Count::default(),
            asked_tokens: Count::default(),
            first: Histogram::new(histogram::FIRST),
            between: Histogram::new(histogram::BETWEEN),
            queue: long(),
            prefill: long(),
            decode: long(),
            whole: long(),
            handoff: Histogram::new(histogram::HANDOFF),
            handoff_ms: Histogram::new(histogram::HANDOFF_MS),
            bytes: Histogram::new(histogram::BYTES),
            mebibytes: Histogram::new(histogram::MEBIBYTES),
        }
    }
}

/// A number that one thread raises.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Raises it; with one writer that needs no locked instruction.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get() + more, Ordering::Relaxed);
    }

    /// What it is.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is told of a server.
pub(crate) struct Told<'a> {
    /// As it stands inside of a quoted label.
    pub(crate) model: &'a str,
    pub(crate) role: Option<&'a RoleSettings>,
    pub(crate) figures: Figures,
    pub(crate) sent: &'a [Sent],
}

/// A text in the making.
struct Text<'a> {
    out: Vec<u8>,
    labels: String,
    sent: &'a [Sent],
}

/// Writes the answer.
pub(crate) fn answer(out: &mut Vec<u8>, told: &Told<'_>, close: bool) {
    let extra = Extra { close, ..Extra::default() };
    typed(out, 200, "text/plain; version=0.0.4; charset=utf-8", &told.text(), extra);
}

impl Told<'_> {
    fn text(&self) -> Vec<u8> {
        let model = self.model;
        let labels = format!(r#"model_name="{model}""#);
        let mut text = Text { out: Vec::new(), labels, sent: self.sent };
        match self.role {
            Some(role) if role.flow == Flow::Sglang => self.sglang(&mut text, role),
            role => {
                self.vllm(&mut text);
                if let Some(role) = role {
                    text.vllm_role(role, self.figures.expired);
                }
            }
        }
        text.out
    }

    fn vllm(&self, text: &mut Text<'_>) {
        let figures = &self.figures;
        text.gauge("vllm:num_requests_running", "Requests served.", &figures.running);
        text.gauge("vllm:num_requests_waiting", "Requests that wait.", &figures.waiting);
        if let Some(usage) = figures.kv_usage {
            let help = "Share of the KV cache that is taken, 0 to 1.";
            text.gauge("vllm:kv_cache_usage_perc", help, &usage);
        }
        let help = "How often a request lost its place and was computed again.";
        text.counter("vllm:num_preemptions_total", help, &[("", figures.preemptions)]);
        let help = "Prompt tokens of requests that had their first token.";
        let prompt = text.sum(|sent| &sent.prompt_tokens);
        text.counter("vllm:prompt_tokens_total", help, &[("", prompt)]);
        let output = text.sum(|sent| &sent.output_tokens);
        text.counter("vllm:generation_tokens_total", "Output tokens sent.", &[("", output)]);
        let stopped = text.sum(|sent| &sent.stopped);
        let capped = text.sum(|sent| &sent.capped);
        text.counter(
            "vllm:request_success_total",
            "Whole answers, by what ended them.",
            &[(r#",finished_reason="stop""#, stopped), (r#",finished_reason="length""#, capped)],
        );
        let help = "Requests refused by the serving model.";
        text.counter("tokclock_sim_refused_total", help, &[("", figures.refused)]);
        text.histogram("vllm:time_to_first_token_seconds", |sent| &sent.first);
        text.histogram("vllm:inter_token_latency_seconds", |sent| &sent.between);
        text.histogram("vllm:request_queue_time_seconds", |sent| &sent.queue);
        text.histogram("vllm:request_prefill_time_seconds", |sent| &sent.prefill);
        text.histogram("vllm:request_decode_time_seconds", |sent| &sent.decode);
        text.histogram("vllm:e2e_request_latency_seconds", |sent| &sent.whole);
    }

    fn sglang(&self, text: &mut Text<'_>, role: &RoleSettings) {
        let figures = &self.figures;
        text.labels += &format!(r#",engine_type="{}""#, role.role);
        let running = figures.running.saturating_sub(figures.meeting);
        text.gauge("sglang:num_running_reqs", "Requests served.", &running);
        text.gauge("sglang:num_queue_reqs", "Requests that wait.", &figures.waiting);
        let usage = figures.kv_usage.unwrap_or(0.0);
        text.gauge("sglang:token_usage", "Share of the KV cache that is taken, 0 to 1.", &usage);
        let meeting = if role.role == Role::Prefill {
            "sglang:num_prefill_bootstrap_queue_reqs"
        } else {
            "sglang:num_decode_transfer_queue_reqs"
        };
        text.gauge(meeting, "Requests that wait for the other server.", &figures.meeting);
        let prompt = text.sum(|sent| &sent.prompt_tokens);
        text.counter("sglang:prompt_tokens_total", "Prompt tokens.", &[("", prompt)]);
        let output = text.sum(|sent| &sent.output_tokens);
        text.counter("sglang:generation_tokens_total", "Output tokens sent.", &[("", output)]);
        let whole = text.sum(|sent| &sent.stopped) + text.sum(|sent| &sent.capped);
        text.counter("sglang:num_requests_total", "Whole answers.", &[("", whole)]);
        text.histogram("sglang:queue_time_seconds", |sent| &sent.queue);
        text.histogram("sglang:e2e_request_latency_seconds", |sent| &sent.whole);
        if role.role == Role::Prefill {
            text.histogram("sglang:kv_transfer_latency_ms", |sent| &sent.handoff_ms);
            text.histogram("sglang:kv_transfer_total_mb", |sent| &sent.mebibytes);
        } else {
            text.histogram("sglang:time_to_first_token_seconds", |sent| &sent.first);
            text.histogram("sglang:inter_token_latency_seconds", |sent| &sent.between);
        }
    }
}

impl Text<'_> {
    fn vllm_role(&mut self, role: &RoleSettings, expired: u64) {
        let prompt = self.sum(|sent| &sent.prompt_tokens);
        let (cached, handed) =
            (self.sum(|sent| &sent.cached_tokens), self.sum(|sent| &sent.handed_tokens));
        self.counter(
            "vllm:prompt_tokens_by_source_total",
            "Prompt tokens, by where their KV cache came from.",
            &[
                (r#",source="local_compute""#, prompt.saturating_sub(cached + handed)),
                (r#",source="local_cache_hit""#, cached),
                (r#",source="external_kv_transfer""#, handed),
            ],
        );
        let asked = self.sum(|sent| &sent.asked_tokens);
        for (name, help, value) in [
            ("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the cache.", prompt),
            ("vllm:prefix_cache_hits_total", "Prompt tokens found there.", cached),
            ("vllm:external_prefix_cache_queries_total", "Tokens asked of others.", asked),
            ("vllm:external_prefix_cache_hits_total", "Tokens handed over by others.", handed),
        ] {
            self.counter(name, help, &[("", value)]);
        }
        if role.role == Role::Prefill && role.flow == Flow::VllmNixl {
            let help = "KV caches that no decode server took over in time.";
            self.counter("vllm:nixl_num_kv_expired_reqs_total", help, &[("", expired)]);
        }
        if role.role == Role::Decode {
            self.histogram("vllm:nixl_xfer_time_seconds", |sent| &sent.handoff);
            self.histogram("vllm:nixl_bytes_transferred", |sent| &sent.bytes);
        }
    }

    fn sum(&self, count: fn(&Sent) -> &Count) -> u64 {
        self.sent.iter().map(|one| count(one).get()).sum()
    }

    fn gauge(&mut self, name: &str, help: &str, value: &dyn Display) {
        put(&mut self.out, format_args!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
        put(&mut self.out, format_args!("{name}{{{}}} {value}\n", self.labels));
    }

    fn counter(&mut self, name: &str, help: &str, values: &[(&str, u64)]) {
        put(&mut self.out, format_args!("# HELP {name} {help}\n# TYPE {name} counter\n"));
        for (label, value) in values {
            put(&mut self.out, format_args!("{name}{{{}{label}}} {value}\n", self.labels));
        }
    }

    fn histogram(&mut self, name: &str, of: fn(&Sent) -> &Histogram) {
        let parts: Vec<&Histogram> = self.sent.iter().map(of).collect();
        histogram::write(&mut self.out, name, &self.labels, &parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(model: &str, role: Option<&RoleSettings>, figures: Figures, sent: &[Sent]) -> String {
        String::from_utf8(Told { model, role, figures, sent }.text()).unwrap()
    }

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let sent = [Sent::default(), Sent::default()];
        sent[0].output_tokens.add(3);
        sent[1].output_tokens.add(4);
        sent[1].capped.add(1);
        sent[1].first.add(30_000_000);
        let figures = Figures { running: 2, kv_usage: Some(0.25), ..Figures::default() };
        let body = text(r#"a\"b"#, None, figures, &sent);
        for line in [
            r#"vllm:num_requests_running{model_name="a\"b"} 2"#,
            r#"vllm:kv_cache_usage_perc{model_name="a\"b"} 0.25"#,
            r#"vllm:generation_tokens_total{model_name="a\"b"} 7"#,
            r#"vllm:request_success_total{model_name="a\"b",finished_reason="length"} 1"#,
            r#"vllm:time_to_first_token_seconds_bucket{model_name="a\"b",le="0.04"} 1"#,
            r#"vllm:time_to_first_token_seconds_sum{model_name="a\"b"} 0.03"#,
            "# TYPE vllm:num_preemptions_total counter",
        ] {
            assert!(body.lines().any(|one| one == line), "{line} in\n{body}");
        }
        assert!(!body.contains("nixl"), "there is no hand-off");
        let none = text("m", None, Figures::default(), &sent);
        assert!(!none.contains("kv_cache"), "there is none");
    }

    #[test]
    fn each_role_tells_what_real_ones_tell() {
        let sent = [Sent::default()];
        let role = |role, flow| RoleSettings { role, flow, ..RoleSettings::default() };
        let told = |role| text("m", Some(&role), Figures::default(), &sent);
        let decode = told(role(Role::Decode, Flow::VllmNixl));
        assert!(decode.contains("vllm:nixl_bytes_transferred_bucket"));
        assert!(decode.contains(r#"source="external_kv_transfer"} 0"#));
        let prefill = told(role(Role::Prefill, Flow::VllmNixl));
        assert!(prefill.contains("nixl_num_kv_expired_reqs_total") && !prefill.contains("xfer"));
        let prefill = told(role(Role::Prefill, Flow::Sglang));
        assert!(prefill.contains(r#"num_running_reqs{model_name="m",engine_type="prefill"} 0"#));
        assert!(prefill.contains("kv_transfer_latency_ms_bucket"));
        assert!(!prefill.contains("time_to_first_token") && !prefill.contains("vllm:"));
    }
}
