//! Whether the client can be believed: valid, suspect or invalid, with every reason.
//!
//! Limits are the workload's `Thresholds`; those that no person should move are constants. A reason
//! always carries its figure and its limit.

mod against;
mod notes;

pub use against::reasons;
pub use notes::{debug_build, notes};

use serde::{Deserialize, Serialize};

/// A request is late that is later than this, ns, and than `LATE_GAP_SHARE` of the mean gap.
pub const LATE_NS: u64 = 10_000_000;
/// See `LATE_NS`.
pub const LATE_GAP_SHARE: f64 = 0.1;

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
    /// The run was cut off, so that nothing is known of its client.
    CutOff,
    /// The figures were made from the finished requests of a run that was cut off.
    Rebuilt,
    /// The client was built without optimisation.
    DebugBuild,
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
