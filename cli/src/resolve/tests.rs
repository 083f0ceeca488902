//! What options become, what is refused, and that `run.toml` says the same again.

use proptest::prelude::*;
use tokclock_engine::run::locate;
use tokclock_engine::workload::{Arrival, Overflow, Warmup};

use super::*;
use crate::args::parse_options;

const CPUS: [usize; 4] = [0, 1, 2, 3];

fn server() -> Located {
    locate("http://127.0.0.1:8000", Dialect::OpenaiChat, &Way::default()).unwrap()
}

fn draft(options: &[&str]) -> Result<Draft, Failure> {
    Draft::new(parse_options(options), &CPUS)
}

fn workload(options: &[&str]) -> Workload {
    draft(options).unwrap().workload(&[server()], "m")
}

fn refusal(options: &[&str]) -> String {
    let failure = draft(options).unwrap_err();
    assert_eq!(failure.code as u8, 2);
    assert!(!failure.message.contains('\n'), "{failure}");
    failure.message
}

/// The workload that `run.toml` of a draft leads to.
fn again(draft: &Draft) -> Workload {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.toml");
    std::fs::write(&path, draft.run_toml("m").unwrap()).unwrap();
    let options = Options::read(&path).unwrap();
    Draft::new(options, &CPUS).unwrap().workload(&[server()], "m")
}

#[test]
fn alone_it_means_8_users_and_200_requests() {
    let workload = workload(&[]);
    assert_eq!(workload.load, Load::Closed { users: 8, ramp_ns: 0 });
    assert_eq!(workload.stop.requests, Some(200));
    assert_eq!(workload.stop.duration_ns, None);
    assert!(workload.target.stream);
}

#[test]
fn a_rate_without_a_stop_rule_sends_200_requests() {
    let workload = workload(&["--rate", "5"]);
    assert_eq!(workload.stop.requests, Some(200));
    let open = Load::Open {
        rate: 5.0,
        arrival: Arrival::Poisson,
        max_in_flight: None,
        overflow: Overflow::Wait,
    };
    assert_eq!(workload.load, open);
}

#[test]
fn a_duration_replaces_the_default_number_of_requests() {
    let stop = workload(&["--duration", "30s", "--warmup", "100"]).stop;
    assert_eq!((stop.requests, stop.duration_ns), (None, Some(30_000_000_000)));
    assert_eq!(stop.warmup, Warmup::Requests(100));
}

#[test]
fn a_crowd_starts_with_a_short_ramp_and_enough_requests() {
    let workload = workload(&["-c", "1000"]);
    assert_eq!(workload.load, Load::Closed { users: 1000, ramp_ns: 500_000_000 });
    assert_eq!(workload.stop.requests, Some(4000));
}

#[test]
fn fewer_requests_than_users_are_remarked_on() {
    assert_eq!(draft(&["-c", "8", "-n", "5"]).unwrap().notes.len(), 1);
    let few = draft(&["-n", "5"]).unwrap();
    assert_eq!(few.options().concurrency, Some(5));
    assert!(few.notes.is_empty());
}

#[test]
fn a_request_has_a_limit_unless_it_is_taken_away() {
    assert_eq!(workload(&[]).limits.request_ns, Some(600_000_000_000));
    assert_eq!(workload(&["--timeout", "none"]).limits.request_ns, None);
}

#[test]
fn contradictions_are_refused_with_what_to_do() {
    let cases: &[(&[&str], &str)] = &[
        (&["--rate", "5", "--concurrency", "8"], "--max-in-flight"),
        (&["--rate", "5", "--overflow", "drop"], "--max-in-flight"),
        (&["--max-in-flight", "5"], "add --rate"),
        (&["--arrival", "constant"], "add --rate"),
        (&["--rate", "5", "--burstiness", "2"], "--arrival gamma"),
        (&["--rate", "5", "--arrival", "gamma"], "needs --burstiness"),
        (&["--rate", "5", "--arrival", "gamma", "--burstiness", "0"], "out of range"),
        (&["--rate", "5", "--arrival", "uniform"], "poisson, constant or gamma"),
        (&["--rate", "5", "--ramp", "1s"], "closed loop"),
        (&["--rate", "0"], "above 0"),
        (&["--rate", "NaN"], "above 0"),
        (&["--rate", "inf"], "above 0"),
        (&["--rate", "5", "--max-in-flight", "0"], "out of range"),
        (&["--concurrency", "0"], "out of range"),
        (&["--concurrency", "2000000"], "out of range"),
        (&["--requests", "0"], "out of range"),
        (&["--duration", "0s"], "measures nothing"),
        (&["--reactors", "0"], "at least 1"),
        (&["--reactors", "9"], "at most 4"),
        (&["--cpus", "9"], "not among"),
        (&["--seed", "18446744073709551615"], "above"),
        (&["--capped", "maybe"], "ok or miss"),
        (&["--stamps", "none"], "--stamps `none`: "),
        (&["--close", "slam"], "--close `slam`: "),
        (&["--dialect", "smtp"], "--dialect `smtp`: "),
        (&["--tokenizer", "gpt9"], "--tokenizer `gpt9`: "),
        (&["--slo", "fast"], "--slo 'fast'"),
        (&["--goodput", "fast"], "--goodput 'fast'"),
        (&["--name", "../x"], "directory"),
        (&["--extra-body", "[1]"], "JSON object"),
        (&["--extra-body", "{\"stream\": false}"], "--no-stream"),
        (&["http://host/#top"], "fragment"),
        (&["--connections", "shared"], "--connections `shared`: "),
        (&["ftp://host"], "http://host:8000"),
        (&["localhost:8000"], "http://host:8000"),
        (&["not a url"], "http://host:8000"),
    ];
    for (options, expected) in cases {
        let message = refusal(options);
        assert!(message.contains(expected), "{options:?}: {message}");
    }
}

