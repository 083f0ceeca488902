//! Laws of delay: what they are called, how they are written, how they are drawn.

use std::fmt;
use std::str::FromStr;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, StandardNormal};
use serde::{Deserialize, Serialize};

/// The longest delay a law may name or draw, in ns: one day.
const DELAY_NS_MAX: u64 = 86_400 * 1_000_000_000;

/// The 95th percentile of the standard normal law.
const Z_P95: f64 = 1.644_853_626_951_472_2;

/// The law a delay is drawn from; all parameters in ns unless said otherwise.
///
/// Written as `50ms`, `uniform:40ms,60ms`, `normal:50ms,5ms`, `lognormal:50ms,80ms` (median and
/// p95) or `lognormal:50ms,0.3` (median and sigma), `exp:50ms`. A draw below zero counts as zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Law {
    /// Always this long.
    Constant(u64),
    /// Any length from `low_ns` to `high_ns`, both included, equally likely.
    Uniform {
        /// The shortest delay.
        low_ns: u64,
        /// The longest delay.
        high_ns: u64,
    },
    /// Gaussian, cut off at zero.
    Normal {
        /// The mean before the cut.
        mean_ns: u64,
        /// The standard deviation before the cut.
        stdev_ns: u64,
    },
    /// The exponential of a Gaussian.
    Lognormal {
        /// Half of all delays are shorter.
        median_ns: u64,
        /// How wide the law is.
        spread: Spread,
    },
    /// Memoryless.
    Exponential {
        /// The mean.
        mean_ns: u64,
    },
}

/// The width of a lognormal law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Its 95th percentile, in ns; sigma is `ln(p95 / median) / 1.645`.
    P95(u64),
    /// The standard deviation of the logarithm, no unit.
    Sigma(f64),
}

/// A law that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "delay {text:?}: {fault}; write 50ms, uniform:40ms,60ms, normal:50ms,5ms, \
     lognormal:50ms,80ms or exp:50ms"
)]
pub struct LawError {
    text: String,
    fault: String,
}

impl Law {
    /// No delay at all.
    pub const ZERO: Self = Self::Constant(0);

    /// Whether every draw is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// One delay in ns, at least 0 and at most a day.
    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        let delay_ns = match *self {
            Self::Constant(ns) => ns,
            Self::Uniform { low_ns, high_ns } => rng.random_range(low_ns..=high_ns.max(low_ns)),
            Self::Normal { mean_ns, stdev_ns } => {
                let z: f64 = StandardNormal.sample(rng);
                to_ns(mean_ns as f64 + stdev_ns as f64 * z)
            }
            Self::Lognormal { median_ns, spread } => {
                let z: f64 = StandardNormal.sample(rng);
                to_ns(median_ns as f64 * (spread.sigma(median_ns) * z).exp())
            }
            Self::Exponential { mean_ns } => {
                let e: f64 = Exp1.sample(rng);
                to_ns(mean_ns as f64 * e)
            }
        };
        delay_ns.min(DELAY_NS_MAX)
    }
}

impl Default for Law {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Spread {
    fn sigma(self, median_ns: u64) -> f64 {
        match self {
            Self::P95(p95_ns) if median_ns > 0 && p95_ns > median_ns => {
                (p95_ns as f64 / median_ns as f64).ln() / Z_P95
            }
            Self::P95(_) => 0.0,
            Self::Sigma(sigma) => sigma,
        }
    }
}

/// Rounds to whole ns; the cast sends negative values and NaN to zero.
fn to_ns(delay: f64) -> u64 {
    delay.round() as u64
}

impl FromStr for Law {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        parse(text.trim()).map_err(|fault| LawError { text: text.to_owned(), fault })
    }
}

fn parse(text: &str) -> Result<Law, String> {
    let Some((name, rest)) = text.split_once(':') else {
        return parse_duration(text).map(Law::Constant);
    };
    let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
    match (name.trim(), parts.as_slice()) {
        ("constant", [one]) => Ok(Law::Constant(parse_duration(one)?)),
        ("uniform", [low, high]) => {
            let (low_ns, high_ns) = (parse_duration(low)?, parse_duration(high)?);
            if low_ns > high_ns {
                return Err(format!("the lower bound {low} is above the upper bound {high}"));
            }
            Ok(Law::Uniform { low_ns, high_ns })
        }
        ("normal", [mean, stdev]) => {
            Ok(Law::Normal { mean_ns: parse_duration(mean)?, stdev_ns: parse_duration(stdev)? })
        }
        ("lognormal", [median, spread]) => {
            let median_ns = parse_duration(median)?;
            Ok(Law::Lognormal { median_ns, spread: parse_spread(median_ns, spread)? })
        }
        ("exp" | "exponential", [mean]) => Ok(Law::Exponential { mean_ns: parse_duration(mean)? }),
        ("constant" | "exp" | "exponential", _) => Err(format!("{name} takes one duration")),
        ("uniform" | "normal" | "lognormal", _) => {
            Err(format!("{name} takes two values with a comma between them"))
        }
        _ => Err(format!("there is no law called {name:?}")),
    }
}

