//! Results as one table: a line for each run, each repetition of a level, each look of a probe.

use tokclock_engine::measure::curve::Figures;
use tokclock_engine::measure::{
    Distribution, Health, Held, LoadReport, ObjectiveReport, Steadiness, Summary,
};

use super::curve_csv::{plain, real, text};
use crate::exit::Failure;
use crate::results::{Kept, Place, Point, What};

/// Every class of failures, each a column.
const CLASSES: [&str; 24] = [
    "dns",
    "connect_refused",
    "connect_timeout",
    "tls_handshake",
    "tls_verify",
    "conn_closed_early",
    "conn_reset",
    "body_truncated",
    "stream_truncated",
    "bad_framing",
    "http_status",
    "rate_limited",
    "redirect",
    "server_error_event",
    "malformed_event",
    "empty_stream",
    "not_streaming",
    "unsupported_encoding",
    "size_limit",
    "timeout_first_byte",
    "timeout_first_token",
    "timeout_idle",
    "timeout_request",
    "local_resource",
];

/// The cells of a line under their names, in order.
type Cells = Vec<(String, String)>;

/// The table (RFC 4180, lines ended by `\n`) with a header. Names end in their unit; what does not
/// exist is empty. A text that a spreadsheet would take for a formula begins with `'`.
///
/// # Errors
/// Load points that cannot be read.
pub(crate) fn summary_csv(results: &[Kept]) -> Result<Vec<u8>, Failure> {
    let mut lines = Vec::new();
    for kept in results {
        for point in kept.points()? {
            lines.push(line(kept, &point));
        }
    }
    let failed = |error: csv::Error| Failure::could_not_run(format!("report.csv: {error}"));
    let mut out = Vec::new();
    let mut table = csv::Writer::from_writer(&mut out);
    let names = |cells: &Cells| cells.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let header = lines.first().map_or_else(|| names(&of_summary(None)), names);
    table.write_record(&header).map_err(failed)?;
    for cells in &lines {
        table.write_record(cells.iter().map(|(_, cell)| cell)).map_err(failed)?;
    }
    table.flush().map_err(|error| failed(error.into()))?;
    drop(table);
    Ok(out)
}

fn line(kept: &Kept, point: &Point<'_>) -> Cells {
    let summary = point.summary.as_deref();
    let mut cells = place(kept, point);
    cells.extend(of_summary(summary));
    let figures = match (summary, point.place) {
        (Some(summary), _) => Figures::of(summary),
        (None, Place::Level(_, run, ..)) => run.figures.clone(),
        (None, Place::Probe(probe, ..)) => probe.figures.clone(),
        (None, Place::Run) => Figures::default(),
    };
    cells.extend(of_figures(&figures));
    cells.extend(verdicts(point));
    cells
}

