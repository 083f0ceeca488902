//! Everything that is printed. A closed pipe (`| head`) is no error: what follows goes nowhere.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use console::Term;
use serde::Serialize;

use crate::exit::Failure;

/// Columns of a report that goes to no terminal.
const WIDTH: usize = 100;

/// Where a run prints, by what the user asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    /// Print nothing but errors and the JSON.
    pub(crate) quiet: bool,
    /// stdout belongs to the JSON.
    pub(crate) json: bool,
}

impl Screen {
    /// A remark, to stderr.
    pub(crate) fn note(self, text: impl Display) {
        if !self.quiet {
            say(&mut io::stderr().lock(), format_args!("{text}\n"));
        }
    }

    /// The report: to stdout, or to stderr if the JSON goes there.
    pub(crate) fn report(self, text: &str) {
        match (self.quiet, self.json) {
            (true, _) => {}
            (false, true) => say(&mut io::stderr().lock(), text),
            (false, false) => say(&mut io::stdout().lock(), text),
        }
    }

    /// Columns of the report.
    #[must_use]
    pub(crate) fn width(self) -> usize {
        let terminal = if self.json { Term::stderr() } else { Term::stdout() };
        terminal.size_checked().map_or(WIDTH, |(_, columns)| usize::from(columns))
    }

    /// Whether the report may be coloured: on a terminal, unless NO_COLOR or TERM say otherwise.
    #[must_use]
    pub(crate) fn colour(self) -> bool {
        let terminal =
            if self.json { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        let says = |name: &str| std::env::var(name).unwrap_or_default();
        wants_colour(terminal, &says("NO_COLOR"), &says("TERM"))
    }
}

/// A result, to stdout, with a line end.
pub(crate) fn result(text: impl Display) {
    say(&mut io::stdout().lock(), format_args!("{text}\n"));
}

/// A result as JSON, to stdout.
///
/// # Errors
/// If it is none.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::could_not_run(format!("the result is no JSON: {error}")))?;
    result(text);
    Ok(())
}

/// A remark outside of a run, to stderr.
pub(crate) fn note(text: impl Display) {
    say(&mut io::stderr().lock(), format_args!("{text}\n"));
}

/// Why a command ended, to stderr.
pub(crate) fn error(error: impl Display) {
    say(&mut io::stderr().lock(), format_args!("error: {error}\n"));
}

/// A set and non-empty NO_COLOR forbids colours (no-color.org).
fn wants_colour(is_terminal: bool, no_color: &str, term: &str) -> bool {
    is_terminal && no_color.is_empty() && term != "dumb"
}

fn say(out: &mut impl Write, text: impl Display) {
    // If it cannot be written there is nobody to tell.
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_panic() {
        say(&mut ClosedPipe, "a report");
        let mut open = Vec::new();
        say(&mut open, "a report");
        assert_eq!(open, b"a report");
    }

    #[test]
    fn colours_need_a_terminal_and_no_objection() {
        assert!(wants_colour(true, "", "xterm"));
        assert!(!wants_colour(true, "1", "xterm"));
        assert!(!wants_colour(true, "", "dumb"));
        assert!(!wants_colour(false, "", "xterm"));
    }
}
