//! What options become, what is refused, and that `run.toml` says the same again.

use proptest::prelude::*;
use tokclock_engine::run::locate;
use tokclock_engine::workload::{Arrival, Overflow, Schedule, Warmup};

use super::*;
use crate::args::parse_options;
use crate::config::ContentOptions;

mod hosts;
mod legs;
mod said;

const CPUS: [usize; 4] = [0, 1, 2, 3];

/// The server of a draft, or one like the embedded simulator.
fn server(draft: &Draft) -> Located {
    let url = draft.options().url.first().map_or("http://127.0.0.1:8000", String::as_str);
    locate(url, draft.api.dialect, &Way::default()).unwrap()
}

fn of(draft: &Draft) -> Workload {
    draft.workload(&[server(draft)], "m")
}

/// Reads what a workload needs; no server is there to be asked.
fn read(needed: &Needed<'_>) -> Result<Gathered, Failure> {
    gather::gather(needed, None, None)
}

fn draft(options: &[&str]) -> Result<Draft, Failure> {
    Draft::new(parse_options(options), &CPUS, &read)
}

fn workload(options: &[&str]) -> Workload {
    of(&draft(options).unwrap())
}

fn refusal(options: &[&str]) -> String {
    let failure = draft(options).err().unwrap();
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
    of(&Draft::new(options, &CPUS, &read).unwrap())
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
    let schedule = Schedule::Rate { rate: 5.0, arrival: Arrival::Poisson };
    let open = Load::Open { schedule, max_in_flight: None, overflow: Overflow::Wait };
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
    assert_eq!(few.options().concurrency, Some(5.0.into()));
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
        (&["--rates", "5@2s", "--ramp", "1s"], "--rates says how rates rise"),
        (&["--isl", "normal:512"], "--isl: "),
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
        (&["--client-limit", "lag=2"], "--client-limit `lag=2`: lag takes a time"),
        (&["--client-limit", "speed=2"], "--client-limit figure `speed`: it must be one of lag"),
        (&["--dialect", "smtp"], "--dialect `smtp`: "),
        (&["--tokenizer", "gpt9"], "--tokenizer `gpt9`: "),
        (&["--slo", "fast"], "--slo 'fast'"),
        (&["--goodput", "fast"], "--goodput 'fast'"),
        (&["--name", "../x"], "directory"),
        (&["--extra-body", "[1]"], "JSON object"),
        (&["--extra-body", "{\"stream\": false}"], "--no-stream"),
        (&["--connections", "shared"], "--connections `shared`: "),
        (&["ftp://host"], "http://host:8000"),
        (&["localhost:8000"], "http://host:8000"),
        (&["http://host/#a"], "fragment"),
        (&["http://host/?api_key=s3cret"], "`api_key`"),
        (&["http://host/v1/messages"], "--dialect anthropic-messages"),
        (&["http://host/api/generate", "--dialect", "sglang-generate"], "ollama-generate"),
        (&["--dialect", "template"], "--template FILE"),
        (&["--dialect", "ollama-chat", "--template", "x.toml"], "of its own"),
        (&["--template", "no/such.toml"], "--template no/such.toml: "),
        (&["--dialect", "triton-generate"], "--model"),
        (&["--dialect", "triton-generate", "http://host"], "/v2/models/NAME"),
        (&["--dialect", "tgi-generate", "--return-token-ids"], "llamacpp-completion"),
        (&["--dialect", "llamacpp-completion", "--continuous-usage"], "openai-chat"),
        (&["--continuous-usage", "--no-stream"], "--no-stream"),
        (&["--api-key-env", "A", "--api-key-file", "b"], "keep one"),
        (&["not a url"], "http://host:8000"),
    ];
    are_refused(cases);
}

