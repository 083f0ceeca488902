//! Synthetic prompts of an exact number of tokens, and the tokenizers that count.
//!
//! A prompt is plain lower-case words with one space between. Every word of the list is one
//! token with and without a space before it, in each embedded tokenizer, and their
//! pre-tokenizers cut before each space: n words are n tokens, whichever tokenizer counts. So
//! no tokenizer is needed (or loaded) to write a prompt, and a seed means the same text under
//! all of them. Nothing in a prompt needs escaping in JSON.

use std::sync::LazyLock;

use rand::Rng;
use tiktoken::CoreBpe;

use super::random::{Purpose, Streams, mix};
use crate::workload::Tokenizer;

/// Tokens of `text` by `tokenizer`, special tokens taken as plain text. The first call for a
/// tokenizer loads it, which takes a fraction of a second.
#[must_use]
pub fn count(tokenizer: Tokenizer, text: &str) -> u64 {
    encoding(tokenizer).count(text) as u64
}

fn encoding(tokenizer: Tokenizer) -> &'static CoreBpe {
    static O200K_BASE: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::o200k_base);
    static CL100K_BASE: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::cl100k_base);
    static QWEN2: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::qwen2);
    match tokenizer {
        Tokenizer::O200kBase => &O200K_BASE,
        Tokenizer::Cl100kBase => &CL100K_BASE,
        Tokenizer::Qwen2 => &QWEN2,
    }
}

/// The prompts of one seed. Prompt *i* depends on (seed, *i*) and its length alone.
#[derive(Debug, Clone, Copy)]
pub struct Prompts {
    streams: Streams,
    head_key: u64,
}

impl Prompts {
    /// The prompts of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let streams = Streams::new(seed, Purpose::Prompt);
        Self { streams, head_key: mix(streams.key(u64::MAX)) }
    }

    /// Appends prompt `index`, of exactly `tokens` tokens.
    ///
    /// The first four words spell the index, scrambled, in digits of 11 bits: prompts of four
    /// tokens or more differ within those four for all indices below 2^44, so a prefix
    /// cache finds three words of one in another at most. Prompts of 1, 2 and 3 tokens repeat after 2^11, 2^22 and
    /// 2^33 of them.
    pub fn write(&self, index: u64, tokens: u32, out: &mut Vec<u8>) {
        let start = out.len();
        let head_tokens = tokens.min(HEAD_TOKENS_MAX);
        let mut digits = scramble(index, head_tokens * WORD_BITS, self.head_key);
        for position in 0..head_tokens {
            push_word(digits, out);
            digits >>= WORD_BITS;
            if position == 0 {
                out.remove(start); // words are stored with the space before them
            }
        }
        let mut stream = self.streams.at(index);
        let mut left = tokens - head_tokens;
        while left > 0 {
            let mut draw = stream.next_u64();
            let words = left.min(WORDS_PER_DRAW);
            for _ in 0..words {
                push_word(draw, out);
                draw >>= WORD_BITS;
            }
            left -= words;
        }
    }
}

/// Most bytes that one token of a prompt takes.
pub const TOKEN_BYTES_MAX: usize = WORD_BYTES - 1;

const WORDS: &str = include_str!("words.txt");
const WORD_BITS: u32 = 11;
const WORD_COUNT: usize = 1 << WORD_BITS;
const WORDS_PER_DRAW: u32 = u64::BITS / WORD_BITS;
const HEAD_TOKENS_MAX: u32 = 4;
/// Bytes of a word's entry: a space, the letters, zeros, and in the last byte the length.
const WORD_BYTES: usize = 16;

type Word = [u8; WORD_BYTES];

static LEXICON: [Word; WORD_COUNT] = lexicon(WORDS.as_bytes());

/// Appends the word whose number is in the lowest bits of `bits`, with the space before it.
#[inline]
fn push_word(bits: u64, out: &mut Vec<u8>) {
    let word = &LEXICON[(bits as usize) & (WORD_COUNT - 1)];
    // A copy of fixed size and a cut are cheaper than a copy of the length itself.
    let end = out.len() + usize::from(word[WORD_BYTES - 1]);
    out.extend_from_slice(word);
    out.truncate(end);
}

/// A permutation of the numbers of `bits` bits, different for every key; higher bits of `value`
/// are ignored. Each step (xor, odd product, right shift xored in) is one to one.
const fn scramble(value: u64, bits: u32, key: u64) -> u64 {
    if bits == 0 {
        return 0;
    }
    let mask = (1 << bits) - 1;
    let mut value = value & mask;
    let mut round = 0;
    while round < 3 {
        let round_key = mix(key.wrapping_add(round));
        value = (value ^ round_key) & mask;
        value = value.wrapping_mul(round_key | 1) & mask;
        value ^= value >> (bits / 2 + 1);
        round += 1;
    }
    value
}

