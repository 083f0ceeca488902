//! Servers that fail: what is said of it, and that the run always ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokclock_engine::record::{ErrorClass, Outcome};
use tokclock_engine::workload::{Limits, Workload};
use tokclock_tests::{
    MS, Ran, STREAM_HEAD, carry_out, closed, odd_server, open_answer, read_request, requests,
    set_lengths, short_answer, token, workload,
};

/// Runs against a server that answers every request on every connection with `answer`, then closes
/// or waits for the next.
fn against(answer: &str, close: bool, change: impl FnOnce(&mut Workload)) -> Ran {
    let answer = answer.to_owned();
    // One connection more than requests: the first is the warm-up's.
    let (address, server) = odd_server(5, move |mut stream| {
        while read_request(&mut stream).is_some() {
            let _ = stream.write_all(answer.as_bytes());
            if close {
                return;
            }
        }
    });
    let mut load = workload(address, closed(1), requests(4));
    change(&mut load);
    let ran = carry_out(&load);
    // Servers that keep connections saw fewer of them: let theirs go.
    for _ in 0..5 {
        let _ = TcpStream::connect(address);
    }
    server.join().unwrap();
    ran
}

fn all_failed_as(ran: &Ran, class: ErrorClass) {
    assert_eq!(ran.rows.len(), 4);
    for row in &ran.rows {
        assert_eq!((row.outcome, row.error), (Outcome::Error, Some(class)), "{row:?}");
    }
}

#[test]
fn a_server_error_keeps_status_and_message() {
    let ran = against(
        "HTTP/1.1 503 Busy\r\nContent-Length: 31\r\n\r\n{\"error\":{\"message\":\"no room\"}}",
        false,
        |_| {},
    );
    all_failed_as(&ran, ErrorClass::HttpStatus);
    assert_eq!(ran.rows[0].status, Some(503));
    assert_eq!(ran.rows[0].error_text.as_deref(), Some("no room"));
    assert!(ran.rows[1].reused, "a refusal does not cost the connection");
}

#[test]
fn a_connection_closed_without_a_byte_is_named_so() {
    let ran = against("", true, |_| {});
    all_failed_as(&ran, ErrorClass::ConnClosedEarly);
}

#[test]
fn what_is_no_http_is_bad_framing() {
    let ran = against("SSH-2.0-OpenSSH_9.2p1\r\n\r\n", true, |_| {});
    all_failed_as(&ran, ErrorClass::BadFraming);
}

#[test]
fn a_body_cut_inside_a_chunk_is_truncated() {
    let ran = against(&(STREAM_HEAD.to_owned() + "ff\r\ndata: {"), true, |_| {});
    all_failed_as(&ran, ErrorClass::BodyTruncated);
}

#[test]
fn nobody_listens_there() {
    let (address, server) = odd_server(0, |_| {});
    server.join().unwrap();
    // Long enough that a tick falls into a time in which every user rests.
    let ran = carry_out(&workload(address, closed(1), requests(12)));
    assert_eq!(ran.rows.len(), 12);
    assert!(ran.rows.iter().all(|row| row.error == Some(ErrorClass::ConnectRefused)));
}

#[test]
fn each_timeout_has_its_class() {
    let first = STREAM_HEAD.to_owned() + &token("a");
    let short = Some(60 * MS);
    let cases: [(&str, Limits, ErrorClass); 4] = [
        ("", Limits { first_byte_ns: short, ..Limits::default() }, ErrorClass::TimeoutFirstByte),
        (
            STREAM_HEAD,
            Limits { first_token_ns: short, ..Limits::default() },
            ErrorClass::TimeoutFirstToken,
        ),
        (&first, Limits { idle_ns: short, ..Limits::default() }, ErrorClass::TimeoutIdle),
        (&first, Limits { request_ns: short, ..Limits::default() }, ErrorClass::TimeoutRequest),
    ];
    for (answer, limits, class) in cases {
        let ran = against(answer, false, |load| load.limits = limits);
        all_failed_as(&ran, class);
        let partial = ran.rows[0].first_token.is_some();
        assert_eq!(partial, answer == first, "partial timings are kept");
    }
}

#[test]
fn a_server_that_closes_after_every_answer_costs_no_request() {
    // It advertises keep-alive and closes all the same, a moment later.
    let ran = against(&short_answer(), true, |_| {});
    assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Ok), "{:?}", ran.rows);
}

#[test]
fn an_idle_connection_that_died_is_replaced_without_a_failure() {
    // The first connection answers once and then resets whatever comes; all others are well.
    let count = AtomicUsize::new(0);
    let (address, server) = odd_server(8, move |mut stream| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        while read_request(&mut stream).is_some() {
            let _ = stream.write_all(short_answer().as_bytes());
            if number == 1 {
                // Read the next request and close without a word.
                let _ = read_request(&mut stream);
                return;
            }
        }
    });
    let ran = carry_out(&workload(address, closed(1), requests(6)));
    for _ in 0..8 {
        let _ = TcpStream::connect(address);
    }
    server.join().unwrap();
    assert_eq!(ran.rows.len(), 6);
    assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Ok), "{:?}", ran.rows);
    assert_eq!(ran.facts.tallies[0].stale_replaced, 1);
    assert_eq!(ran.rows.iter().filter(|row| row.attempts == 2).count(), 1);
}

#[test]
fn a_stream_that_never_closes_after_done_is_complete_at_done() {
    let ran = against(&open_answer(), false, |_| {});
    assert_eq!(ran.rows.len(), 4);
    for row in &ran.rows {
        assert_eq!(row.outcome, Outcome::Ok);
        assert!(!row.reused, "such a connection is not clean");
        assert!(
            row.done.unwrap()
                < row.write_start.unwrap() + Duration::from_millis(900).as_nanos() as u64
        );
    }
}

#[test]
fn a_request_larger_than_the_socket_takes_at_once_arrives_whole() {
    let (address, server) = odd_server(2, |mut stream| {
        // Slow to read at first, so that the sender meets a full socket.
        std::thread::sleep(Duration::from_millis(200));
        while let Some(request) = read_request(&mut stream) {
            if request.starts_with("POST") {
                assert!(request.len() > 6_000_000);
            }
            let _ = stream.write_all(short_answer().as_bytes());
        }
    });
    let mut load = workload(address, closed(1), requests(1));
    set_lengths(&mut load, 1_000_000, 8);
    let ran = carry_out(&load);
    let _ = TcpStream::connect(address);
    server.join().unwrap();
    assert_eq!(ran.rows[0].outcome, Outcome::Ok, "{:?}", ran.rows[0].error_text);
    let row = &ran.rows[0];
    assert!(row.write_done.unwrap() - row.write_start.unwrap() > 50 * MS);
}
