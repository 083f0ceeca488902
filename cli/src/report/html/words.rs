//! Figures and words as they stand in markup.

use maud::{Markup, html};
use tokclock_engine::measure::Interval;

use super::super::text::{self, NONE, Said, Tone, Unit};

/// What stands for a missing value on a page.
pub(super) const ABSENT: &str = "–";

/// A text without anything that could turn or hide others; markup is escaped where it is put in.
pub(super) fn safe(text: &str) -> String {
    text::escape(text)
}

/// A cell as the console has it, with the dash of a page.
pub(super) fn dashed(text: &str) -> String {
    if text == NONE || text.is_empty() { ABSENT.to_owned() } else { text.to_owned() }
}

/// A duration with its unit.
pub(super) fn time(ns: Option<u64>) -> String {
    dashed(&text::duration(ns))
}

/// A rate or another number.
pub(super) fn number(value: Option<f64>) -> String {
    dashed(&text::number(value.filter(|value| value.is_finite())))
}

/// A share as a percentage.
pub(super) fn percent(share: Option<f64>) -> String {
    dashed(&text::percent(share.filter(|share| share.is_finite())))
}

/// A 95 % interval of a duration; `None` where the sample supports neither end.
pub(super) fn interval([low, high]: Interval) -> Option<String> {
    let unit = Unit::of(high.or(low)? as f64);
    let end = |ns: Option<u64>| ns.map_or_else(|| "?".to_owned(), |ns| unit.show(ns as f64));
    Some(format!("{} to {} {}", end(low), end(high), unit.name))
}

/// The class of a tone.
pub(super) fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Doubtful => "doubtful",
        Tone::Bad => "bad",
    }
}

/// What a page of the console says, as a list of labels with their texts, and its tables.
pub(super) fn told(said: &[Said]) -> Markup {
    let mut parts = Vec::new();
    let mut words: Vec<&Said> = Vec::new();
    for one in said {
        match one {
            Said::Words { .. } => words.push(one),
            Said::Grid { head, rows } => {
                parts.push(list(&std::mem::take(&mut words)));
                parts.push(grid("", head, rows));
            }
        }
    }
    parts.push(list(&words));
    html! { @for part in &parts { (part) } }
}

fn list(words: &[&Said]) -> Markup {
    html! {
        @if !words.is_empty() {
            dl.said {
                @for (at, one) in words.iter().enumerate() {
                    @if let Said::Words { label, word, text } = one {
                        @if at == 0 || !label.is_empty() { dt { (label) } }
                        dd {
                            @if let Some((word, tone)) = word {
                                span class={ "word " (class(*tone)) } { (word) } " "
                            }
                            (text)
                        }
                    }
                }
            }
        }
    }
}

/// A table of the console: words stay at the left, numbers go to the right.
fn grid(caption: &str, head: &[String], rows: &[Vec<String>]) -> Markup {
    let is_text = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column));
        cells.any(|cell| {
            cell.len() > 14 || cell.contains(' ') && !cell.starts_with(char::is_numeric)
        })
    };
    let texts: Vec<bool> = (0..head.len()).map(is_text).collect();
    let one_line = |text: &str| text.replace('\n', " ");
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table" {
            table {
                @if !caption.is_empty() { caption { (caption) } }
                thead { tr {
                    @for (title, text) in head.iter().zip(&texts) {
                        th.t[*text] scope="col" { (one_line(title)) }
                    }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                @let cell = dashed(&one_line(cell));
                                @if at == 0 { th scope="row" { (cell) } }
                                @else { td.t[texts.get(at) == Some(&true)] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A table of texts; the first column names the rows.
pub(super) fn table(caption: &str, head: &[&str], rows: &[Vec<String>]) -> Markup {
    let head: Vec<String> = head.iter().map(|&title| title.to_owned()).collect();
    grid(caption, &head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_values_are_a_dash_and_never_zero() {
        assert_eq!((time(None), number(None), percent(None)), ("–".into(), "–".into(), "–".into()));
        assert_eq!(number(Some(f64::NAN)), "–");
        assert_eq!(interval([None, None]), None);
        assert_eq!(interval([Some(900_000), None]), Some("900.0 to ? µs".into()));
        assert_eq!(time(Some(0)), "0 ns");
    }

    #[test]
    fn what_is_told_is_escaped() {
        let said = Said::Words {
            label: String::new(),
            word: Some(("<b>".into(), Tone::Bad)),
            text: "<script>alert(1)</script>".into(),
        };
        let shown = told(&[said]).into_string();
        assert!(!shown.contains("<script") && shown.contains("&lt;script&gt;"), "{shown}");
    }
}
