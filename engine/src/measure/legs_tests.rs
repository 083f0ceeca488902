//! Legs of made-up requests, whose figures are known.

use super::*;
use crate::measure::rows::{MS, closed, row_at};
use crate::record::{Leg, Legs, Row};
use crate::workload::{Disagg, Pick, Prefill};

fn workload(routers: usize, baseline: f64) -> Workload {
    let mut workload = closed(4);
    let endpoint = workload.target.endpoints[0].clone();
    let prefill = Prefill {
        endpoint: crate::workload::Endpoint { url: "http://p".into(), ..endpoint.clone() },
        host: "p".into(),
        port: 1,
        engine_id: None,
        tensor_parallel: 1,
        pipeline_parallel: 1,
    };
    workload.target.disagg = Some(Disagg {
        flow: Flow::VllmNixl,
        prefill: vec![prefill],
        routers: vec![endpoint; routers],
        pick: Pick::RoundRobin,
        baseline,
    });
    workload
}

/// Written at `at`; prefill takes 30 ms, the gap 1 ms, the first token `decode` ms, the same prompt
/// once more 8 ms.
fn legged(index: u64, at: u64, decode: u64) -> Row {
    let first = at + 31 + decode;
    let mut row = row_at(index, at, at, &[first, first + 20, first + 30, first + 40]);
    let leg = |url: &str, write: u64, first: Option<u64>, done: u64| Leg {
        url: url.into(),
        status: Some(200),
        write_start: Some(write * MS),
        first_token: first.map(|ms| ms * MS),
        done: Some(done * MS),
        input_tokens: Some(100),
        cached_tokens: Some(99),
        ..Leg::default()
    };
    let url = workload(0, 1.0).target.endpoints[0].url.clone();
    row.legs = Some(Box::new(Legs {
        arm: Arm::Direct,
        handoff_bytes: Some(300),
        prefill: Some(leg("http://p", at, None, at + 30)),
        decode: Some(leg(&url, at + 31, Some(first), first + 40)),
        baseline: Some(leg(&url, first + 50, Some(first + 58), first + 58)),
    }));
    row
}

fn report(workload: &Workload, rows: &[Row]) -> LegsReport {
    let mut requests: Vec<Request> = rows.iter().map(|row| Request::new(row, workload)).collect();
    requests.sort_by_key(|one| one.origin);
    let mut icl = crate::record::histogram();
    for gap in rows.iter().flat_map(|_| [20 * MS, 10 * MS, 10 * MS]) {
        icl.record(gap).unwrap();
    }
    legs(workload, &requests, &icl).unwrap()
}

#[test]
fn legs_and_the_gap_add_up_to_the_service_ttft() {
    let workload = workload(0, 1.0);
    let rows: Vec<Row> = (0..40).map(|n| legged(n, n * 200, 40 + n % 3)).collect();
    for row in &rows {
        let one = Request::new(row, &workload);
        let sum =
            one.prefill_leg().unwrap() + one.client_gap().unwrap() + one.decode_first().unwrap();
        assert_eq!(Some(sum), one.ttft(Since::Write));
    }
    let report = report(&workload, &rows);
    assert_eq!(report.prefill_leg.percentiles.p50, Some(30 * MS));
    assert_eq!(report.client_gap.percentiles.p50, Some(MS));
    assert_eq!(report.decode_first.percentiles.p50, Some(41 * MS));
    assert_eq!(report.ttst.percentiles.p50, Some(20 * MS));
    let rest = report.icl_after_second.percentiles.p99.unwrap();
    assert!(rest.abs_diff(10 * MS) < MS / 100, "{rest}: the first gap is apart");
    assert_eq!(report.tpot_after_second.percentiles.p50, Some(10 * MS));
    let handoff = report.handoff.unwrap();
    assert!(!handoff.cache_assumed);
    assert_eq!(handoff.estimate.unwrap().percentiles.p50, Some(33 * MS as i64), "41 less 8");
}

#[test]
fn a_first_contact_is_no_sample_of_a_leg() {
    let workload = workload(0, 1.0);
    // Two are written before the first hand-off has shown that it works.
    let mut rows = vec![legged(0, 0, 5000), legged(1, 100, 4950)];
    rows.extend((2..30).map(|n| legged(n, n * 10_000, 40)));
    let report = report(&workload, &rows);
    assert_eq!(report.first_contact.requests, 2);
    assert_eq!(report.decode_first.max, Some(40 * MS));
    assert_eq!((report.direct, report.pairs[0].requests), (30, 28));
}

#[test]
fn what_was_computed_again_is_counted_and_estimates_nothing() {
    let workload = workload(0, 1.0);
    let mut rows: Vec<Row> = (0..20).map(|n| legged(n, n * 200, 40)).collect();
    let decode =
        |row: &mut Row| row.legs.as_mut().unwrap().decode.as_mut().unwrap().cached_tokens = Some(0);
    // Nobody knew at the first that its server counts hand-offs.
    decode(&mut rows[3]);
    rows[7].kv_fallback = Some(KvFallback::NoParams);
    rows[9].legs.as_mut().unwrap().baseline.as_mut().unwrap().cached_tokens = Some(0);
    let report = report(&workload, &rows);
    let expected = FallbackReport { count: 2, no_params: 1, not_cached: 1, unknown: 0 };
    assert_eq!(report.kv_fallback, expected);
    let handoff = report.handoff.unwrap();
    assert_eq!((handoff.left_out, handoff.estimate.unwrap().count), (3, 16));

    // A server that tells of its own cache alone says nothing by that.
    rows.iter_mut().for_each(decode);
    let silent = self::report(&workload, &rows);
    let expected = FallbackReport { count: 1, no_params: 1, not_cached: 0, unknown: 19 };
    assert_eq!(silent.kv_fallback, expected);
}

#[test]
fn a_router_adds_the_difference_of_the_arms() {
    let workload = workload(1, 0.0);
    let mut rows: Vec<Row> = (0..200).map(|n| legged(n, n * 200, 40 + n % 7)).collect();
    for n in 0..200 {
        let at = (n * 200) + 100;
        let first = at + 31 + 40 + n % 7 + 5;
        let mut row = row_at(200 + n, at, at, &[first, first + 20]);
        row.legs = Some(Box::new(Legs::by_router()));
        rows.push(row);
    }
    let report = report(&workload, &rows);
    assert_eq!((report.direct, report.by_router), (200, 200));
    assert!(report.handoff.is_none());
    let router = report.router.unwrap();
    assert_eq!(router.overhead.p50, Some(5 * MS as i64));
    let [Some(low), Some(high)] = router.ci95.p50 else { panic!("{router:?}") };
    assert!(low <= 5 * MS as i64 && high >= 5 * MS as i64, "{low} {high}");
}
