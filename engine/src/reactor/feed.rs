//! Bodies are ready early: one low-priority thread renders them into a bounded ring per reactor.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use rtrb::{Consumer, Producer};

use super::socket;
use super::thread::Standing;
use crate::disagg::Planned;
use crate::plan::{Place, Plan, PlanError, Scratch, Script, Walk, Written};

/// Requests kept ready, per reactor: some milliseconds of the highest rate, and no more memory than a
/// core's cache holds.
const READY_MAX: usize = 512;
/// Bytes of rendered requests kept ready, per reactor.
const READY_BYTES_MAX: u64 = 8 << 20;
/// How long the feeder sleeps at most when nothing is to be done.
const NAP: Duration = Duration::from_millis(50);

/// One request, rendered.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Its number in the plan.
    pub(crate) index: u64,
    /// The item that it belongs to.
    pub(crate) item: u64,
    /// Its class.
    pub(crate) class: u16,
    /// Its turn, from 0, where there are conversations.
    pub(crate) turn: Option<u32>,
    /// Head and body as they go on the wire.
    pub(crate) bytes: Vec<u8>,
    /// Input tokens by our own tokenizer, where it counted.
    pub(crate) input_tokens: Option<u32>,
    /// Output tokens asked for.
    pub(crate) output_tokens: u32,
    /// Input tokens that a prefix cache without limits would know.
    pub(crate) ideal_cached: Option<u32>,
    /// The pause before it, unless its user has sent nothing yet, ns.
    pub(crate) pause_ns: u64,
    /// What follows in its conversation.
    pub(crate) script: Option<Box<Script>>,
    /// What is ready of its legs beside `bytes`.
    pub(crate) legs: Option<Box<Planned>>,
}

impl Prepared {
    /// Bytes that it takes, about.
    fn weight(&self) -> u64 {
        let script = self.script.as_ref().map_or(0, |script| script.bytes());
        let legs = self.legs.as_ref().map_or(0, |legs| legs.bytes());
        (self.bytes.len() + script + legs) as u64
    }

    /// A request that was written to `bytes`.
    pub(crate) fn new(written: Written, bytes: Vec<u8>, pause_ns: u64) -> Self {
        Self {
            index: written.index,
            item: written.item,
            class: written.class as u16,
            turn: written.turn,
            bytes,
            input_tokens: written.input_tokens,
            output_tokens: written.output_tokens,
            ideal_cached: written.ideal_cached,
            pause_ns,
            script: written.script,
            legs: written.legs,
        }
    }
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
                self.state.taken_bytes.fetch_add(prepared.weight(), Relaxed);
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

    fn give(&mut self, plan: &Plan, place: &Place, scratch: &mut Scratch) -> Result<(), PlanError> {
        let mut bytes = self.buffers.pop().unwrap_or_default();
        let written = plan.write(place, scratch, &mut bytes)?;
        let prepared = Prepared::new(written, bytes, plan.pause_ns(place));
        self.given_bytes += prepared.weight();
        let _ = self.ring.push(prepared);
        self.ring_bell();
        Ok(())
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

/// Feeds all reactors of an open loop: of this host's items each has every *n*th, in order. Calls
/// `primed` when all rings are full for the first time.
///
/// # Errors
/// The first request that could not be written; none follows it.
pub(crate) fn feed_open(
    plan: &Plan,
    mut ends: Vec<FeedEnd>,
    standing: &Standing,
    primed: impl FnOnce(),
) -> Result<(), PlanError> {
    let reactors = ends.len() as u64;
    let total = plan.total().unwrap_or(u64::MAX);
    let mut scratch = Scratch::default();
    let mut walks: Vec<Walk> = (0..reactors).map(|_| plan.walk()).collect();
    run(&mut ends, standing, primed, |end, reactor| {
        if walks[reactor].item() >= total {
            return Ok(Fed::Finished);
        }
        if !end.has_room() {
            return Ok(Fed::Full);
        }
        let place = loop {
            // The others' are gone past.
            let place = walks[reactor].step(plan);
            let (at, of) = plan.shard().of_reactor(reactor as u64, reactors);
            if place.item % of == at {
                break place;
            }
        };
        if place.item >= total {
            return Ok(Fed::Finished);
        }
        end.give(plan, &place, &mut scratch).map(|()| Fed::Gave)
    })
}

/// Feeds all reactors of a closed loop: this host's next request goes to whichever has room, so that
/// exactly as many go out as were asked for. Towards the end rings are kept short, so that no reactor sits on
/// requests while the users of another have none.
///
/// # Errors
/// The first request that could not be written; none follows it.
pub(crate) fn feed_closed(
    plan: &Plan,
    mut ends: Vec<FeedEnd>,
    standing: &Standing,
    primed: impl FnOnce(),
) -> Result<(), PlanError> {
    let reactors = ends.len() as u64;
    let own = plan.own_total().unwrap_or(u64::MAX);
    let mut scratch = Scratch::default();
    let mut walk = plan.walk();
    run(&mut ends, standing, primed, |end, _| {
        let left = own - plan.items_of(walk.item());
        if left == 0 {
            return Ok(Fed::Finished);
        }
        let share = if reactors == 1 { u64::MAX } else { left / (2 * reactors) + 1 };
        if share < READY_MAX as u64 {
            end.state.ending.store(true, Relaxed);
        }
        if !end.has_room() || end.ready() as u64 >= share {
            return Ok(Fed::Full);
        }
        let place = loop {
            // The other hosts' are gone past.
            let place = walk.step(plan);
            if plan.has_item(place.item) {
                break place;
            }
        };
        end.give(plan, &place, &mut scratch).map(|()| Fed::Gave)
    })
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
    mut step: impl FnMut(&mut FeedEnd, usize) -> Result<Fed, PlanError>,
) -> Result<(), PlanError> {
    let mut primed = Some(primed);
    let mut over = vec![false; ends.len()];
    let mut failed = None;
    let mut step = |end: &mut FeedEnd, reactor| {
        let fed = if failed.is_some() { Ok(Fed::Finished) } else { step(end, reactor) };
        fed.unwrap_or_else(|error| {
            failed = Some(error);
            Fed::Finished
        })
    };
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
    failed.map_or(Ok(()), Err)
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
