//! Bodies are ready early: one low-priority thread renders them into a bounded ring per reactor.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use rtrb::{Consumer, Producer};

use super::socket;
use super::thread::Standing;
use crate::plan::Plan;

/// Requests kept ready, per reactor: some milliseconds of the highest rate, and no more memory than a
/// core's cache holds.
const READY_MAX: usize = 512;
/// Bytes of rendered requests kept ready, per reactor.
const READY_BYTES_MAX: u64 = 8 << 20;
/// How long the feeder sleeps at most when nothing is to be done.
const NAP: Duration = Duration::from_millis(50);

/// One request, rendered.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Its number in the plan.
    pub(crate) index: u64,
    /// Head and body as they go on the wire.
    pub(crate) bytes: Vec<u8>,
    /// Input tokens by our own tokenizer.
    pub(crate) input_tokens: u32,
    /// Output tokens asked for.
    pub(crate) output_tokens: u32,
}

/// What feeder and one reactor tell each other besides the requests.
#[derive(Debug)]
pub(crate) struct FeedState {
    /// The reactor waits for a request: ring the bell.
    hungry: AtomicBool,
    /// The feeder sleeps.
    asleep: AtomicBool,
    /// Rings are kept short on purpose: the plan is near its end.
    ending: AtomicBool,
    /// No request will follow.
    finished: AtomicBool,
    /// Bytes that the reactor has taken.
    taken_bytes: AtomicU64,
    /// The feeder shall end.
    stop: AtomicBool,
}

/// The reactor's side.
pub(crate) struct Feed {
    ring: Consumer<Prepared>,
    buffers: Producer<Vec<u8>>,
    state: Arc<FeedState>,
    feeder: Arc<Standing>,
}

/// The feeder's side of one reactor.
pub(crate) struct FeedEnd {
    ring: Producer<Prepared>,
    buffers: Consumer<Vec<u8>>,
    state: Arc<FeedState>,
    bell: OwnedFd,
    given_bytes: u64,
}

/// What a reactor gets when it asks.
#[derive(Debug)]
pub(crate) enum Served {
    /// A request.
    Request(Prepared),
    /// None yet; the bell will ring.
    NotYet,
    /// None any more.
    Finished,
}

