//! The difference of a figure between two sides, its interval, and how likely chance makes it.

use serde::Serialize;

use super::super::evidence::wilson;
use super::estimate::{Estimate, Spread};
use super::observed::Share;
use super::quantity::Quantity;
use super::student::{quantile, two_sided};
use super::{Basis, Verdict};

/// Degrees of freedom of a share whose requests depend on each other: batches, less one.
const SHARE_DF: f64 = 19.0;
/// Halvings of the interval in which a probability is looked for.
const HALVINGS: usize = 60;
/// Standard errors beyond which nothing is by chance.
const FAR: f64 = 200.0;

/// One figure of both sides. What is not known is null; no number is NaN or infinite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The figure, as in `p95(ttft)`.
    pub figure: Quantity,
    /// The unit of `base` and `other`.
    pub unit: &'static str,
    /// Its value for the base.
    pub base: f64,
    /// Its value for the other side.
    pub other: f64,
    /// What `change` and `interval` are: `relative`, that is `(other − base) / base`, or `points`, that
    /// is `other − base` of shares.
    pub change_is: ChangeIs,
    /// How much more the other side has; null where the base has 0.
    pub change: Option<f64>,
    /// The interval of that at the level; an end that the samples cannot support is null.
    pub interval: [Option<f64>; 2],
    /// How likely chance alone makes such a difference, of this figure by itself; null without an
    /// interval.
    pub p: Option<f64>,
    /// The same after Holm's correction for all figures that were looked at.
    pub p_holm: Option<f64>,
    /// Half the width of the interval: a smaller difference would not have been seen.
    pub visible_from: Option<f64>,
    /// From what the interval comes.
    pub basis: Basis,
    /// What is decided.
    pub verdict: Verdict,
}

/// How a change is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeIs {
    /// As a share of the base.
    Relative,
    /// As a difference of shares.
    Points,
}

/// A change, its interval, and how likely chance makes it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Change {
    change: Option<f64>,
    interval: [Option<f64>; 2],
    p: Option<f64>,
}

impl Difference {
    /// Between two estimates; `None` if they are of different kinds.
    pub(super) fn of(
        figure: Quantity,
        base: Estimate,
        other: Estimate,
        level: f64,
    ) -> Option<Self> {
        let (a, b, basis, change) = match (base, other) {
            (
                Estimate::Ratio { value: a, spread: near, basis },
                Estimate::Ratio { value: b, spread: far, basis: same },
            ) => (a, b, basis.weaker(same), ratio((a, near), (b, far), level)),
            (Estimate::Share(a), Estimate::Share(b)) => {
                let value = |share: Share| share.hits as f64 / share.of.max(1) as f64;
                (value(a), value(b), Basis::Shares, newcombe(a, b, level))
            }
            _ => return None,
        };
        Some(Self::new(figure, (a, b), change, basis))
    }

    /// Between runs, each of which is one value: Welch's interval, on logarithms but for shares.
    pub(super) fn of_runs(figure: Quantity, base: &[f64], other: &[f64], level: f64) -> Self {
        let is_share = figure.is_share();
        let scaled = |values: &[f64]| -> Vec<f64> {
            values.iter().map(|&value| if is_share { value } else { value.ln() }).collect()
        };
        let (a, b) = (mean_and_error(&scaled(base)), mean_and_error(&scaled(other)));
        let back = |mean: f64| if is_share { mean } else { mean.exp() };
        let (difference, error) = (b.0 - a.0, a.1.hypot(b.1));
        let df = welch((a.1, base.len() as f64 - 1.0), (b.1, other.len() as f64 - 1.0));
        let reach = quantile(1.0 - level, df) * error;
        let change =
            |by: f64| Some(if is_share { by } else { by.exp_m1() }).filter(|c| c.is_finite());
        let p = match error > 0.0 {
            true => two_sided(difference / error, df),
            // Runs that do not differ at all are as like as can be, or as apart.
            false if difference == 0.0 => 1.0,
            false => 0.0,
        };
        let whole = Change {
            change: change(difference),
            interval: [change(difference - reach), change(difference + reach)],
            p: Some(p),
        };
        Self::new(figure, (back(a.0), back(b.0)), whole, Basis::Runs)
    }

    fn new(figure: Quantity, (base, other): (f64, f64), change: Change, basis: Basis) -> Self {
        let Change { change, interval, p } = change;
        let visible_from = match interval {
            [Some(low), Some(high)] => Some((high - low) / 2.0).filter(|half| half.is_finite()),
            _ => None,
        };
        let change_is = if figure.is_share() { ChangeIs::Points } else { ChangeIs::Relative };
        let unit = figure.unit();
        // What is decided follows when all are known.
        let verdict = Verdict::NoInterval;
        Self {
            figure,
            unit,
            base,
            other,
            change_is,
            change,
            interval,
            p,
            p_holm: None,
            visible_from,
            basis,
            verdict,
        }
    }

