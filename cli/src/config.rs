//! The options of a run, all optional: what the command line and a TOML file share, one laid over
//! the other.

mod check;
mod content;
mod curve;
mod disagg;
mod hosts;
pub(crate) mod label;
mod load;
mod options;
mod schema;

pub(crate) use check::{Problem, Read, check};
pub(crate) use content::{ClassOptions, ContentOptions};
pub(crate) use curve::{CurveOptions, SearchOptions};
pub(crate) use disagg::DisaggOptions;
pub(crate) use hosts::HostOptions;
pub(crate) use options::Options;
pub(crate) use schema::schema;

use std::path::{Path, PathBuf};

use clap::Args as _;
use serde::Deserialize;

use crate::exit::Failure;
use crate::secret;

impl Options {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// A usage error that names the file and, where it is about its content, the line.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Ok(Self::read_with::<Nothing>(path)?.0)
    }

    /// Reads a TOML file that may hold options of a command besides.
    fn read_with<T: More>(path: &Path) -> Result<(Self, T), Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))?;
        Self::parse_with(&text)
            .map_err(|error| Failure::usage(format!("--config {}{error}", path.display())))
    }

    /// Options of a run and those of a command, `typed` over those of the file, if there is one.
    ///
    /// # Errors
    /// A usage error if the file cannot be read.
    pub(crate) fn with<T: More + Clone>(
        typed: &Self,
        more: &T,
        file: Option<PathBuf>,
    ) -> Result<(Self, T), Failure> {
        let Some(path) = file else { return Ok((typed.clone(), more.clone())) };
        let (options, besides) = Self::read_with::<T>(&path)?;
        Ok((typed.clone().over(options)?, overlaid(more, &besides)?))
    }

    /// Reads the text of a TOML file; an error begins with its place, as in `:3: unknown field`.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(Self::parse_with::<Nothing>(text)?.0)
    }

    fn parse_with<T: More>(text: &str) -> Result<(Self, T), String> {
        let at = |error: &toml::de::Error| {
            let line = line_of(text, error);
            // The value may be a secret.
            if line_is_secret(text, line) {
                return format!(":{line}: the value has the wrong type");
            }
            format!(":{line}: {}", error.message().replace('\n', " "))
        };
        let table: toml::Table = toml::from_str(text).map_err(|error| at(&error))?;
        check_keys::<T>(text, &table)?;
        // What is read as a part of something larger forgets its line: alone it tells it.
        let _: ContentOptions = toml::from_str(text).map_err(|error| at(&error))?;
        let more: T = toml::from_str(text).map_err(|error| at(&error))?;
        Ok((toml::from_str(text).map_err(|error| at(&error))?, more))
    }

    /// These options over those of a file: what is given here wins, and takes with it what in the
    /// file would contradict it.
    ///
    /// # Errors
    /// A usage error if the two do not go together.
    pub(crate) fn over(self, mut file: Self) -> Result<Self, Failure> {
        file.give_way_to(&self);
        let mut merged = overlaid(&self, &file)?;
        merged.content = self.content.over(&file.content)?;
        // Not written down, so not in the tables.
        merged.out = self.out.or(file.out);
        merged.hosts.start_at = self.hosts.start_at.or(file.hosts.start_at);
        merged.header = secret::merge_headers(self.header, file.header);
        merged.label = label::merge(self.label, file.label);
        Ok(merged)
    }

    /// Drops what `above` rules out: the other kind of loop, the other stop rules, CPUs of another
    /// number of reactors.
    fn give_way_to(&mut self, above: &Self) {
        let is_open = above.rate.is_some() || above.rates.is_some() || above.trace.is_some();
        if is_open {
            (self.concurrency, self.ramp) = (None, None);
            (self.rate, self.rates) = (None, None);
        }
        if is_open || above.concurrency.is_some() {
            (self.trace, self.trace_speed, self.trace_loops) = (None, None, None);
            (self.trace_start, self.trace_end) = (None, None);
        }
        if is_open && self.connections.as_deref() == Some("per-user") {
            self.connections = None;
        }
        if above.retries == Some(0) {
            self.retry_backoff = None;
        }
        if above.concurrency.is_some() {
            (self.rate, self.arrival, self.burstiness) = (None, None, None);
            self.rates = None;
            (self.max_in_flight, self.overflow) = (None, None);
            self.ramp = None;
        }
        if above.arrival.as_deref().is_some_and(|law| law != "gamma") {
            self.burstiness = None;
        }
        if above.requests.is_some() || above.duration.is_some() || above.sessions.is_some() {
            (self.requests, self.duration, self.sessions) = (None, None, None);
        }
        if above.reactors.is_some() || above.cpus.is_some() {
            (self.reactors, self.cpus) = (None, None);
        }
        // A key is given in one way only, so that a redacted one can be given in another.
        let dialect = above.dialect.as_deref().or(self.dialect.as_deref());
        let key = secret::key_header(dialect);
        if above.api_key_env.is_some() || above.api_key_file.is_some() {
            (self.api_key_env, self.api_key_file) = (None, None);
            self.header.retain(|header| !secret::is_named(header, key));
        }
        if above.header.iter().any(|header| secret::is_named(header, key)) {
            (self.api_key_env, self.api_key_file) = (None, None);
        }
        if above.no_scrape == Some(true) {
            (self.scrape, self.scrape_interval) = (Vec::new(), None);
        }
        if !above.scrape.is_empty() {
            self.no_scrape = None;
        }
        if above.template.is_some() {
            self.dialect = None;
        }
        if above.dialect.as_deref().is_some_and(|dialect| dialect.trim() != "template") {
            self.template = None;
        }
    }
}

