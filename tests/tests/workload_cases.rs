//! Recorded cases of data sets, traces and rates that change: what the command sends of them, and
//! what it refuses.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;

use std::path::Path;
use std::process::Output;

use command::{exits_with, summary, tokclock};
use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::record::{ErrorClass, Outcome};
use tokclock_tests::cases::Case;
use tokclock_tests::replay::{Asked, Log, Manners, Replay, Script, monotonic_ns};
use tokclock_tests::{MS, rows, short_answer};

/// What a run of the command left.
struct Sent {
    output: Output,
    log: Log,
    dir: TempDir,
}

impl Sent {
    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The text of the last message of each request, in the order in which they came.
    fn prompts(&self) -> Vec<String> {
        let mut posts: Vec<&Asked> = self.log.posts().collect();
        posts.sort_by_key(|asked| asked.at);
        posts.into_iter().map(|asked| messages(asked).pop().unwrap()).collect()
    }

    fn summary(&self) -> Value {
        summary(self.dir.path())
    }
}

/// The texts of the messages of a request.
fn messages(asked: &Asked) -> Vec<String> {
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// The command against `server`.
fn sends_to(server: Replay, options: &[&str]) -> Sent {
    let dir = TempDir::new().unwrap();
    let url = format!("http://{}", server.address());
    let output = tokclock(dir.path(), &url, options).output().unwrap();
    Sent { output, log: server.stop(), dir }
}

/// The command against a server that answers after so many ms.
fn sends(after_ms: u64, options: &[&str]) -> Sent {
    let script = Script::at_once(short_answer(), after_ms);
    sends_to(Replay::start(vec![script], Manners::default()), options)
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// It came to its end; a busy machine may have made its figures invalid.
#[track_caller]
fn ends(sent: &Sent) {
    assert!(matches!(sent.output.status.code(), Some(0 | 4)), "{}", sent.said());
}

/// It ends before any request, with a message that names all of these.
#[track_caller]
fn is_refused(sent: &Sent, names: &[&str]) {
    exits_with(&sent.output, 2);
    let said = sent.said();
    for name in names {
        assert!(said.contains(name), "no {name:?} in {said}");
    }
    assert_eq!(said.trim_end().lines().count(), 1, "one line: {said}");
    assert_eq!(sent.log.posts().count(), 0);
}

#[test]
fn d001_all_turns_of_a_conversation_are_sent() {
    let case = Case::named("D001");
    let data = case.data();
    let expected = &case.expected["multi_turn"];
    let sent = sends(0, &["--data", path(&data), "--concurrency", "1"]);
    exits_with(&sent.output, 0);
    let all: Vec<String> = expected["texts"].as_array().unwrap().iter().flat_map(texts).collect();
    assert_eq!(sent.prompts(), all);
    // What the server said stands between them, and not what is recorded.
    let third = messages(sent.log.posts().nth(2).unwrap());
    assert_eq!(third, ["q1", "Alpha beta gamma", "q2", "Alpha beta gamma", "q3"]);
    let sessions = &sent.summary()["sessions"];
    assert_eq!(sessions["begun"], expected["conversations"]);
    assert_eq!((&sessions["done"], &sessions["turns_unsent"]), (&2.into(), &0.into()));
}

#[test]
fn d001_first_turns_alone_count_what_they_leave_out() {
    let case = Case::named("D001");
    let data = case.data();
    let sent = sends(0, &["--data", path(&data), "--concurrency", "1", "--single-turn"]);
    exits_with(&sent.output, 0);
    assert_eq!(sent.prompts(), texts(&case.expected["single_turn_mode"]["prompts"]));
    let said = sent.said();
    assert!(said.contains("2 turns left out (--single-turn)"), "{said}");
}

#[test]
fn d003_a_byte_order_mark_costs_no_line() {
    let case = Case::named("D003");
    let sent = sends(0, &["--data", path(&case.data()), "--concurrency", "1"]);
    exits_with(&sent.output, 0);
    assert_eq!(sent.prompts(), texts(&case.expected["prompts"]));
}

#[test]
fn d005_unknown_fields_are_named_before_any_request() {
    let case = Case::named("D005");
    let data = case.data();
    let begun = monotonic_ns();
    let sent = sends(0, &["--data", path(&data)]);
    let wall = (monotonic_ns() - begun) as f64 / 1e9;
    assert!(wall < case.expected["wall_s_max"].as_f64().unwrap(), "{wall} s");
    let names = texts(&case.expected["message_lists"]);
    is_refused(&sent, &[&names[0], &names[1], "--field"]);
    let field = case.expected["with_field_option"]["field"].as_str().unwrap();
    let field = format!("prompt={field}");
    let sent = sends(0, &["--data", path(&data), "--field", &field, "--concurrency", "1"]);
    exits_with(&sent.output, 0);
    assert_eq!(sent.prompts(), ["one", "two"]);
}

#[test]
fn d007_blocks_that_do_not_fit_are_named_by_line() {
    let case = Case::named("D007");
    let data = case.data();
    let sent = sends(0, &["--data", path(&data)]);
    is_refused(&sent, &["lines 2 and 4", "--block-size"]);
    let sent = sends(0, &["--data", path(&data), "--block-size", "15"]);
    is_refused(&sent, &["lines 1, 3 and 4"]);
}

#[test]
fn d009_a_trace_without_times_is_refused_and_no_time_is_made_up() {
    let case = Case::named("D009");
    let data = case.data();
    let sent = sends(0, &["--trace", path(&data)]);
    is_refused(&sent, &["lines 2 and 4", "timestamp"]);
    let sent = sends(0, &["--data", path(&data), "--concurrency", "1"]);
    exits_with(&sent.output, 0);
    let entries = case.expected["no_schedule_mode"]["entries"].as_u64().unwrap();
    assert_eq!(sent.log.posts().count() as u64, entries);
}

#[test]
fn times_that_a_load_does_not_use_refuse_nothing() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("unsorted.jsonl");
    let line = |time: u32| format!("{{\"prompt\": \"at {time}\", \"timestamp\": {time}}}\n");
    std::fs::write(&data, [line(500), line(20)].concat()).unwrap();
    let sent = sends(0, &["--trace", path(&data)]);
    is_refused(&sent, &["unsorted.jsonl:2", "sort the lines by time"]);
    let sent = sends(0, &["--data", path(&data), "--concurrency", "1"]);
    exits_with(&sent.output, 0);
    assert_eq!(sent.prompts(), ["at 500", "at 20"]);
}

#[test]
fn d011_every_line_of_a_trace_goes_once_and_at_its_time() {
    let case = Case::named("D011");
    let sent = sends(0, &["--data", path(&case.data())]);
    ends(&sent);
    let number = case.expected["requests"].as_u64().unwrap();
    let rows = rows(&sent.dir.path().join("out"));
    assert_eq!(rows.len() as u64, number);
    let intended: Vec<u64> = rows.iter().map(|row| row.intended).collect();
    let first = intended.iter().min().unwrap();
    let mut arrivals = Vec::new();
    for line in 0..number {
        let text = format!("line {line:02}");
        let mut asked = sent.log.posts().filter(|asked| messages(asked) == [text.as_str()]);
        let at = asked.next().unwrap().at;
        assert!(asked.next().is_none(), "{text} is sent once");
        assert!(intended.contains(&(first + line * 40 * MS)), "{text} has its time");
        arrivals.push(at);
    }
    // No request comes before its time; how late the last may be, a busy machine decides.
    let [least, most] = [0, 1].map(|end| case.expected["wall_s"][end].as_f64().unwrap());
    let wall = (arrivals[24] - arrivals[0]) as f64 / 1e9;
    assert!((least - 0.02..most).contains(&wall), "{wall} s");
    let early = |line: usize| arrivals[0] + line as u64 * 40 * MS > arrivals[line] + 20 * MS;
    assert!(!(0..25).any(early), "{arrivals:?}");
}

#[test]
fn d013_a_prompt_that_is_too_long_is_a_failure_of_one_kind() {
    let case = Case::named("D013");
    let sent = sends_to(case.serve(), &["--requests", "2", "--concurrency", "1"]);
    exits_with(&sent.output, 5);
    let rows = rows(&sent.dir.path().join("out"));
    let expected = case.expected["requests"].as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!((row.outcome, row.error), (Outcome::Error, Some(ErrorClass::HttpStatus)));
        assert_eq!(row.status.map(u64::from), expected["http_status"].as_u64());
        let text = row.error_text.as_ref().unwrap();
        assert!(text.contains(expected["server_code"].as_str().unwrap()), "{text}");
        assert_eq!((row.first_token, row.attempts), (None, 1));
    }
    let connections: Vec<u64> = sent.log.posts().map(|asked| asked.connection).collect();
    assert_eq!(connections.len(), 2, "nothing is tried again");
    assert_eq!(connections[0], connections[1], "a refusal leaves its connection as it was");
    let requests = &sent.summary()["requests"];
    let errors = requests["errors"].as_object().unwrap();
    assert_eq!(errors.len() as u64, case.expected["error_table"]["groups"].as_u64().unwrap());
    assert_eq!(errors["http_status"], case.expected["error_table"]["count"]);
    let example = requests["error_examples"]["http_status"].as_str().unwrap();
    let part = case.expected["error_table"]["example_contains"].as_str().unwrap();
    assert!(example.contains(part), "{example}");
}

