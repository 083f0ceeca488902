//! A workload expanded: what request *i* says and when it goes, from (seed, *i*) alone.
//!
//! A [`Plan`] is made once, before the load, and shared: it holds every byte that all requests
//! have in common. Indices count from 0 over warm-up and measured part alike;
//! any other is as good, so a probe may take one that the load never reaches.

pub mod arrival;
mod body;
mod head;
pub mod prompt;
pub mod random;

pub use arrival::{ArrivalError, Arrivals};
pub use body::BodyError;
pub use head::{HeadError, OURS_ALONE, Part};

use std::fmt;
use std::io::Write;
use std::ops::Range;

use crate::workload::{Connections, Content, Dialect, Load, Stop, Warmup, Workload};
use arrival::Gaps;
use body::Frame;
use head::Head;
use prompt::{Prompts, TOKEN_BYTES_MAX};

/// Most input tokens of a prompt; its body then takes up to 64 MB.
pub const INPUT_TOKENS_MAX: u32 = 1 << 22;

/// The requests of a load point.
#[derive(Clone)]
pub struct Plan {
    /// One per server, in their order.
    heads: Vec<Head>,
    frame: Frame,
    run_id: String,
    prompts: Prompts,
    lengths: Lengths,
    gaps: Option<Gaps>,
    total: Option<u64>,
    /// Digits of the longest body's length: what is kept free in a head until it is known.
    length_digits: usize,
}

/// How long a request is, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Tokens of the prompt.
    pub input: u32,
    /// Tokens asked for by the workload, whatever its `extra_body` says of them.
    pub output: u32,
}

impl Plan {
    /// The plan of a workload; `run_id` goes into every request id and nothing else.
    ///
    /// # Errors
    ///
    /// The first part of the workload that cannot be carried out.
    pub fn new(workload: &Workload, run_id: &str) -> Result<Self, PlanError> {
        check_stop(&workload.stop)?;
        check_content(&workload.content, workload.target.dialect)?;
        let gaps = gaps(&workload.load, workload.seed)?;
        let frame = Frame::new(&workload.target, &workload.content)?;
        let lengths = Lengths {
            input: workload.content.input_tokens,
            output: workload.content.output_tokens,
        };
        let body_bytes_max = frame.len() + lengths.input as usize * TOKEN_BYTES_MAX;
        let target = &workload.target;
        let close = workload.client.connections == Connections::PerRequest;
        let head = |endpoint| Head::new(target, endpoint, run_id, close);
        let heads = target.endpoints.iter().map(head);
        let heads: Vec<Head> = heads.collect::<Result<_, _>>()?;
        if heads.is_empty() {
            return Err(PlanError::NoServer);
        }
        Ok(Self {
            heads,
            frame,
            run_id: run_id.to_owned(),
            prompts: Prompts::new(workload.seed),
            lengths,
            gaps,
            total: total(&workload.stop),
            length_digits: body_bytes_max.to_string().len(),
        })
    }

    /// How many requests there are, warm-up included, where that is known beforehand: not if
    /// only time ends the load or the warm-up.
    #[must_use]
    pub const fn total(&self) -> Option<u64> {
        self.total
    }

    /// The arrivals of `reactor` (from 0) out of `reactors`; `None` for a closed loop, whose
    /// requests go when users are free.
    #[must_use]
    pub fn arrivals(&self, reactor: usize, reactors: usize) -> Option<Arrivals> {
        self.gaps.map(|gaps| Arrivals::new(gaps, reactor, reactors))
    }

    /// How long request `index` is.
    #[must_use]
    pub const fn lengths(&self, _index: u64) -> Lengths {
        self.lengths
    }

    /// The id of request `index`, sent as `X-Request-Id`: `<run id>-<index>`.
    #[must_use]
    pub fn request_id(&self, index: u64) -> String {
        format!("{}-{index}", self.run_id)
    }

