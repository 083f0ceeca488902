//! One connection's TLS: bytes of the socket on one side, plain bytes on the other.

use std::io::{BufRead, Write};
use std::os::fd::RawFd;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error, HandshakeKind};

use super::class_of;
use crate::reactor::socket::{self, Received};
use crate::record::ErrorClass;

/// What a handshake waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shake {
    /// Nothing: it is over.
    Done,
    /// Bytes of the server.
    Read,
    /// Room for ours.
    Write,
}

/// One connection's TLS: bytes of the socket on one side, plain bytes on the other.
pub(crate) struct Session {
    session: ClientConnection,
    /// Bytes for the socket.
    pub(crate) out: Vec<u8>,
}

impl Session {
    /// A session whose first message waits in `out`.
    pub(crate) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        let mut session = ClientConnection::new(config, name)?;
        // A request is sealed whole, however long.
        session.set_buffer_limit(None);
        let mut new = Self { session, out: Vec::new() };
        new.gather();
        Ok(new)
    }

    /// Was an earlier session resumed?
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Goes on with the handshake as far as socket `fd` allows.
    ///
    /// # Errors
    /// The class and text that the request fails with.
    pub(crate) fn shake_hands(
        &mut self,
        fd: RawFd,
        buffer: &mut [u8],
    ) -> Result<Shake, (ErrorClass, String)> {
        let failed = |text: &str| (ErrorClass::TlsHandshake, text.to_owned());
        loop {
            while !self.out.is_empty() {
                let sent = socket::send(fd, &self.out);
                match sent.map_err(|error| failed(&socket::reason(&error)))? {
                    0 => return Ok(Shake::Write),
                    sent => drop(self.out.drain(..sent)),
                }
            }
            if !self.session.is_handshaking() {
                return Ok(Shake::Done);
            }
            match socket::receive(fd, buffer) {
                Received::Bytes { len, .. } => {
                    // A server has nothing to say before it is asked.
                    let taken = self.take(&buffer[..len], &mut Vec::new());
                    if let Err(error) = taken {
                        // The alert may tell the server why; nobody waits for it.
                        let _ = socket::send(fd, &self.out);
                        return Err(class_of(&error));
                    }
                }
                Received::Empty => return Ok(Shake::Read),
                Received::Eof => return Err(failed("the server closed during the TLS handshake")),
                Received::Broken(errno) => {
                    let error = std::io::Error::from_raw_os_error(errno);
                    return Err(failed(&socket::reason(&error)));
                }
            }
        }
    }

    /// Takes bytes of the socket; what they hold is appended to `plain`, and what is to be answered
    /// waits in `out`. Returns whether the peer has ended the session in order.
    pub(crate) fn take(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<bool, Error> {
        let mut ended = false;
        while !wire.is_empty() {
            let taken = self.session.read_tls(&mut wire);
            let state = self.session.process_new_packets();
            // What came whole before a broken record is read all the same.
            let mut reader = self.session.reader();
            while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
                plain.extend_from_slice(chunk);
                let length = chunk.len();
                reader.consume(length);
            }
            if state.is_err() {
                // The alert that tells the peer why.
                self.gather();
            }
            let state = state?;
            ended |= state.peer_has_closed();
            // Nothing was taken: there is no room, or the session is over.
            if taken.unwrap_or(0) == 0 {
                break;
            }
        }
        if self.session.wants_write() {
            self.gather();
        }
        Ok(ended)
    }

    /// Seals `plain`, to be found in `out`, which holds nothing else afterwards.
    pub(crate) fn seal(&mut self, plain: &[u8]) {
        self.out.clear();
        // Without a limit all is taken.
        let _ = self.session.writer().write_all(plain);
        self.gather();
    }

    fn gather(&mut self) {
        while self.session.wants_write() {
            // Writing to memory cannot fail.
            if self.session.write_tls(&mut self.out).is_err() {
                break;
            }
        }
    }
}