fn cell(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// Which load point it is.
fn place(kept: &Kept, point: &Point<'_>) -> Cells {
    let number = |value: usize| value.to_string();
    let (kind, level, number_of, decision, saturated) = match point.place {
        Place::Run => ("run", String::new(), String::new(), None, None),
        Place::Level(level, _, at, run) => {
            ("level", number(at), number(run), None, level.saturated)
        }
        Place::Probe(probe, at, look) => {
            ("probe", number(at), number(look), Some(probe.decision), None)
        }
    };
    let (variable, value) = match (&kept.what, point.place) {
        (What::Sweep(curve), Place::Level(level, ..)) => {
            (curve.variable.as_str(), real(Some(level.value)))
        }
        (What::Search(search), Place::Probe(probe, ..)) => {
            (search.variable.as_str(), real(Some(probe.value)))
        }
        _ => ("", String::new()),
    };
    let decision = decision.map(|decision| format!("{decision:?}").to_lowercase());
    vec![
        cell("dir", text(&point.path.display().to_string())),
        cell("kind", kind),
        cell("variable", variable),
        cell("value", value),
        cell("level", level),
        cell("repetition", number_of),
        cell("decision", decision.unwrap_or_default()),
        cell("saturated", plain(saturated)),
    ]
}

/// What only a whole summary tells: the names alone without one.
fn of_summary(summary: Option<&Summary>) -> Cells {
    let mut cells = asked(summary);
    let requests = summary.map(|summary| &summary.requests);
    let counts: [(&str, Option<u64>); 9] = [
        ("offered_requests", requests.map(|of| of.offered)),
        ("started_requests", requests.map(|of| of.started)),
        ("ok_requests", requests.map(|of| of.ok)),
        ("failed_requests", requests.map(|of| of.failed)),
        ("cancelled_requests", requests.map(|of| of.cancelled)),
        ("censored_requests", requests.map(|of| of.censored)),
        ("dropped_requests", requests.map(|of| of.dropped)),
        ("retried_requests", requests.map(|of| of.retried)),
        ("capped_requests", requests.map(|of| of.capped)),
    ];
    cells.extend(counts.map(|(name, count)| cell(name, plain(count))));
    cells.extend(CLASSES.map(|class| {
        let failed = requests.map(|of| of.errors.get(class).copied().unwrap_or(0));
        cell(&format!("{class}_errors"), plain(failed))
    }));
    let example = requests.map(|of| {
        let all = of.error_examples.iter().map(|(class, text)| format!("{class}: {text}"));
        all.collect::<Vec<_>>().join("; ")
    });
    cells.push(cell("error_examples", text(&example.unwrap_or_default())));
    let latency = summary.map(|summary| &summary.latency);
    let all: [(&str, Option<&Distribution>); 12] = [
        ("ttfb", latency.map(|of| &of.ttfb)),
        ("ttft", latency.map(|of| &of.ttft)),
        ("ttfo", latency.map(|of| &of.ttfo)),
        ("ttst", latency.map(|of| &of.ttst)),
        ("icl", latency.map(|of| &of.icl)),
        ("itl", latency.map(|of| &of.itl)),
        ("tpot", latency.map(|of| &of.tpot)),
        ("ntpot", latency.map(|of| &of.ntpot)),
        ("e2e", latency.map(|of| &of.e2e)),
        ("service_ttfb", latency.map(|of| &of.service.ttfb)),
        ("service_ttft", latency.map(|of| &of.service.ttft)),
        ("service_e2e", latency.map(|of| &of.service.e2e)),
    ];
    cells.extend(all.into_iter().flat_map(|(name, of)| distribution(name, of)));
    let legs = summary.and_then(|summary| summary.legs.as_ref());
    let of_legs = [
        ("prefill_leg", legs.map(|of| &of.prefill_leg)),
        ("client_gap", legs.map(|of| &of.client_gap)),
        ("decode_first", legs.map(|of| &of.decode_first)),
    ];
    cells.extend(of_legs.into_iter().flat_map(|(name, of)| distribution(name, of)));
    let handoff = legs.and_then(|of| Some(&of.handoff.as_ref()?.estimate.as_ref()?.percentiles));
    let router = legs.and_then(|of| Some(&of.router.as_ref()?.overhead));
    cells.extend([
        cell("handoff_p50_ns", plain(handoff.and_then(|of| of.p50))),
        cell("handoff_p95_ns", plain(handoff.and_then(|of| of.p95))),
        cell("router_overhead_p50_ns", plain(router.and_then(|of| of.p50))),
        cell("router_overhead_p95_ns", plain(router.and_then(|of| of.p95))),
        cell("kv_fallback_requests", plain(legs.map(|of| of.kv_fallback.count))),
    ]);
    let tokens = summary.map(|summary| &summary.tokens);
    cells.extend([
        cell("input_tokens", plain(tokens.map(|of| of.input))),
        cell("output_tokens", plain(tokens.map(|of| of.output))),
        cell("reasoning_tokens", plain(tokens.and_then(|of| of.reasoning))),
        cell("token_source", tokens.and_then(|of| of.source.clone()).unwrap_or_default()),
    ]);
    let goodput = summary.and_then(|summary| summary.goodput.as_ref());
    cells.extend([
        cell("good_requests", plain(goodput.map(|of| of.good))),
        cell("goodput_tps", real(goodput.and_then(|of| of.tps))),
    ]);
    cells
}

/// What was asked for, and when it ran.
fn asked(summary: Option<&Summary>) -> Cells {
    let load = summary.map(|summary| &summary.workload.load);
    let kind = load.map_or("", |load| match load {
        LoadReport::Closed { .. } => "closed",
        LoadReport::Open { .. } => "open",
        LoadReport::Series { .. } => "series",
        LoadReport::Replay { .. } => "replay",
    });
    let users = load.and_then(|load| match load {
        LoadReport::Closed { users, .. } => Some(*users),
        _ => None,
    });
    let said = |take: fn(&Summary) -> &str| text(summary.map_or("", take));
    let run = summary.map(|summary| &summary.run);
    vec![
        cell("name", said(|summary| summary.run.name.as_deref().unwrap_or_default())),
        cell("url", said(|summary| &summary.target.url)),
        cell("dialect", said(|summary| &summary.target.dialect)),
        cell("model", said(|summary| &summary.target.model)),
        cell("load", kind),
        cell("users", plain(users)),
        cell("seed", plain(run.map(|run| run.seed))),
        // Nobody knows when a rebuilt run began.
        cell("start_unix_ns", plain(run.map(|run| run.start_realtime_ns).filter(|&at| at > 0))),
        cell("window_s", real(run.map(|run| run.window.seconds))),
        cell("interrupted", plain(run.map(|run| run.interrupted))),
    ]
}

/// A distribution of the successful.
fn distribution(name: &str, of: Option<&Distribution>) -> Cells {
    let named = |what: &str, value: String| (format!("{name}_{what}"), value);
    let p = of.map(|of| of.percentiles);
    let ends = of.map(|of| of.ci95);
    let all = ["p50", "p75", "p90", "p95", "p99", "p99_9"].into_iter();
    let all = all.zip([500, 750, 900, 950, 990, 999]);
    let mut cells = vec![
        named("count", plain(of.map(|of| of.count))),
        named("mean_ns", real(of.and_then(|of| of.mean))),
        named("stdev_ns", real(of.and_then(|of| of.stdev))),
        named("min_ns", plain(of.and_then(|of| of.min))),
        named("max_ns", plain(of.and_then(|of| of.max))),
    ];
    for (word, thousandths) in all {
        let value = p.and_then(|p| p.at(thousandths).copied().flatten());
        let [low, high] = ends.and_then(|ends| ends.at(thousandths).copied()).unwrap_or_default();
        cells.push(named(&format!("{word}_ns"), plain(value)));
        cells.push(named(&format!("{word}_ci95_low_ns"), plain(low)));
        cells.push(named(&format!("{word}_ci95_high_ns"), plain(high)));
    }
    cells
}

/// Rates, and the judged figures, in which failed requests took longer than anything.
fn of_figures(of: &Figures) -> Cells {
    let rates = [
        ("offered_rps", of.offered_rps),
        ("rps", of.rps),
        ("achieved_share", of.achieved_share),
        ("drain_rps", of.drain_rps),
        ("output_tps", of.output_tps),
        ("input_tps", of.input_tps),
        ("per_user_tps", of.per_user_tps),
        ("goodput_rps", of.goodput_rps),
        ("goodput_share", of.goodput_share),
        ("error_rate", of.error_rate),
        ("refused_share", of.refused_share),
    ];
    let judged = [
        ("judged_ttft_p50_ns", of.ttft_p50),
        ("judged_ttft_p95_ns", of.ttft_p95),
        ("judged_ttft_p99_ns", of.ttft_p99),
        ("judged_itl_p50_ns", of.itl_p50),
        ("judged_itl_p95_ns", of.itl_p95),
        ("judged_itl_p99_ns", of.itl_p99),
        ("judged_e2e_p50_ns", of.e2e_p50),
        ("judged_e2e_p95_ns", of.e2e_p95),
        ("in_flight_max", of.in_flight_max),
    ];
    let rates = rates.map(|(name, value)| cell(name, real(value)));
    rates.into_iter().chain(judged.map(|(name, value)| cell(name, plain(value)))).collect()
}

/// Whether objectives held, the client can be believed, and the service was steady.
fn verdicts(point: &Point<'_>) -> Cells {
    let summary = point.summary.as_deref();
    let (mut objectives, mut client) = (Vec::new(), None);
    let mut steadiness = Steadiness::default();
    match (summary, point.place) {
        (Some(summary), _) => {
            let classes = summary.classes.iter().map(|class| &class.slo);
            let reports = classes.chain([&summary.slo]).flatten();
            objectives.extend(reports.flat_map(|slo| &slo.objectives));
            client = Some(summary.client.verdict);
            steadiness = summary.steadiness.clone();
        }
        (None, Place::Level(_, run, ..)) => {
            objectives.extend(&run.objectives);
            client = Some(run.client);
            (steadiness.is_steady, steadiness.rising) = (run.steady, run.rising);
        }
        (None, Place::Probe(probe, ..)) => client = Some(probe.client),
        (None, Place::Run) => {}
    }
    let not_held = |held| {
        let missed = objectives.iter().filter(|one: &&&ObjectiveReport| one.verdict == held);
        missed.map(|one| one.text.clone()).collect::<Vec<_>>().join("; ")
    };
    let (missed, unknown) = (not_held(Held::Fail), not_held(Held::Unknown));
    let slo = match (objectives.len(), missed.is_empty(), unknown.is_empty()) {
        (0, ..) => "",
        (_, false, _) => "fail",
        (_, true, false) => "unknown",
        (_, true, true) => "pass",
    };
    let client = client.map_or("", |client| match client {
        Health::Valid => "valid",
        Health::Suspect => "suspect",
        Health::Invalid => "invalid",
    });
    vec![
        cell("slo", slo),
        cell("slo_missed", text(&missed)),
        cell("slo_unknown", text(&unknown)),
        cell("client", client),
        cell("steady", plain(steadiness.is_steady)),
        cell("rising", plain(steadiness.rising)),
    ]
}

#[cfg(test)]
mod tests {
    use tokclock_engine::record::ErrorClass;

    use super::*;

    #[test]
    fn every_class_of_failures_has_a_column() {
        for class in CLASSES {
            assert!(serde_json::from_str::<ErrorClass>(&format!("\"{class}\"")).is_ok(), "{class}");
        }
    }

    #[test]
    fn no_two_columns_have_one_name() {
        let mut cells = of_summary(None);
        cells.extend(of_figures(&Figures::default()));
        let mut names: Vec<String> = cells.into_iter().map(|(name, _)| name).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
