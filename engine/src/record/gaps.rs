//! Gaps between output events: all of them into histograms, those of some requests kept whole.

use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Chunk, GapSample, HIGHEST_NS};

/// Requests kept for resampling, per reactor.
const GAP_SAMPLES_MAX: usize = 2_000;
/// Output events kept for resampling, per reactor.
const GAP_SAMPLE_EVENTS_MAX: usize = 500_000;

/// The gaps of one reactor's requests.
#[derive(Debug)]
pub(super) struct Gaps {
    /// Requests with at least one gap.
    requests: u64,
    samples: Vec<GapSample>,
    sampled_events: usize,
    rng: Xoshiro256PlusPlus,
}

impl Gaps {
    /// None yet; `key` seeds the draw.
    pub(super) fn new(key: u64) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(key);
        Self { requests: 0, samples: Vec::new(), sampled_events: 0, rng }
    }

    /// The number of requests with a gap, and those drawn of them.
    pub(super) fn take(&mut self) -> (u64, Vec<GapSample>) {
        (self.requests, std::mem::take(&mut self.samples))
    }

    /// Adds the gaps of one successful request of the measured part.
    pub(super) fn add(
        &mut self,
        chunks: &[Chunk],
        icl: &mut Histogram<u64>,
        itl: &mut Histogram<u64>,
    ) {
        if chunks.len() >= 2 {
            pool(chunks, icl, itl);
            self.sample(chunks);
        }
    }

    /// Keeps each request with the same chance (reservoir sampling, algorithm R).
    fn sample(&mut self, chunks: &[Chunk]) {
        self.requests += 1;
        let kept = self.samples.len();
        let room = kept < GAP_SAMPLES_MAX && self.sampled_events < GAP_SAMPLE_EVENTS_MAX;
        let place = if room {
            self.samples.push(Vec::new());
            kept
        } else {
            let drawn = self.rng.random_range(0..self.requests);
            usize::try_from(drawn).unwrap_or(usize::MAX)
        };
        if let Some(sample) = self.samples.get_mut(place) {
            self.sampled_events = self.sampled_events.saturating_sub(sample.len());
            sample.clear();
            sample.extend(chunks.windows(2).filter_map(|pair| match pair {
                [before, after] => {
                    Some((after.arrival.saturating_sub(before.arrival), after.tokens))
                }
                _ => None,
            }));
            self.sampled_events += sample.len();
        }
    }
}

/// Records every gap, and the share of it of every token.
pub(super) fn pool(chunks: &[Chunk], icl: &mut Histogram<u64>, itl: &mut Histogram<u64>) {
    let mut run = Run { gap: 0, tokens: 0, times: 0 };
    for pair in chunks.windows(2) {
        let &[before, after] = pair else { continue };
        let gap = after.arrival.saturating_sub(before.arrival);
        if run.gap == gap && run.tokens == after.tokens {
            run.times += 1;
            continue;
        }
        run.record(icl, itl);
        run = Run { gap, tokens: after.tokens, times: 1 };
    }
    run.record(icl, itl);
}

/// Equal gaps in a row: those of events that came together are all zero.
struct Run {
    gap: u64,
    tokens: u32,
    times: u64,
}

impl Run {
    fn record(&self, icl: &mut Histogram<u64>, itl: &mut Histogram<u64>) {
        if self.times == 0 {
            return;
        }
        let gap = self.gap.min(HIGHEST_NS);
        // Within the bounds, so recording cannot fail.
        let _ = icl.record_n(gap, self.times);
        if self.tokens > 0 {
            let each = gap / u64::from(self.tokens);
            let _ = itl.record_n(each, self.times * u64::from(self.tokens));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Pooled;

    fn chunks(arrivals: &[(u64, u32)]) -> Vec<Chunk> {
        let chunk = |&(arrival, tokens)| Chunk { arrival, tokens, text_bytes: 0 };
        arrivals.iter().map(chunk).collect()
    }

    #[test]
    fn each_gap_counts_once_and_each_token_once() {
        let (mut gaps, mut pooled) = (Gaps::new(1), Pooled::default());
        gaps.add(
            &chunks(&[(100, 1), (160, 3), (200, 2), (200, 2)]),
            &mut pooled.icl,
            &mut pooled.itl,
        );
        let icl: Vec<u64> = pooled.icl.iter_recorded().map(|v| v.value_iterated_to()).collect();
        assert_eq!((icl, pooled.icl.len()), (vec![0, 40, 60], 3));
        // 60 / 3 three times, 40 / 2 and 0 / 2 twice.
        let itl: Vec<(u64, u64)> = pooled
            .itl
            .iter_recorded()
            .map(|v| (v.value_iterated_to(), v.count_at_value()))
            .collect();
        assert_eq!(itl, [(0, 2), (20, 5)]);
    }

    #[test]
    fn one_event_has_no_gap() {
        let (mut gaps, mut pooled) = (Gaps::new(1), Pooled::default());
        gaps.add(&chunks(&[(100, 1)]), &mut pooled.icl, &mut pooled.itl);
        gaps.add(&[], &mut pooled.icl, &mut pooled.itl);
        assert_eq!((pooled.icl.len(), gaps.take().0), (0, 0));
    }

    #[test]
    fn early_and_late_requests_are_drawn_alike() {
        let (mut gaps, mut pooled) = (Gaps::new(1), Pooled::default());
        let all = 5 * GAP_SAMPLES_MAX as u64;
        for gap in 1..=all {
            gaps.add(&chunks(&[(0, 1), (gap, 1)]), &mut pooled.icl, &mut pooled.itl);
        }
        let (requests, samples) = gaps.take();
        assert_eq!((requests, samples.len()), (all, GAP_SAMPLES_MAX));
        let early = samples.iter().filter(|sample| sample[0].0 <= all / 2).count();
        // Half of them, give or take five standard deviations of a binomial.
        let (half, slack) = (GAP_SAMPLES_MAX / 2, 5 * 22);
        assert!(early.abs_diff(half) < slack, "{early} of {GAP_SAMPLES_MAX}");
    }
}
