//! Exchanges on a simulated clock: what arrives when is known, so marks are asserted exactly.

use tokclock_parser::answer::{Answer, Limits, Settings};
use tokclock_parser::dialect::Dialect;

use super::*;
use crate::clock::SimClock;
use crate::record::{ErrorClass, Outcome};

const MS: u64 = 1_000_000;
const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const FINISH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;

/// One request whose answer comes as told.
struct Rig {
    clock: SimClock,
    answer: Answer,
    exchange: Exchange,
}

impl Rig {
    fn new(stream: bool) -> Self {
        let settings = Settings { dialect: Dialect::OpenaiChat, stream, limits: Limits::default() };
        let mut exchange = Exchange::new(Settled::new(0, 0), stream, true);
        exchange.begin(7, 0, 16);
        exchange.settled.marks.dispatched = 0;
        exchange.settled.marks.write_start = 0;
        Self { clock: SimClock::default(), answer: Answer::new(settings), exchange }
    }

    /// Bytes arrive at `ms`; the reactor sees them `lag` later.
    fn read(&mut self, ms: u64, bytes: &str) -> (Progress, ReadCount) {
        let arrival = self.clock.advance_to(ms * MS);
        let at = Arrived { arrival, observed: arrival + 5_000 };
        self.exchange.on_read(&mut self.answer, bytes.as_bytes(), at)
    }

    fn eof(&mut self, ms: u64) -> Ending {
        let arrival = self.clock.advance_to(ms * MS);
        self.exchange.on_eof(&mut self.answer, Arrived { arrival, observed: arrival })
    }

    fn settle(&mut self, ending: &Ending) -> (Outcome, Option<ErrorClass>) {
        self.exchange.settle(&self.answer, ending, None);
        (self.exchange.settled.outcome, self.exchange.settled.error)
    }
}

fn chunk(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn token(text: &str) -> String {
    chunk(&format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#))
}

fn end() -> String {
    chunk("[DONE]") + "0\r\n\r\n"
}

#[test]
fn a_role_is_no_token_and_the_tail_moves_nothing() {
    let mut rig = Rig::new(true);
    assert_eq!(rig.read(5, HEAD).0, Progress::Open);
    assert_eq!(rig.read(20, &chunk(ROLE)), (Progress::Open, ReadCount::default()));
    assert_eq!(rig.read(60, &token("a")).1, ReadCount { outputs: 1, coalesced: 0 });
    rig.read(100, &token("b"));
    rig.read(140, &token("c"));
    rig.read(200, &(chunk(FINISH) + &chunk(USAGE)));
    let (progress, _) = rig.read(300, &end());
    assert_eq!(progress, Progress::Ended { clean: true });
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Ok, None));
    let settled = &rig.exchange.settled;
    let marks = settled.marks;
    assert_eq!((marks.first_byte, marks.head_done), (5 * MS, 5 * MS));
    assert_eq!((marks.first_token, marks.second_token), (60 * MS, 100 * MS));
    assert_eq!((marks.last_token, marks.done), (140 * MS, 300 * MS));
    assert_eq!((settled.output_tokens, settled.output_source), (Some(3), Some(TokenSource::Usage)));
    assert_eq!(settled.usage.and_then(|usage| usage.input_tokens), Some(9));
    assert_eq!((settled.coalesced, settled.events, settled.lag_max), (0, 3, 5_000));
    assert_eq!(settled.text, b"abc");
    let gaps: u64 = settled.chunks.windows(2).map(|pair| pair[1].arrival - pair[0].arrival).sum();
    let e2e = marks.last_token - marks.dispatched;
    assert_eq!(e2e, (marks.first_token - marks.dispatched) + gaps, "E2E = TTFT + sum of gaps");
}

