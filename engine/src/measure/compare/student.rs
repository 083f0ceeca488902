//! Student's law: how far a mean of few values may lie from the truth.

/// Terms of the continued fraction, at most; a few dozen do.
const TERMS_MAX: usize = 300;
/// Where the continued fraction has settled.
const SETTLED: f64 = 1e-14;
/// Keeps a divisor from being 0.
const TINY: f64 = 1e-300;
/// Halvings of the interval in which a quantile is looked for.
const HALVINGS: usize = 100;

/// The probability that `t` with so many degrees of freedom lies at least as far from 0, on either
/// side: `I(df/2, 1/2)` at `df / (df + t²)` (Abramowitz and Stegun, 26.7.1). Infinite degrees are the
/// normal law.
#[must_use]
pub(super) fn two_sided(t: f64, df: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { 1.0 } else { 0.0 };
    }
    // Above so many the law is the normal one to more digits than are shown.
    let df = df.clamp(1.0, 1e6);
    incomplete_beta(df / 2.0, 0.5, df / (df + t * t)).clamp(0.0, 1.0)
}

/// The distance from 0 beyond which, on either side, `t` lies with probability `p`.
#[must_use]
pub(super) fn quantile(p: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, df) > p && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if two_sided(middle, df) > p { low = middle } else { high = middle }
    }
    high
}

/// The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun,
/// 26.5.8), evaluated from the front with Lentz's method.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut whole = d;
    for m in 1..TERMS_MAX {
        let m = m as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut last = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            last = c * d;
            whole *= last;
        }
        if (last - 1.0).abs() < SETTLED {
            break;
        }
    }
    whole
}

/// The logarithm of the gamma function for `x` of at least 0.5: Stirling's series after the argument
/// was raised (Abramowitz and Stegun, 6.1.41 and 6.1.15).
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut less) = (x, 0.0);
    while x < 12.0 {
        less += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series =
        (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + series - less
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_published_ones() {
        for (p, df, wanted) in [
            (0.05, 4.0, 2.776_445),
            (0.01, 4.0, 4.604_095),
            (0.01, 1.0, 63.656_741),
            (0.01, 30.0, 2.749_996),
            (0.001, 10.0, 4.586_894),
            (0.05, 1e9, 1.959_964),
            (0.01, f64::INFINITY, 2.575_829),
        ] {
            let found = quantile(p, df);
            assert!((found - wanted).abs() < 1e-4, "{p} {df}: {found}, not {wanted}");
            assert!((two_sided(found, df) - p).abs() < 1e-9);
        }
    }

    #[test]
    fn what_is_no_number_proves_nothing() {
        assert_eq!(two_sided(f64::NAN, 4.0), 1.0);
        assert_eq!(two_sided(f64::INFINITY, 4.0), 0.0);
        assert_eq!(two_sided(0.0, 4.0), 1.0);
    }
}
