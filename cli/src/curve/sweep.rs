//! `tokclock sweep`.

use std::path::Path;

use tokclock_engine::measure::Summary;
use tokclock_engine::measure::curve::{
    Curve, Level, ParetoPoint, Point, Recovery, Variable, pareto,
};
use tokclock_engine::run::ladder::{Ladder, Levels as Rungs, Seen};

use super::campaign::{Campaign, Ran, levels};
use super::recovery::recovery;
use super::{resume, spot};
use crate::args::SweepArgs;
use crate::config::{CurveOptions, Options};
use crate::exit::{Code, Failure};
use crate::output;
use crate::progress::Course;
use crate::report;
use crate::values::Span;

/// More failures, or less of what was offered served than this: nothing is to be seen further up.
const HOPELESS: f64 = 0.5;
/// Repetitions, at most.
const REPEAT_MAX: u32 = 1000;

/// Goes through the levels and gives the exit code.
///
/// # Errors
/// If the options make no sense, or it cannot be done or saved.
pub(crate) fn sweep(args: &SweepArgs, allowed: &[usize]) -> Result<Code, Failure> {
    resume::check(args.resume.as_deref(), "sweep")?;
    let (options, extra) = args.options()?;
    check(&extra)?;
    let beside = args.beside.iter().map(|dir| others(dir)).collect::<Result<Vec<_>, _>>()?;
    let open_length = Campaign::has_no_length(&options);
    let place = (extra.idle_wait, args.resume.as_deref());
    let campaign = Campaign::prepare(options, "sweep", place, &args.common, allowed)?;
    let mut sweep = Sweep::begin(campaign, extra, open_length, beside.concat())?;
    let end = sweep.climb()?;
    sweep.finish(end)
}

/// Looks at the options that only a sweep has.
///
/// # Errors
/// A usage error if they make no sense.
pub(super) fn check(extra: &CurveOptions) -> Result<(), Failure> {
    if (1..=REPEAT_MAX).contains(&extra.repeat.unwrap_or(1)) {
        return Ok(());
    }
    Err(Failure::usage(format!("--repeat: give 1 to {REPEAT_MAX}")))
}

/// A sweep under way.
struct Sweep {
    campaign: Campaign,
    extra: CurveOptions,
    ladder: Ladder,
    /// How long a level is, where that is not what the options say.
    length: Option<Span>,
    /// Points of other results.
    beside: Vec<Point>,
    runs: Vec<Ran>,
    recovery: Option<Recovery>,
}

/// How a sweep ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Whole,
    Interrupted,
    ServerGone,
    /// What became of workers.
    WorkersLost(String),
}

impl Sweep {
    fn begin(
        campaign: Campaign,
        extra: CurveOptions,
        open_length: bool,
        beside: Vec<Point>,
    ) -> Result<Self, Failure> {
        let listed = campaign.range.listed();
        let is_auto = listed.is_none();
        campaign.dir.write_run(&sweep_toml(&campaign, &extra, None)?)?;
        let mut alone = None;
        if open_length || (is_auto && campaign.range.variable == Variable::Rate) {
            alone = Some(campaign.pilot()?);
        }
        let length = open_length.then(|| alone.map(Campaign::level_length)).flatten();
        campaign.dir.write_run(&sweep_toml(&campaign, &extra, length)?)?;
        let start = match (campaign.range.variable, alone) {
            // What one user alone gets done.
            (Variable::Rate, Some(e2e_ns)) => 1e9 / e2e_ns as f64,
            _ => 1.0,
        };
        let ladder = Ladder {
            levels: match listed {
                Some(values) => Rungs::Listed(values),
                None => Rungs::Auto { start, most: campaign.range.most() },
            },
            whole: campaign.range.is_whole(),
            overload: extra.overload.unwrap_or(is_auto),
            keep_going: extra.keep_going.unwrap_or(false),
        };
        let runs = resume::runs(campaign.dir.path());
        if !runs.is_empty() {
            campaign.screen.note(resume::found(runs.len()));
        }
        Ok(Self { campaign, extra, ladder, length, beside, runs, recovery: None })
    }

    /// Runs what is not there yet.
    fn climb(&mut self) -> Result<End, Failure> {
        let repeat = self.extra.repeat.unwrap_or(1) as usize;
        if let (Rungs::Listed(values), true) = (&self.ladder.levels, repeat > 1) {
            let all = self.shuffled(&values.clone(), 0, repeat);
            let end = self.go_through(all)?;
            if end != End::Whole {
                return Ok(end);
            }
        }
        while let Some(value) = self.ladder.next(&self.seen(), self.curve().knee.best()) {
            let end = self.run(value, 0)?;
            if end != End::Whole {
                return Ok(end);
            }
        }
        let values: Vec<f64> = self.seen().iter().map(|seen| seen.value).collect();
        let rest = self.shuffled(&values, 1, repeat);
        let end = self.go_through(rest)?;
        if end == End::Whole && self.ladder.overload && !self.campaign.is_stopped() {
            self.recovery = recovery(&self.campaign, &self.curve(), self.length)?;
        }
        Ok(if self.campaign.is_stopped() { End::Interrupted } else { end })
    }