/// Splits the list at its white space; refuses, when compiled, a list of another size or a word
/// that does not fit.
#[expect(clippy::large_stack_arrays, reason = "only the compiler runs it")]
const fn lexicon(text: &[u8]) -> [Word; WORD_COUNT] {
    let mut words = [[0; WORD_BYTES]; WORD_COUNT];
    let (mut word, mut at) = (0, 0);
    while at < text.len() {
        if text[at].is_ascii_lowercase() {
            words[word][0] = b' ';
            let mut length = 1;
            while at < text.len() && text[at].is_ascii_lowercase() {
                words[word][length] = text[at];
                length += 1;
                at += 1;
            }
            assert!(length < WORD_BYTES, "the word is too long");
            words[word][WORD_BYTES - 1] = length as u8;
            word += 1;
        } else {
            assert!(text[at].is_ascii_whitespace(), "a word has lower-case letters only");
            at += 1;
        }
    }
    assert!(word == WORD_COUNT, "the list must have 2048 words");
    words
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const ALL: [Tokenizer; 3] = [Tokenizer::O200kBase, Tokenizer::Cl100kBase, Tokenizer::Qwen2];

    fn prompt(seed: u64, index: u64, tokens: u32) -> String {
        let mut out = Vec::new();
        Prompts::new(seed).write(index, tokens, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_word_is_one_token_anywhere_in_a_prompt() {
        let words: HashSet<&str> = WORDS.split_whitespace().collect();
        assert_eq!(words.len(), WORD_COUNT, "no word twice");
        for tokenizer in ALL {
            for word in &words {
                assert_eq!(count(tokenizer, word), 1, "{tokenizer:?} {word}");
                assert_eq!(count(tokenizer, &format!(" {word}")), 1, "{tokenizer:?} {word}");
            }
        }
    }

    #[test]
    fn words_do_not_merge_over_the_space_between() {
        let pairs = WORDS.split_whitespace().zip(WORDS.split_whitespace().rev());
        for (first, second) in pairs {
            let text = format!("{first} {second} {first}");
            assert!(ALL.iter().all(|tokenizer| count(*tokenizer, &text) == 3), "{text}");
        }
    }

    #[test]
    fn long_prompts_are_exact_too() {
        for tokenizer in ALL {
            assert_eq!(count(tokenizer, &prompt(1, 2, 100_000)), 100_000);
        }
    }

    #[test]
    fn ten_thousand_prompts_differ_within_their_first_tokens() {
        for (tokens, distinct) in [(1, 2_048), (2, 10_000), (4, 10_000), (16, 10_000)] {
            let heads: HashSet<String> = (0..10_000).map(|i| prompt(3, i, tokens)).collect();
            assert_eq!(heads.len(), distinct, "{tokens} tokens");
        }
    }

    #[test]
    fn the_scramble_is_one_to_one_and_moves_with_the_key() {
        for key in 0..4 {
            let images: HashSet<u64> = (0..2_048).map(|value| scramble(value, 11, key)).collect();
            assert_eq!(images.len(), 2_048);
            assert!(images.iter().all(|image| *image < 2_048));
        }
        assert_ne!(scramble(1, 44, 1), scramble(1, 44, 2));
        assert_eq!(scramble(5, 0, 1), 0);
    }

    #[test]
    fn the_first_word_is_spread_over_the_list() {
        // 20,480 prompts over 2,048 words: ten each; a Poisson count above 40 has p < 1e-12.
        let mut counts = std::collections::HashMap::new();
        for index in 0..20_480 {
            *counts
                .entry(prompt(9, index, 4).split(' ').next().unwrap().to_owned())
                .or_insert(0) += 1;
        }
        assert!(counts.len() > 2_000, "{}", counts.len());
        assert!(counts.values().all(|count| *count < 40));
    }

    #[test]
    fn the_prompts_are_the_ones_that_were_published() {
        assert_eq!(prompt(42, 0, 7), "social five special corner work center food");
        assert_eq!(
            prompt(42, 1_000_000, 12),
            "smart former tour same logic gross color cycle daily exercise day direct"
        );
        assert_eq!(prompt(42, 0, 0), "");
    }

    #[test]
    fn the_list_is_the_one_that_was_published() {
        // Another word, or another order, would change what every seed means.
        let text = WORDS.split_whitespace().collect::<Vec<_>>().join(" ");
        let digest =
            text.bytes().fold(0u64, |digest, byte| mix(digest.wrapping_add(u64::from(byte) + 1)));
        assert_eq!(digest, 8_899_543_551_454_236_712);
    }

    #[test]
    fn answers_are_counted_as_plain_text() {
        for tokenizer in ALL {
            assert_eq!(count(tokenizer, ""), 0);
            assert_eq!(count(tokenizer, "hello world"), 2);
            assert!(count(tokenizer, "<|endoftext|>") > 1);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_prompt_has_exactly_as_many_tokens_as_asked_for(
            seed: u64, index: u64, tokens in 1u32..600,
        ) {
            let text = prompt(seed, index, tokens);
            prop_assert!(text.len() <= tokens as usize * TOKEN_BYTES_MAX);
            for tokenizer in ALL {
                prop_assert_eq!(count(tokenizer, &text), u64::from(tokens));
            }
        }

        #[test]
        fn prompts_of_different_indices_differ_in_their_first_four_words(
            seed: u64, one in 0u64..1 << 44, other in 0u64..1 << 44,
        ) {
            prop_assume!(one != other);
            prop_assert_ne!(prompt(seed, one, 4), prompt(seed, other, 4));
        }
    }
}
