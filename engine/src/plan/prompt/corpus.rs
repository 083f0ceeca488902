//! Texts cut from a file of the user.
//!
//! The file is cut at white space into words, each with its tokens as it follows another word
//! and as it begins a text. Texts are runs of words from a random place, with one space
//! between. A text ends within a word, at one of its tokens, where the whole is too long; if
//! the word has no such end, words of the lexicon fill the text up. Words that do not keep their
//! count beside others are left out.

use std::path::{Path, PathBuf};

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::lexicon::Lexicon;
use super::reading::Reading;
use crate::plan::tokens::{TokenizerError, Tokens, read_at_most};

/// The words of a file, in their order.
#[derive(Debug, Clone, Default)]
pub struct Corpus {
    /// The different words, each as it stands in a JSON string, with a space before it.
    pub(super) bytes: Vec<u8>,
    /// Their ids.
    pub(super) ids: Vec<u32>,
    /// For each id, the bytes of the word up to there; 0 if it cannot end there.
    pub(super) cuts: Vec<u16>,
    pub(super) entries: Vec<Entry>,
    /// The numbers of the words as they follow each other in the file.
    pub(super) text: Vec<u32>,
    heads: bool,
    pub(super) dropped: usize,
    pub(super) token_bytes_max: usize,
}

/// A word, or its first tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    entry: Entry,
    kept: Option<u32>,
}

/// One of the different words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) at: usize,
    pub(super) length: u32,
    pub(super) ids_at: usize,
    /// Tokens behind another word, at least 1.
    pub(super) tokens: u32,
    /// Tokens at the beginning of a text, at least 1.
    pub(super) first: u32,
}

/// Largest file.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Random runs that prove the counts, and their longest.
const RUNS: usize = 64;
const REMOTE_RUNS: usize = 16;
const RUN_WORDS_MAX: u64 = 512;
/// Words that may turn out to break the count of a run.
const BREAKERS_MAX: usize = 256;

impl Corpus {
    /// Reads the file at `path` and counts its words with `tokens`, whose lexicon is `lexicon`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no text or has no words that keep their count.
    pub fn load(path: &Path, tokens: &dyn Tokens, lexicon: &Lexicon) -> Result<Self, CorpusError> {
        let text = read(path)?;
        let anchor = lexicon
            .anchor()
            .ok_or_else(|| CorpusError::Unfit { path: path.to_owned(), name: tokens.name() })?;
        let (mut corpus, words) = Reading::new(tokens, anchor)?.words(&text)?;
        drop(text);
        let proved = corpus.prove(tokens, &words)?;
        if !proved || corpus.text.is_empty() {
            return Err(CorpusError::Unfit { path: path.to_owned(), name: tokens.name() });
        }
        Ok(corpus)
    }

    /// Begins each text with lexicon words that spell its key, so that no two begin alike.
    #[must_use]
    pub const fn with_heads(mut self) -> Self {
        self.heads = true;
        self
    }

    /// Whether texts begin with words that spell their key.
    #[must_use]
    pub const fn has_heads(&self) -> bool {
        self.heads
    }

    /// Words of the file in use, each as often as it stands there.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether there are none; never so once loaded.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// How many different words were left out, since their count depends on what stands beside
    /// them.
    #[must_use]
    pub const fn dropped(&self) -> usize {
        self.dropped
    }

    /// Most bytes that one token takes in a text.
    #[must_use]
    pub const fn token_bytes_max(&self) -> usize {
        self.token_bytes_max
    }

    /// The word, or its beginning, with a space before it, as it stands in a JSON string.
    pub(super) fn text(&self, part: Part) -> &[u8] {
        let cut = part.kept.map(|tokens| self.cuts[part.entry.ids_at + tokens as usize - 1]);
        &self.bytes[part.entry.at..][..cut.map_or(part.entry.length as usize, usize::from)]
    }

    /// Its ids as it follows another word.
    pub(super) fn ids(&self, part: Part) -> &[u32] {
        let tokens = part.kept.unwrap_or(part.entry.tokens);
        &self.ids[part.entry.ids_at..][..tokens as usize]
    }

