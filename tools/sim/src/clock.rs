//! The server's own clock and alarm: the only place that asks the kernel for the time.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// CLOCK_MONOTONIC now, in ns.
pub(crate) fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME now, in ns since 1970.
pub(crate) fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread, in ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the length of the call; these clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    timespec_ns(&now)
}

/// A timespec as ns; negative ones count as zero.
pub(crate) fn timespec_ns(time: &libc::timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

/// How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, kept fresh.
///
/// Kernel receive stamps are REALTIME, which may be stepped or slewed at any moment.
#[derive(Debug)]
pub(crate) struct Offset {
    ahead_ns: u64,
    measured_ns: u64,
}

impl Offset {
    const AGE_NS_MAX: u64 = 100_000_000;

    /// Measures it now.
    pub(crate) fn new() -> Self {
        // Of a few pairs the one read in the narrowest bracket: the others were interrupted.
        let (_, ahead_ns) = (0..16)
            .map(|_| {
                let before = monotonic_ns();
                let real = realtime_ns();
                let after = monotonic_ns();
                (after - before, real.saturating_sub(before + (after - before) / 2))
            })
            .min()
            .unwrap_or((0, 0));
        Self { ahead_ns, measured_ns: monotonic_ns() }
    }

    /// A REALTIME stamp on the monotonic clock, `now_ns` being the monotonic time.
    pub(crate) fn on_monotonic(&mut self, real_ns: u64, now_ns: u64) -> u64 {
        if now_ns.saturating_sub(self.measured_ns) > Self::AGE_NS_MAX {
            *self = Self::new();
        }
        real_ns.saturating_sub(self.ahead_ns)
    }
}

/// A timerfd on CLOCK_MONOTONIC; it becomes readable when its time has come.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: OwnedFd,
}

impl Alarm {
    /// An alarm that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = unsafe {
            libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor just made, owned by nobody else.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Another handle to the same alarm, to wait on.
    pub(crate) fn handle(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Rings at `at_ns` (`None`: never) and forgets what it was set to before.
    pub(crate) fn set(&self, at_ns: Option<u64>) {
        // A zero time would disarm; anything in the past rings at once.
        let at_ns = at_ns.map_or(0, |at_ns| at_ns.max(1));
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let at = libc::timespec {
            tv_sec: i64::try_from(at_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(at_ns % 1_000_000_000).unwrap_or(0),
        };
        let spec = libc::itimerspec { it_interval: zero, it_value: at };
        // SAFETY: the descriptor is a timerfd we own; `spec` lives through the call.
        unsafe {
            libc::timerfd_settime(
                self.fd.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const spec,
                ptr::null_mut(),
            );
        }
    }
}

/// How much before a due time to be woken, learnt from how late earlier alarms were noticed.
///
/// An idle CPU wakes more slowly than a busy one, and how slowly is the host's business.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margin {
    ns: u64,
}

impl Margin {
    const NS_MIN: u64 = 60_000;
    const NS_MAX: u64 = 300_000;

    /// The least margin.
    pub(crate) fn new() -> Self {
        Self { ns: Self::NS_MIN }
    }

    /// The margin now, in ns.
    pub(crate) fn ns(self) -> u64 {
        self.ns
    }

    /// An alarm was noticed `late_ns` after the time it was set to.
    pub(crate) fn on_wake(&mut self, late_ns: u64) {
        // Up at once, down slowly: waking too early costs a little CPU, too late an event.
        let wanted_ns = late_ns.saturating_add(late_ns / 4);
        let fallen_ns = self.ns - self.ns / 64;
        self.ns = wanted_ns.max(fallen_ns).clamp(Self::NS_MIN, Self::NS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_grows_at_once_and_shrinks_slowly_between_its_bounds() {
        let mut margin = Margin::new();
        margin.on_wake(100_000);
        assert_eq!(margin.ns(), 125_000);
        margin.on_wake(10_000);
        assert!((120_000..125_000).contains(&margin.ns()));
        margin.on_wake(u64::MAX);
        assert_eq!(margin.ns(), Margin::NS_MAX);
        for _ in 0..1_000 {
            margin.on_wake(0);
        }
        assert_eq!(margin.ns(), Margin::NS_MIN);
    }

    #[test]
    fn a_realtime_stamp_lands_on_the_monotonic_clock() {
        let mut offset = Offset::new();
        let before = monotonic_ns();
        let real = realtime_ns();
        let after = monotonic_ns();
        let mapped = offset.on_monotonic(real, after);
        // The offset itself is known to within its bracket, far below this slack.
        assert!(mapped + 1_000_000 >= before && mapped <= after + 1_000_000);
    }

    #[test]
    fn an_alarm_set_to_the_past_rings() {
        let alarm = Alarm::new().unwrap();
        alarm.set(Some(1));
        let mut poll = libc::pollfd { fd: alarm.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 5_000) }, 1);
        alarm.set(None);
        // SAFETY: one valid pollfd.
        assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 0) }, 0);
    }
}
