//! From records to figures: percentiles with intervals, rates, goodput, verdicts.
//!
//! ```text
//! rows  ─► Request ─► latencies ─► Distribution (successful), Trial (judged) ─► objectives
//! facts ─► pooled gaps, lag, counters ──────────────────────────────────────► client's verdict
//! ```
//! Everything here is a function of its arguments: no clock, no file, no thread. The order of rows
//! and of reactors changes no figure.

mod accuracy;
mod asked;
mod ceiling;
mod client;
mod distribution;
mod goodput;
pub mod health;
mod input;
mod interval;
mod judged;
mod metric;
mod network;
mod rate;
#[cfg(test)]
mod rows;
mod slo;
mod summary;
mod tokens;

pub use accuracy::{Accuracy, AccuracyReport, Seen};
pub use asked::{LoadReport, TargetReport, TlsReport, WorkloadReport};
pub use ceiling::{Ceiling, peak_reads_per_s};
pub use client::{ClientReport, ReactorReport, Slip};
pub use distribution::{ByPercentile, Distribution};
pub use goodput::{Attainment, GoodputReport};
pub use health::{Health, Reason, ReasonKind, Severity};
pub use input::Facts;
pub use interval::Interval;
pub use judged::{Judged, JudgedDistribution};
pub use metric::{Maybe, Request, Since};
pub use network::NetworkReport;
pub use rate::{Rate, Window};
pub use slo::{Held, ObjectiveReport, SloReport};
pub use summary::{
    Latency, Phases, Requests, Run, SCHEMA, Service, Summary, Verdicts, WindowReport,
};
pub use tokens::Tokens;

use hdrhistogram::Histogram;
use interval::{Pool, resampled};
use judged::Trial;
use summary::Outcomes;
use tokens::TokenSums;

use crate::record::{Outcome, Phase, Row, Tally};
use crate::workload::{Metric, Workload};

/// All figures of a run: from what was asked, what is known of the run, and a row per request, in
/// any order.
#[must_use]
pub fn summarize(
    workload: &Workload,
    facts: &Facts,
    rows: impl IntoIterator<Item = Row>,
) -> Summary {
    let (mut outcomes, mut tokens) = (Outcomes::default(), TokenSums::default());
    let mut requests = Vec::new();
    for row in rows {
        let request = Request::new(&row, workload);
        outcomes.add(&row);
        if request.is_measured() && request.is_ok() {
            tokens.add(&row);
        }
        requests.push(request);
    }
    requests.sort_by_key(|request| (request.origin, request.index));
    let measured: Vec<&Request> = requests.iter().filter(|r| r.is_measured()).collect();

    let sum =
        |field: fn(&Tally) -> u64| facts.tallies.iter().map(field).fold(0, u64::saturating_add);
    let run = run(workload, facts, outcomes.warmup);
    let counts = outcomes.finish(sum(|t| t.offered), sum(|t| t.dropped));
    // Those that were cancelled on purpose say nothing of the server, so no percentile holds them.
    let on_purpose = |r: &&Request| r.phase == Phase::Measure && r.is_cancelled_on_purpose();
    let on_purpose = requests.iter().filter(on_purpose).count();
    let lost = counts.offered - (measured.len() + on_purpose) as u64;
    let latency = latency(facts, &measured);
    let trials = Trials { facts, measured: &measured, lost };
    let tokens = tokens.finish();
    let client = ClientReport::new(workload, facts, &measured, &latency);
    let window = Window { start: facts.window_start, end: facts.window_end };
    Summary {
        schema: SCHEMA.into(),
        run,
        target: TargetReport::new(workload, &facts.tallies),
        workload: WorkloadReport::new(workload, facts.ramp_ns),
        host: serde_json::Value::Null,
        judged: trials.report(),
        rate: rate::rates(workload, facts, &requests, counts.offered, &latency.tpot.percentiles),
        goodput: goodput::goodput(&workload.objectives, &requests, lost, window, facts.end),
        slo: slo::judge(&workload.objectives.slo, |metric| trials.of(metric)),
        notes: health::notes(&client, &tokens, latency.itl.count > latency.icl.count),
        requests: counts,
        client,
        latency,
        tokens,
    }
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
    }
}

