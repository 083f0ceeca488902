//! The requests of a load one after the other, as a run would send them, with nobody to send them to.

use std::ops::ControlFlow;

use tokclock_engine::plan::{Materials, Plan, Scratch, Script, Written};
use tokclock_engine::run::{Located, Way, locate};
use tokclock_engine::workload::{Load as Loop, Schedule, Stop, Tokenizer, Warmup, Workload};

use super::failed;
use crate::config::{DisaggOptions, HostOptions, Options};
use crate::exit::Failure;
use crate::output::Screen;
use crate::place::Place;
use crate::report::text::escape;
use crate::resolve::Draft;

/// Stands for a model that is not named.
const MODEL: &str = "MODEL";
/// Stands for the answer of the server.
const ANSWER: &[u8] = b"<answer>";
/// The address of nobody: it is written into no body.
const NOWHERE: &str = "http://127.0.0.1:8000";

/// A load that is looked at.
pub(super) struct Load {
    pub(super) workload: Workload,
    pub(super) materials: Materials,
    pub(super) plan: Plan,
    /// Remarks for the user.
    pub(super) notes: Vec<String>,
}

/// How far a load is gone through: the first that applies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bound {
    /// Items.
    pub(super) items: Option<u64>,
    /// Requests; the last conversation is gone through to its end.
    pub(super) requests: Option<u64>,
    /// Arrivals before this time, in ns from the start.
    pub(super) until_ns: Option<u64>,
}

/// A request as it would be sent.
pub(super) struct Sent<'a> {
    pub(super) item: u64,
    pub(super) index: u64,
    pub(super) class: usize,
    /// When its item goes, in ns from the start; none in a closed loop.
    pub(super) time_ns: Option<u64>,
    /// Its turn, from 0.
    pub(super) turn: u32,
    /// Turns of its item.
    pub(super) turns: u64,
    /// The pause before it.
    pub(super) pause_ns: u64,
    pub(super) input_tokens: Option<u32>,
    pub(super) output_tokens: u32,
    pub(super) ideal_cached: Option<u32>,
    pub(super) body: &'a [u8],
}

impl Load {
    /// Reads and plans what `options` say. A server is asked only if its tokenizer is to count.
    ///
    /// # Errors
    /// Options that make no sense; what cannot be read.
    pub(super) fn new(mut options: Options, allowed: &[usize]) -> Result<Self, Failure> {
        let asks = options.tokenizer.as_deref().is_some_and(asks_server);
        if asks && options.servers().is_empty() {
            return Err(Failure::usage("--tokenizer server: say which with --url URL"));
        }
        leave_out_the_host(&mut options, asks);
        if options.model.is_none() && !asks {
            options.model = Some(MODEL.to_owned());
        }
        let place = Place::default();
        let draft = Draft::new(options, allowed, &|needed| place.gather(needed, allowed))?;
        let mut notes = draft.notes.clone();
        if !draft.with_template.is_empty() {
            notes.push(
                "--isl-includes-template: what the server adds is not known here, so prompts are \
                 longer than a run would make them"
                    .to_owned(),
            );
        }
        let workload = if asks {
            let reached = place.reach(&draft.reaching(), None)?;
            draft.workload(&reached.servers, &reached.model)
        } else {
            let nowhere = nowhere(&draft)?;
            draft.workload(&[nowhere], draft.options().model.as_deref().unwrap_or(MODEL))
        };
        let materials = draft.materials;
        let plan = Plan::new(&workload, &materials, "data").map_err(|error| failed(&error))?;
        Ok(Self { workload, materials, plan, notes })
    }

    /// Prints the remarks to stderr, unless `quiet`.
    pub(super) fn remark(&self, quiet: bool) {
        let screen = Screen { quiet, json: false };
        self.notes.iter().for_each(|note| screen.note(escape(note)));
    }

