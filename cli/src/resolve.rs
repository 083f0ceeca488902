//! From options to a workload: defaults filled in, contradictions refused, everything written down
//! so that it can be run again.

mod content;
mod disagg;
pub(crate) mod gather;
pub(crate) mod gpus;
mod lengths;
mod load;
mod objectives;
mod recording;
pub(crate) mod scrape;
pub(crate) mod shard;
mod target;
mod wire;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fmt::Display;
use std::hash::BuildHasher;
use std::str::FromStr;

use tokclock_engine::plan::Materials;
use tokclock_engine::run::{Asked, Located, Way, settle_paths};
use tokclock_engine::workload::{
    Class, Client, Close, DataSpec, Dialect, Limits, Load, Objectives, Shard, Sizes, Stamps, Stop,
    Target, Text, Threshold, Thresholds, Tls, Workload,
};

use crate::config::{Options, label};
use crate::exit::Failure;
use crate::values::{CpuList, Deadline, Share, Span};
use crate::{cpus, secret};
pub(crate) use disagg::Role;
use gather::{Facts, Gathered, Needed};
use objectives::objectives;
pub(crate) use target::Api;

/// Name of a run unless `--name` says otherwise.
const NAME: &str = "run";
/// Limit on a request: without one a server that hangs would hang a closed loop for good.
const TIMEOUT: Deadline = Deadline(Some(Span::from_ns(600_000_000_000)));
/// Limit on opening a connection, and on its TLS handshake.
const CONNECT_TIMEOUT: Deadline = Deadline(Some(Span::from_ns(10_000_000_000)));
/// Largest seed: what every reader of TOML and JSON takes as it is.
const SEED_MAX: u64 = (1 << 53) - 1;

/// What it takes to reach the servers of a load.
#[derive(Clone, Copy)]
pub(crate) struct Reaching<'a> {
    pub(crate) options: &'a Options,
    pub(crate) api: &'a Api,
    pub(crate) way: &'a Way,
    pub(crate) tls: &'a Tls,
    /// The router's role, where prefill and decode are apart.
    pub(crate) role: Option<&'a Role>,
}

impl Reaching<'_> {
    /// What it takes to ask one of them.
    pub(crate) fn asked<'a>(&'a self, server: &'a Located) -> Asked<'a> {
        Asked {
            endpoint: &server.endpoint,
            dialect: self.api.dialect,
            headers: &self.api.headers,
            tls: self.tls,
        }
    }
}

/// A run that has been thought through, all but the address and the model of the server.
#[derive(Clone)]
pub(crate) struct Draft {
    /// The options with everything filled in.
    options: Options,
    /// The API and how it is spoken.
    pub(crate) api: Api,
    /// The router's role, where prefill and decode are apart.
    pub(crate) role: Option<Role>,
    /// How servers are reached.
    pub(crate) way: Way,
    /// How TLS is spoken.
    pub(crate) tls: Tls,
    /// Share of failures that is allowed.
    pub(crate) max_error_rate: Share,
    /// What the user wrote on the result.
    pub(crate) labels: BTreeMap<String, String>,
    /// Remarks for the user.
    pub(crate) notes: Vec<String>,
    /// What the workload needs besides.
    pub(crate) materials: Materials,
    /// The classes whose input length includes what the server's template adds.
    pub(crate) with_template: Vec<usize>,
    /// What the load depends on.
    facts: Facts,
    /// The ramp that was asked for, before a default was filled in.
    ramp: Option<Span>,
    /// Reactors and CPUs that were asked for, where others send: each host chooses its own.
    of_workers: Option<(Option<usize>, Option<CpuList>)>,
    load: Load,
    stop: Stop,
    text: Text,
    mix: Vec<Class>,
    objectives: Objectives,
    client: Client,
    limits: Limits,
    sizes: Sizes,
    seed: u64,
    /// Which part of the load this host sends; none where nobody asked for one.
    shard: Option<Shard>,
}

