//! Views of small runs, value by value.

use super::{Cloud, Scene, Step, Viewer, Views, Why};
use crate::measure::rows::{MS, cut, failed, row, row_at};
use crate::record::{ErrorClass, Phase, Row};

const SCENE: Scene =
    Scene { is_open: true, stream: true, end_ns: 2_000 * MS, requests: 4, e2e_p50: Some(200 * MS) };

fn views(rows: &[Row]) -> Views {
    let mut viewer = Viewer::new(SCENE);
    rows.iter().for_each(|row| viewer.add(row));
    viewer.finish()
}

fn reasons(views: &Views) -> Vec<(u64, Vec<Why>)> {
    views.singles.iter().map(|one| (one.index, one.why.clone())).collect()
}

#[test]
fn no_rows_make_no_picture() {
    let views = views(&[]);
    assert_eq!((views.ttft, views.e2e, views.tpot, views.slip), (None, None, None, None));
    assert_eq!((views.ttft_cloud, views.tpot_cloud, views.e2e_cloud), (None, None, None));
    assert!(views.singles.is_empty());
    assert!(views.timeline.ok.iter().all(|count| *count == 0));
}

#[test]
fn one_request_is_everything() {
    let views = views(&[row_at(7, 10, 12, &[50, 70, 90])]);
    assert_eq!(views.ttft.unwrap().points, [(1.0, 40 * MS)]);
    assert_eq!(views.e2e.unwrap().points, [(1.0, 80 * MS)]);
    assert_eq!(views.tpot.unwrap().points, [(1.0, 20 * MS)]);
    assert_eq!(views.slip.unwrap().points, [(1.0, 2 * MS)]);
    assert_eq!(views.ttft_cloud, Some(Cloud::Points(vec![(10 * MS, 40 * MS)])));
    assert_eq!(views.singles.len(), 1);
    assert_eq!(
        views.singles[0].why,
        [Why::SlowestE2e, Why::SlowestTtft, Why::Median, Why::Fastest]
    );
    let step = |phase, from, to| Step { phase, from_ns: from * MS, to_ns: to * MS };
    assert_eq!(
        views.singles[0].steps,
        [step("wait", 0, 2), step("server_wait", 2, 40), step("decode", 40, 80)]
    );
}

#[test]
fn where_all_failed_only_failures_are_shown() {
    let rows = [
        failed(0, ErrorClass::ConnReset, 0, 5),
        failed(1, ErrorClass::ConnReset, 1, 6),
        failed(2, ErrorClass::ConnReset, 1, 7),
        failed(3, ErrorClass::HttpStatus, 2, 8),
    ];
    let views = views(&rows);
    assert_eq!((&views.ttft, &views.e2e_cloud), (&None, &None));
    let indices: Vec<u64> = views.singles.iter().map(|one| one.index).collect();
    assert_eq!(indices, [0, 3, 1, 2], "one of each class first");
    assert_eq!(views.singles[0].error.as_deref(), Some("conn_reset"));
    assert_eq!(views.singles[0].steps.last().unwrap().phase, "lost");
}

#[test]
fn a_warm_up_is_seen_over_time_and_in_no_distribution() {
    let warm = Row { phase: Phase::Warmup, ..row(0, &[900]) };
    let views = views(&[warm, row(1, &[100]), cut(2, 0, &[300], 400)]);
    assert_eq!(views.ttft.unwrap().points, [(1.0, 100 * MS)]);
    assert_eq!(views.ttft_cloud, Some(Cloud::Points(vec![(0, 100 * MS), (0, 900 * MS)])));
    assert_eq!(views.timeline.offered.iter().sum::<u64>(), 3);
    assert_eq!(views.timeline.cancelled.iter().sum::<u64>(), 1);
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let mut rows: Vec<Row> =
        (0..40).map(|at| row(at, &[100 + at * 7 % 13, 200 + at * 5 % 17])).collect();
    rows.push(failed(40, ErrorClass::ConnReset, 0, 5));
    let first = views(&rows);
    rows.reverse();
    let second = views(&rows);
    assert_eq!(first, second);
    assert_eq!(reasons(&first)[0], (40, vec![Why::Failed]));
    assert!(first.singles.len() <= 17);
}

#[test]
fn events_are_shown_where_they_were_kept() {
    let chunks = (0..5000).map(|at| (60 * MS + at, 1)).collect();
    let row = Row { chunks: Some(chunks), ..row_at(0, 10, 10, &[60, 70]) };
    let views = views(&[row]);
    assert_eq!(views.singles[0].events_ns.len(), 1000);
    assert_eq!(views.singles[0].events_ns[0], 50 * MS);
}
