//! Settings of the network stack that a load client meets, and the local ports it may take.

use std::collections::BTreeSet;

use super::files::{Files, numbers};

/// Settings of the stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Network {
    /// `net.core.netdev_tstamp_prequeue`: receive stamps are made before packets are queued.
    pub stamp_before_queue: Option<bool>,
    /// `net.core.rps_sock_flow_entries`: above 0, RFS steers packets to the reader's CPU.
    pub rfs_entries: Option<u64>,
    /// `net.core.busy_poll`, µs.
    pub busy_poll_us: Option<u64>,
    /// `net.core.busy_read`, µs.
    pub busy_read_us: Option<u64>,
    /// `net.core.netdev_max_backlog`, packets.
    pub backlog: Option<u64>,
    /// Largest receive buffer of a TCP socket, bytes.
    pub receive_max: Option<u64>,
    /// Largest send buffer of a TCP socket, bytes.
    pub send_max: Option<u64>,
}

impl Network {
    /// Reads them.
    #[must_use]
    pub fn read(files: &Files) -> Self {
        let core = |name: &str| files.number(&format!("proc/sys/net/core/{name}"));
        let largest = |name: &str| {
            let text = files.text(&format!("proc/sys/net/ipv4/{name}"))?;
            numbers(&text).get(2).copied()
        };
        Self {
            stamp_before_queue: core("netdev_tstamp_prequeue").map(|on| on != 0),
            rfs_entries: core("rps_sock_flow_entries"),
            busy_poll_us: core("busy_poll"),
            busy_read_us: core("busy_read"),
            backlog: core("netdev_max_backlog"),
            receive_max: largest("tcp_rmem"),
            send_max: largest("tcp_wmem"),
        }
    }
}

/// Local ports for connections that do not choose one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The first.
    pub low: u16,
    /// The last.
    pub high: u16,
    /// Those of them that sockets of this host hold, whatever their peers.
    pub used: u64,
    /// Connections that are over and wait for late packets.
    pub time_wait: u64,
    /// `net.ipv4.tcp_tw_reuse`: 0 never, 1 always, 2 on loopback: a new connection takes the port of
    /// one that waits.
    pub reuse: Option<u64>,
}

impl Ports {
    /// The range alone.
    #[must_use]
    pub fn range(files: &Files) -> Option<(u16, u16)> {
        let bounds = numbers(&files.text("proc/sys/net/ipv4/ip_local_port_range")?);
        let &[low, high] = bounds.as_slice() else { return None };
        Some((u16::try_from(low).ok()?, u16::try_from(high).ok()?))
    }

    /// Reads the range and looks through all TCP sockets; `None` where the kernel does not tell.
    #[must_use]
    pub fn read(files: &Files) -> Option<Self> {
        let (low, high) = Self::range(files)?;
        let mut held = BTreeSet::new();
        let mut time_wait = 0;
        for table in ["proc/net/tcp", "proc/net/tcp6"] {
            let text = files.text(table).unwrap_or_default();
            for (port, is_waiting) in text.lines().skip(1).filter_map(socket) {
                if (low..=high).contains(&port) {
                    held.insert(port);
                }
                time_wait += u64::from(is_waiting);
            }
        }
        let reuse = files.number("proc/sys/net/ipv4/tcp_tw_reuse");
        Some(Self { low, high, used: held.len() as u64, time_wait, reuse })
    }

    /// Ports of the range.
    #[must_use]
    pub fn all(&self) -> u64 {
        (u64::from(self.high) + 1).saturating_sub(self.low.into())
    }
}

/// The local port of a line of /proc/net/tcp, and whether its connection waits for late packets.
fn socket(line: &str) -> Option<(u16, bool)> {
    /// TCP_TIME_WAIT as the file has it.
    const TIME_WAIT: &str = "06";
    let mut words = line.split_whitespace().skip(1);
    let (_, port) = words.next()?.rsplit_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((port, words.nth(1)? == TIME_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::host::files::tests::tree;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 21 1
   1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 22 1
   2: 0100007F:9C41 0100007F:1F90 06 00000000:00000000 03:00001771 00000000     0        0 0 3
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000001000000:9C41 00000000000000000000000001000000:1F90 06 00000000
";

    #[test]
    fn ports_in_use_are_counted_once_and_only_in_the_range() {
        let dir = tree(&[
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("proc/sys/net/ipv4/tcp_tw_reuse", "2\n"),
            ("proc/net/tcp", TCP),
            ("proc/net/tcp6", TCP6),
        ]);
        let ports = Ports::read(&Files::below(dir.path())).unwrap();
        assert_eq!((ports.used, ports.time_wait, ports.reuse), (2, 2, Some(2)));
        assert_eq!(ports.all(), 28_232);
    }

    #[test]
    fn without_a_range_nothing_is_said() {
        let dir = tree(&[("proc/sys/net/ipv4/ip_local_port_range", "32768\n")]);
        assert_eq!(Ports::read(&Files::below(dir.path())), None);
    }

    #[test]
    fn what_a_container_hides_is_unknown() {
        let dir = tree(&[("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")]);
        let network = Network::read(&Files::below(dir.path()));
        assert_eq!(network, Network { receive_max: Some(6_291_456), ..Network::default() });
    }
}
