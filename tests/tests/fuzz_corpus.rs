//! Replays the fuzz corpus as an ordinary test: no fuzzer needed.

use std::fs;
use std::path::Path;

use tokclock_parser::dialect::Dialect;

#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a crate of its own when it is fuzzed")]
mod fuzz;

/// Each seed as it is, and cut short at every byte.
fn replay(target: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut seeds = 0;
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let Ok(seed) = fs::read(entry.path()) else { continue };
        for length in 0..=seed.len() {
            check(&seed[..length]);
        }
        // Every way to split it that the target knows of.
        for split in 0..=u8::MAX {
            let mut seed = seed.clone();
            if let Some(byte) = seed.get_mut(1).filter(|_| target != "head") {
                *byte = split;
                check(&seed);
            }
        }
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", folder.display());
}

#[test]
fn every_seed_of_a_head_holds() {
    replay("head", fuzz::head);
}

#[test]
fn every_seed_of_a_body_holds() {
    replay("body", fuzz::body);
}

#[test]
fn every_seed_of_an_event_stream_holds() {
    replay("sse", fuzz::sse);
}

#[test]
fn every_seed_of_a_stream_of_lines_holds() {
    replay("ndjson", fuzz::ndjson);
}

#[test]
fn every_seed_of_an_answer_holds() {
    replay("answer", fuzz::answer);
}

#[test]
fn every_seed_of_a_dialect_holds() {
    for (target, dialect) in [
        ("openai_chat", Dialect::OpenaiChat),
        ("openai_completions", Dialect::OpenaiCompletions),
        ("openai_responses", Dialect::OpenaiResponses),
        ("openai_embeddings", Dialect::OpenaiEmbeddings),
        ("anthropic_messages", Dialect::AnthropicMessages),
        ("sglang_generate", Dialect::SglangGenerate),
        ("tgi_generate", Dialect::TgiGenerate),
        ("triton_generate", Dialect::TritonGenerate),
        ("llamacpp_completion", Dialect::LlamacppCompletion),
        ("ollama_chat", Dialect::OllamaChat),
        ("ollama_generate", Dialect::OllamaGenerate),
    ] {
        replay(target, |seed| fuzz::dialect(&dialect, seed));
    }
}

#[test]
fn every_seed_of_a_described_dialect_holds() {
    replay("template", fuzz::template);
}

#[test]
fn every_seed_of_a_data_set_holds() {
    replay("data", fuzz::data);
}

#[test]
fn every_seed_of_a_page_of_metrics_holds() {
    replay("metrics", fuzz::metrics);
}

#[test]
fn every_seed_of_lines_between_hosts_holds() {
    replay("worker", fuzz::worker);
}

#[test]
fn every_seed_of_a_shard_holds() {
    replay("shard", fuzz::shard);
}
