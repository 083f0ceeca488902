//! The process that carries out a worker's loads, one after another; what they share stays ready.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokclock_engine::run::{self as engine, Control, Progress};
use tokclock_engine::shard::lines::{Lines, Read};
use tokclock_engine::shard::message::{self, Reply, Request};
use tokclock_engine::workload::{Shard, Workload};

use super::files;
use super::outlet::Outlet;
use crate::args::{CommonArgs, FleetArgs};
use crate::config::Options;
use crate::exit::{Code, Failure};
use crate::place::Place;
use crate::resolve::Draft;
use crate::results::ResultDir;
use crate::stage::{Part, Stage};
use crate::values::ShardAsked;

/// How often it is said how far a load is.
const TICK: Duration = Duration::from_millis(200);
/// How long what is in flight may go on once nobody leads the load any more.
const GRACE: Duration = Duration::from_secs(5);

/// Carries out loads until the input ends.
///
/// # Errors
/// None: what goes wrong is said to whoever asked.
pub(super) fn carry_out(root: &Path, allowed: &[usize]) -> Result<Code, Failure> {
    // Should the worker be killed, its load must not go on without anybody to stop it.
    let _ = engine::end_with_parent();
    let wishes = Wishes::default();
    let (say, heard) = mpsc::channel();
    let seen = wishes.clone();
    // It goes with the process: nothing can end a read of standard input.
    thread::spawn(move || listen(&say, &seen));
    let mut carrier = Carrier {
        root: root.to_owned(),
        allowed,
        outlet: Outlet::default(),
        wishes,
        ready: None,
        stage: None,
    };
    carrier.serve(&heard);
    Ok(Code::Ok)
}

/// What is wished of the load that goes on, whoever wishes it.
#[derive(Debug, Clone, Default)]
struct Wishes {
    control: Arc<Mutex<Arc<Control>>>,
}

impl Wishes {
    /// Those of the load that goes on.
    fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another load: nothing was wished of it yet.
    fn renew(&self) -> Arc<Control> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        *control = Arc::new(Control::new());
        Arc::clone(&control)
    }
}

/// Reads requests. A wish to end is met at once, also while a load goes on; so is the end of the input.
fn listen(say: &Sender<Request>, wishes: &Wishes) {
    let mut lines = Lines::new(BufReader::new(std::io::stdin().lock()));
    while let Ok(Read::Line(line)) = lines.next_line() {
        match message::read(line) {
            Ok(Request::Stop) => wishes.control().stop(),
            Ok(Request::Cut) => wishes.control().cut(),
            Ok(request) => {
                // Whoever serves goes on reading while this process lives.
                let _ = say.send(request);
            }
            // Our own worker passes nothing else on.
            Err(_) => {}
        }
    }
    let control = wishes.control();
    control.stop();
    // The one that listens may be the last to know: it is told before the wait.
    let _ = say.send(Request::Bye);
    thread::sleep(GRACE);
    control.cut();
}

struct Carrier<'a> {
    root: PathBuf,
    allowed: &'a [usize],
    outlet: Outlet,
    wishes: Wishes,
    ready: Option<Ready>,
    /// What stands ready for loads of the same content.
    stage: Option<Standing>,
}

/// A server that was found and materials that were read.
struct Standing {
    /// The options that it was made of, without those of a load.
    options: Options,
    draft: Draft,
    stage: Stage,
}

/// A load that can begin.
struct Ready {
    name: String,
    dir: PathBuf,
    options: String,
    shard: Shard,
    workload: Workload,
    draft: Draft,
    control: Arc<Control>,
}

