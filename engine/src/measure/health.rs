//! Whether the client can be believed: valid, suspect or invalid, with every reason.
//!
//! Limits are the workload's [`Thresholds`]; those that no person should move are the constants at
//! the top. A reason always carries its figure and its limit.

use serde::{Deserialize, Serialize};

use super::client::ClientReport;
use super::tokens::Tokens;
use crate::workload::{ClientFigure, Thresholds};

/// A request is late that is later than this, ns, and than `LATE_GAP_SHARE` of the mean gap.
pub const LATE_NS: u64 = 10_000_000;
/// See `LATE_NS`.
pub const LATE_GAP_SHARE: f64 = 0.1;
/// Share of reads without a kernel stamp above which arrivals are those that the client observed;
/// with a large lag as well they are unusable.
pub const UNSTAMPED_SHARE_UNUSABLE: f64 = 0.5;
/// Share of gaps of exactly 0 above which a stream is said to come in bursts.
pub const ZERO_GAP_SHARE_MAX: f64 = 0.5;
/// Output tokens in an event, on average, above which it matters that their number is not known.
const TOKENS_PER_EVENT_MAX: f64 = 1.05;
/// Relative difference of token counts above which the report warns.
pub const TOKEN_DIFFERENCE_MAX: f64 = 0.05;

/// The verdict on the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The figures are the server's.
    Valid,
    /// They may hold a part of the client's.
    Suspect,
    /// The run is not what was asked for, or its times are unusable.
    Invalid,
}

/// What a reason is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonKind {
    /// Requests were written late for reasons of our own.
    SendLate,
    /// So many of them that the load was another one.
    ScheduleNotKept,
    /// Reads without a kernel stamp.
    UnstampedReads,
    /// Most arrivals are the client's own times, and it was slow.
    ArrivalsUnusable,
    /// The client handled bytes late.
    ClientLag,
    /// A slow client read several events at once.
    ClientCoalesced,
    /// A reactor had little time left.
    ReactorBusy,
    /// A reactor read more often than this host was found to sustain.
    BeyondCeiling,
    /// The hypervisor took CPU time away.
    Steal,
    /// Bodies were not ready.
    FeedStarved,
    /// The writer of records was behind.
    RecorderStalled,
    /// We did not read fast enough, so the server had to stop sending.
    WindowClosed,
    /// The network lost segments, or they overtook each other.
    Retransmits,
    /// This host's kernel dropped packets.
    KernelDrops,
    /// The wall clock was set.
    ClockStepped,
    /// The server, or a proxy before it, sends tokens in bursts.
    BurstyStream,
    /// Token counts are counts of events.
    TokensAreEvents,
    /// Our token count and the server's differ.
    TokenCountsDiffer,
    /// Events carry several tokens, and nobody says which how many.
    TokensPerEventUnknown,
    /// The user's own limit held requests back.
    CapReached,
}

/// How grave a reason is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It says something about the server or the figures, nothing against the client.
    Note,
    /// It makes the run suspect.
    Suspect,
    /// It makes the run invalid.
    Invalid,
}

/// One reason: a figure beyond its limit, what that means, what to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// What it is about.
    pub kind: ReasonKind,
    /// How grave it is.
    pub severity: Severity,
    /// The figure.
    pub figure: f64,
    /// Its limit.
    pub threshold: f64,
    /// Unit of both: `ns`, `share` or `count`.
    pub unit: String,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

/// When a request of an open loop of `rate` requests per second counts as late, ns.
#[must_use]
pub fn late_after_ns(rate: f64) -> u64 {
    let gap_ns = 1e9 / rate;
    let share = if gap_ns.is_finite() { gap_ns * LATE_GAP_SHARE } else { 0.0 };
    LATE_NS.max(share as u64)
}

/// The verdict that follows from `reasons`.
#[must_use]
pub fn verdict(reasons: &[Reason]) -> Health {
    match reasons.iter().map(|reason| reason.severity).max() {
        Some(Severity::Invalid) => Health::Invalid,
        Some(Severity::Suspect) => Health::Suspect,
        Some(Severity::Note) | None => Health::Valid,
    }
}

