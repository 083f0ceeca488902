//! `tokclock search` against the simulator, whose boundaries are known from its model in simulated time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use tempfile::TempDir;
use tokclock_engine::clock::monotonic_ns;
use tokclock_engine::measure::curve::{Curve, Variable};
use tokclock_engine::measure::{Decision, Health, Summary};
use tokclock_engine::run::search::SearchReport;
use tokclock_sim::serving::{Serving, ServingSettings};
use tokclock_tests::command::{
    Tool, alone, exits_with, finished, json, names, one_clear_line, stderr, wait_until,
};
use tokclock_tests::{MS, Sim, batching, rows};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));

fn report(out: &Path) -> SearchReport {
    json(&out.join("search.json"))
}

fn summary(dir: &Path) -> Summary {
    json(&dir.join("summary.json"))
}

/// What a load point by rate looks like: even arrivals, so that chance has no part in the boundary.
const LOAD: &str = "--arrival constant --isl 16 --osl 8 --warmup 200ms -d 1500ms";
const INPUT: u32 = 16;
const OUTPUT: u32 = 8;
const WARM_UP_NS: u64 = 200 * MS;
const WINDOW_NS: u64 = 1500 * MS;

/// The 95th percentile of TTFT of that load in simulated time, ns.
fn ttft_p95(settings: &ServingSettings, rate: f64) -> u64 {
    let mut serving = Serving::new(settings);
    let end_ns = WARM_UP_NS + WINDOW_NS;
    let instants: Vec<u64> =
        (1..).map(|at| (f64::from(at) / rate * 1e9) as u64).take_while(|at| *at < end_ns).collect();
    let mut first = vec![0; instants.len()];
    let mut take = |token: tokclock_sim::serving::Emitted| {
        if token.index == 0 {
            first[token.id as usize] = token.at_ns;
        }
    };
    for (id, at_ns) in (0_u64..).zip(&instants) {
        serving.advance(*at_ns, &mut take);
        let _ = serving.arrive(*at_ns, id, INPUT, OUTPUT);
    }
    while let Some(end_ns) = serving.next_ns() {
        serving.advance(end_ns, &mut take);
    }
    let measured = instants.iter().zip(&first).filter(|(at, _)| **at >= WARM_UP_NS);
    let mut ttft: Vec<u64> = measured.map(|(at, first)| first - at).collect();
    ttft.sort_unstable();
    // Nearest rank.
    ttft[(ttft.len() * 95).div_ceil(100) - 1]
}

