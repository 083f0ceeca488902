//! What requests say, from options: lengths, shared parts, conversations, recordings, classes.

use std::path::Path;

use tokclock_engine::workload::{
    CacheBust, Class, Content, Conversation, Dialect, Groups, History, Law, Popularity, Shared,
    Text, Tokenizer, Turns, UserContext,
};

use super::lengths::{ISL, OSL, is_synthetic, law, lengths};
use super::recording::{Times, data_spec};
use crate::config::{ClassOptions, ContentOptions, Options};
use crate::exit::Failure;

/// Classes of a load, at most: each has histograms of its own.
const CLASSES_MAX: usize = 64;

/// What requests say, and how their texts are made.
pub(super) struct Said {
    pub(super) text: Text,
    pub(super) mix: Vec<Class>,
    /// The classes whose input length includes what the server's template adds.
    pub(super) with_template: Vec<usize>,
}

/// Reads all of it, and writes down what was left open.
pub(super) fn resolve(
    options: &mut Options,
    dialect: Dialect,
    notes: &mut Vec<String>,
) -> Result<Said, Failure> {
    if let Some(trace) = &options.trace {
        // A recording like any other, but for its times.
        if !options.class.is_empty() {
            return Err(Failure::usage(
                "--trace and --class exclude each other: a recording has its own requests",
            ));
        }
        if options.content.data.is_some() {
            return Err(Failure::usage(
                "--trace and --data exclude each other: name the file once",
            ));
        }
        options.content.data = Some(trace.clone());
    }
    let is_trace = options.trace.is_some();
    let has_load =
        options.rate.is_some() || options.rates.is_some() || options.concurrency.is_some();
    let times = match (is_trace, has_load) {
        (true, _) => Times::Needed,
        (false, true) => Times::Unused,
        (false, false) => Times::Kept,
    };
    let text = text(options)?;
    let given = options.class.clone();
    let mut mix = Vec::new();
    let mut with_template = Vec::new();
    if given.is_empty() {
        let filled = fill(&mut options.content, dialect, notes);
        let content = content(&filled, dialect, times)?;
        with_template.extend(filled.isl_includes_template.unwrap_or(false).then_some(0));
        mix.push(Class::only(content));
    }
    if given.len() > CLASSES_MAX {
        return Err(Failure::usage(format!(
            "--class {} times: give {CLASSES_MAX} at most",
            given.len()
        )));
    }
    for (number, class) in given.iter().enumerate() {
        let name = class.name.clone().unwrap_or_else(|| format!("class-{}", number + 1));
        if mix.iter().any(|other: &Class| other.name.as_ref() == Some(&name)) {
            return Err(Failure::usage(format!("--class: two of them are named `{name}`")));
        }
        let whole = of_class(class, &name, &options.content, dialect, notes)?;
        if whole.1 {
            with_template.push(number);
        }
        mix.push(whole.0);
    }
    if is_trace {
        // The trace is what is saved.
        options.content.data = None;
    }
    Ok(Said { text, mix, with_template })
}

fn of_class(
    class: &ClassOptions,
    name: &str,
    below: &ContentOptions,
    dialect: Dialect,
    notes: &mut Vec<String>,
) -> Result<(Class, bool), Failure> {
    let named = |failure: Failure| Failure::usage(format!("class {name}: {}", failure.message));
    let mut merged = class.content.over(below).map_err(named)?;
    let filled = fill(&mut merged, dialect, notes);
    let weight = class.weight.unwrap_or(1.0);
    if !(weight.is_finite() && weight > 0.0) {
        return Err(Failure::usage(format!(
            "class {name}: weight {weight}: give a number above 0"
        )));
    }
    let objectives =
        super::objectives::objectives_of(&class.slo, class.goodput.as_deref()).map_err(named)?;
    let content = content(&filled, dialect, Times::Unused).map_err(named)?;
    let includes = filled.isl_includes_template.unwrap_or(false);
    let whole = Class {
        name: Some(name.to_owned()),
        weight,
        model: class.model.clone(),
        content,
        objectives,
    };
    Ok((whole, includes))
}

/// How texts are written and counted.
fn text(options: &Options) -> Result<Text, Failure> {
    let tokenizer = match &options.tokenizer {
        Some(name) => name.parse().map_err(|error| Failure::usage(format!("--{error}")))?,
        // Not written down: a tokenizer that was chosen counts answers too.
        None => Tokenizer::O200K,
    };
    let as_ids = match options.prompt_as.as_deref() {
        None | Some("text") => false,
        Some("token-ids" | "ids") => true,
        Some(other) => {
            return Err(Failure::usage(format!(
                "--prompt-as `{other}`: expected text or token-ids"
            )));
        }
    };
    let ids = options.token_ids.as_deref().map(ids).transpose()?;
    if ids.is_some() && !as_ids {
        return Err(Failure::usage("--token-ids needs --prompt-as token-ids: ids make no text"));
    }
    if as_ids && ids.is_none() && options.tokenizer.is_none() {
        return Err(Failure::usage(
            "--prompt-as token-ids: name the model's tokenizer with --tokenizer, or a range of ids \
             that it has with --token-ids FIRST-LAST",
        ));
    }
    if as_ids && options.corpus.is_some() {
        return Err(Failure::usage("--corpus makes text: drop it with --prompt-as token-ids"));
    }
    Ok(Text {
        tokenizer,
        tokenizer_chosen: options.tokenizer.is_some(),
        corpus: options.corpus.clone(),
        as_ids,
        ids,
    })
}

fn ids(text: &str) -> Result<(u32, u32), Failure> {
    let parsed = text.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first < last).then_some((first, last))
    });
    parsed.ok_or_else(|| {
        Failure::usage(format!("--token-ids `{text}` is no range of ids such as 1000-30000"))
    })
}

