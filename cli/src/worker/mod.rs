//! `tokclock worker`: sends a part of the load that a coordinator leads, as it says on standard input.
//!
//! ```text
//! coordinator ──lines──► worker: who, clock, fetch, forget ──lines──► the process that carries out
//!             ◄──lines──                                   ◄──lines── loads, warm between them
//! ```
//! Two processes, so that the clock is answered whatever the load does, and so that what a load has left
//! can still be fetched if the process that carried it out is killed.

mod files;
mod inner;
mod outlet;
mod root;

pub(crate) use files::Receiving;

use std::io::BufReader;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use tokclock_engine::clock::realtime_ns;
use tokclock_engine::shard::lines::{Lines, Read};
use tokclock_engine::shard::message::{self, PROTOCOL, Reply, Request};

use crate::args::WorkerArgs;
use crate::exit::{Code, Failure};
use crate::{host, interrupt, output};
use outlet::Outlet;
use root::Root;

/// How long the process that carries out loads may take to end in order.
const END_MAX: Duration = Duration::from_secs(30);
const END_TICK: Duration = Duration::from_millis(5);

/// Serves until its input ends, or it is told that this was all.
///
/// # Errors
/// If its directory cannot be made.
pub(crate) fn work(args: &WorkerArgs, allowed: &[usize]) -> Result<Code, Failure> {
    if let (true, Some(dir)) = (args.carry_out, &args.dir) {
        return inner::carry_out(dir, allowed);
    }
    let root = Root::make(args.dir.as_deref())?;
    let (say, heard) = mpsc::channel();
    let signalled = say.clone();
    interrupt::listen(move || {
        // Nobody hears it any more: the process is on its way out.
        let _ = signalled.send(Event::End);
    })?;
    let outlet = Outlet::default();
    let (asked, answers) = (say.clone(), outlet.clone());
    // It goes with the process: nothing can end a read of standard input.
    thread::spawn(move || listen(&asked, &answers));
    let mut worker =
        Worker { root, outlet, say, carrier: None, generation: 0, place: None, allowed };
    worker.serve(&heard);
    Ok(Code::Ok)
}

/// What the worker hears.
enum Event {
    /// A request.
    Asked(Request),
    /// A line that is none.
    Wrong(String),
    /// The load that was begun is over.
    Settled,
    /// The process of this number that carries out loads has ended.
    Ended(u64),
    /// Nobody asks any more.
    End,
}

/// Reads requests; those for the time are answered here, at once.
fn listen(say: &Sender<Event>, outlet: &Outlet) {
    let mut lines = Lines::new(BufReader::new(std::io::stdin().lock()));
    loop {
        let event = match lines.next_line() {
            Ok(Read::Line(line)) => {
                let received_ns = realtime_ns();
                match message::read(line) {
                    Ok(Request::Clock { id }) => {
                        outlet.say_now(|| Reply::Clock { id, received_ns, sent_ns: realtime_ns() });
                        continue;
                    }
                    Ok(request) => Event::Asked(request),
                    Err(why) => Event::Wrong(format!("this line is no request: {why}")),
                }
            }
            Ok(Read::TooLong) => Event::Wrong("this line is too long for a request".to_owned()),
            // An input that cannot be read has ended too.
            Ok(Read::End) | Err(_) => Event::End,
        };
        let is_end = matches!(event, Event::End);
        if say.send(event).is_err() || is_end {
            return;
        }
    }
}

/// The process that carries out loads.
struct Carrier {
    child: Child,
    input: Option<ChildStdin>,
}

struct Worker<'a> {
    root: Root,
    outlet: Outlet,
    say: Sender<Event>,
    carrier: Option<Carrier>,
    /// Counts those processes.
    generation: u64,
    /// The load that was prepared last.
    place: Option<Place>,
    allowed: &'a [usize],
}

/// Where the results of a load lie.
struct Place {
    dir: PathBuf,
    is_running: bool,
}

