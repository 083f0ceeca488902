//! What is asked of a server before load starts: where it is, whether it answers, which models it
//! has. Plain blocking calls; none of their time enters a figure.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use tokclock_parser::body::{Body, Part};
use tokclock_parser::head;

use super::socket::reason;
use crate::clock;
use crate::workload::{Dialect, Target};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long connecting may take before the next address of a name is tried.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two questions while a server is not ready.
const PAUSE: Duration = Duration::from_millis(250);
/// Bytes of an answer that are looked at.
const ANSWER_MAX: usize = 4 << 20;

/// Where a server is, and how requests to it are addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The URL as given, without user information.
    pub url: String,
    /// The address that answered, or the first of the name.
    pub address: SocketAddr,
    /// Value of the `Host` header.
    pub host: String,
    /// Path below which the API lies: `/v1`.
    pub base_path: String,
    /// Path of requests: `/v1/chat/completions`.
    pub path: String,
    /// How long name resolution took, ns.
    pub resolve_ns: u64,
}

impl Located {
    /// The place of a target that was located before.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        Self {
            url: target.url.clone(),
            address: target.address,
            host: target.host.clone(),
            base_path: target.base_path.clone(),
            path: target.path.clone(),
            resolve_ns: 0,
        }
    }

    /// Where the server lists its models.
    fn models_path(&self) -> String {
        format!("{}/models", self.base_path)
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
    #[error("{scheme}:// is not supported in this version: only http:// is")]
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
        address: SocketAddr,
        /// What the kernel said.
        reason: String,
    },
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

/// Resolves the target and finds the address to use: the first that accepts a connection.
///
/// # Errors
/// The URL, its scheme or its name cannot be used. An address that does not answer is no error here.
pub fn locate(given: &str, dialect: Dialect) -> Result<Located, ProbeError> {
    let text = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
    let bad = |reason: String| ProbeError::Url { url: given.to_owned(), reason };
    let mut url = url::Url::parse(&text).map_err(|error| bad(error.to_string()))?;
    if url.scheme() != "http" {
        return Err(ProbeError::Scheme { scheme: url.scheme().to_owned() });
    }
    let (_, _) = (url.set_username(""), url.set_password(None));
    let name = url.host_str().ok_or_else(|| bad("it has no host".to_owned()))?.to_owned();
    let port = url.port_or_known_default().unwrap_or(80);
    let started = clock::monotonic_ns();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let dns = |reason: String| ProbeError::Dns { host: name.clone(), reason };
    let addresses: Vec<SocketAddr> =
        (bare, port).to_socket_addrs().map_err(|error| dns(error.to_string()))?.collect();
    let resolve_ns = clock::monotonic_ns() - started;
    let first = *addresses.first().ok_or_else(|| dns("the name has no address".to_owned()))?;
    let answers = |address: &&SocketAddr| {
        addresses.len() == 1 || TcpStream::connect_timeout(address, CONNECT_PATIENCE).is_ok()
    };
    let address = addresses.iter().find(answers).copied().unwrap_or(first);
    let (base_path, path) = paths(&url, dialect);
    let host = url.port().map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
    Ok(Located { url: url.to_string(), address, host, base_path, path, resolve_ns })
}

/// The API's base path and the path of requests. A trailing `/v1`, a slash and the whole endpoint
/// are understood; a query goes with every request.
fn paths(url: &url::Url, dialect: Dialect) -> (String, String) {
    let endpoint = match dialect {
        Dialect::OpenaiChat => "/chat/completions",
        Dialect::OpenaiCompletions => "/completions",
    };
    let given = url.path().trim_end_matches('/');
    let base = given.strip_suffix(endpoint).unwrap_or(given);
    let base = if base.ends_with("/v1") || given.ends_with(endpoint) {
        base.to_owned()
    } else {
        format!("{base}/v1")
    };
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("{base}{endpoint}{query}");
    (base, path)
}

