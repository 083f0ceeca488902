//! What became of a request: a success, a failure of some class, or ended by us.

use tokclock_parser::answer::Answer;
use tokclock_parser::{Error, ErrorKind};

use super::exchange::Exchange;
use super::socket::reason;
use crate::record::{ErrorClass, Outcome};

/// Characters kept of an error's text.
const ERROR_TEXT_MAX: usize = 400;

/// How a request came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The body ended by its framing.
    Complete,
    /// `done` was seen, and the end of the body did not come in time.
    Unclosed,
    /// The bytes were no HTTP that we can follow, or stopped too early.
    Unreadable(Error),
    /// A system call failed with this errno.
    Broken(i32),
    /// We ended it: a timeout (a failure), the end of the drain, an interrupt.
    Ours(ErrorClass),
    /// It never had a connection.
    NoConnection(ErrorClass, String),
}

impl Exchange {
    /// Outcome and class, by the rules of cli/docs/metrics.md.
    pub(super) fn outcome(
        &self,
        answer: &Answer,
        ending: &Ending,
    ) -> (Outcome, Option<ErrorClass>) {
        let failed = |class| (Outcome::Error, Some(class));
        match ending {
            Ending::Ours(
                class @ (ErrorClass::Deadline | ErrorClass::Interrupt | ErrorClass::CancelRate),
            ) => {
                return (Outcome::Cancelled, Some(*class));
            }
            Ending::Ours(class) | Ending::NoConnection(class, _) => return failed(*class),
            Ending::Complete | Ending::Unclosed | Ending::Unreadable(_) | Ending::Broken(_) => {}
        }
        if let Some(head) = answer.head().filter(|head| !(200..300).contains(&head.status)) {
            return failed(match head.status {
                429 => ErrorClass::RateLimited,
                300..400 => ErrorClass::Redirect,
                _ => ErrorClass::HttpStatus,
            });
        }
        if answer.unsupported_encoding() {
            return failed(ErrorClass::UnsupportedEncoding);
        }
        if self.fault.is_some() {
            return failed(ErrorClass::ServerErrorEvent);
        }
        if !self.saw_done {
            match ending {
                Ending::Unreadable(error) => return failed(class_of(error.kind)),
                Ending::Broken(_) => return failed(ErrorClass::ConnReset),
                _ => {}
            }
        }
        if answer.not_streaming() {
            return failed(ErrorClass::NotStreaming);
        }
        self.ended_well().map_or((Outcome::Ok, None), failed)
    }

    /// The class that a whole answer fails by, if it does.
    fn ended_well(&self) -> Option<ErrorClass> {
        let finished = self.settled.finish.is_some();
        let generated = self.saw_output || self.has_document();
        match (finished, generated) {
            (true, _) => None,
            (false, true) if self.saw_done || !self.stream => None,
            (false, _) if self.settled.malformed_events > 0 => Some(ErrorClass::MalformedEvent),
            (false, true) => Some(ErrorClass::StreamTruncated),
            (false, false) => Some(ErrorClass::EmptyStream),
        }
    }

    /// A document without output is whole if it has counts or is what was asked for: embeddings.
    fn has_document(&self) -> bool {
        !self.stream && (self.settled.usage.is_some() || self.saw_done)
    }

    /// What the server or the system said of it.
    pub(super) fn error_text(&self, answer: &Answer, ending: &Ending) -> Option<String> {
        let text = match ending {
            Ending::NoConnection(_, text) => text.clone(),
            Ending::Ours(ErrorClass::TlsHandshake) => {
                "the TLS handshake was not finished in time".to_owned()
            }
            Ending::Broken(errno) => reason(&std::io::Error::from_raw_os_error(*errno)),
            Ending::Unreadable(error) if self.fault.is_none() => error.to_string(),
            _ => match &self.fault {
                Some(fault) => fault.clone(),
                // A redirect says in its head where it leads.
                None => body_text(answer).or_else(|| answer.head()?.location.clone())?,
            },
        };
        Some(text.chars().take(ERROR_TEXT_MAX).collect())
    }
}

fn class_of(kind: ErrorKind) -> ErrorClass {
    match kind {
        ErrorKind::ClosedEarly => ErrorClass::ConnClosedEarly,
        ErrorKind::BodyTruncated => ErrorClass::BodyTruncated,
        ErrorKind::SizeLimit => ErrorClass::SizeLimit,
        _ => ErrorClass::BadFraming,
    }
}

/// The message of an error body: that of its error object, else its beginning.
fn body_text(answer: &Answer) -> Option<String> {
    let body = answer.error_body();
    if body.is_empty() {
        return None;
    }
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        let error = value.get("error").unwrap_or(value);
        let text = error.get("message").or_else(|| value.get("detail")).unwrap_or(error);
        let code = error.get("code").and_then(serde_json::Value::as_str);
        let code = code.map_or_else(String::new, |code| format!(" (code {code})"));
        text.as_str().map(|text| format!("{text}{code}"))
    });
    Some(message.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned()))
}
