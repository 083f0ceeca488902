//! The tasks of one thread: accept, read, wait for room, and the scheduler that sends.

use std::cell::Cell;
use std::fs::File;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use monoio::net::TcpStream;

use crate::clock::{self, Alarm, Margin};
use crate::driver::{Turn, contain, pollable};
use crate::fault::Fault;
use crate::reactor::{Id, Reactor, Reading, Step};
use crate::report::Tally;
use crate::shared::{Message, Shared};
use crate::socket;

/// So close to the due time nothing else is looked at any more.
const SPIN_NS: u64 = 2_000;

/// Sends between two turns of the driver, in which requests are read.
const SENDS_PER_TURN: u32 = 16;

/// How long stopping waits for the thread's tasks to end.
const STOP_NS_MAX: u64 = 50_000_000;

/// Serves until the server stops; `started` is called once connections are accepted.
///
/// Returns the thread's counts, and whether all its tasks have ended.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    index: usize,
    listener: Option<TcpListener>,
    started: impl FnOnce(),
) -> (io::Result<Tally>, bool) {
    let reactor = Rc::new(Reactor::new(Arc::clone(&shared), index));
    let result = serve_until_stop(&reactor, index, listener, started).await;
    let Ok(turn) = result else {
        return (result.map(|_| Tally::new()), false);
    };
    reactor.end_all();
    let end_ns = clock::monotonic_ns() + STOP_NS_MAX;
    while reactor.tasks.get() > 0 && clock::monotonic_ns() < end_ns {
        turn.take().await;
    }
    let clean = reactor.tasks.get() == 0;
    // One more turn takes the closing of the last sockets to the kernel.
    turn.take().await;
    drop(turn);
    let mut tally = match Rc::try_unwrap(reactor) {
        Ok(reactor) => reactor.into_tally(),
        Err(reactor) => reactor.take_tally(),
    };
    tally.threads = 1;
    tally.cpu_ns = clock::thread_cpu_ns();
    (Ok(tally), clean)
}

async fn serve_until_stop(
    reactor: &Rc<Reactor>,
    index: usize,
    listener: Option<TcpListener>,
    started: impl FnOnce(),
) -> io::Result<Turn> {
    let turn = Turn::new()?;
    let alarm = Alarm::new()?;
    let ring = pollable(alarm.handle()?)?;
    let event = pollable(reactor.shared.mailboxes[index].event()?)?;
    let listening = listener.as_ref().map(TcpListener::as_raw_fd);
    if let Some(listener) = listener {
        let listener = monoio::net::TcpListener::from_std(listener)?;
        spawn(reactor, accept(Rc::clone(reactor), listener, File::open("/dev/null").ok()));
    }
    spawn(reactor, watch(Rc::clone(reactor), event, index));
    started();
    // What a panic was about is taken off the queue by then, so the rest can go on.
    while contain(schedule(reactor, &turn, &alarm, &ring)).await.is_none() {
        reactor.count(|tally| tally.internal_errors += 1);
    }
    if let Some(fd) = listening {
        socket::shutdown(fd, libc::SHUT_RD);
    }
    Ok(turn)
}

