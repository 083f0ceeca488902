//! What a shard leaves, written and read back.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::read::{Left, Sums, add_seconds, read_seconds, read_seconds_of};
use super::{ClockMoment, Ended, Header, SECONDS_FILE, SHARD_FILE, ShardFile, Step};
use crate::measure::Facts;
use crate::measure::rows::{MS, closed, facts, failed, row_at};
use crate::record::{ErrorClass, Phase, Pooled, Row, Second, SecondPooled, SecondsFile};
use crate::run::REQUESTS_FILE;
use crate::workload::{Shard, Warmup};

/// The run began so far into a second, ns.
const START_REAL: u64 = 1_700_000_000_900_000_000;

fn header() -> Header {
    Header {
        shard: Shard::new(1, 3).unwrap(),
        plan: "p".into(),
        seed: 7,
        run_id: "r".into(),
        start_at_ns: Some(START_REAL + 50 * MS),
        version: "0".into(),
        host: serde_json::json!({ "hostname": "one" }),
    }
}

fn begun() -> ShardFile {
    let start = ClockMoment { monotonic_ns: 5_000 * MS, realtime_ns: START_REAL };
    ShardFile::begun(header(), start, None)
}

fn pooled(second: u64, gaps: &[u64]) -> SecondPooled {
    let mut pooled = Box::<Pooled>::default();
    for &gap in gaps {
        pooled.icl.record(gap).unwrap();
        pooled.lag.record(3).unwrap();
        pooled.lag_output.record(7).unwrap();
    }
    SecondPooled { second, pooled }
}

fn rows() -> [Row; 4] {
    let mut warm = row_at(0, 60, 60, &[80]);
    warm.phase = Phase::Warmup;
    [
        warm,
        row_at(1, 100, 100, &[150, 170]),
        row_at(2, 200, 200, &[1200, 1300]),
        failed(3, ErrorClass::ConnReset, 0, 500),
    ]
}

fn lines(path: &Path) -> Vec<(String, u64, u64, u64)> {
    let mut seen = Vec::new();
    read_seconds(path, &mut |tag, start, values| {
        seen.push((tag.to_owned(), start.as_secs(), values.len(), values.max()));
    })
    .unwrap();
    seen
}

/// A shard of two reactors as it stands when the second second is over on both.
fn killed(dir: &Path) -> SecondsFile {
    begun().write(&dir.join(SHARD_FILE)).unwrap();
    let path = dir.join(SECONDS_FILE);
    let mut file = SecondsFile::create(&path, &closed(2), START_REAL).unwrap();
    file.expect(2);
    file.begin_turn();
    rows().iter().for_each(|row| file.add_row(row));
    file.add_pooled(0, &pooled(0, &[10, 20]));
    file.end_turn().unwrap();
    assert!(lines(&path).is_empty(), "one reactor has not passed it");
    file.add_pooled(1, &pooled(0, &[30]));
    file.begin_turn();
    file.end_turn().unwrap();
    file
}

#[test]
fn a_second_is_written_once_all_have_passed_it_and_what_is_late_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(SECONDS_FILE);
    let mut file = killed(dir.path());
    let seen = lines(&path);
    let tags: Vec<&str> = seen.iter().map(|line| line.0.as_str()).collect();
    // No request that ended well in the measured part ended in it.
    assert_eq!(tags, ["icl", "lag", "lag_output"], "{seen:?}");
    assert!(seen.iter().all(|line| line.1 == 0));
    assert_eq!((seen[0].2, seen[0].3, seen[1].2), (3, 30, 6), "`lag` holds every read");
    // Late, of the second that was written.
    file.add_pooled(0, &pooled(0, &[40]));
    file.finish().unwrap();
    let mut sums = Sums::default();
    add_seconds(&path, &mut sums).unwrap();
    assert_eq!(sums.pooled().icl.len(), 4);
    for (tag, count) in [("ttft", 2), ("e2e", 2), ("tpot", 2), ("service.e2e", 2), ("ttfb", 2)] {
        assert_eq!(sums.get(tag).unwrap().len(), count, "{tag}");
    }
    let ends: Vec<u64> =
        lines(&path).iter().filter(|line| line.0 == "e2e").map(|line| line.1).collect();
    // 170 ms and 1300 ms after a start that lies 900 ms into its second.
    assert_eq!(ends, [1, 2]);
}