/// The highest rate that keeps p95(ttft) below the limit, in simulated time.
fn boundary(settings: &ServingSettings, limit_ns: u64) -> f64 {
    let limit = settings.capacity_rps(INPUT, OUTPUT);
    let (mut low, mut high) = (0.5 * limit, 2.0 * limit);
    assert!(ttft_p95(settings, low) < limit_ns && ttft_p95(settings, high) > limit_ns);
    while high / low > 1.001 {
        let middle = (low * high).sqrt();
        match ttft_p95(settings, middle) < limit_ns {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// A search by rate, and a run on either side of what it found. What was wrong, and the worst that the
/// client said of itself.
fn search_and_look_beside(
    (truth, url, slo): (f64, &str, &str),
    invalid_is_wrong: bool,
) -> (Vec<String>, Health) {
    let dir = TempDir::new().unwrap();
    let line = format!("search {url} --out out {LOAD} --drain 500ms --max-duration 3s -q");
    let output = TOOL.run(dir.path(), &line, &["--slo", slo, "--precision", "8%"]);
    exits_with(&output, 0);
    let out = dir.path().join("out");
    let report = report(&out);
    assert_eq!((report.variable, report.is_complete), (Variable::Rate, true));
    assert_eq!((report.objectives.clone(), report.tiers.len()), (vec![slo.to_owned()], 1));
    assert!(report.probes.len() >= 4, "{report:?}");
    let mut dirs = BTreeSet::new();
    for probe in &report.probes {
        assert_eq!(probe.dirs.len(), probe.looks);
        dirs.extend(&probe.dirs);
        let is_whole = |dir: &String| !summary(&out.join(dir)).run.interrupted;
        assert!(probe.dirs.iter().all(is_whole));
    }
    assert_eq!(dirs.len(), report.probes.iter().map(|probe| probe.looks).sum::<usize>());
    let found = report.boundary.estimate.unwrap_or_default();
    let mut wrong = Vec::new();
    if (found / truth - 1.0).abs() > 0.1 {
        wrong.push(format!("{found} was found, not {truth}: {report:#?}"));
    }
    if report.boundary.low.is_some_and(|low| low > 1.1 * truth)
        || report.boundary.high.is_some_and(|high| high < 0.9 * truth)
    {
        wrong.push(format!("{truth} is not within {:?}", report.boundary));
    }
    let mut client = report.probes.iter().map(|probe| probe.client).max().unwrap();
    for (share, expected) in [(0.9, 0), (1.15, 3)] {
        let rate = share * found.max(1.0);
        let line = format!("run {url} --out {share} {LOAD} --rate {rate} -q");
        let output = TOOL.run(dir.path(), &line, &["--slo", slo]);
        let code = output.status.code();
        // 4: the client says itself that it could not tell.
        if code != Some(expected) && (invalid_is_wrong || code != Some(4)) {
            wrong.push(format!("{share} of {found}: {:?}, {}", output.status, stderr(&output)));
        }
        client = client.max(summary(&dir.path().join(share.to_string())).client.verdict);
    }
    (wrong, client)
}

#[test]
fn the_boundary_by_rate_is_that_of_the_model_and_runs_beside_it_say_so() {
    let _one = alone();
    let settings = batching(5, 4);
    let truth = boundary(settings.serving.as_ref().unwrap(), 120 * MS);
    let sim = Sim::start(settings);
    let url = format!("http://{}", sim.address());
    let asked = (truth, &url[..], "p95(ttft)<120ms");
    let (mut wrong, mut client) = search_and_look_beside(asked, true);
    if !wrong.is_empty() && client != Health::Valid {
        (wrong, client) = search_and_look_beside(asked, false);
    }
    let _ = sim.stop();
    // A search says itself where this host could not carry a load: then there is nothing to hold it to.
    assert!(wrong.is_empty() || client == Health::Invalid, "{}", wrong.join("\n"));
}

#[test]
fn tiers_have_boundaries_of_their_own_in_users_from_the_same_probes() {
    let _one = alone();
    let mut settings = batching(20, 4);
    // With n users a token comes each 20 + 8 n ms, up to four; more wait for a place.
    settings.serving.as_mut().unwrap().step_per_request_ns = 8 * MS;
    let sim = Sim::start(settings);
    let dir = TempDir::new().unwrap();
    let line = format!(
        "search http://{} --out out -c auto --isl 16 --osl 4 --warmup 0 -d 700ms --max-duration 1400ms \
         --drain 100ms --json",
        sim.address()
    );
    let objectives = ["--slo", "p95(ttft)<180ms", "--tier", "gold: mean(itl)<44ms"];
    let output = TOOL.run(dir.path(), &line, &objectives);
    exits_with(&output, 0);
    let _ = sim.stop();
    let report = report(&dir.path().join("out"));
    assert_eq!(serde_json::from_slice::<SearchReport>(&output.stdout).unwrap(), report);
    assert_eq!(report.variable, Variable::Concurrency);
    assert_eq!(report.tiers[1].name.as_deref(), Some("gold"));
    assert!(report.probes.iter().all(|probe| probe.tiers.len() == 2 && probe.value.fract() == 0.0));
    assert!(report.is_complete && report.probes.len() < 10, "{report:#?}");
    let estimate = |tier: usize| report.tiers[tier].boundary.estimate.unwrap();
    assert!(estimate(0) > 4.0 && estimate(0) < 8.0, "{report:#?}");
    assert!(estimate(1) > 2.0 && estimate(1) < 4.0, "{report:#?}");
    let of = |value: f64| report.probes.iter().find(|probe| probe.value == value).unwrap();
    assert_eq!(of(8.0).decision, Decision::Fail);
    assert_eq!(of(8.0).broke, ["p95(ttft)<180ms"]);
}

#[test]
fn where_no_load_holds_the_exit_code_says_so() {
    let sim = Sim::start(batching(5, 4));
    let dir = TempDir::new().unwrap();
    let line = format!(
        "search http://{} --out out -c auto --isl 16 --osl 4 --warmup 0 -d 500ms",
        sim.address()
    );
    let output = TOOL.run(dir.path(), &line, &["--slo", "p95(ttft)<1ms"]);
    exits_with(&output, 3);
    let _ = sim.stop();
    let report = report(&dir.path().join("out"));
    assert_eq!((report.boundary.low, report.boundary.high), (None, Some(1.0)));
    assert_eq!((report.breached, report.is_complete), (vec!["p95(ttft)<1ms".to_owned()], true));
    assert_eq!(report.probes.len(), 1, "there is nothing below one user");
}

#[test]
fn what_makes_no_sense_is_exit_2_and_leaves_nothing_behind() {
    let dir = TempDir::new().unwrap();
    let slo = "--slo p95(ttft)<500ms";
    for (line, words) in [
        ("search".to_owned(), &["--slo"][..]),
        (format!("search {slo} --precision 0.01%"), &["--precision"]),
        (format!("search {slo} --precision 200%"), &["--precision"]),
        (format!("search {slo} --precision near"), &["--precision"]),
        (format!("search {slo} -c 1,2"), &["chooses its loads itself"]),
        (format!("search {slo} -c 4..1"), &["4..1"]),
        (format!("search {slo} -c 0"), &["concurrency"]),
        (format!("search {slo} --requests 5"), &["--requests"]),
        (format!("search {slo} --tier gold"), &["--tier"]),
        (format!("search {slo} --rate 1 -c 1"), &["--rate and --concurrency"]),
        (format!("search {slo} --resume nowhere"), &["--resume nowhere"]),
        ("search --slo p95(speed)<1s".to_owned(), &["slo"]),
    ] {
        let line = format!("{line} --isl 16 --osl 2");
        one_clear_line(&TOOL.run(dir.path(), &line, &[]), 2, words);
    }
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_killed_search_goes_on_and_repeats_nothing() {
    // By users: such a load can be kept by a busy client too.
    let sim = Sim::start(batching(5, 4));
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    let line = format!(
        "search http://{} --out out -c auto --isl 16 --osl 4 --warmup 0 -d 500ms \
         --max-duration 500ms --drain 100ms --max-probes 6",
        sim.address()
    );
    let slo = ["--slo", "p95(ttft)<100ms"];
    let search = TOOL.start(dir.path(), &line, &slo);
    let cut = out.join("levels/03");
    wait_until("the third probe", || finished(&cut) > 5);
    search.signal(libc::SIGKILL);
    let _ = search.end();
    let whole = ["01", "02"];
    let bytes =
        |name: &&str| std::fs::read(out.join("levels").join(name).join("summary.json")).unwrap();
    let before: Vec<Vec<u8>> = whole.iter().map(bytes).collect();
    let half = report(&out);
    assert_eq!((half.is_complete, half.probes.len()), (false, 2));

    let resumed_ns = monotonic_ns();
    let output = TOOL.run(dir.path(), "search --resume out", &[]);
    exits_with(&output, 0);
    assert!(stderr(&output).contains("2 runs were there already"), "{}", stderr(&output));
    let after: Vec<Vec<u8>> = whole.iter().map(bytes).collect();
    assert_eq!(before, after);
    let report = report(&out);
    assert!(report.is_complete && report.probes.len() > 3, "{report:#?}");
    let value = |report: &SearchReport, at: usize| report.probes[at].value;
    assert_eq!([value(&report, 0), value(&report, 1)], [value(&half, 0), value(&half, 1)]);
    let curve: Curve = json(&out.join("curve.json"));
    assert_eq!(curve.levels.len(), report.probes.len());
    // Every directory is of one look, and what came to the server is in one of them or was cut.
    let looks: usize = report.probes.iter().map(|probe| probe.looks).sum();
    let levels = names(&out.join("levels"));
    assert!(levels.contains(&"03.cut-1".to_owned()), "{levels:?}");
    let is_whole = |name: &&String| !name.contains(".cut-");
    assert_eq!(levels.iter().filter(is_whole).count(), looks, "{levels:?}");
    let mut loads: Vec<String> =
        report.probes.iter().map(|probe| probe.value.to_string()).collect();
    loads.sort();
    loads.dedup();
    assert_eq!(loads.len(), report.probes.len(), "each load once");
    let truth = sim.stop().1;
    let known: BTreeSet<String> = levels
        .iter()
        .flat_map(|name| rows(&out.join("levels").join(name)))
        .map(|row| row.request_id)
        .collect();
    // Only what was under way at the kill is not in its records.
    let unknown = truth.iter().filter(|one| !known.contains(one.request_id.as_ref().unwrap()));
    assert!(
        unknown.clone().all(|one| one.read_ns < resumed_ns),
        "{} of {}",
        known.len(),
        truth.len()
    );
}

#[test]
fn a_server_that_dies_is_no_broken_objective() {
    const SERVER: &str = "--serving queue --step-base 5ms --prefill-rate 200000 --max-batch 4";
    let dir = TempDir::new().unwrap();
    let sim = TOOL.sim(dir.path(), &format!("--port 0 {SERVER}"));
    let port = sim.port().to_owned();
    let out = dir.path().join("out");
    let line = format!(
        "search {} --out out -c 1..4 --isl 16 --osl 4 --warmup 0 -d 1s --max-duration 1s",
        sim.url()
    );
    let search = TOOL.start(dir.path(), &line, &["--slo", "p95(ttft)<2s"]);
    wait_until("the second probe", || finished(&out.join("levels/02")) > 5);
    sim.kill();
    let output = search.end();
    one_clear_line(&output, 1, &["does not answer", "tokclock search --resume out"]);
    let half = report(&out);
    assert_eq!((half.probes.len(), half.is_complete), (1, false));
    assert_eq!(half.boundary.high, None);

    let sim = TOOL.sim(dir.path(), &format!("--port {port} {SERVER}"));
    exits_with(&TOOL.run(dir.path(), "search --resume out -q", &[]), 0);
    let _ = sim.stop();
    let loads: Vec<f64> = report(&out).probes.iter().map(|probe| probe.value).collect();
    assert_eq!((loads, report(&out).boundary.high), (vec![1.0, 2.0, 4.0], None));
}
