//! What one reactor owns: connections, the queue of requests that wait, the recorder. Everything in
//! here is synchronous; tasks borrow it between two waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::conn::{Conn, Request, State};
use super::exchange::Ending;
use super::feed::{Feed, Served};
use super::setup::{ReactorSetup, Start};
use super::{connection, socket};
use crate::clock::RunClock;
use crate::record::{ErrorClass, Marks, NONE, Outcome, Phase, Recorder, Settled, WaitCause};
use crate::workload::{Load, Overflow};

/// Bytes that one receive call takes at most.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Connections of one reactor that are being opened at the same time, at most.
const OPENING_MAX: usize = 128;
/// Room for output events beyond those asked for, so that a talkative server costs no allocation.
const CHUNKS_SPARE: usize = 32;
/// How long the end of a body may take after `[DONE]`, ns.
const UNCLOSED_NS: u64 = 1_000_000_000;

/// Looks at TCP_INFO between two ticks: at 0.5 µs each about 1 % of a core.
pub(super) const LOOKS_PER_TICK: u32 = 1_000;

/// A [`Core`] that the tasks of one thread share.
pub(crate) type Shared = Rc<RefCell<Core>>;

/// An arrival or a user that waits for its body to be rendered.
#[derive(Debug, Clone, Copy)]
struct Hungry {
    intended: u64,
}

/// The state of one reactor.
pub(crate) struct Core {
    me: Weak<RefCell<Core>>,
    pub(super) setup: Arc<ReactorSetup>,
    pub(super) start: Start,
    pub(super) clock: RunClock,
    pub(super) recorder: Recorder,
    pub(super) feed: Feed,
    pub(super) conns: Vec<Conn>,
    free: Vec<usize>,
    idle: Vec<usize>,
    pub(super) buffer: Box<[u8]>,
    opening: usize,
    connections: u64,
    /// Requests for which a connection will be opened when fewer are being opened.
    want: VecDeque<Request>,
    /// Requests that wait for a place in flight or for the recorder.
    waiting: VecDeque<Request>,
    /// Users that wait for the recorder (closed loop).
    held: VecDeque<u64>,
    hungry: VecDeque<Hungry>,
    /// Requests taken up and not over.
    pub(super) in_flight: u64,
    /// The most of them that this reactor may have.
    cap: Option<u64>,
    /// New requests may still begin.
    pub(super) issuing: bool,
    /// The pacer has no more arrivals (or users to start).
    pub(super) paced_out: bool,
    /// When issuing ended.
    pub(super) ended_at: u64,
    pub(super) ok: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) issued: u64,
    /// Looks at TCP_INFO that may be had before the next tick.
    pub(super) looks_left: u32,
}

impl Core {
    /// A reactor that has done nothing.
    pub(crate) fn new(
        setup: Arc<ReactorSetup>,
        start: Start,
        clock: RunClock,
        recorder: Recorder,
        feed: Feed,
    ) -> Shared {
        let cap = setup.cap;
        Rc::new_cyclic(|me| {
            RefCell::new(Self {
                me: me.clone(),
                setup,
                start,
                clock,
                recorder,
                feed,
                conns: Vec::new(),
                free: Vec::new(),
                idle: Vec::new(),
                buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
                opening: 0,
                connections: 0,
                want: VecDeque::new(),
                waiting: VecDeque::new(),
                held: VecDeque::new(),
                hungry: VecDeque::new(),
                in_flight: 0,
                cap,
                issuing: true,
                paced_out: false,
                ended_at: 0,
                ok: 0,
                failed: 0,
                cancelled: 0,
                issued: 0,
                looks_left: LOOKS_PER_TICK,
            })
        })
    }

    // --- what the load asks for -----------------------------------------------------------------

    /// An arrival of the open loop is due. Returns false if the measured part is full.
    pub(crate) fn arrive(&mut self, index: u64, due: u64) -> bool {
        let phase = self.start.window.phase(index, due);
        if !self.start.window.claim(phase) {
            return false;
        }
        self.recorder.offered(due);
        if phase == Phase::Measure {
            self.recorder.tally().offered += 1;
        }
        if !self.hungry.is_empty() {
            self.hungry.push_back(Hungry { intended: due });
            return true;
        }
        match self.feed.next() {
            Served::Request(prepared) => self.admit(Request::new(prepared, due, None)),
            Served::NotYet => {
                self.recorder.tally().feed_starved += 1;
                self.hungry.push_back(Hungry { intended: due });
            }
            Served::Finished => {}
        }
        true
    }

