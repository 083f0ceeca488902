//! A rate that changes over time: steps, ramps, or the lines of a file.

use std::fmt;
use std::str::FromStr;

use super::law::{LawError, TIME_NS_MAX, number, read_text, time_ns};

/// Highest rate of a piece, in requests per second.
pub const RATE_MAX: f64 = 10_000_000.0;
/// Most pieces: a rate for every second of eleven days.
const PIECES_MAX: usize = 1 << 20;

/// A part of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// How long it lasts, in ns; `u64::MAX` is without end.
    pub duration_ns: u64,
    /// Requests per second at its begin.
    pub from: f64,
    /// Requests per second at its end; between them the rate is linear.
    pub to: f64,
}

/// A rate that changes: pieces one after the other.
///
/// In text: `50@2s,100@2s` are steps, `0..100@4s,100@4s` a ramp and a plateau. The last piece may
/// go without `@` and then has no end: `0..100@4s,100`. Or `file:PATH`, a file of lines
/// `seconds,rate`, the names of the columns allowed in the first: a rate holds from its second
/// until that of the next line. The first line is at second 0; the last closes the series and has
/// no rate, as `60,`, or the rate 0.
#[derive(Debug, Clone, PartialEq)]
pub struct RateSeries {
    pieces: Vec<Piece>,
}

impl RateSeries {
    /// A series of these pieces.
    ///
    /// # Errors
    ///
    /// No piece or too many; a piece of no duration; one without end that is not the last, or
    /// whose rate changes; a rate that is no number from 0 to 10 million; a rate of 0 throughout.
    pub fn new(pieces: Vec<Piece>) -> Result<Self, SeriesError> {
        if pieces.is_empty() || pieces.len() > PIECES_MAX {
            return Err(SeriesError::Count { pieces: pieces.len() });
        }
        for (index, piece) in pieces.iter().enumerate() {
            let last = index + 1 == pieces.len();
            piece
                .check(last)
                .map_err(|problem| SeriesError::Piece { number: index + 1, problem })?;
        }
        let series = Self { pieces };
        let number = series.pieces.len();
        if series.duration_ns().is_none() && !series.pieces[number - 1].is_endless() {
            let problem = "the series is then over 500 years long: cut it".into();
            return Err(SeriesError::Piece { number, problem });
        }
        let some = series.arrivals_expected() > 0.0;
        if some { Ok(series) } else { Err(SeriesError::Silent) }
    }

    /// From 0 to `rate` over `ramp_ns`, then `rate` without end.
    ///
    /// # Errors
    ///
    /// A rate that is no number above 0 and up to 10 million.
    pub fn ramp(rate: f64, ramp_ns: u64) -> Result<Self, SeriesError> {
        let up = Piece { duration_ns: ramp_ns, from: 0.0, to: rate };
        let level = Piece { duration_ns: u64::MAX, from: rate, to: rate };
        Self::new(if ramp_ns == 0 { vec![level] } else { vec![up, level] })
    }

    /// Its pieces: at least one, only the last without end.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// How long it lasts, in ns; `None` without end.
    #[must_use]
    pub fn duration_ns(&self) -> Option<u64> {
        let mut pieces = self.pieces.iter();
        let finite = |sum: u64, piece: &Piece| {
            sum.checked_add(piece.duration_ns).filter(|_| !piece.is_endless())
        };
        pieces.try_fold(0, finite)
    }

    /// The mean number of arrivals from begin to end; infinite without end.
    #[must_use]
    pub fn arrivals_expected(&self) -> f64 {
        self.pieces.iter().map(Piece::arrivals).sum()
    }

    /// Requests per second at an instant, in ns after the begin; that of the later piece where
    /// two meet, 0 after the end.
    #[must_use]
    pub fn rate_at(&self, instant_ns: u64) -> f64 {
        let mut rest_ns = instant_ns;
        for piece in &self.pieces {
            if rest_ns < piece.duration_ns || piece.is_endless() {
                let share = rest_ns as f64 / piece.duration_ns as f64;
                return piece.from + (piece.to - piece.from) * share;
            }
            rest_ns -= piece.duration_ns;
        }
        0.0
    }

    fn read(path: &str) -> Result<Self, SeriesError> {
        let text = read_text(path)?;
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let mut full = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut pieces: Vec<Piece> = Vec::new();
        let mut open: Option<Step> = None;
        let mut first = true;
        for (number, line) in &mut full {
            let names =
                first && line.starts_with(|letter: char| letter.is_alphabetic() || letter == '"');
            first = false;
            if names {
                continue;
            }
            let wrong = |problem: String| {
                SeriesError::File(LawError::Line { path: path.to_owned(), line: number, problem })
            };
            let step = Step::read(line, number).map_err(wrong)?;
            match open.replace(step) {
                Some(before) => pieces.push(before.until(step).map_err(wrong)?),
                None if step.at_ns != 0 => {
                    return Err(wrong("the first line must be at second 0".into()));
                }
                None => {}
            }
            // Where the rate is missing, the series is over.
            if step.rate.is_none() {
                break;
            }
        }
        closed(path, open, full.next())?;
        Self::new(pieces)
    }
}

