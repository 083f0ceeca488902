//! Requests of a recording: what its entries say, in the words of the API.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::body::{Dialogue, push_escaped};
use super::cache::{Prompt, Seen};
use super::class::{ClassPlan, MARK_TOKENS, Said, hash, replay_of, replayed, selection};
use super::data::{Content, DataSet, Entry, Selection, Turn};
use super::prompt::{Prompts, Text};
use super::random::mix;
use super::script::{Later, Script};
use super::tokens::Tokens;
use super::{Materials, Place, PlanError};
use crate::workload::{CacheBust, Workload};

/// Where recorded requests come from.
#[derive(Clone)]
pub(super) struct Recorded {
    data: Arc<DataSet>,
    /// The entries that are used.
    entries: Range<u64>,
    selection: Selection,
    prompts: Prompts,
    /// Counts recorded answers, where the user chose a tokenizer.
    tokens: Option<Arc<dyn Tokens>>,
    bust: CacheBust,
    run_key: u64,
}

/// A message as far as it is looked into.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<MessageContent<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum MessageContent<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Parts(Vec<Value>),
}

impl Recorded {
    pub(super) fn new(
        workload: &Workload,
        materials: &Materials,
        number: usize,
        data: Arc<DataSet>,
        seed: u64,
        run_id: &str,
    ) -> Result<Self, PlanError> {
        let entries = match replay_of(workload) {
            Some(replay) => replayed(&data, replay),
            None => 0..data.len(),
        };
        if entries.is_empty() {
            return Err(PlanError::NothingReplayed);
        }
        if workload.text.as_ids {
            return Err(PlanError::Ids { reason: "a recording is sent as it stands: send text" });
        }
        let bust = workload.mix[number].content.cache_bust;
        let first = data.entry(entries.start)?;
        let is_body = first.turns.iter().any(|turn| matches!(turn.content, Content::Body(_)));
        if bust != CacheBust::None && is_body {
            return Err(PlanError::Shared {
                reason: "cache bust: recorded bodies are sent as they are; leave it out",
            });
        }
        let prompts = match &materials.prompts {
            Some(prompts) => prompts.seeded(seed),
            None => Prompts::new(seed),
        };
        if !prompts.has_text() {
            return Err(PlanError::Ids { reason: "a range of ids makes no text: send ids" });
        }
        Ok(Self {
            selection: selection(workload, number, entries.end - entries.start, seed),
            entries,
            data,
            prompts,
            tokens: materials.tokens.clone(),
            bust,
            run_key: hash(run_id.as_bytes()),
        })
    }

    /// Whether an entry is a conversation of several turns.
    pub(super) fn has_sessions(&self) -> bool {
        self.data.has_conversations()
    }

    pub(super) fn turns(&self, place: &Place) -> u32 {
        if self.has_sessions() { self.data.turns(self.entry_of(place)) } else { 1 }
    }

    fn entry_of(&self, place: &Place) -> u64 {
        self.entries.start + self.selection.entry(place.nth)
    }

    /// Appends the body of the (first) request of the entry at `place`.
    pub(super) fn say(
        &self,
        class: &ClassPlan,
        place: &Place,
        dialogue: &mut Dialogue,
        seen: &mut Seen,
        out: &mut Vec<u8>,
    ) -> Result<Said, PlanError> {
        let entry = self.data.entry(self.entry_of(place))?;
        let mut cache = seen.prompt(class.model);
        let Entry { system, turns, .. } = entry;
        if let (Some(system), Some(first)) = (&system, turns.first()) {
            note_system(system, first, &mut cache);
        }
        let mut turns = turns.into_iter();
        let Some(first) = turns.next() else { return Err(PlanError::Empty) };
        self.open(place, system.as_deref(), dialogue);
        let mark = if self.bust == CacheBust::None { 0 } else { MARK_TOKENS };
        let input_tokens = self.add(class, place.index, &first, dialogue, Some(&mut cache));
        let input_tokens = input_tokens.map(|tokens| tokens.saturating_add(mark));
        let output_tokens = first.output_tokens.unwrap_or_else(|| class.output_tokens(place.index));
        match &first.content {
            Content::Body(body) => out.extend_from_slice(body.get().as_bytes()),
            _ if first.extra.is_empty() && first.tools.is_none() => {
                class.frame.write(dialogue, output_tokens, out);
            }
            _ => {
                let tools = first.tools.as_ref().map(|tools| tools.get());
                class.frame_with(&first.extra, tools)?.write(dialogue, output_tokens, out);
            }
        }
        let ideal_cached = match (self.bust, input_tokens) {
            (CacheBust::Request, Some(_)) => Some(0),
            (_, Some(tokens)) => Some(cache.cached().min(tokens)),
            (_, None) => None,
        };
        let mut script =
            (turns.len() > 0).then(|| Script::begin(class, place, dialogue, input_tokens));
        let mut before = first;
        for (number, turn) in (1_u64..).zip(turns) {
            let Some(script) = &mut script else { break };
            script.push(self.later(class, place.index + number, &before, &turn)?);
            before = turn;
        }
        Ok(Said { input_tokens, output_tokens, ideal_cached, script: script.map(Box::new) })
    }

    /// What stands before the first turn.
    fn open(&self, place: &Place, system: Option<&str>, to: &mut Dialogue) {
        let key = match self.bust {
            CacheBust::None => None,
            CacheBust::Run => Some(self.run_key),
            CacheBust::Request => Some(mix(self.run_key ^ mix(place.index))),
        };
        let at = to.system();
        if let Some(key) = key {
            self.prompts.write(Text::Mark, key, MARK_TOKENS, true, at);
        }
        if let Some(system) = system {
            if !at.is_empty() {
                at.push(b' ');
            }
            push_escaped(system, at);
        }
    }

