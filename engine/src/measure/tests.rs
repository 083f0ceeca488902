//! Whole summaries with exact expectations.

use proptest::prelude::*;

use super::rows::{MS, closed, cut, facts, facts_of, failed, open, row, row_at};
use super::*;
use crate::record::{ErrorClass, Outcome, Phase, WaitCause};
use crate::telemetry::host::Softnet;
use crate::workload::{Aim, Goodput, Limit, Metric, Objective, Percentile};

fn ms(value: Option<u64>) -> Option<f64> {
    value.map(|ns| ns as f64 / MS as f64)
}

#[test]
fn the_wait_for_the_first_token_is_no_gap() {
    let times = [100, 120, 140];
    let got = summarize(&open(1.0), &facts_of(1000, &[&times]), [row(0, &times)]);
    assert_eq!(got.latency.itl.count, 2);
    assert_eq!(ms(got.latency.ttft.max), Some(100.0));
    let max = ms(got.latency.itl.max).unwrap();
    assert!((max - 20.0).abs() <= 0.02, "{max}: a bucket is 0.1 % wide");
}

#[test]
fn failures_stay_out_of_latencies_and_tokens() {
    let good = |i: u64| {
        let times: Vec<u64> = (0..101).map(|t| i * 1000 + 100 + t * 9).collect();
        row_at(i, i * 1000, i * 1000, &times)
    };
    let mut rows: Vec<Row> = (0..8).map(good).collect();
    rows.push(failed(8, ErrorClass::TimeoutRequest, 0, 30_000));
    rows.push(failed(9, ErrorClass::TimeoutRequest, 0, 30_000));
    let got = summarize(&closed(1), &facts(30_000), rows);
    assert_eq!((got.requests.ok, got.requests.failed), (8, 2));
    assert_eq!(got.requests.errors["timeout_request"], 2);
    assert_eq!(got.latency.ttft.mean, Some(100e6));
    assert_eq!(got.latency.e2e.mean, Some(1000e6));
    assert_eq!(got.tokens.output, 808);
    let verdicts = got.verdicts();
    assert_eq!((verdicts.error_rate, verdicts.completed), (0.2, 8));
}

#[test]
fn an_open_loop_counts_from_the_schedule_and_shows_the_service_apart() {
    let rows: Vec<Row> = (0..8)
        .map(|i| {
            let mut row = row_at(i, i * 100, i * 500, &[i * 500 + 500]);
            row.wait_cause = (i > 0).then_some(WaitCause::Cap);
            row
        })
        .collect();
    let got = summarize(&open(10.0), &facts(4000), rows);
    assert_eq!(got.latency.service.e2e.mean, Some(500e6));
    assert_eq!(ms(got.latency.service.e2e.max), Some(500.0));
    assert_eq!(got.latency.e2e.mean, Some(1900e6));
    assert_eq!(ms(got.latency.e2e.min), Some(500.0));
    assert_eq!(ms(got.latency.e2e.max), Some(3300.0));
    let slip = got.client.slip.unwrap();
    assert_eq!((slip.all.mean, ms(slip.all.max)), (Some(1400e6), Some(2800.0)));
    assert_eq!(slip.by_cause["cap"].count, 7);
    assert_eq!((slip.late, got.client.verdict), (0, Health::Valid), "the user's cap is no fault");
}

#[test]
fn late_sends_of_our_own_make_a_run_suspect_and_many_invalid() {
    let late = |i: u64, by: u64, cause| {
        let mut row = row_at(i, i * 10, i * 10 + by, &[i * 10 + by + 50]);
        row.wait_cause = cause;
        row
    };
    let run = |by, cause| {
        let rows: Vec<Row> =
            (0..100).map(|i| late(i, if i < 2 { by } else { 0 }, Some(cause))).collect();
        summarize(&open(100.0), &facts(2000), rows).client
    };
    let suspect = run(5, WaitCause::Feed);
    assert_eq!(suspect.verdict, Health::Suspect);
    assert_eq!(suspect.reasons[0].kind, ReasonKind::SendLate);
    assert_eq!(suspect.reasons[0].figure, 5e6);
    let invalid = run(11, WaitCause::Reactor);
    assert_eq!(invalid.verdict, Health::Invalid);
    assert_eq!(invalid.reasons[0].kind, ReasonKind::ScheduleNotKept);
    assert_eq!(run(500, WaitCause::Connect).verdict, Health::Valid);
}

