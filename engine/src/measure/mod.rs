//! From records to figures: percentiles with intervals, rates, goodput, verdicts.
//!
//! ```text
//! rows  ─► Request ─► latencies ─► Distribution (successful), Trial (judged) ─► objectives
//! facts ─► pooled gaps, lag, counters ──────────────────────────────────────► client's verdict
//! ```
//! Everything here is a function of its arguments: no clock, no file, no thread. The order of rows
//! and of reactors changes no figure.

mod accuracy;
mod added;
mod arrivals;
mod asked;
mod bins;
mod cache;
mod ceiling;
mod circumstances;
mod class;
mod client;
mod clusters;
pub mod compare;
pub mod curve;
mod dependence;
mod distribution;
mod evidence;
mod goodput;
mod gpus;
pub mod health;
mod hosts;
mod input;
mod interval;
mod judged;
mod leg_times;
mod legs;
mod linear;
mod metric;
mod network;
#[cfg(test)]
mod noise;
mod part;
mod rate;
mod remains;
#[cfg(test)]
pub(crate) mod rows;
mod server;
mod server_times;
mod servers;
mod signed;
mod slo;
mod stage;
mod steady;
mod summary;
mod tokens;
pub mod trace;
mod trend;
mod turn;
pub mod views;

pub use accuracy::{Accuracy, AccuracyReport, Seen};
pub use added::summarize_added;
pub use arrivals::{ArrivalReport, ArrivalVerdict, GapTest};
pub use asked::{ClassAsked, DisaggReport, LoadReport, TargetReport, TlsReport, WorkloadReport};
pub use bins::{BIN_NS, Bins, Steadiness, bins, steadiness};
pub use cache::{CacheCounters, CacheReport};
pub use ceiling::{Ceiling, peak_reads_per_s};
pub use circumstances::{Build, Circumstances};
pub use class::ClassReport;
pub use client::{ClientReport, ReactorReport, Slip};
pub use distribution::{ByPercentile, Distribution};
pub use evidence::{Decision, Evidence};
pub use goodput::{Attainment, GoodputReport};
pub use gpus::{EnergyBy, GpuFigures, GpuReport, GpuSourceReport, GpuSums, GpusReport, Spread};
pub use health::{Health, Reason, ReasonKind, Severity};
pub use hosts::{
    HostClockReport, HostReport, HostState, LateHost, MergeReport, MergedFrom, StepReport,
};
pub use input::{Facts, Steered};
pub use interval::{Interval, half_width};
pub use judged::{Judged, JudgedDistribution};
pub use leg_times::LegTimes;
pub use legs::{FallbackReport, FirstContact, HandoffReport, LegsReport, PairReport, RouterReport};
pub use linear::Linear;
pub use metric::{Maybe, Request, Since};
pub use network::NetworkReport;
pub use rate::{Rate, Window};
pub use remains::summarize_remains;
pub use server::ServerReport;
pub use server_times::{ClientMinusServer, ClockReport, Difference, ServerTimesReport};
pub use servers::{
    Beside, Estimate, GaugeReport, Here, LatencyReport, ServerSeen, Servers, ShareReport, Took,
    TransferReport,
};
pub use signed::SignedDistribution;
pub use slo::{Held, ObjectiveReport, SloReport};
pub use stage::StageReport;
pub use steady::{Steady, Truncation, steady, truncation, truncation_of_seen};
pub use summary::{
    Latency, Phases, Requests, Run, SCHEMA, Service, Summary, Verdicts, WindowReport,
};
pub use tokens::{Added, Tokens};
pub use trend::{TREND_BINS_MIN, Trend, rises};
pub use turn::{SessionsReport, TurnReport};

use class::Sums;
use evidence::Shares;
use interval::{Pool, resampled};
use part::Part;
use slo::Bench;

use crate::record::{Row, Tally};
use crate::workload::{Load, Schedule, Workload};

