//! Sockets and kernel handles below monoio: every system call of the hot path is here.

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::workload::Address;

/// What one receive call gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes, and the kernel's stamp of the last of them (CLOCK_REALTIME ns, 0 if none).
    Bytes {
        /// Bytes written to the buffer, at least 1.
        len: usize,
        /// The kernel's receive stamp.
        real_ns: u64,
    },
    /// Nothing there now.
    Empty,
    /// The peer has closed its side.
    Eof,
    /// The connection is broken.
    Broken(i32),
}

/// Space for one control message with three timespecs, aligned for its header.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Receives what is there into `buf`, without waiting.
#[inline]
pub(crate) fn receive(fd: RawFd, buf: &mut [u8]) -> Received {
    let mut control = MaybeUninit::<Control>::uninit();
    let mut part = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // SAFETY: all-zero is a valid msghdr: null pointers and zero lengths.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the message points to `buf` and `control`, which outlive the call, with their sizes.
    let got = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) };
    if got > 0 {
        return Received::Bytes { len: got as usize, real_ns: stamp_of(&message) };
    }
    if got == 0 {
        return Received::Eof;
    }
    match last_error() {
        libc::EAGAIN | libc::EINTR => Received::Empty,
        error => Received::Broken(error),
    }
}

/// The software receive stamp in a message's control data, ns; 0 if there is none.
#[inline]
fn stamp_of(message: &libc::msghdr) -> u64 {
    // SAFETY: the kernel filled the control buffer and its length; the macro checks that a whole
    // header is there.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return 0;
    }
    // SAFETY: not null, so it points to a whole header inside the control buffer.
    let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
    if level != libc::SOL_SOCKET || kind != libc::SCM_TIMESTAMPING {
        return 0;
    }
    // SAFETY: an SCM_TIMESTAMPING message carries three timespecs; the first is the software stamp.
    let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sends what the socket takes of `bytes`, without waiting. `Ok(0)`: it takes nothing now.
