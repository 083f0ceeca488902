//! `tokclock sweep` against the simulator: the levels and their files, their order and their prompts,
//! what the curve says of them; and runs that end by what they see.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tempfile::TempDir;
use tokclock_engine::measure::curve::{Curve, PastKnee, Variable};
use tokclock_engine::measure::{Held, Summary};
use tokclock_sim::serving::WhenFull;
use tokclock_tests::command::{Tool, alone, exits_with, json, names, one_clear_line, stderr};
use tokclock_tests::{Sim, Truth, batching, rows};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// Small requests: four steps of the server.
const SMALL: &str = "--isl 16 --osl 4";
/// So long goes before what is measured of an open loop: at its begin fewer end than come.
const BEFORE: &str = "--warmup 300ms";

fn url(sim: &Sim) -> String {
    format!("http://{}", sim.address())
}

/// The command line of a sweep of small requests.
fn sweep(sim: &Sim, out: &str, rest: &str) -> String {
    format!("sweep {} --out {out} {SMALL} {rest}", url(sim))
}

fn curve(dir: &Path) -> Curve {
    json(&dir.join("curve.json"))
}

fn summary(dir: &Path) -> Summary {
    json(&dir.join("summary.json"))
}

fn values(curve: &Curve) -> Vec<f64> {
    curve.levels.iter().map(|level| level.value).collect()
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}

/// The bodies that came to the server, by the requests' ids.
fn bodies(truth: Vec<Truth>) -> BTreeMap<String, String> {
    truth.into_iter().map(|one| (one.request_id.unwrap(), one.body_hash)).collect()
}

/// The bodies of the requests of one result, sorted.
fn sent<'a>(bodies: &'a BTreeMap<String, String>, dir: &Path) -> Vec<&'a str> {
    let mut sent: Vec<&str> =
        rows(dir).iter().map(|row| bodies[&row.request_id].as_str()).collect();
    sent.sort_unstable();
    sent
}

/// The names of the levels of a sweep, in the order in which they were run.
fn order(dir: &Path) -> Vec<String> {
    let mut levels = names(&dir.join("levels"));
    levels.sort_by_key(|name| summary(&dir.join("levels").join(name)).run.start_monotonic_ns);
    levels
}

#[test]
fn each_level_is_a_whole_result_and_the_curve_holds_them_all() {
    let sim = Sim::start(batching(2, 16));
    let dir = TempDir::new().unwrap();
    let line = sweep(&sim, "out", "-c 4,1,2 --requests 60 --warmup 0");
    let output = TOOL.run(dir.path(), &line, &["--slo", "p95(ttft)<5s"]);
    exits_with(&output, 0);
    assert_eq!(sim.stop().0.requests, 180);
    let out = dir.path().join("out");
    assert_eq!(names(&out.join("levels")), ["01", "02", "03"]);
    for name in names(&out.join("levels")) {
        let level = out.join("levels").join(&name);
        for file in ["run.toml", "summary.json", "requests.jsonl", "windows.csv", "histograms.hlog"]
        {
            assert!(level.join(file).metadata().unwrap().len() > 0, "{name}/{file}");
        }
        assert_eq!((summary(&level).requests.ok, rows(&level).len()), (60, 60));
    }
    let curve = curve(&out);
    assert_eq!((curve.variable, values(&curve)), (Variable::Concurrency, vec![1.0, 2.0, 4.0]));
    let dirs: Vec<&str> = curve.levels.iter().map(|level| level.dir.as_str()).collect();
    assert_eq!(dirs, ["levels/01", "levels/02", "levels/03"]);
    for level in &curve.levels {
        let own = summary(&out.join(&level.dir));
        assert_eq!((level.figures.rps, level.slo), (own.rate.rps, Some(Held::Pass)));
        assert_eq!(level.figures.ttft_p95, own.judged.ttft.percentiles.p95);
        assert_eq!(level.repetitions.len(), 1);
    }
    assert_eq!((curve.knee.by_goodput, curve.knee.goodput_still_holds), (Some(4.0), Some(true)));
    let envelope = curve.envelope.unwrap();
    assert_eq!((envelope.holds_from, envelope.holds_to), (Some(1.0), Some(4.0)));
    assert_eq!(envelope.objectives, ["p95(ttft)<5s"]);
    assert_eq!(curve.pareto.len(), 3);
    assert!(curve.about.is_some());
    assert_eq!(lines(&out.join("curve.csv")), 1 + 3);
    let page = String::from_utf8(output.stdout).unwrap();
    for level in ["1", "2", "4"] {
        let is_it = |line: &str| line.split_whitespace().next() == Some(level);
        assert!(page.lines().any(is_it), "no level {level} in {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn the_file_of_a_sweep_repeats_it_and_the_file_of_a_level_that_level() {
    let sim = Sim::start(batching(2, 16));
    let dir = TempDir::new().unwrap();
    let line = sweep(&sim, "out", "-c 1,2,4 --requests 30 --warmup 0 --seed 11 -q");
    let output = TOOL.run(dir.path(), &line, &[]);
    exits_with(&output, 0);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "-q is silent");
    let again = "sweep --config out/run.toml --out again --json";
    let output = TOOL.run(dir.path(), again, &[]);
    exits_with(&output, 0);
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let printed: Curve = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, curve(&again), "the curve and nothing else");
    let level = "run --config out/levels/02/run.toml --out once -q";
    exits_with(&TOOL.run(dir.path(), level, &[]), 0);
    let bodies = bodies(sim.stop().1);
    assert_eq!(bodies.len(), 30 * (3 + 3 + 1));
    let mut all = BTreeSet::new();
    for name in ["01", "02", "03"] {
        let level = Path::new("levels").join(name);
        let first = sent(&bodies, &out.join(&level));
        assert_eq!(first, sent(&bodies, &again.join(&level)), "{name}");
        assert_eq!(summary(&out.join(&level)).run.seed, summary(&again.join(&level)).run.seed);
        all.extend(first);
    }
    assert_eq!(all.len(), 90, "no level sends what another has sent");
    let once = dir.path().join("once");
    assert_eq!(sent(&bodies, &once), sent(&bodies, &out.join("levels/02")));
    assert_eq!(summary(&once).workload.load, summary(&out.join("levels/02")).workload.load);
}

