//! What prompts share: how they begin, their system prompts, the blocks that recordings name.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokclock_engine::plan::data::{Content, DataError, DataSet};
use tokclock_engine::plan::tokens::Tokens;
use tokclock_engine::workload::DataSpec;

use super::figures::{Blocks, Prefixes, Recording, SystemPrompts};
use super::said::Said;

/// Tokens of a beginning that is compared: a block of a server's cache.
const TOKENS: usize = 16;
/// Characters of one where there is no tokenizer: about as long in English.
const CHARACTERS: usize = 64;
/// Characters that are encoded to find the first tokens.
const ENCODED: usize = 256;
/// Different things that are remembered, at most: 64 MB or so. More are taken as known.
const SEEN_MAX: usize = 1 << 22;

/// Prompts as they are met.
pub(super) struct Beginnings {
    hasher: RandomState,
    tokens: Option<Arc<dyn Tokens>>,
    prompts: u64,
    seen: HashSet<u64>,
    with_system: u64,
    systems: HashMap<u64, u64>,
}

impl Beginnings {
    /// None yet; `tokens` counts, where the user chose a tokenizer that is here.
    pub(super) fn new(tokens: Option<Arc<dyn Tokens>>) -> Self {
        Self {
            hasher: RandomState::new(),
            tokens,
            prompts: 0,
            seen: HashSet::new(),
            with_system: 0,
            systems: HashMap::new(),
        }
    }

    /// Notes the texts of a prompt.
    pub(super) fn add(&mut self, all: &[Said]) {
        let letters = all.iter().flat_map(|said| said.text.chars());
        let key = match &self.tokens {
            Some(tokens) => {
                let begin: String = letters.take(ENCODED).collect();
                let ids = tokens.encode(&begin).unwrap_or_default();
                self.hasher.hash_one(ids.get(..TOKENS).unwrap_or(&ids))
            }
            None => self.hasher.hash_one(letters.take(CHARACTERS).collect::<String>()),
        };
        self.prompts += 1;
        if self.seen.len() < SEEN_MAX {
            self.seen.insert(key);
        }
        let mut system = all.iter().filter(|said| said.role == "system").peekable();
        if system.peek().is_none() {
            return;
        }
        self.with_system += 1;
        let texts: Vec<&str> = system.map(|said| said.text.as_str()).collect();
        let key = self.hasher.hash_one(texts);
        if self.systems.len() < SEEN_MAX || self.systems.contains_key(&key) {
            *self.systems.entry(key).or_default() += 1;
        }
    }

    /// How many beginnings and system prompts there are.
    pub(super) fn finish(self) -> (Prefixes, SystemPrompts) {
        let (unit, length) = match self.tokens {
            Some(_) => ("tokens", TOKENS),
            None => ("characters", CHARACTERS),
        };
        let distinct = self.seen.len() as u64;
        let system = SystemPrompts {
            prompts: self.with_system,
            distinct: self.systems.len() as u64,
            commonest: self.systems.values().max().copied().unwrap_or(0),
        };
        (Prefixes { unit, length, prompts: self.prompts, distinct }, system)
    }
}

/// What a recording declares of its requests; all its entries are read once more.
///
/// # Errors
/// That they cannot be read.
pub(super) fn recording(spec: &DataSpec, data: &DataSet) -> Result<Recording, DataError> {
    let mut found = Recording {
        source: spec.source.to_string(),
        format: data.report().format.to_string(),
        entries: data.len(),
        requests: 0,
        input_known: 0,
        output_known: 0,
        answers: 0,
        blocks: None,
    };
    let mut blocks = BlocksSeen::default();
    for number in 0..data.len() {
        for turn in data.entry(number)?.turns {
            found.requests += 1;
            found.input_known += u64::from(turn.input_tokens.is_some());
            found.output_known += u64::from(turn.output_tokens.is_some());
            found.answers += u64::from(turn.answer.is_some());
            if let Content::Synthetic { blocks: ids, block_size, .. } = turn.content {
                blocks.add(&ids, block_size);
            }
        }
    }
    found.blocks = blocks.finish();
    Ok(found)
}

/// Blocks as they are met.
#[derive(Default)]
struct BlocksSeen {
    hasher: RandomState,
    counts: Blocks,
    blocks: HashSet<u64>,
    prefixes: HashSet<u64>,
    first: HashSet<u64>,
}

impl BlocksSeen {
    fn add(&mut self, ids: &[u64], block_size: u32) {
        let Some(first) = ids.first() else { return };
        self.counts.tokens_per_block = block_size;
        self.counts.blocks += ids.len() as u64;
        insert(&mut self.first, *first);
        let mut chain = 0_u64;
        for id in ids {
            chain = self.hasher.hash_one((chain, id));
            insert(&mut self.prefixes, chain);
            insert(&mut self.blocks, *id);
        }
    }

    fn finish(self) -> Option<Blocks> {
        (self.counts.blocks > 0).then_some(Blocks {
            distinct: self.blocks.len() as u64,
            distinct_prefixes: self.prefixes.len() as u64,
            distinct_first: self.first.len() as u64,
            ..self.counts
        })
    }
}

fn insert(to: &mut HashSet<u64>, key: u64) {
    if to.len() < SEEN_MAX {
        to.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str, text: &str) -> Said {
        Said { role: role.into(), text: text.into() }
    }

    #[test]
    fn beginnings_are_compared_over_all_texts() {
        let mut beginnings = Beginnings::new(None);
        let long = "x".repeat(70);
        beginnings.add(&[said("system", "be short"), said("user", &long)]);
        beginnings.add(&[said("system", "be short"), said("user", &format!("{long}y"))]);
        beginnings.add(&[said("system", "be long"), said("user", &long)]);
        beginnings.add(&[said("user", "z")]);
        let (prefixes, system) = beginnings.finish();
        assert_eq!((prefixes.prompts, prefixes.distinct, prefixes.length), (4, 3, 64));
        assert_eq!((system.prompts, system.distinct, system.commonest), (3, 2, 2));
    }

    #[test]
    fn blocks_are_counted_alone_and_in_chains() {
        let mut blocks = BlocksSeen::default();
        blocks.add(&[], 0);
        assert_eq!(BlocksSeen::default().finish(), None);
        blocks.add(&[1, 2, 3], 512);
        blocks.add(&[1, 2, 4], 512);
        blocks.add(&[2, 3], 512);
        let found = blocks.finish().unwrap();
        assert_eq!((found.tokens_per_block, found.blocks, found.distinct), (512, 8, 4));
        assert_eq!((found.distinct_prefixes, found.distinct_first), (6, 2));
    }
}
