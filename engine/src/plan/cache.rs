//! What a prefix cache without limits would know: the beginnings of earlier prompts.

use std::collections::HashSet;

use super::random::mix;

/// Beginnings that are remembered, at most: 64 MB or so. Later ones are taken as new, so that the
/// share is then a lower bound.
const BEGINNINGS_MAX: usize = 1 << 22;

/// The beginnings of all prompts so far, as far as prompts can share them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    beginnings: HashSet<u64>,
}

impl Seen {
    /// Whether no more beginnings are taken in.
    fn is_full(&self) -> bool {
        self.beginnings.len() >= BEGINNINGS_MAX
    }

    /// Begins a prompt for a model: nothing of another model's is shared.
    pub(super) fn prompt(&mut self, model: u64) -> Prompt<'_> {
        Prompt { seen: self, chain: mix(model), known: true, cached: 0 }
    }
}

/// One prompt, part by part from its beginning.
pub(super) struct Prompt<'a> {
    seen: &'a mut Seen,
    chain: u64,
    /// Every part so far was there before.
    known: bool,
    cached: u32,
}

impl Prompt<'_> {
    /// A part that other prompts may have at the same place.
    pub(super) fn part(&mut self, name: u64, tokens: u32) {
        if tokens == 0 {
            return;
        }
        self.chain = mix(self.chain ^ mix(name));
        let is_new = if self.seen.is_full() {
            !self.seen.beginnings.contains(&self.chain)
        } else {
            self.seen.beginnings.insert(self.chain)
        };
        self.known &= !is_new;
        if self.known {
            self.cached = self.cached.saturating_add(tokens);
        }
    }

    /// Tokens that were known.
    pub(super) fn cached(&self) -> u32 {
        self.cached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_if_all_before_it_is() {
        let mut seen = Seen::default();
        let mut cached = |parts: &[(u64, u32)], model| {
            let mut prompt = seen.prompt(model);
            parts.iter().for_each(|(name, tokens)| prompt.part(*name, *tokens));
            prompt.cached()
        };
        assert_eq!(cached(&[(1, 10), (2, 5)], 0), 0);
        assert_eq!(cached(&[(1, 10), (3, 5)], 0), 10);
        assert_eq!(cached(&[(1, 10), (2, 5), (4, 1)], 0), 15);
        assert_eq!(cached(&[(2, 5)], 0), 0, "the same part at another place");
        assert_eq!(cached(&[(1, 10)], 1), 0, "another model");
        assert_eq!(cached(&[(1, 10), (2, 0), (3, 5)], 0), 15, "an empty part is none");
    }
}