    /// Loads and repetitions in an order that the seed draws.
    fn shuffled(&self, values: &[f64], first: usize, repeat: usize) -> Vec<(f64, usize)> {
        let each = |repetition| values.iter().map(move |value| (*value, repetition));
        let mut all: Vec<(f64, usize)> = (first..repeat).flat_map(each).collect();
        // Another key than that of the run itself, which says nothing of when it is its turn.
        let key = self.campaign.seed().rotate_left(32);
        all.sort_by_key(|(value, repetition)| spot::seed(key, *value, *repetition));
        all
    }

    fn go_through(&mut self, all: Vec<(f64, usize)>) -> Result<End, Failure> {
        for (value, repetition) in all {
            let is_there = |ran: &Ran| ran.value == value && ran.repetition == repetition;
            if self.runs.iter().any(is_there) || self.ladder.is_hopeless(value, &self.seen()) {
                continue;
            }
            let end = self.run(value, repetition)?;
            if end != End::Whole {
                return Ok(end);
            }
        }
        Ok(End::Whole)
    }

    fn run(&mut self, value: f64, repetition: usize) -> Result<End, Failure> {
        if self.campaign.is_stopped() {
            return Ok(End::Interrupted);
        }
        let name = resume::name(self.number_of(value), repetition);
        let course = self.course(value, repetition);
        let ran = match self.campaign.level((value, repetition), &name, &course, self.length) {
            Ok(ran) => ran,
            Err(failure) => {
                let lost = self.campaign.lost(&name)?.ok_or(failure)?;
                return Ok(End::WorkersLost(lost));
            }
        };
        if ran.summary.run.interrupted {
            // Its directory keeps what it measured; a level that was cut short is none.
            return Ok(End::Interrupted);
        }
        if let Some(lost) = self.campaign.lost(&name)? {
            return Ok(End::WorkersLost(lost));
        }
        if self.campaign.is_server_gone(&ran)? {
            return Ok(End::ServerGone);
        }
        self.runs.push(ran);
        self.write()?;
        Ok(End::Whole)
    }

    /// Levels that were named are numbered as they were named, others as they come.
    fn number_of(&self, value: f64) -> usize {
        let named = match &self.ladder.levels {
            Rungs::Listed(values) => &values[..],
            Rungs::Auto { .. } => &[],
        };
        // Those past the knee come after them.
        let position = named.iter().position(|one| *one == value);
        resume::number_of(value, &self.runs, position, named.len())
    }

    /// Where a level stands among all, and how long those after it will take.
    fn course(&self, value: f64, repetition: usize) -> Course {
        let words = self.campaign.range.words(value);
        let repeat = self.extra.repeat.unwrap_or(1) as usize;
        let again = match repeat {
            1 => String::new(),
            _ => format!(", {} of {repeat}", repetition + 1),
        };
        let number = self.runs.len() + 1;
        let Rungs::Listed(values) = &self.ladder.levels else {
            return Course { label: format!("level {number}: {words}{again}"), after_ns: None };
        };
        let all = (values.len() * repeat).max(number);
        let left = (all - number) as u64;
        let spent = |ran: &Ran| ran.summary.run.end_ns;
        let mean = self.runs.iter().map(spent).sum::<u64>().checked_div(self.runs.len() as u64);
        Course {
            label: format!("level {number} of {all}: {words}{again}"),
            after_ns: mean.map(|mean| mean.saturating_mul(left)),
        }
    }

    fn levels(&self) -> Vec<Level> {
        levels(&self.runs)
    }

    /// What the ladder looks at.
    fn seen(&self) -> Vec<Seen> {
        let curve = self.curve();
        let is_hopeless = |level: &Level| {
            let own = self.runs.iter().filter(|ran| ran.value == level.value);
            own.map(|ran| &ran.summary).any(is_hopeless)
        };
        let seen = |level: &Level| Seen {
            value: level.value,
            is_saturated: level.saturated == Some(true),
            is_hopeless: is_hopeless(level),
        };
        curve.levels.iter().map(seen).collect()
    }

