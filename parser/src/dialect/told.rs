//! What a template's events have told so far, where each repeats it or tells a part of the counts.
//!
//! That they repeat is said by the user. Where it must be found out there is
//! [`SoFar`](super::so_far::SoFar).

use super::lenient::{Length, count, inner};
use super::so_far::alike;
use crate::event::Usage;

/// Of one response.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) text: Repeated,
    pub(super) reasoning: Repeated,
    /// Tokens that were listed.
    listed: u32,
    usage: Usage,
}

impl Told {
    /// Another response begins; buffers keep their memory.
    pub(super) fn begin(&mut self) {
        self.text.0.clear();
        self.reasoning.0.clear();
        self.listed = 0;
        self.usage = Usage::default();
    }

    /// Those of the tokens that are new. A list repeats what came before, a number does not.
    pub(super) fn new_tokens(&mut self, tokens: Tokens) -> Tokens {
        if !tokens.listed {
            return tokens;
        }
        let count = tokens.count.saturating_sub(self.listed);
        self.listed = self.listed.max(tokens.count);
        Tokens { count, listed: true }
    }

    /// All counts that are known, these being the newest.
    pub(super) fn count(&mut self, newer: Usage) -> Usage {
        self.usage.input_tokens = newer.input_tokens.or(self.usage.input_tokens);
        self.usage.output_tokens = newer.output_tokens.or(self.usage.output_tokens);
        self.usage
    }
}

/// The tokens of an event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tokens {
    pub(super) count: u32,
    /// They stand in an array.
    pub(super) listed: bool,
}

impl Tokens {
    /// From an array of them, or their count.
    pub(super) fn read(json: &str) -> Self {
        let listed = json.starts_with('[');
        let number = match listed {
            true => inner::<Length>(json).0,
            false => u32::try_from(count(json).unwrap_or(0)).unwrap_or(u32::MAX),
        };
        Self { count: number, listed }
    }
}

/// A text that every event gives as a whole, as it was given last: the inside of a JSON string.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeated(String);

impl Repeated {
    /// The part of the text that is new. A text that is not the last one with something after it
    /// is new from where they differ.
    pub(super) fn news<'a>(&mut self, now: &'a str) -> &'a str {
        if now.is_empty() {
            return now;
        }
        let kept = if now.starts_with(&self.0) { self.0.len() } else { alike(&self.0, now) };
        // Of a text that got shorter nothing is new: the whole may come again.
        if kept < now.len() {
            self.0.truncate(kept);
            self.0.push_str(&now[kept..]);
        }
        &now[kept..]
    }
}
