//! One look at what a server counts.

use super::figures::{Counter, Gauge, Pair};
use super::kinds::Kind;

/// What is said of a page that holds nothing known.
pub const KNOWS_NOTHING: &str = "no figures that are known";

/// Who named a server whose metrics are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The user.
    Named,
    /// It is a target of the load.
    Target,
}

impl By {
    /// Its word in files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Target => "target",
        }
    }
}

/// Which of the load's requests a server gets: those whose item is `place` modulo `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its place among the servers of the load; `None` if it is none of them.
    pub place: Option<u64>,
    /// How many they are.
    pub of: u64,
}

/// One look at what a server counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When its answer was there, ns from the run's start.
    pub at_ns: u64,
    /// How long that took, ns.
    pub took_ns: u64,
    /// Where it was asked, without secrets.
    pub url: String,
    /// Who named it.
    pub by: By,
    /// Which requests it gets.
    pub share: Share,
    /// What it counts, or why that is not known.
    pub said: Result<Counted, String>,
}

/// What a server counts, under common names. All numbers are finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// What kind of server it is.
    pub kind: Kind,
    gauges: [Option<f64>; Gauge::ALL.len()],
    /// The fullest of several engines.
    pub kv_use_max: Option<f64>,
    counters: [Option<f64>; Counter::ALL.len()],
    pairs: [Option<(f64, f64)>; Pair::ALL.len()],
    buckets: [Vec<(f64, f64)>; Pair::WITH_BUCKETS.len()],
}

impl Counted {
    /// Nothing of a server of this kind.
    #[must_use]
    pub fn nothing(kind: Kind) -> Self {
        Self {
            kind,
            gauges: [None; Gauge::ALL.len()],
            kv_use_max: None,
            counters: [None; Counter::ALL.len()],
            pairs: [None; Pair::ALL.len()],
            buckets: Default::default(),
        }
    }

    /// How something is.
    #[must_use]
    pub fn gauge(&self, gauge: Gauge) -> Option<f64> {
        self.gauges[gauge as usize]
    }

    /// How much something has grown since the server was started.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> Option<f64> {
        self.counters[counter as usize]
    }

    /// A sum, and what it is a sum over.
    #[must_use]
    pub fn pair(&self, pair: Pair) -> Option<(f64, f64)> {
        self.pairs[pair as usize]
    }

    /// The buckets of a histogram: upper bounds, the last infinite, and how many samples are not
    /// above them. Empty where the server has none.
    #[must_use]
    pub fn buckets(&self, pair: Pair) -> &[(f64, f64)] {
        let place = Pair::WITH_BUCKETS.iter().position(|one| *one == pair);
        place.map_or(&[], |place| &self.buckets[place])
    }

    /// Sets a gauge.
    pub fn set_gauge(&mut self, gauge: Gauge, value: Option<f64>) {
        self.gauges[gauge as usize] = value.filter(|value| value.is_finite());
    }

    /// Sets a counter.
    pub fn set_counter(&mut self, counter: Counter, value: Option<f64>) {
        self.counters[counter as usize] = value.filter(|value| value.is_finite());
    }

    /// Sets a pair.
    pub fn set_pair(&mut self, pair: Pair, value: Option<(f64, f64)>) {
        let is_finite = |(sum, count): &(f64, f64)| sum.is_finite() && count.is_finite();
        self.pairs[pair as usize] = value.filter(is_finite);
    }

    /// Sets the buckets of a histogram, in the order of their bounds.
    pub fn set_buckets(&mut self, pair: Pair, buckets: Vec<(f64, f64)>) {
        if let Some(place) = Pair::WITH_BUCKETS.iter().position(|one| *one == pair) {
            self.buckets[place] = buckets;
        }
    }

    /// Whether anything is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gauges.iter().chain(&self.counters).all(Option::is_none)
            && self.pairs.iter().all(Option::is_none)
    }
}
