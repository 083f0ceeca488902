//! One worker: the command that started it, and the lines that go both ways.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokclock_engine::clock::monotonic_ns;
use tokclock_engine::run::Snapshot;
use tokclock_engine::shard::exchange::Exchange;
use tokclock_engine::shard::lines::{Lines, Read};
use tokclock_engine::shard::message::{self, Reply, Request};

use super::command::WorkerCommand;
use super::remarks::Remarks;
use super::timeline::Timeline;

/// Lines that may wait for whoever reads them; then the worker waits.
const WAITING: usize = 16;
/// Longest remark that is shown.
const REMARK_BYTES_MAX: u64 = 4096;

/// What a worker says that is not kept apart.
#[derive(Debug)]
pub(super) enum Said {
    /// A line.
    Reply(Reply),
    /// No more lines: it has ended.
    Gone,
}

/// A worker.
pub(super) struct Link {
    /// Its number, from 0.
    pub(super) number: usize,
    /// The command that started it.
    pub(super) command: String,
    /// The host that it runs on, once it has said so.
    pub(super) host: String,
    /// What was seen of it, from any thread.
    pub(super) seen: Arc<Seen>,
    /// It has ended, or nothing is to be expected of it any more.
    pub(super) is_gone: bool,
    /// Its process for loads was ended before one began; it starts another.
    pub(super) has_died: bool,
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Said>,
    timeline: Timeline,
    next_id: u64,
}

/// What was seen of a worker.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How far its load is.
    latest: Mutex<Snapshot>,
    /// When it last said so, CLOCK_MONOTONIC, ns.
    progressed_ns: AtomicU64,
    /// Questions for its time that were not answered yet: when they were sent.
    asked: Mutex<HashMap<u64, u64>>,
    exchanges: Mutex<Vec<Exchange>>,
    /// What it said last that was for people.
    remark: Mutex<String>,
}

impl Seen {
    /// How far its load is.
    pub(super) fn latest(&self) -> Snapshot {
        *lock(&self.latest)
    }

    /// It has begun another load.
    pub(super) fn renew(&self) {
        *lock(&self.latest) = Snapshot::default();
        lock(&self.asked).clear();
        lock(&self.exchanges).clear();
        self.progressed_ns.store(monotonic_ns(), Relaxed);
    }

    /// How long nothing was heard of its load, ns.
    pub(super) fn silent_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.progressed_ns.load(Relaxed))
    }

    /// Exchanges of times with it since its load was begun.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.exchanges).clone()
    }

    /// What it said last that was for people.
    pub(super) fn remark(&self) -> String {
        lock(&self.remark).clone()
    }

    /// Takes what is kept apart; gives back the rest.
    fn hear(&self, reply: Reply, back_ns: u64) -> Option<Reply> {
        match reply {
            Reply::Progress(counters) => {
                *lock(&self.latest) = counters;
                self.progressed_ns.store(monotonic_ns(), Relaxed);
                None
            }
            Reply::Clock { id, received_ns, sent_ns } => {
                if let Some(asked_ns) = lock(&self.asked).remove(&id) {
                    let answered_ns = sent_ns;
                    let exchange =
                        Exchange { sent_ns: asked_ns, received_ns, answered_ns, back_ns };
                    lock(&self.exchanges).push(exchange);
                }
                None
            }
            reply => Some(reply),
        }
    }
}

impl Link {
    /// Starts a worker and the threads that listen to it.
    ///
    /// # Errors
    /// If the command cannot be run.
    pub(super) fn start(
        number: usize,
        command: &WorkerCommand,
        timeline: Timeline,
        remarks: &Arc<Remarks>,
    ) -> std::io::Result<Self> {
        let (program, arguments) = command.words.split_first().unwrap_or((&command.text, &[]));
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C at a terminal is for us alone: what is in flight may still end.
            .process_group(0)
            .spawn()?;
        let seen = Arc::new(Seen::default());
        let (say, said) = mpsc::sync_channel(WAITING);
        if let Some(output) = child.stdout.take() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || listen(BufReader::new(output), &seen, timeline, &say));
        }
        if let Some(errors) = child.stderr.take() {
            let (seen, remarks) = (Arc::clone(&seen), Arc::clone(remarks));
            thread::spawn(move || overhear(BufReader::new(errors), number, &seen, &remarks));
        }
        let input = child.stdin.take();
        Ok(Self {
            number,
            command: command.text.clone(),
            host: String::new(),
            seen,
            is_gone: false,
            has_died: false,
            child,
            input,
            said,
            timeline,
            next_id: 0,
        })
    }

    /// What it is called.
    #[must_use]
    pub(super) fn name(&self) -> String {
        match self.host.as_str() {
            "" => format!("worker {} (`{}`)", self.number, self.command),
            host => format!("worker {} (`{}` on {host})", self.number, self.command),
        }
    }

    /// Asks for something. A worker that cannot be reached is found by its end.
    pub(super) fn ask(&mut self, request: &Request) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(&message::line(request)).and_then(|()| input.flush());
        }
    }

    /// Asks for its time.
    pub(super) fn ask_time(&mut self) {
        let id = self.next_id;
        self.next_id += 1;
        let line = message::line(&Request::Clock { id });
        let Some(input) = &mut self.input else { return };
        lock(&self.seen.asked).insert(id, self.timeline.now_ns());
        let _ = input.write_all(&line).and_then(|()| input.flush());
    }

    /// The next thing that it says, if it says one within this time.
    pub(super) fn hear(&mut self, patience: Duration) -> Option<Said> {
        let said = match self.said.recv_timeout(patience) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Said::Gone),
        };
        if matches!(said, Some(Said::Gone)) {
            self.give_up();
        }
        said
    }

    /// Nothing is expected of it any more.
    pub(super) fn give_up(&mut self) {
        self.is_gone = true;
        // Whatever still runs there ends with its input.
        self.input = None;
    }

    /// Says that this was all.
    pub(super) fn dismiss(&mut self) {
        self.ask(&Request::Bye);
        self.input = None;
    }

    /// Whether its command has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends its command.
    pub(super) fn kill(&mut self) {
        // An error means that it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads what a worker says, to its end.
fn listen(output: impl BufRead, seen: &Seen, timeline: Timeline, say: &SyncSender<Said>) {
    let mut lines = Lines::new(output);
    while let Ok(Read::Line(line)) = lines.next_line() {
        let back_ns = timeline.now_ns();
        match message::read::<Reply>(line) {
            Ok(reply) => {
                let Some(reply) = seen.hear(reply, back_ns) else { continue };
                if say.send(Said::Reply(reply)).is_err() {
                    return;
                }
            }
            // What a shell prints when somebody logs in, or what stands in place of a worker.
            Err(_) => *lock(&seen.remark) = String::from_utf8_lossy(line).into_owned(),
        }
    }
    let _ = say.send(Said::Gone);
}

/// Shows what a worker says to people.
fn overhear(mut errors: impl BufRead, number: usize, seen: &Seen, remarks: &Remarks) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut errors).take(REMARK_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        if !text.is_empty() {
            remarks.tell(number, &text);
            *lock(&seen.remark) = text;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
