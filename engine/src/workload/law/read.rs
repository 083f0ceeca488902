//! The text of a law, read.

use rand_distr::{Gamma, Zipf};

use super::base::{Base, Bounded, Drawn};
use super::table::{Table, Weights, read_weight};
use super::{LENGTH_MAX, LawError, Shape, Unit};

/// Normal quantiles of the percentiles by which a lognormal law may be given.
const QUANTILES: [(&str, f64); 3] = [
    ("p90", 1.281_551_565_544_600_4),
    ("p95", 1.644_853_626_951_472_2),
    ("p99", 2.326_347_874_040_840_8),
];
/// Largest exponent of a Zipf law: all draws are then 1.
const EXPONENT_MAX: f64 = 64.0;
/// How far the percents of a mix may be from 100 in sum.
const PERCENT_SLACK: f64 = 1e-6;

pub(super) fn shape(text: &str, unit: Unit) -> Result<Shape, LawError> {
    match text.strip_prefix("mix:") {
        Some(parts) => mix(text, parts, unit),
        None => Ok(Shape::One(bounded(text, unit)?)),
    }
}

/// A part of a mix begins at a comma that a weight and `*` follow; other commas lie within parts.
fn mix(text: &str, parts: &str, unit: Unit) -> Result<Shape, LawError> {
    let mut split: Vec<(&str, String)> = Vec::new();
    for piece in parts.split(',') {
        match (piece.split_once('*').filter(|(weight, _)| is_weight(weight)), split.last_mut()) {
            (Some((weight, law)), _) => split.push((weight.trim(), law.to_owned())),
            (None, Some((_, law))) => {
                law.push(',');
                law.push_str(piece);
            }
            (None, None) => {
                let problem = "write its parts as WEIGHT*LAW, like `mix:70%*512,30%*exp:64`";
                return Err(LawError::text(text, problem));
            }
        }
    }
    let weights = mix_weights(&split).map_err(|problem| LawError::text(text, problem))?;
    let parts: Result<Vec<Bounded>, LawError> =
        split.iter().map(|(_, law)| bounded(law.trim(), unit)).collect();
    let mut parts = parts?;
    match parts.len() {
        1 => Ok(Shape::One(parts.remove(0))),
        _ => Ok(Shape::Mix { weights, parts: parts.into() }),
    }
}

fn is_weight(text: &str) -> bool {
    let text = text.trim();
    text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().is_ok()
}

fn mix_weights(parts: &[(&str, String)]) -> Result<Weights, String> {
    let percents = parts.iter().filter(|(weight, _)| weight.ends_with('%')).count();
    if percents != 0 && percents != parts.len() {
        return Err("give all weights in %, or none".into());
    }
    let read = |(weight, _): &(&str, String)| read_weight(weight.trim_end_matches('%').trim());
    let weights = parts.iter().map(read).collect::<Result<Vec<f64>, String>>()?;
    if percents > 0 {
        sums_to_100(&weights)?;
    }
    Weights::new(weights).ok_or_else(|| "all weights are 0: give at least one above".into())
}

/// Checks percents.
pub(super) fn sums_to_100(percents: &[f64]) -> Result<(), String> {
    let sum: f64 = percents.iter().sum();
    if (sum - 100.0).abs() <= PERCENT_SLACK {
        return Ok(());
    }
    Err(format!("the weights are {} % in sum: make them 100 %", (sum * 1e6).round() / 1e6))
}

/// One law that is no mix, with its bounds.
fn bounded(text: &str, unit: Unit) -> Result<Bounded, LawError> {
    let wrong = |problem: String| LawError::text(text, problem);
    let bounds = Bounds::split(text).map_err(wrong)?;
    let min = bounds.min.map(|min| edge(min, unit)).transpose().map_err(wrong)?;
    let max = bounds.max.map(|max| edge(max, unit)).transpose().map_err(wrong)?;
    let (low, high) = (min.unwrap_or(unit.min()), max.unwrap_or(unit.max()));
    if low < unit.min() {
        return Err(wrong("min must be at least 1: a length has a token".into()));
    }
    if low > high {
        return Err(wrong(format!("min {low} is above max {high}")));
    }
    let base = match bounds.law.split_once(':') {
        None => Base::Constant(single(bounds.law, unit).map_err(wrong)?),
        Some(("file", path)) => file(path.trim(), unit)?,
        Some((name, figures)) => named(name.trim(), figures, unit).map_err(wrong)?,
    };
    Ok(Bounded::new(base, low, high, max.is_some()))
}

/// A law's text and what `,min=` and `,max=` at its end say.
struct Bounds<'a> {
    law: &'a str,
    min: Option<&'a str>,
    max: Option<&'a str>,
}

