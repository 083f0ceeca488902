//! From a request to bytes on a connection: an idle one, or a new one.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use monoio::net::TcpStream;

use super::conn::{Request, State};
use super::core::Core;
use super::feed::Prepared;
use super::legs::Role;
use super::outcome::Ending;
use super::settle::Settling;
use super::{connection, socket};
use crate::disagg::Route;
use crate::record::{ErrorClass, Legs, Marks, NONE, WaitCause};

/// Connections of one reactor that are being opened at the same time, at most.
const OPENING_MAX: usize = 128;
/// Room for output events beyond those asked for, so that a talkative server costs no allocation.
const CHUNKS_SPARE: usize = 8;

impl Core {
    /// A request is in flight from `now` on.
    pub(super) fn take_up(&mut self, request: &mut Request, now: u64) {
        request.dispatched = now;
        self.in_flight += 1;
        self.issued += 1;
    }

    /// Sends a request on an idle connection, or on a new one.
    pub(super) fn issue(&mut self, mut request: Request) {
        if request.dispatched == NONE {
            let now = self.clock.now();
            self.take_up(&mut request, now);
        }
        if let Some(planned) = request.prepared.legs.take() {
            let Route::Router(server) = planned.route else {
                self.issue_legs(request, *planned);
                return;
            };
            (request.server, request.by_router) = (server, true);
        } else if let Some(leg) = request.leg {
            if self.pairs.is_void(leg) {
                self.leg_unsent(leg, ErrorClass::Deadline);
                return;
            }
        } else if !request.by_router {
            request.server = self.plan.server(request.prepared.item);
        }
        while let Some(id) = self.idle.take(request.user, request.server) {
            self.prepare(id, request);
            match self.write(id, true) {
                Ok(()) => return,
                Err(_) => {
                    // It was dead before a byte was taken: this is no failure of the request.
                    self.recorder.tally().stale_replaced += 1;
                    let Some(again) = self.take_back(id) else { return };
                    request = again;
                }
            }
        }
        self.open_or_want(request);
    }

    /// Opens a connection for a request, now or when fewer are being opened.
    pub(super) fn open_or_want(&mut self, request: Request) {
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
        let mut prepared = request.prepared;
        let room = prepared.output_tokens as usize + CHUNKS_SPARE;
        let is_stream = setup.is_stream(request.leg);
        if conn.exchange.stream == is_stream {
            conn.answer.reset();
        } else {
            conn.answer = setup.answer(is_stream);
            conn.exchange.stream = is_stream;
        }
        conn.exchange.begin(prepared.index, request.intended, room);
        let settled = &mut conn.exchange.settled;
        settled.reactor = setup.reactor;
        settled.connection = conn.number;
        settled.attempts = request.attempts + 1;
        settled.retries = request.retries;
        if request.retries > 0 {
            settled.retry_ns = self.clock.now().saturating_sub(request.dispatched);
        }
        settled.class = prepared.class;
        settled.session = prepared.turn.is_some().then_some(prepared.item);
        settled.turn = prepared.turn;
        settled.planned_input = prepared.input_tokens;
        settled.ideal_cached = prepared.ideal_cached;
        settled.wait_cause = request.cause;
        settled.marks.dispatched = request.dispatched;
        settled.phase = request.phase;
        conn.script = prepared.script.take();
        conn.replaced = request.replaced;
        conn.user = request.user;
        conn.server = request.server;
        conn.leg = request.leg;
        if request.by_router {
            settled.legs = Some(Box::new(Legs::by_router()));
        }
        let may_be_cancelled = request.leg.is_none_or(|leg| leg.role == Role::Decode);
        conn.cancel = may_be_cancelled.then(|| setup.to_cancel(prepared.index)).flatten();
        conn.written = 0;
        conn.to_write = prepared.bytes.len();
        conn.prepared = Some(prepared);
        conn.ours = None;
        if let Some(leg) = request.leg {
            self.pairs.is_on(leg, id);
        }
    }

    /// Takes the request of a connection that died before any byte of an answer, and closes it.
    pub(super) fn take_back(&mut self, id: usize) -> Option<Request> {
        let conn = &mut self.conns[id];
        let settled = &conn.exchange.settled;
        let script = conn.script.take();
        let request = conn.prepared.take().map(|prepared| Request {
            prepared: Prepared { script, ..prepared },
            intended: settled.marks.intended,
            dispatched: settled.marks.dispatched,
            phase: settled.phase,
            cause: settled.wait_cause,
            attempts: settled.attempts,
            retries: settled.retries,
            server: conn.server,
            user: conn.user,
            replaced: true,
            leg: conn.leg,
            by_router: settled.legs.is_some(),
        });
        self.close(id);
        request
    }

