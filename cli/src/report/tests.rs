//! Reports of small runs: what must be on them, and that no line is too long.

use tokclock_engine::measure::{Facts, ServerReport, Summary, summarize};
use tokclock_engine::record::{
    ClassTally, ErrorClass, Outcome, Phase, Pooled, Row, Tally, TokenSource, WaitCause,
};
use tokclock_engine::run::{Way, locate};
use tokclock_engine::telemetry::host::Watched;
use tokclock_engine::workload::{
    Aim, Arrival, Class, Client, Content, Dialect, Endpoint, Goodput, Limit, Load, Metric,
    Objective, Objectives, Overflow, Percentile, Schedule, Stop, Target, Workload,
};

use super::console;
use super::text::columns;

const MS: u64 = 1_000_000;

fn server(url: &str) -> Endpoint {
    locate(url, Dialect::OpenaiChat, &Way::default()).unwrap().endpoint
}

pub(super) fn workload(load: Load) -> Workload {
    let objectives = Objectives {
        slo: vec![Objective {
            text: "p95(ttft)<500ms".into(),
            aim: Aim::Latency {
                percentile: Percentile::Quantile(0.95),
                metric: Metric::Ttft,
                limit_ns: 500 * MS,
            },
            inclusive: false,
        }],
        goodput: Some(Goodput { limits: vec![Limit { metric: Metric::Ttft, limit_ns: 150 * MS }] }),
        capped_is_miss: false,
    };
    let target = Target::chat(server("http://127.0.0.1:8000"), "tiny\x1b[2J");
    let content = Content::of_lengths(512, 3);
    let plain = Workload::plain(target, load, Stop::after(100), content, Client::on(vec![0]));
    Workload { objectives, seed: 7, ..plain }
}

pub(super) fn facts() -> Facts {
    let tally = Tally {
        cpu: 2,
        cpu_ns: 450 * MS,
        wall_ns: 1000 * MS,
        reads: 300,
        output_reads: 300,
        output_events: 300,
        window_output_tokens: 300,
        gap_samples: vec![vec![(20 * MS, 1), (20 * MS, 1)]; 50],
        gap_requests: 100,
        ..Tally::default()
    };
    let mut facts = Facts {
        start_monotonic_ns: 1,
        start_realtime_ns: 2,
        load_start: 0,
        start_late_ns: 0,
        window_start: 0,
        window_end: 12_000 * MS,
        window_by_requests: true,
        end: 12_000 * MS,
        interrupted: false,
        driver: "io_uring".into(),
        ring: "single_issuer defer_taskrun".into(),
        kernel_stamps: true,
        tallies: vec![tally],
        pooled: Pooled::default(),
        host: Watched { steal_share: Some(0.001), ..Watched::default() },
        resolve_ns: 0,
        ramp_ns: 0,
        steered: Default::default(),
        ceiling: None,
    };
    for histogram in [&mut facts.pooled.icl, &mut facts.pooled.itl] {
        histogram.record_n(20 * MS, 200).unwrap();
    }
    facts.pooled.lag.record_n(12_000, 300).unwrap();
    facts.pooled.lag_output.record_n(12_000, 300).unwrap();
    facts
}

/// Request `index`, meant for `index` tenths of a second, sent `wait` ms later.
pub(super) fn row(index: u64, wait: u64) -> Row {
    let start = index * 100 * MS;
    let at = |ms: u64| Some(start + (wait + ms) * MS + index * 1000);
    Row {
        index,
        request_id: format!("r{index}"),
        trace_id: None,
        phase: Phase::Measure,
        class: None,
        session: None,
        turn: None,
        shard: None,
        reactor: 0,
        connection: 0,
        reused: true,
        attempts: 1,
        retries: 0,
        retry_ns: 0,
        wait_cause: None,
        outcome: Outcome::Ok,
        error: None,
        error_text: None,
        malformed_events: 0,
        status: Some(200),
        finish: Some("stop".into()),
        intended: start,
        dispatched: Some(start + wait * MS),
        connected: None,
        tls_done: None,
        write_start: Some(start + wait * MS),
        write_done: Some(start + wait * MS + 20_000),
        first_byte: at(99),
        head_done: at(99),
        first_token: at(100),
        first_output: at(100),
        second_token: at(120),
        last_token: at(140),
        done: at(141),
        input_tokens: Some(512),
        client_input_tokens: Some(512),
        cached_tokens: None,
        ideal_cached_tokens: None,
        output_tokens: Some(3),
        output_source: Some(TokenSource::Usage),
        client_output_tokens: None,
        reasoning_tokens: None,
        first_tokens: Some(1),
        events: 3,
        bytes: 900,
        reads: 3,
        coalesced: 0,
        lag_max: 12_000,
        chunks: None,
        text: None,
        reasoning_text: None,
        retry_after: None,
        legs: None,
        kv_fallback: None,
        server: None,
    }
}

