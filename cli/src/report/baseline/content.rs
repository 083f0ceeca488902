//! What the page of a baseline says.

use std::time::{Duration, UNIX_EPOCH};

use tokclock_engine::measure::{ByPercentile, Distribution};

use super::super::text::{NONE, count, duration, escape, number};
use super::Part;
use crate::baseline::result::{Baseline, Kind, Limit, Rung};
use crate::values::CpuList;

/// All of it, in order.
#[must_use]
pub(super) fn parts(baseline: &Baseline) -> Vec<Part> {
    let mut parts = head(baseline);
    parts.extend(ceiling(baseline));
    for note in &baseline.notes {
        parts.push(Part::Words("note", escape(note)));
    }
    if !baseline.ladder.is_empty() {
        parts.push(errors(&baseline.ladder));
        parts.push(circumstances(&baseline.ladder));
    }
    parts
}

fn head(baseline: &Baseline) -> Vec<Part> {
    let said = |key: &str| {
        let text = baseline.host.get(key).and_then(|value| value.as_str());
        text.map_or_else(|| NONE.into(), escape)
    };
    let placement = &baseline.placement;
    let driver = match (baseline.driver.as_str(), baseline.ring.as_str()) {
        ("", _) => String::new(),
        (driver, "") => format!(", {driver}"),
        (driver, ring) => format!(", {driver} ({ring})"),
    };
    let simulator = CpuList(placement.simulator_cpus.clone());
    let bounds = &baseline.bounds;
    vec![
        Part::Words(
            "baseline",
            format!(
                "{}, tokclock {} ({})",
                instant(baseline.taken_realtime_ns),
                baseline.tokclock.version,
                baseline.tokclock.profile
            ),
        ),
        Part::Words("host", format!("{}, kernel {}", said("cpu_model"), said("kernel"))),
        Part::Words(
            "placement",
            format!(
                "one reactor on CPU {}{driver}; the simulator, a process of its own, on CPU \
                 {simulator}{}",
                placement.reactor_cpu,
                if placement.is_shared { ", the same" } else { "" }
            ),
        ),
        Part::Words(
            "bounds",
            format!(
                "inside: p99 of the error of service TTFT at most {}, of gaps (the last of each \
                 stream apart) at most {}",
                duration(Some(bounds.ttft_p99_ns)),
                duration(Some(bounds.gap_p99_ns))
            ),
        ),
    ]
}

fn ceiling(baseline: &Baseline) -> Vec<Part> {
    let ceiling = &baseline.ceiling;
    let by = &ceiling.limited_by;
    let figures = [
        ("ceiling", ceiling.reads_per_s, "reads/s, an output event each", by.reads),
        ("", ceiling.chunks_per_s, "chunks/s, 64 events in a write", by.chunks),
        ("", ceiling.requests_per_s, "requests/s, one token each", by.requests),
    ];
    let mut parts: Vec<Part> = figures
        .into_iter()
        .map(|(label, figure, what, limit)| {
            let text = match (figure, limit) {
                (_, None) => format!("{what}: not measured"),
                (None, Some(_)) => format!("{what}: none was inside the bounds"),
                (Some(_), Some(limit)) => format!("{} {what}; {}", rate(figure), because(limit)),
            };
            Part::Words(label, text)
        })
        .collect();
    let memory = match (baseline.memory, baseline.memory_bytes_per_stream) {
        (Some(memory), Some(bytes)) => format!(
            "{} KiB per open stream, from {} to {} streams",
            number(Some(bytes as f64 / 1024.0)),
            count(memory.few_streams),
            count(memory.many_streams)
        ),
        (Some(_), None) => "it did not grow with the streams".into(),
        (None, _) => "not measured".into(),
    };
    parts.push(Part::Words("memory", memory));
    parts
}

/// What stood in the way.
fn because(limit: Limit) -> &'static str {
    match limit {
        Limit::Client => "the reactor's CPU was full",
        Limit::Server => "the simulator's CPU was full, so a reactor may do more",
        Limit::Both => "the CPUs of both ends were full",
        Limit::Neither => "no CPU was full: something else stood in the way",
        Limit::Shared => "both ends share one CPU",
        Limit::NotReached => "more was not tried",
    }
}

