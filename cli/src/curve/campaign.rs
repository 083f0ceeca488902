//! What all levels have in common, and how one of them is carried out.

use std::sync::Arc;
use std::time::Duration;

use tokclock_engine::measure::curve::{About, Curve, Level, Repetition, Variable};
use tokclock_engine::measure::{Health, Held, Summary};
use tokclock_engine::run::{self as engine, Asked, Idle};

use super::resume;
use super::spot::{self, Range};
use crate::args::CommonArgs;
use crate::config::Options;
use crate::exit::Failure;
use crate::fleet::{self, Fleet, Shared, Wanted};
use crate::interrupt::Interrupts;
use crate::output::Screen;
use crate::place::Place;
use crate::progress::Course;
use crate::report;
use crate::report::text::{duration, number};
use crate::resolve::Draft;
use crate::resolve::gather::{Gathered, Needed};
use crate::resolve::shard;
use crate::results::{LEVELS, ResultDir};
use crate::stage::Stage;
use crate::values::Span;

/// How long the server may take to be idle, unless `--idle-wait` says otherwise.
pub(super) const IDLE_WAIT: Span = Span::from_ns(30_000_000_000);
/// Requests of the pilot, after one that warms.
const PILOT_REQUESTS: u64 = 3;
/// A level is so many times as long as a request takes alone, unless `--duration` says otherwise, ns.
const REQUESTS_OF_LEVEL: u64 = 10;
const LEVEL_MIN_NS: u64 = 10_000_000_000;
const LEVEL_MAX_NS: u64 = 60_000_000_000;

/// A server is asked so often before it counts as gone: one question may meet a bad moment.
const REACH_TRIES: u32 = 3;
const REACH_PAUSE: Duration = Duration::from_millis(250);

/// The name of the pilot's directory.
const PILOT: &str = "pilot";

/// What all levels have in common.
pub(super) struct Campaign {
    /// The options with everything filled in, at the load that stands for all.
    pub(super) draft: Draft,
    pub(super) range: Range,
    pub(super) dir: ResultDir,
    pub(super) interrupts: Arc<Interrupts>,
    pub(super) screen: Screen,
    pub(super) stage: Stage,
    /// A page is left beside the figures at the end.
    pub(super) with_page: bool,
    idle_ns: u64,
    /// Who sends, where this process does not.
    fleet: Option<Fleet>,
}

/// A load point that was carried out, now or before.
pub(super) struct Ran {
    pub(super) value: f64,
    /// Counts the runs at this load from 0.
    pub(super) repetition: usize,
    pub(super) summary: Summary,
    /// Its directory, relative to that of the whole.
    pub(super) dir: String,
}

impl Campaign {
    /// Finds the server, makes the directory, or opens that which goes on.
    ///
    /// # Errors
    /// If the options make no sense, or something is missing.
    pub(super) fn prepare(
        mut options: Options,
        name: &str,
        (idle_wait, resume): (Option<Span>, Option<&std::path::Path>),
        common: &CommonArgs,
        allowed: &[usize],
    ) -> Result<Self, Failure> {
        let screen = common.screen();
        options.name.get_or_insert_with(|| name.to_owned());
        let place = Place::default();
        let wanted = Wanted::of(&common.fleet, &options)?;
        if wanted.is_some() {
            fleet::fill(&mut options, screen);
        }
        let (range, mut draft) =
            drafted(options, allowed, &|needed| place.gather(needed, allowed))?;
        if let Some(wanted) = &wanted {
            wanted.mark(&mut draft);
        }
        let dir = match resume {
            Some(path) => ResultDir::reopen(path)?,
            None => ResultDir::create(draft.options().out.as_deref(), draft.name())?,
        };
        let interrupts = Interrupts::watch(screen, dir.path())?;
        let stage =
            Stage::prepare(&draft, place, common, allowed).inspect_err(|_| dir.abandon())?;
        let content = &draft.options().content;
        let is_kept_apart = content.cache_bust.as_deref().is_some_and(|how| how != "none");
        if content.data.is_some() && !is_kept_apart {
            screen.note(
                "the recording is sent anew at each level, so that a prefix cache knows it: \
                 --cache-bust run prevents that",
            );
        }
        let fleet = wanted.map(|wanted| Fleet::start(&wanted, screen)).transpose();
        let fleet = fleet.inspect_err(|_| dir.abandon())?;
        let idle_ns = idle_wait.unwrap_or(IDLE_WAIT).ns();
        let with_page = !common.no_report;
        Ok(Self { draft, range, dir, interrupts, screen, stage, with_page, idle_ns, fleet })
    }