#[test]
fn repetitions_come_in_the_order_of_the_seed_and_none_sends_what_another_sent() {
    const NAMES: [&str; 6] = ["01", "01-2", "02", "02-2", "03", "03-2"];
    let sim = Sim::start(batching(2, 16));
    let dir = TempDir::new().unwrap();
    for (out, seed) in [("a", 5), ("b", 5), ("c", 6)] {
        let rest = format!("-c 1,2,4 --repeat 2 --requests 12 --warmup 0 --seed {seed} -q");
        exits_with(&TOOL.run(dir.path(), &sweep(&sim, out, &rest), &[]), 0);
        assert_eq!(names(&dir.path().join(out).join("levels")), NAMES);
    }
    let at = |name: &str| dir.path().join(name);
    let (a, b, c) = (order(&at("a")), order(&at("b")), order(&at("c")));
    assert_eq!(a, b);
    assert_ne!(a, c, "another seed, another order");
    let bodies = bodies(sim.stop().1);
    let own = |name: &&str| sent(&bodies, &at("a").join("levels").join(name));
    let all: BTreeSet<&str> = NAMES.iter().flat_map(own).collect();
    assert_eq!(all.len(), 6 * 12);
    let curve = curve(&at("a"));
    assert_eq!(curve.levels.len(), 3);
    for level in &curve.levels {
        let dirs: Vec<&str> = level.repetitions.iter().map(|one| one.dir.as_str()).collect();
        assert_eq!(dirs, [level.dir.clone(), format!("{}-2", level.dir)]);
        let rps = level.spread.unwrap().rps.unwrap();
        let seen = |at: usize| level.repetitions[at].figures.rps.unwrap();
        assert_eq!(rps, [seen(0).min(seen(1)), seen(0).max(seen(1))]);
    }
    assert_eq!(lines(&at("a").join("curve.csv")), 1 + 6);
}

