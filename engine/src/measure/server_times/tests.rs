//! Figures of what servers told, with exact expectations.

use super::*;
use crate::measure::rows::{MS, closed, row, row_at};
use crate::record::Outcome;

fn times(source: TimesSource) -> ServerTimings {
    ServerTimings {
        source,
        endpoint: 0,
        queue_ns: None,
        prefill_ns: None,
        ttft_ns: None,
        decode_ns: None,
        e2e_ns: None,
        kv_transfer_ns: None,
        mean_itl_ns: None,
        received_realtime_ns: None,
        sent_realtime_ns: None,
        named: Vec::new(),
    }
}

fn with(row: Row, times: ServerTimings) -> Row {
    Row { server: Some(Box::new(times)), ..row }
}

fn report(rows: &[Row]) -> Option<ServerTimesReport> {
    let (workload, mut told) = (closed(1), Told::default());
    rows.iter().for_each(|row| told.add(row, &Request::new(row, &workload)));
    told.finish(&workload, 1_000 * MS)
}

#[test]
fn vllm_counts_from_when_it_was_scheduled_so_its_queue_is_added() {
    let rows: Vec<Row> = (0..10)
        .map(|index| {
            let times = ServerTimings {
                queue_ns: Some(3 * MS),
                ttft_ns: Some((6 + index) * MS),
                decode_ns: Some(30 * MS),
                ..times(TimesSource::VllmMetrics)
            };
            // TTFT 10 ms, decode 30 ms: the server says 9 to 18 ms of the former.
            with(row_at(index, 0, 0, &[10, 20, 40]), times)
        })
        .collect();
    let report = report(&rows).unwrap();
    assert_eq!((report.source, report.count), (Some(TimesSource::VllmMetrics), 10));
    assert_eq!(report.ttft.min, Some(6 * MS));
    let ttft = report.client_minus_server.ttft.unwrap();
    assert_eq!((ttft.client.as_str(), ttft.server.as_str()), ("service TTFT", "queue + ttft"));
    let of = &ttft.figures;
    assert_eq!((of.count, of.negative), (10, 8));
    assert_eq!((of.min, of.max), (-8_000_000, 1_000_000));
    assert_eq!(of.percentiles.p50, Some(-4_000_000));
    assert_eq!(of.mean, Some(-3_500_000.0));
    let e2e = report.client_minus_server.e2e.unwrap();
    assert_eq!((e2e.server.as_str(), e2e.figures.max), ("queue + ttft + decode", 1_000_000));
    let decode = report.client_minus_server.decode.unwrap();
    assert_eq!((decode.figures.min, decode.figures.max), (0, 0));
    assert!(report.clocks.is_empty());
}

#[test]
fn without_a_ttft_the_prefill_stands_for_it_and_a_note_says_so() {
    let told = ServerTimings {
        prefill_ns: Some(4 * MS),
        decode_ns: Some(9 * MS),
        ..times(TimesSource::LlamacppTimings)
    };
    let report = report(&[with(row(0, &[10, 20]), told)]).unwrap();
    let ttft = report.client_minus_server.ttft.unwrap();
    assert_eq!((ttft.server.as_str(), ttft.figures.min), ("prefill", 6_000_000));
    assert!(ttft.note.is_some());
    let e2e = report.client_minus_server.e2e.unwrap();
    assert_eq!((e2e.server.as_str(), e2e.figures.min), ("prefill + decode", 7_000_000));
}

#[test]
fn who_tells_nothing_or_fails_is_in_no_figure() {
    assert_eq!(report(&[row(0, &[10])]), None);
    let told = ServerTimings { queue_ns: Some(1), ..times(TimesSource::VllmMetrics) };
    let failed = Row { outcome: Outcome::Error, ..with(row(0, &[10]), told.clone()) };
    assert_eq!(report(&[failed]), None);
    let report = report(&[with(row(0, &[10]), told)]).unwrap();
    assert_eq!(report.client_minus_server, ClientMinusServer::default());
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["ttft"]["p50"].is_null() && json.get("clocks").is_none(), "{json}");
    assert_eq!(serde_json::from_value::<ServerTimesReport>(json).unwrap(), report);
}

#[test]
fn of_several_sources_the_usual_one_counts_and_names_are_bounded() {
    let header = |index| {
        let mut told = times(TimesSource::ServerTiming);
        told.ttft_ns = Some(MS);
        told.named = (0..10).map(|name| (format!("n{}", index * 10 + name), name)).collect();
        with(row(index, &[10]), told)
    };
    let odd = ServerTimings { e2e_ns: Some(MS), ..times(TimesSource::Ollama) };
    let rows = [header(0), header(1), header(2), with(row(3, &[10]), odd)];
    let report = report(&rows).unwrap();
    assert_eq!((report.source, report.count), (Some(TimesSource::ServerTiming), 3));
    assert_eq!((report.others, report.e2e.count), (1, 0));
    assert_eq!(report.named.len(), NAMES_MAX);
}

#[test]
fn a_clock_is_known_by_the_request_with_the_shortest_way() {
    // The run began at 1000 ms; the server is 500 ms ahead.
    let sample = |index, from: u64, way: u64, back: u64| {
        let received = 1_000 + from + way + 500;
        let told = ServerTimings {
            received_realtime_ns: Some(received * MS),
            sent_realtime_ns: Some((received + 20) * MS),
            ..times(TimesSource::SglangMetaInfo)
        };
        let ended = from + way + 20 + back;
        with(row_at(index, from, from, &[ended]), told)
    };
    let rows = [sample(0, 0, 9, 1), sample(1, 50, 2, 2), sample(2, 90, 1, 9)];
    let report = report(&rows).unwrap();
    let [clock] = &report.clocks[..] else { panic!("one server: {:?}", report.clocks) };
    assert_eq!((clock.offset_ns, clock.error_ns, clock.samples), (500_000_000, 2_000_000, 3));
    assert!(clock.url.is_some());
}

#[test]
fn moments_that_cannot_be_tell_nothing_of_a_clock() {
    let told = |received: u64, sent: u64| ServerTimings {
        received_realtime_ns: Some(received),
        sent_realtime_ns: Some(sent),
        ..times(TimesSource::SglangMetaInfo)
    };
    let rows = [
        with(row(0, &[10]), told(5 * MS, 4 * MS)),
        with(row(1, &[10]), told(5 * MS, 5_000 * MS)),
        with(row(2, &[10]), ServerTimings { sent_realtime_ns: None, ..told(5, 6) }),
    ];
    assert!(report(&rows).unwrap().clocks.is_empty());
}
