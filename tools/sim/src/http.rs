//! Reading HTTP/1.1 requests out of a connection's bytes (RFC 9112).

use crate::chunked::Chunked;

/// The largest request head, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The largest request body, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

const HEADERS_MAX: usize = 100;

/// A complete request head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// What is asked for.
    pub(crate) route: Route,
    /// Length of the head itself, with its blank line.
    pub(crate) head_bytes: usize,
    /// Length of the body that follows; of one in chunks, as far as they are undone.
    pub(crate) body_bytes: usize,
    /// How far the chunks of the body are undone, if it comes in chunks.
    pub(crate) body_chunks: Option<Chunked>,
    /// Whether the connection ends after the answer.
    pub(crate) close: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(crate) expects: bool,
    /// Whether the client can take a chunked answer.
    pub(crate) chunked: bool,
    /// Its `X-Request-Id`.
    pub(crate) request_id: Option<String>,
}

/// What a method and a path lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A chat or a text completion.
    Generate(Endpoint),
    /// The list of models.
    Models,
    /// Whether the server is there.
    Health,
    /// Which version it is.
    Version,
    /// What it was told to be.
    ServerInfo,
    /// How it is, in Prometheus' text format.
    Metrics,
    /// A path of ours with another method; holds the allowed one.
    WrongMethod(&'static str),
    /// Anything else.
    Unknown,
}

/// The APIs that generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
    /// `/generate` of SGLang, which only its servers have.
    Native,
}

/// A request that cannot be read; the connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status to answer with.
    pub(crate) status: u16,
    /// Why.
    pub(crate) message: &'static str,
}

impl Refusal {
    /// A body that is larger than we keep.
    pub(crate) const BODY_TOO_LONG: Self = Self::new(413, "the request body is longer than 64 MiB");

    /// A refusal with this HTTP status, and why.
    pub(crate) const fn new(status: u16, message: &'static str) -> Self {
        Self { status, message }
    }
}

/// Reads the head at the start of `bytes`; `None` if it is not complete.
pub(crate) fn read_head(bytes: &[u8]) -> Result<Option<Head>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let view = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let head_bytes = match request.parse(view) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if view.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => {
            return Err(Refusal::new(431, "the request head is longer than 64 KiB"));
        }
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::new(431, "the request has more than 100 headers"));
        }
        Err(_) => return Err(Refusal::new(400, "the request is not HTTP/1.1")),
    };
    let old = request.version == Some(0);
    let mut head = Head {
        route: route(request.method.unwrap_or(""), request.path.unwrap_or("")),
        head_bytes,
        body_bytes: 0,
        body_chunks: None,
        close: old,
        expects: false,
        chunked: !old,
        request_id: None,
    };
    let mut length = None;
    for header in request.headers.iter() {
        read_header(&mut head, &mut length, header)?;
    }
    if length.is_some() && head.body_chunks.is_some() {
        return Err(Refusal::new(400, "content-length and chunks exclude each other"));
    }
    head.body_bytes = length.unwrap_or(0);
    if head.body_bytes > BODY_BYTES_MAX {
        return Err(Refusal::BODY_TOO_LONG);
    }
    Ok(Some(head))
}

fn read_header(
    head: &mut Head,
    length: &mut Option<usize>,
    header: &httparse::Header<'_>,
) -> Result<(), Refusal> {
    const BAD_LENGTH: Refusal = Refusal::new(400, "content-length is not one number");
    let value = std::str::from_utf8(header.value).unwrap_or("").trim();
    let name = header.name;
    if name.eq_ignore_ascii_case("content-length") {
        // Digits only: a sign, which parse() would take, is no length (RFC 9110 section 8.6).
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BAD_LENGTH);
        }
        let bytes = value.parse().unwrap_or(usize::MAX);
        if length.is_some_and(|before| before != bytes) {
            return Err(BAD_LENGTH);
        }
        *length = Some(bytes);
    } else if name.eq_ignore_ascii_case("transfer-encoding") {
        if !value.eq_ignore_ascii_case("chunked") {
            return Err(Refusal::new(501, "chunked is the only transfer coding there is"));
        }
        head.body_chunks = Some(Chunked::default());
    } else if name.eq_ignore_ascii_case("connection") {
        for option in value.split(',').map(str::trim) {
            head.close |= option.eq_ignore_ascii_case("close");
        }
    } else if name.eq_ignore_ascii_case("expect") {
        head.expects = value.eq_ignore_ascii_case("100-continue");
    } else if name.eq_ignore_ascii_case("x-request-id") && !value.is_empty() {
        // It is echoed in the answer's head, so only what may stand there.
        head.request_id = value.is_ascii().then(|| value.to_owned());
    }
    Ok(())
}