#[test]
fn requests_cut_by_the_time_limit_are_no_failures() {
    let rows = [row(0, &[100, 6000]), cut(1, 6000, &[6100], 10_000), cut(2, 5000, &[], 10_000)];
    let got = summarize(&closed(2), &facts(10_000), rows);
    let counts = &got.requests;
    assert_eq!((counts.ok, counts.failed, counts.cancelled, counts.censored), (1, 0, 2, 2));
    assert_eq!(counts.cancel_reasons["deadline"], 2);
    assert_eq!(got.verdicts().error_rate, 0.0);
    assert_eq!(got.judged.e2e.unbounded, 2);
    assert_eq!(
        (got.judged.e2e.percentiles.p50, ms(got.judged.e2e.at_least.p50)),
        (None, Some(6000.0))
    );
}

#[test]
fn tpot_is_per_request_and_itl_per_token() {
    let long: Vec<u64> = (0..101).map(|i| 100 + i * 10).collect();
    let facts = facts_of(2000, &[&[100, 200], &long]);
    let got = summarize(&closed(2), &facts, [row(0, &[100, 200]), row(1, &long)]);
    assert_eq!(got.latency.tpot.mean, Some(55e6));
    assert_eq!(got.latency.itl.count, 101);
    let mean = got.latency.itl.mean.unwrap() / 1e6;
    assert!((mean - 10.8911).abs() < 0.0109, "{mean}");
}

#[test]
fn the_warm_up_is_in_no_figure_of_the_measured_part() {
    let mut rows: Vec<Row> = (0..10)
        .map(|i| Row { phase: Phase::Warmup, ..row_at(i, 0, 0, &[40_000 + i * 1000]) })
        .collect();
    rows.extend((0..90).map(|i| row_at(10 + i, 60_000, 60_000, &[60_700])));
    let mut facts = facts(61_000);
    facts.window_start = 60_000 * MS;
    let got = summarize(&closed(90), &facts, rows.clone());
    assert_eq!(got.latency.ttft.count, 90);
    assert_eq!(ms(got.latency.ttft.percentiles.p99), Some(700.0));
    assert_eq!((got.run.warmup_requests, got.run.window.seconds), (10, 1.0));
    assert_eq!(got.rate.rps, Some(90.0));
    rows.iter_mut().for_each(|row| row.phase = Phase::Measure);
    let all = summarize(&closed(90), &facts, rows).latency.ttft;
    assert_eq!(ms(all.percentiles.p50), Some(700.0));
    assert_eq!(ms(all.percentiles.p95), Some(44_000.0));
}

#[test]
fn missing_values_are_null_in_json() {
    let rows = (0..3).map(|i| row(i, &[100 + i]));
    let got = summarize(&closed(3), &facts(200), rows);
    let json = serde_json::to_value(&got).unwrap();
    for metric in ["tpot", "itl", "icl", "ttst"] {
        assert_eq!(json["latency"][metric]["count"], 0);
        for key in ["mean", "p50", "p99", "max", "stdev"] {
            assert!(json["latency"][metric][key].is_null(), "{metric} {key}");
        }
        assert!(json["judged"][metric]["p50"].is_null());
    }
    assert!(json["goodput"].is_null() && json["slo"].is_null());
}