/// Checks that the last line of a file closes the series, and that nothing comes after it.
fn closed(path: &str, last: Option<Step>, after: Option<(usize, &str)>) -> Result<(), SeriesError> {
    let wrong = |line, problem: &str| {
        let (path, problem) = (path.to_owned(), problem.to_owned());
        Err(SeriesError::File(LawError::Line { path, line, problem }))
    };
    match (last, after) {
        (_, Some((line, _))) => wrong(line, "the series was closed by the line before"),
        (Some(Step { rate: Some(rate), line, .. }), _) if rate > 0.0 => {
            wrong(line, "this rate has no end: close the series with a line `SECONDS,`")
        }
        _ => Ok(()),
    }
}

/// A line of a file.
#[derive(Debug, Clone, Copy)]
struct Step {
    line: usize,
    at_ns: u64,
    rate: Option<f64>,
}

impl Step {
    fn read(text: &str, line: usize) -> Result<Self, String> {
        let usage = || "give `seconds,rate`, or `seconds,` at the end".to_owned();
        let (seconds, rate) = text.split_once(',').ok_or_else(usage)?;
        let (seconds, rate) = (seconds.trim(), rate.trim());
        let at_ns = number(seconds).map(|seconds| seconds * 1e9);
        let at_ns = at_ns.ok().filter(|ns| *ns <= TIME_NS_MAX as f64);
        let at_ns = at_ns
            .ok_or_else(|| format!("`{seconds}`: give seconds of at least 0, up to a year"))?;
        let rate = if rate.is_empty() { None } else { Some(read_rate(rate)?) };
        Ok(Self { line, at_ns: at_ns.round() as u64, rate })
    }

    fn until(self, next: Self) -> Result<Piece, String> {
        let duration_ns = next.at_ns.checked_sub(self.at_ns).filter(|ns| *ns > 0);
        let duration_ns = duration_ns.ok_or("its second must be after that of the line before")?;
        let rate = self.rate.unwrap_or(0.0);
        Ok(Piece { duration_ns, from: rate, to: rate })
    }
}

impl Piece {
    /// Whether it goes on for ever.
    #[must_use]
    pub const fn is_endless(&self) -> bool {
        self.duration_ns == u64::MAX
    }

    /// The mean number of arrivals in it.
    #[must_use]
    pub fn arrivals(&self) -> f64 {
        match self.is_endless() {
            true if self.from > 0.0 => f64::INFINITY,
            true => 0.0,
            false => self.duration_ns as f64 * (self.from + self.to) / 2.0 / 1e9,
        }
    }

    fn check(&self, last: bool) -> Result<(), String> {
        for rate in [self.from, self.to] {
            if !(0.0..=RATE_MAX).contains(&rate) {
                return Err(format!("rate {rate}: {RATE_USAGE}"));
            }
        }
        match self.duration_ns {
            0 => Err("it lasts no time: give a duration above 0, like 100@2s".into()),
            u64::MAX if !last => Err("only the last may have no end: give its `@DURATION`".into()),
            u64::MAX if self.from != self.to => {
                Err("a rate cannot change for ever: give its `@DURATION`".into())
            }
            _ => Ok(()),
        }
    }
}

const RATE_USAGE: &str = "give requests per second, from 0 to 10 million";

fn read_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=RATE_MAX).contains(&rate) => Ok(rate),
        _ => Err(format!("rate `{text}`: {RATE_USAGE}")),
    }
}

impl FromStr for RateSeries {
    type Err = SeriesError;

    fn from_str(text: &str) -> Result<Self, SeriesError> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("file:") {
            return Self::read(path.trim());
        }
        let piece = |(index, text)| {
            read_piece(text).map_err(|problem| SeriesError::Piece { number: index + 1, problem })
        };
        let pieces = text.split(',').enumerate().map(piece);
        Self::new(pieces.collect::<Result<_, _>>()?)
    }
}

/// `100@2s`, `0..100@4s`, or `100` without end.
fn read_piece(text: &str) -> Result<Piece, String> {
    let (rates, duration) = match text.split_once('@') {
        Some((rates, duration)) => (rates, Some(duration)),
        None => (text, None),
    };
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    let duration_ns = match duration {
        Some(duration) => time_ns(duration)?.round() as u64,
        None => u64::MAX,
    };
    Ok(Piece { duration_ns, from: read_rate(from.trim())?, to: read_rate(to.trim())? })
}

/// A text that reads back as the same series.
impl fmt::Display for RateSeries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.pieces.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{piece}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.from)?;
        if self.from != self.to {
            write!(formatter, "..{}", self.to)?;
        }
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        let whole =
            units.into_iter().find(|(_, unit_ns)| self.duration_ns.is_multiple_of(*unit_ns));
        match whole {
            Some((unit, unit_ns)) if !self.is_endless() => {
                write!(formatter, "@{}{unit}", self.duration_ns / unit_ns)
            }
            _ => Ok(()),
        }
    }
}

/// A series that cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// A piece that cannot be read or makes no sense.
    #[error("rate series, piece {number}: {problem}")]
    Piece {
        /// Which, from 1.
        number: usize,
        /// What is wrong and what to do.
        problem: String,
    },
    /// No piece, or too many.
    #[error("rate series of {pieces} pieces: give 1 to {PIECES_MAX}, like `50@2s,100@2s`")]
    Count {
        /// How many there are.
        pieces: usize,
    },
    /// Nothing would ever be sent.
    #[error("rate series: its rate is 0 throughout; give one above 0")]
    Silent,
    /// In its file.
    #[error(transparent)]
    File(#[from] LawError),
}

#[cfg(test)]
mod tests;
