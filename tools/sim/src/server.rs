//! Starting and stopping a server: its threads, and what stands beside them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use crate::dcgm::{Exporter, Load};
use crate::driver::Driver;
use crate::legs::Role;
use crate::legs::router::Router;
use crate::legs::side::{Prepared, Side};
use crate::report::{Report, Tally};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::socket;
use crate::tasks;
use crate::truth::Writer;

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    socket: Option<SocketFile>,
    shared: Option<Arc<Shared>>,
    threads: Vec<JoinHandle<Tally>>,
    writer: Option<Writer>,
    side: Option<Side>,
    router: Option<Router>,
    dcgm: Option<Exporter>,
    side_port: Option<u16>,
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
        let role = settings.role.as_ref();
        let prepared = Prepared::new(role).map_err(|source| SimError::Listen {
            port: role.map_or(0, |role| role.side_port),
            source,
        })?;
        let is_prefill = role.is_some_and(|role| role.role == Role::Prefill);
        let side_port = is_prefill.then_some(prepared.port);
        let (writer, sink) = match &settings.truth {
            Some(path) => {
                let (writer, sink) = Writer::start(path, &settings.cpus).map_err(|source| {
                    SimError::Truth { path: path.display().to_string(), source }
                })?;
                (Some(writer), Some(sink))
            }
            None => (None, None),
        };
        let shared = Arc::new(Shared::new(settings, sink, &prepared).map_err(SimError::Thread)?);
        let mut server = Self {
            address,
            socket,
            shared: Some(shared),
            threads: Vec::new(),
            writer,
            side: None,
            router: None,
            dcgm: None,
            side_port,
            driver: "",
        };
        if let Some(role) = role.filter(|role| role.role == Role::Router) {
            let sink = server.shared.take().and_then(|shared| shared.truth.clone());
            let router = Router::start(listener, settings, role, sink);
            let router = router.map_err(SimError::Thread)?;
            server.dcgm = exporter(settings, || router.load())?;
            server.router = Some(router);
            return Ok(server);
        }
        // On an error the half-started server is dropped, which stops its threads.
        server.start_threads(settings, listener, prepared)?;
        Ok(server)
    }

    fn start_threads(
        &mut self,
        settings: &Settings,
        listener: TcpListener,
        prepared: Prepared,
    ) -> Result<(), SimError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let load = Arc::clone(shared);
        self.dcgm = exporter(settings, || Box::new(move || load.load()))?;
        self.side = Some(prepared.start(shared).map_err(SimError::Thread)?);
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

    /// Where the stand-in for DCGM's exporter listens, if there is one.
    #[must_use]
    pub fn dcgm_address(&self) -> Option<SocketAddr> {
        self.dcgm.as_ref().map(Exporter::address)
    }

    /// Where decode servers meet a prefill server, if it is one.
    #[must_use]
    pub fn side_port(&self) -> Option<u16> {
        self.side_port
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
        // It holds what it looks at.
        drop(self.dcgm.take());
        if let Some(router) = self.router.take() {
            let mut report = router.end();
            self.finish(&mut report);
            return report;
        }
        let Some(shared) = self.shared.take() else { return Report::default() };
        shared.stop();
        // Its threads hold what the threads that serve share.
        drop(self.side.take());
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
        self.finish(&mut report);
        report
    }

    /// Waits for the truth log; nobody holds a sink of it any more.
    fn finish(&mut self, report: &mut Report) {
        if let Some(writer) = self.writer.take() {
            (report.truth_dropped, report.truth_error) = writer.finish();
        }
    }
}

/// The stand-in for DCGM's exporter, if there is to be one.
fn exporter(
    settings: &Settings,
    load: impl FnOnce() -> Load,
) -> Result<Option<Exporter>, SimError> {
    let Some(dcgm) = &settings.dcgm else { return Ok(None) };
    let port = dcgm.port;
    let exporter = Exporter::start(dcgm, load());
    Ok(Some(exporter.map_err(|source| SimError::Listen { port, source })?))
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
