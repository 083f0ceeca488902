//! Words and ids under tokenizers of every kind.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use super::tests::{ids, text};
use super::words::WORDS;
use super::*;
use crate::plan::tokens::tests::{Served, loaded, of_pairs, of_words};
use crate::plan::tokens::{Tokens, load};
use crate::workload::{Embedded, Tokenizer};

fn prompts(lexicon: Lexicon) -> Prompts {
    Prompts::with(11, Arc::new(lexicon), None)
}

fn is_exact(tokens: &dyn Tokens, prompts: &Prompts) {
    for (key, length) in [(0, 1), (1, 2), (2, 7), (3, 64), (4, 1_000)] {
        for of in Text::ALL {
            let text = text(prompts, of, key, length, true);
            assert_eq!(tokens.count(&text).unwrap(), u64::from(length), "{text}");
            assert_eq!(ids(prompts, of, key, length).len(), length as usize);
        }
    }
}

fn is_prefix_and_unique(prompts: &Prompts, head: u32) {
    for of in Text::ALL {
        let long = text(prompts, of, 1, head + 90, true);
        assert!((head..head + 90).all(|n| long.starts_with(&text(prompts, of, 1, n, true))));
    }
    let heads: HashSet<String> =
        (0..2_000).map(|key| text(prompts, Text::Prompt, key, head, true)).collect();
    assert_eq!(heads.len(), 2_000);
}

#[test]
fn embedded_tokenizers_get_the_built_in_words_with_ids() {
    for &embedded in Embedded::ALL {
        let prompts = prompts(Lexicon::new(&embedded).unwrap());
        assert!(prompts.has_ids());
        let plain = text(&Prompts::new(11), Text::Prompt, 3, 200, true);
        assert_eq!(text(&prompts, Text::Prompt, 3, 200, true), plain);
        let spaced = text(&prompts, Text::Prompt, 3, 200, false);
        assert_eq!(ids(&prompts, Text::Prompt, 3, 200), embedded.encode(&spaced).unwrap());
    }
}

#[test]
fn a_file_gets_those_built_in_words_that_it_knows() {
    let known: Vec<&str> = WORDS.split_whitespace().step_by(7).collect();
    let tokens = loaded(&of_words(known.iter().copied()));
    let lexicon = Lexicon::new(&*tokens).unwrap();
    assert_eq!(lexicon.size(), 256, "of 293, the largest power of two");
    let prompts = prompts(lexicon);
    is_exact(&*tokens, &prompts);
    is_prefix_and_unique(&prompts, 6);
    let ids = ids(&prompts, Text::User, 1, 50);
    assert_eq!(tokens.decode(&ids).unwrap(), text(&prompts, Text::User, 1, 50, true));
    assert!(!ids.contains(&0), "no unknown word");
}

#[test]
fn a_file_without_them_gives_words_of_its_own() {
    let words: Vec<String> = (0..100)
        .map(|i| {
            format!(
                "Zz{}",
                "q".repeat(i % 10 + 1) + ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"][i / 10]
            )
        })
        .collect();
    let tokens = loaded(&of_words(words.iter().map(String::as_str)));
    let lexicon = Lexicon::new(&*tokens).unwrap();
    assert_eq!(lexicon.size(), 64);
    let prompts = prompts(lexicon);
    is_exact(&*tokens, &prompts);
    is_prefix_and_unique(&prompts, 8);
}

#[test]
fn a_toy_gives_pieces_that_stay_apart() {
    let tokens = loaded(&of_pairs(&["a", "b", "c", " ", "ab", "  "], &[("a", "b"), (" ", " ")]));
    let lexicon = Lexicon::new(&*tokens).unwrap();
    assert_eq!(lexicon.size(), 2, "of a, c and ab; b would merge with a");
    let prompts = prompts(lexicon);
    is_exact(&*tokens, &prompts);
    is_prefix_and_unique(&prompts, 44);
}

/// A tokenizer of pieces with likelihoods, whose words begin with `\u{2581}` for a space.
fn of_likelihoods(words: &[&str], splits: bool) -> serde_json::Value {
    let letters = ('a'..='z').map(|letter| (letter.to_string(), -20.0));
    let marked = words.iter().map(|word| (format!("\u{2581}{word}"), -5.0));
    let others = [("<unk>".to_owned(), 0.0), ("\u{2581}".to_owned(), -9.0)];
    let vocabulary: Vec<(String, f64)> = others.into_iter().chain(letters).chain(marked).collect();
    let space = serde_json::json!({"type": "Metaspace", "replacement": "\u{2581}",
        "prepend_scheme": "always", "split": true});
    let rewritten = serde_json::json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u{2581}"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]});
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": if splits { None } else { Some(rewritten) },
        "pre_tokenizer": if splits { Some(&space) } else { None },
        "post_processor": null, "decoder": space,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocabulary},
    })
}