    /// A user of the closed loop is free since `at`.
    pub(crate) fn user_free(&mut self, at: u64) {
        if !self.issuing || at >= self.start.window.end() {
            return;
        }
        if self.recorder.is_behind() {
            self.held.push_back(at);
            return;
        }
        match self.feed.next() {
            Served::Request(prepared) => self.take_user(Request::new(prepared, at, None)),
            Served::NotYet => {
                self.recorder.tally().feed_starved += 1;
                self.hungry.push_back(Hungry { intended: at });
            }
            Served::Finished => {}
        }
    }

    /// A request of a user goes out.
    fn take_user(&mut self, request: Request) {
        let now = self.clock.now();
        let phase = self.start.window.phase(request.prepared.index, now);
        if !self.start.window.claim(phase) {
            self.feed.give_back(request.prepared.bytes);
            return;
        }
        self.recorder.offered(now);
        if phase == Phase::Measure {
            self.recorder.tally().offered += 1;
        }
        self.issue(request);
    }

    /// The feeder has rung: serve those who waited for it.
    pub(crate) fn serve_hungry(&mut self) {
        while let Some(&Hungry { intended }) = self.hungry.front() {
            match self.feed.next() {
                Served::Request(prepared) => {
                    self.hungry.pop_front();
                    let request = Request::new(prepared, intended, Some(WaitCause::Feed));
                    if self.setup.is_closed {
                        if self.issuing {
                            self.take_user(request);
                        } else {
                            self.feed.give_back(request.prepared.bytes);
                        }
                    } else {
                        self.admit(request);
                    }
                }
                Served::NotYet => return,
                Served::Finished => self.hungry.clear(),
            }
        }
    }

    /// An arrival has its body: send it, let it wait, or drop it.
    fn admit(&mut self, mut request: Request) {
        if self.recorder.is_behind() {
            request.cause.get_or_insert(WaitCause::Recorder);
            self.waiting.push_back(request);
            return;
        }
        if self.cap.is_none_or(|cap| self.in_flight < cap) && self.waiting.is_empty() {
            self.issue(request);
            return;
        }
        if self.setup.overflow == Overflow::Drop {
            let at = request.intended;
            self.recorder.dropped(at);
            if self.start.window.phase(request.prepared.index, at) == Phase::Measure {
                self.recorder.tally().dropped += 1;
            }
            self.feed.give_back(request.prepared.bytes);
            return;
        }
        request.cause = Some(WaitCause::Cap);
        self.waiting.push_back(request);
    }

    /// Lets those go who waited for a place in flight or for the recorder.
    pub(crate) fn pump(&mut self) {
        while !self.recorder.is_behind() && self.cap.is_none_or(|cap| self.in_flight < cap) {
            let Some(request) = self.waiting.pop_front() else { break };
            self.issue(request);
        }
        while !self.recorder.is_behind() {
            let Some(at) = self.held.pop_front() else { break };
            match self.feed.next() {
                Served::Request(prepared) => {
                    self.take_user(Request::new(prepared, at, Some(WaitCause::Recorder)));
                }
                Served::NotYet => self.hungry.push_back(Hungry { intended: at }),
                Served::Finished => {}
            }
        }
    }

    // --- from a request to bytes on a connection ------------------------------------------------

    /// Takes a request up: on an idle connection, or on a new one.
    fn issue(&mut self, mut request: Request) {
        if request.dispatched == NONE {
            request.dispatched = self.clock.now();
            self.in_flight += 1;
            self.issued += 1;
        }
        loop {
            let Some(id) = self.idle.pop() else { break };
            self.prepare(id, request);
            match self.write(id, true) {
                Ok(()) => return,
                Err(_) => {
                    // It was dead before a byte was taken: this is no failure of the request.
                    request = self.take_back(id);
                    self.recorder.tally().stale_replaced += 1;
                }
            }
        }
        if self.opening < OPENING_MAX {
            self.open(request);
        } else {
            self.want.push_back(request);
        }
    }

