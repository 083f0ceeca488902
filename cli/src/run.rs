//! `tokclock run`: the stages of one load point, one after another.

use std::io;
use std::path::Path;

use tokclock_engine::measure::{self, Facts, Summary};
use tokclock_engine::record::read_rows;
use tokclock_engine::run::{self as engine, Located, Progress, Setup};
use tokclock_engine::workload::Workload;
use tokclock_sim::{Law, Server, Settings};

use crate::args::RunArgs;
use crate::baseline::known;
use crate::exit::{Code, Failure};
use crate::interrupt::Interrupts;
use crate::output::{self, Screen};
use crate::resolve::{self, Draft};
use crate::results::ResultDir;
use crate::{cpus, host, progress, report};

/// Runs one load point and gives the exit code. `allowed` are the CPUs that this process may use.
///
/// # Errors
/// If the options make no sense, or the run cannot be done or saved.
pub(crate) fn run(args: &RunArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let screen = Screen { quiet: args.quiet, json: args.json };
    let draft = Draft::new(args.options()?, allowed)?;
    let known = known::choose(args.baseline.as_deref(), allowed, screen)?;
    let dir = ResultDir::create(draft.options().out.as_deref(), draft.name())?;
    let interrupts = Interrupts::watch(screen, dir.path())?;
    let stage = match Stage::prepare(&draft, allowed, screen, &dir) {
        Ok(stage) => stage,
        Err(failure) => {
            dir.abandon();
            return Err(failure);
        }
    };
    interrupts.load_starts();
    let mut facts = stage.perform(&interrupts, screen, &dir)?;
    facts.ceiling = known::ceiling(known, &facts.driver, screen);
    let summary = summarize(&stage.workload, &facts, &dir.path().join(engine::REQUESTS_FILE))?
        .with_identity(draft.name(), host::describe(allowed));
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
    resolve_ns: u64,
    /// The embedded simulator, which serves as long as this lives.
    server: Option<Server>,
}

impl Stage {
    /// Finds the server and its model, checks that this host can do it, writes `run.toml`.
    fn prepare(
        draft: &Draft,
        allowed: &[usize],
        screen: Screen,
        dir: &ResultDir,
    ) -> Result<Self, Failure> {
        let (server, urls) = if draft.options().url.is_empty() {
            let server = embedded(cpus::left_over(allowed, draft.reactors()))?;
            let url = format!("http://{}", server.address());
            (Some(server), vec![url])
        } else {
            (None, draft.options().url.clone())
        };
        let located = locate_all(draft, &urls)?;
        if let Some(timeout_ns) = draft.wait_ready_ns {
            for one in &located {
                engine::wait_ready(&draft.asked(one), timeout_ns)
                    .map_err(|error| failed(&error))?;
            }
        }
        let listed = match engine::models(&draft.asked(&located[0])) {
            // Without a server no option helps.
            Err(error) if error.is_no_answer() => return Err(failed(&error)),
            listed => listed.map_err(|error| error.to_string()),
        };
        let dialect = draft.api.dialect;
        let model = resolve::model(dialect, draft.options().model.as_deref(), listed)?;
        let workload = draft.workload(&located, &model);
        let notes = engine::check(&workload).map_err(|error| failed(&error))?;
        for note in draft.notes.iter().chain(&notes) {
            screen.note(note);
        }
        if let Some(cpus) = &draft.options().cpus {
            screen.note(format_args!("reactors: {} on CPU {cpus}", draft.reactors().len()));
        }
        if draft.options().proxy.is_none() {
            note_proxy(&located, screen);
        }
        if !draft.tls.verify {
            screen.note("certificates are not checked (--insecure): anybody may be answering");
        }
        let resolve_ns = located.iter().map(|one| one.resolve_ns).sum();
        dir.write_run(&draft.run_toml(&model)?)?;
        Ok(Self { workload, resolve_ns, server })
    }

    /// Sends the load; the records are in the directory afterwards.
    fn perform(
        &self,
        interrupts: &Interrupts,
        screen: Screen,
        dir: &ResultDir,
    ) -> Result<Facts, Failure> {
        if self.server.is_some() {
            screen.note("target: the embedded simulator (give a URL to measure a server)");
        }
        let setup = Setup {
            out_dir: dir.path().to_owned(),
            run_id: format!("{:014x}", resolve::draw()),
            resolve_ns: self.resolve_ns,
        };
        let progress = Progress::new();
        progress::during(screen, &progress, || {
            engine::run(&self.workload, &setup, interrupts.control(), &progress)
        })
        .map_err(|error| failed(&error))
    }
}

fn locate_all(draft: &Draft, urls: &[String]) -> Result<Vec<Located>, Failure> {
    let locate = |url: &String| engine::locate(url, draft.api.dialect, &draft.way);
    urls.iter().map(locate).collect::<Result<_, _>>().map_err(|error| failed(&error))
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

/// The embedded simulator: a finite server, so that a first run meets queues too. It gets a CPU of
/// its own where there is one.
fn embedded(cpu: Option<usize>) -> Result<Server, Failure> {
    /// Requests served at once, the others wait.
    const MAX_CONCURRENT: u32 = 64;
    let law = |text: &str| {
        text.parse::<Law>().map_err(|error| {
            Failure::could_not_run(format!("the embedded simulator has no law `{text}`: {error}"))
        })
    };
    let settings = Settings {
        cpus: cpu.into_iter().collect(),
        ttft: law("50ms")?,
        itl: law("10ms")?,
        max_concurrent: Some(MAX_CONCURRENT),
        ..Settings::default()
    };
    Server::start(&settings).map_err(|error| {
        Failure::could_not_run(format!("the embedded simulator does not start: {error}"))
    })
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
