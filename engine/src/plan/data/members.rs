//! The members of a record, whether it is a JSON object or a row of cells, and what they hold.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::stamps::{self, shown};
use crate::plan::INPUT_TOKENS_MAX;
use crate::workload::TimeUnit;

/// Most members of one record.
const MEMBERS_MAX: usize = 4096;

/// A value as it stood in the file.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Of a JSON object.
    Json(Box<RawValue>),
    /// Of a table, which has no types.
    Cell(String),
}

/// The members of a record, in their order. Those that are null or empty cells count as absent.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    list: Vec<(String, Value)>,
    /// Names of those that are null or empty cells.
    blank: Vec<String>,
}

impl Members {
    /// Those of a JSON object.
    ///
    /// # Errors
    /// Why the text is no JSON object.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| fault(&error))
    }

    /// Those of a row.
    pub(super) fn of_row(cells: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut members = Self::default();
        for (name, cell) in cells {
            match cell.trim().is_empty() {
                true => members.blank.push(name),
                false => members.list.push((name, Value::Cell(cell))),
            }
        }
        members
    }

    /// The value of this very name.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.list.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The first of these names that is there in any case, the name as it stands.
    pub(super) fn find(&self, names: &[&str]) -> Option<(&str, &Value)> {
        names.iter().find_map(|name| {
            let found = self.list.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(key, value)| (key.as_str(), value))
        })
    }

    /// Whether there is one of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All but one.
    pub(super) fn without(&self, name: &str) -> Self {
        let mut rest = self.clone();
        rest.list.retain(|(key, _)| key != name);
        rest
    }

    /// The first of these names that is null or an empty cell.
    pub(super) fn blank(&self, names: &[&str]) -> Option<&str> {
        let is_one_of = |blank: &&String| names.iter().any(|name| name.eq_ignore_ascii_case(blank));
        self.blank.iter().find(is_one_of).map(String::as_str)
    }

    /// The names that are there.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| name.as_str())
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.list.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The names for a message: `` `a`, `b` ``.
    pub(super) fn list(&self) -> String {
        const SHOWN: usize = 12;
        let names: Vec<String> = self.names().take(SHOWN).map(shown).collect();
        match self.list.len() {
            0 => "none".to_owned(),
            count if count > SHOWN => format!("{} and {} more", names.join(", "), count - SHOWN),
            _ => names.join(", "),
        }
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Members;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members, M::Error> {
        let mut members = Members::default();
        while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
            if members.list.len() + members.blank.len() == MEMBERS_MAX {
                return Err(M::Error::custom(format!("more than {MEMBERS_MAX} members")));
            }
            if members.has(&name) {
                return Err(M::Error::custom(format!("{} is there twice", shown(&name))));
            }
            match value.get() {
                "null" => members.blank.push(name),
                _ => members.list.push((name, Value::Json(value))),
            }
        }
        Ok(members)
    }
}

