//! What bounds the number of connections, the memory and the CPU time.

use tokclock_engine::run::SPARE_DESCRIPTORS;
use tokclock_engine::telemetry::host::Quota;

use super::facts::Facts;
use super::finding::Finding;
use crate::report::text::{count, number};

/// Connections that a large load needs.
const MANY: u64 = 4_096;
/// A receive window from which a stream of tokens never fills it while a reactor is held up, bytes.
const WINDOW: u64 = 1 << 20;
/// Memory that a run may come to need, bytes.
const MEMORY: u64 = 1 << 30;
/// How long a closed connection holds its port, s.
const TIME_WAIT_S: u64 = 60;

/// What a container or a service manager allows.
pub(super) fn container(facts: &Facts) -> Finding {
    let (id, title) = ("container", "container");
    let filter = match facts.seccomp {
        Some(0) => "no seccomp filter",
        Some(_) => "a seccomp filter",
        None => "seccomp unknown",
    };
    let Some(group) = &facts.group else {
        return Finding::unknown(
            id,
            title,
            format!("No control group is to be seen, so no limit on CPU time or memory; {filter}."),
        );
    };
    let cpu = group.quota.map_or_else(
        || "no limit on CPU time".to_owned(),
        |quota| {
            let cpus = number(Some(quota.cpus()));
            format!("CPU time of {cpus} CPUs, used up {} times so far", count(group.throttled))
        },
    );
    let memory = group
        .memory_max
        .map_or_else(|| "no limit on memory".to_owned(), |max| format!("memory {}", bytes(max)));
    let found = Finding::new(
        id,
        title,
        format!("{cpu}, {memory}, {filter}"),
        "Limits of the control group, which containers and service managers set.",
    );
    if let Some(Quota { period_us, .. }) = group.quota {
        return found.warn(format!(
            "When a quota is used up, all threads stand still for the rest of its {} ms, and \
             reactors that wait for a due time by turning use much. Run without it: no --cpus for \
             docker run, no CPU limit in Kubernetes, CPUQuota= for systemd.",
            number(Some(period_us as f64 / 1e3))
        ));
    }
    if group.memory_max.is_some_and(|max| max < MEMORY) {
        return found
            .note("A large run needs more: some 10 KB per connection, and bodies that wait.");
    }
    found
}

/// How many files may be open.
pub(super) fn descriptors(facts: &Facts) -> Finding {
    let (id, title) = ("descriptors", "descriptors");
    let Some(limit) = facts.open_files else {
        return Finding::unknown(id, title, "The kernel does not say how many files may be open.");
    };
    let room = limit.hard.saturating_sub(SPARE_DESCRIPTORS);
    let found = Finding::new(
        id,
        title,
        format!("{} open files, up to {}", files(limit.soft), files(limit.hard)),
        format!("A run raises the first to the second by itself: {} connections.", files(room)),
    );
    if room < MANY {
        return found
            .note("Raise the hard limit as root before the start (LimitNOFILE= for a service):")
            .command("ulimit -n 1048576");
    }
    found
}

fn files(limit: u64) -> String {
    if limit > u64::MAX / 2 { "without limit".to_owned() } else { count(limit) }
}

/// How many connections local ports allow.
pub(super) fn ports(facts: &Facts) -> Finding {
    let (id, title) = ("ports", "ports");
    let Some(ports) = facts.ports else {
        return Finding::unknown(id, title, "The kernel does not tell the range of local ports.");
    };
    let room = ports.all().saturating_sub(ports.used);
    let reused = match ports.reuse {
        Some(1) => true,
        Some(2) => facts.is_local(),
        _ => false,
    };
    let (reuse, after) = if reused {
        ("after a second (tcp_tw_reuse)".to_owned(), room)
    } else {
        (format!("after {TIME_WAIT_S} s, so"), room / TIME_WAIT_S)
    };
    let rate = if reused {
        format!("a closed one gives its port back {reuse}.")
    } else {
        format!(
            "a closed one gives its port back {reuse} about {} new ones per second go on for long.",
            count(after)
        )
    };
    let found = Finding::new(
        id,
        title,
        format!(
            "{}-{}, {} in use, {} closed connections wait",
            ports.low,
            ports.high,
            count(ports.used),
            count(ports.time_wait)
        ),
        format!("At least {} connections at once to one address; {rate}", count(room)),
    );
    if room < MANY {
        return found
            .note(
                "Widen the range, give more addresses (--source-ip), or end connections by a reset \
                 (--close rst), which holds no port.",
            )
            .command("sudo sysctl -w net.ipv4.ip_local_port_range='1024 65535'");
    }
    found
}

/// How large the buffers of a connection may grow.
pub(super) fn tcp_memory(facts: &Facts) -> Finding {
    let (id, title) = ("tcp_memory", "TCP memory");
    let (Some(receive), Some(send)) = (facts.network.receive_max, facts.network.send_max) else {
        return Finding::unknown(id, title, "The kernel does not tell how large buffers may grow.");
    };
    let found = Finding::new(
        id,
        title,
        format!("up to {} to receive, {} to send, per connection", bytes(receive), bytes(send)),
        "What arrives while a reactor is held up waits here. A full receive buffer would stop the \
         server.",
    );
    if receive < WINDOW {
        return found
            .note("Less than a megabyte may fill when answers are large and come at once.")
            .command("sudo sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'");
    }
    found
}

/// A size in the unit that reads best.
fn bytes(size: u64) -> String {
    let size = size as f64;
    match size {
        size if size >= 1e9 => format!("{} GB", number(Some(size / 1e9))),
        size if size >= 1e6 => format!("{} MB", number(Some(size / 1e6))),
        size => format!("{} kB", number(Some(size / 1e3))),
    }
}