    /// Appends the id of request `index`.
    pub fn write_request_id(&self, index: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.run_id.as_bytes());
        out.push(b'-');
        push_number(index, out);
    }

    /// Appends request `index`, whole: an HTTP/1.1 head and its body. Says where in `out` the
    /// body lies. Bodies depend on the workload and `index` alone, not on the run id.
    ///
    /// Allocates only to let `out` grow.
    pub fn render(&self, index: u64, out: &mut Vec<u8>) -> Range<usize> {
        out.reserve(self.request_bytes_max());
        let server = index % self.heads.len() as u64;
        out.extend_from_slice(&self.heads[server as usize].fixed);
        push_number(index, out);
        out.extend_from_slice(head::CONTENT_LENGTH);
        let digits_at = out.len();
        out.resize(digits_at + self.length_digits, b'0');
        out.extend_from_slice(head::END);
        let body_at = out.len();
        self.write_body(index, out);
        let spare = write_length(out.len() - body_at, &mut out[digits_at..][..self.length_digits]);
        // Mostly nothing: the longest body seldom has a digit more than this one.
        out.drain(digits_at..digits_at + spare);
        body_at - spare..out.len()
    }

    /// Most bytes that one request takes.
    #[must_use]
    pub fn request_bytes_max(&self) -> usize {
        let longest = self.heads.iter().map(|head| head.fixed.len()).max().unwrap_or(0);
        let head = longest + head::CONTENT_LENGTH.len() + head::END.len();
        let prompt = self.lengths.input as usize * TOKEN_BYTES_MAX;
        // The last word is copied whole before it is cut to its length.
        head + 2 * NUMBER_DIGITS_MAX + self.frame.len() + prompt + TOKEN_BYTES_MAX + 1
    }

    fn write_body(&self, index: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.frame.before);
        self.prompts.write(index, self.lengths(index).input, out);
        out.extend_from_slice(&self.frame.after);
    }
}

/// Digits of 2^64 − 1.
const NUMBER_DIGITS_MAX: usize = 20;

fn push_number(number: u64, out: &mut Vec<u8>) {
    // Writing into a vector cannot fail.
    let _ = write!(out, "{number}");
}

/// Writes `length` into the end of `digits`; how many digits before it are left over.
fn write_length(mut length: usize, digits: &mut [u8]) -> usize {
    let mut spare = digits.len();
    while length > 0 && spare > 0 {
        spare -= 1;
        digits[spare] = b'0' + (length % 10) as u8;
        length /= 10;
    }
    spare
}

/// Leaves out the head, whose headers may be secret.
impl fmt::Debug for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Plan")
            .field("run_id", &self.run_id)
            .field("lengths", &self.lengths)
            .field("gaps", &self.gaps)
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

fn gaps(load: &Load, seed: u64) -> Result<Option<Gaps>, PlanError> {
    match *load {
        Load::Closed { users: 0, .. } => Err(PlanError::NoUsers),
        Load::Closed { .. } => Ok(None),
        Load::Open { max_in_flight: Some(0), .. } => Err(PlanError::NoneInFlight),
        Load::Open { rate, arrival, .. } => Ok(Some(Gaps::new(rate, arrival, seed)?)),
    }
}

fn check_stop(stop: &Stop) -> Result<(), PlanError> {
    match (stop.requests, stop.duration_ns) {
        (None, None) => Err(PlanError::Endless),
        (Some(0), _) | (_, Some(0)) => Err(PlanError::Empty),
        _ => Ok(()),
    }
}

fn check_content(content: &Content, dialect: Dialect) -> Result<(), PlanError> {
    let tokens = content.input_tokens;
    if tokens == 0 || tokens > INPUT_TOKENS_MAX {
        return Err(PlanError::InputTokens { tokens });
    }
    let none = content.output_tokens == 0 && dialect.generates();
    if none { Err(PlanError::NoOutput) } else { Ok(()) }
}

fn total(stop: &Stop) -> Option<u64> {
    let warmup = match stop.warmup {
        Warmup::None => 0,
        Warmup::Requests(requests) => requests,
        Warmup::Time(_) => return None,
    };
    Some(warmup.saturating_add(stop.requests?))
}

/// A workload that cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The arrival law.
    #[error(transparent)]
    Arrival(#[from] ArrivalError),
    /// The body.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// Nowhere to send to.
    #[error("the target has no server: give at least one URL")]
    NoServer,
    /// A closed loop of nobody.
    #[error("concurrency 0: a closed loop needs at least one user")]
    NoUsers,
    /// Nothing may be in flight.
    #[error("max in flight 0: nothing could ever be sent; give at least 1, or leave it out")]
    NoneInFlight,
    /// Neither requests nor duration.
    #[error("nothing ends the load: give a number of requests or a duration")]
    Endless,
    /// A measured part of nothing.
    #[error("the measured part is empty: give at least 1 request and a duration above 0")]
    Empty,
    /// Too short or too long a prompt.
    #[error("input tokens {tokens}: give 1 to {INPUT_TOKENS_MAX}")]
    InputTokens {
        /// What was given.
        tokens: u32,
    },
    /// No answer asked for.
    #[error("output tokens 0: give at least 1")]
    NoOutput,
}

#[cfg(test)]
mod tests;