/// Everything that speaks against the client, the gravest first. `requests` is the number of
/// measured ones.
#[must_use]
pub fn reasons(report: &ClientReport, requests: u64, limits: &Thresholds) -> Vec<Reason> {
    let mut reasons = Vec::new();
    schedule(report, limits, &mut reasons);
    supply(report, requests, limits, &mut reasons);
    arrivals(report, limits, &mut reasons);
    network(report, limits, &mut reasons);
    host(report, limits, &mut reasons);
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.severity));
    reasons
}

/// What is worth saying about the server's stream and the token counts; nothing against the client.
/// `per_token`: ITL has a sample per token, not only one per event.
#[must_use]
pub fn notes(report: &ClientReport, tokens: &Tokens, per_token: bool) -> Vec<Reason> {
    let mut notes = Vec::new();
    held_back(report, &mut notes);
    if let Some(share) = report.zero_gap_share.filter(|&share| share > ZERO_GAP_SHARE_MAX) {
        notes.push(Reason::share(
            (ReasonKind::BurstyStream, Severity::Note),
            (share, ZERO_GAP_SHARE_MAX),
            "of the gaps between output events are 0: tokens come in bursts, so ITL and TPOT say \
             little",
            "look for buffering in the server or a proxy before it",
        ));
    }
    if tokens.source.as_deref() == Some("events") {
        notes.push(Reason::new(
            (ReasonKind::TokensAreEvents, Severity::Note),
            (tokens.output as f64, 0.0, "count"),
            "output tokens are a count of output events: the server sent no usage".into(),
            "choose a tokenizer, or a server that reports usage",
        ));
    }
    let per_event = tokens.output as f64 / tokens.events.max(1) as f64;
    if !per_token && tokens.events > 0 && per_event > TOKENS_PER_EVENT_MAX {
        notes.push(Reason::new(
            (ReasonKind::TokensPerEventUnknown, Severity::Note),
            (per_event, TOKENS_PER_EVENT_MAX, "count"),
            format!(
                "the server counts {} output tokens in {} events and does not say which event has \
                 how many: ITL is here a time per event, TPOT one per token",
                tokens.output, tokens.events
            ),
            "choose a tokenizer, or --continuous-usage or --return-token-ids where the server has it",
        ));
    }
    let difference = tokens.relative_difference.map(f64::abs);
    if let Some(difference) = difference.filter(|&share| share > TOKEN_DIFFERENCE_MAX) {
        notes.push(Reason::share(
            (ReasonKind::TokenCountsDiffer, Severity::Note),
            (difference, TOKEN_DIFFERENCE_MAX),
            "is the difference between our count of output tokens and the server's",
            "choose the tokenizer of this model",
        ));
    }
    notes
}

/// An open loop whose requests waited for the user's own limit.
fn held_back(report: &ClientReport, notes: &mut Vec<Reason>) {
    let by_cap = report.slip.as_ref().and_then(|slip| slip.by_cause.get("cap"));
    if let Some(waited) = by_cap.filter(|waited| waited.count > 0) {
        notes.push(Reason::new(
            (ReasonKind::CapReached, Severity::Note),
            (waited.count as f64, 0.0, "count"),
            format!(
                "{} requests waited because --max-in-flight was reached: the rate asked for was \
                 not offered to the server",
                waited.count
            ),
            "raise --max-in-flight, or lower --rate",
        ));
    }
}

fn schedule(report: &ClientReport, limits: &Thresholds, reasons: &mut Vec<Reason>) {
    let Some(slip) = &report.slip else { return };
    let (late, limit) = (slip.late_share.unwrap_or(0.0), limits.get(ClientFigure::Late));
    if late > limit {
        reasons.push(Reason::share(
            (ReasonKind::ScheduleNotKept, Severity::Invalid),
            (late, limit),
            &format!(
                "of the requests were written more than {} late: the schedule was not kept for our \
                 own reasons",
                millis(slip.late_after_ns)
            ),
            "add reactors or CPUs, or lower the rate",
        ));
    }
    let (own, limit) = (slip.own.percentiles.p99.unwrap_or(0), limits.get(ClientFigure::Slip));
    if own as f64 > limit {
        reasons.push(Reason::time(
            (ReasonKind::SendLate, Severity::Suspect),
            (own, limit),
            "p99 of the schedule slip for our own reasons is",
            "free the reactors' CPUs of other work, add reactors, or let them --spin",
        ));
    }
}

