//! Texts and JSON for a terminal: short, or whole with a member a line.

use crate::report::text::escape;

/// `text` in one line of at most `width` characters, its own line ends and controls escaped.
pub(super) fn short(text: &str, width: usize) -> String {
    // Escaping makes texts longer, never shorter: more is not looked at.
    let begin: String = text.chars().take(width + 1).collect();
    let line = escape(&begin);
    if line.chars().count() <= width {
        return line;
    }
    let mut cut: String = line.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// JSON with nothing in it that acts on a terminal: such characters stand as their escapes, which mean
/// the same. What stands between its words is left as it is.
pub(super) fn safe(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for letter in json.chars() {
        let mut buffer = [0; 4];
        let alone = letter.encode_utf8(&mut buffer);
        if matches!(letter, '\n' | '\r' | '\t' | '\\') || escape(alone) == *alone {
            out.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// JSON with a member or an item a line, in its own order, its numbers and texts untouched.
pub(super) fn pretty(json: &str) -> String {
    const STEP: usize = 2;
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let mut letters = json.chars().peekable();
    while let Some(letter) = letters.next() {
        if in_text {
            out.push(letter);
            in_text = is_escaped || letter != '"';
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        match letter {
            letter if letter.is_ascii_whitespace() => {}
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(char::is_ascii_whitespace).is_some() {}
                match letters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth * STEP);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth * STEP);
                out.push(letter);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth * STEP);
            }
            ':' => out.push_str(": "),
            _ => {
                in_text = letter == '"';
                out.push(letter);
            }
        }
    }
    out
}

fn line(out: &mut String, indent: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_a_wild_one_escaped() {
        assert_eq!(short("one\ntwo", 20), "one\\ntwo");
        assert_eq!(short("0123456789", 10), "0123456789");
        assert_eq!(short("0123456789a", 10), "012345678…");
        assert_eq!(short("\u{1b}[31m", 20), "\\u{1b}[31m");
        assert_eq!(short(&"\u{1b}".repeat(9), 10).chars().count(), 10);
    }

    #[test]
    fn pretty_json_means_the_same() {
        let json = r#"{"b":[1.0,{"a \"q\", {":1e400}],"e":{},"f":[ ],"t":"\\"}"#;
        let shown = pretty(json);
        assert_eq!(shown.lines().next(), Some("{"));
        assert!(shown.contains("\n  \"b\": [\n    1.0,\n    {\n      \"a \\\"q\\\", {\": 1e400\n"));
        assert!(shown.contains("\"e\": {},\n  \"f\": [],\n  \"t\": \"\\\\\"\n}"), "{shown}");
        assert_eq!(pretty("7"), "7");
    }

    #[test]
    fn safe_json_means_the_same() {
        let json = "{\"a\":\"x\u{202e}y\u{e0001}é\\n\"}";
        let shown = safe(json);
        assert_eq!(shown, "{\"a\":\"x\\u202ey\\udb40\\udc01é\\n\"}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(json), read(&shown));
    }
}
