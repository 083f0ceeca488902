//! Texts in Markdown that stand for nothing but themselves, and tables of them.

use std::fmt::Write as _;

use super::super::text::escape;

/// `text` as it reads: no letter of it is markup, names nobody and links nowhere.
pub(super) fn plain(text: &str) -> String {
    let text = escape(text);
    let mut safe = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => {
                safe.push('\\');
                safe.push(char);
            }
            '#' | '+' | '-' | '=' if safe.is_empty() => {
                safe.push('\\');
                safe.push(char);
            }
            // Else GitHub would notify somebody, or link to an issue.
            '@' => safe.push_str("@<!-- -->"),
            '#' if chars.peek().is_some_and(char::is_ascii_digit) => safe.push_str("#<!-- -->"),
            char => safe.push(char),
        }
    }
    safe
}

/// A text of a stranger in the cell of a table, as code: nothing in it acts.
pub(super) fn code(text: &str) -> String {
    let text = escape(text).replace('|', "\\|");
    if text.trim().is_empty() {
        return String::new();
    }
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A table with cells that are Markdown already; the first column reads from the left, the others
/// are numbers.
pub(super) fn table(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let line = |out: &mut String, cells: &mut dyn Iterator<Item = &str>| {
        for cell in cells {
            let _ = write!(out, "| {cell} ");
        }
        out.push_str("|\n");
    };
    out.push('\n');
    line(out, &mut head.iter().copied());
    let rule = |at: usize| if at == 0 { ":---" } else { "---:" };
    line(out, &mut (0..head.len()).map(rule));
    for row in rows {
        line(out, &mut row.iter().map(String::as_str));
    }
}

/// Sentences as a list, those without a label below the one before.
pub(super) fn list(out: &mut String, sentences: &[(&str, &str)]) {
    let Some(((first, _), _)) = sentences.split_first() else { return };
    out.push('\n');
    for (label, text) in sentences {
        let text = plain(text);
        let _ = match *label {
            "" if first.is_empty() => writeln!(out, "- {text}"),
            "" => writeln!(out, "  - {text}"),
            label => writeln!(out, "- **{}** {text}", plain(label)),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_letter_of_a_text_is_markup() {
        assert_eq!(plain("a|b `c` <img src=x> &amp;"), "a\\|b \\`c\\` &lt;img src=x&gt; &amp;amp;");
        assert_eq!(plain("# no head"), "\\# no head");
        assert_eq!(plain("@octocat see #12"), "@<!-- -->octocat see #<!-- -->12");
        assert_eq!(plain("one\r\ntwo"), "one\\\\r\\\\ntwo");
        assert_eq!(plain("[x](javascript:1) *b*"), "\\[x\\](javascript:1) \\*b\\*");
    }

    #[test]
    fn code_keeps_its_fence_and_its_cell() {
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("`` ` ``"), "``` `` ` `` ```");
        assert_eq!(code("two\nlines"), "`two\\nlines`");
        assert_eq!(code(" "), "");
    }

    proptest! {
        #[test]
        fn a_row_is_one_line_whatever_the_text(text in "\\PC*|[|`\\\\\r\n@<]*") {
            let mut out = String::new();
            table(&mut out, &["a", "b"], &[vec![plain(&text), code(&text)]]);
            prop_assert_eq!(out.lines().count(), 4);
            let row = out.lines().last().unwrap().replace("\\|", "");
            prop_assert_eq!(row.matches('|').count(), 3, "{}", row);
        }
    }
}
