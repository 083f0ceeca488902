//! Finished requests of recorded cases through recorder, rows and summary: every figure as expected.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use serde_json::Value;
use tokclock_engine::measure::{Facts, Summary, summarize};
use tokclock_engine::record::{
    Annotate, Chunk, ErrorClass, Outcome, Phase, Pooled, Recorder, RecorderSetup, Row, Settled,
    TokenSource, Window, rings,
};
use tokclock_engine::workload::{
    Arrival, Goodput, Limit, Load, Metric, Overflow, Stop, Warmup, Workload,
};
use tokclock_tests::cases::Case;
use tokclock_tests::{MS, at_rate, closed, workload};

/// What a case comes to, and what is expected of it.
struct Judged {
    summary: Summary,
    expected: Value,
}

/// Summarizes the records of case `id`, after `change` to what was asked.
fn judged(id: &str, change: impl FnOnce(&mut Workload)) -> Judged {
    let case = Case::named(id);
    let records = case.records();
    let stop = stop(&case, &records);
    let mut asked = workload("127.0.0.1:9".parse().unwrap(), load(&case), stop);
    change(&mut asked);
    let (facts, rows) = ran(&asked.stop, &records);
    Judged { summary: summarize(&asked, &facts, rows), expected: case.expected }
}

impl Judged {
    /// The expected number at this place.
    fn number(&self, place: &str) -> f64 {
        let found = self.expected.pointer(place).and_then(Value::as_f64);
        found.unwrap_or_else(|| panic!("no number {place} in {}", self.expected))
    }

    /// The same as a count.
    fn count(&self, place: &str) -> u64 {
        self.number(place) as u64
    }

    /// The same as a time, ns.
    fn time(&self, place: &str) -> u64 {
        (self.number(place) * MS as f64) as u64
    }

    /// A figure is the expected one, written with four decimals.
    #[track_caller]
    fn is(&self, figure: Option<f64>, place: &str) {
        let (seen, expected) = (figure.unwrap(), self.number(place));
        assert!((seen - expected).abs() < 6e-5, "{place}: {seen} and not {expected}");
    }

    /// A pooled figure in ns is the expected one in ms, as near as its histogram can be.
    #[track_caller]
    fn is_pooled(&self, figure: Option<f64>, place: &str) {
        let (seen, expected) = (figure.unwrap() / MS as f64, self.number(place));
        assert!((seen - expected).abs() <= expected / 1000.0, "{place}: {seen}, not {expected}");
    }
}

fn load(case: &Case) -> Load {
    match case.client["rate"].as_f64() {
        Some(rate) => {
            let most = case.client["max_in_flight"].as_u64();
            at_rate(rate, Arrival::Constant, most, Overflow::Wait)
        }
        None => closed(10),
    }
}

/// A run that ends just after its last token, or after the time that the case says.
fn stop(case: &Case, records: &[Value]) -> Stop {
    let ends = records.iter().map(|record| ms(&record["end_ms"])).max().unwrap();
    let window = case.expected["window_s"].as_u64().map(|seconds| seconds * 1000 * MS);
    let warm = records.iter().filter(|record| record["phase"] == "warmup").count() as u64;
    let first = records.iter().filter(|record| record["phase"] != "warmup");
    let first = first.map(|record| ms(&record["sent_ms"])).min().unwrap();
    Stop {
        requests: None,
        duration_ns: Some(window.unwrap_or(ends + 1) - first),
        sessions: None,
        warmup: if warm > 0 { Warmup::Requests(warm) } else { Warmup::None },
        drain_ns: 0,
        until: None,
    }
}

fn ms(value: &Value) -> u64 {
    value.as_u64().unwrap() * MS
}

/// The records as if a reactor had carried them out.
fn ran(stop: &Stop, records: &[Value]) -> (Facts, Vec<Row>) {
    let window = Arc::new(Window::new(stop, 0, false));
    let (reactor, mut writer) = rings(records.len());
    let setup = RecorderSetup {
        reactor: 0,
        cpu: 0,
        start_realtime_ns: 0,
        window: Arc::clone(&window),
        keep_chunks: true,
        seed: 7,
        ramp_end: 0,
        classes: 1,
    };
    let mut recorder = Recorder::new(setup, reactor);
    let mut end = 0;
    for (index, record) in records.iter().enumerate() {
        let mut settled = settled(index as u64, record);
        settled.phase = window.begin(settled.index, settled.marks.dispatched).unwrap();
        recorder.started(settled.marks.write_start);
        recorder.tally().offered += u64::from(settled.phase == Phase::Measure);
        end = end.max(settled.marks.done);
        recorder.settle(&mut settled, ms(&record["end_ms"]), false);
        recorder.left();
    }
    let (tally, second, _) = recorder.finish();
    let mut pooled = Pooled::default();
    pooled.add(&second.pooled);
    let rows =
        std::iter::from_fn(|| writer.settled.pop().ok()).map(|one| one.row(&Plain)).collect();
    let facts = Facts {
        start_monotonic_ns: 0,
        start_realtime_ns: 0,
        load_start: 0,
        start_late_ns: 0,
        window_start: window.start(),
        window_end: window.end(),
        window_by_requests: false,
        end,
        interrupted: false,
        driver: "none".to_owned(),
        ring: String::new(),
        kernel_stamps: true,
        tallies: vec![tally],
        pooled,
        host: tokclock_engine::telemetry::host::Watched::default(),
        resolve_ns: 0,
        ramp_ns: 0,
        steered: Default::default(),
        ceiling: None,
    };
    (facts, rows)
}

