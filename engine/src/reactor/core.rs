//! What one reactor owns: connections, the queue of requests that wait, the recorder. Everything in
//! here is synchronous; tasks borrow it between two waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use tokclock_parser::dialect::Known;

use super::agenda::Agenda;
use super::conn::{Conn, Request, State};
use super::deadline::Deadlines;
use super::feed::{Feed, Prepared, Served};
use super::legs::Pairs;
use super::outcome::Ending;
use super::pool::{NOBODY, Pool};
use super::retry::Deferred;
use super::setup::{ReactorSetup, Start};
use super::socket;
use super::thread::Standing;
use super::turns::turns_left;
use crate::clock::RunClock;
use crate::plan::Plan;
use crate::record::{ErrorClass, Phase, Recorder, WaitCause};
use crate::workload::{Load, Overflow};

/// Bytes that one receive call takes at most.
const RECEIVE_BYTES: usize = 64 * 1024;
/// How long the end of a body may take after `[DONE]`, ns.
const UNCLOSED_NS: u64 = 1_000_000_000;

/// Looks at TCP_INFO between two ticks: at 0.5 µs each about 0.2 % of a core.
pub(super) const LOOKS_PER_TICK: u32 = 200;

/// Connections whose deadlines one tick looks at, at most.
const DEADLINES_PER_TICK: usize = 512;

/// A [`Core`] that the tasks of one thread share.
pub(crate) type Shared = Rc<RefCell<Core>>;

/// Somebody whose request is still to be had from the feed.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// When it was due, or its user free.
    at: u64,
    /// The user, or [`NOBODY`].
    user: u32,
    /// In which part of the run an arrival lies; a user's is known when it goes out.
    phase: Phase,
    /// The user has sent something already, so that it pauses first.
    pauses: bool,
}

/// The state of one reactor.
pub(crate) struct Core {
    pub(super) me: Weak<RefCell<Self>>,
    pub(super) setup: Arc<ReactorSetup>,
    pub(super) plan: Arc<Plan>,
    pub(super) start: Start,
    pub(super) clock: RunClock,
    pub(super) recorder: Recorder,
    pub(super) feed: Feed,
    pub(super) writer: Arc<Standing>,
    pub(super) conns: Vec<Conn>,
    pub(super) free: Vec<usize>,
    pub(super) idle: Pool,
    /// For each server the address that last answered.
    pub(super) good: Vec<usize>,
    pub(super) buffer: Box<[u8]>,
    /// What is known of the events that servers send.
    pub(super) known: Known,
    /// What a read held under its TLS.
    pub(super) plain: Vec<u8>,
    pub(super) opening: usize,
    pub(super) connections: u64,
    /// Requests for which a connection will be opened when fewer are being opened.
    pub(super) want: VecDeque<Request>,
    /// Requests that wait for a place in flight or for the recorder.
    waiting: VecDeque<Request>,
    /// Users that wait for the recorder (closed loop).
    held: VecDeque<Expected>,
    /// What is put off until an instant.
    pub(super) agenda: Agenda,
    /// Places among the connections that conversations of an open loop have had.
    pub(super) places: u32,
    /// Those that are free.
    pub(super) places_free: Vec<u32>,
    /// Requests that are under way as several.
    pub(super) pairs: Pairs,
    /// Requests that are to be retried after a pause.
    pub(super) deferred: Vec<Deferred>,
    /// Number of the next of those.
    pub(super) deferrals: u64,
    /// Users that rest because their connection could not be opened.
    pub(super) resting: u64,
    /// Arrivals or users whose bodies are not rendered.
    hungry: VecDeque<Expected>,
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
    /// Nothing is in flight and nothing will be.
    pub(super) is_over: bool,
    pub(super) ok: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) issued: u64,
    /// Looks at TCP_INFO that may be had before the next tick.
    pub(super) looks_left: u32,
    /// Steps of the wall clock that were seen before the kernel told of them.
    pub(super) steps_untold: u64,
    /// The connection whose receive window was looked at last.
    pub(super) window_at: usize,
    /// The connection whose deadlines are looked at next.
    expire_at: usize,
}

