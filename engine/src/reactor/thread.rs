//! Threads beside the reactors: they yield to them, unless a reactor waits for their work.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// How far a thread beside the reactors stands back behind others.
const NICE: i32 = 10;

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

/// Starts a thread that stands back from these CPUs.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn spawn_beside(
    name: &str,
    cpus: Vec<usize>,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        stand_back(&cpus);
        work();
    })
}

/// Keeps the calling thread off `cpus` and below others; where it may use none but those, it runs only
/// when no other wants its core.
pub(crate) fn stand_back(cpus: &[usize]) {
    if keep_off(cpus) {
        // SAFETY: a plain system call; a refusal changes nothing.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    } else {
        set(0, libc::SCHED_IDLE);
    }
}

/// Whether the calling thread has CPUs beside these, on which it now stays.
fn keep_off(cpus: &[usize]) -> bool {
    // SAFETY: a set of CPUs is plain bits, all of which may be 0.
    let mut mine: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: `mine` is a valid place of that size for the answer.
    if unsafe { libc::sched_getaffinity(0, size, &raw mut mine) } != 0 {
        return false;
    }
    for &cpu in cpus.iter().filter(|cpu| **cpu < 8 * size) {
        // SAFETY: the place of the CPU lies within the set.
        unsafe { libc::CPU_CLR(cpu, &mut mine) };
    }
    // SAFETY: the set is whole; an empty one is refused, which changes nothing.
    unsafe { libc::sched_setaffinity(0, size, &raw const mine) == 0 }
}

/// Sleeps.
pub(crate) fn pause(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns));
}

/// A thread that looks on, and sleeps in between.
pub(crate) struct Watcher<T> {
    thread: JoinHandle<T>,
    rest: Rest,
}

/// How such a thread sleeps, and learns that it is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rest {
    over: Arc<AtomicBool>,
}

impl<T: Send + 'static> Watcher<T> {
    /// Starts it.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn spawn(
        name: &str,
        work: impl FnOnce(&Rest) -> T + Send + 'static,
    ) -> io::Result<Self> {
        let rest = Rest::default();
        let own = rest.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&own))?;
        Ok(Self { thread, rest })
    }

    /// Wakes it and tells it that it is over.
    pub(crate) fn tell(&self) {
        self.rest.over.store(true, Relaxed);
        self.thread.thread().unpark();
    }

    /// Wakes it, tells it that it is over, and waits for what it brings; nothing if it broke.
    pub(crate) fn end(self) -> Option<T> {
        self.tell();
        self.thread.join().ok()
    }
}

impl Rest {
    /// Sleeps so long at most. Whether it goes on.
    pub(crate) fn sleep(&self, ns: u64) -> bool {
        if !self.is_over() {
            std::thread::park_timeout(Duration::from_nanos(ns));
        }
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
}

fn set(thread: i32, policy: i32) {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid; a refusal changes nothing.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const none) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<usize> {
        core_affinity::get_core_ids().unwrap().iter().map(|cpu| cpu.id).collect()
    }

    #[test]
    fn a_thread_is_kept_off_cpus_unless_there_are_no_others() {
        let work = || {
            let all = allowed();
            assert!(!keep_off(&all));
            assert_eq!(allowed(), all);
            assert_eq!(keep_off(&[all[0], usize::MAX]), all.len() > 1);
            let left = if all.len() > 1 { &all[1..] } else { &all[..] };
            assert_eq!(allowed(), left);
        };
        std::thread::spawn(work).join().unwrap();
    }
}
