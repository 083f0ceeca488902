//! Results on the time axis of a trace viewer: the JSON of Chrome's trace events, which ui.perfetto.dev
//! opens.
//!
//! ```text
//! process "load"       counters: requests in flight, output tokens/s
//! process "reactor 0"  a thread for each request that is under way at once: its phases and events
//! process "http://..." a thread for each leg that is under way there at once
//! ```
//! The finished requests are read twice, one by one: once to give each its thread, once to write it.

mod counters;
mod events;
mod lanes;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tokclock_engine::measure::trace::{Path, Step};
use tokclock_engine::measure::{LoadReport, Request, Summary};
use tokclock_engine::record::{Leg, Row};

use crate::exit::Failure;
use crate::results::{Kept, Point};
use counters::Counters;
use events::{Events, Track};
use lanes::{Lanes, Place, Span};

/// Writes all finished requests of all load points. Times are µs from the first one's start; load points
/// that came later lie so much later.
///
/// # Errors
/// Requests that cannot be read, or an `out` that cannot be written.
pub(crate) fn perfetto(results: &[Kept], out: &mut dyn Write) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::could_not_run(format!("perfetto.json: {error}"));
    let mut events = Events::begin(out).map_err(failed)?;
    let mut start = None;
    for kept in results {
        for point in kept.points()? {
            let Some(summary) = &point.summary else { continue };
            let own = summary.run.start_realtime_ns;
            let begun = *start.get_or_insert(own);
            events.shift(own.saturating_sub(begun));
            let before = prefix(results, kept, &point);
            one_point(&point, summary, &before, &mut events)?;
        }
    }
    events.end().map_err(failed)
}

/// What tells the processes of several load points apart; nothing where there is one.
fn prefix(results: &[Kept], kept: &Kept, point: &Point<'_>) -> String {
    let of_result = (results.len() > 1).then(|| kept.path.display().to_string());
    let of_point = Some(point.within.clone()).filter(|within| !within.is_empty());
    [of_result, of_point].into_iter().flatten().map(|part| format!("{part} ")).collect()
}

/// Writes the requests of one load point.
fn one_point(
    point: &Point<'_>,
    summary: &Summary,
    before: &str,
    events: &mut Events<'_>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::could_not_run(format!("perfetto.json: {error}"));
    let scene = Scene::of(summary);
    let (mut lanes, mut counters) = (Lanes::default(), Counters::new(summary.run.end_ns));
    point.each_row(|row| {
        let seen = scene.seen(&row);
        lanes.add(Place::Reactor(row.reactor), seen.span);
        for (leg, _) in legs(&row) {
            lanes.add(Place::Server(&leg.url), leg_span(leg, seen.span.to));
        }
        counters.add(&row, seen.span);
        Ok(())
    })?;
    let lanes = lanes.assign();
    events.processes(before, &lanes).and_then(|()| counters.write(events)).map_err(failed)?;
    let mut next = lanes.in_order();
    point.each_row(|row| {
        let mut track = || next.next().map_or_else(Track::default, |lane| events.track(lane));
        let seen = scene.seen(&row);
        let own = track();
        let of_legs: Vec<Track> = legs(&row).map(|_| track()).collect();
        request(events, &row, &seen, own).map_err(failed)?;
        for ((leg, name), track) in legs(&row).zip(of_legs) {
            let span = leg_span(leg, seen.span.to);
            let args = leg_args(&row, leg);
            events.slice(track, name, "leg", span, Value::Object(args)).map_err(failed)?;
        }
        Ok(())
    })?;
    events.next_point(&lanes);
    Ok(())
}

/// What has to be known of a run to read its rows.
#[derive(Debug, Clone, Copy)]
struct Scene {
    is_closed: bool,
    stream: bool,
}

/// A request as it is drawn.
struct Seen {
    path: Path,
    span: Span,
}

impl Scene {
    fn of(summary: &Summary) -> Self {
        let is_closed = matches!(summary.workload.load, LoadReport::Closed { .. });
        Self { is_closed, stream: summary.target.stream }
    }

    /// Its parts, and how long its thread is taken.
    fn seen(self, row: &Row) -> Seen {
        let request = Request::of(row, self.is_closed, self.stream);
        let path = Path::of(row, &request);
        let length = path.steps.last().map_or(0, |step| step.to_ns);
        let from = request.origin;
        Seen { path, span: Span { from, to: from.saturating_add(length) } }
    }
}

/// The legs of a request, with their names, in a fixed order.
fn legs(row: &Row) -> impl Iterator<Item = (&Leg, &'static str)> {
    row.legs.iter().flat_map(|legs| {
        let all =
            [("prefill", &legs.prefill), ("decode", &legs.decode), ("baseline", &legs.baseline)];
        all.into_iter().filter_map(|(name, leg)| Some((leg.as_ref()?, name)))
    })
}

/// From its first byte to its end, as far as either is known.
fn leg_span(leg: &Leg, request_end: u64) -> Span {
    let from = leg.write_start.or(leg.connected).unwrap_or(request_end);
    let reached = [leg.done, leg.first_token, leg.head_done, leg.write_done];
    Span { from, to: reached.into_iter().flatten().max().unwrap_or(from).max(from) }
}

/// Writes a request: itself, its phases inside it, its output events.
fn request(events: &mut Events<'_>, row: &Row, seen: &Seen, track: Track) -> io::Result<()> {
    let name = format!("request {}", row.index);
    events.slice(track, &name, "request", seen.span, Value::Object(request_args(row)))?;
    for Step { phase, from_ns, to_ns } in seen.path.steps.iter().filter(|step| step.length() > 0) {
        let at = |ns: &u64| seen.span.from.saturating_add(*ns);
        let span = Span { from: at(from_ns), to: at(to_ns) };
        events.slice(track, phase.name(), "phase", span, Value::Null)?;
    }
    for (at, tokens) in row.chunks.iter().flatten() {
        events.instant(track, "output", *at, &json!({ "tokens": tokens }))?;
    }
    Ok(())
}

/// What is said of a request; what is not known is left out.
fn request_args(row: &Row) -> Map<String, Value> {
    let legs = row.legs.as_deref();
    known([
        ("request_id", json!(row.request_id)),
        ("trace_id", json!(row.trace_id)),
        ("phase", json!(row.phase)),
        ("outcome", json!(row.outcome)),
        ("error", json!(row.error)),
        ("status", json!(row.status)),
        ("finish", json!(row.finish)),
        ("input_tokens", json!(row.input_tokens)),
        ("cached_tokens", json!(row.cached_tokens)),
        ("output_tokens", json!(row.output_tokens)),
        ("connection", json!(row.connection)),
        ("lag_max_ns", json!(row.lag_max)),
        ("kv_fallback", json!(row.kv_fallback)),
        ("handoff_bytes", json!(legs.and_then(|legs| legs.handoff_bytes))),
    ])
}

fn leg_args(row: &Row, leg: &Leg) -> Map<String, Value> {
    known([
        ("request", json!(row.index)),
        ("request_id", json!(row.request_id)),
        ("trace_id", json!(row.trace_id)),
        ("error", json!(leg.error)),
        ("status", json!(leg.status)),
        ("input_tokens", json!(leg.input_tokens)),
        ("cached_tokens", json!(leg.cached_tokens)),
        ("bytes", json!(leg.bytes)),
    ])
}

fn known<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    let known = members.into_iter().filter(|(_, value)| !value.is_null());
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}