    /// Goes through the requests in order until `each` has enough.
    ///
    /// # Errors
    /// A recording that cannot be read any more, and those of `each`.
    pub(super) fn walk(
        &self,
        bound: Bound,
        each: &mut dyn FnMut(&Sent<'_>) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        let mut arrivals = self.plan.arrivals(0, 1);
        let mut walk = self.plan.walk();
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        let (mut items, mut requests) = (0, 0);
        while bound.items.is_none_or(|most| items < most)
            && bound.requests.is_none_or(|most| requests < most)
        {
            let time_ns = match arrivals.as_mut().map(Iterator::next) {
                // The recording or the series of rates ends.
                Some(None) => break,
                Some(Some((_, time))) => Some(time),
                None => None,
            };
            if bound.until_ns.zip(time_ns).is_some_and(|(until, time)| time >= until) {
                break;
            }
            let place = walk.step(&self.plan);
            let begun = self.plan.write(&place, &mut scratch, cleared(&mut out));
            let begun = begun.map_err(|error| failed(&error))?;
            let gone = self.item(begun, time_ns, &mut out, &mut |sent| {
                requests += 1;
                each(sent)
            })?;
            if gone.is_break() {
                break;
            }
            items += 1;
        }
        Ok(())
    }

    /// Goes through the requests of an item, the first of which is written to `out`.
    fn item(
        &self,
        mut written: Written,
        time_ns: Option<u64>,
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(&Sent<'_>) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<ControlFlow<()>, Failure> {
        let later = written.script.as_ref().map_or(0, |script| script.turns_left());
        let turns = later as u64 + 1;
        let mut pause_ns = 0;
        loop {
            let sent = Sent { time_ns, turns, pause_ns, ..Sent::of(&written, out) };
            if each(&sent)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let answered = written.output_tokens;
            let Some(next) = self.next(written.script.take(), answered, out) else {
                return Ok(ControlFlow::Continue(()));
            };
            (written, pause_ns) = next;
        }
    }

    /// The next turn, as if the last one had been answered as long as it asked, and the pause before
    /// it.
    fn next(
        &self,
        script: Option<Box<Script>>,
        output_tokens: u32,
        out: &mut Vec<u8>,
    ) -> Option<(Written, u64)> {
        let script = script?;
        let pause_ns = script.pause_ns()?;
        let answered = Some(u64::from(output_tokens));
        let written = self.plan.write_turn(script, ANSWER, answered, cleared(out))?;
        Some((written, pause_ns))
    }

    /// Entries of the recording, where the load is one alone.
    pub(super) fn entries(&self) -> Option<u64> {
        match self.materials.data.as_slice() {
            [Some(data)] => Some(data.len()),
            _ => None,
        }
    }

    /// From and before which time of its recording a replay goes, in ns since its first entry.
    pub(super) fn replayed_ns(&self) -> (u64, Option<u64>) {
        match &self.workload.load {
            Loop::Open { schedule: Schedule::Replay(replay), .. } => {
                (replay.start_ns, replay.end_ns)
            }
            _ => (0, None),
        }
    }

    /// As far as a run would go; `None` where only time ends a closed loop.
    pub(super) fn whole(&self) -> Option<Bound> {
        let Stop { requests, duration_ns, sessions, warmup, .. } = self.workload.stop;
        if let Some(items) = self.plan.total() {
            return Some(Bound { items: Some(items), until_ns: self.end_ns(), ..Bound::default() });
        }
        let extra = if let Warmup::Requests(extra) = warmup { extra } else { 0 };
        let requests = requests.map(|requests| requests.saturating_add(extra));
        let until_ns = duration_ns.and_then(|_| self.end_ns());
        let bound = Bound { items: sessions, requests, until_ns };
        (sessions.is_some() || requests.is_some() || until_ns.is_some()).then_some(bound)
    }

    /// When an open loop stops to send, in ns from the start, where time ends it.
    pub(super) fn end_ns(&self) -> Option<u64> {
        let Stop { duration_ns, warmup, .. } = self.workload.stop;
        let warmup_ns = if let Warmup::Time(ns) = warmup { ns } else { 0 };
        let is_open = matches!(self.workload.load, Loop::Open { .. });
        duration_ns.filter(|_| is_open).map(|ns| ns.saturating_add(warmup_ns))
    }

    /// What a class is called; nothing where it is alone.
    pub(super) fn class_name(&self, class: usize) -> Option<&str> {
        self.workload.mix.get(class).and_then(|class| class.name.as_deref())
    }
}

impl<'a> Sent<'a> {
    /// What `written` says of itself, as if it stood alone.
    fn of(written: &Written, out: &'a [u8]) -> Self {
        Self {
            item: written.item,
            index: written.index,
            class: written.class,
            time_ns: None,
            turn: written.turn.unwrap_or(0),
            turns: 1,
            pause_ns: 0,
            input_tokens: written.input_tokens,
            output_tokens: written.output_tokens,
            ideal_cached: written.ideal_cached,
            body: out.get(written.body.clone()).unwrap_or_default(),
        }
    }
}

fn cleared(out: &mut Vec<u8>) -> &mut Vec<u8> {
    out.clear();
    out
}

fn asks_server(tokenizer: &str) -> bool {
    tokenizer.parse() == Ok(Tokenizer::Server)
}

/// Drops what is about the host of the load or the way to a server, unless one is asked.
fn leave_out_the_host(options: &mut Options, asks: bool) {
    (options.reactors, options.cpus) = (None, None);
    options.source_ip.clear();
    // What is looked at is the whole load.
    options.hosts = HostOptions::default();
    if asks {
        return;
    }
    options.url.clear();
    options.disagg = DisaggOptions::default();
    options.header.clear();
    options.resolve.clear();
    (options.api_key_env, options.api_key_file) = (None, None);
    (options.proxy, options.unix_socket) = (None, None);
    (options.cacert, options.cert, options.key) = (None, None, None);
    (options.insecure, options.sni, options.tls_resumption) = (None, None, None);
}

fn nowhere(draft: &Draft) -> Result<Located, Failure> {
    locate(NOWHERE, draft.api.dialect, &Way::default())
        .map_err(|error| Failure::could_not_run(error.to_string()))
}
