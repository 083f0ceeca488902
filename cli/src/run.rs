//! `tokclock run`: the stages of one load point, one after another.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use tokclock_engine::measure::{
    self, CacheCounters, Circumstances, Facts, Servers, Summary, Window,
};
use tokclock_engine::plan::{Identity, Materials};
use tokclock_engine::record::read_rows;
use tokclock_engine::run::{self as engine, Asked, Located, Progress, Setup};
use tokclock_engine::telemetry::server::{Scrape, read_log};
use tokclock_engine::workload::Workload;

use crate::args::{CommonArgs, RunArgs};
use crate::baseline::known;
use crate::config::Options;
use crate::exit::{Code, Failure};
use crate::gpus::Gpus;
use crate::interrupt::Interrupts;
use crate::output::{self, Screen};
use crate::place::Place;
use crate::progress::Course;
use crate::resolve::gpus::GpusAsked;
use crate::resolve::scrape::scraped;
use crate::resolve::{self, Draft};
use crate::results::ResultDir;
use crate::{cpus, host, progress, report};

/// Runs one load point and gives the exit code. `allowed` are the CPUs that this process may use.
///
/// # Errors
/// If the options make no sense, or the run cannot be done or saved.
pub(crate) fn run(args: &RunArgs, allowed: &[usize]) -> Result<Code, Failure> {
    measure(args.options()?, &args.common, allowed, |summary, _, screen| {
        screen.report(&report::console(summary, screen.width(), screen.colour()));
        Ok(())
    })
}

/// Runs one load point and gives the exit code; `show` says what a person is to see of it.
///
/// # Errors
/// If the options make no sense, or the run cannot be done, saved or shown.
pub(crate) fn measure(
    options: Options,
    common: &CommonArgs,
    allowed: &[usize],
    show: impl FnOnce(&Summary, &ResultDir, Screen) -> Result<(), Failure>,
) -> Result<Code, Failure> {
    let screen = common.screen();
    let place = Place::default();
    let draft = Draft::new(options, allowed, &|needed| place.gather(needed, allowed))?;
    let dir = ResultDir::create(draft.options().out.as_deref(), draft.name())?;
    let interrupts = Interrupts::watch(screen, dir.path())?;
    let stage = Stage::prepare(&draft, place, common, allowed).inspect_err(|_| dir.abandon())?;
    dir.write_run(&draft.run_toml(&stage.workload.target.model)?)?;
    interrupts.load_starts();
    let course = Course::default();
    let summary = stage.point(&stage.workload, draft.name(), &dir, &interrupts, &course)?;
    show(&summary, &dir, screen)?;
    screen.note(format_args!("results: {}", dir.path().display()));
    if !common.no_report {
        report::html::leave(&dir, screen);
    }
    if screen.json {
        output::json(&summary)?;
    }
    Ok(Code::of_run(&summary.verdicts(), draft.max_error_rate))
}

/// All that stands ready before the first request.
pub(crate) struct Stage {
    /// The load point as it was asked for; of several, the one that stands for all.
    pub(crate) workload: Workload,
    materials: Materials,
    place: Place,
    known: Option<known::Known>,
    /// What results say beside their figures, all but the name and the load.
    circumstances: Circumstances,
    /// Which content it is.
    identity: Identity,
    /// What is looked at meanwhile.
    gpus: Gpus,
    /// Servers whose metrics are read.
    scrape: Scrape,
    /// Those of which it was said that they could not be.
    told: RefCell<BTreeSet<String>>,
    screen: Screen,
}

