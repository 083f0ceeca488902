//! One class of requests, expanded: where its requests come from and what they have in common.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Map;

use super::body::{Dialogue, Frame, Said as FrameSaid};
use super::cache::Seen;
use super::data::{DataSet, Selection};
use super::lengths::LengthSampler;
use super::random::{Purpose, Streams, fraction, mix};
use super::recorded::Recorded;
use super::script::Script;
use super::synthetic::Synthetic;
use super::{Materials, Place, PlanError, check_output};
use crate::workload::{History, Law, LengthLaw, Load, Order, Replay, Schedule, Target, Workload};

/// Tokens of the words that keep caches from knowing a prompt.
pub(super) const MARK_TOKENS: u32 = 4;
/// Turns of one conversation, at most: more is a slip of the pen.
const TURNS_MAX: f64 = 10_000.0;

/// One class of requests.
#[derive(Clone)]
pub(super) struct ClassPlan {
    /// Its number.
    pub(super) number: usize,
    pub(super) frame: Frame,
    /// Stands for its model where prompts are compared.
    pub(super) model: u64,
    pub(super) lengths: LengthSampler,
    /// Those of turns after the first, where they have a law of their own.
    pub(super) later: Option<LengthSampler>,
    pub(super) history: History,
    /// Tokens that the server adds and that input lengths include.
    pub(super) template_tokens: u32,
    source: Source,
    turns: Option<Law>,
    turn_draws: Streams,
    think: Option<Law>,
    think_draws: Streams,
    /// What it takes to make a frame for one request alone.
    target: Arc<Target>,
    model_name: String,
    tools: Option<String>,
}

#[derive(Clone)]
enum Source {
    Synthetic(Box<Synthetic>),
    Recorded(Recorded),
}

/// What was said of a request beside its body.
pub(super) struct Said {
    pub(super) input_tokens: Option<u32>,
    pub(super) output_tokens: u32,
    pub(super) ideal_cached: Option<u32>,
    pub(super) script: Option<Box<Script>>,
}

impl ClassPlan {
    /// Class `number` of `workload`.
    pub(super) fn new(
        workload: &Workload,
        materials: &Materials,
        number: usize,
        run_id: &str,
    ) -> Result<Self, PlanError> {
        let class = &workload.mix[number];
        let content = &class.content;
        let target = &workload.target;
        let model_name = class.model.clone().unwrap_or_else(|| target.model.clone());
        let as_ids = workload.text.as_ids;
        let said = FrameSaid { model: &model_name, tools: content.tools.as_deref(), as_ids };
        let frame = Frame::new(target, said, &Map::new())?;
        // Class 0 is drawn as if it were alone.
        let seed =
            if number == 0 { workload.seed } else { mix(workload.seed ^ mix(number as u64)) };
        let source = match &content.data {
            Some(_) => {
                let data = materials.data.get(number).and_then(Option::as_ref);
                let data = data.ok_or(PlanError::NotRead { class: number })?;
                let data = Arc::clone(data);
                Source::Recorded(Recorded::new(workload, materials, number, data, seed, run_id)?)
            }
            None => {
                check_lengths(&content.lengths, target)?;
                Source::Synthetic(Box::new(Synthetic::new(
                    workload,
                    materials,
                    number,
                    seed,
                    run_id,
                    frame.shape,
                )?))
            }
        };
        let turns = content.conversation.turns.as_ref();
        let later = turns.and_then(|turns| turns.input.as_ref());
        let later = later.map(|input| content.lengths.with_input(input.clone()));
        Ok(Self {
            number,
            model: hash(model_name.as_bytes()),
            lengths: LengthSampler::new(&content.lengths, seed),
            later: later.map(|law| LengthSampler::new(&law, seed)),
            history: content.conversation.history,
            template_tokens: content.template_tokens,
            source,
            turns: turns.map(|turns| turns.count.clone()),
            turn_draws: Streams::new(seed, Purpose::Turns),
            think: content.think.clone(),
            think_draws: Streams::new(seed, Purpose::Think),
            target: Arc::new(target.clone()),
            model_name,
            tools: content.tools.clone(),
            frame,
        })
    }

    /// Whether its items are conversations.
    pub(super) fn has_sessions(&self) -> bool {
        match &self.source {
            Source::Synthetic(_) => self.turns.is_some(),
            Source::Recorded(recorded) => recorded.has_sessions(),
        }
    }

    /// Whether later turns hold what the server answered.
    pub(super) fn needs_answers(&self) -> bool {
        self.has_sessions() && self.history == History::Live
    }