#[test]
fn a_reactor_that_has_ended_holds_up_no_second_for_long() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(SECONDS_FILE);
    let mut file = SecondsFile::create(&path, &closed(2), START_REAL).unwrap();
    file.expect(2);
    for second in 0..6 {
        file.begin_turn();
        file.add_pooled(0, &pooled(second, &[10]));
        file.end_turn().unwrap();
    }
    let last = lines(&path).iter().map(|line| line.1).max();
    assert_eq!(last, Some(0));
    file.begin_turn();
    file.end_turn().unwrap();
    assert_eq!(lines(&path).iter().map(|line| line.1).max(), Some(1));
}

#[test]
fn what_a_killed_shard_measured_is_told() {
    let dir = tempfile::tempdir().unwrap();
    drop(killed(dir.path()));
    let text: Vec<u8> = rows()
        .iter()
        .flat_map(|row| serde_json::to_vec(row).unwrap().into_iter().chain([b'\n']))
        .collect();
    fs::write(dir.path().join(REQUESTS_FILE), text).unwrap();
    let left = Left::read(dir.path()).unwrap();
    assert!(left.file.ended.is_none() && left.file.header == header());
    let mut workload = closed(2);
    workload.stop.warmup = Warmup::Time(40 * MS);
    workload.stop.duration_ns = Some(600 * MS);
    let facts = left.remains(&workload).unwrap();
    assert_eq!((facts.start_monotonic_ns, facts.start_realtime_ns), (5_000 * MS, START_REAL));
    // The first request, of the failure at 0, came before the agreed instant at 50 ms.
    assert_eq!((facts.load_start, facts.window_start), (0, 0));
    assert_eq!((facts.window_end, facts.end), (600 * MS, 1300 * MS));
    assert_eq!((facts.pooled.icl.len(), facts.pooled.lag.len()), (3, 6));
    // By the second of the wall clock.
    let ok: Vec<u64> = facts.seconds().iter().map(|second: &Second| second.ok).collect();
    assert_eq!(ok, [1, 1, 1]);
}

#[test]
fn the_file_of_a_shard_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = begun();
    let moment = |at: u64, by: i64| ClockMoment {
        monotonic_ns: 5_000 * MS + at,
        realtime_ns: (START_REAL + at).wrapping_add_signed(by),
    };
    file.clock.extend([moment(1_000 * MS, 400_000), moment(2_000 * MS, -2_000_000_000)]);
    file.ended = Some(Ended { facts: facts(1000), kernel_clock: None });
    file.write(&dir.path().join(SHARD_FILE)).unwrap();
    let left = Left::read(dir.path()).unwrap();
    let step = Step { monotonic_ns: 7_000 * MS, by_ns: -2_000_400_000 };
    assert_eq!(left.file.steps(), [step], "0.4 ms are none");
    let ended = left.file.ended.unwrap();
    let told = |facts| serde_json::to_value::<Facts>(facts).unwrap();
    assert!(told(ended.facts) == told(facts(1000)));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    assert!(Left::read(&dir.path().join("none")).is_err());
}

#[test]
fn a_cut_last_line_is_left_out_and_a_bad_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(SECONDS_FILE);
    killed(dir.path()).finish().unwrap();
    let whole = fs::read(&path).unwrap();
    let all = lines(&path).len();
    for cut in (0..whole.len()).step_by(11).chain([whole.len() - 1]) {
        let mut seen = 0;
        read_seconds_of(&whole[..cut], &mut |_, _, _| seen += 1).unwrap();
        assert!(seen < all);
    }
    let said = |line: &str| {
        let log: Vec<u8> = whole.iter().copied().chain(line.bytes()).collect();
        read_seconds_of(log.as_slice(), &mut |_, _, _| {}).unwrap_err().to_string()
    };
    let number = whole.iter().filter(|byte| **byte == b'\n').count() + 1;
    for (line, why) in [
        ("hello\n", "it has no tag"),
        ("Tag=icl,0.0,1.0,1.0,?\n", "it is not base64"),
        ("Tag=icl,-1,1.0,1.0,AAAA\n", "no line of an interval log"),
        ("Tag=icl,NaN,1.0,1.0,AAAA\n", "no line of an interval log"),
        ("Tag=icl,1e300,1.0,1.0,AAAA\n", "no line of an interval log"),
        ("Tag=icl,0.0,1.0,1.0,AAAAAAAA\n", "it is no histogram"),
    ] {
        let said = said(line);
        assert!(said.starts_with(&format!("line {number}: ")) && said.contains(why), "{said}");
    }
}

proptest! {
    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ShardFile::read(&bytes);
        let _ = read_seconds_of(bytes.as_slice(), &mut |_, _, _| {});
        let line = format!("Tag=e2e,0.000,1.000,1.000,{}\n", STANDARD.encode(&bytes));
        let _ = read_seconds_of(line.as_bytes(), &mut |_, _, _| {});
    }
}