    /// Decides by the probability that Holm's correction leaves.
    pub(super) fn decide(&mut self, p_holm: Option<f64>, level: f64) {
        self.p_holm = p_holm;
        let is_out = |at: f64| {
            let [low, high] = self.interval;
            low.is_some_and(|low| low > at) || high.is_some_and(|high| high < at)
        };
        let is_more = self.other > self.base;
        self.verdict = match p_holm {
            None => Verdict::NoInterval,
            Some(p) if p <= 1.0 - level && self.other != self.base => {
                if is_more == self.figure.is_better_high() {
                    Verdict::Better
                } else {
                    Verdict::Worse
                }
            }
            Some(_) if is_out(0.0) => Verdict::Unsure,
            Some(_) => Verdict::NoDifference,
        };
    }
}

/// The ratio of two figures: the variance of a difference of logarithms, each side by its own error
/// (MOVER: Zou and Donner 2008), with the degrees of freedom of Welch and Satterthwaite.
fn ratio((a, near): (f64, Option<Spread>), (b, far): (f64, Option<Spread>), level: f64) -> Change {
    let change = Some(b / a - 1.0).filter(|change| a > 0.0 && change.is_finite());
    let (Some(near), Some(far)) = (near, far) else {
        return Change { change, ..Change::default() };
    };
    if a <= 0.0 || b <= 0.0 {
        return Change { change, ..Change::default() };
    }
    let difference = (b / a).ln();
    let side = |a: Option<f64>, b: Option<f64>| {
        let (a, b) = (a?, b?);
        Some((a.hypot(b), welch((a, near.df), (b, far.df))))
    };
    let (below, above) = (side(near.above, far.below), side(near.below, far.above));
    let end = |side: Option<(f64, f64)>, sign: f64| {
        let (error, df) = side?;
        let end = (difference + sign * quantile(1.0 - level, df) * error).exp_m1();
        end.is_finite().then_some(end)
    };
    let towards_zero = if difference > 0.0 { below } else { above };
    let p = towards_zero.map(|(error, df)| match error > 0.0 {
        true => two_sided(difference / error, df),
        false => f64::from(u8::from(difference == 0.0)),
    });
    Change { change, interval: [end(below, -1.0), end(above, 1.0)], p }
}

/// The degrees of freedom of a sum of two squared errors (Satterthwaite 1946).
fn welch((a, a_df): (f64, f64), (b, b_df): (f64, f64)) -> f64 {
    let whole = (a * a + b * b).powi(2);
    let parts = a.powi(4) / a_df.max(1.0) + b.powi(4) / b_df.max(1.0);
    if parts > 0.0 { whole / parts } else { f64::INFINITY }
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

/// The difference of two shares by Wilson's intervals of each (Newcombe 1998, method 10) on effective
/// sample sizes. Its probability is that of the widest interval that leaves out 0.
fn newcombe(a: Share, b: Share, level: f64) -> Change {
    let value = |share: Share| share.hits as f64 / share.of.max(1) as f64;
    let (p, q) = (value(a), value(b));
    let difference = q - p;
    let ends = |z: f64| {
        let ([low_a, high_a], [low_b, high_b]) =
            (wilson(p, a.effective, z), wilson(q, b.effective, z));
        let below = (q - low_b).hypot(high_a - p);
        let above = (high_b - q).hypot(p - low_a);
        [difference - below, difference + above]
    };
    let is_free = |share: Share| share.effective >= share.of as f64;
    let df = if is_free(a) && is_free(b) { f64::INFINITY } else { SHARE_DF };
    let is_out = |z: f64| {
        let [low, high] = ends(z);
        low > 0.0 || high < 0.0
    };
    let (mut low, mut high) = (0.0, FAR);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if is_out(middle) { low = middle } else { high = middle }
    }
    let p_value = if difference == 0.0 { 1.0 } else { two_sided(low, df) };
    let interval = ends(quantile(1.0 - level, df)).map(Some);
    Change { change: Some(difference), interval, p: Some(p_value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(hits: u64, of: u64) -> Share {
        Share { hits, of, effective: of as f64 }
    }

    #[test]
    fn shares_have_their_published_interval() {
        // 56/70 against 48/80: 0.0524 to 0.3339 at 95 % (Newcombe 1998, table II, method 10, (a)).
        let change = newcombe(share(48, 80), share(56, 70), 0.95);
        let [Some(low), Some(high)] = change.interval else { panic!("{change:?}") };
        assert!((low - 0.0524).abs() < 1e-4 && (high - 0.3339).abs() < 1e-4, "{low} {high}");
        assert!(change.p.unwrap() < 0.05);
        let none = newcombe(share(0, 100), share(0, 100), 0.95);
        assert_eq!((none.change, none.p), (Some(0.0), Some(1.0)));
    }

    #[test]
    fn few_runs_are_judged_by_student_and_welch() {
        let one =
            Difference::of_runs(Quantity::Rps, &[100.0, 101.0, 99.0], &[110.0, 111.0, 109.0], 0.95);
        let change = one.change.unwrap();
        assert!((change - 0.1).abs() < 1e-3, "{change}");
        let [Some(low), Some(high)] = one.interval else { panic!("{one:?}") };
        assert!(low > 0.07 && high < 0.13, "{low} {high}");
        let same = Difference::of_runs(Quantity::ErrorRate, &[0.0, 0.0], &[0.0, 0.0], 0.99);
        assert_eq!((same.change, same.p), (Some(0.0), Some(1.0)));
    }
}