/// The same with the lengths that were left open, which are written down.
fn fill(options: &mut ContentOptions, dialect: Dialect, notes: &mut Vec<String>) -> ContentOptions {
    let together = options.seq_dist.is_some()
        || options.length_pairs.is_some()
        || options.data.as_deref().is_some_and(is_synthetic);
    if !dialect.generates() && options.osl.take().is_some() {
        notes.push(format!("{dialect} generates nothing: --osl is ignored"));
    }
    if !together {
        if options.data.is_none() {
            options.isl.get_or_insert(ISL.into());
        }
        if dialect.generates() {
            options.osl.get_or_insert(OSL.into());
        }
    }
    options.clone()
}

fn content(options: &ContentOptions, dialect: Dialect, times: Times) -> Result<Content, Failure> {
    let data = options.data.as_deref().filter(|data| !is_synthetic(data));
    let data = data.map(|source| data_spec(options, source, times)).transpose()?;
    let shared = shared(options)?;
    if data.is_some() {
        refuse_with_data(options)?;
    }
    let turns = options.turns.as_ref().map(|text| law("--turns", text)).transpose()?;
    let turn_input = options.turn_isl.as_ref().map(|text| law("--turn-isl", text)).transpose()?;
    if turn_input.is_some() && turns.is_none() {
        return Err(Failure::usage("--turn-isl is for conversations: add --turns, or drop it"));
    }
    let history: History = match &options.history {
        Some(name) => name.parse().map_err(|error| Failure::usage(format!("--{error}")))?,
        None => History::Live,
    };
    let think = options.think_time.as_ref().map(|text| {
        Law::of_times(&text.0).map_err(|error| Failure::usage(format!("--think-time: {error}")))
    });
    let cache_bust: CacheBust = match &options.cache_bust {
        Some(name) => name.parse().map_err(|error| Failure::usage(format!("--{error}")))?,
        None => CacheBust::None,
    };
    Ok(Content {
        lengths: lengths(options, dialect)?,
        shared,
        data,
        conversation: Conversation {
            turns: turns.map(|count| Turns { count, input: turn_input }),
            history,
        },
        think: think.transpose()?,
        tools: options.tools.as_deref().map(tools).transpose()?,
        cache_bust,
        template_tokens: 0,
    })
}

/// What a recording brings itself.
fn refuse_with_data(options: &ContentOptions) -> Result<(), Failure> {
    let synthetic = [
        ("--isl", options.isl.is_some()),
        ("--isl-stddev", options.isl_stddev.is_some()),
        ("--seq-dist", options.seq_dist.is_some()),
        ("--length-pairs", options.length_pairs.is_some()),
        ("--random-range-ratio", options.random_range_ratio.is_some()),
        ("--system-tokens", options.system_tokens.is_some()),
        ("--prefix-groups", options.prefix_groups.is_some()),
        ("--prefix-tokens", options.prefix_tokens.is_some()),
        ("--user-tokens", options.user_tokens.is_some()),
        ("--cached-share", options.cached_share.is_some()),
        ("--turns", options.turns.is_some()),
        ("--isl-includes-template", options.isl_includes_template == Some(true)),
    ];
    match synthetic.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::usage(format!(
            "{flag} is for synthetic prompts: a recording brings its own; drop one of the two"
        ))),
        None => Ok(()),
    }
}

fn shared(options: &ContentOptions) -> Result<Shared, Failure> {
    let prefix = options.prefix_tokens.as_ref().map(|text| law("--prefix-tokens", text));
    let prefix = prefix.transpose()?;
    let share = options.cached_share.map(|share| share.value());
    if prefix.is_some() && share.is_some() {
        return Err(Failure::usage(
            "--prefix-tokens and --cached-share both say how much is shared: give one of them",
        ));
    }
    if options.prefix_groups.is_some() && prefix.is_none() && share.is_none() {
        return Err(Failure::usage(
            "--prefix-groups: say how much each shares, with --prefix-tokens or --cached-share",
        ));
    }
    let popularity = match options.prefix_popularity.as_deref() {
        None | Some("uniform") => Popularity::Uniform,
        Some(text) => {
            let exponent = text.strip_prefix("zipf:").and_then(|s| s.trim().parse::<f64>().ok());
            let exponent = exponent.filter(|s| s.is_finite() && *s > 0.0);
            Popularity::Zipf(exponent.ok_or_else(|| {
                Failure::usage(format!(
                    "--prefix-popularity `{text}`: expected uniform, or zipf:S with S above 0"
                ))
            })?)
        }
    };
    let groups = match (options.prefix_groups, &prefix, share) {
        (None, None, _) => None,
        (count, ..) => Some(Groups { count: count.unwrap_or(1), tokens: prefix, popularity }),
    };
    if groups.is_none() && options.prefix_popularity.is_some() {
        return Err(Failure::usage("--prefix-popularity is for groups: add --prefix-groups"));
    }
    let user = options.user_tokens.as_ref().map(|text| law("--user-tokens", text)).transpose()?;
    if user.is_none() && options.user_population.is_some() {
        return Err(Failure::usage("--user-population: say what users share, with --user-tokens"));
    }
    Ok(Shared {
        system_tokens: options.system_tokens.unwrap_or(0),
        groups,
        user: user.map(|tokens| UserContext { tokens, population: options.user_population }),
        cached_share: share,
    })
}

fn tools(path: &Path) -> Result<String, Failure> {
    let failed = |reason: String| Failure::usage(format!("--tools {}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| failed(format!("no JSON: {error}")))?;
    if value.as_array().is_none_or(Vec::is_empty) {
        return Err(failed("it must hold a JSON array of tool definitions".to_owned()));
    }
    Ok(value.to_string())
}
