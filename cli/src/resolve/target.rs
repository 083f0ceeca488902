//! What the server is asked for and in whose words: API, template, headers, key, lengths.

use std::path::Path;

use serde_json::{Map, Value};
use tokclock_engine::run::dialects_at;
use tokclock_engine::workload::{Dialect, Template, is_secret};
use url::Url;

use super::word;
use crate::config::{Options, line_of};
use crate::exit::Failure;
use crate::secret;

/// The API and how it is spoken.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    /// Its name.
    pub(crate) dialect: Dialect,
    /// The template, where it is one.
    pub(super) template: Option<Template>,
    /// Ask for streams.
    pub(super) stream: bool,
    /// Ask for outputs of the whole length.
    pub(super) force_length: bool,
    /// Ask for token ids.
    pub(super) return_token_ids: bool,
    /// Ask for counts in every event.
    pub(super) continuous_usage: bool,
    /// Headers of every request. Values may be secret.
    pub(crate) headers: Vec<(String, String)>,
    /// Members of every body.
    pub(super) extra_body: Map<String, Value>,
}

/// Decides on the API, and writes it down in `options`.
pub(super) fn resolve(options: &mut Options, notes: &mut Vec<String>) -> Result<Api, Failure> {
    let default = if options.template.is_some() { "template" } else { "openai-chat" };
    let dialect: Dialect = word(&mut options.dialect, default)?;
    for url in &options.url {
        check_url(url, dialect)?;
    }
    let template = template(options, dialect)?;
    let headers = headers(options, dialect, template.as_ref())?;
    let extra_body = extra_body(options.extra_body.as_deref())?;
    if template.is_some() && !extra_body.is_empty() {
        return Err(Failure::usage(
            "--extra-body: a template is sent as it stands; write the members into its body",
        ));
    }
    check_model(options, dialect, template.as_ref())?;
    if !dialect.streams() {
        options.no_stream = Some(true);
    }
    let stream = !*options.no_stream.get_or_insert(false);
    let force_length = !*options.no_force_length.get_or_insert(false);
    if force_length && !dialect.forces_length() && asks_length(dialect) {
        notes.push(format!(
            "{dialect} has no word to force the length of an output: some may end before --osl"
        ));
    }
    Ok(Api {
        dialect,
        template,
        stream,
        force_length,
        return_token_ids: token_ids(options, dialect)?,
        continuous_usage: continuous_usage(options, dialect, stream)?,
        headers,
        extra_body,
    })
}

/// Whether it is we who ask for a length.
fn asks_length(dialect: Dialect) -> bool {
    dialect.generates() && dialect != Dialect::Template
}

pub(super) fn check_url(text: &str, dialect: Dialect) -> Result<(), Failure> {
    let url = check_address(text, "http://host:8000")?;
    let at = dialects_at(url.path());
    if dialect == Dialect::Template || at.is_empty() || at.contains(&dialect) {
        return Ok(());
    }
    let names: Vec<&str> = at.iter().map(|one| one.as_str()).collect();
    Err(Failure::usage(format!(
        "the URL ends in the endpoint of {}, but the dialect is {dialect}: give the base URL, or \
         add --dialect {}",
        names.join(", "),
        names[0]
    )))
}

/// A URL that may be asked and saved, as the `example` is one.
pub(super) fn check_address(text: &str, example: &str) -> Result<Url, Failure> {
    // The text is not shown before it is known to hold no password.
    let url = Url::parse(text).map_err(|error| {
        Failure::usage(format!("the URL is not valid ({error}): give one such as {example}"))
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::usage(
            "the URL holds a user name or password: use --header or --api-key-env instead",
        ));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Failure::usage(format!(
            "`{}://` is no address that tokclock speaks to: give one such as {example}",
            url.scheme()
        )));
    }
    if let Some((name, _)) = url.query_pairs().find(|(name, _)| is_secret(name)) {
        return Err(Failure::usage(format!(
            "the URL holds `{name}`, and URLs are saved with the result: use --header or \
             --api-key-env instead"
        )));
    }
    if url.fragment().is_some() {
        return Err(Failure::usage(
            "the URL has a fragment (`#...`), which no server sees: drop it",
        ));
    }
    Ok(url)
}

