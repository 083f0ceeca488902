//! Texts of the built-in words: exact, and the ones that were published.

use std::collections::HashSet;

use proptest::prelude::*;

use super::words::{WORD_COUNT, WORD_TEXT_MAX, WORDS};
use super::*;
use crate::plan::tokens::count;
use crate::workload::Embedded;

fn prompt(seed: u64, index: u64, tokens: u32) -> String {
    text(&Prompts::new(seed), Text::Prompt, index, tokens, true)
}

pub(super) fn text(prompts: &Prompts, of: Text, key: u64, tokens: u32, leads: bool) -> String {
    let mut out = Vec::new();
    prompts.write(of, key, tokens, leads, &mut out);
    String::from_utf8(out).unwrap()
}

pub(super) fn ids(prompts: &Prompts, of: Text, key: u64, tokens: u32) -> Vec<u32> {
    let mut out = b"[".to_vec();
    prompts.write_ids(of, key, tokens, &mut out);
    out.push(b']');
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn every_word_is_one_token_anywhere_in_a_prompt() {
    let words: HashSet<&str> = WORDS.split_whitespace().collect();
    assert_eq!(words.len(), WORD_COUNT, "no word twice");
    for &tokenizer in Embedded::ALL {
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
        assert!(Embedded::ALL.iter().all(|&tokenizer| count(tokenizer, &text) == 3), "{text}");
    }
}

#[test]
fn long_prompts_are_exact_too() {
    for &tokenizer in Embedded::ALL {
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
        *counts.entry(prompt(9, index, 4).split(' ').next().unwrap().to_owned()).or_insert(0) += 1;
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
fn what_does_not_lead_begins_with_a_space_and_adds_up() {
    let prompts = Prompts::new(5);
    for of in Text::ALL {
        let (first, next) = (text(&prompts, of, 1, 9, true), text(&prompts, of, 2, 7, false));
        assert!(next.starts_with(' ') && !first.starts_with(' '));
        assert_eq!(text(&prompts, of, 1, 9, false), format!(" {first}"));
        for &tokenizer in Embedded::ALL {
            assert_eq!(count(tokenizer, &format!("{first}{next}")), 16);
        }
    }
}

#[test]
fn families_have_nothing_in_common() {
    let prompts = Prompts::new(5);
    let texts: HashSet<String> =
        Text::ALL.iter().map(|&of| text(&prompts, of, 3, 4, true)).collect();
    assert_eq!(texts.len(), Text::ALL.len());
}

#[test]
fn a_mark_of_a_few_words_is_unique() {
    let prompts = Prompts::new(8);
    let marks: HashSet<String> =
        (0..10_000).map(|key| text(&prompts, Text::Mark, key, 4, true)).collect();
    assert_eq!(marks.len(), 10_000);
}

#[test]
fn built_in_words_have_no_ids_before_a_tokenizer_is_named() {
    let prompts = Prompts::new(1);
    assert!(prompts.has_text() && !prompts.has_ids());
    assert!(ids(&prompts, Text::Prompt, 0, 5).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_prompt_has_exactly_as_many_tokens_as_asked_for(
        seed: u64, index: u64, tokens in 1u32..600,
    ) {
        let text = prompt(seed, index, tokens);
        prop_assert!(text.len() <= tokens as usize * WORD_TEXT_MAX);
        for &tokenizer in Embedded::ALL {
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

    #[test]
    fn the_shorter_text_of_a_key_is_a_prefix_of_the_longer(
        seed: u64, key: u64, of in 0..Text::ALL.len(), short in 0u32..300, more in 0u32..300,
    ) {
        let of = Text::ALL[of];
        // Prompts shorter than their head are another matter.
        let short = if of == Text::Prompt { short + 4 } else { short };
        let prompts = Prompts::new(seed);
        let long = text(&prompts, of, key, short + more, true);
        prop_assert!(long.starts_with(&text(&prompts, of, key, short, true)));
    }
}
