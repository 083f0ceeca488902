//! The head of a request: all of it but the request's number and the body's length is made once.

use crate::workload::template::Format;
use crate::workload::{Endpoint, Target};

/// The static bytes of every head, in order:
/// `fixed`, the index, perhaps `session` and the item, perhaps `\r\ntraceparent: ` and a trace,
/// `\r\nContent-Length: `, the length, `\r\n\r\n`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// From the request line to the request id without its index.
    pub(super) fixed: Vec<u8>,
    /// Between that index and the number of the session, where a header is to hold it.
    pub(super) session: Option<Vec<u8>>,
}

pub(super) const TRACE: &[u8] = b"\r\ntraceparent: ";
pub(super) const CONTENT_LENGTH: &[u8] = b"\r\nContent-Length: ";
pub(super) const END: &[u8] = b"\r\n\r\n";

impl Head {
    /// The head of the requests to one of a target's servers; `close` asks it to close afterwards.
    ///
    /// A user's header stands in the place of ours of the same name; the others follow in their
    /// order. The headers of [`OURS_ALONE`] are refused.
    ///
    /// # Errors
    ///
    /// Anything that could end a line or a head early, and headers that are ours alone.
    pub(super) fn new(
        target: &Target,
        endpoint: &Endpoint,
        run_id: &str,
        close: bool,
    ) -> Result<Self, HeadError> {
        check_line_part(Part::Path, &endpoint.path)?;
        if !endpoint.path.starts_with('/') {
            return Err(HeadError::Relative);
        }
        check_line_part(Part::Host, &endpoint.host)?;
        check_line_part(Part::RunId, run_id)?;
        for (position, (name, value)) in target.headers.iter().enumerate() {
            check_header(position + 1, name, value)?;
        }

        let mut lines =
            format!("POST {}{} HTTP/1.1\r\n", endpoint.via.as_deref().unwrap_or(""), endpoint.path);
        let defaults = defaults(target, endpoint);
        for (name, ours) in defaults {
            let theirs = single(&target.headers, name)?;
            push_line(&mut lines, name, theirs.unwrap_or(ours));
        }
        let is_default =
            |name: &str| defaults.iter().any(|(ours, _)| ours.eq_ignore_ascii_case(name));
        let more = target.headers.iter().filter(|(name, _)| !is_default(name));
        for (name, value) in more {
            push_line(&mut lines, name, value);
        }
        if close {
            push_line(&mut lines, "Connection", "close");
        }
        lines.push_str("X-Request-Id: ");
        lines.push_str(run_id);
        lines.push('-');
        let session = target.session_header.as_ref().map(|name| {
            check_header(target.headers.len() + 1, name, "")?;
            Ok::<_, HeadError>(format!("\r\n{name}: {run_id}-").into_bytes())
        });
        Ok(Self { fixed: lines.into_bytes(), session: session.transpose()? })
    }
}

/// Headers that a user cannot set: they frame the message (RFC 9112 §6), ask for answers that
/// are not read (codings, interim responses, other protocols), or name the request in its
/// record.
pub const OURS_ALONE: [&str; 8] = [
    "Content-Length",
    "Transfer-Encoding",
    "TE",
    "Trailer",
    "Expect",
    "Upgrade",
    "Accept-Encoding",
    "X-Request-Id",
];

/// Our headers that a user may replace.
fn defaults<'a>(target: &Target, endpoint: &'a Endpoint) -> [(&'static str, &'a str); 4] {
    let lines = match &target.template {
        Some(template) => template.answer.format == Format::Ndjson,
        None => target.dialect.streams_lines(),
    };
    let accept = match (target.stream, lines) {
        (false, _) => "application/json",
        (true, true) => "application/x-ndjson",
        (true, false) => "text/event-stream",
    };
    [
        ("Host", endpoint.host.as_str()),
        ("User-Agent", concat!("tokclock/", env!("CARGO_PKG_VERSION"))),
        ("Content-Type", "application/json"),
        ("Accept", accept),
    ]
}

/// The user's value of a header that may come once.
fn single<'a>(
    headers: &'a [(String, String)],
    name: &'static str,
) -> Result<Option<&'a str>, HeadError> {
    let mut found = headers.iter().filter(|(theirs, _)| theirs.eq_ignore_ascii_case(name));
    let value = found.next().map(|(_, value)| value.as_str());
    match found.next() {
        Some(_) => Err(HeadError::Twice { name }),
        None => Ok(value),
    }
}

fn push_line(lines: &mut String, name: &str, value: &str) {
    lines.push_str(name);
    lines.push_str(": ");
    lines.push_str(value.trim_matches([' ', '\t']));
    lines.push_str("\r\n");
}

fn check_line_part(part: Part, text: &str) -> Result<(), HeadError> {
    let clean = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if clean { Ok(()) } else { Err(HeadError::Line { part }) }
}

/// RFC 9110 §5.1 (names) and §5.5 (values; bytes above 127 are let through, as the RFC has it).
fn check_header(position: usize, name: &str, value: &str) -> Result<(), HeadError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(HeadError::Name { position });
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(HeadError::Value { position, name: name.to_owned() });
    }
    match OURS_ALONE.into_iter().find(|ours| ours.eq_ignore_ascii_case(name)) {
        Some(name) => Err(HeadError::OursAlone { position, name }),
        None => Ok(()),
    }
}

/// A part of the request line or a header that is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The path of the target.
    Path,
    /// The value of `Host`.
    Host,
    /// The id of the run.
    RunId,
}

impl std::fmt::Display for Part {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Path => "path",
            Self::Host => "host",
            Self::RunId => "run id",
        })
    }
}

/// A head that cannot be written. Never shows a header's value, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// A space, line break or other byte that is not printable ASCII.
    #[error("{part}: it is empty or has a space, a line break or a byte that is not plain ASCII")]
    Line {
        /// Where.
        part: Part,
    },
    /// A path without its slash.
    #[error("path: it must begin with `/`, as in `/v1/chat/completions`")]
    Relative,
    /// No header name.
    #[error("header {position}: its name is empty or no header name; write `Name: value`")]
    Name {
        /// Its place among the user's headers, from 1.
        position: usize,
    },
    /// A line break or other control byte.
    #[error("header {position}, `{name}`: its value has a line break or a control byte; remove it")]
    Value {
        /// Its place among the user's headers, from 1.
        position: usize,
        /// Its name.
        name: String,
    },
    /// Not for the user to set.
    #[error("header {position}: `{name}` is set by tokclock alone; remove it")]
    OursAlone {
        /// Its place among the user's headers, from 1.
        position: usize,
        /// Its name.
        name: &'static str,
    },
    /// Given more than once.
    #[error("header `{name}` is given twice; give it once")]
    Twice {
        /// Its name.
        name: &'static str,
    },
}
