//! The side channel on which prefill and decode server meet, one line for each word. A decode server
//! asks for a key (`?key`), a prefill server answers with the key, when the prompt is computed
//! (CLOCK_MONOTONIC, so both are on one host) and how long its hand-off takes. What a decode server
//! takes over without asking it tells (`-id`), so that its lease ends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock;
use crate::legs::register::{Asked, Ready};
use crate::legs::settings::{Role, RoleSettings};
use crate::shared::{Message, Place, Shared};
use crate::socket;

/// What a role has beside the threads that serve.
#[derive(Debug)]
pub(crate) struct Side {
    _door: Option<Door>,
    _courier: Option<Courier>,
}

/// The same before there is a server.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    listener: Option<TcpListener>,
    /// Where decode servers find a prefill server.
    pub(crate) port: u16,
    orders: Option<Orders>,
}

/// The two ends of what a courier is told.
type Orders = (Sender<Order>, Receiver<Order>);

impl Prepared {
    /// What `role` needs.
    ///
    /// # Errors
    /// If the port cannot be had.
    pub(crate) fn new(role: Option<&RoleSettings>) -> io::Result<Self> {
        let Some(role) = role else { return Ok(Self::default()) };
        let mut prepared = Self { port: role.side_port, ..Self::default() };
        match role.role {
            Role::Prefill => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, role.side_port))?;
                prepared.port = listener.local_addr()?.port();
                prepared.listener = Some(listener);
            }
            Role::Decode => prepared.orders = Some(channel()),
            Role::Router => {}
        }
        Ok(prepared)
    }

    /// Where questions go, if there are any.
    pub(crate) fn questions(&self) -> Option<Sender<Order>> {
        self.orders.as_ref().map(|(orders, _)| orders.clone())
    }

    /// Starts its threads.
    ///
    /// # Errors
    /// If there is none left.
    pub(crate) fn start(self, shared: &Arc<Shared>) -> io::Result<Side> {
        let door = self.listener.map(|listener| Door::open(listener, shared));
        let courier = self.orders.map(|(orders, taken)| Courier::start(orders, taken, shared));
        Ok(Side { _door: door.transpose()?, _courier: courier.transpose()? })
    }
}

/// How long a decode server tries to reach a prefill server; both are on this host.
const CONNECT: Duration = Duration::from_millis(500);

/// What a line of a decode server begins with: a question, or the word that a KV cache was taken.
const ASKED: char = '?';
const TAKEN: char = '-';

/// A request of this server that meets another, and its number.
pub(crate) type Guest = (Place, u64);

/// The line that answers for `key`.
pub(crate) fn answer(asker: &TcpStream, key: &str, ready: Ready) {
    let line = format!("{key} {} {}\n", ready.at_ns, ready.handoff_ns);
    // A decode server that is gone needs no answer. A line fits the socket of one that reads.
    let _ = (&*asker).write_all(line.as_bytes());
}

