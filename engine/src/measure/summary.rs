//! `summary.json`: every section of it that no other file here defines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::asked::{TargetReport, WorkloadReport};
use super::bins::Steadiness;
use super::cache::CacheReport;
use super::circumstances::{Build, Circumstances};
use super::class::ClassReport;
use super::client::ClientReport;
use super::distribution::Distribution;
use super::goodput::GoodputReport;
use super::gpus::GpusReport;
use super::health::{self, Health, Reason};
use super::hosts::{HostReport, MergeReport};
use super::input::Steered;
use super::judged::Judged;
use super::legs::LegsReport;
use super::rate::Rate;
use super::server_times::ServerTimesReport;
use super::servers::ServerSeen;
use super::slo::{Held, SloReport};
use super::stage::StageReport;
use super::tokens::Tokens;
use super::turn::SessionsReport;
use crate::record::{ErrorClass, Outcome, Phase, Row};

/// Name and version of the schema.
pub const SCHEMA: &str = "tokclock.summary/1";
/// Characters of a server's error text that are kept as an example, at most.
const EXAMPLE_CHARS_MAX: usize = 200;

/// All figures of one run. What does not exist is null; no number is NaN or infinite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: String,
    /// When it ran and how it ended.
    pub run: Run,
    /// What the user wrote on it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Where the requests went.
    pub target: TargetReport,
    /// What was sent and when.
    pub workload: WorkloadReport,
    /// The host, as the caller describes it; null until it does.
    #[serde(default)]
    pub host: serde_json::Value,
    /// Whether the client can be believed.
    pub client: ClientReport,
    /// How requests ended.
    pub requests: Requests,
    /// Percentiles in which bad requests took longer than anything.
    pub judged: Judged,
    /// Latencies of the successful.
    pub latency: Latency,
    /// Token totals.
    pub tokens: Tokens,
    /// Rates over the window.
    pub rate: Rate,
    /// Requests that kept every limit; null without limits.
    pub goodput: Option<GoodputReport>,
    /// Objectives on the run; null without any.
    pub slo: Option<SloReport>,
    /// Whether the window was steady.
    #[serde(default)]
    pub steadiness: Steadiness,
    /// The prefix cache.
    #[serde(default)]
    pub cache: Option<CacheReport>,
    /// The legs of requests, where prefill and decode are apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<LegsReport>,
    /// What servers said of their own work on each request; absent where they say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_times: Option<ServerTimesReport>,
    /// GPUs, where any were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpusReport>,
    /// What the servers say of the same time, where any was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerSeen>,
    /// The figures of each class, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassReport>,
    /// Conversations, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionsReport>,
    /// The pieces of a load whose rate changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageReport>,
    /// The hosts that sent the load, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostReport>,
    /// How their results became this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeReport>,
    /// What is worth knowing and speaks against nobody's client.
    pub notes: Vec<Reason>,
}

impl Summary {
    /// The same with what no record holds, and how this program was built.
    #[must_use]
    pub fn with_circumstances(mut self, circumstances: Circumstances) -> Self {
        let Circumstances { name, labels, host, server, workload } = circumstances;
        let build = Build::of_this();
        self.notes.extend(build.is_debug().then(health::debug_build));
        self.run.name = Some(name);
        self.run.build = Some(build);
        (self.labels, self.host) = (labels, host);
        (self.target.server, self.workload.hash) = (server, workload);
        self
    }

    /// What an exit code depends on.
    #[must_use]
    pub fn verdicts(&self) -> Verdicts {
        let (ok, failed) = (self.requests.ok, self.requests.failed);
        Verdicts {
            interrupted: self.run.interrupted,
            invalid: self.client.verdict == Health::Invalid,
            error_rate: self.requests.error_rate.unwrap_or(0.0),
            slo_missed: {
                let classes = self.classes.iter().map(|class| &class.slo);
                let mut all = classes.chain([&self.slo]).flatten();
                all.any(|slo| slo.verdict == Held::Fail)
            },
            completed: ok,
            settled: ok + failed,
            partial: self.is_partial(),
        }
    }
}

/// What an exit code depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdicts {
    /// The user interrupted the run.
    pub interrupted: bool,
    /// The client's verdict is invalid.
    pub invalid: bool,
    /// Failed / (ok + failed); 0 when nothing was settled.
    pub error_rate: f64,
    /// An objective failed.
    pub slo_missed: bool,
    /// Requests that ended well.
    pub completed: u64,
    /// Requests that ended well or failed.
    pub settled: u64,
    /// The figures are those of a part of the load: hosts of it are missing.
    pub partial: bool,
}

/// When a run took place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Version of this engine.
    pub version: String,
    /// How this program was built; null in what was written before that was known.
    #[serde(default)]
    pub build: Option<Build>,
    /// Seed of every random choice.
    pub seed: u64,
    /// CLOCK_MONOTONIC at its start, ns; the other times here are ns from it.
    pub start_monotonic_ns: u64,
    /// CLOCK_REALTIME at its start, ns.
    pub start_realtime_ns: u64,
    /// The measured part.
    pub window: WindowReport,
    /// When the last request was settled.
    pub end_ns: u64,
    /// The user interrupted it.
    pub interrupted: bool,
    /// Requests whose origin lay before the measured part.
    pub warmup_requests: u64,
    /// Time over which a closed loop's users started, ns.
    pub ramp_ns: u64,
    /// What was decided while it went on.
    #[serde(default, flatten)]
    pub steered: Steered,
}

