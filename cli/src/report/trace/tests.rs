//! Pages of requests made by hand: what must be on them, and that no line is too long.

use tokclock_engine::measure::trace::{Tracer, Wanted};
use tokclock_engine::measure::views::Scene;
use tokclock_engine::measure::{Summary, summarize};
use tokclock_engine::record::{Arm, ErrorClass, Leg, Row};

use super::super::tests::{closed, facts, failed, row, workload};
use super::super::text::columns;
use super::*;

const MS: u64 = 1_000_000;

/// Request `index` with its events: at 100 and 120 ms, and then after 140.
fn streamed(index: u64, later_ms: &[u64]) -> Row {
    let plain = row(index, 0);
    let start = plain.intended;
    let later = later_ms.iter().map(|ms| start + ms * MS);
    let chunks: Vec<(u64, u32)> =
        [start + 100 * MS, start + 120 * MS].into_iter().chain(later).map(|at| (at, 1)).collect();
    let last = chunks.last().map(|(at, _)| *at);
    Row {
        first_token: Some(start + 100 * MS),
        second_token: Some(start + 120 * MS),
        last_token: last,
        done: last.map(|at| at + MS),
        events: chunks.len() as u32,
        chunks: Some(chunks),
        trace_id: Some(format!("{index:032x}")),
        ..plain
    }
}

/// The page at every width, each checked for its longest line; the widest is returned.
fn page_of(rows: &[Row], wanted: Wanted) -> String {
    let summary: Summary = summarize(&workload(closed()), &facts(), rows.iter().cloned());
    let mut tracer = Tracer::new(Scene::of(&summary), wanted);
    rows.iter().cloned().for_each(|row| tracer.add(row));
    let traces = tracer.finish();
    for width in [1, 40, 60, 80, 200] {
        let page = trace_page(&summary, &traces, width, false);
        let most = width.clamp(40, 80);
        let long = page.lines().find(|line| columns(line) > most);
        assert_eq!(long, None, "at {width}");
        assert!(!page.contains('\x1b') && !page.contains("NaN") && !page.contains("inf"), "{page}");
        let drawn = page.lines().filter(|line| line.contains(" |") && line.ends_with('|'));
        assert!(drawn.into_iter().all(str::is_ascii) || page.contains('µ'), "{page}");
    }
    trace_page(&summary, &traces, 200, false)
}

const ALL: Wanted = Wanted { slowest: 5, outliers: 10 };

#[test]
fn a_page_draws_requests_and_tells_phases_gaps_and_outliers() {
    let page = page_of(&[streamed(0, &[130, 140, 150]), streamed(1, &[130, 140, 240])], ALL);
    for words in [
        "2 of 2 requests",
        "#1          E2E 240.0 ms, TTFT 100.0 ms, TTST 20.00 ms, client lag 12.00 µs",
        "512 tokens in, 3 out, connection 0 (reused)",
        "trace 00000000000000000000000000000001",
        "first token",
        "second token  20.00 ms |",
        "1 -> 2 (TTST)",
        "from 2 on",
        "100.0 ms",
        "5 of 5",
        "the tail comes after",
    ] {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
    let slow = page.find("#1 ").unwrap();
    assert!(slow < page.find("#0 ").unwrap(), "the slowest first: {page}");
    let decode = page.lines().find(|line| line.starts_with("  decode")).unwrap();
    assert!(
        decode.contains("....") && decode.trim_end().ends_with("#|"),
        "the stall shows: {decode}"
    );
}

#[test]
fn a_second_token_that_stands_out_is_told() {
    let page = page_of(&[streamed(0, &[124, 128, 132])], ALL);
    assert!(page.contains("the second token takes 5.0") || page.contains("takes 4.99"), "{page}");
    let even = page_of(&[streamed(0, &[140, 160])], ALL);
    assert!(!even.contains("the second token takes"), "{even}");
}

#[test]
fn nothing_completed_is_said_in_words() {
    let page = page_of(&[failed(0, ErrorClass::ConnReset, "reset\x1b[2J by peer")], ALL);
    assert!(page.contains("no phase to show") && page.contains("there is no gap"), "{page}");
    assert!(page.contains("conn_reset reset\\u{1b}[2J by peer"), "{page}");
    let none = page_of(&[], ALL);
    assert!(none.contains("none is drawn"), "{none}");
    let hidden = page_of(&[streamed(0, &[130])], Wanted { slowest: 0, outliers: 0 });
    assert!(hidden.contains("none is drawn") && !hidden.contains("largest"), "{hidden}");
}

/// A request of two legs: prefill until `prefill_done`, decode from `decode_start` ms on.
fn legged(prefill_done: u64, decode_start: u64) -> Row {
    let leg = |port: u64, start: u64, done: u64| Leg {
        url: format!("http://127.0.0.1:{port}"),
        write_start: Some(start * MS),
        done: Some(done * MS),
        ..Leg::default()
    };
    let legs = Legs {
        arm: Arm::Direct,
        handoff_bytes: Some(321),
        prefill: Some(leg(8100, 1, prefill_done)),
        decode: Some(leg(8200, decode_start, 150)),
        baseline: None,
    };
    Row { legs: Some(Box::new(legs)), ..streamed(0, &[130, 140]) }
}

#[test]
fn legs_are_drawn_one_after_the_other_with_their_servers() {
    let fallback = Row { kv_fallback: Some(KvFallback::NoParams), ..legged(60, 61) };
    let page = page_of(&[fallback], ALL);
    for words in [
        "prefill http://127.0.0.1:8100, decode http://127.0.0.1:8200",
        "321 bytes",
        "prefill leg   59.00 ms |",
        "client gap    1.000 ms |",
        "decode first  39.00 ms |",
        "KV fallback:",
    ] {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
    assert!(!page.contains("decode leg"), "{page}");
}

#[test]
fn legs_at_once_are_two_bars_on_one_axis() {
    let page = page_of(&[legged(90, 2)], ALL);
    let bar = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(&format!("  {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).to_owned()
    };
    let (prefill, decode) = (bar("prefill leg"), bar("decode leg"));
    let begin = |line: &str| line.find('#').unwrap();
    assert!(begin(&prefill) <= begin(&decode) && begin(&decode) < prefill.rfind('#').unwrap());
    assert!(decode.rfind('#').unwrap() > prefill.rfind('#').unwrap(), "{page}");
    assert!(page.contains("beside other phases"), "{page}");
}
