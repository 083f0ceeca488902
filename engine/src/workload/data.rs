//! Data sets and traces, as the user names them: where from, in which format, what to leave out.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where a data set is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One file, which may be compressed by gzip.
    File(PathBuf),
    /// All files of a folder whose endings are known, in the order of their names.
    Folder(PathBuf),
    /// Standard input.
    Stdin,
    /// A data set of the Hugging Face hub.
    Hub {
        /// `owner/name`.
        repo: String,
        /// The file in it; where there is only one that fits, it need not be named.
        file: Option<String>,
        /// Branch, tag or commit.
        revision: Option<String>,
    },
}

const HUB: &str = "hf:";

/// `-`, `hf:owner/name[@revision][/path/in/repo]`, or a path; a path is a folder if it is one now.
impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        if text == "-" {
            return Ok(Self::Stdin);
        }
        if let Some(hub) = text.strip_prefix(HUB) {
            return Ok(hub_source(hub));
        }
        let path = PathBuf::from(text);
        Ok(if path.is_dir() { Self::Folder(path) } else { Self::File(path) })
    }
}

fn hub_source(text: &str) -> Source {
    let mut parts = text.splitn(3, '/');
    let owner = parts.next().unwrap_or("");
    let name = parts.next();
    let file = parts.next().filter(|file| !file.is_empty()).map(str::to_owned);
    let whole = name.map_or_else(|| owner.to_owned(), |name| format!("{owner}/{name}"));
    match whole.split_once('@') {
        Some((repo, revision)) => {
            Source::Hub { repo: repo.to_owned(), file, revision: Some(revision.to_owned()) }
        }
        None => Source::Hub { repo: whole, file, revision: None },
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) | Self::Folder(path) => Path::display(path).fmt(formatter),
            Self::Stdin => formatter.write_str("-"),
            Self::Hub { repo, file, revision } => {
                write!(formatter, "{HUB}{repo}")?;
                if let Some(revision) = revision {
                    write!(formatter, "@{revision}")?;
                }
                file.iter().try_for_each(|file| write!(formatter, "/{file}"))
            }
        }
    }
}

/// What the lines of a data set mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Found out from the file's ending and its first line.
    Auto,
    /// Our own, which every other is turned into.
    Native,
    /// Plain text, one prompt a line.
    Lines,
    /// Conversations of `from` and `value`.
    ShareGpt,
    /// Bodies of chat requests, or their `messages` alone.
    OpenaiMessages,
    /// vLLM's custom data set: `prompt` and perhaps `output_tokens`.
    VllmCustom,
    /// AIPerf's `single_turn`.
    SingleTurn,
    /// AIPerf's `multi_turn`.
    MultiTurn,
    /// AIPerf's `random_pool`, of one pool.
    RandomPool,
    /// AIPerf's `inputs.json`: sessions of bodies.
    InputsJson,
    /// Bodies, sent as they are.
    RawPayload,
    /// Mooncake traces: times in ms, lengths, blocks of 512 tokens.
    Mooncake,
    /// Traces of Azure's LLM inference: date-times and lengths.
    Azure,
    /// BurstGPT: times in s and lengths.
    BurstGpt,
    /// Traces of Alibaba's Bailian: times in s, lengths, blocks of 16 tokens.
    Bailian,
    /// `timestamp`, `input_length` and `output_length`.
    Lengths,
    /// Columns of usual names, or of names given.
    Columns,
}

/// What a column of a data set may be used as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// The text of the user.
    Prompt,
    /// The system prompt.
    System,
    /// A list of messages.
    Messages,
    /// The answer in the recording.
    Answer,
    /// Length of the prompt, in tokens.
    InputTokens,
    /// Length of the answer, in tokens.
    OutputTokens,
    /// When the request goes.
    Timestamp,
    /// The pause before it.
    Delay,
    /// The conversation it is part of.
    Session,
    /// Tools of the model.
    Tools,
    /// Ids of the prompt's blocks.
    HashIds,
    /// The whole body.
    Body,
}

/// What happens when lines cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadLine {
    /// Nothing is sent; the lines are named.
    Fail,
    /// They are left out and counted.
    Skip,
}

/// In which order entries are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they stand, from the first again after the last.
    Sequential,
    /// Each once, in an order by chance; another one in each pass.
    Shuffle,
    /// Drawn by chance, with replacement.
    Sample,
}

/// The unit of times in a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// 1 s.
    Seconds,
    /// 1 ms.
    Milliseconds,
}

impl TimeUnit {
    /// How many decimal places there are down to nanoseconds.
    #[must_use]
    pub const fn places(self) -> u32 {
        match self {
            Self::Seconds => 9,
            Self::Milliseconds => 6,
        }
    }
}

/// A data set, and what of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSpec {
    /// Where it is.
    pub source: Source,
    /// What its lines mean.
    pub format: Format,
    /// Columns used as something, whatever their names are; the first of a field counts.
    pub fields: Vec<(Field, String)>,
    /// What happens when lines cannot be used.
    pub on_bad_line: OnBadLine,
    /// Only the first turn of each conversation is used.
    pub single_turn: bool,
    /// Every line must have a time.
    pub is_trace: bool,
    /// Times are neither needed nor used.
    pub ignore_times: bool,
    /// Tokens of a block of `hash_ids`; else that of the format.
    pub block_size: Option<u32>,
    /// The unit of times; else that of the format.
    pub time_unit: Option<TimeUnit>,
    /// At most so many entries, the first ones.
    pub limit: Option<u64>,
    /// Fewest input tokens of a turn.
    pub min_input: Option<u64>,
    /// Most input tokens of a turn.
    pub max_input: Option<u64>,
    /// Fewest output tokens of a turn.
    pub min_output: Option<u64>,
    /// Most output tokens of a turn.
    pub max_output: Option<u64>,
    /// Tokens that the model's context holds: what does not fit, answer included, is a bad line.
    pub max_context: Option<u64>,
    /// In which order entries are used.
    pub order: Order,
}

impl DataSpec {
    /// All of a source, its format found out, its entries in order.
    #[must_use]
    pub const fn new(source: Source) -> Self {
        Self {
            source,
            format: Format::Auto,
            fields: Vec::new(),
            on_bad_line: OnBadLine::Fail,
            single_turn: false,
            is_trace: false,
            ignore_times: false,
            block_size: None,
            time_unit: None,
            limit: None,
            min_input: None,
            max_input: None,
            min_output: None,
            max_output: None,
            max_context: None,
            order: Order::Sequential,
        }
    }

    /// The name given to a field, where one is.
    #[must_use]
    pub fn named(&self, field: Field) -> Option<&str> {
        self.fields.iter().find(|(named, _)| *named == field).map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_back_from_its_text() {
        let hub = |repo: &str, file: Option<&str>, revision: Option<&str>| Source::Hub {
            repo: repo.into(),
            file: file.map(Into::into),
            revision: revision.map(Into::into),
        };
        for (text, source) in [
            ("-", Source::Stdin),
            ("no/such/file.jsonl", Source::File("no/such/file.jsonl".into())),
            ("hf:owner/name", hub("owner/name", None, None)),
            ("hf:owner/name@v1", hub("owner/name", None, Some("v1"))),
            ("hf:o/n@main/data/a.jsonl", hub("o/n", Some("data/a.jsonl"), Some("main"))),
            ("hf:o/n/a.csv", hub("o/n", Some("a.csv"), None)),
        ] {
            assert_eq!(text.parse(), Ok(source.clone()));
            assert_eq!(source.to_string(), text);
        }
        assert_eq!("/".parse(), Ok(Source::Folder("/".into())));
    }
}
