//! Texts cut from files, and files that no text can be cut from.

use std::collections::HashSet;
use std::fs;

use proptest::prelude::*;

use super::tests::{ids, text};
use super::*;
use crate::plan::tokens::tests::{Served, loaded, of_pairs, of_words};
use crate::plan::tokens::{Tokens, load};
use crate::workload::{Embedded, Tokenizer};

const PROSE: &str = "It was 4:30 p.m. when Dr. O'Neill's re-examination began;\n\n\t\"Why?\" she \
    asked, twice \u{2014} na\u{ef}vely, perhaps. C:\\temp\\x.log held 12,345.67 lines\u{1} of \
    internationalization notes\u{2026} \u{4f60}\u{597d} and \u{1f600}!\r\n";

fn corpus(content: impl AsRef<[u8]>, tokens: &dyn Tokens) -> Result<(Corpus, Lexicon), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    fs::write(&path, content).unwrap();
    let lexicon = Lexicon::new(tokens).unwrap();
    match Corpus::load(&path, tokens, &lexicon) {
        Ok(corpus) => Ok((corpus, lexicon)),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(path.to_str().unwrap()) && !text.contains('\n'), "{text}");
            Err(text)
        }
    }
}

fn cut_from(content: &str, tokens: &dyn Tokens) -> Prompts {
    let (corpus, lexicon) = corpus(content, tokens).unwrap();
    Prompts::with(3, Arc::new(lexicon), Some(Arc::new(corpus)))
}

/// What a JSON string says.
fn said(json: &str) -> String {
    serde_json::from_str(&format!("\"{json}\"")).unwrap()
}

#[test]
fn texts_are_runs_of_the_file_round_and_round() {
    let prompts = cut_from("one two three", &Embedded::O200kBase);
    let runs: HashSet<String> =
        (0..100).map(|key| text(&prompts, Text::Prompt, key, 7, true)).collect();
    let expected = [
        "one two three one two three one",
        "two three one two three one two",
        "three one two three one two three",
    ];
    assert_eq!(runs, expected.map(str::to_owned).into());
}

#[test]
fn marks_and_heads_are_words_of_the_lexicon() {
    let (corpus, lexicon) = corpus("one two three", &Embedded::O200kBase).unwrap();
    let corpus = Arc::new(corpus.with_heads());
    let prompts = Prompts::with(3, Arc::new(lexicon), Some(corpus));
    let plain = Prompts::new(3);
    let own = text(&plain, Text::Prompt, 5, 4, true);
    let cut = text(&prompts, Text::Prompt, 5, 10, true);
    assert!(
        cut.starts_with(&own) && cut.ends_with("three one two three one two")
            || cut.ends_with("one two three")
            || cut.ends_with("two three one"),
        "{cut}"
    );
    assert_eq!(text(&prompts, Text::Mark, 5, 9, true), text(&plain, Text::Mark, 5, 9, true));
    assert!(
        text(&prompts, Text::Block, 5, 3, true)
            .split(' ')
            .all(|word| "one two three".contains(word))
    );
}

#[test]
fn the_shorter_text_is_a_prefix_of_the_longer() {
    let content = include_str!("words.txt").replace("\n", "izations,\n") + "internationalization";
    let prompts = cut_from(&content, &Embedded::O200kBase);
    for key in 0..20 {
        let long = text(&prompts, Text::System, key, 300, false);
        for tokens in 0..300 {
            let short = text(&prompts, Text::System, key, tokens, false);
            assert!(long.starts_with(&short), "{short:?} {long:?}");
        }
    }
}

#[test]
fn bytes_of_a_token_stay_below_the_most() {
    let prompts = cut_from(PROSE, &Embedded::Cl100kBase);
    for key in 0..200 {
        for tokens in [1, 2, 3, 50] {
            let length = text(&prompts, Text::Prompt, key, tokens, false).len();
            assert!(length <= tokens as usize * prompts.token_bytes_max());
        }
    }
}

#[test]
fn scripts_without_spaces_are_cut() {
    let chinese = "\u{4f60}\u{597d}\u{4e16}\u{754c}\u{6211}\u{4eec}".repeat(200);
    let prompts = cut_from(&chinese, &Embedded::Qwen2);
    let text = text(&prompts, Text::Prompt, 1, 300, true);
    assert_eq!(Embedded::Qwen2.count(&text).unwrap(), 300);
}

#[test]
fn a_server_may_count_the_words() {
    let served = Served::new(load(&Tokenizer::O200K, None).unwrap());
    let tokens = load(&Tokenizer::Server, Some(Arc::clone(&served) as _)).unwrap();
    let prompts = cut_from(PROSE, &*tokens);
    let text = said(&text(&prompts, Text::Prompt, 1, 300, true));
    assert_eq!(served.tokens.count(&text).unwrap(), 300);
}