impl Stage {
    /// Finds the server and its model, and checks that this host can do it.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn prepare(
        draft: &Draft,
        place: Place,
        common: &CommonArgs,
        allowed: &[usize],
    ) -> Result<Self, Failure> {
        let screen = common.screen();
        let known = known::choose(common.baseline.as_deref(), allowed, screen)?;
        let reached = place.reach(&draft.reaching(), cpus::left_over(allowed, draft.reactors()))?;
        let (located, model) = (&reached.servers, reached.model.as_str());
        let mut workload = draft.workload(located, model);
        reached.check_models(draft.api.dialect, &workload.mix)?;
        for class in &draft.with_template {
            let tokens = engine::template_tokens(&workload, &draft.materials, *class);
            let tokens = tokens.map_err(|reason| {
                Failure::could_not_run(format!(
                    "--isl-includes-template: what the server adds to a prompt cannot be found \
                     out: {reason}"
                ))
            })?;
            screen.note(format_args!(
                "the server adds {tokens} tokens to a prompt, which --isl includes"
            ));
            workload.mix[*class].content.template_tokens = tokens;
        }
        let notes = engine::check(&workload).map_err(|error| failed(&error))?;
        for note in draft.notes.iter().chain(&notes) {
            screen.note(note);
        }
        if let Some(cpus) = &draft.options().cpus {
            screen.note(format_args!("reactors: {} on CPU {cpus}", draft.reactors().len()));
        }
        if draft.options().proxy.is_none() {
            note_proxy(located, screen);
        }
        if !draft.tls.verify {
            screen.note("certificates are not checked (--insecure): anybody may be answering");
        }
        if place.is_embedded() {
            screen.note("target: the embedded simulator (give a URL to measure a server)");
        }
        let materials = draft.materials.clone();
        let identity = Identity::of(&workload, &materials).map_err(|error| failed(&error))?;
        let circumstances = circumstances(draft, &workload, allowed);
        let asked = GpusAsked::of(draft.options())?;
        let gpus = Gpus::open(&asked, &workload, place.is_embedded(), screen);
        let scrape = scraped(draft.options(), &workload.target, &draft.way);
        let told = RefCell::default();
        Ok(Self {
            workload,
            materials,
            place,
            known,
            circumstances,
            identity,
            gpus,
            scrape,
            told,
            screen,
        })
    }

    /// Carries out a load point of the same content and writes its whole result into `dir`, but for
    /// the file that reproduces it. `course` says where it stands among others.
    ///
    /// # Errors
    /// If it cannot be done or saved.
    pub(crate) fn point(
        &self,
        workload: &Workload,
        name: &str,
        dir: &ResultDir,
        interrupts: &Interrupts,
        course: &Course,
    ) -> Result<Summary, Failure> {
        let servers = || Asked::all(&workload.target);
        // What the servers had counted of their prefix caches before the load, warm-up included.
        let cache_before = engine::prefix_cache(servers());
        let setup = Setup {
            out_dir: dir.path().to_owned(),
            run_id: format!("{:014x}", resolve::draw()),
            resolve_ns: self.place.resolve_ns(),
            materials: self.materials.clone(),
            gpus: self.gpus.watch(),
            scrape: self.scrape.clone(),
        };
        let progress = Progress::new();
        let done = progress::during(self.screen, &progress, course, || {
            engine::run(workload, &setup, interrupts.control(), &progress)
        });
        let mut facts = done.map_err(|error| failed(&error))?;
        facts.ceiling = known::ceiling(self.known.as_ref(), &facts.driver, self.screen);
        let mut summary =
            summarize(workload, &facts, dir.path())?.with_circumstances(Circumstances {
                name: name.to_owned(),
                workload: Some(self.identity.with_load(workload)),
                ..self.circumstances.clone()
            });
        if let (Some(cache), Some(before)) = (&mut summary.cache, cache_before) {
            let after = engine::prefix_cache(servers());
            cache.server = after.and_then(|after| CacheCounters::between(before, after));
        }
        self.gpus.report(dir.path(), &mut summary, self.screen);
        if !course.label.is_empty() {
            self.tell_of_servers(&summary);
        }
        dir.write_windows(&facts)?;
        dir.write_histograms(&facts)?;
        // The last one: where it is, the result is whole.
        dir.write_summary(&summary)?;
        Ok(summary)
    }

    /// Says once of each server of several load points that its metrics could not be read.
    fn tell_of_servers(&self, summary: &Summary) {
        for server in summary.servers.iter().filter(|server| server.failed > 0) {
            let note = server.notes.first().map_or("", String::as_str);
            if self.told.borrow_mut().insert(server.url.clone()) {
                self.screen.note(format_args!("{}: {note}", server.url));
            }
        }
    }
}

/// What all results of this draft say beside their figures. Asks the server, unless that is forbidden.
fn circumstances(draft: &Draft, workload: &Workload, allowed: &[usize]) -> Circumstances {
    let is_asked = draft.options().no_server_facts != Some(true);
    Circumstances {
        labels: draft.labels.clone(),
        host: host::describe_towards(allowed, workload.target.endpoints.first()),
        server: if is_asked { engine::server_facts(&workload.target) } else { None },
        ..Circumstances::default()
    }
}

/// The figures of a run whose finished requests lie in `dir`; they are read one by one.
fn summarize(workload: &Workload, facts: &Facts, dir: &Path) -> Result<Summary, Failure> {
    let path = dir.join(engine::REQUESTS_FILE);
    let unreadable = |error: io::Error| {
        Failure::could_not_run(format!("cannot read back {}: {error}", path.display()))
    };
    let mut bad = None;
    let mut servers = servers_of(dir, facts);
    let rows = read_rows(&path).map_err(unreadable)?;
    let rows = rows.map_while(|row| row.map_err(|error| bad = Some(error)).ok());
    let mut summary = measure::summarize(workload, facts, rows.inspect(|row| servers.hear(row)));
    summary.servers = servers.finish();
    bad.map_or(Ok(summary), |error| Err(unreadable(error)))
}

/// What was read of the servers' metrics into `dir`, if anything was.
pub(crate) fn servers_of(dir: &Path, facts: &Facts) -> Servers {
    let readings = read_log(&dir.join(engine::SERVERS_FILE)).ok();
    let window = Window { start: facts.window_start, end: facts.window_end };
    Servers::of(readings.into_iter().flatten(), window)
}

/// A proxy would be measured instead of the server, so none is used; whoever set one should know.
fn note_proxy(servers: &[Located], screen: Screen) {
    const VARIABLES: [&str; 6] =
        ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    let is_set = |name: &&&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if servers.iter().any(|server| !server.endpoint.is_local())
        && let Some(name) = VARIABLES.iter().find(is_set)
    {
        screen.note(format_args!(
            "{name} is ignored: tokclock speaks to the server directly (--proxy takes one)"
        ));
    }
}

fn failed(error: &impl std::error::Error) -> Failure {
    Failure::could_not_run(error.to_string())
}
