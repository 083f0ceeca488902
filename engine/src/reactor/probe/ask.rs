//! One question to a server and its answer, blocking: over TCP or a unix socket, through a proxy, with
//! or without TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tokclock_parser::body::{Body, Part};
use tokclock_parser::head;

use super::timed::Timed;
use super::{Asked, ProbeError};
use crate::clock;
use crate::reactor::socket::reason;
use crate::reactor::tls;
use crate::record::ErrorClass;
use crate::workload::{Address, Endpoint};

/// Bytes of an answer that are looked at.
const ANSWER_MAX: usize = 4 << 20;

/// How far a question may go.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Longest silence.
    patience: Duration,
    /// Longest time in all, ns.
    most_ns: u64,
    /// Most bytes of an answer.
    most_bytes: usize,
}

/// Of questions whose answer is needed.
const USUAL: Bounds =
    Bounds { patience: Duration::from_secs(10), most_ns: u64::MAX, most_bytes: ANSWER_MAX };
/// Of questions that nothing depends on.
const SHORT: Bounds =
    Bounds { patience: Duration::from_secs(5), most_ns: 5_000_000_000, most_bytes: 1 << 20 };

/// Of a look at what a server counts: nothing depends on it, and it must end in time.
const LOOK_BYTES: usize = 8 << 20;

/// Bytes in both directions, of whatever kind.
trait Line: Read + Write {}

impl<T: Read + Write> Line for T {}

/// A request without effect, which asks for the models and for the connection's end.
pub(crate) fn harmless_request(asked: &Asked<'_>) -> Vec<u8> {
    get_request(asked, &asked.models_path())
}

/// The request that GETs `path`, which asks the server to close afterwards.
fn get_request(asked: &Asked<'_>, path: &str) -> Vec<u8> {
    request(asked, "GET", path, "")
}

/// A request that asks the server to close afterwards; `more` are header lines of its own.
fn request(asked: &Asked<'_>, method: &str, path: &str, more: &str) -> Vec<u8> {
    request_for(asked, (method, path), "application/json", more)
}

/// The same for an answer of the type `accept`.
fn request_for(
    asked: &Asked<'_>,
    (method, path): (&str, &str),
    accept: &str,
    more: &str,
) -> Vec<u8> {
    let Endpoint { via, host, .. } = asked.endpoint;
    let mut request = format!(
        "{method} {}{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tokclock/{}\r\n\
         Accept: {accept}\r\n{more}",
        via.as_deref().unwrap_or(""),
        env!("CARGO_PKG_VERSION")
    );
    for (name, value) in asked.headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("Connection: close\r\n\r\n");
    request.into_bytes()
}

/// GETs `path`. Returns status and body.
pub(super) fn get(asked: &Asked<'_>, path: &str) -> Result<(u16, Vec<u8>), ProbeError> {
    exchange(asked, &get_request(asked, path))
}

/// POSTs a JSON `body` to `path`. Returns status and body.
pub(super) fn post(
    asked: &Asked<'_>,
    path: &str,
    body: &[u8],
) -> Result<(u16, Vec<u8>), ProbeError> {
    let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let mut bytes = request(asked, "POST", path, &more);
    bytes.extend_from_slice(body);
    exchange(asked, &bytes)
}

/// An answer whose head is of interest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Its status.
    pub(super) status: u16,
    /// Its header fields as they came.
    pub(super) headers: Vec<(String, String)>,
    /// Its body.
    pub(super) body: Vec<u8>,
}

/// GETs `path` if that is a matter of moments; nothing where there is no whole answer.
pub(super) fn glance(asked: &Asked<'_>, path: &str) -> Option<Answer> {
    let bytes = exchange_bytes(asked, &get_request(asked, path), SHORT).ok()?;
    let (status, body) = until_close(&bytes).ok()?;
    Some(Answer { status, headers: fields(&bytes), body })
}

