//! The receive queues of a network card: who is interrupted, when, and where packets go from there.

use std::collections::BTreeSet;

use tokclock_engine::telemetry::host::{Interface, Irq};

use super::facts::Facts;
use super::finding::Finding;
use crate::report::text::{number, plural};
use crate::values::CpuList;

/// A network card, where the load takes one.
fn card(facts: &Facts) -> Option<&Interface> {
    facts.interface.as_ref().filter(|interface| interface.driver.is_some())
}

/// Which CPUs take its interrupts.
pub(super) fn interrupts(facts: &Facts) -> Option<Finding> {
    let (id, title) = ("interrupts", "interrupts");
    let card = card(facts)?;
    let meaning = "The CPU that takes an interrupt also carries its packets up to the socket, and \
                   makes their stamps.";
    let known: Vec<&Irq> = card.irqs.iter().filter(|irq| !irq.cpus.is_empty()).collect();
    if known.is_empty() {
        return Some(Finding::unknown(
            id,
            title,
            "Which CPUs the card interrupts is not to be seen here.",
        ));
    }
    let cpus: BTreeSet<usize> = known.iter().flat_map(|irq| &irq.cpus).copied().collect();
    let queues = known.len();
    let found = Finding::new(
        id,
        title,
        format!(
            "{queues} receive {} CPU {}",
            plural(queues as u64, "queue interrupts", "queues interrupt"),
            CpuList(cpus.into_iter().collect())
        ),
        meaning,
    );
    let meets = |irq: &&&Irq| irq.cpus.iter().any(|cpu| facts.reactors.contains(cpu));
    let Some(first) = known.iter().find(meets) else { return Some(found) };
    let found = found.note(format!(
        "A reactor's CPU takes {} of them: its work can delay stamps, and they take time from it. \
         Stop irqbalance and move each (numbers in /proc/interrupts, named as {}), or take other CPUs (--cpus).",
        known.iter().filter(meets).count(),
        first.name
    ));
    Some(match facts.left_over {
        Some(cpu) => {
            let to = format!("/proc/irq/{}/smp_affinity_list", first.number);
            found.command(format!("echo {cpu} | sudo tee {to}"))
        }
        None => found,
    })
}

/// How long the card waits before it interrupts.
pub(super) fn moderation(facts: &Facts) -> Option<Finding> {
    let (id, title) = ("moderation", "moderation");
    let name = &card(facts)?.name;
    let Some(coalescing) = facts.coalescing else {
        return Some(Finding::unknown(
            id,
            title,
            format!("The driver does not tell how it holds back interrupts (ethtool -c {name})."),
        ));
    };
    let adaptive = if coalescing.adaptive { "adaptive, " } else { "" };
    let found = Finding::new(
        id,
        title,
        format!(
            "{adaptive}rx-usecs {}, rx-frames {}",
            coalescing.receive_us, coalescing.receive_packets
        ),
        "How long a packet waits in the card before the interrupt that stamps it: the wait is in \
         every latency.",
    );
    if coalescing.adaptive || coalescing.receive_us > 0 {
        return Some(
            found
                .note("To have each arrival stamped at once, at the cost of more interrupts:")
                .command(format!("sudo ethtool -C {name} adaptive-rx off rx-usecs 0")),
        );
    }
    Some(found)
}

/// Whether segments that arrive together are merged, and held back for that.
pub(super) fn merging(facts: &Facts) -> Option<Finding> {
    let (id, title) = ("gro", "GRO");
    let card = card(facts)?;
    let state = match facts.gro {
        Some(true) => "on",
        Some(false) => "off",
        None => super::finding::UNKNOWN,
    };
    let held = card.hold_ns.map_or_else(String::new, |ns| {
        format!(", packets held for {} µs", number(Some(ns as f64 / 1e3)))
    });
    let found = Finding::new(
        id,
        title,
        format!("{state}{held}"),
        "Segments of one connection that one interrupt finds are merged and have one stamp, the \
         same as if they were read together. Streams of tokens seldom meet so.",
    );
    if card.hold_ns.is_some_and(|ns| ns > 0) {
        return Some(
            found.note("Held packets are stamped when they are let go:").command(format!(
                "echo 0 | sudo tee /sys/class/net/{}/gro_flush_timeout",
                card.name
            )),
        );
    }
    if facts.gro.is_none() {
        return Some(
            found.note(format!("The driver does not tell: ask ethtool -k {}.", card.name)),
        );
    }
    Some(found)
}

/// Whether software moves packets to other CPUs.
pub(super) fn steering(facts: &Facts) -> Finding {
    let (id, title) = ("rps", "RPS, RFS");
    let Some(interface) = &facts.interface else {
        return Finding::unknown(id, title, "Without an interface there are no queues to look at.");
    };
    let spread: BTreeSet<usize> =
        interface.queues.iter().flat_map(|queue| &queue.rps).copied().collect();
    let follows = facts.network.rfs_entries.is_some_and(|entries| entries > 0)
        && interface.queues.iter().any(|queue| queue.flows > 0);
    let meaning = "Whether packets are handed to another CPU after the interrupt, before they reach \
                   a socket.";
    if interface.queues.is_empty() {
        return Finding::unknown(id, title, "The queues of the interface are not to be seen here.");
    }
    if spread.is_empty() {
        let value = format!(
            "off on {} {}",
            interface.queues.len(),
            plural(interface.queues.len() as u64, "queue", "queues")
        );
        return Finding::new(id, title, value, meaning);
    }
    let rfs = if follows { ", towards the reader (RFS)" } else { "" };
    let list = CpuList(spread.iter().copied().collect());
    let found = Finding::new(id, title, format!("packets go to CPU {list}{rfs}"), meaning);
    if facts.network.stamp_before_queue == Some(false) {
        return found.note(
            "Stamps are made after that hand-over (see stamp place), so they wait for those CPUs.",
        );
    }
    if spread.iter().any(|cpu| facts.reactors.contains(cpu)) {
        return found.note(
            "Reactors' CPUs do this work beside their own. Stamps are made before, so they do not \
             suffer.",
        );
    }
    found
}