/// The template that is named, checked.
fn template(options: &Options, dialect: Dialect) -> Result<Option<Template>, Failure> {
    let path = match (&options.template, dialect) {
        (Some(path), Dialect::Template) => path,
        (Some(_), _) => {
            return Err(Failure::usage(format!(
                "--template describes a dialect of its own: drop it, or --dialect {dialect}"
            )));
        }
        (None, Dialect::Template) => {
            return Err(Failure::usage(
                "--dialect template needs --template FILE, which describes it",
            ));
        }
        (None, _) => return Ok(None),
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--template {shown}: {error}")))?;
    let template: Template = toml::from_str(&text).map_err(|error| {
        let message = error.message().replace('\n', " ");
        Failure::usage(format!("--template {shown}:{}: {message}", line_of(&text, &error)))
    })?;
    template.check().map_err(|error| Failure::usage(format!("--template {shown}: {error}")))?;
    Ok(Some(template))
}

/// The user's headers, the key, and those of the API or template that the user did not set.
fn headers(
    options: &Options,
    dialect: Dialect,
    template: Option<&Template>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut headers = secret::parse_headers(&options.header)?;
    if let Some((flag, key)) = key(options)? {
        secret::add_key(&mut headers, dialect, flag, &key)?;
    }
    let of_api = dialect.headers().iter().map(|(name, value)| (*name, *value));
    let of_template = template.iter().flat_map(|template| &template.headers);
    let of_template = of_template.map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in of_api.chain(of_template) {
        secret::check_header(name, value).map_err(|reason| {
            let path = options.template.as_deref().unwrap_or_else(|| Path::new("")).display();
            Failure::usage(format!("--template {path}: headers: `{name}` {reason}"))
        })?;
        if !headers.iter().any(|(theirs, _)| theirs.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(headers)
}

/// The API key and the option that gave it.
fn key(options: &Options) -> Result<Option<(&'static str, String)>, Failure> {
    match (&options.api_key_env, &options.api_key_file) {
        (None, None) => Ok(None),
        (Some(variable), None) => {
            let value = std::env::var(variable).ok();
            let key = secret::key_of_variable(variable, value.as_deref())?;
            Ok(Some(("--api-key-env", key)))
        }
        (None, Some(path)) => Ok(Some(("--api-key-file", secret::key_of_file(path)?))),
        (Some(_), Some(_)) => {
            Err(Failure::usage("--api-key-env and --api-key-file both give a key: keep one"))
        }
    }
}

fn extra_body(json: Option<&str>) -> Result<Map<String, Value>, Failure> {
    let Some(json) = json else { return Ok(Map::new()) };
    let members: Map<String, Value> = serde_json::from_str(json).map_err(|error| {
        Failure::usage(format!(
            "--extra-body is no JSON object such as '{{\"temperature\": 0}}': {error}"
        ))
    })?;
    for (member, flag) in [("stream", "--no-stream"), ("model", "--model")] {
        if members.contains_key(member) {
            return Err(Failure::usage(format!("--extra-body sets `{member}`: use {flag}")));
        }
    }
    Ok(members)
}

/// A model that no server can tell us of must be named.
fn check_model(
    options: &Options,
    dialect: Dialect,
    template: Option<&Template>,
) -> Result<(), Failure> {
    if options.model.is_some() {
        return Ok(());
    }
    if template.is_some_and(Template::names_model) {
        return Err(Failure::usage("the template has {{model}} in it: say which with --model"));
    }
    let names_model = |url: &String| url.contains("/v2/models/");
    if dialect == Dialect::TritonGenerate
        && (options.url.is_empty() || !options.url.iter().all(names_model))
    {
        return Err(Failure::usage(
            "triton-generate lists no models: name one with --model, or in the URL, as in \
             http://host:8000/v2/models/NAME",
        ));
    }
    Ok(())
}

fn token_ids(options: &mut Options, dialect: Dialect) -> Result<bool, Failure> {
    let wanted = *options.return_token_ids.get_or_insert(false);
    if wanted && !dialect.gives_token_ids() {
        return Err(no_word("--return-token-ids", dialect, Dialect::gives_token_ids));
    }
    Ok(wanted)
}

fn continuous_usage(
    options: &mut Options,
    dialect: Dialect,
    stream: bool,
) -> Result<bool, Failure> {
    let wanted = *options.continuous_usage.get_or_insert(false);
    if wanted && !dialect.gives_continuous_usage() {
        return Err(no_word("--continuous-usage", dialect, Dialect::gives_continuous_usage));
    }
    if wanted && !stream {
        return Err(Failure::usage(
            "--continuous-usage is for the events of a stream: drop it, or --no-stream",
        ));
    }
    Ok(wanted)
}

fn no_word(flag: &str, dialect: Dialect, has: fn(Dialect) -> bool) -> Failure {
    let others = Dialect::ALL.iter().filter(|one| has(**one)).map(|one| one.as_str());
    let others = others.collect::<Vec<_>>().join(", ");
    Failure::usage(format!("{flag}: {dialect} has no word for it, only {others}: drop it"))
}
