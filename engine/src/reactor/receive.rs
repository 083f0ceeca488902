//! From readiness to record: the hot path. No allocation, no lock, no system call but the receive.

use super::conn::State;
use super::core::Core;
use super::exchange::{Arrived, Progress};
use super::outcome::Ending;
use super::socket::{self, Received};
use super::tcp_info::tcp_info;
use super::tls;
use crate::record::{ErrorClass, ReadNote};

/// How much earlier than the call that found the socket empty a stamp may be, ns: the stamp is taken
/// before the segment is queued.
const STAMP_SLACK_NS: u64 = 100_000;

/// What becomes of a connection's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It waits for more.
    Keep,
    /// It ends.
    Close,
}

/// Gives a read its two times.
///
/// The kernel's stamp is accepted if it lies between the call that last found the socket empty (less
/// a little) and now; else the moment of handling is used. So no step of the wall clock can move a
/// latency by more than that read's own lag.
#[inline]
pub(super) fn arrived(stamp: Option<u64>, empty_at: u64, observed: u64) -> (Arrived, Option<u64>) {
    match stamp {
        Some(at) if at <= observed && at >= empty_at.saturating_sub(STAMP_SLACK_NS) => {
            (Arrived { arrival: at, observed }, Some(observed - at))
        }
        _ => (Arrived { arrival: observed, observed }, None),
    }
}

impl Core {
    /// Connection `id` is readable: takes all that is there.
    pub(crate) fn receive(&mut self, id: usize) -> After {
        loop {
            let conn = &self.conns[id];
            if conn.state == State::Closed {
                return After::Close;
            }
            let before = self.clock.now();
            let received = socket::receive(conn.fd, &mut self.buffer);
            let observed = self.clock.now();
            match received {
                Received::Bytes { len, real_ns } => {
                    let stamp = (real_ns != 0).then(|| self.clock.at_real(real_ns));
                    if self.on_wire(id, len, stamp, observed) == After::Close {
                        return After::Close;
                    }
                    // A short read is proof that nothing more was there.
                    if len < self.buffer.len() {
                        self.conns[id].empty_at = before;
                        return After::Keep;
                    }
                }
                Received::Empty => {
                    self.conns[id].empty_at = before;
                    return After::Keep;
                }
                Received::Eof => return self.on_end(id, None, observed),
                Received::Broken(errno) => return self.on_end(id, Some(errno), observed),
            }
        }
    }

    /// Bytes came: what they hold under TLS, where that is spoken, is read.
    #[inline]
    fn on_wire(&mut self, id: usize, len: usize, stamp: Option<u64>, observed: u64) -> After {
        if self.conns[id].tls.is_none() {
            return self.on_bytes(id, len, stamp, observed);
        }
        self.plain.clear();
        let conn = &mut self.conns[id];
        let Some(session) = &mut conn.tls else { return After::Keep };
        let taken = session.take(&self.buffer[..len], &mut self.plain);
        self.answer_peer(id);
        // Tickets and the like are no part of any answer.
        if !self.plain.is_empty() && self.on_bytes(id, len, stamp, observed) == After::Close {
            return After::Close;
        }
        match taken {
            Ok(false) => After::Keep,
            Ok(true) => self.on_end(id, None, observed),
            Err(error) => self.on_tls_error(id, &error, observed),
        }
    }

    /// Sends what TLS itself wants to say, such as new keys, behind what is being written.
    fn answer_peer(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        let Some(session) = &mut conn.tls else { return };
        let all = session.out.len();
        if all <= conn.to_write {
            return;
        }
        if conn.written == conn.to_write {
            // A full socket buffer behind an answered request does not happen.
            let _ = socket::send(conn.fd, &session.out[conn.to_write..]);
            session.out.truncate(conn.to_write);
        } else {
            conn.to_write = all;
        }
    }

    fn on_tls_error(&mut self, id: usize, error: &rustls::Error, observed: u64) -> After {
        let conn = &self.conns[id];
        if conn.state == State::Busy {
            let (class, text) = tls::class_of(error);
            // A server that wants our certificate says so after the handshake (RFC 8446 §4.4.2.4).
            let early = conn.exchange.settled.reads == 0;
            let class = if early { class } else { ErrorClass::ConnReset };
            let ending = match conn.ours {
                Some(ours) => Ending::Ours(ours),
                // The answer was whole before: what broke is only its end.
                None if conn.exchange.is_done() => Ending::Unclosed,
                None => Ending::NoConnection(class, text),
            };
            self.settle_or_replace(id, &ending, observed);
        } else {
            self.close(id);
        }
        After::Close
    }

