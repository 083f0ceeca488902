//! `tokclock baseline`: what the client costs on this host, and how far its figures can be trusted.
//!
//! ```text
//! child    the simulator, a process of its own ─┐
//! point    one load, bench carries it out ──────┼─► truth: both ends compared ─► ladder, ceiling
//! memory   what an open stream takes            ┘                                 │
//!                                                          result: baseline.json ◄┤
//!                   store, known: where runs find it again ◄──────────────────────┘
//! ```

mod bench;
mod ceiling;
mod child;
pub(crate) mod known;
mod ladder;
mod memory;
mod point;
pub(crate) mod result;
pub(crate) mod store;
mod truth;

use std::path::Path;

use tokclock_engine::clock::realtime_ns;
use tokclock_engine::telemetry::host::{Files, load_average};

use crate::args::BaselineArgs;
use crate::exit::{Code, Failure};
use crate::interrupt::Interrupts;
use crate::output::{self, Screen};
use crate::results::ResultDir;
use crate::values::Span;
use crate::{host, report};
use bench::Bench;
use ladder::Plan;
use result::{Baseline, Bounds, Build, CeilingReport, Kind, SCHEMA};

/// Streams of the ladder.
const STREAMS: [u64; 6] = [1, 8, 64, 256, 1000, 4000];
/// Those of `--quick`.
const STREAMS_QUICK: [u64; 3] = [1, 64, 1000];
/// Streams of the ladder, at most.
const STREAMS_MAX: u64 = 100_000;
/// How long each load lasts.
const DURATION: Span = Span::from_ns(2_000_000_000);
/// With `--quick`.
const DURATION_QUICK: Span = Span::from_ns(500_000_000);
/// The longest that makes sense.
const DURATION_MAX: Span = Span::from_ns(600_000_000_000);
/// Error of TTFT at its p99: 1 % of a TTFT of 50 ms, which is a quick answer.
const TTFT_BOUND: Span = Span::from_ns(500_000);
/// Error of gaps at their p99: 1 % of an ITL of 10 ms, which is a quick stream.
const GAP_BOUND: Span = Span::from_ns(100_000);
/// A rate counts as kept with so much of it: the rest is what requests take between two streams.
const ACHIEVED_SHARE: f64 = 0.95;
/// Above this a load is repeated: the hypervisor's part in it is no longer small beside the bounds.
const STEAL_SHARE: f64 = 0.005;
/// A load average above this, for each CPU, is worth a remark.
const QUIET: f64 = 0.5;

/// Measures this host and gives the exit code. `allowed` are the CPUs that this process may use.
///
/// # Errors
/// If the options make no sense, or it cannot be measured or saved.
pub(crate) fn run(args: &BaselineArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let screen = Screen { quiet: args.quiet, json: args.json };
    let (plan, bounds) = plan(args)?;
    let dir = ResultDir::create(args.out.as_deref(), "baseline")?;
    let interrupts = Interrupts::watch(screen, dir.path())?;
    interrupts.load_starts();
    let mut bench = match Bench::new(allowed, bounds, screen, &interrupts, dir.path()) {
        Ok(bench) => bench,
        Err(failure) => {
            dir.abandon();
            return Err(failure);
        }
    };
    let mut baseline = begin(&bench);
    let measured = measure(&mut bench, &plan, &mut baseline);
    if measured.is_err() && baseline.ladder.is_empty() {
        dir.abandon();
        return measured.map(|_| Code::CouldNotRun);
    }
    baseline.complete = matches!(measured, Ok(true));
    (baseline.driver, baseline.ring) = bench.driver.clone();
    baseline.notes.append(&mut bench.notes);
    finish(&baseline, &dir, screen, args.json)?;
    match measured {
        Ok(true) => Ok(Code::Ok),
        Ok(false) => Ok(Code::Interrupted),
        Err(failure) => Err(failure),
    }
}

