//! A client that parses nothing: the floor that the engine is held against.
//!
//! It learns one answer, and from then on only counts bytes until as many have come: one pinned
//! thread, edge-triggered epoll, one receive call for what a wake-up announced (a short read is
//! proof that the socket is empty), the same request over and over on connections that stay open.
//! It works against a server whose answers all have the same length, and says so if they do not.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use tokclock_engine::clock::{monotonic_ns, thread_cpu_ns};

/// The end of every answer: the last chunk, which holds nothing.
const END: &[u8] = b"\r\n0\r\n\r\n";
/// As much as the engine takes in one call.
const BUFFER_BYTES: usize = 64 << 10;
/// Ready connections asked for at once.
const EVENTS: usize = 1024;
/// How long nothing may come before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// What it asks for.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The server.
    pub address: SocketAddr,
    /// Head and body of every request.
    pub request: &'a [u8],
    /// Connections, each with one request at a time.
    pub connections: usize,
    /// Requests over all connections.
    pub requests: u64,
    /// The CPU to pin to, as the kernel numbers them.
    pub cpu: usize,
    /// What it does while nothing is there.
    pub idle: Idle,
}

/// What a client does while nothing is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// It sleeps until it is woken: the least CPU time for itself.
    Sleep,
    /// It asks again and again: the least for the server, which has nobody to wake.
    Spin,
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Answers, all of the right length and with the right end.
    pub answers: u64,
    /// Bytes of each.
    pub answer_bytes: u64,
    /// Receive calls that gave bytes.
    pub reads: u64,
    /// From before the first connection was opened to the last byte, ns.
    pub wall_ns: u64,
    /// CPU time of the thread in between, ns.
    pub cpu_ns: u64,
}

/// Sends and receives all of it on a thread of its own.
///
/// # Errors
/// Of the sockets; [`ErrorKind::InvalidData`] if an answer is not like the first, and
/// [`ErrorKind::TimedOut`] if nothing comes any more.
pub fn take(ask: Ask<'_>) -> io::Result<Taken> {
    let answer_bytes = learn(ask)?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("nothing".to_owned());
        let client = thread.spawn_scoped(scope, || {
            crate::pin(ask.cpu)?;
            let (start, cpu) = (monotonic_ns(), thread_cpu_ns());
            let mut client = Client::open(ask, answer_bytes)?;
            client.run(ask)?;
            Ok(Taken {
                answers: client.answers,
                answer_bytes: answer_bytes as u64,
                reads: client.reads,
                wall_ns: monotonic_ns() - start,
                cpu_ns: thread_cpu_ns() - cpu,
            })
        })?;
        client.join().unwrap_or_else(|_| Err(io::Error::other("the client's thread failed")))
    })
}

/// How long an answer is, by one that is waited for on a connection of its own.
fn learn(ask: Ask<'_>) -> io::Result<usize> {
    let mut stream = TcpStream::connect(ask.address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(ask.request)?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    while !answer.ends_with(END) {
        let got = stream.read(&mut buffer)?;
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..got]);
    }
    if answer.starts_with(b"HTTP/1.1 200 ") {
        Ok(answer.len())
    } else {
        Err(wrong("the server refused the request"))
    }
}

struct Client {
    epoll: OwnedFd,
    streams: Vec<TcpStream>,
    /// Bytes of each connection's answer that have come.
    got: Vec<usize>,
    answer_bytes: usize,
    buffer: Vec<u8>,
    sent: u64,
    answers: u64,
    reads: u64,
    /// Times in a row that nothing came, and since when.
    in_vain: u64,
    since: u64,
}