    /// Puts a request on connection `id`.
    fn prepare(&mut self, id: usize, request: Request) {
        let setup = &self.setup;
        let conn = &mut self.conns[id];
        let prepared = request.prepared;
        let room = prepared.output_tokens as usize + CHUNKS_SPARE;
        conn.answer.reset();
        conn.exchange.begin(prepared.index, request.intended, room);
        let settled = &mut conn.exchange.settled;
        settled.reactor = setup.reactor;
        settled.connection = conn.number;
        settled.attempts = request.attempts + 1;
        settled.planned_input = prepared.input_tokens;
        settled.wait_cause = request.cause;
        settled.marks.dispatched = request.dispatched;
        let origin = if setup.is_closed { request.dispatched } else { request.intended };
        settled.phase = self.start.window.phase(prepared.index, origin);
        conn.replaced = request.replaced;
        conn.written = 0;
        conn.to_write = prepared.bytes.len();
        conn.prepared = Some(prepared);
        conn.ours = None;
    }

    /// Takes the request of a connection that died before any byte of an answer, and closes it.
    fn take_back(&mut self, id: usize) -> Request {
        let conn = &mut self.conns[id];
        let settled = &conn.exchange.settled;
        let prepared = conn.prepared.take();
        let request = Request {
            prepared: prepared.unwrap_or_else(|| super::feed::Prepared {
                index: settled.index,
                bytes: Vec::new(),
                input_tokens: 0,
                output_tokens: 0,
            }),
            intended: settled.marks.intended,
            dispatched: settled.marks.dispatched,
            cause: settled.wait_cause,
            attempts: settled.attempts,
            replaced: true,
        };
        self.close(id);
        request
    }

    /// Writes the request of connection `id`, as much as the kernel takes.
    ///
    /// # Errors
    /// The connection is dead; nothing was settled.
    pub(crate) fn write(&mut self, id: usize, reused: bool) -> std::io::Result<()> {
        let conn = &mut self.conns[id];
        let Some(prepared) = &conn.prepared else { return Ok(()) };
        let fd = conn.fd;
        let first = conn.exchange.settled.marks.write_start == NONE;
        let start = self.clock.now();
        let taken = socket::send(fd, &prepared.bytes[conn.written..])?;
        let end = self.clock.now();
        conn.written += taken;
        if first {
            conn.state = State::Busy;
            conn.active_at = start;
            let settled = &mut conn.exchange.settled;
            settled.reused = reused;
            settled.marks.write_start = start;
            let late = start.saturating_sub(settled.marks.intended);
            if settled.wait_cause.is_none() && !self.setup.is_closed {
                settled.wait_cause = cause_of(settled.marks, late);
            }
            self.recorder.started(start);
        }
        if conn.is_written() {
            conn.exchange.settled.marks.write_done = end;
            conn.active_at = end;
        } else if first {
            self.spawn_flush(id);
        }
        Ok(())
    }

    /// Opens a connection for a request.
    fn open(&mut self, request: Request) {
        let id = self.place();
        self.connections += 1;
        let now = self.clock.now();
        let number = self.connections * u64::from(self.setup.reactors)
            + u64::from(self.setup.reactor)
            - u64::from(self.setup.reactors);
        let conn = &mut self.conns[id];
        conn.state = State::Opening;
        conn.number = number;
        conn.opened_at = now;
        conn.empty_at = now;
        conn.served = 0;
        conn.segments_seen = 0;
        conn.segments_read = 0;
        conn.segments_known = true;
        self.prepare(id, request);
        self.opening += 1;
        self.recorder.tally().connections += 1;
        let opened = socket::connect(self.setup.address, self.setup.stamped, self.setup.reset)
            .and_then(|socket| monoio::net::TcpStream::from_std(socket.into()));
        let stream = opened.map(Rc::new);
        let conn = &mut self.conns[id];
        if let Ok(stream) = &stream {
            conn.fd = stream.as_raw_fd();
            conn.stream = Some(Rc::clone(stream));
        }
        if let Some(me) = self.me.upgrade() {
            let run = connection::run(Rc::clone(&me), id, stream);
            monoio::spawn(connection::guarded(me, id, run));
        }
    }

