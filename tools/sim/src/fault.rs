//! Faults that a server can be told to have: what they are called, how they are written.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::law::{Duration, parse_duration};

/// Something that goes wrong with one request, on purpose.
///
/// Written as its name, some with a parameter: `stall:3`, `status:429,2s`, `drip:16,1ms`. Where
/// `after` counts output events and none is given, the fault strikes in the middle of the answer.
/// An answer in one piece has no events: there it strikes in the middle of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Fault {
    /// `refuse`: the connection is reset as soon as it is accepted. Its rate is a share of the
    /// connections, not of the requests, and such a connection has no request that could be logged.
    /// A client may learn of it while it still connects.
    Refuse,
    /// `close-before`: the request is read and the connection closed without a byte of answer.
    CloseBefore,
    /// `status:CODE[,RETRY]`: at once an error of this status, 400 to 599, instead of an answer.
    Status {
        /// The HTTP status.
        code: u16,
        /// Seconds that `Retry-After` names; `None`: no such header.
        retry_after_s: Option<u32>,
    },
    /// `stall-head`: no byte is sent, and the connection stays open until the client leaves.
    StallHead,
    /// `stall[:AFTER]`: nothing follows, and the connection stays open until the client leaves.
    Stall {
        /// Output events before it.
        after: Option<u32>,
    },
    /// `reset[:AFTER]`: the connection is reset.
    Reset {
        /// Output events before it.
        after: Option<u32>,
    },
    /// `truncate[:AFTER]`: the connection is closed within a chunk, or within the announced length.
    Truncate {
        /// Output events before it.
        after: Option<u32>,
    },
    /// `cut[:AFTER]`: the body ends as HTTP has it, without finish reason and `[DONE]`. Streams only.
    Cut {
        /// Output events before it.
        after: Option<u32>,
    },
    /// `error-event[:AFTER]`: an error object and `[DONE]` end a stream of status 200. An answer in
    /// one piece is the error object, with status 200.
    ErrorEvent {
        /// Output events before it.
        after: Option<u32>,
    },
    /// `malformed[:AFTER]`: one output event breaks off within its JSON, and the stream goes on. An
    /// answer in one piece breaks off so.
    Malformed {
        /// Output events before it.
        after: Option<u32>,
    },
    /// `empty`: status 200 and no event, or an empty body, when the first token is due.
    Empty,
    /// `no-done`: a finish reason, but no `[DONE]`. Streams only.
    NoDone,
    /// `wrong-usage`: twice as many output tokens are told as were sent. Only where usage is told.
    WrongUsage,
    /// `close-after`: the connection is closed after the whole answer, which did not announce it.
    /// Not where it announces it because the client asked.
    CloseAfter,
    /// `pings`: a comment `: ping` goes before every output event, half-way between it and what
    /// was before. Streams only.
    Pings,
    /// `drip[:BYTES[,GAP]]`: all bytes of the answer go in small pieces, by default 16 bytes each
    /// millisecond. Tokens that this holds up are late.
    Drip {
        /// Bytes in one piece, at least 1.
        bytes: u32,
        /// From one piece to the next, in ns.
        gap_ns: u64,
    },
}

/// A fault, or a rate of faults, that cannot be read or does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(pub(crate) String);

/// The names, with what they take.
const KINDS: &str = "refuse, close-before, status:CODE[,RETRY], stall-head, stall, reset, truncate, \
     cut, error-event, malformed, empty, no-done, wrong-usage, close-after, pings, drip";

const DRIP_BYTES: u32 = 16;
const DRIP_GAP_NS: u64 = 1_000_000;

impl Fault {
    /// Whether it is about connections, not requests.
    pub(crate) fn is_of_connections(self) -> bool {
        self == Self::Refuse
    }

    /// Whether the request is turned away instead of served.
    pub(crate) fn turns_away(self) -> bool {
        matches!(self, Self::CloseBefore | Self::Status { .. })
    }