/// How thorough it is to be, and what counts as kept.
fn plan(args: &BaselineArgs) -> Result<(Plan, Bounds), Failure> {
    let quick = args.quick;
    let default = if quick { DURATION_QUICK } else { DURATION };
    let duration = args.duration.unwrap_or(default).ns();
    if !(1..=DURATION_MAX.ns()).contains(&duration) {
        return Err(Failure::usage(format!(
            "--duration is that of one load: give more than 0s and at most {DURATION_MAX}"
        )));
    }
    let mut streams = args.streams.clone();
    if streams.is_empty() {
        streams = if quick { STREAMS_QUICK.to_vec() } else { STREAMS.to_vec() };
    }
    if let Some(wrong) = streams.iter().find(|streams| !(1..=STREAMS_MAX).contains(*streams)) {
        return Err(Failure::usage(format!(
            "--streams {wrong} is out of range: give 1 to {STREAMS_MAX}"
        )));
    }
    streams.sort_unstable();
    streams.dedup();
    let bound = |flag: &str, given: Option<Span>, default: Span| match given.unwrap_or(default).ns()
    {
        0 => {
            Err(Failure::usage(format!("{flag} 0s is kept by nobody: give one such as {default}")))
        }
        ns => Ok(ns),
    };
    let bounds = Bounds {
        ttft_p99_ns: bound("--ttft-bound", args.ttft_bound, TTFT_BOUND)?,
        gap_p99_ns: bound("--gap-bound", args.gap_bound, GAP_BOUND)?,
        achieved_share: ACHIEVED_SHARE,
        steal_share: STEAL_SHARE,
    };
    let plan = Plan {
        streams,
        duration_ns: duration,
        factor: if quick { 2.0 } else { 1.5 },
        refinements: u32::from(!quick),
        runs: if quick { 1 } else { 3 },
    };
    Ok((plan, bounds))
}

fn begin(bench: &Bench<'_>) -> Baseline {
    let build = Build::this();
    let mut notes = Vec::new();
    if bench.placement.is_shared {
        notes.push(
            "client and simulator had to share one CPU: the errors hold what each waited for the \
             other, and the ceilings are those of both together"
                .to_owned(),
        );
    }
    if build.profile == "debug" {
        notes.push("a debug build was measured: a release build is several times as fast".into());
    }
    if let Some(load) =
        load_average(&Files::here()).filter(|load| *load > QUIET * bench.allowed.len() as f64)
    {
        notes.push(format!(
            "this host was not quiet: a load average of {load} before it began; the errors hold \
             what others took"
        ));
    }
    Baseline {
        schema: SCHEMA.into(),
        complete: false,
        host: host::describe_with_key(bench.allowed),
        tokclock: build,
        taken_realtime_ns: realtime_ns(),
        driver: String::new(),
        ring: String::new(),
        placement: bench.placement.clone(),
        bounds: bench.bounds,
        ladder: Vec::new(),
        ceiling: CeilingReport::default(),
        memory_bytes_per_stream: None,
        memory: None,
        notes,
    }
}

/// Measures one thing after another into `baseline`; false if it was interrupted.
fn measure(bench: &mut Bench<'_>, plan: &Plan, baseline: &mut Baseline) -> Result<bool, Failure> {
    let most = plan.streams.iter().copied().max().unwrap_or(1);
    match memory::measure(bench, most) {
        Ok(memory) => baseline.memory = memory,
        // So many streams are not possible here; the ladder says how many are.
        Err(failure) => bench.notes.push(format!("memory was not measured: {failure}")),
    }
    baseline.memory_bytes_per_stream = baseline.memory.and_then(|memory| memory.per_stream());
    if !ladder::streams(bench, plan, &mut baseline.ladder)? {
        return Ok(false);
    }
    let Some((reads, limit)) = ladder::rates(bench, plan, &mut baseline.ladder)? else {
        return Ok(false);
    };
    let ceiling = &mut baseline.ceiling;
    (ceiling.reads_per_s, ceiling.limited_by.reads) = (reads, Some(limit));
    let ladder = &mut baseline.ladder;
    let Some(found) = ceiling::find(bench, plan, Kind::Chunks, ladder)? else { return Ok(false) };
    (ceiling.chunks_per_s, ceiling.chunks_runs) = (found.median, found.runs);
    ceiling.limited_by.chunks = Some(found.limit);
    let Some(found) = ceiling::find(bench, plan, Kind::Requests, ladder)? else { return Ok(false) };
    (ceiling.requests_per_s, ceiling.requests_runs) = (found.median, found.runs);
    ceiling.limited_by.requests = Some(found.limit);
    Ok(!bench.is_stopped())
}

