//! What a reactor is told before it starts, and the few words that cross threads while it runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use tokclock_parser::answer::{Answer, Limits as AnswerLimits, Settings};

use super::conn::Conn;
use super::deadline::Deadlines;
use crate::record::Window;
use crate::workload::{Load, Overflow};

/// Counts tokens of a text.
pub(crate) type Count = dyn Fn(&str) -> u64 + Send + Sync;

/// What one reactor is told.
pub(crate) struct ReactorSetup {
    /// Its number, from 0.
    pub(crate) reactor: u32,
    /// How many there are.
    pub(crate) reactors: u32,
    /// The CPU to pin to; `None` leaves the thread where it is.
    pub(crate) cpu: Option<core_affinity::CoreId>,
    /// Where to connect.
    pub(crate) address: SocketAddr,
    /// A request without effect that warms the path: head and all.
    pub(crate) warm_request: Vec<u8>,
    /// Kernel receive stamps.
    pub(crate) stamped: bool,
    /// End connections by a reset.
    pub(crate) reset: bool,
    /// The whole load.
    pub(crate) load: Load,
    /// It is a closed loop.
    pub(crate) is_closed: bool,
    /// Most requests in flight on this reactor (open loop).
    pub(crate) cap: Option<u64>,
    /// What happens above that.
    pub(crate) overflow: Overflow,
    /// Timeouts.
    pub(crate) deadlines: Deadlines,
    /// How to read answers.
    pub(crate) answers: Settings,
    /// Gather the generated text.
    pub(crate) gather_text: bool,
    /// Our tokenizer, where the user chose one.
    pub(crate) count: Option<Arc<Count>>,
    /// How long what is in flight may go on after the last request was issued, ns.
    pub(crate) drain_ns: u64,
}

impl ReactorSetup {
    /// A place for a connection.
    pub(crate) fn new_conn(&self) -> Conn {
        Conn::free(Answer::new(self.answers), self.answers.stream, self.gather_text)
    }
}

/// Bounds on what a server may send.
pub(crate) const ANSWER_LIMITS: AnswerLimits =
    AnswerLimits { head_bytes: 64 << 10, event_bytes: 16 << 20, body_bytes: 64 << 20 };

/// What all reactors are told at the start of the load.
#[derive(Clone)]
pub(crate) struct Start {
    /// When the first request may begin, ns since the run's start.
    pub(crate) begin: u64,
    /// The measured part.
    pub(crate) window: Arc<Window>,
    /// The user's wish to end.
    pub(crate) control: Arc<Control>,
    /// What this reactor has done so far.
    pub(crate) gauge: Arc<Gauge>,
}

/// The user's wish to end a run. Callable from any thread.
#[derive(Debug, Default)]
pub struct Control {
    wish: AtomicU8,
}

impl Control {
    const STOP: u8 = 1;
    const CUT: u8 = 2;

    /// No wish yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Issue nothing more, let what is in flight end, write the results.
    pub fn stop(&self) {
        self.wish.fetch_max(Self::STOP, Relaxed);
    }

    /// End what is in flight too, write the results.
    pub fn cut(&self) {
        self.wish.fetch_max(Self::CUT, Relaxed);
    }

    /// Whether the end was wished for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.wish.load(Relaxed) >= Self::STOP
    }

    /// Whether the end was wished for at once.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.wish.load(Relaxed) >= Self::CUT
    }
}

/// What one reactor has done so far; written by it a few times a second, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Gauge {
    pub(crate) issued: AtomicU64,
    pub(crate) ok: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) output_tokens: AtomicU64,
    pub(crate) ttft_sum_ns: AtomicU64,
    pub(crate) ttft_count: AtomicU64,
}