#[test]
fn d015_what_a_template_adds_is_shown_beside_the_prompt() {
    let case = Case::named("D015");
    let sent = sends_to(case.serve(), &["--requests", "1", "--isl", "1", "--osl", "1"]);
    exits_with(&sent.output, 0);
    let row = &rows(&sent.dir.path().join("out"))[0];
    assert_eq!(row.input_tokens, case.expected["input_tokens_server"].as_u64());
    assert_eq!(row.client_input_tokens, case.expected["input_tokens_content"].as_u64());
    let tokens = &sent.summary()["tokens"];
    assert_eq!(tokens["input"], case.expected["input_tokens_server"]);
    assert_eq!(tokens["input_client_count"], case.expected["input_tokens_content"]);
    assert_eq!(tokens["input_server_count"], case.expected["input_tokens_server"]);
    assert_eq!(tokens["input_added"]["p50"], 4);
}

#[test]
fn d017_a_model_name_is_never_taken_for_a_tokenizer() {
    let case = Case::named("D017");
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("prompts.jsonl");
    std::fs::write(&data, "{\"prompt\":\"one\"}\n{\"prompt\":\"two\"}\n").unwrap();
    // Nothing else can be asked, and nothing is there already.
    let home = path(dir.path());
    let model = ["--model", "granite", "--requests", "2"];
    for said in [&["--data", path(&data)][..], &["--isl", "8"]] {
        let server = Case::named("W031").serve();
        let url = format!("http://{}", server.address());
        let out = TempDir::new().unwrap();
        let mut command = tokclock(out.path(), &url, &[&model[..], said].concat());
        command.env("HF_ENDPOINT", "http://127.0.0.1:9").env("HF_HOME", home);
        exits_with(&command.output().unwrap(), 0);
        assert_eq!(server.stop().posts().count(), 2);
        for row in rows(&out.path().join("out")) {
            assert_eq!(row.output_tokens, case.expected["tokens_out"].as_u64());
        }
    }
}

