//! One pinned core: schedule, sockets, parser. It shares nothing with the others while it runs.
//!
//! ```text
//!  pacer --due--> core --issue--> idle connection, or a new one --send--> server
//!                  ^                                                        |
//!                  +---- user free, place free <-- settle <-- exchange <-- receive
//! ```

mod agenda;
mod conn;
mod connection;
mod core;
mod crew;
mod deadline;
mod driver;
mod exchange;
mod feed;
mod issue;
mod legs;
mod network;
mod outcome;
mod pacer;
mod pool;
pub mod probe;
mod receive;
mod retry;
mod settle;
mod setup;
mod socket;
mod tcp_info;
mod thread;
mod tls;
pub mod trial;
mod turns;
mod warm;

pub use driver::{DriverName, Refusal, Refused};
pub use setup::Control;
pub use tls::TlsFilesError;

pub(crate) use crew::{Crew, Writer};
pub(crate) use setup::{Answers, Count, Gauge, Start};
pub(crate) use socket::{is_own_address, stamp_keeper};
pub(crate) use thread::{Rest, Watcher, pause, spawn_beside, stand_back};

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use self::core::{Core, Shared};
use self::driver::Driver;
use self::feed::Feed;
use self::setup::ReactorSetup;
use self::thread::Standing;
use crate::clock::{self, RunClock};
use crate::plan::Plan;
use crate::record::{
    ErrorClass, Recorder, RecorderRings, RecorderSetup, SecondPooled, Settled, Tally,
};

/// How often a reactor looks after itself while requests are issued, at most, ns.
const TICK_MAX_NS: u64 = 20_000_000;
/// And when the run is about to end.
const TICK_END: Duration = Duration::from_millis(2);
/// How long connections may take to close when all is over.
const CLOSING_TURNS: u32 = 200;

/// What a reactor thread gives when it ends.
pub(crate) struct Ended {
    pub(crate) tally: Tally,
    pub(crate) second: SecondPooled,
    pub(crate) waiting: Vec<Settled>,
}

/// Everything that moves into a reactor's thread.
pub(crate) struct Reactor {
    pub(crate) setup: Arc<ReactorSetup>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) clock: RunClock,
    pub(crate) feed: Feed,
    pub(crate) bell: OwnedFd,
    pub(crate) rings: RecorderRings,
    pub(crate) recorder: RecorderPlan,
    /// Starts of this reactor's users, ns after the load's begin (closed loop).
    pub(crate) users: Vec<u64>,
    /// The writer's standing: raised when it is behind.
    pub(crate) writer: Arc<Standing>,
    /// Says which driver runs, once the reactor is warm.
    pub(crate) ready: Sender<io::Result<DriverName>>,
    /// Says when to begin.
    pub(crate) go: Receiver<Start>,
}

/// What the recorder is told beside the window.
pub(crate) struct RecorderPlan {
    pub(crate) keep_chunks: bool,
    pub(crate) seed: u64,
    pub(crate) ramp_ns: u64,
    pub(crate) classes: usize,
}

impl Reactor {
    /// Starts the thread. It pins itself, sets its driver up, warms, says so, and waits to begin.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn spawn(self) -> io::Result<JoinHandle<Option<Ended>>> {
        let name = format!("reactor-{}", self.setup.reactor);
        std::thread::Builder::new().name(name).spawn(move || {
            let ready = self.ready.clone();
            let run = catch_unwind(AssertUnwindSafe(|| self.run()));
            run.unwrap_or_else(|_| {
                let _ = ready.send(Err(io::Error::other("a reactor ended early")));
                None
            })
        })
    }

    fn run(mut self) -> Option<Ended> {
        core_affinity::set_for_current(self.setup.cpu);
        let (mut driver, name) = match Driver::build() {
            Ok(built) => built,
            Err(error) => {
                let _ = self.ready.send(Err(error));
                return None;
            }
        };
        let mut buffer = vec![0_u8; 64 << 10];
        driver.block_on(warm::warm(&self.setup, &mut buffer));
        drop(buffer);
        let _ = self.ready.send(Ok(name));
        let start = self.go.recv().ok()?;
        // Setting up took long enough for a rate of our own, in place of the library's.
        self.clock.anchor();
        let setup = RecorderSetup {
            reactor: self.setup.reactor,
            cpu: self.setup.cpu.id,
            start_realtime_ns: self.clock.origin_realtime_ns(),
            window: Arc::clone(&start.window),
            keep_chunks: self.recorder.keep_chunks,
            seed: self.recorder.seed,
            ramp_end: start.begin + self.recorder.ramp_ns,
            classes: self.recorder.classes,
        };
        let recorder = Recorder::new(setup, self.rings);
        let cpu_before = clock::thread_cpu_ns();
        let wall_before = clock::monotonic_ns();
        let told = (self.setup, Arc::clone(&self.plan));
        let core = Core::new(told, start, self.clock, recorder, self.feed, self.writer);
        let schedule = Schedule { plan: self.plan, users: self.users };
        let driven = driver.block_on(drive(Rc::clone(&core), self.bell, schedule));
        if let Err(error) = driven {
            let _ = self.ready.send(Err(error));
        }
        let mut core = core.borrow_mut();
        let tally = core.recorder.tally();
        tally.cpu_ns = clock::thread_cpu_ns() - cpu_before;
        tally.wall_ns = clock::monotonic_ns() - wall_before;
        let (tally, second, waiting) = core.recorder.finish();
        drop(core);
        drop(driver);
        Some(Ended { tally, second, waiting: waiting.into() })
    }
}

