//! One connection of a reactor and the request on it, and the slab that holds them.

use std::os::fd::RawFd;
use std::rc::Rc;

use monoio::net::TcpStream;
use tokclock_parser::answer::Answer;

use super::exchange::Exchange;
use super::feed::Prepared;
use super::legs::Leg;
use super::pool::NOBODY;
use super::tls::Session;
use crate::plan::Script;
use crate::record::{ErrorClass, NONE, Phase, Settled, WaitCause};
use crate::workload::CancelAfter;

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
    /// In which part of the run its origin lies.
    pub(crate) phase: Phase,
    /// What made it late, as far as is known.
    pub(crate) cause: Option<WaitCause>,
    /// Times that a connection was found or opened for it.
    pub(crate) attempts: u32,
    /// Of those, attempts after a failed one.
    pub(crate) retries: u32,
    /// The server that it goes to.
    pub(crate) server: usize,
    /// The user whose request it is, or [`NOBODY`].
    pub(crate) user: u32,
    /// Its stale connection was replaced already.
    pub(crate) replaced: bool,
    /// It is one of several that make a request.
    pub(crate) leg: Option<Leg>,
    /// It goes by a router, beside requests that do not.
    pub(crate) by_router: bool,
}

impl Request {
    /// A request that nobody has taken up.
    pub(crate) fn new(
        prepared: Prepared,
        intended: u64,
        phase: Phase,
        cause: Option<WaitCause>,
    ) -> Self {
        Self {
            prepared,
            intended,
            dispatched: NONE,
            phase,
            cause,
            attempts: 0,
            retries: 0,
            server: 0,
            user: NOBODY,
            replaced: false,
            leg: None,
            by_router: false,
        }
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
    /// The server that it leads to.
    pub(crate) server: usize,
    /// Which of that server's addresses it was last tried with.
    pub(crate) address: usize,
    /// Addresses that did not answer.
    pub(crate) tried: usize,
    /// The user of the request on it, or of the last one.
    pub(crate) user: u32,
    /// Requests that it has carried.
    pub(crate) served: u64,
    /// Its TLS, where that is spoken.
    pub(crate) tls: Option<Box<Session>>,
    pub(crate) answer: Answer,
    pub(crate) exchange: Exchange,
    /// The request, until the first byte of its answer; to its end where it may be retried.
    pub(crate) prepared: Option<Prepared>,
    /// What follows in its conversation.
    pub(crate) script: Option<Box<Script>>,
    /// Its bytes that the kernel has taken.
    pub(crate) written: usize,
    /// Its length on the wire.
    pub(crate) to_write: usize,
    pub(crate) replaced: bool,
    /// The request is one of several that make one.
    pub(crate) leg: Option<Leg>,
    /// The request is cancelled on purpose, then.
    pub(crate) cancel: Option<CancelAfter>,
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
            server: 0,
            address: 0,
            tried: 0,
            user: NOBODY,
            served: 0,
            tls: None,
            answer,
            exchange: Exchange::new(Settled::new(0, 0), stream, keep_text),
            prepared: None,
            script: None,
            written: 0,
            to_write: 0,
            replaced: false,
            leg: None,
            cancel: None,
            empty_at: 0,
            active_at: 0,
            ours: None,
            segments_seen: 0,
            segments_read: 0,
            segments_known: true,
        }
    }

    /// Whether the request on it has had as many output events as it is to have.
    #[inline]
    pub(crate) fn is_to_be_cancelled(&self) -> bool {
        match self.cancel {
            Some(CancelAfter::Events(events)) => {
                self.exchange.settled.events >= events && !self.exchange.is_done()
            }
            _ => false,
        }
    }

    /// Whether every byte of the request was taken by the kernel.
    pub(crate) fn is_written(&self) -> bool {
        self.written == self.to_write
    }
}
