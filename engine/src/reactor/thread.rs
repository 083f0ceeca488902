//! Threads beside the reactors: they yield to them, unless a reactor waits for their work.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};

/// The priority of one such thread, changed by itself and by reactors.
///
/// Where it must share a core with a reactor, a low thread runs only when that waits, so a core that
/// is nearly full starves it; whoever needs its work raises it to a fair share.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The thread as the kernel numbers it; 0 before it runs.
    thread: AtomicI32,
    raised: AtomicBool,
    handle: OnceLock<Thread>,
}

impl Standing {
    /// Gives the thread its fair share until it [lowers](Self::lower) itself, and wakes it.
    pub(crate) fn raise(&self) {
        let thread = self.thread.load(Relaxed);
        if thread != 0 && !self.raised.swap(true, Relaxed) {
            set(thread, libc::SCHED_OTHER);
            self.wake();
        }
    }

    /// Wakes the thread, should it be parked.
    pub(crate) fn wake(&self) {
        if let Some(handle) = self.handle.get() {
            handle.unpark();
        }
    }

    /// Lets the thread run only when no other wants its core. Called by itself.
    pub(crate) fn lower(&self) {
        if self.raised.swap(false, Relaxed) {
            set(0, libc::SCHED_IDLE);
        }
    }

    fn enter(&self) {
        let _ = self.handle.set(std::thread::current());
        // SAFETY: a plain system call.
        self.thread.store(unsafe { libc::gettid() }, Relaxed);
        set(0, libc::SCHED_IDLE);
    }
}

/// Starts a thread of low standing.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn spawn_low<T: Send + 'static>(
    name: &str,
    standing: Arc<Standing>,
    work: impl FnOnce(&Standing) -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        standing.enter();
        work(&standing)
    })
}

fn set(thread: i32, policy: i32) {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid; a refusal changes nothing.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const none) };
}
