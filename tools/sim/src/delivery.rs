//! Sending: what is due goes to the kernel, and what the kernel took is booked.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use crate::clock;
use crate::connection::{Connection, Unit};
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
            if connection.output.bytes.is_empty()
                && let Some(active) = &mut connection.active
            {
                active.gather(&self.shared.wire, self.shared.cut, now_ns, &mut connection.output);
            }
            if connection.output.bytes.is_empty() || !self.send(state, connection, id) {
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
        let result = socket::send(fd, &output.bytes[output.sent..]);
        let end_ns = clock::monotonic_ns();
        let first_ns = *output.started_ns.get_or_insert(start_ns);
        match result {
            Ok(sent) => output.sent += sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                connection.dead = true;
                // The task that reads then learns of it and cleans up.
                socket::shutdown(fd, libc::SHUT_RDWR);
                return false;
            }
        }
        let mut ended = false;
        while let Some(mark) = connection.output.marks.front()
            && mark.end <= connection.output.sent
        {
            ended |= mark.unit == Unit::Tail;
            self.sent(&mut state.tally, connection, mark.unit, [first_ns, end_ns]);
            connection.output.marks.pop_front();
        }
        if connection.output.sent < connection.output.bytes.len() {
            state.tally.blocked_sends += 1;
            connection.output.retried = true;
            connection.blocked = true;
            state.blocked.push((id, Rc::clone(&connection.stream)));
            return false;
        }
        connection.output.clear();
        if ended {
            self.finish(state, connection, end_ns);
        }
        if connection.closing {
            socket::shutdown(fd, libc::SHUT_WR);
        } else if !connection.is_busy() && !connection.input.is_empty() {
            self.take_up(state, connection, id, end_ns);
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
            Unit::Tail => {
                if !active.stream {
                    tally.tokens += u64::from(active.answer.output_tokens);
                }
                if let Some(record) = &mut active.record {
                    record.head = record.head.or(Some(at));
                    record.tail = Some(at);
                    record.complete = true;
                }
            }
        }
    }

    fn finish(&self, state: &mut State, connection: &mut Connection, now_ns: u64) {
        let Some(active) = connection.active.take() else { return };
        state.tally.completed += 1;
        state.tally.last_done_ns = state.tally.last_done_ns.max(now_ns);
        connection.closing |= active.answer.close;
        self.pass_on(state);
        self.log(*active);
    }
}