    /// A connection is there: its request goes out.
    pub(crate) fn opened(&mut self, id: usize) {
        self.opening = self.opening.saturating_sub(1);
        let now = self.clock.now();
        self.conns[id].exchange.settled.marks.connected = now;
        if let Err(error) = self.write(id, false) {
            self.settle(id, &Ending::Broken(error.raw_os_error().unwrap_or(0)), now);
            self.close(id);
        }
        self.open_wanted();
    }

    /// A connection could not be opened: its request fails. Returns when its user is free, so that
    /// the caller can let some time pass first.
    pub(crate) fn not_opened(&mut self, id: usize, class: ErrorClass, text: String) {
        self.opening = self.opening.saturating_sub(1);
        let ours = self.conns[id].ours;
        let ending = match ours {
            Some(ours) => Ending::Ours(ours),
            None => Ending::NoConnection(class, text),
        };
        self.settle_quietly(id, &ending);
        self.close(id);
        self.open_wanted();
    }

    fn open_wanted(&mut self) {
        while self.opening < OPENING_MAX {
            let Some(request) = self.want.pop_front() else { return };
            self.issue(request);
        }
    }

    fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.conns.push(self.setup.new_conn());
            self.conns.len() - 1
        })
    }

    fn spawn_flush(&self, id: usize) {
        if let (Some(me), Some(stream)) = (self.me.upgrade(), &self.conns[id].stream) {
            let number = self.conns[id].number;
            let stream = Rc::clone(stream);
            let flush = connection::flush(Rc::clone(&me), id, number, stream);
            monoio::spawn(connection::guarded(me, id, flush));
        }
    }

    // --- the end of a request -------------------------------------------------------------------

    /// The request of connection `id` failed with `ending`, or the connection was stale: then it is
    /// replaced once, if no byte of an answer came.
    pub(crate) fn settle_or_replace(&mut self, id: usize, ending: &Ending, now: u64) {
        let conn = &self.conns[id];
        let settled = &conn.exchange.settled;
        let stale = settled.reused
            && !conn.replaced
            && settled.reads == 0
            && conn.ours.is_none()
            && conn.prepared.is_some()
            && self.issuing_or_draining();
        if stale {
            self.recorder.left();
            self.recorder.tally().stale_replaced += 1;
            let request = self.take_back(id);
            if self.opening < OPENING_MAX {
                self.open(request);
            } else {
                self.want.push_back(request);
            }
            return;
        }
        self.settle(id, ending, now);
        self.close(id);
    }

    fn issuing_or_draining(&self) -> bool {
        !self.start.control.is_cut()
    }

    /// The request of connection `id` is over; whoever waited for that goes on.
    pub(crate) fn settle(&mut self, id: usize, ending: &Ending, now: u64) {
        self.settle_quietly(id, ending);
        self.next_after(now);
    }

    /// A place in flight has become free at `now`.
    pub(crate) fn next_after(&mut self, now: u64) {
        if self.setup.is_closed {
            self.user_free(now);
        } else {
            self.pump();
        }
    }

    /// The request of connection `id` is over.
    fn settle_quietly(&mut self, id: usize, ending: &Ending) {
        let conn = &mut self.conns[id];
        let count: Option<&dyn Fn(&str) -> u64> =
            self.setup.count.as_deref().map(|count| count as _);
        conn.exchange.settle(&conn.answer, ending, count);
        if let Some(prepared) = conn.prepared.take() {
            self.feed.give_back(prepared.bytes);
        }
        let now = self.clock.now();
        if conn.exchange.settled.marks.write_start != NONE {
            self.recorder.left();
        }
        match conn.exchange.settled.outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Error => self.failed += 1,
            Outcome::Cancelled => self.cancelled += 1,
        }
        let last_coalesced = conn.exchange.last_coalesced();
        self.recorder.settle(&mut conn.exchange.settled, now, last_coalesced);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A request that was never written is over.
    fn settle_unsent(&mut self, request: Request, class: ErrorClass) {
        let mut settled = Settled::new(request.prepared.index, request.intended);
        settled.reactor = self.setup.reactor;
        settled.wait_cause = request.cause;
        settled.planned_input = request.prepared.input_tokens;
        settled.marks.dispatched = request.dispatched;
        settled.phase = self.start.window.phase(request.prepared.index, request.intended);
        settled.error = Some(class);
        if request.dispatched != NONE {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        self.cancelled += 1;
        let now = self.clock.now();
        self.recorder.settle(&mut settled, now, false);
        self.feed.give_back(request.prepared.bytes);
    }

    /// Connection `id` waits for its next request.
    pub(crate) fn rest(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        conn.state = State::Idle;
        conn.served += 1;
        self.idle.push(id);
    }

    /// Connection `id` is over: its task ends at its next wake-up.
    pub(crate) fn close(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        if conn.state == State::Idle {
            self.idle.retain(|&other| other != id);
        }
        conn.state = State::Closed;
        if conn.fd >= 0 {
            socket::shutdown(conn.fd);
        }
    }

    /// The task of connection `id` has ended; its place may be used again.
    pub(crate) fn release(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        conn.state = State::Free;
        conn.stream = None;
        conn.fd = -1;
        self.free.push(id);
    }

    // --- the end of the load --------------------------------------------------------------------

    /// No new request begins from now on. Those that wait are over too, for the reason `class`.
    pub(crate) fn end_issuing(&mut self, now: u64, class: ErrorClass) {
        if !self.issuing {
            return;
        }
        self.issuing = false;
        self.ended_at = now;
        self.feed.stop();
        self.held.clear();
        self.hungry.clear();
        while let Some(request) = self.waiting.pop_front().or_else(|| self.want.pop_front()) {
            self.settle_unsent(request, class);
        }
    }

    /// Whether nothing is left to be issued by itself: the plan is at its end.
    pub(crate) fn is_exhausted(&mut self) -> bool {
        let nobody_waits = self.waiting.is_empty()
            && self.want.is_empty()
            && self.held.is_empty()
            && self.hungry.is_empty();
        if !self.paced_out || !nobody_waits {
            return false;
        }
        match self.setup.load {
            Load::Open { .. } => true,
            // Users end one by one when the feed has nothing more.
            Load::Closed { .. } => self.in_flight == 0,
        }
    }

    /// Ends requests that took too long, or all of them for the reason `all`.
    pub(crate) fn expire(&mut self, now: u64, all: Option<ErrorClass>) {
        for id in 0..self.conns.len() {
            let conn = &mut self.conns[id];
            if conn.ours.is_some() {
                continue;
            }
            let class = match (conn.state, all) {
                (State::Opening | State::Busy, Some(class)) => Some(class),
                (State::Opening, None) => {
                    let marks = conn.exchange.settled.marks;
                    self.setup.deadlines.while_opening(marks, conn.opened_at, now)
                }
                (State::Busy, None) => {
                    let marks = conn.exchange.settled.marks;
                    self.setup.deadlines.while_busy(marks, conn.active_at, now)
                }
                _ => None,
            };
            if let Some(class) = class {
                conn.ours = Some(class);
                socket::shutdown(conn.fd);
            } else if conn.state == State::Busy
                && conn.exchange.is_done()
                && now.saturating_sub(conn.active_at) > UNCLOSED_NS
            {
                self.settle(id, &Ending::Unclosed, now);
                self.close(id);
            }
        }
    }

    /// Closes what is idle, when all is over.
    pub(crate) fn close_idle(&mut self) {
        for id in std::mem::take(&mut self.idle) {
            self.conns[id].state = State::Closed;
            socket::shutdown(self.conns[id].fd);
        }
    }

    /// Whether every connection's task has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.conns.len()
    }
}

/// Why a write was late, when nothing is known to have held it up.
fn cause_of(marks: Marks, late: u64) -> Option<WaitCause> {
    if late == 0 {
        None
    } else if marks.connected != NONE {
        Some(WaitCause::Connect)
    } else {
        Some(WaitCause::Reactor)
    }
}
