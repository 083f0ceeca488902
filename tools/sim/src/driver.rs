//! The monoio runtime of one thread: which driver, how to give it a turn, how to contain a panic.

use std::future::Future;
use std::io;
use std::net::TcpStream as StdStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use monoio::net::TcpStream;
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};

use crate::socket;

/// A runtime on whichever driver this host allows.
pub(crate) enum Driver {
    Ring(Box<Runtime<IoUringDriver>>, &'static str),
    Epoll(Box<Runtime<LegacyDriver>>),
}

impl Driver {
    /// Builds it; call it on the thread that will run it, to which the ring is then tied.
    ///
    /// In order: io_uring with DEFER_TASKRUN, with COOP_TASKRUN, plain, epoll.
    /// `MONOIO_FORCE_LEGACY_DRIVER=1` asks for epoll.
    pub(crate) fn build() -> io::Result<Self> {
        const ENTRIES: u32 = 4096;
        if monoio::utils::detect_uring() {
            for name in ["io_uring defer_taskrun", "io_uring coop_taskrun", "io_uring"] {
                let mut flags = io_uring::IoUring::builder();
                match name {
                    "io_uring defer_taskrun" => {
                        flags.setup_single_issuer().setup_defer_taskrun();
                    }
                    "io_uring coop_taskrun" => {
                        flags.setup_coop_taskrun();
                    }
                    _ => {}
                }
                let builder = RuntimeBuilder::<IoUringDriver>::new();
                if let Ok(ring) = builder.uring_builder(flags).with_entries(ENTRIES).build() {
                    return Ok(Self::Ring(Box::new(ring), name));
                }
            }
        }
        Ok(Self::Epoll(Box::new(RuntimeBuilder::<LegacyDriver>::new().build()?)))
    }

    /// What it is, for the report.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ring(_, name) => name,
            Self::Epoll(_) => "epoll",
        }
    }

    /// Runs `future`, and what it spawns, until it is ready.
    pub(crate) fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        match self {
            Self::Ring(ring, _) => ring.block_on(future),
            Self::Epoll(epoll) => epoll.block_on(future),
        }
    }
}

/// Wraps any pollable descriptor so that `readable(false)` waits for it.
pub(crate) fn pollable(fd: OwnedFd) -> io::Result<TcpStream> {
    TcpStream::from_std(StdStream::from(fd))
}

/// Gives the driver a turn, so that everything else that is ready runs.
///
/// A future that wakes itself would starve the thread in monoio 0.2.4: nothing else is polled.
pub(crate) struct Turn {
    event: TcpStream,
    edge: bool,
}

impl Turn {
    /// Call it inside the runtime that it is for.
    pub(crate) fn new() -> io::Result<Self> {
        // On the ring an eventfd that is always ready is the cheaper wait; on epoll that would
        // be answered from cached readiness and starve the rest, so there it is raised anew.
        let edge = monoio::utils::is_legacy();
        Ok(Self { event: pollable(socket::event(u32::from(!edge))?)?, edge })
    }

    /// Returns after one round of the driver.
    pub(crate) async fn take(&self) {
        let mut wait = pin!(self.event.readable(false));
        let mut raised = !self.edge;
        std::future::poll_fn(|context| {
            let ready = wait.as_mut().poll(context);
            if !raised && ready.is_pending() {
                socket::raise(self.event.as_raw_fd());
            }
            raised = true;
            // An error would only mean a turn cut short.
            ready.map(|_| ())
        })
        .await;
        if self.edge {
            socket::lower(self.event.as_raw_fd());
        }
    }
}

/// Polls `future` to its end; a panic inside becomes `None` and goes no further.
pub(crate) async fn contain<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}