impl Carrier<'_> {
    fn serve(&mut self, heard: &Receiver<Request>) {
        for request in heard {
            let done = match request {
                Request::Prepare { name, options, shard } => self.prepare(name, options, shard),
                Request::Start { at_realtime_ns, run_id } => self.start(at_realtime_ns, run_id),
                Request::Bye => return,
                _ => continue,
            };
            let reply = done.unwrap_or_else(|failure| Reply::Failed {
                code: failure.code as u8,
                message: failure.message,
            });
            self.outlet.say(&reply);
        }
    }

    fn prepare(&mut self, name: String, text: String, shard: Shard) -> Result<Reply, Failure> {
        let control = self.wishes.renew();
        self.ready = None;
        let dir = files::place(&self.root, &name)
            .ok_or_else(|| Failure::usage(format!("`{name}` is no name of a load")))?;
        let mut options = Options::parse(&text)
            .map_err(|error| Failure::usage(format!("the options of the load{error}")))?;
        if options.url.is_empty() {
            return Err(Failure::usage("a load over several hosts needs the URL of a server"));
        }
        options.hosts.shard = Some(ShardAsked::Is(shard));
        let draft = match self.again(&options, shard)? {
            Some(draft) => draft,
            None => self.afresh(options)?,
        };
        let Some(standing) = &self.stage else {
            return Err(Failure::could_not_run("nothing stands ready: this is a bug"));
        };
        let mut workload = draft.loaded(&standing.stage.workload);
        workload.shard = shard;
        // The one before may have been a smaller one.
        standing.stage.check(&workload)?;
        let plan = standing.stage.plan(&workload);
        let seed = workload.seed;
        self.ready = Some(Ready { name, dir, options: text, shard, workload, draft, control });
        Ok(Reply::Ready { plan, seed })
    }

    /// The draft of these options, where they differ from those of the load before by their load alone
    /// and it needs no more cores.
    fn again(&self, options: &Options, shard: Shard) -> Result<Option<Draft>, Failure> {
        let same = |standing: &&Standing| standing.options == options.without_load();
        let Some(standing) = self.stage.as_ref().filter(same) else { return Ok(None) };
        let draft = standing.draft.as_part(shard).with_load(|own| own.take_load(options))?;
        let is_enough = draft.reactors_needed().min(self.allowed.len()) <= draft.reactors().len();
        let is_chosen = options.reactors.is_some() || options.cpus.is_some();
        Ok((is_enough || is_chosen).then_some(draft))
    }

    /// The draft of these options, and what it takes to carry out loads of its content.
    fn afresh(&mut self, options: Options) -> Result<Draft, Failure> {
        self.stage = None;
        let own = options.without_load();
        let place = Place::default();
        let draft =
            Draft::new(options, self.allowed, &|needed| place.gather(needed, self.allowed))?;
        let common = common();
        let stage = Stage::prepare(&draft, place, &common, self.allowed)?;
        self.stage = Some(Standing { options: own, draft: draft.clone(), stage });
        Ok(draft)
    }

    fn start(&mut self, at_realtime_ns: u64, run_id: String) -> Result<Reply, Failure> {
        let (Some(ready), Some(standing)) = (self.ready.take(), &self.stage) else {
            return Err(Failure::could_not_run("there is no load to start: prepare one"));
        };
        let dir = ResultDir::create(Some(&ready.dir), &ready.name)?;
        dir.write_run(&ready.options)?;
        let progress = Progress::new();
        let part = Part { shard: ready.shard, start_at_ns: at_realtime_ns, run_id };
        let control = (&ready.control, &progress);
        let summary = telling(&progress, &self.outlet, || {
            standing.stage.part(&ready.workload, &ready.name, &dir, control, part)
        })?;
        let code = Code::of_run(&summary.verdicts(), ready.draft.max_error_rate);
        Ok(Reply::Done { code: code as u8, dir: dir.path().display().to_string() })
    }
}

/// What no file says, of a load that nobody looks at on this host.
fn common() -> CommonArgs {
    CommonArgs {
        config: None,
        baseline: None,
        no_report: true,
        json: true,
        quiet: false,
        fleet: FleetArgs::default(),
    }
}

/// Does `work` and says how far it is meanwhile.
fn telling<T>(progress: &Progress, outlet: &Outlet, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        scope.spawn(move || {
            while wait.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                outlet.say(&Reply::Progress(progress.snapshot()));
            }
        });
        let result = work();
        // The thread sees the closed channel at once, and the scope waits for it.
        drop(done);
        result
    })
}