impl Draft {
    /// Fills in the defaults and refuses what makes no sense. `allowed` are the CPUs that this
    /// process may use; `gather` reads tokenizers and recordings.
    ///
    /// # Errors
    /// A usage error that names the option and says what to do.
    pub(crate) fn new(
        options: Options,
        allowed: &[usize],
        gather: &dyn Fn(&Needed<'_>) -> Result<Gathered, Failure>,
    ) -> Result<Self, Failure> {
        let ramp = options.ramp;
        let mut filled = options;
        let mut notes = Vec::new();
        let shard = shard::resolve(&mut filled, &mut notes)?;
        let api = target::resolve(&mut filled, &mut notes)?;
        let role = disagg::resolve(&mut filled, &api)?;
        let mut said = content::resolve(&mut filled, api.dialect, &mut notes)?;
        let (way, tls) = (wire::way(&filled)?, wire::tls(&mut filled)?);
        let needed = Needed {
            said: &said,
            api: &api,
            way: &way,
            tls: &tls,
            role: role.as_ref(),
            options: &filled,
        };
        let Gathered { materials, facts, notes: gathered } = gather(&needed)?;
        notes.extend(gathered);
        let (load, stop) = load::resolve(&mut filled, &facts, &mut notes)?;
        let part = shard.unwrap_or_default();
        shard::check(part, &load, &stop)?;
        // As a run with this load written down would read it.
        let is_trace = filled.trace.is_some();
        let data = said.mix.iter_mut().filter_map(|class| class.content.data.as_mut());
        data.for_each(|data| (data.is_trace, data.ignore_times) = (is_trace, !is_trace));
        let needed = load::reactors_needed(&load, &said.mix, part);
        let client = client(&mut filled, allowed, needed, facts.has_sessions)?;
        let seed = *filled.seed.get_or_insert_with(draw);
        if seed > SEED_MAX {
            return Err(Failure::usage(format!("--seed {seed} is above {SEED_MAX}")));
        }
        notes.extend(wire::unused(&filled));
        scrape::resolve(&mut filled)?;
        let name = filled.name.get_or_insert_with(|| NAME.to_owned());
        check_name(name)?;
        let labels = label::read(&filled.label)?;
        gpus::GpusAsked::of(&filled)?;
        filled.label = label::saved(&labels);
        Ok(Self {
            api,
            role,
            max_error_rate: *filled.max_error_rate.get_or_insert(Share::from_percent(5.0)),
            objectives: objectives(&mut filled)?,
            limits: limits(&mut filled),
            sizes: wire::sizes(&filled)?,
            way,
            tls,
            labels,
            notes,
            materials,
            with_template: said.with_template,
            facts,
            ramp,
            of_workers: None,
            load,
            stop,
            text: said.text,
            mix: said.mix,
            client,
            seed,
            shard,
            options: filled,
        })
    }

    /// The options as they now stand.
    #[must_use]
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The same at another load: its options, and the loop and its end that follow from them.
    ///
    /// # Errors
    /// A usage error, where this is no load.
    pub(crate) fn with_load(&self, change: impl FnOnce(&mut Options)) -> Result<Self, Failure> {
        let mut level = self.clone();
        level.options.ramp = self.ramp;
        change(&mut level.options);
        (level.load, level.stop) = load::again(&mut level.options, &self.facts)?;
        shard::check(self.part(), &level.load, &level.stop)?;
        level.seed = level.options.seed.unwrap_or(self.seed);
        Ok(level)
    }

    /// A workload of this draft's servers and content, with this draft's load.
    #[must_use]
    pub(crate) fn loaded(&self, workload: &Workload) -> Workload {
        let (load, stop) = (self.load.clone(), self.stop);
        Workload { load, stop, seed: self.seed, ..workload.clone() }
    }

    /// The load itself.
    #[must_use]
    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// The name of the run.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        self.options.name.as_deref().unwrap_or(NAME)
    }

    /// Which part of the load this host sends; none where nobody asked for one.
    #[must_use]
    pub(crate) fn shard(&self) -> Option<Shard> {
        self.shard
    }

    /// The same for a host that sends this part.
    #[must_use]
    pub(crate) fn as_part(&self, shard: Shard) -> Self {
        Self { shard: Some(shard), ..self.clone() }
    }

    fn part(&self) -> Shard {
        self.shard.unwrap_or_default()
    }

    /// Positions of the reactors in the list of allowed CPUs.
    #[must_use]
    pub(crate) fn reactors(&self) -> &[usize] {
        &self.client.cpus
    }

    /// How many of them this load needs.
    #[must_use]
    pub(crate) fn reactors_needed(&self) -> usize {
        load::reactors_needed(&self.load, &self.mix, self.part())
    }

