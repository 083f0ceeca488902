//! Ctrl-C and SIGTERM: once stops a run in order, twice cuts it, three times ends the process.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use tokclock_engine::run::Control;

use crate::exit::{Code, Failure};
use crate::output::Screen;

/// What a signal leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Send no more, let what is in flight end.
    Stop,
    /// Cut what is in flight.
    Cut,
    /// End the process.
    Exit,
}

/// The signals that came, and the run that they are about.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    control: Arc<Control>,
    has_load: AtomicBool,
    count: AtomicU32,
}

impl Interrupts {
    /// Listens for signals from now on. Until [`Self::load_starts`] one signal ends the process:
    /// there is no result to save yet, and `dir` goes unless something is in it.
    ///
    /// # Errors
    /// If the system lets nobody listen.
    pub(crate) fn watch(screen: Screen, dir: &Path) -> Result<Arc<Self>, Failure> {
        let interrupts = Arc::new(Self::default());
        let seen = Arc::clone(&interrupts);
        let dir = dir.to_owned();
        let on_signal = move || match seen.next() {
            Step::Stop => {
                screen.note("stopping: what is in flight may end; Ctrl-C again cuts it");
                seen.control.stop();
            }
            Step::Cut => {
                screen.note("cutting what is in flight; Ctrl-C again ends without results");
                seen.control.cut();
            }
            Step::Exit => {
                // It fails where something is in it, which is to stay.
                let _ = std::fs::remove_dir(&dir);
                std::process::exit(Code::Interrupted as i32);
            }
        };
        listen(on_signal)?;
        Ok(interrupts)
    }

    /// From now on there are results to save.
    pub(crate) fn load_starts(&self) {
        self.has_load.store(true, Ordering::Relaxed);
    }

    /// What the signals act on.
    #[must_use]
    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    fn next(&self) -> Step {
        if !self.has_load.load(Ordering::Relaxed) {
            return Step::Exit;
        }
        match self.count.fetch_add(1, Ordering::Relaxed) {
            0 => Step::Stop,
            1 => Step::Cut,
            _ => Step::Exit,
        }
    }
}

/// Blocks until Ctrl-C or SIGTERM; `with_stdin` also until standard input ends.
///
/// # Errors
/// If the system lets nobody listen.
pub(crate) fn wait(with_stdin: bool) -> Result<(), Failure> {
    let (send, receive) = mpsc::channel();
    if with_stdin {
        let send = send.clone();
        // The thread goes with the process.
        thread::spawn(move || {
            // An input that cannot be read has ended too.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            let _ = send.send(());
        });
    }
    listen(move || {
        // Nobody receives any more: the process is on its way out.
        let _ = send.send(());
    })?;
    // The handler lives as long as the process, so the channel cannot close.
    let _ = receive.recv();
    Ok(())
}

/// Calls `on_signal` at each Ctrl-C or SIGTERM.
///
/// # Errors
/// If the system lets nobody listen.
pub(crate) fn listen(on_signal: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    ctrlc::set_handler(on_signal)
        .map_err(|error| Failure::could_not_run(format!("cannot listen for Ctrl-C: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_stop_then_cut_then_exit() {
        let interrupts = Interrupts::default();
        interrupts.load_starts();
        let steps = [interrupts.next(), interrupts.next(), interrupts.next(), interrupts.next()];
        assert_eq!(steps, [Step::Stop, Step::Cut, Step::Exit, Step::Exit]);
    }

    #[test]
    fn before_the_load_one_signal_is_enough() {
        assert_eq!(Interrupts::default().next(), Step::Exit);
    }
}
