//! Saved, found again, and what counts as none.

use super::super::sample;
use super::*;

#[test]
fn what_was_saved_is_found_again_and_the_newest_counts() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("state/tokclock/baseline");
    assert_eq!(newest(&directory, "a-1").unwrap(), None);
    let mut baseline = sample("a-1");
    save(&directory, "a-1", &baseline).unwrap();
    baseline.taken_realtime_ns += 1;
    baseline.ceiling.reads_per_s = Some(250_000.0);
    save(&directory, "a-1", &baseline).unwrap();
    let known = newest(&directory, "a-1").unwrap().unwrap();
    assert_eq!(known.ceiling.reads_per_s, Some(250_000.0));
    assert_eq!(known.ceiling.taken_realtime_ns, baseline.taken_realtime_ns);
    assert_eq!(known.driver, baseline.driver);
    assert_eq!(newest(&directory, "a-2").unwrap(), None, "each host has its own");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing lies beside it");
}

#[test]
fn one_that_cannot_be_written_leaves_the_earlier_one() {
    let root = tempfile::tempdir().unwrap();
    save(root.path(), "a-1", &sample("a-1")).unwrap();
    let before = fs::read(file(root.path(), "a-1")).unwrap();
    // A directory stands where the file beside it would be made.
    let beside = root.path().join(format!("a-1.json.{}", std::process::id()));
    fs::create_dir(&beside).unwrap();
    assert!(save(root.path(), "a-1", &sample("a-1")).is_err());
    assert_eq!(fs::read(file(root.path(), "a-1")).unwrap(), before);
    assert!(newest(root.path(), "a-1").unwrap().is_some());
}

/// What is said of a file with this text.
fn said_of(text: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    fs::write(file(root.path(), "a-1"), text).unwrap();
    let note = newest(root.path(), "a-1").unwrap_err();
    assert!(
        !note.contains('\n') && note.contains("a-1.json") && note.contains("tokclock baseline")
    );
    note
}

#[test]
fn a_file_that_cannot_be_used_is_one_note_and_counts_as_none() {
    let whole = serde_json::to_string(&sample("a-1")).unwrap();
    assert!(said_of("").contains("it is no baseline"));
    assert!(said_of(&whole[..whole.len() / 2]).contains("it is no baseline"));
    let other = whole.replace(SCHEMA, "tokclock.baseline/9");
    assert!(said_of(&other).contains("tokclock.baseline/9"));
    let less = whole.replace("\"driver\"", "\"river\"");
    assert!(said_of(&less).contains("damaged"));
    let foreign = serde_json::to_string(&sample("b-1")).unwrap();
    assert!(said_of(&foreign).contains("another host"));
    let partial = Baseline { complete: false, ..sample("a-1") };
    assert!(said_of(&serde_json::to_string(&partial).unwrap()).contains("interrupted"));
    let mut other = sample("a-1");
    other.tokclock.profile = "other".into();
    assert!(said_of(&serde_json::to_string(&other).unwrap()).contains("a other build"));
}

#[test]
fn the_directory_is_that_of_the_xdg_base_directories() {
    let of = |state: Option<&str>, home: Option<&str>| {
        directory_of(state.map(OsStr::new), home.map(OsStr::new))
    };
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!(of(Some("/s"), Some("/h")), path("/s/tokclock/baseline"));
    assert_eq!(of(None, Some("/h")), path("/h/.local/state/tokclock/baseline"));
    assert_eq!(of(Some("relative"), Some("/h")), path("/h/.local/state/tokclock/baseline"));
    assert_eq!(of(Some(""), Some("")), None);
    assert_eq!(of(None, None), None);
}
