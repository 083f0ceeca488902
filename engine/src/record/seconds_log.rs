//! The latencies of a run by the second in which its requests ended, as a HdrHistogram interval log.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriter;

use super::interval_log::{begin_log, read_interval_log, write_at};
use super::{HIGHEST_NS, histogram};
use crate::measure::{Request, Since};

/// The latencies of an interval log of seconds, in the order in which they are kept.
const LATENCIES: [&str; 4] = ["ttfb", "ttft", "tpot", "e2e"];
const NS_PER_S: u64 = 1_000_000_000;

/// Those of one request, ns.
type Latencies = [Option<u64>; LATENCIES.len()];

/// The latencies of runs by the second in which their requests ended, and the histograms that were
/// kept of each run as a whole.
#[derive(Debug, Default)]
pub struct SecondsLog {
    runs: Vec<RunLog>,
}

#[derive(Debug)]
struct RunLog {
    /// Begins the tags.
    prefix: String,
    start_realtime_ns: u64,
    length: Duration,
    /// The second since the run's start, and the latencies of a request that ended in it.
    ended: Vec<(u64, Latencies)>,
    whole: Vec<(String, Histogram<u64>)>,
}

impl SecondsLog {
    /// The next requests are those of a run that began at a time of day and lasted so long, both ns;
    /// its tags begin with `prefix`.
    pub fn begin(&mut self, prefix: &str, start_realtime_ns: u64, length_ns: u64) {
        let length = Duration::from_nanos(length_ns);
        let (prefix, ended, whole) = (prefix.to_owned(), Vec::new(), Vec::new());
        self.runs.push(RunLog { prefix, start_realtime_ns, length, ended, whole });
    }

    /// Adds a request of that run, if it ended well in the measured part.
    pub fn add(&mut self, request: &Request) {
        let (Some(run), Some(done)) = (self.runs.last_mut(), request.completed()) else { return };
        if request.is_ok() && request.is_measured() {
            let from = Since::Origin;
            let values =
                [request.ttfb(from), request.ttft(from), request.tpot(), request.e2e(from)];
            run.ended.push((done / NS_PER_S, values));
        }
    }

    /// Adds the histograms of that run as a whole, from the text of its own log.
    ///
    /// # Errors
    /// If that is none.
    pub fn add_whole(&mut self, log: &[u8]) -> io::Result<()> {
        let Some(run) = self.runs.last_mut() else { return Ok(()) };
        run.whole = read_interval_log(log)?;
        run.whole.retain(|(tag, _)| !tag.is_empty());
        Ok(())
    }

    /// Writes the log: for each run one interval a second and latency, where there is any, with the
    /// tags `ttfb`, `ttft`, `tpot` and `e2e`; then its histograms as a whole. Values are ns.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        let base = self.runs.iter().map(|run| run.start_realtime_ns).min().unwrap_or(0);
        let mut serializer = V2DeflateSerializer::new();
        let mut log = begin_log(out, &mut serializer, base)?;
        let mut values = histogram();
        for run in &mut self.runs {
            let offset = Duration::from_nanos(run.start_realtime_ns - base);
            run.ended.sort_unstable_by_key(|(second, _)| *second);
            for second in run.ended.chunk_by(|one, next| one.0 == next.0) {
                let at = offset + Duration::from_secs(second[0].0);
                write_second(&mut log, &run.prefix, at, second, &mut values)?;
            }
            for (name, values) in &run.whole {
                write_at(&mut log, &format!("{}{name}", run.prefix), values, offset, run.length)?;
            }
        }
        Ok(())
    }
}

/// Writes every latency of one second that there is, by way of `values`.
fn write_second<W: Write>(
    log: &mut IntervalLogWriter<'_, '_, W, V2DeflateSerializer>,
    prefix: &str,
    at: Duration,
    second: &[(u64, Latencies)],
    values: &mut Histogram<u64>,
) -> io::Result<()> {
    for (place, name) in LATENCIES.iter().enumerate() {
        fill(values, second, place);
        if !values.is_empty() {
            write_at(log, &format!("{prefix}{name}"), values, at, Duration::from_secs(1))?;
        }
    }
    Ok(())
}

/// Holds the latency at `place` of the requests of one second, and nothing else.
fn fill(values: &mut Histogram<u64>, second: &[(u64, Latencies)], place: usize) {
    values.reset();
    for value in second.iter().filter_map(|(_, latencies)| latencies[place]) {
        // Within the bounds, so recording cannot fail.
        let _ = values.record(value.min(HIGHEST_NS));
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::measure::Facts;
    use crate::measure::rows::{MS, closed, facts, failed, row_at};
    use crate::record::{ErrorClass, Pooled, write_interval_log};

    #[test]
    fn seconds_hold_the_requests_that_ended_in_them() {
        let mut pooled = Pooled::default();
        pooled.icl.record_n(20_000_000, 3).unwrap();
        let facts = Facts { pooled, ..facts(1000) };
        let mut whole = Vec::new();
        write_interval_log(&mut whole, &facts).unwrap();
        let mut log = SecondsLog::default();
        log.begin("", 1_700_000_000_500_000_000, facts.end);
        let rows = [
            row_at(0, 0, 0, &[200, 300]),
            row_at(1, 10, 10, &[100]),
            row_at(2, 2000, 2000, &[2100, 3200]),
            failed(3, ErrorClass::ConnReset, 0, 500),
        ];
        rows.iter().for_each(|row| log.add(&Request::new(row, &closed(1))));
        log.add_whole(&whole).unwrap();
        assert!(log.add_whole(b"no log").is_err());
        let mut text = Vec::new();
        log.write(&mut text).unwrap();
        let mut seen = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            let LogEntry::Interval(interval) = entry.unwrap() else { continue };
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let values: Histogram<u64> =
                Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            let tag = interval.tag().unwrap().as_str().to_owned();
            seen.push((interval.start_timestamp().as_secs(), tag, values.len(), values.max()));
        }
        let near = |value: u64, ms: u64| value.abs_diff(ms * MS) <= ms * MS / 500;
        let of = |at: u64, tag: &str| {
            seen.iter().find(|one| one.0 == at && one.1 == tag).map(|one| (one.2, one.3))
        };
        let (count, most) = of(0, "ttft").unwrap();
        assert!(count == 2 && near(most, 200), "{seen:?}");
        assert!(of(0, "tpot").is_some_and(|(count, most)| count == 1 && near(most, 100)));
        assert!(of(3, "e2e").is_some_and(|(count, most)| count == 1 && near(most, 1200)));
        assert_eq!((of(1, "ttft"), of(2, "e2e")), (None, None));
        assert_eq!(of(0, "icl").map(|one| one.0), Some(3));
        assert_eq!(of(0, "lag").map(|one| one.0), Some(0));
    }
}