#[test]
fn a_password_in_the_url_is_refused_and_not_shown() {
    let message = refusal(&["http://me:s3cret@host:8000"]);
    assert!(message.contains("--api-key-env") && !message.contains("s3cret"), "{message}");
}

#[test]
fn run_toml_leads_to_the_same_workload() {
    let cases: &[&[&str]] = &[
        &[],
        &["-c", "500", "--ramp", "3s", "-d", "1m", "--warmup", "5s", "--drain", "1500ms"],
        &["--rate", "3.3", "--arrival", "gamma", "--burstiness", "0.1", "--seed", "7"],
        &["--rate", "9", "--max-in-flight", "4", "--overflow", "drop", "--no-stream"],
        &["--tokenizer", "qwen2", "--isl", "9", "--osl", "8", "--chunks", "--keep-text"],
        &["--slo", "p95(ttft)<500ms", "--goodput", "ttft:500", "--capped", "miss"],
        &["--reactors", "2", "--stamps", "observed", "--close", "rst", "--timeout", "none"],
        &["http://127.0.0.1:8000", "--header", "X-Route: blue", "--extra-body", "{\"n\":1}"],
        &["--cpus", "2,0", "--idle-timeout", "3s", "--first-token-timeout", "9s"],
    ];
    for options in cases {
        let draft = draft(options).unwrap();
        assert_eq!(draft.workload(&[server()], "m"), again(&draft), "{options:?}");
    }
}

#[test]
fn run_toml_repeats_neither_secrets_nor_the_directory() {
    let draft = draft(&["--header", "Authorization: Bearer s3cret", "--out", "here"]).unwrap();
    let text = draft.run_toml("m").unwrap();
    assert!(!text.contains("s3cret") && !text.contains("here"), "{text}");
    assert!(text.contains("Authorization: <redacted>"), "{text}");
}

#[test]
fn a_run_without_a_seed_draws_one_and_writes_it_down() {
    let (one, two) = (draft(&[]).unwrap(), draft(&[]).unwrap());
    assert_ne!(one.options().seed, two.options().seed);
    assert_eq!(one.options().seed, Some(one.workload(&[server()], "m").seed));
}

#[test]
fn the_model_is_the_one_asked_for_or_the_first() {
    let listed = || Ok(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(model(None, listed()).unwrap(), "a");
    assert_eq!(model(Some("b"), listed()).unwrap(), "b");
    assert_eq!(model(Some("c"), Err("404".to_owned())).unwrap(), "c");
    let failure = model(Some("c"), listed()).unwrap_err();
    assert_eq!(failure.code as u8, 1);
    assert!(failure.message.contains("a, b"), "{failure}");
    assert!(model(None, Ok(Vec::new())).is_err());
    assert!(model(None, Err("404".to_owned())).unwrap_err().message.contains("--model"));
}

proptest! {
    #[test]
    fn no_option_is_lost_on_the_way_through_run_toml(
        users in 1_u64..5000,
        requests in proptest::option::of(1_u64..100_000),
        seed in 0..=SEED_MAX,
        drain_ns in 0_u64..1_000_000_000_000,
        isl in 1_u32..100_000,
        rate in proptest::option::of(0.001_f64..100_000.0),
        share in 0.0_f64..=1.0,
    ) {
        let options = Options {
            concurrency: rate.is_none().then_some(users),
            rate,
            requests,
            seed: Some(seed),
            drain: Some(Span::from_ns(drain_ns)),
            isl: Some(Length(isl)),
            max_error_rate: Some(share.to_string().parse().unwrap()),
            ..Options::default()
        };
        let draft = Draft::new(options, &CPUS).unwrap();
        prop_assert_eq!(draft.workload(&[server()], "m"), again(&draft));
    }
}
