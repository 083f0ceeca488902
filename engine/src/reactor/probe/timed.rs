//! Sockets that are waited for, but not for ever.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::clock;

/// A socket whose reads and writes may wait so long.
pub(super) trait Patient: Read + Write {
    /// From now on at most so long, which is not 0.
    fn wait_at_most(&self, patience: Duration) -> std::io::Result<()>;
}

impl Patient for TcpStream {
    fn wait_at_most(&self, patience: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(patience)).and_then(|()| self.set_write_timeout(Some(patience)))
    }
}

impl Patient for UnixStream {
    fn wait_at_most(&self, patience: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(patience)).and_then(|()| self.set_write_timeout(Some(patience)))
    }
}

/// A socket that gives up when a question has taken too long, however slowly its answer drips.
pub(super) struct Timed<S> {
    pub(super) socket: S,
    /// When the question has taken too long, ns.
    pub(super) until_ns: u64,
    /// Longest silence.
    pub(super) patience: Duration,
}

impl<S: Patient> Timed<S> {
    /// Before something that may wait.
    fn wait(&self) -> std::io::Result<()> {
        let left = self.until_ns.saturating_sub(clock::monotonic_ns());
        if left == 0 {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.socket.wait_at_most(self.patience.min(Duration::from_nanos(left)))
    }
}

impl<S: Patient> Read for Timed<S> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.wait()?;
        self.socket.read(bytes)
    }
}

impl<S: Patient> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.wait()?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}