#[test]
fn words_that_depend_on_their_neighbours_are_left_out() {
    let known: Vec<String> = words::WORDS.split_whitespace().take(70).map(str::to_owned).collect();
    let mut json = of_words(known.iter().map(String::as_str).chain(["New", "York", "city"]));
    json["added_tokens"] = serde_json::json!([{"id": 74, "content": "New York",
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": false}]);
    let tokens = loaded(&json);
    assert_eq!(tokens.count("New York city").unwrap(), 2);
    let (corpus, lexicon) = corpus("New York city city New city York", &*tokens).unwrap();
    assert!(corpus.dropped() >= 1 && corpus.len() >= 3, "{corpus:?}");
    let prompts = Prompts::with(1, Arc::new(lexicon), Some(Arc::new(corpus)));
    for key in 0..50 {
        let text = text(&prompts, Text::Prompt, key, 20, true);
        assert_eq!(tokens.count(&text).unwrap(), 20, "{text}");
    }
}

#[test]
fn bad_files_are_named_with_the_place() {
    let tokens = Embedded::O200kBase;
    assert!(corpus("", &tokens).unwrap_err().contains("no words"));
    assert!(corpus(" \n\t ", &tokens).unwrap_err().contains("no words"));
    assert!(corpus(b"abc \xff", &tokens).unwrap_err().contains("byte 4 is not UTF-8"));
    let missing = std::path::Path::new("/no/such/text");
    let error = Corpus::load(missing, &tokens, &Lexicon::built_in()).unwrap_err().to_string();
    assert!(error.contains("/no/such/text") && error.contains("cannot read"), "{error}");
    assert!(Corpus::load(std::path::Path::new("/"), &tokens, &Lexicon::built_in()).is_err());
}

#[test]
fn a_tokenizer_of_pieces_cuts_no_corpus() {
    let tokens = loaded(&of_pairs(&["a", "b", "c", " ", "ab"], &[("a", "b")]));
    assert!(corpus("a b c", &*tokens).unwrap_err().contains("under tokenizer"));
}

#[test]
fn the_lexicon_must_be_of_the_same_tokenizer() {
    let tokens = loaded(&of_pairs(&["a", "b", " "], &[]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    fs::write(&path, "one").unwrap();
    let error = Corpus::load(&path, &*tokens, &Lexicon::built_in()).unwrap_err();
    assert!(matches!(error, CorpusError::Lexicon { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_text_cut_from_any_file_is_exact(
        content in "[ -~\\n\u{e4}\u{4f60}\u{1f600}]{1,300}", key: u64, tokens in 1u32..200,
        leads: bool, of in 0..Text::ALL.len(),
    ) {
        prop_assume!(!content.trim().is_empty());
        let tokenizer = Embedded::O200kBase;
        let lexicon = Arc::new(Lexicon::built_in());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        fs::write(&path, &content).unwrap();
        let corpus = Corpus::load(&path, &tokenizer, &lexicon);
        // Nothing is left where all the words depend on their neighbours.
        prop_assume!(corpus.is_ok());
        let prompts = Prompts::with(key, lexicon, corpus.ok().map(Arc::new));
        let cut = said(&text(&prompts, Text::ALL[of], key, tokens, leads));
        let (before, counted) = if leads { ("", tokens) } else { ("word", tokens + 1) };
        prop_assert_eq!(tokenizer.count(&format!("{before}{cut}")).unwrap(), u64::from(counted));
    }
}

#[test]
fn prose_is_exact_as_text_and_as_ids_and_its_beginnings_agree() {
    let mut uncut = 0;
    for &tokenizer in Embedded::ALL {
        let prompts = cut_from(&PROSE.repeat(3), &tokenizer);
        for key in 0..40 {
            let long = ids(&prompts, Text::Group, key, 200);
            assert_eq!(long.len(), 200);
            for tokens in [1, 2, 5, 33, 120] {
                let cut = said(&text(&prompts, Text::Group, key, tokens, true));
                assert_eq!(tokenizer.count(&cut).unwrap(), u64::from(tokens), "{cut}");
                let short = ids(&prompts, Text::Group, key, tokens);
                assert_eq!(short.len(), tokens as usize);
                // All but what stands for a part of a word.
                let agree = short.iter().zip(&long).take_while(|(one, other)| one == other);
                assert!(agree.count() + 16 >= short.len());
                uncut += u32::from(short != long[..tokens as usize]);
            }
        }
    }
    // Of 600 texts few end within a word that has no end there, such as an emoji.
    assert!(uncut < 60, "{uncut}");
}