/// What the reactors wait for: bodies, and room for records.
fn supply(report: &ClientReport, requests: u64, limits: &Thresholds, reasons: &mut Vec<Reason>) {
    let starved = report.feed_starved as f64 / requests.max(1) as f64;
    let limit = limits.get(ClientFigure::Starved);
    if starved > limit {
        reasons.push(Reason::share(
            (ReasonKind::FeedStarved, Severity::Suspect),
            (starved, limit),
            "times per request a body was not ready when it was due",
            "give the feeder a CPU of its own, or use shorter prompts",
        ));
    }
    if report.recorder_stalls > 0 {
        reasons.push(Reason::new(
            (ReasonKind::RecorderStalled, Severity::Suspect),
            (report.recorder_stalls as f64, 0.0, "count"),
            format!("issuing stopped {} times for the writer of records", report.recorder_stalls),
            "write results to a faster disk, or leave out chunks and texts",
        ));
    }
}

fn arrivals(report: &ClientReport, limits: &Thresholds, reasons: &mut Vec<Reason>) {
    let lag = report.lag_output.percentiles.p99;
    let lag_limit = limits.get(ClientFigure::Lag);
    let slow = match lag {
        Some(lag) => lag as f64 > lag_limit,
        // Without a single stamp there is no lag to look at; a busy core is the next best sign.
        None => busiest(report) > limits.get(ClientFigure::Busy),
    };
    let unstamped_limit = limits.get(ClientFigure::Unstamped);
    let unstamped = report.unstamped_share.filter(|_| report.stamps == "kernel").unwrap_or(0.0);
    if unstamped > UNSTAMPED_SHARE_UNUSABLE && slow {
        reasons.push(Reason::share(
            (ReasonKind::ArrivalsUnusable, Severity::Invalid),
            (unstamped, UNSTAMPED_SHARE_UNUSABLE),
            "of the reads have no kernel stamp and the client was slow: arrivals are unusable",
            "run `tokclock doctor`, and lower the load of this host",
        ));
    } else if unstamped > unstamped_limit {
        reasons.push(Reason::share(
            (ReasonKind::UnstampedReads, Severity::Suspect),
            (unstamped, unstamped_limit),
            "of the reads have no kernel stamp: their times are those of the client",
            "run `tokclock doctor`; it says whether this host stamps at all",
        ));
    }
    if let Some(lag) = lag.filter(|_| slow) {
        reasons.push(Reason::time(
            (ReasonKind::ClientLag, Severity::Suspect),
            (lag, lag_limit),
            "p99 of the client lag over reads with output is",
            "add reactors, free their CPUs of other work, or lower the load",
        ));
    }
    let merged = report.client_coalesced_share.unwrap_or(0.0);
    let limit = limits.get(ClientFigure::Coalesced);
    if merged > limit {
        reasons.push(Reason::share(
            (ReasonKind::ClientCoalesced, Severity::Suspect),
            (merged, limit),
            "of the output events were read together because the client was slow (an estimate)",
            "add reactors, or lower the load",
        ));
    }
}

