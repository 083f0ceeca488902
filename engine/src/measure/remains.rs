//! The figures of a run that was cut off: what its finished requests tell, and that it is no more.

use super::health::{self, Reason, ReasonKind, Severity};
use super::{Facts, Summary, summarize};
use crate::record::Row;
use crate::workload::Workload;

/// All figures that `facts`, gathered from `rows`, and the rows support. The run counts as
/// interrupted, its client as suspect at best, and a note says where the figures come from.
#[must_use]
pub fn summarize_remains(
    workload: &Workload,
    facts: &Facts,
    rows: impl IntoIterator<Item = Row>,
) -> Summary {
    let mut summary = summarize(workload, facts, rows);
    let finished = summary.requests.ok + summary.requests.failed + summary.requests.cancelled;
    let reason = |kind, severity, message: &str, advice: &str| Reason {
        kind,
        severity,
        figure: finished as f64,
        threshold: 0.0,
        unit: "count".into(),
        message: message.into(),
        advice: advice.into(),
    };
    // One tally stands for all reactors: none of them is known.
    summary.client.reactors.clear();
    summary.client.reasons.push(reason(
        ReasonKind::CutOff,
        Severity::Suspect,
        "the run was cut off: its client was not judged, and counts of it that are 0 say nothing",
        "run it again to its end",
    ));
    summary.client.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.severity));
    summary.client.verdict = health::verdict(&summary.client.reasons);
    let mut message = format!(
        "rebuilt from the {finished} finished requests of the measured part: those in flight at the \
         end left no record, the window ends with the last completion, and when the run began is \
         not known"
    );
    if summary.latency.icl.count == 0 {
        message.push_str(
            "; without output events in the records (--chunks) there is no ICL and no ITL",
        );
    }
    let note = reason(
        ReasonKind::Rebuilt,
        Severity::Note,
        &message,
        "read these figures as a part of a run",
    );
    summary.notes.insert(0, note);
    summary
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::health::Health;
    use crate::measure::rows::{MS, closed, failed, open, row_at};
    use crate::record::{ErrorClass, Phase, Remains};

    fn rebuilt(workload: &Workload, rows: &[Row]) -> Summary {
        let mut remains = Remains::new(workload);
        rows.iter().for_each(|row| remains.add(row, workload));
        summarize_remains(workload, &remains.facts(workload), rows.iter().cloned())
    }

    #[test]
    fn what_rows_tell_is_told_and_nothing_else() {
        let mut warm = row_at(0, 0, 0, &[50, 60]);
        warm.phase = Phase::Warmup;
        let rows =
            [warm, row_at(1, 100, 100, &[200, 220]), failed(2, ErrorClass::ConnReset, 150, 1900)];
        let got = rebuilt(&closed(2), &rows);
        assert_eq!((got.requests.ok, got.requests.failed, got.requests.offered), (1, 1, 2));
        assert_eq!((got.run.window.start_ns, got.run.window.end_ns), (100 * MS, 1900 * MS));
        assert!(got.run.interrupted && got.run.window.by_requests);
        assert_eq!(got.latency.ttft.max, Some(100 * MS));
        assert_eq!((got.latency.itl.count, got.latency.icl.max), (0, None));
        assert_eq!(got.client.verdict, Health::Suspect);
        assert_eq!(got.client.reasons[0].kind, ReasonKind::CutOff);
        assert_eq!((got.client.unstamped_share, got.client.coalesced_share), (None, None));
        assert!(got.client.reactors.is_empty());
        assert_eq!(got.notes[0].kind, ReasonKind::Rebuilt);
        assert!(got.notes[0].message.contains("--chunks"), "{}", got.notes[0].message);
    }

    #[test]
    fn gaps_come_back_from_kept_events() {
        let mut row = row_at(0, 0, 0, &[100, 120, 150]);
        row.chunks = Some(vec![(100 * MS, 1), (120 * MS, 1), (150 * MS, 3)]);
        let got = rebuilt(&open(1.0), &[row]);
        assert_eq!((got.latency.icl.count, got.latency.itl.count), (2, 4));
        // A histogram knows it to 0.1 %.
        assert!(got.latency.icl.max.unwrap().abs_diff(30 * MS) <= 30_000);
        assert!(!got.notes[0].message.contains("--chunks"));
    }

    #[test]
    fn a_window_by_time_is_no_longer_than_that_time() {
        let mut workload = closed(1);
        workload.stop.requests = None;
        workload.stop.duration_ns = Some(1000 * MS);
        let rows = [row_at(0, 0, 0, &[900]), row_at(1, 950, 950, &[1500])];
        let got = rebuilt(&workload, &rows);
        assert_eq!((got.run.window.end_ns, got.run.window.by_requests), (1000 * MS, false));
    }

    #[test]
    fn no_row_at_all_is_an_empty_run() {
        let got = rebuilt(&closed(1), &[]);
        assert_eq!((got.requests.offered, got.rate.rps, got.requests.error_rate), (0, None, None));
        let text = serde_json::to_string(&got).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn requests_at_once_are_counted() {
        let mut remains = Remains::new(&closed(1));
        assert_eq!(remains.in_flight_max(), 0);
        for (index, at) in [0, 50, 100, 100, 400].into_iter().enumerate() {
            remains.add(&row_at(index as u64, at, at, &[at + 100]), &closed(1));
        }
        assert_eq!(remains.in_flight_max(), 3, "one ends as two begin");
    }

    #[test]
    fn seconds_without_a_request_are_there_too() {
        let mut remains = Remains::new(&closed(1));
        for row in [row_at(0, 0, 0, &[200, 300]), row_at(1, 3000, 3000, &[3100, 3200])] {
            remains.add(&row, &closed(1));
        }
        let seconds = remains.facts(&closed(1)).seconds();
        let ok: Vec<u64> = seconds.iter().map(|second| second.ok).collect();
        assert_eq!(ok, [1, 0, 0, 1]);
        assert_eq!((seconds[1].ttft_count, seconds[3].ttft_sum_ns), (0, 100 * MS));
    }
}
