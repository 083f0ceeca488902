//! What a server tells of itself, read from its answers and kept small enough to stand in a summary.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::workload::names_secret;

/// Settings that are kept, at most.
const SETTINGS_MAX: usize = 200;
/// Bytes of all of them together, names included.
const BYTES_MAX: usize = 16 << 10;
/// Characters of one text.
const TEXT_MAX: usize = 200;
/// Bytes of a name.
const NAME_MAX: usize = 120;
/// Items of a list.
const ITEMS_MAX: usize = 16;
/// How deep members may lie in each other.
const DEPTH_MAX: usize = 8;
/// Members that say how the server is at the moment, or nothing of it; and its environment, whose
/// texts may hold secrets.
const PASSING: [&str; 6] =
    ["created", "env_vars", "internal_states", "object", "permission", "slots"];

/// What a server tells of itself. All of it is the server's word, and nothing of it is believed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerReport {
    /// What it probably is: `vllm`, `sglang`, `tgi`, `llama.cpp`, `ollama`, `triton`, `tokclock-sim`;
    /// null where nothing says.
    pub kind: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its entry for the model, in its list of models.
    pub model: BTreeMap<String, Value>,
    /// Its settings, as far as it tells them: names of members, joined by dots.
    pub config: BTreeMap<String, Value>,
    /// Header fields that name software or versions.
    pub headers: BTreeMap<String, String>,
}

impl ServerReport {
    /// Takes the header fields of an answer that name software or versions.
    pub fn take_headers(&mut self, fields: &[(String, String)]) {
        for (name, value) in fields {
            let name = name.to_ascii_lowercase();
            let is_version = name.ends_with("-version") && name.len() <= NAME_MAX;
            if name == "server" || name == "x-powered-by" || is_version {
                self.headers.entry(name).or_insert_with(|| short(value));
            }
        }
    }

    /// Takes the entry of a list of models.
    pub fn take_model(&mut self, entry: &Value) {
        flatten(entry, "", DEPTH_MAX, &mut self.model);
    }

    /// Takes a document of settings; what is known already stays.
    pub fn take_config(&mut self, document: &Value) {
        flatten(document, "", DEPTH_MAX, &mut self.config);
    }

    /// The text under one of these names of its settings, as a version.
    pub(crate) fn find_version(&mut self, names: &[&str]) {
        let found = names.iter().find_map(|name| self.config.get(*name)?.as_str());
        if let (None, Some(version)) = (&self.version, found) {
            self.version = Some(version.to_owned());
        }
    }

    /// Whether it told nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Changes every text that the server wrote, names apart.
    pub(crate) fn each_text(&mut self, mut change: impl FnMut(&mut String)) {
        self.version.iter_mut().for_each(&mut change);
        self.headers.values_mut().for_each(&mut change);
        for value in self.model.values_mut().chain(self.config.values_mut()) {
            if let Value::String(text) = value {
                change(text);
            }
        }
    }
}

/// Puts the plain members of a document into `into`, in the order of their names, until it is full.
fn flatten(value: &Value, name: &str, depth: usize, into: &mut BTreeMap<String, Value>) {
    let below = |part: &str| match name {
        "" => part.to_owned(),
        name => format!("{name}.{part}"),
    };
    match value {
        Value::Null => {}
        Value::Object(members) if depth > 0 => {
            for (part, value) in members {
                if !PASSING.contains(&part.as_str()) {
                    flatten(value, &below(part), depth - 1, into);
                }
            }
        }
        Value::Array(items) if depth > 0 => {
            for (at, item) in items.iter().take(ITEMS_MAX).enumerate() {
                flatten(item, &below(&at.to_string()), depth - 1, into);
            }
        }
        Value::Object(_) | Value::Array(_) => {}
        _ if name.is_empty() || name.len() > NAME_MAX || names_secret(name) => {}
        plain => keep(name, plain, into),
    }
}

fn keep(name: &str, plain: &Value, into: &mut BTreeMap<String, Value>) {
    let size = |name: &str, value: &Value| name.len() + value.as_str().map_or(8, str::len);
    let value = match plain {
        Value::String(text) => Value::from(short(text)),
        other => other.clone(),
    };
    let held: usize = into.iter().map(|(name, value)| size(name, value)).sum();
    if into.len() < SETTINGS_MAX && held + size(name, &value) <= BYTES_MAX {
        into.entry(name.to_owned()).or_insert(value);
    }
}

/// A text that is no longer than what is kept of one.
fn short(text: &str) -> String {
    let mut short: String = text.chars().take(TEXT_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_named_by_their_place_and_secrets_are_dropped() {
        let mut report = ServerReport::default();
        report.take_config(&json!({
            "tp_size": 2, "api_key": "sk-1", "hf": {"token": "hf_1", "home": "/x"},
            "max_total_tokens": 4096, "none": null, "sizes": [1, 2], "deep": {"list": [{"a": true}]},
            "internal_states": [{"load": 5}],
        }));
        let kept = serde_json::to_value(&report.config).unwrap();
        assert_eq!(
            kept,
            json!({
                "tp_size": 2, "hf.home": "/x", "max_total_tokens": 4096, "sizes.0": 1, "sizes.1": 2,
                "deep.list.0.a": true,
            })
        );
        report.take_config(&json!({"tp_size": 9, "version": "0.5"}));
        assert_eq!(report.config["tp_size"], 2, "what is known stays");
        report.find_version(&["no", "version"]);
        assert_eq!(report.version.as_deref(), Some("0.5"));
    }

    #[test]
    fn headers_that_name_software_are_kept() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut report = ServerReport::default();
        report.take_headers(&[
            field("Server", "uvicorn"),
            field("X-Engine-Version", "7"),
            field("Set-Cookie", "a=b"),
            field("Date", "today"),
            field("server", "second"),
        ]);
        let kept = serde_json::to_value(&report.headers).unwrap();
        assert_eq!(kept, json!({"server": "uvicorn", "x-engine-version": "7"}));
    }

    #[test]
    fn a_document_without_end_is_cut() {
        let long: String = "x".repeat(5000);
        let many: serde_json::Map<String, Value> =
            (0..5000).map(|at| (format!("setting_{at}"), json!(long))).collect();
        let mut report = ServerReport::default();
        report.take_config(&Value::Object(many));
        assert!(serde_json::to_string(&report.config).unwrap().len() < 2 * BYTES_MAX);
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!({ "a": deep });
        }
        report.take_model(&deep);
        assert!(report.model.is_empty());
    }

    fn documents() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,300}".prop_map(Value::from),
        ];
        plain.prop_recursive(6, 200, 10, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
                prop::collection::btree_map(".{0,20}", inner, 0..20)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_kept_is_plain_and_bounded(document in documents()) {
            let mut report = ServerReport::default();
            report.take_config(&document);
            prop_assert!(report.config.len() <= SETTINGS_MAX);
            for (name, value) in &report.config {
                prop_assert!(!value.is_object() && !value.is_array() && !value.is_null());
                prop_assert!(name.len() <= NAME_MAX);
                prop_assert!(value.as_str().is_none_or(|text| text.chars().count() <= TEXT_MAX + 1));
            }
        }
    }
}
