//! Histograms of a run as a HdrHistogram interval log, which the usual tools read.

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

use crate::measure::Facts;

/// The column that says the largest value shows it in ms.
pub(super) const NS_PER_MS: f64 = 1_000_000.0;
/// Tags of a log that is read, at most.
const TAGS_MAX: usize = 32;
/// Bytes of one histogram as it is encoded, at most: one of ours with every bucket in use has less.
const ENCODED_MAX: usize = 4 << 20;

/// Writes the pooled histograms as one interval from the run's start to its end, with the tags
/// `icl`, `itl` and `lag`. Values are ns.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_interval_log(out: &mut impl Write, facts: &Facts) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = begin_log(out, &mut serializer, facts.start_realtime_ns)?;
    let length = Duration::from_nanos(facts.end);
    let pooled = &facts.pooled;
    for (name, values) in [("icl", &pooled.icl), ("itl", &pooled.itl), ("lag", &pooled.lag)] {
        write_at(&mut log, name, values, Duration::ZERO, length)?;
    }
    Ok(())
}

/// Writes what stands before the histograms of a log that begins at a time of day, ns.
pub(super) fn begin_log<'a, 'b, W: Write>(
    out: &'a mut W,
    serializer: &'b mut V2DeflateSerializer,
    start_realtime_ns: u64,
) -> io::Result<IntervalLogWriter<'a, 'b, W, V2DeflateSerializer>> {
    let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(start_realtime_ns);
    IntervalLogWriterBuilder::new()
        .add_comment("values are ns, the column of the largest is ms")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(out, serializer)
}

/// Writes one histogram, under `name`, from `start` after the log's.
pub(super) fn write_at<W: Write>(
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

/// The histograms of an interval log, by tag and in the order in which tags come; intervals of one tag
/// are added up, those without a tag belong to an empty one. Values are ns.
///
/// # Errors
/// If a line is none of an interval log, or holds more than a run ever writes.
pub fn read_interval_log(log: &[u8]) -> io::Result<Vec<(String, Histogram<u64>)>> {
    let bad = |number: usize, why: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("entry {}: {why}", number + 1))
    };
    let mut found: Vec<(String, Histogram<u64>)> = Vec::new();
    let mut decoder = Deserializer::new();
    for (number, entry) in IntervalLogIterator::new(log).enumerate() {
        let entry = entry.map_err(|_| bad(number, "it is no line of an interval log"))?;
        let LogEntry::Interval(interval) = entry else { continue };
        let encoded = interval.encoded_histogram();
        if encoded.len() > ENCODED_MAX {
            return Err(bad(number, "its histogram is too large"));
        }
        let bytes = STANDARD.decode(encoded).map_err(|_| bad(number, "it is not base64"))?;
        let values = decoder
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| bad(number, &error.to_string()))?;
        let tag = interval.tag().map_or("", |tag| tag.as_str());
        if let Some((_, sum)) = found.iter_mut().find(|(name, _)| name == tag) {
            sum.add(&values).map_err(|error| bad(number, &error.to_string()))?;
        } else if found.len() < TAGS_MAX {
            found.push((tag.to_owned(), values));
        } else {
            return Err(bad(number, "it has too many tags"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Pooled;

    fn facts(pooled: Pooled) -> Facts {
        Facts {
            start_monotonic_ns: 1,
            start_realtime_ns: 1_700_000_000_500_000_000,
            load_start: 0,
            start_late_ns: 0,
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
    fn what_is_written_is_read_and_intervals_of_a_tag_add_up() {
        let mut pooled = Pooled::default();
        pooled.icl.record_n(20_000_000, 3).unwrap();
        let mut text = Vec::new();
        write_interval_log(&mut text, &facts(pooled.clone())).unwrap();
        let read = read_interval_log(&text).unwrap();
        let tags: Vec<&str> = read.iter().map(|(tag, _)| tag.as_str()).collect();
        assert_eq!(tags, ["icl", "itl", "lag"]);
        assert!(read[0].1 == pooled.icl && read[1].1.is_empty());

        let twice: Vec<u8> = text.iter().chain(&text).copied().collect();
        assert_eq!(read_interval_log(&twice).unwrap()[0].1.len(), 6);
        assert!(read_interval_log(b"").unwrap().is_empty());
    }

    #[test]
    fn a_bad_line_is_named() {
        let said = |text: &str| read_interval_log(text.as_bytes()).unwrap_err().to_string();
        assert!(said("Tag=icl,0.0,1.0,1.0,?\n").starts_with("entry 1: it is not base64"));
        assert!(said("hello\n").starts_with("entry 1: it is no line"));
        assert!(said("0.0,1.0,1.0,AAAA\n").starts_with("entry 1: "));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_interval_log(&bytes);
            let _ = read_interval_log(format!("0.0,1.0,1.0,{}\n", STANDARD.encode(&bytes)).as_bytes());
        }
    }
}
