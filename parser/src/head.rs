//! The response head: status, framing, reuse, and the few headers that decide how to read the body.

pub(crate) mod timing;

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response};

use crate::{Error, ErrorKind, Step};
pub use timing::HeadTimes;

/// How the end of a body is found (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body at all (1xx, 204, 304).
    None,
    /// So many bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Until the peer closes.
    UntilClose,
}

/// What the body is, by its Content-Type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// `text/event-stream`.
    EventStream,
    /// `application/json` or another JSON type.
    Json,
    /// One JSON text per line.
    Ndjson,
    /// Any other type.
    Other,
    /// No Content-Type.
    Missing,
}

/// Why a connection cannot carry another request after this response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The server said `Connection: close`.
    ConnectionClose,
    /// HTTP/1.0 without `Connection: keep-alive`.
    Http10,
    /// The body ends with the connection.
    UntilClose,
    /// Both Content-Length and Transfer-Encoding (RFC 9112 §6.1: close afterwards).
    LengthAndChunked,
    /// 101: the connection speaks another protocol from here on.
    Switched,
}

/// What a response head says, as far as reading and timing the response needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Status code, 100 to 999.
    pub status: u16,
    /// How the end of the body is found.
    pub framing: Framing,
    /// May the connection carry another request once the body is complete?
    pub reusable: bool,
    /// Why not, if not.
    pub close_reason: Option<CloseReason>,
    /// What the body is.
    pub content: ContentKind,
    /// The body is coded (gzip and the like, by Content-Encoding or Transfer-Encoding).
    pub encoded: bool,
    /// Retry-After in seconds; absent if it is a date or no number.
    pub retry_after: Option<u64>,
    /// Location, as sent.
    pub location: Option<String>,
    /// How long things took, by the server's word; nothing if no field tells it.
    pub times: Option<Box<HeadTimes>>,
}

impl Head {
    /// A 1xx that another head follows; 101 is final.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// A 2xx status.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Default for Head {
    /// The head before any byte came: status 0, no body.
    fn default() -> Self {
        Self {
            status: 0,
            framing: Framing::None,
            reusable: false,
            close_reason: None,
            content: ContentKind::Missing,
            encoded: false,
            retry_after: None,
            location: None,
            times: None,
        }
    }
}

/// Reads one response head, interim or final, from the start of `bytes`.
///
/// # Errors
///
/// [`ErrorKind::BadHead`] if the bytes are no head, [`ErrorKind::SizeLimit`] if the head is longer
/// than `head_bytes_max` or has more than 256 fields, [`ErrorKind::BadFraming`] if its lengths
/// contradict each other.
pub fn read(bytes: &[u8], head_bytes_max: usize) -> Result<Step<Head>, Error> {
    let shown = &bytes[..bytes.len().min(head_bytes_max)];
    let mut few = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_USUAL];
    let step = match read_into(shown, &mut few) {
        Err(httparse::Error::TooManyHeaders) => {
            let mut many = vec![MaybeUninit::<Header<'_>>::uninit(); FIELDS_MAX];
            read_into(shown, &mut many)
        }
        first => first,
    };
    match step {
        Ok(Some((used, head))) => Ok(Step { used, item: Some(head?) }),
        Ok(None) if bytes.len() > head_bytes_max => {
            Err(Error::new(ErrorKind::SizeLimit, head_bytes_max))
        }
        Ok(None) => Ok(Step { used: 0, item: None }),
        Err(httparse::Error::TooManyHeaders) => Err(Error::new(ErrorKind::SizeLimit, 0)),
        Err(_) => Err(Error::new(ErrorKind::BadHead, 0)),
    }
}

/// Header fields that fit on the stack.
const FIELDS_USUAL: usize = 64;
/// Header fields accepted at all.
const FIELDS_MAX: usize = 256;

type Read = Option<(usize, Result<Head, Error>)>;

fn read_into<'b>(
    bytes: &'b [u8],
    fields: &mut [MaybeUninit<Header<'b>>],
) -> Result<Read, httparse::Error> {
    let mut config = ParserConfig::default();
    config.allow_spaces_after_header_name_in_responses(true);
    config.allow_obsolete_multiline_headers_in_responses(true);
    config.allow_multiple_spaces_in_response_status_delimiters(true);
    let mut response = Response::new(&mut []);
    match config.parse_response_with_uninit_headers(&mut response, bytes, fields)? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(used) => Ok(Some((used, judge(&response)))),
    }
}

