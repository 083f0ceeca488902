//! A curve as CSV: one line for each repetition, for whoever wants to draw it.

use std::fmt::Display;

use tokclock_engine::measure::curve::{Curve, Figures, Intervals, Level, Repetition};
use tokclock_engine::measure::{Health, Held, Interval};

/// The columns of `curve.csv`, the 95 % intervals apart.
const COLUMNS: [&str; 35] = [
    "variable",
    "value",
    "level",
    "repetition",
    "offered_rps",
    "rps",
    "achieved_share",
    "drain_rps",
    "output_tps",
    "input_tps",
    "goodput_rps",
    "goodput_share",
    "per_user_tps",
    "ttft_p50_ns",
    "ttft_p95_ns",
    "ttft_p99_ns",
    "itl_p50_ns",
    "itl_p95_ns",
    "itl_p99_ns",
    "e2e_p50_ns",
    "e2e_p95_ns",
    "served_ttft_p50_ns",
    "served_ttft_p95_ns",
    "served_e2e_p50_ns",
    "error_rate",
    "refused_share",
    "in_flight_max",
    "requests",
    "slo",
    "not_held",
    "saturated",
    "client",
    "steady",
    "rising",
    "dir",
];

/// The latencies that have 95 % intervals; each has two columns, of the ends.
const INTERVALS: [&str; 8] =
    ["ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "itl_p95", "itl_p99", "e2e_p50", "e2e_p95"];

/// `curve` as CSV (RFC 4180, lines ended by `\n`) with a header line: one line for each repetition,
/// levels in the order they were run. Names end in their unit; rates are per second, shares 0 to 1,
/// what does not exist is empty. `saturated` is the level's; `not_held` are the objectives that did
/// not hold. A text that a spreadsheet would take for a formula begins with `'`.
///
/// # Errors
/// None that is known of: it is written to memory.
pub fn curve_csv(curve: &Curve) -> Result<Vec<u8>, csv::Error> {
    let mut out = Vec::new();
    let mut table = csv::Writer::from_writer(&mut out);
    let ends = INTERVALS
        .iter()
        .flat_map(|name| [format!("{name}_ci95_low_ns"), format!("{name}_ci95_high_ns")]);
    table.write_record(COLUMNS.iter().map(|name| (*name).to_owned()).chain(ends))?;
    for (at, level) in curve.levels.iter().enumerate() {
        for (number, repetition) in level.repetitions.iter().enumerate() {
            let mut line = vec![curve.variable.as_str().into(), real(Some(level.value))];
            line.extend([at + 1, number + 1].map(|number| number.to_string()));
            line.extend(figures(&repetition.figures));
            line.extend(verdicts(level, repetition));
            line.extend(intervals(&repetition.figures.ci95));
            table.write_record(&line)?;
        }
    }
    table.flush()?;
    drop(table);
    Ok(out)
}

/// In the order of [`COLUMNS`]. Every figure is named, so that none can be forgotten.
fn figures(of: &Figures) -> Vec<String> {
    let Figures { offered_rps, rps, achieved_share, drain_rps, output_tps, input_tps, .. } = of;
    let Figures { goodput_rps, goodput_share, per_user_tps, .. } = of;
    let Figures {
        ttft_p50, ttft_p95, ttft_p99, itl_p50, itl_p95, itl_p99, e2e_p50, e2e_p95, ..
    } = of;
    let Figures { served_ttft_p50, served_ttft_p95, served_e2e_p50, .. } = of;
    let Figures { error_rate, refused_share, in_flight_max, requests, .. } = of;
    let rates = [
        offered_rps,
        rps,
        achieved_share,
        drain_rps,
        output_tps,
        input_tps,
        goodput_rps,
        goodput_share,
        per_user_tps,
    ];
    let times = [
        ttft_p50,
        ttft_p95,
        ttft_p99,
        itl_p50,
        itl_p95,
        itl_p99,
        e2e_p50,
        e2e_p95,
        served_ttft_p50,
        served_ttft_p95,
        served_e2e_p50,
    ];
    let mut cells: Vec<String> = rates.into_iter().map(|value| real(*value)).collect();
    cells.extend(times.into_iter().map(|value| plain(*value)));
    cells.extend([
        real(*error_rate),
        real(*refused_share),
        plain(*in_flight_max),
        plain(*requests),
    ]);
    cells
}

fn verdicts(level: &Level, repetition: &Repetition) -> Vec<String> {
    let Repetition { slo, objectives, client, steady, rising, dir, .. } = repetition;
    let missed = objectives.iter().filter(|one| one.verdict != Held::Pass);
    let missed: Vec<&str> = missed.map(|one| one.text.as_str()).collect();
    let held = slo.map(|slo| match slo {
        Held::Pass => "pass",
        Held::Fail => "fail",
        Held::Unknown => "unknown",
    });
    let client = match client {
        Health::Valid => "valid",
        Health::Suspect => "suspect",
        Health::Invalid => "invalid",
    };
    vec![
        plain(held),
        text(&missed.join("; ")),
        plain(level.saturated),
        client.into(),
        plain(*steady),
        plain(*rising),
        text(dir),
    ]
}

fn intervals(of: &Intervals) -> impl Iterator<Item = String> {
    let Intervals { ttft_p50, ttft_p95, ttft_p99, itl_p50, itl_p95, itl_p99, e2e_p50, e2e_p95 } =
        *of;
    let all: [Interval; INTERVALS.len()] =
        [ttft_p50, ttft_p95, ttft_p99, itl_p50, itl_p95, itl_p99, e2e_p50, e2e_p95];
    all.into_iter().flatten().map(plain)
}

/// A number, or nothing.
pub(super) fn plain<T: Display>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// With all its digits, and never NaN or infinite.
pub(super) fn real(value: Option<f64>) -> String {
    plain(value.filter(|value| value.is_finite()))
}

/// A text that no spreadsheet takes for a formula (OWASP, "CSV Injection").
pub(super) fn text(text: &str) -> String {
    let acts = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    if acts { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::curve::planted::{MS, closed, open, run, served};
    use super::*;
    use tokclock_engine::measure::curve::Variable;

    /// The lines by the names of their columns.
    fn lines(curve: &Curve) -> Vec<BTreeMap<String, String>> {
        let bytes = curve_csv(curve).unwrap();
        let mut table = csv::Reader::from_reader(bytes.as_slice());
        table.deserialize().map(Result::unwrap).collect()
    }

    #[test]
    fn there_is_a_line_for_each_repetition_with_the_load_of_its_level() {
        let curve = closed();
        let lines = lines(&curve);
        assert_eq!(lines.len(), 16);
        let at = |line: usize, name: &str| lines[line][name].as_str();
        assert_eq!((at(4, "variable"), at(4, "value"), at(4, "level")), ("concurrency", "4", "3"));
        assert_eq!((at(4, "repetition"), at(5, "repetition")), ("1", "2"));
        assert_eq!((at(4, "ttft_p95_ns"), at(5, "ttft_p95_ns")), ("24615384", "29538460"));
        assert_eq!((at(0, "slo"), at(15, "slo"), at(15, "saturated")), ("pass", "fail", "true"));
        assert_eq!((at(0, "not_held"), at(15, "not_held")), ("", "p95(ttft)<500ms"));
        assert_eq!((at(0, "offered_rps"), at(0, "steady"), at(0, "client")), ("", "", "valid"));
    }

    #[test]
    fn every_figure_is_under_its_name() {
        let mut figures = serde_json::to_value(served(8.0)).unwrap();
        let fields = figures.as_object_mut().unwrap();
        let names: Vec<String> = fields.keys().filter(|name| *name != "ci95").cloned().collect();
        for (at, name) in names.iter().enumerate() {
            fields[name] = (1000 + at).into();
        }
        for (at, name) in INTERVALS.iter().enumerate() {
            fields["ci95"][name] = serde_json::json!([2000 + at, null]);
        }
        let figures: Figures = serde_json::from_value(figures).unwrap();
        let level = Level::of(8.0, vec![run(figures, "a", Held::Pass)]);
        let lines = lines(&Curve::new(Variable::Rate, vec![level], "a", None));
        for (at, name) in names.iter().enumerate() {
            let is_time = ["ttft", "itl", "e2e"].iter().any(|part| name.contains(part));
            let column = if is_time { format!("{name}_ns") } else { name.clone() };
            assert_eq!(lines[0][&column], (1000 + at).to_string(), "{name}");
        }
        for (at, name) in INTERVALS.iter().enumerate() {
            assert_eq!(lines[0][&format!("{name}_ci95_low_ns")], (2000 + at).to_string());
            assert_eq!(lines[0][&format!("{name}_ci95_high_ns")], "");
        }
    }

    #[test]
    fn texts_survive_and_none_is_a_formula() {
        for (given, read) in [
            ("levels/01, \"a\"\nb\r\n", "levels/01, \"a\"\nb\r\n"),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("", ""),
        ] {
            let mut curve = open();
            curve.levels[0].repetitions[0].dir = given.into();
            curve.levels[0].repetitions[0].objectives[0].text = given.into();
            curve.levels[0].repetitions[0].objectives[0].verdict = Held::Fail;
            let lines = lines(&curve);
            assert_eq!((lines[0]["dir"].as_str(), lines[0]["not_held"].as_str()), (read, read));
            assert_eq!(lines.len(), 6);
        }
    }

    #[test]
    fn no_number_is_nan_or_infinite() {
        let mut curve = open();
        curve.levels[0].value = f64::INFINITY;
        let figures = &mut curve.levels[0].repetitions[0].figures;
        (figures.rps, figures.output_tps) = (Some(f64::NAN), Some(f64::NEG_INFINITY));
        figures.ttft_p95 = Some(3 * MS);
        let text = String::from_utf8(curve_csv(&curve).unwrap()).unwrap();
        assert!(
            !text.contains("NaN") && !text.contains("inf,") && !text.contains("-inf"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 7);
        let none = Curve::new(Variable::Rate, Vec::new(), "a", None);
        assert_eq!(lines(&none).len(), 0, "a header alone");
    }
}
