//! The simulated server as a process of its own, on a core of its own: so it shares neither
//! descriptors nor threads with the client that it is measured against.
//!
//! A bench starts its own program again with [`ARGUMENT`]; so the first thing that each `main` does
//! is to ask [`serve_if_asked`].

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use tokclock_sim::{Report, Server, Settings};

/// Makes a bench a simulator; its settings follow as JSON.
pub const ARGUMENT: &str = "--simulate";

/// A simulator that runs in a process of its own; it ends when this is dropped.
#[derive(Debug)]
pub struct Simulator {
    child: Child,
    said: BufReader<ChildStdout>,
    address: SocketAddr,
    /// The clock of its CPU time.
    clock: libc::clockid_t,
}

impl Simulator {
    /// Starts one; when this returns, connections are accepted. All its threads are pinned to the
    /// first CPU of the settings.
    ///
    /// # Errors
    /// If there can be no such process, or no server with these settings.
    pub fn start(settings: &Settings) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .arg(serde_json::to_string(settings)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().map(BufReader::new);
        let Some(mut said) = said else { return Err(io::Error::other("no standard output")) };
        let mut line = String::new();
        said.read_line(&mut line)?;
        let Ok(address) = line.trim().parse() else {
            child.wait()?;
            return Err(io::Error::other("the simulator did not start"));
        };
        let mut clock = 0;
        // SAFETY: the process is our child and not waited for yet; `clock` is a valid place.
        let known = unsafe { libc::clock_getcpuclockid(child.id() as _, &raw mut clock) };
        if known != 0 {
            return Err(io::Error::from_raw_os_error(known));
        }
        Ok(Self { child, said, address, clock })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// CPU time of all its threads so far, ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        process_cpu_ns(self.clock)
    }

    /// Ends it. Its truth log is complete then.
    ///
    /// # Errors
    /// If it does not say how it fared.
    pub fn stop(mut self) -> io::Result<Report> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.said.read_to_string(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// CPU time of all threads of this process so far, ns.
#[must_use]
pub fn own_cpu_ns() -> u64 {
    process_cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn process_cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place; a clock of a process that is gone writes nothing.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Serves until the input ends, if this process was started as a simulator. Says whether it was.
///
/// # Errors
/// If the server cannot be had.
pub fn serve_if_asked() -> io::Result<bool> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ARGUMENT) {
        return Ok(false);
    }
    let settings: Settings = serde_json::from_str(&arguments.next().unwrap_or_default())?;
    if let Some(cpu) = settings.cpus.first() {
        crate::pin(*cpu)?;
    }
    let server = Server::start(&settings).map_err(io::Error::other)?;
    let mut out = io::stdout();
    writeln!(out, "{}", server.address())?;
    out.flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    serde_json::to_writer(&mut out, &server.stop())?;
    out.flush()?;
    Ok(true)
}