fn latency(facts: &Facts, measured: &[&Request]) -> Latency {
    let of = |value: &dyn Fn(&Request) -> Option<u64>| {
        let good = measured.iter().filter(|request| request.is_ok());
        Distribution::from_values(&good.filter_map(|r| value(r)).collect::<Vec<u64>>())
    };
    let pooled = |histogram, pool| {
        let gaps = Distribution::from_histogram(histogram);
        Distribution { ci95: resampled(&facts.tallies, pool, &gaps.percentiles), ..gaps }
    };
    Latency {
        ttfb: of(&|r| r.ttfb(Since::Origin)),
        ttft: of(&|r| r.ttft(Since::Origin)),
        ttfo: of(&|r| r.ttfo(Since::Origin)),
        ttst: of(&Request::ttst),
        icl: pooled(&facts.pooled.icl, Pool::Chunks),
        itl: pooled(&facts.pooled.itl, Pool::Tokens),
        tpot: of(&Request::tpot),
        ntpot: of(&|r| r.ntpot(Since::Origin)),
        e2e: of(&|r| r.e2e(Since::Origin)),
        stream_tail: of(&Request::stream_tail),
        service: Service {
            ttfb: of(&|r| r.ttfb(Since::Write)),
            ttft: of(&|r| r.ttft(Since::Write)),
            ttfo: of(&|r| r.ttfo(Since::Write)),
            ntpot: of(&|r| r.ntpot(Since::Write)),
            e2e: of(&|r| r.e2e(Since::Write)),
        },
        phases: Phases {
            connect: of(&Request::connect),
            tls: of(&Request::tls),
            write: of(&Request::write),
            server_wait: of(&Request::server_wait),
            prefill_wait: of(&Request::prefill_wait),
            decode: of(&Request::decode),
            tail: of(&Request::stream_tail),
        },
    }
}

/// Makes the judged samples of one metric after the other: all of them at once would be much memory.
struct Trials<'a> {
    facts: &'a Facts,
    measured: &'a [&'a Request],
    lost: u64,
}

impl<'a> Trials<'a> {
    fn of(&self, metric: Metric) -> Trial<'a> {
        match metric {
            Metric::Icl => self.gaps(&self.facts.pooled.icl),
            Metric::Itl => self.gaps(&self.facts.pooled.itl),
            _ => Trial::of_requests(metric, self.measured, self.lost, self.facts.end),
        }
    }

    fn gaps(&self, pooled: &'a Histogram<u64>) -> Trial<'a> {
        let count = |test: &dyn Fn(&Request) -> bool| {
            self.measured.iter().filter(|request| test(request)).count() as u64
        };
        // Only answers with a gap could give samples.
        let ok = count(&|r| r.is_ok() && r.second_token.get().is_some());
        let failed = count(&|r| r.outcome == Outcome::Error) + self.lost;
        let cut = count(&|r| r.outcome == Outcome::Cancelled);
        Trial::of_gaps(pooled, ok, failed, cut)
    }

    fn report(&self) -> Judged {
        let of = |metric| self.of(metric).distribution();
        Judged {
            ttfb: of(Metric::Ttfb),
            ttft: of(Metric::Ttft),
            ttfo: of(Metric::Ttfo),
            ttst: of(Metric::Ttst),
            icl: of(Metric::Icl),
            itl: of(Metric::Itl),
            tpot: of(Metric::Tpot),
            ntpot: of(Metric::Ntpot),
            e2e: of(Metric::E2e),
        }
    }
}

#[cfg(test)]
mod tests;
