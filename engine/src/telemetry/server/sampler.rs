//! The threads that read servers while a load goes on: one for each, so that none waits for another.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::find::Scraped;
use super::log::{Log, SERVERS_FILE};
use super::reading::{KNOWS_NOTHING, Reading};
use super::text::counted;
use crate::clock::RunClock;
use crate::reactor::{Rest, Watcher, stand_back};

/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the load waits for the first looks.
const SETTLING: Duration = Duration::from_millis(500);
/// A last look that has less time than this is not worth it.
const WORTH_IT: Duration = Duration::from_millis(50);

/// Which servers are read, and how often.
#[derive(Debug, Clone, Default)]
pub struct Scrape {
    /// The servers.
    pub servers: Vec<Scraped>,
    /// From one look to the next, ns.
    pub interval_ns: u64,
}

/// The threads of a run.
pub struct Sampler {
    threads: Vec<Watcher<()>>,
    seen: Receiver<()>,
}

impl Sampler {
    /// Starts a thread for each server, on none of the reactors' `cpus` where there are others. What they
    /// read goes to a file in `out_dir`.
    ///
    /// # Errors
    /// The file cannot be made, or no thread be started.
    pub fn begin(
        scrape: &Scrape,
        clock: &RunClock,
        cpus: &[usize],
        out_dir: &Path,
    ) -> io::Result<Self> {
        let (said_seen, seen) = mpsc::channel();
        let mut threads = Vec::new();
        if scrape.servers.is_empty() {
            return Ok(Self { threads, seen });
        }
        let log = Arc::new(Log::create(&out_dir.join(SERVERS_FILE))?);
        for server in &scrape.servers {
            let look = Look { server: server.clone(), clock: clock.clone(), log: Arc::clone(&log) };
            let (cpus, interval, seen) = (cpus.to_vec(), scrape.interval_ns, said_seen.clone());
            threads.push(Watcher::spawn("scrape", move |rest| {
                stand_back(&cpus);
                look.again_and_again(rest, interval, || {
                    let _ = seen.send(());
                });
            })?);
        }
        Ok(Self { threads, seen })
    }

    /// Waits until each server was looked at once, but not long.
    pub fn settle(&self, clock: &RunClock) {
        let until = clock.now().saturating_add(SETTLING.as_nanos() as u64);
        for _ in &self.threads {
            let left = Duration::from_nanos(until.saturating_sub(clock.now()));
            if self.seen.recv_timeout(left).is_err() {
                break;
            }
        }
    }

    /// Lets each take its last look, and waits for them: no longer than a look may take.
    pub fn end(mut self) {
        self.threads.iter().for_each(Watcher::tell);
        for thread in std::mem::take(&mut self.threads) {
            thread.end();
        }
    }
}

impl Drop for Sampler {
    /// A run that ends early waits for nobody.
    fn drop(&mut self) {
        self.threads.iter().for_each(Watcher::tell);
    }
}

/// How one server is looked at.
struct Look {
    server: Scraped,
    clock: RunClock,
    log: Arc<Log>,
}

impl Look {
    fn again_and_again(mut self, rest: &Rest, interval_ns: u64, first: impl FnOnce()) {
        let interval_ns = interval_ns.max(1);
        let mut first = Some(first);
        let mut due = self.clock.now();
        loop {
            let begun = self.clock.now();
            let is_good = self.once(PATIENCE);
            if let Some(first) = first.take() {
                first();
            }
            let now = self.clock.now();
            // Those that could not be taken in time are left out.
            due += interval_ns * (now.saturating_sub(due) / interval_ns + 1);
            let waited = sleep_until(&self.clock, rest, due);
            if waited.goes_on {
                continue;
            }
            // The run is over. The next look is the last, and what went before counts on its time.
            let spent = if waited.slept { 0 } else { now.saturating_sub(begun) };
            let left = PATIENCE.saturating_sub(Duration::from_nanos(spent));
            if is_good && left >= WORTH_IT {
                self.once(left);
            }
            return;
        }
    }

    /// Looks once. Whether it was worth it.
    fn once(&mut self, most: Duration) -> bool {
        self.clock.anchor();
        let begun = self.clock.now();
        let page = self.server.read(most);
        let at_ns = self.clock.now();
        let said = page.and_then(|page| counted(&page).ok_or_else(|| KNOWS_NOTHING.to_owned()));
        let is_good = said.is_ok();
        let reading = Reading {
            at_ns,
            took_ns: at_ns.saturating_sub(begun),
            url: self.server.url.clone(),
            by: self.server.by,
            share: self.server.share,
            said,
        };
        // A disk that takes no more ends the run by its requests, not by this.
        let _ = self.log.add(&reading);
        is_good
    }
}

/// How a pause ended.
struct Waited {
    /// The run goes on.
    goes_on: bool,
    /// It was a pause at all.
    slept: bool,
}

fn sleep_until(clock: &RunClock, rest: &Rest, due: u64) -> Waited {
    let mut slept = false;
    loop {
        let left = due.saturating_sub(clock.now());
        if left == 0 {
            return Waited { goes_on: true, slept };
        }
        let before = clock.now();
        if !rest.sleep(left) {
            return Waited { goes_on: false, slept: slept || clock.now() - before > 1_000_000 };
        }
        slept = true;
    }
}
