//! Keys and passwords: sent where they belong, and then in no file, on no screen, in no error.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;

use std::path::{Path, PathBuf};
use std::process::Output;

use command::{exits_with, summary, tokclock};
use tempfile::TempDir;
use tokclock_tests::replay::{Log, Manners, Replay, Script};
use tokclock_tests::{STREAM_HEAD, event, short_answer};

/// No other text holds it.
const SECRET: &str = "sk-Zq7hidden";

/// A server's refusal of a key.
fn refusal(message: &str) -> String {
    let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
    let head = "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// A way to give a secret: the options, and the header that it goes in.
struct Way {
    options: &'static [&'static str],
    header: &'static str,
    value: &'static str,
}

/// Options speak of the variable `MY_KEY`, of the files `key` and `own.toml`.
const WAYS: [Way; 7] = [
    Way {
        options: &["--api-key-env", "MY_KEY"],
        header: "authorization",
        value: "Bearer sk-Zq7hidden",
    },
    Way {
        options: &["--api-key-file", "key"],
        header: "authorization",
        value: "Bearer sk-Zq7hidden",
    },
    Way {
        options: &["--api-key-env", "MY_KEY", "--dialect", "anthropic-messages"],
        header: "x-api-key",
        value: SECRET,
    },
    Way { options: &["--header", "X-Api-Key: sk-Zq7hidden"], header: "x-api-key", value: SECRET },
    Way {
        options: &["--header", "authorization:Basic sk-Zq7hidden"],
        header: "authorization",
        value: "Basic sk-Zq7hidden",
    },
    Way {
        options: &["--header", "Cookie: session=sk-Zq7hidden"],
        header: "cookie",
        value: "session=sk-Zq7hidden",
    },
    Way { options: &["--template", "own.toml"], header: "x-mode", value: SECRET },
];

const TEMPLATE: &str = r#"
path = "/go"
body = '{"q": "{{prompt}}"}'
[headers]
X-Mode = "sk-Zq7hidden"
[answer]
text = "/choices/0/delta/content"
finish = "/choices/0/finish_reason"
done_data = "[DONE]"
"#;

/// A run of three requests that are answered with `answer`: what it said, and what the server saw.
fn run(dir: &Path, options: &[&str], answer: &str) -> (Output, Log) {
    let server = Replay::start(vec![Script::at_once(answer, 0)], Manners::default());
    std::fs::write(dir.join("key"), format!("{SECRET}\n")).unwrap();
    std::fs::write(dir.join("own.toml"), TEMPLATE).unwrap();
    let url = format!("http://{}", server.address());
    let mut command = tokclock(dir, &url, options);
    command.env("MY_KEY", SECRET).args(["--requests", "3", "--concurrency", "1", "--json"]);
    let output = command.args(["--chunks", "--keep-text", "--model", "sim"]).output().unwrap();
    (output, server.stop())
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all
}

/// The secret is in nothing that the run left, `out` being where, and in nothing that it said.
#[track_caller]
fn keeps_quiet(out: &Path, output: &Output) {
    for (what, said) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let said = String::from_utf8_lossy(said);
        assert!(!said.contains("Zq7hidden"), "{what}: {said}");
    }
    let files = if out.exists() { files(out) } else { Vec::new() };
    for file in files {
        let held = std::fs::read(&file).unwrap();
        let held = String::from_utf8_lossy(&held);
        assert!(!held.contains("Zq7hidden"), "{}: {held}", file.display());
        assert!(!file.to_string_lossy().contains("Zq7hidden"));
    }
}

/// In every way to give it the secret reaches the server, and stays there.
#[track_caller]
fn is_sent_and_not_kept(answer: impl Fn(&[&str]) -> String, code: i32) {
    for Way { options, header, value } in WAYS {
        let dir = TempDir::new().unwrap();
        let (output, log) = run(dir.path(), options, &answer(options));
        exits_with(&output, code);
        assert_eq!(log.posts().count(), 3, "{options:?}");
        for asked in &log.requests {
            assert_eq!(asked.header(header), Some(value), "{options:?}: {asked:?}");
        }
        let out = dir.path().join("out");
        assert!(files(&out).len() >= 5, "{options:?}");
        keeps_quiet(&out, &output);
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed, summary(dir.path()));
    }
}

