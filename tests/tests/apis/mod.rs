//! The APIs as their servers speak them: an answer of each, streamed and whole, and how it refuses.

pub(crate) mod native;
pub(crate) mod openai;
pub(crate) mod templates;

use serde_json::{Value, json};
use tokclock_engine::record::TokenSource;
use tokclock_engine::workload::{Dialect, Template};

/// What is generated.
pub(crate) const TEXT: &str = "Alpha beta gamma";

/// One API, and a server of it.
pub(crate) struct Api {
    pub(crate) dialect: Dialect,
    pub(crate) template: Option<Template>,
    /// Where streams are asked for, and documents.
    pub(crate) paths: [&'static str; 2],
    /// Where the prompt stands in a body.
    pub(crate) prompt: &'static str,
    /// What else a body says, and where: of a stream.
    pub(crate) says: Vec<(&'static str, Value)>,
    /// Where a body says whether to stream.
    pub(crate) streams: Option<&'static str>,
    /// An answer in events.
    pub(crate) flow: Option<Flow>,
    /// An answer in one piece, and what is read in it.
    pub(crate) whole: (String, Answer),
    /// An error: its status, its body, and what it says.
    pub(crate) refusal: (u16, &'static str, &'static str),
}

/// An answer in events.
pub(crate) struct Flow {
    pub(crate) manner: Manner,
    /// The data of each.
    pub(crate) events: Vec<String>,
    /// The first, the first that is no reasoning, the second and the last that carry output.
    pub(crate) output: [usize; 4],
    /// Which ends the stream; that after the last is the end of the body.
    pub(crate) done: usize,
    /// So many events say nothing of the end.
    pub(crate) endless: usize,
    /// An error as data, and what it says.
    pub(crate) fault: (&'static str, &'static str),
    /// What is read in them.
    pub(crate) answer: Answer,
}

/// What is read in an answer.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) text: &'static str,
    pub(crate) reasoning: Option<&'static str>,
    pub(crate) finish: Option<&'static str>,
    /// Tokens of each output event.
    pub(crate) each: Vec<u32>,
    pub(crate) output: Option<(u64, TokenSource)>,
    pub(crate) input: Option<u64>,
}

impl Answer {
    /// Ended at its length after so many tokens by the server's own count, of 7.
    pub(crate) fn counted(output: u64, each: &[u32]) -> Self {
        Self {
            text: TEXT,
            reasoning: None,
            finish: Some("length"),
            each: each.to_vec(),
            output: Some((output, TokenSource::Usage)),
            input: Some(7),
        }
    }

    /// The same in one piece.
    pub(crate) fn whole(self) -> Self {
        Self { each: Vec::new(), ..self }
    }
}

/// How events stand on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// `data: {..}`.
    Data,
    /// `data:{..}`.
    Tight,
    /// `event: TYPE` before it, which the data says too.
    Typed,
    /// A line.
    Line,
}

impl Manner {
    /// An event with this data.
    pub(crate) fn event(self, data: &str) -> String {
        match self {
            Self::Data => format!("data: {data}\n\n"),
            Self::Tight => format!("data:{data}\n\n"),
            Self::Typed => {
                let known: Value = serde_json::from_str(data).unwrap();
                format!("event: {}\ndata: {data}\n\n", known["type"].as_str().unwrap())
            }
            Self::Line => format!("{data}\n"),
        }
    }

    /// The type of such a body.
    pub(crate) fn content_type(self) -> &'static str {
        if self == Self::Line { "application/x-ndjson" } else { "text/event-stream" }
    }
}

/// The length in the words of OpenAI.
fn forced() -> Vec<(&'static str, Value)> {
    vec![("/max_tokens", json!(8)), ("/min_tokens", json!(8)), ("/ignore_eos", json!(true))]
}

fn texts(data: &[&str]) -> Vec<String> {
    data.iter().map(|&data| data.to_owned()).collect()
}
