//! `tokclock data check`: every line that cannot be used.

use tokclock_engine::plan::data::{self, BadLine, DataReport};
use tokclock_engine::workload::{DataSpec, Format};

use crate::args::CheckArgs;
use crate::exit::{Code, Failure};
use crate::output;
use crate::report::text::{count, escape, plural};
use crate::resolve::{self, gather};

/// Prints every bad line as it is met, then what was found.
pub(super) fn run(args: &CheckArgs) -> Result<Code, Failure> {
    let specs = resolve::recordings(args.data.options()?)?;
    if specs.is_empty() {
        return Err(Failure::usage(
            "nothing to check: name a recording, as in `tokclock data check traffic.jsonl`",
        ));
    }
    let mut all_good = true;
    for spec in &specs {
        let report = check(spec, &mut |bad| output::result(escape(&bad.to_string())))?;
        for line in summary(spec, &report).iter().filter(|_| !args.data.quiet) {
            output::note(escape(line));
        }
        all_good &= is_good(&report);
    }
    Ok(if all_good { Code::Ok } else { Code::CouldNotRun })
}

fn check(spec: &DataSpec, each: &mut dyn FnMut(&BadLine)) -> Result<DataReport, Failure> {
    data::check(spec, each, &gather::fetch).map_err(|error| Failure::usage(error.to_string()))
}

/// Whether a run would take it.
const fn is_good(report: &DataReport) -> bool {
    report.skipped == 0 && report.entries > 0
}

/// What was found, a line each.
fn summary(spec: &DataSpec, report: &DataReport) -> Vec<String> {
    let requests = report.turns;
    let format = match report.format {
        Format::Auto => "in no known format".to_owned(),
        format => format!("read as {format}"),
    };
    let mut first = format!(
        "{}: {} {} with {} {}, {} bad, {format}",
        spec.source,
        count(report.entries),
        plural(report.entries, "entry", "entries"),
        count(requests),
        plural(requests, "request", "requests"),
        count(report.skipped),
    );
    for (number, what) in [
        (report.filtered, "left out for their lengths"),
        (report.dropped_turns, "later turns left out (--single-turn)"),
    ] {
        if number > 0 {
            first.push_str(&format!(", {} {what}", count(number)));
        }
    }
    let mut lines = vec![first];
    if report.entries == 0 && report.skipped == 0 {
        lines.push("there is nothing in it to send".to_owned());
    }
    lines.extend(report.notes.iter().cloned());
    lines
}
