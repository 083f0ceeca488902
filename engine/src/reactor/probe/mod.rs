//! What is asked of a server before load starts: where it is, whether it answers, which models it
//! has. Plain blocking calls; none of their time enters a figure.

mod ask;
mod facts;
mod locate;
mod paths;
mod timed;
mod tokenizer;

pub use facts::server_facts;
pub use locate::{Located, Pinned, Way, locate};
pub use paths::{dialects_at, settle_paths};
pub use tokenizer::ServerTokenizer;

use std::time::Duration;

use self::ask::{get, look, post};
pub(crate) use self::ask::{harmless_request, tunnel_request};
use super::tls::TlsFilesError;
use crate::clock;
use crate::workload::{Address, Dialect, Endpoint, Target, Tls};

/// Pause between two questions while a server is not ready.
const PAUSE: Duration = Duration::from_millis(250);

impl ProbeError {
    /// Nothing there answers in HTTP, so no other question helps.
    #[must_use]
    pub fn is_no_answer(&self) -> bool {
        !matches!(self, Self::NoModels { .. })
    }

    /// What happened, in a few words and without the URL.
    fn reason(self) -> String {
        match self {
            Self::Unreachable { reason, .. }
            | Self::Proxy { reason, .. }
            | Self::Tls { reason, .. }
            | Self::NotHttp { reason, .. } => reason,
            other => other.to_string(),
        }
    }
}

/// A server, and what it takes to ask it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Where it is.
    pub endpoint: &'a Endpoint,
    /// The API.
    pub dialect: Dialect,
    /// Headers of every request. Values may be secret.
    pub headers: &'a [(String, String)],
    /// How TLS is spoken.
    pub tls: &'a Tls,
}

impl<'a> Asked<'a> {
    /// Each server of a target, prefill servers and routers included.
    pub fn all(target: &'a Target) -> impl Iterator<Item = Self> + Clone {
        let Target { dialect, headers, tls, .. } = target;
        target.servers().map(|endpoint| Self { endpoint, dialect: *dialect, headers, tls })
    }

    /// Where the server lists its models, or else answers without doing anything.
    fn models_path(&self) -> String {
        paths::models_path(self.endpoint, self.dialect)
    }
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The URL is none.
    #[error("{url:?} is not a URL: {reason}; give one like http://127.0.0.1:8000")]
    Url {
        /// As given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The scheme is not spoken.
    #[error("{scheme}:// is no scheme that tokclock speaks: give http:// or https://")]
    Scheme {
        /// As given.
        scheme: String,
    },
    /// The name means nothing.
    #[error("cannot resolve {host}: {reason}; check the name, or give an address")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// Nobody answers there.
    #[error(
        "cannot reach {url} ({address}): {reason}; is the server running? --wait-ready 60s waits for it"
    )]
    Unreachable {
        /// As given.
        url: String,
        /// Where it was tried.
        address: Address,
        /// What the kernel said.
        reason: String,
    },
    /// The proxy refused.
    #[error("the proxy does not connect to {url}: {reason}")]
    Proxy {
        /// As given.
        url: String,
        /// What it said.
        reason: String,
    },
    /// No TLS came about.
    #[error("{url}: {reason} ({class}){advice}")]
    Tls {
        /// As given.
        url: String,
        /// The class that a request would fail with.
        class: &'static str,
        /// What is wrong.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// Files for TLS cannot be used.
    #[error(transparent)]
    TlsFiles(#[from] TlsFilesError),
    /// What answers does not speak HTTP/1.
    #[error("{url} does not answer in HTTP/1.1 ({reason}); is this the right port?")]
    NotHttp {
        /// As given.
        url: String,
        /// What came instead.
        reason: String,
    },
    /// It did not get ready in time.
    #[error("{url} was not ready after {seconds} s: {reason}")]
    NotReady {
        /// As given.
        url: String,
        /// How long was waited, s.
        seconds: u64,
        /// Its last answer.
        reason: String,
    },
    /// The list of models could not be had.
    #[error("{url} names no model (GET {path}: {reason}); say which with --model")]
    NoModels {
        /// As given.
        url: String,
        /// What was asked.
        path: String,
        /// Why not.
        reason: String,
    },
}

/// Checks that the server answers in HTTP at all; any status will do.
///
/// # Errors
/// It cannot be reached, or does not speak HTTP/1.1.
pub fn reach(asked: &Asked<'_>) -> Result<u16, ProbeError> {
    get(asked, &asked.models_path()).map(|(status, _)| status)
}

/// The models that the server lists, in its order.
///
/// # Errors
/// It cannot be reached, or lists none.
pub fn models(asked: &Asked<'_>) -> Result<Vec<String>, ProbeError> {
    let path = asked.models_path();
    let (status, body) = get(asked, &path)?;
    let none = |reason: String| ProbeError::NoModels {
        url: asked.endpoint.url.clone(),
        path: path.clone(),
        reason,
    };
    if matches!(asked.dialect, Dialect::TritonGenerate | Dialect::Template) {
        let named = paths::triton_model(&asked.endpoint.base_path);
        return named
            .map(|model| vec![model.to_owned()])
            .ok_or_else(|| none("this API has no such list".to_owned()));
    }
    if status != 200 {
        return Err(none(format!("status {status}")));
    }
    let value: serde_json::Value =
        serde_json::from_slice(&body).map_err(|error| none(format!("no JSON: {error}")))?;
    let names = listed(&value, asked.dialect);
    if names.is_empty() { Err(none("the list is empty".to_owned())) } else { Ok(names) }
}

/// The names in a list of models: OpenAI's form, or Ollama's.
fn listed(value: &serde_json::Value, dialect: Dialect) -> Vec<String> {
    let (list, name) = match dialect {
        Dialect::OllamaChat | Dialect::OllamaGenerate => ("models", "name"),
        _ => ("data", "id"),
    };
    let models = value.get(list).and_then(serde_json::Value::as_array).into_iter().flatten();
    models
        .filter_map(|model| model.get(name).and_then(serde_json::Value::as_str))
        .map(str::to_owned)
        .collect()
}

/// Tokens that the context of `model` holds, where the server's list of models says so.
#[must_use]
pub fn context(asked: &Asked<'_>, model: &str) -> Option<u64> {
    let (_, body) = get(asked, &asked.models_path()).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&body).ok()?;
    let mut models = value.get("data")?.as_array()?.iter();
    let own =
        models.find(|one| one.get("id").and_then(serde_json::Value::as_str) == Some(model))?;
    let places = ["/max_model_len", "/meta/n_ctx", "/context_length", "/context_window"];
    places.iter().find_map(|place| own.pointer(place)?.as_u64())
}

