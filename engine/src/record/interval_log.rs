//! Histograms of a run as a HdrHistogram interval log, which the usual tools read: of the whole run
//! as it ends, and of its seconds from its records.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError,
    LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use super::{HIGHEST_NS, histogram};
use crate::measure::{Facts, Request, Since};

/// The column that says the largest value shows it in ms.
const NS_PER_MS: f64 = 1_000_000.0;

/// Writes the pooled histograms as one interval from the run's start to its end, with the tags
/// `icl`, `itl` and `lag`. Values are ns.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_interval_log(out: &mut impl Write, facts: &Facts) -> io::Result<()> {
    let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(facts.start_realtime_ns);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("values are ns, the column of the largest is ms")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(out, &mut serializer)?;
    let length = Duration::from_nanos(facts.end);
    let pooled = &facts.pooled;
    for (name, values) in [("icl", &pooled.icl), ("itl", &pooled.itl), ("lag", &pooled.lag)] {
        write_one(&mut log, name, values, length)?;
    }
    Ok(())
}

fn write_one<W: Write>(
    log: &mut IntervalLogWriter<'_, '_, W, V2DeflateSerializer>,
    name: &str,
    values: &Histogram<u64>,
    length: Duration,
) -> io::Result<()> {
    write_at(log, name, values, Duration::ZERO, length)
}

fn write_at<W: Write>(
    log: &mut IntervalLogWriter<'_, '_, W, V2DeflateSerializer>,
    name: &str,
    values: &Histogram<u64>,
    start: Duration,
    length: Duration,
) -> io::Result<()> {
    let tag = Tag::new(name).ok_or_else(|| io::Error::other("no name for a tag"))?;
    log.write_histogram(values, start, length, Some(tag)).map_err(|error| match error {
        IntervalLogWriterError::IoError(error) => error,
        IntervalLogWriterError::SerializeError(error) => io::Error::other(error.to_string()),
    })
}

/// The latencies of an interval log of seconds, in the order in which they are kept.
const LATENCIES: [&str; 4] = ["ttfb", "ttft", "tpot", "e2e"];
const NS_PER_S: u64 = 1_000_000_000;

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
    /// The second since the run's start, and the latencies of a request that ended in it.
    ended: Vec<(u64, [Option<u64>; LATENCIES.len()])>,
    whole: Vec<(String, Duration, Histogram<u64>)>,
}

impl SecondsLog {
    /// The next requests are those of a run that began at `start_realtime_ns`; its tags begin with
    /// `prefix`.
    pub fn begin(&mut self, prefix: &str, start_realtime_ns: u64) {
        let (ended, whole) = (Vec::new(), Vec::new());
        self.runs.push(RunLog { prefix: prefix.to_owned(), start_realtime_ns, ended, whole });
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
        let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        for entry in IntervalLogIterator::new(log) {
            let entry = entry.map_err(|_| bad("it is no interval log".to_owned()))?;
            let LogEntry::Interval(interval) = entry else { continue };
            let Some(tag) = interval.tag() else { continue };
            let bytes = STANDARD
                .decode(interval.encoded_histogram())
                .map_err(|error| bad(error.to_string()))?;
            let values = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .map_err(|error| bad(error.to_string()))?;
            run.whole.push((tag.as_str().to_owned(), interval.duration(), values));
        }
        Ok(())
    }

    /// Writes the log: for each run one interval a second and latency, where there is any, with the
    /// tags `ttfb`, `ttft`, `tpot` and `e2e`; then its histograms as a whole. Values are ns.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        let base = self.runs.iter().map(|run| run.start_realtime_ns).min().unwrap_or(0);
        let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(base);
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment("values are ns, the column of the largest is ms")
            .with_start_time(start)
            .with_base_time(start)
            .with_max_value_divisor(NS_PER_MS)
            .begin_log_with(out, &mut serializer)?;
        let mut values = histogram();
        for run in &mut self.runs {
            let offset = Duration::from_nanos(run.start_realtime_ns - base);
            run.ended.sort_unstable_by_key(|(second, _)| *second);
            for second in run.ended.chunk_by(|one, next| one.0 == next.0) {
                let at = offset + Duration::from_secs(second[0].0);
                for (place, name) in LATENCIES.iter().enumerate() {
                    values.reset();
                    for value in second.iter().filter_map(|(_, latencies)| latencies[place]) {
                        // Within the bounds, so recording cannot fail.
                        let _ = values.record(value.min(HIGHEST_NS));
                    }
                    if !values.is_empty() {
                        let tag = format!("{}{name}", run.prefix);
                        write_at(&mut log, &tag, &values, at, Duration::from_secs(1))?;
                    }
                }
            }
            for (name, length, values) in &run.whole {
                write_at(&mut log, &format!("{}{name}", run.prefix), values, offset, *length)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{MS, closed, failed, row_at};
    use crate::record::{ErrorClass, Pooled};

    fn facts(pooled: Pooled) -> Facts {
        Facts {
            start_monotonic_ns: 1,
            start_realtime_ns: 1_700_000_000_500_000_000,
            load_start: 0,
            window_start: 0,
            window_end: 2_000_000_000,
            window_by_requests: false,
            end: 2_500_000_000,
            interrupted: false,
            driver: "epoll".to_owned(),
            ring: String::new(),
            kernel_stamps: true,
            tallies: Vec::new(),
            pooled,
            host: crate::telemetry::host::Watched::default(),
            resolve_ns: 0,
            ramp_ns: 0,
            steered: Default::default(),
            ceiling: None,
        }
    }

    #[test]
    fn the_log_reads_back_with_its_own_reader() {
        let mut pooled = Pooled::default();
        pooled.icl.record_n(20_000_000, 3).unwrap();
        pooled.itl.record_n(10_000_000, 6).unwrap();
        let mut text = Vec::new();
        write_interval_log(&mut text, &facts(pooled.clone())).unwrap();

        let mut read = Vec::new();
        let mut starts = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            match entry.unwrap() {
                LogEntry::Interval(interval) => {
                    assert_eq!(interval.duration(), Duration::from_millis(2500));
                    let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
                    let values: Histogram<u64> =
                        Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                    read.push((interval.tag().unwrap().as_str().to_owned(), values));
                }
                LogEntry::StartTime(at) | LogEntry::BaseTime(at) => starts.push(at),
            }
        }
        assert_eq!(starts, [Duration::from_millis(1_700_000_000_500); 2]);
        let expected = [("icl", pooled.icl), ("itl", pooled.itl), ("lag", pooled.lag)];
        assert_eq!(read.len(), expected.len());
        for ((tag, values), (name, original)) in read.iter().zip(&expected) {
            assert_eq!(tag, name);
            assert!(values == original, "{name}");
        }
    }
    #[test]
    fn seconds_hold_the_requests_that_ended_in_them() {
        let mut pooled = Pooled::default();
        pooled.icl.record_n(20_000_000, 3).unwrap();
        let mut whole = Vec::new();
        write_interval_log(&mut whole, &facts(pooled)).unwrap();
        let mut log = SecondsLog::default();
        log.begin("", 1_700_000_000_500_000_000);
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
