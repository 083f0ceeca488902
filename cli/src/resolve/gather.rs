//! Reads what a workload needs from files, from the hub or from the server: tokenizers, corpora,
//! recordings.

use std::sync::Arc;

use tokclock_engine::plan::data::{Count, DataReport, DataSet};
use tokclock_engine::plan::prompt::{Corpus, Lexicon, Prompts};
use tokclock_engine::plan::tokens::{self, Ask, Counter, Tokens};
use tokclock_engine::plan::{Materials, hub};
use tokclock_engine::run::Way;
use tokclock_engine::workload::{CacheBust, Class, DataSpec, Format, Source, Text, Tls, Tokenizer};

use super::content::Said;
use super::disagg::Role;
use super::target::Api;
use crate::config::Options;
use crate::exit::Failure;

/// What is to be read, and how the server is reached.
pub(crate) struct Needed<'a> {
    pub(super) said: &'a Said,
    pub(crate) api: &'a Api,
    pub(crate) way: &'a Way,
    pub(crate) tls: &'a Tls,
    pub(crate) role: Option<&'a Role>,
    pub(crate) options: &'a Options,
}

/// What was read.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) materials: Materials,
    pub(crate) facts: Facts,
    /// Remarks for the user.
    pub(crate) notes: Vec<String>,
}

/// What a load depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The recording, where the load is one alone.
    pub(crate) recording: Option<Arc<DataSet>>,
    /// Items are conversations.
    pub(crate) has_sessions: bool,
    /// Turns that they have on average.
    pub(crate) mean_turns: f64,
}

impl Facts {
    /// Entries of the recording, where the load is one alone.
    pub(crate) fn entries(&self) -> Option<u64> {
        self.recording.as_ref().map(|data| data.len())
    }

    /// Whether all of them have times.
    pub(crate) fn has_times(&self) -> bool {
        self.recording.as_ref().is_some_and(|data| data.has_times())
    }
}

impl Needed<'_> {
    /// How texts are written and counted.
    pub(crate) fn text(&self) -> &Text {
        &self.said.text
    }

    /// What is sent.
    pub(crate) fn mix(&self) -> &[Class] {
        &self.said.mix
    }

    /// Whether anything is taken from a recording.
    pub(crate) fn is_recorded(&self) -> bool {
        self.mix().iter().any(|class| class.content.data.is_some())
    }

    /// Whether the server is asked before the load is known.
    pub(crate) fn asks_server(&self) -> bool {
        self.text().tokenizer == Tokenizer::Server
    }
}

/// Reads all of it; `ask` reaches the server's tokenizer, where that is the one; `context` is what
/// the server says of the model's context, in tokens.
///
/// # Errors
/// What cannot be read or used, in one line.
pub(crate) fn gather(
    needed: &Needed<'_>,
    ask: Option<Arc<dyn Ask>>,
    context: Option<u64>,
) -> Result<Gathered, Failure> {
    let (text, mix) = (needed.text(), needed.mix());
    let could_not = |error: &dyn std::fmt::Display| Failure::could_not_run(error.to_string());
    let mut notes = Vec::new();
    let tokens = match (&text.tokenizer, text.tokenizer_chosen) {
        (_, false) => None,
        (tokenizer, true) => Some(tokens::load(tokenizer, ask).map_err(|error| could_not(&error))?),
    };
    let data = recordings(mix, tokens.as_ref(), context, &mut notes)?;
    let prompts = match needs_words(mix, &data) {
        true => prompts(text, tokens.as_ref())?,
        false => None,
    };
    let facts = facts(mix, &data);
    let counts = match text.tokenizer {
        // It would be asked by the cores that send.
        Tokenizer::Server => None,
        _ => tokens,
    };
    Ok(Gathered { materials: Materials { prompts, data, tokens: counts }, facts, notes })
}

/// Whether texts are to be made up: all of a synthetic prompt, or what stands for a recorded one.
fn needs_words(mix: &[Class], data: &[Option<Arc<DataSet>>]) -> bool {
    let lengths_alone = |data: &Arc<DataSet>| {
        matches!(
            data.report().format,
            Format::Native
                | Format::Mooncake
                | Format::Azure
                | Format::BurstGpt
                | Format::Bailian
                | Format::Lengths
                | Format::Columns
        )
    };
    let is_marked = |class: &Class| class.content.cache_bust != CacheBust::None;
    mix.iter().any(|class| class.content.data.is_none() || is_marked(class))
        || data.iter().flatten().any(lengths_alone)
}

