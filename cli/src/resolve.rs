//! From options to a workload: defaults filled in, contradictions refused, everything written down
//! so that it can be run again.

mod load;
mod target;
mod wire;

use std::collections::hash_map::RandomState;
use std::fmt::Display;
use std::hash::BuildHasher;
use std::str::FromStr;

use tokclock_engine::run::{Asked, Located, Way, settle_paths};
use tokclock_engine::workload::{
    Client, Close, Content, Dialect, Limits, Load, Objectives, Sizes, Stamps, Stop, Target,
    Threshold, Thresholds, Tls, Tokenizer, Workload,
};

use crate::config::Options;
use crate::exit::Failure;
use crate::values::{CpuList, Deadline, Length, Share, Span};
use crate::{cpus, secret};
use target::Api;

/// Input tokens of a prompt unless `--isl` says otherwise.
const ISL: Length = Length(128);
/// Output tokens asked for unless `--osl` says otherwise: with these a first run takes seconds.
const OSL: Length = Length(32);
/// Name of a run unless `--name` says otherwise.
const NAME: &str = "run";
/// Limit on a request: without one a server that hangs would hang a closed loop for good.
const TIMEOUT: Deadline = Deadline(Some(Span::from_ns(600_000_000_000)));
/// Limit on opening a connection, and on its TLS handshake.
const CONNECT_TIMEOUT: Deadline = Deadline(Some(Span::from_ns(10_000_000_000)));
/// Largest seed: what every reader of TOML and JSON takes as it is.
const SEED_MAX: u64 = (1 << 53) - 1;

/// A run that has been thought through, all but the address and the model of the server.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// The options with everything filled in.
    options: Options,
    /// The API and how it is spoken.
    pub(crate) api: Api,
    /// How servers are reached.
    pub(crate) way: Way,
    /// How TLS is spoken.
    pub(crate) tls: Tls,
    /// How long to wait for the server, ns.
    pub(crate) wait_ready_ns: Option<u64>,
    /// Share of failures that is allowed.
    pub(crate) max_error_rate: Share,
    /// Remarks for the user.
    pub(crate) notes: Vec<String>,
    load: Load,
    stop: Stop,
    content: Content,
    objectives: Objectives,
    client: Client,
    limits: Limits,
    sizes: Sizes,
    seed: u64,
}

impl Draft {
    /// Fills in the defaults and refuses what makes no sense. `allowed` are the CPUs that this
    /// process may use.
    ///
    /// # Errors
    /// A usage error that names the option and says what to do.
    pub(crate) fn new(options: Options, allowed: &[usize]) -> Result<Self, Failure> {
        let mut filled = options;
        let mut notes = Vec::new();
        let api = target::resolve(&mut filled, &mut notes)?;
        let content = content(&mut filled, api.dialect, &mut notes)?;
        let (load, stop) = load::resolve(&mut filled, &mut notes)?;
        let client = client(&mut filled, allowed, load::reactors_needed(&load, &content))?;
        let seed = *filled.seed.get_or_insert_with(draw);
        if seed > SEED_MAX {
            return Err(Failure::usage(format!("--seed {seed} is above {SEED_MAX}")));
        }
        notes.extend(wire::unused(&filled));
        let name = filled.name.get_or_insert_with(|| NAME.to_owned());
        check_name(name)?;
        Ok(Self {
            api,
            wait_ready_ns: filled.wait_ready.map(Span::ns),
            max_error_rate: *filled.max_error_rate.get_or_insert(Share::from_percent(5.0)),
            objectives: objectives(&mut filled)?,
            limits: limits(&mut filled),
            sizes: wire::sizes(&filled)?,
            way: wire::way(&filled)?,
            tls: wire::tls(&mut filled)?,
            notes,
            load,
            stop,
            content,
            client,
            seed,
            options: filled,
        })
    }