/// GETs `path` as text, which takes no longer than `most`. Returns status and body.
///
/// # Errors
/// There is no whole answer: why, in a few words.
pub(super) fn look(
    asked: &Asked<'_>,
    path: &str,
    most: Duration,
) -> Result<(u16, Vec<u8>), String> {
    let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    let bounds = Bounds { patience: most, most_ns, most_bytes: LOOK_BYTES };
    let request = request_for(asked, ("GET", path), "text/plain", "");
    let bytes = exchange_bytes(asked, &request, bounds).map_err(|error| error.reason())?;
    read_answer(&bytes)?.map_or_else(|| until_close(&bytes), Ok)
}

/// The header fields of the final head in `bytes`, as far as they are text.
fn fields(bytes: &[u8]) -> Vec<(String, String)> {
    let mut at = 0;
    while let Ok(step) = head::read(&bytes[at..], 64 << 10) {
        let from = at;
        at += step.used;
        match step.item {
            Some(head) if head.is_interim() => {}
            Some(_) => {
                let text = String::from_utf8_lossy(&bytes[from..at]);
                let field = |line: &str| {
                    let (name, value) = line.split_once(':')?;
                    Some((name.trim().to_owned(), value.trim().to_owned()))
                };
                return text.lines().skip(1).filter_map(field).collect();
            }
            None => break,
        }
    }
    Vec::new()
}

/// Sends a request and reads its answer. Returns status and body.
fn exchange(asked: &Asked<'_>, request: &[u8]) -> Result<(u16, Vec<u8>), ProbeError> {
    let bytes = exchange_bytes(asked, request, USUAL)?;
    let url = || asked.endpoint.url.clone();
    until_close(&bytes).map_err(|reason| ProbeError::NotHttp { url: url(), reason })
}

/// Sends a request and reads its answer, head and body.
fn exchange_bytes(
    asked: &Asked<'_>,
    request: &[u8],
    bounds: Bounds,
) -> Result<Vec<u8>, ProbeError> {
    let endpoint = asked.endpoint;
    let until_ns = clock::monotonic_ns().saturating_add(bounds.most_ns);
    let mut line = open(asked, bounds, until_ns)?;
    line.write_all(request).map_err(|error| broken(asked, &error, bounds))?;
    let not_http = |reason: String| ProbeError::NotHttp { url: endpoint.url.clone(), reason };
    let mut bytes = Vec::new();
    let mut piece = [0_u8; 16 << 10];
    loop {
        if read_answer(&bytes).map_err(not_http)?.is_some() {
            return Ok(bytes);
        }
        let got = match line.read(&mut piece) {
            Ok(0) if bytes.is_empty() => return Err(not_http("it closed at once".to_owned())),
            Ok(0) => return Ok(bytes),
            Ok(got) => got,
            // Some end TLS without a word.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(bytes),
            Err(error) if bytes.is_empty() => return Err(broken(asked, &error, bounds)),
            Err(error) if is_timeout(&error) => {
                return Err(not_http("its answer does not end".to_owned()));
            }
            Err(error) => return Err(not_http(reason(&error))),
        };
        bytes.extend_from_slice(&piece[..got]);
        if bytes.len() > bounds.most_bytes {
            return Err(not_http("its answer does not end".to_owned()));
        }
    }
}

/// Opens a way to the server: its first address that accepts a connection.
fn open(asked: &Asked<'_>, bounds: Bounds, until_ns: u64) -> Result<Box<dyn Line>, ProbeError> {
    let endpoint = asked.endpoint;
    let patience = bounds.patience;
    let mut refused = None;
    for address in &endpoint.addresses {
        let left = until_ns.saturating_sub(clock::monotonic_ns()).max(1);
        let opened: std::io::Result<Box<dyn Line>> = match address {
            Address::Ip(ip) => {
                TcpStream::connect_timeout(ip, patience.min(Duration::from_nanos(left)))
                    .map(|socket| Box::new(Timed { socket, until_ns, patience }) as _)
            }
            Address::Unix(path) => UnixStream::connect(path)
                .map(|socket| Box::new(Timed { socket, until_ns, patience }) as _),
        };
        match opened {
            Ok(line) => return dressed(asked, line, bounds),
            Err(error) => refused.get_or_insert((address, reason(&error))),
        };
    }
    let url = endpoint.url.clone();
    Err(match refused {
        Some((address, reason)) => {
            ProbeError::Unreachable { url, address: address.clone(), reason }
        }
        None => ProbeError::Url { url, reason: "it has no address".to_owned() },
    })
}

