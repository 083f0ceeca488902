//! What is asked, and of whom: servers, their addresses, TLS.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Dialect, Disagg, Template};

/// What is asked, and of whom.
#[derive(Clone, PartialEq)]
pub struct Target {
    /// The servers, at least one: request *i* goes to number *i mod n*. Where prefill and decode are
    /// apart: the decode servers.
    pub endpoints: Vec<Endpoint>,
    /// Prefill and decode are apart, and the router's role is ours.
    pub disagg: Option<Disagg>,
    /// How TLS is spoken with those whose URL says https.
    pub tls: Tls,
    /// The API.
    pub dialect: Dialect,
    /// The template, where the API is one.
    pub template: Option<Template>,
    /// Model name sent in every body; may be empty where the API needs none.
    pub model: String,
    /// Whether answers are streamed.
    pub stream: bool,
    /// Ask for outputs that do not end before their length, where the API can.
    pub force_length: bool,
    /// Ask for the ids of the tokens of each event.
    pub return_token_ids: bool,
    /// Ask for the count of tokens in each event.
    pub continuous_usage: bool,
    /// A header of this name tells the server to which session a request belongs.
    pub session_header: Option<String>,
    /// Send a `traceparent` with each request, unless `headers` hold one.
    pub traceparent: bool,
    /// Extra request headers, in order. Values may be secret: they are never printed or saved here.
    pub headers: Vec<(String, String)>,
    /// Members added to (or replacing those of) every body; none with a template.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
}

impl Target {
    /// Streamed chat completions of one server, each as long as is asked for.
    #[must_use]
    pub fn chat(endpoint: Endpoint, model: &str) -> Self {
        Self {
            endpoints: vec![endpoint],
            disagg: None,
            tls: Tls::default(),
            dialect: Dialect::OpenaiChat,
            template: None,
            model: model.to_owned(),
            stream: true,
            force_length: true,
            return_token_ids: false,
            continuous_usage: false,
            session_header: None,
            traceparent: false,
            headers: Vec::new(),
            extra_body: serde_json::Map::new(),
        }
    }

    /// Every server that is spoken with, in the order of their numbers: those of `endpoints`, prefill
    /// servers, routers.
    pub fn servers(&self) -> impl Iterator<Item = &Endpoint> + Clone {
        let others = self.disagg.iter().flat_map(|disagg| {
            let prefill = disagg.prefill.iter().map(|prefill| &prefill.endpoint);
            prefill.chain(&disagg.routers)
        });
        self.endpoints.iter().chain(others)
    }

    /// The same, to be changed.
    pub(crate) fn servers_mut(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        let others = self.disagg.iter_mut().flat_map(|disagg| {
            let prefill = disagg.prefill.iter_mut().map(|prefill| &mut prefill.endpoint);
            prefill.chain(&mut disagg.routers)
        });
        self.endpoints.iter_mut().chain(others)
    }

    /// Whether requests hold a `traceparent` of ours: the user's own goes before it.
    #[must_use]
    pub fn sends_traceparent(&self) -> bool {
        let is_theirs = |(name, _): &(String, String)| name.eq_ignore_ascii_case("traceparent");
        self.traceparent && !self.headers.iter().any(is_theirs)
    }
}

/// One server, with its name already resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The base URL as it was given, without user information.
    pub url: String,
    /// Where to connect, at least one: the next is tried where one does not answer.
    pub addresses: Vec<Address>,
    /// Value of the `Host` header.
    pub host: String,
    /// Path below which the API lies, `/v1`; empty at the root of the server.
    pub base_path: String,
    /// Query of every request with its question mark, or nothing.
    pub query: String,
    /// Path of the requests, prefix and query included: `/v1/chat/completions`. It may depend on
    /// the model and on `stream`: `run::settle_paths` sets it once these are known.
    pub path: String,
    /// Through a proxy that reads requests: what stands before the path in their first line.
    pub via: Option<String>,
    /// Through a proxy that passes bytes on: the `host:port` it is asked to connect to.
    pub tunnel: Option<String>,
    /// TLS is spoken.
    pub tls: bool,
    /// The host of the URL, without brackets: what a certificate is for.
    pub server_name: String,
}

impl Endpoint {
    /// Whether it lies on this host.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.addresses.iter().all(|address| match address {
            Address::Ip(ip) => ip.ip().to_canonical().is_loopback(),
            Address::Unix(_) => true,
        })
    }
}

/// How TLS is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the roots to trust, in place of those of the system and of webpki.
    pub roots: Option<PathBuf>,
    /// PEM files of our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Check certificates.
    pub verify: bool,
    /// Name to ask for and to check, in place of the URL's host.
    pub server_name: Option<String>,
    /// Resume sessions.
    pub resume: bool,
}

impl Default for Tls {
    /// Verified, resumed.
    fn default() -> Self {
        Self { roots: None, identity: None, verify: true, server_name: None, resume: true }
    }
}

/// Where a socket connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Ip(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Debug for Target {
    /// Leaves out the values of headers: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Target")
            .field("endpoints", &self.endpoints)
            .field("dialect", &self.dialect)
            .field("model", &self.model)
            .field("stream", &self.stream)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}