    /// Whether its users pause.
    pub(super) fn has_pauses(&self) -> bool {
        self.think.is_some()
    }

    /// Requests of an item, at least 1.
    pub(super) fn turns(&self, place: &Place) -> u32 {
        match (&self.source, &self.turns) {
            (Source::Synthetic(_), None) => 1,
            (Source::Synthetic(_), Some(law)) => {
                let drawn = law.sample(&mut self.turn_draws.at(place.item)).round();
                drawn.clamp(1.0, TURNS_MAX) as u32
            }
            (Source::Recorded(recorded), _) => recorded.turns(place),
        }
    }

    /// The pause before request `index`, where it is not the first of its user or conversation, ns.
    pub(super) fn pause_ns(&self, index: u64) -> u64 {
        let law = self.think.as_ref();
        law.map_or(0, |law| law.sample(&mut self.think_draws.at(index)).max(0.0) as u64)
    }

    /// How long a request is whose recording does not say it.
    pub(super) fn output_tokens(&self, index: u64) -> u32 {
        self.lengths.at(index).output
    }

    /// The frame of a request that brings members of its own.
    pub(super) fn frame_with(
        &self,
        own: &Map<String, serde_json::Value>,
        tools: Option<&str>,
    ) -> Result<Frame, PlanError> {
        let tools = tools.or(self.tools.as_deref());
        let as_ids = self.frame.shape.is_ids();
        let said = FrameSaid { model: &self.model_name, tools, as_ids };
        Ok(Frame::new(&self.target, said, own)?)
    }

    /// Appends the body of the (first) request of the item at `place`.
    pub(super) fn say(
        &self,
        place: &Place,
        dialogue: &mut Dialogue,
        seen: &mut Seen,
        out: &mut Vec<u8>,
    ) -> Result<Said, PlanError> {
        dialogue.clear();
        let turns = self.turns(place);
        match &self.source {
            Source::Synthetic(synthetic) => {
                let mut lengths = self.lengths.at(place.index);
                lengths.input = lengths.input.saturating_sub(self.template_tokens).max(1);
                let mut prompt = seen.prompt(self.model);
                let tokens = synthetic.open(place, lengths.input, dialogue, &mut prompt);
                let ideal_cached = Some(prompt.cached());
                self.frame.write(dialogue, lengths.output, out);
                let script = (turns > 1).then(|| {
                    let mut script = Script::begin(self, place, dialogue, Some(tokens));
                    synthetic.follow(self, turns, lengths.output, &mut script);
                    Box::new(script)
                });
                Ok(Said {
                    input_tokens: Some(tokens),
                    output_tokens: lengths.output,
                    ideal_cached,
                    script,
                })
            }
            Source::Recorded(recorded) => recorded.say(self, place, dialogue, seen, out),
        }
    }
}

/// The entries of a recording, by their numbers, that a replay takes.
#[must_use]
pub fn replayed(data: &DataSet, replay: &Replay) -> Range<u64> {
    let at = |entry: u64| data.time_ns(entry).unwrap_or(0);
    // The entries are in the order of their times.
    let first_from = |bound: u64| {
        let (mut low, mut high) = (0, data.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if at(middle) < bound { low = middle + 1 } else { high = middle }
        }
        low
    };
    first_from(replay.start_ns)..replay.end_ns.map_or(data.len(), first_from)
}

/// The replay of a load, if it is one.
pub(super) fn replay_of(workload: &Workload) -> Option<&Replay> {
    match &workload.load {
        Load::Open { schedule: Schedule::Replay(replay), .. } => Some(replay),
        _ => None,
    }
}

/// What chooses the entries of a recording.
pub(super) fn selection(workload: &Workload, number: usize, len: u64, seed: u64) -> Selection {
    let order =
        workload.mix[number].content.data.as_ref().map_or(Order::Sequential, |data| data.order);
    Selection::new(order, len, seed)
}

fn check_lengths(lengths: &LengthLaw, target: &Target) -> Result<(), PlanError> {
    let (input, output) = lengths.means();
    let most = f64::from(super::INPUT_TOKENS_MAX);
    if !(1.0..=most).contains(&input) {
        return Err(PlanError::InputTokens { tokens: input });
    }
    check_output(output, target.dialect)
}

/// A number for some bytes: FNV-1a, mixed.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// A position among `weights` (each with the sum of those before it), drawn.
pub(super) fn pick(cumulated: &[f64], draws: Streams, key: u64) -> usize {
    let Some(all) = cumulated.last() else { return 0 };
    let drawn = fraction(draws.key(key)) * all;
    cumulated.partition_point(|sum| *sum <= drawn).min(cumulated.len() - 1)
}
