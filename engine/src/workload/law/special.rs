//! Distribution functions: the incomplete gamma function, and the normal law that follows.

/// Above this shape a gamma law is taken as the cube of a normal one (Wilson and Hilferty, 1931);
/// the error is then below 1e-6 and the exact sums would be long.
const SHAPE_EXACT_MAX: f64 = 1e5;
/// Terms of a sum: more than a shape of 1e5 ever needs, a few times the square root of it.
const TERMS_MAX: u32 = 10_000;

/// The shares of a gamma law of `shape` and scale 1 under and over `value`; each right to about
/// 1e-12 of itself, so small ones too.
pub(crate) fn gamma_halves(shape: f64, value: f64) -> (f64, f64) {
    if value <= 0.0 {
        return (0.0, 1.0);
    }
    if value == f64::INFINITY {
        return (1.0, 0.0);
    }
    if shape > SHAPE_EXACT_MAX {
        let spread = 1.0 / (9.0 * shape);
        return normal_halves(((value / shape).cbrt() - (1.0 - spread)) / spread.sqrt());
    }
    // x^a e^-x / Γ(a): a factor of both forms.
    let factor = (shape * value.ln() - value - ln_gamma(shape)).exp();
    if value < shape + 1.0 {
        let under = (factor * series(shape, value)).min(1.0);
        (under, 1.0 - under)
    } else {
        let over = (factor * fraction(shape, value)).min(1.0);
        (1.0 - over, over)
    }
}

/// The power series of the lower part: sum over n of x^n / (a (a+1) ... (a+n)).
fn series(shape: f64, value: f64) -> f64 {
    let (mut term, mut sum) = (1.0 / shape, 1.0 / shape);
    for n in 1..TERMS_MAX {
        term *= value / (shape + f64::from(n));
        sum += term;
        if term < sum * f64::EPSILON / 4.0 {
            break;
        }
    }
    sum
}

/// The continued fraction of the upper part, by its convergents from the front (DLMF 8.9.2 in its
/// even form): 1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))).
fn fraction(shape: f64, value: f64) -> f64 {
    let mut below = value + 1.0 - shape;
    let (mut ratio, mut inverse) = (f64::MAX.sqrt(), 1.0 / below);
    let mut result = inverse;
    for n in 1..TERMS_MAX {
        let n = f64::from(n);
        let above = -n * (n - shape);
        below += 2.0;
        inverse = 1.0 / away_from_zero(below + above * inverse);
        ratio = away_from_zero(below + above / ratio);
        let step = inverse * ratio;
        result *= step;
        if (step - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    result
}

fn away_from_zero(value: f64) -> f64 {
    if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value }
}

/// ln Γ(x) for x > 0: the asymptotic series (DLMF 5.11.1), with x first raised to 15, where four
/// terms are right to 1e-14.
fn ln_gamma(mut x: f64) -> f64 {
    let mut product = 1.0;
    while x < 15.0 {
        product *= x;
        x += 1.0;
    }
    let square = x * x;
    let tail = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + tail - product.ln()
}

/// The shares of the standard normal law under and over `z`.
pub(crate) fn normal_halves(z: f64) -> (f64, f64) {
    let (inside, outside) = gamma_halves(0.5, z * z / 2.0);
    let (near, far) = ((1.0 + inside) / 2.0, outside / 2.0);
    if z < 0.0 { (far, near) } else { (near, far) }
}

/// The density of the standard normal law.
pub(crate) fn normal_density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_have_their_known_values() {
        let close = |found: f64, exact: f64| {
            assert!((found / exact - 1.0).abs() < 1e-11, "{found} for {exact}");
        };
        close(normal_halves(0.0).0, 0.5);
        close(normal_halves(1.959_963_984_540_054).0, 0.975);
        close(normal_halves(-1.959_963_984_540_054).0, 0.025);
        close(normal_halves(6.0).1, 9.865_876_450_376_98e-10);
        for x in [0.1, 1.0, 2.9, 3.1, 40.0f64] {
            close(gamma_halves(1.0, x).1, (-x).exp());
            close(gamma_halves(2.0, x).1, (1.0 + x) * (-x).exp());
        }
        close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln());
        close(ln_gamma(20.0), 121_645_100_408_832_000f64.ln());
    }

    #[test]
    fn the_short_form_of_large_shapes_meets_the_long_one() {
        for z in [-2.0, -0.5, 0.0, 1.0, 3.0] {
            let at = |shape: f64| gamma_halves(shape, shape + z * shape.sqrt()).0;
            assert!((at(0.99e5) - at(1.01e5)).abs() < 1e-5, "{z}");
        }
    }

    #[test]
    fn infinities_are_ends() {
        assert_eq!(normal_halves(f64::NEG_INFINITY), (0.0, 1.0));
        assert_eq!(normal_halves(f64::INFINITY), (1.0, 0.0));
    }
}
