//! Starting and stopping a server: its threads, and what they share.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::connection::Cut;
use crate::driver::Driver;
use crate::hall::Hall;
use crate::metrics::{Figures, Sent};
use crate::model::{Queue, Timing};
use crate::reactor::Id;
use crate::report::{Report, Tally};
use crate::settings::Settings;
use crate::socket;
use crate::tasks;
use crate::truth::{Sink, Writer};
use crate::wire::Wire;

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    socket: Option<SocketFile>,
    shared: Option<Arc<Shared>>,
    threads: Vec<JoinHandle<Tally>>,
    writer: Option<Writer>,
    driver: &'static str,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A setting that makes no sense.
    #[error("setting {0}")]
    Setting(String),
    /// The port cannot be had.
    #[error("port {port} on 127.0.0.1 cannot be opened ({source}); choose another, or 0 for any")]
    Listen {
        /// The port asked for.
        port: u16,
        /// What the kernel said.
        source: io::Error,
    },
    /// The unix socket cannot be had.
    #[error(
        "the socket {path} cannot be made ({source}); name one that does not exist, in a directory \
         that does; a simulator that was killed leaves its socket, remove it then"
    )]
    Unix {
        /// The socket.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread cannot be pinned.
    #[error("cpu {cpu} cannot be used ({source}); choose among those this process may run on")]
    Cpu {
        /// The kernel's number of the CPU.
        cpu: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// The truth log cannot be made.
    #[error("the truth log {path} cannot be written ({source})")]
    Truth {
        /// The file.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread or its driver cannot be made.
    #[error(
        "the server cannot start a thread ({0}); this host may be out of descriptors or memory"
    )]
    Thread(#[source] io::Error),
}

/// What the threads of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) wire: Wire,
    pub(crate) timing: Timing,
    pub(crate) cut: Cut,
    /// Whether any time lies between output events.
    pub(crate) has_gaps: bool,
    pub(crate) truth: Option<Sink>,
    pub(crate) mailboxes: Vec<Mailbox>,
    /// What each thread has sent.
    pub(crate) sent: Vec<Sent>,
    /// When the serving model's step ends; `u64::MAX` without one.
    pub(crate) step_ends_ns: AtomicU64,
    /// Who is served and who waits without a serving model.
    queue: Mutex<Queue<Place>>,
    hall: Option<Mutex<Hall>>,
    stopping: AtomicBool,
}

/// Where a request is: its thread and its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) thread: usize,
    pub(crate) id: Id,
}

/// What one thread tells another.
#[derive(Debug)]
pub(crate) enum Message {
    /// Serve this new connection.
    Adopt(OwnedFd),
    /// It is this request's turn.
    Begin(Id),
    /// The serving model has tokens for requests of yours.
    Dealt,
}

/// Messages for one thread, and the event that says there are some.
#[derive(Debug)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    event: OwnedFd,
}

impl Server {
    /// Starts a server; when it returns, connections are accepted.
    ///
    /// # Errors
    /// [`SimError`]: a setting, the port, a CPU or the truth log cannot be had.
    pub fn start(settings: &Settings) -> Result<Self, SimError> {
        if let Some(fault) = settings.fault() {
            return Err(SimError::Setting(fault));
        }
        raise_descriptor_limit();
        let (listener, address, socket) = listen(settings)?;
        let (writer, sink) = match &settings.truth {
            Some(path) => {
                let (writer, sink) = Writer::start(path, &settings.cpus).map_err(|source| {
                    SimError::Truth { path: path.display().to_string(), source }
                })?;
                (Some(writer), Some(sink))
            }
            None => (None, None),
        };
        let shared = Arc::new(Shared::new(settings, sink).map_err(SimError::Thread)?);
        let mut server =
            Self { address, socket, shared: Some(shared), threads: Vec::new(), writer, driver: "" };
        // On an error the half-started server is dropped, which stops its threads.
        server.start_threads(settings, listener)?;
        Ok(server)
    }

    fn start_threads(
        &mut self,
        settings: &Settings,
        listener: TcpListener,
    ) -> Result<(), SimError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let (ready, started) = mpsc::channel();
        let mut listener = Some(listener);
        for index in 0..shared.mailboxes.len() {
            let (shared, ready) = (Arc::clone(shared), ready.clone());
            let (cpu, listener) = (settings.cpus.get(index).copied(), listener.take());
            let thread = thread::Builder::new()
                .name(format!("sim-{index}"))
                .spawn(move || run(shared, index, cpu, listener, &ready))
                .map_err(SimError::Thread)?;
            self.threads.push(thread);
        }
        drop(ready);
        for _ in 0..self.threads.len() {
            let lost = || SimError::Thread(io::Error::other("it ended at once"));
            self.driver = started.recv().map_err(|_| lost())??;
        }
        Ok(())
    }

    /// Where it listens; port 0 of 127.0.0.1 if that is a unix socket.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The unix socket where it listens, if it is one.
    #[must_use]
    pub fn unix(&self) -> Option<&Path> {
        self.socket.as_ref().map(|socket| socket.0.as_path())
    }

    /// Ends all connections and threads, writes the truth log to its end, and says what happened.
    pub fn stop(mut self) -> Report {
        self.end()
    }

    fn end(&mut self) -> Report {
        let Some(shared) = self.shared.take() else { return Report::default() };
        shared.stop();
        let mut tally = Tally::new();
        tally.expect(&shared.settings.faults);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(part) => tally.add(&part),
                Err(_) => tally.internal_errors += 1,
            }
        }
        let mut report = tally.report();
        shared.report(&mut report);
        report.driver = self.driver.to_owned();
        // The writer ends when the last sink is gone, and this holds it.
        drop(shared);
        if let Some(writer) = self.writer.take() {
            (report.truth_dropped, report.truth_error) = writer.finish();
        }
        report
    }
}

