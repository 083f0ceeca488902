//! Words and numbers on a page of limited width.

use std::fmt::Write as _;

/// Columns of the labels at the left.
const LABEL: usize = 12;
/// What stands for a missing value.
pub(crate) const NONE: &str = "-";

/// How a word is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Doubtful,
    Bad,
}

/// What is said on a page, for who lays it out otherwise than in lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// A label and the text beside it.
    Words {
        /// Empty where it belongs to the one before.
        label: String,
        /// A word before the text, and how it is meant.
        word: Option<(String, Tone)>,
        text: String,
    },
    /// A table.
    Grid { head: Vec<String>, rows: Vec<Vec<String>> },
}

/// Lines of at most so many columns.
pub(crate) struct Page {
    pub(super) width: usize,
    colour: bool,
    out: String,
    said: Option<Vec<Said>>,
}

impl Page {
    pub(crate) fn new(width: usize, colour: bool) -> Self {
        Self { width, colour, out: String::new(), said: None }
    }

    /// What `write` says and tabulates; bare lines and plots are left out.
    pub(crate) fn heard(write: impl FnOnce(&mut Self)) -> Vec<Said> {
        let mut page = Self { said: Some(Vec::new()), ..Self::new(usize::MAX, false) };
        write(&mut page);
        page.said.unwrap_or_default()
    }

    /// Takes what `make` gives, if this page only listens.
    pub(super) fn hears(&mut self, make: impl FnOnce() -> Said) -> bool {
        let Some(said) = &mut self.said else { return false };
        said.push(make());
        true
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// A page that breaks no line, for [`Self::sentences`].
    pub(super) fn endless() -> Self {
        Self::new(usize::MAX, false)
    }

    /// What was said on an endless page: labels, empty where one goes on, and what follows them.
    pub(super) fn sentences(&self) -> Vec<(&str, &str)> {
        let said = self.out.lines().filter(|line| !line.trim().is_empty());
        said.map(|line| line.split_at_checked(LABEL).unwrap_or((line, "")))
            .map(|(label, text)| (label.trim(), text.trim()))
            .collect()
    }

    pub(crate) fn blank(&mut self) {
        self.out.push('\n');
    }

    /// A line that is known to fit.
    pub(crate) fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// A label, and text that is broken between words and stays right of it.
    pub(crate) fn words(&mut self, label: &str, text: &str) {
        let words = || Said::Words { label: label.into(), word: None, text: text.into() };
        if self.hears(words) {
            return;
        }
        for (number, line) in wrap(text, self.width - LABEL).into_iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            let _ = writeln!(self.out, "{label:LABEL$}{line}");
        }
    }

    /// The same with a coloured word before the text.
    pub(crate) fn verdict(&mut self, label: &str, (word, tone): (&str, Tone), text: &str) {
        let word_and_tone = || Some((word.to_owned(), tone));
        let words =
            || Said::Words { label: label.into(), word: word_and_tone(), text: text.into() };
        if self.hears(words) {
            return;
        }
        let lines = wrap(&format!("{word} {text}"), self.width - LABEL);
        for (number, line) in lines.into_iter().enumerate() {
            match line.strip_prefix(word).filter(|_| number == 0) {
                Some(rest) => {
                    let word = self.paint(word, tone);
                    let _ = writeln!(self.out, "{label:LABEL$}{word}{rest}");
                }
                None => {
                    let _ = writeln!(self.out, "{:LABEL$}{line}", "");
                }
            }
        }
    }

    fn paint(&self, word: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Good => 32,
            Tone::Doubtful => 33,
            Tone::Bad => 31,
        };
        if self.colour { format!("\x1b[1;{code}m{word}\x1b[0m") } else { word.into() }
    }
}

/// `text` in lines of at most `width` columns; a word longer than a line is cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if used > 0 && used + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for char in word.chars() {
            if used + cells(char) > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(char);
            used += cells(char);
        }
    }
    lines.push(line);
    lines
}

/// Columns that `text` takes.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// Columns of a character. Above the Hangul letters nearly all scripts and signs that are not
/// narrow are wide; taking a narrow one for wide only breaks a line early.
fn cells(char: char) -> usize {
    if char >= '\u{1100}' && !('\u{2010}'..='\u{22ff}').contains(&char) { 2 } else { 1 }
}