impl<'a> Bounds<'a> {
    fn split(text: &'a str) -> Result<Self, String> {
        let mut bounds = Self { law: text, min: None, max: None };
        while let Some((law, last)) = bounds.law.rsplit_once(',') {
            let Some((name, value)) = last.trim().split_once('=') else { break };
            let place = match name.trim() {
                "min" => &mut bounds.min,
                "max" => &mut bounds.max,
                _ => break,
            };
            if place.replace(value.trim()).is_some() {
                return Err(format!("{} is given twice", name.trim()));
            }
            bounds.law = law.trim_end();
        }
        Ok(bounds)
    }
}

fn single(text: &str, unit: Unit) -> Result<f64, String> {
    if !text.starts_with(|letter: char| letter.is_ascii_digit() || "+-.".contains(letter)) {
        let known = "a number, uniform, normal, lognormal, gamma, exp, zipf, mix or file";
        return Err(format!("no law of this form: give {known}, like `{}`", usage("normal", unit)));
    }
    let value = edge(text, unit)?;
    if value < unit.min() {
        return Err("a length is at least 1 token".into());
    }
    Ok(value)
}

fn file(path: &str, unit: Unit) -> Result<Base, LawError> {
    let table = Table::read(path, unit)?;
    Ok(table.only().map_or(Base::Table(table), Base::Constant))
}

fn named(name: &str, figures: &str, unit: Unit) -> Result<Base, String> {
    let figures: Vec<&str> = figures.split(',').map(str::trim).collect();
    match (name, figures.as_slice()) {
        ("uniform", [low, high]) => uniform(edge(low, unit)?, edge(high, unit)?, unit),
        ("normal", [mean, sd]) => normal(value(mean, unit)?, spread(sd, unit)?),
        ("lognormal", [median, high]) if median.starts_with("median") => {
            percentiles(median, high, unit)
        }
        ("lognormal", [mean, sd]) => lognormal(mean_above_0(mean, unit)?, spread(sd, unit)?),
        ("gamma", [mean, sd]) => gamma(mean_above_0(mean, unit)?, spread(sd, unit)?),
        ("exp", [mean]) => Ok(Base::Exp(mean_above_0(mean, unit)?)),
        ("zipf", _) if unit == Unit::Time => Err("zipf is a law of lengths, not of times".into()),
        ("zipf", [exponent, max]) => zipf(exponent, edge(max, unit)?),
        ("mix", _) => Err("a mix in a mix: write its parts out in one".into()),
        ("uniform" | "normal" | "lognormal" | "gamma" | "exp" | "zipf", _) => {
            Err(format!("{name} takes other figures: write `{}`", usage(name, unit)))
        }
        _ => Err(format!(
            "`{name}` is no law: it must be one of uniform, normal, lognormal, gamma, exp, zipf, \
             mix and file"
        )),
    }
}

fn usage(name: &str, unit: Unit) -> &'static str {
    match (name, unit) {
        ("uniform", Unit::Tokens) => "uniform:256,1024",
        ("uniform", Unit::Time) => "uniform:1s,5s",
        ("lognormal", Unit::Tokens) => "lognormal:512,128` or `lognormal:median=512,p95=4096",
        ("lognormal", Unit::Time) => "lognormal:2s,1s` or `lognormal:median=2s,p95=20s",
        ("gamma", Unit::Tokens) => "gamma:512,128",
        ("gamma", Unit::Time) => "gamma:2s,500ms",
        ("exp", Unit::Tokens) => "exp:512",
        ("exp", Unit::Time) => "exp:500ms",
        ("zipf", _) => "zipf:1.2,4096",
        (_, Unit::Tokens) => "normal:512,128",
        (_, Unit::Time) => "normal:2s,500ms",
    }
}

fn uniform(low: f64, high: f64, unit: Unit) -> Result<Base, String> {
    if low > high {
        return Err(format!("the low end {low} is above the high end {high}"));
    }
    Ok(match unit {
        _ if low == high => Base::Constant(low),
        // Whole already, and not above `Unit::max`.
        Unit::Tokens => Base::Whole(low as u64, high as u64),
        Unit::Time => Base::Uniform(low, high),
    })
}

fn normal(mean: f64, sd: f64) -> Result<Base, String> {
    Ok(if sd == 0.0 { Base::Constant(mean) } else { Base::Normal { mean, sd } })
}

fn lognormal(mean: f64, sd: f64) -> Result<Base, String> {
    let sigma_squared = (sd / mean).powi(2).ln_1p();
    if sigma_squared == 0.0 {
        return Ok(Base::Constant(mean));
    }
    let mu = mean.ln() - sigma_squared / 2.0;
    finite(Base::LogNormal { mu, sigma: sigma_squared.sqrt() }, mu)
}

