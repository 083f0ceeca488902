//! A process that must not outlive the one that started it.

/// From now on the kernel kills this process when the thread that started it ends, whatever it dies of.
/// Gives whether it does.
#[must_use]
pub fn end_with_parent() -> bool {
    // SAFETY: a plain system call that only concerns this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 }
}