#[test]
fn events_that_share_a_read_are_coalesced_and_so_is_one_before_the_tail() {
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    let (_, two) = rig.read(10, &(token("a") + &token("b")));
    assert_eq!(two, ReadCount { outputs: 2, coalesced: 2 });
    assert!(rig.exchange.last_coalesced());
    let (_, one) = rig.read(20, &token("c"));
    assert_eq!(one, ReadCount { outputs: 1, coalesced: 0 });
    let (_, last) = rig.read(30, &(token("d") + &chunk(FINISH)));
    assert_eq!(last, ReadCount { outputs: 1, coalesced: 1 });
    assert!(rig.exchange.last_coalesced());
    assert_eq!(rig.exchange.settled.coalesced, 3);
}

#[test]
fn an_interim_head_is_no_first_byte() {
    let mut rig = Rig::new(true);
    rig.read(5, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(rig.exchange.settled.marks.first_byte, NONE);
    rig.read(20, HEAD);
    assert_eq!(rig.exchange.settled.marks.first_byte, 20 * MS);
}

#[test]
fn an_error_inside_a_stream_is_no_success_whatever_follows() {
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(10, &token("a"));
    rig.read(20, &chunk(r#"{"error":{"message":"worker lost","code":500}}"#));
    rig.read(30, &end());
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Error, Some(ErrorClass::ServerErrorEvent)));
    let text = rig.exchange.settled.error_text.as_deref();
    assert_eq!(text, Some("worker lost (code 500)"));
}

#[test]
fn a_status_beyond_2xx_keeps_its_message() {
    for (status, class) in [
        (429, ErrorClass::RateLimited),
        (307, ErrorClass::Redirect),
        (404, ErrorClass::HttpStatus),
        (503, ErrorClass::HttpStatus),
    ] {
        let mut rig = Rig::new(true);
        let body = r#"{"error":{"message":"no such model"}}"#;
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let (progress, _) = rig.read(3, &(head + body));
        assert_eq!(progress, Progress::Ended { clean: true }, "{status}");
        assert_eq!(rig.settle(&Ending::Complete), (Outcome::Error, Some(class)));
        assert_eq!(rig.exchange.settled.error_text.as_deref(), Some("no such model"));
    }
}

#[test]
fn a_redirect_says_where_it_leads() {
    let mut rig = Rig::new(true);
    rig.read(3, "HTTP/1.1 307 X\r\nLocation: /v2/chat\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Error, Some(ErrorClass::Redirect)));
    assert_eq!(rig.exchange.settled.error_text.as_deref(), Some("/v2/chat"));
}

#[test]
fn a_stream_without_terminator_or_finish_reason_is_truncated() {
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(10, &token("a"));
    rig.read(20, "0\r\n\r\n");
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Error, Some(ErrorClass::StreamTruncated)));
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(10, &(token("a") + &chunk(FINISH) + "0\r\n\r\n"));
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Ok, None), "a finish reason is enough");
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(10, &(token("a") + &chunk("[DONE]") + "0\r\n\r\n"));
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Ok, None), "so is the terminator");
}

#[test]
fn an_empty_stream_is_named_so_with_or_without_done() {
    for body in ["0\r\n\r\n".to_owned(), end()] {
        let mut rig = Rig::new(true);
        rig.read(0, HEAD);
        rig.read(50, &body);
        assert_eq!(rig.settle(&Ending::Complete), (Outcome::Error, Some(ErrorClass::EmptyStream)));
        assert_eq!(rig.exchange.settled.marks.first_token, NONE);
    }
}

#[test]
fn zero_tokens_with_a_finish_reason_are_a_success_without_ttft() {
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(20, &(chunk(ROLE) + &chunk(FINISH) + &end()));
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Ok, None));
    assert_eq!(rig.exchange.settled.marks.first_token, NONE);
    assert_eq!(rig.exchange.settled.output_tokens, None);
}

#[test]
fn a_connection_that_ends_early_says_where() {
    let mut rig = Rig::new(true);
    let ending = rig.eof(10);
    assert_eq!(rig.settle(&ending), (Outcome::Error, Some(ErrorClass::ConnClosedEarly)));

    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(5, &(token("a") + "ff\r\ndata: {"));
    let ending = rig.eof(10);
    assert_eq!(rig.settle(&ending), (Outcome::Error, Some(ErrorClass::BodyTruncated)));
    assert_eq!(rig.exchange.settled.marks.first_token, 5 * MS, "partial timings are kept");

    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(5, &(token("a") + &chunk("[DONE]")));
    let ending = rig.eof(10);
    assert_eq!(rig.settle(&ending), (Outcome::Ok, None), "[DONE] was seen");
}