/// The measured part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// When it began.
    pub start_ns: u64,
    /// When it ended; in a window by requests, at the last completion.
    pub end_ns: u64,
    /// Its length in seconds.
    pub seconds: f64,
    /// It ended with its last request and not with a duration.
    pub by_requests: bool,
}

/// How the requests of the measured part ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Arrivals that the schedule placed there, issued or not.
    pub offered: u64,
    /// Those whose first byte was written.
    pub started: u64,
    /// A whole answer.
    pub ok: u64,
    /// Failures.
    pub failed: u64,
    /// Ended by us; no failures.
    pub cancelled: u64,
    /// Still going on when they were cut, or without a record: their end is unknown.
    pub censored: u64,
    /// Dropped because of the user's own cap.
    pub dropped: u64,
    /// Tried again after a failed attempt (`--retries`), whatever came of it.
    pub retried: u64,
    /// Attempts after failed ones.
    pub retries: u64,
    /// Time of failed attempts and of the pauses after them, ns, summed: it is inside the latencies
    /// of the requests that were retried, and in none of their service latencies.
    pub retry_ns: u64,
    /// Whole answers that ended at their length limit.
    pub capped: u64,
    /// `failed / (ok + failed)`; null when nothing was settled.
    pub error_rate: Option<f64>,
    /// Failures by class.
    pub errors: BTreeMap<String, u64>,
    /// Cancelled ones by reason.
    pub cancel_reasons: BTreeMap<String, u64>,
    /// For each class of failures, the text of the first, as the server or the system gave it.
    pub error_examples: BTreeMap<String, String>,
}

/// Latencies of the successful requests of the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub struct Latency {
    pub ttfb: Distribution,
    pub ttft: Distribution,
    pub ttfo: Distribution,
    pub ttst: Distribution,
    pub icl: Distribution,
    pub itl: Distribution,
    pub tpot: Distribution,
    pub ntpot: Distribution,
    pub e2e: Distribution,
    pub stream_tail: Distribution,
    pub service: Service,
    pub phases: Phases,
}

/// The latencies that have a start, counted from `write_start`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub struct Service {
    pub ttfb: Distribution,
    pub ttft: Distribution,
    pub ttfo: Distribution,
    pub ntpot: Distribution,
    pub e2e: Distribution,
}

/// The parts of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub struct Phases {
    pub connect: Distribution,
    pub tls: Distribution,
    pub write: Distribution,
    pub server_wait: Distribution,
    pub prefill_wait: Distribution,
    pub decode: Distribution,
    pub tail: Distribution,
}

/// Counts while rows go by.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcomes {
    requests: Requests,
    rows: u64,
    pub(super) warmup: u64,
    /// Index of the request that each example comes from.
    examples: BTreeMap<String, u64>,
}

impl Outcomes {
    /// Adds a request of any phase; those of the measured part count.
    pub(super) fn add(&mut self, row: &Row) {
        self.warmup += u64::from(row.phase == Phase::Warmup);
        if row.phase != Phase::Measure {
            return;
        }
        self.rows += 1;
        let counts = &mut self.requests;
        counts.started += u64::from(row.write_start.is_some());
        counts.retried += u64::from(row.retries > 0);
        counts.retries += u64::from(row.retries);
        counts.retry_ns = counts.retry_ns.saturating_add(row.retry_ns);
        match row.outcome {
            Outcome::Ok => {
                counts.ok += 1;
                counts.capped += u64::from(row.finish.as_deref() == Some("length"));
            }
            Outcome::Error => {
                counts.failed += 1;
                *counts.errors.entry(class_name(row.error)).or_default() += 1;
                self.keep_example(row);
            }
            Outcome::Cancelled => {
                counts.cancelled += 1;
                counts.censored += u64::from(row.error != Some(ErrorClass::CancelRate));
                *counts.cancel_reasons.entry(class_name(row.error)).or_default() += 1;
            }
        }
    }

    /// What the counts come to: with `offered` arrivals by the schedule and `dropped` ones. Those
    /// that are neither dropped nor have a row are censored.
    pub(super) fn finish(self, offered: u64, dropped: u64) -> Requests {
        let mut counts = self.requests;
        counts.dropped = dropped;
        counts.offered = offered.max(self.rows.saturating_add(dropped));
        counts.censored += counts.offered - dropped - self.rows;
        let settled = counts.ok + counts.failed;
        counts.error_rate = super::distribution::ratio(counts.failed as f64, settled as f64);
        counts
    }

    /// Keeps the error text of the request with the lowest index, so that order does not matter.
    fn keep_example(&mut self, row: &Row) {
        let Some(text) = row.error_text.as_deref().filter(|text| !text.is_empty()) else { return };
        let class = class_name(row.error);
        if self.examples.get(&class).is_some_and(|&index| index <= row.index) {
            return;
        }
        self.examples.insert(class.clone(), row.index);
        let text = text.chars().take(EXAMPLE_CHARS_MAX).collect();
        self.requests.error_examples.insert(class, text);
    }
}

/// The word for a class in files.
pub(super) fn class_name(class: Option<ErrorClass>) -> String {
    let word = class.and_then(|class| serde_json::to_value(class).ok());
    word.as_ref().and_then(|word| word.as_str()).unwrap_or("unclassified").to_owned()
}
