//! Synthetic prompts: what they share, and what only one of them says.

use super::body::{Dialogue, Shape};
use super::cache::Prompt;
use super::class::{ClassPlan, MARK_TOKENS, hash, pick};
use super::prompt::{Prompts, Text};
use super::random::{Purpose, Streams, mix};
use super::script::{Later, Script};
use super::{INPUT_TOKENS_MAX, Materials, Place, PlanError};
use crate::workload::{CacheBust, Groups, History, Popularity, Shared, UserContext, Workload};

/// Tokens by which the beginning of a common text is told apart: the size of a block in a server's
/// cache.
const BLOCK_TOKENS: u32 = 16;

/// Where synthetic prompts come from.
#[derive(Clone)]
pub(super) struct Synthetic {
    prompts: Prompts,
    system_tokens: u32,
    groups: Option<GroupPlan>,
    user: Option<UserPlan>,
    cached_share: Option<f64>,
    bust: CacheBust,
    /// Differs from run to run.
    run_key: u64,
    shape: Shape,
}

#[derive(Clone)]
struct GroupPlan {
    /// Tokens of each group's prefix.
    tokens: Vec<u32>,
    /// Sums of the weights.
    weights: Vec<f64>,
    draws: Streams,
}

#[derive(Clone)]
struct UserPlan {
    context: UserContext,
    draws: Streams,
    lengths: Streams,
}

impl Synthetic {
    pub(super) fn new(
        workload: &Workload,
        materials: &Materials,
        number: usize,
        seed: u64,
        run_id: &str,
        shape: Shape,
    ) -> Result<Self, PlanError> {
        let content = &workload.mix[number].content;
        let Shared { system_tokens, groups, user, cached_share } = &content.shared;
        let prompts = match &materials.prompts {
            Some(prompts) => prompts.seeded(seed),
            None => Prompts::new(seed),
        };
        if shape.is_ids() && !prompts.has_ids() {
            return Err(PlanError::Ids { reason: "this tokenizer does not tell them" });
        }
        if !shape.is_ids() && !prompts.has_text() {
            return Err(PlanError::Ids { reason: "a range of ids makes no text: send ids" });
        }
        if shape.is_ids() && content.conversation.turns.is_some() {
            return Err(PlanError::Ids {
                reason: "a conversation grows by text: send single requests, or text",
            });
        }
        if let Some(share) = cached_share
            && !(0.0..1.0).contains(share)
        {
            return Err(PlanError::Shared {
                reason: "cached share: give one from 0 to below 1, since every prompt ends with \
                         words of its own",
            });
        }
        let groups = groups.as_ref().map(|groups| GroupPlan::new(groups, seed)).transpose()?;
        let user = user.as_ref().map(|context| UserPlan {
            context: context.clone(),
            draws: Streams::new(seed, Purpose::UserPick),
            lengths: Streams::new(seed, Purpose::UserLength),
        });
        Ok(Self {
            prompts,
            system_tokens: *system_tokens,
            groups,
            user,
            cached_share: *cached_share,
            bust: content.cache_bust,
            run_key: hash(run_id.as_bytes()),
            shape,
        })
    }

    /// The first request of an item, with `input` tokens besides what it shares. All its tokens.
    pub(super) fn open(
        &self,
        place: &Place,
        input: u32,
        dialogue: &mut Dialogue,
        cache: &mut Prompt<'_>,
    ) -> u32 {
        let mark = self.mark(place.index);
        let mut own = input;
        let mut parts = [Part::NONE; 6];
        if let Some(key) = mark {
            parts[0] = Part { of: Text::Mark, key, tokens: MARK_TOKENS };
            own = own.saturating_sub(MARK_TOKENS).max(1);
        }
        parts[1] = Part { of: Text::System, key: 0, tokens: self.system_tokens };
        let group = self.groups.as_ref().map(|groups| groups.of(place.item));
        if let (Some(group), None) = (group, self.cached_share) {
            parts[2] = Part { of: Text::Group, key: group.key, tokens: group.tokens };
        }
        if let Some(user) = &self.user {
            parts[3] = user.of(place.item);
        }
        if let Some(share) = self.cached_share {
            // At least one token is the prompt's own.
            let tokens = ((f64::from(own) * share).round() as u32).min(own - 1);
            own -= tokens;
            let key = group.map_or(0, |group| group.key);
            parts[4] = Part { of: Text::Group, key, tokens };
        }
        parts[5] = Part { of: Text::Prompt, key: place.index, tokens: own };
        self.note(&parts, cache);
        self.write(&parts, dialogue);
        parts.iter().map(|part| part.tokens).fold(0, u32::saturating_add)
    }

