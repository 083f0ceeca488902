//! Standard output of a worker: whole lines, one after another, from any thread.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokclock_engine::shard::message::{Reply, line};

/// Where lines go.
#[derive(Debug, Clone, Default)]
pub(super) struct Outlet {
    one: Arc<Mutex<()>>,
}

impl Outlet {
    /// Says something.
    pub(super) fn say(&self, reply: &Reply) {
        let line = line(reply);
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        put(&line);
    }

    /// Says what is made when it is this one's turn, so that a time in it is that of sending.
    pub(super) fn say_now(&self, reply: impl FnOnce() -> Reply) {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        put(&line(&reply()));
    }
}

fn put(line: &[u8]) {
    let mut out = io::stdout().lock();
    // If it cannot be written there is nobody to tell; the end of the input follows.
    let _ = out.write_all(line).and_then(|()| out.flush());
}

/// Writes a line to a process; one that cannot be reached is found by its end.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize) {
    let _ = to.write_all(&line(message)).and_then(|()| to.flush());
}
