//! The router's role: what options make of it, what is refused, and that `run.toml` says the same again.

use tokclock_engine::workload::{Disagg, Flow, Pick};

use super::*;

const PAIR: [&str; 6] =
    ["--flow", "vllm-nixl", "--prefill", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:2"];

/// The role of a draft whose servers are all there.
fn role_of(draft: &Draft) -> Disagg {
    let role = draft.role.as_ref().unwrap();
    let urls = draft.options().servers().iter().chain(role.others());
    let locate = |url: &String| locate(url, draft.api.dialect, &Way::default()).unwrap();
    let located: Vec<Located> = urls.map(locate).collect();
    draft.workload(&located, "m").target.disagg.unwrap()
}

fn role(more: &[&str]) -> Disagg {
    role_of(&draft(&[&PAIR[..], more].concat()).unwrap())
}

#[test]
fn a_flow_has_its_servers_and_its_habits() {
    let plain = role(&[]);
    assert_eq!((plain.flow, plain.pick, plain.baseline), (Flow::VllmNixl, Pick::RoundRobin, 0.05));
    let only = &plain.prefill[0];
    assert_eq!(
        (only.host.as_str(), only.port, only.engine_id.as_deref()),
        ("127.0.0.1", 5600, None)
    );
    assert_eq!(only.endpoint.path, "/v1/chat/completions");
    let more = role(&[
        "--prefill",
        "http://127.0.0.1:3,port=7,host=p2,engine=e,tp=4,pp=2",
        "--router",
        "http://127.0.0.1:4",
        "--pick",
        "random",
        "--handoff-sample",
        "50%",
    ]);
    let second = &more.prefill[1];
    assert_eq!((second.host.as_str(), second.port), ("p2", 7));
    assert_eq!((second.tensor_parallel, second.pipeline_parallel), (4, 2));
    assert_eq!((more.routers.len(), more.pick, more.baseline), (1, Pick::Random, 0.5));
    let sglang = ["--flow", "sglang", "--prefill", "http://p:1", "--decode", "http://d:2"];
    let sglang = draft(&sglang).unwrap();
    assert_eq!(sglang.options().disagg.handoff_sample, None, "nothing to sample is saved");
}

#[test]
fn a_saved_flow_is_the_same_again() {
    let first = draft(&[&PAIR[..], &["--router", "http://127.0.0.1:4"]].concat()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.toml");
    std::fs::write(&path, first.run_toml("m").unwrap()).unwrap();
    let options = Options::read(&path).unwrap();
    assert_eq!(role_of(&Draft::new(options, &CPUS, &read).unwrap()), role_of(&first));
}

#[test]
fn what_makes_no_flow_is_refused_with_what_to_do() {
    let with = |more: &[&str], word: &str| {
        let said = refusal(&[&PAIR[..], more].concat());
        assert!(said.contains(word), "{said}");
    };
    with(&["http://127.0.0.1:9"], "--router");
    with(&["--retries", "1"], "--retries");
    with(&["--no-stream"], "--no-stream");
    with(&["--pick", "best"], "round-robin");
    with(&["--dialect", "ollama-chat"], "openai-completions");
    with(&["--prefill", "http://127.0.0.1:3,tp=0"], "tp=N");
    with(&["--prefill", "http://u:secret@127.0.0.1:3"], "user name or password");
    with(&["--extra-body", r#"{"kv_transfer_params":{}}"#], "kv_transfer_params");
    for (options, word) in [
        (&["--flow", "mooncake"][..], "vllm-push"),
        (&["--flow", "sglang", "--prefill", "http://p:1"], "--decode"),
        (&["--prefill", "http://p:1"], "--flow"),
        (&["--handoff-sample", "5%"], "--flow"),
    ] {
        assert!(refusal(options).contains(word), "{options:?}");
    }
    let pair = ["--prefill", "http://p:1", "--decode", "http://d:2"];
    let push = refusal(&[&["--flow", "vllm-push"][..], &pair].concat());
    assert!(push.contains("engine=ID"), "{push}");
    let sampled = [&["--flow", "sglang", "--handoff-sample", "5%"][..], &pair].concat();
    assert!(refusal(&sampled).contains("--handoff-sample"));
}