/// Each list of options is refused with a message that holds the text beside it.
fn are_refused(cases: &[(&[&str], &str)]) {
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
        &["--no-force-length", "--return-token-ids", "--continuous-usage"],
        &["--dialect", "openai-embeddings", "--osl", "9"],
        &["--dialect", "triton-generate", "--model", "m", "http://127.0.0.1:1/p/?v=1"],
        &["--dialect", "anthropic-messages", "--no-force-length=false"],
        &["https://127.0.0.1/v1?api-version=1"],
        &[
            "https://127.0.0.1",
            "https://127.0.0.2",
            "--cacert",
            "ca.pem",
            "--sni",
            "c",
            "--tls-timeout",
            "2s",
        ],
        &["--cert", "a.pem", "--key", "a.key", "--insecure", "--tls-resumption", "off"],
        &["--connections", "per-user", "--requests-per-connection", "9", "--retries", "3"],
        &[
            "--retries",
            "2",
            "--retry-backoff",
            "1s",
            "--source-ip",
            "127.0.0.2,127.0.0.3",
            "--cancel-rate",
            "10%",
        ],
        &["--cancel-rate", "1", "--cancel-after", "2s", "--max-event-bytes", "1000"],
        &["--spin", "--client-limit", "lag=2ms", "--client-limit", "steal=none"],
        &["http://127.0.0.1", "--resolve", "a:443:127.0.0.1", "--proxy", "http://127.0.0.1:1"],
        &[
            "http://127.0.0.1",
            "--unix-socket",
            "server.sock",
            "--max-head-bytes",
            "1",
            "--max-body-bytes",
            "2",
        ],
    ];
    lead_to_the_same(cases);
}

/// Each list of options leads to the same workload as what is saved of it.
fn lead_to_the_same(cases: &[&[&str]]) {
    for options in cases {
        let draft = draft(options).unwrap();
        assert_eq!(of(&draft), again(&draft), "{options:?}");
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
    assert_eq!(one.options().seed, Some(of(&one).seed));
}

#[test]
fn the_model_is_the_one_asked_for_or_the_first() {
    let model = |asked, listed| model(Dialect::OpenaiChat, asked, listed);
    let listed = || Ok(vec!["a".to_owned(), "b:latest".to_owned()]);
    assert_eq!(model(None, listed()).unwrap(), "a");
    assert_eq!(model(Some("b:latest"), listed()).unwrap(), "b:latest");
    assert_eq!(model(Some("b"), listed()).unwrap(), "b");
    assert_eq!(model(Some("c"), Err("404".to_owned())).unwrap(), "c");
    let failure = model(Some("c"), listed()).unwrap_err();
    assert_eq!(failure.code as u8, 1);
    assert!(failure.message.contains("a, b"), "{failure}");
    assert!(model(None, Ok(Vec::new())).is_err());
    assert!(model(None, Err("404".to_owned())).unwrap_err().message.contains("--model"));
}

#[test]
fn some_dialects_do_without_a_model() {
    for dialect in Dialect::ALL.iter().copied() {
        let unnamed = [Ok(Vec::new()), Err("404".to_owned())].map(|one| model(dialect, None, one));
        let needed = unnamed.iter().all(Result::is_err);
        assert_eq!(needed, dialect.needs_model(), "{dialect}");
        assert!(needed || unnamed.into_iter().all(|model| model == Ok(String::new())));
    }
    let listed = || Ok(vec!["a".to_owned()]);
    assert!(model(Dialect::TgiGenerate, Some("b"), listed()).is_err());
    assert_eq!(model(Dialect::AnthropicMessages, Some("b"), listed()), Ok("b".to_owned()));
    let nameless = draft(&["--dialect", "sglang-generate"]).unwrap().run_toml("").unwrap();
    assert!(!nameless.contains("model"), "{nameless}");
}

#[test]
fn paths_are_settled_with_the_model_and_the_stream() {
    let path = |options: &[&str]| workload(options).target.endpoints[0].path.clone();
    let url = "http://127.0.0.1:1/p?v=1";
    let triton = ["--dialect", "triton-generate", "--model", "m"];
    assert_eq!(path(&[&triton[..], &[url]].concat()), "/p/v2/models/m/generate_stream?v=1");
    assert_eq!(path(&["--dialect", "tgi-generate", "--no-stream", url]), "/p/generate?v=1");
    assert_eq!(path(&["--dialect", "ollama-chat", url]), "/p/api/chat?v=1");
    assert_eq!(path(&[url]), "/p/v1/chat/completions?v=1");
}

#[test]
fn embeddings_neither_stream_nor_have_an_output() {
    let options = ["--dialect", "openai-embeddings", "--osl", "9", "--no-stream=false"];
    let draft = draft(&options).unwrap();
    assert!(draft.notes.iter().any(|note| note.contains("--osl is ignored")));
    let workload = of(&draft);
    assert!(!workload.target.stream);
    assert_eq!(workload.mix[0].content.lengths.means().1, 0.0);
    assert_eq!(draft.options().content.osl, None);
}

#[test]
fn a_length_that_cannot_be_forced_is_remarked_on() {
    let notes = |options: &[&str]| draft(options).unwrap().notes;
    assert!(notes(&["--dialect", "ollama-chat"])[0].contains("before --osl"));
    assert!(notes(&["--dialect", "ollama-chat", "--no-force-length"]).is_empty());
    assert!(notes(&["--dialect", "openai-embeddings"]).is_empty());
    assert!(notes(&[]).is_empty());
}

#[test]
fn an_api_brings_its_headers_unless_they_are_given() {
    let headers = |options: &[&str]| workload(options).target.headers;
    let anthropic = ["--dialect", "anthropic-messages"];
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(headers(&anthropic), [own("anthropic-version", "2023-06-01")]);
    let newer = [&anthropic[..], &["--header", "Anthropic-Version: 2030-01-01"]].concat();
    assert_eq!(headers(&newer), [own("Anthropic-Version", "2030-01-01")]);
    assert!(headers(&[]).is_empty());
}

#[test]
fn the_key_of_a_file_is_sent_and_only_its_path_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, "s3cret\n").unwrap();
    let path = path.to_str().unwrap();
    let draft = draft(&["--api-key-file", path]).unwrap();
    let header = ("Authorization".to_owned(), "Bearer s3cret".to_owned());
    assert_eq!(of(&draft).target.headers, [header]);
    let saved = draft.run_toml("m").unwrap();
    assert!(saved.contains(path) && !saved.contains("s3cret"), "{saved}");
    assert_eq!(of(&draft), again(&draft));
    let twice = refusal(&["--api-key-file", path, "--header", "authorization: Bearer s3cret"]);
    assert!(twice.contains("keep one") && !twice.contains("s3cret"), "{twice}");
}

