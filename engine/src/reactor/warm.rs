//! Takes the cold send and receive path out of the figures: one request without effect per reactor,
//! before the run, which also shows whether kernel stamps come.

use std::os::fd::AsRawFd;
use std::time::Duration;

use super::setup::ReactorSetup;
use super::socket::{self, Received};

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
    let opened = socket::connect(&setup.servers[0].addresses[0], None, setup.stamped, true)
        .and_then(|socket| monoio::net::TcpStream::from_std(socket.into()));
    let Ok(stream) = opened else { return };
    let fd = stream.as_raw_fd();
    if stream.writable(false).await.is_err() || socket::take_error(fd).is_some() {
        return;
    }
    if socket::send(fd, &setup.servers[0].warm_request).is_err() {
        return;
    }
    // One read has gone the whole way; what else comes is of no interest.
    while stream.readable(false).await.is_ok() {
        if socket::receive(fd, buffer) != Received::Empty {
            return;
        }
    }
}