/// A unix socket of ours, removed when it is dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever removed it before us did what we would do.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens what the settings say to listen on.
fn listen(settings: &Settings) -> Result<(TcpListener, SocketAddr, Option<SocketFile>), SimError> {
    if let Some(path) = &settings.unix {
        let listener = socket::listen_unix(path)
            .map_err(|source| SimError::Unix { path: path.display().to_string(), source })?;
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        return Ok((listener, nowhere, Some(SocketFile(path.clone()))));
    }
    let port = settings.port;
    let failed = |source| SimError::Listen { port, source };
    let listener = socket::listen(port, settings.truth.is_some()).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address, None))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// One thread, from its pinning to its counts.
fn run(
    shared: Arc<Shared>,
    index: usize,
    cpu: Option<usize>,
    listener: Option<TcpListener>,
    ready: &Sender<Result<&'static str, SimError>>,
) -> Tally {
    if let Some(cpu) = cpu
        && let Err(source) = socket::pin(&[cpu])
    {
        // The receiver is only gone if another thread failed first.
        let _ = ready.send(Err(SimError::Cpu { cpu, source }));
        return Tally::new();
    }
    let mut driver = match Driver::build() {
        Ok(driver) => driver,
        Err(error) => {
            let _ = ready.send(Err(SimError::Thread(error)));
            return Tally::new();
        }
    };
    let name = driver.name();
    let (tally, clean) = driver.block_on(tasks::serve(shared, index, listener, || {
        let _ = ready.send(Ok(name));
    }));
    if !clean {
        // Operations may still be in flight; the kernel must not find their memory gone.
        std::mem::forget(driver);
    }
    match tally {
        Ok(tally) => tally,
        Err(error) => {
            let _ = ready.send(Err(SimError::Thread(error)));
            Tally::new()
        }
    }
}

impl Shared {
    fn new(settings: &Settings, truth: Option<Sink>) -> io::Result<Self> {
        let threads = settings.cpus.len().max(1);
        Ok(Self {
            wire: Wire::new(settings),
            timing: Timing::new(settings),
            cut: Cut { batch: settings.batch(), head_early: settings.head_early },
            has_gaps: settings.has_gaps(),
            sent: (0..threads).map(|_| Sent::default()).collect(),
            step_ends_ns: AtomicU64::new(u64::MAX),
            hall: settings.serving.as_ref().map(|serving| Mutex::new(Hall::new(serving, threads))),
            truth,
            mailboxes: (0..threads).map(|_| Mailbox::new()).collect::<io::Result<_>>()?,
            queue: Mutex::new(Queue::new(settings.max_concurrent)),
            stopping: AtomicBool::new(false),
            settings: settings.clone(),
        })
    }

    /// Who is served and who waits. Held for moments only, at a request's two ends.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<Place>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The serving model, if there is one. Held for moments only: at a request's two ends, and at
    /// the end of a step.
    pub(crate) fn hall(&self) -> Option<MutexGuard<'_, Hall>> {
        self.hall.as_ref().map(|hall| hall.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Who is served and who waits without a serving model.
    pub(crate) fn figures(&self) -> Figures {
        let (running, waiting) = self.queue().lengths();
        Figures { running, waiting, ..Figures::default() }
    }

    fn report(&self, report: &mut Report) {
        if let Some(hall) = self.hall() {
            hall.report(report);
            return;
        }
        let queue = self.queue();
        report.requests = queue.arrived();
        (report.peak_in_flight, report.peak_waiting) = queue.peaks();
    }

    /// Counts a record that is missing in the truth log.
    pub(crate) fn drop_record(&self) {
        if let Some(sink) = &self.truth {
            sink.drop_one();
        }
    }

    /// Whether the threads are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for mailbox in &self.mailboxes {
            socket::raise(mailbox.event.as_raw_fd());
        }
    }
}

impl Mailbox {
    fn new() -> io::Result<Self> {
        Ok(Self { messages: Mutex::new(Vec::new()), event: socket::event(0)? })
    }

    /// Leaves a message and wakes the thread.
    pub(crate) fn post(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        socket::raise(self.event.as_raw_fd());
    }

    /// All messages left so far.
    pub(crate) fn take(&self) -> Vec<Message> {
        socket::lower(self.event.as_raw_fd());
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another handle to its event, to wait on.
    pub(crate) fn event(&self) -> io::Result<OwnedFd> {
        self.event.try_clone()
    }
}

/// Allows as many descriptors as the system lets this process have: one is one client.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            // Without it fewer clients fit; those beyond are counted as refused.
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
