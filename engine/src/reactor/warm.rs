//! Takes the cold send and receive path out of the figures: one request without effect per reactor,
//! before the run, which also shows whether kernel stamps come.

use std::os::fd::AsRawFd;
use std::time::Duration;

use super::setup::ReactorSetup;
use super::socket::{self, Received};
use super::tls::{Session, Shake};

/// How long the answer may take; a slow server delays the start by no more.
const PATIENCE: Duration = Duration::from_millis(300);

/// Sends the warm-up request and reads what comes. Failures are of no matter here: the run itself
/// will meet and count them.
pub(crate) async fn warm(setup: &ReactorSetup, buffer: &mut [u8]) {
    monoio::select! {
        () = exchange(setup, buffer) => {}
        () = monoio::time::sleep(PATIENCE) => {}
    }
}

async fn exchange(setup: &ReactorSetup, buffer: &mut [u8]) {
    let Some(server) = setup.servers.first() else { return };
    let Some(address) = server.addresses.first() else { return };
    let opened = socket::connect(address, None, setup.stamped, true)
        .and_then(|socket| monoio::net::TcpStream::from_std(socket.into()));
    let Ok(stream) = opened else { return };
    let fd = stream.as_raw_fd();
    if stream.writable(false).await.is_err() || socket::take_error(fd).is_some() {
        return;
    }
    let mut request = server.warm_request.as_slice();
    let mut session = None;
    if let Some((config, name)) = server.tls.as_ref().filter(|_| server.tunnel.is_none()) {
        let Ok(new) = Session::new(config.clone(), name.clone()) else { return };
        let session = session.insert(new);
        loop {
            let waited = match session.shake_hands(fd, buffer) {
                Ok(Shake::Done) => break,
                Ok(Shake::Read) => stream.readable(false).await,
                Ok(Shake::Write) => stream.writable(false).await,
                Err(_) => return,
            };
            if waited.is_err() {
                return;
            }
        }
        session.seal(request);
        request = &session.out;
    } else if let Some(tunnel) = &server.tunnel {
        request = tunnel;
    }
    if socket::send(fd, request).is_err() {
        return;
    }
    // One read has gone the whole way; what else comes is of no interest.
    while stream.readable(false).await.is_ok() {
        match socket::receive(fd, buffer) {
            Received::Empty => {}
            Received::Bytes { len, .. } => {
                let Some(session) = &mut session else { return };
                let mut plain = Vec::new();
                // A ticket is not yet the answer; it makes the next handshake shorter.
                if session.take(&buffer[..len], &mut plain).is_err() || !plain.is_empty() {
                    return;
                }
            }
            Received::Eof | Received::Broken(_) => return,
        }
    }
}
