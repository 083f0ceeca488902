//! Looks at GPUs again and again while a run goes on. A source that hangs or breaks costs the run
//! nothing but its figures.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::Thread;
use std::time::Duration;

use super::GpuSource;
use super::log::{GPUS_FILE, Log};
use crate::clock::RunClock;
use crate::reactor::spawn_beside;

/// How long a look that is under way at the end of a run is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// The sources of a command, and how often they are looked at.
pub struct GpuWatch {
    interval_ns: u64,
    sources: Vec<Arc<Mutex<Box<dyn GpuSource>>>>,
    /// What became of the looks of the latest run, one for each source.
    told: Mutex<Vec<Arc<Mutex<GpuTold>>>>,
}

/// What became of looking at one source during a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuTold {
    /// The source, as it may be shown.
    pub source: String,
    /// Looks that were made.
    pub looks: u64,
    /// Those that brought nothing.
    pub failed: u64,
    /// Why the last of those did not.
    pub reason: Option<String>,
}

impl GpuWatch {
    /// Looks at these every `interval_ns`.
    #[must_use]
    pub fn new(interval_ns: u64, sources: Vec<Box<dyn GpuSource>>) -> Self {
        let sources = sources.into_iter().map(|source| Arc::new(Mutex::new(source))).collect();
        Self { interval_ns: interval_ns.max(1), sources, told: Mutex::default() }
    }

    /// Whether there is anything to look at.
    #[must_use]
    pub fn has_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// How often it looks, ns.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// What became of the latest run's looks.
    #[must_use]
    pub fn told(&self) -> Vec<GpuTold> {
        held(&self.told).iter().map(|told| held(told).clone()).collect()
    }

    /// Begins to look, for a run with this clock and this directory; `cpus` are left to its reactors.
    pub(crate) fn begin(&self, clock: &RunClock, dir: &Path, cpus: &[usize]) -> Watching {
        let log = Log::create(dir);
        let trouble = log.as_ref().err().map(cannot_write);
        let log = Arc::new(Mutex::new(log.ok()));
        let over = Arc::new(AtomicBool::new(false));
        let (alive, ended) = mpsc::channel();
        let mut all = Vec::new();
        let mut threads = Vec::new();
        for source in &self.sources {
            let told = Arc::new(Mutex::new(GpuTold::default()));
            all.push(Arc::clone(&told));
            if let Some(reason) = &trouble {
                held(&told).reason = Some(reason.clone());
                continue;
            }
            let look = Look {
                source: Arc::clone(source),
                log: Arc::clone(&log),
                told: Arc::clone(&told),
                over: Arc::clone(&over),
                clock: clock.clone(),
                interval_ns: self.interval_ns,
                _alive: alive.clone(),
            };
            let begun = spawn_beside("gpus", cpus.to_vec(), move || look.go_on());
            match begun {
                Ok(thread) => threads.push(thread.thread().clone()),
                Err(error) => held(&told).reason = Some(error.to_string()),
            }
        }
        *held(&self.told) = all;
        Watching { over, log, threads, ended }
    }
}

fn cannot_write(error: &io::Error) -> String {
    format!("cannot write {GPUS_FILE}: {error}")
}

/// Whoever broke while it held this left it whole: each change is a single step.
fn held<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looking under way; it ends when this is dropped.
pub(crate) struct Watching {
    over: Arc<AtomicBool>,
    log: Arc<Mutex<Option<Log>>>,
    threads: Vec<Thread>,
    /// Closed when no thread is left.
    ended: mpsc::Receiver<()>,
}

impl Drop for Watching {
    /// Lets each thread look a last time, and waits for them for a moment: what comes later is lost.
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        self.threads.iter().for_each(Thread::unpark);
        let _ = self.ended.recv_timeout(PATIENCE);
        *held(&self.log) = None;
    }
}

/// One source during one run.
struct Look {
    source: Arc<Mutex<Box<dyn GpuSource>>>,
    log: Arc<Mutex<Option<Log>>>,
    told: Arc<Mutex<GpuTold>>,
    over: Arc<AtomicBool>,
    clock: RunClock,
    interval_ns: u64,
    _alive: mpsc::Sender<()>,
}