    /// The text of `run.toml` of the whole: the options of a level, with the levels in place of a load,
    /// and those of the command.
    ///
    /// # Errors
    /// If a value cannot be written as TOML.
    pub(super) fn toml(
        &self,
        command: &str,
        extra: &impl serde::Serialize,
        change: impl FnOnce(&mut Options),
    ) -> Result<String, Failure> {
        let model = &self.stage.workload.target.model;
        let own = self.draft.saved(model, |options| {
            match self.range.variable {
                Variable::Concurrency => options.concurrency = Some(self.range.levels.clone()),
                Variable::Rate => options.rate = Some(self.range.levels.clone()),
            }
            // Each level has the ramp of its own users.
            options.ramp = self.draft.ramp();
            change(options);
        })?;
        let extra = toml::to_string(extra)
            .map_err(|error| Failure::could_not_run(format!("run.toml: {error}")))?;
        let target = if self.draft.options().servers().is_empty() {
            "# No url: the embedded simulator.\n"
        } else {
            ""
        };
        Ok(format!("# Reproduces this: tokclock {command} --config run.toml\n{target}{extra}{own}"))
    }

    /// Whether the user wants it to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.interrupts.control().is_stopped()
    }

    /// The seed of the whole.
    pub(super) fn seed(&self) -> u64 {
        self.stage.workload.seed
    }

    /// Carries out a load point with these options changed, in `levels/NAME`.
    ///
    /// # Errors
    /// If it cannot be done or saved.
    pub(super) fn point(
        &self,
        name: &str,
        course: &Course,
        change: impl FnOnce(&mut Options),
    ) -> Result<Summary, Failure> {
        self.rest();
        self.point_at_once(name, course, change)
    }

    /// The same, whatever the servers still have to do.
    ///
    /// # Errors
    /// If it cannot be done or saved.
    pub(super) fn point_at_once(
        &self,
        name: &str,
        course: &Course,
        change: impl FnOnce(&mut Options),
    ) -> Result<Summary, Failure> {
        let draft = self.at(name, change)?;
        let workload = draft.loaded(&self.stage.workload);
        let dir = self.dir.level(name)?;
        dir.write_run(&draft.run_toml(&workload.target.model)?)?;
        self.interrupts.load_starts();
        let Some(fleet) = &self.fleet else {
            return self.stage.point(&workload, name, &dir, &self.interrupts, course);
        };
        let theirs = format!("{LEVELS}/{name}");
        let shared =
            Shared { stage: &self.stage, draft: &draft, workload: &workload, name: &theirs };
        let hosts = fleet.prepare(&shared, self.interrupts.control())?;
        fleet.carry_out(hosts, &dir, &self.interrupts, course)
    }

    /// What became of workers that were lost in the last load, if any were. Such a load counts as cut
    /// off: its directory is kept aside.
    ///
    /// # Errors
    /// If its directory cannot be renamed.
    pub(super) fn lost(&self, name: &str) -> Result<Option<String>, Failure> {
        let lost = self.fleet.as_ref().and_then(Fleet::lost);
        if lost.is_some() {
            self.dir.set_aside(name)?;
        }
        Ok(lost)
    }

    /// The same for a load without which nothing goes on.
    ///
    /// # Errors
    /// If a worker was lost, or the directory cannot be renamed.
    pub(super) fn none_lost(&self, name: &str) -> Result<(), Failure> {
        match self.lost(name)? {
            Some(lost) => Err(Failure::could_not_run(format!("{lost}; nothing more was sent"))),
            None => Ok(()),
        }
    }

    /// What `levels/NAME` holds, if it is the whole result of just this load point.
    ///
    /// # Errors
    /// If this is no load point.
    pub(super) fn had(
        &self,
        name: &str,
        change: impl FnOnce(&mut Options),
    ) -> Result<Option<Summary>, Failure> {
        let wanted = self.at(name, change)?.run_toml(&self.stage.workload.target.model)?;
        let dir = self.dir.path().join(LEVELS).join(name);
        let is_it = std::fs::read_to_string(dir.join("run.toml")).is_ok_and(|run| run == wanted);
        let whole = resume::summary(&dir).filter(|summary| is_it && !summary.run.interrupted);
        Ok(whole)
    }

    /// The options with these changed.
    fn at(&self, name: &str, change: impl FnOnce(&mut Options)) -> Result<Draft, Failure> {
        self.draft.with_load(|options| {
            options.name = Some(name.to_owned());
            change(options);
        })
    }

    /// What the whole is about.
    pub(super) fn about(&self, runs: &[Ran]) -> Option<About> {
        let first = runs.first()?;
        let shards = |ran: &Ran| ran.summary.merge.as_ref().map(|merge| merge.shards);
        let hosts = runs.iter().filter_map(shards).max().filter(|hosts| *hosts > 1);
        Some(About { hosts, ..About::of(&first.summary, self.draft.name(), self.seed()) })
    }

    /// Writes `curve.json` and `curve.csv`.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn write_curve(&self, curve: &Curve) -> Result<(), Failure> {
        let csv = report::curve_csv(curve)
            .map_err(|error| Failure::could_not_run(format!("curve.csv: {error}")))?;
        self.dir.write_json("curve.json", curve)?;
        self.dir.write_bytes("curve.csv", &csv)
    }

    /// Waits until the servers have nothing left of the level before.
    fn rest(&self) {
        let servers = Asked::all(&self.stage.workload.target);
        let is_over = || self.is_stopped();
        if engine::wait_idle(servers, self.idle_ns, is_over) == Idle::No && !self.is_stopped() {
            self.screen.note(
                "the server is still busy with what was sent before: what follows is measured beside \
                 that (--idle-wait waits longer)",
            );
        }
    }

    /// Carries out the run of one load, or takes it from `before`.
    ///
    /// # Errors
    /// If it cannot be done or saved.
    pub(super) fn level(
        &self,
        (value, repetition): (f64, usize),
        name: &str,
        course: &Course,
        length: Option<Span>,
    ) -> Result<Ran, Failure> {
        let variable = self.range.variable;
        let seed = spot::seed(self.seed(), value, repetition);
        let summary = self.point(name, course, |options| {
            spot::set_load(options, variable, value);
            options.seed = Some(seed);
            if length.is_some() {
                options.duration = length;
            }
        })?;
        let ran = Ran { value, repetition, summary, dir: format!("{LEVELS}/{name}") };
        self.screen.note(format_args!("{}: {}", course.label, self.said(&ran)));
        Ok(ran)
    }

    /// What is known of a server that nobody asked before: how long a request takes alone. Carried out
    /// once; a resumed sweep reads it again.
    ///
    /// # Errors
    /// If no request succeeds.
    pub(super) fn pilot(&self) -> Result<u64, Failure> {
        let dir = self.dir.path().join(LEVELS).join(PILOT);
        let summary = match resume::summary(&dir) {
            Some(summary) => summary,
            None => {
                let course = Course { label: "pilot".to_owned(), after_ns: None };
                let seed = spot::seed(self.seed(), 0.0, 0);
                self.point(PILOT, &course, |options| {
                    spot::set_alone(options, PILOT_REQUESTS);
                    options.seed = Some(seed);
                })
                .and_then(|summary| self.none_lost(PILOT).map(|()| summary))?
            }
        };
        let e2e = summary.latency.e2e.percentiles.p50;
        e2e.filter(|ns| *ns > 0).ok_or_else(|| {
            let examples = summary.requests.error_examples.iter().next();
            let why = match examples {
                Some((class, text)) => format!("{class}: {text}"),
                None => "none has ended".to_owned(),
            };
            Failure::could_not_run(format!(
                "not one of the first requests succeeded, one after the other ({why}); nothing more \
                 was sent"
            ))
        })
    }

    /// How long a level is where nobody said: some times as long as a request takes alone.
    pub(super) fn level_length(e2e_ns: u64) -> Span {
        let ns = e2e_ns.saturating_mul(REQUESTS_OF_LEVEL).clamp(LEVEL_MIN_NS, LEVEL_MAX_NS);
        Span::from_ns(ns.next_multiple_of(1_000_000_000))
    }

    /// Whether the options leave open how long a level is.
    pub(super) fn has_no_length(options: &Options) -> bool {
        options.duration.is_none()
            && options.requests.is_none()
            && options.sessions.is_none()
            && options.until.is_none()
    }

    /// Whether a server does not answer any more after a level with failures. Such a level says
    /// nothing of its load: it counts as cut off.
    ///
    /// # Errors
    /// If its directory cannot be renamed.
    pub(super) fn is_server_gone(&self, ran: &Ran) -> Result<bool, Failure> {
        let requests = &ran.summary.requests;
        if requests.ok > 0 && requests.failed == 0 {
            return Ok(false);
        }
        let is_silent = |asked: Asked<'_>| {
            let mut tries = (0..REACH_TRIES).map(|at| {
                std::thread::sleep(REACH_PAUSE * at.min(1));
                engine::reach(&asked).is_err()
            });
            tries.all(|is_silent| is_silent)
        };
        let is_gone = Asked::all(&self.stage.workload.target).any(is_silent);
        if is_gone {
            let name = ran.dir.rsplit('/').next().unwrap_or(&ran.dir);
            self.dir.set_aside(name)?;
        }
        Ok(is_gone)
    }

    /// One line on a level.
    fn said(&self, ran: &Ran) -> String {
        let (judged, rate) = (&ran.summary.judged, &ran.summary.rate);
        let mut parts = vec![
            format!("{} requests/s", number(rate.rps)),
            format!("{} tokens/s", number(rate.output_tps)),
            format!("TTFT p95 {}", duration(judged.ttft.percentiles.p95)),
        ];
        if let Some(share) = ran.summary.requests.error_rate.filter(|share| *share > 0.0) {
            parts.push(format!("{} % failed", number(Some(share * 100.0))));
        }
        if let Some(slo) = &ran.summary.slo {
            parts.push(match slo.verdict {
                Held::Pass => "objectives pass".to_owned(),
                Held::Fail => "objectives FAIL".to_owned(),
                Held::Unknown => "objectives unknown".to_owned(),
            });
        }
        match ran.summary.client.verdict {
            Health::Valid => {}
            Health::Suspect => parts.push("client suspect".to_owned()),
            Health::Invalid => parts.push("client INVALID".to_owned()),
        }
        parts.join(", ")
    }
}

