//! One load point from start to end: reactors, feeder and writer are started, joined, and what they
//! bring is handed on as [`Facts`].

mod cache;
mod idle;
pub mod ladder;
mod leave;
mod lineage;
mod preflight;
mod progress;
pub mod search;
mod start;
mod steer;
mod template;

pub use crate::reactor::Control;
pub use crate::reactor::TlsFilesError;
pub use crate::reactor::probe::{
    Asked, Located, Pinned, ProbeError, ServerTokenizer, Way, context, dialects_at, locate, models,
    reach, server_facts, settle_paths, wait_ready,
};
pub use cache::prefix_cache;
pub use idle::{Idle, wait_idle};
pub use lineage::end_with_parent;
pub use preflight::{SPARE_DESCRIPTORS, check, cpus};
pub use progress::{Progress, Snapshot};
pub use template::template_tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::RunClock;
use crate::measure::Facts;
use crate::plan::{Bounds, Materials, Plan, PlanError};
use crate::reactor::{Answers, Count, Crew, Ended, Gauge, Start, Writer, stamp_keeper};
use crate::record::{Annotate, Row, Spill, Unwritten, Window};
use crate::shard::Header;
use crate::telemetry::gpu::{GpuWatch, Watching};
use crate::telemetry::host::Watch;
use crate::telemetry::server::{Sampler, Scrape};
use crate::workload::{Load, Schedule, Stamps, Workload};
use leave::Leaving;
use start::Appointment;
use steer::{Heard, Steering};

pub use crate::telemetry::server::SERVERS_FILE;

/// Name of the file of finished requests in a result directory.
pub const REQUESTS_FILE: &str = "requests.jsonl";

/// Where a run's results go, and its name.
#[derive(Clone)]
pub struct Setup {
    /// An existing directory; `requests.jsonl` is created there.
    pub out_dir: PathBuf,
    /// Starts every request id: unique to the run.
    pub run_id: String,
    /// How long name resolution took, ns, for the record.
    pub resolve_ns: u64,
    /// What the workload needs besides.
    pub materials: Materials,
    /// GPUs to look at meanwhile; what they tell goes to a file of the directory.
    pub gpus: Option<Arc<GpuWatch>>,
    /// Servers whose metrics are read meanwhile.
    pub scrape: Scrape,
    /// When the load begins, CLOCK_REALTIME, ns; as soon as all stands ready where nobody says.
    pub start_at_ns: Option<u64>,
    /// Which part of which load it is, where it is one of several hosts': then `shard.json` and
    /// `seconds.hlog` are written too.
    pub shard: Option<Header>,
}

/// Why a run could not be made, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The workload cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The server cannot be used.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// This host lacks something.
    #[error("{0}")]
    Host(String),
    /// Results could not be written.
    #[error("cannot write {path}: {reason}; what was measured until then is kept")]
    Write {
        /// The file.
        path: String,
        /// What the kernel said.
        reason: String,
    },
    /// A part of the engine failed.
    #[error("the run ended early: {0}; this is a bug, what was measured until then is kept")]
    Broken(String),
}

