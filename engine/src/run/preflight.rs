//! What is checked before load starts, so that a lack of ours is never blamed on the server.

use super::RunError;
use crate::reactor::is_own_address;
use crate::reactor::probe::{Asked, reach};
use crate::telemetry::host::{Files, Ports};
use crate::workload::{Address, Endpoint, Load, Workload};

/// Descriptors that a run needs beside its connections.
pub const SPARE_DESCRIPTORS: u64 = 96;
/// Descriptors that the table is grown to where the number of connections is not known.
const OPEN_LOOP_DESCRIPTORS: u64 = 16_384;

/// The CPUs that this process may use, as the kernel numbers them. Ask once, before any thread is
/// pinned: a pinned thread sees only its own.
#[must_use]
pub fn cpus() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|cpu| cpu.id).collect()
}

/// The CPUs with these positions in the list of those that this process may use.
pub(super) fn chosen_cpus(positions: &[usize]) -> Result<Vec<core_affinity::CoreId>, RunError> {
    let all = core_affinity::get_core_ids().unwrap_or_default();
    if positions.is_empty() {
        return Err(RunError::Host("no reactor: give --reactors or --cpus".to_owned()));
    }
    let chosen = positions.iter().map(|&position| all.get(position).copied());
    chosen.collect::<Option<Vec<_>>>().ok_or_else(|| {
        RunError::Host(format!(
            "{} reactors, but this process may use {} CPUs only; give fewer --reactors",
            positions.len(),
            all.len()
        ))
    })
}

/// Checks that this host can carry `workload` and that the server answers. Returns notes for the
/// user.
///
/// # Errors
/// Something is missing: what, how much, and what to do.
pub fn check(workload: &Workload) -> Result<Vec<String>, RunError> {
    let mut notes = Vec::new();
    chosen_cpus(&workload.client.cpus)?;
    let connections = match workload.load {
        Load::Closed { users, .. } => Some(users),
        Load::Open { max_in_flight, .. } => max_in_flight,
    };
    let connections = connections.map(|all| workload.shard.part_of(all));
    let (target, sources) = (&workload.target, &workload.client.source_ips);
    // What a user has open to one server rests while it asks another.
    let servers = target.endpoints.len() as u64;
    descriptors(connections.map(|some| some.saturating_mul(servers)), &mut notes)?;
    for ip in sources {
        if !is_own_address(*ip) {
            return Err(RunError::Host(format!(
                "--source-ip {ip} is no address of this host: add it (ip addr add), or leave it out"
            )));
        }
    }
    let over_tcp = |endpoint: &Endpoint| {
        endpoint.addresses.iter().any(|address| matches!(address, Address::Ip(_)))
    };
    if target.endpoints.iter().any(over_tcp) {
        ports(connections, sources.len().max(1) as u64)?;
    }
    for asked in Asked::all(&workload.target) {
        reach(&asked)?;
    }
    Ok(notes)
}

/// Raises the limit on open files as far as is needed and allowed.
fn descriptors(connections: Option<u64>, notes: &mut Vec<String>) -> Result<(), RunError> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Ok(());
    }
    let needed = connections.map_or(limit.rlim_max, |some| some.saturating_add(SPARE_DESCRIPTORS));
    if limit.rlim_cur < needed {
        let raised = libc::rlimit { rlim_cur: needed.min(limit.rlim_max), ..limit };
        // SAFETY: the new limit is valid; a refusal changes nothing.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    grow_table(needed.min(limit.rlim_cur).min(OPEN_LOOP_DESCRIPTORS.max(connections.unwrap_or(0))));
    let room = limit.rlim_cur.saturating_sub(SPARE_DESCRIPTORS);
    match connections {
        Some(wanted) if wanted > room => Err(RunError::Host(format!(
            "{wanted} connections need {needed} open files, but RLIMIT_NOFILE allows {}: \
             raise it (ulimit -Hn {needed}), or use at most {room} connections",
            limit.rlim_cur
        ))),
        None if room < 4_000 => {
            notes.push(format!(
                "RLIMIT_NOFILE leaves {room} connections; an open loop may need more \
                 (--max-in-flight bounds it)"
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Makes the kernel's table of open files large enough before load starts. It doubles when it is
/// full, and in a process with threads that waits for an RCU grace period: whoever opens the 257th
/// descriptor would stand still for tens of milliseconds, in the middle of the load.
fn grow_table(descriptors: u64) {
    let Ok(highest) = i32::try_from(descriptors.saturating_sub(1)) else { return };
    // SAFETY: a plain system call; it gives a descriptor that is closed at once, or fails.
    let high = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, highest) };
    if high >= 0 {
        // SAFETY: the descriptor is ours and nobody else knows it.
        unsafe { libc::close(high) };
    }
}

/// One address has only so many local ports towards one server; there may be several `sources`.
fn ports(connections: Option<u64>, sources: u64) -> Result<(), RunError> {
    let Some(wanted) = connections else { return Ok(()) };
    let Some((low, high)) = Ports::range(&Files::here()) else { return Ok(()) };
    let room = (u64::from(high.saturating_sub(low)) + 1).saturating_mul(sources);
    if wanted > room {
        return Err(RunError::Host(format!(
            "{wanted} connections to one address need as many local ports, but there are {room}: \
             widen net.ipv4.ip_local_port_range, give more addresses with --source-ip, or use fewer \
             connections"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_open_files_is_large_before_the_load() {
        grow_table(900);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        assert!(size.trim().parse::<u64>().unwrap() >= 900, "{size}");
    }
}
