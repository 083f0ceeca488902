//! Tokenizers of every kind, the broken ones too. The small ones serve the tests of prompts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};

use super::*;
use crate::workload::Embedded;

/// A tokenizer of whole words, cut at white space; any other word is `<unk>`.
pub(crate) fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    let mut vocabulary = serde_json::Map::new();
    for word in std::iter::once("<unk>").chain(words) {
        vocabulary.insert(word.to_owned(), json!(vocabulary.len()));
    }
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    })
}

/// A tokenizer of byte pairs, which never cuts before it merges; every text begins with `<s>`
/// where special tokens are asked for.
pub(crate) fn of_pairs(tokens: &[&str], merges: &[(&str, &str)]) -> Value {
    let mut vocabulary = serde_json::Map::new();
    for token in std::iter::once(&"<s>").chain(tokens) {
        vocabulary.insert((*token).to_owned(), json!(vocabulary.len()));
    }
    let special = json!({
        "id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true,
    });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special],
        "normalizer": null, "pre_tokenizer": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
            "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "byte_fallback": false, "vocab": vocabulary, "merges": merges},
    })
}

/// Loads what `json` describes, by way of a file.
pub(crate) fn loaded(json: &Value) -> Arc<dyn Tokens> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, json.to_string()).unwrap();
    load(&Tokenizer::File(path), None).unwrap()
}

/// A server that encodes with another tokenizer, and counts how often it was asked.
pub(crate) struct Served {
    pub(crate) tokens: Arc<dyn Tokens>,
    pub(crate) asked: AtomicU64,
}

impl Served {
    pub(crate) fn new(tokens: Arc<dyn Tokens>) -> Arc<Self> {
        Arc::new(Self { tokens, asked: AtomicU64::new(0) })
    }
}

impl Ask for Served {
    fn tokenize(&self, text: &str) -> Result<Vec<u32>, String> {
        self.asked.fetch_add(1, Relaxed);
        self.tokens.encode(text).map_err(|error| error.to_string())
    }
}

#[test]
fn answers_are_counted_as_plain_text() {
    for &tokenizer in Embedded::ALL {
        assert_eq!(count(tokenizer, ""), 0);
        assert_eq!(count(tokenizer, "hello world"), 2);
        assert!(count(tokenizer, "<|endoftext|>") > 1);
    }
}

#[test]
fn every_kind_counts_what_it_encodes_and_decodes_it_again() {
    let words = of_words(["one", "two"]);
    let (text, kinds) = (
        "one two one",
        [
            load(&Tokenizer::O200K, None).unwrap(),
            loaded(&words),
            load(&Tokenizer::Server, Some(Served::new(loaded(&words)))).unwrap(),
        ],
    );
    for tokens in kinds {
        let ids = tokens.encode(text).unwrap();
        assert_eq!((ids.len(), tokens.count(text).unwrap()), (3, 3), "{tokens:?}");
        assert_eq!(tokens.is_remote(), tokens.name() == "server");
        if !tokens.is_remote() {
            assert!(tokens.ids() >= 3);
            assert_eq!(tokens.decode(&ids).as_deref(), Some(text));
        }
    }
}

#[test]
fn no_special_token_is_added() {
    assert_eq!(loaded(&of_pairs(&["a", "b"], &[])).count("ab").unwrap(), 2);
}

#[test]
fn a_limit_in_the_file_does_not_cut_the_count() {
    let mut json = of_words(["one"]);
    json["truncation"] = json!({"direction": "Right", "max_length": 2,
        "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 9}, "direction": "Right",
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"});
    assert_eq!(loaded(&json).count("one one one").unwrap(), 3);
}

#[test]
fn a_bad_file_is_named_with_what_is_wrong() {
    let mut random = of_pairs(&["a"], &[]);
    random["model"]["dropout"] = json!(0.5);
    let folder = tempfile::tempdir().unwrap();
    let error = |path: PathBuf| load(&Tokenizer::File(path), None).unwrap_err().to_string();
    let missing = folder.path().join("tokenizer.json");
    let text = error(missing.clone());
    assert!(text.contains(missing.to_str().unwrap()) && text.contains("cannot read"), "{text}");
    for (name, content) in [
        ("empty", ""),
        ("cut", "{\"version\": "),
        ("other", "[1]"),
        ("model", "{\"model\": {\"type\": \"None\"}}"),
        ("bytes", "\u{0}\u{1}"),
        ("random", &random.to_string()),
    ] {
        let path = folder.path().join(format!("{name}.json"));
        std::fs::write(&path, content).unwrap();
        let text = error(path.clone());
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains("not a tokenizer.json") && !text.contains('\n'), "{text}");
    }
}

#[test]
fn a_file_without_end_is_not_read_on() {
    let error = read_at_most(1 << 16, "/dev/zero".as_ref()).unwrap_err();
    assert!(error.to_string().contains("more than 65536 bytes"), "{error}");
}

#[test]
fn the_server_must_be_there_and_answer() {
    struct Deaf;
    impl Ask for Deaf {
        fn tokenize(&self, _text: &str) -> Result<Vec<u32>, String> {
            Err("POST /tokenize: 404".into())
        }
    }
    assert_eq!(load(&Tokenizer::Server, None).unwrap_err(), TokenizerError::NoServer);
    let tokens = load(&Tokenizer::Server, Some(Arc::new(Deaf))).unwrap();
    let counter = Counter::new(tokens);
    assert_eq!(counter.failure(), None);
    assert_eq!(counter.count("x"), None, "no silent zero");
    assert!(counter.failure().unwrap().to_string().contains("404"));
}

#[test]
fn a_counter_counts() {
    let counter = Counter::new(load(&Tokenizer::O200K, None).unwrap());
    assert_eq!((counter.count("hello world"), counter.failure()), (Some(2), None));
}
