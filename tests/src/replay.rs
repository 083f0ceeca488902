//! A server that replays recorded answers byte by byte, at their times, and writes down when each
//! piece left.
//!
//! It shares nothing with what is tested but the clock of the machine: sockets, framing and time are
//! its own, so that its log is a witness.
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod connection;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use connection::Connection;

use crate::MS;

/// What two clocks may differ by.
pub const EARLY_NS: u64 = MS;
/// What a piece may take on its way where that is not known better; other work shares this machine.
const LATE_NS: u64 = 100 * MS;

/// One answer: its bytes, when which of them leave, and what happens to the connection then.
#[derive(Debug, Clone)]
pub struct Script {
    /// Head and body as they stand on the wire.
    pub bytes: Vec<u8>,
    /// `(when, up to which byte)`, ms since the whole request was read.
    pub pieces: Vec<(u64, usize)>,
    /// When `end` happens, ms since the same instant; with the last piece if it is not said.
    pub end_at: Option<u64>,
    /// What comes after the last piece.
    pub end: End,
}

impl Script {
    /// All bytes `at` ms after the request; then the next request may come.
    #[must_use]
    pub fn at_once(bytes: impl Into<Vec<u8>>, at: u64) -> Self {
        let bytes = bytes.into();
        let pieces = vec![(at, bytes.len())];
        Self { bytes, pieces, end_at: None, end: End::Keepalive }
    }
}

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It waits for the next request.
    Keepalive,
    /// FIN.
    Close,
    /// RST.
    Reset,
    /// Nothing more is sent, and the socket stays open.
    Hang,
    /// Our side is closed, the other one waited for.
    Halfclose,
}

impl End {
    /// The end that a case file calls `name`.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "keepalive" => Self::Keepalive,
            "close" => Self::Close,
            "reset" => Self::Reset,
            "hang" => Self::Hang,
            "halfclose" => Self::Halfclose,
            _ => panic!("no way to end called {name:?}"),
        }
    }
}

/// How connections are treated, whatever an answer says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manners {
    /// An idle connection that has answered is closed after so long, ms.
    pub idle_close_ms: Option<u64>,
    /// A second request on a connection meets its end, without a byte.
    pub drop_on_reuse: bool,
    /// A connection is closed after so many answers.
    pub close_after: Option<u64>,
}

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Number of its connection, from 1.
    pub connection: u64,
    /// `GET` or `POST`.
    pub method: String,
    /// What stands between method and version.
    pub target: String,
    /// Names as they came, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// When its last byte was read, CLOCK_MONOTONIC ns.
    pub at: u64,
    /// The pieces that it was answered with, and the end.
    pub sent: Vec<Sent>,
}

impl Asked {
    /// The value of the header `name`, in any case of letters.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Between which two instants all that the script has at `at_ms` left.
    #[must_use]
    pub fn left_at(&self, at_ms: u64) -> (u64, u64) {
        let then: Vec<&Sent> = self.sent.iter().filter(|sent| sent.at_ms == at_ms).collect();
        match then.as_slice() {
            [first, .., last] => (first.begun, last.ended),
            [only] => (only.begun, only.ended),
            [] => panic!("nothing left at {at_ms} ms: {:?}", self.sent),
        }
    }

    /// Whether `mark`, CLOCK_MONOTONIC ns, lies where what the script has at `at_ms` arrived: not
    /// before it was sent and, where the client could tell pieces apart, before the next one was.
    ///
    /// # Errors
    /// How far off it is.
    pub fn near(&self, mark: u64, at_ms: u64, told_apart: bool) -> Result<(), String> {
        let (begun, ended) = self.left_at(at_ms);
        let later = self.sent.iter().find(|sent| sent.at_ms > at_ms);
        // A server that was late itself may have sent two of them at nearly the same time.
        let later = later.filter(|next| next.begun > ended + 3 * EARLY_NS);
        let latest = match later.filter(|_| told_apart) {
            Some(next) => next.begun - EARLY_NS,
            None => ended + LATE_NS,
        };
        if mark + EARLY_NS < begun {
            return Err(format!("{} µs before it was sent", (begun - mark) / 1000));
        }
        if mark > latest {
            return Err(format!("{} µs after it was sent", (mark - ended) / 1000));
        }
        Ok(())
    }
}

/// One piece, or the end, of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When the script has it, ms since the request.
    pub at_ms: u64,
    /// Just before it was handed to the kernel, CLOCK_MONOTONIC ns.
    pub begun: u64,
    /// Just after.
    pub ended: u64,
}

/// What a server saw.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// Every request, in the order in which they were read.
    pub requests: Vec<Asked>,
    /// Connections accepted.
    pub connections: u64,
    /// Most POSTs that were answered at once, each until its last piece leaves.
    pub peak_in_flight: u64,
}

impl Log {
    /// The requests that are load.
    pub fn posts(&self) -> impl Iterator<Item = &Asked> {
        self.requests.iter().filter(|asked| asked.method == "POST")
    }

    /// The request that was sent with this id.
    #[must_use]
    pub fn post(&self, request_id: &str) -> &Asked {
        let is_it = |asked: &&Asked| asked.header("x-request-id") == Some(request_id);
        self.posts().find(is_it).unwrap_or_else(|| panic!("{request_id} never came"))
    }
}

/// A server that runs until it is stopped.
pub struct Replay {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

struct Shared {
    scripts: Vec<Script>,
    manners: Manners,
    log: Mutex<Log>,
    posts: AtomicU64,
    in_flight: AtomicU64,
    stopped: Mutex<bool>,
    stop: Condvar,
}

impl Replay {
    /// Serves `scripts` on a free port of the loopback: the n-th POST gets the n-th, the last one
    /// repeats. A GET or HEAD gets a list of models.
    #[must_use]
    pub fn start(scripts: Vec<Script>, manners: Manners) -> Self {
        assert!(!scripts.is_empty(), "nothing to replay");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            scripts,
            manners,
            log: Mutex::default(),
            posts: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            stopped: Mutex::new(false),
            stop: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared, acceptor }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it: what it saw.
    #[must_use]
    pub fn stop(self) -> Log {
        *self.shared.stopped.lock().unwrap() = true;
        self.shared.stop.notify_all();
        let _ = TcpStream::connect(self.address);
        self.acceptor.join().unwrap();
        std::mem::take(&mut *self.shared.log.lock().unwrap())
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut serving = Vec::new();
    for number in 1.. {
        let accepted = listener.accept();
        if shared.is_stopped() {
            break;
        }
        let Ok((stream, _)) = accepted else { break };
        shared.log.lock().unwrap().connections += 1;
        let shared = Arc::clone(shared);
        serving.push(std::thread::spawn(move || {
            // A client that goes away ends its connection and nothing else.
            let _ = Connection::new(shared, stream, number).serve();
        }));
    }
    for one in serving {
        one.join().unwrap();
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        *self.stopped.lock().unwrap()
    }

    /// Sleeps until `due`; fails if the server is to stop.
    fn wait_until(&self, due: u64) -> io::Result<()> {
        let mut stopped = self.stopped.lock().unwrap();
        while !*stopped {
            let left = due.saturating_sub(monotonic_ns());
            if left == 0 {
                return Ok(());
            }
            stopped = self.stop.wait_timeout(stopped, Duration::from_nanos(left)).unwrap().0;
        }
        Err(io::ErrorKind::Interrupted.into())
    }
}

/// CLOCK_MONOTONIC, ns.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
