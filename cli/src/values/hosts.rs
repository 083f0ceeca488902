//! What hosts that share a load agree on: which part each sends, and when all begin.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokclock_engine::workload::Shard;

/// The part of a load that this host sends: `0/3`; `auto`, which a launcher tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum ShardAsked {
    /// As the variables of a launcher say.
    Auto,
    /// This one.
    Is(Shard),
}

impl FromStr for ShardAsked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            text => text.parse().map(Self::Is).map_err(|error| format!("{error}, or auto")),
        }
    }
}

impl fmt::Display for ShardAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Is(shard) => shard.fmt(f),
        }
    }
}

/// An instant of the wall clock: seconds since 1970 with or without a fraction (`1764547200.5`), or UTC
/// as RFC 3339 has it (`2025-12-01T00:00:00.5Z`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Moment(u64);

impl Moment {
    /// An instant so many ns after the begin of 1970.
    #[must_use]
    pub(crate) const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Ns since the begin of 1970.
    #[must_use]
    pub(crate) const fn ns(self) -> u64 {
        self.0
    }

    /// The same as RFC 3339 has it.
    #[must_use]
    pub(crate) fn rfc3339(self) -> String {
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.0);
        humantime::format_rfc3339(at).to_string()
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        unix(text).or_else(|| rfc3339(text)).map(Self).ok_or_else(|| {
            "expected Unix seconds such as 1764547200.5, or UTC such as 2025-12-01T00:00:00Z"
                .to_owned()
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ns) = self;
        write!(f, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

/// Digit by digit: a float would be off by hundreds of ns.
fn unix(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) {
        return None;
    }
    let nanos: String = part.chars().chain("000000000".chars()).take(9).collect();
    let seconds: u64 = whole.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
}

fn rfc3339(text: &str) -> Option<u64> {
    let at = humantime::parse_rfc3339_weak(text).ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_to_the_nanosecond() {
        let ns = |text: &str| text.parse::<Moment>().map(Moment::ns);
        assert_eq!(ns("1764547200"), Ok(1_764_547_200_000_000_000));
        assert_eq!(ns("1764547200.5"), Ok(1_764_547_200_500_000_000));
        assert_eq!(ns("1764547200.123456789"), Ok(1_764_547_200_123_456_789));
        assert_eq!(ns("1764547200.1234567899"), Ok(1_764_547_200_123_456_789));
        assert_eq!(ns("2025-12-01T00:00:00.25Z"), Ok(1_764_547_200_250_000_000));
        let wrong = ["", "soon", "-5", "1e9", "1.", ".5", "99999999999999", "5s", "1970-01-01"];
        for wrong in wrong.into_iter().chain(["1969-12-31T23:59:59Z"]) {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn both_are_read_as_they_are_printed() {
        for text in ["auto", "0/1", "2/3"] {
            assert_eq!(text.parse::<ShardAsked>().unwrap().to_string(), text);
        }
        assert!("3/3".parse::<ShardAsked>().unwrap_err().ends_with("or auto"));
        for ns in [0, 1, 1_764_547_200_123_456_789] {
            let moment = Moment::from_ns(ns);
            assert_eq!(moment.to_string().parse(), Ok(moment));
            assert_eq!(moment.rfc3339().parse(), Ok(moment));
        }
    }
}
