//! The recorded cases of `tests/cases`: faults of servers, clients and tools that were reported in
//! public, each as bytes or records of our own and what must come of them.
//!
//! `cases.jsonl` holds one case a line:
//! - `id`, `title`;
//! - `answers`: `[{file, pieces: [[ms, up to which byte], ...], end: [ms or null, how]}]`, for one
//!   request after the other, and `connection`, for [`Manners`]: what a [`Replay`] needs;
//! - `records`: a file of finished requests, for what is computed from them;
//! - `data`: a file of requests to be sent;
//! - `client`: how the load is set;
//! - `expected`: what must hold. Times are ms since the server had read the whole request, so they
//!   name the pieces of `answers`: a test compares with the moment when that piece really left;
//! - `in_other_dialects`: what is expected of the same answers where another API is spoken, by its name;
//! - `chosen`: which answer is ours where practice differs, and metrics.md decides.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;

use serde_json::Value;
use tokclock_engine::workload::Dialect;

use crate::replay::{End, Manners, Replay, Script};

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name: a letter for the kind, and a number.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// What a server answers, request by request.
    pub scripts: Vec<Script>,
    /// How that server treats its connections.
    pub manners: Manners,
    /// How the load is set; null where it does not matter.
    pub client: Value,
    /// What must hold.
    pub expected: Value,
    in_other_dialects: Value,
    records: Option<String>,
    data: Option<String>,
}

impl Case {
    /// All cases, in the order of the file.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let text = std::fs::read_to_string(folder().join("cases.jsonl")).unwrap();
        text.lines().map(|line| Self::read(&serde_json::from_str(line).unwrap())).collect()
    }

    /// The case called `id`, in any case of letters.
    #[must_use]
    pub fn named(id: &str) -> Self {
        let found = Self::all().into_iter().find(|case| case.id.eq_ignore_ascii_case(id));
        found.unwrap_or_else(|| panic!("no case {id}"))
    }

    fn read(line: &Value) -> Self {
        let idle = &line["connection"]["idle_close_ms"];
        let answers = line["answers"].as_array().into_iter().flatten();
        Self {
            id: text(&line["id"]),
            title: text(&line["title"]),
            scripts: answers.map(script).collect(),
            manners: Manners { idle_close_ms: idle.as_u64(), ..Manners::default() },
            client: line["client"].clone(),
            expected: line["expected"].clone(),
            in_other_dialects: line["in_other_dialects"].clone(),
            records: line["records"].as_str().map(str::to_owned),
            data: line["data"].as_str().map(str::to_owned),
        }
    }

    /// The API that its answers belong to.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        let name = b"text_completion";
        let is_named = |script: &Script| script.bytes.windows(name.len()).any(|at| at == name);
        if self.scripts.iter().any(is_named) {
            Dialect::OpenaiCompletions
        } else {
            Dialect::OpenaiChat
        }
    }

    /// The same, with what must hold where `dialect`, which is not the case's own, is spoken.
    #[must_use]
    pub fn spoken_as(self, dialect: Dialect) -> Self {
        let expected = self.in_other_dialects[dialect.as_str()].clone();
        assert!(expected.is_object(), "{} says nothing of {dialect}", self.id);
        Self { expected, ..self }
    }

    /// A server that answers as the case has it.
    #[must_use]
    pub fn serve(&self) -> Replay {
        Replay::start(self.scripts.clone(), self.manners)
    }

    /// The file of requests to be sent.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        let name = self.data.as_ref().unwrap_or_else(|| panic!("{} has no data", self.id));
        folder().join(name)
    }

    /// The finished requests of the case.
    #[must_use]
    pub fn records(&self) -> Vec<Value> {
        let name = self.records.as_ref().unwrap_or_else(|| panic!("{} has no records", self.id));
        let text = std::fs::read_to_string(folder().join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("cases")
}

fn script(answer: &Value) -> Script {
    let number = |value: &Value| value.as_u64().unwrap();
    let pieces = answer["pieces"].as_array().unwrap().iter();
    Script {
        bytes: std::fs::read(folder().join(text(&answer["file"]))).unwrap(),
        pieces: pieces.map(|piece| (number(&piece[0]), number(&piece[1]) as usize)).collect(),
        end_at: answer["end"][0].as_u64(),
        end: End::named(&text(&answer["end"][1])),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}")).to_owned()
}

/// An answer of `tokens` tokens: the head at once, the first token after `first` ms, each other
/// `gap` ms later, the end with the last.
#[must_use]
pub fn paced(tokens: u64, first: u64, gap: u64) -> Script {
    let mut script = Script::at_once(crate::STREAM_HEAD, 0);
    for number in 0..tokens {
        script.bytes.extend_from_slice(crate::token(&format!(" w{number}")).as_bytes());
        script.pieces.push((first + number * gap, script.bytes.len()));
    }
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;
    let end = crate::event(finish) + &crate::event("[DONE]") + "0\r\n\r\n";
    script.bytes.extend_from_slice(end.as_bytes());
    if let Some(last) = script.pieces.last_mut() {
        last.1 = script.bytes.len();
    }
    script
}
