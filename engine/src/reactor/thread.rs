//! Low-priority threads beside the reactors.

use std::io;
use std::thread::JoinHandle;

/// Starts a thread that yields to reactors: where it must share a core with one, it runs only when
/// that waits.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn spawn_low<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let idle = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, the parameter is valid; a refusal changes nothing.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle) };
        work()
    })
}
