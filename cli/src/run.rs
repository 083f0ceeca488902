//! `tokclock run`: one load point, from this host or from workers.

use tokclock_engine::measure::Summary;

use crate::args::{CommonArgs, RunArgs};
use crate::config::Options;
use crate::exit::{Code, Failure};
use crate::fleet::{Fleet, Shared, Wanted};
use crate::interrupt::Interrupts;
use crate::output::{self, Screen};
use crate::place::Place;
use crate::progress::Course;
use crate::report;
use crate::resolve::Draft;
use crate::results::ResultDir;
use crate::stage::Stage;

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
    let wanted = Wanted::of(&common.fleet, &options)?;
    let mut draft = Draft::new(options, allowed, &|needed| place.gather(needed, allowed))?;
    if let Some(wanted) = &wanted {
        wanted.mark(&mut draft);
    }
    let dir = ResultDir::create(draft.options().out.as_deref(), draft.name())?;
    let interrupts = Interrupts::watch(screen, dir.path())?;
    let stage = Stage::prepare(&draft, place, common, allowed).inspect_err(|_| dir.abandon())?;
    let (summary, is_partial) = match &wanted {
        Some(wanted) => led(wanted, (&stage, &draft), &dir, &interrupts, screen)?,
        None => (alone(&stage, &draft, &dir, &interrupts)?, false),
    };
    show(&summary, &dir, screen)?;
    screen.note(format_args!("results: {}", dir.path().display()));
    if !common.no_report {
        report::html::leave(&dir, screen);
    }
    if screen.json {
        output::json(&summary)?;
    }
    let code = Code::of_run(&summary.verdicts(), draft.max_error_rate);
    // A part of the load is no whole one, however good its figures are.
    Ok(if is_partial && code == Code::Ok { Code::CouldNotRun } else { code })
}

/// Carries out a load point from this host.
fn alone(
    stage: &Stage,
    draft: &Draft,
    dir: &ResultDir,
    interrupts: &Interrupts,
) -> Result<Summary, Failure> {
    dir.write_run(&draft.run_toml(&stage.workload.target.model)?)?;
    interrupts.load_starts();
    stage.point(&stage.workload, draft.name(), dir, interrupts, &Course::default())
}

/// Lets workers carry out a load point; gives whether one of them was lost, too.
fn led(
    wanted: &Wanted,
    (stage, draft): (&Stage, &Draft),
    dir: &ResultDir,
    interrupts: &Interrupts,
    screen: Screen,
) -> Result<(Summary, bool), Failure> {
    let fleet = Fleet::start(wanted, screen).inspect_err(|_| dir.abandon())?;
    let shared = Shared { stage, draft, workload: &stage.workload, name: "run" };
    let hosts = fleet.prepare(&shared, interrupts.control()).inspect_err(|_| dir.abandon())?;
    dir.write_run(&draft.run_toml(&stage.workload.target.model)?)?;
    interrupts.load_starts();
    let summary = fleet.carry_out(hosts, dir, interrupts, &Course::default())?;
    Ok((summary, fleet.lost().is_some()))
}
