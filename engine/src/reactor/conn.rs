//! One connection of a reactor and the request on it, and the slab that holds them.

use std::os::fd::RawFd;
use std::rc::Rc;

use monoio::net::TcpStream;
use tokclock_parser::answer::Answer;

use super::exchange::Exchange;
use super::feed::Prepared;
use crate::record::{ErrorClass, NONE, Settled, WaitCause};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing: the place is free.
    Free,
    /// It is being opened for a request.
    Opening,
    /// It waits for a request.
    Idle,
    /// A request is on it.
    Busy,
    /// It is over; its task ends at the next wake-up.
    Closed,
}

/// A request that is to be sent.
#[derive(Debug)]
pub(crate) struct Request {
    /// Head and body.
    pub(crate) prepared: Prepared,
    /// When the schedule (or its user) wanted it, ns since the run's start.
    pub(crate) intended: u64,
    /// When a reactor took it up; [`NONE`] before.
    pub(crate) dispatched: u64,
    /// What made it late, as far as is known.
    pub(crate) cause: Option<WaitCause>,
    /// Times that it was written.
    pub(crate) attempts: u32,
    /// Its stale connection was replaced already.
    pub(crate) replaced: bool,
}

impl Request {
    /// A request that nobody has taken up.
    pub(crate) fn new(prepared: Prepared, intended: u64, cause: Option<WaitCause>) -> Self {
        Self { prepared, intended, dispatched: NONE, cause, attempts: 0, replaced: false }
    }
}

/// One connection.
pub(crate) struct Conn {
    pub(crate) state: State,
    /// Kept by the connection's task too; closed when the last holder drops it.
    pub(crate) stream: Option<Rc<TcpStream>>,
    pub(crate) fd: RawFd,
    /// Number of the connection in its run.
    pub(crate) number: u64,
    /// When it began to be opened.
    pub(crate) opened_at: u64,
    pub(crate) answer: Answer,
    pub(crate) exchange: Exchange,
    /// The request, until the first byte of its answer.
    pub(crate) prepared: Option<Prepared>,
    /// Its bytes that the kernel has taken.
    pub(crate) written: usize,
    /// Its length.
    pub(crate) to_write: usize,
    pub(crate) replaced: bool,
    /// Just before the receive call that last found the socket empty.
    pub(crate) empty_at: u64,
    /// When bytes last arrived, or the request was completely written.
    pub(crate) active_at: u64,
    /// We ended it, for this reason.
    pub(crate) ours: Option<ErrorClass>,
    /// TCP_INFO's count of data segments at the last look.
    pub(crate) segments_seen: u32,
    /// Segments that the reads since then needed.
    pub(crate) segments_read: u32,
    /// Nothing was missed since the last look.
    pub(crate) segments_known: bool,
}

impl Conn {
    /// A free place.
    pub(crate) fn free(answer: Answer, stream: bool, keep_text: bool) -> Self {
        Self {
            state: State::Free,
            stream: None,
            fd: -1,
            number: 0,
            opened_at: 0,
            answer,
            exchange: Exchange::new(Settled::new(0, 0), stream, keep_text),
            prepared: None,
            written: 0,
            to_write: 0,
            replaced: false,
            empty_at: 0,
            active_at: 0,
            ours: None,
            segments_seen: 0,
            segments_read: 0,
            segments_known: true,
        }
    }

    /// Whether every byte of the request was taken by the kernel.
    pub(crate) fn is_written(&self) -> bool {
        self.written == self.to_write
    }
}