#[test]
fn levels_past_the_knee_are_added_repeated_and_recovered_from() {
    let _one = alone();
    // Two at once: with four users each waits as long as it is served.
    let sim = Sim::start(batching(5, 2));
    let dir = TempDir::new().unwrap();
    let line = sweep(&sim, "out", "-c 1,2,4 -d 300ms --warmup 0 --overload --repeat 2");
    exits_with(&TOOL.run(dir.path(), &line, &[]), 0);
    let out = dir.path().join("out");
    let (curve, levels) = (curve(&out), order(&out));
    // There is nothing left to do.
    exits_with(&TOOL.run(dir.path(), "sweep --resume out", &[]), 0);
    let _ = sim.stop();
    assert_eq!(order(&out), levels);
    assert_eq!(json::<Curve>(&out.join("curve.json")).recovery, curve.recovery);
    let knee = curve.knee.best().unwrap();
    let mut levels = curve.levels.iter().collect::<Vec<_>>();
    levels.sort_by(|one, other| one.dir.cmp(&other.dir));
    let seen: Vec<f64> = levels.iter().map(|level| level.value).collect();
    assert!(seen.len() > 3 && seen[..3] == [1.0, 2.0, 4.0], "the others come after: {seen:?}");
    for factor in [1.5, 2.0] {
        let is_near = |load: &f64| (load / (factor * knee).round() - 1.0).abs() <= 0.1;
        assert!(seen.iter().any(is_near), "{factor} times {knee} is not among {seen:?}");
    }
    for (at, level) in levels.iter().enumerate() {
        let dirs: Vec<&str> = level.repetitions.iter().map(|one| one.dir.as_str()).collect();
        assert_eq!(dirs, [format!("levels/{:02}", at + 1), format!("levels/{:02}-2", at + 1)]);
    }
    let recovery = curve.recovery.unwrap();
    assert_eq!(recovery.after, 2.0 * knee);
    assert!(recovery.load <= knee, "{recovery:?}");
}

#[test]
fn a_sweep_by_rate_finds_its_levels_itself() {
    let _one = alone();
    let settings = batching(5, 2);
    let limit = settings.serving.as_ref().unwrap().capacity_rps(16, 4);
    let sim = Sim::start(settings);
    let dir = TempDir::new().unwrap();
    let rest =
        format!("--rate auto -d 1s {BEFORE} --drain 200ms --overload=false --arrival constant");
    exits_with(&TOOL.run(dir.path(), &sweep(&sim, "out", &rest), &[]), 0);
    let out = dir.path().join("out");
    let (curve, levels) = (curve(&out), order(&out));
    assert_eq!(levels[0], "pilot");
    // There is nothing left to do, and the first requests were sent.
    exits_with(&TOOL.run(dir.path(), "sweep --resume out", &[]), 0);
    let _ = sim.stop();
    assert_eq!(order(&out), levels);
    let seen: Vec<(f64, bool)> =
        curve.by_load().iter().map(|level| (level.value, level.saturated.unwrap())).collect();
    let first = seen.iter().find(|(_, is)| *is).unwrap().0;
    // A level of twice the one before has passed it at most by that.
    assert!(first > 0.9 * limit && first < 2.2 * limit, "{limit}: {seen:?}");
    let below: Vec<f64> = seen.iter().map(|one| one.0).filter(|rate| *rate < first).collect();
    assert!(below.len() >= 2 || below.last().is_some_and(|rate| *rate > 0.4 * limit), "{seen:?}");
    assert!(seen.iter().filter(|(_, is)| *is).count() >= 2, "{seen:?}");
}

#[test]
fn beyond_a_hopeless_level_nothing_is_tried_unless_asked_for() {
    let _one = alone();
    // 24 requests/s at most.
    let sim = Sim::start(batching(10, 1));
    let dir = TempDir::new().unwrap();
    let rest = format!("--rate 10,120,150 -d 1s {BEFORE} --drain 100ms --arrival constant");
    let output = TOOL.run(dir.path(), &sweep(&sim, "out", &rest), &[]);
    exits_with(&output, 0);
    assert_eq!(values(&curve(&dir.path().join("out"))), [10.0, 120.0], "{}", stderr(&output));
    let stubborn = format!("{rest} --keep-going");
    exits_with(&TOOL.run(dir.path(), &sweep(&sim, "all", &stubborn), &[]), 0);
    let _ = sim.stop();
    let curve = curve(&dir.path().join("all"));
    assert_eq!(values(&curve), [10.0, 120.0, 150.0]);
    let share = |at: usize| curve.levels[at].figures.achieved_share.unwrap();
    assert!(share(0) > 0.8 && share(1) < 0.5 && share(2) < 0.5, "{curve:?}");
}

#[test]
fn a_server_that_refuses_is_judged_by_what_it_refused() {
    let _one = alone();
    let mut settings = batching(5, 4);
    let serving = settings.serving.as_mut().unwrap();
    serving.when_full = WhenFull::Refuse;
    let sim = Sim::start(settings);
    let dir = TempDir::new().unwrap();
    // Some 195 requests/s at most.
    let line = sweep(&sim, "out", &format!("--rate 30,80,150,320 -d 1500ms {BEFORE}"));
    exits_with(&TOOL.run(dir.path(), &line, &["--slo", "error_rate<=20%"]), 0);
    let _ = sim.stop();
    let curve = curve(&dir.path().join("out"));
    assert_eq!(values(&curve), [30.0, 80.0, 150.0, 320.0]);
    let last = curve.levels.last().unwrap();
    assert_eq!((curve.levels[0].slo, last.slo), (Some(Held::Pass), Some(Held::Fail)));
    assert!(last.figures.refused_share.unwrap() > 0.25, "{:?}", last.figures);
    assert_eq!(last.figures.refused_share, last.figures.error_rate);
    assert_eq!(curve.past_knee, Some(PastKnee::Sheds));
    let envelope = curve.envelope.unwrap();
    assert!(envelope.holds_to.unwrap() < 320.0, "{envelope:?}");
    assert_eq!(envelope.above.unwrap().broke, ["error_rate<=20%"]);
}