    /// Others send, on reactors and CPUs of their own, unless these were asked for.
    pub(crate) fn sent_by_workers(&mut self, reactors: Option<usize>, cpus: Option<CpuList>) {
        self.of_workers = Some((reactors, cpus));
    }

    /// What it takes to reach the servers.
    #[must_use]
    pub(crate) fn reaching(&self) -> Reaching<'_> {
        Reaching {
            options: &self.options,
            api: &self.api,
            way: &self.way,
            tls: &self.tls,
            role: self.role.as_ref(),
        }
    }

    /// The workload, now that the server has an address and a model.
    #[must_use]
    pub(crate) fn workload(&self, servers: &[Located], model: &str) -> Workload {
        let api = &self.api;
        let decode = self.role.as_ref().map_or(servers.len(), Role::decode);
        let (answering, others) = servers.split_at(decode.min(servers.len()));
        let mut target = Target {
            endpoints: answering.iter().map(|server| server.endpoint.clone()).collect(),
            disagg: self.role.as_ref().map(|role| role.located(others)),
            tls: self.tls.clone(),
            dialect: api.dialect,
            template: api.template.clone(),
            model: model.to_owned(),
            stream: api.stream,
            force_length: api.force_length,
            return_token_ids: api.return_token_ids,
            continuous_usage: api.continuous_usage,
            session_header: self.options.session_header.clone(),
            traceparent: self.options.traceparent == Some(true),
            headers: api.headers.clone(),
            extra_body: api.extra_body.clone(),
        };
        settle_paths(&mut target);
        Workload {
            target,
            load: self.load.clone(),
            stop: self.stop,
            text: self.text.clone(),
            mix: self.mix.clone(),
            objectives: self.objectives.clone(),
            client: self.client.clone(),
            limits: self.limits,
            sizes: self.sizes,
            seed: self.seed,
            shard: self.part(),
        }
    }

    /// The text of `run.toml`: every option as it was resolved, without secrets and without the
    /// directory of the results.
    ///
    /// # Errors
    /// If a value cannot be written as TOML.
    pub(crate) fn run_toml(&self, model: &str) -> Result<String, Failure> {
        let is_embedded = self.options.servers().is_empty();
        let target = if is_embedded { "# No url: the embedded simulator.\n" } else { "" };
        let body = self.saved(model, |_| {})?;
        Ok(format!("# Reproduces this run: tokclock run --config run.toml\n{target}{body}"))
    }

    /// The options as they are saved, after a `change`.
    ///
    /// # Errors
    /// If a value cannot be written as TOML.
    pub(crate) fn saved(
        &self,
        model: &str,
        change: impl FnOnce(&mut Options),
    ) -> Result<String, Failure> {
        let mut saved = Options {
            model: (!model.is_empty()).then(|| model.to_owned()),
            header: secret::redact(&self.options.header),
            ..self.options.clone()
        };
        if let Some((reactors, cpus)) = &self.of_workers {
            (saved.reactors, saved.cpus) = (*reactors, cpus.clone());
        }
        change(&mut saved);
        toml::to_string(&saved)
            .map_err(|error| Failure::could_not_run(format!("run.toml: {error}")))
    }

    /// The ramp that was asked for.
    #[must_use]
    pub(crate) fn ramp(&self) -> Option<Span> {
        self.ramp
    }
}

/// The recordings that a load would read, unread.
///
/// # Errors
/// A usage error that names the option and says what to do.
pub(crate) fn recordings(mut options: Options) -> Result<Vec<DataSpec>, Failure> {
    let mut notes = Vec::new();
    let dialect = word::<Dialect>(&mut options.dialect, "openai-chat")?;
    let said = content::resolve(&mut options, dialect, &mut notes)?;
    Ok(said.mix.into_iter().filter_map(|class| class.content.data).collect())
}

