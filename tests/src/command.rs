//! The command as a person starts it, and the simulator as a process of its own, which can be stopped,
//! woken and killed.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokclock_engine::clock::monotonic_ns;

use crate::{MS, Truth};

/// Variables that a tool could take for its own.
const VARIABLES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"];

/// Where the built tool lies: cargo tells it to the tests alone.
#[derive(Debug, Clone, Copy)]
pub struct Tool(pub &'static str);

impl Tool {
    /// `tokclock` in `dir`, untouched by what this host has.
    #[must_use]
    pub fn command(self, dir: &Path) -> Command {
        let mut command = Command::new(self.0);
        // A baseline of this host must not colour a verdict.
        command.current_dir(dir).env("XDG_STATE_HOME", dir).stdin(Stdio::null());
        VARIABLES.iter().for_each(|name| {
            command.env_remove(name);
        });
        command
    }

    /// Runs `tokclock`, with the words of `line` and then `more` as its arguments.
    #[must_use]
    pub fn run(self, dir: &Path, line: &str, more: &[&str]) -> Output {
        self.command(dir).args(line.split_whitespace()).args(more).output().unwrap()
    }

    /// Starts `tokclock`, with the words of `line` and then `more` as its arguments.
    #[must_use]
    pub fn start(self, dir: &Path, line: &str, more: &[&str]) -> Started {
        let mut command = self.command(dir);
        command.args(line.split_whitespace()).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Started(Some(command.spawn().unwrap()))
    }

    /// Starts `tokclock sim` with the words of `options`, its truth log in `dir`.
    #[must_use]
    pub fn sim(self, dir: &Path, options: &str) -> SimProcess {
        let truth = dir.join("truth.jsonl");
        let mut command = self.command(dir);
        command.arg("sim").args(options.split_whitespace()).arg("--truth").arg(&truth);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let _ = BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().next().unwrap_or_default().to_owned();
        assert!(url.starts_with("http://"), "the simulator said {line:?}");
        SimProcess { process: Started(Some(child)), url, truth }
    }
}

/// A process of a test's own; it does not outlive the test.
pub struct Started(Option<Child>);

impl Started {
    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        let child = self.0.as_ref().unwrap();
        // SAFETY: a plain system call on a child of ours that was not waited for.
        assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits for its end. One that does not end within a minute is killed.
    #[must_use]
    pub fn end(mut self) -> Output {
        let begun = monotonic_ns();
        while !self.has_ended() {
            if monotonic_ns() - begun > 60_000 * MS {
                self.signal(libc::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A simulated server in a process of its own.
pub struct SimProcess {
    process: Started,
    url: String,
    truth: PathBuf,
}

impl SimProcess {
    /// Where it listens, as a URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port it listens at.
    #[must_use]
    pub fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap()
    }

    /// Nothing of it runs until [`Self::wake`].
    pub fn freeze(&self) {
        self.process.signal(libc::SIGSTOP);
    }

    /// It goes on.
    pub fn wake(&self) {
        self.process.signal(libc::SIGCONT);
    }

    /// Kills it: it is gone without a word.
    pub fn kill(self) {
        drop(self.process);
    }

    /// Ends it in order; what it has seen.
    #[must_use]
    pub fn stop(self) -> Vec<Truth> {
        self.process.signal(libc::SIGINT);
        let _ = self.process.end();
        let text = std::fs::read_to_string(&self.truth).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Lets one of the tests of a file run at a time: several loads at once would blur each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    // Another test's failure is its own.
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a command said on stderr.
#[must_use]
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// It ended with this code.
#[track_caller]
pub fn exits_with(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
}

/// It ended with this code and one line about it on stderr, with these words and none of Rust.
#[track_caller]
pub fn one_clear_line(output: &Output, code: i32, words: &[&str]) {
    exits_with(output, code);
    let text = stderr(output);
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("error: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    for word in words {
        assert!(errors[0].contains(word), "no {word:?} in {text}");
    }
    assert!(!text.contains("panicked") && !text.contains("Os {"), "{text}");
}

/// A JSON file.
#[must_use]
#[track_caller]
pub fn json<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in a directory, sorted; none if it is not there.
#[must_use]
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until `is_there`, half a minute at most.
#[track_caller]
pub fn wait_until(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = monotonic_ns();
    while !is_there() {
        assert!(monotonic_ns() - begun < 30_000 * MS, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Finished requests in a result directory so far.
#[must_use]
pub fn finished(dir: &Path) -> usize {
    let text = std::fs::read(dir.join("requests.jsonl")).unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count()
}