/// Writes synthetic prompts under the tokenizer that was chosen; none where any of our own does.
fn prompts(text: &Text, tokens: Option<&Arc<dyn Tokens>>) -> Result<Option<Prompts>, Failure> {
    let could_not = |error: &dyn std::fmt::Display| Failure::could_not_run(error.to_string());
    if let Some((first, last)) = text.ids {
        let lexicon = Lexicon::of_ids(first..=last).map_err(|error| could_not(&error))?;
        return Ok(Some(Prompts::with(0, Arc::new(lexicon), None)));
    }
    let lexicon = match (&text.tokenizer, tokens) {
        (Tokenizer::Embedded(_), None) if text.corpus.is_none() => return Ok(None),
        (_, Some(tokens)) => Lexicon::new(tokens.as_ref()).map_err(|error| could_not(&error))?,
        (tokenizer, None) => {
            let tokens = tokens::load(tokenizer, None).map_err(|error| could_not(&error))?;
            return with_corpus(text, &tokens).map(Some);
        }
    };
    let lexicon = Arc::new(lexicon);
    match (&text.corpus, tokens) {
        (Some(_), Some(tokens)) => with_corpus(text, tokens).map(Some),
        _ => Ok(Some(Prompts::with(0, lexicon, None))),
    }
}

fn with_corpus(text: &Text, tokens: &Arc<dyn Tokens>) -> Result<Prompts, Failure> {
    let could_not = |error: &dyn std::fmt::Display| Failure::could_not_run(error.to_string());
    let lexicon = Arc::new(Lexicon::new(tokens.as_ref()).map_err(|error| could_not(&error))?);
    let corpus = match &text.corpus {
        None => None,
        Some(path) => {
            let corpus = Corpus::load(path, tokens.as_ref(), &lexicon);
            let corpus = corpus.map_err(|error| Failure::usage(format!("--corpus {error}")))?;
            // What prompts share, they share on purpose.
            Some(Arc::new(corpus.with_heads()))
        }
    };
    Ok(Prompts::with(0, lexicon, corpus))
}

/// The recording of each class that has one.
fn recordings(
    mix: &[Class],
    tokens: Option<&Arc<dyn Tokens>>,
    context: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<Arc<DataSet>>>, Failure> {
    let mut read = Vec::new();
    for class in mix {
        let Some(spec) = &class.content.data else {
            read.push(None);
            continue;
        };
        let spec = DataSpec { max_context: spec.max_context.or(context), ..spec.clone() };
        let data = load(&spec, tokens)?;
        if spec.source == Source::Stdin {
            notes.push(
                "standard input cannot be read again: run.toml needs the recording in a file"
                    .to_owned(),
            );
        }
        notes.extend(remarks(&spec.source.to_string(), data.report()));
        read.push(Some(Arc::new(data)));
    }
    Ok(read)
}

/// Reads one recording.
///
/// # Errors
/// What cannot be read, in one line.
pub(crate) fn load(spec: &DataSpec, tokens: Option<&Arc<dyn Tokens>>) -> Result<DataSet, Failure> {
    let counter = tokens.map(|tokens| Counter::new(Arc::clone(tokens)));
    // A count that fails ends it all: what it gives until then is not used.
    let count = |text: &str| counter.as_ref().and_then(|counter| counter.count(text)).unwrap_or(0);
    let count = tokens.map(|_| &count as &Count<'_>);
    let data = DataSet::load(spec, count, &fetch);
    if let Some(failure) = counter.as_ref().and_then(Counter::failure) {
        return Err(Failure::could_not_run(failure.to_string()));
    }
    data.map_err(|error| Failure::usage(error.to_string()))
}

/// Fetches a file of the hub.
pub(crate) fn fetch(
    repo: &str,
    file: Option<&str>,
    revision: Option<&str>,
) -> Result<std::path::PathBuf, String> {
    hub::dataset_file(repo, file, revision).map_err(|error| error.to_string())
}

/// What is worth saying of a recording.
fn remarks(name: &str, report: &DataReport) -> Vec<String> {
    let mut parts = vec![counted(report.entries, "entry", "entries")];
    let others = [
        (report.turns - report.entries, "later turn", "later turns"),
        (report.skipped, "bad line left out", "bad lines left out"),
        (report.filtered, "left out for its length", "left out for their lengths"),
        (report.dropped_turns, "turn left out", "turns left out (--single-turn)"),
    ];
    let others = others.iter().filter(|(count, ..)| *count > 0);
    parts.extend(others.map(|(count, one, more)| counted(*count, one, more)));
    let mut remarks = vec![format!("{name}: {}, read as {}", parts.join(", "), report.format)];
    remarks.extend(report.first_skipped.first().map(|bad| format!("left out: {bad}")));
    remarks.extend(report.notes.iter().cloned());
    remarks
}

fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn facts(mix: &[Class], data: &[Option<Arc<DataSet>>]) -> Facts {
    let recorded = data.iter().flatten().any(|data| data.has_conversations());
    let turns = mix.iter().filter_map(|class| class.content.conversation.turns.as_ref());
    let mean_turns = turns.map(|turns| turns.count.mean()).fold(0.0, f64::max);
    let alone = match data {
        [Some(data)] => Some(data),
        _ => None,
    };
    Facts { recording: alone.cloned(), has_sessions: recorded || mean_turns > 0.0, mean_turns }
}