#[test]
fn a_sweep_without_a_server_is_one_of_the_embedded_simulator() {
    let dir = TempDir::new().unwrap();
    let line = "sweep -c 1,2 --requests 6 --isl 16 --osl 2 --warmup 0 --name first";
    let output = TOOL.run(dir.path(), line, &[]);
    exits_with(&output, 0);
    let results = names(&dir.path().join("tokclock-results"));
    assert_eq!(results.len(), 1);
    assert!(results[0].ends_with("-first"), "{results:?}");
    let out = dir.path().join("tokclock-results").join(&results[0]);
    assert_eq!(values(&curve(&out)), [1.0, 2.0]);
    let toml = std::fs::read_to_string(out.join("run.toml")).unwrap();
    assert!(toml.contains("concurrency = \"1,2\"") && !toml.contains("url ="), "{toml}");
}

#[test]
fn what_makes_no_sense_is_exit_2_and_leaves_nothing_behind() {
    let dir = TempDir::new().unwrap();
    for (line, words) in [
        ("run -c 1,2", &["concurrency", "sweep"][..]),
        ("run --rate 1..8", &["rate", "sweep"]),
        ("sweep -c 4..1", &["4..1"]),
        ("sweep -c 1,x", &["`x`"]),
        ("sweep -c 1.5,2", &["concurrency"]),
        ("sweep -c 0,2", &["concurrency"]),
        ("sweep -c 1,2 --rate 1,2", &["--rate and --concurrency"]),
        ("sweep -c 1,2 --repeat 0", &["--repeat"]),
        ("sweep --rates 1@2s", &["--rates"]),
        ("sweep --resume nowhere", &["nowhere"]),
        ("sweep -c 1,2 --beside nowhere", &["--beside"]),
    ] {
        let output = TOOL.run(dir.path(), line, &[]);
        exits_with(&output, 2);
        one_clear_line(&output, 2, words);
    }
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_warm_up_that_waits_for_a_steady_server_ends_and_says_whether_it_was() {
    // Little load: it takes 10 s at the least, and others run beside it.
    let sim = Sim::start(batching(15, 4));
    let dir = TempDir::new().unwrap();
    let output = TOOL.run(dir.path(), &sweep(&sim, "out", "-c 1 -d 500ms --warmup auto"), &[]);
    exits_with(&output, 0);
    let _ = sim.stop();
    let run = summary(&dir.path().join("out/levels/01")).run;
    let is_steady = run.steered.steady_after_warmup.unwrap();
    let warm_up_s = run.window.start_ns as f64 / 1e9;
    // What is not steady after 20 s is measured all the same.
    assert!(warm_up_s > 10.0 && (is_steady || warm_up_s > 20.0), "{run:?}");
    assert!(run.warmup_requests > 50 && (0.45..0.55).contains(&run.window.seconds), "{run:?}");
}

#[test]
fn a_run_ends_once_it_knows_enough_or_with_its_time() {
    let sim = Sim::start(batching(2, 16));
    let dir = TempDir::new().unwrap();
    for (out, until, most) in
        [("enough", "ci(p50(ttft))<20%", "60s"), ("never", "ci(p50(ttft))<0.001%", "2s")]
    {
        let url = url(&sim);
        let line = format!("run {url} --out {out} -c 3 {SMALL} --warmup 0 -q -d {most}");
        exits_with(&TOOL.run(dir.path(), &line, &["--until", until]), 0);
    }
    let _ = sim.stop();
    let run = |out: &str| summary(&dir.path().join(out)).run;
    let (enough, never) = (run("enough"), run("never"));
    assert!(enough.steered.until.as_deref().unwrap().starts_with("ci(p50(ttft))<"));
    assert_eq!(enough.steered.until_reached, Some(true));
    assert!(enough.window.seconds < 30.0, "{enough:?}");
    assert_eq!(never.steered.until_reached, Some(false));
    assert!((1.9..2.2).contains(&never.window.seconds), "{never:?}");
}