    /// Calls `put` with the words from the place that `draw` picks, round and round, as far as
    /// they fit into `tokens`; the tokens that are left.
    pub(super) fn fill(
        &self,
        draw: u64,
        tokens: u32,
        mut leads: bool,
        mut put: impl FnMut(Part),
    ) -> u32 {
        let mut left = tokens;
        for entry in self.from(draw) {
            let cost = if leads { entry.first } else { entry.tokens };
            if left == 0 || cost > left {
                let can_end = left > 0 && !leads && self.cuts[entry.ids_at + left as usize - 1] > 0;
                if can_end {
                    put(Part { entry: *entry, kept: Some(left) });
                    left = 0;
                }
                break;
            }
            put(Part { entry: *entry, kept: None });
            left -= cost;
            leads = false;
        }
        left
    }

    /// The words from the place that `draw` picks, round and round.
    fn from(&self, draw: u64) -> impl Iterator<Item = &Entry> {
        let place = (u128::from(draw) * self.text.len() as u128) >> u64::BITS;
        let (before, after) = self.text.split_at(place as usize);
        let once = after.iter().chain(before);
        once.cycle().map(|&word| &self.entries[word as usize])
    }

    /// Tries random runs and leaves out the words that break their counts; whether few enough do.
    fn prove(&mut self, tokens: &dyn Tokens, words: &[String]) -> Result<bool, CorpusError> {
        let runs = if tokens.is_remote() { REMOTE_RUNS } else { RUNS };
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(0);
        let mut breakers = 0;
        for _ in 0..runs {
            let place = stream.next_u64();
            let length = (1 + stream.next_u64() % RUN_WORDS_MAX) as usize;
            while let Some(word) = self.breaker(tokens, words, place, length)? {
                breakers += 1;
                if breakers > BREAKERS_MAX {
                    return Ok(false);
                }
                self.dropped += 1;
                self.text.retain(|&other| other != word);
            }
        }
        Ok(!self.text.is_empty())
    }

    /// The last word of the shortest beginning of a run that has another count than its words
    /// add up to, where the beginning before it has not.
    fn breaker(
        &self,
        tokens: &dyn Tokens,
        words: &[String],
        place: u64,
        length: usize,
    ) -> Result<Option<u32>, CorpusError> {
        let at = ((u128::from(place) * self.text.len() as u128) >> u64::BITS) as usize;
        let (before, after) = self.text.split_at(at);
        let run: Vec<u32> = after.iter().chain(before).take(length).copied().collect();
        let holds = |length: usize| -> Result<bool, CorpusError> {
            let Some((&first, rest)) = run[..length].split_first() else { return Ok(true) };
            let sum: u32 = rest.iter().map(|&word| self.entries[word as usize].tokens).sum();
            let texts: Vec<&str> =
                run[..length].iter().map(|&word| words[word as usize].as_str()).collect();
            let count = tokens.count(&texts.join(" "))?;
            Ok(count == u64::from(self.entries[first as usize].first + sum))
        };
        if holds(run.len())? {
            return Ok(None);
        }
        let (mut good, mut bad) = (0, run.len());
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            if holds(middle)? { good = middle } else { bad = middle }
        }
        Ok(Some(run[bad - 1]))
    }
}

fn read(path: &Path) -> Result<String, CorpusError> {
    let failed = |error: std::io::Error| CorpusError::Read {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let bytes = read_at_most(FILE_BYTES_MAX, path).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|error| CorpusError::Utf8 {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })?;
    if text.trim().is_empty() {
        return Err(CorpusError::Empty { path: path.to_owned() });
    }
    Ok(text)
}

/// A file that no texts can be cut from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// The file is not there or may not be read.
    #[error("corpus {}: cannot read it: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// Nothing but white space.
    #[error("corpus {}: it has no words", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Not a text.
    #[error("corpus {}: byte {at} is not UTF-8; give a plain text in UTF-8", path.display())]
    Utf8 {
        /// The file.
        path: PathBuf,
        /// Offset of the first bad byte, from 0.
        at: usize,
    },
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The lexicon was made for another tokenizer.
    #[error("tokenizer {name}: the words to fill texts up are not one token each")]
    Lexicon {
        /// The tokenizer.
        name: String,
    },
    /// Counts that do not add up.
    #[error(
        "corpus {}: its words do not keep their token counts side by side under tokenizer {name}, \
         so no text of an exact length can be cut from it; use another tokenizer",
        path.display()
    )]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The tokenizer.
        name: String,
    },
}
