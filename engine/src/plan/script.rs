//! A conversation that has begun: what was said so far, and the turns that wait for their answers.

use std::collections::VecDeque;

use super::Place;
use super::body::{Dialogue, Frame};
use super::class::ClassPlan;
use crate::workload::History;

/// A conversation that has begun.
#[derive(Debug)]
pub struct Script {
    pub(super) item: u64,
    pub(super) class: usize,
    /// The number of the request that was sent last.
    pub(super) index: u64,
    /// Its turn, from 0.
    pub(super) turn: u32,
    /// Its input tokens, as far as they are known.
    pub(super) input_tokens: Option<u32>,
    pub(super) ideal_cached: Option<u32>,
    /// Tokens of the system prompt that every turn has, where there is a place of its own for it and
    /// they are known.
    pub(super) system_tokens: Option<u32>,
    dialogue: Dialogue,
    /// The turns that wait.
    rest: VecDeque<Later>,
}

/// A turn that waits.
#[derive(Debug)]
pub(super) struct Later {
    /// What is new in it.
    pub(super) said: Dialogue,
    /// Tokens of that.
    pub(super) new_tokens: Option<u32>,
    pub(super) output_tokens: u32,
    /// The pause before it, ns.
    pub(super) pause_ns: u64,
    /// The recorded answer to the turn before, the inside of a JSON string, and its tokens.
    pub(super) answer: Option<(Vec<u8>, Option<u32>)>,
    /// It holds what was said before.
    pub(super) is_whole: bool,
    /// The whole body, where it was recorded.
    pub(super) body: Option<Vec<u8>>,
    /// A frame of its own.
    pub(super) frame: Option<Box<Frame>>,
}

impl Script {
    /// A conversation whose first request says `dialogue`.
    pub(super) fn begin(
        class: &ClassPlan,
        place: &Place,
        dialogue: &Dialogue,
        input_tokens: Option<u32>,
    ) -> Self {
        Self {
            item: place.item,
            class: class.number,
            index: place.index,
            turn: 0,
            input_tokens,
            ideal_cached: None,
            system_tokens: None,
            dialogue: dialogue.clone(),
            rest: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, later: Later) {
        self.rest.push_back(later);
    }

    /// The number of the conversation.
    #[must_use]
    pub fn session(&self) -> u64 {
        self.item
    }

    /// Turns that wait.
    #[must_use]
    pub fn turns_left(&self) -> usize {
        self.rest.len()
    }

    /// Bytes that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let later = |later: &Later| {
            let answer = later.answer.as_ref().map_or(0, |(text, _)| text.len());
            later.said.len() + answer + later.body.as_ref().map_or(0, Vec::len)
        };
        self.dialogue.len() + self.rest.iter().map(later).sum::<usize>()
    }

    /// The pause before the next turn, ns; `None` if there is none.
    #[must_use]
    pub fn pause_ns(&self) -> Option<u64> {
        self.rest.front().map(|later| later.pause_ns)
    }

    /// Goes on to the next turn, now that the last one has its answer.
    pub(super) fn advance(
        &mut self,
        answer: &[u8],
        answer_tokens: Option<u64>,
        class: &ClassPlan,
    ) -> Option<Later> {
        let later = self.rest.pop_front()?;
        let shape = class.frame.shape;
        let before = self.input_tokens;
        let live = answer_tokens.and_then(|tokens| u32::try_from(tokens).ok());
        // Line ends between texts in one are a token each.
        let mut gaps = 0;
        let answered = match (class.history, &later.answer) {
            (History::Live, _) => {
                gaps = self.dialogue.assistant(shape, answer);
                // A server keeps what it has generated, too.
                self.ideal_cached = sum(before, live);
                live
            }
            (History::Recorded, Some((text, tokens))) => {
                gaps = self.dialogue.assistant(shape, text);
                self.ideal_cached = before;
                *tokens
            }
            (History::Recorded, None) => {
                self.ideal_cached = before;
                Some(0)
            }
            (History::Nothing, _) => {
                self.dialogue.forget_said();
                self.ideal_cached = self.system_tokens;
                self.input_tokens = Some(self.system_tokens.unwrap_or(0));
                Some(0)
            }
        };
        if later.is_whole {
            self.dialogue.forget_said();
            self.ideal_cached = before;
            self.input_tokens = Some(0);
            gaps = 0;
        }
        let answered = if later.is_whole { Some(0) } else { answered };
        let gaps = self.dialogue.append(shape, &later.said) + gaps;
        let said = sum(answered, later.new_tokens);
        self.input_tokens = sum(sum(self.input_tokens, said), Some(gaps));
        if later.body.is_some() {
            self.input_tokens = later.new_tokens;
            self.ideal_cached = None;
        }
        self.index += 1;
        self.turn += 1;
        Some(later)
    }

    /// Appends the body of the turn that `later` is.
    pub(super) fn write(&self, later: &Later, class: &ClassPlan, out: &mut Vec<u8>) {
        match (&later.body, &later.frame) {
            (Some(body), _) => out.extend_from_slice(body),
            (None, Some(frame)) => frame.write(&self.dialogue, later.output_tokens, out),
            (None, None) => class.frame.write(&self.dialogue, later.output_tokens, out),
        }
    }
}

fn sum(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    Some(one?.saturating_add(other?))
}
