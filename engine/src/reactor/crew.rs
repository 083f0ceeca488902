//! The threads of a run: reactors, the feeder, the writer. Started together, joined together.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::feed::{FeedEnd, feed, feed_closed, feed_open};
use super::setup::{Answers, ReactorSetup, Start, users_of};
use super::thread::{Standing, spawn_low};
use super::{Control, DriverName, Ended, Reactor, RecorderPlan};
use crate::clock::RunClock;
use crate::plan::{Plan, PlanError};
use crate::record::{
    Annotate, Pooled, SecondPooled, Settled, Spill, Unwritten, WriterRings, rings,
};
use crate::workload::Workload;

/// Finished requests that a reactor may be ahead of the writer: no more memory than a core's cache
/// holds.
const RECORD_RING: usize = 2048;
/// How often the writer looks.
const WRITER_NAP: Duration = Duration::from_millis(50);
/// How long the first bodies may take.
const PRIMING: Duration = Duration::from_secs(2);
/// How long a reactor may take to set itself up.
const SETTING_UP: Duration = Duration::from_secs(20);

/// Everything that was started for a run.
pub(crate) struct Crew {
    reactors: Vec<JoinHandle<Option<Ended>>>,
    ready: mpsc::Receiver<io::Result<DriverName>>,
    go: Vec<mpsc::Sender<Start>>,
    primed: mpsc::Receiver<()>,
    feeder: JoinHandle<Result<(), PlanError>>,
    pub(crate) writer_rings: Vec<WriterRings>,
    /// The standing that the writer shall have.
    pub(crate) writer: Arc<Standing>,
}

impl Crew {
    pub(crate) fn assemble(
        workload: &Workload,
        (plan, answers): (&Arc<Plan>, &Answers),
        clock: &RunClock,
        cpus: &[core_affinity::CoreId],
    ) -> io::Result<Self> {
        let reactors = cpus.len() as u64;
        let (said_ready, ready) = mpsc::channel();
        let mut ends = Vec::new();
        let mut parts = Vec::new();
        let mut go = Vec::new();
        let mut writer_rings = Vec::new();
        let writer = Arc::new(Standing::default());
        let standing = Arc::new(Standing::default());
        for (number, cpu) in cpus.iter().enumerate() {
            let users = users_of(workload, number as u64, reactors);
            let (feed, end, bell) = feed(Arc::clone(&standing))?;
            let (recorder_rings, writer_ends) = rings(RECORD_RING);
            let (said_go, go_in) = mpsc::channel();
            parts.push(Reactor {
                setup: Arc::new(
                    ReactorSetup::new(workload, (number as u64, reactors), *cpu, answers.clone())
                        .map_err(io::Error::other)?,
                ),
                plan: Arc::clone(plan),
                clock: clock.clone(),
                feed,
                bell,
                rings: recorder_rings,
                recorder: RecorderPlan {
                    keep_chunks: workload.client.keep_chunks,
                    seed: workload.seed,
                    ramp_ns: workload.load.ramp_ns(),
                    classes: workload.mix.len(),
                },
                users,
                writer: Arc::clone(&writer),
                ready: said_ready.clone(),
                go: go_in,
            });
            ends.push(end);
            go.push(said_go);
            writer_rings.push(writer_ends);
        }
        let (said_primed, primed) = mpsc::channel();
        let feeder = spawn_feeder(workload, plan, ends, &standing, said_primed)?;
        let mut running = Vec::new();
        for reactor in parts {
            running.push(reactor.spawn()?);
        }
        Ok(Self { reactors: running, ready, go, primed, feeder, writer_rings, writer })
    }

    /// Waits until the first bodies are rendered and every reactor is warm. All run on the same
    /// driver.
    pub(crate) fn readied(&self) -> io::Result<DriverName> {
        self.primed.recv_timeout(PRIMING).ok();
        let mut name = None;
        for _ in &self.reactors {
            let ready = self.ready.recv_timeout(SETTING_UP);
            name = Some(ready.map_err(|_| io::Error::other("a reactor did not start"))??);
        }
        name.ok_or_else(|| io::Error::other("there is no reactor"))
    }

    /// Tells each reactor to begin.
    pub(crate) fn go(&self, starts: impl Iterator<Item = Start>) {
        for (go, start) in self.go.iter().zip(starts) {
            // A reactor that is gone is missed when it is joined.
            let _ = go.send(start);
        }
    }

    /// Waits for the end of all; returns what they bring and how many brought nothing.
    pub(crate) fn join(self) -> (Vec<Ended>, usize, Result<(), PlanError>) {
        let mut ended = Vec::new();
        let mut lost = 0;
        for reactor in self.reactors {
            match reactor.join() {
                Ok(Some(one)) => ended.push(one),
                Ok(None) | Err(_) => lost += 1,
            }
        }
        let fed = self.feeder.join().unwrap_or(Ok(()));
        (ended, lost, fed)
    }
}

fn spawn_feeder(
    workload: &Workload,
    plan: &Arc<Plan>,
    ends: Vec<FeedEnd>,
    standing: &Arc<Standing>,
    primed: mpsc::Sender<()>,
) -> io::Result<JoinHandle<Result<(), PlanError>>> {
    let plan = Arc::clone(plan);
    let is_closed = workload.load.is_closed();
    spawn_low("feeder", Arc::clone(standing), move |standing| {
        let primed = move || {
            let _ = primed.send(());
        };
        if is_closed {
            feed_closed(&plan, ends, standing, primed)
        } else {
            feed_open(&plan, ends, standing, primed)
        }
    })
}

/// The thread that appends finished requests.
pub(crate) struct Writer<N> {
    thread: JoinHandle<Spill<N>>,
    over: Arc<AtomicBool>,
}

impl<N: Annotate + Send + 'static> Writer<N> {
    /// Starts it. If it cannot write, the run is ended by `control`.
    pub(crate) fn spawn(
        mut spill: Spill<N>,
        standing: Arc<Standing>,
        control: Arc<Control>,
    ) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = spawn_low("writer", standing, move |standing| {
            while !ended.load(Acquire) {
                std::thread::park_timeout(WRITER_NAP);
                spill.turn();
                standing.lower();
                if spill.has_failed() {
                    control.stop();
                }
            }
            spill
        })?;
        Ok(Self { thread, over })
    }

    /// Appends what reactors still held; gives the sum of all seconds. `path` is that of the requests.
    pub(crate) fn finish(
        self,
        rest: Vec<(SecondPooled, Vec<Settled>)>,
        path: &Path,
    ) -> Result<Pooled, Unwritten> {
        self.over.store(true, Release);
        self.thread.thread().unpark();
        let stopped =
            |_| Unwritten { path: path.to_owned(), error: io::Error::other("the writer stopped") };
        self.thread.join().map_err(stopped)?.finish(rest)
    }
}
