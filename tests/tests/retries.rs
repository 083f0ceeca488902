//! Retries: which requests are tried again, how often, and where that shows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokclock_engine::measure::summarize;
use tokclock_engine::record::{ErrorClass, Outcome};
use tokclock_engine::workload::Retries;
use tokclock_tests::{
    MS, Ran, carry_out, closed, odd_server, read_request, requests, short_answer, workload,
};

fn all_ok(ran: &Ran) {
    for row in &ran.rows {
        assert_eq!((row.outcome, row.error), (Outcome::Ok, None), "{row:?}");
    }
}

/// A server that refuses the first `refusals` requests of each id, and counts all of them.
fn refusing(
    connections: usize,
    refusals: usize,
    head: &'static str,
) -> (SocketAddr, std::thread::JoinHandle<()>, Arc<AtomicUsize>) {
    let posts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&posts);
    let asked = Mutex::new(BTreeMap::<String, usize>::new());
    let (address, server) = odd_server(connections, move |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            if !request.starts_with("POST") {
                return;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            let id = request.lines().find(|line| line.starts_with("X-Request-Id")).unwrap();
            let before = {
                let mut asked = asked.lock().unwrap();
                let times = asked.entry(id.to_owned()).or_default();
                *times += 1;
                *times - 1
            };
            let answer = short_answer();
            let _ = stream.write_all(if before < refusals { head } else { &answer }.as_bytes());
        }
    });
    (address, server, posts)
}

const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";

#[test]
fn retries_are_bounded_and_counted() {
    for (retries, posts_of_each) in [(3, 4), (0, 1)] {
        let (address, server, posts) = refusing(2, usize::MAX, BUSY);
        let mut load = workload(address, closed(1), requests(5));
        load.client.retries = Retries { max: retries, backoff_ns: 2 * MS };
        let ran = carry_out(&load);
        server.join().unwrap();
        assert_eq!(posts.load(Ordering::SeqCst), 5 * posts_of_each);
        assert_eq!(ran.rows.len(), 5);
        for row in &ran.rows {
            assert_eq!((row.error, row.status), (Some(ErrorClass::RateLimited), Some(429)));
            assert_eq!((row.attempts as usize, row.retries), (posts_of_each, retries));
            // 2, 4 and 8 ms of pauses.
            assert!(row.retry_ns >= if retries > 0 { 14 * MS } else { 0 }, "{row:?}");
        }
        let summary = summarize(&load, &ran.facts, ran.rows);
        assert_eq!(summary.requests.failed, 5);
        assert_eq!(summary.requests.retried, if retries > 0 { 5 } else { 0 });
        assert_eq!(summary.requests.retries, u64::from(5 * retries));
    }
}

#[test]
fn what_a_retry_cost_is_in_the_latency_and_in_no_service_latency() {
    let (address, server, _) = refusing(2, 1, BUSY);
    let mut load = workload(address, closed(1), requests(4));
    load.client.retries = Retries { max: 2, backoff_ns: 30 * MS };
    let ran = carry_out(&load);
    server.join().unwrap();
    all_ok(&ran);
    for row in &ran.rows {
        assert_eq!((row.attempts, row.retries), (2, 1));
        let (dispatched, written) = (row.dispatched.unwrap(), row.write_start.unwrap());
        assert!(row.retry_ns >= 30 * MS && written - dispatched >= row.retry_ns);
    }
    let summary = summarize(&load, &ran.facts, ran.rows);
    let (all, service) = (summary.latency.ttft.min.unwrap(), summary.latency.service.ttft);
    assert!(all >= 30 * MS, "{all}");
    assert!(service.max.unwrap() < all, "{service:?}");
    assert!(summary.requests.retry_ns >= 4 * 30 * MS);
}

#[test]
fn a_retry_after_longer_than_the_pause_is_kept() {
    let head = "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    let (address, server, _) = refusing(2, 1, head);
    let mut load = workload(address, closed(1), requests(1));
    load.client.retries = Retries { max: 1, backoff_ns: MS };
    let ran = carry_out(&load);
    server.join().unwrap();
    all_ok(&ran);
    assert!(ran.rows[0].retry_ns >= 1000 * MS, "{:?}", ran.rows[0]);
}

#[test]
fn a_request_that_waits_to_be_retried_at_the_end_failed_as_its_last_attempt() {
    let head = "HTTP/1.1 503 Busy\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n";
    let (address, server, _) = refusing(2, usize::MAX, head);
    let mut load = workload(address, closed(1), requests(2));
    load.client.retries = Retries { max: 5, backoff_ns: MS };
    load.stop.requests = None;
    load.stop.duration_ns = Some(100 * MS);
    load.stop.drain_ns = 50 * MS;
    let ran = carry_out(&load);
    server.join().unwrap();
    assert_eq!(ran.rows.len(), 1);
    assert_eq!((ran.rows[0].error, ran.rows[0].status), (Some(ErrorClass::HttpStatus), Some(503)));
}