    /// Adds what a turn says; its tokens, where they are known.
    fn add(
        &self,
        class: &ClassPlan,
        index: u64,
        turn: &Turn,
        dialogue: &mut Dialogue,
        cache: Option<&mut Prompt<'_>>,
    ) -> Option<u32> {
        let shape = class.frame.shape;
        match &turn.content {
            Content::Text(text) => {
                if let (Some(cache), Some(tokens)) = (cache, turn.input_tokens) {
                    cache.part(hash(text.as_bytes()), tokens);
                }
                dialogue.user(shape, |out| push_escaped(text, out));
                turn.input_tokens
            }
            Content::Messages(messages) => {
                let bytes: usize = messages.iter().map(|raw| raw.get().len()).sum();
                let tokens = f64::from(turn.input_tokens.unwrap_or(0)) / bytes.max(1) as f64;
                let mut cache = cache;
                for raw in messages {
                    if let Some(cache) = &mut cache {
                        // Spread over the messages by their length.
                        let part = (tokens * raw.get().len() as f64).round() as u32;
                        cache.part(hash(raw.get().as_bytes()), part);
                    }
                    self.message(class, raw.get(), dialogue);
                }
                turn.input_tokens
            }
            Content::Synthetic { tokens, blocks, block_size } => {
                let write = |out: &mut Vec<u8>| {
                    self.write_blocks(class, index, (*tokens, blocks, *block_size), out);
                };
                dialogue.user(shape, write);
                if let Some(cache) = cache {
                    let mut left = *tokens;
                    for block in blocks {
                        let part = left.min(*block_size);
                        cache.part(*block, part);
                        left -= part;
                    }
                }
                Some(*tokens)
            }
            Content::Body(_) => turn.input_tokens,
        }
    }

    fn message(&self, class: &ClassPlan, raw: &str, dialogue: &mut Dialogue) {
        let shape = class.frame.shape;
        // Behind the words that keep caches from knowing it, or where the API has it.
        let apart = self.bust != CacheBust::None || shape.keeps_system_apart();
        let may_be_system = dialogue.is_empty() && apart;
        if shape.has_messages() && !may_be_system {
            dialogue.message(shape, raw, "");
            return;
        }
        let message: Option<Message<'_>> = serde_json::from_str(raw).ok();
        let text = message.as_ref().map(Message::text).unwrap_or_default();
        if may_be_system && message.is_some_and(|message| message.role == "system") {
            let at = dialogue.system();
            if !at.is_empty() {
                at.push(b' ');
            }
            push_escaped(&text, at);
        } else {
            dialogue.message(shape, raw, &text);
        }
    }

    /// A text of exactly so many tokens whose blocks are the same wherever their ids are.
    fn write_blocks(
        &self,
        class: &ClassPlan,
        index: u64,
        (tokens, blocks, block_size): (u32, &[u64], u32),
        out: &mut Vec<u8>,
    ) {
        let mut left = tokens;
        let mut leads = true;
        for block in blocks {
            let part = left.min(block_size);
            self.prompts.write(Text::Block, *block, part, leads, out);
            left -= part;
            leads = false;
        }
        if left > 0 {
            let own = if leads { left.saturating_sub(class.template_tokens).max(1) } else { left };
            self.prompts.write(Text::Prompt, index, own, leads, out);
        }
    }

    fn later(
        &self,
        class: &ClassPlan,
        index: u64,
        before: &Turn,
        turn: &Turn,
    ) -> Result<Later, PlanError> {
        let mut said = Dialogue::default();
        let new_tokens = self.add(class, index, turn, &mut said, None);
        let answer = before.answer.as_ref().map(|answer| {
            let mut text = Vec::new();
            push_escaped(answer, &mut text);
            let counted = self.tokens.as_ref().and_then(|tokens| tokens.count(answer).ok());
            (text, counted.and_then(|tokens| u32::try_from(tokens).ok()))
        });
        let own = !turn.extra.is_empty() || turn.tools.is_some();
        let tools = turn.tools.as_ref().map(|tools| tools.get());
        let frame = own.then(|| class.frame_with(&turn.extra, tools)).transpose()?;
        Ok(Later {
            said,
            new_tokens,
            output_tokens: turn.output_tokens.unwrap_or_else(|| class.output_tokens(index)),
            pause_ns: turn.delay_ns.unwrap_or_else(|| class.pause_ns(index)),
            answer,
            is_whole: matches!(turn.content, Content::Messages(_)),
            body: match &turn.content {
                Content::Body(body) => Some(body.get().as_bytes().to_vec()),
                _ => None,
            },
            frame: frame.map(Box::new),
        })
    }
}

/// A system prompt is a part of its own of the first turn's tokens, by its share of the text.
fn note_system(system: &str, first: &Turn, cache: &mut Prompt<'_>) {
    let (Content::Text(text), Some(tokens)) = (&first.content, first.input_tokens) else { return };
    let share = system.len() as f64 / (system.len() + text.len()).max(1) as f64;
    cache.part(hash(system.as_bytes()), (f64::from(tokens) * share).round() as u32);
}

impl Message<'_> {
    /// Its text; that of its parts, one after the other.
    fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(MessageContent::Text(text)) => text.to_string(),
            Some(MessageContent::Parts(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }
}