/// Both sides for one reactor, and the descriptor of its bell.
///
/// # Errors
/// When no descriptor is left.
pub(crate) fn feed(feeder: Arc<Standing>) -> std::io::Result<(Feed, FeedEnd, OwnedFd)> {
    let (give, ring) = rtrb::RingBuffer::new(READY_MAX);
    let (buffers, back) = rtrb::RingBuffer::new(READY_MAX * 2);
    let state = Arc::new(FeedState {
        hungry: AtomicBool::new(false),
        asleep: AtomicBool::new(false),
        ending: AtomicBool::new(false),
        finished: AtomicBool::new(false),
        taken_bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let bell = socket::eventfd(0)?;
    let listen = bell.try_clone()?;
    let feed = Feed { ring, buffers, state: Arc::clone(&state), feeder };
    let end = FeedEnd { ring: give, buffers: back, state, bell, given_bytes: 0 };
    Ok((feed, end, listen))
}

impl Feed {
    /// The next request of this reactor.
    pub(crate) fn next(&mut self) -> Served {
        loop {
            if let Ok(prepared) = self.ring.pop() {
                self.state.taken_bytes.fetch_add(prepared.bytes.len() as u64, Relaxed);
                self.mind_the_level();
                return Served::Request(prepared);
            }
            if self.state.finished.load(SeqCst) {
                // The last one may have come between the two looks.
                if self.ring.is_empty() {
                    return Served::Finished;
                }
                continue;
            }
            self.state.hungry.store(true, SeqCst);
            if self.ring.is_empty() && !self.state.finished.load(SeqCst) {
                self.raise();
                self.wake();
                return Served::NotYet;
            }
        }
    }

    /// Whether an empty ring is on purpose, and no sign of a slow feeder.
    pub(crate) fn is_ending(&self) -> bool {
        self.state.ending.load(Relaxed)
    }

    /// Gives a buffer back.
    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        let _ = self.buffers.push(bytes);
    }

    /// Ends the feeder's work for this reactor.
    pub(crate) fn stop(&self) {
        self.state.stop.store(true, SeqCst);
        self.wake();
    }

    /// Wakes the feeder at half, and sees to it that it runs at a quarter.
    fn mind_the_level(&self) {
        let (ready, all) = (self.ring.slots(), self.ring.buffer().capacity());
        if ready <= all / 2 {
            self.wake();
        }
        if ready <= all / 4 {
            self.raise();
        }
    }

    fn wake(&self) {
        if self.state.asleep.load(SeqCst) {
            self.feeder.wake();
        }
    }

    fn raise(&self) {
        // Near the end of the plan the ring is low for good.
        if !self.state.finished.load(Relaxed) && !self.state.ending.load(Relaxed) {
            self.feeder.raise();
        }
    }
}

impl FeedEnd {
    fn has_room(&self) -> bool {
        let bytes = self.given_bytes - self.state.taken_bytes.load(Relaxed);
        self.ring.slots() > 0 && (bytes < READY_BYTES_MAX || bytes == 0)
    }

    fn ready(&self) -> usize {
        self.ring.buffer().capacity() - self.ring.slots()
    }

    fn is_stopped(&self) -> bool {
        self.state.stop.load(SeqCst) || self.ring.is_abandoned()
    }

    fn give(&mut self, plan: &Plan, index: u64) {
        let mut bytes = self.buffers.pop().unwrap_or_default();
        plan.render(index, &mut bytes);
        self.given_bytes += bytes.len() as u64;
        let lengths = plan.lengths(index);
        let _ = self.ring.push(Prepared {
            index,
            bytes,
            input_tokens: lengths.input,
            output_tokens: lengths.output,
        });
        self.ring_bell();
    }

    fn ring_bell(&self) {
        if self.state.hungry.swap(false, SeqCst) {
            socket::notify(self.bell.as_raw_fd() as RawFd);
        }
    }

    fn finish(&self) {
        self.state.finished.store(true, SeqCst);
        socket::notify(self.bell.as_raw_fd() as RawFd);
    }

    fn sleeps(&self, asleep: bool) {
        self.state.asleep.store(asleep, SeqCst);
    }
}

/// Feeds all reactors of an open loop: request *i* goes to reactor *i mod n*, in order. Calls `primed`
/// when all rings are full for the first time.
pub(crate) fn feed_open(
    plan: &Plan,
    mut ends: Vec<FeedEnd>,
    standing: &Standing,
    primed: impl FnOnce(),
) {
    let reactors = ends.len() as u64;
    let total = plan.total().unwrap_or(u64::MAX);
    let mut next: Vec<u64> = (0..reactors).collect();
    run(&mut ends, standing, primed, |end, reactor| {
        let index = next[reactor];
        if index >= total {
            return Fed::Finished;
        }
        if !end.has_room() {
            return Fed::Full;
        }
        end.give(plan, index);
        next[reactor] = index.saturating_add(reactors);
        Fed::Gave
    });
}

/// Feeds all reactors of a closed loop: the next request goes to whichever has room, so that exactly
/// as many go out as were asked for. Towards the end rings are kept short, so that no reactor sits on
/// requests while the users of another have none.
pub(crate) fn feed_closed(
    plan: &Plan,
    mut ends: Vec<FeedEnd>,
    standing: &Standing,
    primed: impl FnOnce(),
) {
    let reactors = ends.len() as u64;
    let total = plan.total().unwrap_or(u64::MAX);
    let mut next = 0_u64;
    run(&mut ends, standing, primed, |end, _| {
        let left = total - next;
        if left == 0 {
            return Fed::Finished;
        }
        let share = if reactors == 1 { u64::MAX } else { left / (2 * reactors) + 1 };
        if share < READY_MAX as u64 {
            end.state.ending.store(true, Relaxed);
        }
        if !end.has_room() || end.ready() as u64 >= share {
            return Fed::Full;
        }
        end.give(plan, next);
        next += 1;
        Fed::Gave
    });
}

/// What became of an attempt to feed one reactor.
enum Fed {
    Gave,
    Full,
    Finished,
}

/// Goes round all reactors until each is finished or stopped, and sleeps when all are full.
fn run(
    ends: &mut [FeedEnd],
    standing: &Standing,
    primed: impl FnOnce(),
    mut step: impl FnMut(&mut FeedEnd, usize) -> Fed,
) {
    let mut primed = Some(primed);
    let mut over = vec![false; ends.len()];
    while over.contains(&false) {
        if round(ends, &mut over, &mut step) {
            continue;
        }
        if let Some(primed) = primed.take() {
            primed();
        }
        // The sleep is announced before one more look, so that no call is missed.
        ends.iter().for_each(|end| end.sleeps(true));
        if !round(ends, &mut over, &mut step) && over.contains(&false) {
            standing.lower();
            std::thread::park_timeout(NAP);
        }
        ends.iter().for_each(|end| end.sleeps(false));
    }
    if let Some(primed) = primed {
        primed();
    }
}

/// Feeds each reactor once that is not over. Returns whether any was given something.
fn round(
    ends: &mut [FeedEnd],
    over: &mut [bool],
    step: &mut impl FnMut(&mut FeedEnd, usize) -> Fed,
) -> bool {
    let mut gave = false;
    for (reactor, end) in ends.iter_mut().enumerate() {
        if over[reactor] {
            continue;
        }
        let fed = if end.is_stopped() { Fed::Finished } else { step(end, reactor) };
        match fed {
            Fed::Gave => gave = true,
            Fed::Full => {}
            Fed::Finished => {
                end.finish();
                over[reactor] = true;
            }
        }
    }
    gave
}