#[test]
fn d019_a_line_of_1_5_mb_is_sent_whole() {
    let case = Case::named("D019");
    let chars: Vec<usize> = case.expected["prompt_chars"]
        .as_array()
        .unwrap()
        .iter()
        .map(|chars| chars.as_u64().unwrap() as usize)
        .collect();
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("long.jsonl");
    let line = |chars: &usize| {
        format!("{{\"prompt\":\"{}\"}}\n", "long ".repeat(chars / 5 + 1).split_at(*chars).0)
    };
    std::fs::write(&data, chars.iter().map(line).collect::<String>()).unwrap();
    let sent = sends(0, &["--data", path(&data), "--concurrency", "1"]);
    exits_with(&sent.output, 0);
    let seen: Vec<usize> = sent.prompts().iter().map(String::len).collect();
    assert_eq!(seen, chars);
    let bodies = sent.log.posts().map(|asked| {
        let length = asked.header("content-length").unwrap().parse::<usize>().unwrap();
        assert_eq!(length, asked.body.len());
        length
    });
    let least = case.expected["body_len_min"].as_array().unwrap();
    assert!(bodies.zip(least).all(|(length, least)| length as u64 >= least.as_u64().unwrap()));
}

#[test]
fn l005_a_request_belongs_to_the_stage_of_its_schedule() {
    let case = Case::named("L005");
    let rates = ["--rates", "50@2s,100@2s", "--arrival", "constant", "--max-in-flight", "2"];
    let begun = monotonic_ns();
    let sent = sends(500, &[&rates[..], &["--drain", "2s"]].concat());
    let wall = (monotonic_ns() - begun) as f64 / 1e9;
    // Twice the time for a busy machine: the backlog alone would take 75 s.
    assert!(wall < 2.0 * case.expected["wall_s_max"].as_f64().unwrap(), "{wall} s");
    let summary = sent.summary();
    let stages = summary["stages"].as_array().unwrap();
    let of =
        |name: &str| stages.iter().map(|stage| stage[name].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("offered"), [100, 200]);
    // Two at a time, half a second each.
    let within = of("started_within");
    assert!((4..=10).contains(&within[0]), "{within:?}");
    let served = sent.log.posts().count() as u64;
    assert!(served <= 24, "{served}: the backlog is not sent for ever");
    let ends: u64 = ["ok", "failed", "cancelled"].iter().flat_map(|name| of(name)).sum();
    let rows = rows(&sent.dir.path().join("out"));
    assert_eq!(ends, rows.len() as u64);
    let start = stages[1]["start_ns"].as_u64().unwrap();
    let first = rows.iter().filter(|row| row.intended < start).count() as u64;
    let of_first = ["ok", "failed", "cancelled"].map(|name| of(name)[0]);
    assert_eq!(of_first.iter().sum::<u64>(), first);
    assert_eq!(sent.log.peak_in_flight, 2);
    // Far fewer than were asked for were sent, and the run says so.
    assert!(summary["rate"]["achieved_share"].as_f64().unwrap() < 0.3, "{}", summary["rate"]);
}

