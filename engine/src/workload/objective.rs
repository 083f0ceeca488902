//! Objectives on a run (`p95(ttft)<500ms`) and limits on a request (`ttft:500 tpot:50`).

mod error;

use std::fmt;
use std::str::FromStr;

pub use error::ObjectiveError;

use super::Objectives;

/// A metric that an objective or limit may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Time to first byte.
    Ttfb,
    /// Time to first token.
    Ttft,
    /// Time to first output that is not reasoning.
    Ttfo,
    /// Time to second token.
    Ttst,
    /// Inter-chunk latency.
    Icl,
    /// Inter-token latency; for one request, its time per output token.
    Itl,
    /// Time per output token.
    Tpot,
    /// Normalised time per output token.
    Ntpot,
    /// End-to-end latency.
    E2e,
    /// The prefill server's part, where prefill and decode are apart.
    PrefillLeg,
    /// Our own part between the legs.
    ClientGap,
    /// The decode server's first token since it was asked.
    DecodeFirst,
}

/// Which figure of a distribution an objective is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    /// The q-quantile, 0 < q < 1.
    Quantile(f64),
    /// The mean.
    Mean,
    /// The largest value.
    Max,
}

/// An objective on the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// As the user wrote it.
    pub text: String,
    /// What is bounded, and by what.
    pub aim: Aim,
    /// Whether the limit itself is allowed (`<=`, `>=`) or not (`<`, `>`).
    pub inclusive: bool,
}

/// What an objective bounds, and by what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// A judged figure of a latency from above.
    Latency {
        /// Which figure.
        percentile: Percentile,
        /// Of which metric.
        metric: Metric,
        /// Largest value, in ns.
        limit_ns: u64,
    },
    /// Failed / (ok + failed) from above: a share from 0 to 1.
    ErrorRate(f64),
    /// Good requests / all that are good or missed a limit, from below: a share from 0 to 1.
    GoodputShare(f64),
}

impl Aim {
    /// What is bounded: a metric, `error_rate` or `goodput_share`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Latency { metric, .. } => metric.as_str(),
            Self::ErrorRate(_) => ERROR_RATE,
            Self::GoodputShare(_) => GOODPUT_SHARE,
        }
    }
}

const ERROR_RATE: &str = "error_rate";
const GOODPUT_SHARE: &str = "goodput_share";

/// A limit on one request; a value equal to it is within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Of which metric.
    pub metric: Metric,
    /// Largest value, in ns.
    pub limit_ns: u64,
}

/// All limits that a good request meets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Goodput {
    /// The limits, each metric once.
    pub limits: Vec<Limit>,
}

/// The name of the field, as in `ttft`.
impl fmt::Display for Metric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl Metric {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 12] = [
        Self::Ttfb,
        Self::Ttft,
        Self::Ttfo,
        Self::Ttst,
        Self::Icl,
        Self::Itl,
        Self::Tpot,
        Self::Ntpot,
        Self::E2e,
        Self::PrefillLeg,
        Self::ClientGap,
        Self::DecodeFirst,
    ];

    /// The name of the field, as in `ttft`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ttfb => "ttfb",
            Self::Ttft => "ttft",
            Self::Ttfo => "ttfo",
            Self::Ttst => "ttst",
            Self::Icl => "icl",
            Self::Itl => "itl",
            Self::Tpot => "tpot",
            Self::Ntpot => "ntpot",
            Self::E2e => "e2e",
            Self::PrefillLeg => "prefill_leg",
            Self::ClientGap => "client_gap",
            Self::DecodeFirst => "decode_first",
        }
    }
}

/// Reads a name in any case; `e2el` is vLLM's for `e2e`.
impl FromStr for Metric {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let name = text.trim().to_ascii_lowercase();
        if name == "e2el" {
            return Ok(Self::E2e);
        }
        let found = Self::ALL.into_iter().find(|metric| metric.as_str() == name);
        found.ok_or_else(|| ObjectiveError::Metric { name: text.trim().to_owned() })
    }
}

/// `p95`, `p99.9`, `mean` or `max`.
impl fmt::Display for Percentile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile(quantile) => {
                // Ten digits hide what the division by 100 left behind.
                let percent = format!("{:.10}", quantile * 100.0);
                write!(formatter, "p{}", percent.trim_end_matches('0').trim_end_matches('.'))
            }
            Self::Mean => formatter.write_str("mean"),
            Self::Max => formatter.write_str("max"),
        }
    }
}

/// Reads `p95`, `p99.9`, `mean`, `avg` or `max`, in any case.
impl FromStr for Percentile {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let text = text.trim();
        let wrong = || ObjectiveError::Percentile { text: text.to_owned() };
        match text.to_ascii_lowercase().as_str() {
            "mean" | "avg" => Ok(Self::Mean),
            "max" => Ok(Self::Max),
            name => name.strip_prefix('p').and_then(quantile).map(Self::Quantile).ok_or_else(wrong),
        }
    }
}

/// `99.9` as 0.999, `5` as 0.05. Moves the point in the text, since 99.9 / 100 is not 0.999.
fn quantile(percent: &str) -> Option<f64> {
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.len() > 2 {
        return None;
    }
    let quantile: f64 = format!("0.{whole:0>2}{fraction}").parse().ok()?;
    (quantile > 0.0 && quantile < 1.0).then_some(quantile)
}

