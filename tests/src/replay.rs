//! A server that replays recorded answers byte by byte, at their times, and writes down when each
//! piece left.
//!
//! It shares nothing with what is tested but the clock of the machine: sockets, framing and time are
//! its own, so that its log is a witness.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::MS;

/// How often a thread that waits for bytes looks whether the server is to stop.
const GLANCE: Duration = Duration::from_millis(50);
/// What a GET is answered with: it needs no case.
const MODELS: &str = r#"{"object":"list","data":[{"id":"sim","object":"model"}]}"#;

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
            let _ = Connection { shared, stream, number, read: Vec::new() }.serve();
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

struct Connection {
    shared: Arc<Shared>,
    stream: TcpStream,
    number: u64,
    /// Bytes of requests that were not used yet.
    read: Vec<u8>,
}

impl Connection {
    fn serve(mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        // Who reads nothing for so long has gone.
        self.stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        let shared = Arc::clone(&self.shared);
        let manners = shared.manners;
        let mut answered = 0;
        while let Some(asked) = self.request(manners.idle_close_ms.filter(|_| answered > 0))? {
            if asked.method != "POST" {
                self.models(&asked.method)?;
                shared.log.lock().unwrap().requests.push(asked);
                continue;
            }
            let drop = manners.drop_on_reuse && answered > 0;
            let end = self.answer(asked, drop)?;
            answered += 1;
            let is_enough = manners.close_after.is_some_and(|most| answered >= most);
            match end {
                End::Keepalive if drop || is_enough => return Ok(()),
                End::Keepalive => {}
                End::Close | End::Reset => return Ok(()),
                End::Hang | End::Halfclose => return self.wait_for_the_client(),
            }
        }
        Ok(())
    }

    /// The next request; `None` when the client has closed or was idle for too long.
    fn request(&mut self, idle_ms: Option<u64>) -> io::Result<Option<Asked>> {
        let give_up = idle_ms.map(|ms| monotonic_ns() + ms * MS);
        loop {
            if let Some(asked) = parsed(&mut self.read) {
                return Ok(Some(Asked { connection: self.number, ..asked }));
            }
            let give_up = give_up.filter(|_| self.read.is_empty());
            if !self.more(give_up)? {
                return Ok(None);
            }
        }
    }

    /// Reads on; false at the client's end, or at `give_up`.
    fn more(&mut self, give_up: Option<u64>) -> io::Result<bool> {
        let mut piece = [0; 16 << 10];
        loop {
            if self.shared.is_stopped() {
                return Ok(false);
            }
            let left = give_up.map(|at| Duration::from_nanos(at.saturating_sub(monotonic_ns())));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            self.stream.set_read_timeout(Some(left.map_or(GLANCE, |left| left.min(GLANCE))))?;
            match self.stream.read(&mut piece) {
                Ok(got) => {
                    self.read.extend_from_slice(&piece[..got]);
                    return Ok(got > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn models(&mut self, method: &str) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            MODELS.len()
        );
        let body = if method == "HEAD" { "" } else { MODELS };
        self.stream.write_all((head + body).as_bytes())
    }

    /// Plays the next script; with `drop` none of it.
    fn answer(&mut self, asked: Asked, drop: bool) -> io::Result<End> {
        let shared = Arc::clone(&self.shared);
        let in_flight = shared.in_flight.fetch_add(1, SeqCst) + 1;
        let turn = shared.posts.fetch_add(1, SeqCst) as usize;
        let at = asked.at;
        let place = {
            let mut log = shared.log.lock().unwrap();
            log.peak_in_flight = log.peak_in_flight.max(in_flight);
            log.requests.push(asked);
            log.requests.len() - 1
        };
        let note = |sent| shared.log.lock().unwrap().requests[place].sent.push(sent);
        if drop {
            shared.in_flight.fetch_sub(1, SeqCst);
            return Ok(End::Keepalive);
        }
        let script = &shared.scripts[turn.min(shared.scripts.len() - 1)];
        play(&shared, &mut self.stream, script, at, note)
    }

    /// Reads and forgets until the client has closed.
    fn wait_for_the_client(&mut self) -> io::Result<()> {
        while self.more(None)? {
            self.read.clear();
        }
        Ok(())
    }
}

/// Sends the pieces of `script`, counted from `origin`, and does what comes after them.
fn play(
    shared: &Shared,
    stream: &mut TcpStream,
    script: &Script,
    origin: u64,
    note: impl Fn(Sent),
) -> io::Result<End> {
    let timed = |at_ms: u64, act: &mut dyn FnMut() -> io::Result<()>| {
        shared.wait_until(origin + at_ms * MS)?;
        let begun = monotonic_ns();
        act()?;
        note(Sent { at_ms, begun, ended: monotonic_ns() });
        Ok::<(), io::Error>(())
    };
    let (mut from, mut left) = (0, script.pieces.len());
    for &(at_ms, to) in &script.pieces {
        left -= 1;
        timed(at_ms, &mut || {
            if left == 0 {
                // Before the client can know: what it sends because of this end is not beside it.
                shared.in_flight.fetch_sub(1, SeqCst);
            }
            stream.write_all(&script.bytes[from..to])
        })?;
        from = to;
    }
    let mut end = || match script.end {
        End::Close | End::Halfclose => stream.shutdown(Shutdown::Write),
        End::Reset => linger_not(stream),
        End::Keepalive | End::Hang => Ok(()),
    };
    match script.end_at {
        Some(at_ms) => timed(at_ms, &mut end)?,
        None => end()?,
    }
    Ok(script.end)
}

/// Takes one whole request out of `bytes`, if there is one.
fn parsed(bytes: &mut Vec<u8>) -> Option<Asked> {
    let head_length = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_length]).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    if bytes.len() < head_length + length {
        return None;
    }
    let rest = bytes.split_off(head_length + length);
    let body = std::mem::replace(bytes, rest).split_off(head_length);
    Some(Asked {
        connection: 0,
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        headers,
        body,
        at: monotonic_ns(),
        sent: Vec::new(),
    })
}

/// Makes the close of `stream` a reset.
fn linger_not(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the descriptor is open and the option's value a whole `linger`.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CLOCK_MONOTONIC, ns.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