/// Where decode servers find a prefill server.
#[derive(Debug)]
pub(crate) struct Door {
    listener: Arc<TcpListener>,
    streams: Arc<Mutex<Vec<Arc<TcpStream>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// Answers at `listener` until it is dropped.
    pub(crate) fn open(listener: TcpListener, shared: &Arc<Shared>) -> io::Result<Self> {
        let listener = Arc::new(listener);
        let streams = Arc::new(Mutex::new(Vec::new()));
        let thread = thread::Builder::new().name("sim-door".into()).spawn({
            let (listener, streams) = (Arc::clone(&listener), Arc::clone(&streams));
            let shared = Arc::clone(shared);
            move || {
                let mut readers = Vec::new();
                while let Ok((stream, _)) = listener.accept() {
                    let stream = Arc::new(stream);
                    // A word is a line of its own, so it must not wait for another.
                    let _ = stream.set_nodelay(true);
                    locked(&streams).push(Arc::clone(&stream));
                    let shared = Arc::clone(&shared);
                    let reader = thread::Builder::new().name("sim-asked".into());
                    // Without a thread the decode server hears nothing, as from one that is down.
                    readers.extend(reader.spawn(move || be_asked(&stream, &shared)));
                }
                for reader in readers {
                    let _ = reader.join();
                }
            }
        })?;
        Ok(Self { listener, streams, thread: Some(thread) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        socket::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR);
        for stream in locked(&self.streams).iter() {
            socket::shutdown(stream.as_raw_fd(), libc::SHUT_RDWR);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes the questions of one decode server.
fn be_asked(stream: &Arc<TcpStream>, shared: &Shared) {
    let Some(stage) = &shared.stage else { return };
    for line in BufReader::new(&**stream).lines() {
        let Ok(line) = line else { return };
        if let Some(id) = line.strip_prefix(TAKEN) {
            stage.offers().take(id);
            continue;
        }
        let Some(key) = line.strip_prefix(ASKED) else { return };
        let asked = stage.register().ask(key, Arc::clone(stream));
        match asked {
            Asked::Noted => {}
            Asked::Wakes((Place { thread, id }, number)) => {
                shared.mailboxes[thread].post(Message::Met { id, number, ready: None });
            }
            Asked::Answer(ready, asker) => answer(&asker, key, ready),
        }
    }
}

/// What a courier is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Carry a question, and its answer back.
    Ask(Question),
    /// Tell the prefill server at this address that what it offers by this id is taken.
    Taken { id: String, address: (String, u16) },
    /// End.
    Stop,
}

/// A question of a decode server.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) key: String,
    pub(crate) address: (String, u16),
    pub(crate) guest: Guest,
    /// When it is given up, and whether the request then learns of it.
    pub(crate) until_ns: u64,
    pub(crate) tells: bool,
}

/// Carries the questions of a decode server, and the answers to its requests.
#[derive(Debug)]
pub(crate) struct Courier {
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Courier {
    /// Starts it: what goes into `orders` comes out of `taken`.
    pub(crate) fn start(
        orders: Sender<Order>,
        taken: Receiver<Order>,
        shared: &Arc<Shared>,
    ) -> io::Result<Self> {
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name("sim-courier".into()).spawn(move || {
            let mut round = Round { shared, waiting: Arc::default(), peers: HashMap::new() };
            round.run(&taken);
        })?;
        Ok(Self { orders, thread: Some(thread) })
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        // A courier that failed takes no orders.
        let _ = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Requests that wait for the answer to a key.
type Waiting = Arc<Mutex<HashMap<String, Guest>>>;

/// What a courier knows.
struct Round {
    shared: Arc<Shared>,
    waiting: Waiting,
    peers: HashMap<(String, u16), Peer>,
}

/// A connection to a prefill server.
struct Peer {
    stream: TcpStream,
    is_alive: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Round {
    fn run(&mut self, taken: &Receiver<Order>) {
        let mut ends: BinaryHeap<Reverse<(u64, String, u64, bool)>> = BinaryHeap::new();
        loop {
            let now_ns = clock::monotonic_ns();
            while let Some(Reverse((until_ns, ..))) = ends.peek()
                && *until_ns <= now_ns
                && let Some(Reverse((_, key, number, tells))) = ends.pop()
            {
                self.give_up(&key, number, tells);
            }
            let pause_ns = ends.peek().map_or(u64::MAX, |Reverse(end)| end.0 - now_ns);
            let pause = Duration::from_nanos(pause_ns.min(1_000_000_000));
            match taken.recv_timeout(pause) {
                Ok(Order::Ask(question)) => {
                    let Question { until_ns, tells, guest, .. } = question;
                    ends.push(Reverse((until_ns, question.key.clone(), guest.1, tells)));
                    self.ask(question);
                }
                Ok(Order::Taken { id, address }) => self.send(&address, TAKEN, &id),
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        for (_, peer) in self.peers.drain() {
            peer.end();
        }
    }

    fn ask(&mut self, Question { key, address, guest, .. }: Question) {
        locked(&self.waiting).insert(key.clone(), guest);
        self.send(&address, ASKED, &key);
    }

    /// Sends a line to a prefill server. One that is down or not of ours hears nothing.
    fn send(&mut self, address: &(String, u16), word: char, key: &str) {
        if self.peers.get(address).is_some_and(|peer| !peer.is_alive.load(Ordering::Acquire))
            && let Some(peer) = self.peers.remove(address)
        {
            peer.end();
        }
        if !self.peers.contains_key(address) {
            let Some(peer) = Peer::reach(address, &self.shared, &self.waiting) else { return };
            self.peers.insert(address.clone(), peer);
        }
        if let Some(peer) = self.peers.get(address) {
            let _ = (&peer.stream).write_all(format!("{word}{key}\n").as_bytes());
        }
    }

    fn give_up(&self, key: &str, number: u64, tells: bool) {
        let mut waiting = locked(&self.waiting);
        if waiting.get(key).is_some_and(|guest| guest.1 == number)
            && let Some(guest) = waiting.remove(key)
            && tells
        {
            tell(&self.shared, guest, None);
        }
    }
}

impl Peer {
    fn reach(address: &(String, u16), shared: &Arc<Shared>, waiting: &Waiting) -> Option<Self> {
        let mut found = (address.0.as_str(), address.1).to_socket_addrs().ok()?;
        let stream = TcpStream::connect_timeout(&found.next()?, CONNECT).ok()?;
        stream.set_nodelay(true).ok()?;
        let is_alive = Arc::new(AtomicBool::new(true));
        let reader = thread::Builder::new().name("sim-answered".into()).spawn({
            let (stream, is_alive) = (stream.try_clone().ok()?, Arc::clone(&is_alive));
            let (shared, waiting) = (Arc::clone(shared), Arc::clone(waiting));
            move || {
                hear(stream, &shared, &waiting);
                is_alive.store(false, Ordering::Release);
            }
        });
        Some(Self { stream, is_alive, reader: Some(reader.ok()?) })
    }

    fn end(mut self) {
        socket::shutdown(self.stream.as_raw_fd(), libc::SHUT_RDWR);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Takes the answers of one prefill server.
fn hear(stream: TcpStream, shared: &Shared, waiting: &Waiting) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let Some((key, ready)) = read_answer(&line) else { return };
        let guest = locked(waiting).remove(key);
        if let Some(guest) = guest {
            tell(shared, guest, Some(ready));
        }
    }
}

fn read_answer(line: &str) -> Option<(&str, Ready)> {
    let (rest, handoff_ns) = line.rsplit_once(' ')?;
    let (key, at_ns) = rest.rsplit_once(' ')?;
    Some((key, Ready { at_ns: at_ns.parse().ok()?, handoff_ns: handoff_ns.parse().ok()? }))
}

/// Tells a request what its question came to.
fn tell(shared: &Shared, (Place { thread, id }, number): Guest, ready: Option<Ready>) {
    shared.mailboxes[thread].post(Message::Met { id, number, ready });
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whatever_its_key() {
        let ready = Ready { at_ns: 5, handoff_ns: 6 };
        assert_eq!(read_answer("a key 5 6"), Some(("a key", ready)));
        assert_eq!(read_answer("a key"), None);
    }
}
