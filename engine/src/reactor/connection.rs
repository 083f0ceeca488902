//! The tasks of a connection: one that opens it and then only waits for bytes, and one that finishes
//! a write that the kernel did not take at once.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use monoio::net::TcpStream;

use super::conn::State;
use super::core::Shared;
use super::outcome::Ending;
use super::receive::After;
use super::socket;
use crate::record::ErrorClass;

/// How long a user rests whose connection could not be opened, so that a refusing server is not
/// asked a hundred thousand times a second.
const REST: Duration = Duration::from_millis(10);

/// Opens connection `id` and serves it until it is over.
pub(crate) async fn run(core: Shared, id: usize, stream: io::Result<Rc<TcpStream>>) {
    match opened(&core, id, stream).await {
        Ok(stream) => {
            core.borrow_mut().opened(id);
            while stream.readable(false).await.is_ok() {
                if core.borrow_mut().receive(id) == After::Close {
                    break;
                }
            }
        }
        Err((class, text)) => {
            core.borrow_mut().not_opened(id, class, text);
            monoio::time::sleep(REST).await;
            core.borrow_mut().rested();
        }
    }
    core.borrow_mut().release(id);
}

async fn opened(
    core: &Shared,
    id: usize,
    stream: io::Result<Rc<TcpStream>>,
) -> Result<Rc<TcpStream>, (ErrorClass, String)> {
    let stream = stream.map_err(|error| class_of(error.raw_os_error().unwrap_or(0)))?;
    let waited = stream.writable(false).await;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&*stream);
    let errno = socket::take_error(fd)
        .or_else(|| waited.err().map(|error| error.raw_os_error().unwrap_or(0)));
    if let Some(errno) = errno {
        return Err(class_of(errno));
    }
    if let Some(class) = core.borrow().conns[id].ours {
        return Err((class, String::new()));
    }
    Ok(stream)
}

/// What an errno of socket(2) or connect(2) means.
fn class_of(errno: i32) -> (ErrorClass, String) {
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
/// the task is the one that frees the connection's place when it ends.
pub(crate) async fn guarded(core: Shared, id: usize, owns: bool, task: impl Future<Output = ()>) {
    let mut task = pin!(task);
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
