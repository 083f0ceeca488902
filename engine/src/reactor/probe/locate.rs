//! From a URL to a server: its addresses, and how requests to it are addressed.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::ProbeError;
use super::paths::{base_path, request_path};
use crate::clock;
use crate::workload::{Address, Dialect, Endpoint};

/// How long connecting may take before the next address of a name is tried.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// A server that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Where it is, and how requests to it are addressed.
    pub endpoint: Endpoint,
    /// How long name resolution took, ns.
    pub resolve_ns: u64,
}

/// How servers are reached, where not simply by the address of their name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    /// Addresses that stand in for the resolver.
    pub pinned: Vec<Pinned>,
    /// A unix socket in place of every address.
    pub unix_socket: Option<PathBuf>,
    /// `http://host:port` of a proxy in front of every server.
    pub proxy: Option<String>,
}

/// Addresses of one name and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The name.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Its addresses, in order.
    pub addresses: Vec<IpAddr>,
}

/// Finds a server: resolves its name, and puts the address that accepts a connection first. The
/// path is that of a stream from an unnamed model: `settle_paths` knows more.
///
/// # Errors
/// The URL, its scheme or a name cannot be used. An address that does not answer is no error here.
pub fn locate(given: &str, dialect: Dialect, way: &Way) -> Result<Located, ProbeError> {
    let url = parse(given)?;
    let tls = match url.scheme() {
        "http" => false,
        "https" => true,
        scheme => return Err(ProbeError::Scheme { scheme: scheme.to_owned() }),
    };
    let name = host_of(&url, given)?;
    let port = url.port_or_known_default().unwrap_or(80);
    let started = clock::monotonic_ns();
    let proxy = way.proxy.as_deref().map(parse).transpose()?;
    let addresses = match (&way.unix_socket, &proxy) {
        (Some(path), _) => vec![Address::Unix(path.clone())],
        (None, Some(proxy)) => {
            let port = proxy.port_or_known_default().unwrap_or(80);
            resolve(&host_of(proxy, given)?, port, &[])?
        }
        (None, None) => resolve(&name, port, &way.pinned)?,
    };
    let resolve_ns = clock::monotonic_ns() - started;
    let host = url.port().map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
    let behind = proxy.is_some() && way.unix_socket.is_none();
    let mut endpoint = Endpoint {
        url: url.to_string(),
        addresses,
        // A proxy is told the whole URL, unless it only passes on what it cannot read.
        via: (behind && !tls).then(|| format!("http://{host}")),
        tunnel: (behind && tls).then(|| format!("{name}:{port}")),
        tls,
        server_name: bare(&name).to_owned(),
        host,
        base_path: base_path(url.path(), dialect),
        query: url.query().map(|query| format!("?{query}")).unwrap_or_default(),
        path: String::new(),
    };
    endpoint.path = request_path(&endpoint, dialect, "", true);
    Ok(Located { endpoint, resolve_ns })
}

fn parse(given: &str) -> Result<Url, ProbeError> {
    let text = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
    let bad = |error: url::ParseError| ProbeError::Url {
        url: without_secrets(given),
        reason: error.to_string(),
    };
    let mut url = Url::parse(&text).map_err(bad)?;
    let (_, _) = (url.set_username(""), url.set_password(None));
    Ok(url)
}

/// What may be shown of a URL that is none.
fn without_secrets(given: &str) -> String {
    given.rsplit('@').next().unwrap_or_default().to_owned()
}

fn host_of(url: &Url, given: &str) -> Result<String, ProbeError> {
    let none =
        || ProbeError::Url { url: without_secrets(given), reason: "it has no host".to_owned() };
    url.host_str().map(str::to_owned).ok_or_else(none)
}