pub(super) fn failed(index: u64, class: ErrorClass, text: &str) -> Row {
    Row {
        outcome: Outcome::Error,
        error: Some(class),
        error_text: Some(text.into()),
        first_token: None,
        first_output: None,
        second_token: None,
        last_token: None,
        output_tokens: None,
        output_source: None,
        ..row(index, 0)
    }
}

/// A run of 60 requests, 10 of which failed with a text that means harm.
pub(super) fn troubled() -> Summary {
    let text = "bad|gateway `x`\x1b[2J\0\n<script>@team #1 *b*";
    let bad = (50..60).map(|index| failed(index, ErrorClass::ConnReset, text));
    let mut facts = facts();
    facts.tallies[0].offered = 60;
    summarize(&workload(closed()), &facts, (0..50).map(|index| row(index, 0)).chain(bad))
}

pub(super) fn closed() -> Load {
    Load::Closed { users: 8, ramp_ns: 0 }
}

pub(super) fn open() -> Load {
    Load::Open {
        schedule: Schedule::Rate { rate: 10.0, arrival: Arrival::Poisson },
        max_in_flight: Some(4),
        overflow: Overflow::Drop,
    }
}

/// The report at every width, each checked for its longest line; the widest is returned.
fn report(summary: &Summary) -> String {
    for width in [0, 60, 80, 100, 200] {
        let report = console(summary, width, false);
        let limit = width.clamp(40, 100);
        for line in report.lines() {
            assert!(columns(line) <= limit, "{width}: {line}");
        }
        assert!(!report.contains('\x1b'), "no escape without colour, wherever it came from");
    }
    console(summary, 100, false)
}

fn has(report: &str, wanted: &[&str]) {
    // Breaking lines must not decide whether a phrase is found.
    let joined = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for phrase in wanted {
        assert!(joined.contains(phrase), "no {phrase:?} in\n{report}");
    }
}

#[test]
fn a_good_run_shows_its_workload_its_verdicts_and_its_latencies() {
    let summary = summarize(&workload(closed()), &facts(), (0..100).map(|i| row(i, 0)));
    let report = report(&summary);
    has(
        &report,
        &[
            "run closed loop of 8 users, 512 tokens in and 3 out",
            "http://127.0.0.1:8000/ (openai-chat, model tiny\\u{1b}[2J)",
            "window 12.00 s, to the last completion; seed 7",
            "100 ok of 100 offered",
            "no failures",
            "client valid",
            "pass p95(ttft)<500ms: 100.1 ms, margin 79.98 %",
            "100 good, 100.0 % of 100 requests: ttft <= 150.0 ms by 100.0 %",
            "TTFT ms",
            "ITL ms 200 20.00 20.00 ±0.0%",
            "± is the farther end of the 95 % interval",
            "TPOT ms 100 20.00 20.00 ±0.0% 20.00 20.00 ±0.0% ~20.00",
            "~ the sample is too small for both ends",
            "prefill wait ms 100 1.000",
            "8.333 requests/s",
            "25.00 output tokens/s",
            "per user 50.00 tokens/s",
            "51,200 input, 300 output (by usage)",
            "driver io_uring (single_issuer defer_taskrun), kernel stamps",
            "p50 12.00 µs",
            "none: a closed loop has no schedule",
            "busy reactor 0 on CPU 2 45.00 %",
        ],
    );
    assert!(!report.contains("service"), "nothing differs from the origin's figures");
    assert!(!report.contains("TTFO"), "no reasoning");
}

#[test]
fn failures_are_on_the_first_screen_by_class_and_their_text_is_harmless() {
    let mut rows: Vec<Row> = (0..8).map(|i| row(i, 0)).collect();
    rows.push(failed(8, ErrorClass::HttpStatus, "overloaded\r\n\x1b]0;owned\x07"));
    rows.push(failed(9, ErrorClass::ConnReset, "reset by peer"));
    let summary = summarize(&workload(closed()), &facts(), rows);
    let report = report(&summary);
    has(
        &report,
        &[
            "failures 2 (20.00 %): 1 conn_reset, 1 http_status",
            "http_status: overloaded\\r\\n\\u{1b}]0;owned\\u{7}",
            "FAIL p95(ttft)<500ms: at least 100.0 ms: it lies among requests that did not end well",
            "80.00 % of 10 requests",
            "~",
        ],
    );
    let first_screen: Vec<&str> = report.lines().take(24).collect();
    assert!(first_screen.join("\n").contains("conn_reset"));
}