#[test]
fn a_summary_has_the_names_of_its_schema() {
    let got = summarize(&open(1.0), &facts(1000), [row(0, &[100, 120])]).with_circumstances(
        Circumstances {
            name: "night".into(),
            labels: [("gpu".to_owned(), "h200".to_owned())].into(),
            host: serde_json::json!({ "cpus": 2 }),
            server: Some(ServerReport::default()),
            workload: Some("sha256:0".into()),
        },
    );
    let json = serde_json::to_value(&got).unwrap();
    assert_eq!(json["schema"], "tokclock.summary/1");
    assert_eq!((&json["run"]["name"], &json["host"]["cpus"]), (&"night".into(), &2.into()));
    for path in [
        "/run/start_monotonic_ns",
        "/run/start_realtime_ns",
        "/run/build/profile",
        "/run/build/target",
        "/labels/gpu",
        "/target/server/config",
        "/workload/hash",
        "/target/url",
        "/workload/load/kind",
        "/client/verdict",
        "/client/reasons",
        "/client/driver",
        "/client/ring",
        "/client/stamps",
        "/client/reactors/0",
        "/client/lag/unit",
        "/client/slip/p99",
        "/client/coalesced_share",
        "/client/client_coalesced_share",
        "/requests/offered",
        "/requests/errors",
        "/latency/stream_tail/p99_9",
        "/latency/service/ttft/ci95/p50",
        "/latency/phases/decode",
        "/tokens/client_count",
        "/tokens/source",
        "/rate/offered_rps",
        "/rate/output_tps",
    ] {
        assert!(json.pointer(path).is_some(), "{path}");
    }
    assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), got);
}

#[test]
fn dropped_arrivals_count_in_what_was_offered_and_judged() {
    let mut facts = facts(1000);
    facts.tallies[0].offered = 10;
    facts.tallies[0].dropped = 4;
    let rows: Vec<Row> = (0..5).map(|i| row_at(i, i * 100, i * 100, &[i * 100 + 50])).collect();
    let mut workload = open(10.0);
    workload.objectives.goodput =
        Some(Goodput { limits: vec![Limit { metric: Metric::Ttft, limit_ns: 50 * MS }] });
    workload.objectives.slo = vec![Objective {
        text: "p50(ttft)<=50ms".into(),
        aim: Aim::Latency {
            percentile: Percentile::Quantile(0.5),
            metric: Metric::Ttft,
            limit_ns: 50 * MS,
        },
        inclusive: true,
    }];
    let got = summarize(&workload, &facts, rows);
    assert_eq!((got.requests.offered, got.requests.dropped, got.requests.censored), (10, 4, 1));
    assert_eq!(got.judged.ttft.unbounded, 5);
    assert_eq!(got.goodput.as_ref().unwrap().share, Some(0.5));
    assert_eq!(got.slo.as_ref().unwrap().verdict, Held::Pass);
    assert_eq!(got.rate.offered_rps, Some(10.0));
    assert!(!got.verdicts().slo_missed);
}

#[test]
fn unstamped_reads_are_unusable_only_when_the_client_was_slow_too() {
    let run = |unstamped, lag_ms: u64, asked| {
        let mut facts = facts(1000);
        facts.kernel_stamps = asked;
        facts.tallies[0].reads = 100;
        facts.tallies[0].unstamped_reads = unstamped;
        facts.pooled.lag_output.record_n(lag_ms * MS / 10, 100).unwrap();
        let client = summarize(&open(1.0), &facts, [row(0, &[100])]).client;
        (client.verdict, client.reasons.first().map(|reason| reason.kind))
    };
    assert_eq!(run(1, 1, true), (Health::Valid, None));
    assert_eq!(run(2, 1, true), (Health::Suspect, Some(ReasonKind::UnstampedReads)));
    assert_eq!(run(60, 1, true), (Health::Suspect, Some(ReasonKind::UnstampedReads)));
    assert_eq!(run(60, 20, true), (Health::Invalid, Some(ReasonKind::ArrivalsUnusable)));
    assert_eq!(run(100, 1, false), (Health::Valid, None));
    assert_eq!(run(0, 20, true), (Health::Suspect, Some(ReasonKind::ClientLag)));
}

