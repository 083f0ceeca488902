//! The runtime of one reactor: which driver and ring flags it gets, and how a task lets others run.

use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::pin;
use std::task::Poll;

use io_uring::{Builder, IoUring};
use monoio::net::TcpStream;
use monoio::time::TimeDriver;
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};

use super::socket;

/// Submission queue entries; a full queue is flushed by an extra system call.
const ENTRIES: u32 = 4096;

/// Sets flags of a ring.
type SetFlags = fn(&mut Builder);

/// Ring flags in the order in which they are tried.
const RINGS: [(&str, SetFlags); 3] = [
    ("SINGLE_ISSUER|DEFER_TASKRUN", |ring| {
        ring.setup_single_issuer().setup_defer_taskrun();
    }),
    ("COOP_TASKRUN", |ring| {
        ring.setup_coop_taskrun();
    }),
    ("", |_| {}),
];

/// A runtime on one of the two drivers.
pub(crate) enum Driver {
    /// io_uring.
    Ring(Box<Runtime<TimeDriver<IoUringDriver>>>),
    /// epoll.
    Epoll(Box<Runtime<TimeDriver<LegacyDriver>>>),
}

/// The name of a driver and the flags of its ring (empty for epoll).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverName {
    /// `io_uring` or `epoll`.
    pub driver: &'static str,
    /// Flags of the ring.
    pub ring: &'static str,
}

/// A better driver, or better flags, that could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The flags of the ring; `None` if no ring can be had.
    pub ring: Option<&'static str>,
    /// Why not.
    pub why: Refusal,
}

/// Why a ring cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// `MONOIO_FORCE_LEGACY_DRIVER` is set.
    Forced,
    /// The kernel refused with this errno; 0 if it gave none.
    Errno(i32),
    /// The kernel's io_uring lacks an operation that is needed.
    Incomplete,
}

impl Driver {
    /// The best driver that this host allows, made on the calling thread for the calling thread.
    ///
    /// # Errors
    /// When not even epoll can be set up.
    pub(crate) fn build() -> io::Result<(Self, DriverName)> {
        Self::build_noting(&mut Vec::new())
    }

    /// The same, noting in `refused` what would have been better.
    ///
    /// # Errors
    /// When not even epoll can be set up.
    pub(crate) fn build_noting(refused: &mut Vec<Refused>) -> io::Result<(Self, DriverName)> {
        if monoio::utils::detect_uring() {
            for (ring, set) in RINGS {
                let mut builder = IoUring::builder();
                set(&mut builder);
                let runtime = RuntimeBuilder::<IoUringDriver>::new()
                    .uring_builder(builder)
                    .with_entries(ENTRIES)
                    .enable_timer()
                    .build();
                match runtime {
                    Ok(runtime) => {
                        let name = DriverName { driver: "io_uring", ring };
                        return Ok((Self::Ring(Box::new(runtime)), name));
                    }
                    Err(error) => refused.push(Refused { ring: Some(ring), why: errno(&error) }),
                }
            }
        } else {
            refused.push(Refused { ring: None, why: why_no_ring() });
        }
        let runtime =
            RuntimeBuilder::<LegacyDriver>::new().with_entries(ENTRIES).enable_timer().build()?;
        Ok((Self::Epoll(Box::new(runtime)), DriverName { driver: "epoll", ring: "" }))
    }

    /// Runs `future` to its end.
    pub(crate) fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        match self {
            Self::Ring(runtime) => runtime.block_on(future),
            Self::Epoll(runtime) => runtime.block_on(future),
        }
    }
}

/// Why the library found that it must do without io_uring.
fn why_no_ring() -> Refusal {
    let forced = std::env::var("MONOIO_FORCE_LEGACY_DRIVER").unwrap_or_default();
    if matches!(forced.to_ascii_lowercase().as_str(), "1" | "true" | "yes") {
        return Refusal::Forced;
    }
    match IoUring::new(2) {
        Ok(_) => Refusal::Incomplete,
        Err(error) => errno(&error),
    }
}

fn errno(error: &io::Error) -> Refusal {
    Refusal::Errno(error.raw_os_error().unwrap_or(0))
}

/// A way to let everybody else run, I/O and timers included, and go on right after.
///
/// A task that wakes itself starves the thread in monoio 0.2.4, so the turn goes through the driver:
/// on the ring by an eventfd that is always ready, on epoll by one that becomes ready during the turn
/// (an always ready one would never let epoll look at the others).
pub(crate) struct Turn {
    stream: TcpStream,
    fd: RawFd,
    edge: bool,
}

impl Turn {
    /// Must be made inside a runtime.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub(crate) fn new() -> io::Result<Self> {
        let edge = monoio::utils::is_legacy();
        let stream = socket::waitable(socket::eventfd(u32::from(!edge))?)?;
        let fd = stream.as_raw_fd();
        Ok(Self { stream, fd, edge })
    }

    /// One turn of the driver.
    pub(crate) async fn take(&self) {
        if !self.edge {
            let _ = self.stream.readable(false).await;
            return;
        }
        let mut ready = pin!(self.stream.readable(false));
        let mut first = true;
        std::future::poll_fn(|context| {
            let polled = ready.as_mut().poll(context);
            if first {
                first = false;
                if polled.is_pending() {
                    socket::notify(self.fd);
                }
            }
            match polled {
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        let _ = socket::drain(self.fd);
    }
}

/// Wakes a reactor from another thread.
pub(crate) struct Bell {
    stream: TcpStream,
    fd: RawFd,
}

impl Bell {
    /// Takes the eventfd that the other side rings with [`socket::notify`].
    ///
    /// # Errors
    /// Those of registering it.
    pub(crate) fn new(fd: std::os::fd::OwnedFd) -> io::Result<Self> {
        let stream = socket::waitable(fd)?;
        let fd = stream.as_raw_fd();
        Ok(Self { stream, fd })
    }

    /// Waits until it is rung.
    pub(crate) async fn rung(&self) {
        let _ = self.stream.readable(false).await;
        let _ = socket::drain(self.fd);
    }
}
