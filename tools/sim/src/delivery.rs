//! Sending: what is due goes to the kernel, and what the kernel took is booked.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use crate::active::{Active, Marks};
use crate::clock;
use crate::connection::{Connection, Exit, Unit};
use crate::fault::Fault;
use crate::legs::leg::Outcome;
use crate::metrics::Sent;
use crate::reactor::{Id, Reactor, State};
use crate::report::Tally;
use crate::socket;

impl Reactor {
    /// Sends all of a connection that is due and belongs together.
    pub(crate) fn serve(
        &self,
        state: &mut State,
        connection: &mut Connection,
        id: Id,
        now_ns: u64,
    ) {
        loop {
            if connection.output.is_empty()
                && let Some(active) = &mut connection.active
            {
                active.gather(&self.shared.wire, self.shared.cut, now_ns, &mut connection.output);
            }
            if connection.output.is_empty() || !self.send(state, connection, id) {
                return;
            }
            // The tail follows the last output event at once.
            if !connection.active.as_ref().is_some_and(|active| active.wants_tail()) {
                return;
            }
        }
    }

    /// Hands the output to the kernel; false if some of it is left.
    fn send(&self, state: &mut State, connection: &mut Connection, id: Id) -> bool {
        let fd = connection.stream.as_raw_fd();
        let output = &mut connection.output;
        let start_ns = clock::monotonic_ns();
        let result = socket::send(fd, output.offer());
        let end_ns = clock::monotonic_ns();
        let first_ns = *output.started_ns.get_or_insert(start_ns);
        let mut full = false;
        match result {
            Ok(sent) => output.sent += sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => full = true,
            Err(_) => {
                connection.dead = true;
                // The task that reads then learns of it and cleans up.
                socket::shutdown(fd, libc::SHUT_RDWR);
                return false;
            }
        }
        let mut end = None;
        while let Some(mark) = connection.output.marks.front()
            && mark.end <= connection.output.sent
        {
            end = End::of(mark.unit).or(end);
            self.sent(&mut state.tally, connection, mark.unit, [first_ns, end_ns]);
            connection.output.marks.pop_front();
        }
        if connection.output.sent < connection.output.bytes.len() {
            pause(state, connection, id, full, end_ns);
            return false;
        }
        connection.output.clear();
        if let Some(end) = end {
            self.finish(state, connection, end, end_ns);
        }
        match end {
            Some(End::Broken(Exit::Reset)) => {
                socket::reset(fd);
                connection.dead = true;
            }
            _ if connection.closing => socket::shutdown(fd, libc::SHUT_WR),
            _ if !connection.is_busy() && !connection.input.is_empty() => {
                self.take_up(state, connection, id, end_ns);
            }
            _ => {}
        }
        true
    }

    /// Books one unit that the kernel took.
    fn sent(&self, tally: &mut Tally, connection: &mut Connection, unit: Unit, at: [u64; 2]) {
        let Some(active) = &mut connection.active else { return };
        match unit {
            Unit::Other => {}
            Unit::Output { index, tokens, due_ns } => {
                tally.tokens += u64::from(tokens);
                let counts = self.sent_here();
                counts.output_tokens.add(u64::from(tokens));
                if index == 0 {
                    active.marks.first_ns = at[1];
                    first_token(counts, active);
                } else {
                    counts.between.add(at[1] - active.marks.last_ns);
                }
                active.marks.last_ns = at[1];
                let timed = index == 0 || self.shared.has_gaps;
                if timed && !connection.output.retried && due_ns > connection.excused_ns {
                    tally.late(at[0].saturating_sub(due_ns));
                }
                if let Some(record) = &mut active.record
                    && !record.add_event([at[0], at[1], u64::from(tokens)])
                {
                    active.record = None;
                    self.shared.drop_record();
                }
            }
            Unit::Head => {
                if let Some(record) = &mut active.record {
                    record.head = Some(at);
                }
            }
            Unit::Broken(_) => {
                let any = connection.output.sent > 0;
                if let Some(record) = &mut active.record {
                    record.head = record.head.or(any.then_some(at));
                    record.tail = Some(at);
                }
            }
            Unit::Tail => {
                if !active.stream {
                    tally.tokens += u64::from(active.answer.output_tokens);
                    let counts = self.sent_here();
                    counts.output_tokens.add(u64::from(active.answer.output_tokens));
                    first_token(counts, active);
                }
                if let Some(record) = &mut active.record {
                    record.head = record.head.or(Some(at));
                    record.tail = Some(at);
                    record.complete = true;
                }
            }
        }
    }

    fn finish(&self, state: &mut State, connection: &mut Connection, end: End, now_ns: u64) {
        let Some(mut active) = connection.active.take() else { return };
        match end {
            End::Whole => {
                state.tally.completed += 1;
                let counts = self.sent_here();
                let ended = if active.answer.capped { &counts.capped } else { &counts.stopped };
                ended.add(1);
                let Marks { read_ns, scheduled_ns, first_ns, last_ns } = active.marks;
                counts.queue.add(scheduled_ns.saturating_sub(read_ns));
                counts.prefill.add(first_ns.saturating_sub(scheduled_ns));
                counts.decode.add(last_ns.saturating_sub(first_ns));
                counts.whole.add(now_ns.saturating_sub(read_ns));
                state.tally.last_done_ns = state.tally.last_done_ns.max(now_ns);
            }
            // These the serving model has counted.
            End::Broken(_) if active.refusal.is_some() => {}
            End::Broken(_) => state.tally.broken += 1,
        }
        connection.closing |= active.answer.close
            || active.fault == Some(Fault::CloseAfter)
            || end == End::Broken(Exit::Close);
        connection.output.drip = None;
        self.release(state, &mut active);
        self.log(*active);
    }
}

/// Counts what is known of a request with its first token.
fn first_token(counts: &Sent, active: &Active) {
    counts.prompt_tokens.add(u64::from(active.answer.prompt_tokens));
    counts.first.add(active.marks.first_ns.saturating_sub(active.marks.read_ns));
    let Some(Outcome { handed, cached, asked, handoff, .. }) =
        active.leg.as_ref().map(|leg| leg.outcome)
    else {
        return;
    };
    counts.handed_tokens.add(u64::from(handed));
    counts.cached_tokens.add(u64::from(cached));
    if asked {
        counts.asked_tokens.add(u64::from(active.answer.prompt_tokens));
    }
    if let Some([ns, bytes]) = handoff {
        counts.handoff.add(ns);
        counts.handoff_ms.add(ns);
        counts.bytes.add(bytes);
        counts.mebibytes.add(bytes);
    }
}

/// Puts the rest of the output off: until the next piece of it may go, or the socket has room.
fn pause(state: &mut State, connection: &mut Connection, id: Id, full: bool, now_ns: u64) {
    connection.output.retried = true;
    match connection.output.drip {
        Some(drip) if !full => {
            connection.output.not_before_ns = now_ns.saturating_add(drip.gap_ns);
        }
        _ => {
            state.tally.blocked_sends += 1;
            connection.blocked = true;
            state.blocked.push((id, Rc::clone(&connection.stream)));
        }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Broken(Exit),
}

impl End {
    /// What `unit` ends, if it ends an answer.
    fn of(unit: Unit) -> Option<Self> {
        match unit {
            Unit::Tail => Some(Self::Whole),
            Unit::Broken(exit) => Some(Self::Broken(exit)),
            _ => None,
        }
    }
}