/// What is varied, and the draft of the load that stands for all.
///
/// # Errors
/// If the options make no sense.
pub(super) fn drafted(
    mut options: Options,
    allowed: &[usize],
    gather: &dyn Fn(&Needed<'_>) -> Result<Gathered, Failure>,
) -> Result<(Range, Draft), Failure> {
    shard::refuse(&options, "name the hosts with --worker")?;
    let range = Range::of(&options)?;
    spot::fill(&mut options);
    spot::set_load(&mut options, range.variable, range.representative());
    let draft = Draft::new(options, allowed, gather)?;
    // What is no load is told before anything is sent, and not when its turn comes.
    for value in range.listed().unwrap_or_default() {
        draft.with_load(|options| spot::set_load(options, range.variable, value))?;
    }
    Ok((range, draft))
}

/// The levels that some runs make up, in the order in which their loads came.
pub(super) fn levels(runs: &[Ran]) -> Vec<Level> {
    let mut values: Vec<f64> = Vec::new();
    for ran in runs {
        if !values.contains(&ran.value) {
            values.push(ran.value);
        }
    }
    let level = |value: f64| {
        let mut own: Vec<&Ran> = runs.iter().filter(|ran| ran.value == value).collect();
        own.sort_by_key(|ran| ran.repetition);
        let repetition = |ran: &&Ran| Repetition::of(&ran.summary).with_dir(&ran.dir);
        Level::of(value, own.iter().map(repetition).collect())
    };
    values.into_iter().map(level).collect()
}