    fn curve(&self) -> Curve {
        let name = self.campaign.draft.name();
        let variable = self.campaign.range.variable;
        let mut curve = Curve::new(variable, self.levels(), name, self.extra.gpus);
        curve.recovery.clone_from(&self.recovery);
        curve.about = self.campaign.about(&self.runs);
        curve.notes.extend(self.left_out());
        if !self.beside.is_empty() {
            let own = curve.levels.iter().map(|level| Point::of(name, level, self.extra.gpus));
            let all: Vec<Point> = own.chain(self.beside.iter().cloned()).collect();
            curve.pareto = pareto(&all);
        }
        curve
    }

    /// Levels that were named and not run.
    fn left_out(&self) -> Option<String> {
        let Rungs::Listed(values) = &self.ladder.levels else { return None };
        let hopeless = self.runs.iter().filter(|ran| is_hopeless(&ran.summary));
        let least = hopeless.map(|ran| ran.value).reduce(f64::min)?;
        let is_out = |value: &&f64| {
            !self.ladder.keep_going
                && **value > least
                && !self.runs.iter().any(|ran| ran.value == **value)
        };
        let words: Vec<String> =
            values.iter().filter(is_out).map(|value| self.campaign.range.words(*value)).collect();
        (!words.is_empty()).then(|| {
            format!(
                "left out: {}, since at {} most requests failed or were not served (--keep-going runs \
                 them)",
                words.join(", "),
                self.campaign.range.words(least)
            )
        })
    }

    fn write(&self) -> Result<Curve, Failure> {
        let curve = self.curve();
        self.campaign.write_curve(&curve)?;
        Ok(curve)
    }

    fn finish(self, end: End) -> Result<Code, Failure> {
        let curve = self.write()?;
        let screen = self.campaign.screen;
        screen.report(&report::curve_page(&curve, screen.width(), screen.colour()));
        let dir = self.campaign.dir.path().display();
        screen.note(format_args!("results: {dir}"));
        if self.campaign.with_page {
            report::html::leave(&self.campaign.dir, screen);
        }
        if screen.json {
            output::json(&curve)?;
        }
        match end {
            End::Interrupted => {
                screen.note(format_args!("to go on: tokclock sweep --resume {dir}"));
                Ok(Code::Interrupted)
            }
            End::ServerGone => Err(Failure::could_not_run(format!(
                "the server does not answer any more: the sweep ends with what it has; to go on: \
                 tokclock sweep --resume {dir}"
            ))),
            End::WorkersLost(lost) => Err(Failure::could_not_run(format!(
                "{lost}: the sweep ends with what it has; to go on: tokclock sweep --resume {dir}, with \
                 workers"
            ))),
            End::Whole if self.runs.iter().all(|ran| ran.summary.requests.ok == 0) => {
                Ok(Code::Failures)
            }
            End::Whole => Ok(Code::Ok),
        }
    }
}

/// Whether a higher load would only show again that this one is too much.
fn is_hopeless(summary: &Summary) -> bool {
    let requests = &summary.requests;
    let few = summary.rate.achieved_share.is_some_and(|share| share < HOPELESS);
    // Where nothing was offered, or is known of what was, a higher load may show more.
    let ended = requests.failed + requests.censored;
    (requests.ok == 0 && ended > 0)
        || few
        || requests.error_rate.is_some_and(|share| share > HOPELESS)
}

/// The points of another sweep.
fn others(dir: &Path) -> Result<Vec<Point>, Failure> {
    let path = dir.join("curve.json");
    let wrong = |why: String| Failure::usage(format!("--beside {}: {why}", path.display()));
    let text = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    let curve: Curve = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let name = dir
        .file_name()
        .map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned());
    let own = curve
        .pareto
        .iter()
        .filter(|point| curve.levels.iter().any(|level| level.value == point.value));
    // How many GPUs there were is in the ratio of the two.
    let gpus = |point: &ParetoPoint| {
        let each = point.output_tps.zip(point.output_tps_per_gpu).map(|(all, each)| all / each);
        each.filter(|count| count.is_finite()).map(|count| count.round() as u32)
    };
    Ok(own
        .map(|point| Point {
            source: name.clone(),
            value: point.value,
            output_tps: point.output_tps,
            gpus: gpus(point),
            ttft_p50: point.ttft_p50,
            per_user_tps: point.per_user_tps,
        })
        .collect())
}

/// The text of the sweep's `run.toml`.
fn sweep_toml(
    campaign: &Campaign,
    extra: &CurveOptions,
    length: Option<Span>,
) -> Result<String, Failure> {
    campaign.toml("sweep", extra, |options: &mut Options| {
        if length.is_some() {
            options.duration = length;
        }
    })
}
