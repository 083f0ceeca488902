//! Finds the words that are one token each under a tokenizer, wherever they stand.
//!
//! First words that stand with a space between: the built-in ones, then those of the
//! tokenizer's own vocabulary. A tokenizer with too few of these may still have pieces that
//! stay apart when written side by side. What is found is proved on long random sequences.

use std::collections::{HashMap, HashSet};

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::lexicon::LexiconError;
use super::words::{WORD_COUNT, WORD_TEXT_MAX, WORDS};
use crate::plan::tokens::{TokenizerError, Tokens};

/// What was found, at least two words.
pub(super) struct Found {
    pub(super) words: Vec<Token>,
    /// Whether they stand with a space between.
    pub(super) spaced: bool,
}

/// A word and its id with the space before it.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) id: u32,
}

/// Fewer words than these, and texts would be dull: other words are looked for.
const WORDS_MIN: usize = 64;
/// Enough words where each costs a request.
const REMOTE_WORDS_MAX: usize = 512;
/// How many words are tried with one text.
const GROUP: usize = 64;
/// A tokenizer asked from afar that knows none of so many words knows too few.
const REMOTE_TRIES: usize = 256;
/// Pieces that are kept, and that are tried.
const PIECES_MAX: usize = 64;
const PIECES_TRIED_MAX: usize = 512;
/// Ids whose texts are looked at.
const IDS_MAX: u32 = 1 << 19;
/// Random sequences that prove the words, and their longest.
const SEQUENCES: usize = 64;
const REMOTE_SEQUENCES: usize = 16;
const SEQUENCE_WORDS_MAX: usize = 512;

/// Words that keep their count under `tokens`.
pub(super) fn find(tokens: &dyn Tokens) -> Result<Found, LexiconError> {
    let built_in: Vec<String> = WORDS.split_whitespace().map(str::to_owned).collect();
    let words = spaced_words(tokens, &built_in)?;
    if words.len() >= WORDS_MIN {
        return Ok(Found { words, spaced: true });
    }
    let words = spaced_words(tokens, &own_words(tokens))?;
    if words.len() >= WORDS_MIN {
        return Ok(Found { words, spaced: true });
    }
    let words = pieces(tokens)?;
    if words.len() >= 2 {
        return Ok(Found { words, spaced: false });
    }
    Err(LexiconError::Unfit { name: tokens.name() })
}

/// Those of `candidates` that hold with spaces between, in their order.
fn spaced_words(tokens: &dyn Tokens, candidates: &[String]) -> Result<Vec<Token>, TokenizerError> {
    let limit = if tokens.is_remote() { REMOTE_WORDS_MAX } else { WORD_COUNT };
    let mut inside = Vec::new();
    for (group, words) in candidates.chunks(GROUP).enumerate() {
        // A few more than are needed: some may not do as first words.
        let none_yet = inside.is_empty() && group * GROUP >= REMOTE_TRIES;
        if inside.len() >= limit + limit / 4 || (tokens.is_remote() && none_yet) {
            break;
        }
        single_tokens(tokens, words, &mut inside)?;
    }
    let mut words = without_twins(inside, |word| word.id);
    words = leading(tokens, words, limit)?;
    proved(tokens, words, " ")
}

/// Adds those of `words` that are one token after a space. A group that has as many tokens as
/// words is good as a whole; any other is halved.
fn single_tokens(
    tokens: &dyn Tokens,
    words: &[String],
    good: &mut Vec<Token>,
) -> Result<(), TokenizerError> {
    let Some(first) = words.first() else { return Ok(()) };
    // The first word once more, so that each has a space before it.
    let ids = tokens.encode(&format!("{first} {}", words.join(" ")))?;
    if ids.len() == words.len() + 1 {
        let pairs = words.iter().zip(&ids[1..]);
        good.extend(pairs.map(|(text, &id)| Token { text: text.clone(), id }));
    } else if words.len() > 1 {
        let (left, right) = words.split_at(words.len() / 2);
        single_tokens(tokens, left, good)?;
        single_tokens(tokens, right, good)?;
    }
    Ok(())
}

/// Those of `words` that are one token, and another one than the rest, at the start of a text
/// too; `limit` at most.
fn leading(
    tokens: &dyn Tokens,
    words: Vec<Token>,
    limit: usize,
) -> Result<Vec<Token>, TokenizerError> {
    let Some(anchor) = words.first().cloned() else { return Ok(words) };
    let mut good = Vec::new();
    for word in words {
        if good.len() == limit {
            break;
        }
        let ids = tokens.encode(&format!("{} {}", word.text, anchor.text))?;
        if ids.len() == 2 && ids[1] == anchor.id {
            good.push((word, ids[0]));
        }
    }
    let good = without_twins(good, |word| word.1);
    Ok(good.into_iter().map(|(word, _)| word).collect())
}

