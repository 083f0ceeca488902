//! `GET /metrics`: how the server is, in Prometheus' text format, by vLLM's names where they mean
//! the same.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::document::{Extra, put, typed};

/// Figures of who is served and who waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) running: u64,
    pub(crate) waiting: u64,
    /// 0 to 1; `None`: there is no KV cache.
    pub(crate) kv_usage: Option<f64>,
    pub(crate) preemptions: u64,
    pub(crate) refused: u64,
}

/// What one thread has sent. Only that thread writes, any may read.
#[derive(Debug, Default)]
#[repr(align(64))] // a cache line of its own
pub(crate) struct Sent {
    pub(crate) prompt_tokens: Count,
    pub(crate) output_tokens: Count,
    /// Whole answers that ended by themselves, and at their maximum.
    pub(crate) stopped: Count,
    pub(crate) capped: Count,
}

/// A number that one thread raises.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Raises it; with one writer that needs no locked instruction.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

/// Writes the answer; `model` as it stands inside of a quoted label.
pub(crate) fn answer(
    out: &mut Vec<u8>,
    model: &str,
    figures: &Figures,
    sent: &[Sent],
    close: bool,
) {
    let mut body = Vec::new();
    text(&mut body, model, figures, sent);
    let extra = Extra { close, ..Extra::default() };
    typed(out, 200, "text/plain; version=0.0.4; charset=utf-8", &body, extra);
}

fn text(body: &mut Vec<u8>, model: &str, figures: &Figures, sent: &[Sent]) {
    let sum = |count: fn(&Sent) -> &Count| -> u64 {
        sent.iter().map(|one| count(one).0.load(Ordering::Relaxed)).sum()
    };
    let plain = format!(r#"model_name="{model}""#);
    let mut series = |name: &str, kind: &str, help: &str, values: &[(&str, &dyn Display)]| {
        put(body, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for (label, value) in values {
            put(body, format_args!("{name}{{{plain}{label}}} {value}\n"));
        }
    };
    series("vllm:num_requests_running", "gauge", "Requests served.", &[("", &figures.running)]);
    series("vllm:num_requests_waiting", "gauge", "Requests that wait.", &[("", &figures.waiting)]);
    if let Some(usage) = figures.kv_usage {
        let help = "Share of the KV cache that is taken, 0 to 1.";
        series("vllm:kv_cache_usage_perc", "gauge", help, &[("", &usage)]);
    }
    let mut counter = |name: &str, help: &str, values: &[(&str, &dyn Display)]| {
        series(name, "counter", help, values);
    };
    let help = "How often a request lost its place and was computed again.";
    counter("vllm:num_preemptions_total", help, &[("", &figures.preemptions)]);
    let help = "Prompt tokens of requests that had their first token.";
    counter("vllm:prompt_tokens_total", help, &[("", &sum(|sent| &sent.prompt_tokens))]);
    let help = "Output tokens sent.";
    counter("vllm:generation_tokens_total", help, &[("", &sum(|sent| &sent.output_tokens))]);
    counter(
        "vllm:request_success_total",
        "Whole answers, by what ended them.",
        &[
            (r#",finished_reason="stop""#, &sum(|sent| &sent.stopped)),
            (r#",finished_reason="length""#, &sum(|sent| &sent.capped)),
        ],
    );
    let help = "Requests refused by the serving model.";
    counter("tokclock_sim_refused_total", help, &[("", &figures.refused)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let sent = [Sent::default(), Sent::default()];
        sent[0].output_tokens.add(3);
        sent[1].output_tokens.add(4);
        sent[1].capped.add(1);
        let figures = Figures { running: 2, kv_usage: Some(0.25), ..Figures::default() };
        let mut body = Vec::new();
        text(&mut body, r#"a\"b"#, &figures, &sent);
        let body = String::from_utf8(body).unwrap();
        for line in [
            r#"vllm:num_requests_running{model_name="a\"b"} 2"#,
            r#"vllm:kv_cache_usage_perc{model_name="a\"b"} 0.25"#,
            r#"vllm:generation_tokens_total{model_name="a\"b"} 7"#,
            r#"vllm:request_success_total{model_name="a\"b",finished_reason="length"} 1"#,
            "# TYPE vllm:num_preemptions_total counter",
        ] {
            assert!(body.lines().any(|one| one == line), "{line} in\n{body}");
        }
        let mut none = Vec::new();
        text(&mut none, "m", &Figures::default(), &sent);
        assert!(!String::from_utf8(none).unwrap().contains("kv_cache"), "there is none");
    }
}