fn errors(ladder: &[Rung]) -> Part {
    let rows = ladder
        .iter()
        .map(|rung| {
            vec![
                count(rung.streams),
                rate(rung.chunk_rate),
                rung.stamps.clone(),
                pair(&rung.accuracy.ttft_error),
                pair(&rung.accuracy.gap_error),
                pair(&rung.lag),
                share(rung.busy_share),
                micros(rung.cpu_ns_per_chunk),
                marks(rung),
            ]
        })
        .collect();
    Part::Table(
        "Errors against the simulator's log, p50/p99 in µs unless named",
        vec!["streams", "chunks/s", "stamps", "TTFT", "gaps", "lag", "busy", "CPU", ""],
        rows,
        vec![
            "lag: from the arrival of output to its handling; CPU: µs per chunk",
            "! outside the bounds",
            "< fewer chunks than the schedule asked for",
            "s the hypervisor took too much, twice",
        ],
    )
}

fn circumstances(ladder: &[Rung]) -> Part {
    let rows = ladder
        .iter()
        .map(|rung| {
            vec![
                count(rung.streams),
                rung.asked_chunk_rate.map_or_else(|| "flood".into(), |asked| rate(Some(asked))),
                pair(&rung.accuracy.send_error),
                pair(&rung.accuracy.last_gap_error),
                share(rung.coalesced_share),
                micros(rung.cpu_ns_per_read),
                server_late(rung),
                share(Some(rung.simulator.busy_share)),
                share(rung.steal_share),
            ]
        })
        .collect();
    Part::Table(
        "The same loads, in the same order",
        vec!["streams", "asked", "send", "last gap", "coal.", "CPU/read", "late", "busy", "steal"],
        rows,
        vec![
            "send: from our write to the arrival at the simulator; last gap: of each stream",
            "coal.: output events that shared a read; CPU/read: µs",
            "late and busy: the simulator's, against its own schedule (p99) and of its CPU",
        ],
    )
}

fn server_late(rung: &Rung) -> String {
    match rung.simulator.lateness_count {
        0 => NONE.into(),
        _ => micros(Some(rung.simulator.lateness_p99_ns as f64)),
    }
}

fn marks(rung: &Rung) -> String {
    let marks = [
        (!rung.is_inside, '!'),
        (rung.kept_up == Some(false) && rung.kind != Kind::Chunks, '<'),
        (rung.has_steal, 's'),
    ];
    marks.iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark).collect()
}

/// The median and the 99th percentile, µs.
fn pair(of: &Distribution) -> String {
    let ByPercentile { p50, p99, .. } = of.percentiles;
    match (p50, p99) {
        (Some(p50), Some(p99)) => {
            format!("{}/{}", micros(Some(p50 as f64)), micros(Some(p99 as f64)))
        }
        _ => NONE.into(),
    }
}

/// µs, or ms and s with their names, in two or three digits: more would say more than is known.
fn micros(ns: Option<f64>) -> String {
    let Some(ns) = ns else { return NONE.into() };
    let (value, unit) = match ns {
        ns if ns < 999.5e3 => (ns / 1e3, ""),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        0.0 => 0,
        size if size < 0.995 => 2,
        size if size < 9.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}

/// A share, without decimals where it is not small.
fn share(share: Option<f64>) -> String {
    let Some(percent) = share.map(|share| share * 100.0) else { return NONE.into() };
    let decimals = usize::from(percent > 0.0 && percent < 9.95);
    format!("{percent:.decimals$} %")
}

/// A rate above a hundred needs no decimals.
fn rate(per_second: Option<f64>) -> String {
    match per_second {
        Some(value) if value >= 100.0 => count(value.round() as u64),
        value => number(value),
    }
}

/// A moment in UTC, to the minute.
pub(in super::super) fn instant(realtime_ns: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_nanos(realtime_ns);
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let minute = text.get(..16).unwrap_or(&text);
    format!("{} UTC", minute.replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_to_the_minute() {
        assert_eq!(instant(1_790_000_000_000_000_000), "2026-09-21 14:13 UTC");
    }

    #[test]
    fn errors_have_few_digits() {
        let shown = |ns: f64| micros(Some(ns));
        let few = [shown(0.0), shown(310.0), shown(3_640.0), shown(168_400.0), shown(999_600.0)];
        assert_eq!(few, ["0", "0.31", "3.6", "168", "1.0ms"]);
        assert_eq!([shown(24_064_000.0), shown(1.5e9)], ["24ms", "1.5s"]);
        assert_eq!(
            [share(Some(0.0)), share(Some(0.2455)), share(Some(0.0123))],
            ["0 %", "25 %", "1.2 %"]
        );
        assert_eq!(pair(&Distribution::default()), "-");
    }
}
