//! Starts what is due when it is due: the arrivals of an open loop, the users of a closed one.

use std::os::fd::AsRawFd;

use monoio::net::TcpStream;

use super::core::Shared;
use super::driver::Turn;
use super::socket;

/// How far ahead of a due time the pacer wakes at least, ns.
const MARGIN_MIN_NS: u64 = 30_000;
/// And at most.
const MARGIN_MAX_NS: u64 = 300_000;
/// The last stretch is waited out without giving way, ns.
const HARD_SPIN_NS: u64 = 2_000;
/// Longest sleep, ns, so that an end of the run is noticed.
const SLEEP_MAX_NS: u64 = 50_000_000;
/// A turn in which nothing was read or begun was waiting; for so long of it at most, ns, since a longer
/// one was interrupted.
const EMPTY_TURN_MAX_NS: u64 = 20_000;
/// After so many starts in a row the others get a turn.
const BURST: u32 = 16;

/// How far ahead to wake, from how late wake-ups have been.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Margin {
    /// Estimate of the 99th percentile of lateness, ns.
    late_ns: f64,
}

impl Margin {
    /// Starts careful.
    pub(crate) fn new() -> Self {
        Self { late_ns: 100_000.0 }
    }

    /// A wake-up came `late_ns` after its time. A stochastic quantile estimate: a step up for a value
    /// above it weighs 99 times a step down, so it settles where 1 % lies above.
    pub(crate) fn observe(&mut self, late_ns: u64) {
        let step = (self.late_ns * 0.02).max(200.0);
        if late_ns as f64 > self.late_ns {
            self.late_ns += step * 0.99;
        } else {
            self.late_ns -= step * 0.01;
        }
        self.late_ns = self.late_ns.clamp(0.0, 10_000_000.0);
    }

    /// The margin, ns.
    pub(crate) fn ns(self) -> u64 {
        (self.late_ns as u64).clamp(MARGIN_MIN_NS, MARGIN_MAX_NS)
    }

    /// The estimate, ns.
    pub(crate) fn late_ns(self) -> u64 {
        self.late_ns as u64
    }
}

/// What waits for due times on one reactor.
pub(crate) struct Pacer {
    core: Shared,
    timer: TcpStream,
    turn: Turn,
    margin: Margin,
    spin_ns: u64,
    /// Gives way instead of sleeping, to the end of the run.
    is_awake: bool,
}