/// As the user wrote it.
impl fmt::Display for Objective {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

/// Reads `p95(ttft)<500ms`: a figure, a metric in brackets, `<` or `<=`, a number and its unit
/// (ns, us, ms or s); or a share: `error_rate<1%`, `goodput_share>=0.95`. Spaces may stand between the
/// parts.
impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let text = text.trim();
        let shape = || ObjectiveError::Shape { text: text.to_owned() };
        let at = text.find(['<', '>']).ok_or_else(shape)?;
        let (what, rest) = text.split_at(at);
        let (what, is_upper) = (what.trim_end(), rest.starts_with('<'));
        let (inclusive, limit) = match rest[1..].strip_prefix('=') {
            Some(limit) => (true, limit),
            None => (false, &rest[1..]),
        };
        let aim = match (what.to_ascii_lowercase().as_str(), is_upper) {
            (ERROR_RATE, true) => Aim::ErrorRate(share(limit)?),
            (GOODPUT_SHARE, false) => Aim::GoodputShare(share(limit)?),
            (GOODPUT_SHARE, true) => {
                return Err(ObjectiveError::UpperBound { text: text.to_owned() });
            }
            (_, false) => return Err(ObjectiveError::LowerBound { text: text.to_owned() }),
            _ => latency(what, limit).ok_or_else(shape)??,
        };
        Ok(Self { text: text.to_owned(), aim, inclusive })
    }
}

/// `p95(ttft)` and `500ms`; `None` if that is not its shape.
fn latency(what: &str, limit: &str) -> Option<Result<Aim, ObjectiveError>> {
    let (figure, metric) = what.strip_suffix(')')?.split_once('(')?;
    let read = || {
        Ok(Aim::Latency {
            percentile: figure.parse()?,
            metric: metric.parse()?,
            limit_ns: duration_ns(limit, None)?,
        })
    };
    Some(read())
}

/// `1%` or `0.01`, from 0 to 1.
fn share(text: &str) -> Result<f64, ObjectiveError> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = number.parse::<f64>().ok().filter(|_| is_plain).map(|value| value / unit);
    value
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| ObjectiveError::Share { text: text.to_owned() })
}

/// `ttft:500`, the value in ms.
impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.limit_ns / 1_000_000, self.limit_ns % 1_000_000);
        write!(formatter, "{}:{whole}", self.metric)?;
        match format!("{fraction:06}").trim_end_matches('0') {
            "" => Ok(()),
            fraction => write!(formatter, ".{fraction}"),
        }
    }
}

/// `ttft:500 tpot:50`, values in ms.
impl fmt::Display for Goodput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, limit) in self.limits.iter().enumerate() {
            let space = if position == 0 { "" } else { " " };
            write!(formatter, "{space}{limit}")?;
        }
        Ok(())
    }
}

/// Reads `ttft:500 tpot:50 e2el:5000`, split by spaces or commas. A number without a unit is in
/// ms, as in vLLM; ns, us, ms and s are taken too.
impl FromStr for Goodput {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let mut limits: Vec<Limit> = Vec::new();
        let is_gap = |letter: char| letter == ',' || letter.is_whitespace();
        for part in text.split(is_gap).filter(|part| !part.is_empty()) {
            let (metric, limit) = part
                .split_once(':')
                .ok_or_else(|| ObjectiveError::LimitShape { text: part.to_owned() })?;
            let metric: Metric = metric.parse()?;
            if metric == Metric::Icl {
                return Err(ObjectiveError::NotPerRequest { metric });
            }
            if limits.iter().any(|limit| limit.metric == metric) {
                return Err(ObjectiveError::Twice { metric });
            }
            limits.push(Limit { metric, limit_ns: duration_ns(limit, Some(NS_PER_MS))? });
        }
        if limits.is_empty() { Err(ObjectiveError::NoLimit) } else { Ok(Self { limits }) }
    }
}

impl Objectives {
    /// The limits that each good request meets: those of `goodput`, else one for each of ttft,
    /// itl, tpot and e2e that an objective names, the strictest. `None` if there are none.
    ///
    /// Limits are inclusive, also those from an objective with `<`. A request's itl is its tpot.
    #[must_use]
    pub fn request_limits(&self) -> Option<Vec<Limit>> {
        if let Some(goodput) = &self.goodput {
            return (!goodput.limits.is_empty()).then(|| goodput.limits.clone());
        }
        let strictest = |metric: Metric| {
            let limits = self.slo.iter().filter_map(|objective| match objective.aim {
                Aim::Latency { metric: its, limit_ns, .. } if its == metric => Some(limit_ns),
                _ => None,
            });
            Some(Limit { metric, limit_ns: limits.min()? })
        };
        let metrics = [Metric::Ttft, Metric::Itl, Metric::Tpot, Metric::E2e];
        let limits: Vec<Limit> = metrics.into_iter().filter_map(strictest).collect();
        (!limits.is_empty()).then_some(limits)
    }
}

const NS_PER_MS: f64 = 1e6;
/// Largest limit: a year. What is longer is a typing error.
const LIMIT_NS_MAX: f64 = 365.0 * 86_400e9;

/// A length of time in ns; a number without a unit is in `bare_ns`, an error without that.
pub(super) fn duration_ns(text: &str, bare_ns: Option<f64>) -> Result<u64, ObjectiveError> {
    let text = text.trim();
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let wrong = || ObjectiveError::Number { text: text.to_owned() };
    let unit_ns = match (unit, bare_ns) {
        ("ns", _) => 1.0,
        ("us", _) => 1e3,
        ("ms", _) => NS_PER_MS,
        ("s", _) => 1e9,
        ("", Some(bare_ns)) => bare_ns,
        _ => return Err(ObjectiveError::Unit { text: text.to_owned() }),
    };
    let number = number.trim();
    if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(wrong());
    }
    let value_ns = number.parse::<f64>().map_err(|_| wrong())? * unit_ns;
    if !(1.0..=LIMIT_NS_MAX).contains(&value_ns) {
        return Err(wrong());
    }
    Ok(value_ns.round() as u64)
}

#[cfg(test)]
mod tests;