///
/// # Errors
/// Those of send(2), except "would block".
#[inline]
pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the pointer and length are those of a live slice.
    let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) };
    if sent >= 0 {
        return Ok(sent as usize);
    }
    match last_error() {
        libc::EAGAIN | libc::EINTR => Ok(0),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Starts connecting to `address`, non-blocking: over TCP without delay, from `source` if one is given,
/// with kernel receive stamps if `stamped`; unix sockets have none.
///
/// # Errors
/// Those of socket(2), bind(2) and connect(2), except "in progress".
pub(crate) fn connect(
    address: &Address,
    source: Option<IpAddr>,
    stamped: bool,
    reset: bool,
) -> io::Result<Socket> {
    let (to, protocol) = match address {
        Address::Ip(ip) => (SockAddr::from(*ip), Some(Protocol::TCP)),
        Address::Unix(path) => (SockAddr::unix(path)?, None),
    };
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(to.domain(), kind, protocol)?;
    if matches!(address, Address::Ip(_)) {
        socket.set_tcp_nodelay(true)?;
        if reset {
            socket.set_linger(Some(std::time::Duration::ZERO))?;
        }
        if stamped {
            stamp(socket.as_raw_fd())?;
        }
        if let Some(source) = source {
            bind_without_port(&socket, source)?;
        }
    }
    match socket.connect(&to) {
        Ok(()) => Ok(socket),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Whether connections can come from this address.
pub(crate) fn is_own_address(ip: IpAddr) -> bool {
    let address = SockAddr::from(std::net::SocketAddr::new(ip, 0));
    Socket::new(address.domain(), Type::STREAM.cloexec(), None)
        .and_then(|socket| socket.bind(&address))
        .is_ok()
}

/// Fixes the source address and leaves the port to connect(2), which can then use one port for
/// several servers.
fn bind_without_port(socket: &Socket, source: IpAddr) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option takes an int, whose address and size are given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    socket.bind(&SockAddr::from(std::net::SocketAddr::new(source, 0)))
}

/// The error with which connecting ended, if it did.
pub(crate) fn take_error(fd: RawFd) -> Option<i32> {
    // SAFETY: the descriptor is open for as long as its stream lives, which outlives this borrow.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    SockRef::from(&borrowed).take_error().ok().flatten().and_then(|error| error.raw_os_error())
}

/// Asks for software receive stamps.
fn stamp(fd: RawFd) -> io::Result<()> {
    let flags: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: the option takes a u32, whose address and size are given.
    let done = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An idle socket with stamps on. The kernel switches stamping on with the first such socket, and
/// late; holding one keeps it on for the whole run.
///
/// # Errors
/// Those of socket(2) and setsockopt(2).
pub(crate) fn stamp_keeper() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM.cloexec(), None)?;
    stamp(socket.as_raw_fd())?;
    Ok(socket)
}

/// Ends both directions: whoever waits for the socket is woken and sees its end.
pub(crate) fn shutdown(fd: RawFd) {
    // SAFETY: a plain system call on a number; a bad one only fails.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// A new counter that can be waited for.
///
/// # Errors
/// Those of eventfd(2).
pub(crate) fn eventfd(initial: u32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::eventfd(initial, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    owned(fd)
}

/// Adds one to an eventfd.
pub(crate) fn notify(fd: RawFd) {
    let one = 1_u64;
    // SAFETY: eight bytes at a valid address; an eventfd that is full only fails.
    unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

/// Empties an eventfd or timerfd. Returns the errno if there was nothing to read.
pub(crate) fn drain(fd: RawFd) -> Result<u64, i32> {
    let mut value = 0_u64;
    // SAFETY: eight bytes at a valid address.
    let got = unsafe { libc::read(fd, (&raw mut value).cast(), 8) };
    if got == 8 { Ok(value) } else { Err(last_error()) }
}

/// A timer that can be waited for, on `clock`.
///
/// # Errors
/// Those of timerfd_create(2).
pub(crate) fn timerfd(clock: libc::clockid_t) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::timerfd_create(clock, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    owned(fd)
}

/// Arms a timer for an absolute time of its clock, ns. Arming again forgets an earlier expiry.
pub(crate) fn arm(fd: RawFd, at_ns: u64) {
    set_timer(fd, at_ns, libc::TFD_TIMER_ABSTIME);
}

/// Arms a CLOCK_REALTIME timer far in the future that ends at once when the clock is stepped.
pub(crate) fn arm_for_steps(fd: RawFd) {
    const FAR_NS: u64 = 9_000_000_000_000_000_000;
    set_timer(fd, FAR_NS, libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET);
}

fn set_timer(fd: RawFd, at_ns: u64, flags: i32) {
    let spec = libc::itimerspec {
        it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: libc::timespec {
            tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (at_ns % 1_000_000_000).max(1) as libc::c_long,
        },
    };
    // SAFETY: the new value is valid, the old one is not asked for.
    unsafe { libc::timerfd_settime(fd, flags, &raw const spec, std::ptr::null_mut()) };
}

/// Hands a pollable descriptor to monoio, which can only wait for sockets.
///
/// # Errors
/// Those of registering it with the driver.
pub(crate) fn waitable(fd: OwnedFd) -> io::Result<monoio::net::TcpStream> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the descriptor is owned and given away; only readiness is asked of the stream.
    let stream = unsafe { std::net::TcpStream::from_raw_fd(fd.into_raw_fd()) };
    monoio::net::TcpStream::from_std(stream)
}

/// What the system said, without the number that its text ends with.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The errno of the last system call.
fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn bytes_over_loopback_come_with_a_kernel_stamp_between_send_and_receive() {
        let _keeper = stamp_keeper().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket =
            connect(&Address::Ip(listener.local_addr().unwrap()), None, true, false).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut buf = [0_u8; 64];
        assert_eq!(receive(socket.as_raw_fd(), &mut buf), Received::Empty);
        // The kernel switches stamping on late, so the first bytes may come without.
        let mut stamped = 0;
        for _ in 0..200 {
            let before = crate::clock::realtime_ns();
            peer.write_all(b"x").unwrap();
            let got = loop {
                match receive(socket.as_raw_fd(), &mut buf) {
                    Received::Empty => {}
                    got => break got,
                }
            };
            let after = crate::clock::realtime_ns();
            let Received::Bytes { len: 1, real_ns } = got else { panic!("{got:?}") };
            if real_ns != 0 {
                assert!(before <= real_ns && real_ns <= after);
                stamped += 1;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(stamped > 0, "no byte in 200 had a stamp");
        let info = super::super::tcp_info::tcp_info(socket.as_raw_fd());
        assert!(info.data_in >= 200 && info.data_out == 0, "{info:?}");
        drop(peer);
        assert_eq!(receive(socket.as_raw_fd(), &mut buf), Received::Eof);
    }
}