impl Value {
    /// A text that is not empty.
    pub(super) fn text(&self) -> Result<String, String> {
        let text = self.any_text()?;
        if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text) }
    }

    /// A text, which may be empty.
    pub(super) fn any_text(&self) -> Result<String, String> {
        match self {
            Self::Cell(cell) => Ok(cell.clone()),
            Self::Json(raw) if raw.get().starts_with('"') => self.json(),
            Self::Json(_) => Err(format!("is {}, not a text", self.kind())),
        }
    }

    /// A name: a text, or a whole number in its digits.
    pub(super) fn name(&self) -> Result<String, String> {
        match self {
            Self::Json(raw) if self.kind() == "a number" => Ok(raw.get().to_owned()),
            _ => self.text(),
        }
    }

    /// A count of tokens, from 1.
    pub(super) fn tokens(&self) -> Result<u32, String> {
        let text = match self {
            Self::Cell(cell) => cell.trim(),
            Self::Json(raw) if self.kind() == "a number" => raw.get(),
            Self::Json(_) => return Err(format!("is {}, not a number", self.kind())),
        };
        let number: f64 = text.parse().unwrap_or(f64::NAN);
        match number {
            _ if !number.is_finite() => Err(format!("is {}, not a count of tokens", shown(text))),
            _ if number <= 0.0 => Err(format!("is {text}: it must be at least 1")),
            _ if number.fract() != 0.0 => Err(format!("is {text}, not a whole number")),
            _ if number > f64::from(INPUT_TOKENS_MAX) => {
                Err(format!("is {}: at most {INPUT_TOKENS_MAX} tokens can be sent", shown(text)))
            }
            // A whole number in range.
            _ => Ok(number as u32),
        }
    }

    /// A time or a pause, in ns.
    pub(super) fn ns(&self, unit: TimeUnit) -> Result<u64, String> {
        let time = match self {
            Self::Cell(cell) => stamps::parse(cell, unit),
            Self::Json(raw) if self.kind() == "a number" => stamps::parse(raw.get(), unit),
            Self::Json(raw) if raw.get().starts_with('"') => {
                stamps::parse(&self.json::<String>()?, unit)
            }
            Self::Json(_) => return Err(format!("is {}, not a time", self.kind())),
        };
        time.map_err(|reason| format!("is not usable: {reason}"))
    }

    /// Any JSON, as it stands; a cell must hold JSON, too.
    pub(super) fn raw(&self) -> Result<Box<RawValue>, String> {
        match self {
            Self::Json(raw) => Ok(raw.clone()),
            Self::Cell(_) => self.json(),
        }
    }

    /// JSON of some type.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, String> {
        let text = match self {
            Self::Json(raw) => raw.get(),
            Self::Cell(cell) => cell,
        };
        serde_json::from_str(text).map_err(|error| format!("is not usable: {}", fault(&error)))
    }

    /// Whether it is nothing that asks for anything: an empty list or text, or `false`.
    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Cell(cell) => matches!(cell.trim(), "" | "[]"),
            Self::Json(raw) => {
                matches!(raw.get(), "\"\"" | "false")
                    || serde_json::from_str::<Vec<Box<RawValue>>>(raw.get())
                        .is_ok_and(|list| list.is_empty())
            }
        }
    }

    /// What it is, for a message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Cell(_) => "a text",
            Self::Json(raw) => match raw.get().as_bytes().first() {
                Some(b'{') => "an object",
                Some(b'[') => "a list",
                Some(b'"') => "a text",
                Some(b't' | b'f') => "true or false",
                Some(b'n') => "null",
                _ => "a number",
            },
        }
    }
}

/// What serde_json says, with its position in a single line. That of a document has lines, too.
pub(super) fn fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line 1 column ") {
        Some(at) => format!("{} (column {})", &text[..at], error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_wrong_kind_is_named() {
        let members =
            Members::parse(r#"{"a":5,"b":"x","c":null,"d":[1],"e":1.5,"f":1e9,"g":true}"#).unwrap();
        let reason = |name: &str| members.get(name).unwrap().tokens().unwrap_err();
        assert_eq!(members.get("a").unwrap().tokens(), Ok(5));
        assert_eq!(members.get("a").unwrap().text().unwrap_err(), "is a number, not a text");
        assert_eq!(reason("b"), "is a text, not a number");
        assert_eq!(reason("d"), "is a list, not a number");
        assert_eq!(reason("e"), "is 1.5, not a whole number");
        assert!(reason("f").contains("at most"));
        assert!(!members.has("c"));
        assert_eq!(members.list(), "`a`, `b`, `d`, `e`, `f`, `g`");
    }

    #[test]
    fn what_is_no_object_says_so() {
        for (text, reason) in [
            ("[1]", "invalid type: sequence, expected an object (column 0)"),
            (r#"{"a":1,"a":2}"#, "`a` is there twice (column 12)"),
            (r#"{"a":NaN}"#, "expected value (column 6)"),
            (r#"{"a":1"#, "EOF while parsing an object (column 6)"),
        ] {
            let found = Members::parse(text).unwrap_err();
            let name = |text: &str| text.split(" (").next().unwrap().to_owned();
            assert_eq!(name(&found), name(reason), "{found}");
        }
    }
}