#[test]
fn what_we_end_is_cancelled_and_what_times_out_has_failed() {
    for (class, outcome) in [
        (ErrorClass::Deadline, Outcome::Cancelled),
        (ErrorClass::Interrupt, Outcome::Cancelled),
        (ErrorClass::TimeoutIdle, Outcome::Error),
    ] {
        let mut rig = Rig::new(true);
        rig.read(0, HEAD);
        rig.read(5, &token("a"));
        assert_eq!(rig.settle(&Ending::Ours(class)), (outcome, Some(class)));
    }
}

#[test]
fn reasoning_is_a_token_but_no_first_output() {
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(60, &chunk(r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#));
    rig.read(90, &chunk(r#"{"choices":[{"delta":{"reasoning":"so"}}]}"#));
    rig.read(200, &token("Yes"));
    let marks = rig.exchange.settled.marks;
    assert_eq!((marks.first_token, marks.first_output), (60 * MS, 200 * MS));
    assert_eq!(rig.exchange.settled.reasoning, b"hmso");
}

#[test]
fn running_usage_tells_the_tokens_of_each_event() {
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    for (ms, text, total) in [(100, "a", 1), (160, "b c d", 4), (200, "e f", 6)] {
        rig.read(
            ms,
            &chunk(&format!(
                r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}],"usage":{{"prompt_tokens":2,"completion_tokens":{total}}}}}"#
            )),
        );
    }
    rig.read(210, &(chunk(FINISH) + &end()));
    rig.settle(&Ending::Complete);
    let tokens: Vec<u32> = rig.exchange.settled.chunks.iter().map(|chunk| chunk.tokens).collect();
    assert_eq!(tokens, [1, 3, 2]);
    assert_eq!(rig.exchange.settled.output_tokens, Some(6));
}

#[test]
fn a_document_has_an_end_and_no_first_token() {
    let mut rig = Rig::new(false);
    let body = r#"{"choices":[{"message":{"content":"hi there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":2}}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    rig.read(3, &head);
    let (progress, _) = rig.read(40, body);
    assert_eq!(progress, Progress::Ended { clean: true });
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Ok, None));
    let settled = &rig.exchange.settled;
    assert_eq!((settled.marks.first_token, settled.marks.done), (NONE, 40 * MS));
    assert_eq!((settled.output_tokens, settled.text.as_slice()), (Some(2), &b"hi there"[..]));
}

#[test]
fn a_document_in_place_of_a_stream_is_not_streaming() {
    let mut rig = Rig::new(true);
    let body = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    rig.read(
        3,
        &format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Error, Some(ErrorClass::NotStreaming)));
}

#[test]
fn bytes_after_the_end_make_a_connection_unfit_for_reuse() {
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    let (progress, _) = rig.read(10, &(token("a") + &end() + "HTTP/1.1 200"));
    assert_eq!(progress, Progress::Ended { clean: false });
}

#[test]
fn a_place_is_used_again_without_a_trace_of_the_request_before() {
    let mut rig = Rig::new(true);
    rig.read(0, HEAD);
    rig.read(10, &(token("a") + &chunk(FINISH) + &end()));
    rig.answer.reset();
    rig.exchange.begin(8, 50 * MS, 16);
    assert_eq!(rig.exchange.settled.marks, crate::record::Marks::new(50 * MS));
    assert!(!rig.exchange.is_done() && rig.exchange.settled.chunks.is_empty());
    rig.read(60, HEAD);
    rig.read(70, &(token("b") + &chunk(FINISH) + &end()));
    assert_eq!(rig.settle(&Ending::Complete), (Outcome::Ok, None));
    assert_eq!(rig.exchange.settled.text, b"b");
}
