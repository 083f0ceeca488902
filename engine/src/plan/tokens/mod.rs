//! Tokenizers: text to token ids and back, whoever knows how.

mod embedded;
mod file;
mod server;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::hub::{self, HubError};
use crate::workload::Tokenizer;

pub use embedded::count;
pub(super) use file::read_at_most;

/// A tokenizer. No call adds special tokens.
pub trait Tokens: Send + Sync {
    /// The ids of `text`.
    ///
    /// # Errors
    ///
    /// The tokenizer does not take the text, or the server did not answer.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError>;

    /// How many tokens `text` has.
    ///
    /// # Errors
    ///
    /// As [`Self::encode`].
    fn count(&self, text: &str) -> Result<u64, TokenizerError> {
        self.encode(text).map(|ids| ids.len() as u64)
    }

    /// The text of `ids`; `None` where it is not known here, or one of them is a special token
    /// or another that was added to the vocabulary, such as the beginning of a tool call.
    fn decode(&self, ids: &[u32]) -> Option<String>;

    /// How many ids there are; 0 where that is not known here.
    fn ids(&self) -> u32;

    /// What the tokenizer is called in options and results.
    fn name(&self) -> String;

    /// Whether each call asks another host, so that few calls with long texts are better.
    fn is_remote(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tokens({})", self.name())
    }
}

/// The server's own tokenizer, as the caller reaches it.
pub trait Ask: Send + Sync {
    /// The ids of `text`, without special tokens.
    ///
    /// # Errors
    ///
    /// What went wrong, in one line.
    fn tokenize(&self, text: &str) -> Result<Vec<u32>, String>;
}

/// Loads `tokenizer`; `ask` reaches the server, where that is to be asked.
///
/// # Errors
///
/// The tokenizer cannot be had, or is none.
pub fn load(
    tokenizer: &Tokenizer,
    ask: Option<Arc<dyn Ask>>,
) -> Result<Arc<dyn Tokens>, TokenizerError> {
    Ok(match tokenizer {
        Tokenizer::Embedded(embedded) => Arc::new(*embedded),
        Tokenizer::File(path) => Arc::new(file::File::load(path, tokenizer.to_string())?),
        Tokenizer::Hub { repo, revision } => {
            let path = hub::tokenizer_file(repo, revision.as_deref())?;
            Arc::new(file::File::load(&path, tokenizer.to_string())?)
        }
        Tokenizer::Server => Arc::new(server::Server::new(ask.ok_or(TokenizerError::NoServer)?)),
    })
}

/// Counts the tokens of answers, and keeps the first failure: a count that is not known is
/// never 0.
#[derive(Debug)]
pub struct Counter {
    tokens: Arc<dyn Tokens>,
    failure: OnceLock<TokenizerError>,
}

impl Counter {
    /// Counts with `tokens`.
    #[must_use]
    pub const fn new(tokens: Arc<dyn Tokens>) -> Self {
        Self { tokens, failure: OnceLock::new() }
    }

    /// Tokens of `text`; `None` if they could not be counted.
    #[must_use]
    pub fn count(&self, text: &str) -> Option<u64> {
        match self.tokens.count(text) {
            Ok(count) => Some(count),
            Err(error) => {
                // Only the first is kept.
                let _ = self.failure.set(error);
                None
            }
        }
    }

    /// The first failure, if any.
    #[must_use]
    pub fn failure(&self) -> Option<&TokenizerError> {
        self.failure.get()
    }
}

/// A tokenizer that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file is not there or may not be read.
    #[error("tokenizer {}: cannot read it: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// The file holds something else.
    #[error(
        "tokenizer {}: it is not a tokenizer.json that can be used: {reason}",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// What the library said.
        reason: String,
    },
    /// The hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The server's tokenizer without a server.
    #[error(
        "tokenizer `server`: this server's API has no request that counts tokens; name an \
         embedded tokenizer or a tokenizer.json"
    )]
    NoServer,
    /// The server did not answer as it should.
    #[error(
        "tokenizer `server`: {reason}; if the server has no /tokenize, name an embedded \
         tokenizer or a tokenizer.json"
    )]
    Server {
        /// What went wrong.
        reason: String,
    },
    /// A text that the tokenizer does not take.
    #[error("tokenizer {name}: it cannot encode a text: {reason}")]
    Encode {
        /// The tokenizer.
        name: String,
        /// What the library said.
        reason: String,
    },
}

/// `text` on one line, for an error.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod tests;
