//! The prefix cache: what a perfect one would have known of the prompts, beside what the server says.

use serde::{Deserialize, Serialize};

use super::distribution::ratio;
use super::metric::Request;

/// Input tokens that need no prefill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheReport {
    /// Share of input tokens that a cache without limits would have known, in the order in which
    /// requests were made ready; null where prompts were not compared.
    pub ideal_share: Option<f64>,
    /// Those tokens.
    pub ideal_tokens: Option<u64>,
    /// Share of input tokens that the server says it took from its cache.
    pub reported_share: Option<f64>,
    /// Those tokens; null where answers do not say.
    pub reported_tokens: Option<u64>,
    /// The server's own counters over the run; null where it has none.
    #[serde(default)]
    pub server: Option<CacheCounters>,
}

/// A server's counters of its prefix cache over a run, warm-up included: the difference of two looks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheCounters {
    /// Tokens that were looked up.
    pub queries: u64,
    /// Of those, tokens that were found.
    pub hits: u64,
    /// `hits / queries`.
    pub share: Option<f64>,
}

impl CacheCounters {
    /// The difference between two looks at `(queries, hits)`; none if a counter went back.
    #[must_use]
    pub fn between(before: (u64, u64), after: (u64, u64)) -> Option<Self> {
        let queries = after.0.checked_sub(before.0)?;
        let hits = after.1.checked_sub(before.1)?;
        Some(Self { queries, hits, share: ratio(hits as f64, queries as f64) })
    }
}

/// What is known of the cache over the successful requests of the measured part.
pub(super) fn cache(measured: &[&Request]) -> CacheReport {
    let share = |value: &dyn Fn(&Request) -> Option<u64>| {
        let ok = measured.iter().filter(|request| request.is_ok());
        let known = ok.filter_map(|request| Some((value(request)?, request.input_tokens.get()?)));
        let add = |sum: Option<(u64, u64)>, (cached, input): (u64, u64)| {
            let (c, i) = sum.unwrap_or_default();
            Some((c + cached, i + input))
        };
        known.fold(None, add)
    };
    let ideal = share(&|request| request.ideal_cached_tokens.get());
    let reported = share(&|request| request.cached_tokens.get());
    let of = |sum: Option<(u64, u64)>| sum.and_then(|(c, i)| ratio(c as f64, i as f64));
    CacheReport {
        ideal_share: of(ideal),
        ideal_tokens: ideal.map(|(tokens, _)| tokens),
        reported_share: of(reported),
        reported_tokens: reported.map(|(tokens, _)| tokens),
        server: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{closed, row};
    use crate::record::Row;

    #[test]
    fn shares_are_of_the_requests_that_tell() {
        let told = Row {
            cached_tokens: Some(2),
            ideal_cached_tokens: Some(6),
            input_tokens: Some(8),
            ..row(0, &[1])
        };
        let silent = Row { ideal_cached_tokens: Some(0), ..row(1, &[1]) };
        let rows = [told, silent];
        let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, &closed(1))).collect();
        let refs: Vec<&Request> = requests.iter().collect();
        let got = cache(&refs);
        assert_eq!((got.reported_tokens, got.reported_share), (Some(2), Some(0.25)));
        assert_eq!((got.ideal_tokens, got.ideal_share), (Some(6), Some(6.0 / 16.0)));
        assert_eq!(cache(&[]).ideal_share, None);
    }

    #[test]
    fn counters_that_went_back_tell_nothing() {
        let got = CacheCounters::between((10, 1), (110, 51)).unwrap();
        assert_eq!((got.queries, got.hits, got.share), (100, 50, Some(0.5)));
        assert_eq!(CacheCounters::between((10, 1), (5, 1)), None);
        assert_eq!(CacheCounters::between((10, 1), (10, 1)).unwrap().share, None);
    }
}
