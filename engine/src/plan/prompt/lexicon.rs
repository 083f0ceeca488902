//! Words that are one token each, wherever they stand in a text.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::search;
use super::words::{self, BUILT_IN, WORD_BITS, WORD_TEXT_MAX, Word};
use crate::plan::tokens::{TokenizerError, Tokens};

/// The words, or bare token ids, that texts are made of.
#[derive(Debug, Clone)]
pub struct Lexicon {
    source: Source,
}

#[derive(Debug, Clone)]
pub(super) enum Source {
    Words(Words),
    /// `count` ids from `first` on.
    Ids {
        first: u32,
        count: u32,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Words {
    /// 2^`bits` words.
    pub(super) table: Cow<'static, [Word]>,
    bits: u32,
    /// The id of each.
    pub(super) ids: Option<Vec<u32>>,
    /// Whether a space stands before each.
    spaced: bool,
}

/// Fewest ids of a range: fewer could not tell two texts apart.
const IDS_MIN: u32 = 2;

impl Lexicon {
    /// The built-in words, for the embedded tokenizers; their ids are not known.
    #[must_use]
    pub fn built_in() -> Self {
        let table = Cow::Borrowed(BUILT_IN.as_slice());
        let words = Words { table, bits: WORD_BITS, ids: None, spaced: true };
        Self { source: Source::Words(words) }
    }

    /// Words, with their ids, that are one token each under `tokens`: the built-in ones as far
    /// as that is so; else words, else pieces, of the tokenizer's own vocabulary.
    ///
    /// # Errors
    ///
    /// There are too few, or the tokenizer failed.
    pub fn new(tokens: &dyn Tokens) -> Result<Self, LexiconError> {
        let found = search::find(tokens)?;
        let bits = found.words.len().checked_ilog2().unwrap_or(0).min(WORD_BITS);
        let before = if found.spaced { " " } else { "" };
        let kept = found.words.iter().take(1 << bits);
        let table: Option<Vec<Word>> = kept
            .clone()
            .map(|word| words::stored(format!("{before}{}", word.text).as_bytes()))
            .collect();
        let none = || LexiconError::Unfit { name: tokens.name() };
        let table = table.filter(|_| bits > 0).ok_or_else(none)?;
        let ids = Some(kept.map(|word| word.id).collect());
        let words = Words { table: Cow::Owned(table), bits, ids, spaced: found.spaced };
        Ok(Self { source: Source::Words(words) })
    }

    /// The ids of `range`, whatever their texts are.
    ///
    /// # Errors
    ///
    /// There are fewer than two, or 2^32.
    pub fn of_ids(range: RangeInclusive<u32>) -> Result<Self, LexiconError> {
        let (first, last) = range.into_inner();
        let count = last.checked_sub(first).and_then(|ids| ids.checked_add(1));
        let count = count.filter(|&count| count >= IDS_MIN);
        let count = count.ok_or(LexiconError::Range { first, last })?;
        Ok(Self { source: Source::Ids { first, count } })
    }

    /// Whether texts can be written in it.
    #[must_use]
    pub const fn has_text(&self) -> bool {
        matches!(self.source, Source::Words(_))
    }

    /// Whether the ids of its words are known.
    #[must_use]
    pub const fn has_ids(&self) -> bool {
        matches!(self.source, Source::Words(Words { ids: Some(_), .. }) | Source::Ids { .. })
    }

    /// How many different words there are.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.source {
            Source::Words(words) => words.table.len(),
            Source::Ids { count, .. } => *count as usize,
        }
    }

    /// Most bytes that a word takes in a text.
    #[must_use]
    pub const fn token_bytes_max(&self) -> usize {
        WORD_TEXT_MAX
    }

    /// A word that may stand anywhere, without a space; `None` if words stand close together.
    pub(super) fn anchor(&self) -> Option<&str> {
        let Source::Words(words) = &self.source else { return None };
        let first = words.table.first().filter(|_| words.spaced)?;
        let length = usize::from(*first.last()?);
        std::str::from_utf8(first.get(1..length)?).ok()
    }

    pub(super) const fn source(&self) -> &Source {
        &self.source
    }

    pub(super) const fn digits(&self) -> Digits {
        match &self.source {
            Source::Words(words) => Digits::Bits(words.bits),
            Source::Ids { count, .. } => Digits::Range(*count),
        }
    }
}

/// How numbers of words are taken out of 64 bits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Digits {
    /// 2^n words: n bits each, at least 1.
    Bits(u32),
    /// So many words, at least [`IDS_MIN`].
    Range(u32),
}

impl Digits {
    /// How many words one draw of 64 bits is good for.
    pub(super) const fn per_draw(self) -> u32 {
        match self {
            Self::Bits(bits) => u64::BITS / bits,
            Self::Range(_) => 2,
        }
    }

    /// Takes the next word out of a draw.
    #[inline]
    pub(super) const fn cut(self, draw: &mut u64) -> usize {
        match self {
            Self::Bits(_) => self.digit(draw),
            Self::Range(count) => {
                // A share of 2^32: no word is likelier than another by more than count / 2^32.
                let number = ((*draw & 0xFFFF_FFFF) * count as u64) >> 32;
                *draw >>= 32;
                number as usize
            }
        }
    }

    /// Takes the lowest digit off a number.
    #[inline]
    pub(super) const fn digit(self, value: &mut u64) -> usize {
        match self {
            Self::Bits(bits) => {
                let number = *value & ((1 << bits) - 1);
                *value >>= bits;
                number as usize
            }
            Self::Range(count) => {
                let number = *value % count as u64;
                *value /= count as u64;
                number as usize
            }
        }
    }

    /// How many digits a number of `bits` bits has.
    pub(super) const fn spelling(self, bits: u32) -> u32 {
        match self {
            Self::Bits(each) => bits.div_ceil(each),
            Self::Range(count) => {
                let (mut reach, mut digits) = (1u128, 0);
                while reach < 1 << bits {
                    reach *= count as u128;
                    digits += 1;
                }
                digits
            }
        }
    }
}

/// A tokenizer or a range without words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LexiconError {
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// No words that keep their count.
    #[error(
        "tokenizer {name}: it cannot make texts of an exact length: too few words are one token \
         each and stay so side by side; use an embedded tokenizer, or send token ids"
    )]
    Unfit {
        /// The tokenizer.
        name: String,
    },
    /// A range of ids that is none.
    #[error("token ids {first}-{last}: give a first and a larger last id, such as 1000-20000")]
    Range {
        /// First id.
        first: u32,
        /// Last id.
        last: u32,
    },
}