impl Pacer {
    /// Must be made inside the runtime.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub(crate) fn new(core: Shared) -> std::io::Result<Self> {
        let timer = socket::waitable(socket::timerfd(libc::CLOCK_MONOTONIC)?)?;
        let is_awake = core.borrow().setup.spin;
        let turn = Turn::new()?;
        Ok(Self { core, timer, turn, margin: Margin::new(), spin_ns: 0, is_awake })
    }

    /// Starts all arrivals of `schedule`, `(index, due)` in order, and what is put off until an
    /// instant, until it or the run ends.
    pub(crate) async fn arrivals(mut self, schedule: impl Iterator<Item = (u64, u64)>) {
        let mut burst = 0;
        for (index, due) in schedule {
            if due >= self.core.borrow().start.window.end() || !self.wait_until(due).await {
                break;
            }
            if !self.core.borrow_mut().arrive(index, due) {
                break;
            }
            self.give_way(&mut burst).await;
        }
        self.end().await;
    }

    /// Starts the users of a closed loop at the instants of `starts`, in order, and what is put off.
    pub(crate) async fn users(mut self, starts: impl Iterator<Item = u64>) {
        let mut burst = 0;
        for (user, start) in (0..).zip(starts) {
            if !self.wait_until(start).await {
                break;
            }
            self.core.borrow_mut().user_free(start, user, false);
            self.give_way(&mut burst).await;
        }
        self.end().await;
    }

    async fn end(mut self) {
        self.core.borrow_mut().paced_out = true;
        let pauses = self.core.borrow().plan.has_pauses();
        while pauses && self.serve_pauses().await {}
        while self.is_awake && !self.core.borrow().is_over {
            self.turn().await;
        }
        let mut core = self.core.borrow_mut();
        let tally = core.recorder.tally();
        tally.spin_ns += self.spin_ns;
        tally.wake_late_p99_ns = self.margin.late_ns();
    }

    /// Starts what is put off next. Returns false if nothing begins any more.
    async fn serve_pauses(&mut self) -> bool {
        let (soonest, now) = {
            let core = self.core.borrow();
            (core.agenda.soonest(), core.clock.now())
        };
        // Where nothing is put off, somebody may be before this is over.
        let due = soonest.min(now + SLEEP_MAX_NS);
        match self.wait_for(due).await {
            Waited::Ended => return false,
            Waited::Sooner => {}
            Waited::Reached => self.core.borrow_mut().start_due(),
        }
        true
    }

    async fn give_way(&self, burst: &mut u32) {
        *burst += 1;
        if *burst >= BURST {
            *burst = 0;
            self.turn.take().await;
        }
    }

    /// Waits for `due`, and starts what is put off until before it. Returns false if the run ended.
    async fn wait_until(&mut self, due: u64) -> bool {
        loop {
            let soonest = self.core.borrow().agenda.soonest();
            let waited = self.wait_for(due.min(soonest)).await;
            match waited {
                Waited::Ended => return false,
                Waited::Sooner => {}
                Waited::Reached if soonest < due => self.core.borrow_mut().start_due(),
                Waited::Reached => return true,
            }
        }
    }

    /// Waits for `due`, unless something is put off until before it.
    async fn wait_for(&mut self, due: u64) -> Waited {
        loop {
            let Look { now, issuing, clock_at, soonest } = self.look(due);
            if !issuing {
                return Waited::Ended;
            }
            if soonest < due {
                return Waited::Sooner;
            }
            if self.is_awake && now + HARD_SPIN_NS < due {
                self.turn().await;
                continue;
            }
            let margin = self.margin.ns();
            if now + margin >= due {
                break;
            }
            let wake = (due - margin).min(now + SLEEP_MAX_NS);
            let fd = self.timer.as_raw_fd();
            socket::arm(fd, clock_at - due + wake);
            self.core.borrow_mut().agenda.sleeps(fd, wake, margin);
            let _ = self.timer.readable(false).await;
            let _ = socket::drain(fd);
            let wake = self.core.borrow_mut().agenda.is_awake().unwrap_or(wake);
            let late = self.now().saturating_sub(wake);
            self.margin.observe(late);
        }
        self.spin(due).await
    }

    /// Gives way until shortly before `due`, then waits it out.
    async fn spin(&mut self, due: u64) -> Waited {
        let mut now = self.now();
        while now + HARD_SPIN_NS < due {
            now = self.turn().await;
            if self.core.borrow().agenda.soonest() < due {
                return Waited::Sooner;
            }
        }
        let clock = self.core.borrow();
        let start = now;
        while now < due {
            std::hint::spin_loop();
            now = clock.clock.now();
        }
        self.spin_ns += now - start;
        Waited::Reached
    }

    /// Lets everybody else work once. Returns the time after that.
    async fn turn(&mut self) -> u64 {
        let (before, work) = self.so_far();
        self.turn.take().await;
        let (after, work_after) = self.so_far();
        if work == work_after {
            self.spin_ns += (after - before).min(EMPTY_TURN_MAX_NS);
        }
        after
    }

    /// Now, and how much this reactor has read and begun.
    fn so_far(&self) -> (u64, u64) {
        let mut core = self.core.borrow_mut();
        (core.clock.now(), core.issued + core.recorder.tally().reads)
    }

    fn now(&self) -> u64 {
        self.core.borrow().clock.now()
    }

    fn look(&self, due: u64) -> Look {
        let core = self.core.borrow();
        Look {
            now: core.clock.now(),
            issuing: core.issuing,
            clock_at: core.clock.monotonic(due),
            soonest: core.agenda.soonest(),
        }
    }
}

/// How a wait ended.
enum Waited {
    /// The instant has come.
    Reached,
    /// Something is due before it.
    Sooner,
    /// Nothing is started any more.
    Ended,
}

/// What a wait depends on.
struct Look {
    now: u64,
    /// Requests are still issued.
    issuing: bool,
    /// What is waited for, on CLOCK_MONOTONIC.
    clock_at: u64,
    /// When something put off is due.
    soonest: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_follows_the_lateness_of_wake_ups_within_bounds() {
        let mut margin = Margin::new();
        for _ in 0..100_000 {
            margin.observe(5_000);
        }
        assert_eq!(margin.ns(), MARGIN_MIN_NS, "a quick host needs little");
        for _ in 0..1_000 {
            margin.observe(2_000_000);
        }
        assert_eq!(margin.ns(), MARGIN_MAX_NS, "a slow one gets no more than the bound");
    }

    #[test]
    fn one_wake_up_in_a_hundred_lies_above_the_estimate() {
        let mut margin = Margin::new();
        // Lateness uniform over 0..100 µs, in a fixed order that visits all of it.
        let mut late = 0_u64;
        for _ in 0..200_000 {
            late = (late + 61_803) % 100_000;
            margin.observe(late);
        }
        assert!((95_000..=102_000).contains(&margin.late_ns()), "{}", margin.late_ns());
    }
}
