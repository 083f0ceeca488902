//! Values and weights that are listed: in a file, or in the parts of a mix.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use rand::{Rng, RngExt};

use super::read::value;
use super::{LawError, Unit};

/// Most bytes of a file of values.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Weights of things that are picked, each in proportion to its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weights {
    /// Sums from the first to each.
    sums: Arc<[f64]>,
    /// The last that has any weight: what rounding may not go past.
    last: usize,
}

impl Weights {
    /// Weights at least 0; `None` if they are all 0, or their sum is not finite.
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut sum, mut last) = (0.0, None);
        let add = |(index, weight): (usize, f64)| {
            if weight > 0.0 {
                last = Some(index);
            }
            sum += weight;
            sum
        };
        let sums: Arc<[f64]> = weights.into_iter().enumerate().map(add).collect();
        sum.is_finite().then_some(Self { sums, last: last? })
    }

    /// The index of one of them. Draws nothing where there is no choice.
    pub(crate) fn pick<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        if self.sums.len() == 1 {
            return 0;
        }
        let at = rng.random::<f64>() * self.sums[self.last];
        self.sums.partition_point(|sum| *sum <= at).min(self.last)
    }

    /// Each as a share of all.
    pub(crate) fn shares(&self) -> impl Iterator<Item = f64> {
        let total = self.sums[self.last];
        let before = std::iter::once(&0.0).chain(self.sums.iter());
        self.sums.iter().zip(before).map(move |(sum, before)| (sum - before) / total)
    }
}

/// The values of a file, each as likely as its weight.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// At least one.
    values: Arc<[f64]>,
    /// None if they are all alike.
    weights: Option<Weights>,
}

impl Table {
    /// Reads lines of `value` or `value,weight`.
    pub(super) fn read(path: &str, unit: Unit) -> Result<Self, LawError> {
        let (mut values, mut weights) = (Vec::new(), Vec::new());
        for row in rows(&read_text(path)?) {
            let line = || (path, row.line);
            let (first, weight) = match *row.fields.as_slice() {
                [first] => (first, None),
                [first, weight] => (first, Some(weight)),
                _ => return Err(broken(line(), "give `value` or `value,weight`")),
            };
            values.push(value(first, unit).map_err(|problem| broken(line(), problem))?);
            if let Some(text) = weight {
                weights.push(read_weight(text).map_err(|problem| broken(line(), problem))?);
            }
            if !weights.is_empty() && weights.len() != values.len() {
                return Err(broken(line(), "give a weight in every line, or in none"));
            }
        }
        if values.is_empty() {
            return Err(whole(path, "no values in it: give one a line, or `value,weight`"));
        }
        let weighted = !weights.is_empty();
        let weights = Weights::new(weights);
        if weighted && weights.is_none() {
            return Err(whole(path, "all weights are 0: give at least one above"));
        }
        Ok(Self { values: values.into(), weights })
    }

    pub(super) fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match &self.weights {
            Some(weights) => self.values[weights.pick(rng)],
            None => self.values[rng.random_range(0..self.values.len())],
        }
    }

    /// The value of all draws, if there is but one.
    pub(super) fn only(&self) -> Option<f64> {
        self.values.iter().all(|value| *value == self.values[0]).then_some(self.values[0])
    }

    pub(super) fn max(&self) -> f64 {
        self.weighted()
            .filter(|(share, _)| *share > 0.0)
            .map(|(_, value)| value)
            .fold(0.0, f64::max)
    }

    pub(super) fn mean_of(&self, function: impl Fn(f64) -> f64) -> f64 {
        self.weighted().map(|(share, value)| share * function(value)).sum()
    }

    fn weighted(&self) -> Box<dyn Iterator<Item = (f64, f64)> + '_> {
        let values = self.values.iter().copied();
        match &self.weights {
            Some(weights) => Box::new(weights.shares().zip(values)),
            None => Box::new(std::iter::repeat(1.0 / self.values.len() as f64).zip(values)),
        }
    }
}

/// A line of a file of values, its fields trimmed.
pub(super) struct Row<'a> {
    pub(super) line: usize,
    pub(super) fields: Vec<&'a str>,
}

/// The lines that hold something: not empty, no comment after `#`, and not the names of the
/// columns, which begin with a letter and may stand in the first.
pub(super) fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let full = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let full = full.enumerate().filter(|(position, (_, line))| *position > 0 || !is_header(line));
    full.map(|(_, (line, text))| Row { line, fields: text.split(',').map(str::trim).collect() })
}

/// `nan` and `inf` are values, though bad ones.
pub(super) fn is_header(line: &str) -> bool {
    let first = line.split(',').next().unwrap_or(line).trim().trim_matches('"');
    first.starts_with(char::is_alphabetic) && first.parse::<f64>().is_err()
}

/// Largest weight: sums of them stay finite.
const WEIGHT_MAX: f64 = 1e12;

pub(super) fn read_weight(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(weight) if (0.0..=WEIGHT_MAX).contains(&weight) => Ok(weight),
        _ => Err(format!("weight `{text}`: give a number from 0 to {WEIGHT_MAX:e}")),
    }
}

/// A small file of text, whole, without its byte order mark.
pub(in crate::workload) fn read_text(path: &str) -> Result<String, LawError> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| whole(path, format!("it cannot be read: {error}")))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(whole(path, "it has more than 256 MiB: give fewer values"));
    }
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

pub(super) fn broken((path, line): (&str, usize), problem: impl Into<String>) -> LawError {
    LawError::Line { path: path.to_owned(), line, problem: problem.into() }
}

pub(super) fn whole(path: &str, problem: impl Into<String>) -> LawError {
    LawError::File { path: path.to_owned(), problem: problem.into() }
}