/// One record as a reactor would have left it.
fn settled(index: u64, record: &Value) -> Settled {
    let mut settled = Settled::new(index, ms(&record["scheduled_ms"]));
    let times: Vec<u64> = record["token_times_ms"].as_array().unwrap().iter().map(ms).collect();
    let marks = &mut settled.marks;
    let sent = ms(&record["sent_ms"]);
    (marks.dispatched, marks.write_start, marks.write_done) = (sent, sent, sent);
    if let Some(&first) = times.first() {
        (marks.first_byte, marks.head_done) = (first, first);
        (marks.first_token, marks.first_output) = (first, first);
    }
    if let Some(&second) = times.get(1) {
        marks.second_token = second;
    }
    if let Some(&last) = times.last() {
        marks.last_token = last;
    }
    marks.done = ms(&record["end_ms"]);
    (settled.outcome, settled.error) = ended(record);
    settled.attempts = 1;
    settled.events = times.len() as u32;
    settled.first_tokens = u32::from(!times.is_empty());
    settled.output_tokens = record["tokens_out"].as_u64();
    settled.output_source = Some(TokenSource::Usage);
    let chunk = |&arrival: &u64| Chunk { arrival, tokens: 1, text_bytes: 1 };
    settled.chunks = times.iter().map(chunk).collect();
    settled
}

fn ended(record: &Value) -> (Outcome, Option<ErrorClass>) {
    match record["error_class"].as_str() {
        None => (Outcome::Ok, None),
        Some("cancelled_deadline") => (Outcome::Cancelled, Some(ErrorClass::Deadline)),
        Some("timeout") => (Outcome::Error, Some(ErrorClass::TimeoutRequest)),
        Some(_) => {
            let class = serde_json::from_value(record["error_class"].clone()).unwrap();
            (Outcome::Error, Some(class))
        }
    }
}

/// Rows without anything beside the request.
struct Plain;

impl Annotate for Plain {
    fn seen(&self, _row: &Row) {}

    fn request_id(&self, index: u64) -> String {
        format!("r{index}")
    }

    fn trace_id(&self, _: u64) -> Option<String> {
        None
    }

    fn class(&self, _: u16) -> Option<String> {
        None
    }

    fn count(&self, _: &str) -> Option<u64> {
        None
    }

    fn keep_chunks(&self) -> bool {
        true
    }

    fn keep_text(&self) -> bool {
        false
    }
}

#[test]
fn m017_the_wait_for_the_first_token_is_no_gap() {
    let case = judged("M017", |_| {});
    let latency = &case.summary.latency;
    let gaps = case.expected["itl_ms"].as_array().unwrap().len() as u64;
    assert_eq!((latency.itl.count, latency.icl.count), (gaps, gaps));
    assert_eq!(latency.ttft.max, Some(case.time("/ttft_ms")));
    case.is_pooled(latency.itl.max.map(|max| max as f64), "/itl_max_ms");
}

#[test]
fn m019_failed_requests_are_in_no_latency_and_no_token_count() {
    let case = judged("M019", |_| {});
    let summary = &case.summary;
    assert_eq!(summary.requests.ok, case.count("/completed"));
    assert_eq!(summary.requests.failed, case.count("/failed"));
    case.is(summary.requests.error_rate, "/error_rate");
    case.is(summary.latency.ttft.mean.map(|ns| ns / MS as f64), "/ttft_ms_mean");
    case.is(summary.latency.e2e.mean.map(|ns| ns / MS as f64), "/e2e_ms_mean");
    assert_eq!(summary.tokens.output, case.count("/output_tokens_total"));
}

#[test]
fn m021_judged_percentiles_count_failures_as_longer_than_anything() {
    let case = judged("M021", |_| {});
    let (good, judged) = (&case.summary.latency.e2e, &case.summary.judged.e2e);
    assert_eq!(good.count, case.count("/success_only/count"));
    assert_eq!(good.percentiles.p95, Some(case.time("/success_only/p95_nearest_rank_ms")));
    assert_eq!(judged.count, case.count("/error_adjusted/count"));
    assert_eq!(judged.percentiles.p50, Some(case.time("/error_adjusted/p50_nearest_rank_ms")));
    assert_eq!(judged.percentiles.p90, Some(case.time("/error_adjusted/p90_nearest_rank_ms")));
    assert_eq!(case.expected["error_adjusted"]["p95"], "infinite");
    assert_eq!(judged.percentiles.p95, None);
    assert_eq!(judged.at_least.p95, judged.percentiles.p90, "it is longer than all that is known");
}

