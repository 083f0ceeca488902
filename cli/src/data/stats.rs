//! `tokclock data stats`: how long requests are, what they share, when they come.

use std::ops::ControlFlow;

use tokclock_engine::measure::ArrivalReport;

use super::figures::{Cache, Document, Input, Lengths, Recording, SCHEMA};
use super::load::{Bound, Load, Sent};
use super::page;
use super::said::{characters, said};
use super::shared::{self, Beginnings};
use crate::args::StatsArgs;
use crate::config::Options;
use crate::exit::{Code, Failure};
use crate::output::{self, Screen};

/// Items of a synthetic load that are looked at unless `-n` says otherwise.
const ITEMS: u64 = 10_000;

/// Prints the figures.
pub(super) fn run(args: &StatsArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let screen = Screen { quiet: false, json: false };
    let options = args.data.options()?;
    let load = Load::new(options.clone(), allowed)?;
    if args.json {
        load.remark(args.data.quiet);
    }
    let document = document(&load, args.data.typed_requests(), &options)?;
    if args.json {
        let json = serde_json::to_string_pretty(&document);
        output::result(json.map_err(|error| Failure::could_not_run(error.to_string()))?);
    } else {
        screen.report(&page::write(&document, screen.width()));
    }
    Ok(Code::Ok)
}

/// All figures of a load; `typed` are the items that were asked for.
pub(super) fn document(
    load: &Load,
    typed: Option<u64>,
    options: &Options,
) -> Result<Document, Failure> {
    let mut tally = Tally::new(load);
    load.walk(bound(load, typed, options), &mut |sent| {
        tally.add(sent);
        Ok(ControlFlow::Continue(()))
    })?;
    if tally.requests == 0 {
        return Err(Failure::could_not_run("the load sends nothing: it ends before it begins"));
    }
    tally.finish(load, recordings(load)?)
}

/// So many items as were asked for; else as far as a run would go, where the options say it; else a
/// recording once.
fn bound(load: &Load, typed: Option<u64>, options: &Options) -> Bound {
    let says =
        options.requests.is_some() || options.sessions.is_some() || options.duration.is_some();
    if let (None, true, Some(whole)) = (typed, says, load.whole()) {
        return whole;
    }
    let items = typed.or_else(|| load.entries()).unwrap_or(ITEMS);
    Bound { items: Some(items), until_ns: load.end_ns(), ..Bound::default() }
}

fn recordings(load: &Load) -> Result<Vec<Recording>, Failure> {
    let mut all = Vec::new();
    for (class, data) in load.workload.mix.iter().zip(&load.materials.data) {
        if let (Some(spec), Some(data)) = (&class.content.data, data) {
            let found = shared::recording(spec, data);
            all.push(found.map_err(|error| Failure::could_not_run(error.to_string()))?);
        }
    }
    Ok(all)
}

/// Figures as requests are met.
struct Tally {
    items: u64,
    requests: u64,
    input: Vec<u64>,
    unknown: u64,
    characters: Vec<u64>,
    counts_characters: bool,
    output: Vec<u64>,
    turns: Vec<u64>,
    times: Vec<u64>,
    cache: Cache,
    beginnings: Beginnings,
}

impl Tally {
    fn new(load: &Load) -> Self {
        // Where a recording says nothing of some lengths, the characters of all are compared.
        let has_unknown = load.materials.data.iter().flatten().next().is_some();
        Self {
            items: 0,
            requests: 0,
            input: Vec::new(),
            unknown: 0,
            characters: Vec::new(),
            counts_characters: has_unknown,
            output: Vec::new(),
            turns: Vec::new(),
            times: Vec::new(),
            cache: Cache::default(),
            beginnings: Beginnings::new(load.materials.tokens.clone()),
        }
    }

    fn add(&mut self, sent: &Sent<'_>) {
        self.requests += 1;
        self.output.push(sent.output_tokens.into());
        match sent.input_tokens {
            Some(tokens) => self.input.push(tokens.into()),
            None => self.unknown += 1,
        }
        if let (Some(tokens), Some(cached)) = (sent.input_tokens, sent.ideal_cached) {
            self.cache.requests += 1;
            self.cache.input_tokens += u64::from(tokens);
            self.cache.ideal_cached_tokens += u64::from(cached);
        }
        if sent.turn > 0 && !self.counts_characters {
            return;
        }
        let all = said(sent.body);
        if self.counts_characters {
            self.characters.push(characters(&all));
        }
        if sent.turn == 0 {
            self.items += 1;
            self.turns.push(sent.turns);
            self.times.extend(sent.time_ns);
            self.beginnings.add(&all);
        }
    }

    fn finish(self, load: &Load, recordings: Vec<Recording>) -> Result<Document, Failure> {
        let (prefixes, system) = self.beginnings.finish();
        let mut cache = self.cache;
        cache.ideal_share = (cache.input_tokens > 0)
            .then(|| cache.ideal_cached_tokens as f64 / cache.input_tokens as f64);
        let generates = load.workload.target.dialect.generates();
        Ok(Document {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            seed: load.workload.seed,
            items: self.items,
            requests: self.requests,
            recordings,
            input: Input {
                tokens: Lengths::of(self.input),
                unknown: self.unknown,
                characters: Some(self.characters)
                    .filter(|_| self.unknown > 0)
                    .and_then(Lengths::of),
            },
            output: Some(self.output).filter(|_| generates).and_then(Lengths::of),
            turns: Some(self.turns).filter(|_| load.plan.has_sessions()).and_then(Lengths::of),
            prefixes,
            cache,
            system,
            arrivals: ArrivalReport::of(&self.times),
            notes: load.notes.clone(),
        })
    }
}