#[test]
fn the_host_and_the_reactors_are_looked_at() {
    let mut facts = facts(1000);
    facts.host.steal_share = Some(0.02);
    facts.tallies[0].cpu_ns = 950 * MS;
    facts.tallies[0].spin_ns = 100 * MS;
    facts.tallies[0].output_events = 100;
    facts.tallies[0].client_coalesced_events = 2;
    facts.tallies[0].recorder_stalls = 1;
    facts.tallies[0].clock_steps = 1;
    facts.host.softnet = Some(Softnet { dropped: 2, squeezed: 9 });
    facts.tallies[0].feed_starved = 1;
    let client = summarize(&open(1.0), &facts, [row(0, &[100])]).client;
    let kinds: Vec<ReasonKind> = client.reasons.iter().map(|reason| reason.kind).collect();
    assert_eq!(
        kinds,
        [
            ReasonKind::FeedStarved,
            ReasonKind::RecorderStalled,
            ReasonKind::ClientCoalesced,
            ReasonKind::ReactorBusy,
            ReasonKind::Steal,
            ReasonKind::KernelDrops,
            ReasonKind::ClockStepped,
        ]
    );
    assert_eq!((client.kernel_drops, client.softnet_squeezed), (Some(2), Some(9)));
    assert_eq!(client.host_windows_closed, None);
    assert_eq!(client.reactors[0].busy_share, Some(0.85));
    assert_eq!(client.verdict, Health::Suspect);
}

#[test]
fn limits_on_the_client_are_the_users() {
    let mut facts = facts(1000);
    facts.host.steal_share = Some(0.02);
    facts.tallies[0].cpu_ns = 850 * MS;
    let judged = |limits: &[&str]| {
        let mut workload = open(1.0);
        for text in limits {
            let limit = text.parse().unwrap();
            workload.client.thresholds = workload.client.thresholds.with(limit);
        }
        summarize(&workload, &facts, [row(0, &[100])]).client
    };
    let client = judged(&["steal=5%", "busy=90%"]);
    assert_eq!((client.verdict, client.thresholds["steal"]), (Health::Valid, Some(0.05)));
    let client = judged(&["steal=none"]);
    assert_eq!(client.thresholds["steal"], None);
    let [reason] = client.reasons.as_slice() else { panic!("{:?}", client.reasons) };
    assert_eq!((reason.kind, reason.threshold), (ReasonKind::ReactorBusy, 0.8));
    assert!(!reason.advice.is_empty());
}

#[test]
fn the_network_is_shown_beside_the_latencies_and_judged() {
    let mut facts = facts(1000);
    let network = &mut facts.tallies[0].network;
    network.min_rtt.record_n(2 * MS, 3).unwrap();
    (network.sent, network.resent) = (1000, 1);
    (network.received, network.out_of_order) = (1000, 2);
    (network.window_looks, network.windows_closed) = (40, 0);
    let run = |facts: &Facts| summarize(&open(1.0), facts, [row(0, &[100])]).client;
    let client = run(&facts);
    let share = client.network.min_rtt_of_ttft.unwrap();
    assert!((share - 0.02).abs() < 1e-4, "2 ms of 100 ms: {share}");
    assert_eq!(client.network.min_rtt.count, 3);
    let [reason] = client.reasons.as_slice() else { panic!("{:?}", client.reasons) };
    assert_eq!((reason.kind, reason.figure), (ReasonKind::Retransmits, 0.002));
    facts.tallies[0].network.windows_closed = 1;
    let client = run(&facts);
    assert_eq!(client.verdict, Health::Invalid);
    assert_eq!(client.reasons[0].kind, ReasonKind::WindowClosed);
    let client = run(&self::facts(1000));
    assert_eq!((client.network.resent_share, client.network.min_rtt_of_ttfb), (None, None));
}

#[test]
fn a_stream_in_bursts_is_said_of_the_server_and_not_of_the_client() {
    let times = [300; 10];
    let got = summarize(&open(1.0), &facts_of(1000, &[&times]), [row(0, &times)]);
    assert_eq!(got.notes[0].kind, ReasonKind::BurstyStream);
    assert_eq!((got.client.verdict, got.latency.tpot.max), (Health::Valid, Some(0)));
    assert_eq!(got.rate.per_user_tps.p50, None, "no rate from a time of 0");
}