#[test]
fn a_secret_is_sent_and_not_kept() {
    let messages = [
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Alpha"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let messages = STREAM_HEAD.to_owned() + &messages.map(event).concat() + "0\r\n\r\n";
    let answer = |options: &[&str]| {
        if options.contains(&"anthropic-messages") { messages.clone() } else { short_answer() }
    };
    is_sent_and_not_kept(answer, 0);
}

#[test]
fn a_secret_that_the_server_does_not_know_is_not_kept_either() {
    is_sent_and_not_kept(|_| refusal("that key is void"), 5);
}

#[test]
fn a_secret_that_comes_back_in_an_error_is_not_kept() {
    is_sent_and_not_kept(|_| refusal(&format!("there is no key {SECRET} here")), 5);
}

#[test]
fn what_holds_a_secret_in_the_wrong_place_is_refused_and_not_shown() {
    let at = "http://127.0.0.1:9";
    let cases: [(&str, &[&str], &str); 11] = [
        ("http://me:sk-Zq7hidden@127.0.0.1:9", &[], "--header or --api-key-env"),
        ("http://sk-Zq7hidden@127.0.0.1:9", &[], "--header or --api-key-env"),
        ("http://me:sk-Zq7hidden@127.0.0.1:port", &[], "URL"),
        ("http://127.0.0.1:9/v1?api_key=sk-Zq7hidden", &[], "api_key"),
        (at, &["--proxy", "http://me:sk-Zq7hidden@127.0.0.1:9"], "--proxy"),
        (at, &["--proxy", "http://me:sk-Zq7hidden@127.0.0.1:port"], "--proxy"),
        (at, &["--api-key-env", "sk-Zq7hidden"], "--api-key-env"),
        (at, &["--api-key-file", "sk-Zq7hidden"], "--api-key-file"),
        (at, &["--header", "sk-Zq7hidden"], "--header number 1"),
        (at, &["--header", "X Key: sk-Zq7hidden"], "--header number 1"),
        (
            at,
            &["--api-key-env", "MY_KEY", "--header", "Authorization: Bearer sk-Zq7hidden"],
            "Authorization",
        ),
    ];
    for (url, options, word) in cases {
        let dir = TempDir::new().unwrap();
        let output = tokclock(dir.path(), url, options).env("MY_KEY", SECRET).output().unwrap();
        exits_with(&output, 2);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(word), "{url} {options:?}: {said}");
        let out = dir.path().join("out");
        assert!(!out.exists(), "{url} {options:?}");
        keeps_quiet(&out, &output);
    }
}

/// A saved run has every option but the secret, and says so when it is run again.
#[test]
fn a_saved_run_asks_for_its_secret_again() {
    let dir = TempDir::new().unwrap();
    let (output, _) = run(dir.path(), &["--header", "X-Api-Key: sk-Zq7hidden"], &short_answer());
    exits_with(&output, 0);
    std::fs::rename(dir.path().join("out"), dir.path().join("first")).unwrap();
    let server = Replay::start(vec![Script::at_once(short_answer(), 0)], Manners::default());
    let url = format!("http://{}", server.address());
    let again = |options: &[&str]| {
        tokclock(dir.path(), &url, &["--config", "first/run.toml"]).args(options).output().unwrap()
    };
    let refused = again(&[]);
    exits_with(&refused, 2);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("X-Api-Key"));
    keeps_quiet(&dir.path().join("out"), &refused);
    let taken = again(&["--header", "x-api-key: sk-Zq7hidden"]);
    exits_with(&taken, 0);
    keeps_quiet(&dir.path().join("out"), &taken);
    let log = server.stop();
    assert!(
        log.posts().count() == 3 && log.posts().all(|one| one.header("x-api-key") == Some(SECRET))
    );
}
