//! The prompts whose KV cache a server holds: a bounded memory.

use std::collections::{HashMap, VecDeque};

/// Prompts that are remembered; the oldest is forgotten first.
const PROMPTS_MAX: usize = 65_536;

/// The prompts that a server has computed or taken over, each by its hash, and since when.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    since: HashMap<u64, u64>,
    order: VecDeque<u64>,
}

impl Prefixes {
    /// Whether a prompt is there at `now_ns`.
    pub(crate) fn has(&self, prompt: u64, now_ns: u64) -> bool {
        self.since.get(&prompt).is_some_and(|&since_ns| since_ns <= now_ns)
    }

    /// A prompt will be there from `at_ns` on.
    pub(crate) fn add(&mut self, prompt: u64, at_ns: u64) {
        if let Some(since_ns) = self.since.get_mut(&prompt) {
            *since_ns = at_ns.min(*since_ns);
            return;
        }
        if self.order.len() == PROMPTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.since.remove(&oldest);
        }
        self.since.insert(prompt, at_ns);
        self.order.push_back(prompt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_there_once_it_is_computed_and_until_too_many_came_after() {
        let mut prefixes = Prefixes::default();
        prefixes.add(7, 100);
        assert!(!prefixes.has(7, 99) && prefixes.has(7, 100) && !prefixes.has(8, 100));
        prefixes.add(7, 50);
        assert!(prefixes.has(7, 50));
        for prompt in 1_000..1_000 + PROMPTS_MAX as u64 {
            prefixes.add(prompt, 0);
        }
        assert!(!prefixes.has(7, 200) && prefixes.has(1_000, 200));
        assert_eq!(prefixes.since.len(), PROMPTS_MAX);
    }
}