/// The server's counters in Prometheus' text, where it has any.
#[must_use]
pub fn metrics(asked: &Asked<'_>) -> Option<String> {
    let (status, body) = get(asked, &paths::root_path(asked.endpoint, "/metrics")).ok()?;
    (status == 200).then(|| String::from_utf8_lossy(&body).into_owned())
}

/// The text at `path`, which is looked at for no longer than `most`.
///
/// # Errors
/// There is none: why, in a few words.
pub(crate) fn text_at(asked: &Asked<'_>, path: &str, most: Duration) -> Result<String, String> {
    // Where in the answer is of no use in a line.
    let brief = |reason: String| reason.split(" (at byte").next().unwrap_or_default().to_owned();
    match look(asked, path, most).map_err(brief)? {
        (200, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        (status, _) => Err(format!("status {status}")),
    }
}

/// Where the servers' counters lie, by their habit: a path beside the API of an endpoint.
pub(crate) fn path_beside(endpoint: &Endpoint, path: &str) -> String {
    paths::root_path(endpoint, path)
}

/// Sends one request of the API with this body, for its answer alone.
///
/// # Errors
/// The server cannot be reached, answers with an error, or not in JSON.
pub fn try_out(asked: &Asked<'_>, body: &[u8]) -> Result<serde_json::Value, String> {
    let (status, answer) =
        post(asked, &asked.endpoint.path, body).map_err(|error| error.to_string())?;
    if status != 200 {
        let said: String = String::from_utf8_lossy(&answer).chars().take(200).collect();
        return Err(format!("status {status}: {}", said.trim()));
    }
    serde_json::from_slice(&answer).map_err(|error| format!("no JSON: {error}"))
}

/// Waits until the server answers without a server error.
///
/// # Errors
/// It did not within `timeout_ns`.
pub fn wait_ready(asked: &Asked<'_>, timeout_ns: u64) -> Result<(), ProbeError> {
    let deadline = clock::monotonic_ns().saturating_add(timeout_ns);
    loop {
        let reason = match reach(asked) {
            Ok(status) if status < 500 => return Ok(()),
            Ok(status) => format!("status {status}"),
            Err(error) => error.to_string(),
        };
        if clock::monotonic_ns() >= deadline {
            return Err(ProbeError::NotReady {
                url: asked.endpoint.url.clone(),
                seconds: timeout_ns / 1_000_000_000,
                reason,
            });
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn models_are_listed_in_two_forms() {
        let openai = json!({"data": [{"id": "a"}, {"id": 1}, {}, {"id": "b"}]});
        assert_eq!(listed(&openai, Dialect::SglangGenerate), ["a", "b"]);
        let ollama = json!({"models": [{"name": "a:latest", "model": "a:latest"}]});
        assert_eq!(listed(&ollama, Dialect::OllamaChat), ["a:latest"]);
        for none in [json!(null), json!([]), json!({"data": {}})] {
            assert!(listed(&none, Dialect::OpenaiChat).is_empty());
        }
    }
}
