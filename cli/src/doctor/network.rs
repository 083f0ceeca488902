//! The way to the target, and where arrivals are stamped.

use super::cpus::node_of_reactors;
use super::facts::Facts;
use super::finding::Finding;
use crate::report::text::count;

/// The interface that the load takes.
pub(super) fn interface(facts: &Facts) -> Finding {
    let (id, title) = ("interface", "interface");
    let from = facts.route.from;
    let Some(interface) = &facts.interface else {
        return Finding::unknown(
            id,
            title,
            format!("No interface of this network namespace has the address {from}."),
        );
    };
    let name = match facts.route.interface.as_deref() {
        Some(upper) if upper != interface.name => format!("{upper} over {}", interface.name),
        _ => interface.name.clone(),
    };
    let mtu = interface.mtu.map_or_else(String::new, |mtu| format!(", MTU {mtu}"));
    if facts.is_local() {
        return Finding::new(
            id,
            title,
            format!("{name}{mtu}"),
            "Loopback: client and server share this host, so what is measured is both. No hardware, \
             no interrupts.",
        );
    }
    let Some(driver) = &interface.driver else {
        return Finding::new(
            id,
            title,
            format!("{name} from {from}, in software{mtu}"),
            "No device is below it that is to be seen here: a tunnel, or a container's end of a pair.",
        )
        .note(
            "What the card behind it does shows on the host only: run tokclock doctor there too.",
        );
    };
    let speed = interface
        .speed_mbit
        .map_or_else(|| ", speed unknown".to_owned(), |mbit| format!(", {} Mbit/s", count(mbit)));
    let found = Finding::new(
        id,
        title,
        format!("{name} from {from}, {driver}{speed}{mtu}"),
        "The way to the target. Tokens are small: its delay matters, its speed hardly does.",
    );
    match (interface.node, node_of_reactors(facts)) {
        (Some(card), Some(reactors)) if card != reactors => found.note(format!(
            "The card is on NUMA node {card}, reactors on node {reactors}: CPUs of its own node \
             have it nearer (--cpus)."
        )),
        _ => found,
    }
}

/// Which CPU makes a stamp, and when.
pub(super) fn stamp_place(facts: &Facts) -> Finding {
    let (id, title) = ("stamp_place", "stamp place");
    let place = if facts.is_local() {
        "On loopback the sender's CPU makes the stamp, inside its send: a busy client cannot delay \
         it."
    } else {
        "A network card's interrupt makes the stamp, on the CPU that takes it: what holds that CPU \
         up in the kernel can delay the stamp, and that counts as the server's time."
    };
    match facts.network.stamp_before_queue {
        None => Finding::unknown(
            id,
            title,
            format!("net.core.netdev_tstamp_prequeue is not to be seen here. {place}"),
        ),
        Some(true) => Finding::new(
            id,
            title,
            "before packets are queued (net.core.netdev_tstamp_prequeue=1)",
            place,
        ),
        Some(false) => Finding::new(
            id,
            title,
            "after packets were queued to a CPU (net.core.netdev_tstamp_prequeue=0)",
            place,
        )
        .note("Time in that queue is missing from the lag and lies inside latencies.")
        .command("sudo sysctl -w net.core.netdev_tstamp_prequeue=1"),
    }
}

/// Whether readers look for packets themselves.
pub(super) fn busy_poll(facts: &Facts) -> Finding {
    let (id, title) = ("busy_poll", "busy poll");
    let (Some(poll), Some(read)) = (facts.network.busy_poll_us, facts.network.busy_read_us) else {
        return Finding::unknown(
            id,
            title,
            "net.core.busy_poll and busy_read are not to be seen here (a network namespace hides \
             them).",
        );
    };
    let found = Finding::new(
        id,
        title,
        format!("busy_poll {poll} µs, busy_read {read} µs"),
        if poll + read == 0 {
            "Packets come by interrupt, whether or not a reactor reads."
        } else {
            "A reactor that finds nothing looks into the card's queue itself: stamps are then made \
             on its own CPU."
        },
    );
    if read > 0 {
        return found
            .note("Stamps of a busy reactor come late with it. Without it interrupts make them:")
            .command("sudo sysctl -w net.core.busy_read=0");
    }
    found
}

/// What the receive path lost so far.
pub(super) fn losses(facts: &Facts) -> Finding {
    let (id, title) = ("softnet", "softnet");
    let Some(softnet) = facts.softnet else {
        return Finding::unknown(
            id,
            title,
            "The kernel does not count what its receive path lost.",
        );
    };
    let found = Finding::new(
        id,
        title,
        format!(
            "{} packets dropped, {} turns ended with packets left, since the host started",
            count(softnet.dropped),
            count(softnet.squeezed)
        ),
        "A dropped packet is sent again after 200 ms or more, which looks like a slow server.",
    );
    if softnet.dropped > 0 {
        let longer = facts.network.backlog.unwrap_or(1000).saturating_mul(10);
        return found
            .note("If the count grows during a run, let more packets wait:")
            .command(format!("sudo sysctl -w net.core.netdev_max_backlog={longer}"));
    }
    found
}
