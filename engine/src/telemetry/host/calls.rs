//! What no file tells: limits, the discipline of the wall clock, routes, and how a driver holds back
//! interrupts. System calls that only ask.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// A limit of this process: what holds, and how far the process may raise it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What holds now.
    pub soft: u64,
    /// How far it can be raised without privilege.
    pub hard: u64,
}

/// How many files may be open (RLIMIT_NOFILE).
#[must_use]
pub fn open_files() -> Option<Limit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (done == 0).then_some(Limit { soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// How the wall clock is kept right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Discipline {
    /// Something keeps it in step with other clocks, as far as the kernel was told.
    pub synchronised: bool,
    /// By how much the kernel's clocks are made faster, parts per million.
    pub frequency_ppm: f64,
    /// The largest error of the wall clock, by the kernel's own estimate, ns.
    pub max_error_ns: u64,
    /// Its expected error, by that which keeps it, ns.
    pub estimated_error_ns: u64,
    /// A leap second comes at the end of the day.
    pub leap: bool,
}

/// Asks adjtimex(2), and changes nothing.
#[must_use]
pub fn discipline() -> Option<Discipline> {
    // SAFETY: all-zero is a valid timex; no mode is set, so it only asks.
    let mut timex: libc::timex = unsafe { zeroed() };
    // SAFETY: `timex` is valid and only written to.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    (state >= 0).then(|| Discipline {
        synchronised: timex.status & libc::STA_UNSYNC == 0,
        // 16 bits of fraction.
        frequency_ppm: timex.freq as f64 / 65_536.0,
        max_error_ns: from_us(timex.maxerror),
        estimated_error_ns: from_us(timex.esterror),
        leap: timex.status & (libc::STA_INS | libc::STA_DEL) != 0,
    })
}

/// µs as ns; there are no negative ones.
fn from_us(us: libc::c_long) -> u64 {
    u64::try_from(us).unwrap_or(0).saturating_mul(1_000)
}

/// How finely the kernel's timers can be set, ns: 1, or a whole tick without high-resolution timers.
#[must_use]
pub fn timer_resolution_ns() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let done = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut time) };
    (done == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The way to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The peer.
    pub to: IpAddr,
    /// Our address towards it.
    pub from: IpAddr,
    /// The interface that packets take; `lo` for what stays on this host.
    pub interface: Option<String>,
}

/// Finds the way to `to` without sending anything.
///
/// # Errors
/// There is no way, or the kernel does not say.
pub fn route(to: IpAddr) -> io::Result<Route> {
    let any: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    // Connecting a datagram socket looks up the route and is silent. Port 9 discards, should anything
    // ever be sent.
    socket.connect(SocketAddr::new(to, 9))?;
    let from = socket.local_addr()?.ip();
    // What goes to an address of our own never reaches the interface that has it.
    let stays = from == to || from.to_canonical().is_loopback();
    let interface = if stays { Some("lo".to_owned()) } else { interface_of(from) };
    Ok(Route { to, from, interface })
}

/// The interface that has an address.
fn interface_of(wanted: IpAddr) -> Option<String> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a valid place for the list, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let (mut next, mut found) = (first, None);
    while !next.is_null() && found.is_none() {
        // SAFETY: not null, so it is an entry of the list, which lives until it is freed.
        let entry = unsafe { &*next };
        if address_of(entry) == Some(wanted) {
            // SAFETY: the kernel's names end with a zero byte, and live as long as the list.
            let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
            found = name.to_str().ok().map(str::to_owned);
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and is used no more.
    unsafe { libc::freeifaddrs(first) };
    found
}

fn address_of(entry: &libc::ifaddrs) -> Option<IpAddr> {
    if entry.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: not null, so it points to an address that begins with its family.
    match i32::from(unsafe { (*entry.ifa_addr).sa_family }) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a sockaddr_in6.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// How long a driver holds back receive interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coalescing {
    /// Time from the first packet to the interrupt, µs.
    pub receive_us: u32,
    /// Packets that end the wait; 0 is no bound.
    pub receive_packets: u32,
    /// The driver changes both with the load.
    pub adaptive: bool,
}

/// Asks the driver of `interface`; `None` where it does not tell.
#[must_use]
pub fn coalescing(interface: &str) -> Option<Coalescing> {
    /// linux/ethtool.h.
    const ETHTOOL_GCOALESCE: u32 = 0x0e;
    /// Words of `struct ethtool_coalesce`.
    const WORDS: usize = 23;
    let mut answer = [0_u32; WORDS];
    answer[0] = ETHTOOL_GCOALESCE;
    ethtool(interface, &mut answer).then_some(Coalescing {
        receive_us: answer[1],
        receive_packets: answer[2],
        adaptive: answer[10] != 0,
    })
}

/// Whether segments of one connection that arrive together are merged (GRO); `None` where the driver
/// does not tell.
#[must_use]
pub fn gro(interface: &str) -> Option<bool> {
    /// linux/ethtool.h.
    const ETHTOOL_GGRO: u32 = 0x2b;
    let mut answer = [ETHTOOL_GGRO, 0];
    ethtool(interface, &mut answer).then(|| answer[1] != 0)
}

/// One question to a driver: `words` begins with the question and is large enough for the answer.
fn ethtool(interface: &str, words: &mut [u32]) -> bool {
    /// linux/sockios.h.
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    /// `struct ifreq` with a pointer in its union.
    #[repr(C)]
    struct Request {
        name: [u8; libc::IFNAMSIZ],
        data: *mut libc::c_void,
        rest: [u8; 24 - size_of::<*mut libc::c_void>()],
    }
    let mut name = [0_u8; libc::IFNAMSIZ];
    let bytes = interface.as_bytes();
    if bytes.len() >= name.len() {
        return false;
    }
    name[..bytes.len()].copy_from_slice(bytes);
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return false };
    let rest = [0; 24 - size_of::<*mut libc::c_void>()];
    let mut request = Request { name, data: words.as_mut_ptr().cast(), rest };
    // SAFETY: the request has the size of an ifreq, its name ends with a zero byte, and the kernel
    // writes no more than the answer to the question, which `words` has room for.
    unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_to_loopback_stays_there() {
        let route = route("127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(route.interface.as_deref(), Some("lo"));
        assert!(route.from.is_loopback());
    }

    #[test]
    fn the_interface_is_found_by_its_address() {
        assert_eq!(interface_of("127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        // For documentation alone (RFC 5737): no interface has it.
        assert_eq!(interface_of("203.0.113.7".parse().unwrap()), None);
    }

    #[test]
    fn limits_and_timers_have_sizes() {
        let limit = open_files().unwrap();
        assert!(0 < limit.soft && limit.soft <= limit.hard);
        assert!((1..=10_000_000).contains(&timer_resolution_ns().unwrap()));
    }

    #[test]
    fn an_interface_without_moderation_tells_of_none() {
        assert_eq!(coalescing("lo"), None);
        assert_eq!(coalescing("a-name-longer-than-any-interface-has"), None);
        assert_eq!(gro("no-such"), None);
    }
}