    /// The options as they now stand.
    #[must_use]
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The name of the run.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        self.options.name.as_deref().unwrap_or(NAME)
    }

    /// Positions of the reactors in the list of allowed CPUs.
    #[must_use]
    pub(crate) fn reactors(&self) -> &[usize] {
        &self.client.cpus
    }

    /// What it takes to ask a server.
    #[must_use]
    pub(crate) fn asked<'a>(&'a self, server: &'a Located) -> Asked<'a> {
        Asked {
            endpoint: &server.endpoint,
            dialect: self.api.dialect,
            headers: &self.api.headers,
            tls: &self.tls,
        }
    }

    /// The workload, now that the server has an address and a model.
    #[must_use]
    pub(crate) fn workload(&self, servers: &[Located], model: &str) -> Workload {
        let api = &self.api;
        let mut target = Target {
            endpoints: servers.iter().map(|server| server.endpoint.clone()).collect(),
            tls: self.tls.clone(),
            dialect: api.dialect,
            template: api.template.clone(),
            model: model.to_owned(),
            stream: api.stream,
            force_length: api.force_length,
            return_token_ids: api.return_token_ids,
            continuous_usage: api.continuous_usage,
            headers: api.headers.clone(),
            extra_body: api.extra_body.clone(),
        };
        settle_paths(&mut target);
        Workload {
            target,
            load: self.load,
            stop: self.stop,
            content: self.content.clone(),
            objectives: self.objectives.clone(),
            client: self.client.clone(),
            limits: self.limits,
            sizes: self.sizes,
            seed: self.seed,
        }
    }

    /// The text of `run.toml`: every option as it was resolved, without secrets and without the
    /// directory of the results.
    ///
    /// # Errors
    /// If a value cannot be written as TOML.
    pub(crate) fn run_toml(&self, model: &str) -> Result<String, Failure> {
        let saved = Options {
            model: (!model.is_empty()).then(|| model.to_owned()),
            header: secret::redact(&self.options.header),
            ..self.options.clone()
        };
        let target = if saved.url.is_empty() { "# No url: the embedded simulator.\n" } else { "" };
        let body = toml::to_string(&saved)
            .map_err(|error| Failure::could_not_run(format!("run.toml: {error}")))?;
        Ok(format!("# Reproduces this run: tokclock run --config run.toml\n{target}{body}"))
    }
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

fn content(
    options: &mut Options,
    dialect: Dialect,
    notes: &mut Vec<String>,
) -> Result<Content, Failure> {
    let tokenizer = match &options.tokenizer {
        Some(name) => name.parse().map_err(|error| Failure::usage(format!("--{error}")))?,
        // Not written down: a tokenizer that was chosen counts answers too.
        None => Tokenizer::O200kBase,
    };
    let output_tokens = if dialect.generates() {
        options.osl.get_or_insert(OSL).0
    } else {
        if options.osl.take().is_some() {
            notes.push(format!("{dialect} generates nothing: --osl is ignored"));
        }
        0
    };
    Ok(Content {
        input_tokens: options.isl.get_or_insert(ISL).0,
        output_tokens,
        tokenizer,
        tokenizer_chosen: options.tokenizer.is_some(),
    })
}

fn client(options: &mut Options, allowed: &[usize], needed: usize) -> Result<Client, Failure> {
    let chosen = cpus::choose(allowed, options.reactors, options.cpus.as_ref(), needed)?;
    options.reactors = Some(chosen.len());
    options.cpus = Some(CpuList(chosen.iter().map(|&position| allowed[position]).collect()));
    Ok(Client {
        cpus: chosen,
        stamps: word::<Stamps>(&mut options.stamps, "kernel")?,
        keep_chunks: *options.chunks.get_or_insert(false),
        keep_text: *options.keep_text.get_or_insert(false),
        close: word::<Close>(&mut options.close, "fin")?,
        connections: wire::connections(options)?,
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

fn objectives(options: &mut Options) -> Result<Objectives, Failure> {
    let slo = options
        .slo
        .iter()
        .map(|rule| {
            rule.parse().map_err(|error| Failure::usage(format!("--slo '{rule}': {error}")))
        })
        .collect::<Result<_, _>>()?;
    let goodput = options
        .goodput
        .as_ref()
        .map(|limits| {
            limits.parse().map_err(|error| Failure::usage(format!("--goodput '{limits}': {error}")))
        })
        .transpose()?;
    let capped = options.capped.get_or_insert_with(|| "ok".to_owned());
    let capped_is_miss = match capped.as_str() {
        "ok" => false,
        "miss" => true,
        other => return Err(Failure::usage(format!("--capped `{other}`: expected ok or miss"))),
    };
    Ok(Objectives { slo, goodput, capped_is_miss })
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