#[test]
fn a_run_in_which_nothing_completed_says_so() {
    let rows = (0..3).map(|i| failed(i, ErrorClass::ConnectRefused, "connection refused"));
    let mut facts = facts();
    (facts.tallies, facts.pooled) = (Vec::new(), Pooled::default());
    let report = report(&summarize(&workload(closed()), &facts, rows));
    has(
        &report,
        &[
            "0 ok of 3 offered",
            "failures 3 (100.0 %): 3 connect_refused",
            "nothing completed, so there is no latency to show",
            "lag p50 -, p99 -",
        ],
    );
    assert!(!report.contains("TTFT"));
    assert!(!report.contains("NaN"));
}

#[test]
fn an_open_loop_shows_slip_drops_and_the_service_apart() {
    let mut facts = facts();
    facts.tallies[0].offered = 120;
    facts.tallies[0].dropped = 20;
    let rows = (0..100).map(|i| {
        let mut row = row(i, 30 * (i % 3));
        row.wait_cause = (i % 3 > 0).then_some(WaitCause::Reactor);
        row
    });
    let report = report(&summarize(&workload(open()), &facts, rows));
    has(
        &report,
        &[
            "open loop of 10.00 requests/s, poisson arrivals, at most 4 in flight, others dropped",
            "100 ok of 120 offered, 20 dropped by the cap",
            "client INVALID",
            "66.00 % of the requests were written more than 10.000 ms late",
            "To do: add reactors or CPUs, or lower the rate.",
            "TTFT service ms",
            "slip p50 30.00 ms, p99 60.00 ms; 66 late by more than 10.00 ms",
            "offered 12.02 requests/s (83.",
        ],
    );
}

#[test]
fn colour_is_used_only_where_it_is_allowed() {
    let mut workload = workload(closed());
    workload.target.model = "tiny".into();
    let summary = summarize(&workload, &facts(), (0..100).map(|i| row(i, 0)));
    let coloured = console(&summary, 100, true);
    assert!(coloured.contains("\x1b[1;32mvalid\x1b[0m"));
    let plain = coloured.replace("\x1b[1;32m", "").replace("\x1b[0m", "");
    assert_eq!(plain, console(&summary, 100, false));
}

#[test]
fn what_pins_a_run_is_on_the_first_screen_and_harmless() {
    let mut summary = summarize(&workload(closed()), &facts(), [row(0, 20)]);
    summary.labels = [("gpu".to_owned(), "h\x1b200".to_owned())].into();
    summary.workload.hash = Some(format!("sha256:{}", "0a".repeat(32)));
    let mut told = ServerReport { kind: Some("vllm".into()), ..ServerReport::default() };
    told.version = Some("0.11\x1b[2J".into());
    told.model.insert("max_model_len".into(), 4096.into());
    summary.target.server = Some(told);
    let report = report(&summary);
    has(
        &report,
        &["labels gpu=h", "workload 0a0a0a0a0a0a,", "server vllm 0.11", "context of 4096"],
    );
}

#[test]
fn a_target_without_a_model_names_none() {
    let mut asked = workload(closed());
    asked.target.model.clear();
    let summary = summarize(&asked, &facts(), (0..100).map(|i| row(i, 0)));
    has(&report(&summary), &["http://127.0.0.1:8000/ (openai-chat)"]);
}

/// Two classes, of which one talks in turns, at a rate that changes.
fn in_parts() -> Summary {
    let mut asked = workload(Load::Open {
        schedule: Schedule::Series {
            series: "5@6s,5..20@6s".parse().unwrap(),
            arrival: Arrival::Constant,
        },
        max_in_flight: None,
        overflow: Overflow::Wait,
    });
    let class =
        |name: &str, weight| Class { name: Some(name.to_owned()), weight, ..asked.mix[0].clone() };
    let mix = vec![class("chat\x1b[2J with a very long name of its own", 3.0), class("b", 1.0)];
    asked.mix = mix;
    let mut facts = facts();
    facts.tallies[0].classes = vec![ClassTally::default(), ClassTally::default()];
    (facts.tallies[0].sessions_done, facts.tallies[0].turns_unsent) = (30, 7);
    let rows = (0..100).map(|index| Row {
        class: asked.mix[(index % 4 / 3) as usize].name.clone(),
        session: Some(index / 2),
        turn: Some((index % 2) as u32),
        cached_tokens: Some(128),
        ideal_cached_tokens: Some(256),
        ..row(index, 0)
    });
    summarize(&asked, &facts, rows)
}

#[test]
fn classes_turns_and_pieces_of_the_rate_have_tables_of_their_own() {
    let report = report(&in_parts());
    has(
        &report,
        &[
            "2 classes: 75.00 % chat\\u{1b}[2J with a very long name of its own, 25.00 % b",
            "conversations/s",
            "sessions 50 begun in the window, 30 carried out to their end, 7 turns not sent",
            "turn requests failed",
            "1 50 0",
            "stage rate offered",
            "5.000 to 20.00",
            "cache a perfect one would know 50.00 % of the input, answers report 25.00 %",
        ],
    );
}