/// Saves it, for the reader and for later runs, and shows it.
fn finish(baseline: &Baseline, dir: &ResultDir, screen: Screen, json: bool) -> Result<(), Failure> {
    let path = dir.path().join("baseline.json");
    store::write_whole(&path, baseline).map_err(|error| {
        Failure::could_not_run(format!("cannot write {}: {error}", path.display()))
    })?;
    dir.write_page("baseline.md", &report::baseline_page(baseline))?;
    screen.report(&report::baseline_console(baseline, screen.width(), screen.colour()));
    screen.note(format_args!("results: {}", dir.path().display()));
    if baseline.complete {
        keep(baseline, store::directory().as_deref(), screen);
    } else {
        screen.note("it is incomplete, so later runs do not use it");
    }
    if json {
        let text = serde_json::to_string_pretty(baseline)
            .map_err(|error| Failure::could_not_run(format!("baseline.json: {error}")))?;
        output::result(text);
    }
    Ok(())
}

/// Puts it where later runs find it. Without that it is still of use, so no failure.
fn keep(baseline: &Baseline, directory: Option<&Path>, screen: Screen) {
    let Some(directory) = directory else {
        screen.note(
            "later runs will not find it: neither XDG_STATE_HOME nor HOME names a directory; give \
             them `--baseline FILE`",
        );
        return;
    };
    match store::save(directory, host::key_of(&baseline.host), baseline) {
        Ok(path) => screen.note(format_args!("for later runs: {}", path.display())),
        Err(error) => screen.note(format_args!(
            "later runs will not find it: cannot write to {}: {error}; give them `--baseline FILE`",
            directory.display()
        )),
    }
}

/// A baseline as tests need one.
#[cfg(test)]
pub(crate) fn sample(host_key: &str) -> Baseline {
    use result::{LimitedBy, Memory, Placement};
    Baseline {
        schema: SCHEMA.into(),
        complete: true,
        host: serde_json::json!({
            "key": host_key, "cpu_model": "Fast CPU", "kernel": "6.1", "cpus": [0, 1],
        }),
        tokclock: Build::this(),
        taken_realtime_ns: 1_790_000_000_000_000_000,
        driver: "io_uring".into(),
        ring: "SINGLE_ISSUER|DEFER_TASKRUN".into(),
        placement: Placement { reactor_cpu: 1, simulator_cpus: vec![0], is_shared: false },
        bounds: Bounds {
            ttft_p99_ns: TTFT_BOUND.ns(),
            gap_p99_ns: GAP_BOUND.ns(),
            achieved_share: ACHIEVED_SHARE,
            steal_share: STEAL_SHARE,
        },
        ladder: Vec::new(),
        ceiling: CeilingReport {
            reads_per_s: Some(210_000.0),
            chunks_per_s: Some(2_100_000.0),
            requests_per_s: None,
            limited_by: LimitedBy {
                reads: Some(result::Limit::Client),
                chunks: Some(result::Limit::Server),
                requests: Some(result::Limit::Neither),
            },
            chunks_runs: vec![2_000_000.0, 2_100_000.0, 2_200_000.0],
            requests_runs: Vec::new(),
        },
        memory_bytes_per_stream: Some(9_216),
        memory: Some(Memory {
            few_streams: 100,
            few_bytes: 10 << 20,
            many_streams: 1_124,
            many_bytes: 19 << 20,
        }),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse_baseline;

    fn planned(options: &[&str]) -> Result<(Plan, Bounds), Failure> {
        plan(&parse_baseline(options))
    }

    #[test]
    fn without_options_the_whole_ladder_is_measured() {
        let (plan, bounds) = planned(&[]).unwrap();
        assert_eq!(plan.streams, STREAMS);
        assert_eq!(plan.duration_ns, DURATION.ns());
        assert_eq!((bounds.ttft_p99_ns, bounds.gap_p99_ns), (500_000, 100_000));
    }

    #[test]
    fn what_is_given_wins_over_quick_and_comes_in_order() {
        let (plan, bounds) =
            planned(&["--quick", "--streams", "64,1,64", "--gap-bound", "20us"]).unwrap();
        assert_eq!(plan.streams, [1, 64]);
        assert_eq!(plan.duration_ns, DURATION_QUICK.ns());
        assert_eq!((bounds.gap_p99_ns, plan.runs), (20_000, 1));
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        for options in [
            &["--duration", "0s"][..],
            &["--duration", "1h"],
            &["--streams", "0"],
            &["--streams", "5,200000"],
            &["--ttft-bound", "0s"],
            &["--gap-bound", "0s"],
        ] {
            let failure = planned(options).unwrap_err();
            assert_eq!(failure.code, Code::Usage);
            assert!(failure.message.contains(options[0]), "{failure}");
        }
    }
}