fn route(method: &str, target: &str) -> Route {
    let path = target.split('?').next().unwrap_or(target);
    let (route, allowed) = match path {
        "/v1/chat/completions" => (Route::Generate(Endpoint::Chat), "POST"),
        "/v1/completions" => (Route::Generate(Endpoint::Completions), "POST"),
        "/generate" => (Route::Generate(Endpoint::Native), "POST"),
        "/v1/models" => (Route::Models, "GET"),
        "/health" => (Route::Health, "GET"),
        "/version" => (Route::Version, "GET"),
        "/server_info" => (Route::ServerInfo, "GET"),
        "/metrics" => (Route::Metrics, "GET"),
        _ => return Route::Unknown,
    };
    if method == allowed { route } else { Route::WrongMethod(allowed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POST: &str = "POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\n\
        Content-Length: 12\r\nX-Request-ID: r-7\r\nExpect: 100-continue\r\n\r\n";

    fn refused(text: &str) -> u16 {
        read_head(text.as_bytes()).unwrap_err().status
    }

    #[test]
    fn a_head_says_where_its_body_ends() {
        let head = read_head(POST.as_bytes()).unwrap().unwrap();
        assert_eq!(head.route, Route::Generate(Endpoint::Chat));
        assert_eq!((head.head_bytes, head.body_bytes), (POST.len(), 12));
        assert_eq!(head.request_id.as_deref(), Some("r-7"));
        assert!(head.expects && head.chunked && !head.close);
    }

    #[test]
    fn a_head_in_pieces_is_awaited() {
        for end in 0..POST.len() {
            assert_eq!(read_head(&POST.as_bytes()[..end]), Ok(None), "{end} bytes");
        }
    }

    #[test]
    fn paths_and_methods_are_told_apart() {
        assert_eq!(route("GET", "/v1/models"), Route::Models);
        assert_eq!(route("GET", "/metrics"), Route::Metrics);
        assert_eq!(route("GET", "/version"), Route::Version);
        assert_eq!(route("GET", "/server_info?x=1"), Route::ServerInfo);
        assert_eq!(route("POST", "/v1/models"), Route::WrongMethod("GET"));
        assert_eq!(route("GET", "/v1/completions"), Route::WrongMethod("POST"));
        assert_eq!(route("GET", "/v1"), Route::Unknown);
    }

    #[test]
    fn a_request_that_cannot_be_framed_is_refused() {
        assert_eq!(refused("POST / HTTP/1.1\r\ncontent-length: +1\r\n\r\n"), 400);
        let twice = "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(refused(twice), 400);
        assert_eq!(refused("POST / HTTP/1.1\r\ncontent-length: 67108865\r\n\r\n"), 413);
        assert_eq!(refused("POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n"), 501);
        let both = "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(refused(both), 400);
        assert_eq!(refused("\u{1}\u{2}\r\n\r\n"), 400);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\na: {}", "b".repeat(HEAD_BYTES_MAX))), 431);
    }

    #[test]
    fn a_connection_ends_when_either_side_cannot_keep_it() {
        let close = "GET /health HTTP/1.1\r\nConnection: keep-alive, Close\r\n\r\n";
        assert!(read_head(close.as_bytes()).unwrap().unwrap().close);
        let old = read_head(b"GET /health HTTP/1.0\r\n\r\n").unwrap().unwrap();
        assert!(old.close && !old.chunked);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_head(&bytes);
        }
    }
}
