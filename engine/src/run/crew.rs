//! The threads of a run: reactors, the feeder, the writer. Started together, joined together.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Notes, RunError, host_error, ramp_ns, reactor_setup, users_of, write_error};
use crate::clock::RunClock;
use crate::plan::Plan;
use crate::reactor::{
    Control, DriverName, Ended, FeedEnd, Reactor, RecorderPlan, Start, feed, feed_closed,
    feed_open, spawn_low,
};
use crate::record::{Pooled, SecondPooled, Settled, Spill, WriterRings, rings};
use crate::workload::{Load, Workload};

/// Finished requests that a reactor may be ahead of the writer.
const RECORD_RING: usize = 8192;
/// How often the writer looks.
const WRITER_NAP: Duration = Duration::from_millis(50);
/// How long a reactor may take to set itself up.
const SETTING_UP: Duration = Duration::from_secs(20);

/// Everything that was started for a run.
pub(super) struct Crew {
    reactors: Vec<JoinHandle<Option<Ended>>>,
    ready: mpsc::Receiver<std::io::Result<DriverName>>,
    pub(super) go: Vec<mpsc::Sender<Start>>,
    pub(super) primed: mpsc::Receiver<()>,
    feeder: JoinHandle<()>,
    pub(super) writer_rings: Vec<WriterRings>,
}

impl Crew {
    pub(super) fn assemble(
        workload: &Workload,
        plan: &Arc<Plan>,
        clock: &RunClock,
        cpus: &[core_affinity::CoreId],
    ) -> Result<Self, RunError> {
        let reactors = cpus.len() as u64;
        let (said_ready, ready) = mpsc::channel();
        let mut ends = Vec::new();
        let mut parts = Vec::new();
        let mut go = Vec::new();
        let mut writer_rings = Vec::new();
        for (number, cpu) in cpus.iter().enumerate() {
            let users = users_of(workload, number as u64, reactors);
            let depth = matches!(workload.load, Load::Closed { .. }).then_some(users.len() as u64);
            let (feed, end, bell) = feed(depth).map_err(host_error)?;
            let (recorder_rings, writer) = rings(RECORD_RING);
            let (said_go, go_in) = mpsc::channel();
            parts.push(Reactor {
                setup: Arc::new(reactor_setup(workload, number as u64, reactors, *cpu)),
                plan: Arc::clone(plan),
                clock: clock.clone(),
                feed,
                bell,
                rings: recorder_rings,
                recorder: RecorderPlan {
                    keep_chunks: workload.client.keep_chunks,
                    seed: workload.seed,
                    ramp_ns: ramp_ns(workload),
                },
                users,
                ready: said_ready.clone(),
                go: go_in,
            });
            ends.push(end);
            go.push(said_go);
            writer_rings.push(writer);
        }
        let (said_primed, primed) = mpsc::channel();
        let feeder = spawn_feeder(workload, plan, ends, said_primed)?;
        let mut running = Vec::new();
        for mut reactor in parts {
            reactor.feed.serve_by(feeder.thread().clone());
            running.push(reactor.spawn().map_err(host_error)?);
        }
        Ok(Self { reactors: running, ready, go, primed, feeder, writer_rings })
    }

    /// Waits until every reactor is warm. They all run on the same driver.
    pub(super) fn readied(&self, reactors: usize) -> Result<DriverName, RunError> {
        let mut name = None;
        for _ in 0..reactors {
            let ready = self.ready.recv_timeout(SETTING_UP);
            let ready =
                ready.map_err(|_| RunError::Broken("a reactor did not start".to_owned()))?;
            name = Some(ready.map_err(host_error)?);
        }
        name.ok_or_else(|| RunError::Broken("there is no reactor".to_owned()))
    }

    /// Waits for the end of all; returns what they bring and how many brought nothing.
    pub(super) fn join(self) -> (Vec<Ended>, usize) {
        let mut ended = Vec::new();
        let mut lost = 0;
        for reactor in self.reactors {
            match reactor.join() {
                Ok(Some(one)) => ended.push(one),
                Ok(None) | Err(_) => lost += 1,
            }
        }
        let _ = self.feeder.join();
        (ended, lost)
    }
}

fn spawn_feeder(
    workload: &Workload,
    plan: &Arc<Plan>,
    ends: Vec<FeedEnd>,
    primed: mpsc::Sender<()>,
) -> Result<JoinHandle<()>, RunError> {
    let plan = Arc::clone(plan);
    let is_closed = matches!(workload.load, Load::Closed { .. });
    spawn_low("feeder", move || {
        let primed = move || {
            let _ = primed.send(());
        };
        if is_closed {
            feed_closed(&plan, ends, primed);
        } else {
            feed_open(&plan, ends, primed);
        }
    })
    .map_err(host_error)
}

/// The thread that appends finished requests.
pub(super) struct Writer {
    thread: JoinHandle<Spill<Notes>>,
    over: mpsc::Sender<()>,
}

impl Writer {
    pub(super) fn spawn(mut spill: Spill<Notes>, control: Arc<Control>) -> Result<Self, RunError> {
        let (over, ended) = mpsc::channel();
        let thread = spawn_low("writer", move || {
            while ended.recv_timeout(WRITER_NAP) == Err(mpsc::RecvTimeoutError::Timeout) {
                spill.turn();
                if spill.has_failed() {
                    control.stop();
                }
            }
            spill
        })
        .map_err(host_error)?;
        Ok(Self { thread, over })
    }

    pub(super) fn finish(
        self,
        rest: Vec<(SecondPooled, Vec<Settled>)>,
        path: &Path,
    ) -> Result<Pooled, RunError> {
        drop(self.over);
        let spill =
            self.thread.join().map_err(|_| RunError::Broken("the writer stopped".to_owned()))?;
        spill.finish(rest).map_err(|error| write_error(path, &error))
    }
}