fn any_mark() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![0u64..5_000_000_000, Just(0), Just(u64::MAX)])
}

prop_compose! {
    fn any_row()(
        index in 0u64..50, phase in 0..3, outcome in 0..3, intended in 0u64..4_000_000_000,
        marks in prop::array::uniform10(any_mark()), output in prop::option::of(0u64..300),
        first in prop::option::of(0u32..300), events in 0u32..9, cause in 0..6,
    ) -> Row {
        let mut row = row(index, &[]);
        row.phase = [Phase::Warmup, Phase::Measure, Phase::Drain][phase as usize];
        row.outcome = [Outcome::Ok, Outcome::Error, Outcome::Cancelled][outcome as usize];
        row.error = (outcome > 0).then_some(ErrorClass::HttpStatus);
        row.error_text = (outcome > 0).then(|| format!("text {index}"));
        row.intended = intended;
        [
            row.dispatched, row.connected, row.write_start, row.write_done, row.first_byte,
            row.first_token, row.second_token, row.last_token, row.done, row.first_output,
        ] = marks;
        row.output_tokens = output;
        row.first_tokens = first;
        row.events = events;
        row.wait_cause = [
            None, Some(WaitCause::Reactor), Some(WaitCause::Feed), Some(WaitCause::Cap),
            Some(WaitCause::Connect), Some(WaitCause::Recorder),
        ][cause as usize];
        row
    }
}

fn asked(is_open: bool) -> Workload {
    let mut workload = if is_open { open(3.0) } else { closed(2) };
    let limits = vec![Limit { metric: Metric::Tpot, limit_ns: MS }];
    workload.objectives.goodput = Some(Goodput { limits });
    for percentile in [Percentile::Mean, Percentile::Max, Percentile::Quantile(0.95)] {
        for metric in [Metric::E2e, Metric::Itl] {
            let text = String::new();
            let aim = Aim::Latency { percentile, metric, limit_ns: MS };
            let objective = Objective { text, aim, inclusive: true };
            workload.objectives.slo.push(objective);
        }
    }
    workload
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_rows_can_make_a_number_that_is_none(
        mut rows in prop::collection::vec(any_row(), 0..40), is_open: bool, window in 0u64..3000,
    ) {
        // A seconds' index may come twice; the place in the list is what tells rows apart here.
        (0..).zip(rows.iter_mut()).for_each(|(index, row)| row.index = index);
        let got = summarize(&asked(is_open), &facts(window), rows.clone());
        let text = serde_json::to_string_pretty(&got).unwrap();
        // In JSON they would be null; in Rust's own form they show.
        let shown = format!("{got:?}");
        prop_assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
        prop_assert!(serde_json::from_str::<Summary>(&text).is_ok());
        let counts = &got.requests;
        prop_assert!(counts.ok + counts.failed + counts.cancelled <= counts.offered);
        rows.reverse();
        let turned = summarize(&asked(is_open), &facts(window), rows);
        prop_assert_eq!(serde_json::to_string_pretty(&turned).unwrap(), text);
    }
}

#[test]
fn the_order_of_reactors_changes_no_figure() {
    let mut facts = facts_of(3000, &[&[100, 110, 130], &[90, 105, 140], &[80, 90, 190]]);
    let mut other = facts.tallies[0].clone();
    other.reactor = 1;
    other.gap_samples.iter_mut().flatten().for_each(|gap| gap.0 *= 3);
    other.gap_requests = 9;
    facts.tallies.push(other);
    let rows = || (0..3).map(|i| row(i, &[100 + i, 200]));
    let one = summarize(&closed(3), &facts, rows());
    facts.tallies.reverse();
    let two = summarize(&closed(3), &facts, rows());
    assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&two).unwrap());
    assert!(one.latency.icl.ci95.p50[0].is_some(), "six requests support the median");
}
