//! `tokclock run`: the stages of one load point, one after another.

use std::io;
use std::path::Path;

use tokclock_engine::measure::{self, CacheCounters, Facts, Summary};
use tokclock_engine::plan::Materials;
use tokclock_engine::record::read_rows;
use tokclock_engine::run::{self as engine, Asked, Located, Progress, Setup};
use tokclock_engine::workload::Workload;

use crate::args::RunArgs;
use crate::baseline::known;
use crate::exit::{Code, Failure};
use crate::interrupt::Interrupts;
use crate::output::{self, Screen};
use crate::place::Place;
use crate::resolve::{self, Draft};
use crate::results::ResultDir;
use crate::{cpus, host, progress, report};

/// Runs one load point and gives the exit code. `allowed` are the CPUs that this process may use.
///
/// # Errors
/// If the options make no sense, or the run cannot be done or saved.
pub(crate) fn run(args: &RunArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let screen = Screen { quiet: args.quiet, json: args.json };
    let options = args.options()?;
    let place = Place::default();
    let draft = Draft::new(options, allowed, &|needed| place.gather(needed, allowed))?;
    let known = known::choose(args.baseline.as_deref(), allowed, screen)?;
    let dir = ResultDir::create(draft.options().out.as_deref(), draft.name())?;
    let interrupts = Interrupts::watch(screen, dir.path())?;
    let stage = match Stage::prepare(&draft, place, allowed, screen, &dir) {
        Ok(stage) => stage,
        Err(failure) => {
            dir.abandon();
            return Err(failure);
        }
    };
    interrupts.load_starts();
    let mut facts = stage.perform(&interrupts, screen, &dir)?;
    facts.ceiling = known::ceiling(known, &facts.driver, screen);
    let mut summary = summarize(&stage.workload, &facts, &dir.path().join(engine::REQUESTS_FILE))?
        .with_identity(draft.name(), host::describe(allowed));
    if let Some(cache) = &mut summary.cache {
        cache.server = stage.cache_counted();
    }
    dir.write_summary(&summary)?;
    dir.write_windows(&facts)?;
    dir.write_histograms(&facts)?;
    screen.report(&report::console(&summary, screen.width(), screen.colour()));
    screen.note(format_args!("results: {}", dir.path().display()));
    if args.json {
        output::result(to_json(&summary)?);
    }
    Ok(Code::of_run(&summary.verdicts(), draft.max_error_rate))
}

/// All that stands ready before the first request.
struct Stage {
    workload: Workload,
    materials: Materials,
    place: Place,
    /// What the servers had counted of their prefix caches before the load.
    cache_before: Option<(u64, u64)>,
}

impl Stage {
    /// Finds the server and its model, checks that this host can do it, writes `run.toml`.
    fn prepare(
        draft: &Draft,
        place: Place,
        allowed: &[usize],
        screen: Screen,
        dir: &ResultDir,
    ) -> Result<Self, Failure> {
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
        dir.write_run(&draft.run_toml(model)?)?;
        let cache_before = engine::prefix_cache(Asked::all(&workload.target));
        let materials = draft.materials.clone();
        Ok(Self { workload, materials, place, cache_before })
    }

    /// What the servers counted of their prefix caches during the load, warm-up included.
    fn cache_counted(&self) -> Option<CacheCounters> {
        let before = self.cache_before?;
        let after = engine::prefix_cache(Asked::all(&self.workload.target))?;
        CacheCounters::between(before, after)
    }

    /// Sends the load; the records are in the directory afterwards.
    fn perform(
        &self,
        interrupts: &Interrupts,
        screen: Screen,
        dir: &ResultDir,
    ) -> Result<Facts, Failure> {
        if self.place.is_embedded() {
            screen.note("target: the embedded simulator (give a URL to measure a server)");
        }
        let setup = Setup {
            out_dir: dir.path().to_owned(),
            run_id: format!("{:014x}", resolve::draw()),
            resolve_ns: self.place.resolve_ns(),
            materials: self.materials.clone(),
        };
        let progress = Progress::new();
        progress::during(screen, &progress, || {
            engine::run(&self.workload, &setup, interrupts.control(), &progress)
        })
        .map_err(|error| failed(&error))
    }
}

/// The figures of a run whose finished requests lie at `path`; they are read one by one.
fn summarize(workload: &Workload, facts: &Facts, path: &Path) -> Result<Summary, Failure> {
    let unreadable = |error: io::Error| {
        Failure::could_not_run(format!("cannot read back {}: {error}", path.display()))
    };
    let mut bad = None;
    let rows = read_rows(path).map_err(unreadable)?;
    let rows = rows.map_while(|row| row.map_err(|error| bad = Some(error)).ok());
    let summary = measure::summarize(workload, facts, rows);
    bad.map_or(Ok(summary), |error| Err(unreadable(error)))
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

fn to_json(summary: &Summary) -> Result<String, Failure> {
    serde_json::to_string_pretty(summary)
        .map_err(|error| Failure::could_not_run(format!("the summary is no JSON: {error}")))
}

fn failed(error: &impl std::error::Error) -> Failure {
    Failure::could_not_run(error.to_string())
}