/// Spawns a task that is counted while it lives, and whose panic goes no further.
fn spawn(reactor: &Rc<Reactor>, task: impl Future<Output = ()> + 'static) {
    struct Alive(Rc<Cell<usize>>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    reactor.tasks.set(reactor.tasks.get() + 1);
    let alive = Alive(Rc::clone(&reactor.tasks));
    let reactor = Rc::clone(reactor);
    monoio::spawn(async move {
        let _alive = alive;
        if contain(task).await.is_none() {
            reactor.count(|tally| tally.internal_errors += 1);
        }
        drop(reactor);
    });
}

/// Sends what is due, sleeps when nothing is.
async fn schedule(reactor: &Rc<Reactor>, turn: &Turn, alarm: &Alarm, ring: &TcpStream) {
    let mut rings: Option<Pin<Box<dyn Future<Output = io::Result<()>> + '_>>> = None;
    // What the alarm is set to; `None` is a spent one, which rings on until it is set anew.
    let mut set_to: Option<Option<u64>> = None;
    let mut margin = Margin::new();
    let mut sends = 0u32;
    // Since when it waits awake, and the reads until then.
    let mut waiting: Option<(u64, u64)> = None;
    while !reactor.shared.is_stopping() {
        let now_ns = clock::monotonic_ns();
        if let Some((since_ns, reads)) = waiting.take() {
            reactor.count(|tally| tally.waited(now_ns - since_ns, reads));
        }
        match reactor.step(now_ns) {
            Step::Worked => {
                wait_for_room(reactor);
                sends += 1;
                if sends.is_multiple_of(SENDS_PER_TURN) {
                    turn.take().await;
                }
                continue;
            }
            Step::Idle(Some(due_ns)) if due_ns <= now_ns + SPIN_NS => {
                waiting = Some((now_ns, reactor.reads()));
                std::hint::spin_loop();
                continue;
            }
            Step::Idle(Some(due_ns)) if due_ns <= now_ns + margin.ns() => {
                waiting = Some((now_ns, reactor.reads()));
                turn.take().await;
                continue;
            }
            Step::Idle(due_ns) => {
                let ring_ns = due_ns.map(|due_ns| due_ns - margin.ns());
                if set_to != Some(ring_ns) {
                    alarm.set(ring_ns);
                    set_to = Some(ring_ns);
                }
            }
        }
        // The wait for the alarm outlives a nudge: dropping it would cost a cancellation.
        let wait = rings.get_or_insert_with(|| Box::pin(ring.readable(false)));
        let rang = std::future::poll_fn(|context| {
            if reactor.take_nudge(context.waker()) {
                return Poll::Ready(false);
            }
            wait.as_mut().poll(context).map(|_| true)
        })
        .await;
        if rang {
            rings = None;
            if let Some(ring_ns) = set_to.take().flatten() {
                margin.on_wake(clock::monotonic_ns().saturating_sub(ring_ns));
            }
        }
    }
}

/// Takes in connections and deals them to the threads in turn.
async fn accept(reactor: Rc<Reactor>, listener: monoio::net::TcpListener, mut spare: Option<File>) {
    let threads = reactor.shared.mailboxes.len();
    let mut next = 0;
    while !reactor.shared.is_stopping() && listener.readable(false).await.is_ok() {
        loop {
            match socket::accept(listener.as_raw_fd()) {
                Ok(fd) if refuses(&reactor, next) => socket::reset(fd.as_raw_fd()),
                Ok(fd) if next % threads == 0 => adopt(&reactor, fd),
                Ok(fd) => reactor.shared.mailboxes[next % threads].post(Message::Adopt(fd)),
                Err(error) if is_out_of_descriptors(&error) => {
                    // The spare one lets the client be turned away instead of left hanging,
                    // and this loop come to rest.
                    drop(spare.take());
                    drop(socket::accept(listener.as_raw_fd()));
                    spare = File::open("/dev/null").ok();
                    reactor.count(|tally| tally.refused_connections += 1);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Stopped, or the client is gone already.
                Err(_) => break,
            }
            next += 1;
        }
    }
}

/// Whether a fault refuses connection `number`; counts it if so.
fn refuses(reactor: &Reactor, number: usize) -> bool {
    let settings = &reactor.shared.settings;
    let refuses = settings.faults.refuses(settings.seed, number as u64);
    if refuses {
        reactor.count(|tally| tally.met(Fault::Refuse));
    }
    refuses
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn adopt(reactor: &Rc<Reactor>, fd: OwnedFd) {
    match pollable(fd) {
        Ok(stream) => {
            let stream = Rc::new(stream);
            let id = reactor.open(Rc::clone(&stream));
            spawn(reactor, read(Rc::clone(reactor), id, stream));
        }
        Err(_) => reactor.count(|tally| tally.refused_connections += 1),
    }
}

/// Reads one connection until its client is gone.
async fn read(reactor: Rc<Reactor>, id: Id, stream: Rc<TcpStream>) {
    /// Also after a panic the connection is ended and its place passed on.
    struct Gone<'a>(&'a Reactor, Id);
    impl Drop for Gone<'_> {
        fn drop(&mut self) {
            self.0.gone(self.1);
        }
    }
    let _gone = Gone(&reactor, id);
    while stream.readable(false).await.is_ok() {
        let reading = reactor.read(id, stream.as_raw_fd());
        wait_for_room(&reactor);
        if reading == Reading::Over {
            break;
        }
    }
}

/// Starts a task for each connection whose socket is full.
fn wait_for_room(reactor: &Rc<Reactor>) {
    for (id, stream) in reactor.take_blocked() {
        let waiter = Rc::clone(reactor);
        spawn(reactor, async move {
            // An error is seen by the next send as well.
            let _ = stream.writable(false).await;
            waiter.unblock(id);
        });
    }
}

/// Takes messages from other threads, and the word to stop.
async fn watch(reactor: Rc<Reactor>, event: TcpStream, index: usize) {
    let shared = Arc::clone(&reactor.shared);
    while !shared.is_stopping() && event.readable(false).await.is_ok() {
        for message in shared.mailboxes[index].take() {
            match message {
                Message::Adopt(fd) => adopt(&reactor, fd),
                Message::Begin(id) => reactor.begin(id),
                Message::Dealt => reactor.fetch(),
                Message::Met { id, number, ready } => reactor.met(id, number, ready),
            }
        }
    }
    reactor.nudge();
}
