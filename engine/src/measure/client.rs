//! What the client was like during the run: lag, slip, stamps, reactors.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::Facts;
use super::ceiling::{Ceiling, peak_reads_per_s};
use super::distribution::{Distribution, ratio};
use super::health::{self, Health, Reason};
use super::metric::Request;
use super::network::NetworkReport;
use super::rate;
use super::summary::Latency;
use crate::record::{Outcome, Tally, WaitCause};
use crate::telemetry::host::Watched;
use crate::workload::{ClientFigure, Load, Schedule, Thresholds, Workload};

/// The client's figures and the verdict on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// Whether the figures of this run can be believed.
    pub verdict: Health,
    /// Why not, if not.
    pub reasons: Vec<Reason>,
    /// `io_uring` or `epoll`.
    pub driver: String,
    /// The ring's flags; empty on epoll.
    pub ring: String,
    /// `kernel` or `observed`: where arrival times were asked to come from.
    pub stamps: String,
    /// Reactors never slept (`--spin`).
    pub spin: bool,
    /// One per reactor, by number.
    pub reactors: Vec<ReactorReport>,
    /// `observed − arrival` of every stamped read.
    pub lag: Distribution,
    /// The same of reads with output events outside the ramp: the one that is judged.
    pub lag_output: Distribution,
    /// How late requests were written; null in a closed loop.
    pub slip: Option<Slip>,
    /// Reads without an acceptable kernel stamp / all reads.
    pub unstamped_share: Option<f64>,
    /// Output events that shared a read, the last of their stream apart / all output events.
    pub coalesced_share: Option<f64>,
    /// Last events of their stream that shared a read with what followed / all output events.
    pub coalesced_last_share: Option<f64>,
    /// Output events that shared a read because this client was slow (an estimate) / all of them.
    pub client_coalesced_share: Option<f64>,
    /// Gaps of exactly 0 / all gaps between output events.
    pub zero_gap_share: Option<f64>,
    /// What the kernel measured of the connections.
    pub network: NetworkReport,
    /// Share of the CPU time that the hypervisor took away.
    pub steal_share: Option<f64>,
    /// Packets that this host's kernel dropped during the run, before a socket or at one, whoever
    /// they were for.
    pub kernel_drops: Option<u64>,
    /// Turns of the kernel's receive path that ended with packets left.
    pub softnet_squeezed: Option<u64>,
    /// Times that a socket of this host, ours or another's, closed its receive window.
    pub host_windows_closed: Option<u64>,
    /// Times that a request was due and its body was not there.
    pub feed_starved: u64,
    /// Times that issuing stopped because the writer of records was behind.
    pub recorder_stalls: u64,
    /// Steps of the wall clock.
    pub clock_steps: u64,
    /// Connections opened.
    pub connections: u64,
    /// Stale connections replaced without a failed request.
    pub stale_replaced: u64,
    /// Name resolution before the run, ns.
    pub resolve_ns: u64,
    /// The limits by which all this was judged, by figure: ns, a share, or a count; null is none.
    pub thresholds: BTreeMap<String, Option<f64>>,
    /// What one reactor of this host is known to sustain; null where that was not calibrated.
    pub ceiling: Option<Ceiling>,
}

/// One reactor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReactorReport {
    /// Its number.
    pub reactor: u32,
    /// The CPU it ran on.
    pub cpu: usize,
    /// Time at work, neither waiting nor spinning / time it ran.
    pub busy_share: Option<f64>,
    /// Reads of response bytes.
    pub reads: u64,
    /// Reads with output events.
    pub output_reads: u64,
    /// Requests in flight at once, at most.
    pub in_flight_max: u64,
    /// Late wake-ups of its pacer, p99, ns.
    pub wake_late_p99_ns: u64,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// CPU time of that spent in a spin, ns.
    pub spin_ns: u64,
    /// How long it ran, ns.
    pub wall_ns: u64,
    /// Reads per second in its busiest second.
    pub reads_per_s: Option<f64>,
    /// That as a share of the ceiling of this host; null where there is none.
    pub ceiling_share: Option<f64>,
}

/// Schedule slip, `write_start − intended`, of the measured part of an open loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slip {
    /// Of all requests that were written.
    #[serde(flatten)]
    pub all: Distribution,
    /// Without those that waited for the user's own cap or for a connection: the one judged.
    pub own: Distribution,
    /// By cause: `reactor` (also the punctual), `feed`, `cap`, `connect`, `recorder`.
    pub by_cause: BTreeMap<String, Distribution>,
    /// A request later than this counts as late, ns.
    pub late_after_ns: u64,
    /// Requests that were late for reasons of our own.
    pub late: u64,
    /// `late` / requests of the measured part.
    pub late_share: Option<f64>,
}

