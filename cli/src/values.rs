//! Values that options and the TOML file share: durations, shares, lengths, lists of CPUs. Each
//! reads what it prints.

mod hosts;
mod levels;
mod schema;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub(crate) use hosts::{Moment, ShardAsked};
pub(crate) use levels::Levels;
use serde::{Deserialize, Serialize};

/// The longest duration that an option takes: 30 days. Longer is a slip of the pen.
const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A length of time: `30s`, `500ms`, `1m 30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Span(Duration);

impl Span {
    /// A span of `ns` nanoseconds.
    #[must_use]
    pub(crate) const fn from_ns(ns: u64) -> Self {
        Self(Duration::from_nanos(ns))
    }

    /// Its length in ns.
    #[must_use]
    pub(crate) fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = humantime::parse_duration(text.trim())
            .map_err(|_| "expected a duration such as 30s, 500ms or 2m".to_owned())?;
        if length > DURATION_MAX {
            return Err("longer than 30 days".to_owned());
        }
        Ok(Self(length))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// A limit on a length of time: a duration, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Deadline(pub(crate) Option<Span>);

impl Deadline {
    /// The limit in ns; `None` is without limit.
    #[must_use]
    pub(crate) fn ns(self) -> Option<u64> {
        self.0.map(Span::ns)
    }
}

impl FromStr for Deadline {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let span: Span = text.parse().map_err(|error| format!("{error}, or none"))?;
        if span.ns() == 0 {
            return Err("a limit of 0 would fail every request; use none for no limit".to_owned());
        }
        Ok(Self(Some(span)))
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(span) => span.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// A length of time (`5s`) or a number of something (`100`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum TimeOrCount {
    /// So many.
    Count(u64),
    /// So long.
    Time(Span),
}

impl FromStr for TimeOrCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(WarmUp::Requests(count)) => Ok(Self::Count(count)),
            Ok(WarmUp::Time(span)) => Ok(Self::Time(span)),
            _ => Err("expected a duration such as 5s, or a number".to_owned()),
        }
    }
}

impl fmt::Display for TimeOrCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Time(span) => span.fmt(f),
        }
    }
}

/// What goes before the measured part: a time (`5s`), a number of requests (`100`), or `auto`, until
/// the service is steady; `0` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum WarmUp {
    /// So many requests.
    Requests(u64),
    /// So long.
    Time(Span),
    /// Until the service is steady.
    Auto,
}

impl FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if let Ok(requests) = text.parse() {
            return Ok(Self::Requests(requests));
        }
        text.parse()
            .map(Self::Time)
            .map_err(|_| "expected a duration such as 5s, a number of requests, or auto".to_owned())
    }
}

impl fmt::Display for WarmUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests(requests) => requests.fmt(f),
            Self::Time(span) => span.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// A share of a whole: `5%` or `0.05`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Share(f64);

impl Share {
    /// The share that `percent` of 100 is.
    #[must_use]
    pub(crate) const fn from_percent(percent: f64) -> Self {
        Self(percent / 100.0)
    }

    /// Its value, 0 to 1.
    #[must_use]
    pub(crate) const fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse(),
        };
        match share {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err("expected a share from 0% to 100%, such as 5%".to_owned()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As a plain fraction: a percentage would not always read back as the same number.
        write!(f, "{}", self.0)
    }
}

/// CPUs by the numbers of the kernel: `0,2-5`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// More CPUs than any machine has.
        const CPU_MAX: usize = 1 << 16;
        let wrong = || format!("`{text}` is no list of CPUs such as 0,2-5");
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().map_err(|_| wrong())?;
            let last: usize = last.trim().parse().map_err(|_| wrong())?;
            if first > last || last > CPU_MAX {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        let mut unique = cpus.clone();
        unique.sort_unstable();
        unique.dedup();
        if unique.len() < cpus.len() {
            return Err(format!("`{text}` names a CPU twice"));
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, cpu) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{cpu}")?;
        }
        Ok(())
    }
}

/// A law of lengths or of times, as it is written; read where it is used. In a file it may be a
/// number too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "NumberOrText", into = "NumberOrText")]
pub(crate) struct LawText(pub(crate) String);

impl From<&str> for LawText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<u32> for LawText {
    fn from(number: u32) -> Self {
        Self(number.to_string())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl From<NumberOrText> for LawText {
    fn from(value: NumberOrText) -> Self {
        Self(match value {
            NumberOrText::Whole(number) => number.to_string(),
            NumberOrText::Number(number) => number.to_string(),
            NumberOrText::Text(text) => text,
        })
    }
}

impl From<LawText> for NumberOrText {
    fn from(text: LawText) -> Self {
        text.0.parse().map_or(Self::Text(text.0), Self::Whole)
    }
}

/// Serde through the text that the options take.
macro_rules! through_text {
    ($($type:ty),+) => {
        $(
            impl TryFrom<String> for $type {
                type Error = String;

                fn try_from(text: String) -> Result<Self, String> {
                    text.parse()
                }
            }

            impl From<$type> for String {
                fn from(value: $type) -> Self {
                    value.to_string()
                }
            }
        )+
    };
}

through_text!(Span, Deadline, TimeOrCount, WarmUp, Share, CpuList, ShardAsked, Moment);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_what_people_write() {
        let ns = |text: &str| text.parse::<Span>().map(Span::ns);
        assert_eq!(ns("30s"), Ok(30_000_000_000));
        assert_eq!(ns("500ms"), Ok(500_000_000));
        assert_eq!(ns("2m"), Ok(120_000_000_000));
        for wrong in ["", "30", "-1s", "s", "1 parsec", "400d"] {
            assert!(ns(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_span_reads_what_it_prints() {
        for ns in [1, 25_250_000, 1_000_000_000, 90_000_000_001] {
            let span = Span::from_ns(ns);
            assert_eq!(span.to_string().parse(), Ok(span));
        }
    }

    #[test]
    fn a_limit_of_zero_is_refused_and_none_is_no_limit() {
        assert!("0s".parse::<Deadline>().is_err());
        assert_eq!("none".parse::<Deadline>().map(Deadline::ns), Ok(None));
    }

    #[test]
    fn warm_up_is_a_time_or_a_number() {
        assert_eq!("100".parse(), Ok(WarmUp::Requests(100)));
        assert_eq!("5s".parse(), Ok(WarmUp::Time(Span::from_ns(5_000_000_000))));
        assert!("-5".parse::<WarmUp>().is_err());
    }

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        assert_eq!("5%".parse(), Ok(Share::from_percent(5.0)));
        assert_eq!("0.05".parse(), Ok(Share(0.05)));
        for wrong in ["101%", "-1%", "NaN", "5 percent", "2"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cpu_list_expands_ranges_and_refuses_nonsense() {
        assert_eq!("0,2-5".parse(), Ok(CpuList(vec![0, 2, 3, 4, 5])));
        for wrong in ["", "1-", "5-2", "0,0", "a", "0-99999999"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }
}
