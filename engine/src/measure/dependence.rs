//! By how much samples that follow each other say less than independent ones.

/// Batches that a run is cut into, to see how neighbours depend on each other.
pub(super) const BATCHES: usize = 20;
/// With fewer nothing is to be seen of that.
pub(super) const BATCHES_MIN: usize = 8;
/// The first autocorrelation of batch means is taken as no more than this: with twenty of them it is
/// not known better.
const CARRY_MAX: f64 = 0.9;
/// How many samples of `in_order` say as little about "above a limit" as one independent one would, at
/// the worst of these limits: the variance of batch means ([`long_run`]) over that of independent
/// values, at least 1. Samples too few to show it stand for one together.
pub(super) fn dependence(in_order: &[u64], limits: &[u64]) -> f64 {
    if in_order.len() < BATCHES_MIN {
        return in_order.len().max(1) as f64;
    }
    let size = in_order.len().div_ceil(BATCHES);
    let at = |&limit: &u64| {
        let above = |batch: &[u64]| batch.iter().filter(|&&value| value > limit).count() as f64;
        let batches = in_order.chunks_exact(size);
        let means: Vec<f64> = batches.map(|batch| above(batch) / size as f64).collect();
        let share = means.iter().sum::<f64>() / means.len() as f64;
        let independent = share * (1.0 - share) / size as f64;
        if independent > 0.0 { long_run(&means) / independent } else { 1.0 }
    };
    limits.iter().map(at).fold(1.0, f64::max)
}

/// The variance that means of batches would have if what is in one said nothing of the next: theirs
/// times `(1 + φ) / (1 − φ)`, as if they were a first-order process. φ is their first autocorrelation,
/// freed of its bias of `−(1 + 3φ) / n` (Kendall, Biometrika 41, 1954) and at least 0.
///
/// Batches of a short look at a busy service are shorter than its queue takes to forget, so that their
/// variance alone says several times too little (Steiger et al., "ASAP3", ACM TOMACS 15, 2005, correct
/// batch means in this way).
pub(super) fn long_run(means: &[f64]) -> f64 {
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let away: Vec<f64> = means.iter().map(|one| one - mean).collect();
    let squares: f64 = away.iter().map(|away| away * away).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let products: f64 = away.windows(2).map(|pair| pair.iter().product::<f64>()).sum();
    let carry = ((n * products / squares + 1.0) / (n - 3.0)).clamp(0.0, CARRY_MAX);
    squares / (n - 1.0) * (1.0 + carry) / (1.0 - carry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::noise::noisy;

    #[test]
    fn dependence_is_seen_where_a_batch_is_shorter_than_it_lasts() {
        // Of such a process as many as (1 + φ) / (1 − φ) say what one independent one does; of "above
        // the middle" of it somewhat fewer. Twenty batches of fifty.
        let median = |carry: f64| {
            let of = |seed: u64| {
                let series = noisy(seed, 1000, carry, |_| 0.0);
                let values: Vec<u64> = series.iter().map(|one| (one * 1e6 + 1e9) as u64).collect();
                dependence(&values, &[1_000_000_000])
            };
            let mut all: Vec<f64> = (0..99).map(of).collect();
            all.sort_by(f64::total_cmp);
            (all[49], all[89])
        };
        let (free, most) = median(0.0);
        assert!(free < 1.5 && most < 3.0, "{free} {most}");
        let (close, _) = median(0.9);
        assert!((8.0..20.0).contains(&close), "19 at most: {close}");
        let (wide, _) = median(0.98);
        assert!((30.0..100.0).contains(&wide), "99 at most, batches alone see 20: {wide}");
    }

    #[test]
    fn a_handful_of_samples_is_as_one() {
        assert_eq!(dependence(&[1, 2, 3, 4, 5], &[3]), 5.0);
        assert_eq!(dependence(&[], &[3]), 1.0);
        assert_eq!(dependence(&[7; 100], &[3, 9]), 1.0, "nothing varies");
    }
}
