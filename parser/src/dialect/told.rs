//! What a template's events have told so far, where each repeats it or tells a part of the counts.

use super::lenient::{Length, count, inner};
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
    pub(super) fn clear(&mut self) {
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
        let alike = common(&self.0, now);
        // Of a text that got shorter nothing is new: the whole may come again.
        if alike < now.len() {
            self.0.truncate(alike);
            self.0.push_str(&now[alike..]);
        }
        &now[alike..]
    }
}

/// How far two insides of JSON strings are alike, in whole characters and whole escapes.
fn common(before: &str, now: &str) -> usize {
    let pairs = before.bytes().zip(now.bytes());
    let mut alike = pairs.take_while(|(before, now)| before == now).count();
    while !(before.is_char_boundary(alike) && now.is_char_boundary(alike)) {
        alike -= 1;
    }
    let cut = |start: &usize| {
        let escaped =
            now.as_bytes()[..*start].iter().rev().take_while(|byte| **byte == b'\\').count() % 2
                == 1;
        let length = if now.as_bytes().get(start + 1) == Some(&b'u') { 6 } else { 2 };
        now.as_bytes()[*start] == b'\\' && !escaped && start + length > alike
    };
    (alike.saturating_sub(5)..alike).find(cut).unwrap_or(alike)
}
