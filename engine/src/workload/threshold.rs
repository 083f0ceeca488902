//! What a client's own figures may be before a run is suspect or invalid.

use std::fmt;
use std::str::FromStr;

use super::UnknownName;
use super::objective::duration_ns;

/// A figure of the client's that is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFigure {
    /// Client lag p99 over reads with output events outside the ramp, ns.
    Lag,
    /// Schedule slip p99 for reasons of our own, ns.
    Slip,
    /// Share of requests written so late that the schedule was not kept. Beyond it: invalid.
    Late,
    /// Share of reads without an acceptable kernel stamp.
    Unstamped,
    /// Share of output events that shared a read because the client was slow.
    Coalesced,
    /// Busy share of a reactor.
    Busy,
    /// Reads per second of a reactor as a share of what this host was found to sustain.
    Ceiling,
    /// Times per measured request that a body was not ready when it was due.
    Starved,
    /// Share of the CPU time that the hypervisor took away.
    Steal,
    /// Share of the segments of either direction that were lost or came out of order.
    Retransmits,
    /// Packets that this host's kernel dropped.
    Drops,
}

/// What a figure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Time,
    Share,
    Count,
}

impl ClientFigure {
    /// Name in options and results, unit, and the limit that holds unless another is given.
    const fn row(self) -> (&'static str, Unit, f64) {
        match self {
            Self::Lag => ("lag", Unit::Time, 1e6),
            Self::Slip => ("slip", Unit::Time, 1e6),
            Self::Late => ("late", Unit::Share, 0.01),
            Self::Unstamped => ("unstamped", Unit::Share, 0.01),
            Self::Coalesced => ("coalesced", Unit::Share, 0.01),
            // Queueing at our own core begins about there.
            Self::Busy => ("busy", Unit::Share, 0.8),
            Self::Ceiling => ("ceiling", Unit::Share, 1.0),
            Self::Starved => ("starved", Unit::Share, 0.001),
            Self::Steal => ("steal", Unit::Share, 0.01),
            Self::Retransmits => ("retransmits", Unit::Share, 0.001),
            Self::Drops => ("drops", Unit::Count, 0.0),
        }
    }

    /// All of them, in the order of a report.
    pub const ALL: [Self; 11] = [
        Self::Lag,
        Self::Slip,
        Self::Late,
        Self::Unstamped,
        Self::Coalesced,
        Self::Busy,
        Self::Ceiling,
        Self::Starved,
        Self::Steal,
        Self::Retransmits,
        Self::Drops,
    ];

    /// The name in options and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }
}

/// The largest value of each figure that speaks against nobody.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    limits: [f64; ClientFigure::ALL.len()],
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { limits: ClientFigure::ALL.map(|figure| figure.row().2) }
    }
}

impl Thresholds {
    /// The limit on `figure`: ns, a share from 0 to 1, or a count. Infinite if there is none.
    #[must_use]
    pub fn get(&self, figure: ClientFigure) -> f64 {
        self.limits[figure as usize]
    }

    /// The same with another limit.
    #[must_use]
    pub fn with(mut self, threshold: Threshold) -> Self {
        self.limits[threshold.figure as usize] = threshold.limit;
        self
    }
}

/// One limit, as a person gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// On which figure.
    pub figure: ClientFigure,
    /// Ns, a share from 0 to 1, or a count; infinite for none.
    pub limit: f64,
}

/// Why a limit cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThresholdError {
    /// Not `figure=limit`.
    #[error("`{text}`: write a figure and its limit, like `lag=2ms`, `busy=90%` or `steal=none`")]
    Shape {
        /// What stood there.
        text: String,
    },
    /// No such figure.
    #[error(transparent)]
    Figure(#[from] UnknownName),
    /// Not a limit of the figure's kind.
    #[error("`{text}`: {figure} takes {wanted}, or none")]
    Limit {
        /// What stood there.
        text: String,
        /// The figure.
        figure: &'static str,
        /// What it takes.
        wanted: &'static str,
    },
}

/// Reads `lag=2ms`, `busy=90%`, `busy=0.9`, `drops=10`, `steal=none`.
impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let shape = || ThresholdError::Shape { text: text.to_owned() };
        let (name, limit) = text.split_once('=').ok_or_else(shape)?;
        let (name, limit) = (name.trim(), limit.trim());
        let found = ClientFigure::ALL.into_iter().find(|figure| figure.as_str() == name);
        let figure = found.ok_or_else(|| UnknownName {
            what: "figure",
            name: name.to_owned(),
            choices: ClientFigure::ALL.map(ClientFigure::as_str).join(", "),
        })?;
        let (_, unit, _) = figure.row();
        let read = match (limit, unit) {
            ("none", _) => Some(f64::INFINITY),
            (_, Unit::Time) => duration_ns(limit, None).ok().map(|ns| ns as f64),
            (_, Unit::Share) => share(limit),
            (_, Unit::Count) => limit.parse::<u32>().ok().map(f64::from),
        };
        let wanted = match unit {
            Unit::Time => "a time such as 2ms",
            Unit::Share => "a share such as 5% or 0.05",
            Unit::Count => "a whole number such as 10",
        };
        let wrong =
            || ThresholdError::Limit { text: text.to_owned(), figure: figure.as_str(), wanted };
        Ok(Self { figure, limit: read.ok_or_else(wrong)? })
    }
}

/// As it is read.
impl fmt::Display for Threshold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit, _) = self.figure.row();
        match unit {
            _ if self.limit.is_infinite() => write!(formatter, "{name}=none"),
            Unit::Time => write!(formatter, "{name}={}ns", self.limit),
            Unit::Share | Unit::Count => write!(formatter, "{name}={}", self.limit),
        }
    }
}

fn share(text: &str) -> Option<f64> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 100.0));
    let share = number.trim().parse::<f64>().ok()? / whole;
    (0.0..=1.0).contains(&share).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_list_name_each_figure_once() {
        for (position, figure) in ClientFigure::ALL.into_iter().enumerate() {
            assert_eq!(figure as usize, position);
        }
    }

    #[test]
    fn limits_are_read_in_the_unit_of_their_figure() {
        for (text, limit) in [
            ("lag=2ms", 2e6),
            ("busy=90%", 0.9),
            ("busy = 0.9", 0.9),
            ("drops=10", 10.0),
            ("steal=none", f64::INFINITY),
            ("retransmits=0", 0.0),
        ] {
            let read: Threshold = text.parse().unwrap();
            assert_eq!(read.limit, limit, "{text}");
            assert_eq!(read.to_string().parse(), Ok(read), "{text} is read back");
            assert_eq!(Thresholds::default().with(read).get(read.figure), limit);
        }
    }

    #[test]
    fn what_is_no_limit_is_refused_with_what_would_be_one() {
        for (text, said) in [
            ("lag", "write a figure"),
            ("speed=1", "one of lag, slip"),
            ("lag=2", "a time such as"),
            ("lag=-1ms", "a time such as"),
            ("busy=2ms", "a share such as"),
            ("busy=200%", "a share such as"),
            ("busy=NaN", "a share such as"),
            ("drops=1.5", "a whole number"),
            ("drops=", "a whole number"),
        ] {
            let error = text.parse::<Threshold>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
