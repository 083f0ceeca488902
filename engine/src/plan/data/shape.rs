//! How a file is cut into records, from its ending and its first bytes.

use serde::de::IgnoredAny;

use super::fields;
use super::members::Members;
use crate::workload::Format;

/// How a file is cut into records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Each line is a text.
    Text,
    /// Each line is JSON.
    JsonLines,
    /// One JSON list.
    List,
    /// One JSON object with a list as `data`.
    Wrapped,
    /// JSON objects that go over several lines.
    Documents,
    /// A header and rows.
    Table {
        /// What stands between cells.
        delimiter: u8,
    },
}

/// The shape of a file of this ending that begins with `head`.
///
/// # Errors
/// That it is empty, or that there is no telling.
pub(super) fn shape(format: Format, ending: &str, head: &[u8]) -> Result<Shape, String> {
    let line = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let Some(line) = line.into_iter().find(|line| !line.is_empty()) else {
        return Err("it is empty".to_owned());
    };
    let is_table = matches!(ending, "csv" | "tsv");
    match (format, line[0]) {
        (Format::Lines, _) => Ok(Shape::Text),
        (Format::Azure | Format::BurstGpt, _) => Ok(table(ending, line)),
        _ if is_table => Ok(table(ending, line)),
        (_, b'{') if format == Format::Auto && ending == "txt" && !is_whole(line) => {
            Ok(Shape::Text)
        }
        (_, b'{') => Ok(of_objects(format, ending, head, line)),
        (Format::Auto, _) if ending == "txt" => Ok(Shape::Text),
        (_, b'[') => Ok(Shape::List),
        _ if matches!(ending, "json" | "jsonl" | "ndjson") => Ok(Shape::JsonLines),
        _ if format == Format::Auto && !has_known_columns(line) => Err(NEITHER.to_owned()),
        (Format::Auto, _) => Ok(table(ending, line)),
        _ if line.iter().any(|byte| b",;\t".contains(byte)) => Ok(table(ending, line)),
        _ => Err(NEITHER.to_owned()),
    }
}

const NEITHER: &str = "neither JSON nor a table whose header has known names: if each line is a \
                       prompt, say --data-format lines; else --data-format NAME or --field prompt=NAME";

/// Whether a line is a header of which some format can be told.
fn has_known_columns(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let names = line.split([',', ';', '\t']).map(|name| name.trim_matches([' ', '"']).to_owned());
    fields::detect(&Members::of_row(names.map(|name| (name.clone(), name)))).is_ok()
}

fn of_objects(format: Format, ending: &str, head: &[u8], line: &[u8]) -> Shape {
    let names_payloads = |line| {
        let members = std::str::from_utf8(line).ok().and_then(|line| Members::parse(line).ok());
        members.is_some_and(|members| members.has("payloads"))
    };
    match format {
        Format::RawPayload => {}
        Format::InputsJson if !names_payloads(line) => return Shape::Wrapped,
        _ if is_wrapped(head) => return Shape::Wrapped,
        _ => {}
    }
    let goes_on = ending == "json" && !is_whole(line);
    if line == b"{" || goes_on { Shape::Documents } else { Shape::JsonLines }
}

/// Whether the first member of the object is a list called `data`.
fn is_wrapped(head: &[u8]) -> bool {
    let mut rest = head;
    for word in [&b"{"[..], b"\"data\"", b":", b"["] {
        match rest.trim_ascii_start().strip_prefix(word) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

/// Whether a line is JSON by itself. Of a line longer than what was looked at, one must assume so.
fn is_whole(line: &[u8]) -> bool {
    const LONG: usize = 60_000;
    line.len() > LONG || serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

fn table(ending: &str, header: &[u8]) -> Shape {
    let has = |byte: &u8| header.contains(byte);
    let delimiter = match ending {
        "tsv" => b'\t',
        _ => b",;\t".iter().copied().find(has).unwrap_or(b','),
    };
    Shape::Table { delimiter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_told_from_the_beginning() {
        let table = |delimiter| Ok(Shape::Table { delimiter });
        for (ending, head, found) in [
            ("jsonl", "\n{\"prompt\":\"a\"}\n{", Ok(Shape::JsonLines)),
            ("json", "{\"prompt\":\"a\"}\n{", Ok(Shape::JsonLines)),
            ("json", "{\n  \"prompt\": 1}", Ok(Shape::Documents)),
            ("json", "{ \"prompt\":\n 1}", Ok(Shape::Documents)),
            ("jsonl", "{\"prompt\":", Ok(Shape::JsonLines)),
            ("", "{\"data\" : [{", Ok(Shape::Wrapped)),
            ("json", " [\n{", Ok(Shape::List)),
            ("txt", "[x] is a prompt", Ok(Shape::Text)),
            ("csv", "a,b\n", table(b',')),
            ("csv", "a;b\n", table(b';')),
            ("tsv", "a,b\tc\n", table(b'\t')),
            ("", "\"prompt\",b\n", table(b',')),
            ("", "timestamp;input_length;output_length\n", table(b';')),
            ("", "a,b\n", Err(NEITHER.to_owned())),
            ("jsonl", "nonsense", Ok(Shape::JsonLines)),
        ] {
            assert_eq!(shape(Format::Auto, ending, head.as_bytes()), found, "{ending} {head}");
        }
        assert_eq!(shape(Format::Auto, "jsonl", b" \r\n\n"), Err("it is empty".to_owned()));
        assert!(shape(Format::Auto, "", b"hello").unwrap_err().contains("--data-format lines"));
        assert_eq!(shape(Format::Lines, "", b"hello"), Ok(Shape::Text));
    }
}
