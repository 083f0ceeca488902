//! Tables that fit the page: what has no room is left out from the right.

use comfy_table::{CellAlignment, Table};

use super::text::{NONE, Page, Said, columns, wrap};

/// Columns of a cell, at most.
const CELL_MAX: usize = 24;
/// Columns that words at the end of a row get at least, if they need them.
const WORDS_MIN: usize = 14;

/// Writes a table with as many of its columns, from the left, as the page has room for.
pub(super) fn write(page: &mut Page, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut rows = Some(rows);
    let mut take = || rows.take().into_iter().flatten();
    if page.hears(|| whole(head, take())) {
        return;
    }
    let rows = take();
    let rows: Vec<Vec<String>> =
        rows.map(|row| row.iter().map(|cell| shortened(cell, CELL_MAX)).collect()).collect();
    let mut shown = Vec::new();
    for kept in (1..=head.len()).rev() {
        shown = render(&head[..kept], &rows, 2, false);
        if fit(&shown, page.width) {
            break;
        }
    }
    page.blank();
    for line in &shown {
        page.line(line);
    }
}

/// The same with words at the end of each row, which always stay and are broken into lines. Before a
/// column goes, all are moved closer together. Heads and cells may have several lines.
pub(super) fn with_words(
    page: &mut Page,
    head: &[&str],
    title: &str,
    rows: &[(Vec<String>, String)],
) {
    let with_title: Vec<&str> = head.iter().copied().chain([title]).collect();
    let all =
        rows.iter().map(|(cells, words)| cells.iter().cloned().chain([words.clone()]).collect());
    if page.hears(|| whole(&with_title, all)) {
        return;
    }
    let needed = rows.iter().map(|(_, words)| columns(words)).max().unwrap_or(0);
    let needed = needed.clamp(columns(title), WORDS_MIN);
    let cells: Vec<Vec<String>> = rows.iter().map(|(cells, _)| cells.clone()).collect();
    let closer = (1..=head.len()).rev().map(|kept| (kept, 1));
    let mut chosen = (1, 1, WORDS_MIN);
    for (kept, space) in std::iter::once((head.len(), 2)).chain(closer) {
        let used = widest(&render(&head[..kept], &cells, space, false));
        let room = page.width.saturating_sub(used);
        chosen = (kept, space, room.max(1));
        if room >= needed {
            break;
        }
    }
    let (kept, space, room) = chosen;
    let head: Vec<&str> = head[..kept].iter().copied().chain([title]).collect();
    let whole = rows.iter().map(|(cells, words)| {
        let words = wrap(words, room).join("\n");
        cells.iter().take(kept).cloned().chain([words]).collect()
    });
    page.blank();
    for line in render(&head, &whole.collect::<Vec<_>>(), space, true) {
        page.line(&line);
    }
}

/// A table with all that it holds.
fn whole(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Said {
    Said::Grid { head: head.iter().map(|&title| title.to_owned()).collect(), rows: rows.collect() }
}

fn fit(lines: &[String], width: usize) -> bool {
    lines.iter().all(|line| columns(line.trim_end()) <= width)
}

/// With the space after the last column.
fn widest(lines: &[String]) -> usize {
    lines.iter().map(|line| columns(line)).max().unwrap_or(0)
}

fn render(head: &[&str], rows: &[Vec<String>], space: u16, has_words: bool) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(head.to_vec());
    let words = has_words.then(|| head.len().saturating_sub(1));
    for row in rows {
        table.add_row(row.iter().take(head.len()).enumerate().map(|(at, cell)| {
            let is_missing = cell.is_empty() && words != Some(at);
            if is_missing { NONE } else { cell.as_str() }
        }));
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, space));
        if words == Some(at) {
            column.set_padding((0, 0));
        } else if at > 0 || has_words {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().collect()
}

/// A name that is longer than `most` columns, cut.
pub(super) fn shortened(cell: &str, most: usize) -> String {
    if columns(cell) <= most {
        return cell.to_owned();
    }
    let mut short = String::new();
    for letter in cell.chars() {
        if columns(&short) + 2 >= most {
            break;
        }
        short.push(letter);
    }
    short + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(width: usize) -> String {
        let mut page = Page::new(width, false);
        let row = |load: &str, words: &str| {
            (vec![load.to_owned(), "41.20".to_owned(), "5270".to_owned()], words.to_owned())
        };
        let rows = [row("8", "pass, <- operating point"), row("16", "FAIL, saturated")];
        with_words(&mut page, &["users", "req/s", "tokens\n/s"], "marks", &rows);
        page.finish()
    }

    #[test]
    fn words_at_the_end_stay_and_other_columns_go() {
        let wide = page(60);
        assert!(wide.contains("8  41.20    5270  pass, <- operating point"), "{wide}");
        let narrow = page(33);
        assert!(narrow.contains("5270 pass, <-\n"), "{narrow}");
        let least = page(26);
        assert!(!least.contains("5270") && least.contains("41.20 pass, <-\n"), "{least}");
        for (width, page) in [(33, &narrow), (26, &least)] {
            assert!(page.lines().all(|line| columns(line) <= width), "{page}");
            assert!(page.contains("FAIL") && page.contains("saturated"), "{page}");
        }
    }
}
