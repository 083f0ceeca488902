//! What the threads of a server share, and what they tell each other.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::connection::Cut;
use crate::hall::Hall;
use crate::legs::register::Ready;
use crate::legs::side::Prepared;
use crate::legs::stage::Stage;
use crate::metrics::{Figures, Sent};
use crate::model::{Queue, Timing};
use crate::reactor::Id;
use crate::report::Report;
use crate::settings::Settings;
use crate::socket;
use crate::truth::Sink;
use crate::wire::Wire;

/// What the threads of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) wire: Wire,
    pub(crate) timing: Timing,
    pub(crate) cut: Cut,
    /// Whether any time lies between output events.
    pub(crate) has_gaps: bool,
    pub(crate) truth: Option<Sink>,
    pub(crate) mailboxes: Vec<Mailbox>,
    /// What each thread has sent.
    pub(crate) sent: Vec<Sent>,
    /// When the serving model's step ends; `u64::MAX` without one.
    pub(crate) step_ends_ns: AtomicU64,
    /// Who is served and who waits without a serving model.
    queue: Mutex<Queue<Place>>,
    hall: Option<Mutex<Hall>>,
    /// What it does where prefill and decode are apart, if they are.
    pub(crate) stage: Option<Stage>,
    stopping: AtomicBool,
}

/// Where a request is: its thread and its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) thread: usize,
    pub(crate) id: Id,
}

/// What one thread tells another.
#[derive(Debug)]
pub(crate) enum Message {
    /// Serve this new connection.
    Adopt(OwnedFd),
    /// It is this request's turn.
    Begin(Id),
    /// The serving model has tokens for requests of yours.
    Dealt,
    /// This request need not wait for another server any more; a decode server learnt this.
    Met { id: Id, number: u64, ready: Option<Ready> },
}

/// Messages for one thread, and the event that says there are some.
#[derive(Debug)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    event: OwnedFd,
}

impl Shared {
    /// Nobody is served yet.
    pub(crate) fn new(
        settings: &Settings,
        truth: Option<Sink>,
        prepared: &Prepared,
    ) -> io::Result<Self> {
        let threads = settings.cpus.len().max(1);
        Ok(Self {
            wire: Wire::new(settings),
            timing: Timing::new(settings),
            cut: Cut { batch: settings.batch(), head_early: settings.head_early },
            has_gaps: settings.has_gaps(),
            sent: (0..threads).map(|_| Sent::default()).collect(),
            step_ends_ns: AtomicU64::new(u64::MAX),
            hall: settings.serving.as_ref().map(|serving| Mutex::new(Hall::new(serving, threads))),
            stage: settings.role.as_ref().map(|role| {
                let draws = (Timing::new(settings), settings.seed);
                Stage::new(role, draws, prepared.port, prepared.questions())
            }),
            truth,
            mailboxes: (0..threads).map(|_| Mailbox::new()).collect::<io::Result<_>>()?,
            queue: Mutex::new(Queue::new(settings.max_concurrent)),
            stopping: AtomicBool::new(false),
            settings: with_port(settings, prepared.port),
        })
    }

    /// Who is served and who waits. Held for moments only, at a request's two ends.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<Place>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it does where prefill and decode are apart, for a request at `place`.
    pub(crate) fn stage_at(&self, place: Place) -> Option<(&Stage, Place)> {
        self.stage.as_ref().map(|stage| (stage, place))
    }

    /// The serving model, if there is one. Held for moments only: at a request's two ends, and at
    /// the end of a step.
    pub(crate) fn hall(&self) -> Option<MutexGuard<'_, Hall>> {
        self.hall.as_ref().map(|hall| hall.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Who is served and who waits without a serving model.
    pub(crate) fn figures(&self) -> Figures {
        let (running, waiting) = self.queue().lengths();
        let mut figures = Figures { running, waiting, ..Figures::default() };
        if let Some(stage) = &self.stage {
            stage.figures(&mut figures);
        }
        figures
    }

    /// How much of what it can do it does, 0 to 1: requests served of those that can be at once.
    pub(crate) fn load(&self) -> f64 {
        /// Where there is no limit.
        const MANY: u32 = 32;
        let (running, most) = match (self.hall(), &self.settings.serving) {
            (Some(hall), Some(serving)) => (hall.figures().running, serving.max_batch),
            _ => (self.queue().lengths().0, self.settings.max_concurrent.unwrap_or(MANY)),
        };
        running as f64 / f64::from(most.max(1))
    }

    /// Adds what it knows to the report.
    pub(crate) fn report(&self, report: &mut Report) {
        if let Some(hall) = self.hall() {
            hall.report(report);
            return;
        }
        let queue = self.queue();
        report.requests = queue.arrived();
        (report.peak_in_flight, report.peak_waiting) = queue.peaks();
    }

    /// Counts a record that is missing in the truth log.
    pub(crate) fn drop_record(&self) {
        if let Some(sink) = &self.truth {
            sink.drop_one();
        }
    }

    /// Whether the threads are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Tells all threads to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for mailbox in &self.mailboxes {
            socket::raise(mailbox.event.as_raw_fd());
        }
    }
}

impl Mailbox {
    fn new() -> io::Result<Self> {
        Ok(Self { messages: Mutex::new(Vec::new()), event: socket::event(0)? })
    }

    /// Leaves a message and wakes the thread.
    pub(crate) fn post(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        socket::raise(self.event.as_raw_fd());
    }

    /// All messages left so far.
    pub(crate) fn take(&self) -> Vec<Message> {
        socket::lower(self.event.as_raw_fd());
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another handle to its event, to wait on.
    pub(crate) fn event(&self) -> io::Result<OwnedFd> {
        self.event.try_clone()
    }
}

/// The settings with the port where decode servers meet this one, in place of any free one.
fn with_port(settings: &Settings, side_port: u16) -> Settings {
    let mut settings = settings.clone();
    if let Some(role) = &mut settings.role {
        role.side_port = side_port;
    }
    settings
}