impl Core {
    /// A reactor that has done nothing.
    pub(crate) fn new(
        (setup, plan): (Arc<ReactorSetup>, Arc<Plan>),
        start: Start,
        clock: RunClock,
        recorder: Recorder,
        feed: Feed,
        writer: Arc<Standing>,
    ) -> Shared {
        let cap = setup.cap;
        let servers = setup.servers.len();
        let idle = Pool::new(setup.connections, servers);
        Rc::new_cyclic(|me| {
            RefCell::new(Self {
                me: me.clone(),
                setup,
                plan,
                start,
                clock,
                recorder,
                feed,
                writer,
                conns: Vec::new(),
                free: Vec::new(),
                idle,
                good: vec![0; servers],
                buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
                known: Known::default(),
                plain: Vec::new(),
                opening: 0,
                connections: 0,
                want: VecDeque::new(),
                waiting: VecDeque::new(),
                held: VecDeque::new(),
                agenda: Agenda::default(),
                places: 0,
                places_free: Vec::new(),
                pairs: Pairs::default(),
                deferred: Vec::new(),
                deferrals: 0,
                resting: 0,
                hungry: VecDeque::new(),
                in_flight: 0,
                cap,
                issuing: true,
                paced_out: false,
                ended_at: 0,
                is_over: false,
                ok: 0,
                failed: 0,
                cancelled: 0,
                issued: 0,
                looks_left: LOOKS_PER_TICK,
                steps_untold: 0,
                window_at: 0,
                expire_at: 0,
            })
        })
    }

    // --- what the load asks for -----------------------------------------------------------------

    /// An arrival of the open loop is due. Returns false if the measured part is full.
    pub(crate) fn arrive(&mut self, index: u64, due: u64) -> bool {
        let Some(phase) = self.start.window.begin(index, due) else { return false };
        self.recorder.offered(due);
        if phase == Phase::Measure {
            let class = self.plan.class_of(index) as u16;
            self.recorder.tally().offer(class);
        }
        let expected = Expected { at: due, user: NOBODY, phase, pauses: false };
        if !self.hungry.is_empty() {
            self.hungry.push_back(expected);
            return true;
        }
        match self.feed.next() {
            Served::Request(prepared) => {
                let user = self.session_place();
                self.admit(Request { user, ..Request::new(prepared, due, phase, None) });
            }
            Served::NotYet => {
                self.count_starved();
                self.hungry.push_back(expected);
            }
            Served::Finished => {}
        }
        true
    }

    /// A user of the closed loop is free since `at`; one that has sent something already `pauses`.
    pub(crate) fn user_free(&mut self, at: u64, user: u32, pauses: bool) {
        if !self.issuing || at >= self.start.window.end() {
            return;
        }
        let expected = Expected { at, user, phase: Phase::Measure, pauses };
        if self.recorder.is_behind() {
            self.held.push_back(expected);
            return;
        }
        match self.feed.next() {
            Served::Request(prepared) => self.serve_user(expected, prepared, None),
            Served::NotYet => {
                self.count_starved();
                self.hungry.push_back(expected);
            }
            Served::Finished => {}
        }
    }

    /// A user's request is there: it goes out after its pause.
    fn serve_user(&mut self, expected: Expected, prepared: Prepared, cause: Option<WaitCause>) {
        let Expected { at, user, phase, pauses } = expected;
        let pause = if pauses { prepared.pause_ns } else { 0 };
        let request = Request { user, ..Request::new(prepared, at, phase, cause) };
        match pause {
            0 => self.take_user(request),
            pause => self.put_off(request, at.saturating_add(pause)),
        }
    }

    fn count_starved(&mut self) {
        if !self.feed.is_ending() {
            self.recorder.tally().feed_starved += 1;
        }
    }

