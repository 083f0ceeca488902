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
        lower();
        work()
    })
}

/// The calling thread as the kernel numbers it.
pub(crate) fn current() -> i32 {
    // SAFETY: a plain system call.
    unsafe { libc::gettid() }
}

/// Lets the calling thread run only when no other wants its core.
pub(crate) fn lower() {
    set(0, libc::SCHED_IDLE);
}

/// Gives a [lowered](lower) thread its fair share again; 0 is nobody.
pub(crate) fn raise(thread: i32) {
    if thread != 0 {
        set(thread, libc::SCHED_OTHER);
    }
}

fn set(thread: i32, policy: i32) {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid; a refusal changes nothing.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const none) };
}