#[test]
fn l021_a_linear_ramp_is_one() {
    let case = Case::named("L021");
    let (client, expected) = (&case.client, &case.expected);
    let [rate, ramp, duration] =
        ["rate", "ramp_s", "duration_s"].map(|name| client[name].as_u64().unwrap());
    let [ramp_text, duration_text] = [ramp, duration].map(|seconds| format!("{seconds}s"));
    let rate_text = rate.to_string();
    let open = ["--rate", &rate_text, "--ramp", &ramp_text, "--duration", &duration_text];
    let sent = sends(0, &[&open[..], &["--arrival", "constant"]].concat());
    ends(&sent);
    let summary = sent.summary();
    let start = summary["run"]["window"]["start_ns"].as_u64().unwrap() - ramp * 1_000 * MS;
    let rows = rows(&sent.dir.path().join("out"));
    let between = |from: u64, to: u64| {
        let [from, to] = [from, to].map(|seconds| start + seconds * 1_000 * MS);
        rows.iter().filter(|row| (from..to).contains(&row.intended)).count() as u64
    };
    let lies = |count: u64, range: &Value| {
        let [least, most] = [0, 1].map(|end| range[end].as_u64().unwrap());
        assert!((least..=most).contains(&count), "{count} is not in {range}");
    };
    lies(between(0, ramp), &expected["sends_in_ramp"]);
    for (second, range) in (0..).zip(expected["sends_in_each_ramp_second"].as_array().unwrap()) {
        lies(between(second, second + 1), range);
    }
    lies(between(ramp, ramp + duration), &expected["sends_in_plateau"]);
    let requests = &summary["requests"];
    lies(requests["offered"].as_u64().unwrap(), &expected["measured_requests"]);
    // The k-th at sqrt(2 k ramp / rate), and every one of them came to the server.
    let mut intended: Vec<u64> = rows.iter().map(|row| row.intended - start).collect();
    intended.sort_unstable();
    for (k, at) in (0..=190).zip(&intended) {
        let due = (2.0 * f64::from(k) * ramp as f64 / rate as f64).sqrt();
        assert!((*at as f64 / 1e9 - due).abs() < 0.001, "{k}: {at} and not {due} s");
    }
    assert_eq!(sent.log.posts().count(), rows.len());
    let rps = summary["rate"]["offered_rps"].as_f64().unwrap();
    assert!((rps / rate as f64 - 1.0).abs() < 0.02, "{rps}: the plateau alone");
}