impl Client {
    fn open(ask: Ask<'_>, answer_bytes: usize) -> io::Result<Self> {
        // SAFETY: a plain system call.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else knows.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let mut streams = Vec::new();
        for number in 0..ask.connections {
            let stream = TcpStream::connect(ask.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut event = libc::epoll_event {
                events: (libc::EPOLLIN | libc::EPOLLET) as u32,
                u64: number as u64,
            };
            let (poll, fd) = (epoll.as_raw_fd(), stream.as_raw_fd());
            // SAFETY: both descriptors are open, the event is valid.
            let done = unsafe { libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
            if done != 0 {
                return Err(io::Error::last_os_error());
            }
            streams.push(stream);
        }
        Ok(Self {
            epoll,
            got: vec![0; streams.len()],
            streams,
            answer_bytes,
            buffer: vec![0; BUFFER_BYTES],
            sent: 0,
            answers: 0,
            reads: 0,
            in_vain: 0,
            since: 0,
        })
    }

    fn run(&mut self, ask: Ask<'_>) -> io::Result<()> {
        for number in 0..self.streams.len() {
            self.send(number, ask)?;
        }
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        while self.answers < ask.requests {
            for event in self.wait(ask.idle, &mut events)? {
                self.receive(event.u64 as usize, ask)?;
            }
        }
        Ok(())
    }

    fn wait<'a>(
        &mut self,
        idle: Idle,
        events: &'a mut [libc::epoll_event],
    ) -> io::Result<&'a [libc::epoll_event]> {
        let room = events.len() as i32;
        let patience = if idle == Idle::Spin { 0 } else { PATIENCE.as_millis() as i32 };
        // SAFETY: the list is valid for its length.
        let ready = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), room, patience)
        };
        match usize::try_from(ready) {
            Ok(0) if idle == Idle::Spin && self.is_patient() => Ok(&[]),
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(ready) => {
                self.in_vain = 0;
                Ok(&events[..ready])
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => Ok(&[]),
                error => Err(error),
            },
        }
    }

    /// Whether to ask once more. The clock is looked at for every 1024th time that nothing came.
    fn is_patient(&mut self) -> bool {
        self.in_vain += 1;
        if self.in_vain == 1 {
            self.since = monotonic_ns();
        }
        !self.in_vain.is_multiple_of(1024)
            || monotonic_ns() - self.since < PATIENCE.as_nanos() as u64
    }

    fn send(&mut self, number: usize, ask: Ask<'_>) -> io::Result<()> {
        if self.sent == ask.requests {
            return Ok(());
        }
        self.sent += 1;
        let length = self.streams[number].write(ask.request)?;
        if length == ask.request.len() {
            Ok(())
        } else {
            Err(wrong("a request did not fit into an empty socket"))
        }
    }

    /// Takes all that a connection holds.
    #[inline]
    fn receive(&mut self, number: usize, ask: Ask<'_>) -> io::Result<()> {
        loop {
            let length = match self.streams[number].read(&mut self.buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.reads += 1;
            self.got[number] += length;
            // An answer that ends too early would be waited for in vain.
            if self.got[number] >= self.answer_bytes || self.buffer[..length].ends_with(END) {
                self.end(number, length, ask)?;
            }
            if length < self.buffer.len() {
                return Ok(());
            }
        }
    }

    /// An answer is whole: the next request goes.
    fn end(&mut self, number: usize, length: usize, ask: Ask<'_>) -> io::Result<()> {
        let last = &self.buffer[..length];
        // A read may begin inside of the end.
        let end = &END[END.len() - length.min(END.len())..];
        if self.got[number] != self.answer_bytes || !last.ends_with(end) {
            return Err(wrong("an answer is not as long as the first"));
        }
        self.got[number] = 0;
        self.answers += 1;
        self.send(number, ask)
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokclock_sim::{Server, Settings};

    const BODY: &str = r#"{"model":"sim","messages":[{"role":"user","content":"a b"}],"max_tokens":20,"stream":true}"#;

    fn request() -> Vec<u8> {
        let length = BODY.len();
        format!("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{BODY}")
            .into_bytes()
    }

    fn some_cpu() -> usize {
        tokclock_engine::run::cpus()[0]
    }

    #[test]
    fn as_many_answers_come_as_the_server_sent() {
        for (events_per_write, idle) in [(1, Idle::Sleep), (64, Idle::Sleep), (64, Idle::Spin)] {
            let settings = Settings { events_per_write, ..Settings::default() };
            let server = Server::start(&settings).unwrap();
            let request = request();
            let ask = Ask {
                address: server.address(),
                request: &request,
                connections: 4,
                requests: 50,
                cpu: some_cpu(),
                idle,
            };
            let taken = take(ask).unwrap();
            let report = server.stop();
            // One more than was counted: that which was learnt from.
            assert_eq!((taken.answers, report.completed), (50, 51));
            assert_eq!(report.tokens, 51 * 20);
            assert!(taken.answer_bytes > 20 * 100, "{taken:?}");
            assert!(taken.reads >= 50 && taken.wall_ns > 0 && taken.cpu_ns > 0, "{taken:?}");
        }
    }

    #[test]
    fn fewer_requests_than_connections_end_too() {
        let server = Server::start(&Settings::default()).unwrap();
        let request = request();
        let (address, cpu, idle) = (server.address(), some_cpu(), Idle::Sleep);
        let ask = Ask { address, request: &request, connections: 3, requests: 1, cpu, idle };
        assert_eq!(take(ask).unwrap().answers, 1);
    }

    #[test]
    fn an_answer_of_another_length_is_an_error() {
        let settings = Settings { faults: "no-done=50%".parse().unwrap(), ..Settings::default() };
        let server = Server::start(&settings).unwrap();
        let request = request();
        let (address, cpu, idle) = (server.address(), some_cpu(), Idle::Sleep);
        let ask = Ask { address, request: &request, connections: 4, requests: 200, cpu, idle };
        let error = take(ask).unwrap_err();
        let known = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof];
        assert!(known.contains(&error.kind()), "{error}");
    }
}