/// The options of `above` and, where it has none, those of `below`.
fn overlaid<T>(above: &T, below: &T) -> Result<T, Failure>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("options: {error}"));
    let mut merged = toml::Table::try_from(below).map_err(|error| failed(&error))?;
    merged.extend(toml::Table::try_from(above).map_err(|error| failed(&error))?);
    merged.try_into().map_err(|error| failed(&error))
}

/// Options of a command beside those of a run.
pub(crate) trait More: clap::Args + serde::Serialize + serde::de::DeserializeOwned {}

impl<T: clap::Args + serde::Serialize + serde::de::DeserializeOwned> More for T {}

/// None.
#[derive(clap::Args, serde::Serialize, Deserialize)]
pub(crate) struct Nothing {}

/// Refuses keys that are no options.
fn check_keys<T: More>(text: &str, table: &toml::Table) -> Result<(), String> {
    let run = T::augment_args(Options::augment_args(clap::Command::new("run")));
    let options: Vec<&str> = run.get_arguments().filter_map(|one| one.get_long()).collect();
    let line = |key: &str| {
        let is_it = |line: &str| line.split('=').next().is_some_and(|name| name.trim() == key);
        text.lines().position(is_it).map_or(1, |line| line + 1)
    };
    for key in table.keys() {
        if key != "url" && !options.contains(&key.as_str()) {
            return Err(format!(
                ":{}: unknown field `{key}`; the keys are the names of the options",
                line(key)
            ));
        }
    }
    let classes = table.get("class").and_then(toml::Value::as_array).into_iter().flatten();
    for class in classes.filter_map(toml::Value::as_table) {
        for key in class.keys() {
            check_class_key(key).map_err(|error| format!(":{}: {error}", line(key)))?;
        }
    }
    Ok(())
}

/// Refuses keys that a class does not have.
fn check_class_key(key: &str) -> Result<(), String> {
    let content = ContentOptions::augment_args(clap::Command::new("class"));
    let known = content.get_arguments().any(|one| one.get_long() == Some(key));
    if known || content::CLASS_KEYS.contains(&key) {
        return Ok(());
    }
    Err(format!(
        "a class has no `{key}`; it has name, weight, model, slo, goodput and the options of content"
    ))
}

/// A string, or a list of them.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// Reads a string, or a list of them.
fn one_or_more<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMore::deserialize(value)? {
        OneOrMore::One(one) => vec![one],
        OneOrMore::More(more) => more,
    })
}

/// The line of a TOML file that an error is about, from 1.
pub(crate) fn line_of(text: &str, error: &toml::de::Error) -> usize {
    error.span().map_or(1, |span| {
        text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count() + 1
    })
}

/// Whether a line of a TOML file may hold a secret: an error about it must not quote it.
fn line_is_secret(text: &str, line: usize) -> bool {
    let key = text.lines().nth(line.saturating_sub(1)).unwrap_or("").split('=').next();
    key.is_none_or(|key| matches!(key.trim(), "header" | "api-key-env" | "api-key-file"))
}

#[cfg(test)]
mod tests;
