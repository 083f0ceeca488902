//! Laws of lengths and of times: what a person writes of them, and the draws that follow.

mod base;
pub mod peers;
mod read;
pub(crate) mod special;
mod table;
mod together;

pub use together::{LengthLaw, Pairs};

pub(crate) use table::Weights;
pub(super) use {read::number, read::time_ns, table::read_text};

use std::fmt;
use std::sync::Arc;

use rand::Rng;

use base::Bounded;

/// Most tokens of a length; the same as the plan's bound on a prompt.
pub const LENGTH_MAX: u32 = 1 << 22;
/// Longest time that a law gives, in ns: a year. What is longer is a typing error.
pub const TIME_NS_MAX: u64 = 365 * 86_400 * 1_000_000_000;

/// A law of a length, in tokens, or of a time, in ns.
///
/// | text | law |
/// |---|---|
/// | `512` | always the same |
/// | `uniform:1,1024` | equally likely, both ends included; lengths are whole |
/// | `normal:512,128` | mean and standard deviation |
/// | `lognormal:512,128` | mean and standard deviation of the values, not of their logarithms |
/// | `lognormal:median=512,p95=4096` | the same law by two of its percentiles; p90 and p99 too |
/// | `gamma:512,128` | mean and standard deviation |
/// | `exp:512` | exponential, by its mean |
/// | `zipf:1.2,4096` | 1 to 4096, value k with weight k^-1.2; lengths only |
/// | `mix:70%*512,30%*normal:4096,512` | one of several, by weight; in % or plain numbers |
/// | `file:PATH` | values as often as a file has them: lines of `value` or `value,weight` |
///
/// Any of them takes `,min=A` and `,max=B` at its end; in a mix they belong to the part that they
/// follow. A draw outside is set to the bound, so the moments are those of the clamped law, not
/// the ones written. Without bounds of its own a length is clamped to 1 and [`LENGTH_MAX`], a time
/// to 0 and [`TIME_NS_MAX`]. Clamped draws are rounded to the nearest whole token or ns.
///
/// Values of a time carry a unit: ns, us, ms, s, m or h; only 0 may go without. Laws are equal
/// when they draw alike, however they were written.
#[derive(Debug, Clone)]
pub struct Law {
    unit: Unit,
    /// As it was given; none for a constant made by code.
    text: Option<Arc<str>>,
    shape: Shape,
}

/// What the values of a law are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Tokens,
    Time,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    One(Bounded),
    Mix { weights: Weights, parts: Arc<[Bounded]> },
}

impl Law {
    /// Always `tokens`, also where that is 0: what generates nothing has no output.
    #[must_use]
    pub const fn constant(tokens: u32) -> Self {
        let shape = Shape::One(Bounded::constant(tokens as f64));
        Self { unit: Unit::Tokens, text: None, shape }
    }

    /// Always `ns`, right to 2^-53 of it.
    #[must_use]
    pub const fn constant_ns(ns: u64) -> Self {
        let shape = Shape::One(Bounded::constant(ns as f64));
        Self { unit: Unit::Time, text: None, shape }
    }

    /// Reads a law of lengths, in tokens. A path in it is relative to the working directory; the
    /// file is read now and not again.
    ///
    /// # Errors
    ///
    /// What cannot be read or makes no sense, and where.
    pub fn of_lengths(text: &str) -> Result<Self, LawError> {
        Self::of(text, Unit::Tokens)
    }

    /// Reads a law of times, as `exp:500ms` or `uniform:1s,5s`; draws are in ns.
    ///
    /// # Errors
    ///
    /// What cannot be read or makes no sense, and where; a value without a unit.
    pub fn of_times(text: &str) -> Result<Self, LawError> {
        Self::of(text, Unit::Time)
    }

    fn of(text: &str, unit: Unit) -> Result<Self, LawError> {
        let text = text.trim();
        Ok(Self { unit, text: Some(text.into()), shape: read::shape(text, unit)? })
    }

    /// The mean of the law as clamped. What rounding to whole values adds is left out, except
    /// where all values are whole or listed.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match &self.shape {
            Shape::One(law) => law.mean(),
            Shape::Mix { weights, parts } => {
                weights.shares().zip(parts.iter()).map(|(share, part)| share * part.mean()).sum()
            }
        }
    }

    /// The greatest value that can be drawn; `None` if only [`LENGTH_MAX`] or [`TIME_NS_MAX`]
    /// ends the law.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        match &self.shape {
            Shape::One(law) => law.bound(),
            Shape::Mix { weights, parts } => {
                let drawn = weights.shares().zip(parts.iter()).filter(|(share, _)| *share > 0.0);
                drawn
                    .map(|(_, part)| part.bound())
                    .try_fold(0.0, |max, bound| Some(bound?.max(max)))
            }
        }
    }

    /// Whether all draws are the same; then none takes anything from the generator.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        matches!(&self.shape, Shape::One(law) if law.is_constant())
    }

    /// What tells this law from others: its text or, where that names a file, all that the file holds.
    pub(crate) fn identity(&self) -> String {
        let text = self.to_string();
        if text.contains("file:") { format!("{:?}", self.shape) } else { text }
    }

    /// A draw: whole, at least 0, in tokens or ns.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match &self.shape {
            Shape::One(law) => law.sample(rng),
            Shape::Mix { weights, parts } => parts[weights.pick(rng)].sample(rng),
        }
    }
}

impl PartialEq for Law {
    fn eq(&self, other: &Self) -> bool {
        self.unit == other.unit && self.shape == other.shape
    }
}

/// As it was given.
impl fmt::Display for Law {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.text, self.unit) {
            (Some(text), _) => formatter.write_str(text),
            (None, Unit::Tokens) => write!(formatter, "{}", self.mean()),
            (None, Unit::Time) => write!(formatter, "{}ns", self.mean()),
        }
    }
}

impl Unit {
    /// Least value of a law without a bound of its own.
    const fn min(self) -> f64 {
        match self {
            Self::Tokens => 1.0,
            Self::Time => 0.0,
        }
    }

    /// Greatest value that may be written or drawn.
    const fn max(self) -> f64 {
        match self {
            Self::Tokens => LENGTH_MAX as f64,
            Self::Time => TIME_NS_MAX as f64,
        }
    }
}

/// A law that cannot be read or makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LawError {
    /// In the text itself.
    #[error("`{text}`: {problem}")]
    Text {
        /// The law, or the part of it.
        text: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// In a file as a whole.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// In a line of a file.
    #[error("{path}, line {line}: {problem}")]
    Line {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl LawError {
    fn text(text: &str, problem: impl Into<String>) -> Self {
        Self::Text { text: text.to_owned(), problem: problem.into() }
    }
}

#[cfg(test)]
mod tests;