impl Worker<'_> {
    fn serve(&mut self, heard: &Receiver<Event>) {
        for event in heard {
            match event {
                Event::Asked(Request::Bye) => {
                    self.end_carrier();
                    self.root.remove();
                    return;
                }
                Event::Asked(request) => self.answer(request),
                Event::Wrong(message) => self.outlet.say(&Reply::Error { message }),
                Event::Settled => self.set_running(false),
                Event::Ended(generation) => self.mourn(generation),
                Event::End => break,
            }
        }
        self.end_carrier();
        if let Some(kept) = self.root.leave() {
            output::note(format_args!("worker: results that nobody fetched: {}", kept.display()));
        }
    }

    fn answer(&mut self, request: Request) {
        let done = match request {
            Request::Hello => {
                self.outlet.say(&self.hello());
                Ok(())
            }
            Request::Prepare { ref name, .. } => match files::place(self.root.path(), name) {
                Some(dir) => self.prepare(dir, &request),
                None => Err(format!("`{name}` is no name of a load: such as run or levels/03")),
            },
            Request::Start { .. } => self.start(&request),
            Request::Stop | Request::Cut => {
                self.pass(&request);
                Ok(())
            }
            Request::Fetch => self.fetch(),
            Request::Forget => self.forget(),
            // They were answered where they came in.
            Request::Clock { .. } | Request::Bye => Ok(()),
        };
        if let Err(message) = done {
            self.outlet.say(&Reply::Error { message });
        }
    }

    fn hello(&self) -> Reply {
        let facts = host::describe_with_key(self.allowed);
        Reply::Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: facts["name"].as_str().unwrap_or_default().to_owned(),
            facts,
            pid: std::process::id(),
        }
    }

    fn prepare(&mut self, dir: PathBuf, request: &Request) -> Result<(), String> {
        if self.is_running() {
            return Err("a load is running: stop it first".to_owned());
        }
        if dir.exists() {
            return Err("there is a load of that name: forget it first".to_owned());
        }
        if self.carrier.is_none() {
            let started = self.start_carrier();
            self.carrier = Some(started.map_err(|error| format!("no process for loads: {error}"))?);
        }
        self.place = Some(Place { dir, is_running: false });
        self.pass(request);
        Ok(())
    }

    fn start(&mut self, request: &Request) -> Result<(), String> {
        if self.carrier.is_none() || self.place.is_none() {
            return Err("there is no load to start: prepare one".to_owned());
        }
        if self.is_running() {
            return Err("a load is running already".to_owned());
        }
        self.set_running(true);
        self.root.keep(true);
        self.pass(request);
        Ok(())
    }

    fn fetch(&mut self) -> Result<(), String> {
        let Some(place) = self.place.as_ref().filter(|place| place.dir.is_dir()) else {
            return Err("there is nothing to fetch".to_owned());
        };
        if place.is_running {
            return Err("a load is running: what it writes cannot be fetched yet".to_owned());
        }
        let outlet = &self.outlet;
        files::send(&place.dir, |reply| outlet.say(reply))
            .map_err(|error| format!("cannot read {}: {error}", place.dir.display()))?;
        self.outlet.say(&Reply::Fetched);
        Ok(())
    }

    fn forget(&mut self) -> Result<(), String> {
        if self.is_running() {
            return Err("a load is running: stop it first".to_owned());
        }
        if let Some(place) = self.place.take().filter(|place| place.dir.exists()) {
            let gone = std::fs::remove_dir_all(&place.dir);
            gone.map_err(|error| format!("cannot remove {}: {error}", place.dir.display()))?;
        }
        self.root.keep(false);
        self.outlet.say(&Reply::Forgotten);
        Ok(())
    }

    /// Hands a request on. A process that is gone says so by its end.
    fn pass(&mut self, request: &Request) {
        if let Some(input) = self.carrier.as_mut().and_then(|carrier| carrier.input.as_mut()) {
            outlet::write(input, request);
        }
    }

    fn is_running(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.is_running)
    }

    fn set_running(&mut self, is_running: bool) {
        if let Some(place) = &mut self.place {
            place.is_running = is_running;
        }
    }

    /// Starts the process that carries out loads. The kernel ends it with the thread that starts it,
    /// which is the one that serves.
    fn start_carrier(&mut self) -> std::io::Result<Carrier> {
        let mut child = carrier(self.root.path())?;
        self.generation += 1;
        let (generation, said) = (self.generation, child.stdout.take());
        let (outlet, say) = (self.outlet.clone(), self.say.clone());
        thread::spawn(move || {
            if let Some(said) = said {
                relay(Lines::new(BufReader::new(said)), &outlet, &say);
            }
            let _ = say.send(Event::Ended(generation));
        });
        let input = child.stdin.take();
        Ok(Carrier { child, input })
    }

    /// The process that carries out loads has ended by itself.
    fn mourn(&mut self, generation: u64) {
        if generation != self.generation {
            return;
        }
        let Some(mut carrier) = self.carrier.take() else { return };
        // It has closed its output, so it is on its way out.
        let signal = carrier.child.wait().ok().and_then(|status| status.signal());
        self.set_running(false);
        self.outlet.say(&Reply::Died { signal });
    }

    /// Lets the process that carries out loads end: its load stops, and what it has is written.
    fn end_carrier(&mut self) {
        let Some(mut carrier) = self.carrier.take() else { return };
        drop(carrier.input.take());
        let ticks = END_MAX.as_millis() / END_TICK.as_millis();
        for _ in 0..ticks {
            match carrier.child.try_wait() {
                Ok(None) => thread::sleep(END_TICK),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        // It had its time; an error means that it is gone.
        let _ = carrier.child.kill();
        let _ = carrier.child.wait();
    }
}

fn carrier(root: &Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["worker", "--carry-out", "--dir"])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C at a terminal is not for it: what is in flight may still end.
        .process_group(0)
        .spawn()
}

/// Passes on what the process says, to its end.
fn relay(mut lines: Lines<impl std::io::BufRead>, outlet: &Outlet, say: &Sender<Event>) {
    while let Ok(Read::Line(line)) = lines.next_line() {
        let Ok(reply) = message::read::<Reply>(line) else { continue };
        if matches!(reply, Reply::Done { .. } | Reply::Failed { .. }) {
            // Told first: whoever reads the line may ask for the files at once.
            let _ = say.send(Event::Settled);
        }
        outlet.say(&reply);
    }
}
