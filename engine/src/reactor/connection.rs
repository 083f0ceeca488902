//! The tasks of a connection: one that opens it, one that then only waits for bytes, and one that
//! finishes a write that the kernel did not take at once.

use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use monoio::net::TcpStream;

use super::conn::State;
use super::core::{Core, Shared};
use super::outcome::Ending;
use super::receive::After;
use super::socket::{self, Received};
use super::tls::{self, Session, Shake};
use crate::record::ErrorClass;

/// How long a user rests whose connection could not be opened, so that a refusing server is not
/// asked a hundred thousand times a second.
const REST: Duration = Duration::from_millis(10);

/// Opens connection `id`, then leaves it to a task that is much smaller, since there may be thousands.
pub(crate) async fn open(core: Shared, id: usize, stream: io::Result<Rc<TcpStream>>) {
    match opened(&core, id, stream).await {
        Ok(stream) => {
            core.borrow_mut().opened(id);
            let serve = Box::pin(serve(Rc::clone(&core), id, stream));
            monoio::spawn(guarded(core, id, true, serve));
        }
        Err((class, text)) => {
            let user = core.borrow().conns[id].user;
            if core.borrow_mut().not_opened(id, class, text) {
                monoio::time::sleep(REST).await;
                core.borrow_mut().rested(user);
            }
            core.borrow_mut().release(id);
        }
    }
}

/// Reads connection `id` until it is over.
async fn serve(core: Shared, id: usize, stream: Rc<TcpStream>) {
    while stream.readable(false).await.is_ok() {
        if core.borrow_mut().receive(id) == After::Close {
            break;
        }
    }
    core.borrow_mut().release(id);
}

/// A connection that is ready for its request: connected to the first of its server's addresses that
/// answers, through its proxy, and with its TLS.
async fn opened(
    core: &Shared,
    id: usize,
    mut stream: io::Result<Rc<TcpStream>>,
) -> Result<Rc<TcpStream>, Failed> {
    let stream = loop {
        let failed = match reached(core, id, stream).await {
            Ok(stream) => break stream,
            Err(failed) => failed,
        };
        match core.borrow_mut().dial_next(id) {
            Some(next) => stream = next,
            None => return Err(failed),
        }
    };
    core.borrow_mut().connected(id);
    let setup = Arc::clone(&core.borrow().setup);
    let server = &setup.servers[core.borrow().conns[id].server];
    if let Some(request) = &server.tunnel {
        tunnel(core, id, &stream, request).await?;
    }
    if let Some((config, name)) = &server.tls {
        let session = Session::new(config.clone(), name.clone());
        let session = session.map_err(|error| tls::class_of(&error))?;
        core.borrow_mut().conns[id].tls = Some(Box::new(session));
        shake_hands(core, id, &stream).await?;
    }
    Ok(stream)
}

/// Why a connection could not be opened.
type Failed = (ErrorClass, String);

async fn reached(
    core: &Shared,
    id: usize,
    stream: io::Result<Rc<TcpStream>>,
) -> Result<Rc<TcpStream>, Failed> {
    let stream = stream.map_err(|error| class_of(error.raw_os_error().unwrap_or(0)))?;
    let waited = stream.writable(false).await;
    let errno = socket::take_error(stream.as_raw_fd())
        .or_else(|| waited.err().map(|error| error.raw_os_error().unwrap_or(0)));
    if let Some(errno) = errno {
        return Err(class_of(errno));
    }
    if let Some(class) = core.borrow().conns[id].ours {
        return Err((class, String::new()));
    }
    Ok(stream)
}