/// Header fields that matter, as they are met.
#[derive(Default)]
struct Seen {
    length: Option<u64>,
    lengths_bad: bool,
    transfer: bool,
    chunked_last: bool,
    transfer_coded: bool,
    content_coded: bool,
    close: bool,
    keep_alive: bool,
    content: Option<ContentKind>,
    retry_after: Option<u64>,
    location: Option<String>,
    times: Option<Box<HeadTimes>>,
}

fn judge(response: &Response<'_, '_>) -> Result<Head, Error> {
    let mut seen = Seen::default();
    for field in &*response.headers {
        seen.take(field);
    }
    let status = response.code.unwrap_or(0);
    if status < 100 {
        return Err(Error::new(ErrorKind::BadHead, 0));
    }
    let framing = framing(status, &seen)?;
    let http11 = response.version == Some(1);
    let close_reason = if status == 101 {
        Some(CloseReason::Switched)
    } else if seen.transfer && (seen.length.is_some() || seen.lengths_bad) {
        Some(CloseReason::LengthAndChunked)
    } else if seen.close {
        Some(CloseReason::ConnectionClose)
    } else if framing == Framing::UntilClose {
        Some(CloseReason::UntilClose)
    } else if !http11 && !seen.keep_alive {
        Some(CloseReason::Http10)
    } else {
        None
    };
    if let (Some(times), Some(ContentKind::EventStream)) = (&mut seen.times, seen.content) {
        times.of_stream();
    }
    Ok(Head {
        status,
        framing,
        reusable: close_reason.is_none(),
        close_reason,
        content: seen.content.unwrap_or(ContentKind::Missing),
        encoded: seen.content_coded || seen.transfer_coded,
        retry_after: seen.retry_after,
        location: seen.location,
        times: seen.times,
    })
}

/// RFC 9112 §6.3, for a response to a POST.
fn framing(status: u16, seen: &Seen) -> Result<Framing, Error> {
    if (100..200).contains(&status) || status == 204 || status == 304 {
        return Ok(Framing::None);
    }
    if seen.transfer {
        return Ok(if seen.chunked_last { Framing::Chunked } else { Framing::UntilClose });
    }
    if seen.lengths_bad {
        return Err(Error::new(ErrorKind::BadFraming, 0));
    }
    Ok(seen.length.map_or(Framing::UntilClose, Framing::Length))
}

impl Seen {
    fn take(&mut self, field: &Header<'_>) {
        let value = field.value;
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            items(value).for_each(|item| self.take_length(item));
        } else if is("transfer-encoding") {
            items(value).for_each(|item| self.take_transfer_coding(item));
        } else if is("content-encoding") {
            self.content_coded |= items(value)
                .any(|item| !item.is_empty() && !item.eq_ignore_ascii_case(b"identity"));
        } else if is("connection") {
            self.close |= items(value).any(|item| item.eq_ignore_ascii_case(b"close"));
            self.keep_alive |= items(value).any(|item| item.eq_ignore_ascii_case(b"keep-alive"));
        } else if is("content-type") {
            self.content = Some(content_kind(value));
        } else if is("retry-after") {
            self.retry_after = number(value.trim_ascii());
        } else if is("location") {
            self.location = Some(String::from_utf8_lossy(value.trim_ascii()).into_owned());
        } else {
            timing::take(&mut self.times, field.name, value);
        }
    }

    /// The same length repeated is one length; anything else is not to be trusted.
    fn take_length(&mut self, item: &[u8]) {
        match (number(item), self.length) {
            (Some(length), None) => self.length = Some(length),
            (Some(length), Some(before)) if length == before => {}
            _ => self.lengths_bad = true,
        }
    }

    fn take_transfer_coding(&mut self, item: &[u8]) {
        let coding = item.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
        // `identity` is no coding any more; it is still sent, and means nothing.
        if coding.is_empty() || coding.eq_ignore_ascii_case(b"identity") {
            return;
        }
        self.transfer = true;
        self.chunked_last = coding.eq_ignore_ascii_case(b"chunked");
        self.transfer_coded |= !self.chunked_last;
    }
}

fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii)
}

/// Digits only: no sign, no blank, no overflow.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