/// Asks the proxy for a tunnel and speaks TLS, where that is so.
fn dressed(
    asked: &Asked<'_>,
    mut line: Box<dyn Line>,
    bounds: Bounds,
) -> Result<Box<dyn Line>, ProbeError> {
    if let Some(authority) = &asked.endpoint.tunnel {
        tunnel(&mut *line, authority)
            .map_err(|reason| ProbeError::Proxy { url: asked.endpoint.url.clone(), reason })?;
    }
    if !asked.endpoint.tls {
        return Ok(line);
    }
    let config = tls::config(asked.tls)?;
    let name = tls::server_name(asked.endpoint, asked.tls)?;
    let session = rustls::ClientConnection::new(Arc::new(config), name)
        .map_err(|error| refused(asked, &error))?;
    let mut stream = rustls::StreamOwned::new(session, line);
    while stream.conn.is_handshaking() {
        let done = stream.conn.complete_io(&mut stream.sock);
        done.map_err(|error| broken(asked, &error, bounds))?;
    }
    Ok(Box::new(stream))
}

/// The request by which a proxy is asked to connect to `authority`.
pub(crate) fn tunnel_request(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
}

fn tunnel(line: &mut dyn Line, authority: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| reason(&error);
    line.write_all(tunnel_request(authority).as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut one = [0_u8; 1];
    // One byte at a time: what follows the head is not the proxy's.
    while bytes.len() < ANSWER_MAX {
        let step = head::read(&bytes, 64 << 10).map_err(|error| error.to_string())?;
        if let Some(head) = step.item {
            let accepted = (200..300).contains(&head.status);
            return if accepted { Ok(()) } else { Err(format!("status {}", head.status)) };
        }
        if line.read(&mut one).map_err(failed)? == 0 {
            break;
        }
        bytes.push(one[0]);
    }
    Err("it closed without an answer".to_owned())
}

/// What a failure of reading or writing is: one of TLS, or of the connection.
fn broken(asked: &Asked<'_>, error: &std::io::Error, bounds: Bounds) -> ProbeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(inner) = inner {
        return refused(asked, inner);
    }
    let text = match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it closed during the TLS handshake".to_owned(),
        _ if is_timeout(error) => format!("no answer within {} s", bounds.patience.as_secs()),
        _ => reason(error),
    };
    ProbeError::NotHttp { url: asked.endpoint.url.clone(), reason: text }
}

/// Whether it was waited too long.
fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

fn refused(asked: &Asked<'_>, error: &rustls::Error) -> ProbeError {
    let (class, reason) = tls::class_of(error);
    ProbeError::Tls {
        url: asked.endpoint.url.clone(),
        class: if class == ErrorClass::TlsVerify { "tls_verify" } else { "tls_handshake" },
        advice: tls::advice(error),
        reason,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_the_final_head_are_kept() {
        let bytes = b"HTTP/1.1 103 Early\r\nserver: a\r\n\r\nHTTP/1.1 200 OK\r\nServer: b:1\r\n\
            X-Version: 2\r\nContent-Length: 2\r\n\r\nx: y";
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [own("Server", "b:1"), own("X-Version", "2"), own("Content-Length", "2")];
        assert_eq!(fields(bytes), expected);
        assert!(fields(b"HTTP/1.1 200 OK\r\nserver: a").is_empty());
        assert!(fields(b"SSH-2.0\r\n").is_empty());
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
