//! All that stands ready before the first request, and how a load point is carried out with it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use tokclock_engine::measure::{CacheCounters, Circumstances, Facts, Summary};
use tokclock_engine::plan::{Identity, Materials};
use tokclock_engine::run::{self as engine, Asked, Control, Located, Progress, RunError, Setup};
use tokclock_engine::telemetry::server::Scrape;
use tokclock_engine::workload::{Load, Shard, Workload};

use crate::args::CommonArgs;
use crate::baseline::known;
use crate::exit::Failure;
use crate::gpus::Gpus;
use crate::hosts::Hosts;
use crate::interrupt::Interrupts;
use crate::output::Screen;
use crate::place::Place;
use crate::progress::Course;
use crate::resolve::Draft;
use crate::results::{ResultDir, summarize};
use crate::{cpus, host, progress};

/// One host's part of a load that another leads.
pub(crate) struct Part {
    pub(crate) shard: Shard,
    /// When it begins, CLOCK_REALTIME of this host, ns.
    pub(crate) start_at_ns: u64,
    /// Starts every request id.
    pub(crate) run_id: String,
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
    /// The place of this host among those that share the load.
    hosts: Hosts,
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
        let is_led = common.fleet.has_workers();
        // Where others send, this host need not be able to.
        let notes = match is_led {
            true => engine::check(&nothing_of(&workload)),
            false => engine::check(&workload),
        };
        let notes = notes.map_err(|error| failed(&error))?;
        for note in draft.notes.iter().chain(&notes) {
            screen.note(note);
        }
        if let (false, Some(cpus)) = (is_led, &draft.options().cpus) {
            screen.note(format_args!("reactors: {} on CPU {cpus}", draft.reactors().len()));
        }
        if draft.options().proxy.is_none() {
            note_proxy(located, screen);
        }
        if !draft.tls.verify {
            screen.note("certificates are not checked (--insecure): anybody may be answering");
        }
        let hosts = Hosts::of(draft);
        hosts.announce(draft.options(), screen);
        if place.is_embedded() {
            screen.note("target: the embedded simulator (give a URL to measure a server)");
        }
        let materials = draft.materials.clone();
        let identity = Identity::of(&workload, &materials).map_err(|error| failed(&error))?;
        let circumstances = circumstances(draft, &workload, allowed);
        let (asked, scrape) = hosts.looks_at(draft, &workload.target)?;
        let gpus = Gpus::open(&asked, &workload, place.is_embedded(), screen);
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
            hosts,
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
        let progress = Progress::new();
        let setup = self.setup(workload, dir);
        let before = self.cache(workload);
        let done = progress::during(self.screen, &progress, course, || {
            engine::run(workload, &setup, interrupts.control(), &progress)
        });
        let summary = self.finish(workload, name, dir, done, before)?;
        if !course.label.is_empty() {
            self.tell_of_servers(&summary);
        }
        Ok(summary)
    }

    /// Carries out this host's part of a load point of the same content and writes its result into
    /// `dir`, but for the file that reproduces it.
    ///
    /// # Errors
    /// If it cannot be done or saved.
    pub(crate) fn part(
        &self,
        workload: &Workload,
        name: &str,
        dir: &ResultDir,
        (control, progress): (&Arc<Control>, &Progress),
        part: Part,
    ) -> Result<Summary, Failure> {
        let Part { shard, start_at_ns, run_id } = part;
        let (hosts, host) = (Hosts::led(shard, start_at_ns), &self.circumstances.host);
        let header = hosts.header(self.plan(workload), workload.seed, &run_id, host);
        let start_at_ns = hosts.start_at_ns();
        let setup = Setup { run_id, start_at_ns, shard: header, ..self.setup(workload, dir) };
        let before = self.cache(workload);
        let done = engine::run(workload, &setup, control, progress);
        self.finish(workload, name, dir, done, before)
    }

    /// Checks that this host can carry a load point of the same content.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn check(&self, workload: &Workload) -> Result<(), Failure> {
        let notes = engine::check(workload).map_err(|error| failed(&error))?;
        notes.iter().for_each(|note| self.screen.note(note));
        Ok(())
    }

    /// Hash of the plan of a load point of the same content.
    pub(crate) fn plan(&self, workload: &Workload) -> String {
        self.identity.with_load(workload)
    }

    /// What the servers have counted of their prefix caches, where it is for this host to ask.
    fn cache(&self, workload: &Workload) -> Option<(u64, u64)> {
        let watches = self.hosts.watches_servers();
        watches.then(|| engine::prefix_cache(Asked::all(&workload.target))).flatten()
    }

    /// The figures of a run that is over, written into `dir`. `before` is what the servers had counted of
    /// their prefix caches before the load, warm-up included.
    fn finish(
        &self,
        workload: &Workload,
        name: &str,
        dir: &ResultDir,
        done: Result<Facts, RunError>,
        before: Option<(u64, u64)>,
    ) -> Result<Summary, Failure> {
        let mut facts = done.map_err(|error| failed(&error))?;
        self.hosts.tell_of_start(&facts, self.screen);
        facts.ceiling = known::ceiling(self.known.as_ref(), &facts.driver, self.screen);
        let mut summary =
            summarize(workload, &facts, dir.path())?.with_circumstances(Circumstances {
                name: name.to_owned(),
                workload: Some(self.plan(workload)),
                ..self.circumstances.clone()
            });
        if let (Some(cache), Some(before)) = (&mut summary.cache, before) {
            let after = self.cache(workload);
            cache.server = after.and_then(|after| CacheCounters::between(before, after));
        }
        self.gpus.report(dir.path(), &mut summary, self.screen);
        dir.write_windows(&facts)?;
        dir.write_histograms(&facts)?;
        // The last one: where it is, the result is whole.
        dir.write_summary(&summary)?;
        Ok(summary)
    }

    /// What the engine is told beside the workload.
    fn setup(&self, workload: &Workload, dir: &ResultDir) -> Setup {
        let plan = self.plan(workload);
        let run_id = self.hosts.run_id(&plan, workload.seed);
        let host = &self.circumstances.host;
        Setup {
            out_dir: dir.path().to_owned(),
            start_at_ns: self.hosts.start_at_ns(),
            shard: self.hosts.header(plan, workload.seed, &run_id, host),
            run_id,
            resolve_ns: self.place.resolve_ns(),
            materials: self.materials.clone(),
            gpus: self.gpus.watch(),
            scrape: self.scrape.clone(),
        }
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

/// The same for which a host needs nothing but to reach the servers.
fn nothing_of(workload: &Workload) -> Workload {
    Workload { load: Load::Closed { users: 1, ramp_ns: 0 }, ..workload.clone() }
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
