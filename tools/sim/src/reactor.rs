//! One thread's connections: who is due, what is sent, what is read.

use std::cell::{Cell, RefCell, RefMut};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::task::Waker;

use monoio::net::TcpStream;

use crate::active::Active;
use crate::clock::{self, Offset};
use crate::connection::Connection;
use crate::hall::Dealt;
use crate::legs::register::Ready;
use crate::metrics::Sent;
use crate::report::Tally;
use crate::shared::{Message, Place, Shared};
use crate::socket;

/// Bytes taken from a socket in one call.
const READ_BYTES: usize = 64 * 1024;

/// Such calls before others have their turn.
const READS_PER_TURN: u32 = 4;

/// A stamp may precede the moment its bytes could be read by this much.
const STAMP_SLACK_NS: u64 = 100_000;

/// Finds a connection; a reused slot has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    slot: usize,
    generation: u64,
}

#[cfg(test)]
impl Id {
    /// One that finds nothing, for tests.
    pub(crate) fn of(slot: usize, generation: u64) -> Self {
        Self { slot, generation }
    }
}

/// The state of one thread, shared by its tasks.
pub(crate) struct Reactor {
    pub(crate) shared: std::sync::Arc<Shared>,
    /// Tasks alive on this thread.
    pub(crate) tasks: Rc<Cell<usize>>,
    pub(crate) thread: usize,
    state: RefCell<State>,
}

/// What there is to do for the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It did something; ask again.
    Worked,
    /// Nothing before this time (ns); `None`: nothing until something is read.
    Idle(Option<u64>),
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Wait for more.
    On,
    /// The client is gone.
    Over,
}

pub(crate) struct State {
    pub(crate) tally: Tally,
    slots: Vec<(u64, Option<Connection>)>,
    free: Vec<usize>,
    due: BinaryHeap<Reverse<(u64, Id)>>,
    ready: VecDeque<Id>,
    buffer: Vec<u8>,
    offset: Offset,
    pub(crate) blocked: Vec<(Id, Rc<TcpStream>)>,
    /// Tokens fetched from the serving model and not handed out.
    pub(crate) dealt: Vec<Dealt>,
    nudged: bool,
    waker: Option<Waker>,
}

impl Reactor {
    /// A thread without connections.
    pub(crate) fn new(shared: std::sync::Arc<Shared>, thread: usize) -> Self {
        let state = State {
            tally: Tally::new(),
            slots: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            ready: VecDeque::new(),
            buffer: vec![0; READ_BYTES],
            offset: Offset::new(),
            blocked: Vec::new(),
            dealt: Vec::new(),
            nudged: false,
            waker: None,
        };
        Self { shared, tasks: Rc::new(Cell::new(0)), thread, state: RefCell::new(state) }
    }

    /// Ends it and gives its counts.
    pub(crate) fn into_tally(self) -> Tally {
        self.state.into_inner().tally
    }

    /// Takes its counts from a thread some of whose tasks still live.
    pub(crate) fn take_tally(&self) -> Tally {
        std::mem::replace(&mut self.state.borrow_mut().tally, Tally::new())
    }

    /// Counts one in the report.
    pub(crate) fn count(&self, add: impl FnOnce(&mut Tally)) {
        add(&mut self.state.borrow_mut().tally);
    }