/// `text` without anything that could act on the terminal or turn the order of its letters.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        if acts(char) { safe.extend(char.escape_default()) } else { safe.push(char) }
    }
    safe
}

/// Control characters, and those that are invisible or reorder others.
fn acts(char: char) -> bool {
    const UNSEEN: [std::ops::RangeInclusive<char>; 7] = [
        '\u{ad}'..='\u{ad}',
        '\u{61c}'..='\u{61c}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{206f}',
        '\u{feff}'..='\u{feff}',
        '\u{e0000}'..='\u{e007f}',
    ];
    char.is_control() || UNSEEN.iter().any(|range| range.contains(&char))
}

/// A unit of time, and its ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    ns: f64,
}

impl Unit {
    /// The one in which a value of `ns` reads best.
    pub(super) fn of(ns: f64) -> Self {
        // 999.95 µs would be shown as 1000 µs.
        match ns {
            ns if ns >= 999.95e6 => Self { name: "s", ns: 1e9 },
            ns if ns >= 999.95e3 => Self { name: "ms", ns: 1e6 },
            ns if ns >= 999.95 => Self { name: "µs", ns: 1e3 },
            _ => Self { name: "ns", ns: 1.0 },
        }
    }

    /// `ns` in this unit, without its name.
    pub(super) fn show(self, ns: f64) -> String {
        digits(self.of_ns(ns))
    }

    /// So many of this unit are `ns`.
    pub(super) fn of_ns(self, ns: f64) -> f64 {
        ns / self.ns
    }
}

/// A duration with its unit.
pub(crate) fn duration(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return NONE.into() };
    let unit = Unit::of(ns as f64);
    format!("{} {}", unit.show(ns as f64), unit.name)
}

/// A rate or another plain number.
pub(crate) fn number(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.into(), digits)
}

/// A share as a percentage.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.into(), |share| format!("{} %", digits(share * 100.0)))
}

/// A count with its thousands apart.
pub(crate) fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut spaced = String::new();
    for (place, digit) in plain.chars().enumerate() {
        if place > 0 && (plain.len() - place).is_multiple_of(3) && plain.len() > 4 {
            spaced.push(',');
        }
        spaced.push(digit);
    }
    spaced
}

/// `many` after a count other than 1, else `one`.
pub(crate) fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// About four digits: as many decimals as the size leaves room for; none for 0.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        // What would round up to the next power of ten belongs to it.
        size if size >= 999.95 => 0,
        size if size >= 99.995 => 1,
        size if size >= 9.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_the_unit_that_reads_best() {
        let shown = |ns| duration(Some(ns));
        assert_eq!(shown(0), "0 ns");
        assert_eq!(shown(12_340), "12.34 µs");
        assert_eq!(shown(999_999), "1.000 ms");
        assert_eq!(shown(123_400_000), "123.4 ms");
        assert_eq!(shown(61_000_000_000), "61.00 s");
        assert_eq!(duration(None), "-");
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        assert_eq!(count(1234), "1234");
        assert_eq!(count(12_345), "12,345");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn numbers_have_four_digits_on_both_sides_of_a_power_of_ten() {
        assert_eq!(number(Some(9.999_9)), "10.00");
        assert_eq!(number(Some(9.999)), "9.999");
        assert_eq!(number(Some(99.999)), "100.0");
        assert_eq!(percent(Some(0.000_4)), "0.040 %");
        assert_eq!(number(None), "-");
    }

    #[test]
    fn what_would_act_on_the_terminal_is_escaped() {
        assert_eq!(escape("a\x1b[31m\r\nb\u{202e}c\u{9b}"), "a\\u{1b}[31m\\r\\nb\\u{202e}c\\u{9b}");
        assert_eq!(escape("Überlast 過負荷"), "Überlast 過負荷");
    }

    #[test]
    fn no_line_is_longer_than_the_page() {
        let lines = wrap(&format!("one two {} three 過負荷過負荷過負荷", "x".repeat(25)), 10);
        assert!(lines.iter().all(|line| columns(line) <= 10), "{lines:?}");
        assert_eq!(lines[0], "one two");
        assert_eq!(lines.concat().matches('x').count(), 25);
    }
}
