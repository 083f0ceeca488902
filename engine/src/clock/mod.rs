//! The only place that reads time: a TSC clock tied to CLOCK_MONOTONIC and CLOCK_REALTIME.
//!
//! Every time in the engine is a `u64` of nanoseconds since the run's start, on CLOCK_MONOTONIC.
//! Stamps are taken from the TSC and converted by the latest anchor, so that they can be compared
//! with the kernel's receive stamps, which come as CLOCK_REALTIME.

mod anchor;
mod sim;

pub use sim::SimClock;

use anchor::Anchor;

/// How long the calibration of the rate looks back, at most, ns.
const BASE_AGE_MAX_NS: u64 = 8_000_000_000;
/// How long it must look back before it is trusted more than the library's own calibration, ns.
const BASE_AGE_MIN_NS: u64 = 20_000_000;
/// A change of REALTIME against MONOTONIC beyond this is a step and not a slew, ns.
pub const STEP_NS: u64 = 500_000;

/// The clock of one thread of one run.
#[derive(Debug, Clone)]
pub struct RunClock {
    tsc: quanta::Clock,
    /// CLOCK_MONOTONIC at the run's start.
    origin_ns: u64,
    anchor: Anchor,
    /// An older anchor, from which the rate is measured.
    base: Anchor,
    ns_per_tick: f64,
    /// CLOCK_REALTIME − CLOCK_MONOTONIC.
    real_offset_ns: i64,
    /// CLOCK_REALTIME at the run's start.
    origin_real_ns: u64,
}

impl RunClock {
    /// Starts a run: its time 0 is now.
    #[must_use]
    pub fn start() -> Self {
        let tsc = quanta::Clock::new();
        let anchor = Anchor::take(&tsc);
        let ticks = 1_u64 << 40;
        let ns_per_tick = tsc.delta_as_nanos(0, ticks) as f64 / ticks as f64;
        Self {
            tsc,
            origin_ns: anchor.mono_ns,
            anchor,
            base: anchor,
            ns_per_tick,
            real_offset_ns: anchor.real_offset_ns(),
            origin_real_ns: anchor.real_ns,
        }
    }

    /// Now, in ns since the run's start.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        let ticks = self.tsc.raw().saturating_sub(self.anchor.raw);
        let since = (ticks as f64 * self.ns_per_tick) as u64;
        (self.anchor.mono_ns - self.origin_ns) + since
    }

    /// A kernel stamp (CLOCK_REALTIME, ns) as ns since the run's start; before it is 0.
    #[inline]
    #[must_use]
    pub fn at_real(&self, real_ns: u64) -> u64 {
        real_ns.wrapping_sub(self.real_offset_ns as u64).saturating_sub(self.origin_ns)
    }

    /// A time of the run as an absolute CLOCK_MONOTONIC, ns: what a timerfd wants.
    #[must_use]
    pub fn monotonic(&self, at: u64) -> u64 {
        self.origin_ns + at
    }

    /// CLOCK_MONOTONIC at the run's start, ns.
    #[must_use]
    pub fn origin_monotonic_ns(&self) -> u64 {
        self.origin_ns
    }

    /// CLOCK_REALTIME at the run's start, ns.
    #[must_use]
    pub fn origin_realtime_ns(&self) -> u64 {
        self.origin_real_ns
    }

    /// Ties the clock anew to the kernel's clocks. Returns whether the wall clock was stepped since
    /// the last time.
    pub fn anchor(&mut self) -> bool {
        let anchor = Anchor::take(&self.tsc);
        let age = anchor.mono_ns.saturating_sub(self.base.mono_ns);
        let ticks = anchor.raw.saturating_sub(self.base.raw);
        if age >= BASE_AGE_MIN_NS && ticks > 0 {
            self.ns_per_tick = age as f64 / ticks as f64;
            if age > BASE_AGE_MAX_NS {
                self.base = self.anchor;
            }
        }
        self.anchor = anchor;
        let offset = anchor.real_offset_ns();
        let stepped = offset.abs_diff(self.real_offset_ns) > STEP_NS;
        self.real_offset_ns = offset;
        stepped
    }
}

/// What our own stamps are read from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StampSource {
    /// A counter of the CPU (on x86 the TSC); else CLOCK_MONOTONIC, where the CPU's is not constant.
    pub counter: bool,
    /// What a reading costs, ns.
    pub reading_ns: f64,
}

impl StampSource {
    /// Looks, which takes less than a millisecond.
    #[must_use]
    pub fn measure() -> Self {
        const READINGS: u32 = 2_000;
        let tsc = quanta::Clock::new();
        // No counter lies between two readings of the kernel's clock each time.
        let is_kernels = (0..4).all(|_| {
            let before = monotonic_ns();
            let raw = tsc.raw();
            (before..=monotonic_ns()).contains(&raw)
        });
        let before = monotonic_ns();
        for _ in 0..READINGS {
            std::hint::black_box(tsc.raw());
        }
        let took = monotonic_ns().saturating_sub(before);
        Self { counter: !is_kernels, reading_ns: took as f64 / f64::from(READINGS) }
    }
}

/// CPU time of the calling thread, ns.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    anchor::read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CLOCK_MONOTONIC, ns, for what happens before a run has a clock.
#[must_use]
pub fn monotonic_ns() -> u64 {
    anchor::read(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME, ns since the epoch.
#[must_use]
pub fn realtime_ns() -> u64 {
    anchor::read(libc::CLOCK_REALTIME)
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME at one moment, ns.
#[must_use]
pub fn pair() -> (u64, u64) {
    anchor::pair()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_kernels_monotonic_clock() {
        let mut clock = RunClock::start();
        for round in 0..5 {
            // The library's own calibration is some 10 ppm off when it was made on a busy host; the
            // first anchor of ours replaces it.
            let slack = if round == 0 { 10_000 } else { 1_000 };
            std::thread::sleep(std::time::Duration::from_millis(30));
            let before = monotonic_ns() - clock.origin_monotonic_ns();
            let now = clock.now();
            let after = monotonic_ns() - clock.origin_monotonic_ns();
            // Brackets make load harmless.
            assert!(before <= now + slack && now <= after + slack, "{before} {now} {after}");
            clock.anchor();
        }
    }

    #[test]
    fn a_wall_clock_stamp_of_now_converts_to_now() {
        let clock = RunClock::start();
        let before = clock.now();
        let converted = clock.at_real(realtime_ns());
        let after = clock.now();
        assert!(before <= converted + 1_000 && converted <= after + 1_000);
    }

    #[test]
    fn a_reading_of_the_clock_costs_something() {
        let source = StampSource::measure();
        assert!(source.reading_ns > 0.0 && source.reading_ns < 1e6, "{source:?}");
    }

    #[test]
    fn a_changed_offset_is_reported_as_a_step_once() {
        let mut clock = RunClock::start();
        clock.real_offset_ns += 2_000_000_000;
        assert!(clock.anchor(), "two seconds are a step");
        assert!(!clock.anchor(), "and known afterwards");
    }
}
