//! What time is read from, and whether the wall clock is kept right.

use super::facts::Facts;
use super::finding::Finding;
use crate::report::text::number;

/// The kernel's clock source and our own.
pub(super) fn clock(facts: &Facts) -> Finding {
    const FAST: [&str; 5] = [
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
        "riscv_clocksource",
    ];
    let cost = number(Some(facts.stamp_source.reading_ns));
    let ours = if facts.stamp_source.counter {
        format!("tokclock reads the CPU's own counter in {cost} ns")
    } else {
        format!(
            "tokclock reads the kernel's clock in {cost} ns, since the CPU's counter is not steady"
        )
    };
    let Some(source) = &facts.clock_source else {
        return Finding::unknown(
            "clock",
            "clock",
            format!("The kernel does not say what it keeps time by; {ours}."),
        );
    };
    let found = Finding::new(
        "clock",
        "clock",
        format!("the kernel keeps time by {}; {ours}", source.current),
        "Kernel stamps are made by the one, our own by the other; they are tied together anew many \
         times a second.",
    );
    if FAST.contains(&source.current.as_str()) {
        return found;
    }
    let advice = "This clock source takes about a microsecond and more for each reading, and the \
                  kernel reads it for every stamp.";
    if source.available.iter().any(|one| one == "tsc") {
        return found.warn(advice).command(
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        );
    }
    found.warn(format!("{advice} The kernel does not trust the TSC here; its log says why."))
}

/// What steers CLOCK_REALTIME.
pub(super) fn wall_clock(facts: &Facts) -> Finding {
    let Some(discipline) = facts.discipline else {
        return Finding::unknown(
            "wall_clock",
            "wall clock",
            "This process may not ask how the wall clock is steered. A run notices steps by itself.",
        );
    };
    let state = if discipline.synchronised { "kept in step" } else { "kept in step by nobody" };
    let ppm = discipline.frequency_ppm;
    let found = Finding::new(
        "wall_clock",
        "wall clock",
        format!("{state}; frequency corrected by {ppm:.3} ppm"),
        "Kernel stamps are wall-clock times, converted on arrival. Slow corrections do no harm; a \
         step is noticed at once and moves no latency by more than the lag of one read.",
    );
    if discipline.leap {
        return found
            .note("A leap second comes at the end of this day (UTC): measure at another time.");
    }
    if discipline.synchronised {
        return found;
    }
    found.note(
        "Latencies do not depend on it. Times of this host and of a server's log can be compared \
         only if both keep step, by chrony or another NTP client.",
    )
}