/// A request without effect, which asks for the models and for the connection's end.
pub(crate) fn harmless_request(target: &Target) -> Vec<u8> {
    let located = Located::of(target);
    get_request(&located, &located.models_path(), &target.headers)
}

/// The request that GETs `path`, which asks the server to close afterwards.
fn get_request(located: &Located, path: &str, headers: &[(String, String)]) -> Vec<u8> {
    let mut request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tokclock/{}\r\nAccept: application/json\r\n",
        located.host,
        env!("CARGO_PKG_VERSION")
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("Connection: close\r\n\r\n");
    request.into_bytes()
}

/// GETs `path`. Returns status and body.
fn get(
    located: &Located,
    path: &str,
    headers: &[(String, String)],
) -> Result<(u16, Vec<u8>), ProbeError> {
    let unreachable = |error: std::io::Error| ProbeError::Unreachable {
        url: located.url.clone(),
        address: located.address,
        reason: reason(&error),
    };
    let mut stream = TcpStream::connect_timeout(&located.address, PATIENCE).map_err(unreachable)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(unreachable)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(unreachable)?;
    stream.write_all(&get_request(located, path, headers)).map_err(unreachable)?;
    let not_http = |reason: String| ProbeError::NotHttp { url: located.url.clone(), reason };
    let mut bytes = Vec::new();
    let mut piece = [0_u8; 16 << 10];
    loop {
        match read_answer(&bytes) {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            Err(reason) => return Err(not_http(reason)),
        }
        let got = match stream.read(&mut piece) {
            Ok(0) if bytes.is_empty() => return Err(not_http("it closed at once".to_owned())),
            Ok(0) => return until_close(&bytes).map_err(not_http),
            Ok(got) => got,
            Err(error) if bytes.is_empty() => {
                return Err(not_http(format!("no answer: {}", reason(&error))));
            }
            Err(error) => return Err(not_http(reason(&error))),
        };
        bytes.extend_from_slice(&piece[..got]);
        if bytes.len() > ANSWER_MAX {
            return Err(not_http("its answer does not end".to_owned()));
        }
    }
}

/// A whole answer, if `bytes` hold one.
fn read_answer(bytes: &[u8]) -> Result<Option<(u16, Vec<u8>)>, String> {
    match parse(bytes)? {
        Some((status, body, true)) => Ok(Some((status, body))),
        _ => Ok(None),
    }
}

/// The answer in `bytes`, after which the server closed.
fn until_close(bytes: &[u8]) -> Result<(u16, Vec<u8>), String> {
    match parse(bytes)? {
        Some((status, body, _)) => Ok((status, body)),
        None => Err("it closed inside the response head".to_owned()),
    }
}

/// Status, body so far, and whether the framing says that it is whole.
fn parse(bytes: &[u8]) -> Result<Option<(u16, Vec<u8>, bool)>, String> {
    let mut at = 0;
    loop {
        let step = head::read(&bytes[at..], 64 << 10).map_err(|error| error.to_string())?;
        at += step.used;
        let Some(head) = step.item else { return Ok(None) };
        if head.is_interim() {
            continue;
        }
        let mut body = Body::new(head.framing);
        let mut whole = Vec::new();
        loop {
            if body.ended() {
                return Ok(Some((head.status, whole, true)));
            }
            let step = body.step(&bytes[at..]).map_err(|error| error.to_string())?;
            at += step.used;
            match step.item {
                Some(Part::Data(data)) => whole.extend_from_slice(data),
                Some(Part::End) => return Ok(Some((head.status, whole, true))),
                None if step.used == 0 => return Ok(Some((head.status, whole, false))),
                None => {}
            }
        }
    }
}

/// Checks that the server answers in HTTP at all; any status will do.
///
/// # Errors
/// It cannot be reached, or does not speak HTTP/1.1.
pub fn reach(located: &Located, headers: &[(String, String)]) -> Result<u16, ProbeError> {
    get(located, &located.models_path(), headers).map(|(status, _)| status)
}

