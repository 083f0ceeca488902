//! Turns the text of a corpus into words with token counts.

use std::collections::HashMap;

use super::corpus::{Corpus, CorpusError, Entry};
use crate::plan::tokens::{TokenizerError, Tokens};

/// A longer run without white space is cut: some scripts have no spaces.
const WORD_BYTES_MAX: usize = 48;
/// A word with more bytes to a token than this would blow up what is kept free for a request.
const TOKEN_BYTES_MAX: usize = 32;
/// Different words that are looked at where each costs requests.
const REMOTE_WORDS_MAX: usize = 2_000;

/// Reads words with one tokenizer.
pub(super) struct Reading<'a> {
    tokens: &'a dyn Tokens,
    /// A word that is one token anywhere.
    anchor: &'a str,
    /// Its ids at the beginning of a text and behind a word.
    anchor_ids: (u32, u32),
}

impl<'a> Reading<'a> {
    /// Reads with `tokens`, under which `anchor` is one token anywhere.
    pub(super) fn new(tokens: &'a dyn Tokens, anchor: &'a str) -> Result<Self, CorpusError> {
        match tokens.encode(&format!("{anchor} {anchor}"))?.as_slice() {
            &[first, behind] => Ok(Self { tokens, anchor, anchor_ids: (first, behind) }),
            _ => Err(CorpusError::Lexicon { name: tokens.name() }),
        }
    }

    /// The corpus of `text`, not proved yet, and its different words.
    pub(super) fn words(&self, text: &str) -> Result<(Corpus, Vec<String>), TokenizerError> {
        let mut corpus = Corpus::default();
        let mut words = Vec::new();
        // `None`: a word that is left out.
        let mut numbers: HashMap<&str, Option<u32>> = HashMap::new();
        for word in text.split_whitespace().flat_map(pieces) {
            if let Some(number) = numbers.get(word) {
                corpus.text.extend(number);
                continue;
            }
            if self.tokens.is_remote() && numbers.len() == REMOTE_WORDS_MAX {
                break;
            }
            let number = self.add(word, &mut corpus)?;
            match number {
                Some(_) => words.push(word.to_owned()),
                None => corpus.dropped += 1,
            }
            numbers.insert(word, number);
            corpus.text.extend(number);
        }
        Ok((corpus, words))
    }

    /// Adds `word` to the different words of `corpus`; its number, if it keeps its count beside
    /// the anchor.
    fn add(&self, word: &str, corpus: &mut Corpus) -> Result<Option<u32>, TokenizerError> {
        let Some(ids) = self.inside(word)? else { return Ok(None) };
        let begun = self.tokens.encode(&format!("{word} {}", self.anchor))?;
        let first = match begun.as_slice() {
            [first @ .., last] if *last == self.anchor_ids.1 => first.len(),
            _ => return Ok(None),
        };
        let text = escaped(word);
        let fewest = ids.len().min(first);
        if fewest == 0 || text.len().div_ceil(fewest) > TOKEN_BYTES_MAX {
            return Ok(None);
        }
        let cuts = self.cuts(word, &ids)?;
        // The longest beginning of a word may have more bytes to a token than the whole.
        let parts =
            cuts.iter().zip(1..).map(|(&bytes, tokens)| usize::from(bytes).div_ceil(tokens));
        let most = parts.max().unwrap_or(0).max(text.len().div_ceil(fewest));
        corpus.token_bytes_max = corpus.token_bytes_max.max(most);
        corpus.entries.push(Entry {
            at: corpus.bytes.len(),
            length: text.len() as u32,
            ids_at: corpus.ids.len(),
            tokens: ids.len() as u32,
            first: first as u32,
        });
        corpus.bytes.extend_from_slice(text.as_bytes());
        corpus.ids.extend_from_slice(&ids);
        corpus.cuts.extend_from_slice(&cuts);
        corpus.cuts.push(text.len() as u16);
        Ok(u32::try_from(corpus.entries.len() - 1).ok())
    }

    /// The ids of `word` between two words, if those stay what they are.
    fn inside(&self, word: &str) -> Result<Option<Vec<u32>>, TokenizerError> {
        let anchor = self.anchor;
        let ids = self.tokens.encode(&format!("{anchor} {word} {anchor}"))?;
        Ok(match ids.as_slice() {
            [first, ids @ .., last] if (*first, *last) == self.anchor_ids => Some(ids.to_vec()),
            _ => None,
        })
    }

    /// Where `word` may be cut after each of its tokens but the last: bytes of its beginning
    /// in a JSON string, with the space; 0 where no beginning has just these tokens.
    fn cuts(&self, word: &str, ids: &[u32]) -> Result<Vec<u16>, TokenizerError> {
        let mut cuts = vec![0; ids.len() - 1];
        // Each try costs a request there.
        if self.tokens.is_remote() || cuts.is_empty() {
            return Ok(cuts);
        }
        for (end, _) in word.char_indices().skip(1) {
            let Some(part) = self.inside(&word[..end])? else { continue };
            let slot = part.len().checked_sub(1).and_then(|last| cuts.get_mut(last));
            if let Some(slot) = slot.filter(|_| ids.starts_with(&part)) {
                *slot = escaped(&word[..end]).len() as u16;
            }
        }
        Ok(cuts)
    }
}

/// `word` with a space before it, as it stands in a JSON string.
fn escaped(word: &str) -> String {
    // Writing a string as JSON cannot fail.
    let quoted = serde_json::to_string(word).unwrap_or_default();
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    format!(" {}", inside.unwrap_or_default())
}

/// The pieces of `word`, cut where it is too long.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(WORD_BYTES_MAX));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
