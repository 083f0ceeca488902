//! Noise of known kind, for the tests of this folder.

use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// `count` values about 0 with deviation 1, of which each takes over the part `phi` of the one
/// before: a stationary first-order process, independent values for 0.
pub(super) fn noise(seed: u64, count: usize, phi: f64) -> Vec<f64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
    let fresh = (1.0 - phi * phi).sqrt();
    let mut value = normal();
    let mut step = || {
        value = phi * value + fresh * normal();
        value
    };
    (0..count).map(|_| step()).collect()
}

/// The same with something on top that depends on the bin.
pub(super) fn noisy(seed: u64, count: usize, phi: f64, signal: impl Fn(f64) -> f64) -> Vec<f64> {
    let bare = noise(seed, count, phi);
    bare.iter().enumerate().map(|(at, value)| value + signal(at as f64)).collect()
}