fn content_kind(value: &[u8]) -> ContentKind {
    let kind = value.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
    let is = |name: &str| kind.eq_ignore_ascii_case(name.as_bytes());
    let json_suffix = kind.len() > 5 && kind[kind.len() - 5..].eq_ignore_ascii_case(b"+json");
    if kind.is_empty() {
        ContentKind::Missing
    } else if is("text/event-stream") {
        ContentKind::EventStream
    } else if NDJSON_TYPES.iter().any(|name| is(name)) {
        ContentKind::Ndjson
    } else if is("application/json") || is("text/json") || json_suffix {
        ContentKind::Json
    } else {
        ContentKind::Other
    }
}

const NDJSON_TYPES: [&str; 6] = [
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/jsonlines",
    "application/json-lines",
    "application/stream+json",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &str) -> Result<Head, Error> {
        let wire = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let step = read(wire.as_bytes(), 1 << 16)?;
        assert_eq!(step.used, wire.len());
        Ok(step.item.unwrap())
    }

    #[test]
    fn chunked_beats_a_length_and_ends_the_connection() {
        let head = head("Content-Length: 30\r\ntransfer-encoding: Chunked\r\n").unwrap();
        assert_eq!(head.framing, Framing::Chunked);
        assert_eq!(head.close_reason, Some(CloseReason::LengthAndChunked));
    }

    #[test]
    fn the_same_length_twice_is_one_length_and_two_lengths_are_bad_framing() {
        assert_eq!(head("Content-Length: 5, 5\r\n").unwrap().framing, Framing::Length(5));
        for bad in ["5, 6", "-1", "", "18446744073709551616"] {
            let error = head(&format!("Content-Length: {bad}\r\n")).unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadFraming, "{bad}");
        }
    }

    #[test]
    fn a_transfer_coding_that_does_not_end_in_chunked_runs_until_close() {
        let gzip = head("Transfer-Encoding: gzip\r\n").unwrap();
        assert_eq!((gzip.framing, gzip.encoded), (Framing::UntilClose, true));
        let both = head("Transfer-Encoding: gzip, chunked\r\n").unwrap();
        assert_eq!((both.framing, both.encoded), (Framing::Chunked, true));
        let identity = head("Transfer-Encoding: identity\r\nContent-Length: 3\r\n").unwrap();
        assert_eq!((identity.framing, identity.reusable), (Framing::Length(3), true));
    }

    #[test]
    fn an_old_server_keeps_the_connection_only_if_it_says_so() {
        let wire = b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n";
        assert!(read(wire, 1 << 16).unwrap().item.unwrap().reusable);
        let wire = b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n";
        let head = read(wire, 1 << 16).unwrap().item.unwrap();
        assert_eq!(head.close_reason, Some(CloseReason::Http10));
    }

    #[test]
    fn content_type_is_read_without_its_parameters() {
        let kinds = [
            ("Text/Event-Stream; charset=utf-8", ContentKind::EventStream),
            ("application/json", ContentKind::Json),
            ("application/problem+json", ContentKind::Json),
            ("application/x-ndjson", ContentKind::Ndjson),
            ("text/html", ContentKind::Other),
        ];
        for (value, kind) in kinds {
            assert_eq!(head(&format!("Content-Type: {value}\r\n")).unwrap().content, kind);
        }
        assert_eq!(head("").unwrap().content, ContentKind::Missing);
    }

    #[test]
    fn retry_after_is_kept_in_seconds_and_location_as_sent() {
        let head = head("Retry-After: 2\r\nLocation: /v2/chat\r\n").unwrap();
        assert_eq!((head.retry_after, head.location.as_deref()), (Some(2), Some("/v2/chat")));
    }

    #[test]
    fn a_hundred_fields_are_read_and_too_many_are_a_size_limit() {
        assert!(head(&"X-A: b\r\n".repeat(200)).is_ok());
        let error = head(&"X-A: b\r\n".repeat(300)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::SizeLimit);
    }

    #[test]
    fn a_head_above_its_limit_is_refused_however_it_is_cut() {
        let wire = format!("HTTP/1.1 200 OK\r\nX-A: {}\r\n\r\n", "b".repeat(100));
        for shown in [101, wire.len()] {
            let error = read(&wire.as_bytes()[..shown], 100).unwrap_err();
            assert_eq!(error, Error::new(ErrorKind::SizeLimit, 100));
        }
        assert!(read(wire.as_bytes(), wire.len()).is_ok());
    }
}
