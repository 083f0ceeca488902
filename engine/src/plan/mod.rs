//! A workload expanded: what request *i* says and when it goes, from (seed, *i*) alone.
//!
//! A [`Plan`] is made once, before the load, and shared: it holds every byte that all requests of a
//! class have in common. The load is a sequence of *items*, each a request or a whole conversation,
//! counted from 0 over warm-up and measured part alike; requests are counted likewise, so that
//! where there are no conversations the two numbers are one.
//!
//! ```text
//! item ─► class ─► synthetic or recorded ─► dialogue ─► frame ─► body
//!                                              └─► script: the turns that wait for their answers
//! ```

pub mod arrival;
mod body;
mod cache;
mod class;
pub mod data;
mod error;
mod head;
pub mod hub;
mod identity;
pub mod lengths;
pub mod prompt;
pub mod random;
mod recorded;
mod request;
mod script;
mod share;
mod synthetic;
mod timing;
pub mod tokens;
mod traceparent;
mod walk;

pub use arrival::{ArrivalError, Arrivals};
pub use body::BodyError;
pub use class::replayed;
pub use error::PlanError;
pub use head::{HeadError, OURS_ALONE, Part};
pub use identity::Identity;
pub use lengths::LengthSampler;
pub use script::Script;
pub(crate) use share::Bounds;
pub use traceparent::Traces;
pub use walk::{Place, Walk};

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::disagg::{Planned, Planner};
use crate::workload::{Class, Connections, Dialect, Shard, Stop, Warmup, Workload};
use body::Dialogue;
use cache::Seen;
use class::ClassPlan;
use data::DataSet;
use head::Head;
use prompt::Prompts;
use random::{Purpose, Streams};
use request::{close_head, push_number};
use timing::Timing;

/// Most input tokens of a prompt; its body then takes up to 64 MB.
pub const INPUT_TOKENS_MAX: u32 = 1 << 22;

/// What a plan needs beside the workload: what was read from files and learnt of the tokenizer.
#[derive(Clone, Default)]
pub struct Materials {
    /// Writes synthetic prompts; our own words without it.
    pub prompts: Option<Prompts>,
    /// The recording of each class, in their order; fewer where the last have none.
    pub data: Vec<Option<Arc<DataSet>>>,
    /// Counts answers, where the user chose a tokenizer.
    pub tokens: Option<Arc<dyn tokens::Tokens>>,
}

/// The requests of a load point.
#[derive(Clone)]
pub struct Plan {
    /// One per server, in their order.
    heads: Vec<Head>,
    run_id: String,
    /// Names the traces of the requests, where a header of ours tells the server.
    traces: Option<Traces>,
    classes: Vec<ClassPlan>,
    /// For each class the share of items that belong to it or to one before it.
    shares: Vec<f64>,
    picks: Streams,
    timing: Option<Timing>,
    total: Option<u64>,
    has_sessions: bool,
    /// Which part of it this host sends.
    shard: Shard,
    /// Items are dealt to hosts in rounds of so many: the users of a closed loop.
    round: u64,
    /// Decides on legs, where prefill and decode are apart.
    legs: Option<Planner>,
}

/// How long a request is, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Tokens of the prompt.
    pub input: u32,
    /// Tokens asked for by the workload, whatever its `extra_body` says of them.
    pub output: u32,
}

/// A request that was written.
#[derive(Debug)]
pub struct Written {
    /// Its number.
    pub index: u64,
    /// The item that it belongs to.
    pub item: u64,
    /// Its class.
    pub class: usize,
    /// Which turn of its conversation it is, from 0; none where there are no conversations.
    pub turn: Option<u32>,
    /// Where in the bytes its body lies.
    pub body: Range<usize>,
    /// Input tokens by our tokenizer, without what the server adds to them; where a conversation
    /// holds live answers, with the server's count of those.
    pub input_tokens: Option<u32>,
    /// Output tokens asked for.
    pub output_tokens: u32,
    /// Input tokens that a prefix cache without limits would know.
    pub ideal_cached: Option<u32>,
    /// What follows in its conversation.
    pub script: Option<Box<Script>>,
    /// What is ready of its legs beside these bytes.
    pub(crate) legs: Option<Box<Planned>>,
}