    #[inline]
    fn on_bytes(&mut self, id: usize, len: usize, stamp: Option<u64>, observed: u64) -> After {
        let conn = &mut self.conns[id];
        if conn.state != State::Busy {
            // Bytes that answer no request: the connection cannot be trusted.
            self.close(id);
            return After::Close;
        }
        let (at, lag) = arrived(stamp, conn.empty_at, observed);
        conn.active_at = at.arrival.max(conn.active_at);
        let bytes = if conn.tls.is_some() { &self.plain[..] } else { &self.buffer[..len] };
        // Kept once per core: thousands of connections would each learn and hold the same.
        conn.answer.swap_known(&mut self.known);
        let (progress, count) = conn.exchange.on_read(&mut conn.answer, bytes, at);
        conn.answer.swap_known(&mut self.known);
        if conn.is_written()
            && self.setup.retries.max == 0
            && let Some(prepared) = conn.prepared.take()
        {
            self.feed.give_back(prepared.bytes);
        }
        let slow = self.is_slow(id, len, count.outputs);
        if count.outputs < 2 {
            // A last token and what follows it are sent one after the other.
            self.conns[id].segments_read += 1 + count.coalesced;
        }
        self.recorder.read(ReadNote {
            observed,
            lag,
            outputs: count.outputs,
            coalesced: count.coalesced,
            slow,
        });
        match progress {
            Progress::Open if self.conns[id].is_to_be_cancelled() => {
                self.settle(id, &Ending::Ours(ErrorClass::CancelRate), observed);
                self.close(id);
                After::Close
            }
            Progress::Open => After::Keep,
            Progress::Ended { clean } => {
                if clean && self.conns[id].is_written() && self.rest(id) {
                    self.settle(id, &Ending::Complete, observed);
                    After::Keep
                } else {
                    self.settle(id, &Ending::Complete, observed);
                    self.close(id);
                    After::Close
                }
            }
            Progress::Unreadable(error) => {
                self.settle(id, &Ending::Unreadable(error), observed);
                self.close(id);
                After::Close
            }
        }
    }

    /// Whether several output events share a read because we were slow: if their bytes came in more
    /// segments than their number needs. `None` where nobody looked.
    ///
    /// TCP_INFO counts segments; those since the last look, less what the reads since then needed,
    /// are this read's own. A server that batches sends one, a slow client finds several. Looking
    /// costs as much as a small read, so there is a budget for it: a look that only sets the count
    /// is followed by one that judges.
    #[inline]
    fn is_slow(&mut self, id: usize, len: usize, outputs: u32) -> Option<bool> {
        let conn = &mut self.conns[id];
        if outputs < 2 || (!conn.segments_known && self.looks_left == 0) {
            conn.segments_known &= outputs < 2;
            return None;
        }
        let segments = tcp_info(conn.fd);
        let since = segments.data_in.wrapping_sub(conn.segments_seen);
        let own = since.saturating_sub(conn.segments_read);
        let needed = len.div_ceil(segments.mss.max(1) as usize);
        let slow = conn.segments_known.then_some(segments.mss > 0 && own as usize > needed);
        conn.segments_known = self.looks_left > 0;
        conn.segments_seen = segments.data_in;
        conn.segments_read = 0;
        self.looks_left = self.looks_left.saturating_sub(1);
        slow
    }

    /// The peer closed its side, or the connection broke.
    fn on_end(&mut self, id: usize, errno: Option<i32>, observed: u64) -> After {
        let conn = &mut self.conns[id];
        if conn.state != State::Busy {
            self.close(id);
            return After::Close;
        }
        let at = Arrived { arrival: observed, observed };
        let ending = match (conn.ours, errno) {
            (Some(class), _) => Ending::Ours(class),
            (None, Some(errno)) => Ending::Broken(errno),
            (None, None) => conn.exchange.on_eof(&mut conn.answer, at),
        };
        self.settle_or_replace(id, &ending, observed);
        After::Close
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_between_the_empty_socket_and_now_is_the_arrival() {
        let (at, lag) = arrived(Some(1_000_000), 990_000, 1_020_000);
        assert_eq!((at.arrival, at.observed, lag), (1_000_000, 1_020_000, Some(20_000)));
        let (at, lag) = arrived(Some(900_000), 1_000_000, 1_020_000);
        assert_eq!((at.arrival, lag), (900_000, Some(120_000)), "within the slack");
    }

    #[test]
    fn a_step_of_the_wall_clock_moves_no_latency() {
        for stamp in [1_020_001, 899_999, 2_000_000_000, 0] {
            let (at, lag) = arrived(Some(stamp), 1_000_000, 1_020_000);
            assert_eq!((at.arrival, lag), (1_020_000, None));
        }
        let (at, lag) = arrived(None, 0, 1_020_000);
        assert_eq!((at.arrival, lag), (1_020_000, None));
    }
}
