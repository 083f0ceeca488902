//! One law with its bounds: draws, the mean as clamped, the greatest value.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, Gamma, StandardNormal, Zipf};

use super::special::{gamma_halves, normal_density, normal_halves};
use super::table::Table;

/// A law before it is clamped. All figures are finite and at least 0; none of them makes the law
/// a constant, which is one of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Base {
    Constant(f64),
    /// Whole values from the first to the second, both included.
    Whole(u64, u64),
    Uniform(f64, f64),
    Normal {
        mean: f64,
        sd: f64,
    },
    /// Mean and standard deviation of the logarithms.
    LogNormal {
        mu: f64,
        sigma: f64,
    },
    Gamma {
        shape: f64,
        scale: f64,
        law: Gamma<f64>,
    },
    Exp(f64),
    Zipf {
        exponent: f64,
        max: u32,
        law: Drawn<Zipf<f64>>,
    },
    Table(Table),
}

/// A generator of draws that says nothing of equality: the figures beside it do.
#[derive(Debug, Clone)]
pub(super) struct Drawn<T>(pub(super) T);

impl<T> PartialEq for Drawn<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A law and where its draws are clamped: min ≤ max, both finite.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bounded {
    base: Base,
    min: f64,
    max: f64,
    /// Whether `max` was asked for.
    max_given: bool,
}

impl Bounded {
    pub(super) const fn constant(value: f64) -> Self {
        Self { base: Base::Constant(value), min: value, max: value, max_given: true }
    }

    /// Bounds that were not given come from the unit.
    pub(super) fn new(base: Base, min: f64, max: f64, max_given: bool) -> Self {
        match base {
            Base::Constant(value) => Self::constant(value.max(min).min(max).round()),
            base => Self { base, min, max, max_given },
        }
    }

    pub(super) const fn is_constant(&self) -> bool {
        matches!(self.base, Base::Constant(_))
    }

    pub(super) fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.clamp(self.base.sample(rng))
    }

    fn clamp(&self, value: f64) -> f64 {
        value.max(self.min).min(self.max).round()
    }

    pub(super) fn bound(&self) -> Option<f64> {
        let natural = match &self.base {
            Base::Constant(value) => Some(*value),
            Base::Whole(_, high) => Some(*high as f64),
            Base::Uniform(_, high) => Some(*high),
            Base::Zipf { max, .. } => Some(f64::from(*max)),
            Base::Table(table) => Some(table.max()),
            _ => self.max_given.then_some(self.max),
        };
        natural.map(|value| self.clamp(value))
    }

    pub(super) fn mean(&self) -> f64 {
        match &self.base {
            Base::Constant(value) => *value,
            Base::Whole(low, high) => self.mean_whole(*low as f64, *high as f64),
            Base::Zipf { exponent, max, .. } => {
                let (mut sum, mut weights) = (0.0, 0.0);
                for value in 1..=*max {
                    let weight = f64::from(value).powf(-exponent);
                    sum += weight * self.clamp(f64::from(value));
                    weights += weight;
                }
                sum / weights
            }
            Base::Table(table) => table.mean_of(|value| self.clamp(value)),
            smooth => {
                let (below, above) = (smooth.cut(self.min), smooth.cut(self.max));
                self.min * below.under + self.max * above.over + above.part - below.part
            }
        }
    }

    /// The mean of whole values from `low` to `high`, those outside of the bounds set to them.
    fn mean_whole(&self, low: f64, high: f64) -> f64 {
        let count = high - low + 1.0;
        let under = (self.min - low).clamp(0.0, count);
        let over = (high - self.max).clamp(0.0, count);
        let inside = count - under - over;
        let middle = (low.max(self.min) + high.min(self.max)) / 2.0;
        (under * self.min + over * self.max + inside * middle) / count
    }
}

/// A law cut in two at a value.
struct Cut {
    /// Share of what is under it.
    under: f64,
    /// Share of what is over it.
    over: f64,
    /// What lies under it adds to the mean.
    part: f64,
}

impl Base {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Whole(low, high) => rng.random_range(*low..=*high) as f64,
            Self::Uniform(low, high) => low + (high - low) * rng.random::<f64>(),
            Self::Normal { mean, sd } => mean + sd * standard_normal(rng),
            Self::LogNormal { mu, sigma } => (mu + sigma * standard_normal(rng)).exp(),
            Self::Gamma { law, .. } => law.sample(rng),
            Self::Exp(mean) => {
                let draw: f64 = Exp1.sample(rng);
                mean * draw
            }
            Self::Zipf { law, max, .. } => law.0.sample(rng).min(f64::from(*max)),
            Self::Table(table) => table.sample(rng),
        }
    }

    /// Cuts a continuous law at `value`, at least 0; of the others nothing lies anywhere.
    fn cut(&self, value: f64) -> Cut {
        match self {
            Self::Uniform(low, high) => {
                let under = ((value - low) / (high - low)).clamp(0.0, 1.0);
                let part = under * (low + under * (high - low) / 2.0);
                Cut { under, over: 1.0 - under, part }
            }
            Self::Normal { mean, sd } => {
                let z = (value - mean) / sd;
                let (under, over) = normal_halves(z);
                Cut { under, over, part: mean * under - sd * normal_density(z) }
            }
            Self::LogNormal { mu, sigma } => {
                let z = (value.ln() - mu) / sigma;
                let (under, over) = normal_halves(z);
                let mean = (mu + sigma * sigma / 2.0).exp();
                Cut { under, over, part: mean * normal_halves(z - sigma).0 }
            }
            Self::Gamma { shape, scale, .. } => gamma_cut(*shape, *scale, value),
            Self::Exp(mean) => gamma_cut(1.0, *mean, value),
            _ => Cut { under: 0.0, over: 0.0, part: 0.0 },
        }
    }
}

fn gamma_cut(shape: f64, scale: f64, value: f64) -> Cut {
    let (under, over) = gamma_halves(shape, value / scale);
    Cut { under, over, part: shape * scale * gamma_halves(shape + 1.0, value / scale).0 }
}

fn standard_normal<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    StandardNormal.sample(rng)
}