fn network(report: &ClientReport, limits: &Thresholds, reasons: &mut Vec<Reason>) {
    let network = &report.network;
    if network.windows_closed > 0 {
        reasons.push(Reason::new(
            (ReasonKind::WindowClosed, Severity::Invalid),
            (network.windows_closed as f64, 0.0, "count"),
            format!(
                "{} of {} looks found a receive window closed: the server had to wait for us",
                network.windows_closed, network.window_looks
            ),
            "add reactors, lower the load, or raise net.ipv4.tcp_rmem",
        ));
    }
    let limit = limits.get(ClientFigure::Retransmits);
    for (share, what) in [
        (network.resent_share, "of the segments we sent were sent again"),
        (network.out_of_order_share, "of the segments we received came out of order"),
    ] {
        if let Some(share) = share.filter(|&share| share > limit) {
            reasons.push(Reason::share(
                (ReasonKind::Retransmits, Severity::Suspect),
                (share, limit),
                &format!("{what}: latencies hold the network's losses"),
                "look at the path to the server (ethtool -S, nstat), or measure nearer to it",
            ));
        }
    }
}

fn host(report: &ClientReport, limits: &Thresholds, reasons: &mut Vec<Reason>) {
    let limit = limits.get(ClientFigure::Busy);
    let ceiling = limits.get(ClientFigure::Ceiling);
    for reactor in &report.reactors {
        let busy = reactor.busy_share.unwrap_or(0.0);
        if busy > limit {
            reasons.push(Reason::share(
                (ReasonKind::ReactorBusy, Severity::Suspect),
                (busy, limit),
                &format!("of its time reactor {} (CPU {}) was busy", reactor.reactor, reactor.cpu),
                "add reactors",
            ));
        }
        if let Some(used) = reactor.ceiling_share.filter(|&share| share > ceiling) {
            reasons.push(Reason::share(
                (ReasonKind::BeyondCeiling, Severity::Suspect),
                (used, ceiling),
                &format!(
                    "of the reads per second that one reactor of this host was found to sustain \
                     were made by reactor {} (CPU {}): how accurate it is there, nobody knows",
                    reactor.reactor, reactor.cpu
                ),
                "add reactors, or take the baseline of this host anew (`tokclock baseline`)",
            ));
        }
    }
    let steal = report.steal_share.unwrap_or(0.0);
    let limit = limits.get(ClientFigure::Steal);
    if steal > limit {
        reasons.push(Reason::share(
            (ReasonKind::Steal, Severity::Suspect),
            (steal, limit),
            "of the CPU time was taken away by the hypervisor",
            "use a machine with CPUs of its own",
        ));
    }
    let drops = report.kernel_drops.unwrap_or(0) as f64;
    let limit = limits.get(ClientFigure::Drops);
    if drops > limit {
        reasons.push(Reason::new(
            (ReasonKind::KernelDrops, Severity::Suspect),
            (drops, limit, "count"),
            format!("this host's kernel dropped {drops} packets that had come"),
            "run `tokclock doctor`; raise net.core.netdev_max_backlog or net.ipv4.tcp_rmem",
        ));
    }
    if report.clock_steps > 0 {
        reasons.push(Reason::new(
            (ReasonKind::ClockStepped, Severity::Suspect),
            (report.clock_steps as f64, 0.0, "count"),
            format!("the wall clock was set {} times during the run", report.clock_steps),
            "let time synchronisation slew, or stop it during a run",
        ));
    }
}

fn busiest(report: &ClientReport) -> f64 {
    report.reactors.iter().filter_map(|reactor| reactor.busy_share).fold(0.0, f64::max)
}

impl Reason {
    fn new(
        (kind, severity): (ReasonKind, Severity),
        (figure, threshold, unit): (f64, f64, &str),
        message: String,
        advice: &str,
    ) -> Self {
        Self {
            kind,
            severity,
            figure,
            threshold,
            unit: unit.into(),
            message,
            advice: advice.into(),
        }
    }

    fn share(
        what: (ReasonKind, Severity),
        (figure, threshold): (f64, f64),
        message: &str,
        advice: &str,
    ) -> Self {
        let message = format!("{:.2} % {message}", figure * 100.0);
        Self::new(what, (figure, threshold, "share"), message, advice)
    }

    fn time(
        what: (ReasonKind, Severity),
        (figure, threshold): (u64, f64),
        message: &str,
        advice: &str,
    ) -> Self {
        let message = format!("{message} {}", millis(figure));
        Self::new(what, (figure as f64, threshold, "ns"), message, advice)
    }
}

fn millis(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}
