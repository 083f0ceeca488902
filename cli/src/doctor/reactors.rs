//! What was tried: the driver, kernel stamps, wake-ups, the timer.

use std::io::{Error, ErrorKind};

use tokclock_engine::reactor::trial::{CpuTrial, Spread};
use tokclock_engine::reactor::{Refusal, Refused};
use tokclock_engine::workload::{ClientFigure, Thresholds};

use super::facts::Facts;
use super::finding::Finding;
use crate::report::text::{count, duration, percent};

/// How far ahead the pacer wakes at most, ns: later wake-ups make sends late.
const PACER_MARGIN_NS: u64 = 300_000;
/// A median wake-up later than this comes from a CPU that sleeps deeply, ns.
const DEEP_SLEEP_NS: u64 = 100_000;

/// The driver that reactors get, and why no better one.
pub(super) fn driver(facts: &Facts) -> Finding {
    let driver = &facts.trial.driver;
    let flags = if driver.ring.is_empty() { String::new() } else { format!(" ({})", driver.ring) };
    let found = Finding::new(
        "driver",
        "driver",
        format!("{}{flags}", driver.driver),
        match (driver.driver, facts.trial.refused.is_empty()) {
            ("io_uring", true) => "The best there is: completions are taken when the reactor asks.",
            ("io_uring", false) => {
                "Without DEFER_TASKRUN a reactor is interrupted by completions and is full at about \
                 half the load."
            }
            _ => "Right on all counts, and about as fast as the ring in tests.",
        },
    );
    let Some(refused) = facts.trial.refused.first() else { return found };
    why_refused(found, refused, facts)
}

fn why_refused(found: Finding, refused: &Refused, facts: &Facts) -> Finding {
    let errno = match refused.why {
        Refusal::Forced => {
            return found
                .note("MONOIO_FORCE_LEGACY_DRIVER asks for epoll.")
                .command("unset MONOIO_FORCE_LEGACY_DRIVER");
        }
        Refusal::Incomplete => {
            return found
                .note("The kernel's io_uring lacks what is needed: it came with Linux 5.11.");
        }
        Refusal::Errno(errno) => errno,
    };
    if let Some(ring) = refused.ring {
        let said = Error::from_raw_os_error(errno);
        return found.note(format!(
            "The kernel refused {ring} ({said}); SINGLE_ISSUER and DEFER_TASKRUN came with Linux 6.1."
        ));
    }
    let is_filtered = facts.seccomp.is_some_and(|mode| mode > 0);
    match (Error::from_raw_os_error(errno).kind(), facts.ring_disabled) {
        (ErrorKind::PermissionDenied, Some(1 | 2)) => found
            .note("The sysctl kernel.io_uring_disabled forbids io_uring.")
            .command("sudo sysctl -w kernel.io_uring_disabled=0"),
        (ErrorKind::PermissionDenied, _) if is_filtered => found.note(
            "A seccomp filter forbids io_uring, as those of container runtimes do. A profile that \
             allows io_uring_setup, io_uring_enter and io_uring_register gives it back (docker run \
             --security-opt seccomp=FILE).",
        ),
        (ErrorKind::Unsupported, _) if is_filtered => {
            found.note("The kernel has no io_uring, or a seccomp filter says so on its behalf.")
        }
        (ErrorKind::Unsupported, _) => found.note("This kernel has no io_uring."),
        (ErrorKind::OutOfMemory, _) => found
            .note("Before Linux 5.12 rings count as locked memory: raise that limit.")
            .command("ulimit -l unlimited"),
        _ => {
            let said = Error::from_raw_os_error(errno);
            found.note(format!("The kernel makes no ring: {said}."))
        }
    }
}

