//! Steers a run while it goes on: ends a warm-up of unknown length once the service is steady, and the
//! measured part once enough is known. A thread of its own that looks a few times a second; it asks no
//! reactor for anything.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::RunClock;
use crate::measure::{BIN_NS, Request, Steered, half_width, rises, steady};
use crate::reactor::{Gauge, Rest, Watcher};
use crate::record::{Row, Window};
use crate::workload::{Stop, Until, Warmup, Workload};

/// Bins between two looks at whether it is.
const BINS_PER_LOOK: usize = 5;
/// Significance of a rise of what is in flight.
const SURE: f64 = 0.01;
/// The measured part begins so long after it is told to, so that every reactor knows, ns.
const AHEAD_NS: u64 = 25_000_000;
/// Samples before an interval is looked at.
const SAMPLES_MIN: usize = 50;

/// The values of the metric that a run waits for, in order of their ends: `(origin, ns)`.
#[derive(Debug)]
pub(super) struct Heard {
    until: Until,
    workload: Workload,
    values: Mutex<Vec<(u64, u64)>>,
}

impl Heard {
    /// Nothing heard yet; `None` where nothing is waited for.
    pub(super) fn of(workload: &Workload) -> Option<Arc<Self>> {
        let until = workload.stop.until?;
        let values = Mutex::new(Vec::new());
        Some(Arc::new(Self { until, workload: workload.clone(), values }))
    }

    /// A request has ended.
    pub(super) fn hear(&self, row: &Row) {
        let request = Request::new(row, &self.workload);
        if let Some(value) = request.value(self.until.metric)
            && request.is_measured()
            && request.is_ok()
        {
            let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            values.push((request.origin, value));
        }
    }

    /// How wide the interval is, if more than `before` values were heard; and how many were.
    fn width(&self, before: usize) -> Option<(usize, Option<f64>)> {
        let mut values = {
            let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            if values.len() <= before.max(SAMPLES_MIN) {
                return None;
            }
            values.clone()
        };
        values.sort_unstable();
        let in_order: Vec<u64> = values.iter().map(|(_, value)| *value).collect();
        Some((in_order.len(), half_width(&in_order, self.until.quantile)))
    }
}

/// Steering under way.
pub(super) struct Steering(Option<Watcher<Steered>>);

/// What a steering thread looks at.
struct Wheel {
    stop: Stop,
    clock: RunClock,
    begin: u64,
    window: Arc<Window>,
    gauges: Vec<Arc<Gauge>>,
    heard: Option<Arc<Heard>>,
}

impl Steering {
    /// Begins to steer, where there is anything to steer.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin(
        stop: Stop,
        (clock, begin): (&RunClock, u64),
        window: &Arc<Window>,
        gauges: &[Arc<Gauge>],
        heard: Option<Arc<Heard>>,
    ) -> io::Result<Self> {
        if !matches!(stop.warmup, Warmup::Auto(_)) && heard.is_none() {
            return Ok(Self(None));
        }
        let wheel = Wheel {
            stop,
            clock: clock.clone(),
            begin,
            window: Arc::clone(window),
            gauges: gauges.to_vec(),
            heard,
        };
        Watcher::spawn("steering", move |rest| wheel.steer(rest)).map(|watcher| Self(Some(watcher)))
    }

    /// Ends it; what it did.
    pub(super) fn end(self) -> Steered {
        self.0.and_then(Watcher::end).unwrap_or_default()
    }
}

impl Wheel {
    fn steer(&self, rest: &Rest) -> Steered {
        let mut steered = Steered::default();
        if let Warmup::Auto(most) = self.stop.warmup {
            steered.steady_after_warmup = self.warm_up(most, rest);
        }
        if let Some(heard) = &self.heard {
            steered.until = Some(heard.until.to_string());
            steered.until_reached = Some(self.wait_for(heard, rest));
        }
        steered
    }

    /// Lets the measured part begin once the service is steady; or when it falls behind, since it will
    /// never be then; or after `most` ns. Whether it was steady; `None` if the run was over before.
    fn warm_up(&self, most: u64, rest: &Rest) -> Option<bool> {
        let (mut ttft, mut events, mut in_flight) = (Vec::new(), Vec::new(), Vec::new());
        let mut before = self.counts();
        for bin in 1.. {
            let end = self.begin + bin as u64 * BIN_NS;
            if !self.rest_until(end, rest) {
                return None;
            }
            let now = self.counts();
            let (sum, count) = (now.0 - before.0, now.1 - before.1);
            ttft.push((count > 0).then(|| sum as f64 / count as f64));
            events.push((now.2 - before.2) as f64);
            in_flight.push(self.in_flight() as f64);
            before = now;
            let looks = bin % BINS_PER_LOOK == 0;
            let is_steady = if looks { steady(&ttft, &events).is_steady } else { None };
            let falls_behind = || rises(&in_flight, SURE).is_some_and(|trend| trend.rises);
            let is_hopeless = is_steady == Some(false) && falls_behind();
            let is_steady = is_steady == Some(true);
            if is_steady || is_hopeless || end - self.begin >= most {
                self.window.open(self.clock.now() + AHEAD_NS);
                return Some(is_steady);
            }
        }
        None
    }

    /// Ends the measured part once the interval is narrow enough. Whether it was.
    fn wait_for(&self, heard: &Heard, rest: &Rest) -> bool {
        let mut before = 0;
        loop {
            if !self.rest_until(self.clock.now() + BINS_PER_LOOK as u64 * BIN_NS, rest) {
                return false;
            }
            // Looking again is worth it with a tenth more.
            let Some((count, width)) = heard.width(before + before / 10) else { continue };
            before = count;
            if width.is_some_and(|width| width < heard.until.width) {
                self.window.cut(self.clock.now());
                return true;
            }
        }
    }

    /// Sum of TTFT, requests in it, output events.
    fn counts(&self) -> (u64, u64, u64) {
        self.gauges.iter().fold((0, 0, 0), |sum, gauge| {
            (
                sum.0 + gauge.ttft_sum_ns.load(Relaxed),
                sum.1 + gauge.ttft_count.load(Relaxed),
                sum.2 + gauge.output_events.load(Relaxed),
            )
        })
    }

    fn in_flight(&self) -> u64 {
        self.gauges.iter().map(|gauge| gauge.in_flight.load(Relaxed)).sum()
    }

    /// Sleeps until `at`; whether the run still goes on then.
    fn rest_until(&self, at: u64, rest: &Rest) -> bool {
        loop {
            let now = self.clock.now();
            if now >= self.window.end() {
                return false;
            }
            if now >= at {
                return true;
            }
            if !rest.sleep(at - now) {
                return false;
            }
        }
    }
}
