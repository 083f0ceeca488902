//! What the kernel knows of this reactor's connections, asked now and then.

use super::conn::State;
use super::core::Core;
use super::tcp_info::tcp_info;

/// Receive windows that one tick looks at: at 0.5 µs each next to nothing, and a client that is
/// overrun has most of them closed at once.
const WINDOWS_PER_TICK: usize = 8;

impl Core {
    /// Connection `id` is over: adds up what became of its segments.
    pub(super) fn look_back(&mut self, id: usize) {
        let fd = self.conns[id].fd;
        if fd < 0 {
            return;
        }
        let info = tcp_info(fd);
        let network = &mut self.recorder.tally().network;
        if let Some(us) = info.min_rtt_us.filter(|_| info.data_out > 0) {
            network.min_rtt.saturating_record(u64::from(us) * 1_000);
        }
        network.sent += u64::from(info.data_out);
        network.resent += u64::from(info.resent);
        network.received += u64::from(info.data_in);
        network.out_of_order += u64::from(info.out_of_order);
    }

    /// Looks whether the windows of the next few busy connections have room for a segment.
    pub(super) fn look_at_windows(&mut self) {
        let mut left = WINDOWS_PER_TICK;
        for _ in 0..self.conns.len().min(16 * WINDOWS_PER_TICK) {
            if left == 0 {
                return;
            }
            self.window_at = (self.window_at + 1) % self.conns.len();
            let conn = &self.conns[self.window_at];
            if conn.state != State::Busy {
                continue;
            }
            left -= 1;
            let info = tcp_info(conn.fd);
            if let Some(window) = info.window {
                let network = &mut self.recorder.tally().network;
                network.window_looks += 1;
                network.windows_closed += u64::from(window < info.mss);
            }
        }
    }
}