/// A host without the brackets of an IPv6 literal.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The addresses of a name, that which accepts a connection first.
fn resolve(host: &str, port: u16, pinned: &[Pinned]) -> Result<Vec<Address>, ProbeError> {
    let of_name = |one: &&Pinned| one.port == port && one.host.eq_ignore_ascii_case(bare(host));
    let mut addresses: Vec<SocketAddr> = match pinned.iter().find(of_name) {
        Some(one) => one.addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
        None => {
            let dns = |error: std::io::Error| ProbeError::Dns {
                host: host.to_owned(),
                reason: error.to_string(),
            };
            (bare(host), port).to_socket_addrs().map_err(dns)?.collect()
        }
    };
    if addresses.is_empty() {
        let reason = "the name has no address".to_owned();
        return Err(ProbeError::Dns { host: host.to_owned(), reason });
    }
    if addresses.len() > 1 {
        let answers =
            |address: &SocketAddr| TcpStream::connect_timeout(address, CONNECT_PATIENCE).is_ok();
        let first = addresses.iter().position(answers).unwrap_or(0);
        addresses.rotate_left(first);
    }
    Ok(addresses.into_iter().map(Address::Ip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(url: &str, way: &Way) -> Endpoint {
        locate(url, Dialect::OpenaiChat, way).unwrap().endpoint
    }

    #[test]
    fn the_host_header_keeps_brackets_and_port() {
        let endpoint = located("http://[::1]:9/v1", &Way::default());
        assert_eq!((endpoint.host.as_str(), endpoint.server_name.as_str()), ("[::1]:9", "::1"));
        assert_eq!(endpoint.addresses, [Address::Ip("[::1]:9".parse().unwrap())]);
    }

    #[test]
    fn a_url_without_a_scheme_is_http() {
        let endpoint = located("127.0.0.1:9", &Way::default());
        assert_eq!((endpoint.path.as_str(), endpoint.tls), ("/v1/chat/completions", false));
        assert!(located("https://127.0.0.1:9", &Way::default()).tls);
    }

    #[test]
    fn a_url_that_cannot_be_used_says_why() {
        for (url, word) in [
            ("http://", "URL"),
            ("ftp://127.0.0.1", "ftp"),
            ("http://no-such-host.invalid", "resolve"),
        ] {
            let error = locate(url, Dialect::OpenaiChat, &Way::default()).unwrap_err().to_string();
            assert!(error.contains(word) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn a_pinned_name_is_not_resolved() {
        let pinned = Pinned {
            host: "llm.invalid".to_owned(),
            port: 9,
            addresses: vec!["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()],
        };
        let way = Way { pinned: vec![pinned], ..Way::default() };
        let endpoint = located("http://LLM.invalid:9", &way);
        assert_eq!(endpoint.addresses.len(), 2);
        assert_eq!(endpoint.host, "llm.invalid:9");
        assert!(locate("http://llm.invalid:8", Dialect::OpenaiChat, &way).is_err());
    }

    #[test]
    fn a_proxy_is_told_the_url_or_tunnels() {
        let way = Way { proxy: Some("http://127.0.0.1:3128".to_owned()), ..Way::default() };
        let plain = located("http://llm.invalid:8000/v1", &way);
        assert_eq!(plain.addresses, [Address::Ip("127.0.0.1:3128".parse().unwrap())]);
        assert_eq!((plain.via.as_deref(), plain.tunnel), (Some("http://llm.invalid:8000"), None));
        let tls = located("https://llm.invalid", &way);
        assert_eq!((tls.via, tls.tunnel.as_deref()), (None, Some("llm.invalid:443")));
        assert_eq!(tls.host, "llm.invalid");
    }

    #[test]
    fn a_unix_socket_stands_in_for_the_address() {
        let way = Way { unix_socket: Some("/tmp/x.sock".into()), ..Way::default() };
        let endpoint = located("http://localhost/v1", &way);
        assert_eq!(endpoint.addresses, [Address::Unix("/tmp/x.sock".into())]);
        assert_eq!(endpoint.host, "localhost");
    }
}
