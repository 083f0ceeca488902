//! Input and output lengths together: apart, by weight, or in pairs from a file.

use std::sync::Arc;

use super::read::number;
use super::table::{Weights, broken, is_header, read_text, read_weight, rows, whole};
use super::{LENGTH_MAX, Law, LawError};

/// The lengths of a request: its input and its output.
#[derive(Debug, Clone, PartialEq)]
pub enum LengthLaw {
    /// Each by its own law.
    Apart {
        /// Tokens of the prompt.
        input: Law,
        /// Tokens of the answer.
        output: Law,
    },
    /// One of several pairs of laws (input, output), each by its weight before it. Weights are at
    /// least 0, one of them above.
    Joint(Vec<(f64, Law, Law)>),
    /// One of the pairs of a file.
    Pairs(Arc<Pairs>),
}

/// The pairs of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    path: String,
    /// Input and output tokens; at least one pair.
    rows: Vec<(u32, u32)>,
    pub(crate) weights: Weights,
}

impl Pairs {
    /// The file, as it was named.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Input and output tokens of each, in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[(u32, u32)] {
        &self.rows
    }
}

impl LengthLaw {
    /// Always the same lengths.
    #[must_use]
    pub const fn constant(input: u32, output: u32) -> Self {
        Self::Apart { input: Law::constant(input), output: Law::constant(output) }
    }

    /// Reads `pairs:PATH`, or a path alone: a file of lines `input,output` or
    /// `input,output,weight`, with or without the names of the columns in the first. Lines are as
    /// likely as their weights, all alike without. A length of 0 is taken as 1.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, a line that is no pair, no weight above 0.
    pub fn of_pairs(text: &str) -> Result<Self, LawError> {
        let path = text.trim();
        let path = path.strip_prefix("pairs:").unwrap_or(path).trim();
        let text = read_text(path)?;
        check_order(path, &text)?;
        let (mut pairs, mut weights) = (Vec::new(), Vec::new());
        let mut columns = None;
        for row in rows(&text) {
            let wrong = |problem: String| broken((path, row.line), problem);
            let (input, output, weight) = match *row.fields.as_slice() {
                [input, output] => (input, output, None),
                [input, output, weight] => (input, output, Some(weight)),
                _ => return Err(wrong("give `input,output` or `input,output,weight`".into())),
            };
            if *columns.get_or_insert(row.fields.len()) != row.fields.len() {
                return Err(wrong("give a weight in every line, or in none".into()));
            }
            pairs.push((tokens(input).map_err(wrong)?, tokens(output).map_err(wrong)?));
            weights.push(weight.map_or(Ok(1.0), read_weight).map_err(wrong)?);
        }
        if pairs.is_empty() {
            return Err(whole(path, "no pairs in it: give `input,output` lines"));
        }
        let weights = Weights::new(weights);
        let weights = weights.ok_or_else(|| whole(path, "all weights are 0: give one above"))?;
        Ok(Self::Pairs(Arc::new(Pairs { path: path.to_owned(), rows: pairs, weights })))
    }

    /// The same with another law of inputs, where inputs and outputs are apart.
    #[must_use]
    pub fn with_input(&self, input: Law) -> Self {
        match self {
            Self::Apart { output, .. } => Self::Apart { input, output: output.clone() },
            together => together.clone(),
        }
    }

    /// The laws of inputs and of outputs as they are written.
    #[must_use]
    pub fn texts(&self) -> (String, String) {
        match self {
            Self::Apart { input, output } => (input.to_string(), output.to_string()),
            Self::Joint(parts) => {
                let part = |(weight, input, output): &(f64, Law, Law)| {
                    format!("{weight}*({input} with {output})")
                };
                let all = parts.iter().map(part).collect::<Vec<_>>().join(", ");
                (all.clone(), all)
            }
            Self::Pairs(pairs) => {
                let all = format!("pairs:{}", pairs.path());
                (all.clone(), all)
            }
        }
    }

    /// The mean input and output, in tokens, as [`Law::mean`] has them.
    #[must_use]
    pub fn means(&self) -> (f64, f64) {
        let sum = |(input, output), (share, (next_input, next_output))| {
            (input + share * next_input, output + share * next_output)
        };
        match self {
            Self::Apart { input, output } => (input.mean(), output.mean()),
            Self::Joint(parts) => {
                let total: f64 = parts.iter().map(|(weight, ..)| weight).sum();
                let means = parts
                    .iter()
                    .map(|(weight, input, output)| (weight / total, (input.mean(), output.mean())));
                means.fold((0.0, 0.0), sum)
            }
            Self::Pairs(pairs) => {
                let rows = pairs.rows.iter();
                let rows = rows.map(|(input, output)| (f64::from(*input), f64::from(*output)));
                pairs.weights.shares().zip(rows).fold((0.0, 0.0), sum)
            }
        }
    }

    /// The longest input that can be drawn; `None` if only [`LENGTH_MAX`] ends the law.
    #[must_use]
    pub fn input_max(&self) -> Option<u32> {
        match self {
            Self::Apart { input, .. } => max_of([input]),
            Self::Joint(parts) => max_of(parts.iter().map(|(_, input, _)| input)),
            Self::Pairs(pairs) => pairs.rows.iter().map(|(input, _)| *input).max(),
        }
    }

    /// The longest output that can be drawn; `None` if only [`LENGTH_MAX`] ends the law.
    #[must_use]
    pub fn output_max(&self) -> Option<u32> {
        match self {
            Self::Apart { output, .. } => max_of([output]),
            Self::Joint(parts) => max_of(parts.iter().map(|(_, _, output)| output)),
            Self::Pairs(pairs) => pairs.rows.iter().map(|(_, output)| *output).max(),
        }
    }
}

fn max_of<'a>(laws: impl IntoIterator<Item = &'a Law>) -> Option<u32> {
    // Whole and not above `LENGTH_MAX`, as all draws are.
    laws.into_iter().try_fold(0, |max, law| Some((law.max()? as u32).max(max)))
}

/// Columns that are named the other way round would be swapped without a word.
fn check_order(path: &str, text: &str) -> Result<(), LawError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut full = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    match full.next() {
        Some((line, names)) if is_header(names) && starts_with_output(names) => {
            Err(broken((path, line), "the columns must be input,output[,weight], in this order"))
        }
        _ => Ok(()),
    }
}

fn starts_with_output(names: &str) -> bool {
    let first = names.split(',').next().unwrap_or(names).to_ascii_lowercase();
    ["output", "response", "osl", "decode", "completion"].iter().any(|name| first.contains(name))
}

fn tokens(text: &str) -> Result<u32, String> {
    let value = number(text)?;
    if value.fract() != 0.0 || value > f64::from(LENGTH_MAX) {
        return Err(format!("`{text}`: give a whole number of tokens up to {LENGTH_MAX}"));
    }
    Ok((value as u32).max(1))
}