    /// Takes in a new connection.
    pub(crate) fn open(&self, stream: Rc<TcpStream>) -> Id {
        let state = &mut *self.state.borrow_mut();
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push((0, None));
            state.slots.len() - 1
        });
        let (generation, connection) = &mut state.slots[slot];
        *generation += 1;
        *connection = Some(Connection::new(stream));
        Id { slot, generation: *generation }
    }

    /// The client is gone, or the connection came to its end.
    pub(crate) fn gone(&self, id: Id) {
        let state = &mut *self.state.borrow_mut();
        let Some(connection) = state.take(id) else { return };
        state.free.push(id.slot);
        let Some(mut active) = connection.active else { return };
        if !self.shared.is_stopping() {
            state.tally.aborted += 1;
            self.release(state, &mut active);
            self.hand_out(state);
        }
        self.log(*active);
    }

    /// A request is over, or its client gone: what it has of the server is free.
    pub(crate) fn release(&self, state: &mut State, active: &mut Active) {
        let number = active.answer.number;
        if self.shared.settings.serving.is_some() {
            let started_ns = self.leave_hall(state, number);
            if let Some(record) = &mut active.record {
                record.started_ns = record.started_ns.or(started_ns);
            }
        } else if active.is_started() {
            if let (Some(stage), Some(leg)) = (&self.shared.stage, &active.leg) {
                stage.leave(leg, &active.answer);
            }
            self.pass_on(state);
        } else {
            // If it is not in the queue any more its turn has come meanwhile: a message is
            // under way, and finding nobody it passes the turn on. One that was turned away
            // never was there.
            self.shared.queue().abandon(number);
        }
    }

    /// What this thread has sent.
    pub(crate) fn sent_here(&self) -> &Sent {
        &self.shared.sent[self.thread]
    }

    /// Its state, for what other modules do.
    pub(crate) fn borrow(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// It is request `id`'s turn.
    pub(crate) fn begin(&self, id: Id) {
        let state = &mut *self.state.borrow_mut();
        self.begin_in(state, id);
    }

    /// The socket has room again.
    pub(crate) fn unblock(&self, id: Id) {
        let state = &mut *self.state.borrow_mut();
        if let Some(connection) = state.get(id) {
            connection.blocked = false;
            connection.excused_ns = clock::monotonic_ns();
            self.place(state, id);
        }
    }

    /// Connections that wait for room since the last call.
    pub(crate) fn take_blocked(&self) -> Vec<(Id, Rc<TcpStream>)> {
        std::mem::take(&mut self.state.borrow_mut().blocked)
    }

    /// Ends all connections, so that their tasks end.
    pub(crate) fn end_all(&self) {
        for (_, connection) in &self.state.borrow().slots {
            if let Some(connection) = connection {
                socket::shutdown(connection.stream.as_raw_fd(), libc::SHUT_RDWR);
            }
        }
    }

    /// Wakes the scheduler.
    pub(crate) fn nudge(&self) {
        self.state.borrow_mut().nudge();
    }

    /// True once after each nudge; else `waker` is woken by the next one.
    pub(crate) fn take_nudge(&self, waker: &Waker) -> bool {
        let mut state = self.state.borrow_mut();
        if !state.nudged {
            state.waker = Some(waker.clone());
        }
        std::mem::take(&mut state.nudged)
    }

    /// Reads of request bytes so far.
    pub(crate) fn reads(&self) -> u64 {
        self.state.borrow().tally.reads
    }

    /// Sends for one connection that is due.
    pub(crate) fn step(&self, now_ns: u64) -> Step {
        let state = &mut *self.state.borrow_mut();
        while let Some(&Reverse((due_ns, id))) = state.due.peek()
            && due_ns <= now_ns
        {
            state.due.pop();
            state.ready.push_back(id);
        }
        let Some(id) = state.ready.pop_front() else {
            return self.idle(state, now_ns);
        };
        if let Some(mut connection) = state.take(id) {
            connection.placed = false;
            self.serve(state, &mut connection, id, now_ns);
            state.put(id, connection);
            self.place(state, id);
            self.hand_out(state);
        }
        Step::Worked
    }

    /// Nothing is due: moves the serving model on if a step is over, else says until when to wait.
    fn idle(&self, state: &mut State, now_ns: u64) -> Step {
        let due_ns = state.due.peek().map(|entry| entry.0.0);
        let Some(end_ns) = self.step_ends_ns() else { return Step::Idle(due_ns) };
        if end_ns > now_ns {
            return Step::Idle(Some(due_ns.map_or(end_ns, |due_ns| due_ns.min(end_ns))));
        }
        self.with_hall(state, |hall| hall.advance(now_ns));
        self.hand_out(state);
        Step::Worked
    }

    /// Reads what a socket holds and takes up the requests in it.
    pub(crate) fn read(&self, id: Id, fd: RawFd) -> Reading {
        let state = &mut *self.state.borrow_mut();
        // A large body is read in several turns, so that sends come in between.
        for _ in 0..READS_PER_TURN {
            let before_ns = clock::monotonic_ns();
            let (length, stamp) = match socket::receive(fd, &mut state.buffer) {
                Ok((0, _)) => return Reading::Over,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Reading::On,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Reading::Over,
            };
            let now_ns = clock::monotonic_ns();
            state.tally.reads += 1;
            let Some(mut connection) = state.take(id) else { return Reading::Over };
            let arrived_ns = stamp.map(|stamp| state.offset.on_monotonic(stamp, now_ns));
            let earliest_ns = connection.empty_ns.saturating_sub(STAMP_SLACK_NS);
            connection.arrived_ns = arrived_ns.filter(|at| (earliest_ns..=now_ns).contains(at));
            let emptied = length < READ_BYTES;
            if emptied {
                connection.empty_ns = before_ns;
            }
            // What follows a last answer is read, so that closing resets nothing, and forgotten.
            if !connection.closing {
                connection.input.extend_from_slice(&state.buffer[..length]);
                self.take_up(state, &mut connection, id, now_ns);
            }
            let flood = connection.input.len() > crate::http::BODY_BYTES_MAX + (1 << 20);
            state.put(id, connection);
            self.place(state, id);
            self.hand_out(state);
            if flood {
                return Reading::Over;
            }
            if emptied {
                return Reading::On;
            }
        }
        Reading::On
    }

    /// A place became free: whose turn is it?
    pub(crate) fn pass_on(&self, state: &mut State) {
        let next = self.shared.queue().leave();
        if let Some((_, Place { thread, id })) = next {
            if thread == self.thread {
                self.begin_in(state, id);
            } else {
                self.shared.mailboxes[thread].post(Message::Begin(id));
            }
        }
    }

    fn begin_in(&self, state: &mut State, id: Id) {
        let (now_ns, place) = (clock::monotonic_ns(), self.here(id));
        match state.get(id).and_then(|connection| connection.active.as_mut()) {
            Some(active) => {
                active.start(&self.shared.timing, self.shared.stage_at(place), now_ns);
                self.place(state, id);
            }
            None => self.pass_on(state),
        }
    }

    /// Request `number` waited for another server, and need not any more.
    pub(crate) fn met(&self, id: Id, number: u64, ready: Option<Ready>) {
        let state = &mut *self.state.borrow_mut();
        let Some(stage) = &self.shared.stage else { return };
        let now_ns = clock::monotonic_ns();
        // Its connection may be at its next request, or gone.
        let active = state.get(id).and_then(|connection| connection.active.as_mut());
        if let Some(active) = active.filter(|active| active.answer.number == number)
            && active.meet(&self.shared.timing, stage, ready, now_ns)
        {
            self.place(state, id);
        }
    }

    /// Hands a request's record to the truth log, if there is one.
    pub(crate) fn log(&self, active: Active) {
        if let (Some(sink), Some(record)) = (&self.shared.truth, active.record) {
            sink.put(record);
        }
    }

    /// Tells the scheduler when a connection has something to send.
    pub(crate) fn place(&self, state: &mut State, id: Id) {
        let Some(connection) = state.get(id) else { return };
        if connection.placed {
            return;
        }
        let Some(due_ns) = connection.next_due_ns(self.shared.cut) else { return };
        connection.placed = true;
        if due_ns == 0 {
            state.ready.push_back(id);
        } else {
            state.due.push(Reverse((due_ns, id)));
        }
        state.nudge();
    }

    /// Where this thread's requests are found.
    pub(crate) fn here(&self, id: Id) -> Place {
        Place { thread: self.thread, id }
    }
}

impl State {
    pub(crate) fn get(&mut self, id: Id) -> Option<&mut Connection> {
        let (generation, connection) = self.slots.get_mut(id.slot)?;
        if *generation == id.generation { connection.as_mut() } else { None }
    }

    fn take(&mut self, id: Id) -> Option<Connection> {
        let (generation, connection) = self.slots.get_mut(id.slot)?;
        if *generation == id.generation { connection.take() } else { None }
    }

    fn put(&mut self, id: Id, connection: Connection) {
        self.slots[id.slot].1 = Some(connection);
    }

    pub(crate) fn nudge(&mut self) {
        self.nudged = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