/// Chooses the model: the one asked for if the server lists it, else the first that it lists, or
/// none at all (an empty name) where the dialect does without.
///
/// `listed` is what the server listed, or why it could not be read.
///
/// # Errors
/// If there is none to choose, or the server has others only.
pub(crate) fn model(
    dialect: Dialect,
    asked: Option<&str>,
    listed: Result<Vec<String>, String>,
) -> Result<String, Failure> {
    /// More names than this would not be one clear line.
    const SHOWN_MAX: usize = 8;
    let Some(asked) = asked else {
        return match listed.map(|listed| listed.into_iter().next()) {
            Ok(Some(first)) => Ok(first),
            _ if !dialect.needs_model() => Ok(String::new()),
            Ok(None) => {
                Err(Failure::could_not_run("the server lists no model: name one with --model"))
            }
            Err(error) => Err(Failure::could_not_run(format!(
                "cannot ask the server for its models ({error}): name one with --model"
            ))),
        };
    };
    // Anthropic takes other names than those that it lists; Ollama takes them without their tag.
    let is_asked = |model: &String| model == asked || model.strip_suffix(":latest") == Some(asked);
    match listed {
        Ok(listed)
            if !listed.is_empty()
                && dialect != Dialect::AnthropicMessages
                && !listed.iter().any(is_asked) =>
        {
            let mut names = listed.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
            if listed.len() > SHOWN_MAX {
                names.push_str(&format!(" and {} more", listed.len() - SHOWN_MAX));
            }
            Err(Failure::could_not_run(format!(
                "the server has no model `{asked}`, it has: {names}"
            )))
        }
        _ => Ok(asked.to_owned()),
    }
}

/// A number that no other run draws: 53 bits from the randomness that the process started with.
#[must_use]
pub(crate) fn draw() -> u64 {
    RandomState::new().hash_one(std::process::id()) & SEED_MAX
}

fn check_name(name: &str) -> Result<(), Failure> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && name.len() <= 100 && name.chars().all(fits) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--name `{name}` is part of a directory: use up to 100 letters, digits, `-`, `_` and `.`, \
         the first a letter or digit"
    )))
}

/// Reads a word that the engine knows, by its default if it is absent, and writes it down. The
/// engine's error begins with what the word is for, which is the name of the option.
fn word<T>(option: &mut Option<String>, default: &str) -> Result<T, Failure>
where
    T: FromStr<Err: Display>,
{
    let text = option.get_or_insert_with(|| default.to_owned());
    text.parse().map_err(|error| Failure::usage(format!("--{error}")))
}

fn client(
    options: &mut Options,
    allowed: &[usize],
    needed: usize,
    has_sessions: bool,
) -> Result<Client, Failure> {
    let chosen = cpus::choose(allowed, options.reactors, options.cpus.as_ref(), needed)?;
    options.reactors = Some(chosen.len());
    options.cpus = Some(CpuList(chosen.iter().map(|&position| allowed[position]).collect()));
    Ok(Client {
        cpus: chosen,
        stamps: word::<Stamps>(&mut options.stamps, "kernel")?,
        keep_chunks: *options.chunks.get_or_insert(false),
        keep_text: *options.keep_text.get_or_insert(false),
        close: word::<Close>(&mut options.close, "fin")?,
        connections: wire::connections(options, has_sessions)?,
        requests_per_connection: wire::requests_per_connection(options)?,
        source_ips: options.source_ip.clone(),
        retries: wire::retries(options)?,
        cancel: wire::cancel(options)?,
        spin: *options.spin.get_or_insert(false),
        thresholds: thresholds(&options.client_limit)?,
    })
}

/// The limits on the client's own figures, the later of two on one figure winning.
fn thresholds(given: &[String]) -> Result<Thresholds, Failure> {
    given.iter().try_fold(Thresholds::default(), |limits, text| {
        let one: Threshold =
            text.parse().map_err(|error| Failure::usage(format!("--client-limit {error}")))?;
        Ok(limits.with(one))
    })
}

fn limits(options: &mut Options) -> Limits {
    const NONE: Deadline = Deadline(None);
    Limits {
        request_ns: options.timeout.get_or_insert(TIMEOUT).ns(),
        connect_ns: options.connect_timeout.get_or_insert(CONNECT_TIMEOUT).ns(),
        tls_ns: options.tls_timeout.get_or_insert(CONNECT_TIMEOUT).ns(),
        first_byte_ns: options.first_byte_timeout.get_or_insert(NONE).ns(),
        first_token_ns: options.first_token_timeout.get_or_insert(NONE).ns(),
        idle_ns: options.idle_timeout.get_or_insert(NONE).ns(),
    }
}

#[cfg(test)]
mod tests;