/// Carries out `workload`.
///
/// # Errors
/// It could not start, or its results could not be written.
pub fn run(
    workload: &Workload,
    setup: &Setup,
    control: &Arc<Control>,
    progress: &Progress,
) -> Result<Facts, RunError> {
    let plan = Arc::new(Plan::new(workload, &setup.materials, &setup.run_id)?);
    let bounds = plan.bounds(&workload.stop);
    let start = Appointment { at: setup.start_at_ns, control };
    start.wait_to_set_up();
    let stamped = workload.client.stamps == Stamps::Kernel;
    let _keeper = if stamped { stamp_keeper().ok() } else { None };
    let watch = Watch::begin();
    let mut clock = RunClock::start();
    let all = host_cpus(workload)?;
    let reactors = reactor_count(workload);
    let (sampler, _gpus) = look_meanwhile(setup, &clock, &all[..reactors])?;
    let gauges: Vec<Arc<Gauge>> = (0..reactors).map(|_| Arc::default()).collect();
    let answers = Answers { count: counter(&setup.materials), live: plan.needs_answers() };
    let told = (&plan, &answers);
    let mut crew = Crew::assemble(workload, told, &clock, &all[..reactors]).map_err(host_error)?;
    let driver = crew.readied().map_err(host_error)?;
    let requests = setup.out_dir.join(REQUESTS_FILE);
    let notes = Notes::of(workload, &plan, &answers);
    let heard = notes.heard.clone();
    let rings = std::mem::take(&mut crew.writer_rings);
    let spill =
        Spill::create(&requests, rings, notes).map_err(|error| write_error(&requests, &error))?;
    let (leaving, seconds) = Leaving::begin(setup, workload, &clock)?;
    let spill = spill.with_seconds(seconds);
    sampler.settle(&clock);
    let writer =
        Writer::spawn(spill, Arc::clone(&crew.writer), Arc::clone(control)).map_err(host_error)?;
    let start = start.wait_to_tell(&mut clock);
    let begin = start.at;
    let window = Arc::new(measured_part(&plan, workload, (begin, bounds), control));
    progress.begin(workload, &gauges, plan.own_total(), clock.monotonic(begin));
    let steering = Steering::begin(workload.stop, (&clock, begin), &window, &gauges, heard);
    let steering = steering.map_err(host_error)?;
    crew.go(gauges.iter().map(|gauge| Start {
        begin,
        window: Arc::clone(&window),
        control: Arc::clone(control),
        gauge: Arc::clone(gauge),
    }));
    let (ended, lost, fed) = crew.join();
    let end = clock.now();
    let steered = steering.end();
    sampler.end();
    let parted = |Ended { tally, second, waiting }| (tally, (second, waiting));
    let (tallies, rest): (Vec<_>, Vec<_>) = ended.into_iter().map(parted).unzip();
    let unwritten = |failed: Unwritten| write_error(&failed.path, &failed.error);
    let pooled = writer.finish(rest, &requests).map_err(unwritten)?;
    fed?;
    if lost > 0 {
        return Err(RunError::Broken(format!("{lost} of {reactors} reactors stopped")));
    }
    // The planned end was not reached: the requests were used up before, or there is no such end.
    let by_requests = workload.stop.requests.is_some() && window.end() > end;
    leaving.end(Facts {
        start_monotonic_ns: clock.origin_monotonic_ns(),
        start_realtime_ns: clock.origin_realtime_ns(),
        load_start: begin,
        start_late_ns: start.late_ns,
        window_start: window.start().min(end),
        window_end: match (by_requests, window.end()) {
            (true, _) => tallies.iter().map(|tally| tally.last_end).max().unwrap_or(end),
            // An open loop whose next arrival lies behind the window is over before it: nothing more
            // comes, and the time in which nothing came counts.
            (false, planned) if planned != u64::MAX && is_by_the_clock(workload, control) => {
                planned
            }
            (false, planned) => planned.min(end),
        },
        window_by_requests: by_requests,
        end,
        interrupted: control.is_stopped(),
        driver: driver.driver.to_owned(),
        ring: driver.ring.to_owned(),
        kernel_stamps: stamped,
        tallies,
        pooled,
        host: watch.end(),
        resolve_ns: setup.resolve_ns,
        ramp_ns: workload.load.ramp_ns(),
        steered,
        ceiling: None,
    })
}

/// The measured part, as far as it is known before the load begins at `begin`.
fn measured_part(
    plan: &Plan,
    workload: &Workload,
    (begin, bounds): (u64, Bounds),
    control: &Control,
) -> Window {
    let stop = plan.own_stop(&workload.stop);
    let mut window = Window::new(&stop, begin, plan.has_sessions());
    if let Some(items) = bounds.items {
        window = window.of_items_below(items);
    }
    if let Some(opens_ns) = bounds.opens_ns {
        window.open(begin.saturating_add(opens_ns));
    }
    if control.is_stopped() {
        // Ended before it began: not even the first request goes out.
        window.cut(begin);
    }
    window
}