/// Drops the words that share an id: it stands for words that the tokenizer does not know.
fn without_twins<T>(words: Vec<T>, id: impl Fn(&T) -> u32) -> Vec<T> {
    let mut seen: HashMap<u32, u32> = HashMap::new();
    for word in &words {
        *seen.entry(id(word)).or_default() += 1;
    }
    words.into_iter().filter(|word| seen.get(&id(word)) == Some(&1)).collect()
}

/// Words out of the tokenizer's own vocabulary.
fn own_words(tokens: &dyn Tokens) -> Vec<String> {
    let mut seen = HashSet::new();
    let texts = (0..tokens.ids().min(IDS_MAX)).filter_map(|id| tokens.decode(&[id]));
    texts
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty() && text.len() < WORD_TEXT_MAX)
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_alphabetic()))
        .filter(|text| seen.insert(text.clone()))
        .take(2 * WORD_COUNT)
        .collect()
}

/// Pieces of the vocabulary that stay apart when written side by side.
fn pieces(tokens: &dyn Tokens) -> Result<Vec<Token>, TokenizerError> {
    let mut kept: Vec<Token> = Vec::new();
    let mut tried = 0;
    for id in 0..tokens.ids().min(IDS_MAX) {
        if kept.len() == PIECES_MAX || tried == PIECES_TRIED_MAX {
            break;
        }
        let Some(text) = tokens.decode(&[id]).filter(|text| is_piece(text)) else { continue };
        if tokens.encode(&text)? != [id] {
            continue;
        }
        tried += 1;
        // Once beside itself, then before and after each of the others.
        let mut trial = format!("{text}{text}");
        for other in &kept {
            trial.push_str(&other.text);
            trial.push_str(&text);
        }
        if tokens.count(&trial)? == 2 + 2 * kept.len() as u64 {
            kept.push(Token { text, id });
        }
    }
    proved(tokens, kept, "")
}

/// Whether `text` can stand anywhere in a JSON string and is left as it is there.
fn is_piece(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !text.is_empty() && text.len() <= WORD_TEXT_MAX && text.bytes().all(is_plain)
}

/// Tries `words` in long random sequences, drops those that break the count, and all of them if
/// that is more than one of eight.
fn proved(
    tokens: &dyn Tokens,
    mut words: Vec<Token>,
    between: &str,
) -> Result<Vec<Token>, TokenizerError> {
    let mut left_to_drop = words.len() / 8;
    let sequences = if tokens.is_remote() { REMOTE_SEQUENCES } else { SEQUENCES };
    let mut stream = Xoshiro256PlusPlus::seed_from_u64(0);
    for _ in 0..sequences {
        if words.len() < 2 {
            break;
        }
        let length = 2 + stream.next_u64() as usize % (SEQUENCE_WORDS_MAX - 1);
        let mut sequence: Vec<usize> =
            (0..length).map(|_| stream.next_u64() as usize % words.len()).collect();
        while let Some(culprit) = culprit(tokens, &words, &sequence, between)? {
            if left_to_drop == 0 {
                return Ok(Vec::new());
            }
            left_to_drop -= 1;
            words.remove(culprit);
            sequence.retain(|&word| word != culprit);
            sequence.iter_mut().filter(|word| **word > culprit).for_each(|word| *word -= 1);
        }
    }
    Ok(words)
}

/// The word that breaks the count of `sequence`, if any: the last of a beginning that has
/// another count than its words, where the beginning without it has not.
fn culprit(
    tokens: &dyn Tokens,
    words: &[Token],
    sequence: &[usize],
    between: &str,
) -> Result<Option<usize>, TokenizerError> {
    let holds = |length: usize| -> Result<bool, TokenizerError> {
        let texts: Vec<&str> =
            sequence[..length].iter().map(|&word| words[word].text.as_str()).collect();
        Ok(tokens.count(&texts.join(between))? == length as u64)
    };
    if holds(sequence.len())? {
        return Ok(None);
    }
    let (mut good, mut bad) = (0, sequence.len());
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if holds(middle)? { good = middle } else { bad = middle }
    }
    Ok(Some(sequence[bad - 1]))
}