    /// A request of a user goes out.
    pub(super) fn take_user(&mut self, mut request: Request) {
        let now = self.clock.now();
        // The measured part may have ended since the user became free.
        let begun = if self.issuing && now < self.start.window.end() {
            self.start.window.begin(request.prepared.index, now)
        } else {
            None
        };
        let Some(phase) = begun.filter(|phase| *phase != Phase::Drain) else {
            self.abandon(request);
            return;
        };
        request.phase = phase;
        self.recorder.offered(now);
        if phase == Phase::Measure {
            self.recorder.tally().offer(request.prepared.class);
        }
        // The same instant decides what the request counts for and is its origin.
        self.take_up(&mut request, now);
        self.issue(request);
    }

    /// The feeder has rung: serve those who waited for it.
    pub(crate) fn serve_hungry(&mut self) {
        while let Some(&expected) = self.hungry.front() {
            match self.feed.next() {
                Served::Request(prepared) => {
                    self.hungry.pop_front();
                    let cause = Some(WaitCause::Feed);
                    if self.setup.is_closed {
                        self.serve_user(expected, prepared, cause);
                    } else {
                        let Expected { at, phase, .. } = expected;
                        let user = self.session_place();
                        self.admit(Request { user, ..Request::new(prepared, at, phase, cause) });
                    }
                }
                Served::NotYet => return,
                Served::Finished => self.hungry.clear(),
            }
        }
    }

    /// An arrival has its body: send it, let it wait, or drop it.
    pub(super) fn admit(&mut self, mut request: Request) {
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
            if request.phase == Phase::Measure {
                self.recorder.tally().drop_one(request.prepared.class);
            }
            let unsent = turns_left(request.prepared.script.as_deref());
            self.give_up(request, unsent);
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
            let Some(expected) = self.held.pop_front() else { break };
            match self.feed.next() {
                Served::Request(prepared) => {
                    self.serve_user(expected, prepared, Some(WaitCause::Recorder));
                }
                Served::NotYet => self.hungry.push_back(expected),
                Served::Finished => {}
            }
        }
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
        for request in self.agenda.drain() {
            // Nothing of it was offered yet.
            self.abandon(*request);
        }
        while let Some(request) = self.waiting.pop_front() {
            self.settle_unsent(request, class);
        }
    }

    /// Whether nothing is left to be issued by itself: the plan is at its end.
    pub(crate) fn is_exhausted(&mut self) -> bool {
        // Then what is put off will not begin.
        let is_full = self.start.window.is_full();
        let nobody_waits = self.waiting.is_empty()
            && self.want.is_empty()
            && self.held.is_empty()
            && self.hungry.is_empty()
            && (is_full || self.agenda.is_empty());
        if is_full || !self.paced_out || !nobody_waits {
            return is_full && nobody_waits;
        }
        match self.setup.load {
            // Answers may be followed by turns.
            Load::Open { .. } => !self.plan.has_sessions() || self.in_flight == 0,
            // Users end one by one when the feed has nothing more.
            Load::Closed { .. } => self.in_flight == 0 && self.resting == 0,
        }
    }

    /// Ends requests that took too long, or all of them for the reason `all`. Of a great many
    /// connections only a part is looked at each time: going through all of them would hold the
    /// reactor up.
    pub(crate) fn expire(&mut self, now: u64, all: Option<ErrorClass>) {
        if let Some(class) = all {
            for request in std::mem::take(&mut self.want) {
                self.settle_unsent(request, class);
            }
        }
        self.give_up_deferred(now, all.is_some());
        let count = self.conns.len();
        let looked_at = if all.is_some() { count } else { count.min(DEADLINES_PER_TICK) };
        for _ in 0..looked_at {
            let id = self.expire_at % count;
            self.expire_at = id + 1;
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
                    let over = self.setup.deadlines.while_busy(marks, conn.active_at, now);
                    over.or_else(|| Deadlines::to_cancel(conn.cancel, marks, now))
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
        for id in self.idle.drain() {
            self.look_back(id);
            self.conns[id].state = State::Closed;
            socket::shutdown(self.conns[id].fd);
        }
    }

    /// Whether every connection's task has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.conns.len()
    }
}