impl ClientReport {
    /// The figures of a run, judged. `measured` are the requests of the measured part in order of
    /// origin.
    #[must_use]
    pub fn new(
        workload: &Workload,
        facts: &Facts,
        measured: &[&Request],
        latency: &Latency,
    ) -> Self {
        let limits = &workload.client.thresholds;
        let sum = |field: fn(&Tally) -> u64| -> u64 {
            facts.tallies.iter().map(field).fold(0, u64::saturating_add)
        };
        let events = sum(|t| t.output_events);
        let of_events = |count: u64| ratio(count as f64, events as f64);
        let last = sum(|t| t.coalesced_last_events);
        let mut report = Self {
            verdict: Health::Valid,
            reasons: Vec::new(),
            driver: facts.driver.clone(),
            ring: facts.ring.clone(),
            stamps: if facts.kernel_stamps { "kernel" } else { "observed" }.into(),
            spin: workload.client.spin,
            reactors: reactors(&facts.tallies, facts.ceiling.as_ref()),
            lag: Distribution::from_histogram(&facts.pooled.lag),
            lag_output: Distribution::from_histogram(&facts.pooled.lag_output),
            slip: slip(workload, facts, measured),
            unstamped_share: ratio(sum(|t| t.unstamped_reads) as f64, sum(|t| t.reads) as f64),
            coalesced_share: of_events(sum(|t| t.coalesced_events).saturating_sub(last)),
            coalesced_last_share: of_events(last),
            client_coalesced_share: of_events(sum(|t| t.client_coalesced_events)),
            zero_gap_share: zero_share(&facts.pooled.icl),
            network: NetworkReport::new(&facts.tallies, latency),
            steal_share: facts.host.steal_share.filter(|share| share.is_finite()),
            kernel_drops: drops(&facts.host),
            softnet_squeezed: facts.host.softnet.map(|softnet| softnet.squeezed),
            host_windows_closed: facts.host.tcp.map(|tcp| tcp.windows_closed),
            feed_starved: sum(|t| t.feed_starved),
            recorder_stalls: sum(|t| t.recorder_stalls),
            clock_steps: facts.tallies.iter().map(|t| t.clock_steps).max().unwrap_or(0),
            connections: sum(|t| t.connections),
            stale_replaced: sum(|t| t.stale_replaced),
            resolve_ns: facts.resolve_ns,
            thresholds: in_words(limits),
            ceiling: facts.ceiling,
        };
        report.reasons = health::reasons(&report, measured.len() as u64, limits);
        report.verdict = health::verdict(&report.reasons);
        report
    }
}

/// What the kernel dropped where it tells at least one of the two places.
fn drops(host: &Watched) -> Option<u64> {
    let early = host.softnet.map(|softnet| softnet.dropped);
    let late = host.tcp.map(|tcp| tcp.dropped);
    early.or(late).map(|_| early.unwrap_or(0) + late.unwrap_or(0))
}

fn in_words(limits: &Thresholds) -> BTreeMap<String, Option<f64>> {
    let one = |figure: ClientFigure| {
        let limit = limits.get(figure);
        (figure.as_str().to_owned(), limit.is_finite().then_some(limit))
    };
    ClientFigure::ALL.into_iter().map(one).collect()
}

fn reactors(tallies: &[Tally], ceiling: Option<&Ceiling>) -> Vec<ReactorReport> {
    let mut reports: Vec<ReactorReport> = tallies
        .iter()
        .map(|tally| ReactorReport {
            reactor: tally.reactor,
            cpu: tally.cpu,
            busy_share: ratio(
                tally.cpu_ns.saturating_sub(tally.spin_ns) as f64,
                tally.wall_ns as f64,
            )
            .map(|share| share.min(1.0)),
            reads: tally.reads,
            output_reads: tally.output_reads,
            in_flight_max: tally.in_flight_max,
            wake_late_p99_ns: tally.wake_late_p99_ns,
            cpu_ns: tally.cpu_ns,
            spin_ns: tally.spin_ns,
            wall_ns: tally.wall_ns,
            reads_per_s: peak_reads_per_s(tally),
            ceiling_share: ceiling.and_then(|ceiling| ceiling.share(peak_reads_per_s(tally)?)),
        })
        .collect();
    reports.sort_by_key(|report| (report.reactor, report.cpu));
    reports
}

fn zero_share(gaps: &Histogram<u64>) -> Option<f64> {
    ratio(gaps.count_at(0) as f64, gaps.len() as f64)
}

fn slip(workload: &Workload, facts: &Facts, measured: &[&Request]) -> Option<Slip> {
    let Load::Open { schedule, .. } = &workload.load else { return None };
    let rate = match schedule {
        Schedule::Rate { rate, .. } => Some(*rate),
        // As often as they came on average.
        _ => rate::issue_rate(measured.iter().copied(), measured.len() as u64),
    };
    let late_after_ns = health::late_after_ns(rate.unwrap_or(1.0));
    let (mut all, mut own, mut late) = (Vec::new(), Vec::new(), 0);
    let mut by_cause: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for request in measured {
        let is_own = is_own(request.wait_cause);
        if let Some(slip) = request.slip() {
            all.push(slip);
            by_cause.entry(cause_name(request.wait_cause).into()).or_default().push(slip);
            if is_own {
                own.push(slip);
                late += u64::from(slip > late_after_ns);
            }
        } else if request.outcome == Outcome::Cancelled && request.wait_cause.is_some() && is_own {
            // Never written, and it was for us to write it.
            late += u64::from(facts.end.saturating_sub(request.intended) > late_after_ns);
        }
    }
    Some(Slip {
        all: Distribution::from_values(&all),
        own: Distribution::from_values(&own),
        by_cause: by_cause
            .into_iter()
            .map(|(cause, slips)| (cause, Distribution::from_values(&slips)))
            .collect(),
        late_after_ns,
        late,
        late_share: ratio(late as f64, measured.len() as f64),
    })
}

/// Whether a wait of this cause speaks against the client.
fn is_own(cause: Option<WaitCause>) -> bool {
    !matches!(cause, Some(WaitCause::Cap | WaitCause::Connect))
}

fn cause_name(cause: Option<WaitCause>) -> &'static str {
    match cause {
        None | Some(WaitCause::Reactor) => "reactor",
        Some(WaitCause::Feed) => "feed",
        Some(WaitCause::Cap) => "cap",
        Some(WaitCause::Connect) => "connect",
        Some(WaitCause::Recorder) => "recorder",
    }
}