/// Whether the kernel stamps what arrives, tried on loopback.
pub(super) fn stamps(facts: &Facts) -> Finding {
    let sum = |of: fn(&CpuTrial) -> u64| facts.trial.cpus.iter().map(of).sum::<u64>();
    let (reads, stamped, accepted) =
        (sum(|one| one.reads), sum(|one| one.stamped), sum(|one| one.accepted));
    let share = |part: u64| (reads > 0).then(|| part as f64 / reads as f64);
    let lag = worst(facts, |one| one.lag).map_or_else(String::new, |(_, lag)| {
        format!("; lag p50 {}, p99 {}", duration(Some(lag.p50)), duration(Some(lag.p99)))
    });
    let found = Finding::new(
        "stamps",
        "stamps",
        format!(
            "{} of {} reads stamped, {} acceptable{lag}",
            count(stamped),
            count(reads),
            percent(share(accepted))
        ),
        "The kernel says when bytes arrived, so how long they then waited for us (the lag) is in no \
         latency.",
    );
    if accepted == 0 {
        return found.warn(
            "No stamp came that can be used: every latency will hold the client's own delay, as \
             with --stamps observed.",
        );
    }
    let limit = Thresholds::default().get(ClientFigure::Unstamped);
    if share(reads - accepted).is_some_and(|missing| missing > limit) {
        return found.note(
            "Reads without an acceptable stamp take the time at which we handled them. A busy host \
             or a wall clock that is being set makes them.",
        );
    }
    found
}

/// How late the reactors' CPUs wake.
pub(super) fn wake_ups(facts: &Facts) -> Finding {
    let (Some((_, timer)), Some((cpu, socket))) =
        (worst(facts, |one| one.timer), worst(facts, |one| one.socket))
    else {
        return Finding::unknown("wake_ups", "wake-ups", "No wake-up could be timed.");
    };
    let of = match facts.trial.cpus.len() {
        1 => format!("CPU {cpu}"),
        all => format!("worst of {all} CPUs"),
    };
    let found = Finding::new(
        "wake_ups",
        "wake-ups",
        format!(
            "by timer p50 {}, p99 {}; by socket p50 {}, p99 {} ({of})",
            duration(Some(timer.p50)),
            duration(Some(timer.p99)),
            duration(Some(socket.p50)),
            duration(Some(socket.p99))
        ),
        "How late an idle reactor has what is due or has come. Kernel stamps keep it out of \
         latencies, and the pacer wakes up to 0.3 ms early to send in time.",
    );
    let late = timer.p99.max(socket.p99);
    let limit = Thresholds::default().get(ClientFigure::Lag);
    if late as f64 > limit {
        return found.warn(format!(
            "A lag p99 above {} makes a run suspect. {}",
            duration(Some(limit as u64)),
            causes(facts)
        ));
    }
    if late > PACER_MARGIN_NS || timer.p50.max(socket.p50) > DEEP_SLEEP_NS {
        return found.note(causes(facts));
    }
    found
}

/// What makes wake-ups late, as far as this host shows.
fn causes(facts: &Facts) -> &'static str {
    if super::cpus::is_crowded(facts) {
        "Others run on these CPUs (see load): end them, or look again when the host is quiet."
    } else if facts.cpus.virtual_machine == Some(true) {
        "The hypervisor has to give a halted CPU back first. A guest that never halts (idle=poll on \
         the kernel's command line) wakes sooner, at a full core's cost."
    } else {
        "Deep sleep and a low frequency make CPUs wake late: see idle and governor."
    }
}

/// The widest spread of all CPUs, by its 99th percentile, and whose it is.
fn worst(facts: &Facts, of: impl Fn(&CpuTrial) -> Option<Spread>) -> Option<(usize, Spread)> {
    let all = facts.trial.cpus.iter().filter_map(|one| Some((one.cpu, of(one)?)));
    all.max_by_key(|(_, spread)| spread.p99)
}

/// Whether timers keep to nanoseconds.
pub(super) fn timer(facts: &Facts) -> Finding {
    let least = facts.trial.cpus.iter().filter_map(|one| one.timer).map(|timer| timer.min).min();
    let Some(resolution) = facts.timer_resolution_ns else {
        return Finding::unknown(
            "timer",
            "timer",
            "The kernel does not tell how fine its timers are.",
        );
    };
    let found = Finding::new(
        "timer",
        "timer",
        format!("resolution {resolution} ns, the promptest wake-up {} late", duration(least)),
        "The pacer waits on a timerfd, which timer slack does not touch.",
    );
    if resolution > 1_000 {
        return found.warn(
            "Without high-resolution timers every wait ends at a tick: start the kernel without \
             highres=off and nohz=off.",
        );
    }
    found
}