#[test]
fn a_template_is_read_from_its_file_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.toml");
    let path = path.to_str().unwrap();
    let text = |body: &str| {
        format!(
            "path = \"/go\"\nbody = '{body}'\n[headers]\nX-A = \"1\"\nX-B = \"2\"\n[answer]\ntext = \"/t\"\n"
        )
    };
    std::fs::write(path, text(r#"{"q": "{{prompt}}"}"#)).unwrap();
    let draft = draft(&["--template", path, "--header", "x-a: 3"]).unwrap();
    let workload = of(&draft);
    assert_eq!(workload.target.dialect, Dialect::Template);
    assert_eq!(workload.target.endpoints[0].path, "/go");
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(workload.target.headers, [own("x-a", "3"), own("X-B", "2")]);
    assert_eq!(workload, again(&draft));
    let more = refusal(&["--template", path, "--extra-body", "{\"a\": 1}"]);
    assert!(more.contains("into its body"), "{more}");

    let wrong = |content: &str, expected: &str| {
        std::fs::write(path, content).unwrap();
        let message = refusal(&["--template", path]);
        assert!(message.contains(path) && message.contains(expected), "{message}");
    };
    wrong(&text(r#"{"q": 1}"#), "body: it has {{prompt}} 0 times");
    wrong("path = \"/go\"\nboddy = 1\n", ":2: unknown field `boddy`");
    wrong("path = \"/go\"\n", "missing field `body`");
    wrong(&text(r#"{"q": "{{prompt}}"}"#).replace("X-A", "host"), "`host` is set by tokclock");
    wrong(&text(r#"{"q": "{{prompt}}"}"#).replace("/t", "t"), "answer.text: ");
    std::fs::write(path, text(r#"{"q": "{{prompt}}", "m": "{{model}}"}"#)).unwrap();
    assert!(refusal(&["--template", path]).contains("say which with --model"));
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
            concurrency: rate.is_none().then_some((users as f64).into()),
            rate: rate.map(Into::into),
            requests,
            seed: Some(seed),
            drain: Some(Span::from_ns(drain_ns)),
            content: ContentOptions { isl: Some(isl.into()), ..ContentOptions::default() },
            max_error_rate: Some(share.to_string().parse().unwrap()),
            ..Options::default()
        };
        let draft = Draft::new(options, &CPUS, &read).unwrap();
        prop_assert_eq!(of(&draft), again(&draft));
    }
}