fn percentiles(median: &str, high: &str, unit: Unit) -> Result<Base, String> {
    let usage = || format!("write `{}`", usage("lognormal", unit));
    let median = after(median, "median").ok_or_else(usage)?;
    let named = |(name, quantile): (&str, f64)| Some((after(high, name)?, quantile));
    let (high, quantile) = QUANTILES.into_iter().find_map(named).ok_or_else(usage)?;
    let (median, high) = (mean_above_0(median, unit)?, value(high, unit)?);
    if high < median {
        return Err("its high percentile is below its median".into());
    }
    let sigma = (high / median).ln() / quantile;
    if sigma == 0.0 {
        return Ok(Base::Constant(median));
    }
    finite(Base::LogNormal { mu: median.ln(), sigma }, sigma)
}

/// The text after `name=`.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    Some(text.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim())
}

fn gamma(mean: f64, sd: f64) -> Result<Base, String> {
    if sd == 0.0 {
        return Ok(Base::Constant(mean));
    }
    let (shape, scale) = ((mean / sd).powi(2), sd / mean * sd);
    let law = Gamma::new(shape, scale).map_err(|_| OUT_OF_RANGE.to_owned())?;
    finite(Base::Gamma { shape, scale, law }, shape + scale)
}

fn zipf(exponent: &str, max: f64) -> Result<Base, String> {
    let wrong = || format!("exponent `{exponent}`: give 0 to {EXPONENT_MAX}, like `zipf:1.2,4096`");
    let number: f64 = exponent.parse().map_err(|_| wrong())?;
    if !(0.0..=EXPONENT_MAX).contains(&number) {
        return Err(wrong());
    }
    if max < 1.0 {
        return Err("max must be at least 1".into());
    }
    if max == 1.0 {
        return Ok(Base::Constant(1.0));
    }
    // Nearer to 1 the general form loses its digits.
    let number = if (number - 1.0).abs() < 1e-9 { 1.0 } else { number };
    let law = Zipf::new(max, number).map_err(|_| wrong())?;
    // Whole already, and not above `LENGTH_MAX`.
    Ok(Base::Zipf { exponent: number, max: max as u32, law: Drawn(law) })
}

const OUT_OF_RANGE: &str = "its figures are too far apart to be computed with";

fn finite(base: Base, figure: f64) -> Result<Base, String> {
    if figure.is_finite() { Ok(base) } else { Err(OUT_OF_RANGE.into()) }
}

fn spread(text: &str, unit: Unit) -> Result<f64, String> {
    value(text, unit).map_err(|problem| format!("standard deviation {problem}"))
}

fn mean_above_0(text: &str, unit: Unit) -> Result<f64, String> {
    match value(text, unit)? {
        0.0 => Err("its mean must be above 0".into()),
        mean => Ok(mean),
    }
}

/// A value that is an end of the law: whole if it is a length.
fn edge(text: &str, unit: Unit) -> Result<f64, String> {
    let value = value(text, unit)?;
    if unit == Unit::Tokens && value.fract() != 0.0 {
        return Err(format!("`{text}` must be whole: tokens are not cut"));
    }
    Ok(value)
}

/// A figure of a law, from 0 to the most that its unit takes.
pub(super) fn value(text: &str, unit: Unit) -> Result<f64, String> {
    match unit {
        Unit::Time => time_ns(text),
        Unit::Tokens => match number(text)? {
            value if value <= f64::from(LENGTH_MAX) => Ok(value),
            _ => Err(format!("`{text}` is too many tokens: give at most {LENGTH_MAX}")),
        },
    }
}

/// A finite number of at least 0.
pub(in crate::workload) fn number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        Ok(_) => Err(format!("`{text}`: give a finite number of at least 0")),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}

const UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3_600e9)];

/// A time in ns, from 0 to a year, with its unit; only 0 may go without.
pub(in crate::workload) fn time_ns(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let unit_at = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()).len();
    let (figure, unit) = text.split_at(unit_at);
    let unit_ns = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, unit_ns)| *unit_ns);
    let value_ns = match unit_ns {
        Some(unit_ns) => number(figure.trim())? * unit_ns,
        None if unit.is_empty() && number(figure)? == 0.0 => 0.0,
        None => return Err(format!("`{text}`: give a time with a unit, like 2s; ns us ms s m h")),
    };
    if value_ns <= Unit::Time.max() {
        Ok(value_ns)
    } else {
        Err(format!("`{text}` is over a year"))
    }
}