/// What the pacer of one reactor follows.
struct Schedule {
    plan: Arc<Plan>,
    users: Vec<u64>,
}

/// Runs the load on this reactor to its end.
async fn drive(core: Shared, bell: OwnedFd, schedule: Schedule) -> io::Result<()> {
    let bell = driver::Bell::new(bell)?;
    let listening = Rc::downgrade(&core);
    monoio::spawn(async move {
        loop {
            bell.rung().await;
            let Some(core) = listening.upgrade() else { return };
            core.borrow_mut().serve_hungry();
        }
    });
    watch_steps(&core)?;
    let pacer = pacer::Pacer::new(Rc::clone(&core))?;
    let (begin, reactor, reactors, is_closed) = {
        let core = core.borrow();
        (core.start.begin, core.setup.reactor, core.setup.reactors, core.setup.is_closed)
    };
    let pacing = monoio::spawn(async move {
        if is_closed {
            pacer.users(schedule.users.into_iter().map(|start| begin + start)).await;
        } else {
            let arrivals = schedule.plan.arrivals(reactor as usize, reactors as usize);
            let total = schedule.plan.total().unwrap_or(u64::MAX);
            let arrivals = arrivals.into_iter().flatten().take_while(|(index, _)| *index < total);
            pacer.arrivals(arrivals.map(|(index, at)| (index, begin.saturating_add(at)))).await;
        }
    });
    let tick = core.borrow().setup.deadlines.tick_ns().min(TICK_MAX_NS);
    loop {
        let pause = if core.borrow().issuing { Duration::from_nanos(tick) } else { TICK_END };
        monoio::time::sleep(pause).await;
        if core.borrow_mut().tick() {
            break;
        }
    }
    core.borrow_mut().is_over = true;
    pacing.await;
    core.borrow_mut().close_idle();
    for _ in 0..CLOSING_TURNS {
        if core.borrow().is_empty() {
            break;
        }
        monoio::time::sleep(TICK_END).await;
    }
    Ok(())
}

/// Ties the clock anew as soon as somebody sets the wall clock.
fn watch_steps(core: &Shared) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let timer = socket::waitable(socket::timerfd(libc::CLOCK_REALTIME)?)?;
    let watching = Rc::downgrade(core);
    socket::arm_for_steps(timer.as_raw_fd());
    monoio::spawn(async move {
        while timer.readable(false).await.is_ok() {
            let Some(core) = watching.upgrade() else { return };
            if socket::drain(timer.as_raw_fd()) == Err(libc::ECANCELED) {
                core.borrow_mut().on_step();
            }
            socket::arm_for_steps(timer.as_raw_fd());
        }
    });
    Ok(())
}

impl Core {
    /// The timerfd tells that somebody has set the wall clock: a step counts once, whoever sees it first.
    fn on_step(&mut self) {
        if self.clock.anchor() || self.steps_untold == 0 {
            self.recorder.tally().clock_steps += 1;
        } else {
            self.steps_untold -= 1;
        }
    }

    /// Looks after the reactor a few times a second. Returns whether the run is over.
    fn tick(&mut self) -> bool {
        if self.clock.anchor() {
            // The timerfd is to tell of it yet, where it tells at all: not in a container that has the
            // wall clock from a library.
            self.steps_untold += 1;
            self.recorder.tally().clock_steps += 1;
        }
        self.looks_left = core::LOOKS_PER_TICK;
        let now = self.clock.now();
        self.recorder.flush();
        self.recorder.rotate(now);
        self.pump();
        self.check_end(now);
        let all = self.cut_class(now);
        self.expire(now, all);
        self.look_at_windows();
        self.publish();
        !self.issuing && self.in_flight == 0
    }

    fn check_end(&mut self, now: u64) {
        if self.start.control.is_stopped() {
            self.start.window.cut(now);
            self.end_issuing(now, ErrorClass::Interrupt);
        } else if now >= self.start.window.end() || self.is_exhausted() {
            self.end_issuing(now, ErrorClass::Deadline);
        }
    }

    /// Whether all that is in flight must end now, and why.
    fn cut_class(&self, now: u64) -> Option<ErrorClass> {
        if self.issuing {
            return None;
        }
        if self.start.control.is_cut() {
            return Some(ErrorClass::Interrupt);
        }
        let over = now.saturating_sub(self.ended_at) >= self.setup.drain_ns;
        over.then_some(ErrorClass::Deadline)
    }

    fn publish(&mut self) {
        let gauge = &self.start.gauge;
        gauge.issued.store(self.issued, Relaxed);
        gauge.ok.store(self.ok, Relaxed);
        gauge.failed.store(self.failed, Relaxed);
        gauge.cancelled.store(self.cancelled, Relaxed);
        gauge.in_flight.store(self.in_flight, Relaxed);
        let (mut tokens, mut sum, mut count) = (0, 0, 0);
        for second in self.recorder.seconds() {
            tokens += second.output_tokens;
            sum += second.ttft_sum_ns;
            count += second.ttft_count;
        }
        gauge.output_tokens.store(tokens, Relaxed);
        gauge.output_events.store(self.recorder.tally().output_events, Relaxed);
        gauge.ttft_sum_ns.store(sum, Relaxed);
        gauge.ttft_count.store(count, Relaxed);
    }
}
