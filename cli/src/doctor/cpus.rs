//! The CPUs: which ones reactors take, what else runs on them, how fast and how deep they sleep.

use std::collections::BTreeSet;

use tokclock_engine::telemetry::host::Cpu;
use tokclock_engine::workload::{ClientFigure, Thresholds};

use super::facts::Facts;
use super::finding::{Finding, UNKNOWN};
use crate::report::text::{count, number, percent, plural};
use crate::values::CpuList;

/// A sleep that takes longer to wake from makes late wake-ups, µs.
const EXIT_MAX_US: u64 = 20;
/// Threads that want to run, per CPU, from which on they meet reactors.
const CROWDED: f64 = 0.8;
/// And from which on they may.
const BUSY: f64 = 0.3;

/// Which CPUs there are and which ones reactors take.
pub(super) fn places(facts: &Facts) -> Finding {
    let all = facts.allowed.len();
    let cores = distinct(facts, |cpu| Some(cpu.core));
    let nodes = distinct(facts, |cpu| cpu.node);
    let node_text = match nodes {
        0 => String::new(),
        some => format!(" on {some} NUMA {}", plural(some as u64, "node", "nodes")),
    };
    let rest = facts.left_over.map_or_else(
        || "none is left for the rest".to_owned(),
        |cpu| format!("CPU {cpu} is left for the rest"),
    );
    let found = Finding::new(
        "cpus",
        "CPUs",
        format!(
            "{} ({all} {}, {cores} physical {}{node_text}); reactors take {}, {rest}",
            CpuList(facts.allowed.clone()),
            plural(all as u64, "CPU", "CPUs"),
            plural(cores as u64, "core", "cores"),
            CpuList(facts.reactors.clone()),
        ),
        "The most that a large load takes: a run takes as many of these as it needs. What prepares \
         requests and writes results shares the rest.",
    );
    if facts.left_over.is_none() {
        return found.warn(
            "Without a CPU of their own, the threads that prepare and write wait for reactors: \
             allow another CPU (taskset, cpusets), or give fewer --reactors if there are several.",
        );
    }
    let taken_cores: BTreeSet<usize> = taken(facts).map(|cpu| cpu.core).collect();
    if taken_cores.len() < facts.reactors.len() {
        return found.note("Two reactors on one physical core slow each other down: name one CPU of each (--cpus).");
    }
    let taken_nodes: BTreeSet<usize> = taken(facts).filter_map(|cpu| cpu.node).collect();
    if taken_nodes.len() > 1 {
        return found.note(
            "Reactors lie on several NUMA nodes: those away from the network card have longer ways \
             (--cpus chooses).",
        );
    }
    found
}

fn distinct(facts: &Facts, of: impl Fn(&Cpu) -> Option<usize>) -> usize {
    facts.cpus.cpus.iter().filter_map(of).collect::<BTreeSet<_>>().len()
}

/// Whether the scheduler keeps CPUs free.
pub(super) fn isolation(facts: &Facts) -> Finding {
    let Some(isolated) = &facts.cpus.isolated else {
        return Finding::unknown(
            "isolation",
            "isolation",
            "The kernel does not say whether it keeps CPUs free of others.",
        );
    };
    let tickless = facts.cpus.nohz_full.as_ref().filter(|cpus| !cpus.is_empty());
    let tickless =
        tickless.map_or_else(String::new, |cpus| format!(", nohz_full {}", CpuList(cpus.clone())));
    if isolated.is_empty() {
        return Finding::new(
            "isolation",
            "isolation",
            format!("no CPU is isolated{tickless}"),
            "Any thread of this host may take turns with a reactor on its CPU: what else runs \
             matters (see load).",
        );
    }
    let list = CpuList(isolated.clone());
    let found = Finding::new(
        "isolation",
        "isolation",
        format!("CPUs {list} are isolated{tickless}"),
        "The scheduler places no other thread on them.",
    );
    if facts.reactors.iter().all(|cpu| isolated.contains(cpu)) {
        return found;
    }
    // Their CPUs are not in the mask of a process that was not placed there.
    found
        .note("Reactors would not run on them. Allow them, and one other CPU for the rest:")
        .command(format!(
            "taskset -c {list},{} tokclock run --cpus {list} URL",
            facts.allowed.iter().find(|cpu| !isolated.contains(cpu)).unwrap_or(&0)
        ))
}

