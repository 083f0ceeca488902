//! Raw non-blocking socket calls: listen, accept, send, receive with the kernel's stamp.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::clock;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A listener on 127.0.0.1; accepted sockets inherit no-delay and, if asked, receive stamps.
pub(crate) fn listen(port: u16, stamps: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    if stamps {
        // Without them the log's arrival times are null, which says as much as an error would.
        let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        // SAFETY: the option takes one int, which lives through the call.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                size_of_val(&flags) as libc::socklen_t,
            );
        }
    }
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A listener on a unix socket, which must not exist yet. It is held as one of TCP is: only its
/// descriptor is used.
pub(crate) fn listen_unix(path: &Path) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The next waiting connection, non-blocking.
pub(crate) fn accept(listener: RawFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the peer's address is not asked for; the result is checked.
    let fd = unsafe { libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Hands `bytes` to the kernel without waiting; returns how many it took.
pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the pointer and length are those of a live slice.
    let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives without waiting: the bytes read, and the kernel's receive stamp (REALTIME, ns).
pub(crate) fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    #[repr(align(8))]
    struct Control([u8; 128]);
    let mut control = Control([0; 128]);
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: `message` points at a live buffer and control area of the lengths it names.
    let read = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    Ok((read, stamp(&message)))
}

fn stamp(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: recvmsg filled `message`; the CMSG macros stay within msg_controllen.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so a complete header within the control area.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SO_TIMESTAMPING {
            // SAFETY: such a message holds three timespecs, the software stamp first.
            let time: libc::timespec =
                unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            let ns = clock::timespec_ns(&time);
            return (ns > 0).then_some(ns);
        }
        // SAFETY: `header` lies within the control area of `message`.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

/// Ends one or both directions (`libc::SHUT_*`) of a socket, so that whoever waits on it wakes.
pub(crate) fn shutdown(fd: RawFd, how: i32) {
    // SAFETY: no pointers; a failure (not connected any more) needs no answer.
    unsafe { libc::shutdown(fd, how) };
}

/// Ends a connection so that the other side sees a reset, and whoever waits on it here wakes.
pub(crate) fn reset(fd: RawFd) {
    // To no address at all: this is how Linux breaks off a connection that others still hold, at
    // once and without the FIN that closing would send.
    // SAFETY: all-zero is a valid address, that of the unspecified family.
    let nowhere: libc::sockaddr = unsafe { mem::zeroed() };
    // SAFETY: `nowhere` lives through the call and has the length named.
    let result =
        unsafe { libc::connect(fd, &raw const nowhere, size_of_val(&nowhere) as libc::socklen_t) };
    if result != 0 {
        // No such thing: a unix socket.
        shutdown(fd, libc::SHUT_RDWR);
    }
}

/// An eventfd: a flag that one thread raises and another can wait for.
pub(crate) fn event(initial: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::eventfd(initial, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Raises an eventfd.
pub(crate) fn raise(fd: RawFd) {
    let one = 1u64;
    // SAFETY: eight live bytes, which is what an eventfd takes.
    unsafe { libc::write(fd, (&raw const one).cast(), size_of::<u64>()) };
}

/// Lowers an eventfd again.
pub(crate) fn lower(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: eight live bytes, which is what an eventfd gives.
    unsafe { libc::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
}

/// Pins the calling thread to these CPUs, by the kernel's numbers.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.iter().any(|&cpu| cpu >= libc::CPU_SETSIZE as usize) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all-zero is an empty cpu_set_t, and every CPU is below its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        set
    };
    // SAFETY: 0 is the calling thread; `set` lives through the call.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