/// Starts to look at servers and GPUs, on other CPUs than the reactors'.
fn look_meanwhile(
    setup: &Setup,
    clock: &RunClock,
    reactors: &[core_affinity::CoreId],
) -> Result<(Sampler, Option<Watching>), RunError> {
    let cpus: Vec<usize> = reactors.iter().map(|cpu| cpu.id).collect();
    let gpus = setup.gpus.as_ref().map(|gpus| gpus.begin(clock, &setup.out_dir, &cpus));
    let begun = Sampler::begin(&setup.scrape, clock, &cpus, &setup.out_dir);
    let failed = |error| write_error(&setup.out_dir.join(SERVERS_FILE), &error);
    Ok((begun.map_err(failed)?, gpus))
}

/// Whether requests came as a law of time says, to the end of the measured part.
fn is_by_the_clock(workload: &Workload, control: &Control) -> bool {
    let by_law = |schedule: &Schedule| !matches!(schedule, Schedule::Replay(_));
    let is_open = matches!(&workload.load, Load::Open { schedule, .. } if by_law(schedule));
    is_open && workload.stop.sessions.is_none() && !control.is_stopped()
}

/// What the writer knows of the run.
struct Notes {
    plan: Arc<Plan>,
    classes: Vec<Option<String>>,
    count: Option<Arc<Count>>,
    keep_chunks: bool,
    keep_text: bool,
    /// Waits for a figure to be known well enough.
    heard: Option<Arc<Heard>>,
}

impl Notes {
    fn of(workload: &Workload, plan: &Arc<Plan>, answers: &Answers) -> Self {
        Self {
            plan: Arc::clone(plan),
            count: answers.count.clone(),
            classes: workload.mix.iter().map(|class| class.name.clone()).collect(),
            keep_chunks: workload.client.keep_chunks,
            keep_text: workload.client.keep_text,
            heard: Heard::of(workload),
        }
    }
}

impl Annotate for Notes {
    fn request_id(&self, index: u64) -> String {
        self.plan.request_id(index)
    }

    fn trace_id(&self, index: u64) -> Option<String> {
        Some(self.plan.traces()?.trace_text(index))
    }

    fn class(&self, class: u16) -> Option<String> {
        self.classes.get(usize::from(class)).cloned().flatten()
    }

    fn count(&self, text: &str) -> Option<u64> {
        self.count.as_ref().and_then(|count| count(text))
    }

    fn keep_chunks(&self) -> bool {
        self.keep_chunks
    }

    fn keep_text(&self) -> bool {
        self.keep_text
    }

    fn seen(&self, row: &Row) {
        if let Some(heard) = &self.heard {
            heard.hear(row);
        }
    }
}

/// Our tokenizer, where the user chose one: it counts answers too.
fn counter(materials: &Materials) -> Option<Arc<Count>> {
    let tokens = materials.tokens.clone()?;
    Some(Arc::new(move |text: &str| tokens.count(text).ok()))
}

/// As many reactors as were asked for, but none without a user or a place in flight.
fn reactor_count(workload: &Workload) -> usize {
    let most = match workload.load {
        Load::Closed { users, .. } => users,
        Load::Open { max_in_flight, .. } => max_in_flight.unwrap_or(u64::MAX),
    };
    let own = usize::try_from(workload.shard.part_of(most)).unwrap_or(usize::MAX);
    workload.client.cpus.len().min(own).max(1)
}

fn host_cpus(workload: &Workload) -> Result<Vec<core_affinity::CoreId>, RunError> {
    preflight::chosen_cpus(&workload.client.cpus)
}

fn host_error(error: std::io::Error) -> RunError {
    RunError::Host(format!("this host does not let the run start: {error}"))
}

fn write_error(path: &Path, error: &std::io::Error) -> RunError {
    RunError::Write { path: path.display().to_string(), reason: error.to_string() }
}