    /// Output events before it, where it strikes at one; the inner `None` is half of them.
    pub(crate) fn strikes_after(self) -> Option<Option<u32>> {
        match self {
            Self::Empty => Some(Some(0)),
            Self::Stall { after }
            | Self::Reset { after }
            | Self::Truncate { after }
            | Self::Cut { after }
            | Self::ErrorEvent { after } => Some(after),
            _ => None,
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        parse(text.trim()).map_err(|wrong| FaultError(format!("fault {text:?}: {wrong}")))
    }
}

fn parse(text: &str) -> Result<Fault, String> {
    let (name, parameter) = match text.split_once(':') {
        Some((name, parameter)) => (name, Some(parameter.trim())),
        None => (text, None),
    };
    let after = || parameter.map(parse_count).transpose();
    let plain = match name {
        "refuse" => Fault::Refuse,
        "close-before" => Fault::CloseBefore,
        "stall-head" => Fault::StallHead,
        "empty" => Fault::Empty,
        "no-done" => Fault::NoDone,
        "wrong-usage" => Fault::WrongUsage,
        "close-after" => Fault::CloseAfter,
        "pings" => Fault::Pings,
        "status" => return parse_status(parameter),
        "drip" => return parse_drip(parameter),
        "stall" => return Ok(Fault::Stall { after: after()? }),
        "reset" => return Ok(Fault::Reset { after: after()? }),
        "truncate" => return Ok(Fault::Truncate { after: after()? }),
        "cut" => return Ok(Fault::Cut { after: after()? }),
        "error-event" => return Ok(Fault::ErrorEvent { after: after()? }),
        "malformed" => return Ok(Fault::Malformed { after: after()? }),
        _ => return Err(format!("there is no kind {name:?}; choose among {KINDS}")),
    };
    match parameter {
        None => Ok(plain),
        Some(parameter) => Err(format!("{name} takes no parameter {parameter:?}")),
    }
}

fn parse_count(text: &str) -> Result<u32, String> {
    // Digits only: parse() would take a sign as well.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| format!("{text:?} is no number of output events such as 3"))
}

fn parse_status(parameter: Option<&str>) -> Result<Fault, String> {
    let wanted = "write it as status:503 or status:429,2s (Retry-After in whole seconds)";
    let parameter = parameter.ok_or_else(|| format!("the status is missing; {wanted}"))?;
    let (code, retry) = match parameter.split_once(',') {
        Some((code, retry)) => (code.trim(), Some(retry.trim())),
        None => (parameter, None),
    };
    let code = code
        .parse()
        .ok()
        .filter(|code| (400..=599).contains(code))
        .ok_or_else(|| format!("{code:?} is no status from 400 to 599; {wanted}"))?;
    let retry_after_s = match retry {
        None => None,
        Some(retry) => {
            let ns = parse_duration(retry)?;
            if ns % NS_PER_S != 0 {
                return Err(format!("{retry:?} is no whole number of seconds; {wanted}"));
            }
            u32::try_from(ns / NS_PER_S).ok()
        }
    };
    Ok(Fault::Status { code, retry_after_s })
}

fn parse_drip(parameter: Option<&str>) -> Result<Fault, String> {
    let Some(parameter) = parameter else {
        return Ok(Fault::Drip { bytes: DRIP_BYTES, gap_ns: DRIP_GAP_NS });
    };
    let (bytes, gap) = match parameter.split_once(',') {
        Some((bytes, gap)) => (bytes.trim(), Some(gap.trim())),
        None => (parameter, None),
    };
    let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0).ok_or_else(|| {
        format!("{bytes:?} is no number of bytes, at least 1; write it as drip:16 or drip:16,1ms")
    })?;
    let gap_ns = gap.map_or(Ok(DRIP_GAP_NS), parse_duration)?;
    Ok(Fault::Drip { bytes, gap_ns })
}

const NS_PER_S: u64 = 1_000_000_000;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, after) = match *self {
            Self::Status { code, retry_after_s: None } => return write!(f, "status:{code}"),
            Self::Status { code, retry_after_s: Some(seconds) } => {
                return write!(f, "status:{code},{seconds}s");
            }
            Self::Drip { bytes, gap_ns } => return write!(f, "drip:{bytes},{}", Duration(gap_ns)),
            Self::Refuse => ("refuse", None),
            Self::CloseBefore => ("close-before", None),
            Self::StallHead => ("stall-head", None),
            Self::Empty => ("empty", None),
            Self::NoDone => ("no-done", None),
            Self::WrongUsage => ("wrong-usage", None),
            Self::CloseAfter => ("close-after", None),
            Self::Pings => ("pings", None),
            Self::Stall { after } => ("stall", after),
            Self::Reset { after } => ("reset", after),
            Self::Truncate { after } => ("truncate", after),
            Self::Cut { after } => ("cut", after),
            Self::ErrorEvent { after } => ("error-event", after),
            Self::Malformed { after } => ("malformed", after),
        };
        match after {
            Some(after) => write!(f, "{name}:{after}"),
            None => f.write_str(name),
        }
    }
}

impl TryFrom<String> for Fault {
    type Error = FaultError;

    fn try_from(text: String) -> Result<Self, FaultError> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        fault.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_survives_being_written_and_read_back() {
        for text in [
            "refuse",
            "close-before",
            "status:503",
            "status:429,2s",
            "stall-head",
            "stall",
            "stall:3",
            "reset",
            "reset:0",
            "truncate",
            "truncate:7",
            "cut",
            "cut:1",
            "error-event",
            "error-event:2",
            "malformed",
            "malformed:2",
            "empty",
            "no-done",
            "wrong-usage",
            "close-after",
            "pings",
            "drip:16,1ms",
            "drip:1,0s",
        ] {
            let fault: Fault = text.parse().unwrap();
            assert_eq!(fault.to_string(), text);
            let json = serde_json::to_string(&fault).unwrap();
            assert_eq!(serde_json::from_str::<Fault>(&json).unwrap(), fault);
        }
        assert_eq!("drip".parse(), Ok(Fault::Drip { bytes: 16, gap_ns: 1_000_000 }));
        assert_eq!("drip:3".parse(), Ok(Fault::Drip { bytes: 3, gap_ns: 1_000_000 }));
        assert_eq!(" stall ".parse(), Ok(Fault::Stall { after: None }));
    }

    #[test]
    fn a_fault_that_cannot_be_read_says_why() {
        for (text, wrong) in [
            ("", "no kind"),
            ("explode", "choose among refuse"),
            ("pings:3", "takes no parameter"),
            ("stall:", "no number of output events"),
            ("stall:-1", "no number of output events"),
            ("reset:+1", "no number of output events"),
            ("status", "the status is missing"),
            ("status:200", "no status from 400 to 599"),
            ("status:429,1500ms", "whole number of seconds"),
            ("status:429,2", "no unit"),
            ("drip:0", "at least 1"),
            ("drip:4,fast", "start with a number"),
        ] {
            let said = text.parse::<Fault>().unwrap_err().to_string();
            assert!(said.contains(wrong) && !said.contains('\n'), "{text}: {said}");
        }
    }
}