/// What the writing of one request leaves for the next: memory, and what was said before.
#[derive(Debug, Default)]
pub struct Scratch {
    dialogue: Dialogue,
    seen: Seen,
    /// A body that becomes those of several legs.
    body: Vec<u8>,
}

impl Plan {
    /// The plan of a workload; `run_id` goes into every request id and nothing else.
    ///
    /// # Errors
    ///
    /// The first part of the workload that cannot be carried out.
    pub fn new(
        workload: &Workload,
        materials: &Materials,
        run_id: &str,
    ) -> Result<Self, PlanError> {
        check_stop(&workload.stop)?;
        share::check(workload)?;
        if workload.mix.is_empty() {
            return Err(PlanError::NoClass);
        }
        let target = &workload.target;
        let close = workload.client.connections == Connections::PerRequest;
        let head = |endpoint| Head::new(target, endpoint, run_id, close);
        let heads = target.servers().map(head);
        let heads: Vec<Head> = heads.collect::<Result<_, _>>()?;
        if heads.is_empty() {
            return Err(PlanError::NoServer);
        }
        let classes =
            (0..workload.mix.len()).map(|k| ClassPlan::new(workload, materials, k, run_id));
        let classes: Vec<ClassPlan> = classes.collect::<Result<_, _>>()?;
        let has_sessions = classes.iter().any(ClassPlan::has_sessions);
        let legs = target.disagg.as_ref().map(|disagg| Planner::new(workload, disagg, run_id));
        Ok(Self {
            legs,
            heads,
            run_id: run_id.to_owned(),
            traces: target.sends_traceparent().then(|| Traces::of_run(run_id)),
            shares: shares(&workload.mix)?,
            picks: Streams::new(workload.seed, Purpose::Class),
            timing: Timing::new(workload, materials)?,
            total: total(&workload.stop, has_sessions),
            has_sessions,
            shard: workload.shard,
            round: share::round(&workload.load),
            classes,
        })
    }

    /// How many items there are, warm-up included, where that is known beforehand: not if only time
    /// ends the load or the warm-up, or where requests are counted and items are conversations.
    #[must_use]
    pub const fn total(&self) -> Option<u64> {
        self.total
    }

    /// Whether items are conversations.
    #[must_use]
    pub const fn has_sessions(&self) -> bool {
        self.has_sessions
    }

    /// The arrivals of this host's `reactor` (from 0) out of `reactors`; `None` for a closed loop,
    /// whose requests go when users are free.
    #[must_use]
    pub fn arrivals(&self, reactor: usize, reactors: usize) -> Option<Arrivals> {
        let reactors = reactors.max(1);
        if reactor >= reactors {
            return Some(self.timing.as_ref()?.arrivals(reactor, reactors));
        }
        let (at, of) = self.shard.of_reactor(reactor as u64, reactors as u64);
        Some(self.timing.as_ref()?.arrivals(at as usize, of as usize))
    }

    /// The class of an item.
    #[must_use]
    pub fn class_of(&self, item: u64) -> usize {
        if self.classes.len() == 1 {
            return 0;
        }
        let drawn = random::fraction(self.picks.key(item));
        self.shares.iter().position(|share| drawn < *share).unwrap_or(self.classes.len() - 1)
    }

    /// The id of request `index`, sent as `X-Request-Id`: `<run id>-<index>`.
    #[must_use]
    pub fn request_id(&self, index: u64) -> String {
        format!("{}-{index}", self.run_id)
    }

    /// What names the traces and spans that are sent as `traceparent`; none where no header of ours is.
    #[must_use]
    pub fn traces(&self) -> Option<Traces> {
        self.traces
    }

