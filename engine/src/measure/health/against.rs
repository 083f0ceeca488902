//! What speaks against the client: each figure held against its limit.

use super::{Reason, ReasonKind, Severity, millis};
use crate::measure::client::ClientReport;
use crate::workload::{ClientFigure, Thresholds};

/// Share of reads without a kernel stamp above which arrivals are those that the client observed;
/// with a large lag as well they are unusable.
const UNSTAMPED_SHARE_UNUSABLE: f64 = 0.5;

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
