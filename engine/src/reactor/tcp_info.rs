//! What the kernel knows of a connection: TCP_INFO.

use std::os::fd::RawFd;

/// What the kernel knows of a connection. Counters since it was opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TcpInfo {
    /// Segments with data received.
    pub(crate) data_in: u32,
    /// Segments with data sent.
    pub(crate) data_out: u32,
    /// Segments sent again.
    pub(crate) resent: u32,
    /// Segments received out of order.
    pub(crate) out_of_order: u32,
    /// Receive segment size, bytes.
    pub(crate) mss: u32,
    /// Least round-trip time, µs; `None` without a sample.
    pub(crate) min_rtt_us: Option<u32>,
    /// Room that the peer was last told of, bytes; `None` where the kernel is too old to say.
    pub(crate) window: Option<u32>,
}

/// Reads TCP_INFO; zeros where the kernel does not tell.
pub(crate) fn tcp_info(fd: RawFd) -> TcpInfo {
    // Offsets in `struct tcp_info` (linux/tcp.h).
    const RCV_MSS: usize = 20;
    const TOTAL_RETRANS: usize = 100;
    const MIN_RTT: usize = 148;
    const DATA_SEGS_IN: usize = 152;
    const DATA_SEGS_OUT: usize = 156;
    const RCV_OOOPACK: usize = 224;
    const RCV_WND: usize = 232;
    let mut info = [0_u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`.
    let done = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let told = if done == 0 { info.get(..len as usize).unwrap_or(&info) } else { &[] };
    let field = |at: usize| {
        let bytes = told.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes)
    };
    TcpInfo {
        data_in: field(DATA_SEGS_IN).unwrap_or(0),
        data_out: field(DATA_SEGS_OUT).unwrap_or(0),
        resent: field(TOTAL_RETRANS).unwrap_or(0),
        out_of_order: field(RCV_OOOPACK).unwrap_or(0),
        mss: field(RCV_MSS).unwrap_or(0),
        min_rtt_us: field(MIN_RTT).filter(|&us| us != u32::MAX),
        window: field(RCV_WND),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::reactor::socket::{connect, receive};
    use crate::workload::Address;

    #[test]
    fn a_window_is_closed_when_nobody_reads_and_opens_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket =
            connect(&Address::Ip(listener.local_addr().unwrap()), None, true, false).unwrap();
        socket.set_recv_buffer_size(8 << 10).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.set_nonblocking(true).unwrap();
        let fd = socket.as_raw_fd();
        let is_closed = || {
            let info = tcp_info(fd);
            info.window.is_some_and(|window| window < info.mss)
        };
        if tcp_info(fd).window.is_none() {
            return; // A kernel before 6.2 does not tell.
        }
        assert!(!is_closed());
        let patience = crate::clock::monotonic_ns() + 20_000_000_000;
        while !is_closed() && crate::clock::monotonic_ns() < patience {
            let _ = peer.write(&[0; 4096]);
        }
        assert!(is_closed(), "{:?}", tcp_info(fd));
        let mut buf = vec![0; 64 << 10];
        while is_closed() && crate::clock::monotonic_ns() < patience {
            let _ = receive(fd, &mut buf);
        }
        assert!(!is_closed(), "{:?}", tcp_info(fd));
    }
}