    /// Appends the (first) request of the item at `place`, whole: an HTTP/1.1 head and its body.
    /// Bodies depend on the workload and the item alone, not on the run id, unless prompts are to
    /// differ from run to run.
    ///
    /// For synthetic prompts allocates only to let `out` grow.
    ///
    /// # Errors
    ///
    /// A recording that cannot be read any more.
    pub fn write(
        &self,
        place: &Place,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<Written, PlanError> {
        let class = &self.classes[place.class];
        let Scratch { dialogue, seen, body: whole } = scratch;
        let (said, body, legs);
        if self.legs.is_some() {
            whole.clear();
            said = class.say(place, dialogue, seen, whole)?;
            (body, legs) = self.write_legs(place.index, place.item, whole, out)?;
        } else {
            let digits =
                self.write_head((self.server(place.item), 0), (place.index, place.item), out);
            let body_at = out.len();
            said = class.say(place, dialogue, seen, out)?;
            (body, legs) = (close_head(digits, body_at, out), None);
        }
        Ok(Written {
            legs,
            index: place.index,
            item: place.item,
            class: place.class,
            turn: self.has_sessions.then_some(0),
            body,
            input_tokens: said.input_tokens,
            output_tokens: said.output_tokens,
            ideal_cached: said.ideal_cached,
            script: said.script,
        })
    }

    /// Appends the next turn of a conversation whose last one was answered with `answer` (the inside
    /// of a JSON string) of so many tokens. `None` if there was none.
    pub fn write_turn(
        &self,
        mut script: Box<Script>,
        answer: &[u8],
        answer_tokens: Option<u64>,
        out: &mut Vec<u8>,
    ) -> Option<Written> {
        let class = &self.classes[script.class];
        let next = script.advance(answer, answer_tokens, class)?;
        let (body, legs);
        if self.legs.is_some() {
            let mut whole = Vec::new();
            script.write(&next, class, &mut whole);
            (body, legs) = self.write_legs(script.index, script.item, &whole, out).ok()?;
        } else {
            let digits =
                self.write_head((self.server(script.item), 0), (script.index, script.item), out);
            let body_at = out.len();
            script.write(&next, class, out);
            (body, legs) = (close_head(digits, body_at, out), None);
        }
        Some(Written {
            legs,
            index: script.index,
            item: script.item,
            class: script.class,
            turn: Some(script.turn),
            body,
            input_tokens: script.input_tokens,
            output_tokens: next.output_tokens,
            ideal_cached: script.ideal_cached,
            script: Some(script),
        })
    }

    /// Appends item `item`, and says where its body lies: for whoever looks at one alone. In a mix or
    /// among conversations all items before it are gone through.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn render(&self, item: u64, out: &mut Vec<u8>) -> Result<Written, PlanError> {
        self.write(&self.place(item), &mut Scratch::default(), out)
    }

    /// The pause before the first request of an item, unless its user has sent nothing yet, ns.
    pub(crate) fn pause_ns(&self, place: &Place) -> u64 {
        self.classes[place.class].pause_ns(place.index)
    }

    /// Whether later turns hold what the server answered.
    pub(crate) fn needs_answers(&self) -> bool {
        self.classes.iter().any(ClassPlan::needs_answers)
    }

    /// Whether anything pauses.
    pub(crate) fn has_pauses(&self) -> bool {
        self.has_sessions || self.classes.iter().any(ClassPlan::has_pauses)
    }
}

/// Leaves out the heads, whose headers may be secret.
impl fmt::Debug for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Plan")
            .field("run_id", &self.run_id)
            .field("classes", &self.classes.len())
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

/// For each class the share of items that belong to it or to one before it.
fn shares(mix: &[Class]) -> Result<Vec<f64>, PlanError> {
    for class in mix {
        if !(class.weight.is_finite() && class.weight > 0.0) {
            return Err(PlanError::Weight { weight: class.weight });
        }
    }
    let all: f64 = mix.iter().map(|class| class.weight).sum();
    let mut so_far = 0.0;
    let share = |class: &Class| {
        so_far += class.weight / all;
        so_far
    };
    Ok(mix.iter().map(share).collect())
}

fn check_stop(stop: &Stop) -> Result<(), PlanError> {
    match (stop.requests, stop.duration_ns, stop.sessions) {
        (None, None, None) => Err(PlanError::Endless),
        (Some(0), ..) | (_, Some(0), _) | (.., Some(0)) => Err(PlanError::Empty),
        _ => Ok(()),
    }
}

fn total(stop: &Stop, has_sessions: bool) -> Option<u64> {
    if has_sessions {
        return stop.sessions;
    }
    let warmup = match stop.warmup {
        Warmup::None => 0,
        Warmup::Requests(requests) => requests,
        Warmup::Time(_) | Warmup::Auto(_) => return None,
    };
    Some(warmup.saturating_add(stop.requests?))
}

/// Whether answers of this API are generated.
fn check_output(tokens: f64, dialect: Dialect) -> Result<(), PlanError> {
    if tokens < 1.0 && dialect.generates() { Err(PlanError::NoOutput) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