#[test]
fn a_tokenizer_that_marks_spaces_is_exact_whether_it_cuts_there_or_not() {
    let known: Vec<&str> = WORDS.split_whitespace().take(150).collect();
    for splits in [true, false] {
        let tokens = loaded(&of_likelihoods(&known, splits));
        // Without a cut, a space at the start is counted apart.
        assert_eq!(tokens.count(" able").unwrap(), if splits { 1 } else { 2 });
        let lexicon = Lexicon::new(&*tokens).unwrap();
        assert_eq!(lexicon.size(), 128);
        let prompts = prompts(lexicon);
        is_exact(&*tokens, &prompts);
        let both =
            text(&prompts, Text::System, 0, 30, true) + &text(&prompts, Text::User, 0, 12, false);
        assert_eq!(tokens.count(&both).unwrap(), 42);
    }
}

#[test]
fn no_added_token_is_a_piece() {
    let mut json = of_pairs(&["a", "b", "<tool>"], &[]);
    let mut added = json["added_tokens"][0].clone();
    added["content"] = "<tool>".into();
    added["id"] = 3.into();
    added["special"] = false.into();
    json["added_tokens"].as_array_mut().unwrap().push(added);
    let tokens = loaded(&json);
    assert_eq!(tokens.encode("<tool>").unwrap(), [3]);
    let prompts = prompts(Lexicon::new(&*tokens).unwrap());
    assert!(ids(&prompts, Text::Block, 0, 200).iter().all(|id| [1, 2].contains(id)));
}

#[test]
fn a_tokenizer_without_such_words_is_refused() {
    for json in [
        of_words([]),
        of_words(["a"]),
        of_pairs(&["a", "aa"], &[("a", "a")]),
        of_pairs(&["\"", "\\", "\u{e9}"], &[]),
    ] {
        let tokens = loaded(&json);
        let error = Lexicon::new(&*tokens).unwrap_err().to_string();
        assert!(error.contains("exact length") && error.contains("tokenizer.json"), "{error}");
    }
}

#[test]
fn words_that_merge_with_others_are_left_out() {
    let few: Vec<&str> = WORDS.split_whitespace().filter(|word| word.len() == 4).take(98).collect();
    let mut json = of_words(few.iter().copied());
    let merged = format!("{} {}", few[0], few[5]);
    json["added_tokens"] = serde_json::json!([{"id": 99, "content": merged, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true}]);
    let tokens = loaded(&json);
    assert_eq!(tokens.count(&merged).unwrap(), 1);
    let lexicon = Lexicon::new(&*tokens).unwrap();
    assert_eq!(lexicon.size(), 64);
    is_exact(&*tokens, &prompts(lexicon));
}

#[test]
fn a_server_is_asked_for_many_words_at_once() {
    let served = Served::new(load(&Tokenizer::O200K, None).unwrap());
    let tokens = load(&Tokenizer::Server, Some(Arc::clone(&served) as _)).unwrap();
    let lexicon = Lexicon::new(&*tokens).unwrap();
    assert_eq!(lexicon.size(), 512);
    let asked = served.asked.load(Relaxed);
    assert!(asked < 600, "{asked}");
    is_exact(&*served.tokens, &prompts(lexicon));
}

#[test]
fn a_server_that_knows_no_word_is_soon_left_alone() {
    let served = Served::new(loaded(&of_words([])));
    let tokens = load(&Tokenizer::Server, Some(Arc::clone(&served) as _)).unwrap();
    assert!(Lexicon::new(&*tokens).is_err());
    assert!(served.asked.load(Relaxed) < 600);
}

#[test]
fn ids_of_a_range_are_uniform_and_tell_texts_apart() {
    let prompts = prompts(Lexicon::of_ids(1_000..=1_009).unwrap());
    assert!(prompts.has_ids() && !prompts.has_text());
    assert_eq!(text(&prompts, Text::Prompt, 0, 9, true), "");
    let drawn = ids(&prompts, Text::Block, 7, 100_000);
    for id in 1_000..=1_009 {
        // 10,000 of each are expected; six standard deviations are 570.
        let count = drawn.iter().filter(|&&drawn| drawn == id).count();
        assert!(count.abs_diff(10_000) < 570, "{id}: {count}");
    }
    assert_eq!(drawn.len(), 100_000);
    assert!(drawn.iter().all(|id| (1_000..=1_009).contains(id)));
    assert_eq!(ids(&prompts, Text::Block, 7, 40), drawn[..40]);
    let heads: HashSet<Vec<u32>> =
        (0..5_000).map(|key| ids(&prompts, Text::Prompt, key, 14)).collect();
    assert_eq!(heads.len(), 5_000);
}

#[test]
fn a_range_needs_two_ids() {
    for (first, last) in [(5, 4), (5, 5), (0, u32::MAX)] {
        let error = Lexicon::of_ids(first..=last).unwrap_err().to_string();
        assert!(error.starts_with("token ids "), "{error}");
    }
    assert_eq!(
        ids(&prompts(Lexicon::of_ids(0..=u32::MAX - 1).unwrap()), Text::Mark, 1, 3).len(),
        3
    );
}

#[test]
fn equal_block_keys_give_equal_texts_and_no_head_is_shared() {
    let prompts = Prompts::new(4);
    // Equal in the bits that a head would spell.
    let (one, other) = (7, 7 + (1 << 44));
    assert_eq!(
        text(&prompts, Text::Block, one, 8, true),
        text(&prompts, Text::Block, one, 8, true)
    );
    assert_ne!(
        text(&prompts, Text::Block, one, 2, true),
        text(&prompts, Text::Block, other, 2, true)
    );
}
