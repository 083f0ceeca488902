//! `tokclock data preview`: the first requests as they would be sent.

use std::ops::ControlFlow;

use super::load::{Bound, Load, Sent};
use super::said::{Said, said};
use super::shown::{pretty, safe, short};
use crate::args::{BodyAs, PreviewArgs};
use crate::exit::{Code, Failure};
use crate::output::{self, Screen};
use crate::report::text::{count, duration, escape, plural};

/// Requests or conversations that are shown unless `-n` says otherwise.
const ITEMS: u64 = 5;
/// Columns before a text.
const INDENT: usize = 6;
/// Lines that a text takes at most, and columns that they have at least.
const LINES: usize = 2;
const COLUMNS_MIN: usize = 20;

/// Prints them.
pub(super) fn run(args: &PreviewArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let screen = Screen { quiet: false, json: false };
    let load = Load::new(args.data.options()?, allowed)?;
    load.remark(args.data.quiet);
    let asked = args.data.typed_requests();
    let items = asked.unwrap_or_else(|| ITEMS.min(load.entries().unwrap_or(ITEMS)));
    let bound = Bound { items: Some(items), ..Bound::default() };
    let mut before = 0;
    load.walk(bound, &mut |sent| {
        match args.body {
            Some(BodyAs::Raw) => output::result(safe(&one_line(sent.body))),
            Some(BodyAs::Pretty) => {
                output::result(heading(&load, sent));
                output::result(safe(&pretty(&String::from_utf8_lossy(sent.body))));
            }
            None => {
                let all = said(sent.body);
                output::result(heading(&load, sent));
                output::result(texts(new(&all, sent.turn, before), screen.width()));
                before = all.len();
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Code::Ok)
}

/// What is new in a turn: all of a first one, and of one that does not go on.
fn new(all: &[Said], turn: u32, before: usize) -> &[Said] {
    let from = if turn > 0 && all.len() > before { before } else { 0 };
    all.get(from..).unwrap_or_default()
}

/// What is said of a request beside its text, in a line or two.
fn heading(load: &Load, sent: &Sent<'_>) -> String {
    let mut line = String::new();
    if sent.turn == 0 {
        line.push_str(&title(load, sent));
    }
    if sent.turns > 1 {
        if !line.is_empty() {
            line.push('\n');
        }
        line.push_str(&format!("  turn {} of {}", sent.turn + 1, sent.turns));
        if sent.turn > 0 && sent.pause_ns > 0 {
            line.push_str(&format!(", {} after the answer", duration(Some(sent.pause_ns))));
        }
    }
    line.push_str(": ");
    line.push_str(&lengths(load, sent));
    line
}

fn title(load: &Load, sent: &Sent<'_>) -> String {
    let mut parts = vec![format!("item {}", sent.item)];
    if sent.index != sent.item {
        parts.push(format!("request {}", sent.index));
    }
    if let Some(name) = load.class_name(sent.class) {
        parts.push(format!("class {}", escape(name)));
    }
    if let Some(time) = sent.time_ns {
        parts.push(format!("at {:.3} s", time as f64 / 1e9));
    }
    parts.join(", ")
}

fn lengths(load: &Load, sent: &Sent<'_>) -> String {
    let mut line = match sent.input_tokens {
        Some(tokens) => {
            format!("input {} {}", count(tokens.into()), plural(tokens.into(), "token", "tokens"))
        }
        None => "input not counted".to_owned(),
    };
    if load.workload.target.dialect.generates() {
        line.push_str(&format!(", output {}", count(sent.output_tokens.into())));
    }
    if let Some(cached) = sent.ideal_cached {
        line.push_str(&format!(", ideally cached {}", count(cached.into())));
    }
    line
}

/// Each text with its role, shortened to `LINES` lines of `width` columns.
fn texts(all: &[Said], width: usize) -> String {
    let room = width.saturating_sub(INDENT).max(COLUMNS_MIN) * LINES;
    let shown = all.iter().map(|said| {
        let role = short(&said.role, COLUMNS_MIN);
        let text = short(&said.text, room.saturating_sub(role.chars().count() + 2));
        wrapped(&format!("{role}: {text}"), room / LINES)
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// A text in lines of at most `width` characters, cut wherever they end.
fn wrapped(text: &str, width: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    let lines = letters.chunks(width).map(|line| {
        let line: String = line.iter().collect();
        format!("{:INDENT$}{line}", "")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A recorded body may have line ends between its words.
fn one_line(body: &[u8]) -> String {
    String::from_utf8_lossy(body).replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Vec<Said> {
        texts.iter().map(|text| Said { role: "user".into(), text: (*text).into() }).collect()
    }

    #[test]
    fn a_text_takes_two_lines_at_most() {
        let page = texts(&of(&["short", &"x".repeat(500)]), 40);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "      user: short"));
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{page}");
        assert!(page.ends_with('…'));
    }

    #[test]
    fn a_later_turn_shows_what_it_adds() {
        let all = of(&["a", "b", "c"]);
        assert_eq!(new(&all, 0, 0).len(), 3);
        assert_eq!(new(&all, 1, 1).len(), 2);
        assert_eq!(new(&all, 1, 3).len(), 3, "a history that is not kept");
    }
}