/// Asks the proxy on connection `id` to connect to the server.
async fn tunnel(
    core: &Shared,
    id: usize,
    stream: &TcpStream,
    request: &[u8],
) -> Result<(), Failed> {
    let refused = |text: String| (ErrorClass::ConnectRefused, format!("the proxy {text}"));
    let fd = stream.as_raw_fd();
    // So short that an empty socket takes it at once.
    if socket::send(fd, request).ok() != Some(request.len()) {
        return Err(refused("takes no request".to_owned()));
    }
    let mut bytes = Vec::new();
    while stream.readable(false).await.is_ok() {
        let mut core = core.borrow_mut();
        if let Some(class) = core.conns[id].ours {
            return Err((class, String::new()));
        }
        match socket::receive(fd, &mut core.buffer) {
            Received::Bytes { len, .. } => bytes.extend_from_slice(&core.buffer[..len]),
            Received::Empty => continue,
            Received::Eof | Received::Broken(_) => break,
        }
        match tokclock_parser::head::read(&bytes, 64 << 10).map(|step| step.item) {
            Ok(None) => {}
            Ok(Some(head)) if head.is_success() => return Ok(()),
            Ok(Some(head)) => return Err(refused(format!("answers with status {}", head.status))),
            Err(error) => return Err(refused(format!("does not answer in HTTP: {error}"))),
        }
    }
    Err(refused("closed the connection".to_owned()))
}

/// Carries out the TLS handshake of connection `id`.
async fn shake_hands(core: &Shared, id: usize, stream: &TcpStream) -> Result<(), Failed> {
    loop {
        let step = core.borrow_mut().shake_hands(id)?;
        let waited = match step {
            Shake::Done => return Ok(()),
            Shake::Read => stream.readable(false).await,
            Shake::Write => stream.writable(false).await,
        };
        if let Err(error) = waited {
            return Err((ErrorClass::TlsHandshake, socket::reason(&error)));
        }
    }
}

impl Core {
    /// Goes on with the handshake of connection `id` as far as its socket allows.
    fn shake_hands(&mut self, id: usize) -> Result<Shake, Failed> {
        let conn = &mut self.conns[id];
        if let Some(class) = conn.ours {
            return Err((class, String::new()));
        }
        let Some(session) = &mut conn.tls else { return Ok(Shake::Done) };
        let step = session.shake_hands(conn.fd, &mut self.buffer)?;
        if step == Shake::Done {
            conn.exchange.settled.marks.tls_done = self.clock.now();
            let tally = self.recorder.tally();
            tally.handshakes += 1;
            tally.resumed += u64::from(session.is_resumed());
        }
        Ok(step)
    }
}

/// What an errno of socket(2) or connect(2) means.
fn class_of(errno: i32) -> Failed {
    let class = match errno {
        libc::EMFILE
        | libc::ENFILE
        | libc::ENOBUFS
        | libc::ENOMEM
        | libc::EADDRNOTAVAIL
        | libc::EADDRINUSE => ErrorClass::LocalResource,
        libc::ETIMEDOUT => ErrorClass::ConnectTimeout,
        _ => ErrorClass::ConnectRefused,
    };
    (class, socket::reason(&io::Error::from_raw_os_error(errno)))
}

/// Writes the rest of the request on connection `id`, which is that of number `number`.
pub(crate) async fn flush(core: Shared, id: usize, number: u64, stream: Rc<TcpStream>) {
    while stream.writable(false).await.is_ok() {
        let mut core = core.borrow_mut();
        let conn = &core.conns[id];
        if conn.number != number || conn.state != State::Busy || conn.is_written() {
            return;
        }
        let reused = conn.exchange.settled.reused;
        if let Err(error) = core.write(id, reused) {
            let now = core.clock.now();
            let ending = Ending::Broken(error.raw_os_error().unwrap_or(0));
            core.settle_or_replace(id, &ending, now);
            return;
        }
        if core.conns[id].is_written() {
            return;
        }
    }
}

/// A panic in one task must neither end the thread nor leave a request without an outcome. `owns`:
/// the task is the one that frees the connection's place when it ends. The task is boxed, since a
/// future that holds another needs its room twice.
pub(crate) async fn guarded<T>(core: Shared, id: usize, owns: bool, mut task: Pin<Box<T>>)
where
    T: Future<Output = ()>,
{
    let survived = std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(true),
            Err(_) => Poll::Ready(false),
        }
    })
    .await;
    if survived {
        return;
    }
    let Ok(mut core) = core.try_borrow_mut() else { return };
    if matches!(core.conns[id].state, State::Busy | State::Opening) {
        let text = "internal error: a task of the client ended early".to_owned();
        let now = core.clock.now();
        core.settle(id, &Ending::NoConnection(ErrorClass::LocalResource, text), now);
        core.close(id);
    }
    if owns {
        core.release(id);
    }
}