/// The models that the server lists, in its order.
///
/// # Errors
/// It cannot be reached, or lists none.
pub fn models(located: &Located, headers: &[(String, String)]) -> Result<Vec<String>, ProbeError> {
    let path = located.models_path();
    let (status, body) = get(located, &path, headers)?;
    let none = |reason: String| ProbeError::NoModels {
        url: located.url.clone(),
        path: path.clone(),
        reason,
    };
    if status != 200 {
        return Err(none(format!("status {status}")));
    }
    let value: serde_json::Value =
        serde_json::from_slice(&body).map_err(|error| none(format!("no JSON: {error}")))?;
    let listed = value.get("data").and_then(serde_json::Value::as_array);
    let ids: Vec<String> = listed
        .into_iter()
        .flatten()
        .filter_map(|model| model.get("id").and_then(serde_json::Value::as_str))
        .map(str::to_owned)
        .collect();
    if ids.is_empty() { Err(none("the list is empty".to_owned())) } else { Ok(ids) }
}

/// Waits until the server answers without a server error.
///
/// # Errors
/// It did not within `timeout_ns`.
pub fn wait_ready(
    located: &Located,
    headers: &[(String, String)],
    timeout_ns: u64,
) -> Result<(), ProbeError> {
    let deadline = clock::monotonic_ns().saturating_add(timeout_ns);
    loop {
        let reason = match reach(located, headers) {
            Ok(status) if status < 500 => return Ok(()),
            Ok(status) => format!("status {status}"),
            Err(error) => error.to_string(),
        };
        if clock::monotonic_ns() >= deadline {
            return Err(ProbeError::NotReady {
                url: located.url.clone(),
                seconds: timeout_ns / 1_000_000_000,
                reason,
            });
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(url: &str) -> String {
        locate(url, Dialect::OpenaiChat).unwrap().path
    }

    #[test]
    fn base_urls_come_in_many_forms() {
        for (url, path) in [
            ("http://127.0.0.1:9", "/v1/chat/completions"),
            ("127.0.0.1:9", "/v1/chat/completions"),
            ("http://127.0.0.1:9/", "/v1/chat/completions"),
            ("http://127.0.0.1:9/v1", "/v1/chat/completions"),
            ("http://127.0.0.1:9/v1/", "/v1/chat/completions"),
            ("http://127.0.0.1:9/llm/a/v1", "/llm/a/v1/chat/completions"),
            ("http://127.0.0.1:9/llm/a", "/llm/a/v1/chat/completions"),
            ("http://127.0.0.1:9/v1/chat/completions", "/v1/chat/completions"),
            ("http://127.0.0.1:9/v1?key=1", "/v1/chat/completions?key=1"),
        ] {
            assert_eq!(path_of(url), path, "{url}");
        }
    }

    #[test]
    fn the_host_header_keeps_brackets_and_port() {
        let located = locate("http://[::1]:9/v1", Dialect::OpenaiChat).unwrap();
        assert_eq!(located.host, "[::1]:9");
        assert!(located.address.is_ipv6());
    }

    #[test]
    fn a_url_that_cannot_be_used_says_why() {
        for (url, word) in [
            ("https://127.0.0.1", "https"),
            ("http://", "URL"),
            ("ftp://127.0.0.1", "ftp"),
            ("http://no-such-host.invalid", "resolve"),
        ] {
            let error = locate(url, Dialect::OpenaiChat).unwrap_err().to_string();
            assert!(error.contains(word) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn answers_are_read_whole_in_any_framing() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        assert_eq!(read_answer(chunked), Ok(Some((200, b"hi".to_vec()))));
        let counted = b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(read_answer(counted), Ok(Some((404, b"hi".to_vec()))));
        assert_eq!(read_answer(&counted[..counted.len() - 1]), Ok(None));
        assert_eq!(until_close(b"HTTP/1.0 200 OK\r\n\r\nhi"), Ok((200, b"hi".to_vec())));
        assert!(read_answer(b"SSH-2.0-OpenSSH_9.2\r\n").is_err());
    }
}
