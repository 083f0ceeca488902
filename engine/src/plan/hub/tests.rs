//! The cache, and a hub that is not there.

use super::*;

/// A hub that nobody serves, with a cache in `folder`.
fn hub(folder: &Path) -> Hub {
    let endpoint = "http://127.0.0.1:1".to_owned();
    Hub { cache: Cache::new(folder.to_owned()), endpoint, token: None }
}

fn place(kind: RepoType, revision: Option<&str>) -> Place {
    Place::new(kind, "some/thing", revision).unwrap()
}

fn put(folder: &Path, path: &str, content: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn without_a_hub_one_line_says_what_works() {
    let folder = tempfile::tempdir().unwrap();
    let error = hub(folder.path()).file(&place(RepoType::Model, None), TOKENIZER).unwrap_err();
    let text = error.to_string();
    for part in [
        "tokenizer.json of some/thing",
        "127.0.0.1:1",
        "cannot be reached",
        "qwen2",
        "`server`",
        "path of a tokenizer.json",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains('\n'));
    let error = hub(folder.path()).only_file(&place(RepoType::Dataset, None)).unwrap_err();
    assert!(error.to_string().contains("path of a file"), "{error}");
}

#[test]
fn what_was_fetched_before_needs_no_hub() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(root, "models--some--thing/refs/main", "abc\n");
    put(root, "models--some--thing/snapshots/abc/tokenizer.json", "{}");
    put(root, "datasets--some--thing/refs/main", "def");
    put(root, "datasets--some--thing/snapshots/def/data/rows.jsonl", "");
    put(root, "datasets--some--thing/snapshots/def/README.md", "");
    let found = |kind, revision| hub(root).file(&place(kind, revision), TOKENIZER);
    let path = found(RepoType::Model, None).unwrap();
    assert_eq!(path, root.join("models--some--thing/snapshots/abc/tokenizer.json"));
    assert_eq!(found(RepoType::Model, Some("abc")).unwrap(), path, "by its commit");
    assert!(found(RepoType::Model, Some("v2")).is_err());
    let rows = hub(root).only_file(&place(RepoType::Dataset, None)).unwrap();
    assert!(rows.ends_with("def/data/rows.jsonl"), "{}", rows.display());
}

#[test]
fn the_only_file_with_rows_is_taken_and_several_are_listed() {
    let place = place(RepoType::Dataset, None);
    let taken = |names: &[&str]| only(&place, names.iter().map(ToString::to_string).collect());
    assert_eq!(taken(&["README.md", "a/b.csv"]).unwrap(), "a/b.csv");
    assert!(matches!(taken(&["README.md"]), Err(HubError::NoRows { .. })));
    let text = taken(&["b.json", "a.parquet"]).unwrap_err().to_string();
    assert!(text.ends_with("a.parquet, b.json"), "{text}");
    let many: Vec<String> = (0..20).map(|i| format!("{i:02}.csv")).collect();
    assert!(listed(many).ends_with("07.csv and 12 more"));
}

#[test]
fn no_name_leads_out_of_the_cache() {
    for (repo, revision) in [("../x", None), ("a/..", None), ("a", None), ("a/b", Some("../c"))] {
        assert!(tokenizer_file(repo, revision).is_err());
    }
    let folder = tempfile::tempdir().unwrap();
    let error = hub(folder.path()).file(&place(RepoType::Dataset, None), "../x").unwrap_err();
    assert!(matches!(error, HubError::Name { .. }));
}