/// How deep idle CPUs sleep.
pub(super) fn idle(facts: &Facts) -> Finding {
    let (id, title) = ("idle", "idle");
    let meaning = "How deep a CPU sleeps between arrivals decides how late it wakes.";
    if facts.cpus.idle_option.as_deref() == Some("poll") {
        let value = "idle=poll: CPUs never sleep";
        return Finding::new(id, title, value, meaning);
    }
    let deepest = taken(facts)
        .flat_map(|cpu| &cpu.idle_states)
        .filter(|state| !state.disabled)
        .max_by_key(|state| state.exit_us);
    let governor = facts.cpus.idle_governor.as_deref().unwrap_or(UNKNOWN);
    let Some(deepest) = deepest else {
        let guest = facts.cpus.virtual_machine == Some(true);
        return match (facts.cpus.idle_driver.as_deref(), guest) {
            (Some("none"), true) => Finding::new(
                id,
                title,
                "the guest has no sleep states: it halts, and the host decides",
                meaning,
            ),
            (Some("none"), false) => {
                Finding::new(id, title, "no sleep states: CPUs only halt", meaning)
            }
            _ => Finding::unknown(id, title, "The kernel does not say how its CPUs sleep."),
        };
    };
    let found = Finding::new(
        id,
        title,
        format!(
            "down to {} ({} µs to wake), chosen by {governor}",
            deepest.name,
            count(deepest.exit_us)
        ),
        meaning,
    );
    if deepest.exit_us > EXIT_MAX_US {
        return found
            .note("Forbid states that take longer than 20 µs to wake from (until the next start):")
            .command(format!("sudo cpupower idle-set -D {}", EXIT_MAX_US + 1));
    }
    found
}

fn taken(facts: &Facts) -> impl Iterator<Item = &Cpu> {
    facts.cpus.cpus.iter().filter(|cpu| facts.reactors.contains(&cpu.number))
}

/// What decides on the frequency.
pub(super) fn governor(facts: &Facts) -> Finding {
    let (id, title) = ("governor", "governor");
    let governors: BTreeSet<&str> =
        taken(facts).filter_map(|cpu| cpu.governor.as_deref()).collect();
    let drivers: BTreeSet<&str> =
        taken(facts).filter_map(|cpu| cpu.frequency_driver.as_deref()).collect();
    if governors.is_empty() {
        let why = if facts.cpus.virtual_machine == Some(true) {
            "A guest does not see the frequency of its CPUs: the host decides."
        } else {
            "The kernel does not show what sets the frequency of its CPUs."
        };
        return Finding::unknown(id, title, why);
    }
    let join = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    let fastest = governors.iter().all(|&one| one == "performance");
    let found = Finding::new(
        id,
        title,
        format!("{} by {}", join(governors), join(drivers)),
        "A CPU that slows down while idle handles the next arrival slowly.",
    );
    if fastest {
        return found;
    }
    found
        .note("Keep the CPUs at their highest frequency (until the next start):")
        .command("sudo cpupower frequency-set -g performance")
}

/// What else runs.
pub(super) fn load(facts: &Facts) -> Finding {
    let Some(load) = facts.load else {
        return Finding::unknown("load", "load", "The kernel does not say how much else runs.");
    };
    let online = facts.cpus.online.map_or_else(String::new, |cpus| {
        format!(" on {cpus} {}", plural(cpus as u64, "CPU", "CPUs"))
    });
    let found = Finding::new(
        "load",
        "load",
        format!("{} threads wanted to run over the last minute{online}", number(Some(load))),
        "Of the whole host, containers or not. Other threads on a reactor's CPU hold it up for \
         milliseconds.",
    );
    let advice = "End what else runs, or keep it off the reactors' CPUs (taskset, cpusets).";
    if is_crowded(facts) {
        found.warn(advice)
    } else if per_cpu(facts) >= BUSY {
        found.note(advice)
    } else {
        found
    }
}

/// Whether others take CPUs that reactors want.
pub(super) fn is_crowded(facts: &Facts) -> bool {
    per_cpu(facts) >= CROWDED
}

fn per_cpu(facts: &Facts) -> f64 {
    let online = facts.cpus.online.unwrap_or(facts.allowed.len()).max(1);
    facts.load.unwrap_or(0.0) / online as f64
}

/// Whether this is a guest, and what the hypervisor took.
pub(super) fn steal(facts: &Facts) -> Finding {
    let (id, title) = ("steal", "steal");
    let what = match facts.cpus.virtual_machine {
        Some(true) => "a virtual machine",
        Some(false) => "no virtual machine",
        None => "a virtual machine or not, the kernel does not say",
    };
    let Some(share) = facts.steal_share else {
        return Finding::unknown(id, title, "The kernel does not say how much CPU time was taken.");
    };
    let found = Finding::new(
        id,
        title,
        format!("{what}; {} of CPU time taken since it started", percent(Some(share))),
        "What a hypervisor gives to others is missing here, and no clock of ours shows it. A run \
         counts it.",
    );
    if share > Thresholds::default().get(ClientFigure::Steal) {
        return found
            .note("A run in which more than 1 % is taken is suspect: ask for CPUs of your own.");
    }
    found
}

/// The NUMA node of the reactors, where they share one.
pub(super) fn node_of_reactors(facts: &Facts) -> Option<usize> {
    let nodes: BTreeSet<Option<usize>> = taken(facts).map(|cpu| cpu.node).collect();
    let mut nodes = nodes.into_iter();
    match (nodes.next(), nodes.next()) {
        (Some(node), None) => node,
        _ => None,
    }
}