    /// Writes the request of connection `id`, as much as the kernel takes.
    ///
    /// # Errors
    /// The connection is dead; nothing was settled.
    pub(crate) fn write(&mut self, id: usize, reused: bool) -> io::Result<()> {
        let conn = &mut self.conns[id];
        let Some(prepared) = &conn.prepared else { return Ok(()) };
        let fd = conn.fd;
        let first = conn.exchange.settled.marks.write_start == NONE;
        let bytes = match &mut conn.tls {
            Some(session) => {
                if first {
                    session.seal(&prepared.bytes);
                    conn.to_write = session.out.len();
                }
                session.out.as_slice()
            }
            None => &prepared.bytes,
        };
        let start = self.clock.now();
        let taken = socket::send(fd, &bytes[conn.written..])?;
        let end = self.clock.now();
        conn.written += taken;
        if first {
            conn.state = State::Busy;
            conn.served += 1;
            conn.active_at = start;
            let settled = &mut conn.exchange.settled;
            settled.reused = reused;
            settled.marks.write_start = start;
            let late = start.saturating_sub(settled.marks.intended);
            if settled.wait_cause.is_none() && !self.setup.is_closed {
                settled.wait_cause = cause_of(settled.marks, late);
            }
            if conn.leg.is_none_or(|leg| self.pairs.is_first_byte(leg)) {
                self.recorder.started(start);
            }
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
        conn.served = 0;
        conn.tls = None;
        conn.empty_at = now;
        conn.segments_seen = 0;
        conn.segments_read = 0;
        conn.segments_known = true;
        self.prepare(id, request);
        self.opening += 1;
        self.recorder.tally().connections += 1;
        let conn = &mut self.conns[id];
        (conn.address, conn.tried) = (self.good[conn.server], 0);
        let stream = self.dial(id);
        if let Some(me) = self.me.upgrade() {
            let open = Box::pin(connection::open(Rc::clone(&me), id, stream));
            monoio::spawn(connection::guarded(me, id, true, open));
        }
    }

    /// Begins to connect connection `id` to the address that it is to be tried with.
    pub(crate) fn dial(&mut self, id: usize) -> io::Result<Rc<TcpStream>> {
        let setup = &self.setup;
        let conn = &mut self.conns[id];
        let addresses = &setup.servers[conn.server].addresses;
        let address = &addresses[conn.address % addresses.len()];
        // Every address has the whole time.
        conn.opened_at = self.clock.now();
        let sources = setup.source_ips.len().max(1) as u64;
        let source = setup.source_ips.get((conn.number % sources) as usize).copied();
        let socket = socket::connect(address, source, setup.stamped, setup.reset)?;
        let stream = Rc::new(TcpStream::from_std(socket.into())?);
        conn.fd = stream.as_raw_fd();
        conn.stream = Some(Rc::clone(&stream));
        Ok(stream)
    }

    /// Connection `id` did not reach its address: it is tried with the server's next, if there is one
    /// that was not tried.
    pub(crate) fn dial_next(&mut self, id: usize) -> Option<io::Result<Rc<TcpStream>>> {
        let conn = &mut self.conns[id];
        let timed_out = conn.ours == Some(ErrorClass::ConnectTimeout);
        let addresses = self.setup.servers[conn.server].addresses.len();
        conn.tried += 1;
        if conn.tried >= addresses || (conn.ours.is_some() && !timed_out) {
            return None;
        }
        conn.ours = None;
        conn.address = (conn.address + 1) % addresses;
        Some(self.dial(id))
    }

    /// A connection reaches its server, which may still want a tunnel or TLS.
    pub(crate) fn connected(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        conn.exchange.settled.marks.connected = self.clock.now();
        self.good[conn.server] = conn.address;
    }

    /// A connection is ready: its request goes out.
    pub(crate) fn opened(&mut self, id: usize) {
        self.opening = self.opening.saturating_sub(1);
        let now = self.clock.now();
        if let Err(error) = self.write(id, false) {
            self.settle(id, &Ending::Broken(error.raw_os_error().unwrap_or(0)), now);
            self.close(id);
        }
        self.open_wanted();
    }

    /// A connection could not be opened: its request fails. Its user rests until the caller says that
    /// it has [rested](Self::rested); false: the request is retried, and nobody rests.
    pub(crate) fn not_opened(&mut self, id: usize, class: ErrorClass, text: String) -> bool {
        self.opening = self.opening.saturating_sub(1);
        let ours = self.conns[id].ours;
        let ending = match ours {
            Some(ours) => Ending::Ours(ours),
            None => Ending::NoConnection(class, text),
        };
        // What was not sent is followed by no turn; but for one whose answer was whole before it was
        // asked once more.
        let over = match self.settle_quietly(id, &ending) {
            Settling::PutOff => false,
            Settling::GoesOn(turn) => {
                let now = self.clock.now();
                self.go_on(*turn, now);
                false
            }
            Settling::Over | Settling::LegFollows(_) => true,
        };
        self.resting += u64::from(over);
        self.close(id);
        self.open_wanted();
        over
    }

    /// The user of a request whose connection could not be opened has rested.
    pub(crate) fn rested(&mut self, user: u32) {
        self.resting = self.resting.saturating_sub(1);
        let now = self.clock.now();
        self.next_after(now, user);
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
            let flush = Box::pin(connection::flush(Rc::clone(&me), id, number, stream));
            monoio::spawn(connection::guarded(me, id, false, flush));
        }
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
