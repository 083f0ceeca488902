//! One network interface: its driver, its queues, and which CPUs they interrupt.

use super::files::{Files, cpu_mask};

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its driver; none for what exists in software alone, such as `lo`.
    pub driver: Option<String>,
    /// Its speed, Mbit/s, where it has one.
    pub speed_mbit: Option<u64>,
    /// Largest packet, bytes.
    pub mtu: Option<u64>,
    /// The NUMA node of its device.
    pub node: Option<usize>,
    /// Its receive queues.
    pub queues: Vec<Queue>,
    /// The interrupts of its receive queues.
    pub irqs: Vec<Irq>,
    /// How long merged packets may be held back, ns.
    pub hold_ns: Option<u64>,
}

/// One receive queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// CPUs that its packets are spread over in software (RPS); none: they stay.
    pub rps: Vec<usize>,
    /// Flows that RFS remembers for it.
    pub flows: u64,
}

/// One interrupt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Irq {
    /// Its number.
    pub number: u64,
    /// What it is called in /proc/interrupts.
    pub name: String,
    /// The CPUs that it goes to: the effective ones where the kernel tells.
    pub cpus: Vec<usize>,
}

impl Interface {
    /// The interface that carries what is sent by `name`: itself, or, where that is a bond, a bridge or
    /// a VLAN, the first below it that has a device.
    #[must_use]
    pub fn carrying(files: &Files, name: &str) -> Self {
        /// More than are ever stacked.
        const DEPTH: usize = 16;
        let mut names = vec![name.to_owned()];
        for at in 0..DEPTH {
            let Some(next) = names.get(at) else { break };
            let found = Self::read(files, next);
            if found.driver.is_some() {
                return found;
            }
            let folder = files.names(&format!("sys/class/net/{next}"));
            names
                .extend(folder.iter().filter_map(|name| Some(name.strip_prefix("lower_")?.into())));
        }
        Self::read(files, name)
    }

    /// Reads what is told of the interface `name`.
    #[must_use]
    pub fn read(files: &Files, name: &str) -> Self {
        let folder = format!("sys/class/net/{name}");
        let number = |file: &str| files.number(&format!("{folder}/{file}"));
        Self {
            name: name.to_owned(),
            driver: files.link(&format!("{folder}/device/driver")),
            // An unknown speed is -1.
            speed_mbit: number("speed").filter(|&speed| speed > 0 && speed < u32::MAX.into()),
            mtu: number("mtu"),
            node: number("device/numa_node").and_then(|node| usize::try_from(node).ok()),
            queues: queues(files, &format!("{folder}/queues")),
            irqs: irqs(files, name),
            hold_ns: number("gro_flush_timeout"),
        }
    }
}

fn queues(files: &Files, folder: &str) -> Vec<Queue> {
    let receiving = |name: &String| name.starts_with("rx-");
    let read = |name: String| Queue {
        rps: files
            .text(&format!("{folder}/{name}/rps_cpus"))
            .as_deref()
            .and_then(cpu_mask)
            .unwrap_or_default(),
        flows: files.number(&format!("{folder}/{name}/rps_flow_cnt")).unwrap_or(0),
    };
    files.names(folder).into_iter().filter(receiving).map(read).collect()
}

/// The interrupts of the device, or, where it does not list them, those that carry the name of the
/// interface.
fn irqs(files: &Files, interface: &str) -> Vec<Irq> {
    let table = files.text("proc/interrupts").unwrap_or_default();
    let listed = files
        .above(&format!("sys/class/net/{interface}/device"), "msi_irqs")
        .map(|folder| files.names(&folder))
        .unwrap_or_default();
    let is_ours = |line: &Line<'_>| {
        if listed.is_empty() {
            line.name.split(['-', '@', ':']).any(|part| part == interface)
        } else {
            listed.iter().any(|number| number.parse() == Ok(line.number))
        }
    };
    let lines = table.lines().skip(1).filter_map(line);
    lines
        .filter(|line| is_ours(line) && receives(line.name))
        .map(|line| {
            let cpus = |file: &str| files.cpus(&format!("proc/irq/{}/{file}", line.number));
            let effective = cpus("effective_affinity_list").filter(|cpus| !cpus.is_empty());
            let cpus = effective.or_else(|| cpus("smp_affinity_list")).unwrap_or_default();
            Irq { number: line.number, name: line.name.to_owned(), cpus }
        })
        .collect()
}

/// A line of /proc/interrupts that has a number.
struct Line<'a> {
    number: u64,
    name: &'a str,
}

fn line(text: &str) -> Option<Line<'_>> {
    let (number, rest) = text.trim_start().split_once(':')?;
    let name = rest.split_whitespace().last()?;
    Some(Line { number: number.parse().ok()?, name })
}

/// Whether an interrupt of this name tells of packets that came: not one for events of the device,
/// nor for sending alone.
fn receives(name: &str) -> bool {
    const OTHERS: [&str; 8] =
        ["config", "async", "output", "misc", "ctrl", "control", "mgmnt", "-tx-"];
    let name = name.to_ascii_lowercase().replace("tx-rx", "txrx");
    !OTHERS.iter().any(|other| name.contains(other))
}

#[cfg(test)]
mod tests;
