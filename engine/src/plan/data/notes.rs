//! What a user should know of a data set that was read without a fault.

use super::fields::time_unit;
use super::gather::Gather;
use crate::workload::{DataSpec, Format, TimeUnit};

/// Remarks on what was read, a line each.
pub(super) fn notes(spec: &DataSpec, gather: &Gather<'_>) -> Vec<String> {
    let remarks = &gather.reader.remarks;
    let counted = |count: u64, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {many}")),
    };
    let mut notes: Vec<String> = [
        counted(
            remarks.leading_answers,
            "message of the assistant before any of the user was left out",
            "messages of the assistant before any of the user were left out",
        ),
        counted(
            remarks.last_answers,
            "message of the assistant at the end is taken as the recorded answer, not sent",
            "messages of the assistant at the end are taken as recorded answers, not sent",
        ),
        counted(
            remarks.set_by_the_run,
            "member of a body (model, stream, stream_options, n) is replaced by the run's own",
            "members of bodies (model, stream, stream_options, n) are replaced by the run's own",
        ),
        counted(
            remarks.failed,
            "request failed in the recording (0 response tokens) and was left out",
            "requests failed in the recording (0 response tokens) and were left out",
        ),
        counted(
            gather.going_on,
            "line goes on with the conversation of its session_id",
            "lines go on with the conversations of their session_id",
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(unused) = &remarks.unused {
        notes.push(format!("not used, as far as the first line shows: {unused}"));
    }
    let entries = gather.report.entries;
    if gather.untimed > 0 && gather.untimed < entries {
        let untimed = gather.untimed;
        notes.push(format!("{untimed} of {entries} entries have no time: times are not used"));
    }
    if gather.untimed == 0 {
        let format = gather.reader.format();
        let odd = odd_origin(spec, format, gather.first_ns);
        notes.extend(odd.or_else(|| odd_times(spec, format, &gather.kept.times)));
    }
    notes
}

/// A remark if the first time is in seconds since 1970, but was taken as milliseconds.
fn odd_origin(spec: &DataSpec, format: Format, first_ns: Option<u64>) -> Option<String> {
    // From 2001 to 2096; taken as ms, days of January and February 1970.
    const SECONDS_AS_MS: std::ops::Range<u64> =
        1_000_000_000 * 1_000_000..4_000_000_000 * 1_000_000;
    let is_ms = spec.time_unit.is_none() && time_unit(spec, format) == TimeUnit::Milliseconds;
    let looks_odd = first_ns.is_some_and(|first| SECONDS_AS_MS.contains(&first));
    (is_ms && looks_odd).then(|| {
        "times are taken in ms, but look like seconds since 1970: if they are, say --time-unit s"
            .to_owned()
    })
}

/// A remark if the times of a recording look like those of the other unit.
fn odd_times(spec: &DataSpec, format: Format, times: &[u64]) -> Option<String> {
    const ENOUGH: usize = 100;
    const SECOND_NS: u64 = 1_000_000_000;
    const TOO_SHORT_NS: u64 = 5 * SECOND_NS;
    const TOO_SLOW_NS: u64 = 100 * SECOND_NS;
    let lasts = times.last().copied().filter(|_| times.len() >= ENOUGH)?;
    if spec.time_unit.is_some() || format == Format::Azure {
        return None;
    }
    let gap = lasts / times.len() as u64;
    let (taken, other) = match time_unit(spec, format) {
        TimeUnit::Milliseconds if lasts > 0 && lasts < TOO_SHORT_NS => {
            (TimeUnit::Milliseconds, TimeUnit::Seconds)
        }
        TimeUnit::Seconds if gap > TOO_SLOW_NS => (TimeUnit::Seconds, TimeUnit::Milliseconds),
        _ => return None,
    };
    Some(format!(
        "times are taken in {taken}, so {} requests last {} s: if that is wrong, say \
         --time-unit {other}",
        times.len(),
        lasts as f64 / SECOND_NS as f64
    ))
}
