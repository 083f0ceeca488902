//! A baseline as a page: for a terminal, and as Markdown. Both say the same.

mod content;

use std::fmt::Write as _;

use comfy_table::presets;
use comfy_table::{CellAlignment, Table};

use super::text::{Page, Tone, columns};
use super::{WIDTH_MAX, WIDTH_MIN};
use crate::baseline::result::Baseline;
pub(super) use content::instant;
use content::parts;

/// What is said of one that was interrupted, or failed.
const UNFINISHED: &str = "not all of it was measured; later runs do not use it";

/// A piece of the page.
enum Part {
    /// A label and what stands beside it.
    Words(&'static str, String),
    /// A heading and a table, and what its marks mean.
    Table(&'static str, Vec<&'static str>, Vec<Vec<String>>, Vec<&'static str>),
}

/// For a terminal, in at most `width` columns.
#[must_use]
pub(crate) fn baseline_console(baseline: &Baseline, width: usize, colour: bool) -> String {
    let mut page = Page::new(width.clamp(WIDTH_MIN, WIDTH_MAX), colour);
    let mut is_first = true;
    for part in parts(baseline) {
        match part {
            Part::Words(label, text) => page.words(label, &text),
            Part::Table(title, header, rows, legend) => {
                page.blank();
                page.line(title);
                for line in aligned(&header, &rows, page.width) {
                    page.line(&line);
                }
                for line in legend {
                    page.words("", line);
                }
            }
        }
        if is_first && !baseline.complete {
            page.verdict("", ("incomplete:", Tone::Doubtful), UNFINISHED);
        }
        is_first = false;
    }
    page.finish()
}

/// As Markdown.
#[must_use]
pub(crate) fn baseline_page(baseline: &Baseline) -> String {
    let mut out = String::from("# Baseline of this host\n\n");
    if !baseline.complete {
        let _ = writeln!(out, "**Incomplete**: {UNFINISHED}\n");
    }
    for part in parts(baseline) {
        // Writing to a string cannot fail.
        match part {
            Part::Words("", text) => {
                let _ = writeln!(out, "- {text}");
            }
            Part::Words(label, text) => {
                let _ = writeln!(out, "- **{label}**: {text}");
            }
            Part::Table(title, header, rows, legend) => {
                let _ = writeln!(out, "\n## {title}\n\n| {} |", header.join(" | "));
                let _ = writeln!(out, "|{}", " ---: |".repeat(header.len()));
                for row in rows {
                    let _ = writeln!(out, "| {} |", row.join(" | "));
                }
                let _ = writeln!(out, "\n{}\n", legend.join("; "));
            }
        }
    }
    out
}

/// The lines of a table. Where it does not fit, its columns are closer together; where that is not
/// enough, those before the last one go.
fn aligned(header: &[&str], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let fits = |lines: &[String]| lines.iter().all(|line| columns(line.trim_end()) <= width);
    let wide = spaced(header, rows, 2);
    if fits(&wide) {
        return wide;
    }
    let (mut header, mut rows) = (header.to_vec(), rows.to_vec());
    loop {
        let lines = spaced(&header, &rows, 1);
        let Some(at) = header.len().checked_sub(2).filter(|&at| at > 0 && !fits(&lines)) else {
            return lines;
        };
        header.remove(at);
        rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
}

fn spaced(header: &[&str], rows: &[Vec<String>], space: u16) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, space));
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::sample;

    #[test]
    fn both_pages_say_the_same_and_the_console_fits() {
        let baseline = sample("a-1");
        let console = baseline_console(&baseline, 80, false);
        let page = baseline_page(&baseline);
        for words in ["210,000 reads/s", "2,100,000 chunks/s", "9.000 KiB per open stream"] {
            assert!(console.contains(words), "{console}");
            assert!(page.contains(words), "{page}");
        }
        assert!(console.contains("requests/s, one token each: none was inside"), "{console}");
        assert!(console.lines().all(|line| line.chars().count() <= 80), "{console}");
    }

    #[test]
    fn a_table_that_does_not_fit_loses_columns_but_not_its_marks() {
        let header = ["streams", "chunks/s", "CPU", ""];
        let row = ["4000", "100,000", "9.1", "!"].map(String::from).to_vec();
        let at = |width| aligned(&header, std::slice::from_ref(&row), width);
        assert!(at(40)[1].contains("4000   100,000"), "{:?}", at(40));
        assert_eq!(at(22)[1].trim_end(), "   4000  100,000 9.1 !");
        assert_eq!(at(18)[1].trim_end(), "   4000  100,000 !");
    }

    #[test]
    fn one_that_was_interrupted_says_so_on_both() {
        let mut baseline = sample("a-1");
        baseline.complete = false;
        baseline.ceiling = Default::default();
        for text in [baseline_console(&baseline, 80, false), baseline_page(&baseline)] {
            assert!(text.to_lowercase().contains("incomplete"), "{text}");
            assert!(text.contains("not measured"), "{text}");
        }
    }
}