fn parse_spread(median_ns: u64, text: &str) -> Result<Spread, String> {
    if let Ok(sigma) = text.parse::<f64>() {
        if !(0.0..=10.0).contains(&sigma) {
            return Err(format!("sigma {text} is not between 0 and 10"));
        }
        return Ok(Spread::Sigma(sigma));
    }
    let p95_ns = parse_duration(text)?;
    if median_ns == 0 || p95_ns < median_ns {
        return Err(format!("the p95 {text} needs a median above zero and not above it"));
    }
    Ok(Spread::P95(p95_ns))
}

/// A duration such as `50ms`, in ns; at most a day.
pub(crate) fn parse_duration(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let value: f64 =
        number.trim().parse().map_err(|_| format!("{text:?} does not start with a number"))?;
    let scale = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" if value == 0.0 => 1.0,
        "" => return Err(format!("{text:?} has no unit (ns, us, ms, s)")),
        _ => return Err(format!("{unit:?} is not a unit (ns, us, ms, s)")),
    };
    let ns = value * scale;
    if !(0.0..=DELAY_NS_MAX as f64).contains(&ns) {
        return Err(format!("{text:?} is not between 0 and one day"));
    }
    Ok(to_ns(ns))
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Constant(ns) => write!(f, "{}", Duration(ns)),
            Self::Uniform { low_ns, high_ns } => {
                write!(f, "uniform:{},{}", Duration(low_ns), Duration(high_ns))
            }
            Self::Normal { mean_ns, stdev_ns } => {
                write!(f, "normal:{},{}", Duration(mean_ns), Duration(stdev_ns))
            }
            Self::Lognormal { median_ns, spread: Spread::P95(p95_ns) } => {
                write!(f, "lognormal:{},{}", Duration(median_ns), Duration(p95_ns))
            }
            Self::Lognormal { median_ns, spread: Spread::Sigma(sigma) } => {
                write!(f, "lognormal:{},{sigma}", Duration(median_ns))
            }
            Self::Exponential { mean_ns } => write!(f, "exp:{}", Duration(mean_ns)),
        }
    }
}

/// Shows ns in the largest unit that keeps a whole number.
pub(crate) struct Duration(pub(crate) u64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns % 1_000_000_000 == 0 => write!(f, "{}s", ns / 1_000_000_000),
            ns if ns % 1_000_000 == 0 => write!(f, "{}ms", ns / 1_000_000),
            ns if ns % 1_000 == 0 => write!(f, "{}us", ns / 1_000),
            ns => write!(f, "{ns}ns"),
        }
    }
}

impl TryFrom<String> for Law {
    type Error = LawError;

    fn try_from(text: String) -> Result<Self, LawError> {
        text.parse()
    }
}

impl From<Law> for String {
    fn from(law: Law) -> Self {
        law.to_string()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn every_law_survives_being_written_and_read_back() {
        for text in [
            "0s",
            "50ms",
            "1500us",
            "7ns",
            "uniform:40ms,60ms",
            "normal:50ms,5ms",
            "lognormal:50ms,80ms",
            "lognormal:50ms,0.3",
            "exp:50ms",
        ] {
            let law: Law = text.parse().unwrap();
            assert_eq!(law.to_string(), text);
        }
        assert_eq!("1.5ms".parse(), Ok(Law::Constant(1_500_000)));
        assert_eq!("0".parse(), Ok(Law::ZERO));
    }

    #[test]
    fn a_law_that_cannot_be_read_says_why() {
        for (text, fault) in [
            ("50", "no unit"),
            ("50min", "not a unit"),
            ("ms", "start with a number"),
            ("-1ms", "between 0 and one day"),
            ("NaNs", "start with a number"),
            ("uniform:5ms", "two values"),
            ("uniform:5ms,1ms", "above the upper"),
            ("exp:1ms,2ms", "one duration"),
            ("gauss:1ms", "no law called"),
            ("lognormal:0s,1ms", "median above zero"),
            ("lognormal:1ms,-1", "sigma"),
            ("", "number"),
        ] {
            let said = text.parse::<Law>().unwrap_err().to_string();
            assert!(said.contains(fault), "{text}: {said}");
        }
    }

    /// The share of 20 000 draws at or below `bound`, which must be near `share`.
    fn assert_share(law: &str, bound: u64, share: f64) {
        let law: Law = law.parse().unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let below = (0..20_000).filter(|_| law.draw(&mut rng) <= bound).count();
        let seen = below as f64 / 20_000.0;
        assert!((seen - share).abs() < 0.02, "{law}: {seen} at or below {bound}, not {share}");
    }

    #[test]
    fn draws_follow_their_law() {
        assert_share("uniform:40ms,60ms", 45_000_000, 0.25);
        assert_share("normal:50ms,5ms", 55_000_000, 0.841);
        assert_share("lognormal:50ms,80ms", 50_000_000, 0.5);
        assert_share("lognormal:50ms,80ms", 80_000_000, 0.95);
        assert_share("lognormal:50ms,0.5", 82_436_064, 0.841);
        assert_share("exp:50ms", 50_000_000, 0.632);
        assert_share("normal:0s,5ms", 0, 0.5);
    }
}