impl Look {
    /// Looks at every multiple of the interval, and a last time when the run is over.
    fn go_on(mut self) {
        // A look of the run before may still hang in it.
        let source = Arc::clone(&self.source);
        let mut source = held(&source);
        held(&self.told).source = source.name().to_owned();
        loop {
            let is_last = self.over.load(Relaxed);
            self.clock.anchor();
            self.once(&mut **source);
            if is_last {
                return;
            }
            let now = self.clock.now();
            let due = (now / self.interval_ns + 1) * self.interval_ns;
            self.rest_until(due);
        }
    }

    fn once(&self, source: &mut dyn GpuSource) {
        {
            // Until it has brought something it has not: it may still hang when the run is over.
            let mut told = held(&self.told);
            told.looks += 1;
            told.failed += 1;
            told.reason.get_or_insert_with(|| "no answer came before the run was over".to_owned());
        }
        let clock = &self.clock;
        let samples = source.sample(&|| clock.now());
        let mut log = held(&self.log);
        // The run has ended without us.
        let Some(out) = log.as_mut() else { return };
        let written = match &samples {
            Ok(samples) => out.add(source, samples).map_err(|error| cannot_write(&error)),
            Err(reason) => Err(reason.clone()),
        };
        let mut told = held(&self.told);
        match written {
            Ok(()) => {
                told.failed -= 1;
                if told.failed == 0 {
                    told.reason = None;
                }
            }
            Err(reason) => told.reason = Some(reason),
        }
    }

    fn rest_until(&self, due: u64) {
        loop {
            let now = self.clock.now();
            if now >= due || self.over.load(Relaxed) {
                return;
            }
            std::thread::park_timeout(Duration::from_nanos(due - now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::super::{Gauge, Logged, Reading, read_log};
    use super::*;

    const MS: u64 = 1_000_000;

    fn logged(dir: &Path) -> Vec<Logged> {
        read_log(&dir.join(GPUS_FILE)).unwrap().map(Result::unwrap).collect()
    }

    fn power(watts: f64) -> Option<Reading> {
        Some(Reading::default().with(Gauge::Power, watts))
    }

    #[test]
    fn looks_are_kept_with_their_times_and_failed_ones_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut fake = Fake::of(1);
        fake.script = vec![vec![power(100.0)], vec![None], vec![power(300.0)]];
        let watch = GpuWatch::new(MS, vec![Box::new(fake)]);
        let clock = RunClock::start();
        let watching = watch.begin(&clock, dir.path(), &[]);
        while watch.told()[0].looks < 4 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(watching);
        let lines = logged(dir.path());
        assert!(lines.len() >= 3 && lines.is_sorted_by_key(|line| line.at));
        assert!(lines.iter().all(|line| line.at <= clock.now() && line.source == "fake"));
        let told = &watch.told()[0];
        assert_eq!((told.failed, told.looks), (1, lines.len() as u64 + 1));
        assert_eq!(told.reason.as_deref(), Some("nothing scripted"));
    }

    #[test]
    fn a_source_that_hangs_delays_no_end_and_writes_into_no_other_run() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mut fake, release) = Fake::hanging();
        fake.script = vec![vec![power(100.0)]];
        let watch = GpuWatch::new(MS, vec![Box::new(fake)]);
        let clock = RunClock::start();
        let begun = clock.now();
        drop(watch.begin(&clock, first.path(), &[]));
        assert!(clock.now() - begun < 5_000 * MS);
        let told = watch.told();
        assert_eq!((told[0].looks, told[0].failed), (1, 1));
        assert!(told[0].reason.as_deref().is_some_and(|why| why.contains("no answer")));

        let watching = watch.begin(&clock, second.path(), &[]);
        drop(release);
        while watch.told()[0].looks < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(watching);
        assert!(logged(first.path()).is_empty());
        assert!(!logged(second.path()).is_empty());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_told() {
        let watch = GpuWatch::new(MS, vec![Box::new(Fake::of(1))]);
        drop(watch.begin(&RunClock::start(), Path::new("/nowhere/at/all"), &[]));
        let reason = watch.told()[0].reason.clone().unwrap();
        assert!(reason.starts_with("cannot write gpus.csv: "), "{reason}");
    }
}