/// All figures of a run: from what was asked, what is known of the run, and a row per request, in
/// any order.
#[must_use]
pub fn summarize(
    workload: &Workload,
    facts: &Facts,
    rows: impl IntoIterator<Item = Row>,
) -> Summary {
    let mut told = server_times::Told::default();
    let (requests, sums, by_class) = gather(workload, rows, |row, request| told.add(row, request));
    let measured: Vec<&Request> = requests.iter().filter(|r| r.is_measured()).collect();

    let sum =
        |field: fn(&Tally) -> u64| facts.tallies.iter().map(field).fold(0, u64::saturating_add);
    let run = run(workload, facts, sums.outcomes.warmup);
    let counts = sums.outcomes.finish(sum(|t| t.offered), sum(|t| t.dropped));
    let (icl, itl) = (&facts.pooled.icl, &facts.pooled.itl);
    let part = Part::new(&measured, &requests, counts.offered, facts.end, icl, itl);
    let pooled = |histogram, pool| {
        let gaps = Distribution::from_histogram(histogram);
        Distribution { ci95: resampled(&facts.tallies, pool, &gaps.percentiles), ..gaps }
    };
    let latency = part.latency(pooled(icl, Pool::Chunks), pooled(itl, Pool::Tokens));
    let lost = part.lost();
    let window = Window { start: facts.window_start, end: facts.window_end };
    let tokens = sums.tokens.finish();
    let good = goodput::goodput(&workload.objectives, &requests, lost, window, facts.end);
    let shares = Shares::of(&counts, good.as_ref());
    let bench = Bench { part: &part, tallies: &facts.tallies, shares };
    let client = ClientReport::new(workload, facts, &measured, &latency);
    Summary {
        schema: SCHEMA.into(),
        run,
        target: TargetReport::new(workload, &facts.tallies),
        workload: WorkloadReport::new(workload, facts.ramp_ns),
        host: serde_json::Value::Null,
        judged: part.judged(),
        rate: rate::rates(workload, facts, &requests, counts.offered, &latency.tpot.percentiles),
        slo: slo::judge(&workload.objectives.slo, &bench),
        goodput: good,
        cache: Some(cache::cache(&measured)),
        legs: legs::legs(workload, &requests, icl),
        server_times: told.finish(workload, facts.start_realtime_ns),
        gpus: None,
        classes: class::classes(workload, facts, &requests, by_class),
        sessions: turn::sessions(&measured, &facts.tallies),
        stages: stage::stages(workload, facts, &requests),
        steadiness: steadiness(&requests, window, is_at_one_rate(workload)),
        labels: std::collections::BTreeMap::new(),
        servers: Vec::new(),
        hosts: Vec::new(),
        merge: None,
        notes: health::notes(&client, &tokens, latency.itl.count > latency.icl.count),
        requests: counts,
        client,
        latency,
        tokens,
    }
}

/// What is decided on the objectives: the `slo` of [`summarize`], for those who want no other figure.
#[must_use]
pub fn verdict(
    workload: &Workload,
    facts: &Facts,
    rows: impl IntoIterator<Item = Row>,
) -> Option<SloReport> {
    let (requests, sums, _) = gather(workload, rows, |_, _| {});
    let measured: Vec<&Request> = requests.iter().filter(|r| r.is_measured()).collect();
    let sum =
        |field: fn(&Tally) -> u64| facts.tallies.iter().map(field).fold(0, u64::saturating_add);
    let counts = sums.outcomes.finish(sum(|t| t.offered), sum(|t| t.dropped));
    let (icl, itl) = (&facts.pooled.icl, &facts.pooled.itl);
    let part = Part::new(&measured, &requests, counts.offered, facts.end, icl, itl);
    let window = Window { start: facts.window_start, end: facts.window_end };
    let objectives = &workload.objectives;
    let good = goodput::goodput(objectives, &requests, part.lost(), window, facts.end);
    let shares = Shares::of(&counts, good.as_ref());
    slo::judge(&objectives.slo, &Bench { part: &part, tallies: &facts.tallies, shares })
}

/// What the figures need of `rows`, by origin; and the sums over all of them and over each class.
/// Each is shown to `look` as it goes by.
fn gather(
    workload: &Workload,
    rows: impl IntoIterator<Item = Row>,
    mut look: impl FnMut(&Row, &Request),
) -> (Vec<Request>, Sums, Vec<Sums>) {
    let mut sums = Sums::default();
    let mut by_class = vec![Sums::default(); workload.mix.len()];
    let mut requests = Vec::new();
    for row in rows {
        let request = Request::new(&row, workload);
        let class = by_class.get_mut(usize::from(request.class));
        for sums in class.into_iter().chain([&mut sums]) {
            sums.outcomes.add(&row);
            if request.is_measured() && request.is_ok() {
                sums.tokens.add(&row);
            }
        }
        look(&row, &request);
        requests.push(request);
    }
    requests.sort_by_key(|request| (request.origin, request.index));
    (requests, sums, by_class)
}

/// Whether requests arrive at one rate, whatever becomes of them: only then does a rise of what is in
/// flight say that the service falls behind.
fn is_at_one_rate(workload: &Workload) -> bool {
    matches!(workload.load, Load::Open { schedule: Schedule::Rate { .. }, .. })
}

fn run(workload: &Workload, facts: &Facts, warmup_requests: u64) -> Run {
    let window = Window { start: facts.window_start, end: facts.window_end };
    Run {
        name: None,
        version: env!("CARGO_PKG_VERSION").into(),
        seed: workload.seed,
        start_monotonic_ns: facts.start_monotonic_ns,
        start_realtime_ns: facts.start_realtime_ns,
        window: WindowReport {
            start_ns: window.start,
            end_ns: window.end,
            seconds: window.seconds(),
            by_requests: facts.window_by_requests,
        },
        end_ns: facts.end,
        interrupted: facts.interrupted,
        warmup_requests,
        ramp_ns: facts.ramp_ns,
        build: None,
        steered: facts.steered.clone(),
    }
}

#[cfg(test)]
mod tests;
