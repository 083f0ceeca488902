//! Labels: what a user writes on a result to find it again, `K=V` when typed, a table in a file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serializer};
use tokclock_engine::workload::{REDACTED, names_secret};

use crate::exit::Failure;

/// Labels of one result, at most.
const LABELS_MAX: usize = 64;
/// Characters of a name.
const NAME_MAX: usize = 64;
/// Characters of a value.
const VALUE_MAX: usize = 256;

/// What a label may be in a file.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(super) enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A truth.
    Truth(bool),
}

/// A table, or a list of `K=V`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Table(BTreeMap<String, Value>),
    List(Vec<String>),
}

/// Writes labels as a table.
///
/// # Errors
/// Those of the serializer.
pub(super) fn serialize<S: Serializer>(
    labels: &[String],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(labels.len()))?;
    for label in labels {
        let (name, value) = label.split_once('=').unwrap_or((label, ""));
        map.serialize_entry(name, value)?;
    }
    map.end()
}

/// Reads labels from a table, or from a list of `K=V`.
///
/// # Errors
/// If it is neither.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    let given = Given::deserialize(value).map_err(|_| {
        serde::de::Error::custom("labels are a table of texts, such as [label] with gpu = \"h200\"")
    })?;
    Ok(match given {
        Given::Table(table) => {
            let text = |(name, value): (String, Value)| match value {
                Value::Text(text) => format!("{name}={text}"),
                Value::Whole(number) => format!("{name}={number}"),
                Value::Number(number) => format!("{name}={number}"),
                Value::Truth(truth) => format!("{name}={truth}"),
            };
            table.into_iter().map(text).collect()
        }
        Given::List(list) => list,
    })
}

/// The labels that were typed over those of a file, name by name.
#[must_use]
pub(super) fn merge(typed: Vec<String>, mut file: Vec<String>) -> Vec<String> {
    let name = |label: &str| label.split('=').next().unwrap_or_default().trim().to_owned();
    file.retain(|below| !typed.iter().any(|above| name(above) == name(below)));
    file.extend(typed);
    file
}

/// Reads labels. What a name makes a secret of is left out.
///
/// # Errors
/// A usage error in one line that names a label by its place or name and shows no value.
pub(crate) fn read(labels: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    if labels.len() > LABELS_MAX {
        return Err(Failure::usage(format!("--label: {LABELS_MAX} labels are the most")));
    }
    let mut read = BTreeMap::new();
    for (at, label) in labels.iter().enumerate() {
        let place = at + 1;
        let Some((name, value)) = label.split_once('=') else {
            return Err(Failure::usage(format!(
                "--label number {place} has no `=`: write it as --label name=value"
            )));
        };
        let (name, value) = (name.trim(), value.trim());
        check_name(name, place)?;
        if value.chars().count() > VALUE_MAX || value.chars().any(char::is_control) {
            return Err(Failure::usage(format!(
                "--label `{name}`: its value may have {VALUE_MAX} characters, none of them a control \
                 character"
            )));
        }
        let value = if names_secret(name) { REDACTED } else { value };
        if read.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Failure::usage(format!("--label `{name}` is given twice: keep one")));
        }
    }
    Ok(read)
}

fn check_name(name: &str, place: usize) -> Result<(), Failure> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && name.len() <= NAME_MAX && name.chars().all(fits) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--label number {place}: a name has up to {NAME_MAX} letters, digits, `-`, `_`, `.` and `/`, \
         the first a letter or digit, as in --label gpu=h200"
    )))
}

/// Labels as they are saved.
#[must_use]
pub(crate) fn saved(labels: &BTreeMap<String, String>) -> Vec<String> {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Options;

    fn texts(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|&label| label.to_owned()).collect()
    }

    #[test]
    fn labels_are_sorted_and_secrets_left_out() {
        let labels = read(&texts(&["gpu=h200", "a/b=x=y", "hf_token=s3cret", "tokenizer=qwen2"]));
        let labels = labels.unwrap();
        assert_eq!(
            saved(&labels),
            ["a/b=x=y", "gpu=h200", "hf_token=<redacted>", "tokenizer=qwen2"]
        );
    }

    #[test]
    fn bad_labels_are_told_in_one_line_without_their_value() {
        for (labels, word) in [
            (&["s3cret"][..], "number 1 has no `=`"),
            (&["a=1", "=s3cret"], "number 2: a name has"),
            (&["a b=s3cret"], "a name has"),
            (&["a=s3cret\u{1b}"], "control character"),
            (&["a=s3cret", "a=s3cret"], "`a` is given twice"),
        ] {
            let message = read(&texts(labels)).unwrap_err().message;
            assert!(message.contains(word) && !message.contains("s3cret"), "{message}");
            assert!(!message.contains('\n'));
        }
    }

    #[test]
    fn a_file_has_a_table_of_them_or_a_list() {
        let options =
            Options::parse("seed = 1\n[label]\ngpu = \"h200\"\ntp = 2\nx = true\n").unwrap();
        assert_eq!(options.label, ["gpu=h200", "tp=2", "x=true"]);
        let listed = Options::parse("label = [\"gpu=h200\"]\n").unwrap();
        assert_eq!(listed.label, ["gpu=h200"]);
        let error = Options::parse("label = 5\n").unwrap_err();
        assert!(error.contains("a table of texts"), "{error}");
        let text = toml::to_string(&options).unwrap();
        assert_eq!(Options::parse(&text).unwrap().label, options.label, "{text}");
    }

    #[test]
    fn typed_labels_win_name_by_name() {
        let merged = merge(texts(&["gpu=b200"]), texts(&["gpu=h200", "tp=2"]));
        assert_eq!(merged, ["tp=2", "gpu=b200"]);
    }
}