    /// The turns of a conversation after its first, which asks for `output` tokens.
    pub(super) fn follow(&self, class: &ClassPlan, turns: u32, output: u32, script: &mut Script) {
        let mark = if self.bust == CacheBust::None { 0 } else { MARK_TOKENS };
        let has_own_place = self.system_tokens > 0 && self.shape.has_system();
        script.system_tokens = Some(if has_own_place { self.system_tokens + mark } else { 0 });
        let mut before = output;
        for turn in 1..turns {
            let index = script.index + u64::from(turn);
            let lengths = class.later.as_ref().unwrap_or(&class.lengths).at(index);
            let mut said = Dialogue::default();
            let part = Part { of: Text::Prompt, key: index, tokens: lengths.input };
            said.user(self.shape, |out| self.write_parts(&[part], out));
            let answer = (class.history == History::Recorded).then(|| {
                let mut text = Vec::new();
                self.prompts.write(Text::Answer, index - 1, before, true, &mut text);
                (text, Some(before))
            });
            script.push(Later {
                said,
                new_tokens: Some(lengths.input),
                output_tokens: lengths.output,
                pause_ns: class.pause_ns(index),
                answer,
                is_whole: false,
                body: None,
                frame: None,
            });
            before = lengths.output;
        }
    }

    fn mark(&self, index: u64) -> Option<u64> {
        match self.bust {
            CacheBust::None => None,
            CacheBust::Run => Some(self.run_key),
            CacheBust::Request => Some(mix(self.run_key ^ mix(index))),
        }
    }

    /// What a cache knows of these parts.
    fn note(&self, parts: &[Part], cache: &mut Prompt<'_>) {
        if self.bust == CacheBust::Request {
            return;
        }
        for part in parts {
            let name = mix(part.key ^ mix(part.of as u64));
            match part.of {
                // Nobody else's.
                Text::Prompt => {}
                Text::Group if self.cached_share.is_some() => {
                    let mut from = 0;
                    while from < part.tokens {
                        let tokens = BLOCK_TOKENS.min(part.tokens - from);
                        // Two beginnings of one text differ in their last block alone.
                        cache.part(mix(name ^ u64::from(tokens)), tokens);
                        from += tokens;
                    }
                }
                _ => cache.part(mix(name ^ mix(part.tokens.into())), part.tokens),
            }
        }
    }

    fn write(&self, parts: &[Part], dialogue: &mut Dialogue) {
        if self.shape.is_ids() {
            for part in parts.iter().filter(|part| part.tokens > 0) {
                let write =
                    |out: &mut Vec<u8>| self.prompts.write_ids(part.of, part.key, part.tokens, out);
                dialogue.ids(write);
            }
            return;
        }
        let (system, user) = parts.split_at(2);
        if self.system_tokens > 0 && self.shape.has_system() {
            self.write_parts(system, dialogue.system());
            dialogue.user(self.shape, |out| self.write_parts(user, out));
        } else {
            dialogue.user(self.shape, |out| self.write_parts(parts, out));
        }
    }

    /// One text after the other, in one.
    fn write_parts(&self, parts: &[Part], out: &mut Vec<u8>) {
        let mut leads = true;
        for part in parts.iter().filter(|part| part.tokens > 0) {
            self.prompts.write(part.of, part.key, part.tokens, leads, out);
            leads = false;
        }
    }
}

/// One text of a prompt.
#[derive(Clone, Copy)]
struct Part {
    of: Text,
    key: u64,
    tokens: u32,
}

impl Part {
    const NONE: Self = Self { of: Text::Prompt, key: 0, tokens: 0 };
}

#[derive(Clone, Copy)]
struct Group {
    key: u64,
    tokens: u32,
}

impl GroupPlan {
    fn new(groups: &Groups, seed: u64) -> Result<Self, PlanError> {
        if groups.count == 0 {
            return Err(PlanError::Shared { reason: "prefix groups: give at least 1" });
        }
        let lengths = Streams::new(seed, Purpose::GroupLength);
        let tokens = |group: u64| match &groups.tokens {
            Some(law) => whole(law.sample(&mut lengths.at(group))),
            None => 0,
        };
        let weight = |number: u32| match groups.popularity {
            Popularity::Uniform => 1.0,
            Popularity::Zipf(exponent) => f64::from(number).powf(-exponent),
        };
        let mut sum = 0.0;
        let cumulated = (1..=groups.count).map(|number| {
            sum += weight(number);
            sum
        });
        Ok(Self {
            tokens: (0..u64::from(groups.count)).map(tokens).collect(),
            weights: cumulated.collect(),
            draws: Streams::new(seed, Purpose::GroupPick),
        })
    }

    fn of(&self, item: u64) -> Group {
        let number = pick(&self.weights, self.draws, item);
        Group { key: number as u64, tokens: self.tokens[number] }
    }
}

impl UserPlan {
    fn of(&self, item: u64) -> Part {
        let user = match self.context.population {
            Some(population) => self.draws.key(item) % u64::from(population.max(1)),
            None => item,
        };
        let tokens = whole(self.context.tokens.sample(&mut self.lengths.at(user)));
        Part { of: Text::User, key: user, tokens }
    }
}

/// A number of tokens.
fn whole(tokens: f64) -> u32 {
    tokens.round().clamp(0.0, f64::from(INPUT_TOKENS_MAX)) as u32
}
