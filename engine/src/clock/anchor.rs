//! One moment on three clocks: TSC ticks, CLOCK_MONOTONIC, CLOCK_REALTIME.

/// Triples tried; the one with the narrowest bracket is kept.
const TRIES: u32 = 8;

/// One moment on three clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    pub(super) raw: u64,
    pub(super) mono_ns: u64,
    pub(super) real_ns: u64,
}

impl Anchor {
    /// Reads the three clocks as close together as a few tries allow.
    pub(super) fn take(tsc: &quanta::Clock) -> Self {
        let mut best = Self { raw: 0, mono_ns: 0, real_ns: 0 };
        let mut narrowest = u64::MAX;
        for _ in 0..TRIES {
            let before = read(libc::CLOCK_MONOTONIC);
            let raw = tsc.raw();
            let real_ns = read(libc::CLOCK_REALTIME);
            let after = read(libc::CLOCK_MONOTONIC);
            let width = after.saturating_sub(before);
            if width < narrowest {
                narrowest = width;
                best = Self { raw, mono_ns: before + width / 2, real_ns };
            }
        }
        best
    }

    /// CLOCK_REALTIME − CLOCK_MONOTONIC, ns.
    pub(super) fn real_offset_ns(self) -> i64 {
        self.real_ns.wrapping_sub(self.mono_ns) as i64
    }
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME at one moment, ns, as close together as a few tries allow.
pub(super) fn pair() -> (u64, u64) {
    let mut best = (0, 0);
    let mut narrowest = u64::MAX;
    for _ in 0..TRIES {
        let before = read(libc::CLOCK_MONOTONIC);
        let real_ns = read(libc::CLOCK_REALTIME);
        let width = read(libc::CLOCK_MONOTONIC).saturating_sub(before);
        if width < narrowest {
            narrowest = width;
            best = (before + width / 2, real_ns);
        }
    }
    best
}

/// Reads a kernel clock, ns.
pub(super) fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for a timespec, and the call writes nothing else.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
