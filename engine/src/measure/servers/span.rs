//! The readings of one server that lie at and between the ends of the window.

use hdrhistogram::Histogram;

use crate::measure::rate::Window;
use crate::telemetry::server::{By, Counted, Counter, Gauge, Pair, Reading, Share};

/// No look takes longer, ns: it is given up before.
const TOOK_MAX_NS: u64 = 60_000_000_000;

/// Least, sum and most of what was seen of a gauge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) sum: f64,
    pub(super) max: f64,
    pub(super) count: u64,
}

/// One reading that succeeded.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) at_ns: u64,
    pub(super) counted: Counted,
}

/// The readings of one server.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) url: String,
    pub(super) by: By,
    share: Share,
    window: Window,
    pub(super) samples: u64,
    pub(super) failed: u64,
    /// Why the last that failed did, and when.
    pub(super) failure: Option<(u64, String)>,
    took: Option<Histogram<u64>>,
    pub(super) from: Option<Look>,
    /// The last so far that counts.
    pub(super) to: Option<Look>,
    /// What `from` stood for before, should no other come.
    earlier: Option<Look>,
    /// No later reading is nearer to the window's end.
    is_over: bool,
    pub(super) gauges: [Option<Spread>; Gauge::ALL.len()],
    /// When a counter was seen to go back.
    pub(super) restarted_ns: Option<u64>,
}

impl Span {
    /// Of the server of a first reading, which is not yet added.
    pub(super) fn new(first: &Reading, window: Window) -> Self {
        Self {
            url: first.url.clone(),
            by: first.by,
            share: first.share,
            window,
            samples: 0,
            failed: 0,
            failure: None,
            took: Histogram::new_with_max(TOOK_MAX_NS, 3).ok(),
            from: None,
            to: None,
            earlier: None,
            is_over: false,
            gauges: [None; Gauge::ALL.len()],
            restarted_ns: None,
        }
    }

    /// Adds the next.
    pub(super) fn add(&mut self, reading: Reading) {
        let at_ns = reading.at_ns;
        let counted = match reading.said {
            Ok(counted) => counted,
            Err(reason) => {
                self.failed += 1;
                self.failure = Some((at_ns, reason));
                return;
            }
        };
        self.samples += 1;
        if let Some(took) = &mut self.took {
            took.saturating_record(reading.took_ns);
        }
        let look = Look { at_ns, counted };
        let Window { start, end } = self.window;
        let from = self.from.as_ref().map(|from| from.at_ns);
        let is_first = from.is_none_or(|from| {
            // One before the window gives way to a nearer one, be it in it; but not to one that is wanted
            // for its end.
            let is_early = at_ns <= start + end.saturating_sub(start) / 2;
            from < start && is_early && at_ns.abs_diff(start) <= from.abs_diff(start)
        });
        if is_first {
            self.begin(look);
            self.is_over = at_ns >= end;
            return;
        }
        if self.is_over {
            return;
        }
        let last = self.to.as_ref().map_or(0, |last| last.at_ns);
        self.is_over = at_ns >= end;
        if at_ns <= end || at_ns - end < end.saturating_sub(last) || self.is_alone() {
            self.take(look);
        }
    }

    /// Whether all there is is the reading at the begin.
    fn is_alone(&self) -> bool {
        let ends = self.from.as_ref().zip(self.to.as_ref());
        ends.is_none_or(|(from, to)| from.at_ns == to.at_ns)
    }

    fn begin(&mut self, look: Look) {
        self.gauges = [None; Gauge::ALL.len()];
        self.restarted_ns = None;
        self.earlier = self.from.replace(look.clone());
        self.to = None;
        self.take(look);
    }

    fn take(&mut self, look: Look) {
        for gauge in Gauge::ALL {
            let Some(value) = look.counted.gauge(*gauge) else { continue };
            let most = match gauge {
                Gauge::KvUse => look.counted.kv_use_max.unwrap_or(value),
                _ => value,
            };
            let new = Spread { min: value, sum: 0.0, max: most, count: 0 };
            let spread = self.gauges[*gauge as usize].get_or_insert(new);
            spread.min = spread.min.min(value);
            spread.max = spread.max.max(most);
            spread.sum += value;
            spread.count += 1;
        }
        if let Some(last) = &self.to
            && went_back(&last.counted, &look.counted)
        {
            self.restarted_ns.get_or_insert(look.at_ns);
        }
        self.to = Some(look);
    }

    /// The time that the figures are of, where there are two readings.
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        self.two().map(|(from, to)| (from.at_ns, to.at_ns))
    }

    /// The readings at the ends of that time.
    fn two(&self) -> Option<(&Look, &Look)> {
        let (from, to) = self.from.as_ref().zip(self.to.as_ref())?;
        if from.at_ns < to.at_ns {
            return Some((from, to));
        }
        let earlier = self.earlier.as_ref().filter(|one| one.at_ns < to.at_ns)?;
        (!went_back(&earlier.counted, &to.counted)).then_some((earlier, to))
    }

    /// Which requests the server had.
    pub(super) fn share(&self) -> Share {
        self.share
    }

    /// What readings took: the middle, and the most, ns.
    pub(super) fn took(&self) -> Option<(u64, u64)> {
        let took = self.took.as_ref().filter(|took| !took.is_empty())?;
        Some((took.value_at_quantile(0.5), took.max()))
    }

    /// How much a counter grew between the first and the last reading.
    pub(super) fn grown(&self, counter: Counter) -> Option<f64> {
        let (from, to) = self.ends()?;
        // A series may appear with its first event.
        let (before, after) = (from.counter(counter).unwrap_or(0.0), to.counter(counter)?);
        (after >= before).then_some(after - before)
    }

    /// How much a pair grew.
    pub(super) fn pair(&self, pair: Pair) -> Option<(f64, f64)> {
        let (from, to) = self.ends()?;
        let (before, after) = (from.pair(pair).unwrap_or((0.0, 0.0)), to.pair(pair)?);
        let grown = (after.0 - before.0, after.1 - before.1);
        (grown.0 >= 0.0 && grown.1 >= 0.0).then_some(grown)
    }

    /// The first and the last reading, unless the server was started again between them.
    pub(super) fn ends(&self) -> Option<(&Counted, &Counted)> {
        let two = self.two().filter(|_| self.restarted_ns.is_none());
        two.map(|(from, to)| (&from.counted, &to.counted))
    }
}

/// Whether something that only grows has become less, or is gone.
fn went_back(before: &Counted, after: &Counted) -> bool {
    let less = |before: Option<f64>, after: Option<f64>| {
        before.is_some_and(|before| before > 0.0 && after.is_none_or(|after| after < before))
    };
    let count = |counted: &Counted, pair: Pair| counted.pair(pair).map(|(_, count)| count);
    Counter::ALL.iter().any(|one| less(before.counter(*one), after.counter(*one)))
        || Pair::ALL.iter().any(|one| less(count(before, *one), count(after, *one)))
}