#[test]
fn m023_goodput_wants_every_limit_at_once_and_allows_the_limit_itself() {
    let limits = Case::named("M023").client["goodput_ms"].clone();
    let limit = |metric, name: &str| Limit { metric, limit_ns: ms(&limits[name]) };
    let limits = vec![limit(Metric::Ttft, "ttft"), limit(Metric::Tpot, "tpot")];
    let case = judged("M023", |load| load.objectives.goodput = Some(Goodput { limits }));
    let goodput = case.summary.goodput.as_ref().unwrap();
    assert_eq!(goodput.good, case.expected["conforming"].as_array().unwrap().len() as u64);
    case.is(goodput.share, "/attainment");
    case.is(goodput.rps, "/goodput_rps");
    for one in &goodput.objectives {
        let expected = case.expected["per_objective"][one.metric.as_str()].as_str().unwrap();
        assert_eq!(format!("{} of {}", one.met, one.of), expected, "{}", one.metric);
    }
}

#[test]
fn m025_an_open_loop_counts_from_the_schedule_and_shows_the_service_beside_it() {
    let case = judged("M025", |_| {});
    let latency = &case.summary.latency;
    let ms_of = |ns: Option<f64>| ns.map(|ns| ns / MS as f64);
    case.is(ms_of(latency.service.e2e.mean), "/service_ms/mean");
    assert_eq!(latency.service.e2e.max, Some(case.time("/service_ms/max")));
    case.is(ms_of(latency.e2e.mean), "/from_schedule_ms/mean");
    assert_eq!(latency.e2e.max, Some(case.time("/from_schedule_ms/max")));
    let values = case.expected["from_schedule_ms"]["values"].as_array().unwrap();
    assert_eq!(latency.e2e.count, values.len() as u64);
    assert_eq!(latency.e2e.min, Some(ms(&values[0])));
    assert_eq!(latency.e2e.percentiles.p50, Some(ms(&values[values.len() / 2 - 1])));
    let slip = &case.summary.client.slip.as_ref().unwrap().all;
    case.is(ms_of(slip.mean), "/dispatch_delay_ms/mean");
    assert_eq!(slip.max, Some(case.time("/dispatch_delay_ms/max")));
}

#[test]
fn m027_the_drain_rate_leaves_out_how_the_pipeline_filled() {
    let case = judged("M027", |_| {});
    case.is(case.summary.rate.rps, "/run_average_rps");
    case.is(case.summary.rate.drain_rps, "/completion_rate_rps");
}

#[test]
fn m029_tokens_of_cut_requests_count_where_they_arrived() {
    let case = judged("M029", |_| {});
    let summary = &case.summary;
    assert_eq!(summary.requests.ok, case.count("/completed"));
    assert_eq!(summary.requests.failed, case.count("/failed"));
    assert_eq!(summary.requests.cancelled, case.count("/cancelled"));
    assert_eq!(summary.requests.error_rate, Some(0.0));
    case.is(summary.rate.output_tps, "/output_tok_s");
    let seconds = summary.run.window.seconds;
    case.is(summary.rate.output_tps.map(|rate| rate * seconds), "/tokens_in_window");
    case.is(Some(summary.tokens.output as f64 / seconds), "/completed_only_tok_s");
}

#[test]
fn m033_tpot_weighs_requests_and_itl_weighs_tokens() {
    let case = judged("M033", |_| {});
    let latency = &case.summary.latency;
    case.is(latency.tpot.mean.map(|ns| ns / MS as f64), "/tpot_mean_ms");
    assert_eq!(latency.itl.count, case.count("/itl_count"));
    case.is_pooled(latency.itl.mean, "/itl_mean_ms");
}

#[test]
fn l019_a_cold_start_is_no_part_of_the_sample() {
    let case = judged("L019", |_| {});
    let ttft = &case.summary.latency.ttft;
    assert_eq!(ttft.count, case.count("/ttft_measure/count"));
    assert_eq!(ttft.percentiles.p50, Some(case.time("/ttft_measure/p50")));
    assert_eq!(ttft.percentiles.p99, Some(case.time("/ttft_measure/p99")));
    // The window begins with the first measured request.
    let window = &case.summary.run.window;
    assert_eq!(window.start_ns, case.time("/first_measured_send_ms"));
    let all = judged("L019", |load| {
        load.stop.warmup = Warmup::None;
        load.stop.duration_ns = load.stop.duration_ns.map(|ns| ns + window.start_ns);
    });
    let ttft = &all.summary.latency.ttft;
    assert_eq!(ttft.percentiles.p50, Some(all.time("/ttft_all/p50/nearest_rank")));
    assert_eq!(ttft.percentiles.p95, Some(all.time("/ttft_all/p95/nearest_rank")));
}
