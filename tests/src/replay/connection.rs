//! One connection of the replaying server: requests in, the pieces of scripts out at their times.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::{Asked, End, Script, Sent, Shared, monotonic_ns};
use crate::MS;

/// How often a thread that waits for bytes looks whether the server is to stop.
const GLANCE: Duration = Duration::from_millis(50);
/// What a GET is answered with: it needs no case.
const MODELS: &str = r#"{"object":"list","data":[{"id":"sim"},{"id":"granite"}]}"#;

/// One connection and what has come on it.
pub(super) struct Connection {
    shared: Arc<Shared>,
    stream: TcpStream,
    number: u64,
    /// Bytes of requests that were not used yet.
    read: Vec<u8>,
}

impl Connection {
    /// A client's connection, the `number`-th.
    pub(super) fn new(shared: Arc<Shared>, stream: TcpStream, number: u64) -> Self {
        Self { shared, stream, number, read: Vec::new() }
    }

    /// Answers requests until the client, a script or the server's end ends it.
    pub(super) fn serve(mut self) -> io::Result<()> {
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
